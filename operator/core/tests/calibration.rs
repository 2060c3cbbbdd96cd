//! Whether verdicts err as rarely as they promise, on experiments whose truth is known. `examples/calibrate.rs` does the same
//! with thousands of larger ones.

#![allow(clippy::unwrap_used, clippy::panic)]

mod simulated;

use assay_core::{stats::ALPHA, verdict::Verdict};
use simulated::{
    Setting,
    naive::{means_win, uncorrected_win},
    rates::wilson,
};

/// P(at most `hits` of `trials`) where each hits with probability `p`.
fn at_most(hits: usize, trials: usize, p: f64) -> f64 {
    let mut term = (1.0 - p).powf(trials as f64);
    let mut sum = term;
    for i in 0..hits.min(trials) {
        term *= (trials - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
        sum += term;
    }
    sum.min(1.0)
}

/// The largest number of errors that `trials` experiments may show at a rate of `ALPHA`: more would be a coincidence of 1 in 10,000.
fn allowed(trials: usize) -> usize {
    (0..trials).find(|&hits| 1.0 - at_most(hits, trials, ALPHA) < 1e-4).unwrap()
}

/// The fewest successes that `trials` experiments must show if the true rate is at least `rate`.
fn required(trials: usize, rate: f64) -> usize {
    (0..trials).rfind(|&hits| hits == 0 || at_most(hits - 1, trials, rate) < 1e-4).unwrap_or(0)
}

const EXPERIMENTS: usize = 160;

fn small(effects: &[f64]) -> Setting {
    Setting { scenarios: 2, blocks: 15, cv: 0.08, effects: effects.to_vec() }
}

/// The same experiments, judged by the rules and by two others that they must not be: the limit passes the first and catches both
/// others, so it would catch rules that became one of them.
#[test]
fn equal_configs_win_rarely_and_broken_rules_are_caught() {
    let seen = small(&[0.0; 8]).run(EXPERIMENTS, 1, |ended| {
        let errors = [ended.any(Verdict::Win), ended.any(Verdict::Reject), uncorrected_win(ended), means_win(ended)];
        (errors, ended.used)
    });
    let count = |rule: usize| seen.iter().filter(|(errors, _)| errors[rule]).count();
    let (wins, rejects, uncorrected, means) = (count(0), count(1), count(2), count(3));
    println!("of {EXPERIMENTS}: wins {wins}, rejects {rejects}, uncorrected {uncorrected}, means {means}");
    let limit = allowed(EXPERIMENTS);
    assert!(wins <= limit, "{wins} of {EXPERIMENTS} experiments with equal configs have a Win, {limit} are allowed");
    assert!(rejects <= limit, "{rejects} of {EXPERIMENTS} experiments with equal configs have a Reject");
    assert!(uncorrected > limit, "{uncorrected}: the limit of {limit} would not notice that corrections are missing");
    assert!(means > limit, "{means}: the limit of {limit} would not notice a judgement by means");
    let used = seen.iter().map(|(_, used)| used).sum::<f64>() / EXPERIMENTS as f64;
    assert!(used < 0.9, "{used}: nothing stopped early");
}

#[test]
fn real_effects_are_found_with_the_right_sign() {
    let effects = [0.10, 0.10, -0.10, -0.10, 0.0, 0.0];
    let trials = 60;
    let seen = small(&effects)
        .run(trials, 5000, |ended| (0..effects.len()).map(|config| ended.verdict(config)).collect::<Vec<_>>());
    let count = |configs: [usize; 2], verdict: Verdict| {
        seen.iter().flat_map(|verdicts| configs.map(|config| verdicts[config])).filter(|&v| v == verdict).count()
    };
    let (wins, rejects) = (count([0, 1], Verdict::Win), count([2, 3], Verdict::Reject));
    println!("of {}: {wins} wins at +10 %, {rejects} rejects at -10 %", 2 * trials);
    assert!(wins >= required(2 * trials, 0.80), "{wins} of {} gains of 10 % are found", 2 * trials);
    assert!(rejects >= required(2 * trials, 0.50), "{rejects} of {} losses of 10 % are found", 2 * trials);
    assert_eq!((count([0, 1], Verdict::Reject), count([2, 3], Verdict::Win)), (0, 0));
}

#[test]
fn limits_are_those_of_the_binomial_distribution() {
    assert!((at_most(1, 3, 0.5) - 0.5).abs() < 1e-12 && (at_most(3, 3, 0.2) - 1.0).abs() < 1e-12);
    // Of 160 at 5 % 8 are expected, with a standard deviation of 2.8.
    assert!((17..=21).contains(&allowed(160)), "{}", allowed(160));
    assert!((75..=85).contains(&required(120, 0.80)), "{}", required(120, 0.80));
    let (low, high) = wilson(5, 100);
    assert!((low - 0.021_54).abs() < 1e-4 && (high - 0.111_75).abs() < 1e-4, "{low} {high}");
}
