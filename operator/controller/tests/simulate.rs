//! Whether the whole operator holds in the worlds of some seeds. `make simulate` looks at more of them, and at one of them more closely.

#![allow(clippy::unwrap_used)]

mod simulated;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use simulated::{Bug, Outcome, scripted, simulate};

/// The first of them by which a change is looked at each time.
const SEEDS: u64 = 50;
/// Later ones that have found something: a deleted Lease whose node was shared, an experiment that went on after it was refused, a pod that
/// ended while its watch was silent, one that was let run while its experiment was suspended, a check that waited for ever for a pod that was
/// gone, a pod on another node than was taken, a node that a finished experiment kept, a pod that it kept, one that was let run beside another
/// one of its experiment, two on one node while there were two leaders, an experiment on a node that it had handed over, a pod that was there
/// when it was refused, what a reconcile began whose experiment was gone, a pod beside one whose creation was not answered, what a long
/// reconcile began after its experiment was suspended, a pod that hid the one that was made in its place, a status without an attempt whose
/// write was not answered, a refusal that was counted twice after that, a law that took a silent watch for one that tells, a watch whose list
/// was never answered, and the watch of a replica that waited to lead.
const FOUND: [u64; 27] = [
    128, 169, 221, 304, 318, 343, 377, 409, 435, 440, 704, 1271, 1778, 2168, 2524, 3143, 3434, 3513, 4549, 6284, 6931,
    8366, 8467, 9286, 9404, 9539, 9727,
];

fn shown(seed: u64, outcome: &Outcome) -> String {
    let wrong = outcome.wrong.as_deref().unwrap_or("nothing");
    format!("seed {seed}: {wrong}; see `make simulate SEED={seed}`")
}

#[test]
fn the_operator_holds_in_every_weather() {
    let seeds: Vec<u64> = (0..SEEDS).chain(FOUND).collect();
    let next = AtomicUsize::new(0);
    let look = || {
        loop {
            let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let outcome = simulate(seed, None, false);
            assert!(outcome.wrong.is_none(), "{}", shown(seed, &outcome));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(look)).collect();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

#[test]
fn a_seed_does_the_same_again() {
    // It has a sweep.
    let [first, second] = [0, 1].map(|_| simulate(3, None, false));
    let differs = first.trace.iter().zip(&second.trace).find(|(a, b)| a != b);
    assert!(differs.is_none() && first.trace.len() == second.trace.len(), "{differs:?}");
    assert!(first.attempts > 0, "nothing happened");
}

#[test]
fn a_night_that_lost_its_nodes_ends_when_the_next_one_is_due() {
    let (wrong, outcomes) = scripted(async |world| world.strand_a_night().await);
    assert_eq!((wrong, outcomes.first().map(String::as_str)), (None, Some("NodesMissing")), "{outcomes:?}");
    assert_eq!(outcomes.last().map(String::as_str), Some("Measured"), "{outcomes:?}");
    assert!(!outcomes.contains(&"PreviousRunning".to_owned()), "{outcomes:?}");
}

/// The simulated API server has no admission policies.
#[test]
fn a_night_that_somebody_changes_or_makes_does_not_count() {
    let (wrong, (outcomes, is_there)) = scripted(async |world| world.forge_nights().await);
    assert_eq!((wrong, outcomes.first().map(String::as_str)), (None, Some("Deleted")), "{outcomes:?}");
    assert_eq!(outcomes.last().map(String::as_str), Some("Measured"), "{outcomes:?}");
    assert!(is_there, "what the sweep has not begun is left alone");
}

/// A seed in whose world each planted bug shows, and how. Once the code has changed it may be one of the next.
const PLANTED: [(Bug, u64, &str); 7] = [
    (Bug::NoPrecondition, 0, "was written down twice"),
    (Bug::LeaseNotChecked, 23, ", which team-"),
    (Bug::CacheForTruth, 3, "does not follow from its"),
    (Bug::TwoLeaders, 0, "was written down twice"),
    (Bug::LostDelete, 6, "is left long after"),
    (Bug::ForgottenMessage, 5, "which has not arrived"),
    (Bug::Panic, 0, "panicked at"),
];

#[test]
fn planted_bugs_are_found() {
    assert_eq!(PLANTED.map(|(bug, ..)| bug), Bug::ALL);
    for (bug, from, how) in PLANTED {
        let found = (from..1000).find_map(|seed| Some((seed, simulate(seed, Some(bug), false).wrong?)));
        assert!(found.as_ref().is_some_and(|(_, wrong)| wrong.contains(how)), "{bug:?}: {found:?}");
    }
}

#[test]
fn an_operator_ends_that_has_lost_what_all_else_relies_on() {
    let ends = |seed| {
        let trace = simulate(seed, Some(Bug::Panic), false).trace;
        trace
            .into_iter()
            .find(|line| line.contains(" ends: ") && line.contains(" has ended, and all else relies on it"))
    };
    let ends: Vec<String> = (0..4).filter_map(ends).collect();
    assert!(ends.iter().any(|line| line.contains("the watch of ")), "{ends:?}");
}
