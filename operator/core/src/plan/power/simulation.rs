//! Simulated experiments of one design.

use std::ops::Range;
use std::thread;

use super::{Spreads, difference};
use crate::stats::{Direction, Scale};
use crate::verdict::{
    ConfigConclusion, Design, Intervals, MetricRule, MetricSamples, Observed, Purpose, Reason, Verdict, judge,
};

/// True effect of the simulated config.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Truth {
    /// As the baseline.
    Same,
    /// Each objective gains this many of its margins.
    Gain { margins: f64 },
    /// The first objective loses this effect.
    Loss { effect: f64 },
}

impl Truth {
    fn effect(self, rule: &MetricRule, is_first: bool) -> f64 {
        match self {
            Self::Gain { margins } if rule.purpose == Purpose::Objective => margins * rule.effect_margin(),
            Self::Loss { effect } if is_first => -effect,
            _ => 0.0,
        }
    }
}

/// A design with noise, of which experiments are drawn.
///
/// Runs scatter normally around equal blocks, independently for each scenario and metric. Real metrics of one run are correlated, such as
/// throughput and drained throughput. A Win or a Neutral needs all of them together, which independent metrics reach less often, so the
/// simulated power is a lower bound.
///
/// Only the first config has runs. The families stay those of all configs, so the correction for them is charged in full: the others
/// prove nothing that would make it cheaper, which they could in a real experiment.
pub struct Simulation {
    design: Design,
    /// Standard deviations of single runs, by scenario and metric.
    noises: Vec<Vec<f64>>,
    /// Position of the first objective.
    first: usize,
    seed: u64,
    threads: usize,
}

/// Experiments for a decision near 80 %, where they cost little.
const MOST_EXPERIMENTS: usize = 400;
/// The fewest of them, where an experiment takes long to judge.
const LEAST_EXPERIMENTS: usize = 80;
/// Steps of null distributions that all experiments of a decision may take, about.
const STEPS: usize = 2_000_000;

impl Simulation {
    /// `spreads` are known for every scenario and metric of the design, which has an objective.
    pub fn new(design: &Design, spreads: &Spreads, seed: u64, threads: usize) -> Self {
        let mut design = design.clone();
        let is_required: Vec<bool> = design.metrics.iter().map(|rule| rule.purpose.is_required()).collect();
        // Nothing depends on what is only reported.
        design.metrics.retain(|rule| rule.purpose.is_required());
        let of_run = difference(design.m0);
        let own = |spreads: &Vec<f64>| {
            let kept = spreads.iter().zip(&is_required).filter(|(_, is_required)| **is_required);
            kept.map(|(spread, _)| spread / of_run).collect()
        };
        let first = design.metrics.iter().position(|rule| rule.purpose == Purpose::Objective).unwrap_or_default();
        Self { noises: spreads.iter().map(own).collect(), design, first, seed, threads }
    }

    pub fn first_objective(&self) -> &MetricRule {
        &self.design.metrics[self.first]
    }

    /// Experiments after which a decision is made though it is close.
    pub fn most_experiments(&self) -> usize {
        let Design { scenarios, metrics, m0, max_blocks, .. } = &self.design;
        let steps = scenarios.len() * metrics.len() * m0 * max_blocks * max_blocks;
        (STEPS / steps.max(1)).clamp(LEAST_EXPERIMENTS, MOST_EXPERIMENTS)
    }

    pub fn verdict(&self, experiment: usize, truth: Truth) -> Option<Verdict> {
        self.conclusion(experiment, truth).map(|found| found.conclusion.outcome.verdict)
    }

    pub fn reason(&self, experiment: usize, truth: Truth) -> Option<Reason> {
        self.conclusion(experiment, truth).map(|found| found.conclusion.outcome.reason)
    }

    /// Blocks after which a look decided the config, else all.
    pub fn stopped_at(&self, experiment: usize, truth: Truth) -> usize {
        self.conclusion(experiment, truth).and_then(|found| found.stopped_at).unwrap_or(self.design.max_blocks)
    }

    fn conclusion(&self, experiment: usize, truth: Truth) -> Option<ConfigConclusion> {
        let judgement = judge(&self.design, &self.observed(experiment, truth), Intervals::None).ok()?;
        judgement.overall.into_iter().next()
    }

    /// An experiment's noise is the same whatever the truth is, and that of its first blocks whatever their number.
    fn observed(&self, experiment: usize, truth: Truth) -> Observed {
        let Design { scenarios, metrics, configs, m0, max_blocks, .. } = &self.design;
        let mut normal = Normal::new(self.seed, experiment);
        let empty =
            || MetricSamples { baseline: Vec::with_capacity(*max_blocks), configs: vec![Vec::new(); configs.len()] };
        let mut samples: Vec<Vec<MetricSamples>> =
            scenarios.iter().map(|_| metrics.iter().map(|_| empty()).collect()).collect();
        for _ in 0..*max_blocks {
            for (rows, noises) in samples.iter_mut().zip(&self.noises) {
                for (metric, ((row, rule), noise)) in rows.iter_mut().zip(metrics).zip(noises).enumerate() {
                    let effect = truth.effect(rule, metric == self.first);
                    let mut run = |centre: f64| Some(measured(rule, centre + noise * normal.draw()));
                    row.configs[0].push(run(effect));
                    row.baseline.push((0..*m0).map(|_| run(0.0)).collect());
                }
            }
        }
        Observed { samples, ended: true, ..Observed::default() }
    }

    /// Applies `of` to each experiment; results keep their order.
    pub fn map<T: Send>(&self, experiments: Range<usize>, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let share = experiments.len().div_ceil(self.threads.max(1)).max(1);
        let parts: Vec<Range<usize>> =
            experiments.clone().step_by(share).map(|from| from..(from + share).min(experiments.end)).collect();
        let of = &of;
        thread::scope(|scope| {
            let mut parts = parts.into_iter();
            let own = parts.next().unwrap_or_default();
            // A thread that the system refuses is one less; its part is done here.
            let others: Vec<_> = parts
                .map(|part| {
                    let work = part.clone();
                    (part, thread::Builder::new().spawn_scoped(scope, move || work.map(of).collect::<Vec<T>>()).ok())
                })
                .collect();
            let mut all: Vec<T> = own.map(of).collect();
            for (part, thread) in others {
                match thread.map(thread::ScopedJoinHandle::join) {
                    Some(Ok(found)) => all.extend(found),
                    _ => all.extend(part.map(of)),
                }
            }
            all
        })
    }
}

#[cfg(test)]
impl Simulation {
    /// The verdict on the first config, where all others have runs as well, of configs that are as it is.
    pub fn judged_among(&self, experiment: usize, truth: Truth, others: bool) -> Option<Verdict> {
        let mut observed = self.observed(experiment, truth);
        for config in (1..self.design.configs.len()).filter(|_| others) {
            let own = self.observed(1000 * config + experiment, truth);
            for (row, own) in observed.samples.iter_mut().flatten().zip(own.samples.into_iter().flatten()) {
                row.configs[config].clone_from(&own.configs[0]);
            }
        }
        let judgement = judge(&self.design, &observed, Intervals::None).ok()?;
        Some(judgement.overall[0].conclusion.outcome.verdict)
    }
}

/// A measured value, by the effect that it stands for.
fn measured(rule: &MetricRule, effect: f64) -> f64 {
    let signed = match rule.direction {
        Direction::Higher => effect,
        Direction::Lower => -effect,
    };
    match rule.scale {
        Scale::Log => signed.exp(),
        Scale::Linear => signed,
    }
}

/// Normal numbers, the same for the same seed.
struct Normal {
    state: u64,
    /// The second of a pair.
    spare: Option<f64>,
}

impl Normal {
    fn new(seed: u64, experiment: usize) -> Self {
        let mut own = Self { state: seed ^ (experiment as u64).wrapping_mul(0xd134_2543_de82_ef95), spare: None };
        own.state = own.next();
        own
    }

    /// `SplitMix64` (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators").
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Above 0, up to 1.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Mean 0, standard deviation 1 (Box and Muller, "A Note on the Generation of Random Normal Deviates").
    fn draw(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), std::f64::consts::TAU * self.uniform());
        self.spare = Some(radius * angle.sin());
        radius * angle.cos()
    }
}
