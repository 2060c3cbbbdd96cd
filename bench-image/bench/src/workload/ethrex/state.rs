//! The state: which accounts and slots there are, what the dataset holds of them, and where they lie.

use assay_protocol::{Contracts, Ethrex};

use super::super::keys::Permutation;
use super::super::{Bytes, Step, mix};
use super::changes::Version;
use super::keys::Keys;
use super::shape::{Kind, Place, Shape};
use super::values;
use super::{ACCOUNT_FLAT, ACCOUNT_TRIE, STORAGE_FLAT, STORAGE_TRIE};

/// Hot accounts at most: exchanges, routers, fee recipients and hot contracts.
const HOT_ACCOUNTS: u64 = 2048;
/// Hot contracts at most, and slots of each that are hot.
const HOT_CONTRACTS: u64 = 256;
const HOT_SLOTS_PER_CONTRACT: u64 = 64;
/// One in so many cold keys comes and goes. Half of these are there at first.
const TRANSIENT_ONE_IN: u64 = 5;

/// The state before the first block.
#[derive(Clone, Debug)]
pub struct State {
    seed: u64,
    accounts: u64,
    account_shape: Shape,
    slots: u64,
    contracts: Vec<(Contracts, Shape)>,
    /// Accounts below this number are hot, and so are contracts below that one.
    hot_accounts: u64,
    hot_contracts: u64,
    account_order: Permutation,
    slot_order: Permutation,
}

/// An account, or a slot of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Account(u64),
    Slot { contract: u64, slot: u64 },
}

/// An entry with all that its records need.
#[derive(Clone, Debug)]
pub struct Located {
    pub entry: Entry,
    pub keys: Keys,
    pub place: Place,
    seed: u64,
}

impl State {
    pub fn new(spec: &Ethrex, seed: u64) -> Self {
        let contracts: Vec<_> =
            spec.contracts().into_iter().map(|contracts| (contracts, Shape::of(contracts.slots))).collect();
        let slots = contracts.iter().map(|(contracts, _)| contracts.count * contracts.slots).sum();
        let all_contracts: u64 = contracts.iter().map(|(contracts, _)| contracts.count).sum();
        Self {
            seed,
            accounts: spec.accounts,
            account_shape: Shape::of(spec.accounts),
            slots,
            contracts,
            hot_accounts: HOT_ACCOUNTS.min(spec.accounts / 16),
            hot_contracts: HOT_CONTRACTS.min(all_contracts / 16).max(1),
            account_order: Permutation::new(spec.accounts, mix(&[seed, 1])),
            slot_order: Permutation::new(slots, mix(&[seed, 2])),
        }
    }

    pub fn accounts(&self) -> u64 {
        self.accounts
    }

    pub fn slots(&self) -> u64 {
        self.slots
    }

    pub fn hot_accounts(&self) -> u64 {
        self.hot_accounts
    }

    pub fn hot_contracts(&self) -> u64 {
        self.hot_contracts
    }

    /// The account at a position of the order in which cold ones are touched.
    pub fn account_at(&self, position: u64) -> Entry {
        Entry::Account(self.account_order.apply(position))
    }

    /// The slot at a position of such an order.
    pub fn slot_at(&self, position: u64) -> Entry {
        let mut slot = self.slot_order.apply(position);
        let mut first = 0;
        for (contracts, _) in &self.contracts {
            let all = contracts.count * contracts.slots;
            if slot < all {
                return Entry::Slot { contract: first + slot / contracts.slots, slot: slot % contracts.slots };
            }
            slot -= all;
            first += contracts.count;
        }
        // No position is beyond the last slot.
        Entry::Slot { contract: 0, slot: 0 }
    }

    /// The number of a hot entry among the hot ones of its kind.
    pub fn hot(&self, entry: Entry) -> Option<usize> {
        match entry {
            Entry::Account(account) => (account < self.hot_accounts).then_some(account as usize),
            Entry::Slot { contract, slot } => (contract < self.hot_contracts && slot < HOT_SLOTS_PER_CONTRACT)
                .then_some((contract * HOT_SLOTS_PER_CONTRACT + slot) as usize),
        }
    }

    /// Hot entries of both kinds.
    pub fn hot_entries(&self) -> [usize; 2] {
        [self.hot_accounts as usize, (self.hot_contracts * HOT_SLOTS_PER_CONTRACT) as usize]
    }

    /// A hot slot of a hot contract, by a number without bound.
    pub fn hot_slot(&self, contract: u64, any: u64) -> Entry {
        let (contracts, _) = self.size_of(contract);
        Entry::Slot { contract, slot: any % HOT_SLOTS_PER_CONTRACT.min(contracts.slots) }
    }

    /// Whether the entry at a position is there after so many blocks have touched it.
    pub fn is_there(&self, entry: Entry, position: u64, touched: u64) -> bool {
        let is_transient = position.is_multiple_of(TRANSIENT_ONE_IN) && self.hot(entry).is_none();
        !is_transient || (position / TRANSIENT_ONE_IN + touched).is_multiple_of(2)
    }

    fn size_of(&self, contract: u64) -> (Contracts, Shape) {
        let mut first = 0;
        let mut found = self.contracts[0];
        for size in &self.contracts {
            found = *size;
            first += size.0.count;
            if contract < first {
                break;
            }
        }
        found
    }

    fn account_place(&self, account: u64) -> Place {
        // Numbers below that of all accounts stay so: contracts of a tiny state share the paths of accounts, not their keys.
        self.account_shape.place(0, account % self.accounts)
    }

    pub fn locate(&self, entry: Entry) -> Located {
        let (keys, place) = match entry {
            Entry::Account(account) => {
                let place = self.account_place(account);
                (Keys::of_account(self.seed, account, place), place)
            }
            Entry::Slot { contract, slot } => {
                let account = values::contract_account(contract);
                let place = self.size_of(contract).1.place(mix(&[self.seed, contract, 3]), slot);
                (Keys::of_slot(self.seed, (account, self.account_place(account)), (slot, place)), place)
            }
        };
        Located { entry, keys, place, seed: self.seed }
    }
}

/// A node of some trie, as a number that no other node has.
pub type NodeId = u64;

impl Located {
    pub fn flat_family(&self) -> u16 {
        match self.entry {
            Entry::Account(_) => ACCOUNT_FLAT,
            Entry::Slot { .. } => STORAGE_FLAT,
        }
    }

    pub fn trie_family(&self) -> u16 {
        match self.entry {
            Entry::Account(_) => ACCOUNT_TRIE,
            Entry::Slot { .. } => STORAGE_TRIE,
        }
    }

    /// The node of this depth on the way to the leaf, or the leaf itself.
    pub fn node(&self, depth: u32) -> NodeId {
        let trie = match self.entry {
            Entry::Account(_) => 0,
            Entry::Slot { contract, .. } => contract + 1,
        };
        mix(&[trie << 4 | u64::from(depth), self.place.prefix(depth)])
    }

    pub fn kind(&self, depth: u32) -> Kind {
        self.place.node(depth)
    }

    pub fn put_flat(&self, step: &mut Step, version: Version) -> Bytes {
        step.put(|out| self.flat(out, version))
    }

    pub fn put_leaf(&self, step: &mut Step, version: Version) -> Bytes {
        step.put(|out| {
            let flat_length = self.flat_length(out, version);
            values::leaf(out, &self.keys, self.place.length, flat_length, |out| self.flat(out, version));
        })
    }

    pub fn put_node(&self, step: &mut Step, depth: u32, version: Version) -> Bytes {
        step.put(|out| values::node(out, self.kind(depth), mix(&[self.node(depth), version])))
    }

    /// The beginning of a version's flat value, and the length of the whole.
    pub fn flat_begin(&self, step: &mut Step, version: Version) -> (Bytes, u32) {
        let mut length = 0;
        let begins = step.put(|out| match self.entry {
            Entry::Account(account) => length = values::account_begin(out, self.seed, account, version),
            Entry::Slot { contract, slot } => {
                let key = mix(&[self.seed, contract, slot]);
                length = values::slot_length(key);
                values::slot(out, key, version);
            }
        });
        (begins, length)
    }

    /// The beginning of a leaf, which all versions share, and the length of this one.
    pub fn leaf_begin(&self, step: &mut Step, version: Version) -> (Bytes, u32) {
        let mut length = 0;
        let begins = step.put(|out| {
            let flat = self.flat_length(out, version);
            length = values::leaf_begin(out, &self.keys, self.place.length, flat);
        });
        (begins, length)
    }

    /// The beginning of a node, and the length of the whole.
    pub fn node_begin(&self, step: &mut Step, depth: u32) -> (Bytes, u32) {
        let mut length = 0;
        let begins = step.put(|out| length = values::node_begin(out, self.kind(depth)));
        (begins, length)
    }

    fn flat_length(&self, scratch: &mut Vec<u8>, version: Version) -> u32 {
        match self.entry {
            Entry::Account(account) => {
                let start = scratch.len();
                let length = values::account_begin(scratch, self.seed, account, version);
                scratch.truncate(start);
                length
            }
            Entry::Slot { contract, slot } => values::slot_length(mix(&[self.seed, contract, slot])),
        }
    }

    fn flat(&self, out: &mut Vec<u8>, version: Version) {
        match self.entry {
            Entry::Account(account) => values::account(out, self.seed, account, version),
            Entry::Slot { contract, slot } => values::slot(out, mix(&[self.seed, contract, slot]), version),
        }
    }
}
