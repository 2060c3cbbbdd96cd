//! Keys of the state: strings of nibbles, one to a byte.
//!
//! An account's flat key is the 64 nibbles of its address' hash and a mark of the leaf, 65 bytes; a slot's is its
//! account's key, a separator, and the same of its own, 131 bytes. A trie node's key is the nibbles on the way to it, behind the account
//! and the separator where it is a storage trie's. So all keys around one leaf are pieces of its flat key.

use super::super::mix;
use super::shape::Place;

/// Ends the nibbles of a whole hash.
const LEAF: u8 = 0x10;
/// Stands between the account and what belongs to its storage.
const SEPARATOR: u8 = 0x11;
const NIBBLES: usize = 64;
/// An account's hash with its mark and the separator.
pub const PREFIX: usize = NIBBLES + 2;
const LENGTH: usize = PREFIX + NIBBLES + 1;

/// The keys around one leaf.
#[derive(Clone, Debug)]
pub struct Keys {
    bytes: [u8; LENGTH],
    /// Where they begin: at the front for a slot, behind the prefix for an account.
    start: usize,
}

impl Keys {
    /// The keys of an account.
    pub fn of_account(seed: u64, account: u64, place: Place) -> Self {
        let mut keys = Self { bytes: [LEAF; LENGTH], start: PREFIX };
        write_hash(mix(&[seed, account]), place, &mut keys.bytes[PREFIX..]);
        keys
    }

    /// The keys of a slot of an account, each with its place.
    pub fn of_slot(seed: u64, (account, account_place): (u64, Place), (slot, place): (u64, Place)) -> Self {
        let mut keys = Self { bytes: [LEAF; LENGTH], start: 0 };
        write_hash(mix(&[seed, account]), account_place, &mut keys.bytes);
        keys.bytes[PREFIX - 1] = SEPARATOR;
        write_hash(mix(&[seed, account, slot]), place, &mut keys.bytes[PREFIX..]);
        keys
    }

    /// The key of the flat entry.
    pub fn flat(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The key of the node of this depth in the leaf's trie.
    pub fn node(&self, depth: u32) -> &[u8] {
        &self.bytes[self.start..PREFIX + depth as usize]
    }

    /// The nibbles from this depth to the end of the hash, which the leaf itself holds.
    pub fn rest(&self, depth: u32) -> &[u8] {
        &self.bytes[PREFIX + depth as usize..LENGTH - 1]
    }
}

/// The nibbles of a hash that begins with the path of its place.
fn write_hash(seed: u64, place: Place, out: &mut [u8]) {
    let mut state = seed;
    for word in out[..NIBBLES].chunks_exact_mut(16) {
        state = mix(&[state]);
        word[..8].copy_from_slice(&nibbles(state as u32).to_le_bytes());
        word[8..].copy_from_slice(&nibbles((state >> 32) as u32).to_le_bytes());
    }
    for (depth, nibble) in (1..=place.length).zip(out) {
        *nibble = (place.prefix(depth) & 15) as u8;
    }
}

/// Spreads eight nibbles over eight bytes.
fn nibbles(word: u32) -> u64 {
    let mut spread = u64::from(word);
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

#[cfg(test)]
mod tests {
    use super::{super::shape::Shape, *};

    #[test]
    fn keys_are_pieces_of_the_flat_key() {
        let (accounts, slots) = (Shape::of(5000), Shape::of(768));
        let (account, slot) = (accounts.place(0, 77), slots.place(9, 5));
        let of_account = Keys::of_account(1, 77, account);
        assert_eq!(of_account.flat().len(), 65);
        assert_eq!(of_account.node(0), b"");
        assert_eq!(of_account.node(3), &of_account.flat()[..3]);
        let of_slot = Keys::of_slot(1, (77, account), (5, slot));
        assert_eq!(of_slot.flat().len(), 131);
        assert_eq!(of_slot.flat()[..65], *of_account.flat());
        assert_eq!(of_slot.node(0).len(), 66);
        assert_eq!(of_slot.node(0)[64..], [0x10, 0x11]);
        assert_eq!(of_slot.flat()[130], 0x10);
        assert!(of_slot.rest(0).iter().all(|nibble| *nibble < 16));
        assert_eq!(of_slot.rest(3).len(), 61);
        let path =
            of_slot.flat()[66..][..slot.length as usize].iter().fold(0, |path, nibble| path << 4 | u64::from(*nibble));
        assert_eq!(path, slot.path);
    }
}
