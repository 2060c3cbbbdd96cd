use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    null::{Null, Tails},
    paired::Paired,
    rank::tie_round,
};

/// Limits of an effect; `None` where the blocks are too few to bound it at this level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// Rough tails further than this factor from a level are on the side of it where the exact ones are.
const TRUSTED: f64 = 2.5;

impl Paired {
    /// The effects that the test does not reject at `1 - level`, half of it on each side ("Interval").
    ///
    /// The test sees ranks only, so its answer changes at effects where two ranks do. Each end is searched among those.
    pub fn interval(&self, level: f64) -> Interval {
        let each_side = (1.0 - level) / 2.0;
        let Some(center) = self.estimate() else {
            return Interval { low: None, high: None };
        };
        let sorted = Sorted::of(self);
        let kinks = self.kinks();
        let (lowest, highest) = (sorted.values[0] - 1.0, sorted.values[sorted.values.len() - 1] + 1.0);
        let end = |far, side| {
            let mut test = Test {
                paired: self,
                sorted: &sorted,
                each_side,
                side,
                signed: Tested::default(),
                aligned: Tested::default(),
            };
            test.limit(far, center, &kinks)
        };
        Interval { low: end(lowest, |tails| tails.up), high: end(highest, |tails| tails.down) }
    }

    /// Effects at which something that is ranked turns, in ascending order; it is linear in the effect between any two. Sizes of differences
    /// turn at the differences. Aligned runs turn where their block's center passes from one mean of two runs to another.
    fn kinks(&self) -> Vec<f64> {
        let mut kinks = self.differences();
        if self.m0() > 1 {
            for (config, baseline) in self.blocks() {
                for (j, a) in baseline.iter().enumerate() {
                    for b in &baseline[..j] {
                        kinks.push(config - f64::midpoint(*a, *b));
                        kinks.extend(baseline.iter().map(|c| config + c - a - b));
                    }
                    kinks.extend(baseline.iter().map(|c| config + c - 2.0 * a));
                }
            }
        }
        kinks.sort_unstable_by(f64::total_cmp);
        kinks.dedup();
        kinks
    }

    /// Effects between two neighbouring kinks at which two ranks change places, from the first to the second.
    fn crossings(&self, from: f64, to: f64) -> Vec<f64> {
        let sizes = |effect: f64| self.differences().iter().map(|x| (x - effect).abs()).collect::<Vec<_>>();
        let mut crossings = Vec::new();
        cross(&sizes(from), &sizes(to), |share| crossings.push(from + share * (to - from)));
        if let (Some(before), Some(after)) = (self.aligned(from), self.aligned(to)) {
            cross(&before, &after, |share| crossings.push(from + share * (to - from)));
        }
        let nearer = |a: &f64, b: &f64| (a - from).abs().total_cmp(&(b - from).abs());
        crossings.sort_unstable_by(nearer);
        crossings
    }
}

/// Where lines cross: at which share of the way from their values `before` to those `after`.
fn cross(before: &[f64], after: &[f64], mut at: impl FnMut(f64)) {
    let mut order: Vec<usize> = (0..before.len()).collect();
    order.sort_unstable_by(|&i, &j| before[i].total_cmp(&before[j]).then(after[i].total_cmp(&after[j])));
    let sorted: Vec<(f64, f64)> = order.iter().map(|&i| (before[i], after[i])).collect();
    for (i, low) in sorted.iter().enumerate() {
        for high in sorted[i + 1..].iter().filter(|high| high.1 < low.1) {
            let (gap, overtaken) = (high.0 - low.0, low.1 - high.1);
            at(gap / (gap + overtaken));
        }
    }
}

/// All differences in ascending order: ranking their sizes around an effect is then a merge of those above it and those below.
struct Sorted {
    values: Vec<f64>,
    /// Of each value, its block.
    blocks: Vec<usize>,
    n: usize,
}

impl Sorted {
    fn of(paired: &Paired) -> Self {
        let differences = paired.differences();
        let mut order: Vec<usize> = (0..differences.len()).collect();
        order.sort_by(|&a, &b| differences[a].total_cmp(&differences[b]));
        Self {
            values: order.iter().map(|&i| differences[i]).collect(),
            blocks: order.iter().map(|&i| i / paired.m0()).collect(),
            n: paired.n(),
        }
    }

    /// The same as `Paired::signed_rank_scores`, in a fraction of the time.
    fn signed_rank_scores(&self, shift: f64) -> Vec<isize> {
        let moved: Vec<f64> = self.values.iter().map(|x| tie_round(x - shift)).collect();
        let mut scores = vec![0; self.n];
        let mut above = moved.partition_point(|&x| x < 0.0);
        let (mut below, mut ranked) = (above, 0);
        loop {
            let next_below = below.checked_sub(1).map(|i| -moved[i]);
            let next_above = moved.get(above).copied();
            let size = match (next_below, next_above) {
                (Some(b), Some(a)) => b.min(a),
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => return scores,
            };
            let (first, last) = (below, above);
            while below > 0 && -moved[below - 1] == size {
                below -= 1;
            }
            while above < moved.len() && moved[above] == size {
                above += 1;
            }
            // Equal sizes share their middle rank, doubled.
            let ties = first - below + above - last;
            let rank = (2 * ranked + ties + 1).cast_signed();
            ranked += ties;
            self.blocks[below..first].iter().for_each(|&block| scores[block] -= rank);
            if size > 0.0 {
                self.blocks[last..above].iter().for_each(|&block| scores[block] += rank);
            }
        }
    }
}

/// The test at one end, which remembers what it was asked last. An exact test costs many times what it takes to rank the runs, so it is
/// made only where the rough tails are near the level.
struct Test<'a> {
    paired: &'a Paired,
    sorted: &'a Sorted,
    each_side: f64,
    side: fn(Tails) -> f64,
    signed: Tested,
    aligned: Tested,
}

/// The last ranks that were tested exactly on either side of the end.
#[derive(Default)]
struct Tested {
    kept: Option<Null>,
    rejected: Option<Null>,
}

impl Test<'_> {
    /// The first effect on the way from a far one to the center that is kept; `None` if the far one is.
    fn limit(&mut self, far: f64, center: f64, kinks: &[f64]) -> Option<f64> {
        if self.keeps(far) {
            return None;
        }
        // Between two neighbouring kinks first, then between two neighbouring crossings there.
        let between = |x: f64| (x - far) * (x - center) < 0.0;
        let mut way: Vec<f64> = kinks.iter().copied().filter(|&x| between(x)).collect();
        if center < far {
            way.reverse();
        }
        let kept = way.partition_point(|&effect| !self.keeps(effect));
        let from = kept.checked_sub(1).map_or(far, |i| way[i]);
        let to = way.get(kept).copied().unwrap_or(center);
        let points = [vec![from], self.paired.crossings(from, to), vec![to]].concat();
        let gaps: Vec<f64> = points.windows(2).map(|gap| f64::midpoint(gap[0], gap[1])).collect();
        Some(points[gaps.partition_point(|&effect| !self.keeps(effect))])
    }

    /// Whether either test keeps an effect. The second is only worth its time where the first one rejects.
    fn keeps(&mut self, effect: f64) -> bool {
        let (side, each_side) = (self.side, self.each_side);
        self.signed.keeps(Null::of_signs(&self.sorted.signed_rank_scores(effect)), side, each_side)
            || self.paired.aligned_null(effect).is_some_and(|null| self.aligned.keeps(null, side, each_side))
    }
}

impl Tested {
    fn keeps(&mut self, null: Null, side: fn(Tails) -> f64, each_side: f64) -> bool {
        if let Some(rough) = null.rough_tails().map(side) {
            if rough > TRUSTED * each_side {
                return true;
            }
            if rough < each_side / TRUSTED {
                return false;
            }
        }
        if self.kept.as_ref() == Some(&null) {
            return true;
        }
        if self.rejected.as_ref() == Some(&null) {
            return false;
        }
        let kept = side(null.tails()) > each_side;
        *(if kept { &mut self.kept } else { &mut self.rejected }) = Some(null);
        kept
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn too_few_blocks_bound_nothing() {
        let p = Paired::new(vec![1.0, 1.1, 1.2], vec![0.0; 3], 1).unwrap();
        assert_eq!(p.interval(0.95), Interval { low: None, high: None });
        assert_eq!(Paired::new(vec![], vec![], 1).unwrap().interval(0.95), Interval { low: None, high: None });
    }

    #[test]
    fn limits_are_where_the_test_starts_to_reject() {
        let config: Vec<f64> = (0..12).map(|i| f64::from(i * i % 7) / 10.0 + f64::from(i) / 1000.0).collect();
        let p = Paired::new(config, vec![0.0; 12], 1).unwrap();
        let Interval { low: Some(low), high: Some(high) } = p.interval(0.95) else {
            unreachable!("12 blocks bound an effect")
        };
        assert!(p.tails(low - 1e-6).up <= 0.025 && p.tails(low + 1e-6).up > 0.025);
        assert!(p.tails(high + 1e-6).down <= 0.025 && p.tails(high - 1e-6).down > 0.025);
    }

    #[test]
    fn huge_values_end() {
        let config: Vec<f64> = (0..8).map(|i| 1e15 + f64::from(i) * 1e13).collect();
        let p = Paired::new(config, vec![0.0; 8], 1).unwrap();
        assert!(p.interval(0.90).low.unwrap() > 1e14);
    }

    #[test]
    fn kinks_by_hand() {
        let p = Paired::new(vec![10.0], vec![1.0, 2.0, 4.0], 3).unwrap();
        // After an effect e is taken off, the config's run passes the mean of a and b at e = 10 - (a + b) / 2, and its own mean with c does so
        // at e = 10 + c - (a + b). Here c is 1, 2 or 4, and a + b is 2, 3, 4, 5, 6 or 8.
        assert_eq!(p.kinks(), [3.0, 4.0, 5.0, 6.0, 7.0, 7.5, 8.0, 8.5, 9.0, 10.0, 11.0, 12.0]);
        // With one run of the baseline a block, nothing is aligned, and kinks are the differences to the last digit.
        let p = Paired::new(vec![0.3, 0.1], vec![0.1, 0.3], 1).unwrap();
        assert_eq!(p.kinks(), [0.1 - 0.3, 0.3 - 0.1]);
    }

    #[test]
    fn only_tails_near_the_level_are_tested_exactly() {
        // 0.625 and 0.1 are 2.5 times as far as the level of 0.25. A p value at the level itself rejects.
        type Side = fn(Tails) -> f64;
        let cases: [(Side, bool, bool); 6] = [
            (|_| 0.626, true, false),
            (|_| 0.625, true, true),
            (|_| 0.251, true, true),
            (|_| 0.25, false, true),
            (|_| 0.1, false, true),
            (|_| 0.099, false, false),
        ];
        for (i, (side, keeps, exactly)) in cases.into_iter().enumerate() {
            let mut tested = Tested::default();
            assert_eq!(tested.keeps(Null::of_signs(&[1; 12]), side, 0.25), keeps, "{i}");
            let remembered = (tested.kept.is_some(), tested.rejected.is_some());
            assert_eq!(remembered, (exactly && keeps, exactly && !keeps), "{i}");
        }
    }

    /// Bisection with two exact tests a step: what the search must agree with.
    fn bisected(p: &Paired, level: f64) -> Interval {
        let each_side = (1.0 - level) / 2.0;
        let center = p.estimate().unwrap();
        let differences = p.differences();
        let boundary = |end: f64, side: fn(Tails) -> f64| {
            let kept = |effect| side(p.tails(effect)) > each_side;
            if kept(end) {
                return None;
            }
            let (mut outside, mut inside) = (end, center);
            while (inside - outside).abs() >= 1e-10 {
                let middle = f64::midpoint(outside, inside);
                *(if kept(middle) { &mut inside } else { &mut outside }) = middle;
            }
            Some(f64::midpoint(outside, inside))
        };
        Interval {
            low: boundary(differences.iter().copied().fold(f64::INFINITY, f64::min) - 1.0, |tails| tails.up),
            high: boundary(differences.iter().copied().fold(f64::NEG_INFINITY, f64::max) + 1.0, |tails| tails.down),
        }
    }

    /// Nearer than effects at which ranks change are to each other.
    const NEAR: f64 = 1e-9;
    /// So near that values which are equal at an effect still are.
    const TIED: f64 = 1e-12;

    fn assert_same(p: &Paired) -> Result<(), TestCaseError> {
        for level in [0.90, 0.95] {
            let (fast, slow) = (p.interval(level), bisected(p, level));
            let each_side = (1.0 - level) / 2.0;
            let up = |effect: f64| p.tails(effect).up > each_side;
            let down = |effect: f64| p.tails(effect).down > each_side;
            // Where ranks are tied at one effect alone, that effect may be all that is kept.
            let tied = |end: f64| [end - TIED, end, end + TIED];
            let low_end =
                fast.low.is_some_and(|low| !up(low - NEAR) && (up(low + NEAR) || tied(low).into_iter().any(up)));
            let high_end = fast
                .high
                .is_some_and(|high| !down(high + NEAR) && (down(high - NEAR) || tied(high).into_iter().any(down)));
            for (fast, slow, ends) in [(fast.low, slow.low, low_end), (fast.high, slow.high, high_end)] {
                let same = fast.zip(slow).map_or(fast == slow, |(fast, slow)| (fast - slow).abs() < 1e-6);
                // With replicates p may dip by a trifle on its way: then there are several ends, and either search finds one.
                prop_assert!(same || p.m0() > 1 && ends, "{fast:?}, but bisection finds {slow:?} for {p:?}");
            }
        }
        Ok(())
    }

    /// Blocks with noise, ties, wild values and arms of different spread.
    fn any_paired() -> impl Strategy<Value = Paired> {
        let value = prop_oneof![
            6 => -0.2..0.2_f64,
            2 => (-4_i8..5).prop_map(|x| f64::from(x) / 20.0),
            1 => -3.0..3.0_f64,
        ];
        (1_usize..=4, 1_usize..=24).prop_flat_map(move |(m0, n)| {
            let runs = |count| prop::collection::vec(value.clone(), count);
            (runs(n), runs(n * m0)).prop_map(move |(config, baseline)| Paired::new(config, baseline, m0).unwrap())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn merged_ranks_are_those_of_the_test(p in any_paired(), shift in prop_oneof![Just(0.05), -0.3..0.3_f64]) {
            prop_assert_eq!(Sorted::of(&p).signed_rank_scores(shift), p.signed_rank_scores(shift));
        }

        #[test]
        fn the_search_finds_what_bisection_finds(p in any_paired()) {
            assert_same(&p)?;
        }
    }
}
