use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Paired;

/// Limits of an effect; `None` where the blocks are too few to bound it at this level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// Bisection may stop here: measurements do not have this many digits.
const WIDTH: f64 = 1e-10;

/// Halving can't go on for ever when the numbers are so large that `WIDTH` is below their resolution.
const STEPS: usize = 60;

impl Paired {
    /// The effects that the test does not reject at `1 - level`, half of it on each side ("Interval"). Costs a few
    /// milliseconds at 30 blocks of 4 + 1 runs, so callers ask for it only where it is shown.
    pub fn interval(&self, level: f64) -> Interval {
        let each_side = (1.0 - level) / 2.0;
        let Some(center) = self.estimate() else {
            return Interval { low: None, high: None };
        };
        let differences = self.differences();
        let lowest = differences.iter().copied().fold(f64::INFINITY, f64::min) - 1.0;
        let highest = differences.iter().copied().fold(f64::NEG_INFINITY, f64::max) + 1.0;
        // The second test is only worth its time where the first one rejects.
        let kept_above = |effect| {
            self.signed_rank(effect).up > each_side
                || self.aligned_rank(effect).is_some_and(|tails| tails.up > each_side)
        };
        let kept_below = |effect| {
            self.signed_rank(effect).down > each_side
                || self.aligned_rank(effect).is_some_and(|tails| tails.down > each_side)
        };
        Interval { low: boundary(lowest, center, kept_above), high: boundary(highest, center, kept_below) }
    }
}

/// Where `kept` changes between an end and the center; `None` if the end itself is kept.
fn boundary(end: f64, center: f64, kept: impl Fn(f64) -> bool) -> Option<f64> {
    if kept(end) {
        return None;
    }
    let (mut outside, mut inside) = (end, center);
    for _ in 0..STEPS {
        let middle = f64::midpoint(outside, inside);
        if kept(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
        if (inside - outside).abs() < WIDTH {
            break;
        }
    }
    Some(f64::midpoint(outside, inside))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
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
}
