//! The status of a trial: what became of each of its attempts, with what the gates say about it.

use std::sync::Arc;

use assay_api::names::FINISHED;
use assay_api::{AttemptStatus, Time, TuningTrial, TuningTrialStatus};
use assay_core::attempt::{Attempt, LostReason};
use assay_core::cluster;
use assay_core::decide::{Place, Places};
use assay_core::plan::Plan;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::Patch;
use kube::runtime::events::EventType;
use serde_json::json;
use tracing::info;

use super::observe::Observed;
use super::{Reconcile, condition, forced, whole_second};
use crate::error::{Error, call};

/// Writes down what became of an attempt, with what the gates say about it.
pub async fn end_attempt(
    reconcile: &Reconcile<'_>,
    plan: &Plan,
    observed: &mut Observed,
    trial: &Arc<TuningTrial>,
    mut attempt_status: AttemptStatus,
) -> Result<Arc<TuningTrial>, Error> {
    let unexpected = |error: String| Error::Unexpected(format!("trial {}: {error}", trial.name_any()));
    let attempt = cluster::attempt(&trial.spec, &attempt_status).map_err(unexpected)?;
    observed.attempts.push(attempt.clone());
    let places = Places::new(plan, &observed.attempts).map_err(|error| unexpected(error.to_string()))?;
    cluster::tell(&mut attempt_status, &attempt, &places.fate(observed.attempts.len() - 1));
    let is_open = is_open(&places, plan, trial);
    drop(places);

    let known = observed.newest(trial);
    let mut status = known.status.clone().unwrap_or_default();
    status.refusals = 0;
    let (finished, reason) = if is_open { ("False", "Retrying") } else { ("True", attempt_status.outcome.as_str()) };
    let message = attempt_status.message.clone().unwrap_or_default();
    status.conditions = vec![condition(
        (FINISHED, finished),
        (reason, &message),
        known.metadata.generation,
        &status.conditions,
        reconcile.now,
    )];
    let (number, outcome) = (attempt_status.attempt, attempt_status.outcome.clone());
    status.attempts.retain(|known| known.attempt != number);
    status.attempts.push(attempt_status.clone());
    status.attempts.sort_by_key(|known| known.attempt);
    let written = write(reconcile, &known, &status).await?;
    observed.trials.insert(written.name_any(), Arc::clone(&written));
    let (name, why) = (written.name_any(), attempt_status.reason.as_deref().unwrap_or_default());
    info!(trial = name, attempt = number, outcome, why, "ended");
    reconcile.context.metrics.attempt(&outcome, why);
    let is_bad = matches!(attempt, Attempt::Lost(_)) || outcome == "Failed" || outcome == "Invalid";
    if is_bad {
        let note = format!("{name}, attempt {number}: {outcome} {why}: {message}");
        let reason = format!("Trial{outcome}");
        reconcile.publish(Some(&*written), EventType::Warning, &reason, &note).await;
    }
    Ok(written)
}

fn is_open(places: &Places<'_>, plan: &Plan, trial: &TuningTrial) -> bool {
    let position =
        plan.blocks.iter().position(|block| block.number == trial.spec.block && block.scenario == trial.spec.scenario);
    let block = position.and_then(|position| places.blocks().get(position));
    block.is_some_and(|block| {
        let place = block.places.get(trial.spec.order as usize);
        (block.is_lost() && !block.is_closed()) || matches!(place, Some(Place::Open { .. }))
    })
}

pub async fn write(
    reconcile: &Reconcile<'_>,
    trial: &TuningTrial,
    status: &TuningTrialStatus,
) -> Result<Arc<TuningTrial>, Error> {
    let patch = json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningTrial",
        // Of this very object as it is known, not of one that has its name by now: the attempts that somebody else has written meanwhile,
        // or we ourselves where the answer was lost, would be overwritten by what is known without them.
        "metadata": {"name": trial.name_any(), "uid": trial.metadata.uid, "resourceVersion": trial.metadata.resource_version},
        "status": status,
    });
    let api = reconcile.api::<TuningTrial>();
    let written = call(api.patch_status(&trial.name_any(), &forced(), &Patch::Apply(&patch))).await?;
    Ok(reconcile.memory().trials.wrote(written))
}

/// An attempt that nothing is run for.
pub fn given_up(attempt: u32, now: Timestamp) -> AttemptStatus {
    AttemptStatus {
        attempt,
        start_time: Some(Time(whole_second(now))),
        completion_time: Some(Time(whole_second(now))),
        reason: Some(format!("{:?}", LostReason::GivenUp)),
        message: Some("its block was interrupted too often".to_owned()),
        ..AttemptStatus::default()
    }
}
