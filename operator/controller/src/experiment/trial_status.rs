//! The status of a trial: what became of each of its attempts, with what the gates say about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_api::names::FINISHED;
use assay_api::{AttemptStatus, Time, TuningTrial, TuningTrialStatus};
use assay_core::attempt::{Attempt, LostReason};
use assay_core::cluster;
use assay_core::decide::{Place, Places};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::Patch;
use kube::runtime::events::EventType;
use serde_json::json;
use tracing::info;

use super::observe::Observed;
use super::trial::Trial;
use super::{Reconcile, all, condition, forced, whole_second};
use crate::error::{Error, call};

/// Writes down what became of attempts, with what the gates say about them. Each comes with the name of its trial, and they are the last of
/// those of the places.
pub async fn end_attempts(
    reconcile: &Reconcile<'_>,
    places: &Places<'_>,
    observed: &mut Observed,
    ended: Vec<(String, Attempt, AttemptStatus)>,
) -> Result<(), Error> {
    let first = places.attempts().len() - ended.len();
    let mut of_trials: BTreeMap<String, Vec<(Attempt, AttemptStatus)>> = BTreeMap::new();
    for (position, (trial, attempt, mut status)) in (first..).zip(ended) {
        cluster::tell(&mut status, &attempt, &places.fate(position));
        of_trials.entry(trial).or_default().push((attempt, status));
    }
    let known = &observed.trials;
    let told = of_trials.into_iter().filter_map(|(name, ended)| {
        let trial = Arc::clone(known.get(&name)?);
        Some(async move {
            let is_open = is_open(places, &trial);
            let mut trial = trial;
            // One after the other: each goes by the version before it.
            for (attempt, status) in ended {
                trial = end_attempt(reconcile, &trial, &attempt, status, is_open).await?;
            }
            Ok(trial)
        })
    });
    let written = all(told).await?;
    observed.trials.extend(written.into_iter().map(|trial| (trial.name_any(), trial)));
    Ok(())
}

/// An attempt that has ended, as its status says it.
pub fn attempt(trial: &TuningTrial, status: &AttemptStatus) -> Result<Attempt, Error> {
    let attempt = cluster::attempt(&trial.spec, status);
    attempt.map_err(|error| Error::Unexpected(format!("trial {}: {error}", trial.name_any())))
}

async fn end_attempt(
    reconcile: &Reconcile<'_>,
    known: &Trial,
    attempt: &Attempt,
    ended: AttemptStatus,
    is_open: bool,
) -> Result<Arc<Trial>, Error> {
    let mut status = to_change(reconcile, known).await?;
    status.refusals = 0;
    let (finished, reason) = if is_open { ("False", "Retrying") } else { ("True", ended.outcome.as_str()) };
    let message = ended.message.clone().unwrap_or_default();
    status.conditions = vec![condition(
        (FINISHED, finished),
        (reason, &message),
        known.metadata.generation,
        &status.conditions,
        reconcile.now,
    )];
    let (number, outcome, why) = (ended.attempt, ended.outcome.clone(), ended.reason.clone().unwrap_or_default());
    status.attempts.retain(|known| known.attempt != number);
    status.attempts.push(ended);
    status.attempts.sort_by_key(|known| known.attempt);
    let written = write(reconcile, known, &status).await?;
    let name = written.name_any();
    info!(trial = name, attempt = number, outcome, why, "ended");
    reconcile.context.metrics.attempt(&outcome, &why);
    let is_bad = matches!(attempt, Attempt::Lost(_)) || outcome == "Failed" || outcome == "Invalid";
    if is_bad {
        let note = format!("{name}, attempt {number}: {outcome} {why}: {message}");
        let reason = format!("Trial{outcome}");
        reconcile.publish(Some(&*written), EventType::Warning, &reason, &note).await;
    }
    Ok(written)
}

fn is_open(places: &Places<'_>, trial: &TuningTrial) -> bool {
    let position = places
        .plan()
        .blocks
        .iter()
        .position(|block| block.number == trial.spec.block && block.scenario == trial.spec.scenario);
    let block = position.and_then(|position| places.blocks().get(position));
    block.is_some_and(|block| {
        let place = block.places.get(trial.spec.order as usize);
        (block.is_lost() && !block.is_closed()) || matches!(place, Some(Place::Open { .. }))
    })
}

/// The status of a trial, for whoever writes it.
pub async fn to_change(reconcile: &Reconcile<'_>, known: &Trial) -> Result<TuningTrialStatus, Error> {
    let status = known.status_to_change(&reconcile.api()).await;
    if status.is_err() {
        // Where the API server has another one, its watch may be late to tell of that.
        reconcile.memory().unsure.insert(known.name_any());
    }
    status
}

pub async fn write(reconcile: &Reconcile<'_>, trial: &Trial, status: &TuningTrialStatus) -> Result<Arc<Trial>, Error> {
    trial.check_keeps(status)?;
    let patch = json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningTrial",
        // Of this very object as it is known, not of one that has its name by now: the attempts that somebody else has written meanwhile,
        // or we ourselves where the answer was lost, would be overwritten by what is known without them.
        "metadata": {"name": trial.name_any(), "uid": trial.metadata.uid, "resourceVersion": trial.metadata.resource_version},
        "status": status,
    });
    let (api, name) = (reconcile.api::<TuningTrial>(), trial.name_any());
    // Until an answer says what is there: what else ends meanwhile would be judged without it.
    reconcile.memory().unsure.insert(name.clone());
    let written = call(api.patch_status(&name, &forced(), &Patch::Apply(&patch))).await?;
    reconcile.memory().unsure.remove(&name);
    Ok(reconcile.memory().trials.wrote(written, reconcile.instant()))
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
