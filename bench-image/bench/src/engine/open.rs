//! Opens a database with the options that a config declares, through RocksDB's own option parser.

use std::{collections::BTreeMap, path::Path};

use assay_record::{Blockstore, EngineConfig, PageCache};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, FlushOptions, MergeOperands, Options,
    WaitForCompactOptions,
    statistics::{StatsLevel, Ticker},
};

use super::floor::Floor;
use crate::compression_clock::blocks_written;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("RocksDB refuses {scope}: {message}")]
    Options { scope: String, message: String },
    #[error("RocksDB can't open {path}: {message}")]
    Open { path: String, message: String },
    #[error("RocksDB: {0}")]
    Call(#[from] rocksdb::Error),
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
}

impl EngineError {
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io { path: path.display().to_string(), source }
    }
}

/// A column family that the workload wants. What only the workload can know (merge operators, comparators)
/// is set here, before the config's options.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: String,
    pub merge: Option<Merge>,
    /// Below it, compactions drop what they find, where the config's policy wants that.
    pub floor: Option<Floor>,
}

/// From the key, its value if it has one, and operands to its new value.
type MergeFn = fn(&[u8], Option<&[u8]>, &MergeOperands) -> Option<Vec<u8>>;

/// A merge operator: its name in the OPTIONS file, and how a value becomes another by an operand.
#[derive(Clone, Debug)]
pub struct Merge {
    pub name: &'static str,
    pub apply: MergeFn,
}

impl Family {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), merge: None, floor: None }
    }
}

/// An open database. Statistics are read from the options, so both live together.
pub struct Engine {
    pub db: DB,
    pub options: Options,
    families: Vec<String>,
}

/// Options in RocksDB's string form; `;` separates, so a value that holds one goes into braces.
fn option_string(options: &BTreeMap<String, String>) -> String {
    options.iter().fold(String::new(), |mut text, (name, value)| {
        let value = value.trim();
        let braces = value.contains([';', '=']) && !value.starts_with('{');
        text.push_str(name);
        text.push('=');
        let (open, close) = if braces { ("{", "}") } else { ("", "") };
        text.extend([open, value, close, ";"]);
        text
    })
}

fn parse(base: &mut Options, scope: &str, options: &BTreeMap<String, String>) -> Result<Options, EngineError> {
    base.get_options_from_string(option_string(options)).map_err(|error| EngineError::Options {
        scope: scope.to_owned(),
        message: error.into_string().trim_start_matches("Invalid argument: ").to_owned(),
    })
}

/// Whether RocksDB's parser takes these options at all.
pub fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
    Options::default()
        .get_options_from_string(option_string(options))
        .map(drop)
        .map_err(|error| error.into_string().trim_start_matches("Invalid argument: ").to_owned())
}

/// Options of the database itself: those that the config declares over those that every trial has.
pub fn db_options(config: &EngineConfig, page_cache: PageCache) -> Result<Options, EngineError> {
    let mut base = Options::default();
    if page_cache == PageCache::Direct {
        base.set_use_direct_reads(true);
        base.set_use_direct_io_for_flush_and_compaction(true);
    }
    let mut options = parse(&mut base, "dbOptions", &config.db_options)?;
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.enable_statistics();
    Ok(options)
}

fn family_options(config: &EngineConfig, family: &Family, cache: Option<&Cache>) -> Result<Options, EngineError> {
    let mut base = Options::default();
    if let Some(merge) = &family.merge {
        base.set_merge_operator_associative(merge.name, merge.apply);
    }
    let filters = config.policy.get(Blockstore::RETENTION).is_some_and(|retention| retention == "compactionFilter");
    if let Some(floor) = family.floor.clone().filter(|_| filters) {
        // A factory is shared with the options that the parser copies; a filter would be freed with the original.
        base.set_compaction_filter_factory(floor);
    }
    let family = family.name.as_str();
    if let Some(cache) = cache {
        // RocksDB's parser starts from the table options it finds, so the cache survives declared ones.
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(cache);
        base.set_block_based_table_factory(&table);
    }
    // One entry after the other, so that RocksDB itself merges structs: a later entry that names one key of
    // `block_based_table_factory` leaves the others as they are.
    let scope = format!("the options of column family {family}");
    config
        .column_families
        .iter()
        .filter(|entry| entry.matches(family))
        .try_fold(base, |mut options, entry| parse(&mut options, &scope, &entry.options))
}

impl Engine {
    /// Opens or creates the database in `path`.
    pub fn open(
        path: &Path,
        config: &EngineConfig,
        families: &[Family],
        page_cache: PageCache,
    ) -> Result<Self, EngineError> {
        let options = db_options(config, page_cache)?;
        // RocksDB has a default family whether the workload uses it or not.
        let mut families = families.to_vec();
        if !families.iter().any(|family| family.name == "default") {
            families.push(Family::new("default"));
        }
        let shared = config.block_cache.filter(|cache| cache.shared).map(|cache| lru(cache.bytes));
        let descriptors = families
            .iter()
            .map(|family| {
                let private = config.block_cache.filter(|cache| !cache.shared).map(|cache| lru(cache.bytes));
                let options = family_options(config, family, shared.as_ref().or(private.as_ref()))?;
                Ok(ColumnFamilyDescriptor::new(&family.name, options))
            })
            .collect::<Result<Vec<_>, EngineError>>()?;
        let db = DB::open_cf_descriptors(&options, path, descriptors)
            .map_err(|error| EngineError::Open { path: path.display().to_string(), message: error.into_string() })?;
        Ok(Self { db, options, families: families.into_iter().map(|family| family.name).collect() })
    }

    /// Every column family, the default one included.
    pub fn families(&self) -> &[String] {
        &self.families
    }

    pub fn handle(&self, family: &str) -> Result<&ColumnFamily, EngineError> {
        self.db.cf_handle(family).ok_or_else(|| EngineError::Options {
            scope: format!("column family {family}"),
            message: "it does not exist".to_owned(),
        })
    }

    /// An integer property summed over the families.
    pub fn sum(&self, property: &str) -> Option<u64> {
        self.per_family(property).into_iter().sum()
    }

    /// The largest value of an integer property over the families.
    pub fn max(&self, property: &str) -> Option<u64> {
        self.per_family(property).into_iter().collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn per_family(&self, property: &str) -> Vec<Option<u64>> {
        self.families.iter().map(|family| self.family_property(family, property)).collect()
    }

    /// A property of a family that is a number, whether RocksDB gives it as an integer or as text.
    pub fn family_property(&self, family: &str, property: &str) -> Option<u64> {
        self.family_text(family, property)?.trim().parse().ok()
    }

    /// Number of files on each level of a family.
    pub fn files_by_level(&self, family: &str) -> Vec<u64> {
        let files = |level| self.family_property(family, &format!("rocksdb.num-files-at-level{level}"));
        (0..64).map_while(files).collect()
    }

    pub fn family_text(&self, family: &str, property: &str) -> Option<String> {
        let handle = self.db.cf_handle(family)?;
        self.db.property_value_cf(handle, property).ok().flatten()
    }

    /// Whether RocksDB times compression.
    pub fn time_compression(&self, on: bool) {
        // RocksDB's levels `kExceptTimeForMutex` and, its default, `kExceptDetailedTimers`. The binding has both under their
        // neighbours' names: it gives a number of its own to a level that RocksDB has twice.
        self.options.set_statistics_level(if on { StatsLevel::ExceptDetailedTimers } else { StatsLevel::ExceptTimers });
    }

    /// Since the database was opened.
    pub fn blocks_written(&self) -> u64 {
        blocks_written(|name| name.parse().map_or(0, |ticker: Ticker| self.options.get_ticker_count(ticker)))
    }

    /// Flushes every family, where one has anything to flush.
    pub fn flush(&self) -> Result<(), EngineError> {
        self.families.iter().try_for_each(|family| self.flush_family(family))
    }

    pub fn flush_family(&self, family: &str) -> Result<(), EngineError> {
        Ok(self.db.flush_cf_opt(self.handle(family)?, &FlushOptions::default())?)
    }

    /// Waits until no flush or compaction runs or is due.
    pub fn wait_until_settled(&self) -> Result<(), EngineError> {
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }
}

fn lru(bytes: u64) -> Cache {
    Cache::new_lru_cache(usize::try_from(bytes).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_separators_are_braced() {
        let options = BTreeMap::from([
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "{c=1;d=2}".to_owned()),
            ("e".to_owned(), "f=1;g=2".to_owned()),
        ]);
        assert_eq!(option_string(&options), "a=1;b={c=1;d=2};e={f=1;g=2};");
    }
}
