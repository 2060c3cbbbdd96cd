//! Engaged: what a config changes had a way to act, or its runs say nothing about it.
//!
//! A trigger of 100 files does nothing in runs that never have more than two, whatever their times look like. So each option
//! has a sign that shows it at work, in a trial of the config or of the baseline. Where none of a config's options has
//! shown its sign in a scenario, nothing about the config can be learned there.
//!
//! Which options those are follows from the specs; whether a value reached RocksDB at all is for other gates.

use std::collections::BTreeMap;

use assay_record::{Engagement, EngineConfig};

use super::view::View;
use super::{Code, Findings};
use crate::experiment::ConfigUnderTest;

/// What must have been seen before an option can make a difference.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// One of these was more than zero.
    AnyOf(&'static [Counter]),
    /// L0 held as many files as the lower of the two values. The number is RocksDB's default.
    L0Files(u64),
}

#[derive(Clone, Copy, Debug)]
enum Counter {
    Flushes,
    Compactions,
    Stalls,
    WalBytes,
    UserBytes,
    /// Blocks that were looked for in the block cache: reads that a memtable did not answer.
    BlockReads,
    BlockMisses,
    Compressed,
    Decompressed,
}

use Counter::{BlockMisses, BlockReads, Compactions, Compressed, Decompressed, Flushes, Stalls, UserBytes, WalBytes};
use Sign::{AnyOf, L0Files};

/// The signs of options. One that is not here may act where no counter looks: nothing is said about it.
const SIGNS: &[(Sign, &[&str])] = &[
    // Memtables that are full, or of which there are too many, are flushed.
    (
        AnyOf(&[Flushes]),
        &[
            "write_buffer_size",
            "max_write_buffer_number",
            "min_write_buffer_number_to_merge",
            "db_write_buffer_size",
            "max_total_wal_size",
        ],
    ),
    (L0Files(4), &[TRIGGER]),
    (L0Files(20), &["level0_slowdown_writes_trigger"]),
    (L0Files(36), &["level0_stop_writes_trigger"]),
    (
        AnyOf(&[Stalls]),
        &["soft_pending_compaction_bytes_limit", "hard_pending_compaction_bytes_limit", "delayed_write_rate"],
    ),
    // Compressed blocks are written by flush and compaction, and read again by compaction and reads.
    (
        AnyOf(&[Compressed, Decompressed]),
        &[
            "compression",
            "compression_opts",
            "compression_per_level",
            "bottommost_compression",
            "bottommost_compression_opts",
        ],
    ),
    // They decide which files compaction makes.
    (
        AnyOf(&[Compactions]),
        &[
            "disable_auto_compactions",
            "compaction_pri",
            "compaction_readahead_size",
            "max_bytes_for_level_base",
            "max_bytes_for_level_multiplier",
            "max_bytes_for_level_multiplier_additional",
            "max_compaction_bytes",
            "max_subcompactions",
        ],
    ),
    // They decide which files there are, and so what a read has to look through.
    (
        AnyOf(&[Compactions, BlockReads]),
        &[
            "compaction_style",
            "compaction_options_fifo",
            "compaction_options_universal",
            "level_compaction_dynamic_level_bytes",
            "num_levels",
            "target_file_size_base",
            "target_file_size_multiplier",
        ],
    ),
    // They act while table files are written.
    (
        AnyOf(&[Flushes, Compactions]),
        &[
            "bytes_per_sync",
            "strict_bytes_per_sync",
            "rate_limiter_bytes_per_sec",
            "use_direct_io_for_flush_and_compaction",
            "writable_file_max_buffer_size",
            "max_background_jobs",
            "max_background_flushes",
            "max_background_compactions",
        ],
    ),
    // Blocks, indexes and filters: made with table files, used by reads.
    (
        AnyOf(&[BlockReads, Flushes, Compactions]),
        &["block_based_table_factory", "table_factory", "optimize_filters_for_hits", "prefix_extractor"],
    ),
    (AnyOf(&[BlockReads]), &[BLOCK_CACHE]),
    (AnyOf(&[BlockMisses]), &["use_direct_reads", "allow_mmap_reads", "advise_random_on_open"]),
    (AnyOf(&[WalBytes]), &["wal_bytes_per_sync", "wal_compression", "manual_wal_flush", "recycle_log_file_num"]),
    // They act in every write.
    (
        AnyOf(&[UserBytes]),
        &[
            "allow_concurrent_memtable_write",
            "enable_pipelined_write",
            "enable_write_thread_adaptive_yield",
            "unordered_write",
            WRITE_OPTIONS,
        ],
    ),
];

const TRIGGER: &str = "level0_file_num_compaction_trigger";
const BLOCK_CACHE: &str = "blockCache";
const WRITE_OPTIONS: &str = "writeOptions";

impl Counter {
    fn read(self, seen: &Engagement) -> Option<u64> {
        match self {
            Flushes => seen.flushes,
            Compactions => seen.compactions,
            Stalls => seen.stalls,
            WalBytes => seen.wal_bytes,
            UserBytes => seen.user_bytes_written,
            BlockReads => seen.block_cache_hits.zip(seen.block_cache_misses).map(|(hits, misses)| hits + misses),
            BlockMisses => seen.block_cache_misses,
            Compressed => seen.bytes_compressed_by_level.as_ref().map(|levels| levels.iter().sum()),
            Decompressed => seen.bytes_decompressed,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Flushes => "flush",
            Compactions => "compaction",
            Stalls => "stall",
            WalBytes => "byte in the WAL",
            UserBytes => "write",
            BlockReads => "read of a block",
            BlockMisses => "read of a block that was not cached",
            Compressed => "compressed byte written",
            Decompressed => "compressed byte read",
        }
    }
}

/// What the trials say about one changed option.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Acted,
    /// It can't have, for what was seen.
    Idle(String),
    Unknown,
}

/// Values of one option in both arms, in a place where they differ; `None` is RocksDB's default.
type Pair = (Option<String>, Option<String>);

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let Some(baseline) = view.experiment.baseline_config() else { return };
    let mut seen: BTreeMap<(&str, &str), Vec<&Engagement>> = BTreeMap::new();
    for &trial in view.completed() {
        let summary = view.summary(trial);
        seen.entry((&summary.trial.scenario, &summary.trial.config)).or_default().push(&summary.engagement);
    }
    for scenario in &view.experiment.scenarios {
        for config in view.experiment.configs.iter().filter(|config| config.name != baseline.name) {
            let own = seen.get(&(scenario.name.as_str(), config.name.as_str()));
            let base = seen.get(&(scenario.name.as_str(), baseline.name.as_str()));
            // One arm alone says nothing yet.
            let Some((own, base)) = own.zip(base) else { continue };
            let both: Vec<&Engagement> = own.iter().chain(base).copied().collect();
            // Universal compaction counts levels, too, when it asks whether a trigger is reached.
            let universal = [baseline, config].iter().any(|config| is_universal(&config.engine));
            let answers: BTreeMap<String, Answer> = changed(baseline, config, scenario.workload.families())
                .into_iter()
                .map(|(option, pairs)| match answer(&option, &pairs, &both) {
                    Answer::Idle(_) if universal && option == TRIGGER => (option, Answer::Unknown),
                    answer => (option, answer),
                })
                .collect();
            say(findings, &scenario.name, &config.name, &answers);
        }
    }
}

fn say(findings: &mut Findings, scenario: &str, config: &str, answers: &BTreeMap<String, Answer>) {
    let idle: Vec<String> = answers
        .iter()
        .filter_map(|(option, answer)| match answer {
            Answer::Idle(why) => Some(format!("{option} ({why})")),
            Answer::Acted | Answer::Unknown => None,
        })
        .collect();
    if !idle.is_empty() && idle.len() == answers.len() {
        let message = format!("nothing that {config} changes came into action in {scenario}: {}", idle.join(", "));
        findings.cell(scenario, config, Code::NotEngaged, message);
    } else if !idle.is_empty() {
        findings.note(Some(config), format!("Did not come into action in {scenario}: {}.", idle.join(", ")));
    }
    let unknown: Vec<&str> =
        answers.iter().filter(|(_, answer)| **answer == Answer::Unknown).map(|(option, _)| option.as_str()).collect();
    if !unknown.is_empty() {
        let text = format!("Whether it came into action in {scenario} can't be said: {}.", unknown.join(", "));
        findings.note(Some(config), text);
    }
}

/// What a config changes, by option.
fn changed(baseline: &ConfigUnderTest, config: &ConfigUnderTest, families: &[String]) -> BTreeMap<String, Vec<Pair>> {
    let (base, own): (&EngineConfig, &EngineConfig) = (&baseline.engine, &config.engine);
    let mut changed: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
    let mut maps = vec![(base.db_options.clone(), own.db_options.clone())];
    maps.extend(families.iter().map(|family| (base.family_options(family), own.family_options(family))));
    for (from, to) in maps {
        for name in from.keys().chain(to.keys().filter(|name| !from.contains_key(*name))) {
            let pair = (from.get(name).cloned(), to.get(name).cloned());
            if pair.0 != pair.1 {
                changed.entry(name.clone()).or_default().push(pair);
            }
        }
    }
    let mut more = |name: &str, differs: bool| {
        if differs {
            changed.insert(name.to_owned(), Vec::new());
        }
    };
    more(BLOCK_CACHE, base.block_cache != own.block_cache);
    more(WRITE_OPTIONS, base.write_options != own.write_options);
    more("policy", base.policy != own.policy);
    more("image", baseline.image != config.image);
    changed
}

fn is_universal(engine: &EngineConfig) -> bool {
    let options = engine.column_families.iter().map(|entry| &entry.options).chain([&engine.db_options]);
    options.filter_map(|options| options.get("compaction_style")).any(|style| style.contains("Universal"))
}

fn answer(option: &str, pairs: &[Pair], seen: &[&Engagement]) -> Answer {
    // A part of a struct, such as block_based_table_factory.block_size, acts where the struct does.
    let whole = option.split('.').next().unwrap_or(option);
    match SIGNS.iter().find(|(_, options)| options.contains(&whole)) {
        None => Answer::Unknown,
        Some((AnyOf(counters), _)) => {
            let readings = || counters.iter().flat_map(|counter| seen.iter().map(|trial| counter.read(trial)));
            if readings().flatten().any(|count| count > 0) {
                Answer::Acted
            } else if readings().any(|reading| reading.is_none()) {
                Answer::Unknown
            } else {
                let words: Vec<&str> = counters.iter().map(|counter| counter.words()).collect();
                Answer::Idle(format!("no {}", words.join(", no ")))
            }
        }
        Some((L0Files(default), _)) => {
            let peak = seen.iter().filter_map(|trial| trial.l0_files_peak).max();
            match (peak, lowest(pairs, *default)) {
                (Some(peak), Some(needed)) if peak >= needed => Answer::Acted,
                (Some(peak), Some(needed)) if seen.iter().all(|trial| trial.l0_files_peak.is_some()) => {
                    Answer::Idle(format!("at most {peak} files in L0, it acts from {needed} on"))
                }
                _ => Answer::Unknown,
            }
        }
    }
}

/// The lowest value of a trigger in either arm; `None` where one can't be read. Below zero it is switched off.
fn lowest(pairs: &[Pair], default: u64) -> Option<u64> {
    let value = |text: Option<&str>| match text {
        None => Some(default),
        Some(text) => text.trim().parse::<i64>().ok().map(|value| u64::try_from(value).unwrap_or(u64::MAX)),
    };
    let values: Option<Vec<u64>> =
        pairs.iter().flat_map(|(from, to)| [value(from.as_deref()), value(to.as_deref())]).collect();
    values?.into_iter().min()
}

#[cfg(test)]
mod tests;
