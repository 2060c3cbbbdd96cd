//! What there is to go by: nothing here decides, and no object is written here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use assay_api::TuningTrial;
use assay_core::attempt::pass;
use assay_core::decide::fleet::{Begun, NodeState};
use assay_core::node::{self, Needs, Room};
use assay_core::plan::Plan;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::{RETRY, YIELD};
use crate::error::Error;
use crate::experiment::ended::{self, Gate};
use crate::experiment::observe::{Observed, UnderWay};
use crate::experiment::{Reconcile, age, claims, node_lease, provision, share};
use crate::lease::Holding;
use crate::nodes::Known;

/// How long a pod that was deleted may take to go.
const GOES: Duration = Duration::from_mins(2);

pub struct Survey<'a> {
    pub now: Timestamp,
    /// What trials need of a node.
    pub needs: Needs<'a>,
    pub is_suspended: bool,
    /// Nodes that pods of the experiment may use.
    pub busy: BTreeSet<String>,
    /// Those of them whose pod is kept from being scheduled.
    pub gated: BTreeMap<String, Gated>,
    /// Those of them whose pod does not go, with its name.
    pub stuck: BTreeMap<String, String>,
    /// The pod that asks for a node, where there is one.
    pub placeholder: Option<Placeholder>,
    /// For how long no node is asked for yet, since the last one was of no use.
    pub unprovided: Option<Duration>,
    /// Where blocks are that have begun, by their position in the plan.
    pub begun: BTreeMap<usize, Begun>,
    /// Every node, by name.
    pub nodes: Vec<Seen>,
    /// Nodes that the experiment holds.
    pub held: Vec<Held>,
    /// The claims that are there.
    pub claims: BTreeSet<String>,
    /// Why the API server would not have an object of the experiment, and how long nothing is begun yet because of that.
    pub refused: Option<(String, Duration)>,
}

/// What is known of a node.
pub struct Seen {
    pub known: Arc<Known>,
    /// For how long it has not been ready.
    pub silent: Option<Duration>,
    /// Its kubelet's CPU manager policy, where it is known.
    pub policy: Option<String>,
    /// Who else holds it.
    pub holder: Option<Arc<str>>,
    /// For how long it is left to others yet, who wait for it and were given it back.
    pub yielded: Option<Duration>,
    /// For how long it is not tried again, since it had no room for a trial, and what the scheduler said.
    pub full: Option<(Duration, String)>,
}

/// What a pod waits for before it may be scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gated {
    /// Its queue, for so long.
    Queue(Duration),
    /// Its node.
    Node,
}

/// The pod that asks for a node.
pub struct Placeholder {
    pub has_ended: bool,
    /// What it waits for, where somebody says so.
    pub waits_for: Option<String>,
}

pub struct Held {
    pub node: String,
    /// Somebody who would like to have it holds fewer nodes or can't do without this one, or its namespace has none left for others.
    pub is_owed: bool,
    /// It was handed over since the last decision, so nothing has run there.
    pub is_given: bool,
}

pub async fn survey<'a>(reconcile: &Reconcile<'a>, plan: &Plan, observed: &Observed) -> Result<Survey<'a>, Error> {
    claims::list(reconcile).await?;
    let patience = Duration::from_secs(reconcile.cluster().args.node_lost_seconds.into());
    let needs = Needs::new(&reconcile.experiment.spec.placement, patience);
    let nodes = nodes(reconcile, &needs).await;
    let leases = node_lease::all(reconcile.cluster());
    let placeholder = provision::find(reconcile);
    reconcile.memory().asks_for_node = placeholder.is_some();
    let busy: BTreeSet<String> = observed.on_nodes(reconcile).map(|found| found.node().to_owned()).collect();
    let held = held(reconcile, &leases, &busy);
    Ok(Survey {
        now: reconcile.now,
        needs,
        is_suspended: reconcile.is_suspended(),
        busy,
        gated: gated(observed),
        stuck: stuck(observed, reconcile.now),
        placeholder: placeholder
            .map(|pod| Placeholder { has_ended: ended::ended(&pod).is_some(), waits_for: ended::why_waiting(&pod) }),
        unprovided: provision::pause(reconcile),
        begun: begun(reconcile, plan, observed),
        nodes: seen(reconcile, &nodes, &leases),
        held,
        claims: claims::known(reconcile),
        refused: refused(reconcile),
    })
}

/// The nodes that it holds, and whether others are to have those of them that are idle.
fn held(reconcile: &Reconcile<'_>, leases: &[Holding], busy: &BTreeSet<String>) -> Vec<Held> {
    let held = node_lease::held_of(reconcile, leases);
    let given = reconcile.memory().given.clone();
    let is_share = share::is_wanted(reconcile);
    let idle: Vec<String> = held.iter().filter(|node| !busy.contains(*node)).cloned().collect();
    let wanted = node_lease::wanted(reconcile, leases, &idle);
    let fewest: Vec<Option<usize>> = held.iter().map(|node| wanted.get(node).copied()).collect();
    let own = if wanted.is_empty() { 0 } else { node_lease::holds(leases, reconcile.instant())(&reconcile.uid) };
    let owed = owed(&fewest, own);
    let held = held.into_iter().zip(owed).map(|(node, is_owed)| Held {
        is_owed: is_share || is_owed,
        is_given: given.contains(&node),
        node,
    });
    held.collect()
}

/// Which nodes go to others, given how many the poorest of those has who want each. Of several that are idle at once, each makes their holder
/// poorer, who has so many, and somebody else richer.
pub fn owed(fewest: &[Option<usize>], own: usize) -> Vec<bool> {
    let mut given = 0;
    let owed = fewest.iter().map(|fewest| {
        let is_owed = fewest.is_some_and(|fewest| fewest + given < own.saturating_sub(given));
        given += usize::from(is_owed);
        is_owed
    });
    owed.collect()
}

/// A process that waits for a device ends when that answers, and its node stays busy.
fn stuck(observed: &Observed, now: Timestamp) -> BTreeMap<String, String> {
    let all = observed.under_way.iter().chain(&observed.leftover).filter(|found| !found.has_vanished);
    let stuck = all.filter(|found| {
        let deletion = found.pod.metadata.deletion_timestamp.as_ref();
        deletion.is_some_and(|deletion| age(deletion.0, now) > GOES)
    });
    stuck.map(|found| (found.node().to_owned(), found.pod.name_any())).collect()
}

/// Where another pod of the experiment runs, which two leaders may have made, none is let run beside it.
pub fn gated(observed: &Observed) -> BTreeMap<String, Gated> {
    let all = || observed.under_way.iter().filter(|found| !found.has_vanished);
    let in_use: BTreeSet<&str> = all().filter(|found| ended::gate(&found.pod).is_none()).map(UnderWay::node).collect();
    let waiting = all().filter(|found| !in_use.contains(found.node()));
    let gated = waiting.filter_map(|found| {
        let gated = match ended::gate(&found.pod)? {
            Gate::Queue => Gated::Queue(found.known_for),
            Gate::Node => Gated::Node,
        };
        Some((found.node().to_owned(), gated))
    });
    gated.collect()
}

/// Where blocks are that have begun, by their position in the plan.
fn begun(reconcile: &Reconcile<'_>, plan: &Plan, observed: &Observed) -> BTreeMap<usize, Begun> {
    let position: HashMap<(&str, u32), usize> =
        plan.blocks.iter().enumerate().map(|(at, block)| ((block.scenario.as_str(), block.number), at)).collect();
    let at = |trial: &TuningTrial| position.get(&(trial.spec.scenario.as_str(), trial.spec.block)).copied();
    let mut known: BTreeMap<usize, (i64, &str)> = BTreeMap::new();
    for trial in observed.trials.values() {
        let Some(block) = at(trial) else { continue };
        let mut place = |rank, node| {
            let known = known.entry(block).or_insert((rank, node));
            *known = if known.0 <= rank { (rank, node) } else { *known };
        };
        // A trial without an attempt was only planned there; the latest pass says where the block is.
        place(-1, &trial.spec.node);
        for ended in trial.status.iter().flat_map(|status| &status.attempts) {
            if let Some(node) = &ended.node {
                place(i64::from(pass(ended.attempt)), node);
            }
        }
    }
    let begun = known.into_iter().map(|(block, (rank, node))| {
        let node = node.to_owned();
        (block, Begun { node, running: false, fresh: rank < 0 })
    });
    let mut begun: BTreeMap<usize, Begun> = begun.collect();
    for found in observed.on_nodes(reconcile) {
        if let Some(block) = at(&found.trial) {
            begun.insert(block, Begun { node: found.node().to_owned(), running: true, fresh: false });
        }
    }
    begun
}

/// Every node, by name. Kubelets are asked where that has to be.
async fn nodes(reconcile: &Reconcile<'_>, needs: &Needs<'_>) -> Arc<[Arc<Known>]> {
    let cluster = reconcile.cluster();
    let nodes = cluster.nodes.all();
    // Of those that are of no use anyway, nobody has to know more.
    let fits =
        |node: &Node| node::judge(node, &Room::of(node), needs, cluster.nodes.silent_for(node)).0 == NodeState::Usable;
    let has_asked = cluster.kubelets.ask(nodes.iter().map(|known| &*known.node), fits).await;
    // They may have changed while their kubelets were asked.
    if has_asked { cluster.nodes.all() } else { nodes }
}

fn seen(reconcile: &Reconcile<'_>, nodes: &[Arc<Known>], leases: &[Holding]) -> Vec<Seen> {
    let cluster = reconcile.cluster();
    let unseen = node_lease::others_unseen(reconcile);
    let yielded = yielded(reconcile, leases);
    let now = reconcile.instant();
    let mut leases = leases.iter().peekable();
    let seen = |known: &Arc<Known>| {
        let name = &*known.name;
        // Both are in the order of their names.
        while leases.next_if(|lease| *lease.node < *name).is_some() {}
        let lease = leases.peek().filter(|lease| *lease.node == *name);
        let holder = lease.filter(|lease| !lease.is_of(&reconcile.uid)).and_then(|lease| lease.holder(now));
        let user = || node_lease::user(reconcile, &unseen, name).map(Into::into);
        Seen {
            silent: cluster.nodes.silent_for(&known.node),
            policy: cluster.kubelets.cpu_manager_policy(name),
            holder: holder.cloned().or_else(user),
            yielded: yielded.get(name).copied(),
            full: reconcile.memory().full.left(name, now),
            known: Arc::clone(known),
        }
    };
    nodes.iter().map(seen).collect()
}

/// For how long nodes are left to others yet: who waits for one may be woken by the same news as we who have just given it back.
fn yielded(reconcile: &Reconcile<'_>, leases: &[Holding]) -> BTreeMap<String, Duration> {
    let memory = reconcile.memory();
    let left =
        memory.yielded.iter().filter_map(|(node, at)| Some((node.clone(), YIELD.checked_sub(reconcile.elapsed(*at))?)));
    let mut left: BTreeMap<String, Duration> = left.collect();
    drop(memory);
    if !left.is_empty() && !share::is_wanted(reconcile) {
        let wanted = node_lease::wanted(reconcile, leases, &left.keys().cloned().collect::<Vec<_>>());
        left.retain(|node, _| wanted.contains_key(node));
    }
    left
}

fn refused(reconcile: &Reconcile<'_>) -> Option<(String, Duration)> {
    let (at, why) = reconcile.memory().refused.clone()?;
    Some((why, RETRY.checked_sub(reconcile.elapsed(at))?))
}
