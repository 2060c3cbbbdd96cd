//! The blockstore workload on the real RocksDB: what it stores, and that every way to remove old slots removes them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use assay_protocol::{Blockstore, EngineConfig, FamilyOptions, TrialRecord, TrialSpec, Workload};
use rocksdb::{DB, IteratorMode, Options};
use support::{Bench, entries, options, spec as any_spec, workload as any_workload};

/// Slots of 128 shreds; 8 slots are removed at a time, and 96 over the run.
fn blockstore() -> Blockstore {
    Blockstore {
        slots: 80,
        warmup_slots: 16,
        data_shreds_per_slot: 64,
        shreds_per_batch: 32,
        writers: 4,
        repaired_percent: 5,
        retained_slots: 64,
        slots_per_purge: 8,
    }
}

fn trial(blockstore: Blockstore, config: EngineConfig) -> TrialSpec {
    let mut trial = any_spec(any_workload(Vec::new()));
    trial.workload = Workload::Blockstore(blockstore);
    // The options of the config are the format as well; what the policy does is not.
    trial.dataset.format = EngineConfig { policy: BTreeMap::new(), ..config.clone() };
    trial.baseline = trial.dataset.format.clone();
    trial.config = config;
    trial
}

fn with(mut config: EngineConfig, policy: &[(&str, &str)]) -> EngineConfig {
    config.policy = policy.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    config
}

fn level() -> EngineConfig {
    options(&[
        ("compression", "kNoCompression"),
        ("write_buffer_size", "512K"),
        ("target_file_size_base", "512K"),
        ("max_bytes_for_level_base", "2M"),
    ])
}

/// Of both shred families RocksDB keeps this many bytes.
fn fifo(bytes: u64) -> EngineConfig {
    let mut config = with(level(), &[("retention", "fifo")]);
    config.column_families.push(FamilyOptions {
        r#match: vec!["*_shred".to_owned()],
        options: BTreeMap::from([
            ("compaction_style".to_owned(), "kCompactionStyleFIFO".to_owned()),
            ("compaction_options_fifo".to_owned(), format!("{{max_table_files_size={bytes};}}")),
        ]),
    });
    config
}

/// Bytes of a slot's shreds in one of their families.
fn family_bytes(slots: u64) -> u64 {
    slots * 64 * (16 + 1216)
}

fn shred_bytes(record: &TrialRecord) -> u64 {
    ["data_shred", "code_shred"].map(|family| record.families[family].live_sst_bytes).iter().sum()
}

/// Keys and values of a family in the dataset that the trials have left.
fn rows(bench: &Bench, family: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let [dataset] = &entries(&bench.data().join("datasets"))[..] else { panic!("one dataset") };
    let db = DB::open_cf_for_read_only(&Options::default(), dataset.join("db"), Blockstore::FAMILIES, false).unwrap();
    let handle = db.cf_handle(family).unwrap();
    db.iterator_cf(handle, IteratorMode::Start).map(|row| row.unwrap()).map(|(k, v)| (k.into(), v.into())).collect()
}

#[test]
fn families_have_the_shape_of_a_validators() {
    let bench = Bench::new();
    // The size of slots decides how much of the whole metadata are.
    let blockstore = Blockstore { data_shreds_per_slot: 512, retained_slots: 32, slots: 32, ..blockstore() };
    let mut compressed = trial(blockstore, options(&[("compression", "kZSTD")]));
    compressed.config.policy = BTreeMap::new();
    let record = bench.record(&compressed);
    let mut bytes = BTreeMap::new();
    for (family, key, values, count) in [
        ("data_shred", 16, 1203, 32 * 512),
        ("code_shred", 16, 1228, 32 * 512),
        ("index", 8, 8216, 32),
        ("meta", 8, 4161, 32),
        ("erasure_meta", 16, 40, 32 * 16),
        ("merkle_root_meta", 12, 38, 32 * 16),
    ] {
        let rows = rows(&bench, family);
        assert_eq!(rows.len(), count, "{family}");
        assert!(rows.iter().all(|(k, v)| k.len() == key && v.len() == values), "{family}");
        bytes.insert(family, (count * (key + values)) as f64);
    }
    // Of a validator's bytes 99 % are shreds, and 0.8 % the index.
    let all: f64 = bytes.values().sum();
    assert!((bytes["data_shred"] + bytes["code_shred"]) / all > 0.98);
    assert!((bytes["index"] / all - 0.0065).abs() < 0.001, "{}", bytes["index"] / all);
    // Nothing in a shred can be compressed.
    for family in ["data_shred", "code_shred"] {
        let ratios = &record.families[family].compression_ratio_by_level;
        let ratio = ratios.iter().find(|ratio| **ratio > 0.0).unwrap();
        assert!((ratio - 1.0).abs() < 0.05, "{family}: {ratio}");
    }
}

#[test]
fn all_of_the_work_is_done_and_counted() {
    let bench = Bench::new();
    let record = bench.record(&trial(blockstore(), level()));
    assert_eq!(record.work.wrong_answers, 0);
    let insert = record.work.counts["insert"];
    assert_eq!(insert.steps, 80 * 4);
    // Each shred once, two small metas for each of four sets; index and meta with each batch, and with late shreds of up to two
    // slots. What the warm-up leaves for the window moves a few.
    let shreds = 80.0 * 128.0;
    let fixed = shreds + 80.0 * 4.0 * 2.0 * 1.0 + 80.0 * 4.0 * 2.0;
    assert!((insert.puts as f64 - fixed) / fixed < 0.05 && insert.puts as f64 > fixed * 0.97, "{insert:?}");
    // Metadata that are there already are found: most of index and meta, part of the small ones.
    let overwritten = insert.gets_found as f64 / insert.gets as f64;
    assert!((0.5..0.95).contains(&overwritten), "{overwritten}");
    let replay = record.work.counts["replay"];
    assert_eq!((replay.steps, replay.scans, replay.scanned_entries), (80, 80, 80 * 64));
    assert_eq!(replay.gets_found, 80);
    assert_eq!(record.work.counts["cleanup"].steps, 12 - 2);
    // A range delete and a drop of files for each family.
    assert_eq!(record.work.policy_operations, 12 * 2 * 6);
    let per_step = record.metrics["shred_throughput"] / record.metrics["throughput"];
    assert!((per_step - 32.0).abs() < 1e-6, "{per_step}");
}

#[test]
fn every_retention_removes_what_is_due() {
    let bench = Bench::new();
    let run = |config| bench.record(&trial(blockstore(), config));
    let ranges = run(with(level(), &[("retention", "rangeDelete")]));
    let filter = run(with(level(), &[("retention", "compactionFilter")]));
    let files = run(fifo(family_bytes(64)));
    // The same work and the same answers, whatever removes.
    for other in [&filter, &files] {
        assert_eq!(other.work.hash, ranges.work.hash);
        assert_eq!(other.work.counts, ranges.work.counts);
        assert_eq!(other.work.answers, ranges.work.answers);
        assert_eq!(other.work.live_bytes, ranges.work.live_bytes);
        assert_eq!(other.dataset.content, ranges.dataset.content);
    }
    assert_eq!(filter.work.policy_operations, 12 * 6);
    assert_eq!(files.work.policy_operations, 12 * 2 * 4, "RocksDB drops shreds by itself");
    // Range deletes hide everything at once. The filter has dropped what is below the floor; a file that FIFO
    // drops holds a few slots.
    assert_eq!(ranges.metrics["overdue_percent"], 0.0);
    assert_eq!(filter.metrics["overdue_percent"], 0.0);
    assert!(files.metrics["overdue_percent"] < 20.0, "{}", files.metrics["overdue_percent"]);
    // 160 slots were written, 64 are kept, one removal may be on its way and what compaction has not merged yet.
    for record in [&ranges, &filter, &files] {
        let kept = shred_bytes(record) as f64 / (2 * family_bytes(1)) as f64;
        assert!((40.0..100.0).contains(&kept), "{kept} slots are left");
    }
}

#[test]
fn retention_that_removes_nothing_is_seen() {
    let bench = Bench::new();
    let hoarder = bench.record(&trial(blockstore(), fifo(family_bytes(1_000))));
    assert_eq!(hoarder.metrics["overdue_percent"], 100.0);
    let kept = shred_bytes(&hoarder) as f64 / (2 * family_bytes(1)) as f64;
    assert!(kept > 130.0, "{kept} slots are left");
    // Of which 64 are to be kept.
    assert!(hoarder.metrics["space_amplification"] > 1.5, "{}", hoarder.metrics["space_amplification"]);
}

#[test]
fn rows_dangle_when_files_go_before_their_slots() {
    let bench = Bench::new();
    let short = bench.record(&trial(blockstore(), fifo(family_bytes(24))));
    // Metadata of 64 slots are there, shreds of 24.
    assert!(short.metrics["dangling_rows"] > 20.0, "{}", short.metrics["dangling_rows"]);
    let ranges = bench.record(&trial(blockstore(), with(level(), &[("retention", "rangeDelete")])));
    assert_eq!(ranges.metrics["dangling_rows"], 0.0);
}

#[test]
fn the_lock_changes_who_waits_and_not_what_is_done() {
    let bench = Bench::new();
    let run = |lock| bench.record(&trial(blockstore(), with(level(), &[("insertLock", lock)]))).work;
    let locked = run("global");
    assert_eq!(run("none"), locked);
    // The lock is the default.
    assert_eq!(bench.record(&trial(blockstore(), level())).work, locked);
}

#[test]
fn data_of_level_compaction_open_under_fifo() {
    let bench = Bench::new();
    let mut migrated = trial(blockstore(), fifo(family_bytes(64)));
    migrated.dataset.format = level();
    migrated.dataset.from = Some("level".to_owned());
    let record = bench.record(&migrated);
    assert_eq!(record.work.wrong_answers, 0);
    assert!(record.metrics["overdue_percent"] < 50.0, "{}", record.metrics["overdue_percent"]);
}

#[test]
fn a_spec_that_does_not_fit_is_refused() {
    let ran = Bench::new().run(&trial(Blockstore { slots: 81, ..blockstore() }, level()));
    assert_eq!(ran.code(), Some(2), "{}", ran.stderr());
    assert!(ran.stderr().contains("blockstore.slots"), "{}", ran.stderr());
}
