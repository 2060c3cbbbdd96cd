//! Does what was decided, in its order. Whatever is interrupted is decided anew.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assay_api::TuningTrial;
use assay_api::names::{EXPERIMENT_LABEL, MANAGER, NODE_GATE};
use assay_core::attempt::pass;
use assay_core::cluster;
use assay_core::decide::Places;
use assay_core::plan::Plan;
use assay_protocol::TrialId;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tracing::info;

use super::decide::Action;
use super::{RETRY, STARTS};
use crate::error::{Error, call};
use crate::experiment::ended::{self, Gate};
use crate::experiment::observe::{Observed, UnderWay};
use crate::experiment::share::{Taken, Untaken};
use crate::experiment::trial::Trial;
use crate::experiment::{
    AT_MOST, Reconcile, agent, all, claims, forced, is_left_over, node_lease, provision, share, trial_status, turn,
};
use crate::object;
use crate::pod::{is_owned, owner};

/// What came of the actions.
#[derive(Default)]
pub struct Applied {
    /// Nodes on which something begins.
    pub begun: BTreeSet<String>,
    /// Why the API server would not have an object.
    pub refused: Option<String>,
    /// That others have a node, which was not known before.
    pub held: Option<String>,
    /// That its namespace has as many nodes as it may have.
    pub limited: Option<String>,
}

pub async fn apply(
    reconcile: &Reconcile<'_>,
    places: &Places<'_>,
    observed: &mut Observed,
    mut actions: Vec<Action>,
) -> Result<Applied, Error> {
    let begins = |action: &Action| matches!(action, Action::Open(_) | Action::Run { .. } | Action::GiveUp { .. });
    // What is given back first may be what others wait for.
    let mut begin = actions.extract_if(.., |action| begins(action)).collect::<Vec<_>>();
    if begin.is_empty() {
        reconcile.memory().is_limited = false;
    }
    let is_more = begin.len() > AT_MOST;
    if is_more {
        let memory = &mut *reconcile.memory();
        memory.served = in_turn(&mut begin, memory.served.as_deref());
    }
    let mut applied = Applied::default();
    let mut given_up = Vec::new();
    for actions in [actions, begin] {
        let acts = actions.into_iter().map(|action| act(reconcile, places, observed, action));
        for done in all(acts).await? {
            match done {
                Done::Nothing => {}
                Done::Begun(node) => drop(applied.begun.insert(node)),
                Done::Refused(why) => applied.refused = Some(refused(reconcile, why)),
                Done::Held(why) => applied.held = applied.held.or(Some(why)),
                Done::Limited => applied.limited = Some(share::why(reconcile)),
                Done::GivenUp(trial, number) => given_up.push((trial, number)),
            }
        }
    }
    // Where none of these could begin, the others can't either, or somebody has to give back a node first.
    if (is_more && !applied.begun.is_empty()) || !given_up.is_empty() {
        reconcile.wake_in(Duration::ZERO);
    }
    if !given_up.is_empty() {
        give_up(reconcile, places, observed, given_up).await?;
    }
    Ok(applied)
}

/// Leaves as many as are begun at once; the answer is whose turn was the last.
fn in_turn(begin: &mut Vec<Action>, served: Option<&str>) -> Option<String> {
    begin.sort_by_cached_key(|action| turn(action.node().unwrap_or_default(), served));
    begin.truncate(AT_MOST);
    begin.last().and_then(Action::node).map(ToOwned::to_owned)
}

/// What came of an action.
enum Done {
    Nothing,
    /// Something begins on this node, at once or as soon as it is prepared.
    Begun(String),
    /// The API server would not have an object.
    Refused(String),
    /// Others have the node, which was not known before.
    Held(String),
    /// Its namespace has as many nodes as it may have.
    Limited,
    /// Nothing is run in the place of this attempt of a trial.
    GivenUp(Arc<Trial>, u32),
}

async fn act(
    reconcile: &Reconcile<'_>,
    places: &Places<'_>,
    observed: &Observed,
    action: Action,
) -> Result<Done, Error> {
    match action {
        // While it is there, nothing begins: whoever needs the claim again would get what is in it.
        Action::RemoveClaim(claim) => claims::remove(reconcile, &claim).await?,
        Action::Yield(node) => {
            node_lease::hand_over(reconcile, &node).await?;
            reconcile.memory().yielded.insert(node, reconcile.instant());
        }
        Action::Hold(node) => drop(node_lease::hold(reconcile, &node).await?),
        Action::Release(node) => node_lease::release(reconcile, &node).await?,
        Action::Open(node) => {
            let is_free = |found: &&UnderWay| found.node() == node && ended::gate(&found.pod) == Some(Gate::Node);
            let Some(found) = observed.under_way.iter().find(is_free) else { return Ok(Done::Nothing) };
            let _taken = match take(reconcile, &node).await? {
                Ok(taken) => taken,
                Err(other) => return Ok(other),
            };
            return open(reconcile, found, &node).await;
        }
        Action::Run { node, block, slot, trial } => {
            // Whoever else of us wants it meanwhile waits until the pod is made: of two leaders, the other one may have given it away.
            let _taken = match take(reconcile, &node).await? {
                Ok(taken) => taken,
                Err(other) => return Ok(other),
            };
            // Boxed, since every reconcile would have to hold it and few begin anything.
            let done = Box::pin(run(reconcile, places.plan(), observed, (block, slot), &trial, &node)).await?;
            if let Done::Refused(_) = done {
                // Others may have more luck with it meanwhile.
                node_lease::release(reconcile, &node).await?;
            }
            return Ok(done);
        }
        Action::Provision if !share::may_ask(reconcile) => return Ok(Done::Limited),
        Action::Provision => return Ok(provision::ask(reconcile).await?.map_or(Done::Nothing, Done::Refused)),
        Action::Unprovision => provision::end(reconcile).await,
        Action::GiveUp { node, block, trial } => {
            let plan = places.plan();
            return Ok(match make_trial(reconcile, plan, observed, &trial, plan.blocks[block].seed, &node).await? {
                Ok(object) => Done::GivenUp(object, trial.attempt),
                Err(why) => Done::Refused(why),
            });
        }
    }
    Ok(Done::Nothing)
}

/// Takes a node, or gets in line for it and says what stands in the way.
async fn take<'a>(reconcile: &Reconcile<'a>, node: &str) -> Result<Result<Taken<'a>, Done>, Error> {
    let other = match share::take(reconcile, node) {
        Ok(taken) => match node_lease::take(reconcile, node).await? {
            None => return Ok(Ok(taken)),
            Some(other) => other,
        },
        Err(Untaken::Limited) => return Ok(Err(Done::Limited)),
        Err(Untaken::Taken(other)) => {
            reconcile.wake_in(node_lease::AGAIN);
            other
        }
    };
    reconcile.memory().waits_for.insert(node);
    Ok(Err(Done::Held(format!("{node} is held by {other}"))))
}

/// Lets the pod on a node run whose queue has let it go.
async fn open(reconcile: &Reconcile<'_>, found: &UnderWay, node: &str) -> Result<Done, Error> {
    if !agent::is_prepared(reconcile, &found.trial, found.attempt).await? {
        return Ok(Done::Begun(node.to_owned()));
    }
    if !reconcile.may_begin() {
        return Ok(Done::Nothing);
    }
    // Of this very pod, and whatever gates others have put there meanwhile.
    let gate = json!({"$patch": "delete", "name": NODE_GATE});
    let change = json!({"metadata": {"uid": found.pod.metadata.uid}, "spec": {"schedulingGates": [gate]}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let pod = found.pod.name_any();
    match call(reconcile.api::<Pod>().patch(&pod, &params, &Patch::Strategic(&change))).await {
        Ok(opened) => {
            // Its node would be given back, were it suspended before the watch tells.
            reconcile.memory().pods.changed(opened, reconcile.instant());
            info!(pod, node, "left its queue and got its node");
            Ok(Done::Begun(node.to_owned()))
        }
        // Somebody has removed it.
        Err(error) if error.is_not_found() => Ok(Done::Nothing),
        Err(error) if error.is_refusal() || error.is_conflict() => Ok(Done::Refused(error.message())),
        Err(error) => Err(error),
    }
}

/// Remembers that the API server would not have an object of this experiment.
fn refused(reconcile: &Reconcile<'_>, why: String) -> String {
    reconcile.memory().refused = Some((reconcile.instant(), why.clone()));
    reconcile.wake_in(RETRY);
    why
}

/// Runs an attempt: its trial, the volume of its block, its pod.
async fn run(
    reconcile: &Reconcile<'_>,
    plan: &Plan,
    observed: &Observed,
    (block, slot): (usize, usize),
    trial: &TrialId,
    node: &str,
) -> Result<Done, Error> {
    let planned = &plan.blocks[block];
    let spec = plan.trial_spec(planned, slot, trial.attempt).map_err(|error| Error::Unexpected(error.to_string()))?;
    let object = match make_trial(reconcile, plan, observed, trial, planned.seed, node).await? {
        Ok(object) => object,
        Err(why) => return Ok(Done::Refused(why)),
    };
    let claim = cluster::claim_name(&reconcile.name, &trial.scenario, trial.block, pass(trial.attempt));
    if let Some(made) = reconcile.template().claim(&claim)
        && !claims::known(reconcile).contains(&claim)
    {
        let api = reconcile.api::<PersistentVolumeClaim>();
        let made = match call(api.create(&created(), &made?)).await {
            Ok(made) => made,
            // By ourselves, before an answer was lost.
            Err(error) if error.is_conflict() => match object::find(&api, &claim).await? {
                Some(there)
                    if is_owned(&there, reconcile.experiment) && there.metadata.deletion_timestamp.is_none() =>
                {
                    there
                }
                None if !error.is_already_there() => return Ok(Done::Refused(error.message())),
                there => {
                    reconcile.make_room(there.as_ref(), reconcile.experiment).await?;
                    return Ok(Done::Refused(format!(
                        "waiting for volume {claim} of an earlier experiment to be deleted"
                    )));
                }
            },
            Err(error) if error.is_refusal() => return Ok(Done::Refused(error.message())),
            Err(error) => return Err(error),
        };
        claims::made(reconcile, made);
    }
    // In a queue nobody knows when it will begin.
    if !reconcile.template().is_queued() && !agent::is_prepared(reconcile, &object, trial.attempt).await? {
        return Ok(Done::Begun(node.to_owned()));
    }
    // Somebody may have taken the node, or have begun there, while its objects were made.
    if let Some(other) = node_lease::other_holder(reconcile, node).or_else(|| node_lease::other_user(reconcile, node)) {
        reconcile.wake_in(node_lease::AGAIN);
        return Ok(Done::Held(format!("{node} is used by {other}")));
    }
    if !reconcile.may_begin() {
        return Ok(Done::Nothing);
    }
    let pod = reconcile.template().trial(&object, trial.attempt, &serde_json::to_string(&spec)?)?;
    let name = pod.name_any();
    // Until an answer says whether it is there: by then something else may be next on its node.
    reconcile.memory().unanswered.insert(name.clone());
    let refused = make_pod(reconcile, &object, &pod).await?;
    reconcile.memory().unanswered.remove(&name);
    if let Some(why) = refused {
        return Ok(Done::Refused(why));
    }
    info!(trial = object.name_any(), attempt = trial.attempt, node, "started");
    // Its watch tells nothing of a pod that is late and does not say why.
    reconcile.wake_in(STARTS);
    Ok(Done::Begun(node.to_owned()))
}

/// Makes the pod of an attempt, or says why there is none.
async fn make_pod(reconcile: &Reconcile<'_>, trial: &TuningTrial, pod: &Pod) -> Result<Option<String>, Error> {
    let api = reconcile.api::<Pod>();
    let made = match call(api.create(&created(), pod)).await {
        Ok(made) => made,
        // By ourselves, before we were interrupted, or before an answer was lost. A quota refuses one that is there, too.
        Err(error) if error.is_conflict() || error.is_refusal() => match call(api.get_opt(&pod.name_any())).await? {
            Some(there) if is_owned(&there, trial) && there.metadata.deletion_timestamp.is_none() => there,
            None if !error.is_already_there() => return Ok(Some(error.message())),
            there => {
                reconcile.make_room(there.as_ref(), trial).await?;
                return Ok(Some(format!("waiting for {} of an earlier try to be deleted", pod.name_any())));
            }
        },
        Err(error) => return Err(error),
    };
    reconcile.memory().pods.created(made, reconcile.instant());
    Ok(None)
}

/// The object of a trial, which says where it runs from now on, or why there is none: the API server refuses it, or one of its name
/// is there that is not ours, whose attempts must not be taken for this one's.
async fn make_trial(
    reconcile: &Reconcile<'_>,
    plan: &Plan,
    observed: &Observed,
    trial: &TrialId,
    seed: u64,
    node: &str,
) -> Result<Result<Arc<Trial>, String>, Error> {
    let name = cluster::trial_name(&reconcile.name, trial);
    let spec = cluster::spec(plan, trial, seed, node);
    let known = observed.trials.get(&name);
    if let Some(known) = known.filter(|known| known.spec == spec) {
        return Ok(Ok(Arc::clone(known)));
    }
    let mut object = TuningTrial::new(&name, spec);
    object.metadata = ObjectMeta {
        name: Some(name.clone()),
        uid: known.and_then(|known| known.metadata.uid.clone()),
        labels: Some([(EXPERIMENT_LABEL.to_owned(), reconcile.name.clone())].into()),
        owner_references: Some(vec![owner(reconcile.experiment)]),
        ..ObjectMeta::default()
    };
    let api = reconcile.api::<TuningTrial>();
    let written = if known.is_some() {
        call(api.patch(&name, &forced(), &Patch::Apply(&object))).await
    } else {
        match call(api.create(&created(), &object)).await {
            Err(error) if error.is_conflict() => match call(api.get_opt(&name)).await? {
                Some(there) if is_owned(&there, reconcile.experiment) => {
                    if there.spec == object.spec {
                        Ok(there)
                    } else {
                        // By another leader, for another node.
                        object.metadata.uid = there.metadata.uid;
                        call(api.patch(&name, &forced(), &Patch::Apply(&object))).await
                    }
                }
                Some(there) if is_left_over(&there, reconcile.experiment) => {
                    reconcile.make_room(Some(&there), reconcile.experiment).await?;
                    call(api.create(&created(), &object)).await
                }
                None if !error.is_already_there() => return Ok(Err(error.message())),
                _ => return Ok(Err(format!("trial {name} already exists and is not this experiment's: delete it"))),
            },
            made => made,
        }
    };
    if written.is_err() {
        // There may be another one of it than is known, or none.
        reconcile.memory().unsure.insert(name);
    }
    match written {
        Err(error) if error.is_refusal() => Ok(Err(error.message())),
        written => Ok(Ok(reconcile.memory().trials.wrote(written?, reconcile.instant()))),
    }
}

fn created() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// Notes that nothing is run in the place of these attempts.
async fn give_up(
    reconcile: &Reconcile<'_>,
    places: &Places<'_>,
    observed: &mut Observed,
    given_up: Vec<(Arc<Trial>, u32)>,
) -> Result<(), Error> {
    let mut attempts = places.attempts().to_vec();
    let mut ended = Vec::new();
    for (trial, number) in given_up {
        let status = trial_status::given_up(number, reconcile.now);
        let attempt = trial_status::attempt(&trial, &status)?;
        attempts.push(attempt.clone());
        ended.push((trial.name_any(), attempt, status));
        observed.trials.insert(trial.name_any(), trial);
    }
    trial_status::end_attempts(reconcile, &reconcile.places(places.plan(), &attempts)?, observed, ended).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_turn() {
        let all = || (0..=2 * AT_MOST).map(|number| Action::Open(format!("n{number:03}"))).collect::<Vec<_>>();
        let mut served: Option<String> = None;
        let mut next = || {
            let mut begin = all();
            served = in_turn(&mut begin, served.as_deref());
            begin
        };
        let (first, second, third) = (next(), next(), next());
        assert_eq!(first, all()[..AT_MOST]);
        assert_eq!(second, all()[AT_MOST..2 * AT_MOST]);
        assert_eq!(third, [&all()[2 * AT_MOST..], &all()[..AT_MOST - 1]].concat());
    }
}
