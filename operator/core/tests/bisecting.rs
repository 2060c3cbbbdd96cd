//! Whether a bisection names the culprit as often, and in as few blocks, as docs/statistics.md says: a small part of what
//! `examples/bisection_table.rs` measures, with the same seeds each time.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bisection;

use assay_core::bisect::{End, Spread};
use bisection::{Ended, Seen, World, bisect, plain, search};

const SEARCHES: u64 = 150;
const KNOWN: Spread = Spread { block: 0.02, visit: 0.0 };

fn alone(world: &World, spread: Spread) -> Seen {
    Seen::of((0..SEARCHES).map(|seed| search(world, seed, 2, spread)))
}

fn whole(world: &World) -> Seen {
    Seen::of((0..SEARCHES).map(|seed| bisect(world, seed)).map(|(ended, blocks, _)| (ended, blocks)))
}

fn share(part: usize) -> f64 {
    part as f64 / SEARCHES as f64
}

/// 98 % right in 24 blocks, of 32 candidates; a plain bisection with 3 blocks a step is right in 62 %.
#[test]
fn a_culprit_is_found_in_few_blocks_and_a_plain_bisection_errs() {
    let world = World::default();
    let seen = alone(&world, KNOWN);
    assert!(share(seen.right) > 0.93, "{}", share(seen.right));
    assert!((20.0..28.0).contains(&seen.mean()) && seen.most() <= 44, "{} {}", seen.mean(), seen.most());
    let naive = Seen::of((0..SEARCHES).map(|seed| plain(&world, seed, 3)));
    assert!(share(naive.right) < 0.75, "{}", share(naive.right));
}

/// Taken for 2 %, noise of 3 % makes a third of the answers wrong. The whole search measures it at both ends.
#[test]
fn noise_is_measured_and_not_believed() {
    let noisy = World { block: 0.03, ..World::default() };
    assert!(share(alone(&noisy, KNOWN).right) < 0.85);
    assert!(share(whole(&noisy).wrong) < 0.03);
    // So are visits that differ, if that is known.
    let visits = World { visit: 0.01, ..World::default() };
    let (ignored, known) = (alone(&visits, KNOWN), alone(&visits, Spread { visit: 0.01, ..KNOWN }));
    assert!(known.right > ignored.right && share(known.right) > 0.93, "{known:?} {ignored:?}");
}

/// As shipped, a wrong name is rarer still, since each is proven by fresh blocks.
#[test]
fn whole_searches_name_the_culprit_or_nobody() {
    for (world, least) in [
        (World { count: 8, visit: 0.003, ..World::default() }, 0.88),
        (World { count: 64, visit: 0.003, ..World::default() }, 0.88),
        (World { heavy: true, ..World::default() }, 0.88),
        (World { broken: 0.2, ..World::default() }, 0.88),
        (World { steps: Vec::new(), ..World::default() }, 0.95),
    ] {
        let seen = whole(&world);
        assert!(share(seen.right) > least && share(seen.wrong) < 0.03, "{seen:?}");
    }
}

/// A change that was fixed and made again is no contradiction as long as a single step explains what was seen; that it is one of those is
/// all that is claimed.
#[test]
fn of_changes_and_fixes_a_change_is_named() {
    let world = World { steps: vec![0.05, -0.05, 0.05], ..World::default() };
    let seen = whole(&world);
    assert!(share(seen.wrong) < 0.03, "{seen:?}");
    let ends = (0..SEARCHES).map(|seed| bisect(&world, seed));
    assert!(ends.filter(|(ended, ..)| *ended == Ended::Open).all(|(.., answer)| answer.end != End::Found));
}
