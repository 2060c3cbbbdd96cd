//! The chain: the block itself, its receipts, and where its transactions are.

use super::super::{Action, Step, below, mix};
use super::values::{self, LIST, STRING};
use super::{BLOCK_NUMBERS, BODIES, CANONICAL, HEADERS, RECEIPTS, TRANSACTION_LOCATIONS, push};
use crate::engine::Operands;

/// Bytes of a header's filter over the logs, of whose bits a quarter are set.
const LOGS_BLOOM: usize = 256;
/// Hashes of the events that most logs are, such as a token's transfer.
const EVENTS: u64 = 64;

/// Appends the puts of a block's chain data.
pub fn put_block(step: &mut Step, seed: u64, block: u64, transactions: u64) {
    let tag = mix(&[seed, block, 7]);
    let mut block_hash = Vec::with_capacity(33);
    values::hash(&mut block_hash, tag);

    let header = step.put(|out| put_header(out, tag, block));
    push(step, block, HEADERS, &block_hash, Action::Put { value: header });
    let body = step.put(|out| (0..transactions).for_each(|index| put_transaction(out, mix(&[tag, index, 1]))));
    push(step, block, BODIES, &block_hash, Action::Put { value: body });
    let number = step.put(|out| out.extend_from_slice(&block.to_le_bytes()));
    push(step, block, BLOCK_NUMBERS, &block_hash, Action::Put { value: number });
    let canonical = step.put(|out| out.extend_from_slice(&block_hash));
    push(step, block, CANONICAL, &block.to_le_bytes(), Action::Put { value: canonical });

    let mut key = [0; 40];
    key[..32].copy_from_slice(&block_hash[1..]);
    let mut transaction_hash = Vec::with_capacity(32);
    for index in 0..transactions {
        let transaction = mix(&[tag, index, 1]);
        key[32..].copy_from_slice(&index.to_be_bytes());
        let receipt = step.put(|out| put_receipt(out, transaction));
        push(step, block, RECEIPTS, &key, Action::Put { value: receipt });
        transaction_hash.clear();
        values::random(&mut transaction_hash, 32, transaction);
        let operand = step.put(|out| put_location(out, block, &block_hash, index));
        push(step, block, TRANSACTION_LOCATIONS, &transaction_hash, Action::Merge { operand });
    }
}

/// Hashes of other things, a filter over the logs, and a dozen numbers: about 600 bytes.
fn put_header(out: &mut Vec<u8>, tag: u64, block: u64) {
    for part in 0..8 {
        values::hash(out, mix(&[tag, part]));
    }
    let start = out.len();
    values::random(out, LOGS_BLOOM, mix(&[tag, 9]));
    let (bloom, other) = (start..start + LOGS_BLOOM, mix(&[tag, 10]));
    for (byte, turn) in out[bloom].iter_mut().zip(0_u32..) {
        *byte &= (other.rotate_left(turn)) as u8;
    }
    for number in [block, 30_000_000, 12 * block, mix(&[tag, 11]) >> 34] {
        values::number(out, number);
    }
    values::random(out, 60, mix(&[tag, 12]));
}

/// A signed call of a contract with a few arguments: words of 32 bytes that are mostly zeros. About 500 bytes.
fn put_transaction(out: &mut Vec<u8>, tag: u64) {
    values::random(out, 110, tag);
    for word in 0..4 + below(mix(&[tag]), 17) {
        let zeros = if word % 2 == 0 { 12 } else { 26 };
        out.resize(out.len() + zeros, 0);
        values::random(out, 32 - zeros, mix(&[tag, word]));
    }
}

/// What the transaction used, and its logs: each an address, hashes of the event and of who took part, and an amount.
fn put_receipt(out: &mut Vec<u8>, tag: u64) {
    values::number(out, tag >> 38);
    for log in 0..=below(mix(&[tag, 1]), 8) {
        let log = mix(&[tag, log, 2]);
        values::random(out, 20, log % 1024);
        values::hash(out, log % EVENTS);
        for topic in 0..2 {
            out.resize(out.len() + 12, 0);
            values::random(out, 20, mix(&[log, topic]));
        }
        out.resize(out.len() + 24, 0);
        values::random(out, 8, mix(&[log, 2]));
    }
}

/// A list of the one place where a transaction is: block number, block hash, index.
fn put_location(out: &mut Vec<u8>, block: u64, block_hash: &[u8], index: u64) {
    let mut place = Vec::with_capacity(48);
    values::number(&mut place, block);
    place.extend_from_slice(block_hash);
    values::number(&mut place, index);
    let mut list = Vec::with_capacity(50);
    values::header(&mut list, LIST, place.len());
    list.append(&mut place);
    values::header(out, LIST, list.len());
    out.append(&mut list);
}

/// Joins lists of places: a transaction can be in several blocks until the chain has settled on one.
pub fn merge_locations(existing: Option<&[u8]>, operands: Operands<'_>) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    for list in existing.into_iter().chain(operands) {
        payload.extend_from_slice(list_payload(list)?);
    }
    let mut list = Vec::with_capacity(payload.len() + 9);
    values::header(&mut list, LIST, payload.len());
    list.append(&mut payload);
    Some(list)
}

fn list_payload(list: &[u8]) -> Option<&[u8]> {
    const LONG: u8 = LIST + 55;
    match *list.first()? {
        STRING..LIST | ..STRING => None,
        short @ LIST..=LONG => list.get(1..=usize::from(short - LIST)),
        long => list.get(1 + usize::from(long - LONG)..),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_list_and_nothing_else_is() {
        let mut list = Vec::new();
        put_location(&mut list, 20_000_000, &[0xa0; 33], 130);
        assert_eq!(list_payload(&list).map(<[u8]>::len), Some(41));
        assert_eq!(list.len(), 42);
        let mut long = vec![LIST + 56, 60];
        long.resize(62, 1);
        assert_eq!(list_payload(&long).map(<[u8]>::len), Some(60));
        for broken in [&[][..], &[0x80], &[LIST + 5, 1]] {
            assert_eq!(list_payload(broken), None);
        }
    }
}
