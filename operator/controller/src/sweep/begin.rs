//! The beginning of a night: its experiment.

use assay_api::TuningExperiment;
use assay_api::names::{
    MANAGED_BY, MANAGED_LABEL, NIGHT_ANNOTATION, QUEUE_LABELS, RUN_NOW_ANNOTATION, SWEEP_LABEL, TRIGGER_ANNOTATION,
};
use assay_core::sweep::next::Unmeasured;
use assay_core::sweep::{Outcome, Trigger, night};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::PostParams;
use kube::runtime::events::EventType;
use serde_json::json;

use super::Reconcile;
use super::resolve::Lookup;
use crate::error::{Error, call};
use crate::pod::owner;

pub async fn begin(
    reconcile: &mut Reconcile<'_>,
    minute: Timestamp,
    trigger: Trigger,
    run_now: Option<String>,
    lookup: &Lookup,
) -> Result<(), Error> {
    let name = night::name(&reconcile.name, minute);
    let experiment = experiment(reconcile, &name, minute, trigger, run_now.as_deref(), lookup)?;
    let api = reconcile.api::<TuningExperiment>();
    match call(api.create(&PostParams::default(), &experiment)).await {
        Ok(made) => {
            reconcile.context.memories.of(reconcile.sweep).lock().made(made);
            let note = format!("the night of {minute}: {trigger:?}, as experiment {name}");
            reconcile.publish(EventType::Normal, "NightBegun", &note).await;
        }
        // By ourselves, before an answer was lost; or it is somebody else's.
        Err(error) if error.is_conflict() => {
            let there = call(api.get_opt(&name)).await?;
            let ours =
                |known: &TuningExperiment| known.owner_references().iter().any(|owner| owner.uid == reconcile.uid);
            match there {
                Some(there) if ours(&there) => reconcile.context.memories.of(reconcile.sweep).lock().made(there),
                Some(_) => {
                    let message = format!("an experiment {name} is there already, which is not this sweep's");
                    refuse(reconcile, minute, trigger, run_now, "NameTaken", &message).await?;
                }
                None => return Err(error),
            }
        }
        Err(error) if error.is_refusal() => {
            let message = format!("its experiment was refused: {}", error.message());
            refuse(reconcile, minute, trigger, run_now, "NotAllowed", &message).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A night whose objects the API server does not take.
pub async fn refuse(
    reconcile: &mut Reconcile<'_>,
    night: Timestamp,
    trigger: Trigger,
    run_now: Option<String>,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    let gap = Unmeasured { night, trigger, run_now, outcome: Outcome::Gap, reason, message };
    reconcile.remember(gap.night(&reconcile.name)).await.map(drop)
}

/// The object of a night.
pub fn experiment(
    reconcile: &Reconcile<'_>,
    name: &str,
    minute: Timestamp,
    trigger: Trigger,
    run_now: Option<&str>,
    lookup: &Lookup,
) -> Result<TuningExperiment, Error> {
    let mut labels = json!({SWEEP_LABEL: reconcile.name, MANAGED_LABEL: MANAGED_BY});
    // Nights wait in the queue that their sweep names.
    for (label, value) in reconcile.sweep.labels().iter().filter(|(label, _)| label.starts_with(QUEUE_LABELS)) {
        labels[label] = json!(value);
    }
    let mut annotations = json!({NIGHT_ANNOTATION: minute.to_string(), TRIGGER_ANNOTATION: format!("{trigger:?}")});
    if let Some(run_now) = run_now {
        annotations[RUN_NOW_ANNOTATION] = json!(run_now);
    }
    Ok(serde_json::from_value(json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        "metadata": {
            "name": name,
            "namespace": reconcile.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner(reconcile.sweep)],
        },
        "spec": night::pinned(night::experiment(&reconcile.sweep.spec), lookup.images()),
    }))?)
}
