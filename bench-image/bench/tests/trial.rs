//! Whole trials on the real RocksDB.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
};

use assay_protocol::output::{METRICS_PATH, Progress, STEP_LATENCY, STEPS_DONE};
use assay_protocol::{
    COMPONENTS, Digest, Exit, FIXED_METRICS, FailureKind, KeyOrder, METRICS, Mix, Outcome, PageCache, Preload, Role,
    Summary, TrialRecord, Until, ValueBytes,
    invocation::{self, in_pod},
    output,
};
use support::{Bench, entries, gets, options, puts, role, spec, workload};

#[test]
fn a_trial_leaves_a_whole_record_and_nothing_else() {
    let bench = Bench::new();
    let mix = Mix { put: 2, get: 2, get_missing: 1, scan: 1, delete: 0 };
    let mut spec = spec(workload(vec![role("mixed", 20_000, mix)]));
    spec.config = options(&[("write_buffer_size", "1M")]);
    let ran = bench.run(&spec);
    assert_eq!(ran.code(), Some(Exit::Completed as i32), "{}", ran.stderr());
    let record = ran.record();

    assert_eq!(record.outcome, Outcome::Completed);
    assert_eq!(record.spec, spec);
    let missing: Vec<_> = METRICS
        .iter()
        .map(|metric| metric.name)
        .filter(|name| spec.workload.measured_role(name).is_some() && !record.metrics.contains_key(*name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
    let counts = record.work.counts["mixed"];
    assert_eq!(counts.steps, 20_000);
    assert_eq!(counts.puts + counts.gets + counts.scans, 20_000);
    // Every third get of five asks for a key that was never written.
    let missed = counts.gets - counts.gets_found;
    assert!((missed as f64 / counts.gets as f64 - 1.0 / 3.0).abs() < 0.02, "{counts:?}");
    assert_eq!(record.work.wrong_answers, 0);
    // All but those that measuring slows down. How many these are depends on the window: its second tenth of a second is left out.
    let in_histogram = record.latency["mixed"].count;
    assert!((1..20_000).contains(&in_histogram), "{in_histogram}");
    assert!(record.evidence.engagement.flushes.unwrap() > 0);
    assert!(record.evidence.engagement.l0_files_peak.unwrap() > 0);
    assert_eq!(record.dataset.entries, 20_000);
    assert_eq!(record.evidence.lsm_before.settled, Some(true));
    let time = &record.evidence.role_time["mixed"];
    assert!(time.db_seconds > 0.0 && time.db_seconds + time.generator_seconds <= time.wall_seconds * 1.001);

    let json = ran.record_json.as_ref().unwrap();
    let summary = Summary::of(&record, json).unwrap();
    let bytes = serde_json::to_vec(&summary).unwrap();
    assert!(bytes.len() <= Summary::worst_case_bytes(&spec).unwrap());
    assert_eq!(Summary::from_json(&bytes).unwrap(), summary);
    for name in FIXED_METRICS {
        assert!(summary.metrics.contains_key(name), "{name}");
    }
    assert_eq!(entries(&invocation::trials_dir(&bench.data())), Vec::<std::path::PathBuf>::new());
    assert!(!bench.data().join("attest").exists());
}

#[test]
fn the_same_spec_does_the_same_work_at_any_thread_count() {
    let bench = Bench::new();
    let mix = Mix { put: 1, get: 1, scan: 1, ..Mix::default() };
    let one = spec(workload(vec![role("mixed", 3_000, mix)]));
    let first = bench.record(&one).work;
    assert_eq!(bench.record(&one).work, first);

    let threads = |threads| Role { threads, ..role("mixed", 3_000, mix) };
    let four = bench.record(&spec(workload(vec![threads(4)]))).work;
    assert_eq!(four, first);

    let mut other = one.clone();
    other.seed = 2;
    let other = bench.record(&other).work;
    assert_ne!(other.hash, first.hash);
    assert_ne!(other.answers, first.answers);
}

#[test]
fn formats_differ_in_files_and_agree_in_answers() {
    let bench = Bench::new();
    let reads = workload(vec![role("reader", 5_000, gets())]);
    let mut plain = spec(reads.clone());
    plain.config = options(&[("compression", "kNoCompression")]);
    plain.dataset.format = plain.config.clone();
    let mut packed = spec(reads);
    packed.config = options(&[("compression", "kZSTD")]);
    packed.dataset.format = packed.config.clone();
    let (plain, packed) = (bench.record(&plain), bench.record(&packed));
    assert_eq!(plain.dataset.content, packed.dataset.content);
    assert_ne!(plain.dataset.format, packed.dataset.format);
    assert!(plain.dataset.sst_bytes as f64 > 1.5 * packed.dataset.sst_bytes as f64);
    assert!(plain.work.answers.is_some());
    assert_eq!(plain.work, packed.work);
    assert_eq!(plain.work.counts["reader"].gets_found, 5_000);
}

/// Where nothing is shared, each trial prepares its own: with many flushes and compactions on the way, and in threads of the config.
#[test]
fn datasets_come_out_the_same_wherever_they_are_made() {
    let mut spec = spec(workload(vec![role("reader", 100, gets())]));
    let families =
        [("write_buffer_size", "64K"), ("target_file_size_base", "128K"), ("max_bytes_for_level_base", "512K")];
    spec.dataset.format = options(&families);
    spec.dataset.format.db_options.insert("max_background_jobs".to_owned(), "8".to_owned());
    let first = Bench::new().record(&spec).dataset;
    let levels = first.files_by_level.iter().filter(|&&files| files > 0).count();
    assert!(levels > 1 && first.files_by_level.iter().sum::<u64>() > 10, "{first:?}");
    for _ in 0..3 {
        assert_eq!(Bench::new().record(&spec).dataset, first);
    }
}

#[test]
fn values_compress_as_declared_at_block_level() {
    for (codec, percent, bytes) in [
        ("kLZ4Compression", 25, ValueBytes::Fixed(400)),
        ("kLZ4Compression", 50, ValueBytes::Fixed(100)),
        ("kLZ4Compression", 100, ValueBytes::Fixed(400)),
        ("kZSTD", 50, ValueBytes::Uniform { min: 200, max: 2000 }),
        ("kZSTD", 75, ValueBytes::Fixed(4000)),
    ] {
        let bench = Bench::new();
        let mut workload = workload(vec![role("reader", 100, gets())]);
        workload.compressed_percent = percent;
        workload.value_bytes = bytes;
        let mut spec = spec(workload);
        spec.config = options(&[("compression", codec), ("block_based_table_factory", "{block_size=16384;}")]);
        spec.dataset.format = spec.config.clone();
        let record = bench.record(&spec);
        let facts = &record.families["default"];
        let ratio = facts.compression_ratio_by_level.iter().find(|ratio| **ratio > 0.0).unwrap();
        let reached = 1.0 / ratio;
        let wanted = f64::from(percent) / 100.0;
        assert!((reached - wanted).abs() < 0.05, "{codec} {bytes:?}: {reached:.3} instead of {wanted}");
    }
}

#[test]
fn a_paced_role_keeps_its_pace_and_counts_from_the_intended_start() {
    let bench = Bench::new();
    let paced = Role { steps_per_second: Some(2_000), warmup_steps: 0, ..role("writer", 2_000, puts()) };
    let spec_of_paced = spec(workload(vec![paced]));
    let records: Vec<TrialRecord> = (0..3).map(|_| bench.record(&spec_of_paced)).collect();
    // The last step is to begin after this many seconds: never sooner, and what is later is late by the latency of some step. After
    // the steps only the sums are left to do; where the machine stops just then, it is not there in all three.
    let schedule = 1999.0 / 2000.0;
    let ends = records.iter().map(|record| {
        let time = &record.evidence.role_time["writer"];
        let slowest = record.metrics["step_latency_max"] / 1e6;
        (time.wall_seconds, schedule + 1.01 * slowest + time.generator_seconds + 0.01)
    });
    let ends: Vec<(f64, f64)> = ends.collect();
    assert!(ends.iter().all(|(wall, _)| *wall >= schedule), "{ends:?}");
    assert!(ends.iter().any(|(wall, latest)| wall <= latest), "{ends:?}");
    let record = &records[0];
    assert!(record.latency["writer"].from_intended_start);
    assert!(record.evidence.role_time["writer"].idle_seconds > 0.0);

    // A rate that can't be kept: steps queue up, and their latency says so.
    let rushed = Role { steps_per_second: Some(10_000_000), warmup_steps: 0, ..role("writer", 20_000, puts()) };
    let record = bench.record(&spec(workload(vec![rushed])));
    let time = &record.evidence.role_time["writer"];
    let mean_call_us = time.db_seconds / 20_000.0 * 1e6;
    assert!(record.metrics["step_latency_mean"] > 10.0 * mean_call_us);
}

#[test]
fn every_operation_order_and_batch_works_on_several_families() {
    let bench = Bench::new();
    let mut many = workload(vec![
        Role { batch: 50, threads: 2, ..role("writer", 400, Mix { put: 9, delete: 1, ..Mix::default() }) },
        Role { key_order: KeyOrder::Zipfian, ..role("reader", 5_000, gets()) },
        Role { key_order: KeyOrder::Sequential, ..role("scanner", 200, Mix { scan: 1, ..Mix::default() }) },
    ]);
    many.families = ["a", "b", "c"].map(str::to_owned).to_vec();
    let record = bench.record(&spec(many));
    let writer = record.work.counts["writer"];
    assert_eq!(writer.puts + writer.deletes, 400 * 50);
    assert!(writer.deletes > 1_000);
    assert_eq!(record.work.counts["scanner"].scanned_entries, 2_000);
    // Deletes race with reads, so their answers depend on timing and are no evidence.
    assert_eq!(record.work.answers, None);
    assert_eq!(record.work.wrong_answers, 0);
    assert_eq!(record.families.keys().collect::<Vec<_>>(), ["a", "b", "c", "default"]);
}

#[test]
fn only_a_filter_can_tell_missing_keys() {
    let bench = Bench::new();
    let mut misses = spec(workload(vec![role("reader", 2_000, Mix { get_missing: 1, ..Mix::default() })]));
    misses.config = options(&[("block_based_table_factory", "{filter_policy=bloomfilter:10:false;}")]);
    misses.dataset.format = misses.config.clone();
    let record = bench.record(&misses);
    assert_eq!(record.work.counts["reader"].gets_found, 0);
    assert!(record.tickers["rocksdb.bloom.filter.useful"] > 1_800, "{:?}", record.tickers);
}

#[test]
fn racing_threads_still_do_the_same_work() {
    let bench = Bench::new();
    let mut race = workload(vec![
        role("writer", 3_000, Mix { put: 1, delete: 1, ..Mix::default() }),
        role("reader", 3_000, Mix { get: 1, scan: 1, ..Mix::default() }),
    ]);
    race.keys = 500;
    let counts = || {
        let ran = bench.run(&spec(race.clone()));
        Summary::of(&ran.record(), ran.record_json.as_ref().unwrap()).unwrap().parity.counts
    };
    assert_eq!(counts(), counts());
}

#[test]
fn time_is_spent_where_something_happens_and_nowhere_else() {
    let bench = Bench::new();
    let spent = |role: Role, codec| {
        let mut spec = spec(workload(vec![role]));
        spec.config = options(&[("compression", codec), ("write_buffer_size", "1M")]);
        spec.dataset.format = options(&[("compression", codec)]);
        let record = bench.record(&spec);
        let all: Vec<&str> = COMPONENTS.iter().map(|component| component.name).collect();
        let missing: Vec<_> = all.iter().filter(|name| !record.time_spent.contains_key(**name)).collect();
        assert_eq!((missing, record.time_spent.len()), (Vec::new(), all.len()));
        record.time_spent
    };
    let reads = ["get", "get_files", "get_file_read", "seek", "scan_file_read", "read_decompression"];
    let writes = ["write", "write_wal", "write_memtable"];
    let background = ["compaction_threads", "compaction", "flush_threads", "compaction_file_write", "flush_file_write"];

    let batches = || Role { batch: 10, ..role("writer", 12_000, puts()) };
    let writing = spent(batches(), "kLZ4Compression");
    for name in writes.iter().chain(&background).chain(&["compression", "process", "workload_threads"]) {
        assert!(writing[*name] > 0.0, "{name}: {writing:?}");
    }
    for name in reads.iter().chain(&["get_memtable", "wal_sync"]) {
        assert_eq!(writing[*name], 0.0, "{name}: {writing:?}");
    }
    let threads: f64 = ["workload_threads", "compaction_threads", "flush_threads", "other_threads"]
        .iter()
        .map(|name| writing[*name])
        .sum();
    assert!((threads / writing["process"] - 1.0).abs() < 0.05, "{writing:?}");
    assert!(writing["write_wal"] + writing["write_memtable"] < writing["write"], "{writing:?}");
    let plain = spent(batches(), "kNoCompression");
    assert!(plain["compaction"] > 0.0, "{plain:?}");
    assert_eq!(plain["compression"], 0.0, "{plain:?}");

    let reading = spent(role("reader", 5_000, Mix { get: 1, scan: 1, ..Mix::default() }), "kLZ4Compression");
    for name in reads {
        assert!(reading[name] > 0.0, "{name}: {reading:?}");
    }
    for name in writes.iter().chain(&["compaction", "write_stall", "compression", "flush_file_write"]) {
        assert_eq!(reading[*name], 0.0, "{name}: {reading:?}");
    }
    for (name, seconds) in writing.iter().chain(&reading) {
        assert!((0.0..300.0).contains(seconds), "{name} takes longer than the test: {seconds}");
    }
    assert!(reading["get_files"] < reading["get"] && reading["get_file_read"] < reading["get"], "{reading:?}");
}

#[test]
fn records_from_before_times_were_told_can_be_read() {
    let bench = Bench::new();
    let ran = bench.run(&spec(workload(vec![role("reader", 100, gets())])));
    let mut old: serde_json::Value = serde_json::from_slice(ran.record_json.as_ref().unwrap()).unwrap();
    old.as_object_mut().unwrap().remove("timeSpent").unwrap();
    let old = TrialRecord::from_json(&serde_json::to_vec(&old).unwrap()).unwrap();
    assert!(old.time_spent.is_empty() && !ran.record().time_spent.is_empty());
    assert_eq!(old.metrics, ran.record().metrics);
}

#[test]
fn a_pod_gets_the_summary_and_the_framed_record() {
    let bench = Bench::new();
    let log = bench.dir.path().join("termination-log");
    let trial = serde_json::to_vec(&spec(workload(vec![role("reader", 100, gets())]))).unwrap();
    let ran = bench.run_with(&trial, &[&invocation::flag(invocation::TERMINATION_LOG), log.to_str().unwrap()]);
    assert_eq!(ran.code(), Some(Exit::Completed as i32), "{}", ran.stderr());
    let json = ran.record_json.as_ref().unwrap();
    let summary = Summary::from_json(&fs::read(&log).unwrap()).unwrap();
    assert_eq!(summary, Summary::of(&ran.record(), json).unwrap());
    let printed = String::from_utf8_lossy(&ran.output.stdout);
    assert_eq!(output::record_in(&printed).unwrap().as_bytes(), json);
}

#[test]
fn wal_options_reach_the_engine() {
    let bench = Bench::new();
    let writes = workload(vec![role("writer", 200, puts())]);
    let mut synced = spec(writes.clone());
    synced.config.write_options.sync = true;
    let record = bench.record(&synced);
    assert!(record.tickers["rocksdb.wal.synced"] >= 200);
    let mut without = spec(writes);
    without.config.write_options.disable_wal = true;
    assert_eq!(bench.record(&without).metrics["wal_bytes"], 0.0);
}

#[test]
fn page_cache_modes_do_what_they_say() {
    // Folders for temporary files may be in memory, and then nothing is read from a device.
    let bench = Bench::in_folder(env!("CARGO_TARGET_TMPDIR"));
    let reads = |page_cache| {
        let mut spec = spec(workload(vec![Role { warmup_steps: 0, ..role("reader", 2_000, gets()) }]));
        spec.page_cache = page_cache;
        bench.record(&spec)
    };
    let (evicted, warm, direct) = (reads(PageCache::Evict), reads(PageCache::Warm), reads(PageCache::Direct));
    let device = |record: &TrialRecord| record.metrics["device_read_bytes"];
    assert!(device(&evicted) > 0.0, "{}", device(&evicted));
    assert_eq!(device(&warm), 0.0);
    assert!(device(&direct) > 0.0);
    assert_eq!(direct.evidence.attestation.options["db"]["use_direct_reads"], "true");
    assert_eq!(evicted.work, direct.work);
}

#[test]
fn an_empty_preload_starts_empty() {
    let bench = Bench::new();
    let mut fill = workload(vec![role("writer", 1_000, puts())]);
    fill.preload = Preload::Empty;
    let record = bench.record(&spec(fill));
    assert_eq!(record.dataset.entries, 0);
}

#[test]
fn what_the_config_does_to_itself_is_its_own_failure() {
    let bench = Bench::new();
    let mut slow = spec(workload(vec![role("writer", 1_000_000_000, puts())]));
    slow.deadline_seconds = 1;
    let ran = bench.run(&slow);
    assert_eq!(ran.code(), Some(Exit::ConfigFailed as i32), "{}", ran.stderr());
    assert!(ran.stderr().contains("deadlineSeconds"), "{}", ran.stderr());
    let record = ran.record();
    assert!(matches!(record.outcome, Outcome::Failed { kind: FailureKind::Deadline, .. }), "{:?}", record.outcome);
    assert!(record.metrics.is_empty());

    let mut large = spec(workload(vec![role("writer", 1_000_000_000, puts())]));
    large.max_disk_bytes = 1 << 20;
    let ran = bench.run(&large);
    assert_eq!(ran.code(), Some(Exit::ConfigFailed as i32), "{}", ran.stderr());
    assert!(matches!(ran.record().outcome, Outcome::Failed { kind: FailureKind::DiskQuota, .. }));
    assert_eq!(entries(&invocation::trials_dir(&bench.data())), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_write_that_never_returns_is_the_configs_failure_too() {
    let bench = Bench::new();
    let mut stuck = spec(workload(vec![role("writer", 1_000_000, puts())]));
    stuck.config = options(&[
        ("write_buffer_size", "64K"),
        ("disable_auto_compactions", "true"),
        ("level0_slowdown_writes_trigger", "3"),
        ("level0_stop_writes_trigger", "4"),
    ]);
    stuck.deadline_seconds = 2;
    let ran = bench.run(&stuck);
    assert!(matches!(ran.record().outcome, Outcome::Failed { kind: FailureKind::Deadline, .. }), "{}", ran.stderr());
}

/// In a pod its digest is known. Another pod gets the right one, so it is not the config's fault, whatever the file has become.
#[test]
fn an_input_that_was_changed_is_not_run() {
    let bench = Bench::new();
    let input = serde_json::to_vec(&spec(workload(vec![role("writer", 10, puts())]))).unwrap();
    let run = |json: &[u8]| {
        let digest = Digest::of(&input);
        bench.command(json).env(in_pod::INPUT_DIGEST, digest.as_str()).output().unwrap()
    };
    for changed in [[&input[..], b" "].concat(), b"{}".to_vec()] {
        let output = run(&changed);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(Exit::EnvironmentRefused as i32), "{said}");
        assert!(said.contains("the input was changed"), "{said}");
        assert!(!bench.record_path().exists());
    }
    assert_eq!(run(&input).status.code(), Some(Exit::Completed as i32));
}

#[test]
fn specs_that_cannot_be_run_are_refused() {
    let bench = Bench::new();
    let good = serde_json::to_value(spec(workload(vec![role("writer", 10, puts())]))).unwrap();
    let mut newer = good.clone();
    newer["version"] = 2.into();
    newer["unheardOf"] = true.into();
    let mut unknown = good.clone();
    unknown["unheardOf"] = true.into();
    let mut option = good.clone();
    option["config"]["dbOptions"]["max_background_job"] = "2".into();
    let mut mix = good.clone();
    mix["workload"]["keyValue"]["roles"][0]["mix"] = serde_json::json!({});
    let mut metrics = good;
    metrics["experiment"] = "x".repeat(5_000).into();
    metrics["trial"]["scenario"] = "x".repeat(5_000).into();
    for (spec, says) in [
        (newer, "version 2"),
        (unknown, "unheardOf"),
        (option, "max_background_job"),
        (mix, "role writer"),
        (metrics, "4096"),
    ] {
        let ran = bench.run_with(&serde_json::to_vec(&spec).unwrap(), &[]);
        assert_eq!(ran.code(), Some(Exit::SpecRefused as i32), "{}", ran.stderr());
        assert!(ran.stderr().contains(says), "{} does not say {says}", ran.stderr());
        assert!(ran.record_json.is_none());
    }
    assert_eq!(bench.run_with(b"no JSON", &[]).code(), Some(Exit::SpecRefused as i32));
}

#[test]
fn an_unfit_environment_is_not_held_against_the_config() {
    let bench = Bench::new();
    fs::write(bench.data(), "a file where a directory should be").unwrap();
    let ran = bench.run(&spec(workload(vec![role("writer", 10, puts())])));
    assert_eq!(ran.code(), Some(Exit::EnvironmentRefused as i32), "{}", ran.stderr());
    assert!(ran.stderr().contains("data"), "{}", ran.stderr());
    assert!(ran.record_json.is_none());
}

#[test]
fn an_interrupted_preparation_is_made_again() {
    let bench = Bench::new();
    let trial = spec(workload(vec![role("reader", 100, gets())]));
    let first = bench.record(&trial);
    let [dataset] = &entries(&bench.data().join("datasets"))[..] else { panic!("one dataset") };
    fs::remove_file(dataset.join("dataset.json")).unwrap();
    assert_eq!(bench.record(&trial).dataset, first.dataset);
}

/// Benches before this one did not count its bytes.
#[test]
fn a_dataset_of_an_older_bench_is_made_again() {
    let bench = Bench::new();
    let trial = spec(workload(vec![role("reader", 100, gets())]));
    let first = bench.record(&trial);
    let [dataset] = &entries(&bench.data().join("datasets"))[..] else { panic!("one dataset") };
    let file = dataset.join("dataset.json");
    let mut facts: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(facts.as_object_mut().unwrap().remove("logicalBytes"), Some((20_000 * 420).into()));
    fs::write(&file, facts.to_string()).unwrap();
    let record = bench.record(&trial);
    assert_eq!(record.dataset, first.dataset);
    assert_eq!(record.work.live_bytes, Some(20_000 * 420));
}

#[test]
fn a_replaced_sysfs_is_stamped() {
    let bench = Bench::new();
    let trial = serde_json::to_vec(&spec(workload(vec![role("reader", 100, gets())]))).unwrap();
    let ran = bench.run_with(&trial, &["--sysfs", "/sys"]);
    let record = ran.record();
    assert_eq!(record.evidence.storage.replaced_sysfs.as_deref(), Some("/sys"));
    assert!(Summary::of(&record, ran.record_json.as_ref().unwrap()).unwrap().storage.replaced_sysfs);
    let record = bench.run_with(&trial, &[]).record();
    assert_eq!(record.evidence.storage.replaced_sysfs, None);
}

/// A role that lasts as long as the first one, at so many steps per second.
fn company(steps_per_second: u64) -> Role {
    Role {
        steps: None,
        until: Some(Until::PrimaryEnds),
        steps_per_second: Some(steps_per_second),
        ..role("writer", 0, puts())
    }
}

/// Steps that are due at this pace before a role of one thread has ended.
fn due(record: &TrialRecord, primary: &str, steps_per_second: f64) -> u64 {
    (record.evidence.role_time[primary].wall_seconds * steps_per_second).ceil() as u64
}

/// Steps of a role that alone writes, one entry of 420 bytes each.
fn written(record: &TrialRecord) -> u64 {
    record.evidence.engagement.user_bytes_written.unwrap() / 420
}

#[test]
fn company_lasts_to_the_end_of_the_first_role() {
    let bench = Bench::new();
    let reader = || Role { steps_per_second: Some(5_000), ..role("reader", 5_000, gets()) };
    let alone = bench.record(&spec(workload(vec![reader()])));
    let record = bench.record(&spec(workload(vec![reader(), company(1_000)])));
    let written = written(&record);
    assert!(written >= 999 && written.abs_diff(due(&record, "reader", 1e3)) <= 1, "{written}");
    let in_histogram = record.latency["writer"].count;
    assert!((1..written).contains(&in_histogram), "{in_histogram} of {written}");
    // How far it got is no part of the work that configs have in common, but what it wrote was written.
    assert_eq!((record.work.hash, record.work.user_bytes), (alone.work.hash, 0));
    assert_eq!(record.work.counts.keys().collect::<Vec<_>>(), ["reader"]);
}

#[test]
fn company_that_was_slowed_down_catches_up_at_the_cost_of_the_drained_rate() {
    let bench = Bench::new();
    // No machine writes a million times a second in one thread.
    let record = bench.record(&spec(workload(vec![role("reader", 20_000, gets()), company(1_000_000)])));
    let (reader, writer) = (&record.evidence.role_time["reader"], &record.evidence.role_time["writer"]);
    assert!(written(&record).abs_diff(due(&record, "reader", 1e6)) <= 1);
    assert!(writer.wall_seconds > reader.wall_seconds);
    let drained = 20_000.0 / (writer.wall_seconds + record.metrics["drain_seconds"]);
    assert!((record.metrics["drained_throughput"] / drained - 1.0).abs() < 0.01, "{:?}", record.metrics);
}

#[test]
fn metrics_and_progress_while_it_runs() {
    let bench = Bench::new();
    let paced = Role { steps_per_second: Some(1_000), ..role("writer", 3_000, puts()) };
    let trial = serde_json::to_vec(&spec(workload(vec![paced]))).unwrap();
    let mut child = bench
        .command(&trial)
        .args([&invocation::flag(invocation::METRICS), "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = None;
    let mut body = String::new();
    let mut phases = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(found) = output::metrics_address(&line) {
            address = Some(found);
            continue;
        }
        let progress = Progress::from_line(&line).unwrap_or_else(|| panic!("{line}"));
        if body.is_empty() && progress.phase == "measure" && progress.done > 500 {
            let mut stream = TcpStream::connect(address.unwrap()).unwrap();
            write!(stream, "GET {METRICS_PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            stream.read_to_string(&mut body).unwrap();
        }
        phases.push(progress.phase);
    }
    assert!(child.wait().unwrap().success());
    for name in [
        &format!("{STEPS_DONE}{{role=\"writer\"}}"),
        &format!("{STEP_LATENCY}_count{{role=\"writer\"}}"),
        &format!("{STEP_LATENCY}_bucket{{le=\"+Inf\",role=\"writer\"}}"),
        "rocksdb_bytes_written_total",
        "rocksdb_num_files_at_level{family=\"default\",level=\"0\"}",
    ] {
        assert!(body.contains(name), "{name} is missing in\n{body}");
    }
    let share = output::share_done(&body);
    assert!(share.is_some_and(|share| share > 0.1 && share < 1.0), "{share:?} of\n{body}");
    for phase in ["prepare", "warmup", "measure", "drain"] {
        assert!(phases.iter().any(|seen| seen == phase), "{phase} is missing in {phases:?}");
    }
}
