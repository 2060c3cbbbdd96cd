//! Which block runs on which node, and what is next on each.
//!
//! A block begins on a node and stays there, one trial at a time. When the node is gone for good, the block is begun again on
//! another one, as after a reboot: runs of two machines are never compared.

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::Digest;

use super::{Action, Places, Wait};
use crate::attempt::Moment;

/// A node as the plan needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    pub name: &'a str,
    /// Digest of its boot id.
    pub boot: Option<&'a Digest>,
    pub state: NodeState,
    /// This experiment has it, and need not ask for it.
    pub is_held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Trials of this experiment may run there.
    Usable,
    /// Not now: it is silent, or somebody else has it.
    Busy,
    /// Not any more: it is gone, closed to new pods, or does not match.
    Gone,
}

/// Where a begun block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    pub node: String,
    /// A trial of it is under way.
    pub running: bool,
    /// No trial of it has run yet.
    pub fresh: bool,
}

/// What is to be done on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub node: String,
    pub action: Action,
}

/// What is next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// At most one of each node.
    pub assignments: Vec<Assignment>,
    /// Something could begin on any node, and none is free for it.
    pub lacks_nodes: bool,
    /// Busy nodes on which blocks would go on.
    pub waits_for: BTreeSet<String>,
    /// Nothing begins on any node before this.
    pub wait: Option<Wait>,
}

/// The next assignment of every node that has nothing to do, first of those that are held. `begun` says where blocks are, by their position in
/// the plan; `nodes` are in the order of their names.
pub fn next(places: &Places<'_>, begun: &BTreeMap<usize, Begun>, nodes: &[Node<'_>], now_unix_ms: u64) -> Next {
    if places.is_over() {
        return Next::default();
    }
    if let Some(wait) = places.wait(now_unix_ms) {
        return Next { wait: Some(wait), ..Next::default() };
    }
    let known = |name: &str| nodes.binary_search_by(|node| node.name.cmp(name)).ok().map(|at| nodes[at]);
    let mut taken: BTreeSet<&str> = begun.values().filter(|at| at.running).map(|at| at.node.as_str()).collect();
    let mut assignments = Vec::new();
    let (mut homeless, mut lacks_nodes, mut waits_for) = (Vec::new(), false, BTreeSet::new());
    for (&block, at) in begun.iter().filter(|(_, at)| !at.running) {
        let node = known(&at.node);
        let state = node.map_or(NodeState::Gone, |node| node.state);
        // Where nothing has run, nothing is lost by going elsewhere.
        if state == NodeState::Gone || (at.fresh && state == NodeState::Busy) {
            homeless.push(block);
            continue;
        }
        let boot = node.and_then(|node| node.boot);
        let Some(action) = places.next_in(block, Moment { unix_ms: now_unix_ms, boot }) else { continue };
        // A node that is busy with others goes on with this block before it begins another.
        if taken.insert(&at.node) && state == NodeState::Usable {
            assignments.push(Assignment { node: at.node.clone(), action });
        }
        if state == NodeState::Busy {
            waits_for.insert(at.node.clone());
        }
    }
    let is_free = |node: &&Node<'_>| node.state == NodeState::Usable && !taken.contains(node.name);
    let (held, others): (Vec<&Node<'_>>, Vec<&Node<'_>>) = nodes.iter().filter(is_free).partition(|node| node.is_held);
    let mut free = held.into_iter().chain(others).peekable();
    let elsewhere = Digest::of(b"another machine");
    let homeless = homeless.into_iter().map(|block| (block, Some(&elsewhere)));
    let unbegun = (0..places.blocks().len()).filter(|block| !begun.contains_key(block)).map(|block| (block, None));
    for (block, boot) in homeless.chain(unbegun) {
        let node = free.peek();
        let boot = boot.or_else(|| node.and_then(|node| node.boot));
        let Some(action) = places.next_in(block, Moment { unix_ms: now_unix_ms, boot }) else { continue };
        let Some(node) = free.next() else {
            lacks_nodes = true;
            break;
        };
        assignments.push(Assignment { node: node.name.to_owned(), action });
    }
    Next { assignments, lacks_nodes, waits_for, wait: None }
}

#[cfg(test)]
mod tests {
    use assay_protocol::TrialId;

    use super::*;
    use crate::attempt::Attempt;
    use crate::gates::testing::{experiment, plan, summary};
    use crate::plan::Plan;

    const NOW: u64 = 1_700_000_000_000;

    /// The next assignments on nodes in these states, which are called n0, n1 and so on.
    fn next(places: &Places<'_>, begun: &BTreeMap<usize, Begun>, states: &[NodeState]) -> Next {
        let names: Vec<String> = (0..states.len()).map(|number| format!("n{number}")).collect();
        let boots: Vec<Digest> = names.iter().map(|name| boot(name)).collect();
        let node = |at: usize| Node { name: &names[at], boot: Some(&boots[at]), state: states[at], is_held: false };
        let mut nodes: Vec<Node<'_>> = (0..states.len()).map(node).collect();
        nodes.sort_by_key(|node| node.name);
        super::next(places, begun, &nodes, NOW)
    }

    fn boot(node: &str) -> Digest {
        Digest::of(format!("boot of {node}").as_bytes())
    }

    fn finished(trial: &TrialId, node: &str) -> Attempt {
        let mut summary = summary(trial);
        summary.parity.boot = Some(boot(node));
        summary.started_unix_ms = NOW;
        Attempt::Finished(summary.into())
    }

    /// Runs everything that is due at once, until nothing is left; the states may change after each round.
    fn run(plan: &Plan, mut states: impl FnMut(usize) -> Vec<NodeState>) -> (Vec<Attempt>, Vec<(String, TrialId)>) {
        let mut attempts = Vec::new();
        let mut ran = Vec::new();
        let mut begun: BTreeMap<usize, Begun> = BTreeMap::new();
        for round in 0..500 {
            let states = states(round);
            let places = Places::new(plan, &attempts).unwrap_or_else(|error| unreachable!("{error}"));
            let assignments = next(&places, &begun, &states).assignments;
            if assignments.is_empty() && states.contains(&NodeState::Usable) {
                return (attempts, ran);
            }
            let mut used = BTreeSet::new();
            for assignment in assignments {
                assert!(used.insert(assignment.node.clone()), "two assignments on {}", assignment.node);
                let Action::Run { block, trial, .. } = assignment.action else {
                    unreachable!("{:?}", assignment.action)
                };
                begun.insert(block, Begun { node: assignment.node.clone(), running: false, fresh: false });
                attempts.push(finished(&trial, &assignment.node));
                ran.push((assignment.node, trial));
            }
        }
        unreachable!("it never ends")
    }

    #[test]
    fn blocks_stay_on_their_node_and_are_spread() {
        let plan = plan(&experiment());
        let (attempts, ran) = run(&plan, |_| vec![NodeState::Usable; 3]);
        assert_eq!(attempts.len(), plan.trials().count());
        let mut of_block: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
        for (node, trial) in &ran {
            of_block.entry(trial.block).or_default().insert(node);
        }
        assert!(of_block.values().all(|nodes| nodes.len() == 1), "{of_block:?}");
        assert_eq!(of_block.values().flatten().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn a_node_that_is_held_is_used_first() {
        let plan = plan(&experiment());
        let places = Places::new(&plan, &[]).expect("places");
        let used = |held: &[&str], busy: &str| -> Vec<String> {
            let state = |name| if name == busy { NodeState::Busy } else { NodeState::Usable };
            let node = |name| Node { name, boot: None, state: state(name), is_held: held.contains(&name) };
            // As many blocks are left as there are nodes that are held.
            let blocks = places.blocks().len();
            let at = |node: &str| Begun { node: node.to_owned(), running: true, fresh: false };
            let begun = (held.len()..blocks).map(|block| (block, at("elsewhere"))).collect();
            let next = super::next(&places, &begun, &["n0", "n1", "n2"].map(node), NOW);
            next.assignments.into_iter().map(|assignment| assignment.node).collect()
        };
        assert_eq!(used(&["n1"], ""), ["n1"]);
        assert_eq!(used(&["n2", "n1"], ""), ["n1", "n2"]);
        assert_eq!(used(&["n1"], "n1"), ["n0"], "it is held, and of no use");
    }

    #[test]
    fn a_silent_node_keeps_its_block_and_a_lost_one_does_not() {
        let plan = plan(&experiment());
        let (busy, _) = run(&plan, |round| {
            vec![if (1..5).contains(&round) { NodeState::Busy } else { NodeState::Usable }, NodeState::Usable]
        });
        assert_eq!(busy.len(), plan.trials().count());
        let (moved, ran) =
            run(&plan, |round| vec![if round > 0 { NodeState::Gone } else { NodeState::Usable }, NodeState::Usable]);
        // One trial ran on the first node before it was lost, and its block was run again as a whole.
        assert_eq!(moved.len(), plan.trials().count() + 1);
        assert_eq!(ran.iter().filter(|(node, _)| node == "n0").count(), 1);
        let again = ran.iter().filter(|(node, trial)| node == "n1" && trial.attempt > 0).count();
        assert_eq!(again, plan.blocks[0].slots.len());
    }

    #[test]
    fn a_node_without_room_gets_nothing() {
        let plan = plan(&experiment());
        let places = Places::new(&plan, &[]).unwrap_or_else(|error| unreachable!("{error}"));
        for state in [NodeState::Busy, NodeState::Gone] {
            let lacking = Next { lacks_nodes: true, ..Next::default() };
            assert_eq!(next(&places, &BTreeMap::new(), &[state]), lacking);
        }
        let running = BTreeMap::from([(0, Begun { node: "n0".to_owned(), running: true, fresh: false })]);
        let lacking = Next { lacks_nodes: true, ..Next::default() };
        assert_eq!(next(&places, &running, &[NodeState::Usable]), lacking);
    }

    #[test]
    fn nodes_are_lacking_while_something_could_begin() {
        let plan = plan(&experiment());
        let places = Places::new(&plan, &[]).unwrap_or_else(|error| unreachable!("{error}"));
        let lacks = |running: usize, states: &[NodeState]| {
            let at = |block: usize| (block, Begun { node: format!("n{block}"), running: true, fresh: false });
            next(&places, &(0..running).map(at).collect(), states).lacks_nodes
        };
        let blocks = plan.blocks.len();
        let (usable, busy) = (vec![NodeState::Usable; blocks], vec![NodeState::Busy; blocks]);
        assert!(!lacks(0, &usable), "each block has its node");
        assert!(lacks(0, &usable[1..]));
        assert!(lacks(blocks - 1, &busy));
        assert!(!lacks(blocks, &busy), "everything runs");
        let begun = BTreeMap::from([(0, Begun { node: "n0".to_owned(), running: false, fresh: false })]);
        let mut states = usable.clone();
        let lacks = |states: &[NodeState]| {
            let next = next(&places, &begun, states);
            (next.lacks_nodes, next.waits_for)
        };
        assert_eq!(lacks(&states), (false, BTreeSet::new()));
        states[0] = NodeState::Busy;
        assert_eq!(lacks(&states), (false, ["n0".to_owned()].into()), "a block waits for its own, and no other");
    }

    #[test]
    fn a_block_in_which_nothing_has_run_is_bound_to_no_node() {
        let plan = plan(&experiment());
        let places = Places::new(&plan, &[]).unwrap_or_else(|error| unreachable!("{error}"));
        let begun = |fresh| BTreeMap::from([(0, Begun { node: "n0".to_owned(), running: false, fresh })]);
        let first = |fresh, states: &[NodeState]| {
            let assigned = next(&places, &begun(fresh), states).assignments.into_iter();
            let of_block = |(node, action)| match action {
                Action::Run { block: 0, trial, .. } => Some((node, trial.attempt)),
                _ => None,
            };
            assigned.map(|Assignment { node, action }| (node, action)).find_map(of_block)
        };
        let at = |node: &str| Some((node.to_owned(), 0));
        assert_eq!(first(true, &[NodeState::Busy, NodeState::Usable]), at("n1"));
        assert_eq!(first(true, &[NodeState::Usable, NodeState::Usable]), at("n0"));
        assert_eq!(first(true, &[NodeState::Busy]), None);
        assert_eq!(first(false, &[NodeState::Busy, NodeState::Usable]), None, "it is waited for");
    }

    #[test]
    fn without_a_valid_run_no_node_gets_anything_for_a_while() {
        let plan = plan(&experiment());
        let disturbed = |number: usize| {
            let trial = plan.blocks[number].trial(0, 0).expect("a trial");
            let Attempt::Finished(mut summary) = finished(&trial, "n0") else { unreachable!() };
            std::sync::Arc::make_mut(&mut summary).disturbance.clock_step_seconds = Some(9.0);
            Attempt::Finished(summary)
        };
        let begun = BTreeMap::from([(0, Begun { node: "n0".to_owned(), running: false, fresh: false })]);
        let next = |attempts: usize| {
            let attempts: Vec<Attempt> = (0..attempts).map(disturbed).collect();
            let places = Places::new(&plan, &attempts).expect("places");
            next(&places, &begun, &[NodeState::Usable, NodeState::Busy])
        };
        assert!(next(5).wait.is_none() && !next(5).assignments.is_empty());
        let why = "none of 6 attempts was valid so far (ClockStep 6 times)".to_owned();
        let wait = Some(Wait { until_unix_ms: NOW + 60_000, why });
        assert_eq!(next(6), Next { wait, ..Next::default() });
    }
}
