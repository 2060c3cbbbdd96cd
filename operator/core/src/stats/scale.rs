use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which way of a metric is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    Higher,
    Lower,
}

/// How two values of a metric are compared: by their ratio, or by their difference where zero is a legal value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Scale {
    #[default]
    Log,
    Linear,
}

/// Why a number can't enter the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmeasurable {
    #[error("is not a finite number")]
    NotFinite,
    #[error("is negative, but the metric is on a log scale")]
    Negative,
    /// Legal where a metric can be nothing at all, but it has no logarithm.
    #[error("is zero, which has no logarithm")]
    Zero,
    #[error("is beyond 1e100")]
    TooLarge,
}

/// Sums and squares of transformed values must stay finite; no metric of a storage engine comes near.
const LARGEST: f64 = 1e100;

impl Scale {
    /// The value on the scale on which differences are effects and more is better ("Effects").
    pub fn transform(self, direction: Direction, value: f64) -> Result<f64, Unmeasurable> {
        if !value.is_finite() {
            return Err(Unmeasurable::NotFinite);
        }
        if value.abs() > LARGEST {
            return Err(Unmeasurable::TooLarge);
        }
        let scaled = match self {
            Self::Log if value == 0.0 => return Err(Unmeasurable::Zero),
            Self::Log if value < 0.0 => return Err(Unmeasurable::Negative),
            Self::Log => value.ln(),
            Self::Linear => value,
        };
        Ok(match direction {
            Direction::Higher => scaled,
            Direction::Lower => -scaled,
        })
    }

    /// A declared margin as an effect: 0.05 on a log scale is ln 1.05 ("Effects").
    pub fn margin(self, margin: f64) -> f64 {
        match self {
            Self::Log => margin.ln_1p(),
            Self::Linear => margin,
        }
    }

    /// An effect in percent of the baseline; a difference has no percentage ("Effects").
    pub fn percent(self, effect: f64) -> Option<f64> {
        match self {
            Self::Log => Some(100.0 * effect.exp_m1()),
            Self::Linear => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_always_better_after_the_transform() {
        let up = Scale::Log.transform(Direction::Higher, 2.0);
        let down = Scale::Log.transform(Direction::Lower, 0.5);
        assert_eq!(up, down);
        assert_eq!(Scale::Linear.transform(Direction::Lower, 0.25), Ok(-0.25));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Scale::Linear.transform(Direction::Higher, value), Err(Unmeasurable::NotFinite));
        }
        assert_eq!(Scale::Log.transform(Direction::Higher, 0.0), Err(Unmeasurable::Zero));
        assert_eq!(Scale::Log.transform(Direction::Higher, -1.0), Err(Unmeasurable::Negative));
        assert_eq!(Scale::Linear.transform(Direction::Higher, 0.0), Ok(0.0));
        assert_eq!(Scale::Linear.transform(Direction::Higher, 1e200), Err(Unmeasurable::TooLarge));
        assert_eq!(Scale::Linear.transform(Direction::Lower, 1e100), Ok(-1e100));
        assert_eq!(Scale::Linear.transform(Direction::Higher, -1.001e100), Err(Unmeasurable::TooLarge));
    }

    #[test]
    fn margins_and_percentages_are_inverse() {
        assert_eq!(Scale::Log.percent(Scale::Log.margin(0.05)).map(|p| (p * 1e9).round()), Some(5e9));
        assert_eq!(Scale::Linear.percent(0.3), None);
    }
}
