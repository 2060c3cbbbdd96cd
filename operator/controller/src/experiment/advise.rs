//! The repetitions that would decide what an experiment has left undecided. They are simulated once, after its end and beside the reconciles,
//! so that neither its verdict nor another experiment waits for them.

use std::time::Duration;

use assay_api::TuningExperimentStatus;
use assay_core::attempt::Attempt;
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::{PRODUCED_BY, status};
use k8s_openapi::jiff::Timestamp;

use super::{Reconcile, accept, age, settle};
use crate::error::Error;
use crate::task::{self, Aside};

/// An experiment that ended longer ago has its advice: a new leader does not simulate for all that are kept.
const RECENT: Duration = Duration::from_hours(1);
/// Pause before the next look at a simulation that runs, or that waits for the one of another experiment.
const POLL: Duration = Duration::from_secs(2);

/// The advice for one experiment.
pub enum Advice {
    Simulating(Aside<Option<TuningExperimentStatus>>),
    /// It was written, or there is none.
    Done,
}

/// Simulates and writes the advice for an experiment that ended at `end`. Returns when to look again, while there is none.
pub async fn after_the_end(reconcile: &Reconcile<'_>, end: Option<Timestamp>) -> Result<Option<Duration>, Error> {
    let known = reconcile.memory().advice.take();
    let (next, again) = match known {
        Some(Advice::Done) => (Some(Advice::Done), None),
        Some(Advice::Simulating(simulation)) if !simulation.has_ended() => {
            (Some(Advice::Simulating(simulation)), Some(POLL))
        }
        Some(Advice::Simulating(simulation)) => {
            if let Some(advised) = simulation.result().await.flatten() {
                settle::advise(reconcile, advised).await?;
            }
            (Some(Advice::Done), None)
        }
        None if !is_open(reconcile, end) => (Some(Advice::Done), None),
        None => {
            let simulation = begin(reconcile)?;
            (simulation.map(Advice::Simulating), Some(POLL))
        }
    };
    reconcile.memory().advice = next;
    Ok(again)
}

/// Whether a config is undecided, as this build has judged a short while ago.
fn is_open(reconcile: &Reconcile<'_>, end: Option<Timestamp>) -> bool {
    let (status, _) = settle::latest(reconcile);
    let is_recent = end.is_some_and(|end| age(end, reconcile.now) < RECENT);
    let is_ours = status.plan.is_some_and(|plan| plan.produced_by == PRODUCED_BY);
    task::has_threads() && is_recent && is_ours && status.verdicts.iter().any(|config| config.verdict == "Inconclusive")
}

/// Begins a simulation; `None` while another one runs.
fn begin(reconcile: &Reconcile<'_>) -> Result<Option<Aside<Option<TuningExperimentStatus>>>, Error> {
    let Ok(plan) = accept::plan(reconcile) else { return Ok(None) };
    let trials = reconcile.trials();
    let attempts = {
        let known = &mut reconcile.memory().attempts;
        known.update(&plan, trials.values().map(AsRef::as_ref)).map(|()| known.all())
    };
    let attempts = attempts.map_err(|error| Error::Unexpected(error.to_string()))?;
    Ok(task::aside(move || simulate(&plan, &attempts)))
}

/// The status of a finished experiment with advice.
fn simulate(plan: &Plan, attempts: &[Attempt]) -> Option<TuningExperimentStatus> {
    let mut report = judge(plan, attempts).ok()?;
    // Reconciles need the other threads.
    report.advise(1, &|_, _| ());
    status::of(&report).ok()
}
