//! What an open database tells of itself.

use rocksdb::IteratorMode;

use super::{Engine, EngineError};

impl Engine {
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

    /// Whether a family has a key.
    pub fn has(&self, family: &str, key: impl AsRef<[u8]>) -> Result<bool, EngineError> {
        Ok(self.db.get_pinned_cf(self.handle(family)?, key)?.is_some())
    }

    /// All keys of a family in their order.
    pub fn keys(&self, family: &str) -> Result<impl Iterator<Item = Result<Box<[u8]>, EngineError>>, EngineError> {
        let entries = self.db.iterator_cf(self.handle(family)?, IteratorMode::Start);
        Ok(entries.map(|entry| Ok(entry?.0)))
    }
}
