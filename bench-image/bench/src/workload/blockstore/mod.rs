//! The blockstore of a Solana validator, as Agave keeps it: shreds of slots, their metadata, and the removal of old slots.
//!
//! # What is stored
//!
//! All integers in keys are big-endian, so that keys sort by slot.
//!
//! | family | key | value |
//! |---|---|---|
//! | `data_shred` | slot (8 B), index (8 B) | 1203 B, incompressible |
//! | `code_shred` | slot (8 B), index (8 B) | 1228 B, incompressible |
//! | `index` | slot (8 B) | 8216 B: two maps of 32,768 bits, which shreds are there |
//! | `meta` | slot (8 B) | 4161 B: progress of the slot, and a map of where its entries end |
//! | `erasure_meta` | slot (8 B), first index of the FEC set (8 B) | 40 B |
//! | `merkle_root_meta` | slot (8 B), first index of the FEC set (4 B) | 38 B |
//!
//! Keys and values are those of `ledger/src/blockstore/column.rs`, `blockstore_meta.rs` and `shred.rs` in
//! anza-xyz/agave. The other families of a blockstore (roots, rewards, transaction statuses and the like) take no part in the
//! insertion of shreds and are left out.
//!
//! # What is done
//!
//! - Role `insert`: a step is one batch of `shredsPerBatch` shreds of a slot, data and code in FEC sets of 32 and 32. It
//!   reads the metadata that it is about to change, then writes everything in one batch: `insert_shreds` in
//!   `ledger/src/blockstore.rs`. Shreds arrive out of order within windows of four FEC sets. Some arrive late, all together with
//!   the first batch of the next slot or the one after it that the same thread inserts, as answers to a repair request do; the
//!   last slots of a run wait for nothing. A shred is written once. Index and slot meta are written with every batch, the two
//!   small metas once for each FEC set. Slots go round the writers, so that a slot is one thread's alone and what its reads
//!   find does not depend on how threads interleave.
//! - Role `replay`: reads slot meta and data shreds of one slot after another, each soon after it is complete.
//! - Role `cleanup`: removes the oldest slots, in the way that the config's policy says.
//!
//! The share of late shreds and the size of batches are estimates: no public trace of a validator has them.

mod encoding;
mod leftovers;
mod live;
mod shreds;
#[cfg(test)]
mod tests;

use assay_protocol::{Blockstore, Digest, EngineConfig, Kind as _};

use self::{
    encoding::{Values, shred_key, slot_bytes, slot_key},
    live::Live,
    shreds::{Order, Shred},
};
use super::{Action, Leftovers, Removal, Rules, Step, StepSource, Workload, check};
use crate::engine::{Engine, EngineError, Family, Floor};

/// Families as operations number them: as in `Blockstore::FAMILIES`.
mod family {
    pub const DATA_SHRED: u16 = 0;
    pub const CODE_SHRED: u16 = 1;
    pub const INDEX: u16 = 2;
    pub const META: u16 = 3;
    pub const ERASURE_META: u16 = 4;
    pub const MERKLE_ROOT_META: u16 = 5;
}

// Positions of the roles.
const INSERT: usize = 0;
const REPLAY: usize = 1;
const CLEANUP: usize = 2;

pub struct BlockstoreWorkload {
    spec: Blockstore,
    seed: u64,
    dataset_seed: u64,
    /// Below it a compaction filter drops what it finds.
    floor: Floor,
}

impl BlockstoreWorkload {
    pub fn new(spec: Blockstore, seed: u64, dataset_seed: u64) -> Result<Self, String> {
        check(&spec)?;
        Ok(Self { spec, seed, dataset_seed, floor: Floor::default() })
    }

    /// The slots of the dataset are the first ones.
    fn values(&self, slot: u64) -> Values {
        Values::new(if slot < self.spec.retained_slots { self.dataset_seed } else { self.seed })
    }

    /// Whether compactions remove the oldest slots.
    fn filters(&self, config: &EngineConfig) -> bool {
        self.spec.policy(config, Blockstore::RETENTION) == Some("compactionFilter")
    }

    /// Everything below it is removed when the run is over.
    fn removed_below(&self) -> u64 {
        self.spec.purges() * self.spec.slots_per_purge
    }
}

impl Workload for BlockstoreWorkload {
    fn families(&self, config: &EngineConfig) -> Vec<Family> {
        let floor = self.filters(config).then(|| self.floor.clone());
        let family = |name: &&str| Family { floor: floor.clone(), ..Family::new(name) };
        Blockstore::FAMILIES.iter().map(family).collect()
    }

    fn rules(&self, config: &EngineConfig) -> Rules {
        let removal = if self.filters(config) {
            Removal::CompactionFilter { floor: self.floor.clone() }
        } else {
            let by_fifo = self.spec.policy(config, Blockstore::RETENTION) == Some("fifo");
            let families = (0..).zip(Blockstore::FAMILIES);
            let left_out = families.filter(|(_, family)| by_fifo && config.is_fifo(family)).map(|(number, _)| number);
            Removal::RangeDelete { left_out: left_out.collect() }
        };
        Rules { one_at_a_time: self.spec.policy(config, Blockstore::INSERT_LOCK) == Some("global"), removal }
    }

    fn load_steps(&self) -> u64 {
        self.spec.retained_slots
    }

    /// A whole slot: what order its shreds came in is forgotten by the time it is in a file.
    fn load(&self, slot: u64, out: &mut Step) {
        out.clear();
        let mut live = Live::new(self.spec.data_shreds_per_slot);
        live.begin(slot);
        let all: Vec<Shred> = (0..self.spec.shreds_per_slot()).map(|sent| Shred::sent(&self.spec, sent)).collect();
        live.insert(&all, self.values(slot), slot, out);
    }

    fn content(&self) -> Digest {
        let Blockstore { data_shreds_per_slot, retained_slots, .. } = self.spec;
        Digest::of(format!("blockstore {data_shreds_per_slot} {retained_slots} {}", self.dataset_seed).as_bytes())
    }

    fn source(&self, role: usize) -> Box<dyn StepSource + '_> {
        match role {
            INSERT => Box::new(Insert::new(self)),
            REPLAY => Box::new(Replay { workload: self, live: Live::new(self.spec.data_shreds_per_slot) }),
            _ => Box::new(Cleanup { workload: self }),
        }
    }

    /// Every slot is complete by the end, and what is to be removed by then is no longer live, whether a config has removed it or not.
    fn live_bytes(&self, _loaded: u64, steps: &[u64]) -> u64 {
        let spec = &self.spec;
        let inserted = steps[INSERT] / spec.batches_per_slot();
        let retained = spec.retained_slots + inserted - steps[CLEANUP] * spec.slots_per_purge;
        retained * slot_bytes(spec.data_shreds_per_slot)
    }

    fn answers_are_deterministic(&self) -> bool {
        true
    }

    fn leftovers(&self, engine: &Engine) -> Result<Option<Leftovers>, EngineError> {
        leftovers::find(engine, self.spec.data_shreds_per_slot, self.removed_below()).map(Some)
    }
}

/// Slots of one thread that may still get shreds: the one it inserts, and the two before it.
const LIVE: usize = 3;

struct Insert<'a> {
    workload: &'a BlockstoreWorkload,
    order: Order,
    /// The newest last.
    live: [Live; LIVE],
    arrived: Vec<Shred>,
}

impl<'a> Insert<'a> {
    fn new(workload: &'a BlockstoreWorkload) -> Self {
        let live = std::array::from_fn(|_| Live::new(workload.spec.data_shreds_per_slot));
        Self { workload, order: Order::new(&workload.spec, workload.seed), live, arrived: Vec::new() }
    }
}

impl StepSource for Insert<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        let spec = &self.workload.spec;
        let (writers, batches) = (u64::from(spec.writers), spec.batches_per_slot());
        let round = step / (writers * batches);
        let batch = step % (writers * batches) / writers;
        let slot = spec.retained_slots + round * writers + step % writers;
        let rounds_left = (spec.warmup_slots + spec.slots) / writers - 1 - round;
        if batch == 0 {
            self.live.rotate_left(1);
            self.live[LIVE - 1].begin(slot);
        }
        let values = self.workload.values(slot);
        for (age, live) in self.live.iter_mut().rev().enumerate() {
            self.arrived.clear();
            if age > 0 {
                if batch == 0 {
                    self.arrived.append(&mut live.late[age - 1]);
                }
            } else {
                for place in self.order.batch(batch) {
                    let shred = self.order.arrives(slot, place);
                    match self.order.rounds_late(slot, place).min(rounds_left) {
                        0 => self.arrived.push(shred),
                        late => live.late[late as usize - 1].push(shred),
                    }
                }
            }
            if !self.arrived.is_empty() {
                live.look_up(&self.arrived, step, out);
                live.insert(&self.arrived, values, step, out);
            }
        }
    }
}

struct Replay<'a> {
    workload: &'a BlockstoreWorkload,
    live: Live,
}

impl StepSource for Replay<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        let spec = &self.workload.spec;
        // A slot gets late shreds while its thread inserts the next two, and a round of slots is complete as a whole.
        let slot = spec.retained_slots + step + 1 - LIVE as u64 * u64::from(spec.writers);
        self.live.begin(slot);
        self.live.complete();
        self.live.look_up_meta(step, out);
        let entries = spec.data_shreds_per_slot as u32;
        out.push(step, family::DATA_SHRED, &shred_key(slot, 0), Action::Scan { entries });
    }
}

struct Cleanup<'a> {
    workload: &'a BlockstoreWorkload,
}

impl StepSource for Cleanup<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        let key = slot_key((step + 1) * self.workload.spec.slots_per_purge);
        for family in 0..Blockstore::FAMILIES.len() as u16 {
            out.push(step, family, &key, Action::Purge);
        }
    }
}
