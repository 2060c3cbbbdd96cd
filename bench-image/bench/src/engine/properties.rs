//! What an open database tells of itself.

use rocksdb::IteratorMode;

use super::{Counters, Engine, EngineError};

/// What an open database tells of itself. Tests tell something else.
pub trait Properties {
    /// Every column family, the default one included.
    fn families(&self) -> &[String];

    fn family_text(&self, family: &str, property: &str) -> Option<String>;

    /// Since the database was opened.
    fn counters(&self) -> Counters;

    /// A property of a family that is a number, whether RocksDB gives it as an integer or as text.
    fn family_property(&self, family: &str, property: &str) -> Option<u64> {
        self.family_text(family, property)?.trim().parse().ok()
    }

    /// An integer property summed over the families.
    fn sum(&self, property: &str) -> Option<u64> {
        self.families().iter().map(|family| self.family_property(family, property)).sum()
    }

    /// The largest value of an integer property over the families.
    fn max(&self, property: &str) -> Option<u64> {
        let all: Option<Vec<u64>> =
            self.families().iter().map(|family| self.family_property(family, property)).collect();
        all?.into_iter().max()
    }

    /// Number of files on each level of a family.
    fn files_by_level(&self, family: &str) -> Vec<u64> {
        let files = |level| self.family_property(family, &format!("rocksdb.num-files-at-level{level}"));
        (0..64).map_while(files).collect()
    }
}

impl Properties for Engine {
    fn families(&self) -> &[String] {
        &self.families
    }

    fn family_text(&self, family: &str, property: &str) -> Option<String> {
        let handle = self.db.cf_handle(family)?;
        self.db.property_value_cf(handle, property).ok().flatten()
    }

    fn counters(&self) -> Counters {
        Counters::read(self)
    }
}

impl Engine {
    /// Whether a family has a key.
    pub fn has(&self, family: &str, key: impl AsRef<[u8]>) -> Result<bool, EngineError> {
        Ok(self.db.get_pinned_cf(self.handle(family)?, key)?.is_some())
    }

    /// All keys of a family in their order.
    pub fn keys(&self, family: &str) -> Result<impl Iterator<Item = Result<Box<[u8]>, EngineError>>, EngineError> {
        let entries = self.db.iterator_cf(self.handle(family)?, IteratorMode::Start);
        Ok(entries.map(|entry| Ok(entry?.0)))
    }

    /// Bytes of all keys and values of a family, as a reader finds them.
    #[cfg(test)]
    pub fn bytes(&self, family: &str) -> Result<u64, EngineError> {
        let mut entries = self.db.iterator_cf(self.handle(family)?, IteratorMode::Start);
        entries
            .try_fold(0, |bytes, entry| entry.map(|(key, value)| bytes + (key.len() + value.len()) as u64))
            .map_err(Into::into)
    }
}
