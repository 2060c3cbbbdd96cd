//! What everybody should know of a verdict whose trials had no CPUs of their own.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use assay_protocol::Summary;

use super::unknown;
use crate::gates::view::View;
use crate::gates::{Findings, Gate, Label};

/// From here on foreign writes are mentioned. They never invalidate: a journal or late write-back of our own pages is not
/// told from other writers, and next to a trial that only reads any byte is a large share.
const FOREIGN_WRITES_PERCENT: f64 = 10.0;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let worst = |value: fn(&Summary) -> Option<f64>| {
        view.completed()
            .iter()
            .filter_map(|&trial| value(view.summary(trial)))
            .fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))))
    };
    if let Some(share) = worst(|s| s.storage.foreign_write_percent).filter(|&share| share > FOREIGN_WRITES_PERCENT) {
        let text = format!("Other programs may have written up to {share:.0} % of the bytes that went to the disk.");
        findings.note(Gate::Isolated, None, text);
    }
    if view.experiment.require_exclusive_cpus || view.completed().is_empty() {
        return;
    }
    let shown = |percent: Option<f64>| percent.map_or("unknown".to_owned(), |percent| format!("{percent:.1} %"));
    let mut text = format!(
        "The trials' CPUs were not reserved. Highest share of CPU time in any run: other processes {}, steal {}.",
        shown(worst(|s| s.disturbance.foreign_cpu_percent)),
        shown(worst(|s| s.disturbance.steal_percent)),
    );
    let unknown: Vec<Vec<&str>> = view.completed().iter().map(|&trial| unknown(view.summary(trial))).collect();
    let runs = unknown.iter().filter(|what| !what.is_empty()).count();
    if runs > 0 {
        let what: BTreeSet<&str> = unknown.concat().into_iter().collect();
        let what = what.into_iter().collect::<Vec<_>>().join(", ");
        let _ = write!(text, " Unknown in {runs} of {} runs: {what}.", unknown.len());
    }
    findings.labels.insert(Label::NotIsolated, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::{experiment, gated_with};

    #[test]
    fn a_verdict_without_exclusive_cpus_says_so() {
        let mut experiment = experiment();
        experiment.require_exclusive_cpus = true;
        assert!(gated_with(&experiment, 1, |_| ()).labels.is_empty());
        experiment.require_exclusive_cpus = false;
        let gated = gated_with(&experiment, 1, |s| {
            s.disturbance.foreign_cpu_percent = Some(0.75);
            s.disturbance.steal_percent = None;
        });
        assert_eq!(
            gated.labels[&Label::NotIsolated],
            "The trials' CPUs were not reserved. Highest share of CPU time in any run: other processes 0.8 %, steal \
             0.0 %. Unknown in 1 of 16 runs: steal."
        );
    }
}
