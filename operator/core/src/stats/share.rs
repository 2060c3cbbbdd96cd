//! Intervals of a share, from a number of trials.

use statrs::distribution::{Beta, ContinuousCDF};

/// Two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Ends of the 95 % interval of the share of which `hits` of `trials` were seen (Wilson, "Probable Inference, the Law of Succession, and
/// Statistical Inference"). `trials` is at least 1.
pub fn wilson(hits: usize, trials: usize) -> [f64; 2] {
    let (n, share) = (trials as f64, hits as f64 / trials as f64);
    let centre = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    [(centre - half).max(0.0), (centre + half).min(1.0)]
}

/// One-sided upper bound, at error `alpha`, of the share of which `hits` of `trials` were seen (Clopper and Pearson 1934).
pub fn upper_share(hits: usize, trials: usize, alpha: f64) -> f64 {
    if hits >= trials {
        return 1.0;
    }
    let beta = Beta::new((hits + 1) as f64, (trials - hits) as f64);
    beta.map_or(1.0, |beta| beta.inverse_cdf(1.0 - alpha))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_by_hand() {
        // 81 of 100: (0.81 + 3.8416 / 200 +- 1.96 sqrt(0.81 * 0.19 / 100 + 3.8416 / 40000)) / 1.038416
        let [low, high] = wilson(81, 100);
        assert!((low - 0.722_2).abs() < 1e-4 && (high - 0.874_9).abs() < 1e-4, "{low} {high}");
        let [low, high] = wilson(5, 100);
        assert!((low - 0.021_54).abs() < 1e-4 && (high - 0.111_75).abs() < 1e-4, "{low} {high}");
    }
}
