//! Runs that are too good to be true. No slow run is held: stalls are what is measured.

use super::{Gated, drop_runs, finding};
use crate::gates::Code;
use crate::gates::plausible::{FACTOR, REPEATED};
use crate::import::comparison::Comparison;
use crate::import::data::{Name, RunKey};
use crate::stats::{Direction, Scale, median};
use crate::verdict::Purpose;

/// Runs that a message names one by one.
const NAMED: usize = 3;

const WHAT_TO_DO: &str = "Check whether these runs did all their work. Such a value counts once three runs repeat it \
                          and a work column shows that they did the same work.";

/// A run that is far better than all others of its scenario counts once its config repeats it with equal work.
pub(super) fn check(comparison: &Comparison<'_>, scenario: Name, worked: bool, gated: &mut Gated) {
    for (rule, metric) in comparison.rules.iter().enumerate() {
        // Differences have no factor.
        if metric.purpose != Purpose::Objective || metric.scale != Scale::Log {
            continue;
        }
        let counted: Vec<(RunKey, f64)> = comparison
            .arms()
            .flat_map(|arm| comparison.runs(scenario, arm))
            .filter(|(key, _)| !gated.excluded.contains(*key))
            .filter_map(|(key, run)| Some((*key, run.value(rule)?)))
            .collect();
        let Some(standard) = Standard::of(&counted, comparison.baseline, metric.direction) else { continue };
        for arm in comparison.arms() {
            let own = || counted.iter().copied().filter(move |(key, _)| key.config == arm);
            let worse: Vec<(RunKey, f64)> = own().filter(|(_, value)| standard.is_far_worse(*value)).collect();
            let better: Vec<(RunKey, f64)> = own().filter(|(_, value)| standard.is_far_better(*value)).collect();
            let about = format!("{} of {} in {}", metric.name, comparison.text(arm), comparison.text(scenario));
            if !worse.is_empty() {
                let runs = standard.ratios(&worse);
                gated.notes.push(format!("{about} is more than {FACTOR} times worse in {runs}; slow runs count."));
            }
            if better.len() >= REPEATED && worked {
                let runs = standard.ratios(&better);
                gated.notes.push(format!(
                    "{about} is more than {FACTOR} times better in {runs}, with equal work; repeated, so kept."
                ));
            } else if !better.is_empty() {
                let message = format!("{about} is {}", standard.places(&better, comparison));
                let found = finding(Code::Implausible, message, WHAT_TO_DO);
                let keys: Vec<RunKey> = better.iter().map(|(key, _)| *key).collect();
                gated.held.extend(keys.iter().copied());
                drop_runs(comparison, scenario, arm, &keys, found, false, gated);
            }
        }
    }
}

/// What a run is far from.
struct Standard {
    direction: Direction,
    /// Of all runs of the scenario.
    median: f64,
    /// Slow configs must not make the baseline look too good, nor what is as good as it is.
    baseline: f64,
}

impl Standard {
    /// `None` where there is none: nothing is a multiple of zero.
    fn of(counted: &[(RunKey, f64)], baseline: Name, direction: Direction) -> Option<Self> {
        let middle = |wanted: &dyn Fn(&RunKey) -> bool| {
            let values: Vec<f64> = counted.iter().filter(|(key, _)| wanted(key)).map(|(_, value)| *value).collect();
            median(&values).filter(|median| *median > 0.0)
        };
        let median = middle(&|_| true)?;
        let baseline = middle(&|key| key.config == baseline).unwrap_or(median);
        Some(Self { direction, median, baseline })
    }

    /// How many times better than another a value is.
    fn gain(&self, value: f64, other: f64) -> f64 {
        match self.direction {
            Direction::Higher => value / other,
            Direction::Lower => other / value,
        }
    }

    /// A zero is no multiple of anything, so it is never too good.
    fn is_far_better(&self, value: f64) -> bool {
        value > 0.0 && self.gain(value, self.median) > FACTOR && self.gain(value, self.baseline) > FACTOR
    }

    fn is_far_worse(&self, value: f64) -> bool {
        self.gain(value, self.median) < 1.0 / FACTOR
    }

    fn ratio(&self, value: f64) -> String {
        if value == 0.0 { "0".to_owned() } else { format!("{:.2}", value / self.median) }
    }

    /// Runs in words, each with its number.
    fn ratios(&self, runs: &[(RunKey, f64)]) -> String {
        let ratios: Vec<String> = runs.iter().take(NAMED).map(|(_, value)| self.ratio(*value)).collect();
        let count = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
        let more = if runs.len() > NAMED { ", ..." } else { "" };
        format!("{count} ({}{more} times the median of all runs)", ratios.join(", "))
    }

    /// The same with their places.
    fn places(&self, runs: &[(RunKey, f64)], comparison: &Comparison<'_>) -> String {
        let at = |key: &RunKey| comparison.data.at(comparison.data.runs[key].place);
        let named: Vec<String> = runs
            .iter()
            .take(NAMED)
            .map(|(key, value)| format!("{} times the median of all runs at {}", self.ratio(*value), at(key)))
            .collect();
        let more = if runs.len() > NAMED { format!(" and {} more", runs.len() - NAMED) } else { String::new() };
        named.join(", ") + &more
    }
}
