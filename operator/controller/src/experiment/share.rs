//! How many nodes the experiments of a namespace hold at once, where its fence has a limit. Those that want one at the same moment are
//! counted one after the other.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::advance::YIELD;
use super::context::Context;
use super::{Reconcile, node_lease};
use crate::cluster::Cluster;
use crate::fence;
use crate::lock::locked;

/// Nodes that are being taken, each with the namespace and name of the experiment: no Lease says so yet.
#[derive(Default)]
pub struct Taking(Mutex<BTreeSet<(String, String, String)>>);

/// A node that is being taken, until this goes.
pub struct Taken<'a> {
    context: &'a Context,
    of: (String, String, String),
}

/// Why a node is not to be had.
pub enum Untaken {
    /// The namespace has as many as it may have.
    Limited,
    /// This experiment is just taking it: the API server would give it to one of them only. Or it has a pod there.
    Taken(String),
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        locked(&self.context.taking.0).remove(&self.of);
    }
}

/// What the experiments of a namespace may hold.
struct Share {
    most: usize,
    held: BTreeSet<String>,
    /// Others of the namespace wait for one of them, and were given it a moment ago.
    is_left_to_others: bool,
}

impl Share {
    /// Another one, or this one still.
    fn has_room_for(&self, node: &str) -> bool {
        self.held.contains(node) || (self.held.len() < self.most && !self.is_left_to_others)
    }
}

/// How many nodes the experiments of a namespace may hold at once.
pub fn most_of(cluster: &Cluster, namespace: &str) -> Option<usize> {
    fence::of(&cluster.args.fences, namespace).filter_map(|fence| fence.max_nodes).min()
}

fn most(reconcile: &Reconcile<'_>) -> Option<usize> {
    most_of(reconcile.cluster(), &reconcile.namespace)
}

/// What is said where they hold as many.
pub fn why(reconcile: &Reconcile<'_>) -> String {
    let most = most(reconcile).unwrap_or_default();
    let namespace = &reconcile.namespace;
    format!("experiments of {namespace} hold or ask for as many nodes as its fence allows (maxNodes: {most})")
}

/// Begins to take a node, or why it is not to be tried.
pub fn take<'a>(reconcile: &Reconcile<'a>, node: &str) -> Result<Taken<'a>, Untaken> {
    let context = reconcile.context;
    let of = (reconcile.namespace.clone(), reconcile.name.clone(), node.to_owned());
    let mut taking = locked(&context.taking.0);
    let is_others = |taken: &&(String, String, String)| taken.2 == node && (&taken.0, &taken.1) != (&of.0, &of.1);
    if let Some((namespace, name, _)) = taking.iter().find(is_others) {
        return Err(Untaken::Taken(format!("{namespace}/{name}")));
    }
    if let Some(other) = node_lease::other_user(reconcile, node) {
        return Err(Untaken::Taken(other));
    }
    if let Some(most) = most(reconcile) {
        // Said first: whoever gives one back from here on wakes it.
        let is_idle = node_lease::held(reconcile).is_empty();
        reconcile.memory().is_limited = is_idle;
        let mut held = node_lease::held_in(reconcile.cluster(), &reconcile.namespace);
        held.extend(taking.iter().filter(|taken| taken.0 == of.0).map(|taken| taken.2.clone()));
        let is_left_to_others = has_yielded(reconcile) && others_wait(reconcile);
        if !(Share { most, held, is_left_to_others }).has_room_for(node) {
            return Err(Untaken::Limited);
        }
        reconcile.memory().is_limited = false;
    }
    taking.insert(of.clone());
    Ok(Taken { context, of })
}

/// Whether an autoscaler may be asked for one more. Others of the namespace that have asked count, whether their node is there or not.
pub fn may_ask(reconcile: &Reconcile<'_>) -> bool {
    let Some(most) = most(reconcile) else { return true };
    let _one = locked(&reconcile.context.taking.0);
    let asked = reconcile.context.memories.others_ask_for_nodes(reconcile.experiment);
    let has_room = node_lease::held_in(reconcile.cluster(), &reconcile.namespace).len() + asked < most;
    // Said at once: no pod of ours says so yet.
    reconcile.memory().asks_for_node = has_room;
    has_room
}

/// Whether nodes are to be given back after a block: others of the namespace have none, or it has more than it may have by now.
pub fn is_wanted(reconcile: &Reconcile<'_>) -> bool {
    let Some(most) = most(reconcile) else { return false };
    others_wait(reconcile) || node_lease::held_in(reconcile.cluster(), &reconcile.namespace).len() > most
}

/// Whether it has just given a node back for others.
fn has_yielded(reconcile: &Reconcile<'_>) -> bool {
    reconcile.memory().yielded.values().any(|at| reconcile.elapsed(*at) < YIELD)
}

fn others_wait(reconcile: &Reconcile<'_>) -> bool {
    reconcile.context.memories.others_are_limited(reconcile.experiment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_no_more_nodes_than_it_may_have() {
        for (held, most, is_left_to_others, node, expected) in [
            (&[][..], 1, false, "a", true),
            (&["a"], 1, false, "b", false),
            (&["a"], 1, false, "a", true),
            (&["a"], 2, false, "b", true),
            // It was set to less: what is under way ends.
            (&["a", "b"], 1, false, "b", true),
            (&["a", "b"], 1, false, "c", false),
            // The next one is for those that have none.
            (&[], 1, true, "a", false),
            (&["b"], 2, true, "a", false),
            (&["b"], 2, true, "b", true),
            (&[], 0, false, "a", false),
        ] {
            let share = Share { most, held: held.iter().map(|node| (*node).to_owned()).collect(), is_left_to_others };
            assert_eq!(share.has_room_for(node), expected, "{held:?} of {most}, {is_left_to_others}: {node}");
        }
    }
}
