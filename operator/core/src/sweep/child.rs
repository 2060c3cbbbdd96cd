//! The experiment of a night or a visit, as far as it decides what the sweep does next.

use assay_api::condition::find;
use assay_api::names::{
    FINISHED, NIGHT_ANNOTATION, PROGRESSING, RUN_NOW_ANNOTATION, SWEEP_LABEL, TRIGGER_ANNOTATION, VISIT_ANNOTATION,
};
use assay_api::{BegunNight, TuningExperiment, TuningExperimentStatus};
use assay_protocol::Digest;
use jiff::Timestamp;

use super::confirm::Visit;
use super::night::canonical;
use super::point::Trigger;

/// The reason with which an experiment waits before its next attempt, and with which its night ends.
pub const NOTHING_VALID: &str = "NothingValid";
/// Reasons of waits that end by themselves: another experiment releases its node, a queue admits the pod, the pod starts or is
/// given up. Any other wait may last for ever.
const PASSING: [&str; 4] = ["NodeHeld", "NodeLimit", "Queued", "PodPending"];

/// The experiment of a night.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub trigger: Trigger,
    /// The value of `runNow` that it was begun for.
    pub run_now: Option<String>,
    /// Question of a visit; `None` for a night.
    pub visit: Option<Visit>,
    pub state: ChildState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// No trial has begun, and why, in a word and in words.
    Waiting {
        reason: String,
        message: String,
    },
    /// Trials have begun, and whatever it waits for passes.
    Running,
    /// Trials have begun, and none runs until an intervention or the next attempt: why, in a word and in words.
    Stuck {
        reason: String,
        message: String,
    },
    Finished,
    /// Its spec or marks differ from what was begun, so no measurement of it counts.
    Altered,
}

/// Relation of an experiment to the sweep that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A night or a visit that the sweep has begun.
    Own,
    /// One that was changed since.
    Altered,
    /// Any other experiment with this owner: a right to create experiments is enough to set one.
    Foreign,
}

impl Origin {
    /// `night` is the time that gives the experiment its name. `begun` is what the status of the sweep says was begun last: it is written
    /// before the experiment is created, and only operators may write statuses. Nothing is read from a decided night.
    pub fn of(night: Timestamp, digest: &Digest, begun: Option<&BegunNight>, is_decided: bool) -> Self {
        match begun.filter(|begun| begun.time.0 == night) {
            _ if is_decided => Self::Own,
            // An earlier version has begun it, and has written no digest.
            Some(begun) if begun.digest.as_deref().is_none_or(|known| known == digest.as_str()) => Self::Own,
            Some(_) => Self::Altered,
            None => Self::Foreign,
        }
    }
}

/// Digest of the parts of an experiment that the sweep relies on: its fixed spec, its label and its annotations.
pub fn digest(experiment: &TuningExperiment) -> Result<Digest, serde_json::Error> {
    let annotations = experiment.metadata.annotations.as_ref();
    let marks = [NIGHT_ANNOTATION, TRIGGER_ANNOTATION, RUN_NOW_ANNOTATION, VISIT_ANNOTATION]
        .map(|key| annotations.and_then(|annotations| annotations.get(key)));
    let sweep = experiment.metadata.labels.as_ref().and_then(|labels| labels.get(SWEEP_LABEL));
    canonical(&(sweep, marks, experiment.spec.fixed()))
}

impl ChildState {
    /// How far an experiment is, by its status.
    pub fn of(status: Option<&TuningExperimentStatus>) -> Self {
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        if find(conditions, FINISHED).is_some_and(|finished| finished.status == "True") {
            return Self::Finished;
        }
        let attempts = status.and_then(|status| status.progress.as_ref()).map_or(0, |progress| progress.attempts);
        let Some(progressing) = find(conditions, PROGRESSING) else {
            let message = "no operator has looked at its experiment yet".to_owned();
            return Self::Waiting { reason: "NotSeen".to_owned(), message };
        };
        let (reason, message) = (progressing.reason.as_str(), progressing.message.clone());
        let waits = progressing.status == "False";
        let has_begun = attempts > 0 || reason == NOTHING_VALID || (!waits && reason == "Running");
        if has_begun && (!waits || PASSING.contains(&reason)) {
            return Self::Running;
        }
        let reason = cause(reason, &message).to_owned();
        if has_begun { Self::Stuck { reason, message } } else { Self::Waiting { reason, message } }
    }
}

/// The reason why a night does not proceed, in the words of the history.
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
        "WaitingForNode" | "Provisioning" | "NodeHeld" | "NodeLimit" => "NodesMissing",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use assay_api::ProgressStatus;
    use serde_json::json;

    use super::*;

    fn state(attempts: u32, progressing: (&str, &str), finished: &str) -> String {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": "words",
                "lastTransitionTime": "2026-11-26T01:17:00Z"})
        };
        let conditions =
            json!([condition(PROGRESSING, progressing.0, progressing.1), condition(FINISHED, finished, "R")]);
        let status = TuningExperimentStatus {
            progress: Some(ProgressStatus { attempts, ..ProgressStatus::default() }),
            conditions: serde_json::from_value(conditions).unwrap(),
            ..TuningExperimentStatus::default()
        };
        match ChildState::of(Some(&status)) {
            ChildState::Waiting { reason, .. } => format!("waits: {reason}"),
            ChildState::Running => "runs".to_owned(),
            ChildState::Stuck { reason, message } => {
                assert_eq!(message, "words");
                format!("stuck: {reason}")
            }
            ChildState::Finished => "finished".to_owned(),
            ChildState::Altered => "altered".to_owned(),
        }
    }

    #[test]
    fn a_night_that_has_begun_is_stuck_by_what_does_not_pass() {
        for (reason, stuck) in [
            ("PlanChanged", "PlanChanged"),
            ("NotAllowed", "NotAllowed"),
            ("Unreadable", "Unreadable"),
            ("WaitingForNode", "NodesMissing"),
            ("Provisioning", "NodesMissing"),
            ("PodRefused", "PodRefused"),
            ("PodTerminating", "PodTerminating"),
            ("Suspended", "Suspended"),
            ("NothingValid", "NothingValid"),
            ("OfALaterVersion", "OfALaterVersion"),
        ] {
            assert_eq!(state(3, ("False", reason), "False"), format!("stuck: {stuck}"));
            let before = if reason == NOTHING_VALID { "stuck" } else { "waits" };
            assert_eq!(state(0, ("False", reason), "False"), format!("{before}: {stuck}"));
        }
        for reason in PASSING {
            assert_eq!(state(3, ("False", reason), "False"), "runs");
            assert!(state(0, ("False", reason), "False").starts_with("waits: "));
        }
        for reason in ["Running", "Suspending", "Checking"] {
            assert_eq!(state(3, ("True", reason), "False"), "runs");
        }
        assert_eq!(state(0, ("True", "Running"), "False"), "runs");
        assert_eq!(state(0, ("True", "Checking"), "False"), "waits: Checking");
        assert_eq!(state(3, ("False", "Finished"), "True"), "finished");
        assert!(matches!(ChildState::of(None), ChildState::Waiting { reason, .. } if reason == "NotSeen"));
    }

    fn experiment(change: impl FnOnce(&mut serde_json::Value)) -> Digest {
        let workload = json!({"keyValue": {"keys": 10, "valueBytes": {"fixed": 10}, "roles": []}});
        let mut experiment = json!({
            "metadata": {"name": "nightly-20261126-0117", "labels": {SWEEP_LABEL: "nightly"}, "annotations": {
                NIGHT_ANNOTATION: "2026-11-26T01:17:00Z", TRIGGER_ANNOTATION: "Schedule"}},
            "spec": {
                "baseline": "v1", "configs": [{"name": "v1"}, {"name": "main", "image": "r/bench@sha256:1"}],
                "scenarios": [{"name": "fill", "workload": workload}], "repetitions": 5,
                "objectives": [{"metric": "throughput", "margin": "5%"}], "placement": {"cpus": 1},
            },
        });
        change(&mut experiment);
        digest(&serde_json::from_value(experiment).unwrap()).unwrap()
    }

    #[test]
    fn a_night_is_what_was_begun_and_nothing_else() {
        let night = |day: u32| format!("2026-11-{day}T01:17:00Z").parse::<Timestamp>().unwrap();
        let own = experiment(|_| ());
        let begun = |digest: Option<&Digest>| -> BegunNight {
            serde_json::from_value(json!({"time": night(26), "digest": digest})).unwrap()
        };
        let known = begun(Some(&own));
        let origin = |night, digest: &Digest| Origin::of(night, digest, Some(&known), false);
        assert_eq!(origin(night(26), &own), Origin::Own);
        assert_eq!(origin(night(25), &own), Origin::Foreign);
        assert_eq!(Origin::of(night(25), &own, Some(&known), true), Origin::Own, "the history has it");
        assert_eq!(Origin::of(night(26), &own, None, false), Origin::Foreign);
        assert_eq!(Origin::of(night(26), &own, Some(&begun(None)), false), Origin::Own, "of an earlier version");
        let changes: [fn(&mut serde_json::Value); 6] = [
            |one| one["metadata"]["annotations"][TRIGGER_ANNOTATION] = json!("Manual"),
            |one| one["metadata"]["annotations"][RUN_NOW_ANNOTATION] = json!("please"),
            |one| one["metadata"]["annotations"][VISIT_ANNOTATION] = json!("{}"),
            |one| one["metadata"]["labels"] = json!({}),
            |one| one["spec"]["configs"][1]["image"] = json!("r/bench@sha256:2"),
            |one| one["spec"]["repetitions"] = json!(6),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(origin(night(26), &experiment(change)), Origin::Altered, "{number}");
        }
        // An editor may suspend and label a night.
        for change in [(|one| one["spec"]["suspend"] = json!(true)) as fn(&mut serde_json::Value), |one| {
            one["metadata"]["labels"]["team"] = json!("a");
        }] {
            assert_eq!(origin(night(26), &experiment(change)), Origin::Own);
        }
    }

    #[test]
    fn a_wait_is_named_by_what_is_missing() {
        let image = "p: ImagePullBackOff: no such image";
        for (reason, message, expected) in [
            ("PodPending", image, "ImagePullFailed"),
            ("PodPending", "p: Unschedulable: 0/3 nodes are available", "NodesMissing"),
            ("WaitingForNode", "", "NodesMissing"),
            ("PodPending", "", "PodPending"),
        ] {
            assert_eq!(cause(reason, message), expected);
        }
    }
}
