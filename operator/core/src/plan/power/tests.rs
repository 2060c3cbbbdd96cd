use super::*;
use crate::gates::testing::{experiment, rule, scenario};
use crate::stats::Direction;
use crate::verdict::StopOn;

fn design(blocks: usize) -> Design {
    let mut experiment = experiment();
    experiment.repetitions = blocks as u32;
    experiment.design()
}

fn guarded(blocks: usize) -> Design {
    let mut design = design(blocks);
    design.metrics.push(rule("drained_throughput", Direction::Higher, Purpose::Guardrail));
    design
}

fn power(design: &Design, noise: f64) -> Power {
    Power::new(design, &spreads(design, &vec![noise; design.scenarios.len()]), 1).unwrap()
}

#[test]
fn single_runs_scatter_as_one_beside_the_mean_of_some() {
    let mut design = guarded(8);
    design.m0 = 4;
    // 1 + 1/4
    assert_eq!(spreads(&design, &[0.1]), [vec![0.1 * 1.25_f64.sqrt(); 2]]);
}

#[test]
fn nothing_is_promised_within_the_margin() {
    let quiet = power(&design(20), 0.001);
    assert_eq!((quiet.gain(), quiet.loss()), (Smallest::From(0.05), Smallest::From(0.05)));
    // A Win that is to show 8 % can't be promised for less.
    let mut sized = design(20);
    sized.metrics[0].at_least = Some(0.08);
    assert_eq!(power(&sized, 0.001).gain(), Smallest::From(0.085));
    assert_eq!(power(&sized, 0.001).blocks_for_win(), None);
}

#[test]
fn effects_are_whole_steps_above_what_is_declared() {
    let rule = |scale, margin| MetricRule { margin, scale, ..rule("x", Direction::Lower, Purpose::Objective) };
    let effects = |rule: &MetricRule, largest| {
        let grid = Grid::of(rule, None, largest);
        (0..=grid.steps).map(|step| (grid.effect(step) * 1e6).round() / 1e6).collect::<Vec<_>>()
    };
    assert_eq!(effects(&rule(Scale::Log, 0.05), 0.065), [0.05, 0.055, 0.06, 0.065]);
    assert_eq!(effects(&rule(Scale::Log, 0.052), 0.065), [0.052, 0.055, 0.06, 0.065]);
    assert_eq!(effects(&rule(Scale::Linear, 2.0), 0.0)[..3], [2.0, 2.2, 2.4]);
    // A margin above all that is looked for is all that is looked at.
    assert_eq!(effects(&rule(Scale::Log, 0.9), LARGEST_LOSS), [0.9]);
}

#[test]
fn noise_costs_effects_and_blocks() {
    let (quiet, loud) = (power(&design(8), 0.02), power(&design(8), 0.06));
    assert!(quiet.loss().found() < loud.loss().found(), "{:?} {:?}", quiet.loss(), loud.loss());
    assert!(loud.loss().found().is_some_and(|loss| loss < 0.2));
    assert!(power(&design(8), 0.005).blocks_for_win() < power(&design(8), 0.03).blocks_for_win());
}

/// Metrics on a linear scale, and those of which less is better, are simulated in their own units.
#[test]
fn scales_and_directions_find_alike() {
    let mut lower = design(10);
    lower.metrics[0].direction = Direction::Lower;
    assert_eq!(power(&lower, 0.03).loss(), power(&design(10), 0.03).loss());
    for direction in [Direction::Lower, Direction::Higher] {
        let mut linear = design(10);
        linear.metrics[0] = MetricRule { scale: Scale::Linear, direction, margin: 2.0, ..linear.metrics[0].clone() };
        assert_eq!(
            (power(&linear, 0.1).gain(), power(&linear, 0.1).loss()),
            (Smallest::From(2.0), Smallest::From(2.0))
        );
    }
}

#[test]
fn a_guardrail_holds_a_gain_back_but_no_loss() {
    let loud = power(&guarded(8), 0.06);
    assert_eq!(loud.gain(), Smallest::Nothing { held_back_by: Some("drained_throughput".into()) });
    assert!(loud.loss().found().is_some_and(|loss| loss < 0.2), "{:?}", loud.loss());
    // Three claims of harm: 3 / 2^5 is more than 5 %, though five blocks can prove a gain.
    let five = power(&guarded(5), 0.001);
    assert_eq!((five.gain(), five.loss()), (Smallest::From(0.05), Smallest::Nothing { held_back_by: None }));
}

#[test]
fn one_block_or_an_unknown_noise_tells_nothing() {
    assert!(Power::new(&design(1), &vec![vec![0.05]], 1).is_none());
    for unknown in [vec![], vec![vec![]], vec![vec![f64::NAN]], vec![vec![f64::INFINITY]], vec![vec![-0.1]]] {
        assert!(Power::new(&design(8), &unknown, 1).is_none(), "{unknown:?}");
    }
    assert!(Power::new(&design(2), &vec![vec![0.05]], 1).is_some());
}

#[test]
fn threads_change_nothing_and_another_seed_little() {
    let own = power(&design(8), 0.04);
    let threads = Power { threads: 3, ..own.clone() };
    assert_eq!(own.loss(), threads.loss());
    let losses: Vec<f64> = [1, 2].iter().filter_map(|&seed| own.clone().seeded(seed).loss().found()).collect();
    assert!(losses.len() == 2 && (losses[0] - losses[1]).abs() < 2.5 * STEP, "{losses:?}");
    let own = power(&design(8), 0.02);
    let blocks: Vec<usize> = [1, 2].iter().filter_map(|&seed| own.clone().seeded(seed).blocks_for_reject()).collect();
    assert!(blocks.len() == 2 && blocks[0].abs_diff(blocks[1]) <= 1, "{blocks:?}");
}

/// The advised number of blocks is enough for looks, though the design itself is too short for any.
#[test]
fn what_is_advised_is_enough_once_it_is_planned() {
    let short = power(&design(8), 0.037);
    let advised = short.blocks_for_win().unwrap();
    let planned = short.design.repeated(advised);
    assert!(short.design.looks.is_none() && planned.looks.is_some(), "{advised}");
    let gain = Power { design: planned, ..short }.gain().found();
    assert!(gain.is_some_and(|gain| gain < 0.05 + 1.5 * STEP), "{gain:?}");
    // A long design without looks has declined them.
    assert!(design(30).repeated(60).looks.is_none());
}

#[test]
fn no_scenario_pays_for_another() {
    let mut experiment = experiment();
    experiment.scenarios.push(scenario("b"));
    let design = experiment.design();
    let of = |noises: &[f64]| Power::new(&design, &spreads(&design, noises), 1).unwrap().gain();
    assert_eq!(of(&[0.005, 0.005]), Smallest::From(0.05));
    assert!(of(&[0.005, 0.1]).found().is_none_or(|gain| gain > 0.06), "{:?}", of(&[0.005, 0.1]));
}

#[test]
fn looks_stop_sooner_for_futility() {
    let mut design = design(20);
    design.looks = Some(LookPlan { blocks: vec![10, 20], stop_on: StopOn::Overall, futility: false });
    let power = power(&design, 0.05);
    let [goes_on, stops] = [false, true].map(|futility| power.blocks_used(Truth::Loss { effect: 0.05 }, futility));
    assert!((10.0..=20.0).contains(&stops) && stops < goes_on && goes_on <= 20.0, "{goes_on} {stops}");
}

/// Only the first config has runs. Runs of others could only make claims cheaper.
#[test]
fn one_config_alone_is_called_as_often_as_among_others() {
    let mut design = guarded(10);
    design.configs = ["a", "b", "c"].map(Into::into).into();
    design.m0 = 2;
    let truth = Truth::Loss { effect: 0.07 };
    let power = power(&design, 0.03);
    let simulation = power.simulation(&design);
    let rejected = |all: bool| {
        (0..60).filter(|&experiment| simulation.judged_among(experiment, truth, all) == Some(Verdict::Reject)).count()
    };
    let (alone, among) = (rejected(false), rejected(true));
    assert!((10..60).contains(&alone) && (alone..=alone + 12).contains(&among), "{alone} {among}");
}
