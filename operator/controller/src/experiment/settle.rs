//! The status of an experiment: conditions, progress and the verdict so far, in one write where anything has changed.

use std::time::{Duration, Instant};

use assay_api::condition::find;
use assay_api::names::{ACCEPTED, FINISHED, PROGRESSING, SUSPENDED};
use assay_api::{Condition, PlanStatus, ProgressStatus, Time, TuningExperiment, TuningExperimentStatus};
use assay_core::decide::{Place, Places};
use assay_core::judge::{design, judge_with};
use assay_core::plan::Plan;
use assay_core::status;
use assay_core::verdict::Intervals;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::Patch;
use kube::runtime::events::EventType;
use serde_json::json;
use tracing::info;

use super::observe::Observed;
use super::{Round, apply, condition};
use crate::error::{Error, call};
use crate::known::version;
use crate::watch::locked;

/// How an experiment stands.
pub enum State {
    Refused(Vec<String>),
    Waiting { reason: &'static str, message: String },
    Suspended { running: usize },
    Running { nodes: Vec<String> },
    Finished,
}

/// A new estimate of the end alone is written no more often than this.
const ESTIMATES: Duration = Duration::from_mins(1);

pub async fn write(round: &mut Round<'_>, state: &State, seen: Option<(&Plan, &Observed)>) -> Result<(), Error> {
    let before = latest(round);
    let mut after = before.clone();
    if let Some((plan, observed)) = seen {
        after = judged(round, plan, observed, matches!(state, State::Finished))?;
        after.plan = before.plan.clone().or_else(|| Some(planned(plan, &round.context.args.bench_image)));
        if let Some(progress) = &mut after.progress {
            progress.estimated_completion_time = estimate(round, plan, observed, progress, state);
        }
    }
    if matches!(state, State::Refused(_)) {
        after.verdict = Some("Refused".to_owned());
    }
    let generation = round.experiment.metadata.generation;
    after.observed_generation = generation;
    after.conditions = conditions(round, state, seen.is_some(), &after, &before.conditions);
    if same(&before, &after) && !is_due(round, &before, &after) {
        return Ok(());
    }
    let patch = json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        "metadata": {"name": round.name, "uid": round.uid},
        "status": after,
    });
    let api = round.context.api::<TuningExperiment>(&round.namespace);
    let written = call(api.patch_status(&round.name, &apply(), &Patch::Apply(&patch))).await?;
    locked(&round.context.written).insert(round.uid.clone(), (Instant::now(), written));
    tell(round, state, &before.conditions, &after).await;
    Ok(())
}

/// The status as it is: a watch may be late to tell of what was just written, which would be written again.
fn latest(round: &Round<'_>) -> TuningExperimentStatus {
    let written = locked(&round.context.written);
    let newer = written.get(&round.uid).filter(|(_, written)| version(written) > version(round.experiment));
    newer.map_or(round.experiment, |(_, written)| written).status.clone().unwrap_or_default()
}

/// The verdict so far as a status. Attempts are only ever added, so as many as before say what they said before.
fn judged(
    round: &Round<'_>,
    plan: &Plan,
    observed: &Observed,
    is_finished: bool,
) -> Result<TuningExperimentStatus, Error> {
    let key = (observed.attempts.len(), is_finished);
    if let Some((known, status)) = locked(&round.context.judged).get(&round.uid)
        && *known == key
    {
        return Ok(status.clone());
    }
    let unexpected = |error: &dyn std::fmt::Display| Error::Unexpected(error.to_string());
    let status = tokio::task::block_in_place(|| {
        let places = Places::new(plan, &observed.attempts).map_err(|error| unexpected(&error))?;
        let intervals = if is_finished { Intervals::All } else { Intervals::None };
        let report = judge_with(&places, &design(&plan.experiment), intervals).map_err(|error| unexpected(&error))?;
        Ok::<_, Error>(status::of(&report)?)
    })?;
    locked(&round.context.judged).insert(round.uid.clone(), (key, status.clone()));
    Ok(status)
}

fn planned(plan: &Plan, bench_image: &str) -> PlanStatus {
    PlanStatus {
        digest: plan.digest.to_string(),
        seed: plan.experiment.seed,
        blocks: plan.blocks.len() as u32,
        trials: plan.experiment.trials() as u32,
        engine: concat!("assay ", env!("CARGO_PKG_VERSION")).to_owned(),
        bench_image: Some(bench_image.to_owned()),
    }
}

/// When the open trials will be done, going by those that are.
fn estimate(
    round: &Round<'_>,
    plan: &Plan,
    observed: &Observed,
    progress: &ProgressStatus,
    state: &State,
) -> Option<Time> {
    let State::Running { nodes } = state else { return None };
    let told = observed.trials.values().flat_map(|trial| trial.status.iter().flat_map(|status| &status.attempts));
    let seconds: Vec<f64> = told
        .filter_map(|told| {
            let (start, end) = (told.start_time.as_ref()?.0, told.completion_time.as_ref()?.0);
            told.summary.as_ref().map(|_| end.duration_since(start).as_secs_f64())
        })
        .collect();
    if seconds.is_empty() || nodes.is_empty() {
        return None;
    }
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let places = Places::new(plan, &observed.attempts).ok()?;
    let open = places.blocks().iter().flat_map(|block| &block.places);
    let open = open.filter(|place| matches!(place, Place::Open { .. })).count() as f64;
    // What running trials have done already is not to come.
    let known = locked(&round.context.progress);
    let done: f64 = observed
        .under_way
        .iter()
        .filter_map(|found| known.get(&(round.namespace.clone(), found.pod.metadata.name.clone()?)))
        .sum();
    drop(known);
    // Of those to come as many are repeated as of those before.
    let repeats = f64::from(progress.attempts.max(1))
        / f64::from(progress.attempts.saturating_sub(progress.attempts_invalid + progress.attempts_lost).max(1));
    let left = mean * (open * repeats - done).max(0.0) / nodes.len() as f64;
    let end = round.now.checked_add(SignedDuration::from_secs(left as i64)).ok()?;
    Some(Time(super::whole_second(end)))
}

fn conditions(
    round: &Round<'_>,
    state: &State,
    is_planned: bool,
    after: &TuningExperimentStatus,
    before: &[Condition],
) -> Vec<Condition> {
    let generation = round.experiment.metadata.generation;
    let make = |type_: &str, status: &str, reason: &str, message: &str| {
        condition((type_, status), (reason, message), generation, before, round.now)
    };
    let accepted = match state {
        State::Refused(problems) => make(ACCEPTED, "False", "Invalid", &problems.join("\n")),
        State::Waiting { reason: "Checking" | "Suspended", message } if !is_planned => {
            make(ACCEPTED, "Unknown", "Checking", message)
        }
        _ => {
            let sound = "the spec is sound, and RocksDB takes the options of every config";
            let datasets = if round.experiment.spec.placement.keeps_datasets() {
                ""
            } else {
                "; every trial prepares its datasets, as placement.storage is an emptyDir"
            };
            make(ACCEPTED, "True", "OptionsChecked", &format!("{sound}{datasets}"))
        }
    };
    let progressing = match state {
        State::Refused(_) => make(PROGRESSING, "False", "Refused", "it can't run; see the condition Accepted"),
        State::Waiting { reason: "Checking", message } => make(PROGRESSING, "True", "Checking", message),
        State::Waiting { reason, message } => make(PROGRESSING, "False", reason, message),
        State::Suspended { running: 0 } => {
            make(PROGRESSING, "False", "Suspended", "nothing begins until spec.suspend is false")
        }
        State::Suspended { running } => {
            let message = format!("{running} running trials end, then nothing begins until spec.suspend is false");
            make(PROGRESSING, "True", "Suspending", &message)
        }
        State::Running { nodes } => make(PROGRESSING, "True", "Running", &format!("on {}", nodes.join(", "))),
        State::Finished => make(PROGRESSING, "False", "Finished", "nothing is left to run"),
    };
    let suspended = if round.is_suspended() {
        make(SUSPENDED, "True", "Suspended", "spec.suspend is true")
    } else {
        make(SUSPENDED, "False", "NotSuspended", "")
    };
    let finished = match state {
        State::Refused(_) => make(FINISHED, "True", "Refused", "it can't run; see the condition Accepted"),
        State::Finished => make(FINISHED, "True", outcome(after), &sentences(after)),
        _ => make(FINISHED, "False", "NotFinished", ""),
    };
    vec![accepted, progressing, suspended, finished]
}

/// In a word, what came of an experiment.
fn outcome(status: &TuningExperimentStatus) -> &'static str {
    let has = |wanted: &str| status.verdicts.iter().any(|config| config.verdict == wanted);
    if !status.findings.is_empty() || has("Invalid") {
        "Invalid"
    } else if has("Inconclusive") {
        "Inconclusive"
    } else {
        "Decided"
    }
}

fn sentences(status: &TuningExperimentStatus) -> String {
    let sentences: Vec<&str> = status.verdicts.iter().map(|config| config.sentence.as_str()).collect();
    sentences.join(" ")
}

/// Whether nothing but the estimated end has changed.
fn same(before: &TuningExperimentStatus, after: &TuningExperimentStatus) -> bool {
    let timeless = |status: &TuningExperimentStatus| {
        let mut status = status.clone();
        if let Some(progress) = &mut status.progress {
            progress.estimated_completion_time = None;
        }
        status
    };
    timeless(before) == timeless(after)
}

fn is_due(round: &mut Round<'_>, before: &TuningExperimentStatus, after: &TuningExperimentStatus) -> bool {
    let end = |status: &TuningExperimentStatus| -> Option<Timestamp> {
        Some(status.progress.as_ref()?.estimated_completion_time.as_ref()?.0)
    };
    if end(after).is_none() || end(before) == end(after) {
        return false;
    }
    let since = locked(&round.context.written).get(&round.uid).map(|(at, _)| at.elapsed());
    round.wake_in(ESTIMATES.saturating_sub(since.unwrap_or_default()));
    since.is_some_and(|since| since >= ESTIMATES)
}

/// Events about what has changed for whoever waits.
async fn tell(round: &Round<'_>, state: &State, before: &[Condition], after: &TuningExperimentStatus) {
    let known = |conditions: &[Condition], type_: &str| {
        find(conditions, type_).map(|known| (known.status.clone(), known.reason.clone()))
    };
    let changed = |type_: &str| known(before, type_) != known(&after.conditions, type_);
    let message = |type_: &str| find(&after.conditions, type_).map(|known| known.message.clone()).unwrap_or_default();
    match state {
        State::Refused(_) if changed(ACCEPTED) => {
            round.context.tell(round.experiment, None, EventType::Warning, "Refused", &message(ACCEPTED)).await;
        }
        State::Waiting { reason, message } if changed(PROGRESSING) => {
            round.context.tell(round.experiment, None, EventType::Normal, reason, message).await;
        }
        State::Finished if changed(FINISHED) => {
            let verdict = after.verdict.clone().unwrap_or_default();
            info!(verdict, "finished");
            let note = format!("{verdict}. {}", message(FINISHED));
            round.context.tell(round.experiment, None, EventType::Normal, "Finished", &note).await;
        }
        _ => {}
    }
}
