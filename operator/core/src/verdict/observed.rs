use serde::{Deserialize, Serialize};

use super::design::Design;

/// The runs of one scenario, as one metric saw them. Positions are blocks in the order in which looks take them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSamples {
    /// Per block the values of the baseline's runs. With fewer than the design's, or a missing one, the block counts for no config.
    pub baseline: Vec<Vec<Option<f64>>>,
    /// Per config, in the design's order, its value in each block. A config that was stopped has fewer.
    pub configs: Vec<Vec<Option<f64>>>,
}

/// Runs of one arm that failed because of the arm itself (out of memory, corruption, stalled to the deadline), and runs that did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    pub failed: u32,
    pub ok: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioAttempts {
    pub baseline: Attempts,
    /// In the design's order.
    pub configs: Vec<Attempts>,
}

/// What a gate found unfit to be judged. Numbers are positions in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    Design,
    /// A scenario, or its baseline.
    Scenario(usize),
    Config(usize),
    Cell {
        scenario: usize,
        config: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalid {
    pub scope: Scope,
    /// The gate's word for what is wrong, as in `FeatureMismatch`.
    pub code: String,
}

/// All that came in so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Scenario by scenario, metric by metric, in the design's order.
    pub samples: Vec<Vec<MetricSamples>>,
    /// Scenario by scenario; may be empty where nothing failed.
    #[serde(default)]
    pub attempts: Vec<ScenarioAttempts>,
    #[serde(default)]
    pub invalid: Vec<Invalid>,
    /// No more blocks will come, whether or not the plan is complete.
    pub ended: bool,
}

impl Observed {
    /// Codes that make a config's cell in a scenario invalid.
    pub(super) fn cell_codes(&self, scenario: usize, config: usize) -> Vec<&str> {
        self.codes(|scope| match scope {
            Scope::Design => true,
            Scope::Scenario(s) => s == scenario,
            Scope::Config(c) => c == config,
            Scope::Cell { scenario: s, config: c } => s == scenario && c == config,
        })
    }

    /// Codes that make a config invalid everywhere.
    pub(super) fn arm_codes(&self, config: usize) -> Vec<&str> {
        self.codes(|scope| match scope {
            Scope::Design => true,
            Scope::Config(c) => c == config,
            Scope::Scenario(_) | Scope::Cell { .. } => false,
        })
    }

    /// Whether nothing of a scenario can be judged.
    pub(super) fn scenario_is_invalid(&self, scenario: usize) -> bool {
        self.invalid.iter().any(|i| i.scope == Scope::Design || i.scope == Scope::Scenario(scenario))
    }

    fn codes(&self, hit: impl Fn(Scope) -> bool) -> Vec<&str> {
        let mut codes: Vec<&str> = self.invalid.iter().filter(|i| hit(i.scope)).map(|i| i.code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// Failures of a config and of the baseline beside it, in one scenario or pooled over all.
    pub(super) fn attempts(&self, scenario: Option<usize>, config: usize) -> (Attempts, Attempts) {
        let chosen = self.attempts.iter().enumerate().filter(|&(s, _)| scenario.is_none_or(|only| s == only));
        chosen.fold((Attempts::default(), Attempts::default()), |(c, b), (_, a)| {
            (c.plus(a.configs.get(config).copied().unwrap_or_default()), b.plus(a.baseline))
        })
    }

    /// The first thing, if any, that does not fit the design.
    pub(super) fn misfit(&self, design: &Design) -> Option<String> {
        let (scenarios, metrics, configs) = (design.scenarios.len(), design.metrics.len(), design.configs.len());
        if self.samples.len() != scenarios {
            return Some(format!("{} scenarios have samples, {scenarios} are declared", self.samples.len()));
        }
        if !(self.attempts.is_empty() || self.attempts.len() == scenarios) {
            return Some(format!("{} scenarios have attempts, {scenarios} are declared", self.attempts.len()));
        }
        let unknown = self.invalid.iter().find(|i| match i.scope {
            Scope::Design => false,
            Scope::Scenario(s) => s >= scenarios,
            Scope::Config(c) => c >= configs,
            Scope::Cell { scenario, config } => scenario >= scenarios || config >= configs,
        });
        if let Some(Invalid { scope, code }) = unknown {
            return Some(format!("{code} is about {scope:?}, which is not declared"));
        }
        for (scenario, rows) in design.scenarios.iter().zip(&self.samples) {
            let name = &scenario.name;
            if rows.len() != metrics {
                return Some(format!("scenario {name:?} has {} metrics, {metrics} are declared", rows.len()));
            }
            let blocks = rows.first().map_or(0, |row| row.baseline.len());
            for (rule, row) in design.metrics.iter().zip(rows) {
                let metric = &rule.name;
                if row.configs.len() != configs {
                    return Some(format!(
                        "metric {metric:?} of scenario {name:?} has {} configs, {configs} are declared",
                        row.configs.len()
                    ));
                }
                if row.baseline.len() != blocks {
                    return Some(format!(
                        "metric {metric:?} of scenario {name:?} has {} blocks, the first metric {blocks}",
                        row.baseline.len()
                    ));
                }
                if row.baseline.iter().any(|runs| runs.len() > design.m0) {
                    return Some(format!(
                        "metric {metric:?} of scenario {name:?} has a block of more than {} baseline runs",
                        design.m0
                    ));
                }
                if let Some(config) = row.configs.iter().position(|values| values.len() > blocks) {
                    return Some(format!(
                        "config {:?} has runs of scenario {name:?} in blocks without a baseline",
                        design.configs[config]
                    ));
                }
            }
        }
        None
    }
}

impl Attempts {
    fn plus(self, other: Self) -> Self {
        Self { failed: self.failed.saturating_add(other.failed), ok: self.ok.saturating_add(other.ok) }
    }
}
