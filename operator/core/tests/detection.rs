//! Whether sweeps suspect as rarely and as soon as docs/statistics.md promises: a small part of what `examples/simulate_nights.rs`
//! measures, with the same seeds each time.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the program shows more than is asserted here")]
mod confirmations;
#[allow(dead_code, reason = "the program shows more than is asserted here")]
mod nights;

use confirmations::{ALPHA, Confirmed, SESSIONS, confirmed};
use nights::{ALARM, CHANGES, Rule, SERIES, WORLDS, World, YEAR, delay, false_alarms};

/// Simulated years of a series: a right detector suspects about 24 changes in them, and never 60.
const YEARS: u64 = 60;

fn a_year(world: World, rule: Rule) -> f64 {
    let alarms: usize = (0..YEARS).map(|seed| false_alarms(world, rule, seed)).sum();
    SERIES as f64 * alarms as f64 / YEARS as f64
}

/// The promise is the number of nights of all series over the evidence that is asked for: 50 a year.
#[test]
fn false_suspicions_are_as_rare_as_promised() {
    let promised = (SERIES * YEAR) as f64 / ALARM;
    assert!((promised - 50.0).abs() < 1e-9);
    for world in WORLDS[..7].iter().step_by(2) {
        let seen = a_year(*world, Rule::Evidence(ALARM));
        assert!((1.0..promised).contains(&seen), "{}: {seen} a year", world.name);
    }
    // Without the evidence, and where nights are not independent, it would not hold: hence the cap on confirmations.
    assert!(a_year(WORLDS[0], Rule::Evidence(ALARM / 30.0)) > promised);
    assert!(a_year(WORLDS[8], Rule::Evidence(ALARM)) > promised);
    // What people do.
    assert!(a_year(WORLDS[0], Rule::Threshold(3.0)) > 6.0 * promised);
}

#[test]
fn changes_are_suspected_within_days() {
    let median = |world: World, change: usize| {
        let mut delays: Vec<usize> =
            (0..60).map(|seed| delay(world, Rule::Evidence(ALARM), CHANGES[change], seed).unwrap_or(999)).collect();
        delays.sort_unstable();
        (delays[30], delays[54])
    };
    let bounds = [(12, 22), (4, 6), (3, 4), (13, 17)];
    for (change, (half, most)) in bounds.into_iter().enumerate() {
        let seen = median(WORLDS[0], change);
        assert!(seen.0 <= half && seen.1 <= most && seen.0 >= 2, "{:?}: {seen:?}", CHANGES[change]);
    }
    // Outliers and missing nights cost a night or two.
    assert!(median(WORLDS[4], 1).0 <= 5 && median(WORLDS[5], 1).1 <= 9);
}

/// A confirmation errs as rarely as promised as long as visits differ by less than a sixth of the margin, and finds a change of the margin.
#[test]
fn confirmations_are_as_sure_as_promised() {
    const MANY: u64 = 600;
    let share = |session: (f64, Option<usize>), loss: f64| {
        let found = (0..MANY).filter(|seed| confirmed(session, loss, *seed).is_confirmed()).count();
        found as f64 / MANY as f64
    };
    for session in [SESSIONS[0], SESSIONS[2], SESSIONS[4]] {
        let seen = share(session, 0.0);
        assert!(seen <= ALPHA, "{session:?}: {seen}");
        let seen = share(session, 3.0);
        assert!(seen >= 0.85, "{session:?}: {seen}");
    }
    // Beyond that it would not hold.
    assert!(share((2.0, None), 0.0) > ALPHA);
}

/// What a confirmed change is said to be surely worse by is so, although only what seemed large enough was confirmed.
#[test]
fn losses_are_as_large_as_is_said() {
    let wrong = |loss: f64| {
        let all = (0..600).map(|seed| confirmed(SESSIONS[1], loss, seed)).filter(Confirmed::is_confirmed);
        let bounds: Vec<f64> = all.filter_map(|own| own.bound).collect();
        assert!(bounds.len() >= 40, "{loss}: {}", bounds.len());
        bounds.iter().filter(|bound| **bound > loss).count() as f64 / bounds.len() as f64
    };
    for loss in [1.0, 1.5, 3.0] {
        let seen = wrong(loss);
        assert!(seen <= 0.05, "{loss}: {seen}");
    }
}
