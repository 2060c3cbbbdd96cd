//! What the sweep can't tell from the engine: values of enums and objects, what options need, and what RocksDB derives from them.

/// Options that RocksDB writes only once they have a value.
pub const UNWRITTEN: &[(&str, &str)] = &[
    ("db", "daily_offpeak_time_utc"),
    ("db", "db_log_dir"),
    ("db", "listeners"),
    ("db", "wal_dir"),
    ("hot", "compression_per_level"),
    ("hot", "table_properties_collectors"),
];

/// Other names that RocksDB's parser takes, with those under which it writes them.
pub const OTHER_NAMES: &[(&str, &str)] = &[
    ("memtable", "memtable_factory"),
    ("memtable_veirfy_per_key_checksum_on_seek", "memtable_verify_per_key_checksum_on_seek"),
    ("table_factory.id", "table_factory"),
    ("table_factory.block_size", "block_based_table_factory.block_size"),
];

/// Options that are not changed, each with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("create_if_missing", "the bench sets it"),
    ("create_missing_column_families", "the bench sets it"),
    ("db_log_dir", "an experiment may not set it: it names a folder elsewhere"),
    ("wal_dir", "an experiment may not set it: it names a folder elsewhere"),
    ("listeners", "RocksDB knows none by name"),
    ("wal_filter", "RocksDB knows none by name"),
    ("compaction_filter_factory", "RocksDB knows none by name"),
    ("block_based_table_factory.user_defined_index_factory", "RocksDB has none built in"),
    ("block_based_table_factory.use_udi_as_primary_index", "needs a user_defined_index_factory"),
    ("experimental_mempurge_threshold", "RocksDB's parser drops it, because an old database option had the same name"),
];

/// Options that RocksDB never writes, each with the reason why it is not swept.
pub const UNSERIALISED: &[(&str, &str)] = &[
    ("blob_cache", "has a test of its own"),
    ("rate_limiter_bytes_per_sec", "has a test of its own"),
    ("blob_direct_write_partition_strategy", "is an object, and RocksDB knows none by name"),
    ("env", "an experiment may not set it: it names a place elsewhere"),
    ("plain_table_factory", "RocksDB refuses it where tables are of another kind, as they are by default"),
    ("statistics", "the bench sets it"),
];

/// Names from old versions of RocksDB, which it takes and ignores.
pub const IGNORED: &[&str] = &[
    "access_hint_on_compaction_start",
    "allow_os_buffer",
    "base_background_compactions",
    "bottommost_temperature",
    "check_flush_compaction_key_order",
    "compaction_measure_io_stats",
    "concurrent_prepare",
    "disableDataSync",
    "disable_data_sync",
    "expanded_compaction_factor",
    "experimental_allow_mempurge",
    "experimental_mempurge_policy",
    "fail_if_options_file_error",
    "filter_deletes",
    "hard_rate_limit",
    "ignore_max_compaction_bytes_for_input",
    "level_compaction_dynamic_file_size",
    "max_grandparent_overlap_factor",
    "max_mem_compaction_level",
    "max_write_buffer_number_to_maintain",
    "memtable_prefix_bloom_bits",
    "memtable_prefix_bloom_huge_page_tlb_size",
    "memtable_prefix_bloom_probes",
    "min_partial_merge_operands",
    "new_table_reader_for_compaction_inputs",
    "preserve_deletes",
    "purge_redundant_kvs_while_flush",
    "random_access_max_buffer_size",
    "rate_limit_delay_max_milliseconds",
    "rate_limiter",
    "seq_per_batch",
    "skip_checking_sst_file_sizes_on_db_open",
    "skip_log_error_on_recovery",
    "snap_refresh_nanos",
    "soft_rate_limit",
    "source_compaction_factor",
    "use_direct_writes",
    "verify_checksums_in_compaction",
];

const NO_CODEC: &str = "kNoCompression";

/// A changed value, where doubling or flipping the default gives none that RocksDB takes.
pub const VALUES: &[(&str, &str)] = &[
    ("daily_offpeak_time_utc", "23:00-02:00"),
    ("db_host_id", "here"),
    ("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory"),
    ("info_log_level", "WARN_LEVEL"),
    ("lowest_used_cache_tier", "kVolatileTier"),
    ("max_background_compactions", "3"),
    ("max_background_flushes", "3"),
    ("max_bgerror_resume_count", "7"),
    ("max_open_files", "500"),
    ("metadata_write_temperature", "kWarm"),
    ("wal_compression", "kZSTD"),
    ("wal_recovery_mode", "kAbsoluteConsistency"),
    ("wal_write_temperature", "kWarm"),
    ("blob_compression_type", "kZSTD"),
    ("bottommost_compression", "kZSTD"),
    ("compaction_filter", "RemoveEmptyValueCompactionFilter"),
    ("compaction_options_fifo.file_temperature_age_thresholds", "{{temperature=kWarm;age=60}}"),
    ("compaction_options_universal.compression_size_percent", "50"),
    ("compaction_options_universal.max_merge_width", "9"),
    ("compaction_options_universal.max_read_amp", "50"),
    ("compaction_options_universal.stop_style", "kCompactionStopStyleSimilarSize"),
    ("compaction_pri", "kRoundRobin"),
    ("compaction_style", "kCompactionStyleUniversal"),
    ("comparator", "rocksdb.ReverseBytewiseComparator"),
    ("compression", "kZSTD"),
    ("compression_manager", "BuiltinV2"),
    ("blob_compression_opts.window_bits", "9"),
    ("bottommost_compression_opts.window_bits", "9"),
    ("compression_opts.window_bits", "9"),
    ("compression_per_level", "kNoCompression:kZSTD"),
    ("default_temperature", "kWarm"),
    ("default_write_temperature", "kWarm"),
    ("last_level_temperature", "kWarm"),
    ("max_bytes_for_level_multiplier_additional", "2:1:1:1:1:1:1"),
    ("memtable_factory", "vector"),
    ("memtable_insert_with_hint_prefix_extractor", "fixed:8"),
    ("merge_operator", "uint64add"),
    ("prefix_extractor", "fixed:8"),
    ("prepopulate_blob_cache", "kFlushOnly"),
    ("sst_partitioner_factory", "{id=SstPartitionerFixedPrefixFactory;length=4}"),
    ("table_factory", "PlainTable"),
    ("table_properties_collectors", "CompactOnDeletionCollector"),
    ("block_based_table_factory.checksum", "kCRC32c"),
    ("block_based_table_factory.data_block_index_type", "kDataBlockBinaryAndHash"),
    ("block_based_table_factory.filter_policy", "bloomfilter:10"),
    ("block_based_table_factory.flush_block_policy_factory", "FlushBlockEveryKeyPolicyFactory"),
    ("block_based_table_factory.format_version", "5"),
    ("block_based_table_factory.index_block_search_type", "kAuto"),
    ("block_based_table_factory.index_shortening", "kNoShortening"),
    ("block_based_table_factory.index_type", "kTwoLevelIndexSearch"),
    ("block_based_table_factory.metadata_cache_options.partition_pinning", "kAll"),
    ("block_based_table_factory.metadata_cache_options.top_level_index_pinning", "kAll"),
    ("block_based_table_factory.metadata_cache_options.unpartitioned_pinning", "kAll"),
    ("block_based_table_factory.prepopulate_block_cache", "kFlushOnly"),
    ("memtable", "vector"),
    ("table_factory.id", "PlainTable"),
];

/// What else has to be set for an option to change anything, or for RocksDB to take it.
pub const NEEDS: &[(&str, &str, &str)] = &[
    ("open_files_async", "skip_stats_update_on_db_open", "true"),
    ("enable_blob_direct_write", "allow_concurrent_memtable_write", "false"),
    ("enable_blob_direct_write", "enable_blob_files", "true"),
    ("inplace_update_support", "allow_concurrent_memtable_write", "false"),
    ("block_based_table_factory.block_align", "compression", NO_CODEC),
    ("compaction_options_fifo", "compaction_style", "kCompactionStyleFIFO"),
    ("compaction_options_fifo.file_temperature_age_thresholds", "num_levels", "1"),
    ("compression_opts.zstd_max_train_bytes", "compression_opts.max_dict_bytes", "4096"),
    ("compaction_options_universal", "compaction_style", "kCompactionStyleUniversal"),
    ("memtable_prefix_bloom_size_ratio", "memtable_whole_key_filtering", "true"),
    ("memtable_whole_key_filtering", "memtable_prefix_bloom_size_ratio", "0.1"),
    ("min_write_buffer_number_to_merge", "max_write_buffer_number", "8"),
];

const OTHER_TABLES: &str = "other tables have other options, and no time in which they are compacted again";

/// What RocksDB derives from an option that is changed, with the reason. Of what has parts, all.
pub const DERIVED: &[(&str, &[&str], &str)] = &[
    ("persist_stats_to_disk", &["___rocksdb_stats_history___"], "the history is kept in a column family"),
    ("compaction_filter", &["periodic_compaction_seconds"], "a filter is to see every file within 30 days"),
    ("compaction_options_fifo.use_kv_ratio_compaction", &["max_compaction_bytes"], "the ratio decides instead"),
    (
        "compaction_style",
        &["level_compaction_dynamic_level_bytes", "periodic_compaction_seconds"],
        "only leveled compaction has dynamic levels, and universal compaction has no TTL of its own",
    ),
    ("disallow_memtable_writes", &["memtable_factory"], "the memtable is one that takes no space"),
    ("level0_slowdown_writes_trigger", &["level0_stop_writes_trigger"], "writes slow down before they stop"),
    ("table_factory", &["block_based_table_factory", "ttl"], OTHER_TABLES),
    ("table_factory.id", &["block_based_table_factory", "ttl"], OTHER_TABLES),
    ("target_file_size_base", &["max_compaction_bytes"], "unless it is set, it is 25 files"),
];
