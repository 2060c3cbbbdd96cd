//! Files of databases, as several versions of RocksDB write them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::draft::Cache;
use super::testing::errors;
use super::*;

fn folder(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/databases").join(version)
}

fn options(version: &str, name: &str) -> OptionsFile {
    parse_options(&fs::read_to_string(folder(version).join(name)).unwrap()).unwrap()
}

/// Declared options as `scope option=value`.
fn declared(baseline: &Baseline) -> Vec<String> {
    let differences = baseline.differences().into_iter();
    differences.map(|difference| format!("{} {}={}", difference.scope, difference.option, difference.value)).collect()
}

fn database() -> Database {
    let mut log = InfoLog::default();
    fs::read_to_string(folder("v8.10").join("LOG")).unwrap().lines().for_each(|line| log.line(line));
    Database {
        folder: "/data/db".to_owned(),
        options_name: "OPTIONS-000123".to_owned(),
        options: options("v8.10", "OPTIONS-000123"),
        log: Some(log),
        sst_files: 4000,
        sst_bytes: 250_000_000_000,
    }
}

#[test]
fn an_old_file_keeps_what_its_defaults_were() {
    let draft = from_options("mine", "OPTIONS-000005", &options("v5.14", "OPTIONS-000005"), 4);
    assert_eq!(
        declared(&draft.baseline),
        [
            "db bytes_per_sync=1048576",
            "db compaction_readahead_size=0",
            "db max_background_jobs=6",
            "db max_open_files=5000",
            "default block_based_table_factory.block_size=16384",
            "default block_based_table_factory.cache_index_and_filter_blocks=true",
            "default block_based_table_factory.checksum=kCRC32c",
            "default block_based_table_factory.filter_policy=bloomfilter:10:false",
            "default block_based_table_factory.format_version=2",
            "default block_based_table_factory.pin_l0_filter_and_index_blocks_in_cache=true",
            "default compression=kSnappyCompression",
            "default compression_per_level=kNoCompression:kNoCompression:kSnappyCompression:kSnappyCompression",
            "default level_compaction_dynamic_level_bytes=false",
            "default max_bytes_for_level_base=536870912",
            "default max_write_buffer_number=4",
            "default min_write_buffer_number_to_merge=2",
            "default ttl=0",
            "default write_buffer_size=134217728",
        ]
    );
    assert_eq!(
        draft.left_behind(),
        [
            "not known to RocksDB 11.8.1: base_background_compactions, compaction_options_fifo.ttl, concurrent_prepare, \
             fail_if_options_file_error, hash_index_allow_collision, max_write_buffer_number_to_maintain, \
             new_table_reader_for_compaction_inputs, random_access_max_buffer_size, skip_log_error_on_recovery",
            "paths; each trial has its own directory: wal_dir",
        ]
    );
}

#[test]
fn two_families_keep_their_own_options() {
    let draft = from_options("mine", "OPTIONS-000123", &options("v8.10", "OPTIONS-000123"), 4);
    let of_blocks: Vec<String> =
        declared(&draft.baseline).into_iter().filter(|option| option.starts_with("blocks ")).collect();
    assert_eq!(
        of_blocks,
        [
            "blocks block_based_table_factory.block_size=65536",
            "blocks block_based_table_factory.cache_index_and_filter_blocks=true",
            "blocks block_based_table_factory.filter_policy=bloomfilter:10:false",
            "blocks block_based_table_factory.format_version=5",
            "blocks block_based_table_factory.optimize_filters_for_memory=false",
            "blocks bottommost_compression=kZSTD",
            "blocks max_bytes_for_level_base=1073741824",
            "blocks max_write_buffer_number=4",
            "blocks prefix_extractor=rocksdb.FixedPrefix.8",
            "blocks target_file_size_base=134217728",
            "blocks write_buffer_size=268435456",
        ]
    );
    assert_eq!(
        draft.left_behind(),
        [
            "not known to RocksDB 11.8.1: access_hint_on_compaction_start, random_access_max_buffer_size",
            "paths; each trial has its own directory: db_log_dir, wal_dir",
            "objects of your program, which an option string can't create: \
             compaction_filter_factory=app.ExpiryFilterFactory (blocks), comparator=app.ReverseComparator (blocks), \
             merge_operator={id=app.AppendOperator;} (blocks)",
            "compression that this build does not have, so the default applies (it has Snappy, LZ4 and ZSTD): \
             compression=kZlibCompression (blocks)",
        ]
    );
    // What both have in common is said once.
    let yaml = draft.yaml();
    assert!(
        yaml.contains("- match: [\"*\"]\n      options:\n        block_based_table_factory: \"{cache_index"),
        "{yaml}"
    );
    assert_eq!(yaml.matches("bottommost_compression: kZSTD").count(), 1, "{yaml}");
    assert!(yaml.contains("families: [default, blocks]"), "{yaml}");
}

#[test]
fn what_this_version_does_not_know_stays_behind() {
    let draft = from_options("mine", "OPTIONS-000009", &options("v12.0", "OPTIONS-000009"), 4);
    assert_eq!(
        declared(&draft.baseline),
        [
            "db max_background_jobs=4",
            "default block_based_table_factory.block_size=32768",
            "default compaction_style=kCompactionStyleUniversal",
            "default write_buffer_size=33554432",
            "plain write_buffer_size=33554432",
        ]
    );
    assert_eq!(
        draft.left_behind(),
        [
            "not known to RocksDB 11.8.1: [ReplicaOptions], compaction_options_universal.many_worlds (default), \
             holographic_blocks (default), quantum_compaction.entangled (default), quantum_compaction.spin (default), \
             telepathic_prefetch",
            "objects of your program, which an option string can't create: table_factory=PlainTable (plain)",
        ]
    );
}

#[test]
fn every_file_becomes_a_valid_experiment() {
    for (version, name) in [("v5.14", "OPTIONS-000005"), ("v8.10", "OPTIONS-000123"), ("v12.0", "OPTIONS-000009")] {
        let draft = from_options("mine", name, &options(version, name), 4);
        assert_eq!(errors(&draft), Vec::<String>::new(), "{}", draft.yaml());
    }
    let import = database().import("mine", &Machine::default());
    assert_eq!(errors(&import.draft), Vec::<String>::new(), "{}", import.draft.yaml());
}

#[test]
fn odd_families_are_left_out() {
    let mut text = "[Version]\nrocksdb_version=11.8.1\n[DBOptions]\n[CFOptions \"default\"]\n".to_owned();
    let _ = writeln!(text, "[CFOptions \"{}\"]\nttl=5\n[CFOptions \"\"]\nttl=5", "long".repeat(20));
    for number in 0..40 {
        let _ = writeln!(text, "[CFOptions \"cf {number} # * \\: ü\"]\nttl={number}");
    }
    let draft = from_options("mine", "OPTIONS-1", &parse_options(&text.replace(" # ", " \\# ")).unwrap(), 4);
    assert_eq!(draft.baseline.families.len(), 32);
    assert_eq!(errors(&draft), Vec::<String>::new(), "{}", draft.yaml());
    assert!(draft.left_behind()[0].contains("column family cf 39 # * : ü"), "{:?}", draft.left_behind());
    assert!(draft.left_behind()[0].contains("column family longlong"), "{:?}", draft.left_behind());
}

#[test]
fn values_that_no_experiment_can_hold_are_left_out() {
    let text = format!(
        "[Version]\nrocksdb_version=11.8.1\n[DBOptions]\nmax_background_jobs=1}};wal_dir=/x;{{\ndaily_offpeak_time_utc={}\n\
         [CFOptions \"default\"]\nttl=true\n",
        "9".repeat(5000)
    );
    let draft = from_options("mine", "OPTIONS-1", &parse_options(&text).unwrap(), 4);
    assert_eq!(errors(&draft), Vec::<String>::new(), "{}", draft.yaml());
    assert!(
        draft.left_behind()[0].ends_with(": daily_offpeak_time_utc, max_background_jobs"),
        "{:?}",
        draft.left_behind()
    );
}

#[test]
fn a_database_is_scaled_to_the_machine() {
    let machine = Machine { free_bytes: Some(100 << 30), memory_bytes: Some(16 << 30), cpus: 8 };
    let import = database().import("mine", &machine);
    let data = Data { keys: 1_950_000_000, key_bytes: 24, value_bytes: 215, compressed_percent: 45 };
    assert_eq!(import.data, Some(data));
    assert_eq!(import.scaled, Some(Data { keys: 16_843_009, ..data }));
    assert_eq!(import.draft.cache, Some(Cache { bytes: 71 << 20, shared: true }));
    let begins: Vec<&str> = import.lost.iter().filter_map(|lost| lost.split(':').next()).collect();
    assert_eq!(begins, ["Size", "Levels", "Block cache", "Page cache", "Column families"]);
    assert_eq!(
        import.draft.lost,
        ["rate limiter: its rate is in neither file; set rate_limiter_bytes_per_sec in dbOptions"]
    );
    let yaml = import.draft.yaml();
    assert!(yaml.contains("keys: 16843009\n") && yaml.contains("compressedPercent: 45\n"), "{yaml}");
    assert!(yaml.contains("# - Size: 16843009 of about 1950000000 keys, 1/116 of the data"), "{yaml}");
    assert_eq!(import.draft.name, "mine");
}

#[test]
fn without_a_log_sizes_are_placeholders() {
    let bare = Database { log: None, ..database() };
    let import = bare.import("mine", &Machine::default());
    assert_eq!((import.data, import.scaled, import.lost.len(), import.draft.cache), (None, None, 0, None));
    assert_eq!(bare.version(), "8.10.0");
    let yaml = import.draft.yaml();
    assert!(yaml.contains("# The sizes are placeholders: no LOG"), "{yaml}");
    assert!(yaml.contains("# An OPTIONS file does not have the size of the block cache"), "{yaml}");
    assert_eq!(errors(&import.draft), Vec::<String>::new());
}
