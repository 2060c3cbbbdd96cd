//! Latency histograms of records, merged for display. Verdicts never come from here: they pair runs, and this pools them.

use std::collections::BTreeMap;

/// Latencies of many runs: nanoseconds and how often.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Merged(BTreeMap<u64, u64>);

/// What a plot shows of the tail: up to one step in this many.
const LONGEST_TAIL: f64 = 1e7;
/// Points of a decade of the tail, about equally far apart on a logarithmic axis.
const DECADE: [f64; 10] = [1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0];

impl Merged {
    /// Adds a histogram as records hold it; one that can't be read adds nothing.
    pub fn add(&mut self, base64: &str) -> bool {
        let counts = decode_base64(base64).and_then(|bytes| decode(&bytes));
        counts.map(|counts| self.add_all(counts)).is_some()
    }

    fn add_all(&mut self, counts: Vec<(u64, u64)>) {
        for (value, count) in counts {
            let own = self.0.entry(value).or_default();
            *own = own.saturating_add(count);
        }
    }

    pub fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Nanoseconds by the share of steps that took longer, as one in so many: from 1 (the fastest) to what the number of steps bears.
    pub fn tail(&self) -> Vec<(f64, u64)> {
        let total = self.count();
        let mut points = Vec::new();
        let mut steps = self.0.iter().peekable();
        let mut passed = 0_u64;
        let decades = std::iter::successors(Some(1.0), |decade| Some(decade * 10.0));
        for one_in in decades.flat_map(|decade| DECADE.map(|step| step * decade)) {
            // Beyond, a single step would be the whole tail.
            if total == 0 || one_in > LONGEST_TAIL.min(total as f64) {
                break;
            }
            // A share like 0.999 is not exact, which must not count as one step more.
            let rank = ((1.0 - 1.0 / one_in) * total as f64 - 1e-6).ceil().max(1.0);
            while let Some((_, count)) = steps.peek()
                && (passed.saturating_add(**count) as f64) < rank
            {
                passed = passed.saturating_add(**count);
                steps.next();
            }
            let Some((value, _)) = steps.peek() else { break };
            points.push((one_in, **value));
        }
        points
    }
}

/// Values, the largest that their bucket stands for, and counts of an `HdrHistogram` in V2 encoding without compression.
fn decode(bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
    /// The cookie's second lowest nibble is the size of a count and says nothing here.
    const COOKIE: u32 = 0x1c84_9303;
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (cookie, length, digits, lowest) = (word(0)?, word(4)? as usize, word(12)?, long(16)?);
    if cookie & !0xf0 != COOKIE || digits > 5 || lowest == 0 {
        return None;
    }
    // A bucket has room for twice the values that its digits ask for, half of which the one before has already.
    let half_bits = (2 * 10_u64.pow(digits)).next_power_of_two().trailing_zeros() - 1;
    let unit = lowest.ilog2();
    let mut payload = bytes.get(40..40_usize.checked_add(length)?)?.iter().copied();
    let (mut index, mut counts) = (0_u64, Vec::new());
    while payload.len() > 0 {
        let count = zigzag(&mut payload)?;
        if count < 0 {
            // A run of empty buckets.
            index = index.checked_add(count.unsigned_abs())?;
            continue;
        }
        if count > 0 {
            let bucket = (index >> half_bits).saturating_sub(1);
            let within = index - (bucket << half_bits);
            let shift = u32::try_from(bucket).ok()?.checked_add(unit)?;
            if shift >= u64::BITS - half_bits - 1 {
                return None;
            }
            counts.push((((within + 1) << shift) - 1, count.unsigned_abs()));
        }
        index = index.checked_add(1)?;
    }
    Some(counts)
}

/// A signed number in seven bits a byte, the last of at most nine with eight.
fn zigzag(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0_u64;
    for i in 0..9 {
        let byte = u64::from(bytes.next()?);
        let last = i == 8;
        value |= if last { byte } else { byte & 0x7f } << (7 * i);
        if last || byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut filled) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        filled += 6;
        if filled >= 8 {
            filled -= 8;
            bytes.push((bits >> filled & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A histogram that a bench wrote, with what the bench itself read from it.
    const MEASURED: &str = include_str!("../../tests/data/latency.json");

    #[derive(serde::Deserialize)]
    struct Measured {
        histogram: String,
        count: u64,
        /// Nanoseconds by the share of steps that took longer, as one in so many.
        quantiles: Vec<(f64, u64)>,
    }

    fn measured() -> Measured {
        serde_json::from_str(MEASURED).unwrap()
    }

    /// The value that one step in so many exceeds, at the point of a tail nearest to it.
    fn at(tail: &[(f64, u64)], one_in: f64) -> u64 {
        tail.iter().find(|(at, _)| *at >= one_in * 0.999).unwrap().1
    }

    #[test]
    fn histograms_are_read_as_the_bench_reads_them() {
        let measured = measured();
        let mut merged = Merged::default();
        assert!(merged.add(&measured.histogram));
        assert_eq!(merged.count(), measured.count);
        let tail = merged.tail();
        for (one_in, nanoseconds) in measured.quantiles {
            assert_eq!(at(&tail, one_in), nanoseconds, "one in {one_in}");
        }
        // The same runs twice: the same distribution, more steps.
        assert!(merged.add(&measured.histogram));
        assert_eq!(merged.count(), 2 * measured.count);
        assert_eq!(at(&merged.tail(), 100.0), at(&tail, 100.0));
        assert!(merged.tail().len() >= tail.len());
    }

    #[test]
    fn what_is_no_histogram_adds_nothing() {
        let good = measured().histogram;
        let mut wrong_cookie = good.clone();
        wrong_cookie.replace_range(..4, "AAAA");
        for bad in ["", "not base64!", "HISTEw==", &good[..good.len() / 2], &wrong_cookie] {
            let mut merged = Merged::default();
            assert!(!merged.add(bad), "{bad}");
            assert_eq!((merged.count(), merged.tail().len()), (0, 0));
        }
    }

    #[test]
    fn a_tail_ends_where_its_steps_end() {
        let merged = Merged(BTreeMap::from([(10, 90), (20, 9), (30, 1)]));
        let tail = merged.tail();
        assert_eq!((at(&tail, 1.0), at(&tail, 10.0), at(&tail, 100.0)), (10, 10, 20));
        assert!(tail.iter().all(|(one_in, _)| *one_in <= 100.1));
    }

    /// A histogram of three digits from 1 on, in V2 encoding: each number is a count, or less than 0 for so many empty buckets.
    fn encoded(lowest: u64, digits: u32, counts: &[i64]) -> Vec<u8> {
        let payload: Vec<u8> = counts.iter().flat_map(|count| zigzagged(*count)).collect();
        let mut bytes = 0x1c84_9303_u32.to_be_bytes().to_vec();
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(lowest.to_be_bytes());
        bytes.extend([0; 16]);
        bytes.extend(payload);
        bytes
    }

    fn zigzagged(count: i64) -> Vec<u8> {
        let mut rest = (count << 1 ^ count >> 63).cast_unsigned();
        let mut bytes = Vec::new();
        while bytes.len() < 8 && rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    }

    fn merged(counts: Vec<(u64, u64)>) -> Merged {
        let mut merged = Merged::default();
        merged.add_all(counts);
        merged
    }

    #[test]
    fn counts_have_the_values_of_their_buckets() {
        for count in [0, 1, -1, 63, -64, 64, 1 << 40, i64::MAX, i64::MIN, i64::MIN + 1] {
            assert_eq!(zigzag(&mut zigzagged(count).into_iter()), Some(count));
        }
        // Values up to 2047 have buckets of their own; then two share one, so the next but one has 2050 and 2051.
        let counts = [-5, 2, 1, -2042, 7];
        assert_eq!(decode(&encoded(1, 3, &counts)), Some(vec![(5, 2), (6, 1), (2051, 7)]));
    }

    #[test]
    fn counts_beyond_all_numbers_stay_the_most_there_is() {
        let huge = 1 << 62;
        let merged = merged(decode(&encoded(1, 3, &[huge, huge, huge, huge, huge])).unwrap());
        assert_eq!(merged.count(), u64::MAX);
        let tail = merged.tail();
        assert!(tail.is_sorted_by_key(|(_, value)| *value) && tail.iter().all(|(_, value)| *value < 5), "{tail:?}");
    }

    #[test]
    fn buckets_beyond_all_numbers_are_refused() {
        // As far as a number reaches, and one further.
        for end in [0, 1] {
            assert_eq!(decode(&encoded(1, 3, &[i64::MIN, -i64::MAX, end])), None, "{end}");
        }
        // The power of two of its bucket has 32 bits just so.
        assert_eq!(decode(&encoded(1, 3, &[-((1 << 42) - 1), 1])), None);
        assert_eq!(decode(&encoded(1 << 63, 3, &[1])), None);
    }

    proptest! {
            #[test]
            fn whatever_a_record_holds_is_read_or_refused(
                lowest in prop_oneof![Just(1_u64), any::<u64>()],
                digits in 0_u32..7,
                counts in prop::collection::vec(
                    prop_oneof![0_i64..9, -3000_i64..9,
    (-63_i32..64).prop_map(|bits| i64::from(bits.signum()) << bits.abs()), Just(1 << 62), Just(i64::MIN), any::<i64>()],
                    0..12,
                ),
                cut in 0_usize..40,
                add in prop::collection::vec(any::<u8>(), 0..12),
            ) {
                let mut bytes = encoded(lowest, digits, &counts);
                if let Some(counts) = decode(&bytes) {
                    let (total, merged) = (counts.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count)), merged(counts));
                    prop_assert_eq!(merged.count(), total);
                    prop_assert!(merged.tail().is_sorted_by_key(|(_, value)| *value));
                }
                // The payload's bytes are random now, and its length is wrong or not.
                bytes.truncate(bytes.len().saturating_sub(cut));
                bytes.extend(&add);
                if let Some(length) = bytes.len().checked_sub(40) {
                    bytes[4..8].copy_from_slice(&(length as u32).to_be_bytes());
                }
                if let Some(counts) = decode(&bytes) {
                    merged(counts).tail();
                }
            }
        }
}
