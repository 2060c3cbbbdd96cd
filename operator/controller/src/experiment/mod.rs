//! One look at one experiment: what is there, what follows from it, and the writes that bring it about.
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
mod agent;
mod claims;
mod collect;
mod ended;
mod node_lease;
mod observe;
mod outcome;
mod settle;
mod tell;
mod tidy;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_api::condition::find;
use assay_api::names::{FINISHED, MANAGER};
use assay_api::{Condition, TuningExperiment, TuningTrial};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, PatchParams, Preconditions};
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tracing::{Instrument as _, error_span, info, warn};

use crate::context::Context;
use crate::error::{Error, call};
use crate::pod::Template;
use accept::Accepted;
pub use agent::Agents;
pub use node_lease::{node_of, sweep};
use settle::State;

/// One look at an experiment.
pub struct Round<'a> {
    pub context: &'a Context,
    pub experiment: &'a TuningExperiment,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub now: Timestamp,
    /// When to look again if nothing happens before.
    pub wake: Duration,
}

impl<'a> Round<'a> {
    fn new(context: &'a Context, experiment: &'a TuningExperiment) -> Self {
        Self {
            context,
            experiment,
            namespace: experiment.namespace().unwrap_or_default(),
            name: experiment.name_any(),
            uid: experiment.uid().unwrap_or_default(),
            now: Timestamp::now(),
            wake: Duration::from_mins(5),
        }
    }

    fn template(&self) -> Template<'a> {
        Template { experiment: self.experiment, args: &self.context.args }
    }

    /// Looks again after this at the latest.
    fn wake_in(&mut self, wait: Duration) {
        self.wake = self.wake.min(wait.max(Duration::from_millis(100)));
    }

    /// Deletes a pod that nobody needs any more; somebody may have been faster.
    async fn remove(&self, pod: &Pod, grace_period_seconds: Option<u32>) -> Result<(), Error> {
        self.context.pods.dismissed(pod);
        delete(&self.context.api::<Pod>(&self.namespace), pod, grace_period_seconds).await
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
            info!(kind = %K::kind(&()), name = there.name_any(), "was left over, and is removed");
            delete(&self.context.api::<K>(&self.namespace), there, None).await?;
        }
        Ok(())
    }

    fn is_suspended(&self) -> bool {
        self.experiment.spec.suspend == Some(true)
    }

    /// Seconds since a moment, by our own clock.
    fn since(&self, moment: Timestamp) -> Duration {
        Duration::try_from(self.now.duration_since(moment)).unwrap_or_default()
    }
}

/// Deletes this very object, not one that has its name by now.
async fn delete<K>(api: &Api<K>, object: &K, grace_period_seconds: Option<u32>) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let preconditions = Some(Preconditions { uid: object.uid(), resource_version: None });
    let params = DeleteParams { grace_period_seconds, preconditions, ..DeleteParams::default() };
    match call(api.delete(&object.name_any(), &params)).await {
        Err(error) if !(error.is_not_found() || error.is_conflict()) => Err(error),
        _ => Ok(()),
    }
}

/// Whether it belongs to an object that had the name of this owner and is gone. Garbage collection takes such along, but not where
/// the name came back while its watch was interrupted: to it, the owner has merely changed.
fn is_left_over<O: Resource<DynamicType = ()>>(object: &impl Resource, owner: &O) -> bool {
    let is_predecessor = |known: &OwnerReference| {
        known.kind == O::kind(&()) && known.name == owner.name_any() && Some(&known.uid) != owner.meta().uid.as_ref()
    };
    object.owner_references().iter().any(is_predecessor)
}

/// Looks at an experiment and says when to do so again.
pub async fn reconcile(experiment: Arc<TuningExperiment>, context: Arc<Context>) -> Result<Action, Error> {
    // Whatever is logged meanwhile says whose it is, at every level that a log may have.
    let span =
        error_span!("look", namespace = experiment.namespace().unwrap_or_default(), experiment = experiment.name_any());
    let looked = async {
        let started = Instant::now();
        let result = look(&experiment, &context).await;
        context.metrics.reconciled(started.elapsed(), result.is_ok());
        if let Err(error) = &result {
            warn!(error = error.message(), "will be tried again");
        }
        result
    };
    looked.instrument(span).await
}

/// After an error: soon where somebody else was faster, later where the API server needs rest.
pub fn on_error(_: Arc<TuningExperiment>, error: &Error, _: Arc<Context>) -> Action {
    Action::requeue(Duration::from_millis(if error.is_conflict() { 200 } else { 2000 }))
}

async fn look(experiment: &TuningExperiment, context: &Context) -> Result<Action, Error> {
    let mut round = Round::new(context, experiment);
    if experiment.metadata.deletion_timestamp.is_some() {
        // What it owns goes with it, and its nodes when its pods have gone.
        return Ok(Action::await_change());
    }
    if is_finished(experiment) {
        return tidy::after_the_end(&mut round).await;
    }
    let plan = match accept::accept(&mut round).await? {
        Accepted::Plan(plan) => plan,
        Accepted::Waiting(reason, message) => {
            advance::keep_nodes(&mut round).await?;
            settle::write(&mut round, &State::Waiting { reason, message }, None).await?;
            return Ok(Action::requeue(round.wake));
        }
        Accepted::Refused(problems) => return refuse(&mut round, problems).await,
    };
    let mut observed = observe::observe(&mut round, &plan).await?;
    advance::keep_nodes(&mut round).await?;
    if let Some(problem) = collect::collect(&mut round, &plan, &mut observed).await? {
        return refuse(&mut round, vec![problem]).await;
    }
    let state = advance::advance(&mut round, &plan, &mut observed).await?;
    settle::write(&mut round, &state, Some((&plan, &observed))).await?;
    Ok(Action::requeue(round.wake))
}

async fn refuse(round: &mut Round<'_>, problems: Vec<String>) -> Result<Action, Error> {
    info!("refused: {}", problems.join("; "));
    settle::write(round, &State::Refused(problems), None).await?;
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
fn apply() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// A condition as it is now; the time of its last change stays where its status has not changed.
fn condition(
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
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
