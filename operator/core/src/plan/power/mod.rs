//! Power of a design before anything runs: which effects it finds with 80 % probability, and how many blocks a verdict needs
//! ("Precision").
//!
//! Nothing here is a formula: [`verdict::judge`](crate::verdict::judge) judges simulated experiments of this very design, with its looks,
//! margins, guardrails and scenarios. The same design always gives the same answers, whatever the number of threads.

mod search;
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::stats::Scale;
use crate::verdict::{Design, LookPlan, MetricRule, Purpose, Reason, Verdict};
use search::{first_blocks, smallest};
use simulation::Simulation;
pub use simulation::Truth;

/// Standard deviation, over blocks, of a config's run minus the mean of the baseline's: by scenario and metric, as the design has them.
pub type Spreads = Vec<Vec<f64>>;

/// The spreads that follow if single runs scatter by `noises`, one for each scenario: standard deviations over means.
pub fn spreads(design: &Design, noises: &[f64]) -> Spreads {
    let difference = difference(design.m0);
    noises.iter().map(|noise| vec![noise * difference; design.metrics.len()]).collect()
}

/// Standard deviation of one run minus the mean of `m0` others, in standard deviations of a run.
fn difference(m0: usize) -> f64 {
    (1.0 + 1.0 / m0 as f64).sqrt()
}

/// The smallest effect on the first objective that is found with 80 % probability. None is smaller than the margin: an effect within it
/// is no reason to act, and measured well it is Neutral.
#[derive(Clone, Debug, PartialEq)]
pub enum Smallest {
    /// Declared as margins are: a ratio on a log scale, a difference on a linear one.
    From(f64),
    /// No effect is found, however large. Named is the metric of which it can't be shown that it gets no worse than it may, if that is why.
    Nothing { held_back_by: Option<String> },
}

impl Smallest {
    pub fn found(&self) -> Option<f64> {
        match self {
            Self::From(effect) => Some(*effect),
            Self::Nothing { .. } => None,
        }
    }
}

/// Blocks with which an experiment of the same kind decides with 80 % probability. `None`: more than [`MOST_BLOCKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// That a config which changes nothing is called Neutral.
    pub neutral: Option<usize>,
    /// That a config which improves the objectives by their margins is called Win.
    pub win: Option<usize>,
    /// That a config which worsens the first objective by its margin is called Reject.
    pub reject: Option<usize>,
}

/// Longer or quieter runs are a better plan than more blocks than this.
pub const MOST_BLOCKS: usize = 100;

/// Steps between effects on a log scale: half a percent.
const STEP: f64 = 0.005;
/// Steps between effects on a linear scale, which has no percent: in margins.
const LINEAR_STEP: f64 = 0.1;
/// Largest effects that are looked for: a rate that quadruples or falls to a quarter.
const LARGEST_GAIN: f64 = 3.0;
const LARGEST_LOSS: f64 = 0.75;
/// Largest effect on a linear scale, in margins.
const LARGEST_LINEAR: f64 = 20.0;

/// Experiments that tell what holds back any gain.
const EXPERIMENTS_OF_HURDLE: usize = 40;
/// Experiments whose blocks are averaged, at most.
const EXPERIMENTS_OF_MEAN: usize = 100;

/// Power of a design by simulation. `threads` share the work and change no answer.
#[derive(Clone, Debug)]
pub struct Power {
    design: Design,
    spreads: Spreads,
    seed: u64,
    threads: usize,
}

impl Power {
    /// `None` where nothing can be simulated: without an objective, with fewer than two blocks, or without a known spread.
    pub fn new(design: &Design, spreads: &Spreads, threads: usize) -> Option<Self> {
        let is_known = spreads.len() == design.scenarios.len()
            && spreads.iter().all(|own| own.len() == design.metrics.len())
            && spreads.iter().flatten().all(|spread| spread.is_finite() && *spread >= 0.0);
        if !is_known || design.max_blocks < 2 || design.check().is_err() {
            return None;
        }
        // The seed follows from the design, so that the same file always prints the same text.
        let digest = assay_protocol::Digest::of_json(design).ok()?;
        let seed = digest.as_str().bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        Some(Self { design: design.clone(), spreads: spreads.clone(), seed, threads })
    }

    #[cfg(test)]
    fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The smallest gain that is called Win, if each objective gains as many of its margins and guardrails stay as they are.
    pub fn gain(&self) -> Smallest {
        let simulation = self.simulation(&self.design);
        let rule = &simulation.first_objective().clone();
        let grid = Grid::of(rule, rule.at_least, LARGEST_GAIN);
        let truth = |step: usize| Truth::Gain { margins: rule.scale.margin(grid.effect(step)) / rule.effect_margin() };
        let wins = |experiment: usize, step: usize| simulation.verdict(experiment, truth(step)) == Some(Verdict::Win);
        match smallest(&simulation, grid.steps, wins) {
            Some(step) => Smallest::From(grid.effect(step)),
            None => Smallest::Nothing { held_back_by: hurdle(&simulation, truth(grid.steps)) },
        }
    }

    /// The smallest loss of the first objective that is called Reject.
    pub fn loss(&self) -> Smallest {
        let simulation = self.simulation(&self.design);
        let rule = &simulation.first_objective().clone();
        let grid = Grid::of(rule, None, LARGEST_LOSS);
        // A rate that falls to half is a loss of 50 %; the margin is a loss of what would be a gain of the margin.
        let effect = |step: usize| match (step, rule.scale) {
            (0, _) => rule.effect_margin(),
            (_, Scale::Log) => -(-grid.effect(step)).ln_1p(),
            (_, Scale::Linear) => grid.effect(step),
        };
        let rejects = |experiment: usize, step: usize| {
            simulation.verdict(experiment, Truth::Loss { effect: effect(step) }) == Some(Verdict::Reject)
        };
        match smallest(&simulation, grid.steps, rejects) {
            Some(step) => Smallest::From(grid.effect(step)),
            None => Smallest::Nothing { held_back_by: None },
        }
    }

    /// How many blocks would decide, at these spreads and by these rules.
    pub fn needed(&self) -> Needed {
        Needed { neutral: self.blocks_for_neutral(), win: self.blocks_for_win(), reject: self.blocks_for_reject() }
    }

    pub fn blocks_for_neutral(&self) -> Option<usize> {
        self.blocks(self.design.families().overall.n_min, Truth::Same, Verdict::Neutral)
    }

    pub fn blocks_for_win(&self) -> Option<usize> {
        self.blocks(self.design.families().overall.n_min, Truth::Gain { margins: 1.0 }, Verdict::Win)
    }

    pub fn blocks_for_reject(&self) -> Option<usize> {
        let rule = self.design.metrics.iter().find(|rule| rule.purpose == Purpose::Objective)?;
        let truth = Truth::Loss { effect: rule.effect_margin() };
        self.blocks(self.design.families().overall.n_min_harm(), truth, Verdict::Reject)
    }

    fn blocks(&self, fewest: usize, truth: Truth, wanted: Verdict) -> Option<usize> {
        first_blocks(fewest.max(2), MOST_BLOCKS, |blocks| {
            let simulation = self.simulation(&self.design.repeated(blocks));
            simulation.is_likely(|experiment| simulation.verdict(experiment, truth) == Some(wanted))
        })
    }

    /// Mean number of blocks in which a config with this true effect runs until it is decided, with or without `futility: Stop`.
    pub fn blocks_used(&self, truth: Truth, futility: bool) -> f64 {
        let looks = self.design.looks.clone().map(|looks| LookPlan { futility, ..looks });
        let simulation = self.simulation(&Design { looks, ..self.design.clone() });
        let experiments = simulation.most_experiments().min(EXPERIMENTS_OF_MEAN);
        let used = simulation.map(0..experiments, |experiment| simulation.stopped_at(experiment, truth));
        used.iter().map(|&blocks| blocks as f64).sum::<f64>() / used.len() as f64
    }

    fn simulation(&self, design: &Design) -> Simulation {
        Simulation::new(design, &self.spreads, self.seed, self.threads)
    }
}

/// Effects that are looked at: what is declared, and above it whole steps.
struct Grid {
    declared: f64,
    /// Whole steps below the first effect above what is declared.
    below: f64,
    step: f64,
    /// Number of the last effect.
    steps: usize,
}

impl Grid {
    fn of(rule: &MetricRule, at_least: Option<f64>, largest: f64) -> Self {
        let declared = at_least.map_or(rule.margin, |least| least.max(rule.margin));
        let (step, largest) = match rule.scale {
            Scale::Log => (STEP, largest),
            Scale::Linear => (LINEAR_STEP * rule.margin, LARGEST_LINEAR * rule.margin),
        };
        // A margin that is a whole step is not the next one too, whatever its last digit.
        let below = (declared / step + 1e-6).floor();
        Self { declared, below, step, steps: (largest / step - below).max(0.0) as usize }
    }

    fn effect(&self, step: usize) -> f64 {
        if step == 0 { self.declared } else { (self.below + step as f64) * self.step }
    }
}

/// The guardrail that most often stands in the way of a Win.
fn hurdle(simulation: &Simulation, truth: Truth) -> Option<String> {
    let found = simulation.map(0..EXPERIMENTS_OF_HURDLE, |experiment| simulation.reason(experiment, truth));
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for reason in found {
        let metric = match reason {
            Some(Reason::GuardrailUnresolved(metrics)) => metrics.into_iter().next(),
            _ => None,
        };
        *counts.entry(metric).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).and_then(|(metric, _)| metric)
}
