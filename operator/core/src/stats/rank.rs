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

/// Median of the means of all pairs, each value paired with itself too (Hodges and Lehmann, "Estimates of Location Based on Rank Tests"), of
/// finite values.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    /// Of so many values it takes less to write all means down.
    const FEW: usize = 64;
    let pairs = values.len() * (values.len() + 1) / 2;
    if values.len() > FEW {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let upper = nth_mean(&sorted, pairs / 2);
        let lower = if pairs.is_multiple_of(2) { nth_mean(&sorted, pairs / 2 - 1) } else { upper };
        return Some(f64::midpoint(lower, upper));
    }
    let mut means = Vec::with_capacity(pairs);
    for (i, &a) in values.iter().enumerate() {
        means.extend(values[i..].iter().map(|&b| f64::midpoint(a, b)));
    }
    median_of(&mut means)
}

/// The mean of two of these values, which are in ascending order, that has so many below it. There may be millions, so they are counted and
/// not kept: it is the least number with more means up to it, and all numbers there are are searched in halves.
fn nth_mean(sorted: &[f64], below: usize) -> f64 {
    let Some((first, last)) = sorted.first().zip(sorted.last()) else { return f64::NAN };
    let (mut low, mut high) = (place(*first), place(*last));
    while low < high {
        let middle = (low & high) + ((low ^ high) >> 1);
        if means_up_to(sorted, at_place(middle)) > below {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    at_place(low)
}

/// How many pairs of these values, which are in ascending order, have a mean up to this one. The more one has, the less may the other.
fn means_up_to(sorted: &[f64], most: f64) -> usize {
    let (mut count, mut end) = (0, sorted.len());
    for (i, &a) in sorted.iter().enumerate() {
        while end > i && f64::midpoint(a, sorted[end - 1]).total_cmp(&most).is_gt() {
            end -= 1;
        }
        if end == i {
            break;
        }
        count += end - i;
    }
    count
}

/// The place of a number among all there are, in the order of `total_cmp`.
fn place(x: f64) -> i64 {
    let bits = x.to_bits().cast_signed();
    bits ^ ((bits >> 63) & i64::MAX)
}

/// The number at this place.
fn at_place(place: i64) -> f64 {
    f64::from_bits((place ^ ((place >> 63) & i64::MAX)).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn means_that_are_only_counted_are_those_that_were_written_down(
            mut values in prop::collection::vec(
                prop_oneof![-9.0..9.0, (-3..3).prop_map(f64::from), Just(-0.0), -1e-320..1e-320, -1e300..1e300],
                1..150,
            ),
        ) {
            let found = hodges_lehmann(&values);
            values.sort_unstable_by(f64::total_cmp);
            let mean_with = |(i, a): (usize, &f64)| values[i..].iter().map(|b| f64::midpoint(*a, *b)).collect::<Vec<_>>();
            let mut means: Vec<f64> = values.iter().enumerate().flat_map(mean_with).collect();
            prop_assert_eq!(found.map(f64::to_bits), median(&means).map(f64::to_bits));
            means.sort_unstable_by(f64::total_cmp);
            for below in [0, means.len() / 3, means.len() - 1] {
                prop_assert_eq!(nth_mean(&values, below).to_bits(), means[below].to_bits());
            }
        }
    }
}
