//! The history indices of an Ethereum node, as [reth](https://github.com/paradigmxyz/reth) keeps them in RocksDB since early 2026.
//!
//! | family | key | value |
//! |---|---|---|
//! | `TransactionHashNumbers` | hash, 32 B | number of the transaction: big-endian, without leading zeros, 4 B |
//! | `AccountsHistory` | address and highest block, 28 B | blocks that changed the account: a [shard] |
//! | `StoragesHistory` | address, slot and highest block, 60 B | blocks that changed the slot |
//!
//! The shard that grows has `u64::MAX` for its highest block. When it has more than 2000 entries, the first 2000 are put under the
//! block that is really their highest, and what is left starts anew. Encodings, families and the order of writes are those of
//! `crates/storage/provider/src/providers/rocksdb/provider.rs` and `crates/storage/db-api/src/models` of reth.
//!
//! A save takes up several blocks and makes three batches, one for each family: hashes in the order of blocks, which is random among
//! keys; then for every account, and for every slot, in the order of keys, a get of the growing shard and a put of the grown
//! one. Execution itself does not read or write here: it computes, and waits when too many saves are due.
//!
//! Simplified are: reth builds the three batches at the same time and writes one after the other, here one is built and written
//! after the other; and all slots are hashes, as those of mappings are.
//!
//! A save of 10 blocks of 30 Mgas, with 100,000 accounts and 200,000 slots, writes about 5 MB: 2.1 % of it are transactions, 36 %
//! accounts and 62 % slots, and of their keys more than nine in ten are there already.

mod shard;
mod touches;

use std::ops::Range;

use assay_protocol::{Digest, EngineConfig, RethHistory};

use self::touches::Touches;
use super::{Action, Bytes, Step, StepSource, Workload, below, check, mix};
use crate::engine::Family;

const TRANSACTIONS: u16 = 0;
const ACCOUNTS: u16 = 1;
const SLOTS: u16 = 2;

const EXECUTION: usize = 0;
const SAVES: usize = 1;

/// The first transaction that is executed, as of [`touches::FIRST_BLOCK`].
const FIRST_TRANSACTION: u64 = 3_300_000_000;
/// Keys of a class at most whose histories are made to learn how they grow. Those of so many come to the sum of all within a few percent,
/// and to the size of the database within a few per thousand.
const SIZED: u64 = 2048;
/// Keys that one loading step writes.
const LOAD_BATCH: u64 = 1000;
/// Bytes of a shard that a read compares: enough for the numbers of entries, and for entries.
const CHECKED: usize = 64;
/// Slots belong to the hottest of all accounts, of the half, and so on: each part has as many.
const CONTRACT_PARTS: u64 = 16;

const ADDRESS: usize = 20;
const HASH: usize = 32;

pub struct RethHistoryWorkload {
    spec: RethHistory,
    seed: u64,
    dataset_seed: u64,
    /// By family.
    key_seeds: [u64; 3],
    accounts: Touches,
    slots: Touches,
}

impl RethHistoryWorkload {
    pub fn new(spec: RethHistory, seed: u64, dataset_seed: u64) -> Result<Self, String> {
        if spec.blocks_per_save == 0 {
            return Err("rethHistory.blocksPerSave must be at least 1".to_owned());
        }
        check(&spec)?;
        let touched = spec.touched();
        let touches = |family: u16, keys, per_block| {
            Touches::new(keys, per_block, mix(&[dataset_seed, family.into(), 1]), mix(&[seed, family.into(), 1]))
                .ok_or_else(|| format!("rethHistory: a block changes {per_block} keys, too many for {keys}"))
        };
        Ok(Self {
            accounts: touches(ACCOUNTS, spec.accounts, touched.accounts)?,
            slots: touches(SLOTS, spec.storage_slots, touched.slots)?,
            spec,
            seed,
            dataset_seed,
            key_seeds: [TRANSACTIONS, ACCOUNTS, SLOTS].map(|family| mix(&[dataset_seed, family.into()])),
        })
    }

    fn touches(&self, family: u16) -> &Touches {
        if family == ACCOUNTS { &self.accounts } else { &self.slots }
    }

    /// What decides the bytes of an account's address, and of a slot's if there is one.
    fn seeds(&self, family: u16, id: u64) -> [Option<u64>; 2] {
        let of = |family: u16, id: u64| mix(&[self.key_seeds[usize::from(family)].wrapping_add(id)]);
        if family == ACCOUNTS {
            return [Some(of(ACCOUNTS, id)), None];
        }
        let slot = of(SLOTS, id);
        let part = (self.spec.accounts >> (slot % CONTRACT_PARTS)).max(1);
        [Some(of(ACCOUNTS, below(slot, part))), Some(slot)]
    }

    fn put_transaction(step: &mut Step, seed: u64, number: u64) {
        let seed = mix(&[seed.wrapping_add(number)]);
        let mut hash = [0; HASH];
        random_bytes(seed, &mut hash);
        let value = step.put(|out| {
            let zeros = number.leading_zeros() as usize / 8;
            out.extend_from_slice(&number.to_be_bytes()[zeros..]);
        });
        step.push(seed, TRANSACTIONS, &hash, Action::Put { value });
    }

    /// Puts blocks that begin with those of a shard: all shards but the last are full, and sealed.
    fn put_shards(step: &mut Step, place: u64, family: u16, key: &mut Key, blocks: &[u32]) {
        let mut shards = blocks.chunks(shard::ENTRIES as usize).peekable();
        while let Some(blocks) = shards.next() {
            let sealed = shards.peek().and(blocks.last()).map(|highest| u64::from(*highest));
            let value = step.put(|out| shard::write(blocks, out));
            let highest = sealed.unwrap_or(u64::MAX);
            step.push(mix(&[place, highest]), family, key.with(highest), Action::Put { value });
        }
    }
}

/// The key of a shard.
struct Key {
    bytes: [u8; ADDRESS + HASH + 8],
    length: usize,
}

impl Key {
    fn new(seeds: [Option<u64>; 2]) -> Self {
        let mut key = Self { bytes: [0; ADDRESS + HASH + 8], length: 0 };
        for (seed, length) in seeds.into_iter().zip([ADDRESS, HASH]) {
            if let Some(seed) = seed {
                random_bytes(seed, &mut key.bytes[key.length..key.length + length]);
                key.length += length;
            }
        }
        key
    }

    fn with(&mut self, highest: u64) -> &[u8] {
        self.bytes[self.length..self.length + 8].copy_from_slice(&highest.to_be_bytes());
        &self.bytes[..self.length + 8]
    }
}

/// Bytes that follow from a seed alone. The first eight sort like [`random_word`].
fn random_bytes(seed: u64, out: &mut [u8]) {
    for (index, bytes) in (0..).zip(out.chunks_mut(8)) {
        bytes.copy_from_slice(&random_word(seed, index).to_be_bytes()[..bytes.len()]);
    }
}

fn random_word(seed: u64, index: u64) -> u64 {
    mix(&[seed.wrapping_add(index)])
}

impl Workload for RethHistoryWorkload {
    fn families(&self, _config: &EngineConfig) -> Vec<Family> {
        RethHistory::FAMILIES.iter().map(|name| Family::new(name)).collect()
    }

    fn load_steps(&self) -> u64 {
        self.loads().iter().map(|(_, keys)| keys.div_ceil(LOAD_BATCH)).sum()
    }

    fn load(&self, step: u64, out: &mut Step) {
        out.clear();
        let mut step = step;
        for (family, keys) in self.loads() {
            let steps = keys.div_ceil(LOAD_BATCH);
            if step >= steps {
                step -= steps;
                continue;
            }
            let mut blocks = Vec::new();
            for id in step * LOAD_BATCH..((step + 1) * LOAD_BATCH).min(keys) {
                if family == TRANSACTIONS {
                    Self::put_transaction(out, self.key_seeds[0], FIRST_TRANSACTION - 1 - id);
                    continue;
                }
                let history = self.touches(family).history(id);
                blocks.clear();
                history.blocks(0..history.count(0), &mut blocks);
                let place = mix(&[family.into(), id]);
                Self::put_shards(out, place, family, &mut Key::new(self.seeds(family, id)), &blocks);
            }
            return;
        }
    }

    fn content(&self) -> Digest {
        let RethHistory { accounts, storage_slots, .. } = self.spec;
        // How often a key was changed follows from how many a block changes.
        let text = format!("rethHistory 1 {accounts} {storage_slots} {:?} {}", self.spec.touched(), self.dataset_seed);
        Digest::of(text.as_bytes())
    }

    fn source(&self, role: usize) -> Box<dyn StepSource + '_> {
        if role == EXECUTION {
            Box::new(Execution { workload: self })
        } else {
            Box::new(Saves { workload: self, changed: Vec::new(), blocks: Vec::new() })
        }
    }

    fn live_bytes(&self, loaded: u64, steps: &[u64]) -> u64 {
        let blocks = steps[SAVES] * self.spec.blocks_per_save;
        let histories = [ACCOUNTS, SLOTS].map(|family| self.growth(family, blocks, SIZED));
        loaded + self.transaction_bytes(blocks) + histories.into_iter().sum::<u64>()
    }

    fn answers_are_deterministic(&self) -> bool {
        true
    }
}

impl RethHistoryWorkload {
    /// Bytes of the transactions of so many blocks.
    fn transaction_bytes(&self, blocks: u64) -> u64 {
        let count = blocks * self.spec.touched().transactions;
        // The first has four bytes; this many have a fifth, a sixth and so on.
        let more = (4..8).map(|bytes| (FIRST_TRANSACTION + count).saturating_sub(1 << (8 * bytes)));
        count * (HASH as u64 + 4) + more.sum::<u64>()
    }

    /// Bytes by which so many blocks lengthen all histories of a family, from at most so many keys of each class.
    fn growth(&self, family: u16, blocks: u64, most: u64) -> u64 {
        let touches = self.touches(family);
        let key = (if family == ACCOUNTS { ADDRESS } else { ADDRESS + HASH }) as u64 + 8;
        let mut numbers = Vec::new();
        let mut grown = 0.0;
        for (id, stands_for) in touches.sample(blocks, most) {
            let history = touches.history(id);
            let mut shard = |range: Range<u64>| {
                numbers.clear();
                history.blocks(range, &mut numbers);
                if numbers.is_empty() { 0 } else { key + shard::length(&numbers) }
            };
            let (before, after) = (history.count(0), history.count(blocks));
            // Shards that are sealed stay as they are.
            let sealed = before.saturating_sub(1) / shard::ENTRIES * shard::ENTRIES;
            let shards = (sealed..after).step_by(shard::ENTRIES as usize);
            let all: u64 = shards.map(|first| shard(first..after.min(first + shard::ENTRIES))).sum();
            grown += stands_for * (all - shard(sealed..before)) as f64;
        }
        grown.round() as u64 + touches.new_keys(blocks) * (key + shard::length(&[0]))
    }

    /// Families with the number of their keys in the dataset.
    fn loads(&self) -> [(u16, u64); 3] {
        let RethHistory { accounts, storage_slots, .. } = self.spec;
        [(TRANSACTIONS, self.spec.past_transactions()), (ACCOUNTS, accounts), (SLOTS, storage_slots)]
    }
}

/// Executes blocks.
struct Execution<'a> {
    workload: &'a RethHistoryWorkload,
}

impl StepSource for Execution<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        let RethHistory { mgas_per_block, kilohashes_per_mgas, .. } = self.workload.spec;
        let hashes = mgas_per_block * kilohashes_per_mgas * 1000;
        out.push(mix(&[self.workload.seed, step]), 0, b"", Action::Compute { hashes });
    }
}

/// Saves what executed blocks changed. All of it is computed from the numbers of the blocks, so what it keeps is only to be used again.
struct Saves<'a> {
    workload: &'a RethHistoryWorkload,
    changed: Vec<Changed>,
    blocks: Vec<u32>,
}

/// An account or slot that a save has to write, with the beginnings of its key first: it sorts like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Changed {
    order: [u64; 2],
    id: u64,
    seeds: [Option<u64>; 2],
}

impl StepSource for Saves<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        let RethHistoryWorkload { spec, seed, .. } = self.workload;
        let saved = step * spec.blocks_per_save..(step + 1) * spec.blocks_per_save;
        let transactions = spec.touched().transactions;
        let hash_seed = mix(&[*seed, TRANSACTIONS.into()]);
        for number in saved.start * transactions..saved.end * transactions {
            RethHistoryWorkload::put_transaction(out, hash_seed, FIRST_TRANSACTION + number);
        }
        out.push(0, TRANSACTIONS, b"", Action::Commit);
        for family in [ACCOUNTS, SLOTS] {
            self.history(family, &saved, out);
            out.push(0, family, b"", Action::Commit);
        }
    }
}

impl Saves<'_> {
    fn history(&mut self, family: u16, saved: &Range<u64>, out: &mut Step) {
        let touches = self.workload.touches(family);
        self.changed.clear();
        for block in saved.clone() {
            touches.touched(block, |id| {
                let seeds = self.workload.seeds(family, id);
                let order = seeds.map(|seed| seed.map_or(0, |seed| random_word(seed, 0)));
                self.changed.push(Changed { order, id, seeds });
            });
        }
        self.changed.sort_unstable();
        self.changed.dedup();
        let save_seed = mix(&[self.workload.seed, family.into(), saved.start]);
        for changed in &self.changed {
            let history = touches.history(changed.id);
            let (before, after) = (history.count(saved.start), history.count(saved.end));
            // A full shard is sealed by the entry that would be one too many.
            let sealed = before.saturating_sub(1) / shard::ENTRIES * shard::ENTRIES;
            self.blocks.clear();
            history.blocks(sealed..after, &mut self.blocks);
            let (mut length, mut begins) = (0, Bytes::default());
            if before > 0 {
                let found = &self.blocks[..(before - sealed) as usize];
                begins = out.put(|out| length = shard::begin(found, CHECKED, out));
            }
            let mut key = Key::new(changed.seeds);
            let place = mix(&[save_seed.wrapping_add(changed.id)]);
            out.push(place, family, key.with(u64::MAX), Action::Get { length, begins });
            RethHistoryWorkload::put_shards(out, place, family, &mut key, &self.blocks);
        }
    }
}

#[cfg(test)]
mod tests;
