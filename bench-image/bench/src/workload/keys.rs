//! Keys: their bytes, and which one an operation touches.

use rand_core::{Infallible, TryRng};
use rand_distr::{Distribution, Zipf};

use super::{below, mix};

/// The number of a key, big-endian so that numeric and key order agree, filled up with zeros.
pub fn write_key(id: u64, length: usize, out: &mut [u8; MAX_KEY]) -> &[u8] {
    out[..8].copy_from_slice(&id.to_be_bytes());
    out[8..length].fill(b'0');
    &out[..length]
}

/// The key of the same number that nobody ever writes. It sorts right behind its neighbour, so that no file is ruled
/// out by its range and only a filter can tell; eight bytes have no room for that, so it lies behind all keys there.
pub fn write_missing_key(id: u64, keys: u64, length: usize, out: &mut [u8; MAX_KEY]) -> &[u8] {
    if length == 8 {
        return write_key(keys + id, length, out);
    }
    write_key(id, length, out);
    out[length - 1] = b'1';
    &out[..length]
}

/// The longest key that a spec can ask for.
pub const MAX_KEY: usize = 1024;

/// Shuffles 0..n without a table: a Feistel network over the next power of four, walked until it lands inside.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Self { n, half_bits: bits.div_ceil(2).max(1), seed }
    }

    pub fn apply(&self, index: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut value = index;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for round in 0..4 {
                (left, right) = (right, left ^ (mix(&[self.seed, round, right]) & mask));
            }
            value = (left << self.half_bits) | right;
            if value < self.n {
                return value;
            }
        }
    }
}

/// Chooses the key of an operation: from its number, or from a random tag that is its own.
#[derive(Clone, Debug)]
pub enum KeyChooser {
    Uniform { keys: u64 },
    Sequential { keys: u64 },
    Zipfian { zipf: Zipf<f64>, keys: u64, spread: Permutation },
}

impl KeyChooser {
    pub fn zipfian(keys: u64, exponent: f64, seed: u64) -> Result<Self, String> {
        let zipf = Zipf::new(keys as f64, exponent).map_err(|error| format!("zipfianExponent {exponent}: {error}"))?;
        Ok(Self::Zipfian {
            zipf,
            keys,
            // Not the shuffle that loads the keys: the hottest would be the oldest.
            spread: Permutation::new(keys, mix(&[seed, 5])),
        })
    }

    pub fn choose(&self, tag: u64, operation: u64) -> u64 {
        match self {
            Self::Uniform { keys } => below(tag, *keys),
            Self::Sequential { keys } => operation % keys,
            Self::Zipfian { zipf, keys, spread } => {
                let rank = zipf.sample(&mut Stream { state: tag }) as u64;
                spread.apply(rank.saturating_sub(1).min(keys - 1))
            }
        }
    }
}

/// Random numbers for one operation: SplitMix64 from the operation's own hash, so that no operation depends on
/// how many numbers another one drew.
struct Stream {
    state: u64,
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|word| (word >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Ok(mix(&[self.state]))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn permutation_hits_every_number_once() {
        for n in [1_u64, 2, 3, 10, 1000, 4097] {
            let permutation = Permutation::new(n, 7);
            let mut seen: Vec<u64> = (0..n).map(|i| permutation.apply(i)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>(), "n = {n}");
        }
        let shuffled: Vec<u64> = (0..10).map(|i| Permutation::new(1000, 7).apply(i)).collect();
        assert_ne!(shuffled, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn keys_sort_like_their_numbers() {
        let (mut a, mut b) = ([0; MAX_KEY], [0; MAX_KEY]);
        let (small, large) = (write_key(255, 20, &mut a), write_key(256, 20, &mut b));
        assert!(small < large);
        assert_eq!(small.len(), 20);
        assert_eq!(large[..8], 256_u64.to_be_bytes());
    }

    #[test]
    fn zipfian_is_as_skewed_as_asked() {
        let chooser = KeyChooser::zipfian(1000, 0.99, 3).unwrap();
        let mut counts = std::collections::BTreeMap::<u64, u64>::new();
        for operation in 0..100_000 {
            *counts.entry(chooser.choose(mix(&[1, operation]), operation)).or_default() += 1;
        }
        let top = *counts.values().max().unwrap() as f64 / 100_000.0;
        // 1 / H(1000, 0.99)
        let expected = 1.0 / (1..=1000).map(|rank| f64::from(rank).powf(-0.99)).sum::<f64>();
        assert!((top - expected).abs() < 0.01, "{top} instead of {expected}");
        assert_eq!(chooser.choose(7, 5), chooser.choose(7, 5));
    }

    #[test]
    fn uniform_covers_the_key_space() {
        let chooser = KeyChooser::Uniform { keys: 10 };
        let seen: std::collections::BTreeSet<u64> = (0..1000).map(|i| chooser.choose(mix(&[i]), i)).collect();
        assert_eq!(seen.len(), 10);
    }
}
