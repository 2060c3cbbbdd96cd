use std::collections::BTreeMap;

use assay_protocol::{DatasetSpec, Digest, EngineConfig, FamilyOptions, TrialId, TrialSpec};

use super::order::dataset_seed;
use crate::experiment::{ConfigUnderTest, Experiment, Scenario};

/// Options that decide which bytes a file holds or which files and levels there are: data that were written under other
/// values stay as they were, so a config is timed on data of its own format. What decides only when or how fast the tree
/// gets there (memtables, triggers, level sizes) is not part of the format: a settled dataset has forgotten it.
const FORMAT_KEYS: [&str; 27] = [
    // The shape of the tree.
    "compaction_style",
    "compaction_options_fifo",
    "compaction_options_universal",
    "level_compaction_dynamic_level_bytes",
    "num_levels",
    "sst_partitioner_factory",
    "target_file_size_base",
    "target_file_size_multiplier",
    // Compression.
    "bottommost_compression",
    "bottommost_compression_opts",
    "compression",
    "compression_opts",
    "compression_per_level",
    "compression_manager",
    // Blocks, indexes and filters.
    "block_based_table_factory",
    "cuckoo_table_factory",
    "optimize_filters_for_hits",
    "plain_table_factory",
    "prefix_extractor",
    "table_factory",
    "table_properties_collectors",
    // Values outside of the tree.
    "blob_compression_type",
    "blob_file_size",
    "blob_file_starting_level",
    "enable_blob_files",
    "min_blob_size",
    // Timestamps within keys.
    "persist_user_defined_timestamps",
];

/// The options that the dataset of a config is written with: its own format over the baseline's other options, or the
/// format of the config that all trials of the scenario have to find.
pub fn format_of(experiment: &Experiment, scenario: &Scenario, config: &ConfigUnderTest) -> EngineConfig {
    let source = scenario.dataset_from.as_deref().and_then(|name| experiment.config(name)).unwrap_or(config);
    let base = experiment.baseline_config().map(|baseline| baseline.engine.clone()).unwrap_or_default();
    let kept = |options: &BTreeMap<String, String>, format: bool| -> BTreeMap<String, String> {
        options.iter().filter(|(name, _)| is_format_key(name) == format).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let entries = |engine: &EngineConfig, format: bool| -> Vec<FamilyOptions> {
        let entries = engine.column_families.iter();
        entries
            .map(|entry| FamilyOptions { r#match: entry.r#match.clone(), options: kept(&entry.options, format) })
            .filter(|entry| !entry.options.is_empty())
            .collect()
    };
    // The two halves share no key, so their order does not matter.
    let mut db_options = kept(&base.db_options, false);
    db_options.extend(kept(&source.engine.db_options, true));
    let mut column_families = entries(&base, false);
    column_families.extend(entries(&source.engine, true));
    EngineConfig { db_options, column_families, ..base }
}

/// Number of storage formats in which the dataset of a scenario is written.
pub fn formats(experiment: &Experiment, scenario: &Scenario) -> usize {
    let mut formats = Vec::new();
    for config in &experiment.configs {
        let format = format_of(experiment, scenario, config);
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    formats.len()
}

/// Whether an option, or a part of one such as `block_based_table_factory.block_size`, belongs to the storage format.
fn is_format_key(name: &str) -> bool {
    let whole = name.split('.').next().unwrap_or(name);
    FORMAT_KEYS.contains(&whole)
}

/// The families in which a config's declared options differ from the baseline's. The baseline is compared with every config, so
/// its runs are watched where any of them differs.
fn tuned_families(experiment: &Experiment, scenario: &Scenario, config: &ConfigUnderTest) -> Vec<String> {
    let Some(baseline) = experiment.baseline_config() else { return Vec::new() };
    let compared: Vec<&ConfigUnderTest> =
        if config.name == baseline.name { experiment.configs.iter().collect() } else { vec![config] };
    let tuned = |family: &&str| {
        let before = baseline.engine.family_options(family);
        compared.iter().any(|config| config.engine.family_options(family) != before)
    };
    scenario.workload.kind().families().into_iter().filter(tuned).map(str::to_owned).collect()
}

pub fn trial_spec(
    experiment: &Experiment,
    scenario: &Scenario,
    config: &ConfigUnderTest,
    plan: &Digest,
    trial: TrialId,
    seed: u64,
) -> TrialSpec {
    TrialSpec {
        version: assay_protocol::VERSION,
        experiment: experiment.name.clone(),
        plan: plan.clone(),
        trial,
        seed,
        config: config.engine.clone(),
        baseline: experiment.baseline_config().map(|baseline| baseline.engine.clone()).unwrap_or_default(),
        workload: scenario.workload.clone(),
        tuned_families: tuned_families(experiment, scenario, config),
        dataset: DatasetSpec {
            seed: dataset_seed(experiment, &scenario.name),
            format: format_of(experiment, scenario, config),
            from: scenario.dataset_from.clone(),
        },
        page_cache: scenario.page_cache,
        cpus: experiment.cpus,
        deadline_seconds: scenario.deadline_seconds,
        max_disk_bytes: scenario.max_disk_bytes,
        metrics: experiment.measured().map(|rule| rule.name.clone()).collect(),
    }
}
