//! The beginning of a night, or of a visit about a change: its experiment.

use assay_api::names::{
    MANAGED_BY, MANAGED_LABEL, NIGHT_ANNOTATION, QUEUE_LABELS, RUN_NOW_ANNOTATION, SWEEP_LABEL, TRIGGER_ANNOTATION,
    VISIT_ANNOTATION,
};
use assay_api::{BegunNight, Time, TuningExperiment, TuningExperimentSpec};
use assay_core::sweep::child::digest;
use assay_core::sweep::confirm::{self, Visit};
use assay_core::sweep::next::Unmeasured;
use assay_core::sweep::{Outcome, Trigger, night};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::events::EventType;
use serde_json::json;

use super::resolve::Lookup;
use super::{Reconcile, status, store};
use crate::error::{Error, call};
use crate::object;
use crate::pod::{is_owned, owner};

/// What begins.
pub struct Beginning {
    pub minute: Timestamp,
    pub trigger: Trigger,
    pub run_now: Option<String>,
    /// What is asked, if it is no night.
    pub visit: Option<Visit>,
}

/// Begins a night.
pub async fn night(reconcile: &mut Reconcile<'_>, beginning: Beginning, lookup: &Lookup) -> Result<(), Error> {
    let spec = night::pinned(night::experiment(&reconcile.sweep.spec), lookup.images());
    begin(reconcile, beginning, spec).await
}

/// Begins a visit, of the versions that the history names.
pub async fn visit(reconcile: &mut Reconcile<'_>, minute: Timestamp, visit: Visit) -> Result<(), Error> {
    let ((ring, _), _) = store::read(reconcile).await?;
    let spec = confirm::experiment(&reconcile.sweep.spec, ring.history(), &visit);
    let beginning = Beginning { minute, trigger: Trigger::Confirmation, run_now: None, visit: Some(visit) };
    match spec {
        Ok(spec) => begin(reconcile, beginning, spec).await,
        Err(why) => refuse(reconcile, beginning, "VersionLost", &why.to_string()).await,
    }
}

async fn begin(reconcile: &mut Reconcile<'_>, beginning: Beginning, spec: TuningExperimentSpec) -> Result<(), Error> {
    let name = night::name(&reconcile.name, beginning.minute);
    let experiment = experiment(reconcile, &name, &beginning, &spec)?;
    let own = digest(&experiment)?;
    let api = reconcile.api::<TuningExperiment>();
    if let Some(there) = unanswered(reconcile, beginning.minute).await? {
        reconcile.context.memories.of(reconcile.sweep).lock().made(there);
        return Ok(());
    }
    // First, so that an operator that takes over knows its own.
    status::begin(reconcile, BegunNight { time: Time(beginning.minute), digest: Some(own.to_string()) }).await?;
    match object::create(&api, &experiment).await {
        Ok(made) => {
            reconcile.context.memories.of(reconcile.sweep).lock().made(made);
            let (minute, trigger) = (beginning.minute, beginning.trigger);
            let (reason, note) = match &beginning.visit {
                None => ("NightBegun", format!("the night of {minute}: {trigger:?}, as experiment {name}")),
                Some(visit) => {
                    let what = if visit.search.is_some() { "find what brought" } else { "confirm" };
                    ("VisitBegun", format!("visit {} to {what} {}, as experiment {name}", visit.number, visit.change()))
                }
            };
            reconcile.publish(EventType::Normal, reason, &note).await;
        }
        // By ourselves, before an answer was lost; or it is somebody else's.
        Err(error) if error.is_conflict() => {
            let there = call(api.get_opt(&name)).await?;
            match there {
                Some(there) if is_owned(&there, reconcile.sweep) && digest(&there)? == own => {
                    reconcile.context.memories.of(reconcile.sweep).lock().made(there);
                }
                Some(_) => {
                    let message = format!("an experiment {name} is there already, which is not this sweep's");
                    refuse(reconcile, beginning, "NameTaken", &message).await?;
                }
                None => return Err(error),
            }
        }
        Err(error) if error.is_refusal() => {
            let message = format!("its experiment was refused: {}", error.message());
            refuse(reconcile, beginning, "NotAllowed", &message).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The experiment that was begun last, if that is not decided: it was created, and the answer was lost.
async fn unanswered(reconcile: &Reconcile<'_>, minute: Timestamp) -> Result<Option<TuningExperiment>, Error> {
    let begun = status::latest(reconcile).begun.map(|begun| begun.time.0).filter(|night| *night != minute);
    let memory = reconcile.context.memories.of(reconcile.sweep);
    let is_decided =
        |night: &Timestamp| memory.lock().known.as_ref().is_some_and(|known| known.remembered.nights.contains(night));
    let Some(night) = begun.filter(|night| !is_decided(night)) else { return Ok(None) };
    let there = call(reconcile.api::<TuningExperiment>().get_opt(&night::name(&reconcile.name, night))).await?;
    Ok(there.filter(|there| is_owned(there, reconcile.sweep) && there.metadata.deletion_timestamp.is_none()))
}

/// A night or visit whose objects the API server does not take.
pub async fn refuse(
    reconcile: &mut Reconcile<'_>,
    beginning: Beginning,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let Beginning { minute: night, trigger, run_now, visit } = beginning;
    let (reason, message) = (reason.to_owned(), message.to_owned());
    let gap = Unmeasured { night, trigger, run_now, visit, accepted: None, outcome: Outcome::Gap, reason, message };
    reconcile.remember(gap.night(&reconcile.name)).await.map(drop)
}

/// The object of a night or visit.
fn experiment(
    reconcile: &Reconcile<'_>,
    name: &str,
    beginning: &Beginning,
    spec: &TuningExperimentSpec,
) -> Result<TuningExperiment, Error> {
    let mut labels = json!({SWEEP_LABEL: reconcile.name, MANAGED_LABEL: MANAGED_BY});
    // Nights wait in the queue that their sweep names.
    for (label, value) in reconcile.sweep.labels().iter().filter(|(label, _)| label.starts_with(QUEUE_LABELS)) {
        labels[label] = json!(value);
    }
    let mut annotations = json!({
        NIGHT_ANNOTATION: beginning.minute.to_string(),
        TRIGGER_ANNOTATION: format!("{:?}", beginning.trigger),
    });
    if let Some(run_now) = &beginning.run_now {
        annotations[RUN_NOW_ANNOTATION] = json!(run_now);
    }
    if let Some(visit) = &beginning.visit {
        annotations[VISIT_ANNOTATION] = json!(serde_json::to_string(visit)?);
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
        "spec": spec,
    }))?)
}
