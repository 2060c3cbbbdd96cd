//! Postponed: compaction that is done all at once costs less than compaction that is done as it comes.
//!
//! After the window every config merges what the baseline's triggers call due. A config that put all of it off until then merges data once
//! that others merged several times; in use, it would have to merge more often, or read ever more files. So a config that puts off more than
//! the baseline gains nothing in what compaction costs. Like [`super::causal_path`], this looks at outcomes and can only take a Win away.

use std::collections::BTreeMap;

use assay_protocol::Summary;

use super::{Code, Finding};
use crate::stats::median;

/// In points ("Limits" in docs/gates.md).
pub(super) const POINTS: f64 = 10.0;

/// What compaction takes part in. Throughput has the time to drain beside it: `drained_throughput`.
const COSTS: [&str; 2] = ["write_amplification", "cpu_seconds_per_step"];

/// What the window put off, in percent of what it wrote, by scenario and config: medians, so that no single run decides. Where a run does not
/// know it, nobody does.
pub fn medians<'a>(runs: impl Iterator<Item = &'a Summary>) -> BTreeMap<(&'a str, &'a str), f64> {
    let mut all: BTreeMap<(&str, &str), Option<Vec<f64>>> = BTreeMap::new();
    for run in runs {
        let known = all.entry((&run.trial.scenario, &run.trial.config)).or_insert_with(|| Some(Vec::new()));
        match run.steady.postponed_percent {
            Some(percent) => known.iter_mut().for_each(|known| known.push(percent)),
            None => *known = None,
        }
    }
    all.into_iter().filter_map(|(cell, known)| Some((cell, median(&known?)?))).collect()
}

/// Why a gain of a config that puts off so much is none, beside a baseline that puts off so much.
pub fn void(name: &str, own: f64, baseline: f64) -> Option<Finding> {
    let hides = COSTS.contains(&name) && own - baseline > POINTS;
    hides.then(|| {
        let message = format!(
            "{name} gains, but of what its window wrote the config left {own:.0} % more unmerged than it had found, the baseline \
             {baseline:.0} %: merging it all at once costs less than merging it as it comes"
        );
        Finding::new(Code::Postponed, message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{experiment, summaries};
    use super::*;

    #[test]
    fn only_costs_of_a_config_that_puts_off_more_are_void() {
        let found = void("write_amplification", 61.0, 12.0);
        assert_eq!(found.as_ref().map(|found| found.code), Some(Code::Postponed));
        assert!(found.is_some_and(|found| {
            found.message.contains("left 61 % more unmerged than it had found, the baseline 12 %")
        }));
        assert!(void("cpu_seconds_per_step", -20.0, -31.0).is_some());
        assert_eq!(void("write_amplification", 22.0, 12.0), None, "a tenth is no more than the margin");
        assert_eq!(void("write_amplification", 12.0, 61.0), None, "who puts off less has no discount");
        assert_eq!(void("throughput", 100.0, 0.0), None, "it has a metric for what is left");
    }

    #[test]
    fn the_middle_run_counts_and_one_that_is_unknown_hides_the_others() {
        let mut runs = summaries(&experiment());
        for run in &mut runs {
            let percent = if run.trial.config == "candidate" { 50.0 } else { 5.0 };
            run.steady.postponed_percent = Some(if run.trial.block == 1 { 99.0 } else { percent });
        }
        let found = medians(runs.iter());
        assert_eq!(found.values().copied().collect::<Vec<_>>(), [5.0, 50.0]);
        for run in runs.iter_mut().filter(|run| run.trial.block == 2 && run.trial.config == "candidate") {
            run.steady.postponed_percent = None;
        }
        let found = medians(runs.iter());
        assert_eq!(found.values().copied().collect::<Vec<_>>(), [5.0]);
    }
}
