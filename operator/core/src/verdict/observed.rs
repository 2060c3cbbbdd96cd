use serde::{Deserialize, Serialize};

use super::design::{Design, MetricRule};
use crate::stats::median;

/// The runs of one scenario, as one metric saw them. Positions are blocks in the order in which looks take them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSamples {
    /// Per block the values of the baseline's runs. With fewer than the design's, or a missing one, the block counts for no config.
    pub baseline: Vec<Vec<Option<f64>>>,
    /// Per config, in the design's order, its value in each block. A config that was stopped has fewer.
    pub configs: Vec<Vec<Option<f64>>>,
}

impl MetricSamples {
    /// Medians of the baseline and a config.
    pub fn medians(&self, config: usize) -> (Option<f64>, Option<f64>) {
        let baseline: Vec<f64> = self.baseline.iter().flatten().flatten().copied().collect();
        let own: Vec<f64> = self.configs[config].iter().flatten().copied().collect();
        (median(&baseline), median(&own))
    }

    /// By how much one side was better than the other, block by block, as an effect. A side is a config, or without one the baseline.
    pub fn losses(&self, before: Option<usize>, after: Option<usize>, rule: &MetricRule) -> Vec<f64> {
        let value = |side: Option<usize>, block: usize| {
            let measured = match side {
                Some(config) => *self.configs.get(config)?.get(block)?,
                None => self.baseline.get(block)?.first().copied().flatten(),
            };
            rule.scale.transform(rule.direction, measured?).ok()
        };
        (0..self.baseline.len()).filter_map(|block| Some(value(before, block)? - value(after, block)?)).collect()
    }
}

/// How a run of the plan ended, whatever it measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// There is none, or nothing of it can be told.
    #[default]
    Missing,
    Sound,
    /// It failed because of its arm: out of memory, past its deadline, by an error of the engine.
    Failed,
    /// As above, and data is gone or wrong.
    Damaged,
}

/// How the runs of one scenario ended. Positions are those of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endings {
    /// Per block, those of the baseline's runs.
    pub baseline: Vec<Vec<Ending>>,
    /// Per config, in the design's order, that in each block.
    pub configs: Vec<Vec<Ending>>,
}

/// Runs of one arm that ended, and those of them that failed because of the arm itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    pub failed: u32,
    /// Of the failed ones, those that damaged data.
    pub damaged: u32,
    pub sound: u32,
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

/// A run that ended well and has no value of a metric. Numbers are positions in the design; the baseline has no config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lack {
    pub scenario: usize,
    pub metric: usize,
    pub config: Option<usize>,
    pub block: usize,
}

/// All that came in so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Scenario by scenario, metric by metric, in the design's order.
    pub samples: Vec<Vec<MetricSamples>>,
    /// The same of each run's first try that measured anything, whether or not it counts ("First tries"); empty where they are all the same.
    #[serde(default)]
    pub firsts: Vec<Vec<MetricSamples>>,
    /// Scenario by scenario; may be empty where nothing failed.
    #[serde(default)]
    pub endings: Vec<Endings>,
    /// Values that are missing though their runs count.
    #[serde(default)]
    pub lacks: Vec<Lack>,
    /// Configs that lost more runs than the baseline beside them, each with the look that saw it: too few to prove that this is their doing,
    /// and too many to overlook.
    #[serde(default)]
    pub lossy: Vec<(usize, usize)>,
    #[serde(default)]
    pub invalid: Vec<Invalid>,
    /// Scenario and config of cells in which nothing that the config changes had a way to act: they speak for nobody, and nobody asks them.
    #[serde(default)]
    pub idle: Vec<(usize, usize)>,
    /// Scenario by scenario, in the design's order: the share of an effect that the measurement hides, 0 to 1. Empty where nothing is hidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<f64>,
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

    /// How the runs of a config in the first `blocks` blocks of a scenario ended, and those of the baseline in the same blocks.
    pub fn runs(&self, scenario: usize, config: usize, blocks: usize) -> (Runs, Runs) {
        let (mut own, mut baseline) = (Runs::default(), Runs::default());
        let Some(endings) = self.endings.get(scenario) else { return (own, baseline) };
        let ends = endings.configs.get(config).into_iter().flatten().zip(&endings.baseline).take(blocks);
        for (&end, runs) in ends.filter(|(end, _)| **end != Ending::Missing) {
            own.add(end);
            for &end in runs {
                baseline.add(end);
            }
        }
        (own, baseline)
    }

    /// Of each block in which the run of a config ended and all of the baseline's did: whether it failed, and which of those.
    pub(super) fn failures(
        &self,
        scenario: usize,
        config: usize,
        blocks: usize,
    ) -> impl Iterator<Item = (bool, Vec<bool>)> {
        let endings = self.endings.get(scenario);
        let own = endings.and_then(|endings| endings.configs.get(config)).into_iter().flatten();
        let ends = own.zip(endings.into_iter().flat_map(|endings| &endings.baseline)).take(blocks);
        ends.filter(|(own, runs)| !runs.iter().chain([*own]).any(|end| *end == Ending::Missing))
            .map(|(own, runs)| (own.has_failed(), runs.iter().map(|end| end.has_failed()).collect()))
    }

    /// How the run of a config in a block ended.
    pub(super) fn config_failed(&self, scenario: usize, config: usize, block: usize) -> bool {
        let ending = self.endings.get(scenario).and_then(|endings| endings.configs.get(config)?.get(block));
        ending.is_some_and(|ending| ending.has_failed())
    }

    pub(super) fn baseline_failed(&self, scenario: usize, block: usize, run: usize) -> bool {
        let ending = self.endings.get(scenario).and_then(|endings| endings.baseline.get(block)?.get(run));
        ending.is_some_and(|ending| ending.has_failed())
    }

    /// The first thing, if any, that does not fit the design.
    pub(super) fn misfit(&self, design: &Design) -> Option<String> {
        let (scenarios, metrics, configs) = (design.scenarios.len(), design.metrics.len(), design.configs.len());
        if self.samples.len() != scenarios {
            return Some(format!("samples for {} scenarios, expected {scenarios}", self.samples.len()));
        }
        if !(self.endings.is_empty() || self.endings.len() == scenarios) {
            return Some(format!("endings for {} scenarios, expected {scenarios}", self.endings.len()));
        }
        let blocks = |scenario: usize| self.samples[scenario].first().map_or(0, |row| row.baseline.len());
        for (scenario, endings) in self.endings.iter().enumerate() {
            let all = endings.baseline.len() == blocks(scenario)
                && endings.configs.len() == configs
                && endings.configs.iter().all(|runs| runs.len() == blocks(scenario));
            if !all {
                let name = &design.scenarios[scenario].name;
                return Some(format!("endings and samples of scenario {name:?} differ in blocks or configs"));
            }
        }
        let unknown = self.invalid.iter().find(|i| match i.scope {
            Scope::Design => false,
            Scope::Scenario(s) => s >= scenarios,
            Scope::Config(c) => c >= configs,
            Scope::Cell { scenario, config } => scenario >= scenarios || config >= configs,
        });
        if let Some(Invalid { scope, code }) = unknown {
            return Some(format!("{code} refers to {scope:?}, which is not declared"));
        }
        let firsts = if self.firsts.is_empty() { &self.samples } else { &self.firsts };
        let lengths = |all: &[Vec<MetricSamples>]| -> Vec<Option<usize>> {
            all.iter().map(|rows| Some(rows.first()?.baseline.len())).collect()
        };
        if lengths(firsts) != lengths(&self.samples) {
            return Some("first tries and samples differ in scenarios or blocks".to_owned());
        }
        for (scenario, rows) in design.scenarios.iter().zip(&self.samples).chain(design.scenarios.iter().zip(firsts)) {
            let name = &scenario.name;
            if rows.len() != metrics {
                return Some(format!("scenario {name:?} has {} metrics, expected {metrics}", rows.len()));
            }
            let blocks = rows.first().map_or(0, |row| row.baseline.len());
            for (rule, row) in design.metrics.iter().zip(rows) {
                let metric = &rule.name;
                if row.configs.len() != configs {
                    return Some(format!(
                        "metric {metric:?} of scenario {name:?} has {} configs, expected {configs}",
                        row.configs.len()
                    ));
                }
                if row.baseline.len() != blocks {
                    return Some(format!(
                        "metric {metric:?} of scenario {name:?} has {} blocks, but the first metric has {blocks}",
                        row.baseline.len()
                    ));
                }
                if row.baseline.iter().any(|runs| runs.len() > design.m0) {
                    return Some(format!(
                        "metric {metric:?} of scenario {name:?} has a block with more than {} baseline runs",
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

impl Ending {
    pub fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Damaged)
    }
}

impl Runs {
    fn add(&mut self, ending: Ending) {
        match ending {
            Ending::Missing => {}
            Ending::Sound => self.sound += 1,
            Ending::Failed => self.failed += 1,
            Ending::Damaged => {
                self.failed += 1;
                self.damaged += 1;
            }
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            failed: self.failed + other.failed,
            damaged: self.damaged + other.damaged,
            sound: self.sound + other.sound,
        }
    }

    pub fn ended(self) -> u32 {
        self.failed + self.sound
    }

    /// Whether a larger share of these runs failed than of the other arm's, or damaged data.
    pub(super) fn fail_more_than(self, other: Self) -> bool {
        let is_more = |own: u32, theirs: u32| {
            let (own, theirs) = (u64::from(own), u64::from(theirs));
            own * u64::from(other.ended()) > theirs * u64::from(self.ended()) || (own > 0 && other.ended() == 0)
        };
        is_more(self.failed, other.failed) || is_more(self.damaged, other.damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Direction, Scale};
    use crate::verdict::Purpose;
    use crate::verdict::testing::{design, observed};

    #[test]
    fn a_loss_is_what_was_better_before() {
        let samples = MetricSamples {
            baseline: vec![vec![Some(8.0), Some(99.0)], vec![Some(6.0)], vec![None], vec![Some(5.0)]],
            configs: vec![vec![Some(3.0), Some(2.0), Some(1.0)], vec![Some(1.0), None, Some(4.0), Some(9.0)]],
        };
        let rule = |direction| MetricRule::new("x", direction, Purpose::Objective, 0.05, Scale::Linear);
        let of = |before, after| samples.losses(before, after, &rule(Direction::Higher));
        // 8 - 3 and 6 - 2: where one side is missing there is none.
        assert_eq!(of(None, Some(0)), [5.0, 4.0]);
        assert_eq!(of(Some(0), None), [-5.0, -4.0]);
        assert_eq!(of(Some(0), Some(1)), [2.0, -3.0]);
        assert!(of(None, Some(2)).is_empty());
        assert_eq!(samples.losses(None, Some(0), &rule(Direction::Lower)), [-5.0, -4.0]);
    }

    #[test]
    fn a_scenario_is_invalid_with_the_design_or_by_itself() {
        let with = |scope| Observed { invalid: vec![Invalid { scope, code: "X".into() }], ..Observed::default() };
        let found = |scope| [0, 1].map(|scenario| with(scope).scenario_is_invalid(scenario));
        assert_eq!(found(Scope::Design), [true, true]);
        assert_eq!(found(Scope::Scenario(1)), [false, true]);
        assert_eq!(found(Scope::Config(1)), [false, false]);
        assert_eq!(found(Scope::Cell { scenario: 1, config: 1 }), [false, false]);
    }

    #[test]
    fn what_does_not_fit_the_design_is_told() {
        let design = design(2, &["read", "write", "scan"], 1, 4);
        let told = |change: fn(&mut Observed)| {
            let mut observed = observed(&design, |_, _, _, _| 1.0);
            let all = Endings { baseline: vec![vec![Ending::Sound]; 4], configs: vec![vec![Ending::Sound; 4]; 2] };
            observed.endings = vec![all; 3];
            change(&mut observed);
            observed.misfit(&design).unwrap_or_default()
        };
        assert_eq!(told(|_| ()), "");
        let endings = "endings and samples of scenario \"write\" differ in blocks or configs";
        assert_eq!(told(|o| o.endings[1].baseline.truncate(3)), endings);
        assert_eq!(told(|o| o.endings[1].configs.truncate(1)), endings);
        assert_eq!(told(|o| o.endings[1].configs[1].truncate(3)), endings);
        assert_eq!(told(|o| o.endings.truncate(2)), "endings for 2 scenarios, expected 3");
        // Three scenarios, two configs.
        let is_known = |scenario: usize, config: usize| {
            let mut observed = observed(&design, |_, _, _, _| 1.0);
            observed.invalid.push(Invalid { scope: Scope::Cell { scenario, config }, code: "X".into() });
            observed.misfit(&design).is_none()
        };
        assert_eq!([is_known(2, 1), is_known(3, 1), is_known(2, 2)], [true, false, false]);
    }

    #[test]
    fn runs_add_up() {
        let runs = |failed, damaged, sound| Runs { failed, damaged, sound };
        assert_eq!(runs(5, 2, 7).plus(runs(4, 3, 6)), runs(9, 5, 13));
        // With nothing to compare with, any failure is more.
        assert!(runs(1, 0, 5).fail_more_than(runs(0, 0, 0)));
        assert!(!runs(0, 0, 5).fail_more_than(runs(0, 0, 0)));
    }
}
