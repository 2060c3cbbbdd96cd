//! Numbers and phrases that all outputs share.

use super::report::{ComparisonReport, ImportReport, Layout, Numbers};
use crate::report::number;
use crate::stats::Scale;
use crate::verdict::Verdict;

/// Two digits where that says something.
pub(super) fn probability(p: f64) -> String {
    if p >= 0.095 {
        format!("{p:.2}")
    } else if p >= 0.0001 {
        format!("{p:.4}")
    } else {
        "<0.0001".to_owned()
    }
}

pub(super) fn percent(percent: f64) -> String {
    if percent.abs() < 0.05 {
        "0.0 %".to_owned()
    } else if percent.abs() < 1000.0 {
        format!("{percent:+.1} %")
    } else {
        format!("{percent:+.0} %")
    }
}

/// The shift, or why there is none.
pub(super) fn shift(scale: Scale, numbers: &Numbers) -> String {
    let none = if numbers.has_zeros { "none (zeros)" } else { "unknown" };
    numbers.shift.map_or(none.to_owned(), |shift| number::effect(scale, shift))
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

pub(super) fn supported(verdict: Option<Verdict>, reason: &str) -> String {
    verdict.map_or_else(|| reason.to_owned(), |verdict| format!("{verdict:?} {reason}"))
}

/// How the runs were laid out.
pub(super) fn design(comparison: &ComparisonReport) -> String {
    match comparison.design {
        Layout::Blocked => format!(
            "blocked, {} blocks with {} of the baseline each (needed: {})",
            comparison.blocks,
            runs(comparison.baseline_replicates),
            comparison.fewest_blocks
        ),
        Layout::Unblocked => "unblocked (advisory)".to_owned(),
    }
}

/// What the columns of a report mean: `samples` are those of the runs as two samples.
pub(super) fn direction_note(report: &ImportReport, samples: bool) -> String {
    let mut note = "Positive is better in every column, for times too: +25 % means 1.25 times as fast.".to_owned();
    if report.comparisons.iter().any(|comparison| comparison.design == Layout::Blocked) {
        note += " Estimate describes the typical run, mean all runs together.";
    }
    if samples {
        note += " Shift describes the typical run; means are compared as they are. \"Best p\" is the smallest two-sided p \
                 possible with so few runs. \"Runs\" counts the config's and the baseline's runs with a value.";
    }
    note
}

/// Whether text shows runs as two samples: without blocks, and for claims.
pub(super) fn has_samples(report: &ImportReport) -> bool {
    let unblocked = report.comparisons.iter().any(|comparison| comparison.design == Layout::Unblocked);
    unblocked || report.claims.iter().any(|claim| claim.numbers.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_sign() {
        assert_eq!([1.0, 0.1, 0.0476, 1e-9].map(probability), ["1.00", "0.10", "0.0476", "<0.0001"]);
        assert_eq!([13.24, -0.01, -19.6, 1540.4].map(percent), ["+13.2 %", "0.0 %", "-19.6 %", "+1540 %"]);
    }
}
