//! All that the runs that count have measured, whatever is judged of it.

use std::collections::BTreeMap;

use assay_protocol::TrialId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Report;
use crate::stats::median;

/// What a run measured, by metric.
pub(super) type Metrics = BTreeMap<String, f64>;

/// The runs of an arm, block by block.
pub(super) type Arm = BTreeMap<u32, Vec<Metrics>>;

/// Runs that count, with all that they measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// By scenario and config.
    arms: BTreeMap<(String, String), Arm>,
}

impl Measured {
    /// Adds a run. Give only runs that count.
    pub fn add(&mut self, trial: &TrialId, metrics: &BTreeMap<String, f64>) {
        let arm = self.arms.entry((trial.scenario.clone(), trial.config.clone())).or_default();
        arm.entry(trial.block).or_default().push(metrics.clone());
    }

    pub(super) fn arm(&self, scenario: &str, config: &str) -> Option<&Arm> {
        self.arms.get(&(scenario.to_owned(), config.to_owned()))
    }

    /// Every metric of every arm, the baseline first, for a report.
    pub fn facts(&self, report: &Report) -> Vec<RecordFacts> {
        let configs = || std::iter::once(&report.baseline).chain(report.configs.iter().map(|config| &config.config));
        let mut all = Vec::new();
        for scenario in &report.design.scenarios {
            for config in configs() {
                let Some(arm) = self.arm(scenario, config) else { continue };
                all.push(RecordFacts::of(scenario, config, &arm.values().flatten().collect::<Vec<_>>()));
            }
        }
        all
    }
}

/// What the full records of a config's runs in a scenario say. Display only: nothing is judged by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordFacts {
    pub scenario: String,
    pub config: String,
    /// Runs that count and have a full record.
    pub runs: u32,
    /// The median over these runs of each metric that they all have, in the metric's unit.
    pub medians: BTreeMap<String, f64>,
    /// Times that RocksDB began to delay or stop writes, in all these runs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<f64>,
    /// Seconds during which writes were delayed or stopped, in all these runs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_seconds: Option<f64>,
}

impl RecordFacts {
    fn of(scenario: &str, config: &str, runs: &[&Metrics]) -> Self {
        let values = |name: &str| runs.iter().map(|run| run.get(name).copied()).collect::<Option<Vec<f64>>>();
        let names = runs.first().into_iter().flat_map(|first| first.keys());
        let middle = |name: &String| {
            let value = median(&values(name)?).filter(|value| value.is_finite())?;
            Some((name.clone(), value))
        };
        let total = |name: &str| values(name).map(|values| values.iter().sum::<f64>()).filter(|sum| sum.is_finite());
        Self {
            scenario: scenario.to_owned(),
            config: config.to_owned(),
            runs: runs.len() as u32,
            medians: names.filter_map(middle).collect(),
            stalls: total("stall_count"),
            stall_seconds: total("stall_seconds"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::gates::testing::{experiment, summaries};
    use crate::judge::tests::full_report;

    /// Records of all runs of a report, in which the candidate stalls.
    pub(crate) fn sample(report: &Report) -> Vec<RecordFacts> {
        let mut measured = Measured::default();
        for trial in &report.trials {
            let slow = if trial.trial.config == "candidate" { 10.0 } else { 1.0 };
            let metrics = [
                ("step_latency_p50", 2.5),
                ("step_latency_p90", 4.0),
                ("step_latency_p99", 12.0 * slow),
                ("step_latency_p999", 40.0 * slow),
                ("step_latency_max", 900.0 * slow),
                ("stall_count", slow - 1.0),
                ("stall_seconds", (slow - 1.0) / 8.0),
                ("db_bytes", 4e6),
            ];
            let metrics = metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            measured.add(&trial.trial, &metrics);
        }
        measured.facts(report)
    }

    #[test]
    fn medians_are_over_runs_and_stalls_are_summed() {
        let report = full_report(true);
        let facts = sample(&report);
        let arms: Vec<(&str, &str)> = facts.iter().map(|f| (f.scenario.as_str(), f.config.as_str())).collect();
        let expected = [
            ("fill", "base"),
            ("fill", "candidate"),
            ("fill", "same"),
            ("read", "base"),
            ("read", "candidate"),
            ("read", "same"),
        ];
        assert_eq!(arms, expected);
        assert_eq!((facts[0].runs, facts[0].stalls, facts[0].stall_seconds), (8, Some(0.0), Some(0.0)));
        // One attempt of it did not count, and is here all the same: who gives what counts is the caller.
        assert_eq!((facts[1].runs, facts[1].stalls), (9, Some(81.0)));
        assert_eq!(facts[1].medians["step_latency_p999"], 400.0);
    }

    #[test]
    fn what_a_run_lacks_has_no_median() {
        let mut measured = Measured::default();
        for (i, summary) in summaries(&experiment()).iter().enumerate() {
            let mut metrics = BTreeMap::from([("db_bytes".to_owned(), 1.0)]);
            if i == 3 {
                metrics.insert("stall_count".to_owned(), 1.0);
                metrics.insert("rss_peak_bytes".to_owned(), f64::NAN);
            }
            measured.add(&summary.trial, &metrics);
        }
        let facts = measured.facts(&full_report(true));
        assert!(facts.iter().all(|own| own.medians.len() == 1 && own.stalls.is_none()), "{facts:?}");
    }
}
