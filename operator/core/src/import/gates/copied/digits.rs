//! How finely a metric was recorded.

/// Significant digits in which values have to agree before that says anything.
pub(super) const DIGITS: usize = 5;

/// A value rounded to so many significant digits.
pub(super) fn rounded(value: f64, digits: usize) -> String {
    format!("{value:.*e}", digits - 1)
}

/// Whether values of this size that were recorded this finely have five significant digits. Counts below 10000 have not, and neither
/// have rates that were computed from a clock with few digits, however many digits were printed.
pub(super) fn are_fine(values: &[f64]) -> bool {
    let mut sorted: Vec<f64> = values.iter().map(|value| value.abs()).filter(|value| *value > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(&middle) = sorted.get(sorted.len() / 2) else { return false };
    // A step of one in the last of so many digits.
    let limit = 0.1_f64.powf(DIGITS as f64 - 1.0);
    let inverse: Vec<f64> = sorted.iter().rev().map(|value| 1.0 / value).collect();
    printed_step(&sorted) <= limit * middle
        && !on_a_grid(&sorted, limit * middle)
        && !on_a_grid(&inverse, limit / middle)
}

/// The step between neighbouring values as they are written: that of the last digit that any of them has.
fn printed_step(values: &[f64]) -> f64 {
    let step = |value: &f64| -> f64 {
        let text = value.to_string();
        let power = match text.split_once('.') {
            Some((_, places)) => -(places.len() as f64),
            None => text.chars().rev().take_while(|c| *c == '0').count() as f64,
        };
        10.0_f64.powf(power)
    };
    values.iter().map(step).fold(f64::INFINITY, f64::min)
}

/// Whether all distances between sorted values are multiples of a step that is longer than `limit`.
fn on_a_grid(sorted: &[f64], limit: f64) -> bool {
    // What conversions leave of equal values.
    const SAME: f64 = 1e-9;
    let mut gaps: Vec<f64> =
        sorted.windows(2).filter(|pair| pair[1] - pair[0] > SAME * pair[1]).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    // Few distances are multiples of something by chance, unless they have to be nearly exact.
    let tolerance = if gaps.len() < 6 { 0.02 } else { 0.1 };
    let most = if gaps.len() < 3 { 4.0 } else { f64::INFINITY };
    let Some(least) = gaps.first().filter(|_| gaps.len() > 1) else { return false };
    let mut parts = 1.0;
    while parts <= most && least / parts > limit {
        if are_multiples(&gaps, least / parts, tolerance) {
            return true;
        }
        parts += 1.0;
    }
    false
}

fn are_multiples(gaps: &[f64], mut step: f64, tolerance: f64) -> bool {
    let (mut length, mut steps) = (0.0, 0.0);
    gaps.iter().all(|gap| {
        let times = (gap / step).round();
        let is_multiple = (gap / step - times).abs() <= tolerance;
        // Long distances tell the step better than short ones.
        (length, steps) = (length + gap, steps + times);
        step = length / steps;
        is_multiple
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_significant_digits() {
        assert_eq!(rounded(123_456.0, DIGITS), rounded(123_464.9, DIGITS));
        assert_ne!(rounded(123_456.0, DIGITS), rounded(123_476.0, DIGITS));
        assert_eq!(rounded(0.001_234_56, DIGITS), "1.2346e-3");
    }

    #[test]
    fn counts_and_few_digits_are_not_fine() {
        for coarse in [
            &[1200.0, 1210.0, 1204.0][..],
            &[1.07, 0.95, 0.92],
            &[182_000.0, 183_000.0, 191_000.0],
            &[0.0, 0.0],
            &[12.5, 12.25, 13.75],
            &[],
        ] {
            assert!(!are_fine(coarse), "{coarse:?}");
        }
        for fine in [
            &[182_934.0, 181_202.0, 185_377.0, 180_041.0][..],
            &[1.072_31, 0.953_84, 0.921_07, 0.988_11],
            &[1234.5, 1230.1, 1251.9, 1199.4],
            &[4821.77],
        ] {
            assert!(are_fine(fine), "{fine:?}");
        }
    }

    #[test]
    fn a_coarse_clock_shows_behind_many_digits() {
        let rates = |times: &[f64]| -> Vec<f64> { times.iter().map(|time| 5_000_000.0 / time).collect() };
        assert!(!are_fine(&rates(&[12.3, 12.5, 12.4, 12.4, 12.3])));
        assert!(!are_fine(&rates(&[62.31, 62.89, 61.97, 62.55, 62.31, 63.02, 62.44, 61.80, 62.71])));
        // As printed without decimals.
        let printed: Vec<f64> =
            rates(&[62.3, 62.9, 61.7, 62.5, 62.3, 63.0, 62.4, 61.8]).iter().map(|r| r.round()).collect();
        assert!(!are_fine(&printed), "{printed:?}");
        // Nanoseconds are fine.
        assert!(are_fine(&rates(&[62.318_271_66, 62.893_442_1, 61.971_203_3, 62.552_871_9, 63.021_77, 62.448_12])));
    }
}
