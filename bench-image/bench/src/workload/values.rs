//! Values: lengths and content of a wanted compressibility.

use assay_protocol::ValueBytes;

use super::{below, mix};

/// Makes values: cells of random bytes followed by zeros, in the proportion that gives blocks the wanted compressed size.
/// Every value is made from its key alone and no random byte is used twice, so neither a long window nor a dictionary
/// finds more in them than is meant. Made rather than looked up: a table of them would fight for the CPU's cache with the
/// database that is measured.
#[derive(Debug)]
pub struct Values {
    cell: usize,
    /// Random bytes at the beginning of each cell.
    random: usize,
    lengths: ValueBytes,
    seed: u64,
}

const CELL: usize = 128;
const MIN_CELL: usize = 16;
/// A codec spends about this much on telling that a run of zeros follows.
const RUN_OVERHEAD: f64 = 4.0;

impl Values {
    pub fn new(lengths: ValueBytes, compressed_percent: u32, seed: u64) -> Self {
        // Cells are short, so that every part of a long value compresses alike; a whole number of them fits a fixed
        // length, or the last, cut cell would be random only.
        let cell = match lengths {
            ValueBytes::Fixed(bytes) => (bytes as usize / (bytes as usize / CELL).max(1)).max(MIN_CELL),
            ValueBytes::Uniform { .. } => (lengths.mean() as usize / 4).clamp(MIN_CELL, CELL),
        };
        let wanted = cell as f64 * f64::from(compressed_percent) / 100.0;
        let random = if compressed_percent >= 100 { cell } else { (wanted - RUN_OVERHEAD).max(1.0) as usize };
        Self { cell, random, lengths, seed }
    }

    /// Appends the value of a key: always the same, so that any read can be checked.
    pub fn write(&self, key: u64, out: &mut Vec<u8>) {
        self.begin(key, usize::MAX, out);
    }

    /// Appends the beginning of a value, `most` bytes of it.
    pub fn begin(&self, key: u64, most: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + most.min(self.length(key) as usize), 0);
        let mut state = mix(&[self.seed, key, 1]);
        for cell in out[start..].chunks_mut(self.cell) {
            let random = self.random.min(cell.len());
            for word in cell[..random].chunks_mut(8) {
                state = state.wrapping_add(1);
                word.copy_from_slice(&mix(&[state]).to_le_bytes()[..word.len()]);
            }
        }
    }

    pub fn length(&self, key: u64) -> u32 {
        match self.lengths {
            ValueBytes::Fixed(bytes) => bytes,
            ValueBytes::Uniform { min, max } => {
                min + below(mix(&[self.seed, key, 2]), u64::from(max.saturating_sub(min)) + 1) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_distribution() {
        let values = Values::new(ValueBytes::Uniform { min: 10, max: 20 }, 50, 1);
        let lengths: Vec<u32> = (0..10_000).map(|key| values.length(key)).collect();
        assert_eq!(lengths.iter().min(), Some(&10));
        assert_eq!(lengths.iter().max(), Some(&20));
        let mean = lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / 10_000.0;
        assert!((mean - 15.0).abs() < 0.2, "{mean}");
    }

    fn value(values: &Values, key: u64) -> Vec<u8> {
        let mut out = b"before".to_vec();
        values.write(key, &mut out);
        out.split_off(6)
    }

    #[test]
    fn a_key_keeps_its_value() {
        let values = Values::new(ValueBytes::Fixed(400), 50, 1);
        assert_eq!(value(&values, 7), value(&values, 7));
        assert_ne!(value(&values, 7), value(&values, 8));
        assert_eq!(value(&values, 7).len(), 400);
        let mut beginning = Vec::new();
        values.begin(7, 13, &mut beginning);
        assert_eq!(beginning, value(&values, 7)[..13]);
        let mut zeros = value(&values, 7);
        zeros.retain(|byte| *byte == 0);
        let zeros = zeros.len();
        assert!((200..230).contains(&zeros), "{zeros}");
        assert!(value(&Values::new(ValueBytes::Fixed(0), 50, 1), 7).is_empty());
    }
}
