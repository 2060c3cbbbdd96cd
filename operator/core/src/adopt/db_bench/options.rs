//! Flags of `db_bench` that set options of RocksDB.

use assay_protocol::WriteOptions;

use super::flags::{Flags, whole};
use super::table::{OTHER_NAME, SAME_NAME};
use crate::adopt::baseline::{Baseline, LeftOut, Why};
use crate::adopt::defaults::{BUNDLED, NOT_BUILT_IN, Scope, TABLE, same};
use crate::adopt::draft::Cache;

/// Where `db_bench` without flags is not as RocksDB without options.
pub const OWN_DEFAULTS: [(&str, &str); 6] = [
    ("compression", "kSnappyCompression"),
    ("delayed_write_rate", "8388608"),
    ("enable_pipelined_write", "true"),
    ("hard_pending_compaction_bytes_limit", "137438953472"),
    ("index_shortening", "kShortenSeparatorsAndSuccessor"),
    ("level_compaction_dynamic_level_bytes", "false"),
];
/// So is this one, which no measurement shows.
const SHARDS: (&str, &str) = ("table_cache_numshardbits", "4");

/// What the flags say of RocksDB.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    pub baseline: Baseline,
    pub cache: Option<Cache>,
    pub write: WriteOptions,
    /// Flags that set what RocksDB has anyway.
    pub at_default: Vec<String>,
}

/// Takes the flags that set options.
pub fn engine(flags: &mut Flags, families: &[String]) -> Engine {
    let mut options = Collected::default();
    for (option, value) in OWN_DEFAULTS.into_iter().chain([SHARDS]) {
        options.set(option, value.to_owned());
    }
    let mut at_default = Vec::new();
    let same_name = SAME_NAME.iter().map(|(flag, value)| (*flag, *flag, *value));
    for (flag, option, value) in same_name.chain(OTHER_NAME) {
        let Some(text) = flags.take(flag) else { continue };
        let Some(value) = flags.accept(value.of(flag, &text)) else { continue };
        if value.as_ref().is_none_or(|value| is_default(option, value)) {
            at_default.push(format!("--{flag}={text}"));
        }
        if let Some(value) = value {
            options.set(option, value);
        }
    }
    several_flags(flags, &mut options);
    let cache_bytes = flags.number("cache_size", 32 << 20);
    let cache = (cache_bytes > 0).then_some(Cache { bytes: cache_bytes.unsigned_abs(), shared: true });
    if cache.is_none() {
        options.set("no_block_cache", "true".to_owned());
    }
    let write = WriteOptions { sync: flags.switch("sync", false), disable_wal: flags.switch("disable_wal", false) };
    if write.sync && write.disable_wal {
        flags.refuse("--sync with --disable_wal: RocksDB refuses this; keep one".to_owned());
    }
    Engine { baseline: options.baseline(families), cache, write, at_default }
}

fn is_default(option: &str, value: &str) -> bool {
    let Some((scope, name)) = BUNDLED.find(option) else { return false };
    let defaults = if scope == Scope::Db { &BUNDLED.db } else { &BUNDLED.family };
    defaults.get(&name).is_some_and(|default| same(value, default))
}

/// Options that take several flags, or the value of another one.
fn several_flags(flags: &mut Flags, options: &mut Collected) {
    let bits = flags.decimal("bloom_bits", -1.0);
    let ribbon = flags.switch("use_ribbon_filter", false);
    if bits > 0.0 {
        let policy = if ribbon { format!("ribbonfilter:{bits}") } else { format!("bloomfilter:{bits}:false") };
        options.set("filter_policy", policy);
    }
    // The order is that of db_bench: the later one wins.
    for (flag, kind) in [
        ("use_hash_search", "kHashSearch"),
        ("index_with_first_key", "kBinarySearchWithFirstKey"),
        ("partition_index", "kTwoLevelIndexSearch"),
    ] {
        if flags.switch(flag, false) {
            options.set("index_type", kind.to_owned());
        }
    }
    if options.get("partition_filters") == Some("true") {
        options.set("index_type", "kTwoLevelIndexSearch".to_owned());
    }
    if let Some(text) = flags.take("metadata_block_size")
        && let Some(number) = flags.accept(whole("metadata_block_size", &text))
    {
        options.set("metadata_block_size", number.to_string());
    }
    let prefix = flags.number("prefix_size", 0);
    if prefix > 0 {
        options.set("prefix_extractor", format!("rocksdb.FixedPrefix.{prefix}"));
    }
    let hint = flags.number("memtable_insert_with_hint_prefix_size", 0);
    if hint > 0 {
        options.set("memtable_insert_with_hint_prefix_extractor", format!("rocksdb.CappedPrefix.{hint}"));
    }
    if flags.switch("memtable_use_huge_page", false) {
        options.set("memtable_huge_page_size", "2048".to_owned());
    }
    let rate = flags.number("rate_limiter_bytes_per_sec", 0);
    if rate > 0 {
        options.set("rate_limiter_bytes_per_sec", rate.to_string());
    }
    if let Some(fanouts) = flags.take("max_bytes_for_level_multiplier_additional") {
        options.set("max_bytes_for_level_multiplier_additional", fanouts.replace(',', ":"));
    }
    if let Ok(first) = usize::try_from(flags.number("min_level_to_compress", -1)) {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<usize>().ok());
        let levels = number(options.get("num_levels")).unwrap_or(7).min(64);
        let codec = options.get("compression").unwrap_or("kSnappyCompression").to_owned();
        let of = |level: usize| if level < first { "kNoCompression" } else { codec.as_str() };
        options.set("compression_per_level", (0..levels).map(of).collect::<Vec<_>>().join(":"));
    }
}

/// Options of the database and of every column family.
#[derive(Default)]
struct Collected {
    engine: Baseline,
}

impl Collected {
    /// All families have the same options, so there is one until their names are known.
    fn set(&mut self, option: &str, value: String) {
        let (scope, name) = BUNDLED.find(option).unwrap_or((Scope::Db, option.to_owned()));
        match scope {
            Scope::Db => drop(self.engine.db.insert(name, value)),
            Scope::Families => {
                if self.engine.families.is_empty() {
                    self.engine.families.push((String::new(), std::collections::BTreeMap::new()));
                }
                drop(self.engine.families[0].1.insert(name, value));
            }
        }
    }

    fn get(&self, option: &str) -> Option<&str> {
        let (_, name) = BUNDLED.find(option)?;
        let family = self.engine.families.first().and_then(|(_, options)| options.get(&name));
        family.or_else(|| self.engine.db.get(&name)).map(String::as_str)
    }

    /// What is not at RocksDB's own default and can be declared.
    fn baseline(self, families: &[String]) -> Baseline {
        let mut baseline = self.engine;
        baseline.db.retain(|name, value| BUNDLED.db.get(name).is_none_or(|default| !same(value, default)));
        let Some((_, mut options)) = baseline.families.pop() else { return baseline };
        options.retain(|name, value| BUNDLED.family.get(name).is_none_or(|default| !same(value, default)));
        options.retain(|name, value| {
            let fits = !NOT_BUILT_IN.iter().any(|codec| value.contains(codec));
            if !fits {
                let option = name.strip_prefix(TABLE).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
                baseline.left_out.extend(families.iter().map(|family| LeftOut {
                    why: Why::Codec,
                    option: option.to_owned(),
                    value: value.clone(),
                    scope: family.clone(),
                }));
            }
            fits
        });
        baseline.families = families.iter().map(|family| (family.clone(), options.clone())).collect();
        baseline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine_of(command: &str) -> Engine {
        engine(&mut Flags::parse(command).unwrap(), &["default".to_owned()])
    }

    /// What differs from `db_bench` without flags, as `option=value`.
    fn changed(command: &str) -> Vec<String> {
        let plain = engine_of("db_bench");
        let all = |engine: &Engine| -> Vec<String> {
            let differences = engine.baseline.differences().into_iter();
            differences.map(|difference| format!("{}={}", difference.option, difference.value)).collect()
        };
        let before = all(&plain);
        all(&engine_of(command)).into_iter().filter(|option| !before.contains(option)).collect()
    }

    #[test]
    fn every_flag_has_an_option_that_rocksdb_has() {
        let names = SAME_NAME.iter().map(|(name, _)| *name).chain(OTHER_NAME.iter().map(|(_, option, _)| *option));
        for name in names.chain(OWN_DEFAULTS.iter().map(|(option, _)| *option)).chain([SHARDS.0]) {
            assert!(BUNDLED.find(name).is_some(), "{name}");
        }
        for (option, value) in OWN_DEFAULTS {
            let (_, name) = BUNDLED.find(option).unwrap();
            let default = BUNDLED.db.get(&name).or_else(|| BUNDLED.family.get(&name)).unwrap();
            assert!(!same(value, default), "{option} is at RocksDB's default");
        }
    }

    #[test]
    fn without_flags_it_is_what_db_bench_sets() {
        let plain = engine_of("db_bench");
        assert_eq!(plain.baseline.differences().len(), OWN_DEFAULTS.len() + 1);
        assert_eq!(plain.cache, Some(Cache { bytes: 32 << 20, shared: true }));
        assert_eq!(plain.write, WriteOptions::default());
    }

    #[test]
    fn flags_become_options() {
        for (command, expected) in [
            ("--write_buffer_size=1048576", &["write_buffer_size=1048576"][..]),
            ("--max_background_jobs=8 --subcompactions=4", &["max_background_jobs=8", "max_subcompactions=4"]),
            ("--compression_type=ZSTD --compression_level=3", &["compression=kZSTD", "compression_opts.level=3"]),
            // RocksDB's own default is nothing to declare.
            ("--compression_type=lz4 --write_buffer_size=67108864", &[]),
            ("--bloom_bits=10", &["block_based_table_factory.filter_policy=bloomfilter:10:false"]),
            ("--bloom_bits=10 --use_ribbon_filter", &["block_based_table_factory.filter_policy=ribbonfilter:10"]),
            ("--block_size=16384 --bloom_bits=0", &["block_based_table_factory.block_size=16384"]),
            (
                "--partition_index_and_filters",
                &[
                    "block_based_table_factory.index_type=kTwoLevelIndexSearch",
                    "block_based_table_factory.partition_filters=true",
                ],
            ),
            ("--compaction_style=1 --universal_size_ratio=0", &["compaction_style=kCompactionStyleUniversal"]),
            (
                "--use_data_block_hash_index",
                &["block_based_table_factory.data_block_index_type=kDataBlockBinaryAndHash"],
            ),
            (
                "--min_level_to_compress=2 --num_levels=4",
                &[
                    "compression_per_level=kNoCompression:kNoCompression:kSnappyCompression:kSnappyCompression",
                    "num_levels=4",
                ],
            ),
            ("--prefix_size=8", &["prefix_extractor=rocksdb.FixedPrefix.8"]),
            (
                "--rate_limiter_bytes_per_sec=1000 --mmap_read=1",
                &["allow_mmap_reads=true", "rate_limiter_bytes_per_sec=1000"],
            ),
            ("--cache_size=0", &["block_based_table_factory.no_block_cache=true"]),
            ("--fifo_compaction_max_table_files_size_mb=1", &["compaction_options_fifo.max_table_files_size=1048576"]),
        ] {
            assert_eq!(changed(command), expected, "{command}");
        }
        assert_eq!(engine_of("--cache_size=1000").cache, Some(Cache { bytes: 1000, shared: true }));
        assert_eq!(engine_of("--cache_size=-1").cache, None);
        assert!(engine_of("--disable_wal").write.disable_wal);
    }

    #[test]
    fn a_codec_that_is_not_built_in_stays_behind() {
        let engine = engine_of("--compression_type=zlib");
        let left: Vec<String> = engine.baseline.left_out.iter().map(LeftOut::label).collect();
        assert_eq!(left, ["compression=kZlibCompression"]);
        assert!(!engine.baseline.families[0].1.contains_key("compression"));
    }

    #[test]
    fn values_that_db_bench_refuses_are_refused() {
        for (command, message) in [
            ("--compaction_style=9", "--compaction_style=9: db_bench knows 0 to 3"),
            ("--compression_type=brotli", "--compression_type=brotli: db_bench knows none, snappy"),
            ("--write_buffer_size=64M", "--write_buffer_size=64M: not a whole number"),
            ("--block_align=perhaps", "--block_align=perhaps: neither true nor false"),
            ("--sync --disable_wal", "--sync with --disable_wal: RocksDB refuses this"),
        ] {
            let mut flags = Flags::parse(command).unwrap();
            engine(&mut flags, &[]);
            assert!(
                matches!(flags.problems(), [only] if only.starts_with(message)),
                "{command}: {:?}",
                flags.problems()
            );
        }
    }
}
