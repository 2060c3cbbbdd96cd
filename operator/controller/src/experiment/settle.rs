//! The status of an experiment: conditions, progress and the verdict so far, in one write where anything has changed.

use std::time::Duration;

use assay_api::condition::find;
use assay_api::names::{ACCEPTED, FINISHED, PROGRESSING, READY, STALLED, SUSPENDED};
use assay_api::{Condition, PlanStatus, ProgressStatus, Time, TuningExperiment, TuningExperimentStatus};
use assay_core::decide::{Place, Places};
use assay_core::judge::judge_with;
use assay_core::plan::Plan;
use assay_core::report::RULES;
use assay_core::status;
use assay_core::verdict::Intervals;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::Patch;
use kube::runtime::events::EventType;
use serde_json::json;
use tracing::info;

use super::memory::{Judged, Memory};
use super::observe::Observed;
use super::{Reconcile, UNREADABLE, condition, forced, is_finished, some_of};
use crate::error::{Error, call};
use crate::task;
use crate::watch::version;

/// How an experiment stands.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Refused(Vec<String>),
    Waiting { reason: &'static str, message: String },
    Suspended { running: usize },
    Running { nodes: Vec<String> },
    Finished,
}

/// After this an experiment is looked for again that the API server does not have.
const GONE: Duration = Duration::from_secs(30);
/// A new estimate of the end alone is written no more often than this.
const ESTIMATES: Duration = Duration::from_mins(1);
/// And other words for the same state than this.
const WORDS: Duration = Duration::from_secs(10);
/// All experiments on their way together write how far they are no more often than this: with many of them, that would be a write for each
/// trial, of a large object.
const NEWS: Duration = Duration::from_millis(500);
/// These are the same state in that respect: with more experiments than nodes, each runs a block and waits in turn.
const TURNS: [&str; 2] = ["Running", "NodeHeld"];

pub async fn write(
    reconcile: &Reconcile<'_>,
    state: &State,
    seen: Option<(&Places<'_>, &Observed)>,
) -> Result<(), Error> {
    let (before, version) = latest(reconcile);
    let mut after = before.clone();
    if let Some((places, observed)) = seen {
        after = judged(reconcile, places, matches!(state, State::Finished))?;
        after.plan =
            before.plan.clone().or_else(|| Some(planned(places.plan(), &reconcile.cluster().args.bench_image)));
        if let Some(progress) = &mut after.progress {
            progress.estimated_completion_time = estimate(reconcile, places, observed, progress, state);
        }
    }
    if matches!(state, State::Refused(_)) {
        after.verdict = Some("Refused".to_owned());
    }
    let generation = reconcile.experiment.metadata.generation;
    after.observed_generation = generation;
    after.conditions = conditions(reconcile, state, seen.is_some(), &after, &before.conditions);
    if !is_due(reconcile, state, &before, &after) {
        return Ok(());
    }
    if patch(reconcile, version, &after).await? {
        publish(reconcile, state, &before.conditions, &after).await;
    }
    Ok(())
}

/// Writes a status over that of a version. Returns whether the experiment exists.
async fn patch(
    reconcile: &Reconcile<'_>,
    version: Option<String>,
    after: &TuningExperimentStatus,
) -> Result<bool, Error> {
    let patch = json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        // As it is known: a leader that another one has followed could say of a finished experiment that it goes on.
        "metadata": {"name": reconcile.name, "uid": reconcile.uid, "resourceVersion": version},
        "status": after,
    });
    let api = reconcile.api::<TuningExperiment>();
    let mut written = match call(api.patch_status(&reconcile.name, &forced(), &Patch::Apply(&patch))).await {
        Err(error) if error.is_not_found() => {
            reconcile.memory().gone(reconcile.instant());
            reconcile.wake_in(GONE);
            return Ok(false);
        }
        written => written?,
    };
    // Larger than the rest.
    written.metadata.managed_fields = None;
    reconcile.memory().written = Some((reconcile.instant(), Some(written)));
    Ok(true)
}

/// Replaces the sentences of a finished experiment by those of the same report with advice.
pub async fn advise(reconcile: &Reconcile<'_>, advised: TuningExperimentStatus) -> Result<(), Error> {
    let (before, version) = latest(reconcile);
    if before.report_digest != advised.report_digest || before.verdicts == advised.verdicts {
        return Ok(());
    }
    let mut after = TuningExperimentStatus { verdicts: advised.verdicts, ..before.clone() };
    let end = condition(
        (FINISHED, "True"),
        (outcome(&after), &sentences(&after)),
        reconcile.experiment.metadata.generation,
        &before.conditions,
        reconcile.now,
    );
    after.conditions.iter_mut().filter(|known| known.type_ == FINISHED).for_each(|known| *known = end.clone());
    patch(reconcile, version, &after).await.map(drop)
}

/// A finished experiment that could not be read for a while is not judged again, and would say so for ever.
pub async fn take_back_unreadable(reconcile: &Reconcile<'_>) -> Result<(), Error> {
    let (TuningExperimentStatus { conditions, .. }, _) = latest(reconcile);
    if !conditions.iter().any(|known| known.reason == UNREADABLE) {
        return Ok(());
    }
    let is_refused = find(&conditions, FINISHED).is_some_and(|end| end.reason == "Refused");
    let state = if is_refused {
        State::Refused(vec!["the reason is lost: a version that could not read the experiment overwrote it".to_owned()])
    } else {
        State::Finished
    };
    write(reconcile, &state, None).await
}

/// For how long yet nothing is done for an experiment that is gone by what the API server says. It says the same for a moment where the kind
/// of experiments is not served, so it is asked again.
pub async fn gone_for(reconcile: &Reconcile<'_>) -> Result<Option<Duration>, Error> {
    let Some(gone) = reconcile.memory().gone else { return Ok(None) };
    if let Some(left) = GONE.checked_sub(reconcile.elapsed(gone)) {
        return Ok(Some(left));
    }
    // Of its name there may be another one by now.
    let there = call(reconcile.api::<TuningExperiment>().get_metadata_opt(&reconcile.name)).await?;
    let is_gone = there.is_none_or(|there| there.uid().as_deref() != Some(&reconcile.uid));
    reconcile.memory().gone = is_gone.then(|| reconcile.instant());
    Ok(is_gone.then_some(GONE))
}

/// Whether it was written that it is over, and its watch does not tell yet: whoever went by that would begin anew.
pub fn has_just_finished(reconcile: &Reconcile<'_>) -> bool {
    newer(&reconcile.memory(), reconcile.experiment).is_some_and(is_finished) && !is_finished(reconcile.experiment)
}

/// An experiment as it was written last, where that is newer than what its watch tells.
fn newer<'m>(memory: &'m Memory, watched: &TuningExperiment) -> Option<&'m TuningExperiment> {
    let (_, written) = memory.written.as_ref()?;
    written.as_ref().filter(|written| version(*written) > version(watched))
}

/// The status as it is, and the version of the experiment that has it: a watch may be late to tell of what was just written, which would be
/// written again.
pub fn latest(reconcile: &Reconcile<'_>) -> (TuningExperimentStatus, Option<String>) {
    let memory = &mut *reconcile.memory();
    if newer(memory, reconcile.experiment).is_none()
        && let Some((_, told)) = &mut memory.written
    {
        *told = None;
    }
    let known = newer(memory, reconcile.experiment).unwrap_or(reconcile.experiment);
    (known.status.clone().unwrap_or_default(), known.resource_version())
}

/// The verdict so far as a status. Attempts are only ever added, so as many as before say what they said before.
fn judged(reconcile: &Reconcile<'_>, places: &Places<'_>, is_finished: bool) -> Result<TuningExperimentStatus, Error> {
    let attempts = places.attempts().len();
    let written = news(reconcile.context.memories.on_the_way());
    if let Some(known) = &reconcile.memory().judged
        && let Some(left) = known.stands_for(attempts, is_finished, written, reconcile.instant())
    {
        if known.attempts != attempts {
            reconcile.wake_in(left);
        }
        return Ok(known.status.clone());
    }
    let unexpected = |error: &dyn std::fmt::Display| Error::Unexpected(error.to_string());
    let began = reconcile.instant();
    let status = task::compute(|| {
        let intervals = if is_finished { Intervals::All } else { Intervals::None };
        let report =
            judge_with(places, &places.plan().experiment.design(), intervals).map_err(|error| unexpected(&error))?;
        Ok::<_, Error>(status::of(&report)?)
    })?;
    let (at, took) = (reconcile.instant(), reconcile.elapsed(began));
    reconcile.memory().judged = Some(Judged { attempts, is_finished, status: status.clone(), at, took });
    Ok(status)
}

fn planned(plan: &Plan, bench_image: &str) -> PlanStatus {
    PlanStatus {
        digest: plan.digest.to_string(),
        seed: plan.experiment.seed,
        blocks: plan.blocks.len() as u32,
        trials: plan.experiment.trials() as u32,
        produced_by: assay_core::PRODUCED_BY.to_owned(),
        rules: Some(RULES),
        bench_image: Some(bench_image.to_owned()),
    }
}

/// When the open trials will be done, going by those that are.
fn estimate(
    reconcile: &Reconcile<'_>,
    places: &Places<'_>,
    observed: &Observed,
    progress: &ProgressStatus,
    state: &State,
) -> Option<Time> {
    let State::Running { nodes } = state else { return None };
    let attempts = observed.trials.values().flat_map(|trial| {
        let all = trial.status.iter().flat_map(|status| &status.attempts);
        all.filter(|attempt| trial.has_summary(attempt.attempt))
    });
    let seconds: Vec<f64> = attempts
        .filter_map(|attempt| {
            let (start, end) = (attempt.start_time.as_ref()?.0, attempt.completion_time.as_ref()?.0);
            Some(end.duration_since(start).as_secs_f64())
        })
        .collect();
    if seconds.is_empty() || nodes.is_empty() {
        return None;
    }
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let open = places.blocks().iter().flat_map(|block| &block.places);
    let open = open.filter(|place| matches!(place, Place::Open { .. })).count() as f64;
    // What running trials have done already is not to come.
    let memory = reconcile.memory();
    let done: f64 =
        observed.under_way.iter().filter_map(|found| memory.progress.get(found.pod.metadata.name.as_ref()?)).sum();
    drop(memory);
    // Of those to come as many are repeated as of those before.
    let repeats = f64::from(progress.attempts.max(1))
        / f64::from(progress.attempts.saturating_sub(progress.attempts_invalid + progress.attempts_lost).max(1));
    let left = mean * (open * repeats - done).max(0.0) / nodes.len() as f64;
    let end = reconcile.now.checked_add(SignedDuration::from_secs(left as i64)).ok()?;
    Some(Time(super::whole_second(end)))
}

fn conditions(
    reconcile: &Reconcile<'_>,
    state: &State,
    is_planned: bool,
    after: &TuningExperimentStatus,
    before: &[Condition],
) -> Vec<Condition> {
    let generation = reconcile.experiment.metadata.generation;
    let make = |type_: &str, status: &str, reason: &str, message: &str| {
        condition((type_, status), (reason, message), generation, before, reconcile.now)
    };
    let accepted = match state {
        State::Refused(problems) => make(ACCEPTED, "False", "Invalid", &problems.join("\n")),
        State::Waiting { reason: "Checking" | "Suspended", message } if !is_planned => {
            make(ACCEPTED, "Unknown", "Checking", message)
        }
        State::Waiting { reason: "NotAllowed", message } => make(ACCEPTED, "False", "NotAllowed", message),
        _ => {
            let sound = "the spec is valid and RocksDB accepts the options of every config";
            let datasets = if reconcile.experiment.spec.placement.keeps_datasets() {
                ""
            } else {
                "; every trial prepares its dataset, because placement.storage is an emptyDir"
            };
            let rules = if is_planned { changed_rules(after.plan.as_ref()) } else { String::new() };
            make(ACCEPTED, "True", "OptionsChecked", &format!("{sound}{datasets}{rules}"))
        }
    };
    let progressing = match state {
        State::Refused(_) => make(PROGRESSING, "False", "Refused", "can't run; see the condition Accepted"),
        State::Waiting { reason: "Checking", message } => make(PROGRESSING, "True", "Checking", message),
        State::Waiting { reason, message } => make(PROGRESSING, "False", reason, message),
        State::Suspended { running: 0 } => {
            make(PROGRESSING, "False", "Suspended", "nothing starts until spec.suspend is false")
        }
        State::Suspended { running } => {
            let message = format!("{running} running trials finish; no new ones start until spec.suspend is false");
            make(PROGRESSING, "True", "Suspending", &message)
        }
        State::Running { nodes } => make(PROGRESSING, "True", "Running", &format!("on {}", some_of(nodes, ", "))),
        State::Finished => make(PROGRESSING, "False", "Finished", "nothing is left to run"),
    };
    let suspended = if reconcile.is_suspended() {
        make(SUSPENDED, "True", "Suspended", "spec.suspend is true")
    } else {
        make(SUSPENDED, "False", "NotSuspended", "")
    };
    let finished = match state {
        State::Refused(_) => make(FINISHED, "True", "Refused", "can't run; see the condition Accepted"),
        State::Finished => make(FINISHED, "True", outcome(after), &sentences(after)),
        _ => make(FINISHED, "False", "NotFinished", ""),
    };
    let ready = match state {
        State::Finished => make(READY, "True", outcome(after), after.verdict.as_deref().unwrap_or_default()),
        _ => make(READY, "False", &progressing.reason, &progressing.message),
    };
    // One that is there only when something is wrong.
    let stalled = matches!(state, State::Refused(_)).then(|| make(STALLED, "True", "Refused", &progressing.message));
    [accepted, progressing, suspended, finished, ready].into_iter().chain(stalled).collect()
}

/// The versions of the rules that an experiment started with and is judged by, if they differ: older rules are not in this build.
fn changed_rules(plan: Option<&PlanStatus>) -> String {
    match plan.map(|plan| plan.rules) {
        Some(Some(RULES)) | None => String::new(),
        Some(Some(rules)) => {
            format!("; it started under version {rules} of the rules of verdicts and is judged by version {RULES}")
        }
        Some(None) => {
            format!("; it started under an earlier version of the rules of verdicts and is judged by version {RULES}")
        }
    }
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

/// Whether a status is to be written by now.
fn is_due(
    reconcile: &Reconcile<'_>,
    state: &State,
    before: &TuningExperimentStatus,
    after: &TuningExperimentStatus,
) -> bool {
    let on_the_way = || reconcile.context.memories.on_the_way();
    let Some(pause) = pause(state, before, after, on_the_way) else { return false };
    let since = reconcile.memory().written.as_ref().map(|(at, _)| reconcile.elapsed(*at));
    let left = left(pause, since);
    reconcile.wake_in(left);
    left.is_zero()
}

/// How much of a pause is left after the last write. One that another leader made is old enough.
fn left(pause: Duration, since: Option<Duration>) -> Duration {
    since.map_or(Duration::ZERO, |since| pause.saturating_sub(since))
}

/// How long after the last write what has changed may be written, with so many experiments on their way; `None` where nothing has.
fn pause(
    state: &State,
    before: &TuningExperimentStatus,
    after: &TuningExperimentStatus,
    on_the_way: impl FnOnce() -> usize,
) -> Option<Duration> {
    let end = |status: &TuningExperimentStatus| -> Option<Timestamp> {
        Some(status.progress.as_ref()?.estimated_completion_time.as_ref()?.0)
    };
    let timeless = |status: &TuningExperimentStatus| {
        let mut status = status.clone();
        if let Some(progress) = &mut status.progress {
            progress.estimated_completion_time = None;
        }
        status
    };
    let (mut was, mut is) = (timeless(before), timeless(after));
    if was == is {
        return (end(after).is_some() && end(before) != end(after)).then_some(ESTIMATES);
    }
    let (stood, stands) = (std::mem::take(&mut was.conditions), std::mem::take(&mut is.conditions));
    let is_as_before = was.plan == is.plan && was.observed_generation == is.observed_generation;
    let is_on_the_way = matches!(state, State::Running { .. } | State::Waiting { .. });
    if !(is_on_the_way && is_as_before && said(&stood) == said(&stands)) {
        return Some(Duration::ZERO);
    }
    // What nodes it has, or waits for, changes with each trial of a fleet.
    let least = if was == is { WORDS } else { Duration::ZERO };
    Some(least.max(news(on_the_way())))
}

/// How often an experiment says how far it is where so many are on their way.
fn news(on_the_way: usize) -> Duration {
    NEWS * u32::try_from(on_the_way).unwrap_or(u32::MAX)
}

/// What conditions say in a word, as far as it is not just whose turn it is.
fn said(conditions: &[Condition]) -> Vec<(&str, Option<(&str, &str)>)> {
    let said = conditions.iter().map(|known| {
        let is_turn = TURNS.contains(&known.reason.as_str());
        (known.type_.as_str(), (!is_turn).then_some((known.status.as_str(), known.reason.as_str())))
    });
    said.collect()
}

/// Events about what has changed for whoever waits.
async fn publish(reconcile: &Reconcile<'_>, state: &State, before: &[Condition], after: &TuningExperimentStatus) {
    let known = |conditions: &[Condition], type_: &str| {
        find(conditions, type_).map(|known| (known.status.clone(), known.reason.clone()))
    };
    let changed = |type_: &str| known(before, type_) != known(&after.conditions, type_);
    let message = |type_: &str| find(&after.conditions, type_).map(|known| known.message.clone()).unwrap_or_default();
    match state {
        State::Refused(_) if changed(ACCEPTED) => {
            reconcile.publish(None, EventType::Warning, "Refused", &message(ACCEPTED)).await;
        }
        State::Waiting { reason, message } if changed(PROGRESSING) => {
            reconcile.publish(None, EventType::Normal, reason, message).await;
        }
        State::Finished if changed(FINISHED) => {
            let verdict = after.verdict.clone().unwrap_or_default();
            info!(verdict, "finished");
            let note = format!("{verdict}. {}", message(FINISHED));
            reconcile.publish(None, EventType::Normal, "Finished", &note).await;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(reason: &str, message: &str, valid: i32, end: Option<i64>) -> TuningExperimentStatus {
        let time = |second| Time(Timestamp::from_second(second).unwrap_or_default());
        let condition = Condition {
            type_: PROGRESSING.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: None,
            last_transition_time: time(0),
        };
        let progress = ProgressStatus {
            trials_valid: valid.cast_unsigned(),
            estimated_completion_time: end.map(time),
            ..ProgressStatus::default()
        };
        TuningExperimentStatus {
            conditions: vec![condition],
            progress: Some(progress),
            ..TuningExperimentStatus::default()
        }
    }

    #[test]
    fn an_experiment_that_older_rules_began_says_so() {
        let began_by = |rules| changed_rules(Some(&PlanStatus { rules, ..PlanStatus::default() }));
        assert_eq!(changed_rules(None), "");
        assert_eq!(began_by(Some(RULES)), "");
        assert!(began_by(Some(4)).starts_with("; it started under version 4 of the rules"), "{}", began_by(Some(4)));
        assert!(began_by(None).ends_with(&format!("judged by version {RULES}")), "{}", began_by(None));
    }

    #[test]
    fn what_changes_all_the_time_is_not_written_all_the_time() {
        const FEW: usize = 3;
        const MANY: usize = 100;
        let running = State::Running { nodes: Vec::new() };
        let before = status("Running", "on n1", 3, Some(60));
        for (state, after, expected) in [
            (&running, before.clone(), None),
            (&running, status("Running", "on n1", 3, Some(61)), Some([ESTIMATES; 2])),
            (&running, status("Running", "on n1", 3, None), None),
            (&running, status("Running", "on n2", 3, Some(61)), Some([WORDS, NEWS * 100])),
            (&running, status("NodeHeld", "n1 is held by a", 3, Some(60)), Some([WORDS, NEWS * 100])),
            (&running, status("Running", "on n2", 4, Some(60)), Some([NEWS * 3, NEWS * 100])),
            (&running, status("PodPending", "on n1", 3, Some(60)), Some([Duration::ZERO; 2])),
            // The last words are written at once: nothing wakes an experiment that is over.
            (&State::Finished, status("Running", "done", 3, Some(60)), Some([Duration::ZERO; 2])),
            (&State::Refused(Vec::new()), status("Running", "no", 3, Some(60)), Some([Duration::ZERO; 2])),
        ] {
            let pauses = [FEW, MANY].map(|on_the_way| pause(state, &before, &after, || on_the_way));
            assert_eq!(pauses, expected.map_or([None; 2], |pauses| pauses.map(Some)), "{state:?} {after:?}");
        }
    }

    #[test]
    fn a_new_leader_does_not_leave_old_words_for_ever() {
        assert_eq!(left(WORDS, None), Duration::ZERO);
        assert_eq!(left(WORDS, Some(Duration::from_secs(4))), Duration::from_secs(6));
        assert_eq!(left(Duration::ZERO, Some(Duration::ZERO)), Duration::ZERO);
    }
}
