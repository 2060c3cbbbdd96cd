use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A 128-bit digest in hexadecimal: enough to compare, short enough for a summary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Digest(#[schemars(length(max = 32), regex(pattern = "^[0-9a-f]{32}$"))] String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let hash = Sha256::digest(bytes);
        let (high, low) = hash[..16]
            .iter()
            .fold((0_u64, 0_u64), |(high, low), byte| (high << 8 | low >> 56, low << 8 | u64::from(*byte)));
        Self(format!("{high:016x}{low:016x}"))
    }

    /// The digest of a value's JSON. Maps are ordered in our types, so equal values have equal JSON.
    pub fn of_json<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|json| Self::of(&json))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A commutative sum of 64-bit hashes: equal sets of operations give equal sums in any order, so the sum
/// does not depend on how threads share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParityHash {
    sum: u64,
    // A second, differently mixed sum: one 64-bit sum alone is cheap to collide by accident of structure.
    mixed: u64,
}

impl ParityHash {
    pub fn add(&mut self, hash: u64) {
        self.sum = self.sum.wrapping_add(hash);
        let rotated = hash.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15;
        self.mixed = self.mixed.wrapping_add(rotated.wrapping_mul(0xd6e8_feb8_6659_fd93));
    }

    pub fn merge(&mut self, other: Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.mixed = self.mixed.wrapping_add(other.mixed);
    }

    pub fn digest(self) -> Digest {
        Digest(format!("{:016x}{:016x}", self.sum, self.mixed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_hash_ignores_order_but_not_content() {
        let mut ab = ParityHash::default();
        ab.add(1);
        ab.add(2);
        let mut ba = ParityHash::default();
        ba.add(2);
        let mut a = ParityHash::default();
        a.add(1);
        ba.merge(a);
        assert_eq!(ab, ba);
        let mut other = ParityHash::default();
        other.add(3);
        assert_ne!(ab.digest(), other.digest());
    }

    #[test]
    fn each_bit_of_a_hash_is_in_both_sums() {
        let of = |hash| {
            let mut sums = ParityHash::default();
            sums.add(hash);
            sums
        };
        for bit in 0..64 {
            assert_ne!(of(1 << bit).sum, of(0).sum, "{bit}");
            assert_ne!(of(1 << bit).mixed, of(0).mixed, "{bit}");
        }
    }
}
