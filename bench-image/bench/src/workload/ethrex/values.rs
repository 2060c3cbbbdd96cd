//! Values of the state, encoded in RLP as the client encodes them: their sizes, and how well they compress, follow from what
//! they are.

use super::super::{below, mix};
use super::changes::skewed;
use super::keys::Keys;
use super::shape::{CHILD_STEP, Kind};

/// Hashes that every account without code and storage has. The bytes don't matter, only that they are the same.
const EMPTY_ROOT: [u8; 32] = [0xb8; 32];
const EMPTY_CODE: [u8; 32] = [0xc5; 32];
const HASH_HEADER: u8 = 0xa0;
const NOTHING: u8 = 0x80;

/// Accounts come in groups of eleven of which two are contracts: 82 % are owned by people.
const GROUP: u64 = 11;
const CONTRACTS: u64 = 2;
/// Codes that many contracts share, such as proxies, tokens and wallets.
const POPULAR_CODES: u64 = 64;

/// The account of a contract.
pub fn contract_account(contract: u64) -> u64 {
    contract / CONTRACTS * GROUP + contract % CONTRACTS
}

fn is_contract(account: u64) -> bool {
    account % GROUP < CONTRACTS
}

/// The code of a contract: three of four are clones of popular ones.
fn code(tag: u64) -> u64 {
    if tag.is_multiple_of(4) { tag } else { skewed(tag, POPULAR_CODES) }
}

/// Appends random bytes.
pub fn random(out: &mut Vec<u8>, length: usize, seed: u64) {
    let start = out.len();
    out.resize(start + length, 0);
    for (word, number) in out[start..].chunks_mut(8).zip(0..) {
        word.copy_from_slice(&mix(&[seed.wrapping_add(number)]).to_le_bytes()[..word.len()]);
    }
}

/// Appends a hash as a string of RLP.
pub fn hash(out: &mut Vec<u8>, seed: u64) {
    out.push(HASH_HEADER);
    random(out, 32, seed);
}

/// Appends a number in as many bytes as it has.
pub fn number(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        out.push(if number == 0 { NOTHING } else { number as u8 });
        return;
    }
    let skip = number.leading_zeros() as usize / 8;
    out.push(NOTHING + (8 - skip) as u8);
    out.extend_from_slice(&number.to_be_bytes()[skip..]);
}

/// Appends the header of a list or string with this payload.
pub fn header(out: &mut Vec<u8>, short: u8, payload: usize) {
    if payload < 56 {
        out.push(short + payload as u8);
        return;
    }
    let skip = (payload as u64).leading_zeros() as usize / 8;
    out.push(short + 55 + (8 - skip) as u8);
    out.extend_from_slice(&(payload as u64).to_be_bytes()[skip..]);
}

pub const LIST: u8 = 0xc0;
pub const STRING: u8 = 0x80;

/// Appends the beginning of an account, which is different in each version, and returns the length of the whole.
pub fn account_begin(out: &mut Vec<u8>, seed: u64, account: u64, version: u64) -> u32 {
    let start = out.len();
    let tag = mix(&[seed, account, version]);
    // The header of a list whose length takes a byte; which, is known when it is written.
    out.extend_from_slice(&[0xf8, 0]);
    if is_contract(account) {
        number(out, 1 + version % 100);
        number(out, 0);
    } else {
        // Most people have sent a few transactions, some many, and every fifth is broke.
        number(out, (tag & 0xffff) >> (tag >> 16 & 15));
        let wei_bits = 40 + (tag >> 20) % 24;
        number(out, if tag.is_multiple_of(5) { version % 100 } else { mix(&[tag]) >> (64 - wei_bits) });
    }
    let payload = out.len() - start - 2 + 66;
    out[start + 1] = payload as u8;
    payload as u32 + 2
}

/// Appends an account: nonce, balance, storage root, code hash.
pub fn account(out: &mut Vec<u8>, seed: u64, account: u64, version: u64) {
    account_begin(out, seed, account, version);
    if is_contract(account) {
        hash(out, mix(&[seed, account, version, 1]));
        hash(out, code(mix(&[seed, account, 2])));
    } else {
        for constant in [EMPTY_ROOT, EMPTY_CODE] {
            out.push(HASH_HEADER);
            out.extend_from_slice(&constant);
        }
    }
}

/// Appends a slot: flags and small counts, amounts, addresses, hashes.
pub fn slot(out: &mut Vec<u8>, key: u64, version: u64) {
    let tag = mix(&[key, version]);
    let length = slot_length(key);
    if length == 1 {
        number(out, 1 + tag % 0x7f);
        return;
    }
    let start = out.len();
    out.push(STRING + length as u8 - 1);
    random(out, length as usize - 1, tag);
    // A number has no leading zero.
    out[start + 1] |= 1;
}

/// The length of a slot: what kind of number it holds never changes.
pub fn slot_length(key: u64) -> u32 {
    match below(key, 100) {
        0..22 => 1,
        22..48 => 7 + (key & 3) as u32,
        48..64 => 9 + (key & 7) as u32,
        64..86 => 21,
        _ => 33,
    }
}

/// Appends the leaf that ends a key's way through its trie at this depth: the rest of the way, and what `flat` appends, the flat entry.
pub fn leaf(out: &mut Vec<u8>, keys: &Keys, depth: u32, flat_length: u32, flat: impl FnOnce(&mut Vec<u8>)) {
    leaf_begin(out, keys, depth, flat_length);
    // A value of one small byte is its own encoding.
    if flat_length > 1 {
        header(out, STRING, flat_length as usize);
    }
    flat(out);
}

/// Appends the beginning of a leaf, which is the same in each version, and returns the length of the whole.
pub fn leaf_begin(out: &mut Vec<u8>, keys: &Keys, depth: u32, flat_length: u32) -> u32 {
    let rest = keys.rest(depth);
    let flat = flat_length as usize;
    let payload = 2 + rest.len() / 2 + if flat == 1 { 1 } else { flat + header_length(flat) };
    header(out, LIST, payload);
    leaf_path(out, rest);
    (payload + header_length(payload)) as u32
}

/// Bytes of the header of such a payload.
fn header_length(payload: usize) -> usize {
    if payload < 56 { 1 } else { 2 }
}

/// The nibbles two to a byte, behind flags for a leaf and for an odd number.
fn leaf_path(out: &mut Vec<u8>, rest: &[u8]) {
    out.push(STRING + (1 + rest.len() / 2) as u8);
    let (first, pairs) = if rest.len() % 2 == 1 { (0x30 | rest[0], &rest[1..]) } else { (0x20, rest) };
    out.push(first);
    out.extend(pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
}

/// Appends a branch or an extension.
pub fn node(out: &mut Vec<u8>, kind: Kind, seed: u64) {
    node_begin(out, kind);
    match kind {
        Kind::Full => {
            for child in 0..16 {
                hash(out, seed.wrapping_add(child << 32));
            }
            out.push(NOTHING);
        }
        Kind::Sparse { first_child } => {
            let is_child =
                |nibble: u64| (0..3).any(|child| (u64::from(first_child) + CHILD_STEP * child) % 16 == nibble);
            for nibble in 0..16 {
                if is_child(nibble) {
                    hash(out, seed.wrapping_add(nibble << 32));
                } else {
                    out.push(NOTHING);
                }
            }
            out.push(NOTHING);
        }
        Kind::Extension => {
            out.push(0x10 | (seed & 15) as u8);
            hash(out, seed);
        }
    }
}

/// Appends the beginning of a node, which only tells its kind, and returns the length of the whole.
pub fn node_begin(out: &mut Vec<u8>, kind: Kind) -> u32 {
    let payload = match kind {
        Kind::Full => 16 * 33 + 1,
        Kind::Sparse { .. } => 3 * 33 + 14,
        Kind::Extension => 34,
    };
    let start = out.len();
    header(out, LIST, payload);
    (payload + out.len() - start) as u32
}

#[cfg(test)]
mod tests {
    use super::{super::shape::Shape, *};

    fn made(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// The payload of a list, if the header says its length truly.
    fn payload(list: &[u8]) -> &[u8] {
        let (length, rest) = match list[0] {
            short @ 0xc0..0xf8 => (usize::from(short - 0xc0), &list[1..]),
            long => {
                let digits = usize::from(long - 0xf7);
                (list[1..=digits].iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), &list[1 + digits..])
            }
        };
        assert_eq!(length, rest.len());
        rest
    }

    #[test]
    fn values_have_the_sizes_of_the_real_ones() {
        assert_eq!(made(|out| node(out, Kind::Full, 1)).len(), 532);
        assert_eq!(made(|out| node(out, Kind::Extension, 1)).len(), 35);
        assert_eq!(payload(&made(|out| node(out, Kind::Sparse { first_child: 13 }, 1))).len(), 113);
        let mean = |of: &dyn Fn(u64) -> usize| (0..10_000).map(of).sum::<usize>() as f64 / 10_000.0;
        let accounts = mean(&|id| made(|out| account(out, 1, id, 0)).len());
        assert!((accounts - 75.0).abs() < 2.0, "accounts have {accounts} bytes");
        let slots = mean(&|id| made(|out| slot(out, mix(&[id]), 0)).len());
        assert!((slots - 14.0).abs() < 1.0, "slots have {slots} bytes");
    }

    #[test]
    fn beginnings_are_those_of_the_wholes_and_tell_their_length() {
        let place = Shape::of(5000).place(0, 77);
        for id in 0..500 {
            let keys = Keys::of_account(1, id, place);
            for flat in [made(|out| account(out, 1, id, 3)), made(|out| slot(out, mix(&[id]), 3))] {
                for depth in [4, 5] {
                    let whole =
                        made(|out| leaf(out, &keys, depth, flat.len() as u32, |out| out.extend_from_slice(&flat)));
                    payload(&whole);
                    let mut length = 0;
                    let begin = made(|out| length = leaf_begin(out, &keys, depth, flat.len() as u32));
                    assert_eq!((&whole[..begin.len()], whole.len()), (&begin[..], length as usize));
                }
            }
            let whole = made(|out| account(out, 1, id, 3));
            payload(&whole);
            let mut length = 0;
            let begin = made(|out| length = account_begin(out, 1, id, 3));
            assert_eq!((&whole[..begin.len()], whole.len()), (&begin[..], length as usize));
            let next = made(|out| length = account_begin(out, 1, id, 4));
            assert_ne!(begin, next, "versions of account {id} look alike");
        }
    }
}
