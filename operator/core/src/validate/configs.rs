//! Configs: which options they declare, what they change, and what they may not touch.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::{CacheSharing, Config, OptionValue, TuningExperimentSpec};
use assay_protocol::{BlockCache, EngineConfig, FamilyOptions, PageCache, WriteOptions, glob_matches};

use super::matrix::Expansion;
use super::problem::{FieldPath, Problem};
use super::schema::join;
use super::suggest::did_you_mean;
use crate::quantity;

/// Options that are not the user's to set, and why.
const OWNED: [(&str, &str); 14] = [
    ("merge_operator", WORKLOAD),
    ("comparator", WORKLOAD),
    ("create_if_missing", "is set by the bench, which creates the database"),
    ("create_missing_column_families", "is set by the bench, which creates the column families"),
    ("error_if_exists", "is set by the bench, which clones the dataset"),
    ("wal_dir", PLACE),
    ("db_log_dir", PLACE),
    ("db_paths", PLACE),
    ("cf_paths", PLACE),
    ("env", PLACE),
    ("statistics", "is set by the bench, which reads it as evidence"),
    ("block_cache", CACHE),
    ("row_cache", "is an object, so an option string can't set it"),
    ("rate_limiter", "is an object; use rate_limiter_bytes_per_sec"),
];

const WORKLOAD: &str = "is fixed by the workload, because another one would change the data it reads; remove it";
const PLACE: &str = "would put files outside the trial's directory, where they are not counted or removed";
const CACHE: &str = "can't be set as an option; use the config's blockCache field (size and sharing)";

/// Whether an option is not the user's to set.
pub fn is_owned(option: &str) -> bool {
    why_owned(option).is_some()
}

/// Why an option is not the user's to set, or a part of one, such as `block_based_table_factory.block_cache`.
fn why_owned(option: &str) -> Option<&'static str> {
    option.split('.').find_map(|part| OWNED.iter().find(|(owned, _)| *owned == part)).map(|(_, why)| *why)
}

/// Every option that is not the user's to set.
#[cfg(test)]
pub fn owned() -> impl Iterator<Item = &'static str> {
    OWNED.iter().map(|(option, _)| *option)
}

/// The path of `spec.configs[index]`.
pub fn config_path(index: usize) -> FieldPath {
    FieldPath::root().keys("spec.configs").index(index)
}

/// Index of the baseline, if it names a config.
pub fn baseline_index(spec: &TuningExperimentSpec) -> Option<usize> {
    spec.configs.iter().position(|config| config.name == spec.baseline)
}

/// The engine's configuration of every config: the baseline's, then its own, of which the later wins.
pub fn effective(spec: &TuningExperimentSpec) -> Vec<EngineConfig> {
    let empty = EngineConfig::default();
    let baseline = baseline_index(spec);
    let engine = baseline.map_or(EngineConfig::default(), |index| over(&empty, &spec.configs[index]));
    let base = |index: usize| if baseline == Some(index) { &empty } else { &engine };
    spec.configs.iter().enumerate().map(|(index, config)| over(base(index), config)).collect()
}

/// What a config sets, over what it starts from.
pub fn over(base: &EngineConfig, config: &Config) -> EngineConfig {
    let mut engine = base.clone();
    engine.db_options.extend(strings(&config.db_options));
    engine.column_families.extend(
        config
            .column_families
            .iter()
            .map(|entry| FamilyOptions { r#match: entry.r#match.clone(), options: strings(&entry.options) }),
    );
    if let Some(cache) = &config.block_cache {
        // A size that can't be read is a problem of its own.
        let bytes = quantity::bytes(&cache.size.0).unwrap_or_default();
        engine.block_cache = Some(BlockCache { bytes, shared: cache.sharing == CacheSharing::Shared });
    }
    if let Some(write) = config.write_options {
        engine.write_options = WriteOptions { sync: write.sync, disable_wal: write.disable_wal };
    }
    engine.policy.extend(config.policy.clone());
    engine
}

fn strings(options: &BTreeMap<String, OptionValue>) -> BTreeMap<String, String> {
    options.iter().map(|(name, value)| (name.clone(), value.to_rocksdb())).collect()
}

/// The column families of all workloads.
pub fn families(spec: &TuningExperimentSpec) -> BTreeSet<String> {
    spec.scenarios
        .iter()
        .flat_map(|scenario| scenario.workload.kind().families().into_iter().map(str::to_owned))
        .collect()
}

/// What is wrong with the name of a config in another field: those of a matrix are not meant.
pub fn unknown(name: &str, written: &[Config], path: FieldPath) -> Option<Problem> {
    let names = || written.iter().map(|config| config.name.as_str());
    if names().any(|known| known == name) {
        return None;
    }
    let mut hint = did_you_mean(name, names());
    if hint.is_empty() {
        hint = format!("; the configs are {}", join(names()));
    }
    Some(Problem::error(path, format!("no config is named {name:?}{hint}")))
}

/// Everything that can be said about configs without asking RocksDB, with workloads that are known or not.
pub fn check(spec: &TuningExperimentSpec, matrix: &Expansion, workloads_known: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let path = FieldPath::root().key("spec");
    problems.extend(unknown(&spec.baseline, &spec.configs[..matrix.written()], path.key("baseline")));
    if !matrix.is_there() && spec.configs.len() == 1 {
        let message = "has 1 entry, needs at least 2: the baseline and a config to compare with it; or add a matrix";
        problems.push(Problem::error(path.key("configs"), message).at_key());
    }
    let families = families(spec);
    let engines = effective(spec);
    for (index, (config, engine)) in spec.configs.iter().zip(&engines).enumerate() {
        let path = config_path(index);
        options(config, &path, spec, &mut problems);
        cache_and_writes(config, engine, &path, &mut problems);
        if workloads_known {
            globs(config, &path, &families, &mut problems);
            policy(config, &path, spec, &mut problems);
        }
        if config.image.is_some() {
            let message = format!(
                "runs its own bench: for a local run, pass the binary with `--bench {}=PATH`",
                matrix.bench(index).unwrap_or(&config.name)
            );
            problems.push(Problem::note(path.key("image"), message));
        }
    }
    let Some(baseline) = baseline_index(spec) else { return problems };
    for (index, config) in spec.configs.iter().enumerate().filter(|&(index, _)| index != baseline) {
        if config.image == spec.configs[baseline].image
            && changes(spec, &engines[baseline], &engines[index], config).is_empty()
        {
            let message = "is identical to the baseline: this A/A comparison shows the noise";
            problems.push(Problem::note(config_path(index), message));
        }
    }
    problems
}

fn options(config: &Config, path: &FieldPath, spec: &TuningExperimentSpec, problems: &mut Vec<Problem>) {
    let entries = config
        .column_families
        .iter()
        .enumerate()
        .map(|(index, entry)| (path.key("columnFamilies").index(index).key("options"), &entry.options));
    for (path, options) in std::iter::once((path.key("dbOptions"), &config.db_options)).chain(entries) {
        for (name, value) in options {
            let path = path.key(name);
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c)) {
                let message = "is not an option name; use letters, digits and _";
                problems.push(Problem::error(path.clone(), message).at_key());
            } else if let Some(reason) = why_owned(name) {
                let instead = if reason == WORKLOAD { possible(spec) } else { String::new() };
                problems.push(Problem::error(path.clone(), format!("{reason}{instead}")).at_key());
            }
            let value = value.to_rocksdb();
            if value.trim().is_empty() {
                problems.push(Problem::error(path.clone(), "has no value; leave it out to keep RocksDB's default"));
            }
            if !is_one_value(&value) {
                let message =
                    "has unbalanced braces or text after the last one: RocksDB would read the rest as other options";
                problems.push(Problem::error(path.clone(), message));
            }
            if nested_key(&value, "block_cache") {
                problems.push(Problem::error(path.clone(), format!("block_cache {CACHE}")));
            }
            let direct = spec.scenarios.iter().find(|scenario| scenario.page_cache == PageCache::Direct);
            if let Some(scenario) = direct.filter(|_| name == "use_direct_reads" && value == "false") {
                let message =
                    format!("conflicts with pageCache: Direct in scenario {:?}; remove one of them", scenario.name);
                problems.push(Problem::error(path, message));
            }
        }
    }
}

/// What a config can set.
fn possible(spec: &TuningExperimentSpec) -> String {
    let policies =
        spec.scenarios.iter().flat_map(|scenario| scenario.workload.kind().policies()).map(|(name, _)| *name);
    let policies: BTreeSet<&str> = policies.collect();
    let policy = if policies.is_empty() { String::new() } else { format!(", policy ({})", join(policies)) };
    format!(". A config can set RocksDB's other options (dbOptions, columnFamilies), blockCache, writeOptions{policy}")
}

/// Whether RocksDB reads this value as one, alone or in braces that are put around it: what is in braces ends at the brace that
/// matches the first, and anything after it would be options of their own, which nobody has looked at.
fn is_one_value(value: &str) -> bool {
    let (mut depth, mut has_closed) = (0_u32, false);
    for character in value.trim().chars() {
        if has_closed {
            return false;
        }
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => return false,
            '}' => {
                depth -= 1;
                has_closed = depth == 0 && value.trim_start().starts_with('{');
            }
            _ => {}
        }
    }
    depth == 0
}

/// Whether a nested option string such as `{block_cache=8M;block_size=4K}` sets this key, on any level.
fn nested_key(value: &str, key: &str) -> bool {
    value.split(['{', '}', ';']).any(|part| part.split_once('=').is_some_and(|(name, _)| name.trim() == key))
}

fn globs(config: &Config, path: &FieldPath, families: &BTreeSet<String>, problems: &mut Vec<Problem>) {
    for (index, entry) in config.column_families.iter().enumerate() {
        for (position, pattern) in entry.r#match.iter().enumerate() {
            if !families.iter().any(|family| glob_matches(pattern, family)) {
                let path = path.key("columnFamilies").index(index).key("match").index(position);
                let names = || families.iter().map(String::as_str);
                let message = format!(
                    "{pattern:?} matches no column family{}; the scenarios have {}",
                    did_you_mean(pattern, names()),
                    join(names())
                );
                problems.push(Problem::error(path, message));
            }
        }
    }
}

fn cache_and_writes(config: &Config, engine: &EngineConfig, path: &FieldPath, problems: &mut Vec<Problem>) {
    if let Some(cache) = &config.block_cache
        && let Err(error) = quantity::bytes(&cache.size.0)
    {
        problems.push(Problem::error(path.keys("blockCache.size"), error.to_string()));
    }
    let write = engine.write_options;
    if config.write_options.is_some() && write.sync && write.disable_wal {
        let message =
            "RocksDB refuses sync with disableWAL: sync waits for the log that disableWAL skips; set only one";
        problems.push(Problem::error(path.key("writeOptions"), message));
    }
}

fn policy(config: &Config, path: &FieldPath, spec: &TuningExperimentSpec, problems: &mut Vec<Problem>) {
    for (name, value) in &config.policy {
        for scenario in &spec.scenarios {
            let policies = scenario.workload.kind().policies();
            let workload = scenario.workload.kind().name();
            let names = || policies.iter().map(|(name, _)| *name);
            let message = if let Some((_, values)) = policies.iter().find(|(known, _)| known == name) {
                if values.contains(&value.as_str()) {
                    continue;
                }
                let hint = did_you_mean(value, values.iter().copied());
                format!("unknown value {value:?}{hint}; known values are {}", join(values.iter().copied()))
            } else if policies.is_empty() {
                format!("the {workload} workload of scenario {:?} has no policy keys; remove it", scenario.name)
            } else {
                let hint = did_you_mean(name, names());
                let known = join(names());
                format!(
                    "unknown key for the {workload} workload of scenario {:?}{hint}; known keys are {known}",
                    scenario.name
                )
            };
            problems.push(Problem::error(path.key("policy").key(name), message).at_key());
            break;
        }
    }
}

/// What one engine configuration changes against another, a line each, for people.
pub fn changes(
    spec: &TuningExperimentSpec,
    baseline: &EngineConfig,
    engine: &EngineConfig,
    config: &Config,
) -> Vec<String> {
    let revision = config.revision.as_ref().map_or(String::new(), |revision| format!(" ({revision})"));
    // Of one image both run the same program.
    let theirs = baseline_index(spec).and_then(|index| spec.configs[index].image.as_ref());
    let image = config.image.as_ref().filter(|image| Some(*image) != theirs);
    let mut lines: Vec<String> = image.map(|image| format!("image: {image}{revision}")).into_iter().collect();
    let arrow = |name: &str, from: Option<&String>, to: Option<&String>| {
        let side = |value: Option<&String>| value.map_or("RocksDB's default", String::as_str).to_owned();
        format!("{name}: {} -> {}", side(from), side(to))
    };
    for name in keys(&baseline.db_options, &engine.db_options) {
        let (from, to) = (baseline.db_options.get(name), engine.db_options.get(name));
        if from != to {
            lines.push(arrow(name, from, to));
        }
    }
    // Families that change in the same way share a line.
    let families = families(spec);
    let mut by_change: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for family in &families {
        let (from, to) = (baseline.family_options(family), engine.family_options(family));
        for name in keys(&from, &to).filter(|&name| from.get(name) != to.get(name)) {
            by_change.entry(arrow(name, from.get(name), to.get(name))).or_default().push(family);
        }
    }
    lines.extend(by_change.into_iter().map(|(change, changed)| {
        if changed.len() == families.len() { change } else { format!("{change} (column families {})", join(changed)) }
    }));
    if baseline.block_cache != engine.block_cache {
        lines.push(format!("block cache: {} -> {}", cache(baseline.block_cache), cache(engine.block_cache)));
    }
    let (from, to) = (baseline.write_options, engine.write_options);
    for (name, from, to) in [("sync", from.sync, to.sync), ("disableWAL", from.disable_wal, to.disable_wal)] {
        if from != to {
            lines.push(format!("{name}: {from} -> {to}"));
        }
    }
    for name in keys(&baseline.policy, &engine.policy) {
        let side = |policy: &BTreeMap<String, String>| policy.get(name).map_or("unset", String::as_str).to_owned();
        if baseline.policy.get(name) != engine.policy.get(name) {
            lines.push(format!("policy {name}: {} -> {}", side(&baseline.policy), side(&engine.policy)));
        }
    }
    lines
}

fn cache(cache: Option<BlockCache>) -> String {
    cache.map_or("RocksDB's default".to_owned(), |cache| {
        let sharing = if cache.shared { "shared" } else { "for each column family" };
        format!("{} {sharing}", quantity::display(cache.bytes))
    })
}

fn keys<'a>(
    a: &'a BTreeMap<String, String>,
    b: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a String> + use<'a> {
    a.keys().chain(b.keys()).collect::<BTreeSet<_>>().into_iter()
}
