use statrs::{
    distribution::{ContinuousCDF, StudentsT},
    function::erf::erfc,
};

use super::rank::{double_midranks, median, tie_round};

/// P values of a comparison of runs that share no blocks ("Unblocked"). Small values claim what the name says of the second sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoSample {
    pub two_sided: f64,
    pub greater: f64,
    pub less: f64,
    /// No samples of these sizes, whatever their values, have a smaller `two_sided`.
    pub smallest_two_sided: f64,
}

/// Pairs of runs up to which the null distribution is counted out. Beyond, the normal one is right to four digits.
const EXACT_PAIRS: usize = 2500;

/// Hodges-Lehmann shift from `a` to `b`: the median of all differences ("Unblocked"). `None` if either is empty.
pub fn shift(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    median(&differences)
}

/// Test of Mann and Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the Other"
/// ("Unblocked"). It takes all runs of either sample for independent, which runs of one session are not. Values must be finite.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> TwoSample {
    let pooled: Vec<f64> = a.iter().chain(b).map(|&x| tie_round(x)).collect();
    let ranks = double_midranks(&pooled);
    // Twice the pairs in which b is above, ties counting half: the ranks of b without those among themselves.
    let observed = ranks[a.len()..].iter().sum::<usize>() - b.len() * (b.len() + 1);
    let groups = tie_groups(ranks);
    let exact = a.len() * b.len() <= EXACT_PAIRS;
    let (greater, less) =
        if exact { counted(a.len(), b.len(), &groups, observed) } else { normal(a.len(), b.len(), &groups, observed) };
    TwoSample {
        two_sided: (2.0 * greater.min(less)).min(1.0),
        greater,
        less,
        smallest_two_sided: (2.0 / choose(a.len() + b.len(), b.len())).min(1.0),
    }
}

/// Sizes of the groups of equal values, ascending.
fn tie_groups(mut ranks: Vec<usize>) -> Vec<usize> {
    ranks.sort_unstable();
    ranks.chunk_by(|x, y| x == y).map(<[usize]>::len).collect()
}

fn choose(n: usize, k: usize) -> f64 {
    // From the side on which no product on the way is larger than the last one.
    (0..k.min(n - k)).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// Shares of all ways to label runs as `b` whose statistic is at least, and at most, the observed one.
fn counted(a: usize, b: usize, groups: &[usize], observed: usize) -> (f64, f64) {
    // Without ties the statistic is even: half of the table would stay empty.
    let unit = if groups.len() == a + b { 2 } else { 1 };
    let length = 2 * a * b / unit + 1;
    // Ways by the number of runs labelled so far and their statistic, group after group of equal runs.
    let mut ways = vec![vec![0.0; length]; b + 1];
    ways[0][0] = 1.0;
    let mut before = 0;
    for &size in groups {
        for labelled in (0..=b.min(before + size)).rev() {
            let (earlier, rest) = ways.split_at_mut(labelled);
            let Some(to) = rest.first_mut() else { continue };
            for more in 1..=size.min(labelled) {
                let from = labelled - more;
                // Each of them is above the runs of a before it, and tied with those of its group.
                let Some(below) = before.checked_sub(from).filter(|&below| below + size - more <= a) else { continue };
                let gained = more * (2 * below + size - more) / unit;
                let times = choose(size, more);
                for (to, from) in to[gained.min(length)..].iter_mut().zip(&earlier[from]) {
                    *to += times * from;
                }
            }
        }
        before += size;
    }
    let (total, at) = (choose(a + b, b), observed / unit);
    let share = |part: &[f64]| (part.iter().sum::<f64>() / total).min(1.0);
    (share(&ways[b][at..]), share(&ways[b][..=at]))
}

/// The same by the normal distribution, with the variance that ties leave and half a step of continuity.
fn normal(a: usize, b: usize, groups: &[usize], observed: usize) -> (f64, f64) {
    let (a, b) = (a as f64, b as f64);
    let runs = a + b;
    let ties: f64 = groups.iter().map(|&size| (size as f64).powi(3) - size as f64).sum();
    let sd = (a * b / 12.0 * (runs + 1.0 - ties / (runs * (runs - 1.0)))).sqrt();
    let distance = observed as f64 / 2.0 - a * b / 2.0;
    if sd == 0.0 {
        return (1.0, 1.0);
    }
    let above = |z: f64| 0.5 * erfc(z / std::f64::consts::SQRT_2);
    (above((distance - 0.5) / sd), above((-distance - 0.5) / sd))
}

/// Two-sided p of Welch's t test ("The Generalization of 'Student's' Problem when Several Different Population Variances are
/// Involved"), for comparison with claims that were made by it. `None` below two runs in either, or without any scatter.
pub fn welch(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, error_a) = mean_and_squared_error(a)?;
    let (mean_b, error_b) = mean_and_squared_error(b)?;
    let error = error_a + error_b;
    if error <= 0.0 {
        return None;
    }
    let freedom = error.powi(2) / (error_a.powi(2) / (a.len() - 1) as f64 + error_b.powi(2) / (b.len() - 1) as f64);
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some((2.0 * t.cdf(-((mean_b - mean_a) / error.sqrt()).abs())).min(1.0))
}

fn mean_and_squared_error(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    Some((mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every way to label the pooled runs, counted one by one.
    fn enumerate(a: &[f64], b: &[f64]) -> (f64, f64) {
        let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
        let above = |labels: u32| -> f64 {
            let is_b = |i: usize| labels >> i & 1 == 1;
            let pairs = (0..pooled.len()).flat_map(|i| (0..pooled.len()).map(move |j| (i, j)));
            let score = |(i, j): (usize, usize)| match pooled[j].total_cmp(&pooled[i]) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
            pairs.filter(|&(i, j)| !is_b(i) && is_b(j)).map(score).sum()
        };
        let seen = above(((1 << b.len()) - 1) << a.len());
        let all: Vec<f64> =
            (0..1_u32 << pooled.len()).filter(|labels| labels.count_ones() as usize == b.len()).map(above).collect();
        let share = |hit: &dyn Fn(f64) -> bool| all.iter().filter(|&&x| hit(x)).count() as f64 / all.len() as f64;
        (share(&|x| x >= seen), share(&|x| x <= seen))
    }

    fn runs() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(prop_oneof![(0_u8..6).prop_map(f64::from), 0.0..6.0_f64], 1..6)
    }

    proptest! {
        #[test]
        fn agrees_with_enumeration(a in runs(), b in runs()) {
            let seen = mann_whitney(&a, &b);
            let (greater, less) = enumerate(&a, &b);
            prop_assert!((seen.greater - greater).abs() < 1e-12 && (seen.less - less).abs() < 1e-12, "{seen:?} {greater} {less}");
            prop_assert!(seen.two_sided + 1e-12 >= seen.smallest_two_sided);
        }

        #[test]
        fn changing_the_samples_changes_the_side(a in runs(), b in runs()) {
            let (one, other) = (mann_whitney(&a, &b), mann_whitney(&b, &a));
            prop_assert!((one.greater - other.less).abs() < 1e-12 && (one.two_sided - other.two_sided).abs() < 1e-12);
            prop_assert!((shift(&a, &b).unwrap() + shift(&b, &a).unwrap()).abs() < 1e-12);
        }

        /// A sample that grew is more surely greater.
        #[test]
        fn p_falls_with_the_shift(a in runs(), b in runs(), by in 0.0..3.0_f64) {
            let moved: Vec<f64> = b.iter().map(|x| x + by).collect();
            prop_assert!(mann_whitney(&a, &moved).greater <= mann_whitney(&a, &b).greater + 1e-12);
        }
    }

    #[test]
    fn three_against_three_can_show_nothing() {
        let seen = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!((seen.two_sided - 0.1).abs() < 1e-12 && (seen.smallest_two_sided - 0.1).abs() < 1e-12);
        assert!((seen.greater - 0.05).abs() < 1e-12 && seen.less == 1.0);
        assert_eq!(shift(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), Some(3.0));
    }

    #[test]
    fn nothing_shows_nothing() {
        let none = mann_whitney(&[], &[1.0]);
        assert_eq!((none.two_sided, none.smallest_two_sided), (1.0, 1.0));
        assert_eq!(shift(&[], &[1.0]), None);
        // However many runs the other sample has.
        let many: Vec<f64> = (0..1100).map(f64::from).collect();
        for (a, b) in [(&[][..], &many[..]), (&many[..], &[][..])] {
            let none = TwoSample { two_sided: 1.0, greater: 1.0, less: 1.0, smallest_two_sided: 1.0 };
            assert_eq!(mann_whitney(a, b), none);
        }
        assert_eq!(mann_whitney(&[1.0; 4], &[1.0; 5]).two_sided, 1.0);
        assert_eq!(mann_whitney(&[1.0; 60], &[1.0; 60]).two_sided, 1.0);
    }

    /// At the border both ways are possible and must agree.
    #[test]
    fn large_samples_are_nearly_normal() {
        for spread in [7, 1000] {
            let a: Vec<f64> = (0..50).map(|i| f64::from(i * 37 % 50 * 1000 / 50 % spread)).collect();
            let b: Vec<f64> =
                (0..50).map(|i| f64::from((i * 13 % 50 * 1000 / 50 + 150) % (spread + spread / 5))).collect();
            let pooled: Vec<f64> = a.iter().chain(&b).copied().collect();
            let ranks = double_midranks(&pooled);
            let observed = ranks[50..].iter().sum::<usize>() - 50 * 51;
            let groups = tie_groups(ranks);
            let (exact, near) = (counted(50, 50, &groups, observed), normal(50, 50, &groups, observed));
            assert!((exact.0 - near.0).abs() < 2e-3 && (exact.1 - near.1).abs() < 2e-3, "{exact:?} {near:?}");
            assert!((mann_whitney(&a, &b).greater - exact.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_number_of_pairs_decides_whether_they_are_counted() {
        let a: Vec<f64> = (0..51).map(|i| f64::from(i * i % 53)).collect();
        let b: Vec<f64> = (0..50).map(|i| f64::from(i * 7 % 60)).collect();
        for runs in [50, 51] {
            let a = &a[..runs];
            let pooled: Vec<f64> = a.iter().chain(&b).copied().collect();
            let ranks = double_midranks(&pooled);
            let observed = ranks[runs..].iter().sum::<usize>() - 50 * 51;
            let groups = tie_groups(ranks);
            let (exact, near) = (counted(runs, 50, &groups, observed), normal(runs, 50, &groups, observed));
            assert!((exact.0 - near.0).abs() > 1e-9, "{exact:?} {near:?}");
            // 2500 pairs are counted, 2550 are not.
            let seen = mann_whitney(a, &b);
            assert_eq!((seen.greater, seen.less), if runs == 50 { exact } else { near });
        }
    }

    /// On the way to 1101 there were numbers above all that can be written down, so one run proved anything.
    #[test]
    fn one_run_against_many_proves_little() {
        let many: Vec<f64> = (1..=1100).map(f64::from).collect();
        let found = mann_whitney(&[0.0], &many);
        assert!((found.greater * 1101.0 - 1.0).abs() < 1e-9 && found.less == 1.0, "{found:?}");
        assert!((found.smallest_two_sided * 1101.0 - 2.0).abs() < 1e-9, "{found:?}");
        let found = mann_whitney(&many, &[0.0, 0.5]);
        // Of 1102 runs two are the lowest.
        assert!((found.less * f64::from(1102 * 1101 / 2) - 1.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn normal_tails_by_hand() {
        // Ties of 1, 2 and 3 runs take 0 + 6 + 24 from 6 * 5: the variance is 2 * 4 / 12 * (7 - 1) = 4. The statistic is 6.5, half of 13, and 2.5
        // above its mean: half a step nearer it is one standard deviation, from the other side it is -3/2.
        let (greater, less) = normal(2, 4, &[1, 2, 3], 13);
        assert!((greater - 0.158_655_253_931).abs() < 1e-9, "{greater}");
        assert!((less - 0.933_192_798_731).abs() < 1e-9, "{less}");
    }

    #[test]
    fn welch_by_hand() {
        // Means 1 and 4, squared errors 1 and 1: 2^2 / (1 / 1 + 1 / 1) = 2 degrees of freedom and t = 3 / sqrt(2). There two tails are
        // 1 - t / sqrt(2 + t^2).
        let p = welch(&[0.0, 2.0], &[3.0, 5.0]).unwrap();
        assert!((p - (1.0 - (9.0_f64 / 13.0).sqrt())).abs() < 1e-9, "{p}");
        // Where one sample has all of the scatter, it has all of the freedom: one degree from two runs, and 1 - 2 * atan(1) / pi for t = 1.
        for (a, b) in [([0.0, 2.0].as_slice(), [2.0; 3].as_slice()), (&[2.0; 3], &[0.0, 2.0])] {
            assert!((welch(a, b).unwrap() - 0.5).abs() < 1e-9, "{a:?} {b:?}");
        }
        assert_eq!((welch(&[], &[1.0, 2.0]), welch(&[1.0, 2.0], &[])), (None, None));
        assert_eq!((welch(&[1.0, 2.0], &[3.0]), welch(&[3.0], &[1.0, 2.0])), (None, None));
    }

    #[test]
    fn welch_needs_scatter() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), None);
        // Equal sizes and spreads: t = 2 / sqrt(2/3) at 4 degrees of freedom.
        assert!((welch(&[1.0, 2.0, 3.0], &[3.0, 4.0, 5.0]).unwrap() - 0.070_483_9).abs() < 1e-6);
    }
}
