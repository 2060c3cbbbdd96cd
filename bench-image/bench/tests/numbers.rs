//! The numbers of one real trial against each other: each metric from what else the record has of it.

#![allow(clippy::unwrap_used)]

mod support;

use assay_protocol::{METRICS, Mix, Preload, Summary, TrialRecord};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use hdrhistogram::{Histogram, serialization::Deserializer};
use support::{Bench, options, puts, role, spec, workload};

/// Writes that flush, compact and stall, and reads of what was written.
fn record() -> TrialRecord {
    let mut workload = workload(vec![role("mixed", 40_000, Mix { put: 6, get: 3, scan: 1, ..Mix::default() })]);
    workload.preload = Preload::Empty;
    let mut spec = spec(workload);
    spec.config = options(&[("write_buffer_size", "256K"), ("level0_slowdown_writes_trigger", "4")]);
    Bench::new().record(&spec)
}

#[track_caller]
fn assert_same(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} instead of {expected}");
}

#[test]
fn metrics_agree_with_the_rest_of_the_record() {
    let record = record();
    let metric = |name: &str| record.metrics[name];
    let ticker = |name: &str| record.tickers.get(name).copied().unwrap_or_default() as f64;
    let (evidence, counts) = (&record.evidence, record.work.counts["mixed"]);
    let (before, after) = (&evidence.lsm_before, &evidence.lsm_after);
    let time = &evidence.role_time["mixed"];
    let steps = counts.steps as f64;
    for name in
        METRICS.iter().map(|metric| metric.name).filter(|name| record.spec.workload.measured_role(name).is_some())
    {
        assert!(metric(name) >= 0.0, "{name}");
    }

    // One thread, so its wall time is its role's.
    assert_same(metric("throughput"), steps / time.wall_seconds);
    assert_same(metric("drained_throughput"), steps / (time.wall_seconds + metric("drain_seconds")));
    let operations = counts.puts + counts.gets + counts.deletes + counts.scans;
    assert_same(metric("operation_throughput"), operations as f64 / record.window_seconds);
    assert!(record.window_seconds >= time.wall_seconds);

    let bytes = BASE64_STANDARD.decode(&record.latency["mixed"].histogram).unwrap();
    let latency: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    // All but those that measuring slows down.
    assert!((1..counts.steps).contains(&latency.len()), "{}", latency.len());
    let mut quantiles = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)]
        .map(|(name, quantile)| {
            let found = metric(&format!("step_latency_{name}"));
            assert_same(found, latency.value_at_quantile(quantile) as f64 / 1e3);
            found
        })
        .to_vec();
    quantiles.push(metric("step_latency_max") * 1.001);
    assert!(quantiles.is_sorted() && quantiles[0] > 0.0, "{quantiles:?}");
    // A closed loop: the steps and what lies between them are all of the time.
    let known = time.db_seconds + time.compute_seconds;
    assert!((metric("step_latency_mean") * steps / 1e6 / known - 1.0).abs() < 0.01, "{known}");

    let (flushed, compacted) = (ticker("rocksdb.flush.write.bytes"), ticker("rocksdb.compact.write.bytes"));
    assert!(flushed > 0.0 && compacted > 0.0);
    assert_eq!(evidence.engagement.user_bytes_written, Some(counts.bytes_written));
    // What the window left is flushed and compacted in the drain.
    let amplified = metric("write_amplification") * counts.bytes_written as f64;
    assert!(amplified > flushed + compacted, "{amplified} {flushed} {compacted}");
    assert_same(metric("flush_bytes"), flushed);
    assert_same(metric("compaction_write_bytes"), compacted);
    let (all, by_compaction) = (
        ticker("rocksdb.last.level.read.bytes") + ticker("rocksdb.non.last.level.read.bytes"),
        ticker("rocksdb.compact.read.bytes"),
    );
    assert!(all >= by_compaction && by_compaction > 0.0);
    assert_same(metric("read_amplification"), (all - by_compaction) / counts.bytes_read as f64);
    assert_same(metric("compaction_read_bytes"), by_compaction);
    let live = after.live_sst_bytes.unwrap() as f64;
    assert_eq!((after.live_blob_bytes, after.live_data_bytes), (Some(0), None));
    assert_same(metric("space_amplification"), live / record.work.live_bytes.unwrap() as f64);
    // No key was loaded, and of the keys' 20 and the values' 400 bytes each key is there once or not at all.
    assert_eq!(record.dataset.logical_bytes, Some(0));
    assert!((1..20_000 * 420).contains(&record.work.live_bytes.unwrap()), "{:?}", record.work);
    // Headers and sequence numbers come on top.
    assert_same(metric("wal_bytes"), ticker("rocksdb.wal.bytes"));
    assert!(metric("wal_bytes") > counts.bytes_written as f64);

    assert_same(metric("stall_seconds"), ticker("rocksdb.stall.micros") / 1e6);
    assert_same(metric("stall_fraction"), metric("stall_seconds") / record.window_seconds);
    assert_eq!(evidence.engagement.stalls, Some(metric("stall_count") as u64));
    assert!(metric("stall_count") > 0.0);
    assert_eq!(evidence.engagement.flushes, Some(metric("flush_count") as u64));
    assert_eq!(evidence.engagement.compactions, Some(metric("compaction_count") as u64));
    assert!(metric("compaction_count") > 0.0 && metric("compaction_seconds") > 0.0);
    assert_same(metric("compaction_cpu_seconds"), ticker("rocksdb.compaction.total.time.cpu_micros") / 1e6);

    let cpu = metric("cpu_user_seconds") + metric("cpu_system_seconds");
    assert!(metric("cpu_seconds_per_step") * steps >= cpu);
    assert_same(record.time_spent["process"], cpu);
    // The warm-up came first, and wrote a tenth as much.
    assert!(before.live_sst_bytes < after.live_sst_bytes && metric("db_bytes") >= live);
    assert_same(metric("debt_in_bytes"), before.pending_compaction_bytes.unwrap() as f64);
    assert_same(metric("debt_out_bytes"), after.pending_compaction_bytes.unwrap() as f64);
}

/// A config that stores the same data in fewer bytes has used less space, and not had less to store.
#[test]
fn live_bytes_are_those_of_the_work_and_not_of_the_config() {
    let bench = Bench::new();
    let run = |own: &[(&str, &str)]| {
        let mut spec = spec(workload(vec![role("writer", 10_000, Mix { put: 3, delete: 1, ..Mix::default() })]));
        spec.config = options(&[&[("write_buffer_size", "256K")], own].concat());
        spec.dataset.format = spec.config.clone();
        let record = bench.record(&spec);
        assert_eq!(record.dataset.logical_bytes, Some(20_000 * 420));
        let after = &record.evidence.lsm_after;
        let (tables, blobs) = (after.live_sst_bytes.unwrap(), after.live_blob_bytes.unwrap());
        let live = record.work.live_bytes.unwrap();
        assert_same(record.metrics["space_amplification"], (tables + blobs) as f64 / live as f64);
        (live, record.metrics["space_amplification"], blobs as f64 / live as f64)
    };
    let (live, plain, _) = run(&[("compression", "kNoCompression")]);
    assert!(live < 20_000 * 420 && plain > 1.0, "{live} {plain}");
    // The values compress to half.
    let (same, packed, _) = run(&[("compression", "kLZ4Compression")]);
    assert_eq!(same, live);
    assert!(packed < 0.7 * plain, "{packed} and {plain}");
    let (same, in_blobs, blobs) =
        run(&[("compression", "kNoCompression"), ("enable_blob_files", "true"), ("min_blob_size", "100")]);
    assert_eq!(same, live);
    assert!(blobs > 0.9 && in_blobs > blobs, "{in_blobs}, {blobs} of it in blob files");
    for style in ["kCompactionStyleUniversal", "kCompactionStyleFIFO"] {
        assert_eq!(run(&[("compression", "kNoCompression"), ("compaction_style", style)]).0, live, "{style}");
    }
}

/// Writes under small memtables and these options, beside a baseline that has RocksDB's defaults for them.
fn writes(own: &[(&str, &str)]) -> TrialRecord {
    const MEMTABLE: (&str, &str) = ("write_buffer_size", "256K");
    let mut spec = spec(workload(vec![role("writer", 40_000, puts())]));
    spec.baseline = options(&[MEMTABLE]);
    spec.config = options(&[&[MEMTABLE], own].concat());
    Bench::new().record(&spec)
}

/// Bytes rewritten until the drain was over, per byte flushed in the window.
fn rewritten(record: &TrialRecord) -> f64 {
    let written = record.work.counts["writer"].bytes_written as f64;
    record.metrics["write_amplification"] * written / record.metrics["flush_bytes"]
}

/// In percent of what the window wrote.
fn postponed(record: &TrialRecord) -> f64 {
    Summary::of(record, b"").unwrap().steady.postponed_percent.unwrap()
}

/// By its own rules, each of these would have nothing left to do when its window ends.
#[test]
fn compaction_that_is_put_off_is_paid_after_the_window() {
    let as_it_comes = writes(&[]);
    let paid = rewritten(&as_it_comes);
    assert!(paid > 1.5, "{paid}");
    for hides in [
        &[("disable_auto_compactions", "true")][..],
        &[
            ("level0_file_num_compaction_trigger", "400"),
            ("level0_slowdown_writes_trigger", "400"),
            ("level0_stop_writes_trigger", "400"),
        ],
    ] {
        let record = writes(hides);
        assert_eq!(record.metrics["compaction_write_bytes"], 0.0, "{hides:?}");
        assert!(rewritten(&record) > 1.4, "{hides:?}: {}", rewritten(&record));
        assert_eq!(record.evidence.own_triggers, Vec::<String>::new());
        // All at once it is cheaper, so a summary says how much was put off.
        assert!(postponed(&record) > 50.0 && postponed(&as_it_comes) < 20.0, "{hides:?}: {}", postponed(&record));
        // It is part of what is paid for a step, too.
        let steps = record.work.counts["writer"].steps as f64;
        let in_window = (record.metrics["cpu_user_seconds"] + record.metrics["cpu_system_seconds"]) / steps;
        assert!(record.metrics["cpu_seconds_per_step"] > in_window, "{hides:?}");
    }
}

#[test]
fn rules_that_only_an_opening_sets_are_told() {
    let record = writes(&[("compaction_style", "kCompactionStyleUniversal")]);
    assert!(
        record.evidence.own_triggers.contains(&"compaction_style".to_owned()),
        "{:?}",
        record.evidence.own_triggers
    );
}
