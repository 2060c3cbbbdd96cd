//! Programs that ran beside the trials, by name, as records know them.

use std::fmt::Write as _;

use assay_protocol::{Neighbour, TrialRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TrialReport;
use super::setup::{Setup, UNKNOWN};
use crate::gates::Code;

/// The most that are named.
const NAMED: usize = 5;

/// A program that ran beside trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NeighbourFacts {
    pub name: String,
    /// Share of a window times the trial's CPUs, in percent, where it was highest.
    pub most_percent: u32,
    /// Attempts beside which it was seen.
    pub attempts: u32,
}

pub(super) fn add(known: &mut Vec<NeighbourFacts>, seen: &Neighbour) {
    let percent = seen.cpu_percent.round() as u32;
    match known.iter_mut().find(|known| known.name == seen.name) {
        Some(known) => {
            known.most_percent = known.most_percent.max(percent);
            known.attempts += 1;
        }
        None => known.push(NeighbourFacts { name: seen.name.clone(), most_percent: percent, attempts: 1 }),
    }
}

/// The busiest first.
pub(super) fn sort(known: &mut [NeighbourFacts]) {
    known.sort_by(|a, b| (b.most_percent, &a.name).cmp(&(a.most_percent, &b.name)));
}

/// Who ran beside the trials, as far as they could see. What is unknown is who: how much others took is known without their names.
pub(super) fn row(setup: &Setup) -> String {
    let attempts: u32 = setup.machines.iter().map(|machine| machine.attempts).sum();
    let Some(all) = &setup.neighbours else {
        return if attempts == 0 { UNKNOWN } else { "names unknown: runs saw no processes but their own" }.to_owned();
    };
    // One that ended before the window is in no record.
    let none = || "none that used 0.5 % of a run's CPU time and still ran at its end".to_owned();
    let mut text = named(all).unwrap_or_else(none);
    if setup.neighbours_unknown > 0 {
        let _ = write!(text, "; names unknown in {} of {attempts} runs", setup.neighbours_unknown);
    }
    text
}

/// The busiest, each with its highest share.
pub(super) fn named(all: &[NeighbourFacts]) -> Option<String> {
    let each = all.iter().take(NAMED).map(|one| {
        let attempts = if one.attempts == 1 { "1 run".to_owned() } else { format!("{} runs", one.attempts) };
        format!("{} (in {attempts}; at most {} % of its CPU time)", one.name, one.most_percent)
    });
    (!all.is_empty()).then(|| each.collect::<Vec<_>>().join(", "))
}

/// Says in an attempt's finding about others who they were, as its record knows them. Gates see summaries, which have no room for names.
pub fn name_neighbours(trial: &mut TrialReport, record: &TrialRecord) {
    let seen = record.evidence.disturbance.neighbours.as_deref().unwrap_or_default();
    let each: Vec<String> = seen.iter().map(|one| format!("{} {:.1} %", one.name, one.cpu_percent)).collect();
    if each.is_empty() {
        return;
    }
    for finding in trial.findings.iter_mut().filter(|finding| finding.code == Code::ForeignCpu) {
        let _ = write!(finding.message, ": {}", each.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::setup::tests::sample;

    #[test]
    fn neighbours_are_counted_by_name() {
        let seen = |name: &str, cpu_percent| Neighbour { name: name.to_owned(), cpu_percent };
        let mut known = Vec::new();
        for one in [seen("cargo", 3.2), seen("backup", 0.6), seen("cargo", 12.4)] {
            add(&mut known, &one);
        }
        let counted: Vec<_> = known.iter().map(|one| (one.name.as_str(), one.most_percent, one.attempts)).collect();
        assert_eq!(counted, [("cargo", 12, 2), ("backup", 1, 1)]);
        assert_eq!(
            row(&Setup { neighbours: Some(Vec::new()), ..Setup::default() }),
            "none that used 0.5 % of a run's CPU time and still ran at its end"
        );
    }

    /// A share of others may be known where their names are not: the row says which of the two is unknown, and of how many runs.
    #[test]
    fn unknown_names_are_said_to_be_names_and_counted() {
        let nowhere = Setup { neighbours: None, neighbours_unknown: 16, ..sample() };
        assert_eq!(row(&nowhere), "names unknown: runs saw no processes but their own");
        let some = row(&Setup { neighbours_unknown: 3, ..sample() });
        assert!(
            some.ends_with("backup (in 1 run; at most 1 % of its CPU time); names unknown in 3 of 16 runs"),
            "{some}"
        );
        assert_eq!(row(&Setup::default()), "unknown");
    }
}
