//! One reconcile of one experiment: what is there, what follows from it, and the writes that bring it about.
//!
//! ```text
//! accept   the spec, and what RocksDB says about its options     -> plan
//! observe  trials and pods                                       -> attempts, pods under way
//! collect  pods that have ended: record, status, removal         -> attempts
//! advance  what is next on each node (`assay_core::decide::fleet`) -> nodes, claims, trials, pods
//! settle   the verdict so far                                    -> status, events
//! ```

mod accept;
mod advance;
mod advise;
mod agent;
mod claims;
mod collect;
mod context;
mod controller;
mod ended;
mod full;
mod known;
mod log;
mod memory;
mod metrics;
mod node_lease;
mod observe;
mod outcome;
mod progress;
mod provision;
mod renew;
mod settle;
mod share;
mod stores;
mod tidy;
mod trial;
mod trial_status;
mod upkeep;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use assay_api::condition::find;
use assay_api::names::{FINISHED, MANAGER, TRIAL_LABEL};
use assay_api::{Condition, TuningExperiment, TuningTrial};
use assay_core::attempt::Attempt;
use assay_core::decide::Places;
use assay_core::plan::Plan;
use futures::{StreamExt as _, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use crate::cluster::Cluster;
use crate::error::{Error, call};
use crate::lock::locked;
use crate::logs::Demands;
use crate::object::delete;
use crate::pod::{Template, is_owned};
use crate::task;
use crate::watch::Touched;
use accept::Accepted;
use collect::Collected;
use context::Context;
pub use context::why_unreadable;
pub use controller::controller;
pub use ended::why_waiting;
use known::Seen;
use memory::{Memory, Shared};
use settle::State;
use trial::Trial;

/// The reason of conditions that say that an object can't be read.
const UNREADABLE: &str = "Unreadable";

/// What such an object is part of does not hear that it can be read again.
const UNTIL_READABLE: Duration = Duration::from_secs(30);

/// Requests of one reconcile at the same time.
const AT_ONCE: usize = 16;

/// Attempts that one reconcile writes down, and that it begins: whoever waits for the next one need not wait for all of them.
const AT_MOST: usize = 64;

/// When to try again what could not be had, seen or written down.
const RETRY: Duration = Duration::from_secs(5);

/// When to look again at what is about to be.
const TURN: Duration = Duration::from_millis(500);

/// What came of a reconcile.
enum Done {
    /// What is next was seen to, and it is in line for what it needs.
    Advanced,
    /// It needs no node now.
    Aside(Action),
}

/// One reconcile of an experiment.
pub struct Reconcile<'a> {
    pub context: &'a Context,
    pub experiment: &'a TuningExperiment,
    memory: Shared,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub now: Timestamp,
    /// When to reconcile again if nothing happens before.
    wake: Mutex<Duration>,
    /// The room that its logs ask for.
    room: Demands,
}

impl<'a> Reconcile<'a> {
    fn new(context: &'a Context, experiment: &'a TuningExperiment) -> Self {
        Self {
            context,
            experiment,
            memory: context.memories.of(experiment),
            namespace: experiment.namespace().unwrap_or_default(),
            name: experiment.name_any(),
            uid: experiment.uid().unwrap_or_default(),
            now: context.cluster.clock.time(),
            wake: Mutex::new(Duration::from_mins(5)),
            room: Demands::default(),
        }
    }

    /// Says when to reconcile again.
    pub async fn run(&self) -> Result<Action, Error> {
        let done = self.proceed().await;
        if matches!(done, Ok(Done::Advanced)) {
            self.memory().is_aside = false;
        } else {
            self.memory().stand_aside();
        }
        Ok(match done? {
            Done::Advanced => self.again(),
            Done::Aside(action) => action,
        })
    }

    async fn proceed(&self) -> Result<Done, Error> {
        if self.experiment.metadata.deletion_timestamp.is_some() {
            // What it owns goes with it, and its nodes when its pods have gone.
            return Ok(Done::Aside(Action::await_change()));
        }
        if let Some(left) = settle::gone_for(self).await? {
            return Ok(Done::Aside(Action::requeue(left.max(TURN))));
        }
        if settle::has_just_finished(self) {
            // Until its watch says so, too.
            return Ok(Done::Aside(Action::requeue(TURN)));
        }
        if is_finished(self.experiment) {
            settle::take_back_unreadable(self).await?;
            return tidy::after_the_end(self).await.map(Done::Aside);
        }
        if let Some(message) = self.context.unreadable(&self.uid) {
            self.wait_for_another_version(message).await?;
            return Ok(Done::Aside(Action::requeue(UNTIL_READABLE)));
        }
        let plan = match accept::accept(self).await? {
            Accepted::Plan(plan) => plan,
            Accepted::Waiting(reason, message) => {
                advance::keep_nodes(self).await?;
                settle::write(self, &State::Waiting { reason, message }, None).await?;
                return Ok(Done::Aside(self.again()));
            }
            Accepted::Refused(problems) => return refuse(self, problems).await.map(Done::Aside),
        };
        let (mut observed, mut attempts) = observe::observe(self, &plan).await?;
        let ended = match collect::collect(self, &plan, &mut observed).await {
            Collected::Ended(ended) => ended,
            Collected::Unfit(problem) => return refuse(self, vec![problem]).await.map(Done::Aside),
        };
        attempts.extend(ended.iter().map(|ended| ended.attempt.clone()));
        let places = self.places(&plan, &attempts)?;
        collect::tell(self, &places, &mut observed, ended).await?;
        let state = advance::advance(self, &places, &mut observed).await?;
        settle::write(self, &state, Some((&places, &observed))).await?;
        Ok(Done::Advanced)
    }

    fn again(&self) -> Action {
        Action::requeue(*locked(&self.wake))
    }

    /// Says why nothing is done. What runs keeps its node.
    async fn wait_for_another_version(&self, message: String) -> Result<(), Error> {
        advance::keep_nodes(self).await?;
        settle::write(self, &State::Waiting { reason: UNREADABLE, message }, None).await
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    fn cluster(&self) -> &'a Cluster {
        &self.context.cluster
    }

    /// What attempts have made of a plan.
    fn places<'p>(&self, plan: &'p Plan, attempts: &'p [Attempt]) -> Result<Places<'p>, Error> {
        // Others look into the memory meanwhile.
        let mut said = std::mem::take(&mut self.memory().said);
        let places = task::compute(|| Places::again(plan, attempts, &mut said));
        self.memory().said = said;
        places.map_err(|error| Error::Unexpected(error.to_string()))
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        self.cluster().api(&self.namespace)
    }

    fn instant(&self) -> Instant {
        self.cluster().clock.instant()
    }

    /// How long ago something was, by the clock that never jumps.
    fn elapsed(&self, since: Instant) -> Duration {
        self.cluster().clock.since(since)
    }

    /// What its objects are part of.
    fn touched(&self) -> Touched {
        stores::touched((self.namespace.clone(), self.name.clone()))
    }

    /// All trials of the experiment, by name.
    fn trials(&self) -> BTreeMap<String, Arc<Trial>> {
        let of_name = self.context.trials.iter().flat_map(|trials| trials.of(&self.touched()));
        let is_ours = |trial: &Trial| is_owned(trial, self.experiment);
        self.memory().trials.with(of_name.filter(|trial| is_ours(trial)), is_ours, self.instant())
    }

    /// The same, having asked the API server for those of which it may have another one than is known.
    async fn trials_there(&self) -> Result<BTreeMap<String, Arc<Trial>>, Error> {
        let unsure = self.memory().unsure.clone();
        for name in unsure {
            match call(self.api::<TuningTrial>().get_opt(&name)).await? {
                Some(trial) => drop(self.memory().trials.wrote(trial, self.instant())),
                None => self.memory().trials.gone(&name),
            }
            self.memory().unsure.remove(&name);
        }
        Ok(self.trials())
    }

    /// Whether a pod makes an attempt of one of its trials. One before it may have had its name, and pods that are there yet.
    fn has_begun(&self, pod: &Pod) -> bool {
        let name = pod.labels().get(TRIAL_LABEL).map_or("", String::as_str);
        self.memory().trials.written(name).is_some_and(|trial| is_owned(pod, trial))
            || self.context.trial_of(pod).is_some_and(|trial| is_owned(&*trial, self.experiment))
    }

    /// The pods that have its label.
    fn pods(&self) -> Seen {
        let watched = self.context.pods.iter().flat_map(|pods| pods.of(&self.touched()));
        self.memory().pods.with(watched, self.instant())
    }

    /// The same, having asked the API server for those that the watch should have told of, and for those that may have been created.
    async fn pods_there(&self) -> Result<Seen, Error> {
        let unanswered = self.memory().unanswered.clone();
        for name in unanswered {
            if let Some(pod) = call(self.api::<Pod>().get_opt(&name)).await? {
                self.memory().pods.created(pod, self.instant());
            }
            self.memory().unanswered.remove(&name);
        }
        let mut seen = self.pods();
        for name in std::mem::take(&mut seen.doubtful) {
            match call(self.api::<Pod>().get_opt(&name)).await? {
                Some(pod) => {
                    let pod = self.memory().pods.created(pod, self.instant());
                    seen.present.insert(name, pod);
                }
                None => seen.vanished.extend(seen.present.remove_entry(&name)),
            }
        }
        Ok(seen)
    }

    /// Publishes an event about the experiment, or about one of its trials.
    async fn publish(&self, trial: Option<&Trial>, type_: EventType, reason: &str, note: &str) {
        let trial = trial.map(|trial| trial.object_ref(&()));
        self.cluster().publish(&self.experiment.object_ref(&()), trial, type_, reason, note).await;
    }

    fn template(&self) -> Template<'a> {
        Template { experiment: self.experiment, args: &self.cluster().args }
    }

    /// Reconciles again after this at the latest.
    fn wake_in(&self, wait: Duration) {
        let mut wake = locked(&self.wake);
        *wake = (*wake).min(wait.max(Duration::from_millis(100)));
    }

    /// What could not be done is tried again, and holds up nothing else.
    fn later(&self, object: &str, error: &Error) {
        warn!(object, error = error.message(), "will retry");
        self.wake_in(if error.is_conflict() { TURN } else { RETRY });
    }

    /// Deletes a pod that nobody needs any more; somebody may have been faster.
    async fn remove(&self, pod: &Pod, grace_period_seconds: Option<u32>) -> Result<(), Error> {
        self.memory().pods.dismissed(pod);
        // To end it sooner is another request.
        if grace_period_seconds.is_none() && self.memory().pods.is_deleted(pod, self.instant()) {
            return Ok(());
        }
        delete(&self.api::<Pod>(), pod, grace_period_seconds).await?;
        self.memory().pods.deleted(pod, self.instant());
        Ok(())
    }

    /// Removes what stands in the way of an object of this owner's, if it was left over.
    async fn make_room<K>(&self, there: Option<&K>, owner: &impl Resource<DynamicType = ()>) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        if let Some(there) = there
            && is_left_over(there, owner)
            && there.meta().deletion_timestamp.is_none()
        {
            info!(kind = %K::kind(&()), name = there.name_any(), "removing a leftover object");
            delete(&self.api::<K>(), there, None).await?;
        }
        Ok(())
    }

    /// How long pods without a record are kept after the end.
    fn failed_pod_retention(&self) -> Duration {
        let own = self.experiment.spec.failed_pod_retention_seconds;
        Duration::from_secs(own.unwrap_or(self.cluster().args.failed_pod_retention_seconds).into())
    }

    /// Whether anything may begin for it by now, however long this reconcile has taken: somebody may have suspended or deleted it.
    fn may_begin(&self) -> bool {
        self.context.newest(self.experiment).is_some_and(|now| {
            now.spec.suspend != Some(true) && now.metadata.deletion_timestamp.is_none() && !is_finished(&now)
        })
    }

    fn is_suspended(&self) -> bool {
        self.experiment.spec.suspend == Some(true)
    }
}

/// Does all of this, many at once, since each waits for the API server most of the time. What is begun is brought to its end, whatever
/// fails beside it.
async fn all<T>(work: impl IntoIterator<Item = impl Future<Output = Result<T, Error>>>) -> Result<Vec<T>, Error> {
    each(work).await.into_iter().collect()
}

/// The same for what does not fail.
async fn each<T>(work: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    stream::iter(work).buffered(AT_ONCE).collect().await
}

/// Whose turn it is, by name: first come those after the one that was the last. Where there are always more than one reconcile serves, the
/// last names would never have a turn otherwise.
fn turn(name: &str, last: Option<&str>) -> (bool, String) {
    (Some(name) <= last, name.to_owned())
}

/// Nodes of which something is said by name: a status would grow with the cluster.
const NAMED: usize = 8;

/// What is said of nodes, which of many are not all named.
fn some_of(nodes: &[String], between: &str) -> String {
    match nodes.get(..NAMED) {
        Some(first) if nodes.len() > NAMED => {
            format!("{}{between}and {} more nodes", first.join(between), nodes.len() - NAMED)
        }
        _ => nodes.join(between),
    }
}

/// How long ago a moment was, which other clocks may have told.
pub fn age(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(moment)).unwrap_or_default()
}

/// Whether it belongs to an object that had the name of this owner and is gone. Garbage collection takes such along, but not where
/// the name came back while its watch was interrupted: to it, the owner has merely changed.
fn is_left_over<O: Resource<DynamicType = ()>>(object: &impl Resource, owner: &O) -> bool {
    let is_predecessor = |known: &OwnerReference| {
        known.kind == O::kind(&()) && known.name == owner.name_any() && Some(&known.uid) != owner.meta().uid.as_ref()
    };
    object.owner_references().iter().any(is_predecessor)
}

async fn refuse(reconcile: &Reconcile<'_>, problems: Vec<String>) -> Result<Action, Error> {
    info!("refused: {}", problems.join("; "));
    settle::write(reconcile, &State::Refused(problems), None).await?;
    Ok(Action::await_change())
}

pub fn is_finished(experiment: &TuningExperiment) -> bool {
    let conditions = experiment.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find(conditions, FINISHED).is_some_and(|condition| condition.status == "True")
}

/// Times that a node refused the next attempt of a trial.
fn refusals(trial: &TuningTrial) -> u32 {
    trial.status.as_ref().map_or(0, |status| status.refusals)
}

/// Server-side apply by the operator, over whatever others have written.
pub fn forced() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// A condition as it is now; the time of its last change stays where its status has not changed.
pub fn condition(
    (type_, status): (&str, &str),
    (reason, message): (&str, &str),
    generation: Option<i64>,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let same = before.iter().find(|known| known.type_ == type_ && known.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: assay_core::status::shorten(message, 4000),
        observed_generation: generation,
        last_transition_time: same
            .map_or_else(|| assay_api::Time(whole_second(now)), |known| known.last_transition_time.clone()),
    }
}

/// The API server keeps whole seconds; more would look like a change each time.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn of_many_nodes_some_are_named() {
        let nodes = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>();
        assert_eq!(some_of(&nodes(2), ", "), "n0, n1");
        assert_eq!(some_of(&nodes(8), ", "), "n0, n1, n2, n3, n4, n5, n6, n7");
        assert_eq!(some_of(&nodes(1000), "; "), "n0; n1; n2; n3; n4; n5; n6; n7; and 992 more nodes");
    }

    #[test]
    fn what_a_deleted_owner_of_this_name_had_is_left_over() {
        let object = |meta: Value| serde_json::from_value(json!({"metadata": meta})).expect("a pod");
        let owner = |kind: &str, name: &str, uid: &str| {
            let owner = json!({"apiVersion": "assay.rocks/v1alpha1", "kind": kind, "name": name, "uid": uid});
            object(json!({"name": "p", "ownerReferences": [owner]}))
        };
        let now: Pod = object(json!({"name": "e", "uid": "2"}));
        let is_left_over = |pod: Pod| is_left_over(&pod, &now);
        assert!(is_left_over(owner("Pod", "e", "1")));
        for other in
            [owner("Pod", "e", "2"), owner("Pod", "f", "1"), owner("Job", "e", "1"), object(json!({"name": "e"}))]
        {
            assert!(!is_left_over(other.clone()), "{other:?}");
        }
    }
}
