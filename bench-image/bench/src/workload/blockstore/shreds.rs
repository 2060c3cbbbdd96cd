//! Which shred is sent, and arrives, when.

use std::ops::Range;

use assay_protocol::Blockstore;

use super::super::{below, keys::Permutation, mix};

/// Data shreds of a whole FEC set, and as many coding shreds.
pub const SET: u64 = 32;
/// Shreds among which arrival is out of order.
const WINDOW: u64 = 4 * 2 * SET;

/// One shred of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shred {
    pub code: bool,
    /// Data and coding shreds are counted apart.
    pub index: u64,
}

impl Shred {
    /// The shred that is sent at a place: set by set, data before code. The last set may be smaller.
    pub fn sent(spec: &Blockstore, place: u64) -> Self {
        let set = place / (2 * SET);
        let size = SET.min(spec.data_shreds_per_slot - set * SET);
        let within = place % (2 * SET);
        Self { code: within >= size, index: set * SET + within % size }
    }

    /// The first index of its FEC set.
    pub fn set(self) -> u64 {
        self.index / SET * SET
    }
}

/// The order in which shreds arrive.
pub struct Order {
    spec: Blockstore,
    seed: u64,
}

impl Order {
    pub fn new(spec: &Blockstore, seed: u64) -> Self {
        Self { spec: spec.clone(), seed }
    }

    /// Places of the shreds that a batch would bring if none were late.
    pub fn batch(&self, batch: u64) -> Range<u64> {
        let first = batch * self.spec.shreds_per_batch;
        first..(first + self.spec.shreds_per_batch).min(self.spec.shreds_per_slot())
    }

    pub fn arrives(&self, slot: u64, place: u64) -> Shred {
        let window = place / WINDOW;
        let size = WINDOW.min(self.spec.shreds_per_slot() - window * WINDOW);
        let shuffle = Permutation::new(size, mix(&[self.seed, slot, window]));
        Shred::sent(&self.spec, window * WINDOW + shuffle.apply(place % WINDOW))
    }

    /// After how many further slots of its thread the shred at a place arrives.
    pub fn rounds_late(&self, slot: u64, place: u64) -> u64 {
        let drawn = mix(&[self.seed, slot, place, 1]);
        let late = below(drawn, 100) < u64::from(self.spec.repaired_percent);
        if late { 1 + (drawn & 1) } else { 0 }
    }
}
