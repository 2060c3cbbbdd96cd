//! What objects of a cluster say, in words.

use assay_api::condition::find;
use assay_api::{AttemptStatus, Condition, Time, TuningExperiment, TuningTrial, names};
use assay_core::cluster::trial_id;
use assay_core::report::INCOMPLETE;

use crate::screen::{self, all_so_far, one_so_far};

pub fn conditions(experiment: &TuningExperiment) -> &[Condition] {
    experiment.status.as_ref().map_or(&[], |status| &status.conditions)
}

/// How an experiment has ended; `None` while it has not.
pub fn finished(experiment: &TuningExperiment) -> Option<&Condition> {
    find(conditions(experiment), names::FINISHED).filter(|condition| condition.status == "True")
}

/// It can't run, or can't go on.
pub fn refused(experiment: &TuningExperiment) -> Option<&Condition> {
    finished(experiment).filter(|condition| condition.reason == "Refused")
}

/// Whether an operator has seen the spec as it is now.
pub fn observed(experiment: &TuningExperiment) -> bool {
    let seen = experiment.status.as_ref().and_then(|status| status.observed_generation);
    seen.is_some() && seen >= experiment.metadata.generation
}

/// What it takes for an experiment to go on, where it does not; with what to do, where somebody has to.
pub fn waits_for(experiment: &TuningExperiment) -> Option<String> {
    if finished(experiment).is_some() {
        return None;
    }
    if experiment.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    if experiment.spec.suspend == Some(true) {
        let name = experiment.metadata.name.as_deref().unwrap_or("NAME");
        return Some(format!("run `assay resume {name}`"));
    }
    if !observed(experiment) {
        return Some("the operator has not seen it yet".to_owned());
    }
    let progressing = find(conditions(experiment), names::PROGRESSING)?;
    (progressing.status == "False").then(|| format!("{}: {}", progressing.reason, progressing.message))
}

/// Seconds until the operator expects the end.
pub fn seconds_left(experiment: &TuningExperiment, now_ms: u64) -> Option<f64> {
    let progress = experiment.status.as_ref()?.progress.as_ref()?;
    let end = unix_ms(progress.estimated_completion_time.as_ref()?);
    Some(end.saturating_sub(now_ms) as f64 / 1000.0)
}

pub fn unix_ms(time: &Time) -> u64 {
    u64::try_from(time.0.as_millisecond()).unwrap_or(0)
}

/// How long ago something was, as kubectl writes it.
pub fn age(since: Option<&Time>, now_ms: u64) -> String {
    let Some(since) = since else { return "unknown".to_owned() };
    let seconds = now_ms.saturating_sub(unix_ms(since)) / 1000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A trial is over: no attempt will come any more.
pub fn is_over(trial: &TuningTrial) -> bool {
    let conditions = trial.status.as_ref().map_or(&[][..], |status| &status.conditions);
    find(conditions, names::FINISHED).is_some_and(|condition| condition.status == "True")
}

/// The trial with its next attempt, as lines name it.
pub fn under_way(trial: &TuningTrial) -> String {
    let attempts = trial.status.as_ref().map_or(&[][..], |status| &status.attempts);
    let next = attempts.iter().map(|attempt| attempt.attempt + 1).max().unwrap_or(0);
    screen::name(&trial_id(&trial.spec, next))
}

/// How an attempt ended, and whether that is worth a line of its own.
pub fn outcome(attempt: &AttemptStatus) -> (String, bool) {
    let message = attempt.message.as_deref().unwrap_or_default();
    match attempt.outcome.as_str() {
        "Valid" => ("valid".to_owned(), false),
        "Invalid" => {
            let found = attempt.findings.iter().map(|finding| format!("{}: {}", finding.code, finding.message));
            (format!("invalid: {}", found.collect::<Vec<_>>().join("; ")), true)
        }
        "Held" | "Failed" | "Lost" => (format!("{}: {message}", attempt.outcome.to_lowercase()), true),
        _ => ("does not count".to_owned(), false),
    }
}

/// Seconds from the making of its pod to its end.
pub fn seconds(attempt: &AttemptStatus) -> Option<f64> {
    let (start, end) = (attempt.start_time.as_ref()?, attempt.completion_time.as_ref()?);
    Some(unix_ms(end).saturating_sub(unix_ms(start)) as f64 / 1000.0)
}

/// The estimates so far in one line.
pub fn so_far(experiment: &TuningExperiment) -> String {
    let verdicts = experiment.status.iter().flat_map(|status| &status.verdicts);
    all_so_far(verdicts.filter_map(|verdict| {
        let estimate = verdict.estimates.first()?;
        let percent: f64 = estimate.percent.as_ref()?.parse().ok()?;
        let value = format!("{percent:+.1} %");
        Some(one_so_far(&verdict.config, &value, &estimate.metric, estimate.blocks as usize))
    }))
}

/// Configs that a look has decided before the end, each with the line that says so.
pub fn decisions(experiment: &TuningExperiment) -> impl Iterator<Item = (&str, String)> {
    let over = finished(experiment).is_some();
    let verdicts = experiment.status.iter().flat_map(|status| &status.verdicts);
    verdicts.filter(move |verdict| !over && verdict.reason != INCOMPLETE).map(|verdict| {
        let blocks = verdict.estimates.first().map_or(0, |estimate| estimate.blocks as usize);
        (verdict.config.as_str(), screen::decided(&verdict.config, blocks, &verdict.verdict, &verdict.reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let at = |seconds: u64| {
            let time: Time = serde_json::from_value("2026-01-02T03:04:05Z".into()).unwrap();
            age(Some(&time), unix_ms(&time) + seconds * 1000)
        };
        assert_eq!(
            [0, 119, 120, 7199, 7200, 172_799, 172_800].map(at),
            ["0s", "119s", "2m", "119m", "2h", "47h", "2d"]
        );
        assert_eq!(age(None, 0), "unknown");
    }
}
