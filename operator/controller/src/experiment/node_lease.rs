//! Who holds a node: one experiment at a time, of whatever namespace and operator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assay_api::TuningExperiment;
use assay_api::names::{HOLDER_ANNOTATION, NODE_LEASE_PREFIX};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;

use super::Reconcile;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::lease::Asked;

/// How often a lease is renewed: three times within what it lasts.
const RENEW: Duration = Duration::from_mins(1);

fn name(node: &str) -> String {
    format!("{NODE_LEASE_PREFIX}{node}")
}

/// The node that a Lease is of.
pub fn node_of(lease: &Lease) -> Option<&str> {
    lease.metadata.name.as_deref()?.strip_prefix(NODE_LEASE_PREFIX)
}

fn find(cluster: &Cluster, node: &str) -> Option<Arc<Lease>> {
    let name = name(node);
    let watched = cluster.node_leases.find(|lease| lease.metadata.name.as_deref() == Some(&name));
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

fn holder(reconcile: &Reconcile<'_>) -> String {
    format!("{}/{}", reconcile.namespace, reconcile.name)
}

fn note(reconcile: &Reconcile<'_>) -> String {
    format!("{}/{}/{}", reconcile.namespace, reconcile.name, reconcile.uid)
}

fn is_ours(reconcile: &Reconcile<'_>, lease: &Lease) -> bool {
    lease.annotations().get(HOLDER_ANNOTATION).is_some_and(|noted| *noted == note(reconcile))
}

/// Who else holds a node.
pub fn other_holder(reconcile: &Reconcile<'_>, node: &str) -> Option<String> {
    let lease = find(reconcile.cluster(), node)?;
    let holder = reconcile.cluster().leases.holder_of(&lease)?;
    (!is_ours(reconcile, &lease)).then(|| holder.to_owned())
}

/// Takes a node, or keeps it; the answer is who else has it.
pub async fn hold(reconcile: &mut Reconcile<'_>, node: &str) -> Result<Option<String>, Error> {
    reconcile.wake_in(RENEW);
    let known = find(reconcile.cluster(), node);
    if let Some(known) = &known
        && is_ours(reconcile, known)
        && reconcile.cluster().leases.renewed_for(known).is_some_and(|since| since < RENEW)
    {
        return Ok(None);
    }
    let (holder, note) = (holder(reconcile), note(reconcile));
    match reconcile.cluster().leases.ask(&name(node), &holder, &note, known.as_deref()).await? {
        Asked::Held(_) => Ok(None),
        Asked::Taken(other) => {
            reconcile.wake_in(Duration::from_secs(1));
            Ok(Some(other))
        }
    }
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
    let ours = leases.iter().filter(|lease| is_ours(reconcile, lease));
    let nodes: BTreeSet<String> = ours.filter_map(|lease| node_of(lease).map(ToOwned::to_owned)).collect();
    nodes.into_iter().collect()
}

/// Namespace, name and uid of the experiment that a Lease was written for.
pub fn noted(lease: &Lease) -> Option<(&str, &str, &str)> {
    let (namespace, rest) = lease.annotations().get(HOLDER_ANNOTATION)?.split_once('/')?;
    let (name, uid) = rest.rsplit_once('/')?;
    Some((namespace, name, uid))
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

/// Says that this experiment would like to have a node, or no longer.
pub fn wait_for(reconcile: &Reconcile<'_>, node: &str, wanted: bool) {
    let waits_for = &mut reconcile.memory().waits_for;
    if wanted {
        waits_for.insert(node.to_owned());
    } else {
        waits_for.remove(node);
    }
}

/// Whether somebody else would like to have a node.
pub fn is_wanted(reconcile: &Reconcile<'_>, node: &str) -> bool {
    reconcile.context.memories.others_wait_for(reconcile.experiment, node)
}
