//! What the window's time was spent on, by component.

use std::collections::BTreeMap;

use assay_protocol::{COMPONENTS, Clock};

use crate::{driver::Results, engine::CallParts, watch::Closed};

/// The share of all that a part has, which is unknown where there is no whole to be part of.
fn share(part: u64, whole: u64, all: Option<f64>) -> Option<f64> {
    if whole == 0 { all.filter(|_| part == 0).map(|_| 0.0) } else { all.map(|all| all * part as f64 / whole as f64) }
}

/// Seconds by the component's name; what is unknown is absent.
pub fn time_spent(results: &Results, closed: &Closed) -> BTreeMap<String, f64> {
    let process = closed.usage.user_seconds.zip(closed.usage.system_seconds).map(|(user, system)| user + system);
    let workload: Option<f64> = results.roles.values().map(|role| role.time.cpu_seconds).sum();
    let (compaction, flush) = closed.background.map(|time| (time.compaction, time.flush)).unzip();
    let known: Option<f64> = [workload, compaction, flush].into_iter().sum();
    let mut calls = CallParts::default();
    results.roles.values().for_each(|role| calls.add(&role.calls));
    let seconds = |source: &str| closed.counters.seconds(source);
    let (gets, writes) = (seconds("rocksdb.db.get.micros"), seconds("rocksdb.db.write.micros"));
    let read_decompression = share(calls.get_decompression, calls.get, gets);
    let blocks = closed.counters.blocks_written();
    let own = [
        ("process", process),
        ("workload_threads", workload),
        ("compaction_threads", compaction),
        ("flush_threads", flush),
        ("other_threads", process.zip(known).map(|(process, known)| (process - known).max(0.0))),
        ("get_memtable", share(calls.get_memtable, calls.get, gets)),
        ("get_files", share(calls.get_files, calls.get, gets)),
        ("get_file_read", share(calls.get_file_read, calls.get, gets)),
        ("scan_file_read", Some(calls.scan_file_read as f64 / 1e9)),
        ("read_decompression", read_decompression.map(|gets| gets + calls.scan_decompression as f64 / 1e9)),
        ("compression", share(blocks, closed.timed_blocks, seconds("rocksdb.compression.times.nanos"))),
        ("write_wal", share(calls.write_wal, calls.write, writes)),
        ("write_memtable", share(calls.write_memtable, calls.write, writes)),
    ];
    let whole = COMPONENTS.iter().filter(|component| component.clock != Clock::SampledWall);
    let counted = whole.map(|component| (component.name, seconds(component.source)));
    own.into_iter().chain(counted).filter_map(|(name, seconds)| Some((name.to_owned(), seconds?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::Counters, evidence::BackgroundTime, metrics::crafted};

    /// 11 s of the process, of which the threads of both roles took 1.5, and the same calls by each role.
    fn measured() -> (Results, Closed) {
        let crafted::Crafted { mut results, mut closed, .. } = crafted::reth_history();
        for (cpu_seconds, role) in [1.0, 0.5].into_iter().zip(results.roles.values_mut()) {
            role.time.cpu_seconds = Some(cpu_seconds);
            role.calls = CallParts {
                get: 400,
                get_memtable: 100,
                get_files: 200,
                get_file_read: 50,
                get_decompression: 25,
                scan_file_read: 1_500_000_000,
                scan_decompression: 250_000_000,
                write: 1000,
                write_wal: 250,
                write_memtable: 500,
            };
        }
        closed.background = Some(BackgroundTime { compaction: 4.0, flush: 2.25 });
        closed.timed_blocks = 3;
        closed.counters = Counters::told(
            &[
                ("rocksdb.number.block.compressed", 7),
                ("rocksdb.number.block_compression_rejected", 4),
                ("rocksdb.number.block_compression_bypassed", 1),
                ("rocksdb.stall.micros", 600_000),
                ("rocksdb.compaction.total.time.cpu_micros", 3_750_000),
            ],
            &[
                ("rocksdb.db.get.micros", 8_000_000),
                ("rocksdb.db.seek.micros", 700_000),
                ("rocksdb.db.write.micros", 16_000_000),
                ("rocksdb.compression.times.nanos", 500_000_000),
                ("rocksdb.wal.file.sync.micros", 100_000),
            ],
        );
        (results, closed)
    }

    #[test]
    fn each_component_has_its_own_source() {
        let (results, closed) = measured();
        let expected = [
            ("process", 11.0),
            ("workload_threads", 1.5),
            ("compaction_threads", 4.0),
            ("flush_threads", 2.25),
            ("other_threads", 3.25),
            ("compaction", 3.75),
            ("get", 8.0),
            ("get_memtable", 2.0),
            ("get_files", 4.0),
            ("get_file_read", 1.0),
            ("seek", 0.7),
            // Of both roles.
            ("scan_file_read", 3.0),
            // Half of it by gets.
            ("read_decompression", 1.0),
            ("write", 16.0),
            ("write_wal", 4.0),
            ("write_memtable", 8.0),
            ("write_stall", 0.6),
            ("wal_sync", 0.1),
            // A quarter of the blocks was timed.
            ("compression", 2.0),
        ];
        let expected: BTreeMap<String, f64> = expected.map(|(name, seconds)| (name.to_owned(), seconds)).into();
        assert_eq!(time_spent(&results, &closed), expected);
    }

    #[test]
    fn the_rest_of_a_process_is_unknown_without_a_part() {
        let (mut results, mut closed) = measured();
        closed.background = None;
        let names = |results: &Results, closed: &Closed| {
            time_spent(results, closed).into_keys().filter(|name| name.ends_with("_threads")).collect::<Vec<_>>()
        };
        assert_eq!(names(&results, &closed), ["workload_threads"]);
        results.roles.values_mut().for_each(|role| role.time.cpu_seconds = None);
        assert!(names(&results, &closed).is_empty());
        // Clocks that are read one after another may say that parts took more than the whole.
        let (results, mut closed) = measured();
        closed.usage.user_seconds = Some(1.0);
        assert_eq!(time_spent(&results, &closed)["other_threads"], 0.0);
    }

    #[test]
    fn shares_are_of_what_is_known() {
        assert_eq!(share(1, 4, Some(2.0)), Some(0.5));
        assert_eq!(share(0, 0, Some(0.0)), Some(0.0), "no calls take no time");
        assert_eq!(share(1, 4, None), None);
        assert_eq!(share(9, 3, Some(2.0)), Some(6.0), "a third was timed");
        assert_eq!(share(9, 0, Some(0.0)), None, "none was timed");
    }
}
