//! Two samples whose runs do not belong together in blocks. Nothing here can carry a verdict: what differs between hours
//! and machines is in the numbers. It shows how little, or how much, such runs say.

use statrs::distribution::{ContinuousCDF, Normal};

use super::rank::{double_midranks, median, tie_round};

/// P values of the rank-sum test of two samples (Mann and Whitney, "On a Test of Whether one of Two Random Variables is
/// Stochastically Larger than the Other").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoSample {
    pub two_sided: f64,
    /// Small where the second sample tends to be larger.
    pub greater: f64,
    /// Small where the second sample tends to be smaller.
    pub less: f64,
    /// The smallest two-sided p that samples of these sizes, with these ties, can have.
    pub smallest_two_sided: f64,
}

/// Up to this many values the null distribution is counted out. Beyond it the normal one differs by less than anybody reads.
const MOST_EXACT: usize = 100;

/// Whether two samples could come from one distribution. Exact, with ties too, up to 100 values; normal with the correction for
/// ties and continuity beyond. Without values on both sides every p is 1.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> TwoSample {
    if a.is_empty() || b.is_empty() {
        return TwoSample { two_sided: 1.0, greater: 1.0, less: 1.0, smallest_two_sided: 1.0 };
    }
    let values: Vec<f64> = a.iter().chain(b).map(|&x| tie_round(x)).collect();
    let ranks = double_midranks(&values);
    let seen: usize = ranks[a.len()..].iter().sum();
    let (greater, less, extreme) =
        if values.len() <= MOST_EXACT { exact(&ranks, b.len(), seen) } else { normal(&ranks, b.len(), seen) };
    let doubled = |p: f64| (2.0 * p).min(1.0);
    TwoSample { two_sided: doubled(greater.min(less)), greater, less, smallest_two_sided: doubled(extreme) }
}

/// Hodges-Lehmann estimate of how much larger the second sample is: the median of all differences. `None` without values on
/// both sides.
pub fn shift(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    median(&differences)
}

/// Upper and lower tail at the sum `seen`, and the smaller of the two tails at their ends, when any `size` of the ranks could
/// have been the second sample's.
fn exact(ranks: &[usize], size: usize, seen: usize) -> (f64, f64, f64) {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable_by(|x, y| y.cmp(x));
    let most: usize = sorted[..size].iter().sum();
    let least: usize = sorted[ranks.len() - size..].iter().sum();
    // ways[k][s]: selections of k ranks with the sum s.
    let mut ways = vec![vec![0.0_f64; most + 1]; size + 1];
    ways[0][0] = 1.0;
    for (taken, &rank) in ranks.iter().enumerate() {
        for k in (0..size.min(taken + 1)).rev() {
            let (from, to) = ways.split_at_mut(k + 1);
            for (to, from) in to[0][rank.min(most + 1)..].iter_mut().zip(&from[k]) {
                *to += from;
            }
        }
    }
    let counts = &ways[size];
    let total: f64 = counts.iter().sum();
    let share = |sums: &[f64]| (sums.iter().sum::<f64>() / total).min(1.0);
    (share(&counts[seen..]), share(&counts[..=seen]), share(&[counts[most]]).min(share(&[counts[least]])))
}

fn normal(ranks: &[usize], size: usize, seen: usize) -> (f64, f64, f64) {
    let (n, m) = (ranks.len() as f64, size as f64);
    let mean_rank = ranks.iter().sum::<usize>() as f64 / n;
    let spread: f64 = ranks.iter().map(|&rank| (rank as f64 - mean_rank).powi(2)).sum();
    // Without replacement; equal values have no spread, and so no evidence.
    let sd = (m * (n - m) / (n * (n - 1.0)) * spread).sqrt();
    let Ok(normal) = Normal::new(0.0, 1.0) else { return (1.0, 1.0, 1.0) };
    if sd == 0.0 {
        return (1.0, 1.0, 1.0);
    }
    // Doubled ranks: half a rank is one.
    let upper = |sum: f64| normal.sf((sum - 1.0 - m * mean_rank) / sd);
    let lower = |sum: f64| normal.cdf((sum + 1.0 - m * mean_rank) / sd);
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let least: usize = sorted[..size].iter().sum();
    let most: usize = sorted[ranks.len() - size..].iter().sum();
    (upper(seen as f64), lower(seen as f64), upper(most as f64).min(lower(least as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn three_against_three_by_hand() {
        let seen = mann_whitney(&[0.803, 0.965, 1.087], &[1.07, 1.123, 1.04]);
        assert!(
            close(seen.greater, 0.2) && close(seen.two_sided, 0.4) && close(seen.smallest_two_sided, 0.1),
            "{seen:?}"
        );
        assert!(close(seen.less, 0.9), "{seen:?}");
        let apart = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!(close(apart.two_sided, 0.1) && close(apart.less, 1.0), "{apart:?}");
    }

    #[test]
    fn ties_by_enumeration() {
        let (a, b) = ([1.0, 2.0, 2.0, 5.0], [2.0, 3.0, 5.0]);
        let values: Vec<f64> = a.iter().chain(&b).copied().collect();
        let ranks = double_midranks(&values);
        let seen: usize = ranks[4..].iter().sum();
        let mut sums = Vec::new();
        for i in 0..7 {
            for j in i + 1..7 {
                for k in j + 1..7 {
                    sums.push(ranks[i] + ranks[j] + ranks[k]);
                }
            }
        }
        let share = |hit: &dyn Fn(usize) -> bool| sums.iter().filter(|&&s| hit(s)).count() as f64 / sums.len() as f64;
        let tested = mann_whitney(&a, &b);
        assert!(close(tested.greater, share(&|s| s >= seen)), "{tested:?}");
        assert!(close(tested.less, share(&|s| s <= seen)), "{tested:?}");
    }

    #[test]
    fn nothing_proves_nothing() {
        assert_eq!(mann_whitney(&[], &[1.0]).two_sided, 1.0);
        assert_eq!(mann_whitney(&[1.0], &[2.0]).smallest_two_sided, 1.0);
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 5]).smallest_two_sided, 1.0);
        assert_eq!(shift(&[], &[1.0]), None);
    }

    #[test]
    fn many_values_agree_with_few() {
        let run = |n: usize| {
            let a: Vec<f64> = (0..n).map(|i| ((i * 37) % 101) as f64 + 0.5 * (i as f64)).collect();
            let b: Vec<f64> = (0..n).map(|i| ((i * 53) % 97) as f64 + 0.5 * (i as f64) + 9.0).collect();
            (a, b)
        };
        let (a, b) = run(50);
        let ranks = double_midranks(&a.iter().chain(&b).copied().collect::<Vec<_>>());
        let seen: usize = ranks[50..].iter().sum();
        let (exact, normal) = (exact(&ranks, 50, seen), normal(&ranks, 50, seen));
        assert!((exact.0 - normal.0).abs() < 2e-3 && (exact.1 - normal.1).abs() < 2e-3, "{exact:?} {normal:?}");
        let (a, b) = run(60);
        assert!(mann_whitney(&a, &b).two_sided < 1.0);
        let same = mann_whitney(&[2.0; 80], &[2.0; 80]);
        assert_eq!((same.two_sided, same.smallest_two_sided), (1.0, 1.0));
    }

    #[test]
    fn shifts_resist_one_wild_value() {
        assert_eq!(shift(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0]), Some(1.0));
        assert!(shift(&[1.0, 2.0, 3.0, 2.0], &[2.0, 3.0, 4.0, 1e9]).is_some_and(|s| s < 2.0));
    }
}
