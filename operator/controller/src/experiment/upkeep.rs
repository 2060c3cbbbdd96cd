//! What is done again and again, whatever changes: experiments that are gone are forgotten, and the nodes that they and those that are over
//! held given back. Nobody else reconciles those.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{ACCEPTED, HOLDER_ANNOTATION, READY, UNREADABLE_MANAGER};
use assay_api::{Time, TuningExperiment};
use assay_core::status::shorten;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::core::error_boundary::InvalidObject;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tracing::{info, warn};

use super::context::{Context, why_unreadable};
use super::ended::ended;
use super::memory::experiment_of;
use super::{UNREADABLE, tidy};
use crate::error::{Error, call};
use crate::lease::noted;
use crate::object;
use crate::watch::Unreadable;

/// Between two times.
const PAUSE: Duration = Duration::from_secs(10);
/// How late a watch may be to tell of an experiment that has just begun.
const NEW: Duration = Duration::from_secs(15);

pub async fn keep_up(context: Arc<Context>) {
    let leases = &context.cluster.leases;
    let mut told = BTreeSet::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        context.prune();
        let mut still = BTreeSet::new();
        for object in context.unreadable_experiments.iter().flat_map(Unreadable::all) {
            let what = (object.metadata.uid.clone(), object.error.clone());
            if !told.contains(&what)
                && let Err(error) = tell(&context, &object).await
            {
                warn!(name = object.metadata.name, %error, "can't say that an experiment can't be read");
                continue;
            }
            still.insert(what);
        }
        told = still;
        if let Some(keep) = context.cluster.args.keep_finished {
            for experiment in tidy::surplus(context.all_experiments(), keep) {
                let (namespace, name) = (experiment.namespace().unwrap_or_default(), experiment.name_any());
                info!(
                    namespace,
                    experiment = name,
                    keep,
                    "newer ones have finished: deleting it with all that it owns"
                );
                if let Err(error) = object::delete(&context.cluster.api(&namespace), &*experiment, None).await {
                    warn!(namespace, experiment = name, %error, "can't delete it");
                }
            }
        }
        let mut leases_of_nodes = context.cluster.node_leases.state();
        leases_of_nodes.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        for lease in leases_of_nodes {
            if let Some(holder) = abandoned(&context, &lease) {
                info!(lease = lease.name_any(), holder, "its experiment is gone or over: releasing the node");
                if let Err(error) = leases.release(&lease).await {
                    warn!(lease = lease.name_any(), %error, "can't release the node");
                }
            }
        }
    }
}

/// Says of an experiment that it can't be read, and nothing else: what else its status has is not understood.
async fn tell(context: &Context, object: &InvalidObject) -> Result<(), Error> {
    let (name, namespace) = (object.metadata.name.as_deref(), object.metadata.namespace.as_deref());
    let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
    warn!(namespace, experiment = name, error = object.error, "can't read the experiment");
    let message = shorten(&why_unreadable("this experiment", &object.error), 4000);
    let now = Time(super::whole_second(context.cluster.clock.time()));
    let conditions = [ACCEPTED, READY].map(|type_| {
        json!({
            "type": type_, "status": "False", "reason": UNREADABLE, "message": message, "lastTransitionTime": now,
        })
    });
    let patch = json!({
        "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment",
        "metadata": {"name": name, "uid": object.metadata.uid},
        "status": {"conditions": conditions},
    });
    let kind = ApiResource::erase::<TuningExperiment>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.cluster.client.clone(), namespace, &kind);
    // As somebody else: what the operator itself has written of the status must stay.
    let params = PatchParams::apply(UNREADABLE_MANAGER).force();
    call(api.patch_status(name, &params, &Patch::Apply(&patch))).await.map(drop)
}

/// The holder of a lease that we should know and don't, or that is over: it has given it back, of which an answer may have been lost.
fn abandoned<'a>(context: &Context, lease: &'a Lease) -> Option<&'a str> {
    let note = lease.annotations().get(HOLDER_ANNOTATION)?;
    let (namespace, name, uid) = noted(lease)?;
    let ours = &context.namespaces;
    if !ours.is_empty() && !ours.iter().any(|ours| ours == namespace) {
        return None;
    }
    let is_its = |pod: &Pod| experiment_of(pod).is_some_and(|of| of == (namespace.to_owned(), name.to_owned()));
    // Those that have ended use no node, and may stay. Looked at for this very Lease: a pod may come while others are released.
    let has_pods = || context.all_pods().iter().any(|pod| is_its(pod) && ended(pod).is_none());
    let is_new = context.cluster.leases.unchanged_for(lease) < NEW;
    let is_needed = context.needs_nodes(uid) || context.memories.are_needed_for(uid, context.cluster.clock.instant());
    (!is_needed && !is_new && !has_pods()).then_some(note.as_str())
}
