use assay_protocol::{EngineConfig, OptionStatus, OptionsAnswer};

use super::{ask, facts, family, map, status};

/// RocksDB writes objects in a long form of its own.
#[test]
fn another_spelling_is_no_change() {
    let spelt = [
        ("memtable_factory", "vector"),
        ("memtable_factory", "vector:1024"),
        ("memtable_factory", "skip_list:16"),
        ("memtable_factory", "{id=SkipListFactory;lookahead=16;}"),
        ("prefix_extractor", "fixed:8"),
        ("prefix_extractor", "capped:8"),
        ("block_based_table_factory", "{filter_policy=bloomfilter:10}"),
        ("block_based_table_factory", "{filter_policy=ribbonfilter:10}"),
    ];
    let base = EngineConfig::default();
    for (option, value) in spelt {
        let config = family("hot", &[(option, value)]);
        let answer = ask(&base, config.clone());
        assert_eq!(answer, OptionsAnswer::default(), "{option}={value}");
        let facts = facts(&base, &config);
        let fact = facts.iter().find(|fact| fact.option.starts_with(option)).unwrap();
        assert_eq!(fact.status, OptionStatus::Applied, "{fact:?}");
        // As a baseline's own it is no change either.
        assert_eq!(ask(&config, config.clone()), OptionsAnswer::default(), "{option}={value}");
        // And to say the same with RocksDB's own word changes nothing.
        let written = fact.effective.clone().unwrap();
        let written = if option.starts_with("block_based") { format!("{{filter_policy={written}}}") } else { written };
        assert_eq!(ask(&config, family("hot", &[(option, &written)])).all_inert, ["c"], "{option}={written}");
    }
    // The default, as files of options have it.
    let same = ask(&base, family("hot", &[("memtable_factory", "{id=SkipListFactory;lookahead=0;}")]));
    assert_eq!(same.all_inert, ["c"]);
    assert_eq!(same.inert[0].message, "already SkipListFactory in the baseline");
    let short = family("hot", &[("memtable_factory", "skip_list")]);
    assert_eq!(status(&facts(&short, &short), "hot", "memtable_factory"), Some(OptionStatus::Applied));
}

/// What RocksDB does not know it passes over without a word.
#[test]
fn a_name_of_no_object_is_no_spelling() {
    let base = EngineConfig::default();
    for (option, value) in [("memtable_factory", "skiplist"), ("memtable_factory", "{id=Skip;lookahead=0;}")] {
        let config = family("hot", &[(option, value)]);
        let own = facts(&config, &config);
        assert_eq!(status(&own, "hot", option), Some(OptionStatus::Sanitised), "{own:?}");
        let answer = ask(&base, config.clone());
        assert_eq!(answer.inert[0].message, "RocksDB keeps SkipListFactory", "{value}");
        // Nor over another.
        let vector = family("hot", &[("memtable_factory", "vector")]);
        let mut over = vector.clone();
        over.column_families.extend(config.column_families);
        assert_eq!(status(&facts(&vector, &over), "hot", option), Some(OptionStatus::Inert));
    }
    for (option, value) in [("prefix_extractor", "fixd:8"), ("block_based_table_factory", "{filter_policy=bloom:10}")] {
        let config = family("hot", &[(option, value)]);
        let own = facts(&config, &config);
        assert!(own.iter().all(|fact| fact.status == OptionStatus::Inert) && !own.is_empty(), "{own:?}");
    }
}

#[test]
fn an_object_that_rocksdb_replaces_is_a_change() {
    let base = EngineConfig::default();
    let hash = [("memtable_factory", "prefix_hash:1000")];
    let with = |pairs: &[(&str, &str)]| EngineConfig {
        db_options: map(&[("allow_concurrent_memtable_write", "false")]),
        ..family("hot", pairs)
    };
    let status_of = |config: &EngineConfig, option: &str| status(&facts(&base, config), "hot", option);
    // Without a prefix RocksDB takes its usual memtable instead.
    assert_eq!(status_of(&with(&hash), "memtable_factory"), Some(OptionStatus::Inert));
    let named = ask(&base, with(&hash));
    assert_eq!(named.inert[0].message, "RocksDB keeps SkipListFactory");
    let vector = family("hot", &[("memtable_factory", "vector")]);
    let replaced = facts(&vector, &with(&hash));
    assert_eq!(status(&replaced, "hot", "memtable_factory"), Some(OptionStatus::Sanitised), "{replaced:?}");
    let prefixed = with(&[hash[0], ("prefix_extractor", "fixed:8")]);
    assert_eq!(status_of(&prefixed, "memtable_factory"), Some(OptionStatus::Applied));
    // It takes another memtable where none may be written.
    let read_only = family("hot", &[("memtable_factory", "skip_list:16"), ("disallow_memtable_writes", "true")]);
    assert_eq!(status_of(&read_only, "memtable_factory"), Some(OptionStatus::Sanitised));
    // Its parser changes numbers, too.
    let many_bits = family("hot", &[("block_based_table_factory", "{filter_policy=bloomfilter:1000:false}")]);
    let facts = facts(&base, &many_bits);
    assert_eq!(
        status(&facts, "hot", "block_based_table_factory.filter_policy"),
        Some(OptionStatus::Sanitised),
        "{facts:?}"
    );
}
