//! The experiments of nights.

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_api::condition::find;
use assay_api::names::{NIGHT_ANNOTATION, PROGRESSING, RUN_NOW_ANNOTATION, TRIGGER_ANNOTATION, VISIT_ANNOTATION};
use assay_api::{TuningExperiment, TuningSweepStatus};
use assay_core::sweep::Trigger;
use assay_core::sweep::next::{Child, ChildState, NOTHING_VALID};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use tracing::{info, warn};

use super::Reconcile;
use super::memory::Known;
use crate::error::{Error, call};
use crate::experiment::is_finished;
use crate::object::delete;
use crate::pod::is_owned;

/// By the time of their night.
pub type Children = BTreeMap<Timestamp, (Child, Arc<TuningExperiment>)>;

/// All that belong to the sweep.
pub async fn all(reconcile: &Reconcile<'_>) -> Result<Children, Error> {
    let is_ours = |experiment: &TuningExperiment| {
        experiment.metadata.namespace.as_ref() == Some(&reconcile.namespace) && is_owned(experiment, reconcile.sweep)
    };
    let watched: Vec<Arc<TuningExperiment>> =
        reconcile.context.experiments.iter().flat_map(Store::state).filter(|one| is_ours(one)).collect();
    let memory = reconcile.context.memories.of(reconcile.sweep);
    let unseen = memory.lock().unseen(&watched);
    for name in unseen {
        // Somebody may have deleted it before the watch could tell of it.
        if call(reconcile.api::<TuningExperiment>().get_opt(&name)).await?.is_none() {
            memory.lock().forget(&name);
        }
    }
    let experiments = memory.lock().with(watched);
    Ok(experiments
        .into_iter()
        .filter_map(|experiment| Some((night(&experiment)?, (child(&experiment), experiment))))
        .collect())
}

/// The night that an experiment is of.
pub fn night(experiment: &TuningExperiment) -> Option<Timestamp> {
    experiment.annotations().get(NIGHT_ANNOTATION)?.parse().ok()
}

fn child(experiment: &TuningExperiment) -> Child {
    let trigger = experiment.annotations().get(TRIGGER_ANNOTATION).and_then(|text| trigger(text));
    Child {
        trigger: trigger.unwrap_or(Trigger::Schedule),
        run_now: experiment.annotations().get(RUN_NOW_ANNOTATION).cloned(),
        visit: experiment.annotations().get(VISIT_ANNOTATION).and_then(|text| serde_json::from_str(text).ok()),
        state: state(experiment),
    }
}

fn trigger(text: &str) -> Option<Trigger> {
    let all = [Trigger::Schedule, Trigger::CatchUp, Trigger::Manual, Trigger::Canary, Trigger::Confirmation];
    all.into_iter().find(|trigger| format!("{trigger:?}") == text)
}

/// How far a night is. It runs from its first trial on, whatever it waits for later.
fn state(experiment: &TuningExperiment) -> ChildState {
    if is_finished(experiment) {
        return ChildState::Finished;
    }
    let status = experiment.status.as_ref();
    let attempts = status.and_then(|status| status.progress.as_ref()).map_or(0, |progress| progress.attempts);
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let progressing = find(conditions, PROGRESSING);
    let runs = progressing.is_some_and(|known| known.status == "True" && known.reason == "Running");
    if let Some(pause) = progressing.filter(|known| known.status == "False" && known.reason == NOTHING_VALID) {
        return ChildState::Retrying { message: pause.message.clone() };
    }
    if runs || attempts > 0 {
        return ChildState::Running;
    }
    let (reason, message) = progressing.map_or(("NotSeen", "no operator has looked at its experiment yet"), |known| {
        (known.reason.as_str(), known.message.as_str())
    });
    ChildState::Waiting { reason: cause(reason, message).to_owned(), message: message.to_owned() }
}

/// What a night that never begins lacks, in the words of the history.
pub fn cause<'a>(reason: &'a str, message: &str) -> &'a str {
    let is_image = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
    if is_image.iter().any(|word| message.contains(word)) {
        return "ImagePullFailed";
    }
    // A pod that checks options, or a trial's, that no node has room for.
    if message.contains("nodes are available") {
        return "NodesMissing";
    }
    match reason {
        "WaitingForNode" | "NodeHeld" | "NodeLimit" => "NodesMissing",
        other => other,
    }
}

/// The night that the status says runs, if its experiment is certainly gone.
pub async fn lost(
    reconcile: &Reconcile<'_>,
    status: &TuningSweepStatus,
    children: &BTreeMap<Timestamp, Child>,
) -> Result<Option<Timestamp>, Error> {
    let Some(active) = &status.active else { return Ok(None) };
    let (Some(name), night) = (&active.experiment, active.time.0) else { return Ok(None) };
    if active.confirms.is_some() {
        // It leaves no gap: the visit is made again.
        return Ok(None);
    }
    if children.contains_key(&night) {
        return Ok(None);
    }
    let there = call(reconcile.api::<TuningExperiment>().get_opt(name)).await?;
    let is_ours = |experiment: TuningExperiment| {
        is_owned(&experiment, reconcile.sweep) && experiment.metadata.deletion_timestamp.is_none()
    };
    Ok((!there.is_some_and(is_ours)).then_some(night))
}

/// Deletes the experiments of nights beyond those that are kept. What they measured stays in the history.
pub async fn tidy(reconcile: &Reconcile<'_>, children: &Children, known: &Known) -> Result<(), Error> {
    let spec = &reconcile.sweep.spec;
    for (is_measured, limit) in [(true, spec.successful_history_limit), (false, spec.failed_history_limit)] {
        let of_kind = |experiment: &Arc<TuningExperiment>| {
            known.measured_experiments.get(&experiment.name_any()) == Some(&is_measured)
                && experiment.metadata.deletion_timestamp.is_none()
        };
        let newest_first = children.values().rev().map(|(_, experiment)| experiment).filter(|one| of_kind(one));
        for experiment in newest_first.skip(limit as usize) {
            info!(experiment = experiment.name_any(), "newer nights are kept: deleting it with all that it owns");
            if let Err(error) = delete(&reconcile.api::<TuningExperiment>(), &**experiment, None).await {
                warn!(experiment = experiment.name_any(), error = error.message(), "can't delete it yet");
            }
        }
    }
    Ok(())
}
