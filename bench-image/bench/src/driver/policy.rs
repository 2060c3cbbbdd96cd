//! Does what a config's policy makes of the same steps: who may execute one at the same time, and how old entries are removed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    engine::{EngineError, Session},
    workload::{Removal, Rules},
};

/// How the config of a trial does what it leaves to the policy.
pub struct Policy {
    turns: Option<Mutex<()>>,
    removal: Removal,
}

/// What to remove: everything below a key, in the family of this number.
pub type Purge<'a> = (u16, &'a [u8]);

impl Policy {
    pub fn new(rules: Rules) -> Self {
        Self { turns: rules.one_at_a_time.then(Mutex::default), removal: rules.removal }
    }

    /// The right to execute a step of the primary role, where only one may at a time.
    pub fn turn(&self, role: usize) -> Option<MutexGuard<'_, ()>> {
        let turns = self.turns.as_ref().filter(|_| role == 0)?;
        Some(turns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes what is to be purged, and says how many operations that took.
    pub fn purge(&self, session: &Session<'_>, purges: &[Purge<'_>]) -> Result<u64, EngineError> {
        match &self.removal {
            Removal::RangeDelete { left_out } => {
                let purges = purges.iter().copied().filter(|(family, _)| !left_out.contains(family));
                session.delete_below(purges.clone())?;
                Ok(2 * purges.count() as u64)
            }
            Removal::CompactionFilter { floor } => {
                for (family, key) in purges {
                    floor.raise(key);
                    session.compact_below(*family, key);
                }
                Ok(purges.len() as u64)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use assay_protocol::{EngineConfig, PageCache, WriteOptions};

    use super::*;
    use crate::engine::{Engine, Family};

    fn policy(one_at_a_time: bool) -> Policy {
        Policy::new(Rules { one_at_a_time, ..Rules::default() })
    }

    #[test]
    fn only_the_primary_role_takes_turns_and_only_where_the_rules_say_so() {
        assert!(policy(true).turn(0).is_some());
        assert!(policy(true).turn(1).is_none());
        assert!(policy(false).turn(0).is_none());
    }

    #[test]
    fn one_step_waits_for_the_other() {
        let policy = policy(true);
        let turn = policy.turn(0);
        assert!(policy.turns.as_ref().is_some_and(|turns| turns.try_lock().is_err()));
        drop(turn);
        assert!(policy.turns.as_ref().is_some_and(|turns| turns.try_lock().is_ok()));
    }

    #[test]
    fn a_range_delete_is_two_operations_in_each_family_that_is_not_left_out() {
        let (folder, config) = (tempfile::tempdir().unwrap(), EngineConfig::default());
        let families = ["default", "fifo", "second", "third"].map(Family::new);
        let engine = Engine::open(folder.path(), &config, &families, PageCache::Evict).unwrap();
        let families = engine.numbered(&families).unwrap();
        let mut session = Session::new(&families, WriteOptions::default());
        for family in 0..4 {
            session.put(family, b"1", b"below").unwrap();
            session.put(family, b"2", b"above").unwrap();
        }
        let removal = Removal::RangeDelete { left_out: vec![1] };
        let policy = Policy::new(Rules { removal, ..Rules::default() });
        let purges: Vec<Purge<'_>> = (0..4).map(|family| (family, &b"2"[..])).collect();
        assert_eq!(policy.purge(&session, &purges).unwrap(), 6);
        let mut there = |key: &[u8]| [0, 1, 2, 3].map(|family| session.get(family, key).unwrap().is_some());
        assert_eq!((there(b"1"), there(b"2")), ([false, true, false, false], [true; 4]));
    }
}
