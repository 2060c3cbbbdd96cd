use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use assay_protocol::{KeyOrder, KeyValue, METRICS, Mix, Preload, Role, Until, ValueBytes, Workload};

use super::crafted::{Crafted, blockstore, histogram, reth_history};

/// Every metric of a record, worked out by hand from the readings of `crafted.rs`. The window has 16 s, the primary role took 8 s
/// of it for 1000 steps and what follows it 12.5 s; the drain took 7.5 s.
const BY_HAND: &[(&str, f64)] = &[
    // Steps of the primary role over its own time: 1000 / 8 s.
    ("throughput", 125.0),
    // Over the time until its followers were done, and the drain: 1000 / (12.5 s + 7.5 s).
    ("drained_throughput", 50.0),
    // Puts, gets, deletes and scans of all roles over the window: (1300 + 500 + 140 + 60 + 70 + 20 + 7 + 3) / 16 s.
    ("operation_throughput", 131.25),
    // mgasPerBlock times throughput: 30 * 125.
    ("gas_throughput", 3750.0),
    // 2 * 512 shreds of a slot in 8 batches, times throughput: 128 * 125.
    ("shred_throughput", 16_000.0),
    // Nanoseconds in thousands, of all steps: 207,000 / 1000.
    ("step_latency_mean", 0.207),
    // The smallest latency that as many of the 10,000 in the histogram do not exceed: the 5000th,
    ("step_latency_p50", 0.11),
    // the 9000th,
    ("step_latency_p90", 0.21),
    // the 9500th,
    ("step_latency_p95", 0.41),
    // the 9900th,
    ("step_latency_p99", 0.81),
    // the 9990th,
    ("step_latency_p999", 1.01),
    // and the longest of all.
    ("step_latency_max", 2.11),
    // Of the role `saves`: 27,000 / 100.
    ("save_latency_mean", 0.27),
    ("save_latency_p50", 0.12),
    ("save_latency_p90", 0.22),
    ("save_latency_p95", 0.42),
    ("save_latency_p99", 0.82),
    ("save_latency_p999", 1.02),
    ("save_latency_max", 2.12),
    // rocksdb.flush.write.bytes and rocksdb.compact.write.bytes, in window and drain, over bytes of keys and values that all roles
    // wrote in the window: (6 + 14 + 1 + 4) / 5.
    ("write_amplification", 5.0),
    // rocksdb.last.level.read.bytes and rocksdb.non.last.level.read.bytes without rocksdb.compact.read.bytes, over bytes of keys
    // and values that gets and scans of all roles returned: (8 + 7 - 9) / (1.2 + 0.8).
    ("read_amplification", 3.0),
    // rocksdb.live-sst-files-size and rocksdb.live-blob-file-size when the window closed, over the bytes of live keys and values:
    // (44 + 8) / 16.
    ("space_amplification", 3.25),
    // rocksdb.stall.micros in seconds over the window: 3.2 / 16.
    ("stall_fraction", 0.2),
    ("stall_seconds", 3.2),
    // total-delays and total-stops of rocksdb.cf-write-stall-stats, what was there when the window opened taken off.
    ("stall_count", 17.0),
    // Events flush_finished of the LOG within the window.
    ("flush_count", 21.0),
    ("flush_bytes", 6_000_000.0),
    // Events compaction_finished.
    ("compaction_count", 6.0),
    ("compaction_read_bytes", 9_000_000.0),
    ("compaction_write_bytes", 14_000_000.0),
    // The sum of the histogram rocksdb.compaction.times.micros, in seconds.
    ("compaction_seconds", 5.6),
    // rocksdb.compaction.total.time.cpu_micros in seconds.
    ("compaction_cpu_seconds", 4.7),
    // rocksdb.wal.bytes.
    ("wal_bytes", 5_500_000.0),
    // read_bytes and write_bytes of /proc/self/io.
    ("device_read_bytes", 31_000_000.0),
    ("device_write_bytes", 37_000_000.0),
    // ru_utime and ru_stime of getrusage.
    ("cpu_user_seconds", 9.25),
    ("cpu_system_seconds", 1.75),
    // Both until the drain was over, over the steps of the primary role: (9.75 + 2.25) / 1000.
    ("cpu_seconds_per_step", 0.012),
    // VmHWM, reset when the window opened.
    ("rss_peak_bytes", 260_000_000.0),
    // Files of the trial's folder when the window closed.
    ("db_bytes", 47_000_000.0),
    // rocksdb.estimate-pending-compaction-bytes when the window opened and when it closed.
    ("debt_in_bytes", 1_500_000.0),
    ("debt_out_bytes", 2_500_000.0),
    ("drain_seconds", 7.5),
    ("dangling_rows", 19.0),
    // Slots 0 to 399 were to be removed, and 372 is the oldest one that is left: 28 of 400.
    ("overdue_percent", 7.0),
];

/// Metrics of a trial of each workload that has some of its own.
fn measured() -> Vec<BTreeMap<String, f64>> {
    vec![reth_history().metrics(), blockstore().metrics()]
}

fn is_about(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-12 * expected.abs()
}

#[test]
fn every_metric_is_what_a_hand_makes_of_its_sources() {
    let by_hand: Vec<&str> = BY_HAND.iter().map(|(name, _)| *name).collect();
    let all: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(by_hand, all, "each metric has its row");
    let measured = measured();
    for (name, expected) in BY_HAND {
        let values: Vec<f64> = measured.iter().filter_map(|metrics| metrics.get(*name)).copied().collect();
        assert!(!values.is_empty(), "{name} is not measured");
        for value in values {
            assert!(is_about(value, *expected), "{name} is {value}, by hand {expected}");
        }
    }
    let unknown: Vec<&String> =
        measured.iter().flat_map(BTreeMap::keys).filter(|name| !all.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Else one could stand for another.
#[test]
fn no_two_metrics_have_the_same_value() {
    for (i, (name, value)) in BY_HAND.iter().enumerate() {
        for (other, same) in &BY_HAND[i + 1..] {
            assert!(!is_about(*value, *same), "{name} and {other} are both {value}");
        }
    }
}

#[test]
fn each_workload_has_the_metrics_that_it_says_it_has() {
    for mut crafted in [reth_history(), blockstore()] {
        let has = |metric: &&str| crafted.workload.measured_role(metric).is_some();
        let expected: BTreeSet<String> =
            METRICS.iter().map(|metric| metric.name).filter(has).map(str::to_owned).collect();
        assert_eq!(crafted.metrics().into_keys().collect::<BTreeSet<_>>(), expected);
    }
}

/// A change of one reading, and all metrics that it moves.
type Change = (&'static str, fn(&mut Crafted), &'static [&'static str]);

const STEPS: &[&str] =
    &["throughput", "drained_throughput", "shred_throughput", "cpu_seconds_per_step", "step_latency_mean"];
const QUANTILES: &[&str] =
    &["step_latency_p50", "step_latency_p90", "step_latency_p95", "step_latency_p99", "step_latency_p999"];

fn tick(crafted: &mut Crafted, name: &str) {
    *crafted.tickers.get_mut(name).unwrap() += 1000;
}

fn tick_in_drain(crafted: &mut Crafted, name: &str) {
    *crafted.drain_tickers.get_mut(name).unwrap() += 1000;
}

const CHANGES: &[Change] = &[
    ("steps", |c| c.role("insert").counts.steps += 1, STEPS),
    ("steps of a follower", |c| c.role("replay").counts.steps += 1, &[]),
    ("puts", |c| c.role("replay").counts.puts += 1, &["operation_throughput"]),
    ("gets", |c| c.role("replay").counts.gets += 1, &["operation_throughput"]),
    ("found", |c| c.role("replay").counts.gets_found += 1, &[]),
    ("deletes", |c| c.role("replay").counts.deletes += 1, &["operation_throughput"]),
    ("scans", |c| c.role("replay").counts.scans += 1, &["operation_throughput"]),
    ("scanned entries", |c| c.role("replay").counts.scanned_entries += 1, &[]),
    ("bytes read", |c| c.role("replay").counts.bytes_read += 1, &["read_amplification"]),
    ("bytes written by a role", |c| c.role("replay").counts.bytes_written += 1, &[]),
    ("bytes written by all", |c| c.results.user_bytes += 1, &["write_amplification"]),
    ("bytes that were planned", |c| c.results.planned_user_bytes += 1, &[]),
    ("window", |c| c.results.window += Duration::from_secs(1), &["operation_throughput", "stall_fraction"]),
    (
        "time of the primary role",
        |c| c.role("insert").elapsed += Duration::from_secs(1),
        &["throughput", "shred_throughput"],
    ),
    ("the last end", |c| c.role("replay").elapsed += Duration::from_secs(1), &["drained_throughput"]),
    ("an earlier end", |c| c.role("cleanup").elapsed += Duration::from_secs(1), &[]),
    ("drain", |c| c.drained.wait += Duration::from_secs(1), &["drained_throughput", "drain_seconds"]),
    ("latency", |c| c.role("insert").latency = histogram(&[(7, 1)]), QUANTILES),
    ("time of steps", |c| c.role("insert").steps_ns += 1000, &["step_latency_mean"]),
    ("the longest step", |c| c.role("insert").longest_ns += 1000, &["step_latency_max"]),
    ("latency of a follower", |c| c.role("replay").latency = histogram(&[(7, 1)]), &[]),
    ("flushed", |c| tick(c, "rocksdb.flush.write.bytes"), &["write_amplification", "flush_bytes"]),
    (
        "compaction wrote",
        |c| tick(c, "rocksdb.compact.write.bytes"),
        &["write_amplification", "compaction_write_bytes"],
    ),
    ("drain flushed", |c| tick_in_drain(c, "rocksdb.flush.write.bytes"), &["write_amplification"]),
    ("drain compacted", |c| tick_in_drain(c, "rocksdb.compact.write.bytes"), &["write_amplification"]),
    ("drain read for compaction", |c| tick_in_drain(c, "rocksdb.compact.read.bytes"), &[]),
    ("drain read", |c| tick_in_drain(c, "rocksdb.last.level.read.bytes"), &[]),
    ("CPU of compaction in the drain", |c| tick_in_drain(c, "rocksdb.compaction.total.time.cpu_micros"), &[]),
    ("compaction read", |c| tick(c, "rocksdb.compact.read.bytes"), &["read_amplification", "compaction_read_bytes"]),
    ("last level", |c| tick(c, "rocksdb.last.level.read.bytes"), &["read_amplification"]),
    ("other levels", |c| tick(c, "rocksdb.non.last.level.read.bytes"), &["read_amplification"]),
    ("RocksDB's count of written bytes", |c| tick(c, "rocksdb.bytes.written"), &[]),
    ("RocksDB's count of read bytes", |c| tick(c, "rocksdb.bytes.read"), &[]),
    ("WAL", |c| tick(c, "rocksdb.wal.bytes"), &["wal_bytes"]),
    ("stalled", |c| tick(c, "rocksdb.stall.micros"), &["stall_fraction", "stall_seconds"]),
    ("CPU of compaction", |c| tick(c, "rocksdb.compaction.total.time.cpu_micros"), &["compaction_cpu_seconds"]),
    (
        "wall of compaction",
        |c| *c.timers.get_mut("rocksdb.compaction.times.micros").unwrap() += 1000,
        &["compaction_seconds"],
    ),
    ("CPU of each compaction", |c| *c.timers.get_mut("rocksdb.compaction.times.cpu_micros").unwrap() += 1000, &[]),
    ("stalls", |c| c.closed.stalls = Some(18), &["stall_count"]),
    ("flushes", |c| c.events.as_mut().unwrap().flushes += 1, &["flush_count"]),
    ("compactions", |c| c.events.as_mut().unwrap().compactions += 1, &["compaction_count"]),
    ("device reads", |c| c.closed.usage.read_bytes = Some(1), &["device_read_bytes"]),
    ("device writes", |c| c.closed.usage.write_bytes = Some(1), &["device_write_bytes"]),
    ("user time", |c| c.closed.usage.user_seconds = Some(1.0), &["cpu_user_seconds"]),
    ("system time", |c| c.closed.usage.system_seconds = Some(1.0), &["cpu_system_seconds"]),
    ("faults", |c| c.closed.usage.major_faults = Some(1), &[]),
    ("user time until drained", |c| c.drained.usage.user_seconds = Some(1.0), &["cpu_seconds_per_step"]),
    ("system time until drained", |c| c.drained.usage.system_seconds = Some(1.0), &["cpu_seconds_per_step"]),
    ("device writes until drained", |c| c.drained.usage.write_bytes = Some(1), &[]),
    ("RSS", |c| c.closed.peak_rss = Some(1), &["rss_peak_bytes"]),
    ("files", |c| c.closed.db_bytes += 1, &["db_bytes"]),
    ("debt before", |c| c.closed.lsm_before.pending_compaction_bytes = Some(1), &["debt_in_bytes"]),
    ("debt after", |c| c.closed.lsm_after.pending_compaction_bytes = Some(1), &["debt_out_bytes"]),
    ("tables before", |c| c.closed.lsm_before.live_sst_bytes = Some(1), &[]),
    ("tables after", |c| c.closed.lsm_after.live_sst_bytes = Some(1), &["space_amplification"]),
    ("blobs before", |c| c.closed.lsm_before.live_blob_bytes = Some(1), &[]),
    ("blobs after", |c| c.closed.lsm_after.live_blob_bytes = Some(1), &["space_amplification"]),
    ("live keys and values", |c| c.live_bytes = Some(1), &["space_amplification"]),
    ("RocksDB's estimate of live data", |c| c.closed.lsm_after.live_data_bytes = Some(1), &[]),
    ("dangling", |c| c.leftovers.as_mut().unwrap().dangling_rows += 1, &["dangling_rows"]),
    ("oldest", |c| c.leftovers.as_mut().unwrap().oldest_slot = Some(1), &["overdue_percent"]),
    ("removed", |c| c.leftovers.as_mut().unwrap().removed_below += 1, &["overdue_percent"]),
];

fn moved(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeSet<String> {
    before.keys().chain(after.keys()).filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_reading_moves_its_own_metrics_and_no_other() {
    let before = blockstore().metrics();
    for (reading, change, expected) in CHANGES {
        let mut crafted = blockstore();
        change(&mut crafted);
        assert_eq!(moved(&before, &crafted.metrics()), names(expected), "{reading}");
    }
    // So that a reading without a change would be noticed.
    let tried: BTreeSet<String> = CHANGES.iter().flat_map(|(_, _, metrics)| names(metrics)).collect();
    assert_eq!(tried, before.into_keys().collect());
}

/// What users read is what moves the metric: each counter of RocksDB moves the metrics that name it as their source, and no other.
#[test]
fn the_sources_that_are_told_are_those_that_count() {
    let before = blockstore().metrics();
    let (tickers, timers) = (blockstore().tickers, blockstore().timers);
    for name in tickers.keys().chain(timers.keys()) {
        let mut crafted = blockstore();
        let counters = if tickers.contains_key(name) { &mut crafted.tickers } else { &mut crafted.timers };
        *counters.get_mut(name).unwrap() += 1000;
        let told = METRICS.iter().filter(|metric| metric.source.contains(&format!("`{name}`")));
        assert_eq!(moved(&before, &crafted.metrics()), told.map(|metric| metric.name.to_owned()).collect(), "{name}");
    }
}

#[test]
fn saves_are_measured_on_their_own_role() {
    let before = reth_history().metrics();
    let mut crafted = reth_history();
    let saves = crafted.role("saves");
    (saves.latency, saves.steps_ns, saves.longest_ns) = (histogram(&[(7, 1)]), 1, 2);
    let expected: Vec<String> = ["step_latency_mean", "step_latency_max"]
        .iter()
        .chain(QUANTILES)
        .map(|name| name.replace("step", "save"))
        .collect();
    assert_eq!(moved(&before, &crafted.metrics()), expected.into_iter().collect());
}

/// A change that takes a reading away, and the metrics that are unknown then.
const UNKNOWN: &[Change] = &[
    ("stalls", |c| c.closed.stalls = None, &["stall_count"]),
    ("LOG", |c| c.events = None, &["flush_count", "compaction_count"]),
    ("leftovers", |c| c.leftovers = None, &["dangling_rows", "overdue_percent"]),
    ("device reads", |c| c.closed.usage.read_bytes = None, &["device_read_bytes"]),
    ("device writes", |c| c.closed.usage.write_bytes = None, &["device_write_bytes"]),
    ("user time", |c| c.closed.usage.user_seconds = None, &["cpu_user_seconds"]),
    ("system time", |c| c.closed.usage.system_seconds = None, &["cpu_system_seconds"]),
    ("user time until drained", |c| c.drained.usage.user_seconds = None, &["cpu_seconds_per_step"]),
    ("system time until drained", |c| c.drained.usage.system_seconds = None, &["cpu_seconds_per_step"]),
    ("RSS", |c| c.closed.peak_rss = None, &["rss_peak_bytes"]),
    ("debt before", |c| c.closed.lsm_before.pending_compaction_bytes = None, &["debt_in_bytes"]),
    ("debt after", |c| c.closed.lsm_after.pending_compaction_bytes = None, &["debt_out_bytes"]),
    ("tables", |c| c.closed.lsm_after.live_sst_bytes = None, &["space_amplification"]),
    ("blobs", |c| c.closed.lsm_after.live_blob_bytes = None, &["space_amplification"]),
    ("live keys and values", |c| c.live_bytes = None, &["space_amplification"]),
    ("nothing is live", |c| c.live_bytes = Some(0), &["space_amplification"]),
    ("nothing written", |c| c.results.user_bytes = 0, &["write_amplification"]),
    (
        "nothing read",
        |c| c.results.roles.values_mut().for_each(|role| role.counts.bytes_read = 0),
        &["read_amplification"],
    ),
    ("nothing removed", |c| c.leftovers.as_mut().unwrap().removed_below = 0, &["overdue_percent"]),
    (
        "no step",
        |c| c.role("insert").counts.steps = 0,
        &["step_latency_mean", "step_latency_max", "cpu_seconds_per_step"],
    ),
    ("no step in the histogram", |c| c.role("insert").latency.reset(), QUANTILES),
];

#[test]
fn what_is_unknown_is_absent() {
    for (reading, change, expected) in UNKNOWN {
        let mut crafted = blockstore();
        change(&mut crafted);
        let metrics = crafted.metrics();
        let absent: BTreeSet<String> =
            blockstore().metrics().into_keys().filter(|name| !metrics.contains_key(name)).collect();
        assert_eq!(absent, names(expected), "{reading}");
    }
    let mut crafted = blockstore();
    crafted.results.roles.remove("insert");
    assert!(crafted.metrics().is_empty(), "without the primary role nothing is measured");
}

#[test]
fn edges_are_no_surprise() {
    // More was read by compaction than from files: a rounding, not a gain.
    let mut crafted = blockstore();
    *crafted.tickers.get_mut("rocksdb.compact.read.bytes").unwrap() = 15_000_001;
    assert_eq!(crafted.metrics()["read_amplification"], 0.0);
    // Everything is removed, or more than had to be.
    for oldest_slot in [None, Some(401)] {
        let mut crafted = blockstore();
        crafted.leftovers.as_mut().unwrap().oldest_slot = oldest_slot;
        assert_eq!(crafted.metrics()["overdue_percent"], 0.0);
    }
}

fn key_value(roles: Vec<Role>) -> Workload {
    Workload::KeyValue(KeyValue {
        keys: 1,
        key_bytes: 20,
        value_bytes: ValueBytes::Fixed(1),
        compressed_percent: 50,
        families: vec!["default".to_owned()],
        preload: Preload::Empty,
        roles,
    })
}

#[test]
fn who_is_bound_to_the_primary_role_delays_the_drained_throughput_and_others_do_not() {
    let role = |name: &str, until| Role {
        name: name.to_owned(),
        threads: 1,
        steps: Some(1),
        until,
        warmup_steps: 0,
        steps_per_second: Some(1),
        mix: Mix { put: 1, ..Mix::default() },
        batch: 1,
        scan_length: 1,
        key_order: KeyOrder::Uniform,
        zipfian_exponent: None,
    };
    for (until, expected) in [(None, 1000.0 / (8.0 + 7.5)), (Some(Until::PrimaryEnds), 1000.0 / (12.5 + 7.5))] {
        let mut crafted = reth_history();
        crafted.workload = key_value(vec![role("execution", None), role("saves", until)]);
        assert!(is_about(crafted.metrics()["drained_throughput"], expected), "{until:?}");
    }
}
