//! What somebody who follows an experiment sees: from objects as they come to lines, each once.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::condition::find;
use assay_api::{AttemptStatus, TuningExperiment, TuningTrial, names};
use assay_core::cluster::trial_id;
use assay_protocol::TrialId;

use crate::cluster::words::{self, conditions, decisions, is_over, waits_for};

/// Something to show.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    Say(String),
    Ended { trial: TrialId, state: String, loud: bool, seconds: Option<f64> },
}

#[derive(Default)]
pub struct Follower {
    /// Trials of the plan, reruns not counted: known before the experiment is.
    planned: usize,
    experiment: Option<TuningExperiment>,
    trials: BTreeMap<String, TuningTrial>,
    said: BTreeSet<TrialId>,
    decided: BTreeSet<String>,
    waits_for: Option<String>,
    checking: bool,
    /// What was there before we came is not shown one by one.
    begun: bool,
}

impl Follower {
    pub fn new(planned: usize) -> Self {
        Self { planned, ..Self::default() }
    }

    pub fn see_experiment(&mut self, experiment: TuningExperiment) -> Vec<Line> {
        let mut lines = Vec::new();
        let accepted = find(conditions(&experiment), names::ACCEPTED);
        let checking = accepted.is_some_and(|accepted| accepted.status == "Unknown");
        if checking && !self.checking {
            lines.push(Line::Say("assay: checking the options of all configs".to_owned()));
        }
        self.checking = checking;
        let waits_for = waits_for(&experiment).filter(|_| words::observed(&experiment));
        if let Some(waits_for) = &waits_for
            && self.waits_for.as_ref() != Some(waits_for)
        {
            lines.push(Line::Say(format!("assay: waiting: {waits_for}")));
        }
        self.waits_for = waits_for;
        for (config, line) in decisions(&experiment) {
            if self.decided.insert(config.to_owned()) {
                lines.push(Line::Say(line));
            }
        }
        self.experiment = Some(experiment);
        lines
    }

    pub fn see_trial(&mut self, trial: TuningTrial) -> Vec<Line> {
        let name = trial.metadata.name.clone().unwrap_or_default();
        let mut lines = Vec::new();
        if self.begun {
            for attempt in attempts(&trial) {
                let id = trial_id(&trial.spec, attempt.attempt);
                if self.said.insert(id.clone()) {
                    let (state, loud) = words::outcome(attempt);
                    lines.push(Line::Ended { trial: id, state, loud, seconds: words::seconds(attempt) });
                }
            }
        }
        self.trials.insert(name, trial);
        lines
    }

    /// All trials of the beginning were seen.
    pub fn begin(&mut self) -> Vec<Line> {
        if self.begun {
            return Vec::new();
        }
        self.begun = true;
        for trial in self.trials.values() {
            self.said.extend(attempts(trial).map(|attempt| trial_id(&trial.spec, attempt.attempt)));
        }
        match self.said.len() {
            0 => Vec::new(),
            count => vec![Line::Say(format!("assay: following; attempts so far: {count}"))],
        }
    }

    pub fn experiment(&self) -> Option<&TuningExperiment> {
        self.experiment.as_ref()
    }

    /// Trials that there will be, and those of which nothing is left to do.
    pub fn count(&self) -> (usize, usize) {
        let status = self.experiment.as_ref().and_then(|experiment| experiment.status.as_ref());
        let freed = status.and_then(|status| status.progress.as_ref()).map_or(0, |progress| progress.trials_freed);
        let over = self.trials.values().filter(|trial| is_over(trial)).count();
        (self.planned, (over + freed as usize).min(self.planned))
    }

    /// What is going on now.
    pub fn under_way(&self) -> String {
        if let Some(waits_for) = &self.waits_for {
            return format!("waiting ({waits_for})");
        }
        let mut running = self.trials.values().filter(|trial| !is_over(trial));
        match (running.next(), running.count()) {
            (None, _) => "between trials".to_owned(),
            (Some(trial), 0) => format!("{} on {}", words::under_way(trial), trial.spec.node),
            (Some(trial), more) => {
                format!("{} trials, including {} on {}", more + 1, words::under_way(trial), trial.spec.node)
            }
        }
    }
}

fn attempts(trial: &TuningTrial) -> impl Iterator<Item = &AttemptStatus> {
    trial.status.iter().flat_map(|status| &status.attempts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn trial(block: u32, attempts: &Value, over: bool) -> TuningTrial {
        let conditions = if over {
            json!([{"type": "Finished", "status": "True", "reason": "Valid", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}])
        } else {
            json!([])
        };
        serde_json::from_value(json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial", "metadata": {"name": format!("t{block}")},
            "spec": {"experiment": "e", "plan": "p", "scenario": "fill", "block": block, "config": "new", "replicate": 0,
                     "order": 1, "seed": 1, "node": "n1"},
            "status": {"conditions": conditions, "attempts": attempts, "refusals": 0},
        }))
        .unwrap()
    }

    fn attempt(number: u32, outcome: &str, message: &str) -> Value {
        json!({"attempt": number, "outcome": outcome, "message": message,
               "startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:05:05Z"})
    }

    fn experiment(status: &Value, suspend: bool) -> TuningExperiment {
        let mut object = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "metadata": {"name": "e", "generation": 1},
            "spec": {"baseline": "old", "configs": [], "scenarios": [], "repetitions": 2, "objectives": [],
                     "suspend": suspend},
            "status": {"observedGeneration": 1, "plan": {"digest": "p", "seed": 1, "blocks": 2, "trials": 8, "producedBy": "x"}},
        });
        for (key, value) in status.as_object().into_iter().flatten() {
            object["status"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn says(lines: &[Line]) -> Vec<String> {
        let text = |line: &Line| match line {
            Line::Say(text) => text.clone(),
            Line::Ended { trial, state, loud, seconds } => format!("{} {state} {loud} {seconds:?}", trial.file_stem()),
        };
        lines.iter().map(text).collect()
    }

    #[test]
    fn each_attempt_is_shown_once_and_earlier_ones_are_counted() {
        let mut follower = Follower::new(8);
        assert_eq!(says(&follower.see_trial(trial(0, &json!([attempt(0, "Valid", "")]), true))), [""; 0]);
        assert_eq!(says(&follower.begin()), ["assay: following; attempts so far: 1"]);
        assert_eq!(says(&follower.see_trial(trial(1, &json!([]), false))), [""; 0]);
        let lost = attempt(0, "Lost", "its node vanished");
        let seen = trial(1, &json!([lost]), false);
        let line = "fill-b001-new-r0-a0 lost: its node vanished true Some(60.0)";
        assert_eq!(says(&follower.see_trial(seen.clone())), [line]);
        // After a lost connection everything comes again.
        assert_eq!(says(&follower.see_trial(seen)), [""; 0]);
        assert_eq!(says(&follower.begin()), [""; 0]);
        follower.see_experiment(experiment(&json!({}), false));
        assert_eq!(follower.count(), (8, 1));
        assert_eq!(follower.under_way(), "fill block 2 new try 2 on n1");
        let both = trial(1, &json!([lost, attempt(1, "Valid", "")]), true);
        assert_eq!(says(&follower.see_trial(both)), ["fill-b001-new-r0-a1 valid false Some(60.0)"]);
        assert_eq!((follower.count(), follower.under_way()), ((8, 2), "between trials".to_owned()));
    }

    #[test]
    fn waiting_and_decisions_are_shown_when_they_change() {
        let mut follower = Follower::default();
        let time = "2026-01-02T03:04:05Z";
        let waiting = json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "WaitingForNode",
            "message": "no node has 64 CPUs", "lastTransitionTime": time}]});
        let line = "assay: waiting: WaitingForNode: no node has 64 CPUs";
        assert_eq!(says(&follower.see_experiment(experiment(&waiting, false))), [line]);
        assert_eq!(says(&follower.see_experiment(experiment(&waiting, false))), [""; 0]);
        assert_eq!(
            says(&follower.see_experiment(experiment(&json!({}), true))),
            ["assay: waiting: run `assay resume e`"]
        );
        let decided = json!({"verdicts": [{"config": "new", "verdict": "Win", "reason": "Better:throughput", "sentence": "",
            "recommendation": "", "estimates": [{"metric": "throughput", "percent": "12.345", "blocks": 12}]}]});
        let line = "assay: new decided after 12 blocks: Win (Better:throughput); no more runs";
        assert_eq!(says(&follower.see_experiment(experiment(&decided, false))), [line]);
        assert_eq!(words::so_far(follower.experiment().unwrap()), "so far: new +12.3 % throughput (12 blocks)");
        let end = json!({"conditions": [{"type": "Finished", "status": "True", "reason": "Decided", "message": "",
            "lastTransitionTime": time}]});
        assert_eq!(says(&follower.see_experiment(experiment(&end, false))), [""; 0]);
    }
}
