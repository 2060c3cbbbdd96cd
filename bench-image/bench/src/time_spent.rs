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

    #[test]
    fn shares_are_of_what_is_known() {
        assert_eq!(share(1, 4, Some(2.0)), Some(0.5));
        assert_eq!(share(0, 0, Some(0.0)), Some(0.0), "no calls take no time");
        assert_eq!(share(1, 4, None), None);
        assert_eq!(share(9, 3, Some(2.0)), Some(6.0), "a third was timed");
        assert_eq!(share(9, 0, Some(0.0)), None, "none was timed");
    }
}
