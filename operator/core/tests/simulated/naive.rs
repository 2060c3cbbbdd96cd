//! Rules that a judgement must not be, applied to the same runs.

use assay_core::stats::ALPHA;

use super::Ended;

/// The rule of a spreadsheet: 5 % more in the mean of some scenario.
pub fn means_win(ended: &Ended) -> bool {
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
        sum / f64::from(count)
    };
    ended.observed.samples.iter().map(|rows| &rows[0]).any(|samples| {
        let baseline = mean(&mut samples.baseline.iter().flatten().flatten().copied());
        samples.configs.iter().any(|runs| mean(&mut runs.iter().flatten().copied()) > 1.05 * baseline)
    })
}

/// The right test without the correction for many configs and several looks.
pub fn uncorrected_win(ended: &Ended) -> bool {
    ended.judgement.overall.iter().any(|found| found.conclusion.metrics[0].p.better <= ALPHA)
}
