//! Fills a dataset so that it comes out the same wherever and whenever it is made: whoever has to prepare one for each trial
//! compares trials that began with the same files.
//!
//! Left to itself, RocksDB flushes and compacts when its threads get to it, and every load ends in other files. So memtables are
//! flushed here by what was written to them, compactions follow one after the other, and the load waits for both.

use std::path::Path;

use assay_protocol::{EngineConfig, FamilyOptions, PageCache};

use crate::{
    engine::{Engine, EngineError, Family},
    workload::{Action, Step},
};

/// RocksDB's own default.
const WRITE_BUFFER: u64 = 64 << 20;
/// What an entry takes in a memtable beside key and value, about.
const OVERHEAD: u64 = 64;

pub struct Loader {
    engine: Engine,
    families: Vec<Family>,
    /// Of each family of the workload, in its order.
    memtables: Vec<Memtable>,
    /// What all memtables together may hold, where that is limited.
    shared: Option<u64>,
}

struct Memtable {
    family: String,
    /// Bytes that were written since the last flush, and the most that there may be.
    filled: u64,
    size: u64,
}

impl Loader {
    pub fn open(dir: &Path, format: &EngineConfig, families: &[Family]) -> Result<Self, EngineError> {
        let size = |family: &str| bytes(format.family_options(family).get("write_buffer_size")).unwrap_or(WRITE_BUFFER);
        let memtables: Vec<Memtable> = families
            .iter()
            .map(|family| Memtable { family: family.name.clone(), filled: 0, size: size(&family.name) })
            .collect();
        let shared = bytes(format.db_options.get("db_write_buffer_size")).filter(|&shared| shared > 0);
        let engine = Engine::open(dir, &alike(format, &memtables), families, PageCache::Evict)?;
        Ok(Self { engine, families: families.to_vec(), memtables, shared })
    }

    /// Writes a step, and returns how many entries it had.
    pub fn write(&mut self, step: &Step) -> Result<u64, EngineError> {
        let families = self.engine.numbered(&self.families)?;
        let mut batch = families.batch(0);
        let mut entries = 0;
        for operation in &step.operations {
            if let Action::Put { value } = operation.action {
                let memtable = &mut self.memtables[operation.family as usize];
                let (key, value) = (step.resolve(operation.key), step.resolve(value));
                batch.put(operation.family, key, value);
                memtable.filled += (key.len() + value.len()) as u64 + OVERHEAD;
                entries += 1;
            }
        }
        self.engine.load(batch)?;
        let all = self
            .shared
            .is_some_and(|shared| self.memtables.iter().map(|memtable| memtable.filled).sum::<u64>() >= shared);
        let mut is_flushed = false;
        for memtable in &mut self.memtables {
            if all || memtable.filled >= memtable.size {
                self.engine.flush_family(&memtable.family)?;
                memtable.filled = 0;
                is_flushed = true;
            }
        }
        if is_flushed {
            self.engine.wait_until_settled()?;
        }
        Ok(entries)
    }

    /// Writes out what is left.
    pub fn finish(self) -> Result<Engine, EngineError> {
        self.engine.flush()?;
        self.engine.wait_until_settled()?;
        Ok(self.engine)
    }
}

/// The format, with nothing in it that depends on time, threads or the machine's name.
fn alike(format: &EngineConfig, memtables: &[Memtable]) -> EngineConfig {
    let mut alike = format.clone();
    let threads = ["max_background_jobs", "max_background_compactions", "max_subcompactions"];
    for (name, value) in threads.map(|name| (name, "1")).into_iter().chain([
        ("db_write_buffer_size", "0"),
        // Files hold it, and it has another length on another machine.
        ("db_host_id", "assay"),
    ]) {
        alike.db_options.insert(name.to_owned(), value.to_owned());
    }
    // Never full by RocksDB's own count, which depends on chance.
    alike.column_families.extend(memtables.iter().map(|memtable| FamilyOptions {
        r#match: vec![memtable.family.clone()],
        options: [("write_buffer_size".to_owned(), memtable.size.saturating_mul(4).to_string())].into(),
    }));
    alike
}

/// A size as RocksDB reads it.
fn bytes(text: Option<&String>) -> Option<u64> {
    let text = text?.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].chars().next() {
        None => 0,
        Some('k' | 'K') => 10,
        Some('m' | 'M') => 20,
        Some('g' | 'G') => 30,
        Some('t' | 'T') => 40,
        Some(_) => return None,
    };
    digits.parse::<u64>().ok().map(|number| number << shift)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::engine::Properties as _;

    /// Files of each family after so many steps, each of which fills 1 KiB of each family's memtable.
    fn files(format: &EngineConfig, steps: u64) -> Vec<u64> {
        files_of(format, steps, &[0, 1])
    }

    /// The same where only some families are written to.
    fn files_of(format: &EngineConfig, steps: u64, written: &[u16]) -> Vec<u64> {
        let dir = tempfile::tempdir().unwrap();
        let families = ["default", "hot"].map(Family::new);
        let mut loader = Loader::open(&dir.path().join("db"), format, &families).unwrap();
        for number in 0..steps {
            let mut step = Step::default();
            for &family in written {
                let value = step.put(|arena| arena.resize(arena.len() + 1024 - 8 - OVERHEAD as usize, 7));
                step.push(number, family, &number.to_be_bytes(), Action::Put { value });
            }
            assert_eq!(loader.write(&step).unwrap(), written.len() as u64);
        }
        let of = |family: &Family| loader.engine.family_property(&family.name, "rocksdb.num-files-at-level0").unwrap();
        families.iter().map(of).collect()
    }

    #[test]
    fn memtables_are_flushed_by_what_was_written_to_them() {
        let option = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        let shared =
            |size| EngineConfig { db_options: option("db_write_buffer_size", size), ..EngineConfig::default() };
        let own = FamilyOptions { r#match: vec!["hot".to_owned()], options: option("write_buffer_size", "16K") };
        let own = EngineConfig { column_families: vec![own], ..EngineConfig::default() };
        // A few files would soon be merged into a deeper level.
        for few in [2, 15] {
            assert_eq!(files(&own, few), [0, 0]);
            assert_eq!(files(&shared("0"), few), [0, 0], "which is no limit");
        }
        assert_eq!(files(&EngineConfig::default(), 33), [0, 0]);
        assert_eq!(files(&own, 33), [0, 2]);
        assert_eq!(files(&shared("32K"), 15), [0, 0], "it is full with the 16th");
        assert_eq!(files(&shared("32K"), 33), [2, 2]);
        assert_eq!(files_of(&shared("32K"), 33, &[0]), [1, 0], "an empty memtable makes no file");
    }

    #[test]
    fn sizes_are_read_as_rocksdb_does() {
        for (text, expected) in [("4096", Some(4096)), ("64M", Some(64 << 20)), ("1g", Some(1 << 30)), ("many", None)] {
            assert_eq!(bytes(Some(&text.to_owned())), expected, "{text}");
        }
        assert_eq!(bytes(None), None);
    }
}
