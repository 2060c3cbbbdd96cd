//! What a config's policy makes of the same steps: who may insert at the same time, and how old entries are removed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use assay_record::{Blockstore, EngineConfig, Workload as WorkloadSpec};
use rocksdb::{ColumnFamily, DB, WriteBatch, WriteOptions};

use crate::engine::{EngineError, Family, Floor};

/// How the config of a trial does what it leaves to the policy.
pub struct Policy {
    insert_lock: Option<Mutex<()>>,
    retention: Retention,
}

enum Retention {
    /// Range deletes, then the files with nothing else in them are dropped. Not of the families that are left out, whose
    /// oldest files RocksDB drops by itself.
    RangeDelete { left_out: Vec<bool> },
    /// Compactions drop entries below the floor, and a manual one makes them do it now.
    CompactionFilter { floors: Vec<Option<Floor>> },
}

/// What to remove: everything below a key, in the family of this number.
pub type Purge<'a> = (u16, &'a [u8]);

impl Policy {
    pub fn new(spec: &WorkloadSpec, config: &EngineConfig, families: &[Family]) -> Self {
        let is = |key: &str, value: &str| spec.policy(config, key) == Some(value);
        let retention = if is(Blockstore::RETENTION, "compactionFilter") {
            Retention::CompactionFilter { floors: families.iter().map(|family| family.floor.clone()).collect() }
        } else {
            let by_fifo = is(Blockstore::RETENTION, "fifo");
            let left_out = families.iter().map(|family| by_fifo && config.is_fifo(&family.name)).collect();
            Retention::RangeDelete { left_out }
        };
        Self { insert_lock: is(Blockstore::INSERT_LOCK, "global").then(Mutex::default), retention }
    }

    /// The right to execute a step of the primary role, where only one may at a time.
    pub fn turn(&self, role: usize) -> Option<MutexGuard<'_, ()>> {
        let lock = self.insert_lock.as_ref().filter(|_| role == 0)?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes what is to be purged, and says how many operations that took.
    pub fn purge(
        &self,
        db: &DB,
        handles: &[&ColumnFamily],
        purges: &[Purge<'_>],
        write_options: &WriteOptions,
    ) -> Result<u64, EngineError> {
        const LOWEST: &[u8] = &[];
        match &self.retention {
            Retention::RangeDelete { left_out } => {
                let purges = || purges.iter().filter(|(family, _)| !left_out[usize::from(*family)]);
                let mut batch = WriteBatch::default();
                for (family, key) in purges() {
                    batch.delete_range_cf(&handles[usize::from(*family)], LOWEST, *key);
                }
                db.write_opt(batch, write_options)?;
                for (family, key) in purges() {
                    db.delete_file_in_range_cf(&handles[usize::from(*family)], LOWEST, *key)?;
                }
                Ok(2 * purges().count() as u64)
            }
            Retention::CompactionFilter { floors } => {
                for (family, key) in purges {
                    if let Some(floor) = &floors[usize::from(*family)] {
                        floor.raise(key);
                    }
                    db.compact_range_cf(&handles[usize::from(*family)], None::<&[u8]>, Some(*key));
                }
                Ok(purges.len() as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assay_record::{KeyValue, Preload, ValueBytes};

    use super::*;

    fn with(key: &str, value: &str) -> EngineConfig {
        EngineConfig { policy: BTreeMap::from([(key.to_owned(), value.to_owned())]), ..EngineConfig::default() }
    }

    fn blockstore() -> WorkloadSpec {
        WorkloadSpec::Blockstore(Blockstore {
            slots: 8,
            warmup_slots: 0,
            data_shreds_per_slot: 32,
            shreds_per_batch: 32,
            writers: 1,
            repaired_percent: 0,
            retained_slots: 8,
            slots_per_purge: 8,
        })
    }

    #[test]
    fn only_inserts_take_turns_and_only_where_the_policy_says_so() {
        let locks =
            |spec: &WorkloadSpec, config: &EngineConfig, role| Policy::new(spec, config, &[]).turn(role).is_some();
        assert!(locks(&blockstore(), &EngineConfig::default(), 0), "the lock is the default");
        assert!(locks(&blockstore(), &with("insertLock", "global"), 0));
        assert!(!locks(&blockstore(), &with("insertLock", "none"), 0));
        assert!(!locks(&blockstore(), &EngineConfig::default(), 1));
        let other = WorkloadSpec::KeyValue(KeyValue {
            keys: 1,
            key_bytes: 8,
            value_bytes: ValueBytes::Fixed(1),
            compressed_percent: 50,
            families: Vec::new(),
            preload: Preload::Empty,
            roles: Vec::new(),
        });
        assert!(!locks(&other, &EngineConfig::default(), 0), "it declares no policy");
    }

    #[test]
    fn one_step_waits_for_the_other() {
        let policy = Policy::new(&blockstore(), &EngineConfig::default(), &[]);
        let turn = policy.turn(0);
        assert!(policy.insert_lock.as_ref().is_some_and(|lock| lock.try_lock().is_err()));
        drop(turn);
        assert!(policy.insert_lock.as_ref().is_some_and(|lock| lock.try_lock().is_ok()));
    }
}
