//! Values: lengths and content of a wanted compressibility.

use assay_record::ValueBytes;

use super::{Bytes, below, mix};

/// Content of values: cells of random bytes followed by zeros, in the proportion that gives blocks the wanted
/// compressed size. Values are slices of it, so making one costs nothing. No cell of it repeats.
#[derive(Debug)]
pub struct ValuePool {
    bytes: Vec<u8>,
    cell: usize,
    lengths: ValueBytes,
    seed: u64,
}

/// Small enough for a CPU's cache: fetching values must not become what is measured. Large enough that the values of
/// one block seldom share cells: about 1 % of a block of 64 KiB.
const POOL_BYTES: usize = 2 << 20;
const CELL: usize = 128;
const MIN_CELL: usize = 16;
/// A codec spends about this much on telling that a run of zeros follows.
const RUN_OVERHEAD: f64 = 4.0;

impl ValuePool {
    pub fn new(lengths: ValueBytes, compressed_percent: u32, seed: u64) -> Self {
        // Cells are short, so that every part of a long value compresses alike; a whole number of them fits a fixed
        // length, or the last, cut cell would be random only.
        let cell = match lengths {
            ValueBytes::Fixed(bytes) => (bytes as usize / (bytes as usize / CELL).max(1)).max(MIN_CELL),
            ValueBytes::Uniform { .. } => (lengths.mean() as usize / 4).clamp(MIN_CELL, CELL),
        };
        let wanted = cell as f64 * f64::from(compressed_percent) / 100.0;
        let random = if compressed_percent >= 100 { cell } else { (wanted - RUN_OVERHEAD).max(1.0) as usize };
        let length = POOL_BYTES.max(4 * lengths.max() as usize) / cell * cell + lengths.max() as usize + cell;
        let bytes = (0..length).map(|at| if at % cell < random { mix(&[seed, at as u64]) as u8 } else { 0 }).collect();
        Self { bytes, cell, lengths, seed }
    }

    /// The value of a key: always the same, so that any read can be checked.
    pub fn value(&self, key: u64) -> Bytes {
        let length = self.length(key);
        let cells = (self.bytes.len() - length as usize) / self.cell;
        let start = below(mix(&[self.seed, key, 1]), cells as u64) as usize * self.cell;
        Bytes::Pool { start: start as u32, length }
    }

    pub fn length(&self, key: u64) -> u32 {
        match self.lengths {
            ValueBytes::Fixed(bytes) => bytes,
            ValueBytes::Uniform { min, max } => {
                min + below(mix(&[self.seed, key, 2]), u64::from(max.saturating_sub(min)) + 1) as u32
            }
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_distribution() {
        let pool = ValuePool::new(ValueBytes::Uniform { min: 10, max: 20 }, 50, 1);
        let lengths: Vec<u32> = (0..10_000).map(|key| pool.length(key)).collect();
        assert_eq!(lengths.iter().min(), Some(&10));
        assert_eq!(lengths.iter().max(), Some(&20));
        let mean = lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / 10_000.0;
        assert!((mean - 15.0).abs() < 0.2, "{mean}");
    }

    #[test]
    fn a_key_keeps_its_value() {
        let pool = ValuePool::new(ValueBytes::Fixed(400), 50, 1);
        assert_eq!(pool.value(7), pool.value(7));
        assert_ne!(pool.value(7), pool.value(8));
        let empty = ValuePool::new(ValueBytes::Fixed(0), 50, 1);
        assert_eq!(empty.value(7).len(), 0);
    }
}
