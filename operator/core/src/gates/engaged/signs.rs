//! The signs of options: what must have been seen before an option can make a difference.

use super::case::{Answer, Case, Read};
use super::{levels, rules};

/// How an option shows itself at work.
#[derive(Clone, Copy)]
enum Sign {
    /// One of these was more than zero.
    AnyOf(&'static [Counter]),
    /// What it takes depends on its values.
    Rule(fn(&Case<'_>) -> Answer),
}

#[derive(Clone, Copy, Debug)]
enum Counter {
    Flushes,
    Compactions,
    FifoDrops,
    Stalls,
    WalBytes,
    UserBytes,
    GroupedWrites,
    /// Levels from whose files something was read.
    FileReads,
    /// Blocks that were looked for in the block cache: reads that a memtable did not answer.
    BlockReads,
    BlockMisses,
    /// Levels to which something was written compressed.
    Compressed,
    Decompressed,
}

use Counter::{
    BlockMisses, BlockReads, Compactions, Compressed, Decompressed, FifoDrops, FileReads, Flushes, GroupedWrites,
    Stalls, UserBytes, WalBytes,
};
use Sign::{AnyOf, Rule};

/// One that is not here may act where no counter looks: nothing is said about it.
const SIGNS: &[(Sign, &[&str])] = &[
    (Rule(rules::write_buffer_size), &["write_buffer_size"]),
    (Rule(rules::max_write_buffer_number), &["max_write_buffer_number"]),
    (Rule(rules::min_write_buffer_number_to_merge), &["min_write_buffer_number_to_merge"]),
    (Rule(rules::db_write_buffer_size), &["db_write_buffer_size"]),
    (Rule(rules::memtable_filter), &["memtable_prefix_bloom_size_ratio", "memtable_whole_key_filtering"]),
    (Rule(rules::l0_trigger), &[TRIGGER, "level0_slowdown_writes_trigger", "level0_stop_writes_trigger"]),
    (Rule(rules::bytes_per_sync), &["bytes_per_sync"]),
    (Rule(rules::max_background_jobs), &["max_background_jobs"]),
    (Rule(rules::compaction_options_fifo), &["compaction_options_fifo"]),
    (Rule(levels::compression), &["compression", "compression_per_level", "bottommost_compression"]),
    // Several threads share the work of a write only where they meet.
    (AnyOf(&[GroupedWrites]), &["enable_pipelined_write", "allow_concurrent_memtable_write"]),
    (AnyOf(&[Flushes]), &["max_total_wal_size"]),
    (
        AnyOf(&[Stalls]),
        &["soft_pending_compaction_bytes_limit", "hard_pending_compaction_bytes_limit", "delayed_write_rate"],
    ),
    // Compressed blocks are written by flush and compaction, and read again by compaction and reads.
    (AnyOf(&[Compressed, Decompressed]), &["compression_opts", "bottommost_compression_opts"]),
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
        AnyOf(&[Compactions, FifoDrops, FileReads]),
        &[
            "compaction_style",
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
            "strict_bytes_per_sync",
            "rate_limiter_bytes_per_sec",
            "use_direct_io_for_flush_and_compaction",
            "writable_file_max_buffer_size",
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
    (AnyOf(&[UserBytes]), &["enable_write_thread_adaptive_yield", "unordered_write", WRITE_OPTIONS]),
];

pub const TRIGGER: &str = "level0_file_num_compaction_trigger";
pub const BLOCK_CACHE: &str = "blockCache";
pub const WRITE_OPTIONS: &str = "writeOptions";

impl Counter {
    fn read(self) -> Read {
        match self {
            Flushes => |seen| seen.flushes,
            Compactions => |seen| seen.compactions,
            FifoDrops => |seen| seen.fifo_drops,
            Stalls => |seen| seen.stalls,
            WalBytes => |seen| seen.wal_bytes,
            UserBytes => |seen| seen.user_bytes_written,
            GroupedWrites => |seen| seen.grouped_writes,
            FileReads => |seen| seen.levels_read.as_ref().map(|levels| levels.len() as u64),
            BlockReads => |seen| seen.block_cache_hits.zip(seen.block_cache_misses).map(|(hits, misses)| hits + misses),
            BlockMisses => |seen| seen.block_cache_misses,
            Compressed => |seen| seen.levels_compressed.as_ref().map(|levels| levels.len() as u64),
            Decompressed => |seen| seen.bytes_decompressed,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Flushes => "flush",
            Compactions => "compaction",
            FifoDrops => "file dropped",
            Stalls => "stall",
            WalBytes => "WAL write",
            UserBytes => "write",
            GroupedWrites => "concurrent write",
            FileReads => "file read",
            BlockReads => "block read",
            BlockMisses => "uncached block read",
            Compressed => "compressed write",
            Decompressed => "compressed read",
        }
    }
}

/// Whether an option acted.
pub fn answer(case: &Case<'_>) -> Answer {
    // A part of a struct, such as block_based_table_factory.block_size, acts where the struct does.
    let whole = case.option.split('.').next().unwrap_or(case.option);
    match SIGNS.iter().find(|(_, options)| options.contains(&whole)) {
        None => Answer::Unknown,
        Some((Rule(rule), _)) => rule(case),
        Some((AnyOf(counters), _)) => {
            let signs: Vec<(Read, u64)> = counters.iter().map(|counter| (counter.read(), 1)).collect();
            case.judge(&signs, || {
                let words: Vec<&str> = counters.iter().map(|counter| counter.words()).collect();
                format!("no {}", words.join(", no "))
            })
        }
    }
}

/// Every option that has a sign.
#[cfg(test)]
pub fn options() -> impl Iterator<Item = &'static str> {
    SIGNS.iter().flat_map(|(_, options)| options.iter().copied())
}
