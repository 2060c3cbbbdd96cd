//! Who holds a node: one experiment at a time, of whatever namespace and operator.

use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{EXPERIMENT_LABEL, HOLDER_ANNOTATION, NODE_LEASE_PREFIX};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tracing::{info, warn};

use super::Round;
use super::ended::ended;
use crate::context::Context;
use crate::error::Error;
use crate::lease::Asked;
use crate::watch::locked;

/// How often a lease is renewed: three times within what it lasts.
const RENEW: Duration = Duration::from_mins(1);

fn name(node: &str) -> String {
    format!("{NODE_LEASE_PREFIX}{node}")
}

/// The node that a Lease is of.
pub fn node_of(lease: &Lease) -> Option<&str> {
    lease.metadata.name.as_deref()?.strip_prefix(NODE_LEASE_PREFIX)
}

fn find(context: &Context, node: &str) -> Option<Arc<Lease>> {
    let name = name(node);
    let watched = context.node_leases.find(|lease| lease.metadata.name.as_deref() == Some(&name));
    context.leases.newest(&name, watched)
}

/// The Lease of a node that this experiment holds.
pub fn ours(round: &Round<'_>, node: &str) -> Option<Arc<Lease>> {
    find(round.context, node).filter(|lease| is_ours(round, lease))
}

fn holder(round: &Round<'_>) -> String {
    format!("{}/{}", round.namespace, round.name)
}

fn note(round: &Round<'_>) -> String {
    format!("{}/{}/{}", round.namespace, round.name, round.uid)
}

fn is_ours(round: &Round<'_>, lease: &Lease) -> bool {
    lease.annotations().get(HOLDER_ANNOTATION).is_some_and(|noted| *noted == note(round))
}

/// Who else holds a node.
pub fn other_holder(round: &Round<'_>, node: &str) -> Option<String> {
    let lease = find(round.context, node)?;
    let holder = round.context.leases.holder_of(&lease)?;
    (!is_ours(round, &lease)).then(|| holder.to_owned())
}

/// Takes a node, or keeps it.
pub async fn hold(round: &mut Round<'_>, node: &str) -> Result<bool, Error> {
    round.wake_in(RENEW);
    let known = find(round.context, node);
    if let Some(known) = &known
        && is_ours(round, known)
        && round.context.leases.renewed_for(known).is_some_and(|since| since < RENEW)
    {
        return Ok(true);
    }
    let (holder, note) = (holder(round), note(round));
    match round.context.leases.ask(&name(node), &holder, &note, known.as_deref()).await? {
        Asked::Held(_) => Ok(true),
        Asked::Taken(_) => {
            round.wake_in(Duration::from_secs(1));
            Ok(false)
        }
    }
}

/// Gives a node back.
pub async fn release(round: &Round<'_>, node: &str) -> Result<(), Error> {
    match ours(round, node) {
        Some(lease) => round.context.leases.release(&lease).await,
        None => Ok(()),
    }
}

/// Every node that this experiment holds.
pub fn held(round: &Round<'_>) -> Vec<String> {
    let leases = round.context.node_leases.state();
    let ours = leases.iter().filter(|lease| is_ours(round, lease));
    ours.filter_map(|lease| node_of(lease).map(ToOwned::to_owned)).collect()
}

/// Says that this experiment would like to have a node, or no longer.
pub fn wait_for(round: &Round<'_>, node: &str, wanted: bool) {
    let mut waiting = locked(&round.context.waiting);
    let waiting = waiting.entry(node.to_owned()).or_default();
    if wanted {
        waiting.insert(round.uid.clone());
    } else {
        waiting.remove(&round.uid);
    }
}

/// Whether somebody else would like to have a node.
pub fn is_wanted(round: &Round<'_>, node: &str) -> bool {
    locked(&round.context.waiting).get(node).is_some_and(|waiting| waiting.iter().any(|uid| *uid != round.uid))
}

/// Gives back, again and again, the nodes of experiments that are gone, and forgets them: nobody else looks at those.
pub async fn sweep(context: &Context) {
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        context.prune();
        for lease in context.node_leases.state() {
            if let Some(holder) = abandoned(context, &lease) {
                info!(lease = lease.name_any(), holder, "its experiment is gone: the node is given back");
                if let Err(error) = context.leases.release(&lease).await {
                    warn!(lease = lease.name_any(), %error, "can't be given back");
                }
            }
        }
    }
}

/// The holder of a lease that we should know and don't.
fn abandoned<'a>(context: &Context, lease: &'a Lease) -> Option<&'a str> {
    let noted = lease.annotations().get(HOLDER_ANNOTATION)?;
    let (namespace, rest) = noted.split_once('/')?;
    let (name, uid) = rest.rsplit_once('/')?;
    let args = &context.args;
    if !args.namespaces.is_empty() && !args.namespaces.iter().any(|ours| ours == namespace) {
        return None;
    }
    let is_known = context
        .experiments
        .iter()
        .any(|store| store.find(|experiment| experiment.uid().as_deref() == Some(uid)).is_some());
    let is_its = |pod: &Pod| {
        pod.namespace().as_deref() == Some(namespace) && pod.labels().get(EXPERIMENT_LABEL).is_some_and(|of| of == name)
    };
    // Those that have ended use no node, and may stay.
    let has_pods = context.pods.all().iter().any(|pod| is_its(pod) && ended(pod).is_none());
    // A watch may be late to tell of an experiment that has just begun.
    let is_new = context.leases.unchanged_for(lease) < Duration::from_secs(15);
    (!is_known && !has_pods && !is_new).then_some(noted.as_str())
}
