use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Hexadecimal digits of a digest.
const DIGITS: usize = 32;

/// A 128-bit digest in hexadecimal: enough to compare, short enough for a summary.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(transparent)]
pub struct Digest(
    // In place: an operator keeps a dozen of each of ten thousand trials.
    #[schemars(with = "String", length(max = DIGITS), regex(pattern = "^[0-9a-f]{32}$"))] [u8; DIGITS],
);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let hash = Sha256::digest(bytes);
        let (high, low) = hash[..16]
            .iter()
            .fold((0_u64, 0_u64), |(high, low), byte| (high << 8 | low >> 56, low << 8 | u64::from(*byte)));
        Self::of_halves(high, low)
    }

    /// The digest of a value's JSON. Maps are ordered in our types, so equal values have equal JSON.
    pub fn of_json<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|json| Self::of(&json))
    }

    fn of_halves(high: u64, low: u64) -> Self {
        let mut digits = [0; DIGITS];
        for (digit, written) in digits.iter_mut().zip(format!("{high:016x}{low:016x}").bytes()) {
            *digit = written;
        }
        Self(digits)
    }

    pub fn as_str(&self) -> &str {
        // There is nothing but digits in it.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Digest").field(&self.as_str()).finish()
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Digits)
    }
}

struct Digits;

impl Visitor<'_> for Digits {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a digest of {DIGITS} hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Digest, E> {
        let digits = <[u8; DIGITS]>::try_from(text.as_bytes()).ok();
        let digits = digits.filter(|digits| digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')));
        digits.map(Digest).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
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
        Digest::of_halves(self.sum, self.mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_what_was_written() {
        let digest = Digest::of(b"abc");
        let json = serde_json::to_string(&digest).unwrap_or_default();
        assert_eq!(json, "\"ba7816bf8f01cfea414140de5dae2223\"");
        assert_eq!(serde_json::from_str::<Digest>(&json).ok(), Some(digest.clone()));
        assert_eq!(
            format!("{digest} {digest:?}"),
            "ba7816bf8f01cfea414140de5dae2223 Digest(\"ba7816bf8f01cfea414140de5dae2223\")"
        );
        for wrong in [
            "",
            "ba7816bf8f01cfea414140de5dae222",
            "BA7816BF8F01CFEA414140DE5DAE2223",
            "ga7816bf8f01cfea414140de5dae2223",
        ] {
            let why = serde_json::from_value::<Digest>(wrong.into()).map_err(|error| error.to_string());
            let told = format!("invalid value: string \"{wrong}\", expected a digest of 32 hexadecimal digits");
            assert_eq!(why, Err(told));
        }
    }

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
