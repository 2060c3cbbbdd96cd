use std::collections::BTreeMap;

use assay_protocol::{EngineConfig, OptionsQuestion, PageCache};
use tempfile::TempDir;

use super::{ask, db, family, map, options_answer};

#[test]
fn a_filter_policy_that_rocksdb_does_not_know_is_named() {
    let answer =
        ask(&EngineConfig::default(), family("hot", &[("block_based_table_factory", "{filter_policy=bloom:12}")]));
    let message = "RocksDB does not know \"bloom:12\" and uses none; write bloomfilter:12:false";
    assert_eq!(answer.inert[0].message, message);
}

#[test]
fn one_mistake_hides_no_other() {
    let base = EngineConfig::default();
    let config = EngineConfig {
        db_options: map(&[("write_buffer_size", "1M"), ("max_background_job", "3")]),
        ..family("hot", &[("max_background_jobs", "7"), ("write_buffer_size", "4096"), ("compression", "zstd")])
    };
    let answer = ask(&base, config.clone());
    let problems: Vec<&str> = answer.problems.iter().map(|problem| problem.option.as_str()).collect();
    assert_eq!(problems, ["max_background_job", "compression"]);
    let inert: Vec<(&str, &str)> =
        answer.inert.iter().map(|note| (note.scope.as_str(), note.option.as_str())).collect();
    assert_eq!(inert, [("db", "write_buffer_size"), ("hot", "max_background_jobs")]);
    assert_eq!(answer.sanitised.len(), 1, "{answer:?}");
    // What is left of it may have no effect, and the whole may well have one.
    let rest = EngineConfig { db_options: config.db_options.clone(), ..base.clone() };
    assert_eq!((ask(&base, rest.clone()).all_inert, ask(&base, rest).inert.len()), (vec![], 1));
    // Of the baseline's mistake the others hear, and of their own.
    let base = family("*", &[("write_bufer_size", "1M")]);
    let mut config = base.clone();
    config.db_options = map(&[("write_buffer_size", "1M")]);
    let answer = ask(&base, config);
    assert_eq!((answer.problems.len(), answer.all_inert.as_slice()), (1, &["c".to_owned()][..]), "{answer:?}");
}

#[test]
fn a_baseline_that_can_not_be_opened_is_named_once() {
    let dir = TempDir::new().unwrap();
    let base = family("hot", &[("block_based_table_factory", "{index_type=kHashSearch}")]);
    let mut config = base.clone();
    config.db_options = map(&[("max_open_files", "1.5"), ("max_background_jobs", "3")]);
    let question = OptionsQuestion {
        families: vec!["default".to_owned(), "hot".to_owned()],
        baseline: base.clone(),
        configs: BTreeMap::from([("a".to_owned(), config.clone()), ("base".to_owned(), base.clone())]),
        page_cache: PageCache::Evict,
    };
    let answer = options_answer(&question, dir.path()).unwrap();
    let named: Vec<&str> = answer.problems.iter().map(|problem| problem.config.as_str()).collect();
    assert_eq!(named, ["base"], "{answer:?}");
    assert!(answer.problems[0].message.starts_with("RocksDB can't open a database with these options: "), "{answer:?}");
    // With a prefix of its own it opens, and is looked at.
    config.column_families.extend(family("hot", &[("prefix_extractor", "fixed:8")]).column_families);
    let answer = options_answer(
        &OptionsQuestion { configs: BTreeMap::from([("a".to_owned(), config)]), ..question },
        dir.path(),
    );
    let problems = answer.unwrap().problems;
    assert!(problems.len() == 1 && problems[0].option == "max_open_files", "{problems:?}");
}

#[test]
fn a_value_that_can_not_be_read_is_told_apart_from_a_key_that_there_is_not() {
    let base = EngineConfig::default();
    let told = |config: EngineConfig| {
        let [problem] = &ask(&base, config).problems[..] else { return String::new() };
        let suggestion = problem.suggestion.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{}{suggestion}", problem.message)
    };
    for (config, expected) in [
        (family("hot", &[("block_based_table_factory", "{block_sise=16K}")]), "has no key block_sise (block_size)"),
        (
            family("hot", &[("compaction_options_fifo", "{alow_compaction=true}")]),
            "has no key alow_compaction (allow_compaction)",
        ),
        (
            family("hot", &[("block_based_table_factory", "{block_size=big}")]),
            "RocksDB can't read the value \"big\" of block_size; its default is 4096",
        ),
        (db(&[("max_background_jobs", "four")]), "RocksDB can't read the value \"four\"; its default is 2"),
        (
            family("hot", &[("max_background_jobs", "four")]),
            "RocksDB can't read the value \"four\"; its default is 2; this is a database option; declare it under dbOptions",
        ),
        (db(&[("a", "1")]), "RocksDB has no such option"),
    ] {
        assert_eq!(told(config), expected);
    }
    // The part of a size that RocksDB reads may be what the baseline has.
    assert!(told(family("hot", &[("write_buffer_size", "64MB")])).contains("write a whole number"));
}
