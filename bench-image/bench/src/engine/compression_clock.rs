//! Times compression in some slices of the window.
//!
//! RocksDB times it at a level of statistics above its default, which also times what reads do in more detail. All the time
//! that would cost reads of compressed blocks a few percent, and a config without compression nothing.
//!
//! Decompression is not told this way: RocksDB takes a block that is being decompressed when the level rises for one that began
//! when the machine did.

use std::{sync::atomic::Ordering, time::Duration};

use rocksdb::statistics::StatsLevel;

use super::Engine;

const SLICE: Duration = Duration::from_millis(100);
/// One slice in so many is timed.
const ONE_IN: u128 = 5;

/// Switches the timer, and counts the blocks written in the slices that are timed.
#[derive(Debug, Default)]
pub struct CompressionClock {
    /// The blocks when the timer was switched on, while it is.
    since: Option<u64>,
    timed: u64,
}

impl CompressionClock {
    /// Call often within the window.
    pub fn tick(&mut self, engine: &Engine, window: Duration) {
        if !is_timed(window) {
            self.switch_off(engine);
        } else if self.since.is_none() {
            self.switch_on(engine);
        }
    }

    /// The blocks written in the timed slices.
    pub fn close(mut self, engine: &Engine) -> u64 {
        self.switch_off(engine);
        self.timed
    }

    fn switch_on(&mut self, engine: &Engine) {
        self.since = Some(engine.blocks_written());
        engine.time_compression(true);
    }

    fn switch_off(&mut self, engine: &Engine) {
        if let Some(since) = self.since.take() {
            engine.time_compression(false);
            self.timed += engine.blocks_written().saturating_sub(since);
        }
    }
}

impl Engine {
    /// Whether RocksDB times compression.
    fn time_compression(&self, on: bool) {
        // RocksDB's levels `kExceptTimeForMutex` and, its default, `kExceptDetailedTimers`. The binding has both under their
        // neighbours' names: it gives a number of its own to a level that RocksDB has twice.
        self.times_compression.store(on, Ordering::Relaxed);
        self.options.set_statistics_level(if on { StatsLevel::ExceptDetailedTimers } else { StatsLevel::ExceptTimers });
    }
}

/// Not the first slice: the latencies of a window that has no other would all be left out.
fn is_timed(window: Duration) -> bool {
    window.as_millis() / SLICE.as_millis() % ONE_IN == 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use assay_protocol::{EngineConfig, PageCache};
    use rocksdb::statistics::Histogram;

    use super::*;
    use crate::engine::Family;

    #[test]
    fn a_slice_in_five_is_timed() {
        let timed = (0..10_000).filter(|ms| is_timed(Duration::from_millis(*ms))).count();
        assert_eq!(timed, 2_000);
        assert!(!is_timed(Duration::ZERO) && is_timed(SLICE) && !is_timed(2 * SLICE));
    }

    #[test]
    fn only_blocks_of_timed_slices_are_timed() {
        let folder = tempfile::tempdir().unwrap();
        let families = [Family::new("default")];
        let engine = Engine::open(folder.path(), &EngineConfig::default(), &families, PageCache::Evict).unwrap();
        let timers = |histogram| engine.options.get_histogram_data(histogram).count();
        let write = || {
            let before = engine.blocks_written();
            engine.db.put(b"key", vec![b'x'; 10_000]).unwrap();
            engine.flush().unwrap();
            (engine.blocks_written() - before, timers(Histogram::CompressionTimesNanos))
        };
        let untimed = write();
        assert!(untimed.0 > 0 && untimed.1 == 0, "{untimed:?}");
        let mut clock = CompressionClock::default();
        clock.tick(&engine, Duration::ZERO);
        assert_eq!(write().1, 0, "the first slice is not timed");
        clock.tick(&engine, SLICE);
        let (blocks, times) = write();
        assert!(times > 0);
        clock.tick(&engine, 2 * SLICE);
        assert_eq!(write().1, times, "nor is the third");
        clock.tick(&engine, SLICE * (ONE_IN as u32 + 1));
        let (again, more) = write();
        assert_eq!(more, 2 * times);
        assert_eq!(clock.close(&engine), blocks + again);
        // Other times are told in any case.
        assert_eq!(timers(Histogram::DbWrite), 5);
    }
}
