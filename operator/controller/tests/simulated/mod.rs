//! The whole operator in virtual time, by seeds: its own calls and watches, an API server in memory, and whatever goes wrong between them.
//! The same seed does the same again, so what it finds can be looked at.

mod alerts;
mod api;
mod bench;
mod client;
mod law;
mod log;
mod machines;
mod nights;
mod random;
#[path = "../../../cli/tests/support/record.rs"]
mod record;
mod weather;
mod world;

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

pub use client::Bug;
use world::World;

thread_local! {
    /// The first panic on this thread, on which all of a world runs: it may end no more than a task that nobody misses.
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICKED.with_borrow_mut(|first| {
                first.get_or_insert_with(|| panic.to_string().replace('\n', " "));
            });
            usual(panic);
        }));
    });
    PANICKED.take();
}

/// What came of a seed.
pub struct Outcome {
    /// What was wrong first.
    pub wrong: Option<String>,
    /// What happened, a line each.
    pub trace: Vec<String>,
    /// Attempts that were written down.
    pub attempts: usize,
}

/// A world without faults in which something is done to nights, what was wrong, and what came of it.
#[cfg(test)]
pub fn scripted<T>(act: impl AsyncFnOnce(&std::sync::Arc<World>) -> T) -> (Option<String>, T) {
    fastrand::seed(0);
    note_panics();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(0, None, false);
        let came = act(&world).await;
        (world.into_outcome().0, came)
    })
}

/// Runs the world of a seed from its beginning to its end. If asked for, the operator's log is part of its trace.
pub fn simulate(seed: u64, bug: Option<Bug>, is_logged: bool) -> Outcome {
    // What kube decides by chance: how long a broken watch waits.
    fastrand::seed(seed);
    note_panics();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (wrong, trace, attempts) = runtime.block_on(async {
        let world = World::new(seed, bug, is_logged);
        let _logged = is_logged.then(|| log::begin(&world));
        world.run().await;
        world.into_outcome()
    });
    // What ends only now may panic as well.
    drop(runtime);
    Outcome { wrong: PANICKED.take().or(wrong), trace, attempts }
}
