//! By whose rules an open database is compacted.

use std::collections::BTreeSet;

use assay_protocol::{EngineConfig, PageCache};
use tempfile::TempDir;

use super::{Attestor, Engine, families, family};
use crate::engine::options_file::OptionMap;

/// The options of an open database after it has taken over the baseline's triggers, and what it could not take over.
fn taken_over(baseline: &EngineConfig, config: &EngineConfig) -> (OptionMap, BTreeSet<String>) {
    let dir = TempDir::new().unwrap();
    let attestor = Attestor::new(dir.path(), baseline, config, &|_| families(), PageCache::Evict).unwrap();
    let measured = dir.path().join("db");
    let engine = Engine::open(&measured, config, &families(), PageCache::Evict).unwrap();
    let kept = engine.compact_like(&attestor.config.options, &attestor.baseline.options).unwrap();
    (OptionMap::read(&measured).unwrap(), kept)
}

#[test]
fn an_open_database_takes_over_when_compaction_is_due_and_nothing_else() {
    let own = [
        ("disable_auto_compactions", "true"),
        ("level0_file_num_compaction_trigger", "40"),
        ("max_bytes_for_level_base", "1G"),
        ("max_bytes_for_level_multiplier", "20"),
        ("max_bytes_for_level_multiplier_additional", "{1:1:1:1:1:1:2}"),
        ("periodic_compaction_seconds", "1000"),
        ("ttl", "2000"),
        ("compaction_options_universal", "{size_ratio=50;min_merge_width=9}"),
        ("blob_garbage_collection_age_cutoff", "0.5"),
        ("blob_garbage_collection_force_threshold", "0.5"),
        ("enable_blob_garbage_collection", "true"),
        ("read_triggered_compaction_threshold", "0.5"),
        // How it is done.
        ("target_file_size_base", "8M"),
        ("write_buffer_size", "1M"),
    ];
    let baseline = family("hot", &[("level0_file_num_compaction_trigger", "2"), ("ttl", "3000")]);
    let config = family("hot", &own);
    let (options, kept) = taken_over(&baseline, &config);
    assert_eq!(kept, BTreeSet::new());
    let dir = TempDir::new().unwrap();
    let both = [&baseline, &config].map(|config| {
        Attestor::new(dir.path(), config, config, &|_| families(), PageCache::Evict).unwrap().config.options
    });
    for (name, _) in own {
        let mut expected =
            both[usize::from(["target_file_size_base", "write_buffer_size"].contains(&name))].get("hot", name);
        if name == "disable_auto_compactions" {
            expected = Some("false");
        }
        assert_eq!(options.get("hot", name), expected, "{name}");
        assert_ne!(both[0].get("hot", name), both[1].get("hot", name), "{name}");
    }
    assert_eq!(options.scopes["cold"], both[1].scopes["cold"]);
}

#[test]
fn compaction_is_on_even_if_the_baseline_has_none() {
    let off = family("*", &[("disable_auto_compactions", "true")]);
    let (options, kept) = taken_over(&off, &off);
    assert_eq!((options.get("cold", "disable_auto_compactions"), kept), (Some("false"), BTreeSet::new()));
}

#[test]
fn what_is_fixed_at_the_opening_is_told() {
    let universal = family("hot", &[("compaction_style", "kCompactionStyleUniversal"), ("ttl", "1000")]);
    let (options, kept) = taken_over(&EngineConfig::default(), &universal);
    assert!(kept.contains("compaction_style"), "{kept:?}");
    assert_eq!(options.get("hot", "ttl"), Some("1000"), "a trigger means something else under another style");
    let many = [("compaction_style", "kCompactionStyleUniversal"), ("level0_file_num_compaction_trigger", "400")];
    let (options, _) = taken_over(&EngineConfig::default(), &family("hot", &many));
    assert_eq!(options.get("hot", "level0_file_num_compaction_trigger"), Some("4"), "but for the number of runs");
    let levels = family("hot", &[("num_levels", "3")]);
    assert_eq!(taken_over(&EngineConfig::default(), &levels).1, BTreeSet::from(["num_levels".to_owned()]));
}

/// Files that are dropped earlier than the config says would be data that readers miss.
#[test]
fn nothing_is_dropped_that_the_config_keeps() {
    let fifo = |ttl: &'static str| family("hot", &[("compaction_style", "kCompactionStyleFIFO"), ("ttl", ttl)]);
    let (options, kept) = taken_over(&fifo("1000"), &fifo("100000"));
    assert_eq!((options.get("hot", "ttl"), kept), (Some("100000"), BTreeSet::new()));
    // Nor is any work owed beside another style.
    assert_eq!(taken_over(&EngineConfig::default(), &fifo("100000")).1, BTreeSet::new());
}

/// Without tables of blocks RocksDB has no TTL, and takes none.
#[test]
fn what_rocksdb_refuses_is_told_and_the_rest_taken_over() {
    let plain = [("table_factory", "PlainTable"), ("level0_file_num_compaction_trigger", "40")];
    let (options, kept) = taken_over(&family("hot", &[("ttl", "3000")]), &family("hot", &plain));
    assert!(kept.contains("ttl"), "{kept:?}");
    assert_eq!(options.get("hot", "level0_file_num_compaction_trigger"), Some("4"));
}

#[test]
fn how_universal_compaction_works_stays_the_configs_own() {
    let universal = |own: &'static str| {
        family("hot", &[("compaction_style", "kCompactionStyleUniversal"), ("compaction_options_universal", own)])
    };
    let baseline = universal("{size_ratio=10;max_size_amplification_percent=100}");
    let (options, kept) =
        taken_over(&baseline, &universal("{size_ratio=50;min_merge_width=9;compression_size_percent=70}"));
    let found = options.declared("hot", "compaction_options_universal.size_ratio");
    assert_eq!((found.as_deref(), kept), (Some("10"), BTreeSet::new()));
    let key = |key: &str| options.declared("hot", &format!("compaction_options_universal.{key}"));
    assert_eq!(key("min_merge_width").as_deref(), Some("2"));
    assert_eq!(key("max_size_amplification_percent").as_deref(), Some("100"));
    assert_eq!(key("compression_size_percent").as_deref(), Some("70"));
}
