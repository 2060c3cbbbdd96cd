//! What RocksDB takes without a word, and nobody means: values out of range, and options without any work that they could act on.

use std::collections::BTreeMap;

use assay_api::TuningExperimentSpec;
use assay_protocol::{EngineConfig, option_value};

use super::configs::{baseline_index, config_path, effective};
use super::problem::{FieldPath, Problem};
use super::scenarios::writes;
use super::schema::join;
use crate::quantity;

/// Options with the lowest value that means anything, and what RocksDB makes of a lower one.
const LOWEST: [(&str, f64, &str); 4] = [
    ("max_background_jobs", 1.0, "RocksDB runs one flush and one compaction at a time"),
    ("max_subcompactions", 1.0, "RocksDB does not split compactions"),
    ("target_file_size_base", 1.0, "RocksDB starts a new file at each key"),
    ("block_size", 1.0, "RocksDB puts each entry into a block of its own"),
];

/// The highest level of compression that a codec has.
const HIGHEST_LEVEL: [(&str, f64); 5] = [
    ("kZSTD", 22.0),
    ("kZSTDNotFinalCompression", 22.0),
    ("kZlibCompression", 9.0),
    ("kBZip2Compression", 9.0),
    ("kLZ4HCCompression", 12.0),
];

/// Options that act on writes, or on what writes leave, and on nothing else.
const OF_WRITES: [&str; 20] = [
    "allow_concurrent_memtable_write",
    "db_write_buffer_size",
    "delayed_write_rate",
    "enable_pipelined_write",
    "hard_pending_compaction_bytes_limit",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "max_background_flushes",
    "max_subcompactions",
    "max_total_wal_size",
    "max_write_buffer_number",
    "memtable_huge_page_size",
    "memtable_prefix_bloom_size_ratio",
    "min_write_buffer_number_to_merge",
    "soft_pending_compaction_bytes_limit",
    "target_file_size_base",
    "unordered_write",
    "wal_bytes_per_sync",
    "write_buffer_size",
];

pub fn check(spec: &TuningExperimentSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, config) in spec.configs.iter().enumerate() {
        let path = config_path(index);
        let families = config.column_families.iter().enumerate();
        let families =
            families.map(|(at, entry)| (path.key("columnFamilies").index(at).key("options"), &entry.options));
        for (path, options) in std::iter::once((path.key("dbOptions"), &config.db_options)).chain(families) {
            let options: BTreeMap<&str, String> =
                options.iter().map(|(name, value)| (name.as_str(), value.to_rocksdb())).collect();
            for (name, value) in &options {
                problems.extend(of_value(&path.key(*name), name, value, &options));
            }
        }
        cache(spec, index, &path, &mut problems);
    }
    problems
}

/// A value of an option, or of one that is nested in it.
fn of_value(path: &FieldPath, name: &str, value: &str, beside: &BTreeMap<&str, String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let nested = option_value::nested(value.trim()).unwrap_or_default();
    for (key, value) in &nested {
        problems.extend(
            too_low(key, value).map(|message| Problem::warning(path.clone(), format!("{key} {message}")).at_key()),
        );
    }
    problems.extend(too_low(name, value).map(|message| Problem::warning(path.clone(), message)));
    let codec_of = match name {
        "compression_opts" => "compression",
        "bottommost_compression_opts" => "bottommost_compression",
        _ => return problems,
    };
    // As a struct, or as RocksDB wrote it before it had structs: window bits, level, strategy and so on.
    let level = nested.get("level").map(String::as_str).or_else(|| value.split(':').nth(1));
    let codec = beside.get(codec_of).map_or("", |codec| codec.trim());
    let highest = HIGHEST_LEVEL.iter().find(|(known, _)| *known == codec);
    if let (Some(level), Some((codec, highest))) = (level.and_then(|level| option_value::number(level.trim())), highest)
        && level > *highest
        // What stands for the codec's own default.
        && level < 32_767.0
    {
        let message = format!("level {level} is above {highest}, the highest of {codec}, which is used instead");
        problems.push(Problem::warning(path.clone(), message));
    }
    problems
}

fn too_low(name: &str, value: &str) -> Option<String> {
    let (_, lowest, result) = LOWEST.iter().find(|(known, ..)| *known == name)?;
    let number = option_value::number(value.trim()).filter(|number| number < lowest)?;
    Some(format!("{number} is below {lowest}, and {result}"))
}

fn cache(spec: &TuningExperimentSpec, index: usize, path: &FieldPath, problems: &mut Vec<Problem>) {
    let bytes = |text: &str| quantity::bytes(text).ok();
    let size = spec.configs[index].block_cache.as_ref().and_then(|cache| bytes(&cache.size.0));
    let memory = spec.placement.memory.as_ref().and_then(|memory| bytes(&memory.0));
    if let Some((size, memory)) = size.zip(memory).filter(|(size, memory)| size >= memory) {
        let message = format!(
            "{} does not fit into placement.memory, {}: the trial is killed when the cache fills up",
            quantity::display(size),
            quantity::display(memory)
        );
        problems.push(Problem::warning(path.keys("blockCache.size"), message));
    }
}

/// Configs that change nothing but writes, in experiments that write nothing.
pub fn without_writes(spec: &TuningExperimentSpec) -> Vec<Problem> {
    if spec.scenarios.is_empty() || spec.scenarios.iter().any(writes) {
        return Vec::new();
    }
    let engines = effective(spec);
    let Some(baseline) = baseline_index(spec).map(|index| &engines[index]) else { return Vec::new() };
    let mut problems = Vec::new();
    for (index, engine) in engines.iter().enumerate() {
        let changed = changed(engine, baseline);
        let is_all = engine.block_cache == baseline.block_cache && spec.configs[index].image.is_none();
        if is_all && !changed.is_empty() && changed.iter().all(|name| OF_WRITES.contains(name)) {
            let message = format!(
                "changes only what acts on writes ({}), and no scenario writes anything: it can't differ from the baseline",
                join(changed.iter().copied())
            );
            problems.push(Problem::warning(config_path(index), message));
        }
    }
    problems
}

/// Names of options that differ.
fn changed<'a>(engine: &'a EngineConfig, baseline: &'a EngineConfig) -> Vec<&'a str> {
    let mut names: Vec<&str> = engine
        .db_options
        .iter()
        .filter(|(name, value)| baseline.db_options.get(*name) != Some(value))
        .map(|(name, _)| name.as_str())
        .collect();
    for entry in engine.column_families.iter().skip(baseline.column_families.len()) {
        names.extend(entry.options.keys().map(String::as_str));
    }
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::validate::tests::messages_with as messages;

    #[test]
    fn values_that_nobody_means_are_named() {
        let found = messages(|spec| {
            spec["configs"][1] = json!({
                "name": "small",
                "dbOptions": {"max_background_jobs": -5, "max_subcompactions": 0},
                "columnFamilies": [{"match": ["*"], "options": {
                    "block_based_table_factory": "{block_size=0;whole_key_filtering=true}",
                    "target_file_size_base": "0",
                    "compression": "kZSTD",
                    "compression_opts": "{level=99;max_dict_bytes=0}",
                }}],
            });
        });
        let families = "spec.configs[1].columnFamilies[0].options";
        assert_eq!(
            found,
            [
                "warning: spec.configs[1].dbOptions.max_background_jobs: -5 is below 1, and RocksDB runs one flush and one compaction at a time".to_owned(),
                "warning: spec.configs[1].dbOptions.max_subcompactions: 0 is below 1, and RocksDB does not split compactions".to_owned(),
                format!("warning: {families}.block_based_table_factory: block_size 0 is below 1, and RocksDB puts each entry into a block of its own"),
                format!("warning: {families}.compression_opts: level 99 is above 22, the highest of kZSTD, which is used instead"),
                format!("warning: {families}.target_file_size_base: 0 is below 1, and RocksDB starts a new file at each key"),
            ]
        );
        // That of the last level has options of its own.
        let bottommost = |level: u32| {
            messages(|spec| {
                spec["configs"][1]["columnFamilies"][0]["options"] = json!({
                    "compression": "kZSTD", "bottommost_compression": "kZlibCompression",
                    "bottommost_compression_opts": format!("{{level={level}}}"),
                });
            })
        };
        assert_eq!(bottommost(9), Vec::<String>::new());
        assert_eq!(
            bottommost(10),
            [format!(
                "warning: {families}.bottommost_compression_opts: level 10 is above 9, the highest of kZlibCompression, which is used instead"
            )]
        );
        // The highest, the codec's own default, and an older way to write it.
        for value in ["{level=22}", "{level=32767}", "-14:19:0:0"] {
            assert!(
                messages(|spec| {
                    spec["configs"][1]["columnFamilies"][0]["options"] =
                        json!({"compression": "kZSTD", "compression_opts": value});
                })
                .is_empty(),
                "{value}"
            );
        }
    }

    #[test]
    fn a_cache_must_fit_into_the_memory() {
        let with = |memory: &str| {
            messages(|spec| {
                spec["configs"][1]["blockCache"] = json!({"size": "3Gi"});
                spec["placement"] = json!({"memory": memory});
            })
        };
        assert_eq!(
            with("2Gi"),
            [
                "warning: spec.configs[1].blockCache.size: 3 GiB does not fit into placement.memory, 2 GiB: the trial is killed when the cache fills up"
            ]
        );
        assert!(with("4Gi").is_empty());
    }

    #[test]
    fn what_acts_on_writes_needs_some() {
        let with = |mix: Value, options: Value| {
            messages(|spec| {
                spec["scenarios"][0]["workload"]["keyValue"]["roles"][0]["mix"] = mix.clone();
                spec["configs"][1] = json!({"name": "small", "columnFamilies": [{"match": ["*"], "options": options}]});
            })
        };
        let reads = || json!({"get": 1});
        assert_eq!(
            with(reads(), json!({"write_buffer_size": "1M"})),
            [
                "warning: spec.configs[1]: changes only what acts on writes (write_buffer_size), and no scenario writes anything: it can't differ from the baseline"
            ]
        );
        assert!(with(json!({"put": 1, "get": 9}), json!({"write_buffer_size": "1M"})).is_empty());
        assert!(with(reads(), json!({"write_buffer_size": "1M", "compression": "kZSTD"})).is_empty());
        // Another program or another cache may differ in what is read.
        for (field, value) in [("image", json!("bench:2")), ("blockCache", json!({"size": "1Gi"}))] {
            let found = messages(|spec| {
                spec["scenarios"][0]["workload"]["keyValue"]["roles"][0]["mix"] = reads();
                let options = json!({"write_buffer_size": "1M"});
                spec["configs"][1] = json!({"name": "small", "columnFamilies": [{"match": ["*"], "options": options}]});
                spec["configs"][1][field] = value.clone();
            });
            assert!(!found.iter().any(|message| message.contains("changes only what acts on writes")), "{found:?}");
        }
    }
}
