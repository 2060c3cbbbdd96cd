//! Whether the `ethrex` workload makes the database that it is named after: asserted from the files that RocksDB wrote.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use assay_protocol::{EngineConfig, Ethrex, TrialRecord, TrialSpec, Workload};
use rocksdb::{DB, IteratorMode, Options};
use support::{Bench, entries, options, spec, workload};

/// The main network's accounts and slots, so many times smaller.
const SCALE: u64 = 10_000;

fn ethrex() -> Ethrex {
    Ethrex {
        blocks: 20,
        warmup_blocks: 20,
        mgas_per_block: 2,
        accounts: 225_000_000 / SCALE,
        storage_slots: 1_070_000_000 / SCALE,
        commit_depth: 15,
        block_interval_millis: None,
    }
}

fn trial(workload_spec: Ethrex, config: EngineConfig) -> TrialSpec {
    let mut trial = spec(workload(Vec::new()));
    trial.workload = Workload::Ethrex(workload_spec);
    trial.dataset.format = config.clone();
    trial.config = config;
    trial
}

/// The client's own block and level sizes, these scaled like the data. A block is stored compressed however little that saves, because
/// what the codec makes of the data is the question here.
fn format(compression: &str) -> EngineConfig {
    options(&[
        ("compression", compression),
        ("compression_opts", "{max_compressed_bytes_per_kb=1024}"),
        ("block_based_table_factory", "{block_size=16384;filter_policy=bloomfilter:10:false}"),
        ("write_buffer_size", "512K"),
        ("max_bytes_for_level_base", &((256 << 20) / SCALE).to_string()),
        ("target_file_size_base", "1M"),
    ])
}

/// What the files of a family hold.
#[derive(Debug, Default)]
struct Family {
    entries: u64,
    /// Bytes of the data blocks, as they are in the files.
    data_bytes: f64,
    keys: BTreeSet<usize>,
    values: BTreeMap<usize, u64>,
}

fn families(dataset: &Path) -> BTreeMap<String, Family> {
    let dir = dataset.join("db");
    let names = DB::list_cf(&Options::default(), &dir).unwrap();
    let db = DB::open_cf_for_read_only(&Options::default(), &dir, &names, false).unwrap();
    let read = |name: &String| {
        let handle = db.cf_handle(name).unwrap();
        let mut family = Family::default();
        for item in db.iterator_cf(handle, IteratorMode::Start) {
            let (key, value) = item.unwrap();
            family.entries += 1;
            family.keys.insert(key.len());
            *family.values.entry(value.len()).or_default() += 1;
        }
        let properties = db.property_value_cf(handle, "rocksdb.aggregated-table-properties").unwrap().unwrap();
        let bytes = properties.split(';').find_map(|property| property.trim().strip_prefix("data block size="));
        family.data_bytes = bytes.unwrap().parse().unwrap();
        (name.clone(), family)
    };
    names.iter().filter(|name| Ethrex::FAMILIES[..4].contains(&name.as_str())).map(read).collect()
}

#[test]
fn the_state_is_as_large_and_as_compressible_as_the_real_one() {
    let one_block = Ethrex { blocks: 1, warmup_blocks: 0, ..ethrex() };
    let made = |compression: &str| {
        let bench = Bench::new();
        let record = bench.record(&trial(one_block.clone(), format(compression)));
        let [dataset] = &entries(&bench.data().join("datasets"))[..] else { panic!("one dataset") };
        (record, families(dataset))
    };
    let (record, plain) = made("kNoCompression");
    let lengths = |name: &str| (*plain[name].keys.first().unwrap(), *plain[name].keys.last().unwrap());
    assert_eq!(lengths("account_flatkeyvalue"), (65, 65));
    assert_eq!(lengths("storage_flatkeyvalue"), (131, 131));
    let (account_root, account_leaf) = lengths("account_trie_nodes");
    assert!(account_root == 0 && (4..=9).contains(&account_leaf), "{account_leaf}");
    let (storage_root, storage_leaf) = lengths("storage_trie_nodes");
    assert!(storage_root == 66 && (70..=76).contains(&storage_leaf), "{storage_leaf}");
    // Of each kind of node in the trie where no leaf has its length.
    for (trie, length, kind, shares) in [
        ("account_trie_nodes", 532, "full branches", 0.01..0.03),
        ("storage_trie_nodes", 532, "full branches", 0.01..0.03),
        ("account_trie_nodes", 35, "extensions", 0.01..0.04),
        ("storage_trie_nodes", 115, "sparse branches", 0.2..0.3),
    ] {
        let share = plain[trie].values[&length] as f64 / plain[trie].entries as f64;
        assert!(shares.contains(&share), "{share} of {trie} are {kind}");
    }
    for family in &Ethrex::FAMILIES[..4] {
        // The one that the real sizes lead to.
        assert_eq!(record.families[*family].base_level, Some(3), "{family}");
    }

    // The shares that the module derives from the main network's counts.
    let all: f64 = plain.values().map(|family| family.data_bytes).sum();
    for (name, percent) in [
        ("account_flatkeyvalue", 10.5),
        ("storage_flatkeyvalue", 31.2),
        ("account_trie_nodes", 13.6),
        ("storage_trie_nodes", 44.8),
    ] {
        let share = 100.0 * plain[name].data_bytes / all;
        assert!((share / percent - 1.0).abs() < 0.1, "{name} has {share:.1} % of the bytes instead of {percent} %");
    }

    // What the codecs make of keccak keys and RLP values in blocks of this size.
    let (lz4, zstd) = (made("kLZ4Compression").1, made("kZSTD").1);
    for (name, by_lz4, by_zstd) in [
        ("account_flatkeyvalue", 0.56, 0.40),
        ("storage_flatkeyvalue", 0.87, 0.61),
        ("account_trie_nodes", 0.64, 0.61),
        ("storage_trie_nodes", 0.88, 0.86),
    ] {
        for (codec, compressed, expected) in [("LZ4", &lz4, by_lz4), ("Zstd", &zstd, by_zstd)] {
            let ratio = compressed[name].data_bytes / plain[name].data_bytes;
            assert!((ratio - expected).abs() < 0.05, "{codec} makes {ratio:.3} of {name} instead of {expected}");
        }
    }

    let volume = record.spec.workload.kind().volume();
    assert!((volume.loaded_entries / record.dataset.entries as f64 - 1.0).abs() < 0.2, "{:?}", record.dataset);
    let estimated = volume.loaded_entries * 16.0 + volume.loaded_bytes * volume.compressed;
    assert!((estimated / record.dataset.sst_bytes as f64 - 1.0).abs() < 0.2, "{estimated}: {:?}", record.dataset);
}

#[test]
fn blocks_read_and_write_what_they_should() {
    let bench = Bench::new();
    // Without a warm-up the record counts what the estimate does.
    let spec = Ethrex { blocks: 40, warmup_blocks: 0, ..ethrex() };
    let record = bench.record(&trial(spec.clone(), format("kNoCompression")));
    let counts = record.work.counts["blocks"];
    assert_eq!(record.work.wrong_answers, 0);

    let volume = record.spec.workload.kind().volume();
    let written = (counts.puts + counts.deletes) as f64;
    assert!((volume.written_entries / written - 1.0).abs() < 0.2, "{volume:?}: {counts:?}");
    assert!((volume.written_bytes / counts.bytes_written as f64 - 1.0).abs() < 0.2, "{volume:?}: {counts:?}");
    // The WAL says the same.
    let wal = record.metrics["wal_bytes"] / counts.bytes_written as f64;
    assert!((1.0..1.1).contains(&wal), "{wal}");

    let state = written - chain_records(&spec, 40) as f64;
    let per_write = counts.gets as f64 / 40.0 / (state / 25.0);
    assert!((1.5..4.0).contains(&per_write), "{per_write} reads per write");
    let missed = (counts.gets - counts.gets_found) as f64 / counts.gets as f64;
    assert!((0.02..0.1).contains(&missed), "{missed}");
    // Bloom filters answer for what isn't there.
    let filtered = record.tickers["rocksdb.bloom.filter.useful"];
    assert!(filtered as f64 > 0.9 * (counts.gets - counts.gets_found) as f64, "{filtered}: {counts:?}");
    let deleted = counts.deletes as f64 / state;
    assert!((0.02..0.08).contains(&deleted), "{deleted}");
}

/// A header, a body and two numbers, and of each transaction a receipt and a location.
fn chain_records(spec: &Ethrex, blocks: u64) -> u64 {
    blocks * (4 + 2 * spec.content_of_block().transactions)
}

#[test]
fn state_is_written_only_when_enough_blocks_lie_over_it() {
    let bench = Bench::new();
    let state_records = |record: &TrialRecord, spec: &Ethrex| {
        let counts = record.work.counts["blocks"];
        counts.puts + counts.deletes - chain_records(spec, spec.blocks)
    };
    let shallow = Ethrex { blocks: 10, warmup_blocks: 5, ..ethrex() };
    assert_eq!(shallow.blocks_that_write_state(), 0);
    let record = bench.record(&trial(shallow.clone(), format("kNoCompression")));
    assert_eq!(state_records(&record, &shallow), 0);
    assert_eq!(record.work.counts["blocks"].deletes, 0);

    let deep = Ethrex { blocks: 10, warmup_blocks: 15, ..ethrex() };
    assert_eq!(deep.blocks_that_write_state(), 10);
    let record = bench.record(&trial(deep.clone(), format("kNoCompression")));
    let all = state_records(&record, &deep);
    assert!(all > 1000, "{all}");

    let between = Ethrex { blocks: 10, warmup_blocks: 10, ..ethrex() };
    assert_eq!(between.blocks_that_write_state(), 5);
    let record = bench.record(&trial(between.clone(), format("kNoCompression")));
    let half = state_records(&record, &between) as f64 / all as f64;
    assert!((0.4..0.6).contains(&half), "{half}");
}

#[test]
fn every_config_gets_the_same_work() {
    let bench = Bench::new();
    let spec = Ethrex { blocks: 10, ..ethrex() };
    let plain = bench.record(&trial(spec.clone(), format("kNoCompression")));
    let again = bench.record(&trial(spec.clone(), format("kNoCompression")));
    let packed = bench.record(&trial(spec.clone(), format("kZSTD")));
    assert_eq!(plain.work, again.work);
    assert_eq!(plain.work, packed.work);
    assert_eq!(plain.dataset.content, packed.dataset.content);
    assert!(packed.dataset.sst_bytes < plain.dataset.sst_bytes);
    let mut other = trial(spec, format("kNoCompression"));
    other.seed += 1;
    assert_ne!(bench.record(&other).work.hash, plain.work.hash);
}
