use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{null::Tails, rank::median};

/// Whether something happens to one arm's run of a block more often than to the others: per block, whether it did to the arm's run and to
/// each of the `others` others. Under the null it is as likely to have been any of them ("Attrition"; the exact test of Mantel and Haenszel,
/// "Statistical Aspects of the Analysis of Data from Retrospective Studies").
pub fn uneven(blocks: impl Iterator<Item = (bool, Vec<bool>)>, others: usize) -> Tails {
    uneven_at_odds(blocks.map(|(own, rest)| (own, rest, 1.0)), others)
}

/// Extends [`uneven`] to an arm's run whose odds are a known multiple of another run's. If the event hit m runs of a block, the arm's is
/// one of them with probability `odds m / (odds m + others + 1 - m)`.
pub fn uneven_at_odds(blocks: impl Iterator<Item = (bool, Vec<bool>, f64)>, others: usize) -> Tails {
    // Probabilities of how often it happened to the arm.
    let (mut chances, mut observed) = (vec![1.0], 0);
    for (own, rest, odds) in blocks.filter(|(_, rest, _)| rest.len() == others) {
        observed += usize::from(own);
        let happened = usize::from(own) + rest.iter().filter(|other| **other).count();
        let (own, rest) = (odds * happened as f64, (others + 1 - happened) as f64);
        let share = own / (own + rest);
        chances.push(0.0);
        for count in (0..chances.len()).rev() {
            let before = if count > 0 { chances[count - 1] } else { 0.0 };
            chances[count] = (1.0 - share) * chances[count] + share * before;
        }
    }
    let sum = |chances: &[f64]| chances.iter().sum::<f64>().min(1.0);
    Tails { up: sum(&chances[observed..]), down: sum(&chances[..=observed]) }
}

/// P(a config fails at least as often as it did), given the failures of both arms (Fisher's exact test, one-sided; "Failures").
/// Arguments are failed and successful runs.
pub fn fisher_greater(config: (u32, u32), baseline: (u32, u32)) -> f64 {
    splits(config, baseline).filter(|(failed, _)| *failed >= config.0).map(|(_, p)| p).sum::<f64>().min(1.0)
}

/// How the failures of both arms could have been split between them, by the config's, each with its probability.
fn splits(config: (u32, u32), baseline: (u32, u32)) -> impl Iterator<Item = (u32, f64)> {
    let failures = u64::from(config.0) + u64::from(baseline.0);
    let runs = u64::from(config.0) + u64::from(config.1);
    let total = runs + u64::from(baseline.0) + u64::from(baseline.1);
    // Logarithms, because the counts themselves would overflow.
    let mut ln_factorial = vec![0.0];
    let mut sum = 0.0;
    for i in 1..=total {
        sum += (i as f64).ln();
        ln_factorial.push(sum);
    }
    let ln_choose =
        move |n: u64, k: u64| ln_factorial[n as usize] - ln_factorial[k as usize] - ln_factorial[(n - k) as usize];
    let ways = ln_choose(total, failures);
    let fewest = failures.saturating_sub(total - runs);
    (fewest..=failures.min(runs))
        .map(move |x| (x as u32, (ln_choose(runs, x) + ln_choose(total - runs, failures - x) - ways).exp()))
}

/// Median absolute deviation of normal noise of standard deviation 1: its upper quartile.
const NORMAL_MAD: f64 = 0.674_489_750_196_081_7;

/// Distance of each value's logarithm from the median, in units that are standard deviations under normal noise (Iglewicz and
/// Hoaglin, "How to Detect and Handle Outliers"). Values must be positive. Where more than half of the values are equal,
/// any other is infinitely far.
pub fn robust_z(values: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = values.iter().map(|x| x.ln()).collect();
    let Some(center) = median(&logs) else {
        return Vec::new();
    };
    let distances: Vec<f64> = logs.iter().map(|x| (x - center).abs()).collect();
    let mad = median(&distances).unwrap_or(0.0);
    logs.iter()
        .map(|x| {
            let distance = x - center;
            if distance == 0.0 { 0.0 } else { NORMAL_MAD * distance / mad }
        })
        .collect()
}

/// The distance that the [`robust_z`] of `n` values of normal noise exceed with probability `alpha` each, about. A median absolute deviation
/// of few values is often small by chance, as if it had about half of their degrees of freedom; with that, the limit is a quantile of
/// Student's t. It is on the safe side: simulated, 32 runs in four arms of 8 exceed it at 1 % in all in 0.4 % of experiments.
pub fn robust_limit(n: usize, alpha: f64) -> f64 {
    let freedom = (n as f64 / 2.0 - 1.0).max(1.0);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - alpha / 2.0))
}

/// What a set of runs of one scenario says about each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plausibility {
    pub median: f64,
    /// Positions of the runs that are further from the median than the factor.
    pub flagged: Vec<usize>,
}

/// Runs, pooled over blocks, that are more than `factor` times above or below the median ("Implausible runs"). `None` for no runs.
pub fn implausible(values: &[f64], factor: f64) -> Option<Plausibility> {
    let median = median(values)?;
    let far = |x: f64| {
        let distance = (x / median).ln().abs();
        // No distance at all, as from a value below zero, is not a plausible one.
        distance.is_nan() || distance > factor.ln()
    };
    let flagged = values.iter().enumerate().filter(|&(_, &x)| far(x)).map(|(i, _)| i).collect();
    Some(Plausibility { median, flagged })
}

/// 1 - q is not exact in binary: p90 of 1000 operations has 99.999... above it and must count as 100.
const ROUNDING: f64 = 1e-6;

/// Whether a run of `operations` has `tail` observations above its quantile `q` ("Quantiles").
pub fn supports_quantile(operations: u64, q: f64, tail: u64) -> bool {
    operations as f64 * (1.0 - q) + ROUNDING >= tail as f64
}

/// Fewest operations with `tail` observations above the quantile `q`; `None` if no number has (q = 1).
pub fn operations_for_quantile(q: f64, tail: u64) -> Option<u64> {
    (q < 1.0).then(|| (tail as f64 / (1.0 - q) - ROUNDING).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fisher_by_hand() {
        // Two of two against none of two: one way of six.
        assert!((fisher_greater((2, 0), (0, 2)) - 1.0 / 6.0).abs() < 1e-12);
        assert!((fisher_greater((0, 5), (3, 2)) - 1.0).abs() < 1e-12);
        assert_eq!(fisher_greater((0, 0), (0, 0)), 1.0);
        assert!((fisher_greater((3, 0), (5, 0)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn uneven_by_hand() {
        let blocks = |own: usize, other: usize, both: usize| {
            let of = |own, other, count| std::iter::repeat_n((own, vec![other]), count);
            uneven(of(true, false, own).chain(of(false, true, other)).chain(of(true, true, both)), 1)
        };
        // The sign test: blocks in which it happened to both, or to neither, say nothing.
        assert_eq!(blocks(5, 0, 7), Tails { up: 1.0 / 32.0, down: 1.0 });
        assert_eq!(blocks(0, 3, 0), Tails { up: 1.0, down: 0.125 });
        assert_eq!(blocks(1, 1, 0).up, 0.75);
        // Of three runs each it was always the same: 3^-4.
        let three = (0..4).map(|_| (true, vec![false, false]));
        assert!((uneven(three, 2).up - 1.0 / 81.0).abs() < 1e-15);
        // Three times the odds: 3 of 4 ways.
        let at_odds = |own: bool| uneven_at_odds([(own, vec![!own], 3.0), (true, vec![true], 3.0)].into_iter(), 1);
        assert_eq!((at_odds(true).up, at_odds(false).down), (0.75, 0.25));
        // A block without all of its runs compares nothing.
        assert_eq!(uneven([(true, vec![])].into_iter(), 1), Tails { up: 1.0, down: 1.0 });
    }

    #[test]
    fn equal_values_are_not_outliers() {
        assert_eq!(robust_z(&[2.0, 2.0, 2.0]), [0.0; 3]);
        assert_eq!(robust_z(&[2.0, 2.0, 2.0, 4.0])[3], f64::INFINITY);
        assert!(robust_z(&[]).is_empty());
    }

    #[test]
    fn normal_noise_stays_within_its_limit() {
        // SplitMix64, and Box and Muller's way to normal numbers.
        let mut state = 7_u64;
        let mut uniform = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        let mut run = move || ((-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos() * 0.06).exp();
        for (arms, n) in [(4, 8), (4, 12), (4, 30)] {
            let limit = robust_limit(n, 0.01 / (arms * n) as f64);
            let mut odd = || {
                (0..arms).any(|_| robust_z(&(0..n).map(|_| run()).collect::<Vec<_>>()).iter().any(|z| z.abs() > limit))
            };
            let share = (0..2000).filter(|_| odd()).count();
            // 1 % are 20; all that is more than twice that is no chance.
            assert!(share <= 40, "{share} of 2000 experiments of {arms} arms of {n}");
        }
        assert!(robust_limit(8, 0.01 / 32.0) > 10.0 && robust_limit(30, 0.01 / 120.0) < 7.0);
    }

    #[test]
    fn limits_by_hand() {
        // Student's t of n/2 - 1 degrees of freedom, at least one. Above the upper quartile: tan(pi / 4) of one, 0.5 / sqrt(2 * 3/4 * 1/4) of two.
        for (n, limit) in [(0, 1.0), (4, 1.0), (6, 0.5 / 0.375_f64.sqrt())] {
            assert!((robust_limit(n, 0.5) - limit).abs() < 1e-6, "{n}: {}", robust_limit(n, 0.5));
        }
    }

    #[test]
    fn runs_that_did_no_work_are_flagged() {
        let seen = implausible(&[1.0, 1.2, 17.0, 0.9, 0.2, -1.0], 3.0).map(|p| p.flagged);
        assert_eq!(seen, Some(vec![2, 4, 5]));
        assert_eq!(implausible(&[], 3.0), None);
        // Four times the median of 8 and a quarter of it are not beyond a factor of four.
        let seen = implausible(&[8.0, 32.0, 8.0, 2.0, 33.0, 8.0, 1.9], 4.0);
        assert_eq!(seen, Some(Plausibility { median: 8.0, flagged: vec![4, 6] }));
    }

    #[test]
    fn quantiles_need_a_tail() {
        assert!(supports_quantile(1000, 0.9, 100));
        assert!(!supports_quantile(999, 0.9, 100));
        assert_eq!(operations_for_quantile(0.99, 100), Some(10_000));
        assert_eq!(operations_for_quantile(0.9, 100), Some(1000));
        assert_eq!(operations_for_quantile(1.0, 100), None);
    }
}
