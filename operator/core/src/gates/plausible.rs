//! Plausible: a run that is far better than all others of its config is held until the config repeats it. No slow run is: stalls are what is
//! measured.

use std::collections::BTreeMap;

use super::view::View;
use super::{Code, Finding, Findings, Gate};
use crate::stats::{Direction, median};

/// Times above or below other runs.
pub(crate) const FACTOR: f64 = 3.0;
/// Blocks that have to show it before it counts as what the config does.
pub(crate) const REPEATED: usize = 3;
/// Fewer other runs than this have no middle to be far from.
const FEWEST_OTHERS: usize = 3;
const METRICS: [(&str, Direction); 2] = [("throughput", Direction::Higher), ("step_latency_mean", Direction::Lower)];
/// Runs that a note names one by one.
const NAMED: usize = 3;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    // Work is equal here: runs with other work are invalid already.
    let valid: Vec<usize> =
        view.completed().iter().copied().filter(|&trial| findings.trials[trial].is_empty()).collect();
    for (metric, direction) in METRICS {
        let mut arms: BTreeMap<(&str, &str), Vec<(usize, f64)>> = BTreeMap::new();
        for &trial in &valid {
            let summary = view.summary(trial);
            if let Some(&value) = summary.metrics.get(metric) {
                let arm = (summary.trial.scenario.as_str(), summary.trial.config.as_str());
                arms.entry(arm).or_default().push((trial, value));
            }
        }
        for ((scenario, config), runs) in arms {
            let Far { worse, better } = far(&runs, direction);
            if !worse.is_empty() {
                let text = format!(
                    "{metric} in {scenario} is more than {FACTOR} times worse in {}; slow runs count.",
                    numbers(&worse)
                );
                findings.note(Gate::Plausible, Some(config), text);
            }
            let mut blocks: Vec<u32> = better.iter().map(|(trial, _)| view.summary(*trial).trial.block).collect();
            blocks.sort_unstable();
            blocks.dedup();
            if blocks.len() >= REPEATED {
                let text = format!(
                    "{metric} in {scenario} is more than {FACTOR} times better in {} blocks; repeated, so kept.",
                    blocks.len()
                );
                findings.note(Gate::Plausible, Some(config), text);
            } else if !better.is_empty() {
                let text = format!(
                    "{metric} in {scenario} is more than {FACTOR} times better in {}; held back until {REPEATED} blocks show it.",
                    numbers(&better)
                );
                findings.note(Gate::Plausible, Some(config), text);
                for (trial, ratio) in better {
                    let message = format!("{metric} is {ratio:.2} times the median of the config's other runs");
                    findings.held.entry(trial).or_insert_with(|| Finding::new(Code::Implausible, message));
                }
            }
        }
    }
}

/// Runs that are far off the others, with their ratio to them.
#[derive(Default)]
struct Far {
    worse: Vec<(usize, f64)>,
    better: Vec<(usize, f64)>,
}

/// A few runs in words.
fn numbers(runs: &[(usize, f64)]) -> String {
    let ratios: Vec<String> = runs.iter().take(NAMED).map(|(_, ratio)| format!("{ratio:.2}")).collect();
    let more = if runs.len() > NAMED { ", ..." } else { "" };
    let count = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
    format!("{count} ({}{more} times the others' median)", ratios.join(", "))
}

fn far(runs: &[(usize, f64)], direction: Direction) -> Far {
    let mut far = Far::default();
    if runs.len() <= FEWEST_OTHERS {
        return far;
    }
    let mut sorted: Vec<f64> = runs.iter().map(|(_, value)| *value).collect();
    sorted.sort_by(f64::total_cmp);
    for &(trial, value) in runs {
        let Some(others) = median_without(&sorted, value) else { continue };
        let ratio = value / others;
        // No ratio at all, as from zero steps, is as far as can be.
        let (low, high) = (ratio.is_nan() || ratio < 1.0 / FACTOR, ratio > FACTOR);
        let (worse, better) = if direction == Direction::Higher { (low, high) } else { (high, low) };
        if worse {
            far.worse.push((trial, ratio));
        } else if better {
            far.better.push((trial, ratio));
        }
    }
    far
}

/// The median of sorted values but one.
fn median_without(sorted: &[f64], value: f64) -> Option<f64> {
    let skip = sorted.binary_search_by(|other| other.total_cmp(&value)).ok()?;
    let rest = sorted.len() - 1;
    let at = |i: usize| sorted[if i < skip { i } else { i + 1 }];
    if rest == 0 {
        return None;
    }
    median(&if rest % 2 == 1 { vec![at(rest / 2)] } else { vec![at(rest / 2 - 1), at(rest / 2)] })
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;

    use super::super::testing::{experiment, gated_with_all};
    use super::super::{Gated, TrialState};
    use super::*;

    fn with_throughput(value: impl Fn(u32) -> f64) -> Gated {
        gated_with_all(&experiment(), |s| {
            if s.trial.config == "candidate" {
                s.metrics.insert("throughput".to_owned(), value(s.trial.block));
            }
        })
    }

    fn held(gated: &Gated) -> usize {
        gated.trials.iter().filter(|state| matches!(state, TrialState::Held(_))).count()
    }

    #[test]
    fn three_runs_are_named_and_of_more_it_is_said_that_there_are() {
        let runs = [(0, 4.0), (1, 5.0), (2, 6.0), (3, 7.0)];
        assert_eq!(numbers(&runs[..1]), "1 run (4.00 times the others' median)");
        assert_eq!(numbers(&runs[..3]), "3 runs (4.00, 5.00, 6.00 times the others' median)");
        assert_eq!(numbers(&runs), "4 runs (4.00, 5.00, 6.00, ... times the others' median)");
    }

    #[test]
    fn once_is_held_and_three_times_is_kept() {
        assert_eq!(held(&with_throughput(|_| 1000.0)), 0);
        assert_eq!(held(&with_throughput(|block| if block == 0 { 3100.0 } else { 1000.0 })), 1);
        assert_eq!(held(&with_throughput(|block| if block == 0 { 2900.0 } else { 1000.0 })), 0);
        assert_eq!(held(&with_throughput(|block| if block < 2 { 3100.0 } else { 1000.0 })), 2);
        // Three times as much, and a third, are near enough.
        for (first, others) in [(3000.0, 1000.0), (1000.0, 3000.0)] {
            let gated = with_throughput(|block| if block == 0 { first } else { others });
            assert!(held(&gated) == 0 && gated.notes.is_empty(), "{:?}", gated.notes);
        }
        let kept = with_throughput(|block| if block < 3 { 3100.0 } else { 1000.0 });
        assert_eq!(held(&kept), 0);
        assert_eq!(kept.notes.len(), 1);
    }

    #[test]
    fn no_slow_run_is_held() {
        let slow = with_throughput(|block| if block < 2 { 25.0 } else { 1000.0 });
        assert_eq!(held(&slow), 0);
        assert_eq!(
            slow.notes.first().map(|note| note.text.as_str()),
            Some(
                "throughput in fill is more than 3 times worse in 2 runs (0.03, 0.03 times the others' median); slow \
                 runs count."
            )
        );
        assert_eq!(held(&with_throughput(|block| if block == 0 { 0.0 } else { 1000.0 })), 0);
    }

    #[test]
    fn latency_counts_as_well() {
        let gated = gated_with_all(&experiment(), |s| {
            if s.trial.config == "base" && s.trial.block == 4 {
                s.metrics.entry("step_latency_mean".to_owned()).and_modify(|latency| *latency /= 100.0);
            }
        });
        assert_eq!(held(&gated), 1);
    }

    #[test]
    fn invalid_runs_do_not_set_the_standard() {
        let gated = gated_with_all(&experiment(), |s: &mut Summary| {
            if s.trial.config == "candidate" && s.trial.block < 6 {
                s.metrics.insert("throughput".to_owned(), 10.0);
                s.disturbance.throttled_periods = Some(9);
            }
        });
        assert_eq!(held(&gated), 0);
    }

    #[test]
    fn medians_without_one() {
        assert_eq!(median_without(&[1.0, 2.0, 9.0], 2.0), Some(5.0));
        assert_eq!(median_without(&[1.0, 2.0, 9.0, 9.0], 1.0), Some(9.0));
        assert_eq!(median_without(&[1.0, 2.0, 9.0, 10.0], 10.0), Some(2.0));
        assert_eq!(median_without(&[1.0], 1.0), None);
    }
}
