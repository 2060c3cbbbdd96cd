//! How much worse one version is than another, by the blocks of both.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

use super::Paired;

/// Loss in a block whose later version failed, larger than any measured loss. The negative stands for a failure of the earlier version.
pub const WORST: f64 = 1e9;

/// Losses of blocks in which both runs ended.
pub fn measured_losses(losses: &[f64]) -> Vec<f64> {
    losses.iter().copied().filter(|loss| loss.abs() < WORST).collect()
}

/// The mean of some losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Positive: worse.
    pub mean: f64,
    pub standard_error: f64,
    pub blocks: usize,
}

impl Shift {
    /// The Hodges-Lehmann estimate of the losses that were measured, with its standard error; `None` below two blocks.
    pub fn of(losses: &[f64]) -> Option<Self> {
        let losses = measured_losses(losses);
        let paired = paired(&losses)?;
        let (mean, blocks) = (paired.estimate()?, losses.len());
        Some(Self { mean, standard_error: paired.sd_block()? / (blocks as f64).sqrt(), blocks })
    }

    /// It without these parts of it.
    #[must_use]
    pub fn without<'a>(&self, parts: impl Iterator<Item = &'a Self>) -> Self {
        let less = |rest: Self, part: &Self| Self {
            mean: rest.mean - part.mean,
            standard_error: rest.standard_error.hypot(part.standard_error),
            ..rest
        };
        parts.fold(*self, less)
    }

    /// Its one-sided 95 % lower bound.
    pub fn low(&self) -> f64 {
        let quantile = Normal::new(0.0, 1.0).map_or(f64::INFINITY, |normal| normal.inverse_cdf(0.95));
        self.mean - quantile * self.standard_error
    }
}

/// p of the exact test that the losses are larger than `limit`.
pub fn exceeds(losses: &[f64], limit: f64) -> f64 {
    paired(losses).map_or(1.0, |paired| paired.tails(limit).up)
}

/// Lower bound of the losses by the same test, at this error; `None` if there are too few blocks for one.
pub fn at_least(losses: &[f64], error: f64) -> Option<f64> {
    paired(losses)?.interval(1.0 - 2.0 * error).low
}

/// p of the exact test that they are smaller.
pub fn is_below(losses: &[f64], limit: f64) -> f64 {
    paired(losses).map_or(1.0, |paired| paired.tails(limit).down)
}

/// The standard deviation of blocks, at its 80 % upper bound: a search that believes in less noise than there is errs often. `None` below
/// two blocks.
pub fn spread(losses: &[f64]) -> Option<f64> {
    let losses = measured_losses(losses);
    let freedom = losses.len().checked_sub(1)? as f64;
    let quantile = ChiSquared::new(freedom).ok()?.inverse_cdf(0.2);
    Some(paired(&losses)?.sd_block()? * (freedom / quantile).sqrt())
}

fn paired(losses: &[f64]) -> Option<Paired> {
    Paired::new(losses.to_vec(), vec![0.0; losses.len()], 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_the_spread_is_that_of_sixteen_blocks() {
        let losses: Vec<f64> = (0..16).map(|number| f64::from(number % 2)).collect();
        let sd = (16.0 * 0.25 / 15.0_f64).sqrt();
        let factor = spread(&losses).unwrap() / sd;
        // 15 over the 20 % quantile of chi-square with 15 degrees of freedom, 10.3070.
        assert!((factor - 1.206_4).abs() < 1e-4, "{factor}");
        assert_eq!((spread(&[]), spread(&[0.1])), (None, None));
        assert_eq!((Shift::of(&[0.1]), Shift::of(&[f64::NAN, 0.1])), (None, None));
    }

    #[test]
    fn a_loss_is_proven_by_unanimous_blocks_only() {
        let losses = [0.03, 0.02, 0.04, 0.035, 0.025, 0.03];
        assert_eq!(exceeds(&losses, 0.005), 1.0 / 64.0);
        assert_eq!(exceeds(&losses, 0.05), 1.0);
        let bound = at_least(&losses, 0.05).unwrap();
        assert!(exceeds(&losses, bound - 1e-6) <= 0.05 && exceeds(&losses, bound + 1e-6) > 0.05, "{bound}");
        assert_eq!(at_least(&losses, 0.01), None);
        assert_eq!(is_below(&losses, 0.05), 1.0 / 64.0);
        assert_eq!(exceeds(&[], 0.0), 1.0);
    }

    #[test]
    fn a_block_whose_run_failed_is_the_worst_and_has_no_size() {
        let losses = [0.0, 0.001, -0.001, 0.002, -0.002, WORST, WORST, WORST, WORST, WORST, WORST];
        assert!(exceeds(&losses, 0.005) < 0.06, "{}", exceeds(&losses, 0.005));
        assert!(is_below(&losses, 0.015) > 0.3);
        assert!(Shift::of(&losses).unwrap().mean.abs() < 0.001 && spread(&losses).unwrap() < 0.01);
        assert_eq!((Shift::of(&[WORST; 8]), exceeds(&[WORST; 8], 0.0)), (None, 1.0 / 256.0));
        assert_eq!(is_below(&[-WORST; 8], 0.0), 1.0 / 256.0);
    }

    #[test]
    fn what_remains_is_known_less_well() {
        let part = |mean| Shift { mean, standard_error: 0.003, blocks: 16 };
        let total = Shift { mean: 0.05, standard_error: 0.004, blocks: 16 };
        let rest = total.without([part(0.02), part(0.01)].iter());
        assert!((rest.mean - 0.02).abs() < 1e-12, "{rest:?}");
        assert!((rest.standard_error - (16e-6 + 18e-6_f64).sqrt()).abs() < 1e-12, "{rest:?}");
        assert!((rest.low() - (0.02 - 1.644_854 * rest.standard_error)).abs() < 1e-6, "{rest:?}");
    }
}
