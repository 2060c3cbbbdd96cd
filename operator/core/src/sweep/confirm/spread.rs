//! How much visits differ although they compare the same versions.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

use super::answer::Confirmation;
use super::visit::Asked;
use crate::stats::Shift;
use crate::sweep::history::History;

/// Chance that visits which differ by the noise of their blocks alone are said to differ.
const ERROR: f64 = 0.05;

/// How visits that compare the same versions differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spread {
    /// Cochran's Q and its degrees of freedom.
    q: f64,
    freedom: f64,
    /// Sum of variances between visits beyond that of their blocks, in squared margins, weighted by degrees of freedom.
    variance: f64,
}

impl History {
    /// Standard deviation of what moves all blocks of a visit alike, in parts of the margin, by the visits of all confirmations; 0 unless
    /// they surely differ.
    pub(super) fn visit_spread(&self) -> f64 {
        let (confirmations, recoveries) = (self.confirmations(), self.recoveries());
        let all = confirmations.values().chain(recoveries.values()).map(Spread::of);
        let sum = |a: Spread, b: Spread| Spread {
            q: a.q + b.q,
            freedom: a.freedom + b.freedom,
            variance: a.variance + b.variance,
        };
        let Spread { q, freedom, variance } = all.fold(Spread::default(), sum);
        let is_sure = ChiSquared::new(freedom).is_ok_and(|chi| chi.sf(q) <= ERROR);
        if is_sure { f64::max(variance / freedom, 0.0).sqrt() } else { 0.0 }
    }
}

impl Spread {
    /// The mean over the series of a confirmation: what moves one of them in a visit is likely to move all.
    fn of(confirmation: &Confirmation<'_>) -> Self {
        let asked = &confirmation.visit.series;
        let all: Vec<Self> = asked.iter().filter_map(|asked| Self::of_series(confirmation, asked)).collect();
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        Self { q: mean(|own| own.q), freedom: mean(|own| own.freedom), variance: mean(|own| own.variance) }
    }

    fn of_series(confirmation: &Confirmation<'_>, asked: &Asked) -> Option<Self> {
        let shifts = confirmation.losses(asked, confirmation.visits.len()).filter_map(Shift::of);
        let shifts: Vec<Shift> = shifts.filter(|own| own.standard_error > 0.0).collect();
        let freedom = shifts.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
        let weight = |own: &Shift| own.standard_error.powi(-2);
        let mean =
            shifts.iter().map(|own| weight(own) * own.mean).sum::<f64>() / shifts.iter().map(weight).sum::<f64>();
        let q = shifts.iter().map(|own| weight(own) * (own.mean - mean).powi(2)).sum();
        let center = shifts.iter().map(|own| own.mean).sum::<f64>() / shifts.len() as f64;
        let between = shifts.iter().map(|own| (own.mean - center).powi(2)).sum::<f64>();
        let own = shifts.iter().map(|own| own.standard_error.powi(2)).sum::<f64>() / shifts.len() as f64;
        Some(Self { q, freedom, variance: (between - freedom * own) / asked.margin.powi(2) })
    }
}

/// Largest error of the mean of visits that differ by `spread`, one-sided and at this level, in parts of the margin.
pub(super) fn room(spread: f64, visits: usize, error: f64) -> f64 {
    let quantile = Normal::new(0.0, 1.0).map_or(f64::INFINITY, |normal| normal.inverse_cdf(1.0 - error));
    if spread > 0.0 { quantile * spread / (visits as f64).sqrt() } else { 0.0 }
}
