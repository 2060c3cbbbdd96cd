//! Rules that a judgement must not be, applied to the same runs.

use assay_core::stats::ALPHA;

use super::Ended;

/// The rule of a spreadsheet: 5 % more in the mean of some scenario.
pub fn means_win(ended: &Ended) -> bool {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    ended.values.iter().any(|(baseline, configs)| configs.iter().any(|runs| mean(runs) > 1.05 * mean(baseline)))
}

/// The right test without the correction for many configs and several looks.
pub fn uncorrected_win(ended: &Ended) -> bool {
    ended.standings.overall.iter().any(|found| found.metrics[0].p.better <= ALPHA)
}
