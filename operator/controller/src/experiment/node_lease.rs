//! Who holds a node: one experiment at a time, of whatever namespace and operator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use assay_api::TuningExperiment;
use assay_api::names::{HOLDER_ANNOTATION, NODE_LEASE_PREFIX};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use super::context::Context;
use super::memory::{Memory, experiment_of};
use super::{Reconcile, ended, is_finished, share};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::lease::{Asked, node_of, noted};
use crate::pod::target;

/// How often a lease is renewed: three times within what it lasts.
const RENEW: Duration = Duration::from_mins(1);

/// When a node that somebody else was faster to take is looked at again: that may have come to nothing.
pub const AGAIN: Duration = Duration::from_secs(1);

/// How often a node is handed over in a row. Then it is given back to all: another operator hears of no other moment to take it.
const IN_A_ROW: i32 = 9;

fn name(node: &str) -> String {
    format!("{NODE_LEASE_PREFIX}{node}")
}

fn find(cluster: &Cluster, node: &str) -> Option<Arc<Lease>> {
    let name = name(node);
    let watched = cluster.node_leases.get(&ObjectRef::new(&name).within(cluster.args.node_lease_namespace()));
    cluster.leases.newest(&name, watched)
}

/// The Lease of a node that this experiment holds.
pub fn ours(reconcile: &Reconcile<'_>, node: &str) -> Option<Arc<Lease>> {
    find(reconcile.cluster(), node).filter(|lease| is_ours(reconcile, lease))
}

/// Whether an experiment holds a node.
pub fn is_of(cluster: &Cluster, node: &str, experiment: &TuningExperiment) -> bool {
    let uid = experiment.metadata.uid.as_deref();
    find(cluster, node).is_some_and(|lease| noted(&lease).map(|(.., uid)| uid) == uid)
}

/// What the Lease of a node says of the experiment that holds it: in words, and in full.
fn said_of(experiment: &TuningExperiment) -> (String, String) {
    let holder = format!("{}/{}", experiment.namespace().unwrap_or_default(), experiment.name_any());
    let note = format!("{holder}/{}", experiment.uid().unwrap_or_default());
    (holder, note)
}

fn is_ours(reconcile: &Reconcile<'_>, lease: &Lease) -> bool {
    lease.annotations().get(HOLDER_ANNOTATION).is_some_and(|noted| *noted == said_of(reconcile.experiment).1)
}

/// Who else holds a node.
pub fn other_holder(reconcile: &Reconcile<'_>, node: &str) -> Option<String> {
    let lease = find(reconcile.cluster(), node)?;
    let holder = reconcile.cluster().leases.holder_of(&lease)?;
    (!is_ours(reconcile, &lease)).then(|| holder.to_owned())
}

/// Who else runs something on a node, whoever holds it: its Lease may have been deleted by somebody.
pub fn other_user(reconcile: &Reconcile<'_>, node: &str) -> Option<String> {
    let own = (reconcile.namespace.clone(), reconcile.name.clone());
    let context = reconcile.context;
    let memories = context.memories.all().into_iter().filter(|(of, _)| *of != own);
    let unseen = memories
        .flat_map(|(_, memory)| memory.lock().pods.unseen(reconcile.instant()).map(Arc::clone).collect::<Vec<_>>());
    context.all_pods().into_iter().chain(unseen).find_map(|pod| {
        let is_there = target(&pod)? == node && ended::ended(&pod).is_none() && ended::gate(&pod).is_none();
        let of = experiment_of(&pod).filter(|of| is_there && *of != own)?;
        Some(format!("{}/{}", of.0, of.1))
    })
}

/// The Leases of nodes on which something runs that are to be renewed.
pub fn due(context: &Context) -> Vec<Arc<Lease>> {
    let of_running = context.all_pods().into_iter().filter_map(|pod| {
        // What waits in a queue has no node to keep.
        if ended::ended(&pod).is_some() || ended::gate(&pod).is_some() {
            return None;
        }
        let trial = context.trial_of(&pod)?;
        let node = target(&pod).unwrap_or(&trial.spec.node);
        let lease = find(&context.cluster, node)?;
        let (.., uid) = noted(&lease)?;
        let is_its = trial.owner_references().iter().any(|owner| owner.uid == uid);
        let is_due = context.cluster.leases.renewed_for(&lease).is_none_or(|since| since >= RENEW);
        (is_its && is_due).then_some((node.to_owned(), lease))
    });
    of_running.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Takes a node, unless this experiment has it; the answer is who else has it.
pub async fn hold(reconcile: &Reconcile<'_>, node: &str) -> Result<Option<String>, Error> {
    let known = find(reconcile.cluster(), node);
    if let Some(known) = &known
        && is_ours(reconcile, known)
        && reconcile.cluster().leases.holder_of(known).is_some()
        && !reconcile.cluster().leases.is_doubted(known)
    {
        return Ok(None);
    }
    let (holder, note) = said_of(reconcile.experiment);
    match reconcile.cluster().leases.ask(&name(node), &holder, &note, known.as_deref()).await? {
        Asked::Held(_) => Ok(None),
        Asked::Taken(other) => {
            reconcile.wake_in(AGAIN);
            Ok(Some(other))
        }
    }
}

/// Gives a node to the experiment that has waited for it longest. That is one write, where two are needed if it is given back to all, and
/// none of the others tries in vain.
pub async fn hand_over(reconcile: &Reconcile<'_>, node: &str) -> Result<(), Error> {
    let Some(lease) = ours(reconcile, node) else { return Ok(()) };
    let handed = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let leases = &reconcile.cluster().leases;
    match next(reconcile, node).filter(|_| handed < IN_A_ROW) {
        Some(next) => {
            let (holder, note) = said_of(&next);
            let memory = reconcile.context.memories.of(&next);
            // Said first: the write wakes it. It may have given up this very node a moment ago.
            {
                let mut memory = memory.lock();
                memory.given.insert(node.to_owned());
                memory.yielded.remove(node);
            }
            let passed = leases.pass_on(&lease, &holder, &note).await;
            if !matches!(passed, Ok(Asked::Held(_))) {
                memory.lock().given.remove(node);
            }
            passed.map(drop)
        }
        None => leases.release(&lease).await,
    }
}

/// Who waits for a node and is to have it next. Where the nodes of a namespace are limited, they are counted when it takes one.
fn next(reconcile: &Reconcile<'_>, node: &str) -> Option<Arc<TuningExperiment>> {
    let (context, cluster) = (reconcile.context, reconcile.cluster());
    let is_counted = |namespace: Option<&str>| share::most_of(cluster, namespace.unwrap_or_default()).is_some();
    if is_counted(Some(&reconcile.namespace)) {
        return None;
    }
    let mut others = context.all_experiments();
    others.retain(|other| {
        let metadata = &other.metadata;
        metadata.uid.as_deref() != Some(&reconcile.uid)
            && metadata.deletion_timestamp.is_none()
            && other.spec.suspend != Some(true)
            && !is_finished(other)
            && !is_counted(metadata.namespace.as_deref())
            && cluster.matches(node, &other.spec.placement)
    });
    let waits = |_: &TuningExperiment, memory: &Memory| memory.waits_for.contains(node);
    context.memories.next_in_line(others, waits, 1, reconcile.instant()).pop()
}

/// Gives a node back.
pub async fn release(reconcile: &Reconcile<'_>, node: &str) -> Result<(), Error> {
    match ours(reconcile, node) {
        Some(lease) => reconcile.cluster().leases.release(&lease).await,
        None => Ok(()),
    }
}

/// Every node that this experiment holds, in the order of their names.
pub fn held(reconcile: &Reconcile<'_>) -> Vec<String> {
    let leases = reconcile.cluster().node_leases.state();
    let known = |lease: &Arc<Lease>| reconcile.cluster().leases.newest(&lease.name_any(), Some(Arc::clone(lease)));
    let ours = leases.iter().filter_map(known).filter(|lease| is_ours(reconcile, lease));
    let nodes: BTreeSet<String> = ours.filter_map(|lease| node_of(&lease).map(ToOwned::to_owned)).collect();
    nodes.into_iter().collect()
}

/// Every node that an experiment of a namespace holds.
pub fn held_in(cluster: &Cluster, namespace: &str) -> BTreeSet<String> {
    let watched = cluster.node_leases.state();
    let watched = watched.iter().filter_map(|lease| node_of(lease).map(ToOwned::to_owned));
    let written = cluster.leases.written();
    let written = written.iter().filter_map(|lease| node_of(lease).map(ToOwned::to_owned));
    let nodes: BTreeSet<String> = watched.chain(written).collect();
    let is_held = |node: &String| {
        find(cluster, node).is_some_and(|lease| {
            noted(&lease).is_some_and(|(of, ..)| of == namespace) && cluster.leases.holder_of(&lease).is_some()
        })
    };
    nodes.into_iter().filter(is_held).collect()
}

/// Whether somebody else would like to have a node.
pub fn is_wanted(reconcile: &Reconcile<'_>, node: &str) -> bool {
    reconcile.context.memories.others_wait_for(reconcile.experiment, node)
}
