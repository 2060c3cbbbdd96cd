//! What is remembered of each experiment from one reconcile to the next. Nothing in here is needed after a restart.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use assay_api::names::EXPERIMENT_LABEL;
use assay_api::{TuningExperiment, TuningExperimentStatus};
use assay_core::cluster::Attempts;
use assay_core::decide::Said;
use assay_core::plan::Plan;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;

use super::accept::Answered;
use super::advise::Advice;
use super::full::Full;
use super::is_finished;
use super::known::{Pods, Trials};
use super::log::Unread;
use crate::lock::locked;

/// How long whoever was told that a node is free may take to get it.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// Namespace and name of an experiment.
pub type Name = (String, String);

/// The memory of one experiment.
#[derive(Default)]
pub struct Memory {
    uid: String,
    pub trials: Trials,
    /// Those of which nobody knows what they say: they were written, and no answer has come, or somebody else has written them.
    pub unsure: BTreeSet<String>,
    /// What its trials tell of.
    pub attempts: Attempts,
    /// What the gates said of those.
    pub said: Said,
    pub pods: Pods,
    /// Those of which nobody knows whether they are there: an answer was lost.
    pub unanswered: BTreeSet<String>,
    /// When pods, by their uid, were last seen behind a scheduling gate.
    pub gated: HashMap<String, Instant>,
    /// The logs that can't be read, by the uid of their pod.
    pub unread: HashMap<String, Unread>,
    /// Since when records are refused, by the uid of their pod.
    pub unkept: HashMap<String, Instant>,
    /// What came of checks, by the uid of their pod.
    pub answers: HashMap<String, Answered>,
    /// Share of its steps that each running pod has done.
    pub progress: HashMap<String, f64>,
    /// The claims that are there, by name, once they were listed.
    pub claims: Option<BTreeMap<String, PersistentVolumeClaim>>,
    /// Made once: a spec never changes.
    pub plan: Option<Arc<Plan>>,
    /// What was judged last.
    pub judged: Option<Judged>,
    /// The advice that is simulated after its end.
    pub advice: Option<Advice>,
    /// When its status was written last, and as the API server had it then, until the watch has told of that.
    pub written: Option<(Instant, Option<TuningExperiment>)>,
    /// When the API server said that it is gone, of which its watch may be late to tell.
    pub gone: Option<Instant>,
    /// Since when it is known to be over.
    pub over: Option<Instant>,
    /// Nodes that it waits for, so that whoever has one gives it up after a block.
    pub waits_for: Awaited,
    /// Nodes that it can't do without: one of its blocks has begun there, or one of its pods waits for it.
    pub bound_to: BTreeSet<String>,
    /// Since when it waits for a node, without having been given any.
    pub in_line: Option<Instant>,
    /// When it was told last that a node is free.
    pub called: Option<Instant>,
    /// The node that was served last, of more than could be served at once.
    pub served: Option<String>,
    /// The pod whose end was written down last, of more than could be at once.
    pub collected: Option<String>,
    /// Nodes that others have handed over to it, before it has decided what to run there.
    pub given: BTreeSet<String>,
    /// When it has given a node back for others.
    pub yielded: HashMap<String, Instant>,
    /// It has no node, since its namespace has as many as it may have.
    pub is_limited: bool,
    /// It does not go on now, whatever it has.
    pub is_aside: bool,
    /// A pod of it asks an autoscaler for a node.
    pub asks_for_node: bool,
    /// Nodes that had no room for a trial.
    pub full: Full,
    /// When the API server would not have an object of it, and why.
    pub refused: Option<(Instant, String)>,
}

/// Names of nodes, in their order: there may be a thousand, of each of many experiments.
#[derive(Default)]
pub struct Awaited(Vec<Arc<str>>);

impl Awaited {
    /// Of names in their order.
    pub fn new(sorted: Vec<Arc<str>>) -> Self {
        Self(sorted)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, node: &str) -> bool {
        self.find(node).is_ok()
    }

    pub fn insert(&mut self, node: &str) {
        if let Err(at) = self.find(node) {
            self.0.insert(at, node.into());
        }
    }

    fn find(&self, node: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|known| (**known).cmp(node))
    }
}

/// A verdict as a status.
pub struct Judged {
    /// The number of attempts that it follows from.
    pub attempts: usize,
    pub is_finished: bool,
    pub status: TuningExperimentStatus,
    /// When it was given, and how long that took.
    pub at: Instant,
    pub took: Duration,
}

impl Judged {
    /// The most of its time that an operator judges an experiment that is not finished: one part of so many.
    const SHARE: u32 = 200;

    /// For how long it stands, though there are other attempts by now: it is only on the way, and to give it takes the longer the more there
    /// are. No new one is needed before it may be written, which is so often.
    pub fn stands_for(&self, attempts: usize, is_finished: bool, written: Duration, now: Instant) -> Option<Duration> {
        if (self.attempts, self.is_finished) == (attempts, is_finished) {
            return Some(Duration::ZERO);
        }
        let left = (self.took * Self::SHARE).max(written).checked_sub(now.saturating_duration_since(self.at));
        left.filter(|left| !is_finished && !left.is_zero())
    }
}

impl Memory {
    /// Whoever has a node need not give it up for who would not use it now.
    pub fn stand_aside(&mut self) {
        self.waits_for = Awaited::default();
        self.bound_to = BTreeSet::new();
        self.is_limited = false;
        self.is_aside = true;
    }

    /// It needs nothing any more.
    pub fn gone(&mut self, now: Instant) {
        self.stand_aside();
        (self.gone, self.in_line) = (Some(now), None);
    }

    /// Forgets what nobody needs of an experiment that is over. Its pods and volumes may have to be removed yet.
    fn rest(&mut self) {
        *self = Self {
            uid: std::mem::take(&mut self.uid),
            // Those that no watch has told of yet say whose its last pods are.
            trials: std::mem::take(&mut self.trials),
            pods: std::mem::take(&mut self.pods),
            gated: std::mem::take(&mut self.gated),
            progress: std::mem::take(&mut self.progress),
            claims: self.claims.take(),
            over: self.over,
            ..Self::default()
        };
    }
}

/// The memories of all experiments. Who has locked one must not ask for another.
pub struct Memories(Mutex<All>);

#[derive(Default)]
struct All {
    by_name: BTreeMap<Name, Shared>,
    /// Of experiments that are gone, for as long as somebody still reconciles one, or it has pods that no watch has told of.
    former: Vec<Shared>,
}

/// A memory that others may look into while its experiment is reconciled.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Memory> {
        locked(&self.0)
    }

    /// Whether something may yet be begun with it, or is there and only known here.
    fn is_needed(&self, now: Instant) -> bool {
        Arc::strong_count(&self.0) > 1 || self.lock().pods.unseen(now).next().is_some()
    }
}

impl Memories {
    /// Pods that are there from the beginning are known even if they are gone before the first reconcile.
    pub fn new(pods: impl IntoIterator<Item = Arc<Pod>>, now: Instant) -> Self {
        let mut all = All::default();
        for pod in pods {
            if let Some(name) = experiment_of(&pod) {
                all.by_name.entry(name).or_default().lock().pods.saw(pod, now);
            }
        }
        Self(Mutex::new(all))
    }

    /// The memory of an experiment, which may have just begun.
    pub fn of(&self, experiment: &TuningExperiment) -> Shared {
        let uid = experiment.uid().unwrap_or_default();
        let All { by_name, former } = &mut *locked(&self.0);
        let memory = by_name.entry(name(experiment)).or_default();
        let known = memory.lock();
        let before = (known.uid != uid).then(|| known.pods.clone());
        drop(known);
        // Pods go by the name of their experiment: those of the one before it may be there yet. Whoever still reconciles that one has a memory
        // of its own, and others hear of its last pods.
        if let Some(pods) = before {
            let own = Shared(Arc::new(Mutex::new(Memory { uid, pods, ..Memory::default() })));
            former.push(std::mem::replace(memory, own));
        }
        memory.clone()
    }

    pub fn all(&self) -> Vec<(Name, Shared)> {
        locked(&self.0).by_name.iter().map(|(name, memory)| (name.clone(), memory.clone())).collect()
    }

    /// The memories of all experiments but this one.
    fn others(&self, own: &TuningExperiment) -> Vec<Shared> {
        let own = name(own);
        locked(&self.0).by_name.iter().filter(|(name, _)| **name != own).map(|(_, memory)| memory.clone()).collect()
    }

    /// The same, and those of experiments that are gone.
    pub fn others_and_former(&self, own: &TuningExperiment) -> Vec<Shared> {
        let mut others = self.others(own);
        others.extend_from_slice(&locked(&self.0).former);
        others
    }

    /// Whether somebody may still begin something for the experiment with this uid, or has just begun it.
    pub fn are_needed_for(&self, uid: &str, now: Instant) -> bool {
        let All { by_name, former } = &*locked(&self.0);
        by_name.values().chain(former).any(|memory| memory.lock().uid == uid && memory.is_needed(now))
    }

    /// Those of these nodes that any experiment but this one waits for, and how many the one of them holds that holds fewest, given how many
    /// the experiment with a uid does. One that can't do without this node counts as if it had none, and one that may have none does not wait.
    pub fn others_wait_for(
        &self,
        own: &TuningExperiment,
        nodes: &[String],
        holds: impl Fn(&str) -> usize,
    ) -> HashMap<String, usize> {
        let mut fewest: HashMap<String, usize> = HashMap::new();
        for memory in self.others(own) {
            let memory = memory.lock();
            if memory.is_limited {
                continue;
            }
            for node in nodes.iter().filter(|node| memory.waits_for.contains(node)) {
                let holds = if memory.bound_to.contains(node) { 0 } else { holds(&memory.uid) };
                fewest.entry(node.clone()).and_modify(|fewest| *fewest = holds.min(*fewest)).or_insert(holds);
            }
        }
        fewest
    }

    /// Those of these experiments whose namespace may have another node when one is free, whichever that is.
    pub fn limited(&self, mut experiments: Vec<Arc<TuningExperiment>>) -> Vec<Arc<TuningExperiment>> {
        experiments.retain(|experiment| self.of(experiment).lock().is_limited);
        experiments
    }

    /// So many of these experiments that wait for a node and may use one that is free, first those that have waited longest. Of many nodes
    /// that are free at once, each is for others.
    pub fn next_in_line(
        &self,
        experiments: Vec<Arc<TuningExperiment>>,
        may_use: impl Fn(&TuningExperiment, &Memory) -> bool,
        most: usize,
        now: Instant,
    ) -> Vec<Arc<TuningExperiment>> {
        let mut waiting = Vec::new();
        for experiment in experiments {
            let shared = self.of(&experiment);
            let memory = shared.lock();
            let since = memory.in_line.filter(|_| !memory.is_limited && may_use(&experiment, &memory));
            if let Some(since) = since {
                let is_on_its_way =
                    memory.called.is_some_and(|called| now.saturating_duration_since(called) < ON_ITS_WAY);
                drop(memory);
                waiting.push((is_on_its_way, since, name(&experiment), shared, experiment));
            }
        }
        waiting.sort_unstable_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        let called = |(.., memory, experiment): (_, _, _, Shared, _)| {
            memory.lock().called = Some(now);
            experiment
        };
        waiting.into_iter().take(most).map(called).collect()
    }

    /// Those that do not go on now.
    pub fn aside(&self) -> HashSet<Name> {
        self.all().into_iter().filter(|(_, memory)| memory.lock().is_aside).map(|(name, _)| name).collect()
    }

    /// How many experiments are judged and not finished.
    pub fn on_the_way(&self) -> usize {
        let is_on_the_way = |memory: &Memory| memory.judged.as_ref().is_some_and(|judged| !judged.is_finished);
        self.all().iter().filter(|(_, memory)| is_on_the_way(&memory.lock())).count()
    }

    /// Whether any other experiment of its namespace has no node, since the namespace has as many as it may have.
    pub fn others_are_limited(&self, own: &TuningExperiment) -> bool {
        let own = name(own);
        self.all().iter().any(|(name, memory)| name.0 == own.0 && *name != own && memory.lock().is_limited)
    }

    /// How many other experiments of its namespace ask for a node.
    pub fn others_ask_for_nodes(&self, own: &TuningExperiment) -> usize {
        let own = name(own);
        let others = self.all().into_iter().filter(|(name, _)| name.0 == own.0 && *name != own);
        others.filter(|(_, memory)| memory.lock().asks_for_node).count()
    }

    /// Forgets the experiments that are gone, and most of those that are over, and pods that are not among these.
    pub fn prune(&self, experiments: &[Arc<TuningExperiment>], pods: &[Arc<Pod>], now: Instant) {
        let known: HashMap<Name, &TuningExperiment> =
            experiments.iter().map(|experiment| (name(experiment), &**experiment)).collect();
        let pods: HashSet<String> = pods.iter().filter_map(|pod| pod.uid()).collect();
        let All { by_name, former } = &mut *locked(&self.0);
        former.extend(by_name.extract_if(.., |name, _| !known.contains_key(name)).map(|(_, memory)| memory));
        former.retain(|memory| memory.is_needed(now));
        by_name.retain(|name, memory| {
            let Some(experiment) = known.get(name) else { return false };
            let mut memory = memory.lock();
            let Memory { gated, unread, unkept, answers, .. } = &mut *memory;
            gated.retain(|uid, _| pods.contains(uid));
            unread.retain(|uid, _| pods.contains(uid));
            unkept.retain(|uid, _| pods.contains(uid));
            answers.retain(|uid, _| pods.contains(uid));
            if is_finished(experiment) || experiment.uid().as_deref() != Some(&memory.uid) {
                memory.rest();
            }
            true
        });
    }
}

fn name(experiment: &TuningExperiment) -> Name {
    (experiment.namespace().unwrap_or_default(), experiment.name_any())
}

/// The experiment that a pod belongs to by its label.
pub fn experiment_of(pod: &Pod) -> Option<Name> {
    Some((pod.namespace()?, pod.labels().get(EXPERIMENT_LABEL)?.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;

    #[test]
    fn a_free_node_goes_to_those_who_have_waited_longest() {
        let clock = Manual::new();
        let memories = Memories::new([], clock.instant());
        let names = ["late", "first", "elsewhere", "limited", "second", "never"];
        let all: Vec<_> = names.iter().map(|name| experiment(name, name, "False")).collect();
        let wait = |name: &str| {
            let own = all.iter().find(|experiment| experiment.name_any() == name).unwrap_or_else(|| unreachable!());
            memories.of(own).lock().in_line = Some(clock.instant());
        };
        for name in ["first", "elsewhere", "second", "late"] {
            wait(name);
            clock.pass(Duration::from_secs(1));
        }
        memories.of(&all[3]).lock().is_limited = true;
        let told = |most| -> Vec<String> {
            let may_use = |experiment: &TuningExperiment, _: &Memory| experiment.name_any() != "elsewhere";
            let told = memories.next_in_line(all.clone(), may_use, most, clock.instant());
            told.iter().map(|experiment| experiment.name_any()).collect()
        };
        assert_eq!(told(2), ["first", "second"]);
        assert_eq!(told(2), ["late", "first"], "another node at the same time is for others first");
        assert_eq!(told(9), ["first", "second", "late"]);
        clock.pass(ON_ITS_WAY);
        assert_eq!(told(1), ["first"]);
        clock.pass(ON_ITS_WAY);
        assert_eq!(told(1), ["first"], "it did not get that one");
        // Who was given one meanwhile is the last.
        clock.pass(ON_ITS_WAY);
        wait("first");
        assert_eq!(told(2), ["second", "late"]);
        memories.of(&all[4]).lock().waits_for.insert("n");
        let waits = |_: &TuningExperiment, memory: &Memory| memory.waits_for.contains("n");
        let next = memories.next_in_line(all.clone(), waits, 1, clock.instant());
        assert_eq!(next.iter().map(|experiment| experiment.name_any()).collect::<Vec<_>>(), ["second"]);
        let limited = memories.limited(all.clone());
        assert_eq!(limited.iter().map(|experiment| experiment.name_any()).collect::<Vec<_>>(), ["limited"]);
    }

    #[test]
    fn a_verdict_on_the_way_stands_for_as_long_as_it_is_worth() {
        let clock = Manual::new();
        let took = Duration::from_millis(5);
        let judged = |is_finished| Judged {
            attempts: 7,
            is_finished,
            status: TuningExperimentStatus::default(),
            at: clock.instant(),
            took,
        };
        let (open, last) = (judged(false), judged(true));
        clock.pass(Duration::from_millis(400));
        let now = clock.instant();
        let seldom = Duration::from_secs(2);
        for often in [Duration::ZERO, Duration::from_secs(1)] {
            assert_eq!(open.stands_for(7, false, often, now), Some(Duration::ZERO), "of the same attempts");
            assert_eq!(open.stands_for(8, false, often, now), Some(Duration::from_millis(600)));
            assert_eq!(open.stands_for(7, true, often, now), None, "the last one has all intervals");
            assert_eq!(open.stands_for(8, true, often, now), None, "the last one is of all attempts");
            assert_eq!(last.stands_for(7, true, often, now), Some(Duration::ZERO));
        }
        assert_eq!(open.stands_for(8, false, seldom, now), Some(Duration::from_millis(1600)));
        assert_eq!(open.stands_for(8, true, seldom, now), None);
        clock.pass(Duration::from_millis(600));
        let now = clock.instant();
        assert_eq!(open.stands_for(8, false, Duration::ZERO, now), None);
        assert_eq!(open.stands_for(7, false, Duration::ZERO, now), Some(Duration::ZERO));
        assert_eq!(open.stands_for(8, false, seldom, now), Some(Duration::from_secs(1)));
    }

    fn experiment(name: &str, uid: &str, finished: &str) -> Arc<TuningExperiment> {
        let experiment = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment",
            "metadata": {"name": name, "namespace": "ns", "uid": uid},
            "spec": {"baseline": "a", "configs": [], "scenarios": [], "repetitions": 1, "objectives": []},
            "status": {"conditions": [{"type": "Finished", "status": finished, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
        });
        Arc::new(serde_json::from_value(experiment).expect("an experiment"))
    }

    fn pod(uid: &str) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid, "labels": {EXPERIMENT_LABEL: "a"}}});
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    fn vanished(memory: &Shared) -> Vec<String> {
        memory.lock().pods.with(Vec::new(), Manual::new().instant()).vanished.into_keys().collect()
    }

    #[test]
    fn a_pod_that_is_gone_before_the_first_reconcile_was_there() {
        let memories = Memories::new([pod("1")], Manual::new().instant());
        assert_eq!(vanished(&memories.of(&experiment("a", "1", "False"))), ["p"]);
        assert_eq!(vanished(&memories.of(&experiment("b", "2", "False"))), [""; 0]);
    }

    #[test]
    fn a_memory_lasts_as_long_as_its_experiment() {
        let now = Manual::new().instant();
        let memories = Memories::new([pod("1")], now);
        let a = experiment("a", "1", "False");
        let remember = |memory: &mut Memory| {
            memory.claims = Some(BTreeMap::from([("claim".to_owned(), PersistentVolumeClaim::default())]));
            memory.waits_for.insert("node");
            memory.gated.insert("1".to_owned(), Manual::new().instant());
            memory.unread.insert("1".to_owned(), Unread::next(None, now, now).expect("just asked for"));
            memory.unkept.insert("1".to_owned(), now);
            memory.answers.insert("1".to_owned(), Answered::Failed("why".to_owned()));
            memory.progress.insert("p".to_owned(), 0.5);
            memory.over = Some(Manual::new().instant());
        };
        remember(&mut memories.of(&a).lock());
        memories.prune(&[Arc::clone(&a)], &[pod("1")], now);
        let memory = memories.of(&a);
        assert!(memory.lock().waits_for.contains("node") && memory.lock().gated.contains_key("1"));
        memories.prune(&[Arc::clone(&a)], &[], now);
        {
            let memory = memory.lock();
            assert!(memory.gated.is_empty() && memory.unread.is_empty(), "its pod is gone");
            assert!(memory.unkept.is_empty() && memory.answers.is_empty(), "its pod is gone");
        }

        remember(&mut memory.lock());
        let trial = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial", "metadata": {"name": "t"},
            "spec": {"experiment": "a", "plan": "p", "scenario": "s", "block": 0, "config": "c", "replicate": 0,
                "order": 0, "seed": 0, "node": "n"},
        });
        memory.lock().trials.wrote(serde_json::from_value(trial).expect("a trial"), now);
        memories.prune(&[experiment("a", "1", "True")], &[pod("1")], now);
        assert!(memory.lock().trials.written("t").is_some(), "whose its last pods are");
        assert!(memory.lock().waits_for.is_empty(), "it is over");
        assert!(memory.lock().claims.is_some() && vanished(&memory) == ["p"], "what is left has to be removed");
        assert!(memory.lock().gated.contains_key("1"), "and its last pod may wait");
        assert_eq!(memory.lock().progress.get("p"), Some(&0.5), "or run");
        assert!(memory.lock().over.is_some(), "and its time runs");
        assert!(memories.of(&a).lock().claims.is_some(), "it is the same experiment");

        remember(&mut memories.of(&a).lock());
        let successor = memories.of(&experiment("a", "2", "False"));
        assert!(successor.lock().claims.is_none(), "the name is another one's now");
        assert_eq!(vanished(&successor), ["p"], "which finds what was left");
        remember(&mut memory.lock());
        assert!(successor.lock().claims.is_none(), "whoever still reconciles the one before it tells it nothing");

        memories.prune(&[], &[pod("1")], now);
        assert_eq!(vanished(&memories.of(&a)), [""; 0]);
    }

    /// The uids of pods that another experiment is told of, though no watch tells of them.
    fn unseen(memories: &Memories, now: Instant) -> Vec<String> {
        let others = memories.others_and_former(&experiment("b", "3", "False"));
        let uids =
            |memory: &Shared| -> Vec<String> { memory.lock().pods.unseen(now).filter_map(|pod| pod.uid()).collect() };
        others.iter().flat_map(uids).collect()
    }

    #[test]
    fn an_experiment_that_is_gone_is_remembered_while_it_may_have_pods() {
        let clock = Manual::new();
        let memories = Memories::new([], clock.instant());
        let (a, after) = (experiment("a", "1", "False"), experiment("a", "2", "False"));
        let reconciled = memories.of(&a);
        memories.prune(&[], &[], clock.instant());
        assert!(memories.are_needed_for("1", clock.instant()), "it is reconciled");
        // By whoever was asked for the next in line.
        memories.of(&after);
        reconciled.lock().pods.created((*pod("9")).clone(), clock.instant());
        drop(reconciled);
        for known in [vec![Arc::clone(&after)], vec![]] {
            memories.prune(&known, &[], clock.instant());
            assert_eq!(unseen(&memories, clock.instant()), ["9"]);
            let [gone, after] = ["1", "2"].map(|uid| memories.are_needed_for(uid, clock.instant()));
            assert!(gone && !after);
        }
        clock.pass(Duration::from_mins(1));
        memories.prune(&[], &[], clock.instant());
        assert!(!memories.are_needed_for("1", clock.instant()) && unseen(&memories, clock.instant()).is_empty());
    }

    #[test]
    fn who_has_the_name_of_another_hears_of_its_last_pods() {
        let clock = Manual::new();
        let created = |memory: &Shared| memory.lock().pods.created((*pod("9")).clone(), clock.instant());
        for is_before in [true, false] {
            let memories = Memories::new([], clock.instant());
            let reconciled = memories.of(&experiment("b", "1", "False"));
            if is_before {
                created(&reconciled);
            }
            memories.of(&experiment("b", "3", "False"));
            if !is_before {
                created(&reconciled);
            }
            assert_eq!(unseen(&memories, clock.instant()), ["9"]);
        }
    }

    #[test]
    fn what_is_gone_waits_for_nothing() {
        let now = Manual::new().instant();
        let mut memory = Memory { in_line: Some(now), ..Memory::default() };
        memory.waits_for = Awaited::new(vec!["node".into()]);
        assert!(!memory.waits_for.is_empty() && Awaited::default().is_empty());
        memory.gone(now);
        assert!(memory.waits_for.is_empty() && memory.is_aside);
        assert_eq!((memory.gone, memory.in_line), (Some(now), None));
    }

    #[test]
    fn who_goes_on_is_on_the_way_and_not_aside() {
        let now = Manual::new().instant();
        let memories = Memories::new([], now);
        let memory = memories.of(&experiment("a", "1", "False"));
        assert_eq!((memories.on_the_way(), memories.aside()), (0, HashSet::new()));
        let judged = |is_finished| {
            let (status, took) = (TuningExperimentStatus::default(), Duration::ZERO);
            Some(Judged { attempts: 1, is_finished, status, at: now, took })
        };
        memory.lock().judged = judged(false);
        assert_eq!(memories.on_the_way(), 1);
        memory.lock().judged = judged(true);
        memory.lock().stand_aside();
        let a = ("ns".to_owned(), "a".to_owned());
        assert_eq!((memories.on_the_way(), memories.aside()), (0, HashSet::from([a])));
    }

    #[test]
    fn only_others_of_the_namespace_ask_for_nodes() {
        let memories = Memories::new([], Manual::new().instant());
        let (a, b, c) = (experiment("a", "1", "False"), experiment("b", "2", "False"), experiment("c", "3", "False"));
        let mut elsewhere = (*b).clone();
        elsewhere.metadata.namespace = Some("elsewhere".to_owned());
        for own in [&*a, &*c, &elsewhere] {
            memories.of(own).lock().asks_for_node = true;
        }
        memories.of(&b);
        assert_eq!([&*a, &*b, &elsewhere].map(|own| memories.others_ask_for_nodes(own)), [1, 2, 0]);
    }

    #[test]
    fn only_others_of_the_namespace_are_limited() {
        let memories = Memories::new([], Manual::new().instant());
        let (a, b) = (experiment("a", "1", "False"), experiment("b", "2", "False"));
        let mut elsewhere = (*b).clone();
        elsewhere.metadata.namespace = Some("elsewhere".to_owned());
        memories.of(&a).lock().is_limited = true;
        assert!(memories.others_are_limited(&b));
        assert!(!memories.others_are_limited(&a) && !memories.others_are_limited(&elsewhere));
        memories.prune(&[experiment("a", "1", "True"), Arc::clone(&b)], &[], Manual::new().instant());
        assert!(!memories.others_are_limited(&b), "it is over");
    }

    #[test]
    fn only_others_are_waited_for() {
        let memories = Memories::new([], Manual::new().instant());
        let (a, b) = (experiment("a", "1", "False"), experiment("b", "2", "False"));
        memories.of(&a).lock().waits_for.insert("node");
        let holds = |uid: &str| if uid == "1" { 3 } else { 2 };
        let wanted =
            |own: &TuningExperiment| memories.others_wait_for(own, &["node".to_owned(), "another".to_owned()], holds);
        assert_eq!(wanted(&b), HashMap::from([("node".to_owned(), 3)]));
        assert!(wanted(&a).is_empty());
        memories.of(&experiment("c", "3", "False")).lock().waits_for.insert("node");
        assert_eq!(wanted(&b), HashMap::from([("node".to_owned(), 2)]), "what the poorer of both holds");
        memories.of(&a).lock().bound_to.insert("node".to_owned());
        assert_eq!(wanted(&b), HashMap::from([("node".to_owned(), 0)]), "it has begun there");
        memories.of(&a).lock().is_limited = true;
        assert_eq!(wanted(&b), HashMap::from([("node".to_owned(), 2)]), "it could not take it");
    }
}
