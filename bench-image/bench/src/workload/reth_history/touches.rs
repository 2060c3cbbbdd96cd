//! Which keys a block touches, and which blocks touched a key.
//!
//! Both ways are computed, so that no history has to be kept: keys come in classes, and each key of a class is touched once in every
//! period of it. The first class is touched by every block, periods double from class to class, and each class has the same share of
//! a block's touches: the popularity of Zipf's law with exponent 1, in steps. Where in a period a key's turn comes is random.
//!
//! Some keys of each block are new: nothing touched them before or will again.

use std::ops::Range;

use super::super::{below, mix};

/// The first block that is executed; mainnet had it in early February 2026. What was before is in the dataset.
pub const FIRST_BLOCK: u64 = 24_370_000;
/// Touches of the hottest keys that are in the dataset, which makes up to two sealed shards. Others have fewer in proportion, and all
/// have one.
const PAST: u64 = 4096;
/// The dataset has far fewer keys than a node, so that all periods are too short. Before the first block they are squared up
/// to this: a seldom touched key has each entry in a container of its own, as its real counterpart has.
const LONGEST_PAST_PERIOD: u64 = 1 << 20;
/// Of how many touches one is of a new key.
const NEW: u64 = 20;

/// Who is touched when, for the keys of one table. Keys are numbered from the hottest.
#[derive(Debug)]
pub struct Touches {
    keys: u64,
    new_per_block: u64,
    classes: Vec<Class>,
    past_seed: u64,
    seed: u64,
}

/// Keys that are touched equally often, in rows of as many keys as a period has blocks: each block touches one key of a row.
#[derive(Debug, PartialEq, Eq)]
struct Class {
    first: u64,
    rows: u64,
    period: u64,
    /// The same before the first block: a power of two.
    past_period: u64,
    /// Touches before the first block.
    past: u64,
}

/// When a key was touched.
#[derive(Debug)]
pub enum History<'a> {
    /// Once in every period.
    Turns(Turns<'a>),
    /// By this block only.
    Once(u64),
}

/// Where a key stands in its class, and the random numbers that are its own.
#[derive(Debug)]
pub struct Turns<'a> {
    class: &'a Class,
    column: u64,
    row_seed: u64,
    past_seed: u64,
    /// Touches before the key came to be.
    unborn: u64,
}

impl Touches {
    /// Touches of so many keys in each block, of all the keys that there are. The dataset's seed decides the past. `None` if a block
    /// touches more keys than there are.
    pub fn new(keys: u64, per_block: u64, past_seed: u64, seed: u64) -> Option<Self> {
        let new_per_block = per_block / NEW;
        let warm = per_block - new_per_block;
        if warm == 0 || warm > keys {
            return None;
        }
        let fits = |classes: u64| classes <= warm && (warm / classes) << classes <= keys + warm / classes;
        let mut count = 1;
        while count < 32 && fits(count + 1) {
            count += 1;
        }
        let rows = warm / count;
        let mut classes: Vec<Class> = Vec::new();
        let mut first = 0;
        for number in 0..count {
            let rows = if number == 0 { warm - rows * (count - 1) } else { rows };
            let period = if number + 1 == count { (keys - first) / rows } else { 1 << number };
            classes.push(Class {
                first,
                rows,
                period,
                past_period: 1 << (2 * period.ilog2()).min(LONGEST_PAST_PERIOD.ilog2()),
                past: (PAST / period).max(1),
            });
            first += rows * period;
        }
        Some(Self { keys, new_per_block, classes, past_seed, seed })
    }

    /// Hands over every key that a block touches, once. Blocks count from the first that is executed.
    pub fn touched(&self, block: u64, mut each: impl FnMut(u64)) {
        for class in &self.classes {
            for row in 0..class.rows {
                each(self.turn_of(class, row, block));
            }
        }
        for index in 0..self.new_per_block {
            each(self.keys + block * self.new_per_block + index);
        }
    }

    /// The key of a row that a block touches.
    fn turn_of(&self, class: &Class, row: u64, block: u64) -> u64 {
        let (period, turn) = (block / class.period, block % class.period);
        let shift = class.shift(self.row_seed(class, row), period);
        let column = if turn >= shift { turn - shift } else { turn + class.period - shift };
        class.first + row * class.period + column
    }

    /// Keys of the dataset that the first blocks touch, and how many touched keys each stands for: of a class at most so many, evenly
    /// spread over all of it that is touched.
    pub fn sample(&self, blocks: u64, most: u64) -> impl Iterator<Item = (u64, f64)> {
        self.classes.iter().flat_map(move |class| {
            // After a period it is the same keys again.
            let touched = class.rows * class.period.min(blocks);
            let sampled = touched.min(most);
            (0..sampled).map(move |index| {
                let number = (u128::from(index) * u128::from(touched) / u128::from(sampled)) as u64;
                let key = self.turn_of(class, number % class.rows, number / class.rows);
                (key, touched as f64 / sampled as f64)
            })
        })
    }

    /// Keys that nothing touched before, of so many blocks.
    pub fn new_keys(&self, blocks: u64) -> u64 {
        blocks * self.new_per_block
    }

    /// When a key is touched.
    pub fn history(&self, key: u64) -> History<'_> {
        if key >= self.keys {
            return History::Once(FIRST_BLOCK + (key - self.keys) / self.new_per_block.max(1));
        }
        let past_seed = mix(&[self.past_seed.wrapping_add(key)]);
        let number = self.classes.partition_point(|class| class.first <= key);
        let Some((class, row)) = number.checked_sub(1).and_then(|number| {
            let class = &self.classes[number];
            let row = (key - class.first) / class.period;
            (row < class.rows).then_some((class, row))
        }) else {
            // A few are left over when rows are filled.
            return History::Once(FIRST_BLOCK - 1 - below(past_seed, LONGEST_PAST_PERIOD));
        };
        History::Turns(Turns {
            class,
            column: (key - class.first) % class.period,
            row_seed: self.row_seed(class, row),
            past_seed,
            // Keys are not equally old, or all the hot ones would be sealed by the same block.
            unborn: below(past_seed, class.past / 2 + 1),
        })
    }

    fn row_seed(&self, class: &Class, row: u64) -> u64 {
        mix(&[self.seed.wrapping_add(class.first + row)])
    }
}

impl Class {
    /// How far a row is turned in a period.
    fn shift(&self, row_seed: u64, period: u64) -> u64 {
        below(mix(&[row_seed.wrapping_add(period)]), self.period)
    }
}

impl History<'_> {
    /// How often the key was touched before a block.
    pub fn count(&self, block: u64) -> u64 {
        match self {
            Self::Once(only) => u64::from(*only < FIRST_BLOCK + block),
            Self::Turns(turns) => {
                let (period, turn) = (block / turns.class.period, block % turns.class.period);
                turns.class.past - turns.unborn + period + u64::from(turns.turn(period) < turn)
            }
        }
    }

    /// Appends the numbers of the blocks that touched the key, in order, of the touches in a range.
    pub fn blocks(&self, range: Range<u64>, out: &mut Vec<u32>) {
        match self {
            Self::Once(block) => out.extend(range.map(|_| *block as u32)),
            Self::Turns(turns) => {
                let (from, to) = (range.start + turns.unborn, range.end + turns.unborn);
                turns.past(from..to.min(turns.class.past), out);
                out.extend((from.max(turns.class.past)..to).map(|touch| {
                    let period = touch - turns.class.past;
                    (FIRST_BLOCK + period * turns.class.period + turns.turn(period)) as u32
                }));
            }
        }
    }
}

impl Turns<'_> {
    /// The block of a period that touches the key.
    fn turn(&self, period: u64) -> u64 {
        let turn = self.column + self.class.shift(self.row_seed, period);
        if turn >= self.class.period { turn - self.class.period } else { turn }
    }

    /// Touches before the first block. Most of what a save makes are these, so three of them share one random number.
    fn past(&self, touches: Range<u64>, out: &mut Vec<u32>) {
        const SHARE: u64 = 3;
        const BITS: u64 = 21;
        if touches.is_empty() {
            return;
        }
        let Class { past, past_period, .. } = *self.class;
        let origin = FIRST_BLOCK - past * past_period;
        let (start, skipped) = (out.len(), (touches.start % SHARE) as usize);
        for together in touches.start / SHARE..touches.end.div_ceil(SHARE) {
            let random = mix(&[self.past_seed.wrapping_add(together)]);
            out.extend([0, 1, 2].map(|index| {
                let turn = random >> (index * BITS) & (past_period - 1);
                (origin + (together * SHARE + index) * past_period + turn) as u32
            }));
        }
        out.truncate(start + skipped + (touches.end - touches.start) as usize);
        out.drain(start..start + skipped);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn blocks(touches: &Touches, key: u64, block: u64) -> Vec<u32> {
        let mut blocks = Vec::new();
        let history = touches.history(key);
        history.blocks(0..history.count(block), &mut blocks);
        blocks
    }

    #[test]
    fn both_ways_agree() {
        for (keys, per_block) in [(1000, 600), (1000, 1), (5000, 40), (5003, 599)] {
            let touches = Touches::new(keys, per_block, 7, 8).unwrap();
            let mut expected: BTreeMap<u64, Vec<u32>> = (0..keys).map(|key| (key, blocks(&touches, key, 0))).collect();
            for block in 0..300 {
                let mut touched = BTreeSet::new();
                touches.touched(block, |key| assert!(touched.insert(key), "{key} twice"));
                assert_eq!(touched.len() as u64, per_block);
                for key in touched {
                    assert_eq!(touches.history(key).count(block), expected.get(&key).map_or(0, Vec::len) as u64);
                    expected.entry(key).or_default().push((FIRST_BLOCK + block) as u32);
                }
            }
            for (key, expected) in expected {
                assert_eq!(blocks(&touches, key, 300), expected, "key {key} of {keys}");
            }
        }
    }

    #[test]
    fn a_sample_stands_for_all_that_is_touched() {
        for (keys, per_block, blocks) in [(1000, 600, 300), (1000, 1, 7), (5003, 599, 3), (20_000, 600, 50)] {
            let touches = Touches::new(keys, per_block, 7, 8).unwrap();
            let mut touched = BTreeSet::new();
            (0..blocks).for_each(|block| touches.touched(block, |key| touched.extend([key])));
            let new: BTreeSet<u64> = touched.split_off(&keys);
            assert_eq!(new.len() as u64, touches.new_keys(blocks));
            let all: Vec<(u64, f64)> = touches.sample(blocks, u64::MAX).collect();
            assert!(all.iter().all(|(_, stands_for)| *stands_for == 1.0));
            assert_eq!(all.len(), touched.len(), "each once");
            assert_eq!(all.into_iter().map(|(key, _)| key).collect::<BTreeSet<_>>(), touched);
            let some: Vec<(u64, f64)> = touches.sample(blocks, 10).collect();
            assert!(some.len() <= 10 * touches.classes.len() && some.iter().all(|(key, _)| touched.contains(key)));
            let stand_for: f64 = some.iter().map(|(_, stands_for)| stands_for).sum();
            assert!((stand_for / touched.len() as f64 - 1.0).abs() < 1e-9, "{stand_for}");
        }
    }

    #[test]
    fn every_key_has_a_past() {
        let touches = Touches::new(20_000, 600, 7, 8).unwrap();
        let mut counts = Vec::new();
        for key in 0..20_000 {
            let past = blocks(&touches, key, 0);
            assert!(past.is_sorted_by(|a, b| a < b));
            assert!(past.last().is_some_and(|last| u64::from(*last) < FIRST_BLOCK));
            counts.push(past.len());
        }
        assert!(counts[..50].iter().all(|count| (2048..=4096).contains(count)));
        // A part of a longer list is what it is in the whole.
        for from in 2000..2003 {
            let mut part = Vec::new();
            touches.history(3).blocks(from..2045, &mut part);
            assert_eq!(part, blocks(&touches, 3, 0)[from as usize..2045]);
        }
    }

    #[test]
    fn popularity_follows_zipfs_law() {
        let touches = Touches::new(1_000_000, 600, 7, 8).unwrap();
        let mut counts = BTreeMap::<u64, u64>::new();
        for block in 0..300 {
            touches.touched(block, |key| *counts.entry(key).or_default() += 1);
        }
        // Up to where a rank is touched by every block, and far behind.
        let share = |ranks: Range<u64>| counts.range(ranks).map(|(_, count)| count).sum::<u64>() as f64 / 180_000.0;
        assert!((share(0..40) - 40.0 / 600.0).abs() < 1e-9);
        let (near, far) = (share(1_000..10_000), share(10_000..100_000));
        assert!((near / far - 1.0).abs() < 0.15, "{near} and {far}");
        assert!((share(1_000_000..2_000_000) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn seeds_decide_the_past_and_the_run_apart() {
        let touches = |past, seed| Touches::new(5000, 100, past, seed).unwrap();
        let past = |touches: &Touches| (0..5000).map(|key| blocks(touches, key, 0)).collect::<Vec<_>>();
        let run = |touches: &Touches| {
            let mut keys = Vec::new();
            (0..10).for_each(|block| touches.touched(block, |key| keys.push(key)));
            keys
        };
        assert_eq!(past(&touches(1, 1)), past(&touches(1, 2)));
        assert_ne!(past(&touches(1, 1)), past(&touches(2, 1)));
        assert_eq!(run(&touches(1, 1)), run(&touches(2, 1)));
        assert_ne!(run(&touches(1, 1)), run(&touches(1, 2)));
    }

    #[test]
    fn a_block_cannot_touch_more_keys_than_there_are() {
        assert!(Touches::new(100, 105, 1, 1).is_some(), "five of them are new");
        assert!(Touches::new(100, 106, 1, 1).is_none());
        assert!(Touches::new(100, 0, 1, 1).is_none());
    }
}
