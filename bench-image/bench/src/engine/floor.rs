//! A bound below which compactions drop what they find.

use std::{
    ffi::CStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rocksdb::{
    CompactionDecision,
    compaction_filter::CompactionFilter,
    compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory},
};

/// A bound on keys that rises while the database is open. Keys are told apart by their first eight bytes.
#[derive(Clone, Debug, Default)]
pub struct Floor(Arc<AtomicU64>);

impl Floor {
    pub fn raise(&self, key: &[u8]) {
        self.0.fetch_max(leading(key), Ordering::Relaxed);
    }
}

/// The first eight bytes of a key as a number that sorts like it.
fn leading(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

impl CompactionFilterFactory for Floor {
    type Filter = BelowFloor;

    fn create(&mut self, _context: CompactionFilterContext) -> BelowFloor {
        BelowFloor(self.0.load(Ordering::Relaxed))
    }

    fn name(&self) -> &CStr {
        c"assay.Floor"
    }
}

/// Drops what lies below the floor as it was when the compaction began.
pub struct BelowFloor(u64);

impl CompactionFilter for BelowFloor {
    fn filter(&mut self, _level: u32, key: &[u8], _value: &[u8]) -> CompactionDecision {
        if leading(key) < self.0 { CompactionDecision::Remove } else { CompactionDecision::Keep }
    }

    fn name(&self) -> &CStr {
        c"assay.BelowFloor"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_rises_and_never_falls() {
        let mut floor = Floor::default();
        floor.raise(&7_u64.to_be_bytes());
        floor.raise(&5_u64.to_be_bytes());
        let context = CompactionFilterContext { is_full_compaction: false, is_manual_compaction: true };
        let mut filter = floor.create(context);
        let mut drops = |key: &[u8]| matches!(filter.filter(0, key, b""), CompactionDecision::Remove);
        let key = |slot: u64| [slot.to_be_bytes(), u64::MAX.to_be_bytes()].concat();
        assert!(drops(&key(6)) && !drops(&key(7)));
        assert!(drops(b"\0") && !drops(b"\x01"));
    }
}
