use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::rank::{double_midranks, tie_round};

/// P value of Kruskal and Wallis, "Use of Ranks in One-Criterion Variance Analysis": whether values of all groups come from the same
/// place ("Order"). By the chi-square distribution, so groups should have five values or more. Empty groups do not count;
/// `None` with fewer than two others, or if all values are equal.
pub fn kruskal_wallis(groups: &[Vec<f64>]) -> Option<f64> {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    if groups.len() < 2 {
        return None;
    }
    let pooled: Vec<f64> = groups.iter().flat_map(|group| group.iter().map(|&x| tie_round(x))).collect();
    let ranks: Vec<f64> = double_midranks(&pooled).into_iter().map(|twice| twice as f64 / 2.0).collect();
    let n = pooled.len() as f64;
    let middle = f64::midpoint(n, 1.0);
    let scatter: f64 = ranks.iter().map(|rank| (rank - middle).powi(2)).sum();
    if scatter == 0.0 {
        return None;
    }
    let mut rest = &ranks[..];
    let mut between = 0.0;
    for group in &groups {
        let (own, others) = rest.split_at(group.len());
        let size = group.len() as f64;
        between += size * (own.iter().sum::<f64>() / size - middle).powi(2);
        rest = others;
    }
    // With the observed scatter of ranks instead of that without ties, this is corrected for ties.
    let h = (n - 1.0) * between / scatter;
    let chi_squared = ChiSquared::new((groups.len() - 1) as f64).ok()?;
    Some(chi_squared.sf(h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Ranks 1 2 3 | 4 5 6: H = 12 / (6 7) (2^2 3 + 5^2 3) - 3 7 = 27/7 at one degree of freedom.
        let p = kruskal_wallis(&[vec![1.0, 2.0, 3.0], vec![], vec![4.0, 5.0, 6.0]]).unwrap();
        assert!((p - 0.049_534_6).abs() < 1e-6, "{p}");
        // Ties share their rank and the scatter shrinks: ranks 1.5 1.5 3 | 4 5.5 5.5.
        let tied = kruskal_wallis(&[vec![1.0, 1.0, 2.0], vec![3.0, 4.0, 4.0]]).unwrap();
        // Groups have mean ranks 2 and 5 around 3.5; single ranks are 2, 2, 0.5, 0.5, 2 and 2 from there.
        let h = 5.0 * (2.0 * 3.0 * 1.5_f64.powi(2)) / (4.0 * 2.0_f64.powi(2) + 2.0 * 0.5_f64.powi(2));
        let expected = ChiSquared::new(1.0).unwrap().sf(h);
        assert!((tied - expected).abs() < 1e-12, "{tied} {expected}");
    }

    #[test]
    fn equal_groups_show_nothing_and_single_ones_are_no_question() {
        assert!(kruskal_wallis(&[vec![1.0, 4.0], vec![2.0, 3.0]]).unwrap() > 0.9);
        assert_eq!(kruskal_wallis(&[vec![1.0, 2.0], vec![]]), None);
        assert_eq!(kruskal_wallis(&[vec![1.0], vec![1.0]]), None);
        assert_eq!(kruskal_wallis(&[]), None);
    }
}
