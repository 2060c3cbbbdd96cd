//! The evidence that a series has moved, night by night ("Detection").

use crate::stats::median;

/// Nights that a change needs before and behind it: fewer show no scatter, and a single bad night is no change.
pub const BEFORE: usize = 3;
pub const AFTER: usize = 2;
/// Only so many of the latest nights can be the first bad one.
const WINDOW: usize = 60;
/// Variance of the prior on the size of a change, in that of a night of weight 1 (Gönen and others, "The Bayesian Two-Sample t Test", 2005).
const PRIOR: f64 = 4.0;
/// Nights after which values are clipped, and how far from the median of the latest: three standard deviations of normal nights, and more
/// while there are few, which show their scatter badly.
const CLIPPED_AFTER: usize = 5;
const CLIP: f64 = 3.0 * 1.4826;
const FEW: f64 = 10.0;
/// How much of the usual variance is added to that of a night. Errors of a few blocks are themselves uncertain: weights that trust them
/// treble false suspicions.
const SHRUNK: f64 = 2.0;
/// Nights on either side by whose differences from one to the next the scatter around a night is estimated, the fewest differences for that,
/// and the variance, in that of the usual night, from which it counts.
const NEAR: usize = 20;
const FEWEST: usize = 4;
const RESTLESS: f64 = 1.2;
/// Residuals that are this small a part of all squares are rounding errors.
const ROUNDING: f64 = 1e-12;

/// What a night says of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Positive is better.
    pub effect: f64,
    pub standard_error: f64,
}

/// The nights of one level of a series, and the evidence of a change in them. It knows no night before it comes: what it says of a
/// night never changes later.
#[derive(Clone, Debug, Default)]
pub struct Detector {
    nights: Vec<Kept>,
    /// All standard errors in order.
    errors: Vec<f64>,
    /// The first night that may still be a first bad one.
    from: usize,
    evidence: Evidence,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    effect: f64,
    /// As it was clipped when it came.
    clipped: f64,
    error: f64,
    /// Variance of the nights around it; 0 while too few are known.
    variance: f64,
}

/// What speaks for a change in one of the latest nights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Nights that may be the first after a change, in order.
    pub candidates: Vec<Candidate>,
    /// Logarithm of the sum of their likelihood ratios.
    pub log_sum: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its place among the nights, counted from 0.
    pub night: usize,
    /// Logarithm of the likelihood ratio: a change before this night against none.
    pub log_likelihood: f64,
    /// Mean of the nights from this one on, minus that of those before it, as they were measured.
    pub shift: f64,
    /// The nights on either side are all equal: nothing shows by how much chance moves them.
    pub is_constant: bool,
}

impl Evidence {
    /// The statistic of Shiryaev and Roberts: the sum of all likelihood ratios.
    pub fn sum(&self) -> f64 {
        if self.candidates.is_empty() { 0.0 } else { self.log_sum.exp() }
    }

    /// The share of a candidate in it.
    pub fn share(&self, candidate: &Candidate) -> f64 {
        (candidate.log_likelihood - self.log_sum).exp()
    }

    pub fn most_likely(&self) -> Option<&Candidate> {
        self.candidates.iter().max_by(|a, b| a.log_likelihood.total_cmp(&b.log_likelihood))
    }
}

impl Detector {
    pub fn of(nights: impl IntoIterator<Item = Value>) -> Self {
        let mut detector = Self::default();
        for night in nights {
            detector.add(night);
        }
        detector
    }

    /// The next measured night. Numbers that are not finite or beyond 1e100 are no measurement, and change nothing.
    pub fn add(&mut self, night: Value) {
        let Value { effect, standard_error: error } = night;
        if !(-1e100..=1e100).contains(&effect) || !(0.0..=1e100).contains(&error) {
            return;
        }
        let clipped = self.clipped(effect);
        self.nights.push(Kept { effect, clipped, error, variance: 0.0 });
        for own in self.nights.len().saturating_sub(NEAR + 1)..self.nights.len() {
            self.nights[own].variance = self.variance_around(own);
        }
        let place = self.errors.partition_point(|own| *own < error);
        self.errors.insert(place, error);
        self.evidence = self.weigh(|night| night.clipped);
    }

    /// From now on only nights to come can be a first bad one, because the change that was suspected is none. All nights still count as
    /// those before it.
    pub fn restart(&mut self) {
        self.from = self.nights.len();
        self.evidence = Evidence::default();
    }

    pub fn nights(&self) -> usize {
        self.nights.len()
    }

    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The same by what was measured: when a change was, if there is one. Clipped, the first nights after a large one look like those before
    /// it.
    pub fn measured(&self) -> Evidence {
        self.weigh(|night| night.effect)
    }

    /// A value no further from the latest nights than nights usually are. Those are taken as they were measured: clipped ones would
    /// never let a level go.
    fn clipped(&self, effect: f64) -> f64 {
        if self.nights.len() < CLIPPED_AFTER {
            return effect;
        }
        let latest = &self.nights[self.nights.len().saturating_sub(WINDOW)..];
        let mut values: Vec<f64> = latest.iter().map(|night| night.effect).collect();
        let center = median(&values).unwrap_or(effect);
        for value in &mut values {
            *value = (*value - center).abs();
        }
        match median(&values) {
            // Of nights most of which are equal, nothing says what is far.
            None | Some(0.0) => effect,
            Some(spread) => {
                let room = CLIP * spread * (1.0 + (FEW / latest.len() as f64).powi(2));
                effect.clamp(center - room, center + room)
            }
        }
    }

    /// Half of the mean square of differences between successive nights, without the largest: that may be a change.
    fn variance_around(&self, night: usize) -> f64 {
        let around = &self.nights[night.saturating_sub(NEAR)..self.nights.len().min(night + NEAR + 1)];
        let squares = around.windows(2).map(|pair| (pair[1].effect - pair[0].effect).powi(2));
        let (sum, largest) = squares.fold((0.0, 0.0), |(sum, largest), own| (sum + own, f64::max(largest, own)));
        let count = around.len() - 1;
        if count < FEWEST { 0.0 } else { f64::max(sum - largest, 0.0) / (2 * (count - 1)) as f64 }
    }

    /// How much more than usual the nights around each scatter, as a ratio of variances; 1 where they don't.
    fn restlessness(&self) -> Vec<f64> {
        let mut known: Vec<f64> = self.nights.iter().map(|night| night.variance).filter(|own| *own > 0.0).collect();
        if known.is_empty() {
            return vec![1.0; self.nights.len()];
        }
        let middle = known.len() / 2;
        let usual = *known.select_nth_unstable_by(middle, f64::total_cmp).1;
        self.nights.iter().map(|night| f64::max(night.variance / usual / RESTLESS, 1.0)).collect()
    }

    /// Weights of the nights, with a mean of 1. A night counts less if its own error is large, or if the nights around it scatter more than
    /// usual. If most claim to be exact, errors say nothing.
    fn weights(&self) -> Vec<f64> {
        let middle = self.errors.len() / 2;
        let usual = match (self.errors.len().is_multiple_of(2), self.errors.get(middle)) {
            (true, Some(upper)) => f64::midpoint(self.errors[middle - 1], *upper),
            (_, middle) => middle.copied().unwrap_or_default(),
        };
        // In units of the usual error, so that no square leaves the range of numbers.
        let of_error = |night: &Kept| if usual == 0.0 { 1.0 } else { (night.error / usual).powi(2) + SHRUNK };
        let restlessness = self.restlessness();
        let mut weights: Vec<f64> =
            self.nights.iter().zip(restlessness).map(|(night, own)| 1.0 / (of_error(night) * own)).collect();
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        for weight in &mut weights {
            *weight /= mean;
        }
        weights
    }

    /// The likelihood ratio of every candidate.
    fn weigh(&self, value: impl Fn(&Kept) -> f64) -> Evidence {
        let count = self.nights.len();
        let last = (count + 1).saturating_sub(AFTER);
        let first = self.from.max(BEFORE).max(last.saturating_sub(WINDOW));
        if first >= last {
            return Evidence::default();
        }
        let weights = self.weights();
        let sum = |of: &dyn Fn(&Kept) -> f64| -> f64 {
            self.nights.iter().zip(&weights).map(|(night, weight)| weight * of(night)).sum()
        };
        // Counted from the first night: equal ones are then exactly nothing apart.
        let base = value(&self.nights[0]);
        let (total, center) = (count as f64, sum(&|night| value(night) - base) / count as f64);
        let squares = sum(&|night| (value(night) - base - center).powi(2));
        let measured = sum(&|night| night.effect);
        let freedom = total - 2.0;
        let mut candidates = Vec::with_capacity(last - first);
        // Of the nights before the candidate: weight, deviations from the center, effects.
        let (mut before, mut deviations, mut effects) = (0.0, 0.0, 0.0);
        for (place, (night, weight)) in self.nights.iter().zip(&weights).enumerate().take(last) {
            if place >= first {
                let after = total - before;
                let size = before * after / total;
                // Deviations of all nights add up to nothing.
                let shift = -deviations / after - deviations / before;
                let between = shift * shift * size;
                let residual = (squares - between).max(0.0);
                let is_constant = residual <= ROUNDING * squares;
                candidates.push(Candidate {
                    night: place,
                    log_likelihood: log_likelihood(size, freedom, between, if is_constant { 0.0 } else { residual }),
                    shift: (measured - effects) / after - effects / before,
                    is_constant,
                });
            }
            before += weight;
            deviations += weight * (value(night) - base - center);
            effects += weight * night.effect;
        }
        let largest = candidates.iter().map(|own| own.log_likelihood).fold(f64::NEG_INFINITY, f64::max);
        let scaled: f64 = candidates.iter().map(|own| (own.log_likelihood - largest).exp()).sum();
        Evidence { candidates, log_sum: largest + scaled.ln() }
    }
}

/// The two-sample t Bayes factor of a change, whatever the level and the scatter. `size`: how much the two sides weigh together.
pub(super) fn log_likelihood(size: f64, freedom: f64, between: f64, residual: f64) -> f64 {
    let prior = 1.0 + PRIOR * size;
    let gain = match (between > 0.0, residual > 0.0) {
        (false, _) => 0.0,
        // Its limit where the sides do not scatter at all.
        (true, false) => prior.ln(),
        (true, true) => {
            let ratio = between / residual;
            ratio.ln_1p() - (ratio / prior).ln_1p()
        }
    };
    0.5 * ((freedom + 1.0) * gain - prior.ln())
}
