//! What is next on each node, and the objects that bring it about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_api::TuningTrial;
use assay_api::names::{EXPERIMENT_LABEL, MANAGER, TRIAL_LABEL};
use assay_core::cluster;
use assay_core::decide::fleet::{self, Begun, Node, NodeState};
use assay_core::decide::{Action, Places, pass};
use assay_core::node::{self, Needs};
use assay_core::plan::Plan;
use assay_record::TrialId;
use k8s_openapi::api::core::v1::{self, PersistentVolumeClaim, Pod};
use kube::api::{ObjectMeta, Patch, PostParams};
use kube::{Resource, ResourceExt as _};
use tracing::info;

use super::agent;
use super::claims;
use super::ended;
use super::node_lease;
use super::observe::Observed;
use super::settle::State;
use super::tell;
use super::{Round, apply, is_left_over};
use crate::error::{Error, call};
use crate::pod::owner;
use crate::watch::locked;

/// After a pod could not be made: a quota may be raised.
const RETRY: Duration = Duration::from_secs(5);

/// How long a node that was given back is left to others.
const YIELD: Duration = Duration::from_secs(3);

/// How long a pod usually takes to start, and nobody need hear of it.
const STARTS: Duration = Duration::from_secs(10);

/// What came of an attempt that was to begin.
enum Begins {
    Now,
    /// As soon as its node is prepared.
    Soon,
    /// Its pod could not be made.
    Not(String),
}

pub async fn advance(round: &mut Round<'_>, plan: &Plan, observed: &mut Observed) -> Result<State, Error> {
    claims::list(round).await?;
    let busy: BTreeSet<String> = observed.on_nodes(round).map(|found| found.trial.spec.node.clone()).collect();
    let begun = begun(round, plan, observed);
    let (nodes, why_not) = nodes(round).await;
    let unfit = |error: assay_core::decide::Unplanned| Error::Unexpected(error.to_string());
    let places = Places::new(plan, &observed.attempts).map_err(unfit)?;
    end_blocks(round, plan, &places, &begun, &busy).await?;
    if places.is_complete() && busy.is_empty() {
        return Ok(State::Finished);
    }
    for node in &busy {
        // What runs is never abandoned for a lease; the record says whether somebody else was there.
        node_lease::hold(round, node).await?;
    }
    if round.is_suspended() {
        for node in node_lease::held(round).iter().filter(|node| !busy.contains(*node)) {
            node_lease::release(round, node).await?;
        }
        return Ok(State::Suspended { running: busy.len() });
    }
    let now = round.now.as_millisecond().max(0) as u64;
    let steps = fleet::next(&places, &begun, &nodes, now);
    drop(places);
    let mut running = busy.clone();
    // The Lease of a node that is taken and given back wakes everybody who waits for it, ourselves included.
    let mut not_made = lately_refused(round);
    let steps = if not_made.is_some() { Vec::new() } else { steps };
    for step in steps.into_iter().filter(|step| !busy.contains(&step.node)) {
        match step.action {
            Action::Run { block, slot, trial } => {
                if !node_lease::hold(round, &step.node).await? {
                    node_lease::wait_for(round, &step.node, true);
                    continue;
                }
                node_lease::wait_for(round, &step.node, false);
                // Boxed, since every look would have to hold it and few begin anything.
                match Box::pin(run(round, plan, observed, (block, slot), &trial, &step.node)).await? {
                    Begins::Now | Begins::Soon => drop(running.insert(step.node)),
                    Begins::Not(why) => {
                        // Others may have more luck with it meanwhile.
                        node_lease::release(round, &step.node).await?;
                        not_made = Some(refused(round, why));
                    }
                }
            }
            Action::GiveUp { block, trial, .. } => {
                match give_up(round, plan, observed, block, &trial, &step.node).await? {
                    Ok(()) => round.wake_in(Duration::ZERO),
                    Err(why) => not_made = Some(refused(round, why)),
                }
            }
            Action::Finished => {}
        }
    }
    if running == busy
        && let Some(state) = pending(round, observed)
    {
        return Ok(state);
    }
    Ok(match (not_made, running.is_empty()) {
        (Some(why), true) => State::Waiting { reason: "PodRefused", message: why },
        (_, true) if nodes.iter().all(|node| node.state != NodeState::Usable) => {
            State::Waiting { reason: why_not.0, message: why_not.1 }
        }
        _ => State::Running { nodes: running.into_iter().collect() },
    })
}

/// Remembers that the API server would not have an object of this experiment.
fn refused(round: &mut Round<'_>, why: String) -> String {
    locked(&round.context.refused).insert(round.uid.clone(), (Instant::now(), why.clone()));
    round.wake_in(RETRY);
    why
}

/// Why nothing is begun for a moment yet.
fn lately_refused(round: &mut Round<'_>) -> Option<String> {
    let (at, why) = locked(&round.context.refused).get(&round.uid).cloned()?;
    let left = RETRY.checked_sub(at.elapsed())?;
    round.wake_in(left + Duration::from_millis(1));
    Some(why)
}

/// Keeps the nodes on which something runs, whatever else there is to do for an experiment, and however long that takes.
pub async fn keep_nodes(round: &mut Round<'_>) -> Result<(), Error> {
    let trials = round.context.trials.of(&round.namespace, &round.uid);
    let pods = round.context.pods.of(&round.namespace, &round.name).present;
    let running = pods.values().filter(|pod| ended::ended(pod).is_none());
    let nodes: BTreeSet<&str> =
        running.filter_map(|pod| Some(trials.get(pod.labels().get(TRIAL_LABEL)?)?.spec.node.as_str())).collect();
    for node in nodes {
        node_lease::hold(round, node).await?;
    }
    Ok(())
}

/// What all pods wait for, where none of them has started.
fn pending(round: &mut Round<'_>, observed: &Observed) -> Option<State> {
    let mut waiting = None;
    for found in &observed.under_way {
        let why = ended::why_waiting(&found.pod)?;
        let message = format!("{}: {why}", found.pod.name_any());
        if ended::is_gated(&found.pod) {
            waiting = Some(State::Waiting { reason: "Queued", message });
            continue;
        }
        let age = found.pod.creation_timestamp().map_or(Duration::ZERO, |since| round.since(since.0));
        if age < STARTS {
            round.wake_in(STARTS.saturating_sub(age) + Duration::from_secs(1));
            return None;
        }
        waiting = Some(State::Waiting { reason: "PodPending", message });
    }
    waiting
}

/// Where blocks are that have begun, by their position in the plan.
fn begun(round: &Round<'_>, plan: &Plan, observed: &Observed) -> BTreeMap<usize, Begun> {
    let position: BTreeMap<(&str, u32), usize> =
        plan.blocks.iter().enumerate().map(|(at, block)| ((block.scenario.as_str(), block.number), at)).collect();
    let at = |trial: &TuningTrial| position.get(&(trial.spec.scenario.as_str(), trial.spec.block)).copied();
    let mut begun: BTreeMap<usize, (i64, Begun)> = BTreeMap::new();
    for trial in observed.trials.values() {
        let Some(block) = at(trial) else { continue };
        let mut place = |rank: i64, node: &str| {
            if begun.get(&block).is_none_or(|(known, _)| *known <= rank) {
                begun.insert(block, (rank, Begun { node: node.to_owned(), running: false }));
            }
        };
        // A trial without an attempt was only planned there; the latest pass says where the block is.
        place(-1, &trial.spec.node);
        for told in trial.status.iter().flat_map(|status| &status.attempts) {
            if let Some(node) = &told.node {
                place(i64::from(pass(told.attempt)), node);
            }
        }
    }
    let mut begun: BTreeMap<usize, Begun> = begun.into_iter().map(|(block, (_, at))| (block, at)).collect();
    for found in observed.on_nodes(round) {
        if let Some(block) = at(&found.trial) {
            begun.insert(block, Begun { node: found.trial.spec.node.clone(), running: true });
        }
    }
    begun
}

/// Every node as this experiment may use it, and why it may not use those that it may not, in a word and in sentences.
async fn nodes(round: &mut Round<'_>) -> (Vec<Node>, (&'static str, String)) {
    let context = round.context;
    let placement = &round.experiment.spec.placement;
    let needs = Needs::new(placement, Duration::from_secs(context.args.node_lost_seconds.into()));
    let mut known = context.nodes.state();
    known.sort_by_key(|node| node.name_any());
    let fits = |node: &&v1::Node| node::judge(node, &needs, context.silent_for(node, round.now)).0 == NodeState::Usable;
    context.kubelets.ask(known.iter().map(|node| &**node).filter(fits)).await;
    let (mut nodes, mut busy, mut others) = (Vec::new(), Vec::new(), Vec::new());
    // To wait in line is as it should be: nobody has to do anything.
    let mut reason = "WaitingForNode";
    for node in known {
        let name = node.name_any();
        let silent = context.silent_for(&node, round.now);
        let (mut state, mut why) = node::judge(&node, &needs, silent);
        let policy = node::policy_problem(context.kubelets.cpu_manager_policy(&name).as_deref());
        if state == NodeState::Usable && policy.is_some() {
            (state, why) = (NodeState::Gone, policy);
        }
        if let Some(silent) = silent.filter(|silent| *silent < needs.patience) {
            round.wake_in(needs.patience.saturating_sub(silent) + Duration::from_secs(1));
        }
        let holder = node_lease::other_holder(round, &name).map(|holder| format!("is held by {holder}"));
        if state == NodeState::Usable
            && let Some(held) = holder.or_else(|| has_yielded(round, &name))
        {
            (state, why) = (NodeState::Busy, Some(held));
            reason = "NodeHeld";
            node_lease::wait_for(round, &name, true);
            round.wake_in(Duration::from_secs(30));
        }
        if let Some(why) = why {
            let of_its_kind = if state == NodeState::Busy { &mut busy } else { &mut others };
            of_its_kind.push(format!("{name} {why}"));
        }
        nodes.push(Node { boot: node::boot(&node), name, state });
    }
    (nodes, (reason, tell_why_not(busy, others)))
}

/// Whoever waits for a node is woken by the same news as we who have just given it back.
fn has_yielded(round: &mut Round<'_>, node: &str) -> Option<String> {
    let at = *locked(&round.context.yielded).get(&(round.uid.clone(), node.to_owned()))?;
    let left = YIELD.checked_sub(at.elapsed()).filter(|_| node_lease::is_wanted(round, node))?;
    round.wake_in(left + Duration::from_millis(1));
    Some("was given back for others who wait for it".to_owned())
}

/// Those that will be free again come first: of many nodes not all are named.
fn tell_why_not(busy: Vec<String>, others: Vec<String>) -> String {
    const NAMED: usize = 8;
    match &[busy, others].concat()[..] {
        [] => "the cluster has no node that trials may run on".to_owned(),
        many if many.len() > NAMED => format!("{}; and {} more nodes", many[..NAMED].join("; "), many.len() - NAMED),
        few => few.join("; "),
    }
}

/// What blocks leave behind that need nothing any more: their volumes, and their nodes where somebody waits for them.
async fn end_blocks(
    round: &mut Round<'_>,
    plan: &Plan,
    places: &Places<'_>,
    begun: &BTreeMap<usize, Begun>,
    busy: &BTreeSet<String>,
) -> Result<(), Error> {
    let mut in_use: BTreeSet<&str> = busy.iter().map(String::as_str).collect();
    let mut wanted = BTreeSet::new();
    for (&block, at) in begun {
        let (planned, state) = (&plan.blocks[block], &places.blocks()[block]);
        if at.running || !(state.is_closed() || places.is_complete()) {
            in_use.insert(&at.node);
            // The next pass may have begun already: it shows in no attempt before one has ended.
            for number in [state.pass, state.pass + 1] {
                wanted.insert(cluster::claim_name(&round.name, &planned.scenario, planned.number, number));
            }
        }
    }
    for claim in claims::known(round).into_iter().filter(|claim| !wanted.contains(claim)) {
        claims::remove(round, &claim).await?;
    }
    for node in node_lease::held(round).iter().filter(|node| !in_use.contains(node.as_str())) {
        if places.is_complete() || node_lease::is_wanted(round, node) {
            node_lease::release(round, node).await?;
            // The others come first: this experiment gets in line.
            locked(&round.context.yielded).insert((round.uid.clone(), node.clone()), Instant::now());
            round.wake_in(YIELD);
        }
    }
    Ok(())
}

/// Runs an attempt: its trial, the volume of its block, its pod.
async fn run(
    round: &mut Round<'_>,
    plan: &Plan,
    observed: &mut Observed,
    (block, slot): (usize, usize),
    trial: &TrialId,
    node: &str,
) -> Result<Begins, Error> {
    let context = round.context;
    let planned = &plan.blocks[block];
    let spec = plan.trial_spec(planned, slot, trial.attempt).map_err(|error| Error::Unexpected(error.to_string()))?;
    let object = match make_trial(round, plan, observed, trial, planned.seed, node).await? {
        Ok(object) => object,
        Err(why) => return Ok(Begins::Not(why)),
    };
    let claim = cluster::claim_name(&round.name, &trial.scenario, trial.block, pass(trial.attempt));
    if let Some(made) = round.template().claim(&claim)
        && !claims::known(round).contains(&claim)
    {
        let api = context.api::<PersistentVolumeClaim>(&round.namespace);
        match call(api.create(&created(), &made?)).await {
            Ok(_) => {}
            // By ourselves, before an answer was lost.
            Err(error) if error.is_conflict() => match claims::find(round, &claim).await? {
                Some(there) if is_owned(&there, round.experiment) && there.metadata.deletion_timestamp.is_none() => {}
                there => {
                    round.make_room(there.as_ref(), round.experiment).await?;
                    return Ok(Begins::Not(format!("volume {claim} of an earlier experiment is not gone yet")));
                }
            },
            Err(error) if error.is_refusal() => return Ok(Begins::Not(error.message())),
            Err(error) => return Err(error),
        }
        locked(&context.claims).entry(round.uid.clone()).or_default().insert(claim);
    }
    if !agent::is_prepared(round, &object, trial.attempt).await? {
        return Ok(Begins::Soon);
    }
    let pod = round.template().trial(&object, trial.attempt, &serde_json::to_string(&spec)?)?;
    let api = context.api::<Pod>(&round.namespace);
    match call(api.create(&created(), &pod)).await {
        Ok(pod) => {
            info!(trial = object.name_any(), attempt = trial.attempt, node, "begins");
            context.pods.created(pod);
        }
        // By ourselves, before we were interrupted, or before an answer was lost.
        Err(error) if error.is_conflict() => match call(api.get_opt(&pod.name_any())).await? {
            Some(there) if is_owned(&there, &*object) && there.metadata.deletion_timestamp.is_none() => {
                context.pods.created(there);
            }
            there => {
                round.make_room(there.as_ref(), &*object).await?;
                return Ok(Begins::Not(format!("{} of an earlier try is not gone yet", pod.name_any())));
            }
        },
        Err(error) if error.is_refusal() => return Ok(Begins::Not(error.message())),
        Err(error) => return Err(error),
    }
    Ok(Begins::Now)
}

/// The object of a trial, which says where it runs from now on, or why there is none: the API server refuses it, or one of its name
/// is there that is not ours, whose attempts must not be taken for this one's.
async fn make_trial(
    round: &Round<'_>,
    plan: &Plan,
    observed: &mut Observed,
    trial: &TrialId,
    seed: u64,
    node: &str,
) -> Result<Result<Arc<TuningTrial>, String>, Error> {
    let name = cluster::trial_name(&round.name, trial);
    let spec = cluster::spec(plan, trial, seed, node);
    let known = observed.trials.get(&name);
    if let Some(known) = known.filter(|known| known.spec == spec) {
        return Ok(Ok(Arc::clone(known)));
    }
    let mut object = TuningTrial::new(&name, spec);
    object.metadata = ObjectMeta {
        name: Some(name.clone()),
        uid: known.and_then(|known| known.metadata.uid.clone()),
        labels: Some([(EXPERIMENT_LABEL.to_owned(), round.name.clone())].into()),
        owner_references: Some(vec![owner(round.experiment)]),
        ..ObjectMeta::default()
    };
    let api = round.context.api::<TuningTrial>(&round.namespace);
    let written = if known.is_some() {
        call(api.patch(&name, &apply(), &Patch::Apply(&object))).await
    } else {
        match call(api.create(&created(), &object)).await {
            Err(error) if error.is_conflict() => match call(api.get_opt(&name)).await? {
                Some(there) if is_owned(&there, round.experiment) => Ok(there),
                Some(there) if is_left_over(&there, round.experiment) => {
                    round.make_room(Some(&there), round.experiment).await?;
                    call(api.create(&created(), &object)).await
                }
                _ => return Ok(Err(format!("trial {name} is there already and not of this experiment: delete it"))),
            },
            made => made,
        }
    };
    let written = match written {
        Err(error) if error.is_refusal() => return Ok(Err(error.message())),
        written => round.context.trials.wrote(written?),
    };
    observed.trials.insert(name, Arc::clone(&written));
    Ok(Ok(written))
}

fn is_owned<K: Resource, O: Resource>(object: &K, owner: &O) -> bool {
    object.owner_references().iter().any(|known| Some(&known.uid) == owner.meta().uid.as_ref())
}

fn created() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// Notes that nothing is run in a trial's place.
async fn give_up(
    round: &Round<'_>,
    plan: &Plan,
    observed: &mut Observed,
    block: usize,
    trial: &TrialId,
    node: &str,
) -> Result<Result<(), String>, Error> {
    Ok(match make_trial(round, plan, observed, trial, plan.blocks[block].seed, node).await? {
        Ok(object) => {
            tell::tell(round, plan, observed, &object, tell::given_up(trial.attempt, round.now)).await?;
            Ok(())
        }
        Err(why) => Err(why),
    })
}

#[cfg(test)]
mod tests {
    use super::tell_why_not;

    #[test]
    fn nodes_that_will_be_free_again_are_named_before_others() {
        let small = |count| (0..count).map(|node| format!("n{node} is too small")).collect();
        let held = || vec!["z is held by b/other".to_owned()];
        assert_eq!(tell_why_not(held(), small(1)), "z is held by b/other; n0 is too small");
        let told = tell_why_not(held(), small(9));
        assert!(
            told.starts_with("z is held by b/other; n0 ") && told.ends_with("n6 is too small; and 2 more nodes"),
            "{told}"
        );
        assert!(!tell_why_not(held(), small(7)).contains("more nodes"));
        assert!(tell_why_not(Vec::new(), Vec::new()).contains("no node"));
    }
}
