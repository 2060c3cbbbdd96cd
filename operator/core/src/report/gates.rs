//! What every gate said, in a line each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Report;
use crate::gates::{Finding, Gate, Note, Unknown};

/// What each gate asks.
pub(super) const QUESTIONS: &[(Gate, &str)] = &[
    (Gate::SameWork, "Did every run do the same work and get the same answers?"),
    (Gate::SameBuild, "Was it the same program, machine and boot?"),
    (Gate::ConfigAttested, "Did RocksDB really run with the declared options, and no others?"),
    (Gate::Inert, "Did the declared options have an effect on RocksDB?"),
    (Gate::Isolated, "Did the run have its CPUs, memory and disk to itself?"),
    (Gate::Engaged, "Did the workload make the changed options act?"),
    (Gate::Steady, "Did every run start settled and stay steady?"),
    (Gate::SameUnits, "Do times, counts and rates agree with each other?"),
    (Gate::GeneratorHeadroom, "Was the database measured, not the load generator?"),
    (Gate::CausalPath, "Can the database explain so large an effect?"),
    (Gate::Plausible, "Are the measured values plausible?"),
    (Gate::Attrition, "Did all configs lose runs alike, and were any left?"),
];

/// What a gate said about the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateReport {
    pub gate: Gate,
    pub state: GateState,
    /// Runs that it looked at.
    pub runs: usize,
    /// Findings, counted by code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, usize>,
    /// Number of notes that it made about what it saw.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub notes: usize,
    /// Runs that did not show all that it needs.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub unknown_runs: usize,
    /// What was unknown in these runs; if in some of them only, with their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// The outcome of a gate: the first of these that applies, from the end of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum GateState {
    /// It saw all that it needs, and nothing to mention.
    Passed,
    /// What it needs is unknown in some runs, or there are no runs.
    CouldNotCheck,
    /// Something is worth knowing that invalidates nothing.
    Noted,
    /// It has findings: something does not count.
    Failed,
}

impl GateState {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::CouldNotCheck => "could not check",
            Self::Noted => "noted",
            Self::Failed => "failed",
        }
    }
}

impl GateReport {
    /// What stands beside its state.
    pub(super) fn details(&self) -> String {
        let mut parts: Vec<String> = self.findings.iter().map(|(code, count)| format!("{count} × {code}")).collect();
        if self.notes > 0 {
            parts.push(if self.notes == 1 { "1 note".to_owned() } else { format!("{} notes", self.notes) });
        }
        if self.unknown_runs > 0 {
            let mut unknown = format!("unknown in {} of {} runs", self.unknown_runs, self.runs);
            if !self.unknown.is_empty() {
                let _ = write!(unknown, ": {}", self.unknown.join(", "));
            }
            parts.push(unknown);
        } else if parts.is_empty() && self.state == GateState::CouldNotCheck {
            parts.push(if self.runs == 0 { "no runs" } else { "see the notes" }.to_owned());
        }
        parts.join("; ")
    }
}

/// What all gates say, from everything that a report holds and what they could not see in so many runs.
pub(crate) fn gates(report: &Report, unknown: &BTreeMap<Gate, Unknown>, runs: usize) -> Vec<GateReport> {
    let of_trials = report.trials.iter().flat_map(|trial| &trial.findings);
    let of_configs = report.configs.iter().flat_map(|config| &config.findings);
    let findings: Vec<&Finding> = of_trials.chain(of_configs).chain(&report.invalid).collect();
    QUESTIONS.iter().map(|(gate, _)| one(*gate, &findings, &report.notes, unknown.get(gate), runs)).collect()
}

fn one(gate: Gate, all: &[&Finding], notes: &[Note], unknown: Option<&Unknown>, runs: usize) -> GateReport {
    let mut findings: BTreeMap<String, usize> = BTreeMap::new();
    for finding in all.iter().filter(|finding| finding.gate == gate) {
        *findings.entry(finding.code.to_string()).or_default() += 1;
    }
    let count = |unchecked: bool| notes.iter().filter(|n| n.gate == Some(gate) && n.unchecked == unchecked).count();
    let (notes, unchecked) = (count(false), count(true));
    let unknown_runs = unknown.map_or(0, Unknown::runs);
    let state = if !findings.is_empty() {
        GateState::Failed
    } else if notes > 0 {
        GateState::Noted
    } else if unknown_runs > 0 || unchecked > 0 || runs == 0 {
        GateState::CouldNotCheck
    } else {
        GateState::Passed
    };
    let unknown = unknown.map(Unknown::names).unwrap_or_default();
    GateReport { gate, state, runs, findings, notes, unknown_runs, unknown }
}

/// How many gates are in each state, the worst first: `1 failed, 11 passed`.
pub(super) fn counted(gates: &[GateReport]) -> String {
    let states = [GateState::Failed, GateState::Noted, GateState::CouldNotCheck, GateState::Passed];
    let counts = states.into_iter().filter_map(|state| {
        let count = gates.iter().filter(|gate| gate.state == state).count();
        (count > 0).then(|| format!("{count} {}", state.words()))
    });
    counts.collect::<Vec<_>>().join(", ")
}

pub(super) fn question(gate: Gate) -> &'static str {
    QUESTIONS.iter().find(|(known, _)| *known == gate).map_or("", |(_, question)| question)
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;

    use super::*;
    use crate::attempt::Attempt;
    use crate::experiment::Environment;
    use crate::gates::testing::{experiment, summaries};
    use crate::judge::tests::judged;

    fn report(change: impl Fn(&mut Summary)) -> Report {
        let experiment = experiment();
        let mut all = summaries(&experiment);
        all.iter_mut().for_each(change);
        let all: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        judged(&experiment, &all)
    }

    fn said(report: &Report, gate: Gate) -> String {
        let own = report.gates.iter().find(|own| own.gate == gate).unwrap();
        format!("{}: {}", own.state.words(), own.details())
    }

    #[test]
    fn all_gates_pass_good_runs() {
        let report = report(|_| ());
        assert_eq!(report.gates.len(), QUESTIONS.len());
        assert_eq!(counted(&report.gates), "12 passed");
        assert!(report.gates.iter().all(|gate| gate.runs == 16 && gate.details().is_empty()), "{:?}", report.gates);
    }

    #[test]
    fn a_gate_with_findings_failed() {
        let report = report(|s| {
            if s.trial.block == 3 {
                s.disturbance.throttled_periods = Some(7);
            }
        });
        assert_eq!(said(&report, Gate::Isolated), "failed: 2 × Throttled");
        assert_eq!(counted(&report.gates), "1 failed, 11 passed");
    }

    #[test]
    fn a_gate_with_notes_is_noted() {
        let report = report(|s| {
            s.steady.drift_percent = Some(30.0);
            s.steady.settled_before = if s.trial.block == 0 { None } else { Some(true) };
        });
        let expected = "noted: 2 notes; unknown in 2 of 16 runs: background work before the run";
        assert_eq!(said(&report, Gate::Steady), expected);
    }

    #[test]
    fn what_is_unknown_is_not_passed() {
        let report = report(|s| {
            if s.trial.block < 3 {
                s.disturbance.steal_percent = None;
            }
            (s.engagement.filled_memtables, s.engagement.fullest_memtable_bytes) = (None, None);
        });
        assert_eq!(said(&report, Gate::Isolated), "could not check: unknown in 6 of 16 runs: steal");
        // Its note says only that.
        assert!(report.notes.iter().any(|note| note.gate == Some(Gate::Engaged) && note.unchecked));
        assert_eq!(said(&report, Gate::Engaged), "could not check: unknown in 16 of 16 runs: write_buffer_size");
        assert_eq!(counted(&report.gates), "2 could not check, 10 passed");
    }

    /// "Unknown in 16 of 16 runs: foreign CPU time, ..." would deny what 14 of them show.
    #[test]
    fn what_is_unknown_in_fewer_runs_says_in_how_many() {
        let report = report(|s| {
            s.placement.whole_cores = None;
            s.disturbance.foreign_cpu_percent = (s.trial.block > 0).then_some(0.5);
        });
        let expected = "could not check: unknown in 16 of 16 runs: foreign CPU time (2 runs), hyper-threads of the \
                        used cores";
        assert_eq!(said(&report, Gate::Isolated), expected);
    }

    #[test]
    fn a_shared_machine_that_nobody_watched_was_not_checked() {
        let mut shared = experiment();
        shared.environment = Environment::Shared;
        let all: Vec<Attempt> =
            summaries(&shared).into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        // The CPU time of a step is no metric of these runs, so nobody can tell what they wanted.
        assert_eq!(said(&judged(&shared, &all), Gate::Isolated), "could not check: see the notes");
    }

    #[test]
    fn without_runs_nothing_passes() {
        let report = judged(&experiment(), &[]);
        assert_eq!(counted(&report.gates), "12 could not check");
        assert_eq!(said(&report, Gate::SameWork), "could not check: no runs");
    }

    #[test]
    fn reports_from_before_have_no_gates() {
        let mut json = serde_json::to_value(report(|_| ())).unwrap();
        json.as_object_mut().unwrap().remove("gates");
        json["notes"] = serde_json::json!([{"config": "candidate", "text": "odd"}]);
        let old: Report = serde_json::from_value(json).unwrap();
        assert!(old.gates.is_empty());
        assert_eq!(old.notes, [Note::new(Some("candidate"), "odd")]);
    }
}
