//! What must hold after every write, whoever has made it, and at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{
    ATTEMPT_LABEL, FINISHED, HOLDER_ANNOTATION, NODE_GATE, NODE_LEASE_PREFIX, ROLE_LABEL, ROLE_TRIAL,
};
use assay_api::{TuningExperimentSpec, TuningExperimentStatus, TuningTrial};
use assay_core::attempt::Attempt;
use assay_core::decide::Places;
use assay_core::judge::judge_with;
use assay_core::plan::Plan;
use assay_core::validate::validate;
use assay_core::verdict::Intervals;
use assay_core::{cluster, status};
use serde_json::Value;

use super::alerts::Alerts;
use super::api::{Change, Key, QUEUE_GATE, Server, is_terminal};
use super::nights::Nights;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// This start of the operator, by a request that it has sent then.
    Operator {
        number: usize,
        sent: Duration,
    },
    /// Schedulers, kubelets and controllers of the cluster.
    Machine,
    User,
}

fn is_same(one: Actor, other: Actor) -> bool {
    match (one, other) {
        (Actor::Operator { number, .. }, Actor::Operator { number: same, .. }) => number == same,
        _ => one == other,
    }
}

/// What one start of the operator may not know of another one's writes: its watches are late by this at most.
const LATE: Duration = Duration::from_secs(20);
/// After this nobody waits for an answer.
const UNANSWERED: Duration = Duration::from_secs(20);
/// For so long a log that can't be read is asked for again.
const READ: Duration = Duration::from_secs(30);
/// How long a pod may be left that nobody needs: what failed is tried again sooner, and what left no record is kept to be looked at.
const GONE: Duration = Duration::from_mins(10);
/// What a node's Lease lasts.
const HELD: Duration = Duration::from_mins(3);
/// How often a node may change hands without another operator hearing of it.
const IN_A_ROW: u32 = 9;

/// A write that the operator has made, or that somebody else has.
#[derive(Clone, Copy)]
pub struct Made {
    pub at: Duration,
    pub by: Actor,
    /// Of which kind the object is, in plural: each has a watch of its own.
    pub plural: &'static str,
}

/// What a trial tries until its attempt ends.
#[derive(Default)]
struct Tries {
    pods: u64,
    /// Who has counted a refusal last. Another start of the operator may count the same once more.
    counted: Option<Actor>,
    again: u64,
}

#[derive(Default)]
pub struct Law {
    /// The first thing that was wrong.
    pub wrong: Option<String>,
    /// When each start of the operator began.
    pub starts: Vec<Duration>,
    /// From when to when a start of the operator, by its number, heard nothing of a kind, since nothing came on its connection.
    deaf: BTreeMap<(usize, &'static str), Vec<(Duration, Duration)>>,
    /// Writes of trials that were answered: by which start of the operator, when it sent them, and the trial's name.
    pub answered: BTreeSet<(usize, Duration, String)>,
    /// Attempts that are written down, by the uid of their trial and their number.
    recorded: BTreeMap<(String, u64), Made>,
    /// Experiments that have ended, by uid.
    finished: BTreeMap<String, Made>,
    /// Those that are suspended.
    suspended: BTreeMap<String, Made>,
    /// Pods by uid.
    pods: BTreeMap<String, Made>,
    /// How many pods each trial (by uid) has had since an attempt of it ended last, and how many of its refusals may be written down.
    tries: BTreeMap<String, Tries>,
    /// All summaries that a pod of this name has left.
    left: BTreeMap<String, BTreeSet<String>>,
    /// Pods that have ended with a summary, by name, since when.
    ended: BTreeMap<String, Duration>,
    /// When nodes were removed last.
    removed: BTreeMap<String, Duration>,
    /// Leases of nodes.
    leases: BTreeMap<String, Made>,
    /// How often each node was handed over since it was free.
    handed: BTreeMap<String, u32>,
    /// Every uid that there was, with how its object went.
    uids: BTreeMap<String, Option<Made>>,
    /// The trials of each experiment (by uid) when they told of so many attempts.
    history: BTreeMap<String, BTreeMap<usize, Vec<Arc<Value>>>>,
    plans: BTreeMap<String, Option<Plan>>,
    judged: BTreeMap<(String, usize, bool), TuningExperimentStatus>,
    /// Trials that run, by node: what is true, whatever the API server says.
    running: BTreeMap<String, BTreeMap<String, String>>,
    /// How many attempts are written down.
    pub attempts: usize,
    /// When something was written last that is no sign of life alone.
    pub moved: Duration,
    pub nights: Nights,
    pub alerts: Alerts,
}

pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub fn is_trial(pod: &Value) -> bool {
    pod["metadata"]["labels"][ROLE_LABEL] == ROLE_TRIAL
}

/// The node that the pod of a trial is for.
pub fn target(pod: &Value) -> &str {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    text(pod, &format!("{terms}/0/matchFields/0/values/0"))
}

pub fn has_gate(pod: &Value, gate: &str) -> bool {
    pod["spec"]["schedulingGates"].as_array().into_iter().flatten().any(|one| one["name"] == gate)
}

fn may_run(pod: &Value) -> bool {
    !is_terminal(text(pod, "/status/phase")) && !has_gate(pod, NODE_GATE) && !has_gate(pod, QUEUE_GATE)
}

/// Which attempt a pod is.
fn attempt(pod: &Value) -> u64 {
    pod["metadata"]["labels"][ATTEMPT_LABEL].as_str().and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub fn owner(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.first()
}

pub fn is_finished(experiment: &Value) -> bool {
    let conditions = experiment["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == FINISHED && one["status"] == "True")
}

fn message(pod: &Value) -> &str {
    text(pod, "/status/containerStatuses/0/state/terminated/message")
}

fn attempts(trial: &Value) -> BTreeMap<u64, &Value> {
    let all = trial["status"]["attempts"].as_array().into_iter().flatten();
    all.map(|attempt| (attempt["attempt"].as_u64().unwrap_or_default(), attempt)).collect()
}

/// An attempt without what fills pages.
fn brief(attempt: &Value) -> Value {
    let mut attempt = attempt.clone();
    if let Some(summary) = attempt.get_mut("summary") {
        *summary = "...".into();
    }
    attempt
}

impl Law {
    pub fn breaks(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// Whether whoever has written this knew of what was made before.
    pub fn knew(&self, by: Actor, made: Made) -> bool {
        let Actor::Operator { number, sent } = by else { return false };
        match made.by {
            _ if is_same(by, made.by) => sent > made.at + Duration::from_secs(1),
            _ => sent > self.told(number, made) + LATE || self.starts.get(number).is_some_and(|start| *start > made.at),
        }
    }

    /// Whether whoever has written this knew of a write of its own to a trial. Who was not answered asks for the trial in the next
    /// reconcile, but that is too soon where the request was on its way for longer than anybody waits; then the watch tells of it, and a
    /// reconcile may last.
    fn knew_own(&self, by: Actor, made: Made, trial: &str) -> bool {
        let (Actor::Operator { number, sent }, Actor::Operator { sent: asked, .. }) = (by, made.by) else {
            return false;
        };
        if self.answered.contains(&(number, asked, trial.to_owned())) {
            return true;
        }
        let told = self.told(number, made);
        let margin = if made.at > asked + UNANSWERED {
            4 * LATE
        } else if told > made.at {
            LATE
        } else {
            Duration::ZERO
        };
        sent >= told + margin
    }

    /// When a start of the operator can hear of what was made, but for what any watch may be late.
    fn told(&self, number: usize, made: Made) -> Duration {
        let deaf = self.deaf.get(&(number, made.plural)).into_iter().flatten();
        deaf.fold(made.at, |at, &(from, until)| if from <= at + LATE && at < until { until } else { at })
    }

    /// A start of the operator hears nothing of a kind.
    pub fn is_deaf(&mut self, number: usize, plural: &'static str, from: Duration, until: Duration) {
        self.deaf.entry((number, plural)).or_default().push((from, until));
    }

    /// Looks at a write that has just been made.
    pub fn see(&mut self, server: &Server, change: &Change, by: Actor) {
        let object = change.object();
        let made = Made { at: change.at, by, plural: change.key.plural };
        if !matches!(change.key.plural, "leases" | "events" | "nodes") {
            self.moved = change.at;
        }
        match (&change.before, &change.after) {
            (None, Some(object)) => {
                self.uids.insert(uid(object).to_owned(), None);
                if matches!(by, Actor::Operator { .. }) {
                    self.is_owned(change, object, by);
                }
            }
            (Some(object), None) => {
                self.uids.insert(uid(object).to_owned(), Some(made));
            }
            _ => {}
        }
        match change.key.plural {
            "pods" if is_trial(object) => self.see_pod(server, change, made),
            "tuningtrials" => self.see_trial(server, change, made),
            "tuningexperiments" => {
                if change.before.is_none() {
                    self.begins_night(change, made);
                }
                self.see_experiment(change, made);
            }
            "tuningsweeps" => self.see_sweep(change, made),
            "tuninghistories" => self.see_history(server, change, made),
            "events" => self.see_event(change, made),
            "leases" => self.see_lease(server, change, made),
            "nodes" if change.after.is_none() => drop(self.removed.insert(change.key.name.clone(), change.at)),
            _ => {}
        }
    }

    /// Other operators get their turn.
    fn see_lease(&mut self, server: &Server, change: &Change, made: Made) {
        let last = self.leases.insert(change.key.name.clone(), made);
        let Some(node) = change.key.name.strip_prefix(NODE_LEASE_PREFIX) else { return };
        let holder = |lease: Option<&Value>| lease.map(|lease| text(lease, "/spec/holderIdentity").to_owned());
        let (before, after) = (holder(change.before.as_deref()), holder(change.after.as_deref()));
        // What has run out anybody may take, and who takes a node that is in use breaks another law.
        let is_valid = last.is_some_and(|last| made.at < last.at + HELD);
        let is_in_use = || server.all("pods").any(|(_, pod)| is_trial(pod) && target(pod) == node && may_run(pod));
        if before.is_none() || after.is_none() {
            self.handed.remove(node);
        } else if before != after && is_valid && !is_in_use() {
            let handed = self.handed.entry(node.to_owned()).or_default();
            *handed += 1;
            if *handed > IN_A_ROW {
                self.breaks(format!("{} was handed over again and again, and never given back to all", change.key));
            }
        }
    }

    /// Whatever the operator makes belongs to something that was there when the operator heard of it last.
    fn is_owned(&mut self, change: &Change, object: &Value, by: Actor) {
        if !matches!(
            change.key.plural,
            "pods" | "tuningexperiments" | "tuningtrials" | "configmaps" | "persistentvolumeclaims"
        ) {
            return;
        }
        let owner = owner(object).map(|owner| text(owner, "/uid")).unwrap_or_default();
        let is_new = match self.uids.get(owner) {
            None => false,
            Some(None) => true,
            // What one part of the operator deletes, another one hears of by its watch.
            Some(Some(gone)) => !self.knew(by, Made { by: Actor::Machine, ..*gone }),
        };
        if !is_new {
            self.breaks(format!("{} was made for an owner that is not there: {owner:?}", change.key));
        }
    }

    fn see_pod(&mut self, server: &Server, change: &Change, made: Made) {
        let Change { key, before, after, .. } = change;
        if let (None, Some(pod)) = (before, after) {
            let trial = owner(pod).map(|owner| text(owner, "/uid")).unwrap_or_default();
            self.tries.entry(trial.to_owned()).or_default().pods += 1;
        }
        let ran = before.as_deref().is_some_and(may_run);
        if let Some(pod) = after.as_deref()
            && may_run(pod)
            && !ran
        {
            self.begins(server, key, pod, made);
            self.pods.insert(uid(pod).to_owned(), made);
        }
        match after.as_deref() {
            Some(pod) if is_terminal(text(pod, "/status/phase")) && message(pod).starts_with('{') => {
                self.left.entry(key.name.clone()).or_default().insert(message(pod).to_owned());
                self.ended.entry(key.name.clone()).or_insert(change.at);
            }
            _ => drop(self.ended.remove(&key.name)),
        }
        let is_deleted = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
        let goes = before.as_deref().is_some_and(|pod| !is_deleted(pod)) && after.as_deref().is_none_or(is_deleted);
        if let Some(pod) = before.as_deref()
            && goes
            && matches!(made.by, Actor::Operator { .. })
        {
            self.is_written_down(server, key, pod);
        }
    }

    /// The trial of a pod and its experiment, where they are there.
    fn of<'a>(server: &'a Server, namespace: &str, pod: &Value) -> Option<(&'a Arc<Value>, &'a Arc<Value>)> {
        let owner = owner(pod)?;
        let trial = server.get(&Key::new("tuningtrials", namespace, text(owner, "/name")))?;
        let is_same = uid(trial) == text(owner, "/uid");
        let experiment = server.get(&Key::new("tuningexperiments", namespace, text(trial, "/spec/experiment")))?;
        let owner = self::owner(trial)?;
        (is_same && uid(experiment) == text(owner, "/uid")).then_some((trial, experiment))
    }

    /// A trial's pod may run from here on.
    fn begins(&mut self, server: &Server, key: &Key, pod: &Value, made: Made) {
        let Some((trial, experiment)) = Self::of(server, &key.namespace, pod) else { return };
        let number = attempt(pod);
        let is_known = |law: &Self, earlier: Option<&Made>| earlier.is_some_and(|earlier| law.knew(made.by, *earlier));
        if is_known(self, self.recorded.get(&(uid(trial).to_owned(), number))) {
            self.breaks(format!("{key} was begun, though what became of attempt {number} is written down"));
        }
        if is_known(self, self.finished.get(uid(experiment))) {
            self.breaks(format!("{key} was begun for a finished experiment"));
        }
        if is_known(self, self.suspended.get(uid(experiment))) {
            self.breaks(format!("{key} was begun for a suspended experiment"));
        }
        let node = target(pod);
        for (other, there) in server.all("pods").filter(|(other, there)| *other != key && is_trial(there)) {
            if target(there) == node && may_run(there) && is_known(self, self.pods.get(uid(there))) {
                self.breaks(format!("{key} was begun on {node}, where {other} is"));
                return;
            }
        }
        let lease = format!("{NODE_LEASE_PREFIX}{node}");
        let held = server.all("leases").find(|(key, _)| key.name == lease);
        let holder = held.map(|(_, lease)| lease["metadata"]["annotations"][HOLDER_ANNOTATION].as_str().unwrap_or(""));
        if let Some(holder) = holder
            && !holder.ends_with(&format!("/{}", uid(experiment)))
            && let Some(lease) = self.leases.get(&lease).copied()
            && made.at < lease.at + HELD
            && self.knew(made.by, lease)
        {
            self.breaks(format!("{key} was begun on {node}, which {holder} holds"));
        }
    }

    /// Nothing of a pod that the operator deletes is lost.
    fn is_written_down(&mut self, server: &Server, key: &Key, pod: &Value) {
        let Some((trial, experiment)) = Self::of(server, &key.namespace, pod) else { return };
        if is_finished(experiment) || experiment["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let number = attempt(pod);
        let is_refusal = trial["status"]["refusals"].as_u64().unwrap_or(0) > 0 && !message(pod).starts_with('{');
        if !attempts(trial).contains_key(&number) && !is_refusal {
            self.breaks(format!("{key} was deleted before it was written down what became of it"));
        }
    }

    fn see_trial(&mut self, server: &Server, change: &Change, made: Made) {
        let Some(trial) = change.after.as_deref() else { return };
        let none = Value::Null;
        let before = attempts(change.before.as_deref().unwrap_or(&none));
        let after = attempts(trial);
        if after.len() != trial["status"]["attempts"].as_array().map_or(0, Vec::len) {
            self.breaks(format!("{} has an attempt twice", change.key));
        }
        for (number, was) in &before {
            match after.get(number) {
                None => self.breaks(format!("{} has lost its attempt {number}", change.key)),
                Some(is) if is != was => {
                    self.breaks(format!(
                        "{}: attempt {number} was written down twice: {} and {}",
                        change.key,
                        brief(was),
                        brief(is)
                    ));
                }
                Some(_) => {}
            }
        }
        for (number, attempt) in after.iter().filter(|(number, _)| !before.contains_key(number)) {
            self.attempts += 1;
            self.recorded.insert((uid(trial).to_owned(), *number), made);
            let pod = text(attempt, "/pod");
            if let Some(record) = attempt["record"].as_str()
                && server.get(&Key::new("configmaps", &change.key.namespace, record)).is_none()
            {
                self.breaks(format!("{}: attempt {number} names the record {record}, which is not there", change.key));
            }
            if let Some(summary) = attempt["summary"].as_str() {
                if !self.left.get(pod).is_some_and(|left| left.contains(summary)) {
                    self.breaks(format!("{}: attempt {number} has a result that no pod has left", change.key));
                }
                let there = server.get(&Key::new("pods", &change.key.namespace, pod));
                let log = there.filter(|there| message(there) == summary).and_then(|pod| server.logs.get(uid(pod)));
                if log.is_some_and(|log| !log.is_empty())
                    && let (Some(ended), Actor::Operator { sent, .. }) = (self.ended.get(pod), made.by)
                    && sent < *ended + READ
                    && attempt["record"].is_null()
                    // Nobody can read a log there.
                    && self.removed.get(text(attempt, "/node")).is_none_or(|removed| removed < ended)
                {
                    self.breaks(format!("{}: attempt {number} has no record, and {pod} has printed it", change.key));
                }
            } else if let Some(ended) = self.ended.get(pod)
                && matches!(made.by, Actor::Operator { sent, .. } if sent > *ended + LATE)
                && attempt["reason"] != "NodeLost"
                && server.get(&Key::new("pods", &change.key.namespace, pod)).is_some()
            {
                self.breaks(format!(
                    "{}: attempt {number} is lost, and {pod} has its result: {}",
                    change.key,
                    brief(attempt)
                ));
            }
        }
        self.counts_refusals(change, trial, made, before.len() < after.len());
        let Some(owner) = owner(trial).map(|owner| text(owner, "/uid").to_owned()) else { return };
        let all = server.all("tuningtrials").map(|(_, trial)| trial);
        let all: Vec<Arc<Value>> =
            all.filter(|one| self::owner(one).is_some_and(|own| text(own, "/uid") == owner)).cloned().collect();
        let count = all.iter().map(|trial| attempts(trial).len()).sum();
        self.history.entry(owner).or_default().insert(count, all);
    }

    /// No pod is refused twice.
    fn counts_refusals(&mut self, change: &Change, trial: &Value, made: Made, has_ended: bool) {
        let refusals = |trial: &Value| trial["status"]["refusals"].as_u64().unwrap_or(0);
        let tries = self.tries.entry(uid(trial).to_owned()).or_default();
        if has_ended {
            *tries = Tries::default();
        }
        if refusals(trial) > change.before.as_deref().map_or(0, refusals) {
            let is_other = tries.counted.replace(made.by).is_some_and(|last| !is_same(last, made.by));
            tries.again += u64::from(is_other);
            if refusals(trial) > tries.pods + tries.again {
                let wrong = format!("{} counts {} refusals of {} pods", change.key, refusals(trial), tries.pods);
                self.breaks(wrong);
            }
        }
    }

    fn see_experiment(&mut self, change: &Change, made: Made) {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let Some(experiment) = after else { return };
        let was_finished = before.is_some_and(is_finished);
        match (was_finished, is_finished(experiment)) {
            (true, false) => self.breaks(format!("{} had ended, and goes on", change.key)),
            (false, true) => drop(self.finished.insert(uid(experiment).to_owned(), made)),
            _ => {}
        }
        if experiment["spec"]["suspend"] == true {
            self.suspended.entry(uid(experiment).to_owned()).or_insert(made);
        } else {
            self.suspended.remove(uid(experiment));
        }
        if before.is_some_and(|before| before["status"] != experiment["status"])
            && self.knew_attempts(made.by, uid(experiment))
        {
            self.follows(&change.key, experiment);
        }
    }

    /// Whether whoever has written the status of an experiment could know of all its attempts. Of two that lead for a moment, since
    /// somebody has deleted the Lease of the first one, each knows its own at once and those of the other one late.
    fn knew_attempts(&self, by: Actor, experiment: &str) -> bool {
        let last = self.history.get(experiment).and_then(|history| history.values().next_back());
        last.into_iter().flatten().all(|trial| {
            attempts(trial).into_keys().all(|number| {
                let made = self.recorded.get(&(uid(trial).to_owned(), number));
                let own = |made| self.knew_own(by, made, text(trial, "/metadata/name"));
                made.is_none_or(|made| if is_same(by, made.by) { own(*made) } else { self.knew(by, *made) })
            })
        })
    }

    /// The status is what anybody gets who judges the trials from scratch.
    fn follows(&mut self, key: &Key, experiment: &Value) {
        let Ok(found) = serde_json::from_value::<TuningExperimentStatus>(experiment["status"].clone()) else {
            return self.breaks(format!("{key} has a status that can't be read"));
        };
        let Some(progress) = &found.progress else { return };
        let count = progress.attempts as usize;
        let is_last = is_finished(experiment);
        let Some(expected) = self.judgement(experiment, count, is_last) else {
            return self.breaks(format!("{key} counts {count} attempts, which there never were"));
        };
        let mut own = progress.clone();
        own.estimated_completion_time = None;
        let same = found.verdicts == expected.verdicts
            && found.cells == expected.cells
            && Some(own) == expected.progress
            && found.labels == expected.labels
            && found.findings == expected.findings
            && found.report_digest == expected.report_digest;
        if !same {
            self.breaks(format!("{key} has a status that does not follow from its {count} attempts"));
        }
    }

    fn judgement(&mut self, experiment: &Value, count: usize, is_last: bool) -> Option<TuningExperimentStatus> {
        let own = uid(experiment).to_owned();
        if let Some(known) = self.judged.get(&(own.clone(), count, is_last)) {
            return Some(known.clone());
        }
        let (plan, attempts) = self.tried(experiment, count)?;
        let places = Places::new(plan, &attempts).ok()?;
        let intervals = if is_last { Intervals::All } else { Intervals::None };
        let report = judge_with(&places, &plan.experiment.design(), intervals).ok()?;
        let status = status::of(&report).ok()?;
        self.judged.insert((own, count, is_last), status.clone());
        Some(status)
    }

    /// The plan of an experiment, and what there was of it when it had so many attempts.
    fn tried(&mut self, experiment: &Value, count: usize) -> Option<(&Plan, Vec<Attempt>)> {
        let own = uid(experiment).to_owned();
        let plan = self.plans.entry(own.clone()).or_insert_with(|| {
            let spec: TuningExperimentSpec = serde_json::from_value(experiment["spec"].clone()).ok()?;
            Plan::new(validate(text(experiment, "/metadata/name"), &spec).experiment?).ok()
        });
        let plan = plan.as_ref()?;
        let none = Vec::new();
        let trials = match self.history.get(&own).and_then(|history| history.get(&count)) {
            Some(trials) => trials,
            None if count == 0 => &none,
            None => return None,
        };
        let trials: Vec<TuningTrial> =
            trials.iter().map(|trial| serde_json::from_value((**trial).clone()).unwrap()).collect();
        Some((plan, cluster::attempts(plan, &trials).ok()?))
    }

    /// The same once nothing is added any more.
    pub fn tried_last(&mut self, experiment: &Value) -> Option<(&Plan, Vec<Attempt>)> {
        let count = *self.history.get(uid(experiment))?.keys().next_back()?;
        self.tried(experiment, count)
    }

    /// The container of a trial begins to run.
    pub fn runs(&mut self, node: &str, uid: &str, name: &str) {
        let running = self.running.entry(node.to_owned()).or_default();
        if let Some((_, other)) = running.iter().next() {
            let wrong = format!("{name} runs on {node} beside {other}");
            self.breaks(wrong);
            return;
        }
        running.insert(uid.to_owned(), name.to_owned());
    }

    pub fn ends(&mut self, node: &str, uid: &str) {
        if let Some(running) = self.running.get_mut(node) {
            running.remove(uid);
        }
    }

    /// What is wrong if nothing has gone wrong any more since then: a pod of which everything is known has to go, however often that was
    /// tried before.
    pub fn in_calm(&mut self, server: &Server, since: Duration) {
        for (key, pod) in server.all("pods").filter(|(_, pod)| is_trial(pod)) {
            let trial = owner(pod).map(|owner| text(owner, "/uid").to_owned()).unwrap_or_default();
            let known = self.recorded.get(&(trial, attempt(pod)));
            if known.is_some_and(|known| server.now > known.at.max(since) + GONE) {
                self.breaks(format!("{key} is left long after it was written down what became of it"));
            }
        }
    }

    /// What is wrong once everything should have ended.
    pub fn at_the_end(&mut self, server: &Server) {
        for (key, experiment) in server.all("tuningexperiments") {
            if !self.nights.is_remembered(experiment) {
                self.breaks(format!("{key} has ended, and its night is not in the history"));
            }
            if !is_finished(experiment) {
                let progressing = experiment["status"]["conditions"][1].clone();
                self.breaks(format!("{key} has not ended: {progressing}"));
                continue;
            }
            let own = uid(experiment);
            let trials = server.all("tuningtrials").map(|(_, trial)| trial);
            let trials = trials.filter(|one| owner(one).is_some_and(|owner| text(owner, "/uid") == own));
            let count: usize = trials.map(|trial| attempts(trial).len()).sum();
            if experiment["status"]["progress"]["attempts"].as_u64().unwrap_or(0) != count as u64 {
                self.breaks(format!("{key} has ended, and does not count all {count} attempts"));
            }
            self.follows(key, experiment);
        }
        for (key, _) in server.all("pods") {
            self.breaks(format!("{key} is left when everything has ended"));
        }
        for (key, _) in server.all("leases").filter(|(key, _)| key.name.starts_with(NODE_LEASE_PREFIX)) {
            self.breaks(format!("{key} is held when everything has ended"));
        }
    }

    /// What is wrong once all experiments are deleted.
    pub fn after_the_end(&mut self, server: &Server) {
        let is_leftover =
            |key: &Key| !matches!(key.plural, "nodes" | "events" | "leases" | "secrets" | "tuninghistories");
        for (key, _) in server.everything().filter(|(key, _)| is_leftover(key)) {
            self.breaks(format!("{key} is left when its experiment has gone"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_watch_excuses_what_it_would_have_told_of() {
        let mut law = Law { starts: vec![Duration::ZERO], ..Law::default() };
        law.is_deaf(0, "tuningexperiments", Duration::from_secs(100), Duration::from_secs(395));
        let knew = |sent: u64, plural, at: u64| {
            let made = Made { at: Duration::from_secs(at), by: Actor::User, plural };
            law.knew(Actor::Operator { number: 0, sent: Duration::from_secs(sent) }, made)
        };
        assert!(!knew(300, "tuningexperiments", 200));
        assert!(knew(416, "tuningexperiments", 200));
        assert!(knew(300, "pods", 200));
        // Told of before.
        assert!(knew(300, "tuningexperiments", 79));
        assert!(!knew(300, "tuningexperiments", 81), "a watch is late");
    }
    #[test]
    fn who_writes_knows_of_it_unless_that_came_late() {
        let mut law = Law { starts: vec![Duration::ZERO], ..Law::default() };
        law.is_deaf(0, "tuningtrials", Duration::from_secs(500), Duration::from_secs(795));
        law.answered.insert((0, Duration::from_secs(700), "t".to_owned()));
        let by = |sent: u64| Actor::Operator { number: 0, sent: Duration::from_secs(sent) };
        let knew = |sent: u64, asked: u64, at: u64| {
            law.knew_own(by(sent), Made { at: Duration::from_secs(at), by: by(asked), plural: "tuningtrials" }, "t")
        };
        assert!(knew(102, 100, 101));
        assert!(!knew(142, 100, 121), "nobody waited for its answer");
        assert!(knew(202, 100, 121));
        assert!(!knew(602, 600, 601), "its answer was lost, and the watch is silent");
        assert!(knew(702, 700, 701), "it was answered");
    }
}
