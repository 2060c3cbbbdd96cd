//! A node from an autoscaler, for an experiment that says so: a pod of a trial's size asks for it and keeps it, until it can run trials.
//! Trials' pods can't do that, since they are made for a node that is there, is held and is prepared.

use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{ROLE_LABEL, ROLE_PLACEHOLDER};
use assay_core::cluster::placeholder_name;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::PostParams;
use tracing::info;

use super::{Reconcile, ended};
use crate::error::{Error, call};
use crate::pod::is_owned;

/// The pod that asks for a node.
pub fn find(reconcile: &Reconcile<'_>) -> Option<Arc<Pod>> {
    let is_ours = |pod: &Pod| {
        pod.labels().get(ROLE_LABEL).is_some_and(|role| role == ROLE_PLACEHOLDER) && is_owned(pod, reconcile.experiment)
    };
    reconcile.pods().present.remove(&placeholder_name(&reconcile.name)).filter(|pod| is_ours(pod))
}

/// For how long no node is asked for yet, since the last one was of no use.
pub fn pause(reconcile: &Reconcile<'_>) -> Option<Duration> {
    reconcile.memory().full.left(&placeholder_name(&reconcile.name), reconcile.instant()).map(|(left, _)| left)
}

/// Asks for a node; the answer says why that is refused.
pub async fn ask(reconcile: &Reconcile<'_>) -> Result<Option<String>, Error> {
    let name = placeholder_name(&reconcile.name);
    // If somebody has removed the last one, it is simply made again.
    reconcile.memory().pods.gone(&name);
    let pod = reconcile.template().placeholder(&name)?;
    match call(reconcile.api::<Pod>().create(&PostParams::default(), &pod)).await {
        Ok(pod) => {
            info!(pod = name, "asked for a node");
            reconcile.memory().pods.created(pod, reconcile.instant());
        }
        // By ourselves, before an answer was lost; or it is on its way out.
        Err(error) if error.is_conflict() => {
            let there = call(reconcile.api::<Pod>().get_opt(&name)).await?;
            if there.is_none() && !error.is_already_there() {
                return Ok(Some(error.message()));
            }
            reconcile.make_room(there.as_ref(), reconcile.experiment).await?;
        }
        Err(error) if error.is_refusal() => return Ok(Some(error.message())),
        Err(error) => return Err(error),
    }
    Ok(None)
}

/// Asks no more. A node that was brought and could run nothing is not asked for again at once.
pub async fn end(reconcile: &Reconcile<'_>) {
    let Some(pod) = find(reconcile) else { return };
    if pod.metadata.deletion_timestamp.is_some() {
        return;
    }
    if ended::ended(&pod).is_some() {
        reconcile.memory().full.add(&pod.name_any(), "", reconcile.instant());
    }
    if let Err(error) = reconcile.remove(&pod, None).await {
        reconcile.later(&pod.name_any(), &error);
    }
}
