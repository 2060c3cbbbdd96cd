//! Opens a database with the options that a config declares, through RocksDB's own option parser.

use std::{collections::BTreeMap, path::Path, sync::atomic::AtomicBool, time::Duration};

use assay_protocol::{EngineConfig, PageCache};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, ErrorKind, FlushOptions, MergeOperands,
    Options, WaitForCompactOptions, checkpoint::Checkpoint,
};

use super::{EngineError, Family, Operands};

/// An open database. Statistics are read from the options, so both live together.
pub struct Engine {
    pub(super) db: DB,
    pub(super) options: Options,
    pub(super) families: Vec<String>,
    /// RocksDB times compression, which slows down reads of compressed blocks, too.
    pub(super) times_compression: AtomicBool,
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
        let apply = merge.apply;
        base.set_merge_operator_associative(
            merge.name,
            move |_: &[u8], value: Option<&[u8]>, operands: &MergeOperands| apply(value, Operands::new(operands)),
        );
    }
    if let Some(floor) = family.floor.clone() {
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
            .map_err(|status| EngineError::Open { path: path.display().to_string(), status })?;
        let families = families.into_iter().map(|family| family.name).collect();
        Ok(Self { db, options, families, times_compression: AtomicBool::new(false) })
    }

    pub(super) fn handle(&self, family: &str) -> Result<&ColumnFamily, EngineError> {
        self.db.cf_handle(family).ok_or_else(|| EngineError::Options {
            scope: format!("column family {family}"),
            message: "it does not exist".to_owned(),
        })
    }

    /// Flushes every family, where one has anything to flush.
    pub fn flush(&self) -> Result<(), EngineError> {
        self.families.iter().try_for_each(|family| self.flush_family(family))
    }

    pub fn flush_family(&self, family: &str) -> Result<(), EngineError> {
        Ok(self.db.flush_cf_opt(self.handle(family)?, &FlushOptions::default())?)
    }

    /// Waits until no flush or compaction runs or is due. Fails if one failed, even if RocksDB would try it again and again.
    pub fn wait_until_settled(&self) -> Result<(), EngineError> {
        const LOOK_EVERY: Duration = Duration::from_secs(1);
        let mut options = WaitForCompactOptions::default();
        options.set_timeout(LOOK_EVERY.as_micros() as u64);
        loop {
            let waited = self.db.wait_for_compact(&options);
            let goes_on = waited.as_ref().is_err_and(|status| status.kind() == ErrorKind::TimedOut);
            if !goes_on {
                waited?;
            }
            self.check_background()?;
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Leaves the database as it is now in another folder, of links to its files.
    pub fn checkpoint(&self, dir: &Path) -> Result<(), EngineError> {
        Ok(Checkpoint::new(&self.db)?.create_checkpoint(dir)?)
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
