//! Shards: the blocks that changed one account or slot, as a serialised roaring treemap.
//!
//! The [format](https://github.com/RoaringBitmap/RoaringFormatSpec) for 64-bit sets is a count of bitmaps and, before each, the upper
//! half of its numbers. Block numbers have 32 bits, so there is one bitmap. It has a container for each 65,536 numbers that has any:
//! sorted arrays, since 4096 entries would have to be in one before it became a bitset. n entries in c containers take
//! 20 + 8c + 2n bytes.

/// Entries of a full shard. One more, and these are sealed.
pub const ENTRIES: u64 = 2000;

/// Says that the containers follow without runs.
const COOKIE: u32 = 12346;
/// Cookie and number of containers, from which offsets count.
const BITMAP_HEADER: u32 = 8;
/// Key, cardinality and offset.
const CONTAINER_HEADER: u32 = 8;

/// Bytes of the serialised form of ascending blocks.
pub fn length(blocks: &[u32]) -> u64 {
    20 + 8 * containers(blocks).count() as u64 + 2 * blocks.len() as u64
}

/// Appends the serialised form of ascending blocks.
pub fn write(blocks: &[u32], out: &mut Vec<u8>) {
    begin(blocks, usize::MAX, out);
}

/// Appends the first bytes of it, at most `most`, and returns the length of the whole.
pub fn begin(blocks: &[u32], most: usize, out: &mut Vec<u8>) -> u32 {
    let start = out.len();
    out.extend_from_slice(&1_u64.to_le_bytes());
    out.extend_from_slice(&0_u32.to_le_bytes());
    out.extend_from_slice(&COOKIE.to_le_bytes());
    let count_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0_u32;
    for container in containers(blocks) {
        out.extend_from_slice(&((container[0] >> 16) as u16).to_le_bytes());
        out.extend_from_slice(&((container.len() - 1) as u16).to_le_bytes());
        count += 1;
    }
    out[count_at..count_at + 4].copy_from_slice(&count.to_le_bytes());
    let mut offset = BITMAP_HEADER + CONTAINER_HEADER * count;
    for container in containers(blocks) {
        out.extend_from_slice(&offset.to_le_bytes());
        offset += 2 * container.len() as u32;
    }
    let header = out.len() - start;
    let wanted = most.saturating_sub(header).div_ceil(2).min(blocks.len());
    // Pairs in place, which is several times as fast as adding bytes one by one: most of a save is this.
    out.resize(start + header + 2 * wanted, 0);
    for (pair, block) in out[start + header..].chunks_exact_mut(2).zip(blocks) {
        pair.copy_from_slice(&(*block as u16).to_le_bytes());
    }
    out.truncate(start + most.min(out.len() - start));
    header as u32 + 2 * blocks.len() as u32
}

/// The blocks by their upper 16 bits.
fn containers(blocks: &[u32]) -> impl Iterator<Item = &[u32]> {
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let upper = rest.first()? >> 16;
        // What is often touched is all in one, what is seldom touched has one for each.
        let one = rest.last().is_some_and(|last| last >> 16 == upper);
        let end = if one { None } else { rest.iter().position(|block| block >> 16 != upper) };
        let (container, others) = rest.split_at(end.unwrap_or(rest.len()));
        rest = others;
        Some(container)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serialised(blocks: &[u32]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        write(blocks, &mut out);
        out.split_off(6)
    }

    #[test]
    fn a_shard_is_the_roaring_format() {
        let (low, high) = (5_u32, 3 << 16 | 7);
        let expected = [
            &[1, 0, 0, 0, 0, 0, 0, 0][..], // one bitmap,
            &[0, 0, 0, 0],                 // of numbers whose upper half is 0
            &[0x3a, 0x30, 0, 0],           // arrays without runs
            &[2, 0, 0, 0],                 // two containers:
            &[0, 0, 0, 0],                 // numbers from 0 on, one of them,
            &[3, 0, 1, 0],                 // numbers from 3 * 65536 on, two of them,
            &[24, 0, 0, 0],                // which are found here
            &[26, 0, 0, 0],                // and here
            &[5, 0],
            &[7, 0, 8, 0],
        ];
        assert_eq!(serialised(&[low, high, high + 1]), expected.concat());
    }

    #[test]
    fn lengths_follow_from_entries_and_containers() {
        let spread: Vec<u32> = (0..10).map(|entry| entry / 2 * 65_536 + entry).collect();
        let full: Vec<u32> = (60_000..62_000).collect();
        let wide: Vec<u32> = (0..2000).map(|entry| entry * 1000).collect();
        for (blocks, bytes) in [(&[9][..], 30), (&spread, 80), (&full, 4028), (&wide, 4268)] {
            assert_eq!((serialised(blocks).len(), length(blocks)), (bytes, bytes as u64));
            let mut beginning = Vec::new();
            for most in [0, 10, 21, 33, 64, 5000] {
                beginning.clear();
                assert_eq!(begin(blocks, most, &mut beginning) as usize, bytes);
                assert_eq!(beginning, serialised(blocks)[..most.min(bytes)]);
            }
        }
    }
}
