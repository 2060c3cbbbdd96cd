//! What the operator knows of an experiment's trials and pods: what its watches tell, and what it has done itself since. A watch may be
//! late; whoever went by it alone would create again what was just deleted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_api::TuningTrial;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::stores::slim_pod;
use super::trial::Trial;
use crate::watch::version;

/// A watch that has not told of a new pod after this is asked about no more: the API server is.
const LATE: Duration = Duration::from_secs(10);
/// After this a watch has told of everything: one that is silent is begun anew after five minutes. What it does not tell of then, somebody
/// has deleted.
const TOLD: Duration = Duration::from_mins(10);

/// Trials as the API server had them when they were written last, by name: that is newer than what the watch has told.
#[derive(Default)]
pub struct Trials(HashMap<String, (Instant, Arc<Trial>)>);

impl Trials {
    /// Remembers the API server's answer to a write.
    pub fn wrote(&mut self, trial: TuningTrial, now: Instant) -> Arc<Trial> {
        let trial = Arc::new(Trial::new(trial));
        self.0.insert(trial.name_any(), (now, Arc::clone(&trial)));
        trial
    }

    /// Forgets a trial of which the API server says that there is none. Its watch has taken it away already, or will.
    pub fn gone(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// A trial as it was written last, until the watch has told of that.
    pub fn written(&self, name: &str) -> Option<&Trial> {
        self.0.get(name).map(|(_, trial)| &**trial)
    }

    /// All trials by name, given those that the watch tells of: as they are there, or as they were written since.
    pub fn with(
        &mut self,
        watched: impl IntoIterator<Item = Arc<Trial>>,
        is_owned: impl Fn(&Trial) -> bool,
        now: Instant,
    ) -> BTreeMap<String, Arc<Trial>> {
        let mut trials: BTreeMap<_, _> = watched.into_iter().map(|trial| (trial.name_any(), trial)).collect();
        self.0.retain(|name, (written, trial)| {
            let is_told = now.saturating_duration_since(*written) > TOLD;
            let is_newer =
                is_owned(trial) && !is_told && trials.get(name).is_none_or(|seen| version(&**seen) < version(&**trial));
            if is_newer {
                trials.insert(name.clone(), Arc::clone(trial));
            }
            is_newer
        });
        trials
    }
}

/// The pods of trials and checks that there were, by name.
#[derive(Clone, Default)]
pub struct Pods(HashMap<String, Known>);

#[derive(Clone)]
struct Known {
    pod: Arc<Pod>,
    since: Instant,
    /// The watch has told of it.
    is_seen: bool,
    /// When it was written, where the watch has not told of that.
    written: Option<Instant>,
    /// It was deleted by us, so nobody needs to wonder where it is.
    is_dismissed: bool,
    /// It was refused: how many refusals its attempt has with this one.
    refusals: Option<u32>,
    /// When the API server said that it goes, or has gone.
    deleted: Option<Instant>,
}

impl Known {
    fn seen(pod: Arc<Pod>, now: Instant) -> Self {
        Self { pod, since: now, is_seen: true, written: None, is_dismissed: false, refusals: None, deleted: None }
    }

    fn written(pod: Arc<Pod>, now: Instant) -> Self {
        Self { is_seen: false, written: Some(now), ..Self::seen(pod, now) }
    }
}

/// The pods of an experiment.
#[derive(Default)]
pub struct Seen {
    /// Those that are there, or will be as soon as the watch tells.
    pub present: BTreeMap<String, Arc<Pod>>,
    /// Those that somebody else has removed, as they were last seen.
    pub vanished: BTreeMap<String, Arc<Pod>>,
    /// Those that the watch should have told of.
    pub doubtful: Vec<String>,
    /// Those that are present and were deleted by us.
    pub dismissed: BTreeSet<String>,
}

impl Pods {
    /// Remembers a pod that the watch has told of.
    pub fn saw(&mut self, pod: Arc<Pod>, now: Instant) {
        self.0.insert(pod.name_any(), Known::seen(pod, now));
    }

    /// Remembers a pod that was created, or that the API server says is there. What we have done with this very pod is not forgotten.
    pub fn created(&mut self, mut pod: Pod, now: Instant) -> Arc<Pod> {
        slim_pod(&mut pod);
        let pod = Arc::new(pod);
        let new = Known::written(Arc::clone(&pod), now);
        let known = match self.of(&pod) {
            Some(Known { is_dismissed, refusals, deleted, .. }) => {
                Known { is_dismissed: *is_dismissed, refusals: *refusals, deleted: *deleted, ..new }
            }
            None => new,
        };
        self.0.insert(pod.name_any(), known);
        pod
    }

    /// Remembers a pod as the API server had it when it was changed, or asked for. The one that was known may be there no more.
    pub fn changed(&mut self, mut pod: Pod, now: Instant) {
        slim_pod(&mut pod);
        let pod = Arc::new(pod);
        let known = self.0.entry(pod.name_any()).or_insert_with(|| Known::seen(Arc::clone(&pod), now));
        if known.pod.uid() != pod.uid() {
            *known = Known::written(pod, now);
        } else if version(&*known.pod) < version(&*pod) {
            (known.pod, known.written) = (pod, Some(now));
        }
    }

    /// Remembers that nobody needs this pod any more.
    pub fn dismissed(&mut self, pod: &Pod) {
        if let Some(known) = self.of(pod) {
            known.is_dismissed = true;
        }
    }

    /// Remembers how many refusals its attempt has once that of this pod is written down.
    pub fn refused(&mut self, pod: &Pod, refusals: u32) {
        if let Some(known) = self.of(pod) {
            known.refusals = Some(refusals);
        }
    }

    /// Whether the refusal of this pod is one of so many, though no answer may have said so.
    pub fn is_counted(&mut self, pod: &Pod, refusals: u32) -> bool {
        self.of(pod).and_then(|known| known.refusals).is_some_and(|counted| counted <= refusals)
    }

    /// Remembers that the API server was asked to delete this pod, and does.
    pub fn deleted(&mut self, pod: &Pod, now: Instant) {
        if let Some(known) = self.of(pod) {
            known.deleted = Some(now);
        }
    }

    /// Whether this pod was deleted a moment ago, so that the watch may be late to tell.
    pub fn is_deleted(&mut self, pod: &Pod, now: Instant) -> bool {
        let deleted = self.of(pod).and_then(|known| known.deleted);
        deleted.is_some_and(|at| now.saturating_duration_since(at) < LATE)
    }

    fn of(&mut self, pod: &Pod) -> Option<&mut Known> {
        self.0.get_mut(&pod.name_any()).filter(|known| known.pod.uid() == pod.uid())
    }

    /// For how long we have known of a pod.
    pub fn known_for(&self, pod: &Pod, now: Instant) -> Duration {
        self.0.get(&pod.name_any()).map_or(Duration::ZERO, |known| now.saturating_duration_since(known.since))
    }

    /// Pods that were just written, and as the watch has not told of them.
    pub fn unseen(&self, now: Instant) -> impl Iterator<Item = &Arc<Pod>> {
        let is_new = move |at: Instant| now.saturating_duration_since(at) < 3 * LATE;
        self.0.values().filter(move |known| known.written.is_some_and(is_new)).map(|known| &known.pod)
    }

    /// Forgets a pod that turned out not to be there.
    pub fn gone(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// All pods, given those that the watch tells of.
    pub fn with(&mut self, watched: impl IntoIterator<Item = Arc<Pod>>, now: Instant) -> Seen {
        let mut seen = Seen::default();
        for pod in watched {
            let entry = self.0.entry(pod.name_any()).or_insert_with(|| Known::seen(Arc::clone(&pod), now));
            if entry.pod.uid() == pod.uid() {
                entry.is_seen = true;
                if version(&*entry.pod) <= version(&*pod) {
                    (entry.pod, entry.written) = (Arc::clone(&pod), None);
                }
            } else if version(&*entry.pod) < version(&*pod) {
                *entry = Known::seen(Arc::clone(&pod), now);
            }
            // Else the watch still tells of the one before it.
            if entry.is_dismissed {
                seen.dismissed.insert(pod.name_any());
            }
            seen.present.insert(pod.name_any(), Arc::clone(&entry.pod));
        }
        self.0.retain(|name, known| {
            if seen.present.contains_key(name) {
                return true;
            }
            if known.is_seen {
                if !known.is_dismissed {
                    seen.vanished.insert(name.clone(), Arc::clone(&known.pod));
                }
                return !known.is_dismissed;
            }
            if known.is_dismissed {
                seen.dismissed.insert(name.clone());
            }
            seen.present.insert(name.clone(), Arc::clone(&known.pod));
            if now.saturating_duration_since(known.since) > LATE {
                seen.doubtful.push(name.clone());
            }
            true
        });
        seen.doubtful.sort_unstable();
        seen
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;

    fn trial(version: u32, refusals: u32) -> TuningTrial {
        let trial = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial",
            "metadata": {"name": "t", "namespace": "ns", "resourceVersion": version.to_string(), "ownerReferences": [
                {"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "name": "e", "uid": "u"}]},
            "spec": {"experiment": "e", "plan": "p", "scenario": "s", "block": 0, "config": "c", "replicate": 0,
                "order": 0, "seed": 0, "node": "n"},
            "status": {"refusals": refusals},
        });
        serde_json::from_value(trial).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn refusals(trials: &mut Trials, watched: Option<TuningTrial>) -> Option<u32> {
        let now = Manual::new().instant();
        let watched = watched.map(|trial| Arc::new(Trial::new(trial)));
        Some(trials.with(watched, |_| true, now).get("t")?.status.as_ref()?.refusals)
    }

    #[test]
    fn what_was_written_is_newer_than_what_is_watched() {
        let now = Manual::new().instant();
        let mut trials = Trials::default();
        assert_eq!(refusals(&mut trials, None), None);
        trials.wrote(trial(10, 1), now);
        assert!(trials.with(None, |_| false, now).is_empty(), "of another experiment");
        assert!(trials.written("t").is_none());
        trials.wrote(trial(10, 1), now);
        assert!(trials.written("t").is_some());
        assert_eq!(refusals(&mut trials, Some(trial(9, 0))), Some(1));
        assert_eq!(refusals(&mut trials, Some(trial(10, 1))), Some(1));
        assert_eq!(refusals(&mut trials, Some(trial(11, 2))), Some(2));
        for told in [10, 11] {
            trials.wrote(trial(10, 1), now);
            assert!(refusals(&mut trials, Some(trial(told, 2))).is_some());
            let gone = refusals(&mut trials, None);
            assert_eq!(gone, None, "what was written is not kept longer than it takes the watch to tell of {told}");
        }
        trials.wrote(trial(10, 1), now);
        trials.gone("t");
        assert_eq!(refusals(&mut trials, None), None, "the API server has none");
        assert_eq!(refusals(&mut trials, Some(trial(9, 0))), Some(0), "the watch may yet tell of it");
        // Deleted before anybody looked again: the watch never tells of it.
        trials.wrote(trial(10, 1), now);
        assert_eq!(trials.with(None, |_| true, now + TOLD).len(), 1);
        assert!(trials.with(None, |_| true, now + TOLD + Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn no_more_is_kept_of_an_answer_than_of_what_is_watched() {
        let now = Manual::new().instant();
        let whole = json!({
            "name": "o", "namespace": "ns", "uid": "1", "resourceVersion": "5", "annotations": {"assay.rocks/input": "long"},
            "managedFields": [{"manager": "assay", "operation": "Update"}],
        });
        let mut told = trial(5, 0);
        told.metadata = serde_json::from_value(whole.clone()).unwrap_or_else(|error| unreachable!("{error}"));
        let trial = Trials::default().wrote(told, now);
        let pod: Pod =
            serde_json::from_value(json!({"metadata": whole})).unwrap_or_else(|error| unreachable!("{error}"));
        let mut pods = Pods::default();
        pods.created(pod, now);
        let seen = pods.with([], now);
        for kept in [&trial.metadata, &seen.present["o"].metadata] {
            assert_eq!((&kept.annotations, &kept.managed_fields), (&None, &None));
            assert_eq!(kept.uid.as_deref(), Some("1"));
        }
    }

    fn pod(uid: &str) -> Pod {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid}});
        serde_json::from_value(pod).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn of_version(uid: &str, version: u32) -> Pod {
        let mut pod = pod(uid);
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    /// The uids of pods that are present, and of those that have vanished.
    fn state(pods: &mut Pods, watched: Option<&str>) -> (Vec<String>, Vec<String>) {
        let seen = pods.with(watched.map(|uid| Arc::new(pod(uid))), Manual::new().instant());
        let uids = |pods: &BTreeMap<String, Arc<Pod>>| pods.values().filter_map(|pod| pod.uid()).collect();
        (uids(&seen.present), uids(&seen.vanished))
    }

    #[test]
    fn a_pod_is_there_until_the_watch_has_seen_it_go() {
        let now = Manual::new().instant();
        let mut pods = Pods::default();
        let none: Vec<String> = Vec::new();
        pods.created(pod("1"), now);
        assert_eq!(state(&mut pods, None), (vec!["1".to_owned()], none.clone()), "the watch is late");
        assert_eq!(state(&mut pods, Some("1")), (vec!["1".to_owned()], none.clone()));
        assert_eq!(state(&mut pods, None), (none.clone(), vec!["1".to_owned()]), "somebody has removed it");
        assert_eq!(state(&mut pods, None).1, ["1"], "until it is dealt with");
        pods.gone("p");
        assert_eq!(state(&mut pods, None), (none.clone(), none.clone()));

        pods.created(pod("2"), now);
        assert_eq!(state(&mut pods, Some("2")).0, ["2"]);
        let dismissed = |pods: &mut Pods| pods.with([Arc::new(pod("2"))], now).dismissed;
        assert!(dismissed(&mut pods).is_empty());
        pods.dismissed(&pod("1"));
        assert!(dismissed(&mut pods).is_empty(), "that was the one before it");
        pods.dismissed(&pod("2"));
        assert!(dismissed(&mut pods).contains("p"), "the watch does not tell yet");
        pods.created(pod("2"), now);
        assert!(pods.with([], now).dismissed.contains("p"), "the watch has told of nothing");
        assert!(dismissed(&mut pods).contains("p"));
        assert_eq!(state(&mut pods, None), (none.clone(), none), "we have removed it");
    }

    #[test]
    fn a_refusal_whose_answer_is_lost_is_counted_once_it_is_there() {
        let mut pods = Pods::default();
        pods.created(pod("2"), Manual::new().instant());
        assert!(!pods.is_counted(&pod("2"), 5));
        pods.refused(&pod("2"), 2);
        assert!(!pods.is_counted(&pod("2"), 1) && pods.is_counted(&pod("2"), 2));
        assert!(!pods.is_counted(&pod("3"), 2), "one that is made in its place");
        pods.created(pod("2"), Manual::new().instant());
        assert!(pods.is_counted(&pod("2"), 2), "the API server was asked for it, since the watch is silent");
        pods.created(pod("3"), Manual::new().instant());
        assert!(!pods.is_counted(&pod("3"), 2));
    }

    #[test]
    fn a_pod_is_deleted_again_if_the_watch_still_tells_of_it() {
        let clock = Manual::new();
        let mut pods = Pods::default();
        pods.created(pod("1"), clock.instant());
        assert!(!pods.is_deleted(&pod("1"), clock.instant()));
        pods.deleted(&pod("1"), clock.instant());
        assert!(pods.is_deleted(&pod("1"), clock.instant()) && !pods.is_deleted(&pod("2"), clock.instant()));
        clock.pass(LATE);
        assert!(!pods.is_deleted(&pod("1"), clock.instant()));
        pods.deleted(&pod("1"), clock.instant());
        pods.created(pod("2"), clock.instant());
        assert!(!pods.is_deleted(&pod("2"), clock.instant()), "that was the one before it");
    }

    #[test]
    fn a_pod_is_as_it_was_written_until_the_watch_tells_of_that() {
        let clock = Manual::new();
        let now = || clock.instant();
        let present = |pods: &mut Pods, told: Option<u32>| -> Vec<u64> {
            let watched = told.map(|told| Arc::new(of_version("1", told)));
            pods.with(watched, now()).present.values().map(|pod| version(&**pod)).collect()
        };
        let unseen = |pods: &Pods| pods.unseen(now()).count();
        let mut pods = Pods::default();
        pods.created(of_version("1", 5), now());
        assert_eq!((present(&mut pods, Some(5)), unseen(&pods)), (vec![5], 0));
        pods.changed(of_version("1", 7), now());
        assert_eq!((present(&mut pods, Some(5)), unseen(&pods)), (vec![7], 1), "the watch is late");
        assert_eq!((present(&mut pods, Some(6)), unseen(&pods)), (vec![7], 1), "somebody else had changed it");
        assert_eq!((present(&mut pods, Some(8)), unseen(&pods)), (vec![8], 0));
        for answered in [7, 8] {
            pods.changed(of_version("1", answered), now());
            assert_eq!(unseen(&pods), 0, "the watch was faster than the answer");
            assert_eq!((present(&mut pods, Some(8)), unseen(&pods)), (vec![8], 0));
        }
        pods.changed(of_version("1", 9), now());
        clock.pass(3 * LATE);
        assert_eq!((present(&mut pods, Some(8)), unseen(&pods)), (vec![9], 0), "by now every watch has told");
        assert_eq!(present(&mut pods, None), [0; 0], "and it goes like any other");
        pods.changed(of_version("2", 10), now());
        assert_eq!((present(&mut pods, Some(9)), unseen(&pods)), (vec![10], 1), "another one has its name");
    }

    #[test]
    fn a_watch_that_is_very_late_is_doubted() {
        let clock = Manual::new();
        let mut pods = Pods::default();
        pods.created(pod("1"), clock.instant());
        clock.pass(LATE);
        assert!(pods.with(None, clock.instant()).doubtful.is_empty());
        clock.pass(Duration::from_secs(1));
        assert_eq!(pods.with(None, clock.instant()).doubtful, ["p"]);
        assert!(pods.with([Arc::new(pod("1"))], clock.instant()).doubtful.is_empty());
    }

    #[test]
    fn a_pod_is_known_since_it_was_created() {
        let clock = Manual::new();
        let mut pods = Pods::default();
        assert_eq!(pods.known_for(&pod("1"), clock.instant()), Duration::ZERO);
        pods.created(pod("1"), clock.instant());
        clock.pass(Duration::from_secs(3));
        let seen = pods.with([Arc::new(pod("1"))], clock.instant());
        assert_eq!(seen.present.len(), 1);
        assert_eq!(
            pods.known_for(&pod("1"), clock.instant()),
            Duration::from_secs(3),
            "whatever the watch tells since"
        );
    }

    /// Whatever the watch has told of the one before, which may have been nothing.
    #[test]
    fn of_two_pods_the_one_that_was_made_last_is_there() {
        let made_at = |version: u32| of_version(&version.to_string(), version);
        let now = Manual::new().instant();
        let present = |pods: &mut Pods, told: u32| {
            let seen = pods.with([Arc::new(made_at(told))], now);
            seen.present["p"].uid()
        };
        let mut pods = Pods::default();
        for (told, there) in [(1, "1"), (9, "9"), (8, "9")] {
            assert_eq!(present(&mut pods, told).as_deref(), Some(there));
        }
        pods.created(made_at(10), now);
        for (told, there) in [(9, "10"), (11, "11"), (10, "11")] {
            assert_eq!(present(&mut pods, told).as_deref(), Some(there));
        }
    }
}
