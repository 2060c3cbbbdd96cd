//! Times the parts of RocksDB's calls, which only its perf context tells apart.
//!
//! A timed call reads the clock a dozen times, which may slow it down by a third. So of small calls one in [`ONE_IN`] is timed,
//! and stands for those before it that were not. What a sample tells well are shares: how long all calls took together
//! RocksDB counts without one.

use std::time::Instant;

use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

/// A prime, so that it does not fall into step with a workload that repeats itself.
pub const ONE_IN: u64 = 61;

/// RocksDB's level `kEnableTimeExceptForMutex`: RocksDB has put a level before it that the binding does not know, so the
/// binding has it under its neighbour's name.
const TIMED: PerfStatsLevel = PerfStatsLevel::EnableTimeAndCPUTimeExceptForMutex;
/// RocksDB's default.
const COUNTED: PerfStatsLevel = PerfStatsLevel::EnableCount;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Get,
    Scan,
    /// A write of that many operations.
    Write(u64),
}

/// Nanoseconds that calls and their parts took, by the timed calls with the weight of those that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallParts {
    pub get: u64,
    pub get_memtable: u64,
    pub get_files: u64,
    pub get_file_read: u64,
    pub get_decompression: u64,
    pub scan_file_read: u64,
    pub scan_decompression: u64,
    pub write: u64,
    pub write_wal: u64,
    pub write_memtable: u64,
}

/// The calls of one thread.
#[derive(Debug, Default)]
pub struct CallTimer {
    gets: Stride,
    scans: Stride,
    writes: Stride,
    pub parts: CallParts,
    /// A call was timed.
    pub is_touched: bool,
}

/// Which calls of a kind are timed.
#[derive(Debug, Default)]
struct Stride {
    calls: u64,
}

/// A call that is being made; if it is timed, since when, and for how many it stands.
#[must_use]
pub struct Running {
    call: Call,
    timed: Option<(Instant, u64)>,
}

impl Stride {
    fn next(&mut self) -> Option<u64> {
        let due = self.calls.is_multiple_of(ONE_IN);
        let stands_for = if self.calls == 0 { 1 } else { ONE_IN };
        self.calls += 1;
        due.then_some(stands_for)
    }
}

impl CallTimer {
    /// Call on the thread that makes the call, right before it.
    pub fn begin(&mut self, call: Call) -> Running {
        let stands_for = match call {
            Call::Get => self.gets.next(),
            Call::Scan => self.scans.next(),
            // A few clock readings are nothing to a large batch, and there may be few of them.
            Call::Write(ONE_IN..) => Some(1),
            Call::Write(_) => self.writes.next(),
        };
        let timed = stands_for.map(|stands_for| {
            self.is_touched = true;
            // The context is the thread's own; this only points to it.
            PerfContext::default().reset();
            set_perf_stats(TIMED);
            (Instant::now(), stands_for)
        });
        Running { call, timed }
    }

    /// Call right after it. A call that failed ends the trial and needs no end here.
    pub fn end(&mut self, Running { call, timed }: Running) {
        let Some((started, stands_for)) = timed else { return };
        let whole = started.elapsed().as_nanos() as u64 * stands_for;
        set_perf_stats(COUNTED);
        let context = PerfContext::default();
        let nanos = |metric| context.metric(metric) * stands_for;
        let parts = &mut self.parts;
        match call {
            Call::Get => {
                parts.get += whole;
                parts.get_memtable += nanos(PerfMetric::GetFromMemtableTime);
                parts.get_files += nanos(PerfMetric::GetFromOutputFilesTime);
                parts.get_file_read += nanos(PerfMetric::BlockReadTime);
                parts.get_decompression += nanos(PerfMetric::BlockDecompressTime);
            }
            Call::Scan => {
                parts.scan_file_read += nanos(PerfMetric::BlockReadTime);
                parts.scan_decompression += nanos(PerfMetric::BlockDecompressTime);
            }
            Call::Write(_) => {
                parts.write += whole;
                parts.write_wal += nanos(PerfMetric::WriteWalTime);
                parts.write_memtable += nanos(PerfMetric::WriteMemtableTime);
            }
        }
    }
}

impl CallParts {
    pub fn add(&mut self, other: &Self) {
        let Self {
            get,
            get_memtable,
            get_files,
            get_file_read,
            get_decompression,
            scan_file_read,
            scan_decompression,
            write,
            write_wal,
            write_memtable,
        } = other;
        self.get += get;
        self.get_memtable += get_memtable;
        self.get_files += get_files;
        self.get_file_read += get_file_read;
        self.get_decompression += get_decompression;
        self.scan_file_read += scan_file_read;
        self.scan_decompression += scan_decompression;
        self.write += write;
        self.write_wal += write_wal;
        self.write_memtable += write_memtable;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn timed_calls_stand_for_all_but_the_last() {
        for calls in [0, 1, 2, ONE_IN, ONE_IN + 1, 1000 * ONE_IN] {
            let mut stride = Stride::default();
            let stood_for: u64 = (0..calls).filter_map(|_| stride.next()).sum();
            assert!(stood_for <= calls && calls - stood_for < ONE_IN, "{stood_for} of {calls}");
        }
        let mut stride = Stride::default();
        assert_eq!((0..1000 * ONE_IN).filter_map(|_| stride.next()).count(), 1000);
    }

    #[test]
    fn only_the_timed_calls_are_timed() {
        let folder = tempfile::tempdir().unwrap();
        let db = rocksdb::DB::open_default(folder.path()).unwrap();
        let mut timer = CallTimer::default();
        let running = timer.begin(Call::Write(1));
        db.put(b"key", b"value").unwrap();
        timer.end(running);
        let first = timer.parts;
        assert!(first.write_wal > 0 && first.write_memtable > 0, "{first:?}");
        assert!(first.write > first.write_wal + first.write_memtable, "{first:?}");
        assert_eq!(first.get, 0);

        let mut write = |operations| {
            let running = timer.begin(Call::Write(operations));
            db.put(b"key", b"other").unwrap();
            timer.end(running);
            timer.parts
        };
        assert_eq!(write(1), first, "the second of small ones is not");
        assert_ne!(write(ONE_IN), first, "large ones are always");

        let running = timer.begin(Call::Get);
        assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"other"[..]));
        timer.end(running);
        assert!(timer.parts.get_memtable > 0);
        assert_eq!((timer.parts.get_files, timer.parts.get_decompression), (0, 0));
        db.flush().unwrap();
        // The next one that is timed.
        for _ in 0..ONE_IN {
            let running = timer.begin(Call::Get);
            assert!(db.get(b"key").unwrap().is_some());
            timer.end(running);
        }
        assert!(timer.parts.get_files > 0 && timer.parts.get > timer.parts.get_files, "{:?}", timer.parts);
    }
}
