//! Which flag of `db_bench` sets which option of RocksDB.

use super::flags::{truth, whole};

/// How a flag becomes the value of an option.
#[derive(Clone, Copy)]
pub enum Value {
    /// A whole number.
    Number,
    Decimal,
    Switch,
    /// A whole number; 0 leaves RocksDB's default.
    Positive,
    Mebibytes,
    /// A number that stands for a word.
    Word(&'static [&'static str]),
    /// The name of a compression.
    Codec,
    Text,
}

use Value::{Codec, Decimal, Mebibytes, Number, Positive, Switch, Text, Word};

/// Flags whose option has the same name.
pub const SAME_NAME: [(&str, Value); 87] = [
    ("advise_random_on_open", Switch),
    ("allow_concurrent_memtable_write", Switch),
    ("arena_block_size", Number),
    ("avoid_flush_during_recovery", Switch),
    ("avoid_flush_during_shutdown", Switch),
    ("blob_compaction_readahead_size", Number),
    ("blob_compression_type", Codec),
    ("blob_file_size", Number),
    ("blob_file_starting_level", Number),
    ("blob_garbage_collection_age_cutoff", Decimal),
    ("blob_garbage_collection_force_threshold", Decimal),
    ("block_align", Switch),
    ("block_protection_bytes_per_key", Number),
    ("block_restart_interval", Number),
    ("block_size", Number),
    ("bloom_locality", Number),
    ("bytes_per_sync", Number),
    ("cache_index_and_filter_blocks", Switch),
    ("compaction_pri", Word(&PRIORITIES)),
    ("compaction_readahead_size", Number),
    ("compaction_style", Word(&STYLES)),
    ("data_block_hash_table_util_ratio", Decimal),
    ("db_write_buffer_size", Number),
    ("decouple_partitioned_filters", Switch),
    ("delayed_write_rate", Number),
    ("disable_auto_compactions", Switch),
    ("enable_blob_files", Switch),
    ("enable_blob_garbage_collection", Switch),
    ("enable_index_compression", Switch),
    ("enable_pipelined_write", Switch),
    ("enable_write_thread_adaptive_yield", Switch),
    ("force_consistency_checks", Switch),
    ("format_version", Number),
    ("hard_pending_compaction_bytes_limit", Number),
    ("index_block_restart_interval", Number),
    ("initial_auto_readahead_size", Number),
    ("inplace_update_num_locks", Number),
    ("inplace_update_support", Switch),
    ("level0_file_num_compaction_trigger", Number),
    ("level0_slowdown_writes_trigger", Number),
    ("level0_stop_writes_trigger", Number),
    ("level_compaction_dynamic_level_bytes", Switch),
    ("log_readahead_size", Number),
    ("manual_wal_flush", Switch),
    ("max_auto_readahead_size", Number),
    ("max_background_compactions", Number),
    ("max_background_flushes", Number),
    ("max_background_jobs", Number),
    ("max_bytes_for_level_base", Number),
    ("max_bytes_for_level_multiplier", Decimal),
    ("max_compaction_bytes", Positive),
    ("max_total_wal_size", Number),
    ("max_write_buffer_number", Number),
    ("max_write_buffer_size_to_maintain", Number),
    ("memtable_protection_bytes_per_key", Number),
    ("memtable_whole_key_filtering", Switch),
    ("min_blob_size", Number),
    ("min_write_buffer_number_to_merge", Number),
    ("num_file_reads_for_auto_readahead", Number),
    ("num_levels", Number),
    ("optimize_filters_for_hits", Switch),
    ("optimize_filters_for_memory", Switch),
    ("paranoid_checks", Switch),
    ("periodic_compaction_seconds", Number),
    ("pin_l0_filter_and_index_blocks_in_cache", Switch),
    ("pin_top_level_index_and_filter", Switch),
    ("prepopulate_block_cache", Word(&["kDisable", "kFlushOnly", "kFlushAndCompaction"])),
    ("read_amp_bytes_per_bit", Number),
    ("sample_for_compression", Number),
    ("skip_stats_update_on_db_open", Switch),
    ("soft_pending_compaction_bytes_limit", Number),
    ("stats_dump_period_sec", Number),
    ("table_cache_numshardbits", Number),
    ("target_file_size_base", Number),
    ("target_file_size_multiplier", Number),
    ("uncache_aggressiveness", Number),
    ("unordered_write", Switch),
    ("use_adaptive_mutex", Switch),
    ("use_direct_io_for_flush_and_compaction", Switch),
    ("use_direct_reads", Switch),
    ("use_fsync", Switch),
    ("verify_compression", Switch),
    ("wal_bytes_per_sync", Number),
    ("wal_compression", Codec),
    ("whole_key_filtering", Switch),
    ("writable_file_max_buffer_size", Number),
    ("write_buffer_size", Number),
];

/// Flags whose option has another name.
pub const OTHER_NAME: [(&str, &str, Value); 33] = [
    ("checksum_type", "checksum", Word(&["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"])),
    ("compression_level", "compression_opts.level", Number),
    ("compression_max_dict_buffer_bytes", "compression_opts.max_dict_buffer_bytes", Number),
    ("compression_max_dict_bytes", "compression_opts.max_dict_bytes", Number),
    ("compression_parallel_threads", "compression_opts.parallel_threads", Number),
    ("compression_type", "compression", Codec),
    ("compression_use_zstd_dict_trainer", "compression_opts.use_zstd_dict_trainer", Switch),
    ("compression_zstd_max_train_bytes", "compression_opts.zstd_max_train_bytes", Number),
    ("fifo_age_for_warm", "compaction_options_fifo.age_for_warm", Number),
    ("fifo_compaction_allow_compaction", "compaction_options_fifo.allow_compaction", Switch),
    ("fifo_compaction_max_table_files_size_mb", "compaction_options_fifo.max_table_files_size", Mebibytes),
    ("file_opening_threads", "max_file_opening_threads", Number),
    ("index_shortening_mode", "index_shortening", Word(&SHORTENING)),
    ("memtable_bloom_size_ratio", "memtable_prefix_bloom_size_ratio", Decimal),
    ("memtablerep", "memtable_factory", Text),
    ("mmap_read", "allow_mmap_reads", Switch),
    ("mmap_write", "allow_mmap_writes", Switch),
    ("open_files", "max_open_files", Number),
    ("partition_index_and_filters", "partition_filters", Switch),
    ("subcompactions", "max_subcompactions", Number),
    ("ttl_seconds", "ttl", Number),
    ("universal_allow_trivial_move", "compaction_options_universal.allow_trivial_move", Switch),
    ("universal_compression_size_percent", "compaction_options_universal.compression_size_percent", Number),
    ("universal_incremental", "compaction_options_universal.incremental", Switch),
    (
        "universal_max_size_amplification_percent",
        "compaction_options_universal.max_size_amplification_percent",
        Positive,
    ),
    ("universal_max_merge_width", "compaction_options_universal.max_merge_width", Positive),
    ("universal_max_read_amp", "compaction_options_universal.max_read_amp", Number),
    ("universal_min_merge_width", "compaction_options_universal.min_merge_width", Positive),
    ("universal_size_ratio", "compaction_options_universal.size_ratio", Positive),
    (
        "universal_stop_style",
        "compaction_options_universal.stop_style",
        Word(&["kCompactionStopStyleSimilarSize", "kCompactionStopStyleTotalSize"]),
    ),
    (
        "use_data_block_hash_index",
        "data_block_index_type",
        Word(&["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
    ),
    ("wal_size_limit_MB", "WAL_size_limit_MB", Number),
    ("wal_ttl_seconds", "WAL_ttl_seconds", Number),
];

const STYLES: [&str; 4] =
    ["kCompactionStyleLevel", "kCompactionStyleUniversal", "kCompactionStyleFIFO", "kCompactionStyleNone"];
const PRIORITIES: [&str; 5] =
    ["kByCompensatedSize", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst", "kMinOverlappingRatio", "kRoundRobin"];
const SHORTENING: [&str; 3] = ["kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor"];

/// Compressions by the names that `db_bench` gives them.
const CODECS: [(&str, &str); 8] = [
    ("none", "kNoCompression"),
    ("snappy", "kSnappyCompression"),
    ("zlib", "kZlibCompression"),
    ("bzip2", "kBZip2Compression"),
    ("lz4", "kLZ4Compression"),
    ("lz4hc", "kLZ4HCCompression"),
    ("xpress", "kXpressCompression"),
    ("zstd", "kZSTD"),
];
impl Value {
    /// The option's value, if the flag does not leave it at its default.
    pub fn of(self, flag: &str, text: &str) -> Result<Option<String>, String> {
        let unknown = |known: &str| Err(format!("--{flag}={text}: db_bench knows {known}"));
        Ok(Some(match self {
            Number => whole(flag, text)?.to_string(),
            Positive => match whole(flag, text)? {
                0 => return Ok(None),
                number => number.to_string(),
            },
            Mebibytes => whole(flag, text)?.saturating_mul(1 << 20).to_string(),
            Decimal => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.ok_or_else(|| format!("--{flag}={text}: not a number"))?.to_string()
            }
            Switch => truth(flag, text)?.to_string(),
            Word(words) => {
                // A switch counts as 0 or 1.
                let number = truth(flag, text).map(i64::from).or_else(|_| whole(flag, text))?;
                let word = usize::try_from(number).ok().and_then(|place| words.get(place));
                match word {
                    Some(word) => (*word).to_owned(),
                    None => return unknown(&format!("0 to {}", words.len().saturating_sub(1))),
                }
            }
            Codec => {
                let codec = CODECS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                match codec {
                    Some((_, codec)) => (*codec).to_owned(),
                    None => return unknown(&CODECS.map(|(name, _)| name).join(", ")),
                }
            }
            Text => text.to_owned(),
        }))
    }
}
