//! Which effects a design finds, and how many blocks a question needs, before anything runs ("Precision").

use crate::experiment::Experiment;
use crate::stats::{ALPHA, POWER, Shares, chance, detectable as detectable_with, n_min, plan_looks};
use crate::verdict::{Design, MetricRule, Purpose};

/// Effects on the first objective that are found with 80 % probability, as fractions.
#[derive(Clone, Debug, PartialEq)]
pub struct Detectable {
    /// Over all scenarios, as a Win.
    pub gain: Gain,
    /// Over all scenarios, as a Reject. `None` where the blocks are too few to prove any harm.
    pub loss: Option<f64>,
    /// A gain in the noisiest scenario.
    pub cell: f64,
}

/// The smallest gain that is found.
#[derive(Clone, Debug, PartialEq)]
pub enum Gain {
    From(f64),
    /// None is, however large, since it can't be shown that this metric gets no worse than it may.
    HeldBack(String),
}

impl Detectable {
    /// The gain that is found, if any is.
    pub fn gain(&self) -> Option<f64> {
        match self.gain {
            Gain::From(gain) => Some(gain),
            Gain::HeldBack(_) => None,
        }
    }
}

/// Blocks with which an experiment of the same kind decides with 80 % probability. `None`: more than anybody runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// That a config which changes nothing is called Neutral.
    pub neutral: Option<usize>,
    /// That a config which improves the objectives by their margins is called Win.
    pub win: Option<usize>,
    /// That a config which worsens the first objective by its margin is called Reject.
    pub reject: Option<usize>,
}

/// More blocks than this are no plan.
const MOST_BLOCKS: usize = 2000;
/// Effects up to here are looked for, in logarithms.
const LARGEST_EFFECT: f64 = 4.0;

/// Standard deviation, over blocks, of a config's run minus the mean of the baseline's: by scenario and metric, as the design has them.
pub type Spreads = Vec<Vec<f64>>;

/// The spreads that follow if single runs scatter by `noises`, one for each scenario: standard deviations over means.
pub fn spreads(design: &Design, noises: &[f64]) -> Spreads {
    let difference = (1.0 + 1.0 / design.m0 as f64).sqrt();
    noises.iter().map(|noise| vec![noise * difference; design.metrics.len()]).collect()
}

/// What all blocks of an experiment find. `None` where there are too few blocks to tell, or no objective.
pub fn detectable(experiment: &Experiment, spreads: &Spreads) -> Option<Detectable> {
    let design = experiment.design();
    let families = design.families();
    let blocks = design.max_blocks;
    if blocks < 2 {
        return None;
    }
    let objective = design.metrics.iter().position(|rule| rule.purpose == Purpose::Objective)?;
    let worst = spreads.iter().map(|spreads| spreads[objective]).fold(0.0, f64::max);
    let cell = detectable_with(worst, blocks, families.cells.better as f64 / design.last_look().cells.better)?;
    let gain = match smallest(|effect| win(&design, spreads, blocks, |_| effect)) {
        Some(gain) => Gain::From(gain.exp_m1()),
        None => Gain::HeldBack(hurdle(&design, spreads, blocks)),
    };
    // A rate that falls to half is a loss of 50 %.
    let loss = smallest(|effect| harm(&design, spreads, blocks, objective, effect)).map(|loss| -(-loss).exp_m1());
    Some(Detectable { gain, loss, cell: cell.exp_m1() })
}

/// The smallest effect that is found, by the chance with which each is.
fn smallest(chance: impl Fn(f64) -> f64) -> Option<f64> {
    let (mut low, mut high) = (0.0, LARGEST_EFFECT);
    if chance(high) < POWER {
        return None;
    }
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if chance(middle) >= POWER { high = middle } else { low = middle }
    }
    Some(high)
}

/// How many blocks would decide, at these spreads and by these rules.
pub fn needed(design: &Design, spreads: &Spreads) -> Needed {
    let fewest = design.families().overall.n_min.max(2);
    let objective = design.metrics.iter().enumerate().find(|(_, rule)| rule.purpose == Purpose::Objective);
    let first = |decides: &dyn Fn(usize) -> bool| {
        let blocks: Vec<usize> = (fewest..=MOST_BLOCKS).collect();
        blocks.get(blocks.partition_point(|&blocks| !decides(blocks))).copied()
    };
    Needed {
        neutral: first(&|blocks| neutral(design, spreads, blocks) >= POWER),
        win: first(&|blocks| win(design, spreads, blocks, MetricRule::effect_margin) >= POWER),
        reject: objective.and_then(|(metric, rule)| {
            first(&|blocks| harm(design, spreads, blocks, metric, rule.effect_margin()) >= POWER)
        }),
    }
}

/// The spread over all scenarios: of their weighted mean.
fn composite(design: &Design, spreads: &Spreads, metric: usize) -> f64 {
    let total: f64 = design.scenarios.iter().map(|scenario| scenario.weight).sum();
    let parts = design.scenarios.iter().zip(spreads).map(|(s, spreads)| (s.weight / total * spreads[metric]).powi(2));
    parts.sum::<f64>().sqrt()
}

/// Shares of the error that the last look of so many blocks has.
fn last_look(design: &Design, blocks: usize) -> Shares {
    let whole = Shares::WHOLE;
    if !design.has_looks_when_long() {
        return whole;
    }
    let family = design.families().overall;
    Shares::schedule(&plan_looks(blocks, family.better), family.better, family.worse).last().copied().unwrap_or(whole)
}

/// The chance of a Win of a config that improves each objective by such an effect and leaves the guardrails alone.
fn win(design: &Design, spreads: &Spreads, blocks: usize, effect: impl Fn(&MetricRule) -> f64) -> f64 {
    required(design).map(|metric| holds(design, spreads, blocks, metric, effect(&design.metrics[metric]))).product()
}

/// Positions of the metrics that a Win asks something of.
fn required(design: &Design) -> impl Iterator<Item = usize> {
    design.metrics.iter().enumerate().filter(|(_, rule)| rule.purpose.is_required()).map(|(metric, _)| metric)
}

/// The metric that most stands in the way of a Win: its own chance is smallest, however large the gain.
fn hurdle(design: &Design, spreads: &Spreads, blocks: usize) -> String {
    let chance = |metric: usize| holds(design, spreads, blocks, metric, LARGEST_EFFECT);
    let least = required(design).min_by(|&a, &b| chance(a).total_cmp(&chance(b)));
    least.map_or_else(String::new, |metric| design.metrics[metric].name.clone())
}

/// The chance that a metric does what a Win asks of it: an objective that gains so much, or a guardrail that stays as it is.
fn holds(design: &Design, spreads: &Spreads, blocks: usize, metric: usize, effect: f64) -> f64 {
    let look = last_look(design, blocks);
    let claims = design.families().overall.better as f64;
    let rule = &design.metrics[metric];
    let spread = composite(design, spreads, metric);
    let (gain, power) = if rule.purpose == Purpose::Objective {
        (effect, chance(effect - rule.least_effect(), spread, blocks, ALPHA * look.better / claims))
    } else {
        (0.0, chance(rule.effect_margin(), spread, blocks, ALPHA * look.equivalent))
    };
    if !design.asks_scenarios(rule) {
        return power;
    }
    let held = |own: &Vec<f64>| {
        let room = gain + rule.effect_margin_per_scenario();
        let share = look.scenario;
        let centre = chance(room, own[metric], blocks, ALPHA * share);
        let mean =
            if rule.purpose.is_required() { chance(room, own[metric], blocks, ALPHA * look.equivalent) } else { 1.0 };
        centre.min(mean)
    };
    match &spreads[..] {
        // What is shown by the same runs is not shown by chance twice.
        [only] => power.min(held(only)),
        several => several.iter().map(held).fold(power, |power, held| power * held),
    }
}

/// The chance of a Reject of a config that worsens one metric by such an effect.
fn harm(design: &Design, spreads: &Spreads, blocks: usize, metric: usize, effect: f64) -> f64 {
    let alpha = ALPHA * last_look(design, blocks).worse;
    let claims = design.families().overall.worse;
    // Even if all blocks agree, so few prove nothing ("Fewest blocks").
    if blocks < n_min(claims, alpha) {
        return 0.0;
    }
    chance(effect, composite(design, spreads, metric), blocks, alpha / claims as f64)
}

/// The chance of a Neutral of a config that changes nothing.
fn neutral(design: &Design, spreads: &Spreads, blocks: usize) -> f64 {
    let look = last_look(design, blocks);
    let mut power = 1.0;
    for (metric, rule) in design.metrics.iter().enumerate().filter(|(_, rule)| rule.purpose.is_required()) {
        let side = chance(rule.effect_margin(), composite(design, spreads, metric), blocks, ALPHA * look.equivalent);
        power *= if rule.purpose == Purpose::Objective { (2.0 * side - 1.0).max(0.0) } else { side };
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::{experiment, rule, scenario};
    use crate::stats::Direction;

    fn gain(found: &Detectable) -> f64 {
        found.gain().unwrap_or(f64::NAN)
    }

    #[test]
    fn the_smallest_effect_is_found_as_often_as_asked_and_no_more_often() {
        let ramp = |effect: f64| POWER * effect / LARGEST_EFFECT;
        assert!((smallest(ramp).unwrap() - LARGEST_EFFECT).abs() < 1e-9);
        assert!((smallest(|effect| 2.0 * ramp(effect)).unwrap() - LARGEST_EFFECT / 2.0).abs() < 1e-9);
        assert_eq!(smallest(|effect| 0.99 * ramp(effect)), None);
    }

    #[test]
    fn scenarios_help_the_overall_verdict_and_claims_cost() {
        let one = experiment();
        let of = |experiment: &Experiment, noises: &[f64]| {
            detectable(experiment, &spreads(&experiment.design(), noises)).unwrap_or_else(|| unreachable!())
        };
        let alone = of(&one, &[0.05]);
        assert!((gain(&alone) - alone.cell).abs() < 1e-4, "{alone:?}");
        let mut four = one.clone();
        four.scenarios.extend(["b", "c", "d"].map(scenario));
        let four = of(&four, &[0.05; 4]);
        assert!(gain(&four) < 0.8 * gain(&alone) && four.cell > alone.cell, "{four:?} {alone:?}");
        // 8 blocks, one claim: (t(0.95, 7) + t(0.8, 7)) s / sqrt(0.955 * 8), s = 0.05 sqrt 2
        let expected = ((1.894_58 + 0.896_03) * 0.05 * 2.0_f64.sqrt() / (0.955_f64 * 8.0).sqrt()).exp_m1();
        assert!((gain(&alone) - expected).abs() < 1e-4, "{alone:?} {expected}");
        // Harm is asked of the objective and of failures: two claims.
        let expected = -(-(2.364_62 + 0.896_03) * 0.05 * 2.0_f64.sqrt() / (0.955_f64 * 8.0).sqrt()).exp_m1();
        assert!((alone.loss.unwrap_or(f64::NAN) - expected).abs() < 1e-4, "{alone:?} {expected}");
    }

    /// A run that proved a loss of 20 % was told before that it would detect nothing.
    #[test]
    fn a_guardrail_holds_a_gain_back_but_no_loss() {
        let mut experiment = experiment();
        experiment.metrics.push(rule("drained_throughput", Direction::Higher, Purpose::Guardrail));
        let of = |experiment: &Experiment, noise: f64| {
            detectable(experiment, &spreads(&experiment.design(), &[noise])).unwrap_or_else(|| unreachable!())
        };
        let loud = of(&experiment, 0.06);
        assert_eq!(loud.gain, Gain::HeldBack("drained_throughput".into()), "{loud:?}");
        assert!(loud.loss.is_some_and(|loss| loss < 0.15), "{loud:?}");
        assert!(of(&experiment, 0.02).gain().is_some());
        // Three claims of harm: 3 / 2^5 is more than 5 %, though five blocks can prove a gain.
        experiment.repetitions = 5;
        let five = of(&experiment, 0.001);
        assert!(five.gain().is_some() && five.loss.is_none(), "{five:?}");
    }

    #[test]
    fn one_block_tells_nothing() {
        let mut experiment = experiment();
        experiment.repetitions = 1;
        assert_eq!(detectable(&experiment, &spreads(&experiment.design(), &[0.05])), None);
        experiment.repetitions = 2;
        assert!(detectable(&experiment, &spreads(&experiment.design(), &[0.05])).is_some());
    }

    /// So many blocks are advised to whoever has too few for looks; planned, they have some, and these cost power.
    #[test]
    fn what_is_advised_is_enough_once_it_is_planned() {
        let short = experiment();
        for noise in [0.06, 0.09, 0.14] {
            let spreads = spreads(&short.design(), &[noise]);
            let advised = needed(&short.design(), &spreads).win.unwrap_or_else(|| unreachable!());
            assert!(short.looks.is_none() && advised > 12, "{advised}");
            let planned = short.repeated(advised as u32);
            assert!(planned.looks.is_some());
            assert_eq!(needed(&planned.design(), &spreads).win, Some(advised));
            let gain = detectable(&planned, &spreads).and_then(|found| found.gain());
            assert!(gain.is_some_and(|gain| gain <= planned.metrics[0].margin), "{gain:?}");
        }
        // Whoever declined looks has none, however long it is.
        let declined = Experiment { repetitions: 30, ..short };
        assert!(declined.repeated(60).looks.is_none());
    }

    #[test]
    fn noise_and_questions_cost_blocks() {
        let mut experiment = experiment();
        let of = |experiment: &Experiment, noise: f64| {
            let design = experiment.design();
            needed(&design, &spreads(&design, &vec![noise; design.scenarios.len()]))
        };
        let (quiet, loud) = (of(&experiment, 0.02), of(&experiment, 0.06));
        assert!(quiet.win < loud.win && quiet.neutral < loud.neutral, "{quiet:?} {loud:?}");
        // No scenario pays for another, so each has to be known well enough.
        let alone = of(&experiment, 0.06);
        experiment.scenarios.push(scenario("b"));
        let mut rough = experiment.clone();
        rough.scenarios[1].weight = 1;
        let design = rough.design();
        let uneven = needed(&design, &spreads(&design, &[0.01, 0.20]));
        assert!(uneven.win > alone.win, "{uneven:?} {alone:?}");
        assert_eq!(of(&experiment, 5.0), Needed { neutral: None, win: None, reject: None });
    }

    /// Two candidates, and scenarios of weights 3 and 1 whose spreads are 3/4 x 0.04 and 1/4 x 0.16 of the objective, together 0.05, and
    /// 3/4 x 0.08 and 1/4 x 0.32 of the guardrail, together 0.1.
    fn uneven() -> (Experiment, Spreads) {
        let mut experiment = experiment();
        experiment.scenarios.push(scenario("b"));
        experiment.scenarios[0].weight = 3;
        let mut other = experiment.configs[1].clone();
        other.name = "other".to_owned();
        experiment.configs.push(other);
        experiment.metrics.push(rule("drained_throughput", Direction::Higher, Purpose::Guardrail));
        experiment.metrics[0].at_least = Some(0.01);
        (experiment, vec![vec![0.04, 0.08], vec![0.16, 0.32]])
    }

    #[test]
    fn single_runs_scatter_as_one_beside_the_mean_of_some() {
        let mut experiment = uneven().0;
        experiment.baseline_replicates = 4;
        // 1 + 1/4
        let [a, b] = [0.1, 0.3].map(|noise| vec![noise * 1.25_f64.sqrt(); 2]);
        assert_eq!(spreads(&experiment.design(), &[0.1, 0.3]), [a, b]);
    }

    #[test]
    fn the_harm_that_needs_blocks_is_that_of_the_objective() {
        let (experiment, mut spreads) = uneven();
        let needed = |spreads: &Spreads| needed(&experiment.design(), spreads);
        let found = needed(&spreads);
        for own in &mut spreads {
            own[1] *= 2.0;
        }
        let louder = needed(&spreads);
        assert!(found.reject.is_some() && louder.win > found.win, "{found:?} {louder:?}");
        assert_eq!(louder.reject, found.reject);
    }
}
