//! Shares, and how well a number of trials knows them.

/// Two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// 95 % interval of a share by Wilson, "Probable Inference, the Law of Succession, and Statistical Inference".
pub fn wilson(hits: usize, trials: usize) -> (f64, f64) {
    let (n, share) = (trials as f64, hits as f64 / trials as f64);
    let center = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((center - half).max(0.0), (center + half).min(1.0))
}
