/// Differences that agree to 1e-12 are ties ("Ties"): they come from equal measurements whose logarithms took different roundings.
/// Rounds half to even.
pub(super) fn tie_round(x: f64) -> f64 {
    const PER_UNIT: f64 = 1e12;
    // From here on a double has no digits below 1e-12, and the product would only add error.
    const COARSE: f64 = 9e3;
    if x.abs() >= COARSE {
        return x;
    }
    // Adding zero turns -0 into 0, which must not rank apart.
    (x * PER_UNIT).round_ties_even() / PER_UNIT + 0.0
}

/// Twice the midrank of each value among all, so that ranks of ties stay integers.
pub(super) fn double_midranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        // Ranks first+1 ..= first+len have the mean first + (len + 1) / 2.
        let rank = 2 * first + group.len() + 1;
        for &i in group {
            ranks[i] = rank;
        }
        first += group.len();
    }
    ranks
}

/// The median; the mean of the middle two for an even count; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    median_of(&mut values)
}

fn median_of(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    let lower = if even { below.iter().copied().max_by(f64::total_cmp) } else { None };
    Some(lower.map_or(upper, |lower| f64::midpoint(lower, upper)))
}

/// Median of the means of all pairs, each value paired with itself too (Hodges and Lehmann, "Estimates of Location Based on Rank Tests").
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, &a) in values.iter().enumerate() {
        means.extend(values[i..].iter().map(|&b| f64::midpoint(a, b)));
    }
    median_of(&mut means)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_middle_rank() {
        assert_eq!(double_midranks(&[3.0, 1.0, 3.0, 2.0]), [7, 2, 7, 4]);
        assert_eq!(double_midranks(&[]), [0; 0]);
    }

    #[test]
    fn rounding_makes_ties_of_noise_and_keeps_the_rest() {
        assert_eq!(tie_round(0.1 + 0.2), tie_round(0.3));
        assert_ne!(tie_round(1e-11), tie_round(2e-11));
        assert_eq!(tie_round(12_345.678), 12_345.678);
        assert!(tie_round(-1e-13).is_sign_positive());
        // What is rounded stays on the scale of what is not.
        assert_eq!((tie_round(0.25), tie_round(-1.5)), (0.25, -1.5));
        assert!(tie_round(8_999.5) < tie_round(9_000.5));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn hodges_lehmann_resists_one_wild_value() {
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 3.0, 1e9]), Some(2.75));
        assert_eq!(hodges_lehmann(&[]), None);
    }
}
