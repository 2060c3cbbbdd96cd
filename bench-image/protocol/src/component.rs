//! What a trial's time is spent on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a component's seconds are seconds of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Clock {
    /// CPU time.
    Cpu,
    /// Wall time, summed over threads: waits for files, locks and CPUs are in it.
    Wall,
    /// Wall time, by what a sample of the calls tells of all.
    SampledWall,
}

/// A part of the time of a trial. Components overlap; `within` tells the one that holds all of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    pub name: &'static str,
    pub clock: Clock,
    pub within: Option<&'static str>,
    /// The counter or clock that it is read from.
    pub source: &'static str,
    pub help: &'static str,
}

impl Component {
    /// How many components hold all of it, each within the next.
    pub fn depth(&self) -> u32 {
        self.within.and_then(component).map_or(0, |whole| 1 + whole.depth())
    }
}

const fn part(
    name: &'static str,
    clock: Clock,
    within: Option<&'static str>,
    source: &'static str,
    help: &'static str,
) -> Component {
    Component { name, clock, within, source, help }
}

/// Every component of `timeSpent` in a record, in the order of reports.
pub const COMPONENTS: &[Component] = &[
    part("process", Clock::Cpu, None, "getrusage", "The whole bench, including RocksDB."),
    part(
        "workload_threads",
        Clock::Cpu,
        Some("process"),
        "CLOCK_THREAD_CPUTIME_ID",
        "Threads of all roles, including their time inside RocksDB.",
    ),
    part(
        "compaction_threads",
        Clock::Cpu,
        Some("process"),
        "threads rocksdb:low and rocksdb:bottom",
        "Background threads that compact, and that flush if RocksDB has no flush threads.",
    ),
    part(
        "compaction",
        Clock::Cpu,
        Some("compaction_threads"),
        "rocksdb.compaction.total.time.cpu_micros",
        "Compactions as RocksDB counts them, without their start and end.",
    ),
    part("flush_threads", Clock::Cpu, Some("process"), "threads rocksdb:high", "Background threads that flush."),
    part(
        "other_threads",
        Clock::Cpu,
        Some("process"),
        "the rest of process",
        "The thread that watches the trial, and RocksDB's timer.",
    ),
    part("get", Clock::Wall, None, "rocksdb.db.get.micros", "Gets."),
    part("get_memtable", Clock::SampledWall, Some("get"), "get_from_memtable_time", "Searching memtables."),
    part(
        "get_files",
        Clock::SampledWall,
        Some("get"),
        "get_from_output_files_time",
        "Searching files: filters, indexes, block cache, and what follows a cache miss.",
    ),
    part("get_file_read", Clock::SampledWall, Some("get_files"), "block_read_time", "Reading files for gets."),
    part(
        "seek",
        Clock::Wall,
        None,
        "rocksdb.db.seek.micros",
        "Seeks of scans; RocksDB doesn't time their next entries.",
    ),
    part(
        "scan_file_read",
        Clock::SampledWall,
        None,
        "block_read_time",
        "Reading files for scans, including their next entries but not readahead.",
    ),
    part(
        "write",
        Clock::Wall,
        None,
        "rocksdb.db.write.micros",
        "Writes, including waits for another thread that writes for them.",
    ),
    part("write_wal", Clock::SampledWall, Some("write"), "write_wal_time", "Writing the WAL, including its sync."),
    part("wal_sync", Clock::Wall, Some("write_wal"), "rocksdb.wal.file.sync.micros", "Syncing the WAL."),
    part(
        "write_memtable",
        Clock::SampledWall,
        Some("write"),
        "write_memtable_time",
        "Inserting into memtables, including while other threads of the same group insert.",
    ),
    part(
        "write_stall",
        Clock::Wall,
        Some("write"),
        "rocksdb.stall.micros",
        "Writes delayed or stopped; if several wait, RocksDB counts only the first.",
    ),
    part(
        "compaction_file_read",
        Clock::Wall,
        None,
        "rocksdb.file.read.compaction.micros",
        "Reading files for compactions.",
    ),
    part(
        "compaction_file_write",
        Clock::Wall,
        None,
        "rocksdb.file.write.compaction.micros",
        "Writing files of compactions.",
    ),
    part("flush_file_write", Clock::Wall, None, "rocksdb.file.write.flush.micros", "Writing files of flushes."),
    part(
        "compression",
        Clock::SampledWall,
        None,
        "rocksdb.compression.times.nanos",
        "Compressing blocks, in flushes and compactions.",
    ),
    part(
        "read_decompression",
        Clock::SampledWall,
        None,
        "block_decompress_time",
        "Decompressing blocks for gets and scans; compactions' share is part of compaction.",
    ),
];

/// Looks a component up by its name.
pub fn component(name: &str) -> Option<&'static Component> {
    COMPONENTS.iter().find(|component| component.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parts_follow_their_whole() {
        for (i, own) in COMPONENTS.iter().enumerate() {
            assert_eq!(COMPONENTS.iter().position(|other| other.name == own.name), Some(i), "{}", own.name);
            // A report sets parts in below their whole, so nothing of less depth may come between.
            let whole = COMPONENTS[..i].iter().rev().find(|other| other.depth() < own.depth());
            assert_eq!(whole.map(|whole| whole.name), own.within, "{}", own.name);
        }
        assert_eq!(component("nothing"), None);
        assert_eq!(component("wal_sync").map(Component::depth), Some(2));
    }
}
