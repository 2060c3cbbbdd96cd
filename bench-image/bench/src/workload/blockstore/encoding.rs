//! Bytes of keys and values.

use assay_protocol::Blockstore;

use super::{
    super::mix,
    shreds::{SET, Shred},
};

/// Shreds that a slot can have of each kind: bits of a map.
const MAP_BITS: usize = 32_768;
pub const MAP_BYTES: usize = MAP_BITS / 8;

/// Bytes of a value in `index`: slot, then count and map of data and of coding shreds.
pub const INDEX_BYTES: u32 = 8 + 2 * (8 + MAP_BYTES as u32);
/// Bytes of a value in `meta`: slot, consumed, received, time, last index, parent, one next slot with their number, flags, map.
pub const META_BYTES: u32 = 8 * 8 + 1 + MAP_BYTES as u32;
pub const ERASURE_META_BYTES: u32 = 40;
pub const MERKLE_ROOT_META_BYTES: u32 = 38;

pub fn slot_key(slot: u64) -> [u8; 8] {
    slot.to_be_bytes()
}

pub fn shred_key(slot: u64, index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&slot.to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The slot of any key.
pub fn slot_of(key: &[u8]) -> Option<u64> {
    key.first_chunk().map(|slot| u64::from_be_bytes(*slot))
}

/// A key of `merkle_root_meta`, whose FEC set has four bytes; that of `erasure_meta` is like a shred's.
pub fn merkle_root_key(slot: u64, set: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&slot.to_be_bytes());
    key[8..].copy_from_slice(&(set as u32).to_be_bytes());
    key
}

/// Bytes of keys and values of a complete slot with so many data shreds, and as many coding shreds.
pub fn slot_bytes(data_shreds: u64) -> u64 {
    let shreds = 2 * Blockstore::SHRED_KEY_BYTES + Blockstore::DATA_SHRED_BYTES + Blockstore::CODE_SHRED_BYTES;
    let set = 16 + u64::from(ERASURE_META_BYTES) + 12 + u64::from(MERKLE_ROOT_META_BYTES);
    let slot = 8 + u64::from(INDEX_BYTES) + 8 + u64::from(META_BYTES);
    data_shreds * shreds + data_shreds.div_ceil(SET) * set + slot
}

/// Makes values from keys.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    seed: u64,
}

impl Values {
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Signature, hashes and transactions look random to a codec.
    pub fn shred(self, slot: u64, shred: Shred, out: &mut Vec<u8>) {
        let length = if shred.code { Blockstore::CODE_SHRED_BYTES } else { Blockstore::DATA_SHRED_BYTES };
        random(mix(&[self.seed, slot, shred.index << 1 | u64::from(shred.code)]), length as usize, out);
    }

    /// First index of the set, first coding index, first one received, and the numbers of data and coding shreds.
    pub fn erasure_meta(set: u64, received: Shred, shreds: u64, out: &mut Vec<u8>) {
        for word in [set, set, received.index, shreds, shreds] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// The root of the set, whether there is one, and which shred told it.
    pub fn merkle_root_meta(self, slot: u64, set: u64, received: Shred, out: &mut Vec<u8>) {
        out.push(1);
        random(mix(&[self.seed, slot, set, 1]), 32, out);
        out.extend_from_slice(&(received.index as u32).to_le_bytes());
        out.push(u8::from(received.code));
    }
}

/// Appends random bytes. Several xorshift generators side by side, which the compiler turns into vector instructions: values
/// are made within the window, and a hash for every word would take a good part of it.
fn random(seed: u64, length: usize, out: &mut Vec<u8>) {
    const LANES: usize = 4;
    let start = out.len();
    out.resize(start + length, 0);
    // An xorshift that starts at zero stays there.
    let mut lanes: [u64; LANES] = std::array::from_fn(|lane| mix(&[seed, lane as u64]) | 1);
    let mut chunks = out[start..].chunks_exact_mut(8 * LANES);
    for chunk in &mut chunks {
        for (word, lane) in chunk.as_chunks_mut::<8>().0.iter_mut().zip(&mut lanes) {
            *word = next(lane).to_le_bytes();
        }
    }
    for (word, lane) in chunks.into_remainder().chunks_mut(8).zip(&mut lanes) {
        word.copy_from_slice(&next(lane).to_le_bytes()[..word.len()]);
    }
}

fn next(lane: &mut u64) -> u64 {
    *lane ^= *lane << 13;
    *lane ^= *lane >> 7;
    *lane ^= *lane << 17;
    *lane
}
