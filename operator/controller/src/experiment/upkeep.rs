//! What is done again and again, whatever changes: experiments that are gone are forgotten, and the nodes that they held given back.
//! Nobody else reconciles those.

use std::sync::Arc;
use std::time::Duration;

use assay_api::names::HOLDER_ANNOTATION;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tracing::{info, warn};

use super::context::Context;
use super::ended::ended;
use super::memory::experiment_of;
use super::tidy;

/// Between two times.
const PAUSE: Duration = Duration::from_secs(10);
/// How late a watch may be to tell of an experiment that has just begun.
const NEW: Duration = Duration::from_secs(15);

pub async fn keep_up(context: Arc<Context>) {
    let leases = &context.cluster.leases;
    loop {
        tokio::time::sleep(PAUSE).await;
        context.prune();
        if let Some(keep) = context.cluster.args.keep_finished {
            for experiment in tidy::surplus(context.all_experiments(), keep) {
                let (namespace, name) = (experiment.namespace().unwrap_or_default(), experiment.name_any());
                info!(
                    namespace,
                    experiment = name,
                    keep,
                    "newer ones have finished: deleting it with all that it owns"
                );
                if let Err(error) = super::delete(&context.cluster.api(&namespace), &*experiment, None).await {
                    warn!(namespace, experiment = name, %error, "can't delete it");
                }
            }
        }
        for lease in context.cluster.node_leases.state() {
            if let Some(holder) = abandoned(&context, &lease) {
                info!(lease = lease.name_any(), holder, "its experiment is gone: releasing the node");
                if let Err(error) = leases.release(&lease).await {
                    warn!(lease = lease.name_any(), %error, "can't release the node");
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
    let ours = &context.namespaces;
    if !ours.is_empty() && !ours.iter().any(|ours| ours == namespace) {
        return None;
    }
    let is_its = |pod: &Pod| experiment_of(pod).is_some_and(|of| of == (namespace.to_owned(), name.to_owned()));
    // Those that have ended use no node, and may stay.
    let has_pods = context.all_pods().iter().any(|pod| is_its(pod) && ended(pod).is_none());
    let is_new = context.cluster.leases.unchanged_for(lease) < NEW;
    (!context.knows(uid) && !has_pods && !is_new).then_some(noted.as_str())
}
