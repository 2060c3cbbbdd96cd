//! The state of an Ethereum node, as the client ethrex keeps it in RocksDB.
//!
//! Four families hold the state. Two are tries, keyed by the path to a node, so that a node that changes is overwritten; two hold
//! the same accounts and slots flat. All of their keys are nibbles, one to a byte ([`keys`]), and the values are RLP ([`values`]).
//! Six more families hold the chain ([`chain`]). Sources: ethrex' `crates/storage/api/tables.rs`, `crates/storage/trie.rs`,
//! `crates/storage/layering.rs`, `crates/storage/backend/rocksdb.rs`, `crates/common/trie/{nibbles,node}.rs`.
//!
//! A block reads flat entries, and the nodes on the way to what it changes. Then it writes its chain data as one batch. Its state stays in
//! a layer in memory until `commitDepth` blocks lie over it; then it is written as one batch, in random order over the four
//! families. What a layer holds is not read from RocksDB.
//!
//! # Sizes
//!
//! On the main network 1.07 billion slots come to 225 million accounts (the table statistics in paradigmxyz/reth, pull request 5355).
//! In uncompressed blocks of 16 KiB, where RocksDB writes only what a key doesn't share with the one before it, an account takes about
//! 145 bytes flat and 188 in the trie, where 1.4 nodes come to a leaf; a slot takes 90 and 130. That makes the shares of the state's bytes, in the
//! order accounts, slots, account trie, storage trie, about 10:31:14:45. Nethermind has 6:24:13:57 for the same data under keys a third
//! as long (NethermindEth/nethermind, pull request 9854): as much for the tries, and less for what is flat.
//!
//! # What is simpler than in a real node
//!
//! The state doesn't grow: one in five cold keys comes and goes. A branch keeps its size when a leaf below it comes or goes, hashes are
//! random, and the account of a contract isn't written for each of its slots, but in its own turn.

mod chain;
mod changes;
mod keys;
mod layers;
mod shape;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod values;

use assay_protocol::{Digest, EngineConfig, Ethrex};

use super::keys::Permutation;
use super::{Action, Step, StepSource, Workload, mix};
use crate::engine::{Family, Merge};
use changes::Changes;
use source::Source;
use state::{Entry, State};

// Positions in `Ethrex::FAMILIES`.
const ACCOUNT_TRIE: u16 = 0;
const STORAGE_TRIE: u16 = 1;
const ACCOUNT_FLAT: u16 = 2;
const STORAGE_FLAT: u16 = 3;
const HEADERS: u16 = 4;
const BODIES: u16 = 5;
const RECEIPTS: u16 = 6;
const TRANSACTION_LOCATIONS: u16 = 7;
const CANONICAL: u16 = 8;
const BLOCK_NUMBERS: u16 = 9;

/// Accounts and slots that one loading step writes, with their nodes.
const LOAD_BATCH: u64 = 500;
/// Transactions at most that are made to learn how large blocks are. The sizes of so many come to the sum of all within a few per thousand.
const SIZED: u64 = 50_000;
/// Changes with every change of what a dataset holds.
const CONTENT: &str = "ethrex 1";

pub struct EthrexWorkload {
    spec: Ethrex,
    seed: u64,
    dataset_seed: u64,
    state: State,
    changes: Changes,
}

impl EthrexWorkload {
    pub fn new(spec: Ethrex, seed: u64, dataset_seed: u64) -> Result<Self, String> {
        let state = State::new(&spec, dataset_seed);
        let changes = Changes::new(&spec, &state, seed)?;
        Ok(Self { spec, seed, dataset_seed, state, changes })
    }

    fn entries(&self) -> u64 {
        self.state.accounts() + self.state.slots()
    }

    /// Bytes that so many blocks put into the families of the chain, none of which is written again. Exact where the blocks are few.
    fn chain_bytes(&self, blocks: u64) -> u64 {
        let transactions = self.spec.content_of_block().transactions;
        let made = (SIZED / transactions.max(1)).max(1).min(blocks);
        let mut step = Step::default();
        let of_made: u64 = (0..made)
            .map(|index| {
                step.clear();
                chain::put_block(&mut step, self.seed, index * blocks / made, transactions);
                step.written()
            })
            .sum();
        (u128::from(of_made) * u128::from(blocks) / u128::from(made.max(1))) as u64
    }

    /// Loads an entry, its leaf, and the nodes that come with it.
    fn load_entry(&self, number: u64, entry: Entry, position: u64, out: &mut Step) {
        let located = self.state.locate(entry);
        // No other operation has this place: an entry has at most 16 nodes.
        let mut place = number << 5;
        let mut put = |out: &mut Step, family: u16, key: &[u8], value| {
            place += 1;
            out.push(place, family, key, Action::Put { value });
        };
        if self.state.is_there(entry, position, 0) {
            let value = located.put_flat(out, 0);
            put(out, located.flat_family(), located.keys.flat(), value);
            let value = located.put_leaf(out, 0);
            put(out, located.trie_family(), located.keys.node(located.place.length), value);
        }
        for depth in located.place.loads() {
            let value = located.put_node(out, depth, 0);
            put(out, located.trie_family(), located.keys.node(depth), value);
        }
    }
}

impl Workload for EthrexWorkload {
    fn families(&self, _config: &EngineConfig) -> Vec<Family> {
        let mut families: Vec<Family> = Ethrex::FAMILIES.iter().map(|name| Family::new(name)).collect();
        families[TRANSACTION_LOCATIONS as usize].merge =
            Some(Merge { name: "ethrex.transaction_locations", apply: chain::merge_locations });
        families
    }

    fn load_steps(&self) -> u64 {
        self.entries().div_ceil(LOAD_BATCH)
    }

    fn load(&self, step: u64, out: &mut Step) {
        out.clear();
        // Accounts and slots mixed, in no order of their keys or turns: files of all ages overlap, as in a database that was written over years.
        let order = Permutation::new(self.entries(), mix(&[self.dataset_seed, 4]));
        for index in step * LOAD_BATCH..((step + 1) * LOAD_BATCH).min(self.entries()) {
            let number = order.apply(index);
            match number.checked_sub(self.state.accounts()) {
                None => self.load_entry(number, self.state.account_at(number), number, out),
                Some(position) => self.load_entry(number, self.state.slot_at(position), position, out),
            }
        }
    }

    fn content(&self) -> Digest {
        // What else a spec says is about the blocks, not about the state before them.
        let Ethrex { accounts, storage_slots, .. } = self.spec;
        Digest::of(format!("{CONTENT} {accounts} {storage_slots} {}", self.dataset_seed).as_bytes())
    }

    fn source(&self, _role: usize) -> Box<dyn StepSource + '_> {
        Box::new(Source::new(self))
    }

    /// The chain grows by every block. The state keeps its size, whatever of it has left the layers: nodes are overwritten by nodes of
    /// the same length, one cold key comes for each that goes, and accounts of all versions are as long on average.
    fn live_bytes(&self, loaded: u64, steps: &[u64]) -> u64 {
        loaded + steps.iter().map(|blocks| self.chain_bytes(*blocks)).sum::<u64>()
    }

    fn answers_are_deterministic(&self) -> bool {
        // One thread.
        true
    }
}

/// Adds an operation of a block, which has a place by its number.
fn push(step: &mut Step, block: u64, family: u16, key: &[u8], action: Action) {
    let place = block << 32 | step.operations.len() as u64;
    step.push(place, family, key, action);
}
