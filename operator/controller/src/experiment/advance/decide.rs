//! What is to be done, by what was surveyed. Pure: what only a busy cluster shows is a line of a table in the tests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assay_api::Provision;
use assay_core::cluster::claim_name;
use assay_core::decide::fleet::{self, Assignment, Next, Node, NodeState};
use assay_core::decide::{self, Places, Wait};
use assay_core::node;
use assay_core::sweep::child::NOTHING_VALID;
use assay_protocol::TrialId;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::apply::Applied;
use super::survey::{Gated, Seen, Survey};
use super::{STARTS, YIELD};
use crate::experiment::ended::{self, Gate};
use crate::experiment::observe::UnderWay;
use crate::experiment::settle::State;
use crate::experiment::{NAMED, some_of};

/// Whoever holds a node that is waited for may go without a word.
const HELD: Duration = Duration::from_secs(30);
/// How long a pod in a queue keeps its node, which it may need at once.
const IN_QUEUE: Duration = Duration::from_secs(30);
/// So much later a moment is certainly over by our own clock, and by another.
const AFTER: Duration = Duration::from_millis(1);
const WELL_AFTER: Duration = Duration::from_secs(1);

/// What is to be done, in this order.
pub struct Decision {
    pub actions: Vec<Action>,
    /// Nodes that others hold and that it would like to have, in the order of their names.
    pub waits_for: Vec<Arc<str>>,
    /// Nodes where its blocks go on, or where its pods wait to be let run.
    pub bound_to: BTreeSet<String>,
    /// When to decide again if nothing happens before.
    pub wake: Duration,
    pub outlook: Outlook,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Removes the volume of a block that needs it no more.
    RemoveClaim(String),
    /// Gives a node to others that wait for it, and leaves it to them for a moment.
    Yield(String),
    /// Keeps a node.
    Hold(String),
    /// Gives a node back.
    Release(String),
    /// Lets the pod run whose queue has let it go, if its node can be had.
    Open(String),
    /// Runs this trial, if its node can be had: position of the block in the plan, and of the slot in the block.
    Run { node: String, block: usize, slot: usize, trial: TrialId },
    /// Asks an autoscaler for a node.
    Provision,
    /// Asks no more.
    Unprovision,
    /// Notes that nothing is run in a trial's place.
    GiveUp { node: String, block: usize, trial: TrialId },
}

impl Action {
    /// The node that it is about, where it is about one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Yield(node)
            | Self::Hold(node)
            | Self::Release(node)
            | Self::Open(node)
            | Self::Run { node, .. }
            | Self::GiveUp { node, .. } => Some(node),
            Self::RemoveClaim(_) | Self::Provision | Self::Unprovision => None,
        }
    }
}

/// How the experiment stands, as far as that does not depend on what comes of the actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    Finished,
    Suspended,
    Open {
        /// Why the API server would not have an object of it, a moment ago.
        refused: Option<String>,
        /// Why nothing can begin on any node: a word and sentences.
        no_node: Option<(&'static str, String)>,
    },
}

pub fn decide(places: &Places<'_>, survey: &Survey<'_>) -> Decision {
    let mut decision = Decision {
        actions: Vec::new(),
        waits_for: Vec::new(),
        bound_to: BTreeSet::new(),
        wake: Duration::MAX,
        outlook: Outlook::Finished,
    };
    let Idle { yields, kept } = decision.end_blocks(places, survey);
    let (nodes, held, no_node) = decision.judge(survey, &yields);
    if places.is_complete() && survey.busy.is_empty() {
        return decision;
    }
    // What runs is never abandoned for a lease; the record says whether somebody else was there.
    for node in &survey.busy {
        let action = decision.keep(survey, node);
        decision.actions.push(action);
    }
    if survey.is_suspended {
        let idle = survey.held.iter().filter(|held| !survey.busy.contains(&held.node));
        decision.actions.extend(idle.map(|held| Action::Release(held.node.clone())));
        decision.provision(survey, false);
        decision.outlook = Outlook::Suspended;
        return decision;
    }
    // The Lease of a node that is taken and given back wakes those who wait for it, perhaps ourselves.
    let next = if let Some((_, left)) = &survey.refused {
        decision.wake_in(*left + AFTER);
        Next::default()
    } else {
        let now = survey.now.as_millisecond().max(0) as u64;
        fleet::next(places, &survey.begun, &nodes, now)
    };
    if let Some(wait) = &next.wait {
        decision.wait(survey, &yields, wait);
        return decision;
    }
    // Whoever holds more nodes than one that waits gives one up after a block, for nothing if nothing is to be run there.
    decision.waits_for = held;
    decision.waits_for.retain(|node| next.lacks_nodes || next.waits_for.contains(&**node));
    if !decision.waits_for.is_empty() {
        decision.wake_in(HELD);
    }
    // What is only busy will be free, and an autoscaler's node could be that very one.
    let is_none = nodes.iter().all(|node| node.state == NodeState::Gone) && survey.busy.is_empty();
    let asks = decision.provision(survey, is_none && survey.refused.is_none());
    let no_node = asks.map_or(no_node, |waits_for| ("Provisioning", waits_for));
    let assignments = next.assignments.into_iter().filter(|step| !survey.busy.contains(&step.node));
    let assigned: Vec<Action> = assignments.filter_map(action).collect();
    // What is of no use goes on: nobody keeps up its Lease, and others may want it later.
    for node in kept.into_iter().filter(|node| assigned.iter().all(|action| action.node() != Some(node))) {
        decision.give_up(node);
    }
    decision.actions.extend(assigned);
    let refused = survey.refused.as_ref().map(|(why, _)| why.clone());
    let is_usable = nodes.iter().any(|node| node.state == NodeState::Usable);
    decision.outlook = Outlook::Open { refused, no_node: (!is_usable).then_some(no_node) };
    decision
}

/// Nodes that it holds, and on which nothing is under way.
#[derive(Default)]
struct Idle<'a> {
    /// Given up to those who have waited for them.
    yields: BTreeSet<&'a str>,
    /// To be used now or given up.
    kept: BTreeSet<&'a str>,
}

fn action(Assignment { node, action }: Assignment) -> Option<Action> {
    match action {
        decide::Action::Run { block, slot, trial } => Some(Action::Run { node, block, slot, trial }),
        decide::Action::GiveUp { block, trial, .. } => Some(Action::GiveUp { node, block, trial }),
        decide::Action::Wait(_) | decide::Action::Finished => None,
    }
}

impl Decision {
    fn wake_in(&mut self, wait: Duration) {
        self.wake = self.wake.min(wait);
    }

    /// Begins nothing for a while, and gives back every node on which nothing runs.
    fn wait(&mut self, survey: &Survey<'_>, yields: &BTreeSet<&str>, wait: &Wait) {
        let idle = survey.held.iter().map(|held| &held.node);
        let idle = idle.filter(|node| !survey.busy.contains(*node) && !yields.contains(node.as_str()));
        self.actions.extend(idle.cloned().map(Action::Release));
        self.provision(survey, false);
        let until = Timestamp::from_millisecond(i64::try_from(wait.until_unix_ms).unwrap_or(i64::MAX));
        let until = until.unwrap_or(Timestamp::MAX);
        self.wake_in(until.duration_since(survey.now).try_into().unwrap_or_default());
        self.wake += AFTER;
        let message = format!("{}: the next one begins after {until:.0}", wait.why);
        self.outlook = Outlook::Open { refused: None, no_node: Some((NOTHING_VALID, message)) };
    }

    /// What to do with a node that has a pod. Who stands in a queue keeps it from nobody else.
    fn keep(&mut self, survey: &Survey<'_>, node: &str) -> Action {
        match survey.gated.get(node) {
            None => Action::Hold(node.to_owned()),
            Some(Gated::Queue(waited)) if *waited < IN_QUEUE && !survey.is_suspended => {
                self.wake_in(IN_QUEUE.saturating_sub(*waited) + AFTER);
                Action::Hold(node.to_owned())
            }
            Some(Gated::Node) if !survey.is_suspended => Action::Open(node.to_owned()),
            Some(_) => Action::Release(node.to_owned()),
        }
    }

    /// Asks for a node while none can be used, where the experiment says so, and no longer; what it waits for.
    fn provision(&mut self, survey: &Survey<'_>, is_needed: bool) -> Option<String> {
        let is_needed = is_needed && survey.needs.placement.provision == Some(Provision::WhenNeeded);
        match (&survey.placeholder, survey.unprovided) {
            (Some(placeholder), _) if placeholder.has_ended || !is_needed => self.actions.push(Action::Unprovision),
            (None, None) if is_needed => self.actions.push(Action::Provision),
            (None, Some(left)) if is_needed => {
                self.wake_in(left + AFTER);
                return Some(
                    "the node that was brought could not run trials: another one is asked for later".to_owned(),
                );
            }
            _ => {}
        }
        let waits_for = survey.placeholder.as_ref().and_then(|placeholder| placeholder.waits_for.as_deref());
        is_needed.then(|| format!("a node is asked for: {}", waits_for.unwrap_or("its pod starts")))
    }

    /// Every node as this experiment may use it, those that it could use if others did not hold them, and why it may not use those that it
    /// may not, in a word and in sentences.
    fn judge<'a>(
        &mut self,
        survey: &'a Survey<'_>,
        yields: &BTreeSet<&str>,
    ) -> (Vec<Node<'a>>, Vec<Arc<str>>, (&'static str, String)) {
        let (mut nodes, mut busy, mut others) = (Vec::with_capacity(survey.nodes.len()), Vec::new(), Vec::new());
        let held: BTreeSet<&str> = survey.held.iter().map(|held| held.node.as_str()).collect();
        let mut held_by_others = Vec::new();
        // To wait in line is as it should be: nobody has to do anything.
        let mut reason = "WaitingForNode";
        for Seen { known, silent, policy, holder, yielded, full } in &survey.nodes {
            let name = &*known.name;
            let (mut state, mut why) = node::judge(&known.node, &known.room, &survey.needs, *silent);
            let policy = node::policy_problem(policy.as_deref());
            if state == NodeState::Usable && policy.is_some() {
                (state, why) = (NodeState::Gone, policy);
            }
            if let Some(silent) = silent.filter(|silent| *silent < survey.needs.patience) {
                self.wake_in(survey.needs.patience.saturating_sub(silent) + WELL_AFTER);
            }
            if state == NodeState::Usable
                && let Some((left, said)) = full
            {
                (state, why) = (NodeState::Busy, Some(format!("had no room for a trial: {said}")));
                self.wake_in(*left + AFTER);
            }
            let yielded = yielded.or_else(|| yields.contains(name).then_some(YIELD));
            let is_held = state == NodeState::Usable && (holder.is_some() || yielded.is_some());
            if is_held {
                state = NodeState::Busy;
                reason = "NodeHeld";
                held_by_others.push(Arc::clone(&known.name));
                if let (None, Some(left)) = (holder, yielded) {
                    self.wake_in(left + AFTER);
                }
            }
            if is_held || why.is_some() {
                let of_its_kind = if state == NodeState::Busy { &mut busy } else { &mut others };
                // The others only count.
                let is_named = of_its_kind.len() < NAMED;
                let why = || why.unwrap_or_else(|| why_held(holder.as_deref()));
                of_its_kind.push(if is_named { format!("{name} {}", why()) } else { String::new() });
            }
            nodes.push(Node { boot: known.boot.as_ref(), name, state, is_held: held.contains(name) });
        }
        (nodes, held_by_others, (reason, why_no_node(busy, others)))
    }

    fn give_up(&mut self, node: &str) {
        // The others come first: this experiment gets in line.
        self.actions.push(Action::Yield(node.to_owned()));
        self.wake_in(YIELD);
    }

    /// What blocks leave behind that need nothing any more: their volumes, and their nodes where somebody waits for them.
    fn end_blocks<'a>(&mut self, places: &Places<'_>, survey: &'a Survey<'_>) -> Idle<'a> {
        // Asked once: it may look at all blocks.
        let (plan, is_complete) = (places.plan(), places.is_complete());
        let mut in_use: BTreeSet<&str> = survey.busy.iter().map(String::as_str).collect();
        let waiting = survey.gated.iter().filter(|(_, gated)| **gated == Gated::Node);
        self.bound_to.extend(waiting.map(|(node, _)| node.clone()));
        let mut wanted = BTreeSet::new();
        for (&block, at) in &survey.begun {
            let (planned, state) = (&plan.blocks[block], &places.blocks()[block]);
            if at.running || !(state.is_closed() || is_complete) {
                in_use.insert(&at.node);
                if !at.running && !at.fresh {
                    self.bound_to.insert(at.node.clone());
                }
                // The next pass may have begun already: it shows in no attempt before one has ended.
                for number in [state.pass, state.pass + 1] {
                    wanted.insert(claim_name(&plan.experiment.name, &planned.scenario, planned.number, number));
                }
            }
        }
        let unwanted = survey.claims.iter().filter(|claim| !wanted.contains(*claim));
        self.actions.extend(unwanted.cloned().map(Action::RemoveClaim));
        let mut idle = Idle::default();
        for held in survey.held.iter().filter(|held| !in_use.contains(held.node.as_str())) {
            if is_complete || (held.is_owed && !held.is_given) {
                self.give_up(&held.node);
                idle.yields.insert(&held.node);
            } else {
                idle.kept.insert(&held.node);
            }
        }
        idle
    }
}

/// Why a node that would do has to be waited for.
fn why_held(holder: Option<&str>) -> String {
    holder.map_or_else(
        || "was released for other experiments that wait for it".to_owned(),
        |holder| format!("is held by {holder}"),
    )
}

/// Those that will be free again come first.
pub fn why_no_node(busy: Vec<String>, others: Vec<String>) -> String {
    let nodes = [busy, others].concat();
    if nodes.is_empty() { "the cluster has no node for trials".to_owned() } else { some_of(&nodes, "; ") }
}

/// How the experiment stands after what was applied, and when to see again.
pub fn state(outlook: Outlook, survey: &Survey<'_>, applied: Applied, under_way: &[UnderWay]) -> (State, Duration) {
    let (refused, no_node) = match outlook {
        Outlook::Finished => return (State::Finished, Duration::MAX),
        Outlook::Suspended => {
            return (State::Suspended { running: survey.busy.len() - survey.gated.len() }, Duration::MAX);
        }
        Outlook::Open { refused, no_node } => (refused, no_node),
    };
    // Of a node of another pool it hears nothing if it has some itself.
    let mut wake = if applied.limited.is_some() { HELD } else { Duration::MAX };
    if applied.begun.is_empty() {
        match pending(survey, applied.limited.as_deref(), under_way) {
            Pending::All(state) => return (state, wake),
            Pending::MayStart(left) => wake = wake.min(left),
            Pending::No => {}
        }
    }
    if applied.begun.is_empty()
        && !survey.stuck.is_empty()
        && survey.busy.iter().all(|node| survey.stuck.contains_key(node))
    {
        let stuck = survey.stuck.iter().map(|(node, pod)| format!("{pod} was deleted and does not go: see {node}"));
        let message = stuck.collect::<Vec<_>>().join("; ");
        return (State::Waiting { reason: "PodTerminating", message }, wake);
    }
    let running: Vec<String> = survey.busy.union(&applied.begun).cloned().collect();
    let state = match (applied.refused.or(refused), no_node) {
        (Some(message), _) if running.is_empty() => State::Waiting { reason: "PodRefused", message },
        (None, _) if running.is_empty() && applied.limited.is_some() => limited(applied.limited.unwrap_or_default()),
        (_, Some((reason, message))) if running.is_empty() => State::Waiting { reason, message },
        _ if running.is_empty() && applied.held.is_some() => {
            State::Waiting { reason: "NodeHeld", message: applied.held.unwrap_or_default() }
        }
        _ => State::Running { nodes: running },
    };
    (state, wake)
}

/// It is in line for its namespace's share.
fn limited(message: String) -> State {
    State::Waiting { reason: "NodeLimit", message }
}

/// What a pod waits for whose queue has let it go.
fn node_held(survey: &Survey<'_>, node: &str) -> State {
    let holder = survey.nodes.iter().find(|seen| *seen.known.name == *node).and_then(|seen| seen.holder.as_deref());
    let message = format!("{node} is held by {}", holder.unwrap_or("another experiment"));
    State::Waiting { reason: "NodeHeld", message }
}

enum Pending {
    /// What all pods wait for.
    All(State),
    /// One is young enough to start, for this long.
    MayStart(Duration),
    No,
}

/// What all pods wait for, where none of them has started.
fn pending(survey: &Survey<'_>, limit: Option<&str>, under_way: &[UnderWay]) -> Pending {
    let mut pending = Pending::No;
    for found in under_way {
        let Some(why) = ended::why_waiting(&found.pod) else { return Pending::No };
        let message = format!("{}: {why}", found.pod.name_any());
        match ended::gate(&found.pod) {
            Some(Gate::Queue) => {
                pending = Pending::All(State::Waiting { reason: "Queued", message });
                continue;
            }
            Some(Gate::Node) => {
                let held = || node_held(survey, found.node());
                pending = Pending::All(limit.map_or_else(held, |limit| limited(limit.to_owned())));
                continue;
            }
            None => {}
        }
        if found.known_for < STARTS {
            return Pending::MayStart(STARTS.saturating_sub(found.known_for) + WELL_AFTER);
        }
        pending = Pending::All(State::Waiting { reason: "PodPending", message });
    }
    pending
}
