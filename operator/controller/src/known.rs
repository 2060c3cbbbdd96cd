//! What the operator knows of trials and pods: what its watches tell, and what it has done itself since. A watch may be late;
//! whoever went by it alone would create again what was just deleted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_api::TuningTrial;
use assay_api::names::EXPERIMENT_LABEL;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;

use crate::watch::locked;

/// A watch that has not told of a new pod after this is asked about no more: the API server is.
const LATE: Duration = Duration::from_secs(10);

type Key = (String, String);

/// Trials as the API server has them: what was written last is newer than what the watch has told.
pub struct Trials {
    stores: Vec<Store<TuningTrial>>,
    written: Mutex<HashMap<Key, Arc<TuningTrial>>>,
}

impl Trials {
    pub fn new(stores: Vec<Store<TuningTrial>>) -> Self {
        Self { stores, written: Mutex::default() }
    }

    /// Remembers the API server's answer to a write.
    pub fn wrote(&self, trial: TuningTrial) -> Arc<TuningTrial> {
        let trial = Arc::new(trial);
        locked(&self.written).insert(key(&*trial), Arc::clone(&trial));
        trial
    }

    /// All trials of an experiment, by name.
    pub fn of(&self, namespace: &str, uid: &str) -> BTreeMap<String, Arc<TuningTrial>> {
        let owned = |trial: &TuningTrial| {
            trial.namespace().as_deref() == Some(namespace)
                && trial.owner_references().iter().any(|owner| owner.uid == uid)
        };
        let mut trials: BTreeMap<String, Arc<TuningTrial>> = BTreeMap::new();
        for store in &self.stores {
            trials.extend(store.state_filter(owned).into_iter().map(|trial| (trial.name_any(), trial)));
        }
        locked(&self.written).retain(|(_, name), trial| {
            if !owned(trial) {
                return true;
            }
            let is_newer = trials.get(name).is_none_or(|seen| version(&**seen) < version(&**trial));
            if is_newer {
                trials.insert(name.clone(), Arc::clone(trial));
            }
            is_newer
        });
        trials
    }

    /// Forgets what was written for all experiments but these, by uid.
    pub fn keep(&self, uids: &HashSet<String>) {
        locked(&self.written).retain(|_, trial| trial.owner_references().iter().any(|owner| uids.contains(&owner.uid)));
    }
}

/// Resource versions of one kind are numbers that grow with every write.
pub fn version<K: kube::Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn key<K: kube::Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The pods of trials and checks.
pub struct Pods {
    stores: Vec<Store<Pod>>,
    known: Mutex<HashMap<Key, Known>>,
}

struct Known {
    pod: Arc<Pod>,
    since: Instant,
    /// The watch has told of it.
    is_seen: bool,
    /// It was deleted by us, so nobody needs to wonder where it is.
    is_dismissed: bool,
}

impl Known {
    fn seen(pod: Arc<Pod>) -> Self {
        Self { pod, since: Instant::now(), is_seen: true, is_dismissed: false }
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
    /// What the stores have from the beginning is known even if it is gone before anybody looks.
    pub fn new(stores: Vec<Store<Pod>>) -> Self {
        let pods = stores.iter().flat_map(Store::state);
        let known = pods.map(|pod| (key(&*pod), Known::seen(pod))).collect();
        Self { stores, known: Mutex::new(known) }
    }

    /// Remembers a pod that was created, or that the API server says is there.
    pub fn created(&self, pod: Pod) {
        let known = Known { pod: Arc::new(pod), since: Instant::now(), is_seen: false, is_dismissed: false };
        locked(&self.known).insert(key(&*known.pod), known);
    }

    /// Remembers that nobody needs this pod any more.
    pub fn dismissed(&self, pod: &Pod) {
        if let Some(known) = locked(&self.known).get_mut(&key(pod)).filter(|known| known.pod.uid() == pod.uid()) {
            known.is_dismissed = true;
        }
    }

    /// For how long we have known of a pod.
    pub fn known_for(&self, pod: &Pod) -> Duration {
        locked(&self.known).get(&key(pod)).map_or(Duration::ZERO, |known| known.since.elapsed())
    }

    /// Forgets a pod that turned out not to be there.
    pub fn gone(&self, namespace: &str, name: &str) {
        locked(&self.known).remove(&(namespace.to_owned(), name.to_owned()));
    }

    pub fn of(&self, namespace: &str, experiment: &str) -> Seen {
        let belongs = |pod: &Pod| {
            pod.namespace().as_deref() == Some(namespace)
                && pod.labels().get(EXPERIMENT_LABEL).is_some_and(|name| name == experiment)
        };
        let mut seen = Seen::default();
        let mut known = locked(&self.known);
        for pod in self.stores.iter().flat_map(|store| store.state_filter(belongs)) {
            let entry = known.entry(key(&*pod)).or_insert_with(|| Known::seen(Arc::clone(&pod)));
            if entry.pod.uid() == pod.uid() {
                entry.pod = Arc::clone(&pod);
                entry.is_seen = true;
            } else if entry.is_seen {
                *entry = Known::seen(Arc::clone(&pod));
            }
            // Else the watch still tells of the one before it.
            if entry.is_dismissed {
                seen.dismissed.insert(pod.name_any());
            }
            seen.present.insert(pod.name_any(), Arc::clone(&entry.pod));
        }
        known.retain(|(_, name), known| {
            if !belongs(&known.pod) || seen.present.contains_key(name) {
                return true;
            }
            if known.is_seen {
                if !known.is_dismissed {
                    seen.vanished.insert(name.clone(), Arc::clone(&known.pod));
                }
                return !known.is_dismissed;
            }
            seen.present.insert(name.clone(), Arc::clone(&known.pod));
            if known.since.elapsed() > LATE {
                seen.doubtful.push(name.clone());
            }
            true
        });
        seen
    }

    /// Forgets the pods that have gone of all experiments but these, by namespace and name.
    pub fn keep(&self, experiments: &HashSet<Key>) {
        let of = |pod: &Pod| pod.labels().get(EXPERIMENT_LABEL).cloned().unwrap_or_default();
        locked(&self.known).retain(|(namespace, _), known| experiments.contains(&(namespace.clone(), of(&known.pod))));
    }

    /// All pods that the watches tell of.
    pub fn all(&self) -> Vec<Arc<Pod>> {
        self.stores.iter().flat_map(Store::state).collect()
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

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

    fn refusals(trials: &Trials) -> Option<u32> {
        Some(trials.of("ns", "u").get("t")?.status.as_ref()?.refusals)
    }

    #[test]
    fn what_was_written_is_newer_than_what_is_watched() {
        let (store, mut writer) = reflector::store();
        let trials = Trials::new(vec![store]);
        assert_eq!(refusals(&trials), None);
        writer.apply_watcher_event(&Event::Apply(trial(9, 0)));
        trials.wrote(trial(10, 1));
        assert_eq!(refusals(&trials), Some(1));
        writer.apply_watcher_event(&Event::Apply(trial(10, 1)));
        assert_eq!(refusals(&trials), Some(1));
        writer.apply_watcher_event(&Event::Apply(trial(11, 2)));
        assert_eq!(refusals(&trials), Some(2));
        writer.apply_watcher_event(&Event::Delete(trial(11, 2)));
        assert_eq!(refusals(&trials), None, "what was written is not kept longer than it takes the watch to tell");
    }

    fn pod(uid: &str) -> Pod {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid, "labels": {EXPERIMENT_LABEL: "e"}}});
        serde_json::from_value(pod).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn state(pods: &Pods) -> (Vec<String>, Vec<String>) {
        let seen = pods.of("ns", "e");
        let uids = |pods: &BTreeMap<String, Arc<Pod>>| pods.values().filter_map(|pod| pod.uid()).collect();
        (uids(&seen.present), uids(&seen.vanished))
    }

    #[test]
    fn a_pod_is_there_until_the_watch_has_seen_it_go() {
        let (store, mut writer) = reflector::store();
        let pods = Pods::new(vec![store]);
        let none: Vec<String> = Vec::new();
        pods.created(pod("1"));
        assert_eq!(state(&pods), (vec!["1".to_owned()], none.clone()), "the watch is late");
        writer.apply_watcher_event(&Event::Apply(pod("1")));
        assert_eq!(state(&pods), (vec!["1".to_owned()], none.clone()));
        writer.apply_watcher_event(&Event::Delete(pod("1")));
        assert_eq!(state(&pods), (none.clone(), vec!["1".to_owned()]), "somebody has removed it");
        assert_eq!(state(&pods).1, ["1"], "until it is dealt with");
        pods.gone("ns", "p");
        assert_eq!(state(&pods), (none.clone(), none.clone()));

        pods.created(pod("2"));
        writer.apply_watcher_event(&Event::Apply(pod("2")));
        assert_eq!(state(&pods).0, ["2"]);
        assert!(pods.of("ns", "e").dismissed.is_empty());
        pods.dismissed(&pod("2"));
        assert!(pods.of("ns", "e").dismissed.contains("p"), "the watch does not tell yet");
        writer.apply_watcher_event(&Event::Delete(pod("2")));
        assert_eq!(state(&pods), (none.clone(), none), "we have removed it");
    }

    #[test]
    fn a_pod_that_is_gone_before_the_first_look_was_there() {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&Event::Apply(pod("1")));
        let pods = Pods::new(vec![store]);
        writer.apply_watcher_event(&Event::Delete(pod("1")));
        assert_eq!(state(&pods), (Vec::new(), vec!["1".to_owned()]));
    }

    #[test]
    fn a_late_watch_does_not_hide_a_successor() {
        let (store, mut writer) = reflector::store();
        let pods = Pods::new(vec![store]);
        writer.apply_watcher_event(&Event::Apply(pod("1")));
        assert_eq!(state(&pods).0, ["1"]);
        pods.created(pod("2"));
        assert_eq!(state(&pods).0, ["2"]);
        writer.apply_watcher_event(&Event::Apply(pod("2")));
        assert_eq!(state(&pods).0, ["2"]);
    }
}
