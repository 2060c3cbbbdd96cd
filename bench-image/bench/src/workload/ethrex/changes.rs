//! What each block changes and reads, as a function of its number.
//!
//! Most changes go to cold entries, which take turns in an order that looks random in the key space. So when an entry was changed last
//! follows from its position in the order, and nothing has to be remembered, however large the state is.

use assay_protocol::Ethrex;

use super::super::{below, mix};
use super::state::{Entry, State};

/// Shares of the changes that go to hot entries.
const HOT_ACCOUNT_PERCENT: u64 = 30;
const HOT_SLOT_PERCENT: u64 = 40;

/// The versions of an entry count blocks from 1; 0 is what the dataset holds.
pub type Version = u64;

/// The version that a block makes.
pub fn version(block: u64) -> Version {
    block + 1
}

/// The changes and reads of all blocks.
#[derive(Debug)]
pub struct Changes {
    seed: u64,
    accounts: Turns,
    slots: Turns,
    hot_accounts: u64,
    hot_slots: u64,
    accounts_read: u64,
    slots_read: u64,
}

/// How an entry is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The number of a hot one. When it was changed last has to be remembered.
    Hot(usize),
    /// The position of a cold one.
    Cold(u64),
}

/// What is known of a cold entry before some block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// The version of the last change.
    pub version: Version,
    /// How many changes there were.
    pub changes: u64,
}

/// Positions that take turns, so many in each block.
#[derive(Clone, Copy, Debug)]
struct Turns {
    positions: u64,
    per_block: u64,
    first: u64,
}

impl Turns {
    fn position(self, block: u64, index: u64) -> u64 {
        ((u128::from(block) * u128::from(self.per_block) + u128::from(self.first + index)) % u128::from(self.positions))
            as u64
    }

    fn past(self, position: u64, block: u64) -> Past {
        let first_turn = (position + self.positions - self.first) % self.positions;
        let Some(later) = (block * self.per_block).checked_sub(first_turn + 1) else {
            return Past { version: 0, changes: 0 };
        };
        let rounds = later / self.positions;
        Past { version: version((first_turn + rounds * self.positions) / self.per_block), changes: rounds + 1 }
    }

    /// The position that a block reads: every other time any, else one of few that are read often, and are far from their turn.
    fn read(self, tag: u64) -> u64 {
        if tag & 1 == 0 {
            return below(mix(&[tag]), self.positions);
        }
        (self.first + self.positions - 1 - skewed(mix(&[tag]), self.positions)) % self.positions
    }
}

/// A number below `bound`, each about as often as one over its rank: Zipf's law in steps of powers of two, which needs no
/// floating point and so is the same on every machine.
pub fn skewed(hash: u64, bound: u64) -> u64 {
    let power = 1 << below(hash, u64::from(bound.max(1).ilog2()) + 1);
    (power - 1 + below(mix(&[hash]), power)) % bound
}

impl Changes {
    pub fn new(spec: &Ethrex, state: &State, seed: u64) -> Result<Self, String> {
        let content = spec.content_of_block();
        let hot_accounts = content.accounts * HOT_ACCOUNT_PERCENT / 100;
        let hot_slots = content.slots * HOT_SLOT_PERCENT / 100;
        let turns = |what: &str, positions: u64, per_block: u64, tag: u64| {
            // Within a block no entry may have two turns.
            if per_block > positions / 2 {
                return Err(format!(
                    "ethrex.{what}: a block of {} Mgas changes {per_block} of {positions}: use a larger state or less gas",
                    spec.mgas_per_block
                ));
            }
            Ok(Turns { positions, per_block, first: below(mix(&[seed, tag]), positions) })
        };
        Ok(Self {
            seed,
            accounts: turns("accounts", state.accounts(), content.accounts - hot_accounts, 1)?,
            slots: turns("storageSlots", state.slots(), content.slots - hot_slots, 2)?,
            hot_accounts,
            hot_slots,
            accounts_read: content.accounts_read,
            slots_read: content.slots_read,
        })
    }

    /// Hot entries of a block may come up more than once.
    pub fn changed<'a>(&'a self, state: &'a State, block: u64) -> impl Iterator<Item = (Entry, Known)> + 'a {
        let hot_accounts = (0..self.hot_accounts)
            .map(move |index| Entry::Account(skewed(mix(&[self.seed, block, index, 3]), state.hot_accounts())));
        let hot_slots = (0..self.hot_slots).map(move |index| {
            let tag = mix(&[self.seed, block, index, 4]);
            state.hot_slot(skewed(tag, state.hot_contracts()), mix(&[tag]) >> 32)
        });
        let hot = hot_accounts.chain(hot_slots).filter_map(|entry| Some((entry, Known::Hot(state.hot(entry)?))));
        let accounts = (0..self.accounts.per_block).map(move |index| {
            let position = self.accounts.position(block, index);
            (state.account_at(position), position)
        });
        let slots = (0..self.slots.per_block).map(move |index| {
            let position = self.slots.position(block, index);
            (state.slot_at(position), position)
        });
        hot.chain(cold(state, accounts.chain(slots)))
    }

    /// What a block reads and leaves as it is. Only cold entries: hot ones are in the layers, or in the client's own caches.
    pub fn read<'a>(&'a self, state: &'a State, block: u64) -> impl Iterator<Item = (Entry, Known)> + 'a {
        let accounts = (0..self.accounts_read).map(move |index| {
            let position = self.accounts.read(mix(&[self.seed, block, index, 5]));
            (state.account_at(position), position)
        });
        let slots = (0..self.slots_read).map(move |index| {
            let position = self.slots.read(mix(&[self.seed, block, index, 6]));
            (state.slot_at(position), position)
        });
        cold(state, accounts.chain(slots))
    }

    /// The past of a cold entry before a block.
    pub fn past(&self, entry: Entry, position: u64, block: u64) -> Past {
        match entry {
            Entry::Account(_) => self.accounts.past(position, block),
            Entry::Slot { .. } => self.slots.past(position, block),
        }
    }
}

/// The order of the cold ones has the hot ones in it, which never have their turn.
fn cold<'a>(
    state: &'a State,
    entries: impl Iterator<Item = (Entry, u64)> + 'a,
) -> impl Iterator<Item = (Entry, Known)> + 'a {
    entries.filter(|(entry, _)| state.hot(*entry).is_none()).map(|(entry, position)| (entry, Known::Cold(position)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_past_follows_from_the_position() {
        let turns = Turns { positions: 100, per_block: 7, first: 93 };
        let mut pasts = BTreeMap::new();
        for block in 0..50 {
            for position in 0..100 {
                let seen = pasts.get(&position).copied().unwrap_or(Past { version: 0, changes: 0 });
                assert_eq!(turns.past(position, block), seen, "position {position} before block {block}");
            }
            for index in 0..7 {
                let past = pasts.entry(turns.position(block, index)).or_insert(Past { version: 0, changes: 0 });
                *past = Past { version: version(block), changes: past.changes + 1 };
            }
        }
    }

    #[test]
    fn low_ranks_come_up_most() {
        let mut counts = vec![0; 1000];
        for hash in 0..100_000 {
            counts[skewed(mix(&[hash]), 1000) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0));
        // The first rank is one of ten powers of two.
        assert!((9_000..11_500).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > 10 * counts[16] && counts[16] > 10 * counts[500], "{counts:?}");
    }
}
