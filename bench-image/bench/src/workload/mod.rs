//! Workloads: what a scenario makes RocksDB do.
//!
//! A workload is a pure function from a step's number to its operations, so that any number of threads makes
//! the same work and every config gets the same. The driver executes; a workload never sees the database before the
//! trial is over.

mod blockstore;
mod ethrex;
mod key_value;
mod keys;
mod reth_history;
mod rules;
mod values;

use assay_protocol::{Digest, EngineConfig, Kind, ParityHash, Workload as WorkloadSpec};

use blockstore::BlockstoreWorkload;
use ethrex::EthrexWorkload;
use key_value::KeyValueWorkload;
use reth_history::RethHistoryWorkload;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::engine::{Engine, EngineError, Family};

pub use rules::{Removal, Rules};

/// The content and the steps of one scenario.
pub trait Workload: Sync {
    /// The column families it uses under a config, in the order in which operations number them.
    fn families(&self, config: &EngineConfig) -> Vec<Family>;

    /// What a config's policy makes of its steps.
    fn rules(&self, _config: &EngineConfig) -> Rules {
        Rules::default()
    }

    /// Steps that fill an empty database, executed in order; none means the trial starts empty.
    fn load_steps(&self) -> u64;

    /// The operations of one loading step.
    fn load(&self, step: u64, out: &mut Step);

    /// What tells datasets apart: the digest of everything that decides their logical content.
    fn content(&self) -> Digest;

    /// A source of the steps of one role. Each thread has its own, so a source may keep state, such as a layer
    /// that delays writes; it is asked for its thread's steps in ascending order.
    fn source(&self, role: usize) -> Box<dyn StepSource + '_>;

    /// Bytes of keys and values, uncompressed and each live key once, that a dataset of `loaded` such bytes has become when so many steps of
    /// each role are done, warm-up included. What the steps are to leave, whatever a config makes of them: no database is asked.
    fn live_bytes(&self, loaded: u64, steps: &[u64]) -> u64;

    /// Whether what reads return follows from the steps alone, however threads interleave.
    fn answers_are_deterministic(&self) -> bool;

    /// What removal has left, if the workload removes: only a look into the database tells, after window and drain.
    fn leftovers(&self, _engine: &Engine) -> Result<Option<Leftovers>, EngineError> {
        Ok(None)
    }
}

/// Makes the steps of one role for one thread.
pub trait StepSource: Send {
    fn fill(&mut self, step: u64, out: &mut Step);
}

/// What removal has left: rows that point at nothing, and slots that should be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftovers {
    /// Rows that say something is there which is not.
    pub dangling_rows: u64,
    /// The lowest slot of which anything is left.
    pub oldest_slot: Option<u64>,
    /// All slots below this one were to be removed.
    pub removed_below: u64,
}

/// One step: one operation, or a batch. Reused, so that making a step allocates nothing.
#[derive(Debug, Default)]
pub struct Step {
    pub operations: Vec<Operation>,
    arena: Vec<u8>,
    /// Sum over the operations of what they are, for the workload hash.
    pub parity: ParityHash,
}

impl Step {
    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.arena.len()
    }

    /// Bytes of keys and values that it writes.
    pub fn written(&self) -> u64 {
        let of = |operation: &Operation| match operation.action {
            Action::Put { value } | Action::Merge { operand: value } => operation.key.len() + value.len(),
            _ => 0,
        };
        self.operations.iter().map(of).sum()
    }

    pub fn clear(&mut self) {
        self.operations.clear();
        self.arena.clear();
        self.parity = ParityHash::default();
    }

    /// Puts what `write` appends into the arena.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let start = self.arena.len() as u32;
        write(&mut self.arena);
        Bytes { start, length: self.arena.len() as u32 - start }
    }

    /// Adds an operation at a place that no other operation of the trial has.
    pub fn push(&mut self, place: u64, family: u16, key: &[u8], action: Action) {
        let (kind, size) = match action {
            Action::Put { value } => (1, value.len()),
            Action::Delete => (2, 0),
            Action::Get { .. } => (3, 0),
            Action::Scan { entries } => (4, u64::from(entries)),
            Action::Merge { operand } => (5, operand.len()),
            Action::Compute { hashes } => (6, hashes & u64::from(u32::MAX)),
            // What a policy does, and how a step is cut into batches, is no work of its own.
            Action::Commit | Action::Purge => (0, 0),
        };
        if kind > 0 {
            // A size has 32 bits, a family 16.
            self.parity.add(xxh3_64_with_seed(key, mix(&[place, kind << 48 | size << 16 | u64::from(family)])));
        }
        let key = self.put(|out| out.extend_from_slice(key));
        self.operations.push(Operation { family, key, action });
    }

    pub fn resolve(&self, bytes: Bytes) -> &[u8] {
        &self.arena[bytes.start as usize..(bytes.start + bytes.length) as usize]
    }
}

/// Where in a step's arena the bytes of a key or value lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    start: u32,
    length: u32,
}

impl Bytes {
    pub fn len(self) -> u64 {
        u64::from(self.length)
    }
}

/// One operation on one column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub family: u16,
    pub key: Bytes,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Put {
        value: Bytes,
    },
    Delete,
    /// Reads a key. A value that is found must have this length and begin like this: enough to tell the values of two keys
    /// apart, while the workload need not make all of what the database then reads. Checksums of RocksDB's own guard the rest.
    Get {
        length: u32,
        begins: Bytes,
    },
    /// Seeks to the key and reads this many entries.
    Scan {
        entries: u32,
    },
    /// Hands an operand to the family's merge operator.
    Merge {
        operand: Bytes,
    },
    /// Writes the operations before it as a batch of their own, so that one step can have several. Has no key.
    Commit,
    /// Removes what the family holds below the key, in the way that the config's policy says. Not part of the work that configs
    /// must have in common.
    Purge,
    /// Computes this many hashes: what the thread does beside the database. Has no key.
    Compute {
        hashes: u64,
    },
}

/// The workload that a spec asks for.
pub fn build(spec: &WorkloadSpec, seed: u64, dataset_seed: u64) -> Result<Box<dyn Workload>, String> {
    match spec {
        WorkloadSpec::KeyValue(spec) => Ok(Box::new(KeyValueWorkload::new(spec.clone(), seed, dataset_seed)?)),
        WorkloadSpec::Ethrex(spec) => Ok(Box::new(EthrexWorkload::new(spec.clone(), seed, dataset_seed)?)),
        WorkloadSpec::Blockstore(spec) => Ok(Box::new(BlockstoreWorkload::new(spec.clone(), seed, dataset_seed)?)),
        WorkloadSpec::RethHistory(spec) => Ok(Box::new(RethHistoryWorkload::new(spec.clone(), seed, dataset_seed)?)),
    }
}

/// Refuses a spec whose fields don't fit together. How long it may take is watched here, not foretold.
fn check(spec: &dyn Kind) -> Result<(), String> {
    match spec.problems(u64::MAX).into_iter().find(|problem| problem.is_error) {
        Some(problem) => Err(format!("{}.{}: {}", spec.name(), problem.field, problem.message)),
        None => Ok(()),
    }
}

/// Mixes numbers into one well-spread hash: the same on every machine and in every version.
pub fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x243f_6a88_85a3_08d3, |state, word| {
        // The finaliser of SplitMix64 over a running sum.
        let mut z = state.wrapping_add(*word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A number below `bound` from a hash, without the bias of a remainder.
pub fn below(hash: u64, bound: u64) -> u64 {
    ((u128::from(hash) * u128::from(bound)) >> 64) as u64
}
