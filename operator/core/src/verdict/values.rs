use std::collections::BTreeSet;

use super::{
    design::{Design, DesignError, MetricRule},
    drift::{self, Placed},
    observed::{Lack, MetricSamples, Observed},
};
use crate::stats::{Direction, Paired, Scale, ShapeError, Totals, Unmeasurable};

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Design(#[from] DesignError),
    #[error("samples do not fit the design: {0}")]
    Misfit(String),
    #[error("metric {metric:?} of config {config:?} in scenario {scenario:?}, block {}: {value} {problem}", block + 1)]
    Value { metric: String, scenario: String, config: String, block: usize, value: f64, problem: Unmeasurable },
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// What a run says about a metric, transformed so that more is better ("Worst and best").
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// The run failed: worse than any that ended.
    Failed,
    /// Nothing, where nothing is as bad as it gets.
    ZeroWorst,
    /// At least as bad as this: the run ended, and its histogram before it.
    Saturated(f64),
    Number(f64),
    /// Nothing, where nothing is as good as it gets.
    ZeroBest,
}

impl Value {
    fn is_saturated(self) -> bool {
        matches!(self, Self::Saturated(_))
    }

    fn is_zero(self) -> bool {
        matches!(self, Self::ZeroWorst | Self::ZeroBest)
    }

    fn number(self) -> Option<f64> {
        if let Self::Number(value) = self { Some(value) } else { None }
    }

    fn less(self, drift: f64) -> Self {
        if let Self::Number(value) = self { Self::Number(value - drift) } else { self }
    }

    /// The value that estimates use.
    fn measured(self) -> Self {
        if let Self::Saturated(end) = self { Self::Number(end) } else { self }
    }
}

/// One metric of one scenario. What is invalid is missing here.
struct Row {
    /// `None` where a replicate is missing: such a block counts for no config.
    baseline: Vec<Option<Vec<Value>>>,
    configs: Vec<Vec<Option<Value>>>,
    /// Drift of each run within its block ("Order"), estimated from the first blocks up to each number, ascending.
    drifts: Vec<(usize, MetricSamples)>,
}

/// The rows of each scenario and metric.
struct Rows(Vec<Vec<Row>>);

/// All values that may be judged.
pub(super) struct Values<'a> {
    design: &'a Design,
    lacks: &'a [Lack],
    rows: Rows,
    /// First attempts; `None` if equal to `rows`.
    firsts: Option<Rows>,
    m0: usize,
    /// Blocks in every scenario that counts.
    pub complete: usize,
    /// Blocks in some.
    pub longest: usize,
}

/// The runs of one block that belong together: the config's and the baseline's.
type Block = (Value, Vec<Value>);

/// A config and the baseline in the same blocks, on one metric.
#[derive(Clone)]
pub(super) struct Comparison {
    /// With failed runs as the worst of all, and zeros at the end where they belong: what tests see.
    pub tested: Paired,
    /// Of the runs that ended: what estimates see. `None` where some of them have no place on the metric's scale.
    pub ended: Option<Paired>,
    /// What the runs add up to, in one scenario, as tests see it.
    pub totals: Option<Totals>,
    /// Whether a total is only known to be at least what it adds up to: the config's, and the baseline's.
    pub open_totals: (bool, bool),
    /// The effect on that, of the runs that ended.
    pub mean: Option<f64>,
    pub has_zeros: bool,
    /// More of the config's runs than of the baseline's did nothing in their time, so that no total of them exists.
    pub stands_still: bool,
    /// More of the config's runs lack a value than of the baseline's beside them ("Missing values").
    pub lacks_values: bool,
    /// This comparison on first attempts ("First attempts").
    pub firsts: Option<Box<Comparison>>,
    /// The centre without the blocks in which a run of the baseline failed, if there are any: that the baseline fails is no gain of a metric
    /// ("Worst and best").
    pub without_failures: Option<Box<Comparison>>,
}

impl Row {
    fn block(&self, config: usize, block: usize) -> Option<(Value, &[Value])> {
        let value = (*self.configs.get(config)?.get(block)?)?;
        Some((value, self.baseline.get(block)?.as_ref()?))
    }

    /// Estimates each run's drift from the first `blocks` blocks.
    fn drift(&self, positions: &MetricSamples, blocks: usize) -> Option<MetricSamples> {
        let (mut places, mut runs) = (Vec::new(), Vec::new());
        let mut add = |config: Option<usize>, block: usize, replicate: usize, position: Option<f64>, value: Value| {
            if let (Some(position), Some(value)) = (position, value.number()) {
                places.push((config, block, replicate as u32));
                runs.push(Placed { block, arm: config.unwrap_or(self.configs.len()), position, value });
            }
        };
        for (block, (values, positions)) in self.baseline.iter().zip(&positions.baseline).enumerate().take(blocks) {
            let own = values.iter().flatten().zip(positions).enumerate();
            own.for_each(|(replicate, (&value, &position))| add(None, block, replicate, position, value));
        }
        for (config, (values, positions)) in self.configs.iter().zip(&positions.configs).enumerate() {
            let own = values.iter().zip(positions).enumerate().take(blocks);
            let own = own.filter_map(|(block, (&value, &position))| Some((block, value?, position)));
            own.for_each(|(block, value, position)| add(Some(config), block, 0, position, value));
        }
        let mut found = positions.without_values();
        for ((config, block, replicate), drift) in places.into_iter().zip(drift::drifts(&runs)?) {
            if let Some(place) = found.run_mut(config, block, replicate) {
                *place = Some(drift);
            }
        }
        Some(found)
    }
}

impl Rows {
    /// `looks` has the numbers of blocks after which something is judged, ascending.
    fn of(
        design: &Design,
        observed: &Observed,
        samples: &[Vec<MetricSamples>],
        positions: &[MetricSamples],
        looks: &[usize],
    ) -> Result<Self, JudgeError> {
        let one = |scenario: usize, metric: usize, samples: &MetricSamples| {
            let mut row = row(design, observed, samples, scenario, metric)?;
            // A share does not drift by a factor, and often is zero.
            if let Some(positions) = positions.get(scenario)
                && design.metrics[metric].scale == Scale::Log
            {
                row.drifts = looks.iter().filter_map(|&blocks| Some((blocks, row.drift(positions, blocks)?))).collect();
            }
            Ok(row)
        };
        let of_scenario = |(scenario, metrics): (usize, &Vec<MetricSamples>)| {
            metrics.iter().enumerate().map(|(metric, samples)| one(scenario, metric, samples)).collect()
        };
        Ok(Self(samples.iter().enumerate().map(of_scenario).collect::<Result<_, JudgeError>>()?))
    }

    fn row(&self, scenario: usize, metric: usize) -> &Row {
        &self.0[scenario][metric]
    }

    /// The runs of a config and of the baseline in a block, less the drift that the first `known` blocks show.
    fn block(&self, (scenario, config, metric): (usize, usize, usize), block: usize, known: usize) -> Option<Block> {
        let row = self.row(scenario, metric);
        let (own, baseline) = row.block(config, block)?;
        let Some((_, drift)) = row.drifts.iter().find(|(blocks, _)| *blocks >= known) else {
            return Some((own, baseline.to_vec()));
        };
        let less = |value: Value, drift: Option<&Option<f64>>| value.less(drift.copied().flatten().unwrap_or(0.0));
        let of_baseline = drift.baseline.get(block);
        let baseline = baseline.iter().enumerate();
        let baseline = baseline.map(|(run, value)| less(*value, of_baseline.and_then(|runs| runs.get(run))));
        Some((less(own, drift.configs.get(config).and_then(|runs| runs.get(block))), baseline.collect()))
    }
}

impl<'a> Values<'a> {
    pub fn new(design: &'a Design, observed: &'a Observed) -> Result<Self, JudgeError> {
        if let Some(misfit) = observed.misfit(design) {
            return Err(JudgeError::Misfit(misfit));
        }
        let lengths: Vec<usize> = (0..observed.samples.len())
            .filter(|&s| !observed.scenario_is_invalid(s))
            .map(|s| observed.samples[s].first().map_or(0, |samples| samples.baseline.len()))
            .collect();
        let (complete, longest) = (lengths.iter().copied().min(), lengths.iter().copied().max());
        let (complete, longest) = (complete.unwrap_or(0), longest.unwrap_or(0));
        let planned = design.looks.iter().flat_map(|looks| &looks.blocks).copied();
        let looks: Vec<usize> = planned.filter(|&blocks| blocks < longest).chain([longest]).collect();
        let rows = |samples: &[Vec<MetricSamples>], positions: &[MetricSamples]| {
            Rows::of(design, observed, samples, positions, &looks)
        };
        let has_firsts = !observed.firsts.is_empty();
        Ok(Self {
            design,
            lacks: &observed.lacks,
            rows: rows(&observed.samples, &observed.positions)?,
            firsts: has_firsts.then(|| rows(&observed.firsts, &observed.first_positions)).transpose()?,
            m0: design.m0,
            complete,
            longest,
        })
    }

    /// A config in one scenario, on these blocks.
    pub fn cell(
        &self,
        scenario: usize,
        config: usize,
        metric: usize,
        blocks: impl Iterator<Item = usize>,
    ) -> Result<Comparison, ShapeError> {
        let blocks: Vec<usize> = blocks.collect();
        let known = blocks.last().map_or(0, |last| last + 1);
        let compared = |rows: &Rows| {
            let pairs = blocks.iter().filter_map(|&block| rows.block((scenario, config, metric), block, known));
            self.compared(&pairs.collect::<Vec<Block>>(), &self.design.metrics[metric], true)
        };
        let mut found = compared(&self.rows)?;
        found.firsts = self.firsts.as_ref().map(compared).transpose()?.map(Box::new);
        found.lacks_values = self.lacks_values(scenario, config, metric, &blocks);
        Ok(found)
    }

    /// The estimate of a config in the first `blocks` blocks of a scenario if `worst` of its runs were the worst of all, those of the `bad` blocks
    /// among them ("Failures"). `None` without blocks.
    pub fn estimate_with_worst(
        &self,
        (scenario, config, metric): (usize, usize, usize),
        blocks: usize,
        bad: &[usize],
        worst: usize,
    ) -> Result<Option<f64>, ShapeError> {
        let of_block = |block| Some((block, self.rows.block((scenario, config, metric), block, blocks)?));
        let compared = (0..blocks).filter_map(of_block);
        let (numbers, pairs): (Vec<usize>, Vec<Block>) = compared.unzip();
        let known: Vec<usize> = (0..numbers.len()).filter(|&position| bad.contains(&numbers[position])).collect();
        let tested = self.compared(&pairs, &self.design.metrics[metric], false)?.tested;
        Ok(tested.estimate_with_worst(&known, worst))
    }

    /// Whether more of a config's runs lack a value than of the baseline's in the same blocks.
    fn lacks_values(&self, scenario: usize, config: usize, metric: usize, blocks: &[usize]) -> bool {
        if self.lacks.is_empty() {
            return false;
        }
        let lacking = |arm: Option<usize>| {
            let own = move |lack: &&Lack| (lack.scenario, lack.metric, lack.config) == (scenario, metric, arm);
            self.lacks.iter().filter(own).map(|lack| lack.block).filter(|block| blocks.binary_search(block).is_ok())
        };
        let own: Vec<usize> = lacking(Some(config)).collect();
        let values = self.rows.row(scenario, metric).configs.get(config);
        let is_beside = |block: &usize| {
            own.contains(block) || values.is_some_and(|runs| runs.get(*block).is_some_and(Option::is_some))
        };
        own.len() * self.m0 > lacking(None).filter(is_beside).count()
    }

    /// Every block's baseline runs in one scenario; `None` where one is missing, failed, or is beyond all numbers.
    pub fn baseline(&self, scenario: usize, metric: usize, block: usize) -> Option<Vec<f64>> {
        let runs = self.rows.row(scenario, metric).baseline.get(block)?.as_ref()?;
        runs.iter().map(|run| run.number()).collect()
    }

    /// A config's run in a block, whether or not the block counts.
    pub fn run(&self, scenario: usize, config: usize, metric: usize, block: usize) -> Option<f64> {
        (*self.rows.row(scenario, metric).configs.get(config)?.get(block)?)?.number()
    }

    /// Blocks that a scenario has.
    pub fn blocks(&self, scenario: usize) -> usize {
        self.rows.0[scenario].first().map_or(0, |row| row.baseline.len())
    }

    /// A config over all scenarios ("Overall"): the weighted mean of what they say in the same round, where all of them do. Where a run of
    /// the round failed, so did the round. `None` where there are zeros, of which there is no mean.
    pub fn overall(
        &self,
        config: usize,
        metric: usize,
        rounds: impl Iterator<Item = usize>,
    ) -> Result<Option<Comparison>, ShapeError> {
        let rounds: Vec<usize> = rounds.collect();
        let compared = |rows: &Rows| {
            let pairs = self.rounds(rows, config, metric, &rounds);
            pairs.map(|pairs| self.compared(&pairs, &self.design.metrics[metric], false)).transpose()
        };
        let Some(mut found) = compared(&self.rows)? else { return Ok(None) };
        if let Some(firsts) = &self.firsts {
            let Some(firsts) = compared(firsts)? else { return Ok(None) };
            found.firsts = Some(Box::new(firsts));
        }
        found.lacks_values = (0..self.design.scenarios.len()).any(|s| self.lacks_values(s, config, metric, &rounds));
        Ok(Some(found))
    }

    /// A config and the baseline over all scenarios, round by round; `None` where there are zeros.
    fn rounds(&self, rows: &Rows, config: usize, metric: usize, rounds: &[usize]) -> Option<Vec<Block>> {
        let known = rounds.last().map_or(0, |last| last + 1);
        let total: f64 = self.design.scenarios.iter().map(|scenario| scenario.weight).sum();
        let mut zeros = false;
        let mut round = |block: usize| {
            let mut has_zero = false;
            let mut sum: Block = (Value::Number(0.0), vec![Value::Number(0.0); self.m0]);
            for (position, scenario) in self.design.scenarios.iter().enumerate() {
                let (own, baseline) = rows.block((position, config, metric), block, known)?;
                has_zero |= own.is_zero() || baseline.iter().any(|run| run.is_zero());
                let add = |to: &mut Value, run: Value| {
                    *to = match (*to, run.number()) {
                        (Value::Number(sum), Some(value)) => Value::Number(sum + scenario.weight / total * value),
                        _ => Value::Failed,
                    };
                };
                add(&mut sum.0, own);
                sum.1.iter_mut().zip(baseline).for_each(|(to, run)| add(to, run));
            }
            // Of rounds that count only.
            zeros |= has_zero;
            Some(sum)
        };
        let pairs: Vec<Block> = rounds.iter().filter_map(|&block| round(block)).collect();
        (!zeros).then_some(pairs)
    }

    fn compared(&self, pairs: &[Block], rule: &MetricRule, with_totals: bool) -> Result<Comparison, ShapeError> {
        // A metric that is zero in every run is equal: zero is no end of its scale then.
        let equal: Vec<Block>;
        let pairs = if !pairs.is_empty() && all(pairs).all(|run| run == Value::ZeroBest) {
            equal = vec![(Value::Number(0.0), vec![Value::Number(0.0); self.m0]); pairs.len()];
            &equal
        } else {
            pairs
        };
        let has_zeros = all(pairs).any(Value::is_zero);
        let ends = Ends::of(pairs, rule);
        let placed = |pairs: &[Block]| {
            let (config, baseline): (Vec<f64>, Vec<Vec<f64>>) = pairs
                .iter()
                .map(|(own, runs)| (ends.place(*own), runs.iter().map(|&run| ends.place(run)).collect::<Vec<f64>>()))
                .unzip();
            (config, baseline.concat())
        };
        let (config, baseline) = placed(pairs);
        let at_end = |(block, (own, _)): (usize, &Block)| own.number().is_none().then_some(block);
        let tested =
            Paired::new(config, baseline, self.m0)?.with_ends(pairs.iter().enumerate().filter_map(at_end).collect());
        let ended: Vec<Block> = pairs
            .iter()
            .filter(|block| all(std::slice::from_ref(block)).all(|run| run != Value::Failed))
            .map(|(own, runs)| (own.measured(), runs.iter().map(|run| run.measured()).collect()))
            .collect();
        let totals = |pairs: &[Block]| {
            // What costs nothing adds nothing, however good it is; what does nothing in any time never ends.
            let cost = |run: Value| match run {
                Value::ZeroBest => f64::INFINITY,
                Value::ZeroWorst => f64::NEG_INFINITY,
                run => ends.place(run.measured()),
            };
            let config: Vec<f64> = pairs.iter().map(|(own, _)| cost(*own)).collect();
            let baseline: Vec<f64> = pairs.iter().flat_map(|(_, runs)| runs.iter().map(|&run| cost(run))).collect();
            Totals::of(&config, &baseline, self.m0, rule.scale)
        };
        let with_totals = with_totals && rule.purpose.is_required();
        // Where all runs of a block are equally bad, nothing is known of what they cost.
        let tells = |(own, runs): &&Block| {
            !(matches!(own, Value::Failed | Value::ZeroWorst) && runs.iter().all(|run| run == own))
        };
        let has_worst = all(&ended).any(|run| run == Value::ZeroWorst);
        let still = |run: &&Value| **run == Value::ZeroWorst;
        let own_still = pairs.iter().map(|(own, _)| own).filter(still).count();
        let baseline_still = pairs.iter().flat_map(|(_, runs)| runs).filter(still).count();
        let is_sound = |(_, runs): &&Block| !runs.contains(&Value::Failed);
        let sound: Vec<Block> = pairs.iter().filter(is_sound).cloned().collect();
        let without_failures =
            (sound.len() < pairs.len()).then(|| self.compared(&sound, rule, false)).transpose()?.map(Box::new);
        let mut beside = pairs.iter().flat_map(|(_, runs)| runs.iter().copied());
        Ok(Comparison {
            totals: with_totals.then(|| totals(&pairs.iter().filter(tells).cloned().collect::<Vec<Block>>())),
            open_totals: (pairs.iter().any(|(own, _)| own.is_saturated()), beside.any(Value::is_saturated)),
            mean: if with_totals && !has_worst { totals(&ended).effect() } else { None },
            ended: if has_zeros {
                None
            } else if ended.len() == pairs.len() && !all(pairs).any(Value::is_saturated) {
                Some(tested.clone())
            } else {
                let (config, baseline) = placed(&ended);
                Some(Paired::new(config, baseline, self.m0)?)
            },
            tested,
            has_zeros,
            stands_still: own_still * self.m0 > baseline_still,
            lacks_values: false,
            firsts: None,
            without_failures,
        })
    }
}

/// All runs of some blocks.
fn all(pairs: &[Block]) -> impl Iterator<Item = Value> + '_ {
    pairs.iter().flat_map(|(own, baseline)| std::iter::once(*own).chain(baseline.iter().copied()))
}

/// Where what is beyond all numbers has its place: so far from them that no shift of a test brings it back among them, and a
/// failure beyond all ("Worst and best").
struct Ends {
    low: f64,
    high: f64,
    beyond: f64,
    /// Zeros that are worst lie between the numbers and failures.
    worst_zeros: bool,
}

impl Ends {
    fn of(pairs: &[Block], rule: &MetricRule) -> Self {
        let numbers = all(pairs).filter_map(|run| run.measured().number());
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
        let shift = rule.effect_margin().max(rule.least_effect()).max(rule.effect_margin_per_scenario());
        let worst_zeros = all(pairs).any(|run| run == Value::ZeroWorst);
        Self { low, high, beyond: high - low + 2.0 * shift, worst_zeros }
    }

    fn place(&self, value: Value) -> f64 {
        match value {
            Value::Number(value) => value,
            Value::ZeroBest => self.high + self.beyond,
            Value::Failed if self.worst_zeros => self.low - 3.0 * self.beyond,
            Value::ZeroWorst | Value::Saturated(_) | Value::Failed => self.low - self.beyond,
        }
    }
}

fn row(
    design: &Design,
    observed: &Observed,
    samples: &MetricSamples,
    scenario: usize,
    metric: usize,
) -> Result<Row, JudgeError> {
    let MetricSamples { baseline, configs } = samples;
    let rule = &design.metrics[metric];
    let ends: BTreeSet<(Option<usize>, usize, usize)> = observed
        .saturated
        .iter()
        .filter(|own| (own.scenario, own.metric) == (scenario, metric))
        .map(|own| (own.config, own.block, own.run))
        .collect();
    let at_end = |value: Value, config: Option<usize>, block: usize, run: usize| match value {
        Value::Number(end) if ends.contains(&(config, block, run)) => Value::Saturated(end),
        value => value,
    };
    let value_of = |config: &str, block: usize, value: f64| match rule.scale.transform(rule.direction, value) {
        Ok(number) => Ok(Value::Number(number)),
        Err(Unmeasurable::Zero) if rule.direction == Direction::Lower => Ok(Value::ZeroBest),
        Err(Unmeasurable::Zero) => Ok(Value::ZeroWorst),
        Err(problem) => Err(JudgeError::Value {
            metric: rule.name.clone(),
            scenario: design.scenarios[scenario].name.clone(),
            config: config.to_owned(),
            block,
            value,
            problem,
        }),
    };
    if observed.scenario_is_invalid(scenario) {
        return Ok(Row { baseline: Vec::new(), configs: Vec::new(), drifts: Vec::new() });
    }
    let baseline_block = |(block, runs): (usize, &Vec<Option<f64>>)| -> Result<_, JudgeError> {
        let mut values = Vec::with_capacity(design.m0);
        for run in 0..runs.len().max(design.m0) {
            let value = runs.get(run).copied().flatten();
            if observed.baseline_failed(scenario, block, run) {
                values.push(Value::Failed);
            } else if let Some(value) = value {
                values.push(at_end(value_of("baseline", block, value)?, None, block, run));
            }
        }
        Ok((values.len() >= design.m0).then_some(values))
    };
    let config_values = |(config, values): (usize, &Vec<Option<f64>>)| -> Result<_, JudgeError> {
        if !observed.cell_codes(scenario, config).is_empty() {
            return Ok(Vec::new());
        }
        let name = &design.configs[config];
        let one = |(block, value): (usize, &Option<f64>)| {
            if observed.config_failed(scenario, config, block) {
                return Ok(Some(Value::Failed));
            }
            value.map(|value| Ok(at_end(value_of(name, block, value)?, Some(config), block, 0))).transpose()
        };
        values.iter().enumerate().map(one).collect()
    };
    Ok(Row {
        baseline: baseline.iter().enumerate().map(baseline_block).collect::<Result<_, _>>()?,
        configs: configs.iter().enumerate().map(config_values).collect::<Result<_, _>>()?,
        drifts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::testing::{design, observed};

    #[test]
    fn failures_are_as_far_beyond_zeros_as_no_shift_reaches() {
        let place = |worst_zeros, value| Ends { low: 1.0, high: 9.0, beyond: 20.0, worst_zeros }.place(value);
        assert_eq!((place(false, Value::Number(4.0)), place(false, Value::ZeroBest)), (4.0, 29.0));
        assert_eq!(place(false, Value::Failed), -19.0);
        // Zeros are a shift of the numbers away from both.
        assert_eq!((place(true, Value::ZeroWorst), place(true, Value::Failed)), (-19.0, -59.0));
    }

    #[test]
    fn more_values_are_missing_when_a_larger_share_is() {
        let design = design(1, &["read"], 2, 4);
        let is_more = |own: &[usize], baseline: &[usize]| {
            let mut observed = observed(&design, |_, _, _, _| 1.0);
            let lack = |config| move |&block: &usize| Lack { scenario: 0, metric: 0, config, block };
            observed.lacks = own.iter().map(lack(Some(0))).chain(baseline.iter().map(lack(None))).collect();
            for &block in own {
                observed.samples[0][0].configs[0][block] = None;
            }
            Values::new(&design, &observed).unwrap().cell(0, 0, 0, 0..3).unwrap().lacks_values
        };
        // A run of the config is beside two of the baseline.
        assert!(is_more(&[1], &[]));
        assert!(is_more(&[1], &[1]));
        assert!(!is_more(&[1], &[1, 1]));
        assert!(!is_more(&[], &[]));
        // The fourth block is not looked at.
        assert!(!is_more(&[3], &[]) && is_more(&[1], &[3, 3]));
    }

    #[test]
    fn a_quantile_has_a_mean_over_runs() {
        let mut design = design(1, &["read"], 1, 4);
        let observed = observed(&design, |_, _, config, _| config.map_or(1.0, |_| 2.0));
        let mean = |design: &Design| Values::new(design, &observed).unwrap().cell(0, 0, 0, 0..4).unwrap().mean;
        assert!((mean(&design).unwrap() - 2.0_f64.ln()).abs() < 1e-12);
        design.metrics[0].quantile = true;
        assert!((mean(&design).unwrap() - 2.0_f64.ln()).abs() < 1e-12);
    }
}
