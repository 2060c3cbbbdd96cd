use serde::{Deserialize, Serialize};

use super::design::{Design, MetricRule};
use crate::stats::{ALPHA, WORST, median, upper_share};

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
        (self.median(None), self.median(Some(config)))
    }

    /// The place of a run: of a config, or without one of the baseline.
    pub(crate) fn run_mut(&mut self, config: Option<usize>, block: usize, replicate: u32) -> Option<&mut Option<f64>> {
        match config {
            Some(config) => self.configs.get_mut(config)?.get_mut(block),
            None => self.baseline.get_mut(block)?.get_mut(replicate as usize),
        }
    }

    /// Copies the shape and leaves all values empty.
    pub(crate) fn without_values(&self) -> Self {
        let none = |runs: &Vec<Option<f64>>| vec![None; runs.len()];
        Self { baseline: self.baseline.iter().map(none).collect(), configs: self.configs.iter().map(none).collect() }
    }

    /// Median of a config, or without one of the baseline.
    pub fn median(&self, config: Option<usize>) -> Option<f64> {
        let values: Vec<f64> = match config {
            Some(config) => self.configs.get(config)?.iter().flatten().copied().collect(),
            None => self.baseline.iter().flatten().flatten().copied().collect(),
        };
        median(&values)
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

/// First attempts that failed or left no number, in the blocks in which the config was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BadFirsts {
    /// Blocks in which the config's was one.
    pub own: Vec<usize>,
    /// How many of the baseline's were.
    pub baseline: usize,
    /// Blocks in which the config was tried.
    pub runs: usize,
}

impl BadFirsts {
    /// As many of the config's runs as could fail beyond the baseline's share, by a one-sided 95 % bound (Clopper and Pearson, "The Use of
    /// Confidence or Fiducial Limits"). None where its share was not larger.
    pub fn excess(&self, m0: usize) -> usize {
        let (own, runs, beside) = (self.own.len(), self.runs, self.runs * m0);
        if own * m0 <= self.baseline {
            return 0;
        }
        let baseline = self.baseline as f64 / beside as f64;
        let upper = upper_share(own, runs, ALPHA);
        // Rounded first, so that a whole number of runs is no run more by the last digit.
        let excess = ((upper - baseline) * runs as f64 * 1e9).round() / 1e9;
        (excess.ceil() as usize).clamp(own, runs)
    }
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

/// A first attempt that left no number: evicted, crashed, never started, or a row that a file lacks. Numbers are positions in the design; the
/// baseline has no config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostFirst {
    pub scenario: usize,
    pub config: Option<usize>,
    pub block: usize,
}

/// A value that is only the end of its histogram: the true one is at least as bad. `run` counts the baseline's runs of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saturated {
    pub scenario: usize,
    pub metric: usize,
    pub config: Option<usize>,
    pub block: usize,
    pub run: usize,
}

/// All that came in so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Scenario by scenario, metric by metric, in the design's order.
    pub samples: Vec<Vec<MetricSamples>>,
    /// Samples of first attempts that measured anything, counted or not ("First attempts"); empty if all of them counted.
    #[serde(default)]
    pub firsts: Vec<Vec<MetricSamples>>,
    /// Scenario by scenario; may be empty where nothing failed.
    #[serde(default)]
    pub endings: Vec<Endings>,
    /// Values that are missing though their runs count.
    #[serde(default)]
    pub lacks: Vec<Lack>,
    /// Values whose histogram ended before them; the samples have its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saturated: Vec<Saturated>,
    /// First attempts that left no number, whatever became of their place later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_firsts: Vec<LostFirst>,
    /// Position of each run of `samples` in its block, for each scenario. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<MetricSamples>,
    /// Position of each run of `firsts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_positions: Vec<MetricSamples>,
    /// Share of the baseline's time that the workload's own generator takes, for each scenario. It hides that share of every effect. Empty if
    /// nothing is hidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<f64>,
    #[serde(default)]
    pub invalid: Vec<Invalid>,
    /// Scenario and config of cells in which nothing that the config changes had a way to act: they speak for nobody, and nobody asks them.
    #[serde(default)]
    pub idle: Vec<(usize, usize)>,
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

    /// How all runs of a config in a scenario ended, or without one those of the baseline.
    pub fn ended(&self, scenario: usize, config: Option<usize>) -> Runs {
        let mut runs = Runs::default();
        let Some(endings) = self.endings.get(scenario) else { return runs };
        let of_config = config.and_then(|config| endings.configs.get(config)).into_iter().flatten();
        let of_baseline = endings.baseline.iter().flatten().filter(|_| config.is_none());
        of_config.chain(of_baseline).for_each(|end| runs.add(*end));
        runs
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

    /// First attempts of a config in the first `blocks` blocks of a scenario that failed or left no number, and the baseline's beside them.
    pub(super) fn bad_firsts(&self, scenario: usize, config: usize, blocks: usize, m0: usize) -> BadFirsts {
        let mut found = BadFirsts::default();
        let lost = |arm: Option<usize>, block: usize| {
            let is_own = |lost: &&LostFirst| (lost.scenario, lost.config, lost.block) == (scenario, arm, block);
            self.lost_firsts.iter().filter(is_own).count()
        };
        let endings = self.endings.get(scenario);
        let planned =
            self.samples.get(scenario).and_then(|metrics| metrics.first()).map_or(0, |row| row.baseline.len());
        for block in 0..blocks.min(planned) {
            let own = endings.and_then(|endings| endings.configs.get(config)?.get(block).copied()).unwrap_or_default();
            let own_lost = lost(Some(config), block) > 0;
            let has_value = self.samples[scenario][0].configs[config].get(block).is_some_and(Option::is_some);
            if own == Ending::Missing && !own_lost && !has_value {
                continue;
            }
            found.runs += 1;
            if own.has_failed() || own_lost {
                found.own.push(block);
            }
            let runs = endings.and_then(|endings| endings.baseline.get(block));
            let failed = runs.into_iter().flatten().filter(|end| end.has_failed()).count();
            found.baseline += (failed + lost(None, block)).min(m0);
        }
        found
    }

    /// Loss of `after` against `before`, block by block, as an effect: [`WORST`] if only the run of `after` failed, its negative if only that of
    /// `before` did. A side is a config, or without one the baseline.
    pub fn losses(
        &self,
        (scenario, metric): (usize, usize),
        [before, after]: [Option<usize>; 2],
        rule: &MetricRule,
    ) -> Vec<f64> {
        let Some(samples) = self.samples.get(scenario).and_then(|metrics| metrics.get(metric)) else {
            return Vec::new();
        };
        let value = |side: Option<usize>, block: usize| {
            let measured = match side {
                Some(config) => *samples.configs.get(config)?.get(block)?,
                None => samples.baseline.get(block)?.first().copied().flatten(),
            };
            rule.scale.transform(rule.direction, measured?).ok()
        };
        let has_failed = |side: Option<usize>, block: usize| match side {
            Some(config) => self.config_failed(scenario, config, block),
            None => self.baseline_failed(scenario, block, 0),
        };
        let of = |block: usize| match (value(before, block), value(after, block)) {
            (Some(before), Some(after)) => Some(before - after),
            (Some(_), None) => has_failed(after, block).then_some(WORST),
            (None, Some(_)) => has_failed(before, block).then_some(-WORST),
            (None, None) => None,
        };
        (0..samples.baseline.len()).filter_map(of).collect()
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
            return Some("first attempts and samples differ in scenarios or blocks".to_owned());
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

    /// Whether a larger share of these runs damaged data than of the other arm's.
    pub(super) fn damage_more_than(self, other: Self) -> bool {
        let (own, theirs) = (u64::from(self.damaged), u64::from(other.damaged));
        own * u64::from(other.ended()) > theirs * u64::from(self.ended()) || (own > 0 && other.ended() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Ending::{Damaged, Failed, Missing, Sound};
    use super::*;
    use crate::stats::{Direction, Scale};
    use crate::verdict::Purpose;
    use crate::verdict::testing::{design, observed};

    #[test]
    fn a_loss_is_what_was_better_before_and_a_failed_run_the_worst() {
        let samples = MetricSamples {
            baseline: vec![vec![Some(8.0), Some(99.0)], vec![Some(6.0)], vec![None], vec![Some(5.0)]],
            configs: vec![vec![Some(3.0), Some(2.0), Some(1.0)], vec![Some(1.0), None, Some(4.0), Some(9.0)]],
        };
        let rule = |direction| MetricRule::new("x", direction, Purpose::Objective, 0.05, Scale::Linear);
        let mut observed = Observed { samples: vec![vec![samples]], ..Observed::default() };
        let of = |observed: &Observed, sides| observed.losses((0, 0), sides, &rule(Direction::Higher));
        // 8 - 3 and 6 - 2: where one side is missing there is none.
        assert_eq!(of(&observed, [None, Some(0)]), [5.0, 4.0]);
        assert_eq!(of(&observed, [Some(0), None]), [-5.0, -4.0]);
        assert_eq!(of(&observed, [Some(0), Some(1)]), [2.0, -3.0]);
        assert!(of(&observed, [None, Some(2)]).is_empty());
        assert_eq!(observed.losses((0, 0), [None, Some(0)], &rule(Direction::Lower)), [-5.0, -4.0]);
        observed.endings = vec![Endings {
            baseline: vec![vec![Sound, Sound], vec![Sound], vec![Failed], vec![Sound]],
            configs: vec![vec![Sound, Sound, Sound, Missing], vec![Sound, Damaged, Sound, Sound]],
        }];
        assert_eq!(of(&observed, [None, Some(0)]), [5.0, 4.0, -WORST]);
        assert_eq!(of(&observed, [None, Some(1)]), [7.0, WORST, -WORST, -4.0]);
        assert_eq!(of(&observed, [Some(1), Some(0)]), [-2.0, -WORST, 3.0]);
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
            let all = Endings { baseline: vec![vec![Sound]; 4], configs: vec![vec![Sound; 4]; 2] };
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
        assert!(runs(1, 1, 29).damage_more_than(runs(3, 0, 27)) && !runs(1, 1, 29).damage_more_than(runs(3, 1, 27)));
        assert!(runs(9, 9, 21).damage_more_than(runs(20, 1, 40)), "once is not as often as nine times");
        // Any damage exceeds that of no runs; failures without damage never do.
        assert!(runs(1, 1, 5).damage_more_than(runs(0, 0, 0)));
        assert!(!runs(5, 0, 5).damage_more_than(runs(0, 0, 0)));
    }

    /// Upper 95 % bounds of 1 of 8, 2 of 10, 4 of 30 and 1 of 60: 47, 51, 28 and 7.7 %.
    #[test]
    fn as_many_runs_could_fail_as_a_bound_allows() {
        let excess = |own: usize, baseline: usize, runs: usize, m0: usize| {
            BadFirsts { own: (0..own).collect(), baseline, runs }.excess(m0)
        };
        assert_eq!([excess(1, 0, 8, 1), excess(2, 0, 10, 1), excess(4, 0, 30, 1), excess(1, 0, 60, 2)], [4, 6, 9, 5]);
        // A config that is bad as often as the baseline has no excess.
        assert_eq!([excess(0, 0, 30, 1), excess(3, 3, 30, 1), excess(1, 2, 30, 2), excess(3, 9, 30, 1)], [0; 4]);
        // 24 % less 3 %, and all of all.
        assert_eq!([excess(3, 1, 30, 1), excess(5, 0, 5, 1)], [7, 5]);
    }

    #[test]
    fn a_first_attempt_is_bad_if_it_failed_or_left_nothing() {
        let design = design(2, &["read"], 2, 6);
        let mut observed = observed(&design, |_, _, _, _| 1.0);
        let lost = |config, block| LostFirst { scenario: 0, config, block };
        observed.lost_firsts = vec![lost(Some(1), 0), lost(None, 2), lost(None, 2), lost(None, 2), lost(Some(1), 5)];
        // A block in which nothing of the config is known, and one in which its run failed.
        observed.samples[0][0].configs[1][3] = None;
        observed.samples[0][0].configs[1][4] = None;
        let mut endings = Endings { baseline: vec![vec![Sound; 2]; 6], configs: vec![vec![Missing; 6]; 2] };
        endings.configs[1][4] = Failed;
        endings.baseline[1][0] = Failed;
        observed.endings = vec![endings];
        let found = |config: usize, blocks: usize| {
            let BadFirsts { own, baseline, runs } = observed.bad_firsts(0, config, blocks, 2);
            (own, baseline, runs)
        };
        assert_eq!(found(1, 9), (vec![0, 4, 5], 3, 5));
        assert_eq!(found(1, 3), (vec![0], 3, 3));
        assert_eq!(found(0, 2), (vec![], 1, 2));
    }
}
