//! What everybody should know of a verdict whose trials had no CPUs of their own.

use std::fmt::Write as _;

use assay_protocol::Summary;

use super::{FOREIGN, STEAL, unknown};
use crate::gates::view::View;
use crate::gates::{Findings, Gate, Label, Unknown};

/// From here on foreign writes are mentioned. They never invalidate: a journal or late write-back of our own pages is not
/// told from other writers, and next to a trial that only reads any byte is a large share.
const FOREIGN_WRITES_PERCENT: f64 = 10.0;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let runs: Vec<&Summary> = view.completed().iter().map(|&trial| view.summary(trial)).collect();
    let worst = |value: fn(&Summary) -> Option<f64>| {
        let seen = runs.iter().filter_map(|run| value(run));
        seen.fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))))
    };
    if let Some(share) = worst(|s| s.storage.foreign_write_percent).filter(|&share| share > FOREIGN_WRITES_PERCENT) {
        let text = format!("Other programs may have written up to {share:.0} % of the bytes that went to the disk.");
        findings.note(Gate::Isolated, None, text);
    }
    if view.experiment.require_exclusive_cpus || runs.is_empty() {
        return;
    }
    // What is unknown of a share stands beside it, with the runs that it is unknown of: the number is of the others.
    let shown = |value: fn(&Summary) -> Option<f64>| {
        let unknown = runs.iter().filter(|run| value(run).is_none()).count();
        match worst(value) {
            None => "unknown".to_owned(),
            Some(percent) if unknown == 0 => format!("{percent:.1} %"),
            Some(percent) => format!("{percent:.1} % (unknown in {unknown} of {} runs)", runs.len()),
        }
    };
    let mut text = format!(
        "The trials' CPUs were not reserved. Highest share of CPU time in any run: other processes {}, steal {}.",
        shown(|s| s.disturbance.foreign_cpu_percent),
        shown(|s| s.disturbance.steal_percent),
    );
    let mut others = Unknown::default();
    for run in &runs {
        // The first two stand with their shares.
        others.add(unknown(run).into_iter().filter(|what| ![FOREIGN, STEAL].contains(what)));
    }
    if others.runs() > 0 {
        let _ = write!(text, " Unknown in {} of {} runs: {}.", others.runs(), runs.len(), others.names().join(", "));
    }
    findings.labels.insert(Label::NotIsolated, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::testing::{experiment, gated_with, gated_with_all};

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
             0.0 % (unknown in 1 of 16 runs)."
        );
    }

    fn label(change: impl Fn(&mut Summary)) -> String {
        let mut experiment = experiment();
        experiment.require_exclusive_cpus = false;
        gated_with_all(&experiment, change).labels[&Label::NotIsolated].clone()
    }

    /// Each unknown is said of the runs that it is unknown of, and never of those with a number.
    #[test]
    fn nothing_is_unknown_of_runs_that_show_it() {
        let said = label(|s| {
            s.disturbance.foreign_cpu_percent = (s.trial.block > 1).then_some(20.0);
            s.placement.whole_cores = None;
            if s.trial.block == 0 {
                s.placement.stable = None;
            }
        });
        let expected = "other processes 20.0 % (unknown in 4 of 16 runs), steal 0.0 %. Unknown in 16 of 16 runs: \
                        CPU affinity (2 runs), hyper-threads of the used cores.";
        assert!(said.ends_with(expected), "{said}");
        let said = label(|s| s.disturbance.foreign_cpu_percent = None);
        assert!(said.ends_with("other processes unknown, steal 0.0 %."), "{said}");
    }

    /// A share that is plain to see is not called unknown because a smaller one would be.
    #[test]
    fn a_coarse_clock_hides_only_what_is_small() {
        let coarse = |foreign: f64| {
            label(move |s| {
                s.disturbance.foreign_cpu_percent = Some(foreign);
                s.disturbance.foreign_cpu_resolution_percent = Some(8.0);
            })
        };
        assert!(coarse(87.9).ends_with("other processes 87.9 %, steal 0.0 %."), "{}", coarse(87.9));
        let hidden = "other processes 7.0 %, steal 0.0 %. Unknown in 16 of 16 runs: use by others too small for the \
                      kernel's counters.";
        assert!(coarse(7.0).ends_with(hidden), "{}", coarse(7.0));
    }

    #[test]
    fn foreign_writes_are_told_above_a_tenth() {
        let told = |percent: f64| -> Vec<String> {
            let gated = gated_with(&experiment(), 1, |s| s.storage.foreign_write_percent = Some(percent));
            gated.notes.into_iter().map(|note| note.text).collect()
        };
        assert_eq!(told(10.0), [""; 0]);
        assert_eq!(told(12.0), ["Other programs may have written up to 12 % of the bytes that went to the disk."]);
    }
}
