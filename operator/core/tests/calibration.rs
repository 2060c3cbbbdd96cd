//! Whether verdicts err as rarely as they promise, on experiments whose truth is known: a small part of what `examples/calibrate.rs`
//! measures with a thousand experiments a row, with the same seeds each time. A right judge meets the bounds in 99.9 % of such choices.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "the program prints more of a row than is asserted here")]
mod simulated;

use assay_core::stats::ALPHA;
use simulated::rows::{self, Bound, Row, Share, curves};

/// The chance of a right judge to miss a bound.
const CHANCE: f64 = 1e-3;

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

/// The largest number of hits that `trials` experiments may show at such a rate.
fn allowed(trials: usize, rate: f64) -> usize {
    (0..trials).find(|&hits| 1.0 - at_most(hits, trials, rate) < CHANCE).unwrap()
}

/// The fewest hits that `trials` experiments must show if the true rate is at least `rate`.
fn required(trials: usize, rate: f64) -> usize {
    (0..trials).rfind(|&hits| hits == 0 || at_most(hits - 1, trials, rate) < CHANCE).unwrap_or(0)
}

fn row(name: &str) -> Row {
    rows::all().into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

fn answers(row: &Row, count: usize) -> Vec<Share> {
    let seen = row.setting.run(0..count, 1, |ended| row.questions.iter().map(|q| (q.read)(ended)).collect::<Vec<_>>());
    (0..row.questions.len())
        .map(|question| seen.iter().map(|all| all[question]).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
        .collect()
}

/// Asserts a question's bound, which may depend on the answer before it.
fn assert_bound(bound: Bound, (hits, tries): Share, before: Option<Share>, what: &str) {
    match bound {
        Bound::None | Bound::Near(..) | Bound::NoMore(_) => {}
        Bound::AtMost(percent) => assert!(hits <= allowed(tries, percent.max(0.01) / 100.0), "{what}"),
        Bound::AtLeast(percent) => assert!(hits >= required(tries, percent / 100.0), "{what}"),
        Bound::Above(points) => {
            let before = before.unwrap();
            let rate = (before.0 as f64 / before.1 as f64 + points / 100.0).clamp(0.001, 0.999);
            let is_met = if points < 0.0 { hits >= required(tries, rate) } else { hits <= allowed(tries, rate) };
            assert!(is_met, "{what}, before {before:?}");
        }
    }
}

/// Runs a row, made smaller, and asserts its bounds.
fn holds(name: &str, count: usize, smaller: impl Fn(&mut Row)) {
    let mut row = row(name);
    smaller(&mut row);
    let answers = answers(&row, count);
    let mut bounds = 0;
    for (number, (question, &(hits, tries))) in row.questions.iter().zip(&answers).enumerate() {
        let what = format!("{name}, {}: {hits} of {tries}", question.what);
        println!("{what}");
        let before = number.checked_sub(1).map(|before| answers[before]);
        assert_bound(question.bound, (hits, tries), before, &what);
        bounds += usize::from(!matches!(question.bound, Bound::None | Bound::Near(..) | Bound::NoMore(_)));
    }
    assert!(bounds > 0, "{name} has no bound");
}

/// Runs some cells of a curve and asserts their bounds, which each of them has.
fn holds_at(name: &str, cells: &[&str], count: usize) {
    let curve = curves::all().into_iter().find(|curve| curve.name == name).unwrap_or_else(|| panic!("no curve {name}"));
    for at in cells {
        let cell = curve.cells.iter().find(|cell| cell.at == *at).unwrap_or_else(|| panic!("{name} has no {at}"));
        let hits = cell.setting.run(0..count, 1, curve.read).into_iter().filter(|hit| *hit).count();
        let what = format!("{name} at {at}: {hits} of {count}");
        println!("{what}");
        assert!(!matches!(cell.bound, Bound::None), "{name} at {at} has no bound");
        assert_bound(cell.bound, (hits, count), None, &what);
    }
}

/// The same experiments, judged by the rules and by two others that they must not be: the limit passes the first and catches both
/// others, so it would catch rules that became one of them.
#[test]
fn equal_configs_win_rarely_and_broken_rules_are_caught() {
    let small = |row: &mut Row| (row.setting.scenarios, row.setting.blocks) = (2, 15);
    holds("null-8", 120, small);
    let mut row = row("null-8");
    small(&mut row);
    let limit = allowed(120, ALPHA);
    for (question, (hits, _)) in row.questions.iter().zip(answers(&row, 120)).skip(3) {
        assert!(hits > limit, "{}: {hits}; the limit of {limit} would not notice it", question.what);
    }
}

#[test]
fn real_effects_are_found() {
    holds("gain-10", 24, |_| ());
    holds("loss-10", 40, |_| ());
    holds("at-least", 80, |_| ());
    holds("margin-up", 80, |_| ());
    holds("margin-down", 80, |_| ());
    holds("price-even-5-1", 60, |_| ());
}

#[test]
fn stalls_failures_and_zeros_do_not_win() {
    holds("stalls-10", 80, |_| ());
    holds("stalls-15-of-three", 30, |_| ());
    holds("mean-20", 80, |_| ());
    holds("fails-2-of-10", 60, |_| ());
    holds("fails-4-of-30", 60, |_| ());
    holds("fails-alike-5-8", 30, |row| row.setting.blocks = 12);
    holds("zeros", 60, |_| ());
}

/// The objective gains a lot, and what must not get worse is worse by just its margin.
#[test]
fn a_guardrail_that_is_harmed_by_its_margin_keeps_a_win_away() {
    holds("guarded", 80, |row| {
        for config in &mut row.setting.configs {
            config.effects = vec![1.0 / 1.05 - 1.0];
        }
        let question = row.questions.iter_mut().find(|question| question.what == "Win").unwrap();
        question.bound = Bound::AtMost(5.0);
    });
}

#[test]
fn no_scenario_pays_for_another() {
    holds("hidden-3-5", 60, |_| ());
    holds("hidden-2-8", 60, |_| ());
}

#[test]
fn what_all_arms_lose_alike_voids_nothing() {
    let few = |row: &mut Row| row.setting.configs.truncate(6);
    holds("drift-12", 40, few);
    holds("disturbed-20-12", 40, few);
    holds("disturbed-sticky-12", 40, few);
    holds("own-loss-12-1", 40, |_| ());
    holds("own-loss-30-1", 40, |_| ());
}

#[test]
fn shared_machines_have_verdicts() {
    holds("shared-busy", 30, |row| row.setting.blocks = 12);
    holds("shared-thrifty", 30, |row| row.setting.scenarios = 1);
    holds("shared-spared", 30, |row| row.setting.scenarios = 1);
}

/// Numbers of blocks at which a look that could prove no harm once ended the trials of what does harm.
#[test]
fn more_blocks_do_not_hide_harm() {
    holds_at("harm-50-2", &["16", "20"], 20);
    holds_at("harm-10-1", &["15", "16", "20"], 100);
    holds_at("harm-10-17", &["14", "15"], 30);
    holds_at("equal-reject-3", &["8", "16"], 150);
    holds_at("equal-likely-harm-3", &["8", "16"], 150);
}

#[test]
fn what_is_equal_hides_neither_scenarios_nor_stalls() {
    holds_at("uneven-5-5", &["4 % 12", "4 % 30"], 150);
    holds_at("uneven-4-4-8", &["8 % 30"], 150);
    holds("equal-stalls-10-30-never", 150, |_| ());
    holds("equal-price-1-20", 150, |_| ());
    holds("generator", 40, |row| row.setting.blocks = 20);
}

#[test]
fn lost_and_disturbed_attempts_are_counted() {
    holds("evicted-35", 40, |_| ());
    holds("evicted-50", 40, |_| ());
    holds("evicted-alike-10", 40, |_| ());
    holds("good-and-disturbed-5-20-slow", 60, |_| ());
    holds("io-bound", 60, |_| ());
    holds("quantile-stalls-15", 60, |_| ());
}

#[test]
fn what_a_config_does_to_itself_voids_nothing() {
    holds("waits-100", 12, |row| row.setting.blocks = 12);
    holds("baseline-waits-100", 12, |row| row.setting.blocks = 12);
    holds("zero-guardrail", 20, |_| ());
}

#[test]
fn limits_are_those_of_the_binomial_distribution() {
    assert!((at_most(1, 3, 0.5) - 0.5).abs() < 1e-12 && (at_most(3, 3, 0.2) - 1.0).abs() < 1e-12);
    // Of 160 at 5 % 8 are expected, with a standard deviation of 2.8.
    assert!((16..=20).contains(&allowed(160, ALPHA)), "{}", allowed(160, ALPHA));
    assert!((78..=87).contains(&required(120, 0.80)), "{}", required(120, 0.80));
}
