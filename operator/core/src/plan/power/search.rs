//! Searches for the smallest effect and the fewest blocks that are decided often enough.

use super::simulation::Simulation;
use crate::stats::{POWER, wilson};

/// The power of a design is above or below 80 % once its interval is on one side of these.
const NEAR: [f64; 2] = [0.75, 0.85];
/// Experiments that are simulated at once, whatever the number of threads: more are made than the answer takes, and none counts that a
/// single thread would not have made.
const AT_ONCE: usize = 16;

/// Fewer experiments decide nothing: the interval of a handful is not to be trusted when it is asked after each of them.
const FEWEST: usize = AT_ONCE;

/// Counts hits until it is clear whether they are often enough.
#[derive(Default)]
struct Count {
    hits: usize,
    n: usize,
}

impl Count {
    /// Whether the share of hits is high enough, once that is clear or `most` were counted.
    fn add(&mut self, hit: bool, most: usize) -> Option<bool> {
        self.hits += usize::from(hit);
        self.n += 1;
        if self.n < FEWEST {
            return None;
        }
        let [low, high] = wilson(self.hits, self.n);
        if low > NEAR[1] {
            return Some(true);
        }
        if high < NEAR[0] {
            return Some(false);
        }
        // The fewer experiments there are, the more of them must be hits: a promise of 80 % is at least about 75 %.
        (self.n >= most).then(|| self.hits as f64 >= POWER * self.n as f64 && low >= NEAR[0])
    }
}

impl Simulation {
    /// Whether experiments are hits with 80 % probability: as few of them as show it.
    pub fn is_likely(&self, hits: impl Fn(usize) -> bool + Sync) -> bool {
        let (mut count, mut next) = (Count::default(), 0);
        loop {
            let found = self.map(next..next + AT_ONCE, &hits);
            next += AT_ONCE;
            if let Some(answer) = found.into_iter().find_map(|hit| count.add(hit, self.most_experiments())) {
                return answer;
            }
        }
    }
}

/// The lowest step up to `last` at which experiments are hits with 80 % probability.
///
/// All steps see the same noise, and an experiment that is a hit at one step counts as one at all higher ones: the larger effect only
/// moves the same runs further. So a step judges only the experiments that steps on both sides of it leave open.
pub fn smallest(simulation: &Simulation, last: usize, hits: impl Fn(usize, usize) -> bool + Sync) -> Option<usize> {
    // Per judged experiment: the first step that is not a known miss, and the lowest known hit.
    let mut known: Vec<(usize, usize)> = Vec::new();
    let mut is_likely = |step: usize| {
        let (mut count, mut next) = (Count::default(), 0);
        loop {
            known.resize(known.len().max(next + AT_ONCE), (0, usize::MAX));
            let found = simulation.map(next..next + AT_ONCE, |experiment| match known[experiment] {
                (_, hit) if hit <= step => true,
                (open, _) if open > step => false,
                _ => hits(experiment, step),
            });
            for (hit, (open, lowest)) in found.iter().zip(&mut known[next..]) {
                if *hit { *lowest = step.min(*lowest) } else { *open = (step + 1).max(*open) }
            }
            next += AT_ONCE;
            if let Some(answer) = found.into_iter().find_map(|hit| count.add(hit, simulation.most_experiments())) {
                return answer;
            }
        }
    };
    if is_likely(0) {
        return Some(0);
    }
    if !is_likely(last) {
        return None;
    }
    let (mut low, mut high) = (0, 1.min(last));
    while !is_likely(high) {
        (low, high) = (high, (2 * high).min(last));
    }
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if is_likely(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Whether this number of blocks is tried. Advice is rounded: the noise itself is only estimated.
fn is_round(blocks: usize) -> bool {
    blocks <= 20 || (blocks <= 40 && blocks.is_multiple_of(2)) || blocks.is_multiple_of(5)
}

/// The fewest blocks from `fewest` to `most`, rounded up, with which it is likely enough, given that more blocks never make it less likely.
pub fn first_blocks(fewest: usize, most: usize, is_likely: impl Fn(usize) -> bool) -> Option<usize> {
    let blocks: Vec<usize> = (fewest..=most).filter(|&blocks| is_round(blocks)).collect();
    // Many blocks take long to judge, so the search begins with few. Those below `high` are known to be too few.
    let (mut low, mut high) = (0, 0);
    while !is_likely(*blocks.get(high)?) {
        if high + 1 == blocks.len() {
            return None;
        }
        (low, high) = (high + 1, (2 * high + 2).min(blocks.len() - 1));
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_likely(blocks[middle]) { high = middle } else { low = middle + 1 }
    }
    Some(blocks[high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_stops_as_soon_as_it_is_clear() {
        let after = |hits: &dyn Fn(usize) -> bool| {
            let mut count = Count::default();
            (0..).find_map(|n| count.add(hits(n), 1000).map(|answer| (answer, n + 1)))
        };
        // 22 / (22 + 3.8416) is the first above 0.85.
        assert_eq!(after(&|_| true), Some((true, 22)));
        assert_eq!(after(&|_| false), Some((false, 16)));
        assert_eq!(after(&|n| n % 5 != 0), Some((true, 1000)));
        assert_eq!(after(&|n| n % 5 != 0 && n != 1), Some((false, 1000)));
        // 80 of 100 may be 72 %.
        let mut count = Count { hits: 79, n: 99 };
        assert_eq!(count.add(true, 100), Some(false));
        let mut count = Count { hits: 83, n: 99 };
        assert_eq!(count.add(true, 100), Some(true));
    }

    #[test]
    fn the_fewest_blocks_are_found_and_rounded_up() {
        let rounded = |first: usize| (first..=100).find(|&blocks| is_round(blocks));
        assert_eq!([20, 21, 31, 40, 41, 96].map(rounded), [20, 22, 32, 40, 45, 100].map(Some));
        for first in 7..=100 {
            assert_eq!(first_blocks(7, 100, |blocks| blocks >= first), rounded(first));
        }
        assert_eq!(first_blocks(7, 100, |_| false), None);
        assert_eq!(first_blocks(9, 8, |_| true), None);
    }
}
