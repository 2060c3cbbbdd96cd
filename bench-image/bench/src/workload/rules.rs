//! What a config's policy makes of a workload's steps, for the driver, which knows no workload.

use crate::engine::Floor;

/// How the same steps are done under one config.
#[derive(Debug, Default)]
pub struct Rules {
    /// Only one step of the primary role at a time.
    pub one_at_a_time: bool,
    pub removal: Removal,
}

/// How [`super::Action::Purge`] removes.
#[derive(Debug)]
pub enum Removal {
    /// Range deletes, then the files with nothing else in them are dropped. Not of the families that are left out, whose
    /// oldest files RocksDB drops by itself.
    RangeDelete { left_out: Vec<u16> },
    /// Compactions drop entries below the floor, and a manual one makes them do it now.
    CompactionFilter { floor: Floor },
}

impl Default for Removal {
    fn default() -> Self {
        Self::RangeDelete { left_out: Vec::new() }
    }
}
