use assay_protocol::{FamilyOptions, RolePlan};

use super::{told::Told, *};
use crate::engine::Family;

/// Property, what families `a` and `b` say, the field it decides, and its value.
const STATE: &[(&str, [&str; 2], &str, u64)] = &[
    ("rocksdb.estimate-pending-compaction-bytes", ["1000", "20"], "pendingCompactionBytes", 1020),
    ("rocksdb.num-files-at-level0", ["3", "8"], "l0Files", 8),
    ("rocksdb.num-immutable-mem-table", ["2", "5"], "immutableMemtables", 7),
    // Of the whole database, so each family says the same.
    ("rocksdb.num-running-compactions", ["4", "4"], "runningCompactions", 4),
    ("rocksdb.num-running-flushes", ["1", "1"], "runningFlushes", 1),
    ("rocksdb.live-sst-files-size", ["600", "30"], "liveSstBytes", 630),
    ("rocksdb.live-blob-file-size", ["500", "11"], "liveBlobBytes", 511),
    ("rocksdb.base-level", ["6", "2"], "baseLevel", 6),
    ("rocksdb.compaction-pending", ["0", "0"], "settled", 0),
    ("rocksdb.mem-table-flush-pending", ["0", "0"], "settled", 0),
    // In memtables, and of keys and values in L0.
    ("rocksdb.cur-size-all-mem-tables", ["100000", "200000"], "unmergedBytes", 301_234),
    (LEVEL_0, [TABLES, TABLES], "unmergedBytes", 301_234),
    ("rocksdb.num-files-at-level1", ["0", "2"], "unmergedBytes", 301_234),
];
const LEVEL_0: &str = "rocksdb.aggregated-table-properties-at-level0";
/// As RocksDB 11.8 writes it, with other counts.
const TABLES: &str = "# data blocks=1; # entries=9; raw key size=117; raw average key size=13.000000; raw value size=500; \
                      raw average value size=55.555556; data block size=300; data uncompressed size=700; ";

fn state_without(missing: &str) -> LsmState {
    let of = |(property, [a, b], ..): &(&'static str, [&'static str; 2], &str, u64)| {
        [("a", *property, *a), ("b", *property, *b)]
    };
    let texts: Vec<_> = STATE.iter().filter(|(property, ..)| *property != missing).flat_map(of).collect();
    lsm_state(&Told::new(&texts), &EngineConfig::default())
}

#[test]
fn the_state_of_the_tree_is_what_properties_say() {
    let whole = serde_json::to_value(state_without("")).unwrap();
    for (property, _, field, value) in STATE {
        if *field != "settled" {
            assert_eq!(whole[field], *value, "{property}");
        }
        let without = serde_json::to_value(state_without(property)).unwrap();
        let unknown: Vec<&String> =
            without.as_object().unwrap().iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name).collect();
        let expected: &[&str] = match *property {
            // They are told together.
            "rocksdb.num-running-compactions" | "rocksdb.num-running-flushes" => {
                &["runningCompactions", "runningFlushes", "settled"]
            }
            // A family of one level has nothing to merge.
            "rocksdb.num-files-at-level1" => &[],
            // All levels are counted from this one on.
            "rocksdb.num-files-at-level0" => &["l0Files"],
            _ => &[field],
        };
        assert_eq!(unknown, expected, "without {property}");
    }
    let fields: Vec<&String> = whole.as_object().unwrap().keys().collect();
    assert!(fields.iter().all(|name| STATE.iter().any(|(_, _, field, _)| field == name)), "{fields:?}");
}

#[test]
fn unmerged_is_only_what_will_be_merged() {
    let of = |family: &'static str, memtables: &'static str, levels: usize| {
        let levels = ["rocksdb.num-files-at-level0", "rocksdb.num-files-at-level1"].into_iter().take(levels);
        let texts = [(family, "rocksdb.cur-size-all-mem-tables", memtables), (family, LEVEL_0, TABLES)];
        levels.map(move |level| (family, level, "1")).chain(texts)
    };
    let texts: Vec<_> = of("two", "1000", 2).chain(of("one", "20000", 1)).chain(of("fifo", "300000", 2)).collect();
    let fifo = FamilyOptions {
        r#match: vec!["fifo".to_owned()],
        options: [("compaction_style".to_owned(), "kCompactionStyleFIFO".to_owned())].into(),
    };
    let config = EngineConfig { column_families: vec![fifo], ..EngineConfig::default() };
    assert_eq!(lsm_state(&Told::new(&texts), &config).unmerged_bytes, Some(1617));
    assert_eq!(lsm_state(&Told::new(&texts), &EngineConfig::default()).unmerged_bytes, Some(302_234));
    assert_eq!(raw_bytes(&TABLES.replace("raw value size", "value size")), None);
    assert_eq!(raw_bytes(&TABLES.replace("=117", "=many")), None);
}

#[test]
fn settled_is_what_neither_runs_nor_waits() {
    let jobs = [
        "rocksdb.compaction-pending",
        "rocksdb.mem-table-flush-pending",
        "rocksdb.num-running-compactions",
        "rocksdb.num-running-flushes",
    ];
    let settled = |busy: Option<&str>| {
        let texts = jobs.map(|job| ("a", job, if busy == Some(job) { "1" } else { "0" }));
        lsm_state(&Told::new(&texts), &EngineConfig::default()).settled
    };
    assert_eq!(settled(None), Some(true));
    for job in jobs {
        assert_eq!(settled(Some(job)), Some(false), "{job}");
    }
}

/// As RocksDB 11.8 writes it, with other counts.
fn stall_text(delays: u64, stops: u64) -> String {
    format!(
        "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 100, \
         cf-l0-file-count-limit-stops-with-ongoing-compaction: 200, l0-file-count-limit-delays: 400, \
         l0-file-count-limit-stops: 800, memtable-limit-delays: 1600, memtable-limit-stops: 3200, \
         pending-compaction-bytes-delays: 6400, pending-compaction-bytes-stops: 12800, total-delays: {delays}, \
         total-stops: {stops}\n"
    )
}

#[test]
fn stalls_are_the_totals_of_all_families() {
    assert_eq!(stalls_of(&stall_text(3, 40)), Some(43));
    let (a, b) = (stall_text(3, 40), stall_text(500, 0));
    let property = "rocksdb.cf-write-stall-stats";
    assert_eq!(stalls(&Told::new(&[("a", property, &a), ("b", property, &b)])), Some(543));
    // Not 0, where it is not told.
    assert_eq!(stalls(&Told::new(&[("a", property, &a), ("b", "another", "1")])), None);
    for text in ["", "Write Stall (count): ", &a.replace("total-stops", "all-stops"), &a.replace(": 40", ": many")] {
        assert_eq!(stalls_of(text), None, "{text}");
    }
    // The first one stands behind the head line.
    assert_eq!(stalls_of("Write Stall (count): total-delays: 1, total-stops: 2"), Some(3));
}

#[test]
fn counters_of_a_window_are_what_grew_in_it() {
    let told = |flushed, micros| {
        Counters::told(
            &[("rocksdb.flush.write.bytes", flushed), ("rocksdb.wal.bytes", 5)],
            &[("rocksdb.compaction.times.micros", micros)],
        )
    };
    let grown = told(1700, 9_500_000).since(&told(700, 2_000_000));
    assert_eq!((grown.get("rocksdb.flush.write.bytes"), grown.get("rocksdb.wal.bytes")), (1000, 0));
    assert_eq!(grown.compaction_seconds(), 7.5);
    assert_eq!(grown.moved(), BTreeMap::from([("rocksdb.flush.write.bytes".to_owned(), 1000)]));
}

#[test]
fn facts_of_a_family_are_its_own() {
    let texts = [
        ("a", "rocksdb.num-files-at-level0", "1"),
        ("a", "rocksdb.num-files-at-level1", "0"),
        ("a", "rocksdb.num-files-at-level2", "7"),
        ("a", "rocksdb.compression-ratio-at-level0", "1.5"),
        ("a", "rocksdb.compression-ratio-at-level1", "-1.0"),
        ("a", "rocksdb.compression-ratio-at-level2", "2.25"),
        ("a", "rocksdb.live-sst-files-size", "600"),
        ("a", "rocksdb.estimate-num-keys", "50"),
        ("a", "rocksdb.base-level", "2"),
        ("b", "rocksdb.num-files-at-level0", "4"),
    ];
    let facts = family_facts(&Told::new(&texts), &BTreeMap::from([("a".to_owned(), 9)]));
    let expected = FamilyFacts {
        files_by_level: vec![1, 0, 7],
        compression_ratio_by_level: vec![1.5, -1.0, 2.25],
        live_sst_bytes: 600,
        estimated_keys: 50,
        base_level: Some(2),
        l0_files_peak: 9,
    };
    assert_eq!(facts["a"], expected);
    assert_eq!(facts["b"], FamilyFacts { files_by_level: vec![4], ..FamilyFacts::default() });
}

fn progress(roles: usize) -> Progress {
    let role = |number: usize| RolePlan {
        name: format!("role {number}"),
        threads: 1,
        steps: 1000,
        until_primary_ends: false,
        warmup_steps: 0,
        interval_ns: None,
        operations_per_step: 1,
        follows: None,
    };
    Progress::new(&(0..roles).map(role).collect::<Vec<_>>())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn rows_are_rates_of_what_moved_since_the_last() {
    let progress = progress(2);
    progress.advance(0, 0, 40, 40);
    let mut told = Told::new(&[
        ("a", "rocksdb.num-files-at-level0", "3"),
        ("a", "rocksdb.estimate-pending-compaction-bytes", "70"),
        ("a", "rocksdb.cur-size-all-mem-tables", "80"),
        ("a", "rocksdb.live-sst-files-size", "90"),
    ]);
    let tickers = [
        "rocksdb.stall.micros",
        "rocksdb.flush.write.bytes",
        "rocksdb.compact.read.bytes",
        "rocksdb.compact.write.bytes",
        "rocksdb.bytes.written",
        "rocksdb.wal.bytes",
    ];
    // The n-th has grown by n times as much.
    let count =
        |by: u64| Counters::told(&(1..).zip(tickers).map(|(n, name)| (name, 1000 + n * by)).collect::<Vec<_>>(), &[]);
    told.counters = count(0);
    let mut sampler = Sampler::default();
    sampler.open(&told, &progress);
    told.counters = count(500);
    progress.advance(0, 0, 10, 50);
    // Another role's steps are no throughput.
    progress.advance(1, 0, 77, 77);
    sampler.tick(&told, &progress, ms(100));
    sampler.tick(&told, &progress, ms(250));
    told.counters = count(900);
    progress.advance(0, 0, 30, 80);
    sampler.tick(&told, &progress, ms(450));
    sampler.tick(&told, &progress, ms(750));
    let series = sampler.into_series();
    assert_eq!(series.seconds, [0.25, 0.75]);
    // Of 0.25 s four times as much in a second, of half a second twice.
    let expected: &[(&str, [f64; 2])] = &[
        ("steps_per_second", [40.0, 60.0]),
        ("stall_fraction", [500.0 * 4.0 / 1e6, 400.0 * 2.0 / 1e6]),
        ("flush_bytes_per_second", [4000.0, 1600.0]),
        ("compaction_read_bytes_per_second", [6000.0, 2400.0]),
        ("compaction_write_bytes_per_second", [8000.0, 3200.0]),
        ("user_bytes_per_second", [10_000.0, 4000.0]),
        ("wal_bytes_per_second", [12_000.0, 4800.0]),
        ("l0_files", [3.0; 2]),
        ("pending_compaction_bytes", [70.0; 2]),
        ("memtable_bytes", [80.0; 2]),
        ("live_sst_bytes", [90.0; 2]),
    ];
    for (name, values) in expected {
        assert_eq!(series.columns[*name], values, "{name}");
    }
    assert_eq!(series.columns.len(), expected.len());
}

#[test]
fn rows_of_a_long_window_are_a_second_apart() {
    let (told, progress) = (Told::new(&[("a", "rocksdb.base-level", "1")]), progress(1));
    let mut sampler = Sampler::default();
    sampler.open(&told, &progress);
    (0..350).for_each(|tenth| sampler.tick(&told, &progress, ms(100 * tenth)));
    let series = sampler.into_series();
    let gaps: Vec<f64> = series.seconds.windows(2).map(|pair| ((pair[1] - pair[0]) * 10.0).round() / 10.0).collect();
    let early = gaps.iter().take_while(|gap| **gap < 1.0).count();
    // A row each 250 ms, at the next tenth of a second.
    assert!(gaps[..early].iter().all(|gap| *gap == 0.3) && gaps[early..].iter().all(|gap| *gap == 1.0), "{gaps:?}");
    assert_eq!(series.seconds[early], 30.0);
}

#[test]
fn an_open_window_watches_whom_the_sampler_was_told_to() {
    let family = "a".to_owned();
    let mut sampler = Sampler::new(Peaks::of(std::slice::from_ref(&family), &[Family::new("a"), Family::new("b")]));
    sampler.open(&Told::default(), &progress(1));
    assert_eq!(sampler.peaks.tuned(), [family]);
}

/// Drift of a primary role that has made this many steps after so many milliseconds.
fn drift_at(samples: impl IntoIterator<Item = (u64, u64)>) -> Option<f64> {
    let (told, progress) = (Told::default(), progress(1));
    let mut sampler = Sampler::default();
    sampler.open(&told, &progress);
    let mut before = 0;
    for (at, steps) in samples {
        progress.advance(0, 0, steps - before, steps);
        before = steps;
        sampler.tick(&told, &progress, ms(at));
    }
    sampler.drift_percent()
}

/// The same after each 250 ms, the first time an eighth of a second after the opening.
fn drift(steps: &[u64]) -> Option<f64> {
    drift_at((0..).map(|tick| 125 + 250 * tick).zip(steps.iter().copied()))
}

#[track_caller]
fn assert_drift(steps: &[u64], expected: f64) {
    let found = drift(steps);
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} instead of {expected}");
}

#[test]
fn drift_is_the_second_half_against_the_first() {
    // 10 each time.
    assert_drift(&[0, 10, 20, 30, 40, 50, 60], 0.0);
    // 30 steps in the first 0.75 s, 45 in the others: half as many more.
    assert_drift(&[0, 10, 20, 30, 45, 60, 75], 50.0);
    // 30 and 6.
    assert_drift(&[0, 10, 20, 30, 32, 34, 36], -80.0);
    // Steps of before the window are no progress in it.
    assert_drift(&[500, 510, 520, 530, 545, 560, 575], 50.0);
    // A pause belongs to the half that it is in: 40 steps in 1.5 s, then 20 in 1.25 s.
    assert_drift(&[0, 10, 20, 30, 40, 40, 40, 40, 40, 40, 50, 60], -40.0);
    // 20 in 1.5 s, then 40 in 1.25 s.
    assert_drift(&[0, 10, 10, 10, 10, 10, 20, 20, 30, 40, 50, 60], 140.0);
    // What comes after the last step is no part of it: others may go on.
    assert_drift(&[0, 10, 20, 30, 40, 50, 60, 60, 60, 60, 60], 0.0);
}

#[test]
fn drift_of_too_little_is_unknown() {
    assert_eq!(drift(&[]), None);
    assert_eq!(drift(&[0]), None);
    assert_eq!(drift(&[0, 10, 20, 30, 40]), None, "five samples");
    assert_eq!(drift(&[7; 20]), None, "no step");
    let long: Vec<u64> = (0..20).map(|sample| sample / 5).collect();
    assert_eq!(drift(&long), None, "four long steps");
    assert!(drift(&[0, 10, 20, 30, 40, 50]).is_some());
    assert_eq!(drift(&[0, 0, 0, 0, 0, 0, 0, 10, 20, 30, 40, 50, 60]), None, "nothing in the first half");
    let seen_late = (0..6).map(|sample| (250 * sample, 10 * sample)).chain([(10_000, 60)]);
    assert_eq!(drift_at(seen_late), None, "nobody looked in the second half");
}
