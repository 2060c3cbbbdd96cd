//! Attestation against the real library: what it does with declarations, not what its documentation says.

#![allow(clippy::unwrap_used, clippy::panic)]

mod drain;
mod mistakes;
mod spelling;
mod sweep;

use std::collections::BTreeMap;

use assay_protocol::{
    BlockCache, EngineConfig, FamilyOptions, METRICS, OptionFact, OptionStatus, OptionsAnswer, OptionsQuestion,
    PageCache,
};
use rocksdb::statistics::{Histogram, Ticker};
use tempfile::TempDir;

use super::{Attestor, Engine, Family, Properties as _, options_answer};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn db(pairs: &[(&str, &str)]) -> EngineConfig {
    EngineConfig { db_options: map(pairs), ..EngineConfig::default() }
}

fn family(glob: &str, pairs: &[(&str, &str)]) -> EngineConfig {
    EngineConfig {
        column_families: vec![FamilyOptions { r#match: vec![glob.to_owned()], options: map(pairs) }],
        ..EngineConfig::default()
    }
}

fn families() -> Vec<Family> {
    ["default", "hot", "cold"].map(Family::new).to_vec()
}

fn facts(baseline: &EngineConfig, config: &EngineConfig) -> Vec<OptionFact> {
    let dir = TempDir::new().unwrap();
    let attestor = Attestor::new(dir.path(), baseline, config, &|_| families(), PageCache::Evict).unwrap();
    let measured = dir.path().join("db");
    let engine = Engine::open(&measured, config, &families(), PageCache::Evict).unwrap();
    drop(engine);
    let attestation = attestor.attest(&measured).unwrap();
    assert_eq!(attestation.config_options, attestation.effective_options);
    attestation.facts
}

/// The status of one option in one scope.
fn status(facts: &[OptionFact], scope: &str, option: &str) -> Option<OptionStatus> {
    facts.iter().find(|fact| fact.scope == scope && fact.option == option).map(|fact| fact.status)
}

fn ask(baseline: &EngineConfig, config: EngineConfig) -> OptionsAnswer {
    let dir = TempDir::new().unwrap();
    let question = OptionsQuestion {
        families: families().into_iter().map(|family| family.name).collect(),
        baseline: baseline.clone(),
        configs: BTreeMap::from([("c".to_owned(), config)]),
        page_cache: PageCache::Evict,
    };
    options_answer(&question, dir.path()).unwrap()
}

#[test]
fn an_equal_config_has_no_facts() {
    assert_eq!(facts(&EngineConfig::default(), &EngineConfig::default()), []);
}

#[test]
fn a_glob_applies_to_its_families_only() {
    let facts = facts(&EngineConfig::default(), &family("*o*", &[("target_file_size_base", "8M")]));
    assert_eq!(status(&facts, "hot", "target_file_size_base"), Some(OptionStatus::Applied));
    assert_eq!(status(&facts, "cold", "target_file_size_base"), Some(OptionStatus::Applied));
    assert_eq!(status(&facts, "default", "target_file_size_base"), None);
}

#[test]
fn what_rocksdb_derives_is_implied_not_declared() {
    let facts = facts(&EngineConfig::default(), &family("hot", &[("level0_file_num_compaction_trigger", "40")]));
    assert_eq!(status(&facts, "hot", "level0_file_num_compaction_trigger"), Some(OptionStatus::Applied));
    assert_eq!(status(&facts, "hot", "level0_slowdown_writes_trigger"), Some(OptionStatus::Implied));
    assert_eq!(status(&facts, "hot", "level0_stop_writes_trigger"), Some(OptionStatus::Implied));
}

#[test]
fn what_rocksdb_corrects_is_sanitised() {
    // Below 64 KiB RocksDB takes 64 KiB.
    let facts = facts(&EngineConfig::default(), &family("hot", &[("write_buffer_size", "4096")]));
    let fact = facts.iter().find(|fact| fact.option == "write_buffer_size").unwrap();
    assert_eq!(fact.status, OptionStatus::Sanitised);
    assert_eq!(fact.effective.as_deref(), Some("65536"));
    let named = ask(&EngineConfig::default(), family("hot", &[("write_buffer_size", "4096")]));
    assert_eq!(named.sanitised.len(), 1);
    // The baseline's own settings are looked at in the same way.
    let config = family("hot", &[("write_buffer_size", "4096")]);
    let own = super::tests::facts(&config, &config);
    assert_eq!(status(&own, "hot", "write_buffer_size"), Some(OptionStatus::Sanitised));
}

#[test]
fn what_is_not_serialised_is_seen_otherwise() {
    let base = EngineConfig::default();
    let limited = facts(&base, &db(&[("rate_limiter_bytes_per_sec", "104857600")]));
    assert_eq!(
        status(&limited, "db", "rate_limiter_bytes_per_sec"),
        Some(OptionStatus::AppliedNotSerialised),
        "{limited:?}"
    );
    let unlimited = facts(&base, &db(&[("max_background_jobs", "7")]));
    assert_eq!(status(&unlimited, "db", "rate_limiter_bytes_per_sec"), None);
    let cached = facts(&base, &family("hot", &[("blob_cache", "8M")]));
    assert_eq!(cached.len(), 1, "{cached:?}");
    assert_eq!(status(&cached, "hot", "blob_cache"), Some(OptionStatus::AppliedNotSerialised));
    for shared in [true, false] {
        let cache = EngineConfig { block_cache: Some(BlockCache { bytes: 8 << 20, shared }), ..base.clone() };
        let facts = facts(&base, &cache);
        assert_eq!(status(&facts, "db", "blockCache"), Some(OptionStatus::AppliedNotSerialised), "{facts:?}");
    }
}

#[test]
fn a_block_cache_survives_declared_table_options() {
    let mut config = family("*", &[("block_based_table_factory", "{block_size=16384;}")]);
    config.block_cache = Some(BlockCache { bytes: 8 << 20, shared: true });
    let facts = facts(&EngineConfig::default(), &config);
    assert_eq!(status(&facts, "db", "blockCache"), Some(OptionStatus::AppliedNotSerialised));
    assert_eq!(status(&facts, "hot", "block_based_table_factory.block_size"), Some(OptionStatus::Applied));

    let dir = TempDir::new().unwrap();
    let engine = Engine::open(dir.path(), &config, &families(), PageCache::Evict).unwrap();
    assert_eq!(engine.family_property("hot", "rocksdb.block-cache-capacity"), Some(8 << 20));
}

#[test]
fn silently_ignored_keys_are_inert() {
    let base = EngineConfig::default();
    let ignored = ask(&base, family("hot", &[("compaction_filter", "x")]));
    assert!(!ignored.inert.is_empty() || !ignored.problems.is_empty(), "{ignored:?}");
    assert!(!ignored.all_inert.is_empty() || !ignored.problems.is_empty(), "{ignored:?}");
}

#[test]
fn options_of_the_wrong_scope_are_inert() {
    let base = EngineConfig::default();
    let at_db = ask(&base, db(&[("write_buffer_size", "1M")]));
    assert_eq!(at_db.all_inert, ["c"]);
    assert!(at_db.inert[0].message.contains("columnFamilies"), "{at_db:?}");
    let at_family = ask(&base, family("hot", &[("max_background_jobs", "7")]));
    assert_eq!(at_family.all_inert, ["c"]);
    assert!(at_family.inert[0].message.contains("dbOptions"), "{at_family:?}");
}

#[test]
fn what_the_baseline_has_already_is_inert() {
    let base = family("*", &[("write_buffer_size", "64M")]);
    let same = ask(&base, family("*", &[("write_buffer_size", "67108864")]));
    assert_eq!(same.all_inert, ["c"]);
    let partly = ask(&base, family("*", &[("write_buffer_size", "67108864"), ("compression", "kNoCompression")]));
    assert!(partly.all_inert.is_empty(), "{partly:?}");
    assert!(!partly.inert.is_empty());
}

#[test]
fn unknown_options_are_named_with_a_suggestion() {
    let answer = ask(&EngineConfig::default(), family("hot", &[("write_bufer_size", "1M")]));
    assert_eq!(answer.problems.len(), 1);
    assert_eq!(answer.problems[0].option, "write_bufer_size");
    assert_eq!(answer.problems[0].suggestion.as_deref(), Some("write_buffer_size"));
    assert_eq!(answer.problems[0].message, "RocksDB has no such option");
    let known = ask(&EngineConfig::default(), family("hot", &[("write_buffer_size", "1M")]));
    assert_eq!(known.problems, []);
}

#[test]
fn bad_values_are_named() {
    for (option, value) in [("write_buffer_size", "many"), ("compression", "kBrotli"), ("write_buffer_size", "-1")] {
        let answer = ask(&EngineConfig::default(), family("hot", &[(option, value)]));
        assert_eq!(answer.problems.len(), 1, "{option}={value}: {answer:?}");
        assert!(answer.problems[0].message.contains(value), "{answer:?}");
    }
}

#[test]
fn numbers_that_rocksdb_reads_in_part_are_refused() {
    let refused = [
        ("write_buffer_size", "1.5G"),
        ("write_buffer_size", "128 MB"),
        ("max_bytes_for_level_base", "1e9"),
        ("block_based_table_factory", "{block_size=16384,cache_index_and_filter_blocks=true}"),
    ];
    for (option, value) in refused {
        let answer = ask(&EngineConfig::default(), family("hot", &[(option, value)]));
        assert_eq!(answer.problems.len(), 1, "{option}={value}: {answer:?}");
        assert!(answer.problems[0].message.contains("write a whole number"), "{answer:?}");
    }
    for (option, value) in [("write_buffer_size", "1536M"), ("max_bytes_for_level_multiplier", "1.5")] {
        let answer = ask(&EngineConfig::default(), family("hot", &[(option, value)]));
        assert_eq!((answer.problems, answer.sanitised), (vec![], vec![]), "{option}={value}");
    }
}

#[test]
fn keys_of_the_table_are_not_options_of_their_own() {
    let answer = ask(&EngineConfig::default(), family("hot", &[("block_size", "16384")]));
    let message = "this is part of another option: write block_based_table_factory: \"{block_size=16384}\"";
    assert_eq!(answer.problems[0].message, message);
    let answer = ask(&EngineConfig::default(), family("hot", &[("block_based_table_factory", "{blok_size=16384}")]));
    assert!(answer.problems[0].message.contains("blok_size"), "{answer:?}");
    assert!(!answer.problems[0].message.contains("no such option"), "{answer:?}");
}

#[test]
fn a_database_with_other_options_is_undeclared() {
    let dir = TempDir::new().unwrap();
    let config = family("hot", &[("write_buffer_size", "1M")]);
    let attestor =
        Attestor::new(dir.path(), &EngineConfig::default(), &config, &|_| families(), PageCache::Evict).unwrap();
    let other = family("hot", &[("write_buffer_size", "1M"), ("num_levels", "4")]);
    let measured = dir.path().join("db");
    drop(Engine::open(&measured, &other, &families(), PageCache::Evict).unwrap());
    let attestation = attestor.attest(&measured).unwrap();
    assert_ne!(attestation.config_options, attestation.effective_options);
    assert_eq!(status(&attestation.facts, "hot", "num_levels"), Some(OptionStatus::Undeclared));
}

#[test]
fn direct_io_is_the_same_for_every_config() {
    let dir = TempDir::new().unwrap();
    let base = EngineConfig::default();
    let direct = Attestor::new(dir.path(), &base, &base, &|_| families(), PageCache::Direct).unwrap();
    let measured = dir.path().join("db");
    drop(Engine::open(&measured, &base, &families(), PageCache::Direct).unwrap());
    let attestation = direct.attest(&measured).unwrap();
    assert_eq!(attestation.facts, []);
    assert_eq!(attestation.options["db"]["use_direct_reads"], "true");
}

#[test]
fn minus_one_is_fine_where_rocksdb_means_it() {
    let answer = ask(&db(&[("max_open_files", "100")]), db(&[("max_open_files", "-1")]));
    assert_eq!(answer.problems, []);
    assert_eq!(answer.inert, []);
}

#[test]
fn a_change_of_one_key_of_a_struct_keeps_the_others() {
    let base = family("*", &[("block_based_table_factory", "{block_size=16384;format_version=5;}")]);
    let mut config = base.clone();
    config.column_families.extend(family("*", &[("block_based_table_factory", "{block_size=8192;}")]).column_families);
    let facts = facts(&base, &config);
    assert_eq!(status(&facts, "hot", "block_based_table_factory.block_size"), Some(OptionStatus::Applied));
    assert!(!facts.iter().any(|fact| fact.option.ends_with("format_version")), "{facts:?}");
}

/// Two entries of a config for one family: RocksDB has the keys of both, so both are declared.
#[test]
fn keys_of_a_struct_in_several_entries_are_all_declared() {
    let mut config = family("*", &[("block_based_table_factory", "{block_size=16384;format_version=5}")]);
    config.column_families.extend(family("hot", &[("block_based_table_factory", "{block_size=8K}")]).column_families);
    let facts = facts(&EngineConfig::default(), &config);
    for (scope, option, value) in [
        ("hot", "block_based_table_factory.block_size", "8192"),
        ("hot", "block_based_table_factory.format_version", "5"),
        ("cold", "block_based_table_factory.block_size", "16384"),
    ] {
        let fact = facts.iter().find(|fact| fact.scope == scope && fact.option == option).unwrap();
        assert_eq!((fact.status, fact.effective.as_deref()), (OptionStatus::Applied, Some(value)), "{fact:?}");
    }
}

/// Settings of a published tuning that were declared for the whole database, and so reached no column family.
#[test]
fn settings_of_families_that_stand_on_the_database_are_all_named() {
    let settings = [
        ("level0_file_num_compaction_trigger", "8"),
        ("level0_slowdown_writes_trigger", "20"),
        ("level0_stop_writes_trigger", "36"),
        ("max_bytes_for_level_base", "2G"),
        ("target_file_size_base", "512M"),
        ("write_buffer_size", "128M"),
    ];
    let answer = ask(&EngineConfig::default(), db(&settings));
    assert_eq!(answer.all_inert, ["c"]);
    let named: Vec<&str> = answer.inert.iter().map(|note| note.option.as_str()).collect();
    assert_eq!(named, settings.map(|(name, _)| name));
    assert!(answer.inert.iter().all(|note| note.message.contains("declare it under columnFamilies")), "{answer:?}");
    // Where they belong, those that are not RocksDB's defaults reach it.
    let reached = ask(&EngineConfig::default(), family("hot", &settings));
    assert!(reached.all_inert.is_empty(), "{reached:?}");
    let defaults: Vec<&str> = reached.inert.iter().map(|note| note.option.as_str()).collect();
    assert_eq!(defaults, ["level0_slowdown_writes_trigger", "level0_stop_writes_trigger"]);
}

#[test]
fn a_filter_of_memtables_without_a_prefix_is_inert() {
    let base = EngineConfig::default();
    let ratio = ("memtable_prefix_bloom_size_ratio", "0.2");
    let alone = ask(&base, family("hot", &[ratio]));
    assert_eq!(alone.all_inert, ["c"], "{alone:?}");
    assert!(alone.inert[0].message.contains("prefix_extractor"), "{alone:?}");
    for other in [("memtable_whole_key_filtering", "true"), ("prefix_extractor", "rocksdb.FixedPrefix.8")] {
        let both = ask(&base, family("hot", &[ratio, other]));
        assert!(both.inert.is_empty() && both.all_inert.is_empty(), "{both:?}");
    }
    // Beside something that works it is named, and a trial's own record says the same.
    let config = family("hot", &[ratio, ("write_buffer_size", "1M")]);
    let partly = ask(&base, config.clone());
    assert!(partly.all_inert.is_empty() && partly.inert.len() == 1, "{partly:?}");
    let facts = facts(&base, &config);
    assert_eq!(status(&facts, "hot", ratio.0), Some(OptionStatus::Inert));
    assert_eq!(status(&facts, "hot", "write_buffer_size"), Some(OptionStatus::Applied));
    // So digests do not tell it from a config without it.
    let dir = TempDir::new().unwrap();
    let same = Attestor::new(dir.path(), &base, &family("hot", &[ratio]), &|_| families(), PageCache::Evict).unwrap();
    assert!(same.changes_nothing());
    // To take a filter away that there was is no such thing.
    let filtered = family("hot", &[ratio, ("memtable_whole_key_filtering", "true")]);
    let mut without = filtered.clone();
    without.column_families.extend(family("hot", &[("memtable_prefix_bloom_size_ratio", "0")]).column_families);
    assert!(ask(&filtered, without).inert.is_empty());
}

/// What is told of a metric in the reference.
#[test]
fn every_source_of_rocksdb_has_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let engine =
        Engine::open(folder.path(), &EngineConfig::default(), &[Family::new("default")], PageCache::Evict).unwrap();
    let is_there = |name: &str| {
        name.parse::<Ticker>().is_ok()
            || name.parse::<Histogram>().is_ok()
            || engine.family_text("default", name).is_some()
    };
    assert!(!is_there("rocksdb.flush.bytes"));
    let names = METRICS.iter().flat_map(|metric| metric.source.split('`').skip(1).step_by(2));
    let wrong: Vec<&str> = names.filter(|name| !is_there(name)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
