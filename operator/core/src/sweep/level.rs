//! Where a series stands, of nights that each know their own error and differ by more than that.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::stats::Interval;

/// Measured nights below which a level is provisional: `Learning`.
pub const LEARNED: usize = 5;

/// The largest correlation of neighbouring nights that is believed: beyond it, a few nights say nothing of a level.
const MOST_CORRELATED: f64 = 0.8;

/// The mean of some nights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// On the scale of the effects.
    pub mean: f64,
    /// What nights differ by is part of it.
    pub standard_error: f64,
    /// Open where there is a single night.
    pub interval95: Interval,
    pub nights: usize,
    /// How far the true effects of nights scatter: a standard deviation.
    pub between_nights: f64,
}

impl Level {
    /// The level of nights in order, each with its effect and its standard error; none without a night ("Nightly series").
    ///
    /// Random effects: a night's variance is its own and that between nights. The latter is what the scatter of nights exceeds their own
    /// errors by (Hedges, "A random effects model for effect sizes", 1983): it needs no weights, so an error of zero does no harm. The error of
    /// the mean is Knapp and Hartung's (2003), never below what the variances say (Röver, Knapp and Friede, 2015): five nights are few. It
    /// is larger where neighbouring nights are alike ([`correlated`]).
    pub fn of(nights: &[(f64, f64)]) -> Option<Self> {
        let n = nights.len() as f64;
        let average = |of: &dyn Fn(&(f64, f64)) -> f64| nights.iter().map(of).sum::<f64>() / n;
        let (plain, own) = (average(&|(effect, _)| *effect), average(&|(_, error)| error * error));
        if nights.is_empty() {
            return None;
        }
        let scatter = nights.iter().map(|(effect, _)| (effect - plain).powi(2)).sum::<f64>();
        let between = if nights.len() > 1 { (scatter / (n - 1.0) - own).max(0.0) } else { 0.0 };
        // Errors of few blocks are rough themselves: none is so small that its night counts for all.
        let variance = |error: f64| (error * error + between).max(own / 4.0);
        if nights.iter().all(|(_, error)| variance(*error) == 0.0) {
            let interval95 = interval(plain, 0.0, nights.len());
            return Some(Self {
                mean: plain,
                standard_error: 0.0,
                interval95,
                nights: nights.len(),
                between_nights: 0.0,
            });
        }
        let weights: Vec<f64> = nights.iter().map(|(_, error)| 1.0 / variance(*error)).collect();
        let total: f64 = weights.iter().sum();
        let mean = nights.iter().zip(&weights).map(|((effect, _), weight)| weight * effect).sum::<f64>() / total;
        let seen: f64 = nights.iter().zip(&weights).map(|((effect, _), weight)| weight * (effect - mean).powi(2)).sum();
        let around: Vec<f64> = nights.iter().map(|(effect, _)| effect - mean).collect();
        let excess = if nights.len() > 1 { (seen / (n - 1.0) * correlated(&around)).max(1.0) } else { 1.0 };
        let standard_error = (excess / total).sqrt();
        Some(Self {
            mean,
            standard_error,
            interval95: interval(mean, standard_error, nights.len()),
            nights: nights.len(),
            between_nights: between.sqrt(),
        })
    }

    /// Too few nights to rely on it.
    pub fn is_learning(&self) -> bool {
        self.nights < LEARNED
    }

    /// The level moved by that of a bridge. Its interval is as wide as if both knew no more than the one that knows less.
    #[must_use]
    pub fn moved(&self, by: &Self) -> Self {
        let (mean, nights) = (self.mean + by.mean, self.nights.min(by.nights));
        let standard_error = self.standard_error.hypot(by.standard_error);
        Self { mean, standard_error, interval95: interval(mean, standard_error, nights), nights, ..*self }
    }
}

/// Factor of the variance of a mean whose values follow each other, given what they deviate by: (1 + r) / (1 - r), where r is how neighbours
/// correlate (Bartlett, "On the Theoretical Specification and Sampling Properties of Autocorrelated Time-Series", 1946). Few values show too
/// little of it, by (1 + 3 r) / n (Kendall, "Note on Bias in the Estimation of Autocorrelation", 1954): that is added, and half a standard
/// error, or intervals would hold the truth too rarely.
fn correlated(around: &[f64]) -> f64 {
    let squares: f64 = around.iter().map(|own| own * own).sum();
    if around.len() < 3 || squares == 0.0 {
        return 1.0;
    }
    let n = around.len() as f64;
    let seen = around.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares;
    let correlation = (seen + (1.0 + 3.0 * seen) / n + 0.5 / n.sqrt()).clamp(0.0, MOST_CORRELATED);
    (1.0 + correlation) / (1.0 - correlation)
}

/// The 95 % interval of a mean of so many, by Student's t; open where there is but one.
pub(super) fn interval(mean: f64, error: f64, count: usize) -> Interval {
    match StudentsT::new(0.0, 1.0, count.saturating_sub(1) as f64) {
        Ok(t) => {
            let half = t.inverse_cdf(0.975) * error;
            Interval { low: Some(mean - half), high: Some(mean + half) }
        }
        Err(_) => Interval { low: None, high: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::testing::Noise;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_level_weighs_nights_and_knows_their_scatter() {
        let nights = [(0.02, 0.01), (0.03, 0.01), (-0.01, 0.02), (0.05, 0.01), (0.01, 0.01)];
        let level = Level::of(&nights).unwrap();
        // Sample variance 0.0005, mean of the own variances 0.00016.
        let between: f64 = 0.000_5 - 0.000_16;
        assert!(close(level.between_nights, between.sqrt()), "{level:?}");
        let (usual, wide) = (1.0 / (0.000_1 + between), 1.0 / (0.000_4 + between));
        let mean = (usual * 0.11 - wide * 0.01) / (4.0 * usual + wide);
        assert!(close(level.mean, mean), "{level:?}");
        assert!(level.standard_error >= (1.0 / (4.0 * usual + wide)).sqrt());
        // t with 4 degrees of freedom.
        let half = level.interval95.high.unwrap() - level.mean;
        assert!(close(half / level.standard_error, 2.776_445_105_197_79), "{level:?}");
        assert!(!level.is_learning() && Level::of(&nights[..4]).unwrap().is_learning());
    }

    /// Of many segments, the share whose interval holds the truth; nights scatter by `between` beyond their own errors of 1 %.
    #[test]
    fn intervals_hold_the_truth_even_after_five_nights() {
        type Ends = fn(&[(f64, f64)]) -> (f64, f64);
        let held = |between: f64, interval: Ends| {
            let mut noise = Noise::new(9);
            let holds = |_: &u32| {
                let night = |_| (0.05 + 0.01_f64.hypot(between) * noise.normal(), 0.01);
                let nights: Vec<(f64, f64)> = (0..5).map(night).collect();
                let (low, high) = interval(&nights);
                (low..=high).contains(&0.05)
            };
            (0..2000).filter(holds).count() as f64 / 2000.0
        };
        let ours: Ends = |nights| {
            let Interval { low, high } = Level::of(nights).unwrap().interval95;
            (low.unwrap(), high.unwrap())
        };
        for between in [0.0, 0.005, 0.01, 0.03] {
            let share = held(between, ours);
            assert!(share >= 0.935, "{share} at {between}");
        }
        // The nights' own errors alone promise too much.
        let naive: Ends = |nights| {
            let mean = nights.iter().map(|(effect, _)| effect).sum::<f64>() / 5.0;
            (mean - 1.96 * 0.01 / 5.0_f64.sqrt(), mean + 1.96 * 0.01 / 5.0_f64.sqrt())
        };
        assert!(held(0.01, naive) < 0.88, "{}", held(0.01, naive));
    }

    /// Nights of an own error of 1 % and a night effect of as much, which is half of that of the night before.
    #[test]
    fn intervals_hold_the_truth_if_nights_follow_each_other() {
        let mut noise = Noise::new(11);
        for count in [5, 10, 14, 30, 90] {
            let mut holds = |_: &u32| {
                let mut effect = noise.normal();
                let mut night = |_| {
                    effect = 0.5 * effect + 0.75_f64.sqrt() * noise.normal();
                    (0.01 * (effect + noise.normal()), 0.01)
                };
                let nights: Vec<(f64, f64)> = (0..count).map(&mut night).collect();
                let Interval { low, high } = Level::of(&nights).unwrap().interval95;
                (low.unwrap()..=high.unwrap()).contains(&0.0)
            };
            let share = (0..2000).filter(&mut holds).count() as f64 / 2000.0;
            assert!(share >= 0.9, "{share} of {count} nights");
        }
    }

    #[test]
    fn equal_nights_without_scatter_have_their_own_error() {
        let level = Level::of(&[(0.02, 0.01); 4]).unwrap();
        assert!(
            close(level.mean, 0.02) && close(level.standard_error, 0.005) && level.between_nights == 0.0,
            "{level:?}"
        );
    }

    #[test]
    fn few_nights_and_errors_of_zero_are_no_trouble() {
        assert_eq!(Level::of(&[]), None);
        let single = Level::of(&[(0.1, 0.02)]).unwrap();
        assert!(close(single.standard_error, 0.02) && single.interval95.low.is_none(), "{single:?}");
        let nothing = Level::of(&[(0.0, 0.0); 6]).unwrap();
        assert_eq!((nothing.mean, nothing.standard_error, nothing.interval95.high), (0.0, 0.0, Some(0.0)));
        // A night that claims to be exact does not decide alone.
        let one = Level::of(&[(0.0, 0.01), (0.0, 0.01), (0.0, 0.01), (0.01, 0.0)]).unwrap();
        assert!(one.mean < 0.007 && one.standard_error > 0.0, "{one:?}");
        let exact = Level::of(&[(0.0, 0.0), (0.1, 0.0), (0.2, 0.0)]).unwrap();
        assert!(close(exact.mean, 0.1) && exact.between_nights > 0.09, "{exact:?}");
    }

    #[test]
    fn a_moved_level_knows_less_than_either() {
        let (level, bridge) = (Level::of(&[(0.02, 0.01); 9]).unwrap(), Level::of(&[(-0.05, 0.01); 7]).unwrap());
        let moved = level.moved(&bridge);
        assert!(close(moved.mean, -0.03) && moved.standard_error > level.standard_error && moved.nights == 7);
        assert!(moved.interval95.high.unwrap() - moved.mean > 2.4 * moved.standard_error);
    }
}
