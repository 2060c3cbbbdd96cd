use statrs::function::erf::erfc;

/// The probabilities, under a null distribution, of a statistic at least as high and at least as low as the one observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tails {
    pub up: f64,
    pub down: f64,
}

impl Tails {
    /// Each tail is the weaker of the two.
    pub(super) fn max(self, other: Self) -> Self {
        Self { up: self.up.max(other.up), down: self.down.max(other.down) }
    }
}

/// A statistic under its null: a sum with one term per block, each term uniform over that block's `per_block` choices ("Null
/// distributions"). Both tests are of this form: a sign flip chooses between two scores, an exchange of labels between the
/// ranks of a block's runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Null {
    /// Block after block.
    pub choices: Vec<usize>,
    pub per_block: usize,
    /// The sum of the choices that happened.
    pub observed: usize,
}

/// Share of the squared variance up to which a sum is taken for nearly normal: that of ten equal blocks.
const NEARLY_NORMAL: f64 = 0.1;

impl Null {
    /// That of a sum of scores whose signs are chance. A score of either sign is twice its positive part minus its size: it is
    /// enough to sum positive parts.
    pub fn of_signs(scores: &[isize]) -> Self {
        Self {
            choices: scores.iter().flat_map(|score| [0, score.unsigned_abs()]).collect(),
            per_block: 2,
            observed: scores.iter().map(|&score| score.max(0).unsigned_abs()).sum(),
        }
    }

    /// Exact tails.
    pub fn tails(&self) -> Tails {
        uniform_sum_tails(&self.choices, self.per_block, self.observed)
    }

    /// The tails to within a factor of about 2, by an Edgeworth series: enough to see which effects need no exact test. `None` where
    /// so few blocks carry the sum that the series says nothing.
    pub fn rough_tails(&self) -> Option<Tails> {
        let share = 1.0 / self.per_block as f64;
        let (mut mean, mut variance, mut third, mut fourth, mut squares) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for block in self.choices.chunks_exact(self.per_block) {
            let center = share * block.iter().sum::<usize>() as f64;
            let mut moments = [0.0; 3];
            for &choice in block {
                let distance = choice as f64 - center;
                let square = distance * distance;
                moments[0] += square;
                moments[1] += square * distance;
                moments[2] += square * square;
            }
            let [second, cubed, fourth_power] = moments.map(|sum| share * sum);
            mean += center;
            variance += second;
            third += cubed;
            // The cumulant: what the fourth moment has beyond a normal one.
            fourth += fourth_power - 3.0 * second * second;
            squares += second * second;
        }
        if variance <= 0.0 || squares > NEARLY_NORMAL * variance * variance {
            return None;
        }
        let z = (self.observed as f64 - mean) / variance.sqrt();
        let (skew, kurtosis) = (third / variance.powf(1.5), fourth / (variance * variance));
        let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let beyond_normal = skew / 6.0 * (z * z - 1.0)
            + kurtosis / 24.0 * (z.powi(3) - 3.0 * z)
            + skew * skew / 72.0 * (z.powi(5) - 10.0 * z.powi(3) + 15.0 * z);
        let up = 0.5 * erfc(z / std::f64::consts::SQRT_2) + density * beyond_normal;
        Some(Tails { up, down: 1.0 - up })
    }
}

/// Exact tails of a sum with one term per block, each term uniform over that block's `per_block` choices.
fn uniform_sum_tails(choices: &[usize], per_block: usize, observed: usize) -> Tails {
    let blocks: Vec<(usize, usize)> = choices.chunks_exact(per_block).map(extent).collect();
    let lowest: usize = blocks.iter().map(|&(min, _)| min).sum();
    let highest: usize = blocks.iter().map(|&(_, max)| max).sum();

    // The nearer end costs least. Seen from the upper end, the sum is the distance to the highest one.
    let mirrored = observed - lowest > highest - observed;
    let mut steps: Vec<usize> = choices
        .chunks_exact(per_block)
        .zip(&blocks)
        .flat_map(|(block, &(min, max))| block.iter().map(move |&c| if mirrored { max - c } else { c - min }))
        .collect();
    let mut target = if mirrored { highest - observed } else { observed - lowest };

    // Without ties all doubled ranks are even: half of the table would stay empty.
    let unit = steps.iter().fold(target, |unit, &step| gcd(unit, step)).max(1);
    for step in &mut steps {
        *step /= unit;
    }
    target /= unit;

    let (at_most, below) = lower_tail(&steps, per_block, target);
    let beyond = (1.0 - below).clamp(0.0, 1.0);
    let at_most = at_most.min(1.0);
    if mirrored { Tails { up: at_most, down: beyond } } else { Tails { up: beyond, down: at_most } }
}

fn extent(block: &[usize]) -> (usize, usize) {
    block.iter().fold((usize::MAX, 0), |(min, max), &c| (min.min(c), max.max(c)))
}

/// Ways are counted up to here, and then turned into shares, so that no number of blocks overflows.
const MANY: f64 = 1e200;

/// P(sum <= target) and P(sum < target) of steps that start at zero in every block: convolution cut off at the target.
fn lower_tail(steps: &[usize], per_block: usize, target: usize) -> (f64, f64) {
    // Short blocks first: as long as the sum can't have got far, the table is small.
    let mut blocks: Vec<(usize, &[usize])> =
        steps.chunks_exact(per_block).map(|block| (block.iter().copied().max().unwrap_or(0), block)).collect();
    blocks.sort_unstable();
    let mut now = vec![0.0; target + 1];
    let mut next = vec![0.0; target + 1];
    now[0] = 1.0;
    let (mut reach, mut ways) = (0, 1.0);
    let mut moves = Vec::with_capacity(per_block);
    for (longest, block) in blocks {
        reach = (reach + longest).min(target);
        moves.clear();
        moves.extend(block.iter().copied().filter(|&step| step > 0 && step <= reach));
        moves.sort_unstable();
        let stay = block.iter().filter(|&&step| step == 0).count() as f64;
        extend(&now, &mut next[..=reach], stay, &moves);
        ways *= per_block as f64;
        if ways > MANY {
            next[..=reach].iter_mut().for_each(|count| *count /= ways);
            ways = 1.0;
        }
        std::mem::swap(&mut now, &mut next);
    }
    let below: f64 = now[..target].iter().sum();
    ((below + now[target]) / ways, below / ways)
}

/// One block more: `next` at a sum is what `now` has there, `stay` times, and what it has at each of the ascending `moves` before. `now`
/// is zero beyond its reach. Two moves at a time, because reading and writing `next` is what takes the time.
fn extend(now: &[f64], next: &mut [f64], stay: f64, moves: &[usize]) {
    let (first, rest) = moves.split_first().map_or((next.len(), moves), |(&first, rest)| (first, rest));
    let (head, tail) = next.split_at_mut(first);
    for (to, from) in head.iter_mut().zip(now) {
        *to = stay * from;
    }
    for ((to, from), moved) in tail.iter_mut().zip(&now[first.min(now.len())..]).zip(now) {
        *to = stay * from + moved;
    }
    for pair in rest.chunks(2) {
        let (near, far) = (pair[0], pair.get(1).copied().unwrap_or(next.len()));
        let (head, tail) = next[near..].split_at_mut(far - near);
        for (to, moved) in head.iter_mut().zip(now) {
            *to += moved;
        }
        for ((to, near), far) in tail.iter_mut().zip(&now[far - near..]).zip(now) {
            *to += near + far;
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    /// Every way to choose one number per block, counted one by one.
    fn enumerate(choices: &[usize], per_block: usize, observed: usize) -> Tails {
        let mut sums = vec![0];
        for block in choices.chunks_exact(per_block) {
            sums = sums.iter().flat_map(|sum| block.iter().map(move |c| sum + c)).collect();
        }
        let share = |hit: &dyn Fn(usize) -> bool| sums.iter().filter(|&&s| hit(s)).count() as f64 / sums.len() as f64;
        Tails { up: share(&|s| s >= observed), down: share(&|s| s <= observed) }
    }

    proptest! {
        #[test]
        fn agrees_with_enumeration(
            per_block in 1_usize..5,
            numbers in prop::collection::vec(0_usize..12, 1..24),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 6),
        ) {
            let blocks = (numbers.len() / per_block).min(6);
            let choices = &numbers[..blocks * per_block];
            let observed = choices.chunks_exact(per_block).zip(&picks).map(|(block, pick)| block[pick.index(per_block)]).sum();
            let fast = uniform_sum_tails(choices, per_block, observed);
            let slow = enumerate(choices, per_block, observed);
            prop_assert!((fast.up - slow.up).abs() < 1e-12, "{fast:?} {slow:?}");
            prop_assert!((fast.down - slow.down).abs() < 1e-12, "{fast:?} {slow:?}");
        }
    }

    #[test]
    fn thousands_of_blocks_do_not_overflow() {
        let choices: Vec<usize> = (0..1200).flat_map(|_| [0, 1]).collect();
        let Tails { up, down } = uniform_sum_tails(&choices, 2, 600);
        // P(at least half) and P(at most half) of coin tosses overlap in P(exactly half), which is about sqrt(2 / (pi n)).
        assert!((up - down).abs() < 1e-12 && (up + down - 1.0 - 0.023_027).abs() < 1e-5, "{up} {down}");
        assert_eq!(uniform_sum_tails(&choices, 2, 0).up, 1.0);
        assert!(uniform_sum_tails(&choices, 2, 1200).up < 1e-300);
    }

    /// Far more exact than the factor that is asked of them, where the sum is as skewed or as flat as a real one: a term of the
    /// series with a wrong sign shows.
    #[test]
    fn rough_tails_follow_a_flat_and_a_skewed_sum() {
        let flat = Null { choices: (1..=30).flat_map(|rank| [0, rank]).collect(), per_block: 2, observed: 378 };
        let skewed =
            Null { choices: (100..130).flat_map(|rank| [0, 0, 0, 0, 0, rank]).collect(), per_block: 6, observed: 1158 };
        for null in [flat, skewed] {
            let (rough, exact) = (null.rough_tails().unwrap().up, null.tails().up);
            assert!((0.0005..0.02).contains(&exact), "{exact}");
            assert!((rough / exact - 1.0).abs() < 0.05, "{rough} {exact}");
        }
    }

    #[test]
    fn rough_tails_by_hand() {
        // A block of 0, 0, 0, 4 has the mean 1, and there the moments 3, 6 and 21: its fourth cumulant is 21 - 3 * 9 = -6. Twelve of them have
        // the mean 12, the variance 36, the skewness 72 / 6^3 = 1/3 and the kurtosis -72 / 6^4 = -1/18. At 30 z is 3, and the series is
        // 1/18 * (9 - 1) - 1/432 * (27 - 9) + 1/648 * (243 - 270 + 45) = 31/72.
        let null = Null { choices: [0, 0, 0, 4].repeat(12), per_block: 4, observed: 30 };
        let (beyond, density) = (0.001_349_898_031_630_1, 0.004_431_848_411_938_0);
        let Tails { up, down } = null.rough_tails().unwrap();
        assert!(
            (up - (beyond + density * 31.0 / 72.0)).abs() < 1e-10 && (up + down - 1.0).abs() < 1e-15,
            "{up} {down}"
        );
    }

    #[test]
    fn few_blocks_have_no_rough_tails() {
        assert!(Null::of_signs(&[4; 10]).rough_tails().is_some());
        assert_eq!(Null::of_signs(&[4; 9]).rough_tails(), None);
        // One large block among many small ones: 100^2 is more than a tenth of (100 + 200 * 1)^2.
        let carried: Vec<isize> = [20].into_iter().chain([2; 200]).collect();
        assert_eq!(Null::of_signs(&carried).rough_tails(), None);
        assert_eq!(Null::of_signs(&[0; 12]).rough_tails(), None);
    }

    /// The sum is counted from its nearer end; from the other one a small tail would be 1 less what is nearly 1.
    #[test]
    fn small_tails_are_exact() {
        let none: Vec<usize> = [10, 11].repeat(60);
        assert_eq!(uniform_sum_tails(&none, 2, 600), Tails { up: 1.0, down: 0.5_f64.powi(60) });
        assert_eq!(uniform_sum_tails(&none, 2, 660), Tails { up: 0.5_f64.powi(60), down: 1.0 });
        // As near to one end as to the other: at most six of twelve, of which each happens with probability 0.99.
        let often: Vec<usize> = std::iter::once(0).chain([1; 99]).collect();
        let down = uniform_sum_tails(&often.repeat(12), 100, 6).down;
        let ways = [1.0, 12.0, 66.0, 220.0, 495.0, 792.0, 924.0];
        let expected: f64 = (0..).zip(ways).map(|(k, ways)| ways * 0.99_f64.powi(k) * 0.01_f64.powi(12 - k)).sum();
        assert!((down / expected - 1.0).abs() < 1e-12, "{down} {expected}");
    }

    /// Counts are whole numbers, and the share that they are of all is rounded once.
    #[test]
    fn shares_are_taken_of_whole_counts() {
        for blocks in 1..=30_i32 {
            let highest = uniform_sum_tails(&[0, 0, 1].repeat(blocks as usize), 3, blocks as usize);
            assert_eq!(highest.up, 1.0 / 3_f64.powi(blocks), "{blocks}");
        }
    }

    #[test]
    fn steps_have_a_common_unit() {
        for (a, b, unit) in [(12, 18, 6), (18, 12, 6), (7, 0, 7), (0, 5, 5), (8, 9, 1)] {
            assert_eq!(gcd(a, b), unit, "{a} {b}");
        }
    }

    proptest! {
        // No proof says that the factor holds for all cases. It holds for these, which are the same ones everywhere.
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(3), cases: 1000, ..ProptestConfig::default() })]

        /// What the interval takes on trust: where the rough tails are far from a level, the exact ones are on the same side.
        #[test]
        fn rough_tails_are_within_their_factor(
            per_block in 2_usize..6,
            numbers in prop::collection::vec(prop_oneof![0_usize..300, 250_usize..260], 30..150),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 75),
        ) {
            let blocks = numbers.len() / per_block;
            let choices = numbers[..blocks * per_block].to_vec();
            let observed = choices.chunks_exact(per_block).zip(&picks).map(|(block, pick)| block[pick.index(per_block)]).sum();
            let null = Null { choices, per_block, observed };
            if let Some(rough) = null.rough_tails() {
                let exact = null.tails();
                for (rough, exact) in [(rough.up, exact.up), (rough.down, exact.down)] {
                    for level in [0.025, 0.05] {
                        prop_assert!(!(rough > 2.5 * level && exact <= level), "{rough} {exact}");
                        prop_assert!(!(rough < level / 2.5 && exact > level), "{rough} {exact}");
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_observed_proves_nothing() {
        assert_eq!(uniform_sum_tails(&[], 2, 0), Tails { up: 1.0, down: 1.0 });
    }
}
