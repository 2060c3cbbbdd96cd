//! The history indices of reth, as RocksDB has written them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use assay_protocol::{EngineConfig, FamilyOptions, RethHistory, TrialRecord, TrialSpec, Workload};
use rocksdb::{DB, IteratorMode, Options};
use support::{
    Bench, entries, options,
    wal::{self, Put},
};

const TRANSACTIONS: u32 = 1;
const ACCOUNTS: u32 = 2;
const SLOTS: u32 = 3;
const SAVES: u64 = 6;

fn workload() -> RethHistory {
    RethHistory {
        blocks: 40,
        warmup_blocks: 20,
        mgas_per_block: 30,
        accounts: 100_000,
        storage_slots: 200_000,
        blocks_per_save: 10,
        save_backlog: 2,
        kilohashes_per_mgas: 1,
    }
}

/// Few keys, so that it takes seconds.
fn small() -> RethHistory {
    RethHistory { mgas_per_block: 3, accounts: 3000, storage_slots: 6000, ..workload() }
}

fn spec(workload: RethHistory) -> TrialSpec {
    let generic = support::spec(support::workload(Vec::new()));
    TrialSpec { workload: Workload::RethHistory(workload), cpus: 2, ..generic }
}

fn family(name: &str, pairs: &[(&str, &str)]) -> FamilyOptions {
    FamilyOptions { r#match: vec![name.to_owned()], ..options(pairs).column_families.remove(0) }
}

/// A trial with all that it wrote.
fn written(spec: &TrialSpec) -> (TrialRecord, Vec<Vec<Put>>) {
    let bench = Bench::new();
    let mut spec = spec.clone();
    let dir = bench.dir.path().join("wal");
    wal::keep(&mut spec.config, &dir);
    let record = bench.record(&spec);
    (record, wal::read(&dir))
}

/// Entries and containers of a serialised shard.
fn shard(value: &[u8]) -> (u64, u64) {
    let containers = u64::from(u32::from_le_bytes(value[16..20].try_into().unwrap()));
    let cardinalities = value[20..20 + 4 * containers as usize].chunks(4);
    let entries = cardinalities.map(|header| u64::from(u16::from_le_bytes([header[2], header[3]])) + 1).sum();
    (entries, containers)
}

fn highest(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[key.len() - 8..].try_into().unwrap())
}

#[test]
fn the_wal_is_what_reth_writes() {
    let (record, batches) = written(&spec(workload()));
    assert_eq!(batches.len() as u64, 3 * SAVES, "each save makes three batches");
    for (batch, number) in batches.iter().zip(0..) {
        assert!(batch.iter().all(|put| put.family == number % 3 + 1), "each has its own family");
        if number % 3 > 0 {
            assert!(batch.is_sorted_by(|a, b| a.key < b.key), "histories are in the order of keys");
        }
    }

    let (mut bytes, mut sealed) = (BTreeMap::<u32, usize>::new(), 0);
    let mut hashes = Vec::new();
    for put in batches.iter().flatten() {
        *bytes.entry(put.family).or_default() += put.key.len() + put.value.len();
        match put.family {
            TRANSACTIONS => {
                assert_eq!((put.key.len(), put.value.len()), (32, 4));
                hashes.push((&put.key, &put.value));
                continue;
            }
            ACCOUNTS => assert_eq!(put.key.len(), 28),
            SLOTS => assert_eq!(put.key.len(), 60),
            other => panic!("family {other}"),
        }
        let (entries, containers) = shard(&put.value);
        assert_eq!(put.value.len() as u64, 20 + 8 * containers + 2 * entries);
        assert!((1..=2000).contains(&entries));
        if highest(&put.key) < u64::MAX {
            sealed += 1;
            assert_eq!(entries, 2000);
        }
    }
    assert!(sealed > 0);
    assert!(hashes.is_sorted_by(|a, b| a.1 < b.1), "transactions are in the order of blocks,");
    let ascents = hashes.windows(2).filter(|pair| pair[0].0 < pair[1].0).count() as f64 / hashes.len() as f64;
    assert!((ascents - 0.5).abs() < 0.02, "{ascents}: and random among keys");

    // What the documentation of the workload says, in percent.
    let total = bytes.values().sum::<usize>() as f64;
    for (family, expected) in [(TRANSACTIONS, 2.1), (ACCOUNTS, 36.0), (SLOTS, 62.0)] {
        let share = 100.0 * bytes[&family] as f64 / total;
        assert!((share / expected - 1.0).abs() < 0.1, "family {family}: {share:.2} % instead of {expected} %");
    }

    let counts = record.work.counts["saves"];
    let of_window: Vec<&Put> = batches[6..].iter().flatten().collect();
    assert_eq!(counts.puts, of_window.len() as u64);
    let growing = of_window.iter().filter(|put| put.family != TRANSACTIONS && highest(&put.key) == u64::MAX).count();
    assert_eq!(counts.gets, growing as u64, "one get for each put of a growing shard");
    let overwritten = counts.gets_found as f64 / counts.gets as f64;
    assert!(overwritten > 0.9 && overwritten < 0.97, "{overwritten}");
    assert_eq!(record.work.wrong_answers, 0);
    assert_eq!(counts.deletes + counts.scans, 0);
}

#[test]
fn the_dataset_is_most_short_histories_and_few_long_ones() {
    let bench = Bench::new();
    bench.record(&spec(workload()));
    let [dataset] = &entries(&bench.data().join("datasets"))[..] else { panic!("one dataset") };
    let families = ["default"].iter().chain(RethHistory::FAMILIES);
    let db = DB::open_cf_for_read_only(&Options::default(), dataset.join("db"), families, false).unwrap();
    let all = |family: &str| {
        let items = db.iterator_cf(db.cf_handle(family).unwrap(), IteratorMode::Start);
        items.map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(all("TransactionHashNumbers").len(), 400_000);
    for (name, key, owners) in [("AccountsHistory", 28, 100_000), ("StoragesHistory", 60, 200_000)] {
        let shards = all(name);
        assert!(shards.iter().all(|(found, _)| found.len() == key));
        let (growing, sealed): (Vec<_>, Vec<_>) = shards.iter().partition(|(key, _)| highest(key) == u64::MAX);
        assert_eq!(growing.len(), owners);
        assert!(sealed.iter().all(|(_, value)| shard(value).0 == 2000));
        let share = |of: &dyn Fn(u64) -> bool| {
            growing.iter().filter(|(_, value)| of(shard(value).0)).count() as f64 / owners as f64
        };
        assert!(share(&|entries| entries <= 3) > 0.5, "{name}: most have few entries");
        let long = share(&|entries| entries > 100);
        assert!(long > 0.01 && long < 0.05, "{name}: {long} have many");
        assert!(!sealed.is_empty() && sealed.len() < owners / 500, "{name}: {} are full", sealed.len());
    }
}

#[test]
fn hashes_hardly_compress() {
    // RocksDB keeps a block as it is where compression saves less than an eighth, which is more than it saves here: it is told
    // to keep whatever is smaller.
    let bench = Bench::new();
    let mut spec = spec(RethHistory { accounts: 20_000, storage_slots: 20_000, ..workload() });
    let packed = [("compression", "kLZ4Compression"), ("compression_opts", "{max_compressed_bytes_per_kb=1024;}")];
    spec.config.column_families = vec![
        family("*", &[("compression", "kNoCompression"), ("block_based_table_factory", "{block_size=16384;}")]),
        family("TransactionHashNumbers", &packed),
        family("TransactionHashNumbers", &[("write_buffer_size", "64K")]),
    ];
    spec.dataset.format = spec.config.clone();
    let record = bench.record(&spec);
    let ticker = |name: &str| record.tickers.get(name).copied().unwrap_or_default() as f64;
    let ratio = ticker("rocksdb.bytes.compressed.to") / ticker("rocksdb.bytes.compressed.from");
    assert!((ratio - 0.89).abs() < 0.05, "{ratio}");
}

#[test]
fn every_config_does_the_same_work() {
    let bench = Bench::new();
    let first = bench.record(&spec(small()));
    assert_eq!(bench.record(&spec(small())).work, first.work, "and so does the same one again");
    let mut synced = spec(small());
    synced.config = EngineConfig {
        column_families: options(&[("write_buffer_size", "64K")]).column_families,
        ..EngineConfig::default()
    };
    synced.config.write_options.sync = true;
    let synced = bench.record(&synced);
    assert_eq!(synced.work, first.work);
    assert!(synced.evidence.engagement.flushes.unwrap() > first.evidence.engagement.flushes.unwrap());
    let wal_syncs = |record: &TrialRecord| record.tickers.get("rocksdb.wal.synced").copied().unwrap_or_default();
    assert!(wal_syncs(&synced) >= 3 * 4 && wal_syncs(&first) < 3 * 4, "each batch is synced");
    let mut other = spec(small());
    other.seed = 2;
    assert_ne!(bench.record(&other).work.hash, first.work.hash);
}

#[test]
fn execution_feels_saves_only_when_they_are_too_many() {
    let share = |kilohashes_per_mgas, save_backlog| {
        let record = Bench::new().record(&spec(RethHistory { kilohashes_per_mgas, save_backlog, ..small() }));
        let time = &record.evidence.role_time["execution"];
        assert!(time.db_seconds + time.compute_seconds + time.generator_seconds <= time.wall_seconds * 1.001);
        assert_eq!(record.latency["execution"].count, 40);
        assert_eq!(record.latency["saves"].count, 4);
        assert!(record.metrics["save_latency_mean"] > 0.0);
        let per_step = record.metrics["gas_throughput"] / record.metrics["throughput"];
        assert!((per_step - 3.0).abs() < 1e-9, "{per_step}");
        time.db_seconds / time.wall_seconds
    };
    // A block takes long, so saves are always done in time; and none at all, so that execution waits for each.
    let (free, bound) = (share(1000, 100), share(0, 1));
    assert!(free < bound / 10.0, "{free} and {bound}");
}

#[test]
fn a_wrong_answer_is_seen() {
    let bench = Bench::new();
    let good = spec(small());
    let wrong = |record: &TrialRecord| record.work.wrong_answers;
    assert_eq!(wrong(&bench.record(&good)), 0);
    let [dataset] = &entries(&bench.data().join("datasets"))[..] else { panic!("one dataset") };
    let families = ["default"].iter().chain(RethHistory::FAMILIES);
    let db = DB::open_cf(&Options::default(), dataset.join("db"), families).unwrap();
    for name in ["AccountsHistory", "StoragesHistory"] {
        let handle = db.cf_handle(name).unwrap();
        let items: Vec<_> = db.iterator_cf(handle, IteratorMode::Start).map(Result::unwrap).collect();
        for (key, value) in items {
            let mut value = value.to_vec();
            // The number of entries in the first container.
            value[22] ^= 1;
            db.put_cf(handle, key, value).unwrap();
        }
        db.flush_cf(handle).unwrap();
    }
    drop(db);
    let record = bench.record(&good);
    let found = record.work.counts["saves"].gets_found;
    assert!(wrong(&record) > found / 10, "{} of {found}", wrong(&record));
}
