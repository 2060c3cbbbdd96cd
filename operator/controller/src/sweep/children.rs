//! The experiments of nights.

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_api::names::{NIGHT_ANNOTATION, RUN_NOW_ANNOTATION, TRIGGER_ANNOTATION, VISIT_ANNOTATION};
use assay_api::{BegunNight, TuningExperiment, TuningSweepStatus};
use assay_core::sweep::child::{Child, ChildState, Origin, digest};
use assay_core::sweep::{Trigger, night};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use kube::runtime::reflector::Store;
use tracing::{info, warn};

use super::memory::Known;
use super::{Reconcile, status};
use crate::error::{Error, call};
use crate::experiment::{is_finished, why_unreadable};
use crate::object::delete;
use crate::pod::is_owned;
use crate::watch::Unreadable;

/// By the time of their night.
pub type Children = BTreeMap<Timestamp, (Child, Arc<TuningExperiment>)>;

/// Experiments that the sweep owns, with their nights.
pub async fn all(reconcile: &Reconcile<'_>, known: &Known) -> Result<Owned, Error> {
    let is_ours = |experiment: &TuningExperiment| {
        experiment.metadata.namespace.as_ref() == Some(&reconcile.namespace) && is_owned(experiment, reconcile.sweep)
    };
    let mut watched: Vec<Arc<TuningExperiment>> =
        reconcile.context.experiments.iter().flat_map(Store::state).filter(|one| is_ours(one)).collect();
    let mut unreadable: BTreeMap<String, String> = BTreeMap::new();
    for object in reconcile.context.unreadable_experiments.iter().flat_map(Unreadable::all) {
        let named = stand_in(reconcile, object.metadata);
        if !is_ours(&named) {
            continue;
        }
        let name = named.name_any();
        // A finished night is in the history, or will be once it can be read.
        let is_decided = |known: &Known| night(&named).is_none_or(|night| known.remembered.nights.contains(&night));
        match watched.iter().find(|one| one.name_any() == name) {
            Some(before) if is_finished(before) => continue,
            None if is_decided(known) => continue,
            Some(_) => {}
            None => watched.push(Arc::new(named)),
        }
        unreadable.insert(name, why_unreadable("its experiment", &object.error));
    }
    let memory = reconcile.context.memories.of(reconcile.sweep);
    let unseen = memory.lock().unseen(&watched);
    for name in unseen {
        // Somebody may have deleted it before the watch could tell of it.
        if call(reconcile.api::<TuningExperiment>().get_opt(&name)).await?.is_none() {
            memory.lock().forget(&name);
        }
    }
    let experiments = memory.lock().with(watched);
    let mut found = sort(reconcile, known, &status::latest(reconcile), &experiments, &unreadable)?;
    if found.is_doubtful() {
        // The watch of sweeps may be behind that of experiments.
        let status = status::latest_there(reconcile).await?;
        found = sort(reconcile, known, &status, &experiments, &unreadable)?;
    }
    Ok(found)
}

/// Experiments that a sweep owns.
#[derive(Default)]
pub struct Owned {
    pub children: Children,
    /// Names of experiments that the sweep has not begun: nothing is done about them.
    pub foreign: Vec<String>,
}

impl Owned {
    fn is_doubtful(&self) -> bool {
        !self.foreign.is_empty() || self.children.values().any(|(child, _)| child.state == ChildState::Altered)
    }
}

fn sort(
    reconcile: &Reconcile<'_>,
    known: &Known,
    status: &TuningSweepStatus,
    experiments: &[Arc<TuningExperiment>],
    unreadable: &BTreeMap<String, String>,
) -> Result<Owned, Error> {
    let begun = begun(status);
    let mut owned = Owned::default();
    for experiment in experiments {
        let name = experiment.name_any();
        let is_named = |night: &Timestamp| night::name(&reconcile.name, *night) == name;
        let times = begun.as_ref().map(|begun| begun.time.0).into_iter().chain(night(experiment));
        let Some(night) = times.into_iter().find(is_named) else {
            owned.foreign.push(name);
            continue;
        };
        let has_fallen_out = known.remembered.kept_from.is_some_and(|kept| night < kept) && is_finished(experiment);
        let is_decided = known.remembered.nights.contains(&night) || has_fallen_out;
        let mut child = child(experiment);
        let origin = match unreadable.get(&name) {
            // Nothing of it is believed, since it never ends but by its sweep.
            Some(message) => {
                child.state = ChildState::Stuck { reason: "Unreadable".to_owned(), message: message.clone() };
                let is_begun = begun.as_ref().is_some_and(|begun| begun.time.0 == night);
                if is_begun || is_decided { Origin::Own } else { Origin::Foreign }
            }
            None => Origin::of(night, &digest(experiment)?, begun.as_ref(), is_decided),
        };
        match origin {
            Origin::Own => {}
            Origin::Altered => child.state = ChildState::Altered,
            Origin::Foreign => {
                owned.foreign.push(name);
                continue;
            }
        }
        owned.children.insert(night, (child, Arc::clone(experiment)));
    }
    Ok(owned)
}

/// The night that was begun last. An earlier version recorded only the active one.
fn begun(status: &TuningSweepStatus) -> Option<BegunNight> {
    let of_active = || status.active.as_ref().map(|active| BegunNight { time: active.time.clone(), digest: None });
    status.begun.clone().or_else(of_active)
}

/// An experiment of which nothing but its metadata can be read.
fn stand_in(reconcile: &Reconcile<'_>, metadata: ObjectMeta) -> TuningExperiment {
    TuningExperiment { metadata, spec: night::experiment(&reconcile.sweep.spec), status: None }
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
        state: ChildState::of(experiment.status.as_ref()),
    }
}

fn trigger(text: &str) -> Option<Trigger> {
    let all = [Trigger::Schedule, Trigger::CatchUp, Trigger::Manual, Trigger::Canary, Trigger::Confirmation];
    all.into_iter().find(|trigger| format!("{trigger:?}") == text)
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
