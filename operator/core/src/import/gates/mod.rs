//! What makes imported runs unfit: the same gates as those over records, as far as such data allows.

mod attrition;
mod copied;
mod plausible;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::Comparison;
use super::data::{Name, RunKey};
use crate::gates::attrition::too_many;
use crate::gates::{Code, Finding};
use crate::verdict::LostFirst;

/// Runs and comparisons that do not count.
#[derive(Debug, Default)]
pub(super) struct Gated {
    pub excluded: BTreeSet<RunKey>,
    /// Those of them that are too good. Of the baseline they still count against a config.
    pub held: BTreeSet<RunKey>,
    /// Blocks that can't be compared because a run is missing: it may have been left out because of the config's run.
    pub lost_firsts: Vec<LostFirst>,
    /// Everything is held against an unfit baseline.
    pub all: Vec<Finding>,
    pub configs: BTreeMap<Name, Vec<Finding>>,
    /// By scenario, and a config or, for its baseline, none.
    pub cells: BTreeMap<(Name, Option<Name>), Vec<Finding>>,
    pub notes: Vec<String>,
}

impl Gated {
    /// Why a config can't be judged in a scenario.
    pub fn cell(&self, scenario: Name, config: Name) -> Vec<Finding> {
        let own = self.cells.get(&(scenario, Some(config))).into_iter().flatten();
        self.config(config)
            .iter()
            .chain(self.cells.get(&(scenario, None)).into_iter().flatten())
            .chain(own)
            .cloned()
            .collect()
    }

    /// Why a config can't be judged anywhere.
    pub fn config(&self, config: Name) -> Vec<Finding> {
        self.all.iter().chain(self.configs.get(&config).into_iter().flatten()).cloned().collect()
    }

    /// Why a config can't be judged in some scenario.
    pub fn anywhere(&self, config: Name) -> Vec<Finding> {
        let cells = self.cells.iter().filter(|((_, arm), _)| arm.is_none_or(|arm| arm == config));
        self.config(config).into_iter().chain(cells.flat_map(|(_, findings)| findings.iter().cloned())).collect()
    }
}

pub(super) fn check(comparison: &Comparison<'_>) -> Gated {
    let mut gated = Gated::default();
    attributes(comparison, &mut gated);
    builds(comparison, &mut gated);
    for &scenario in &comparison.scenarios {
        // First, so that copies set no standard for what is plausible.
        copied::check(comparison, scenario, &mut gated);
        let worked = work::check(comparison, scenario, &mut gated);
        plausible::check(comparison, scenario, worked, &mut gated);
    }
    attrition::check(comparison, &mut gated);
    gated
}

fn finding(code: Code, message: String, what_to_do: &str) -> Finding {
    Finding { gate: code.gate(), code, message, what_to_do: what_to_do.to_owned() }
}

const SAME_BUILD: &str =
    "Run the baseline and the config with the same build, or compare the config with a baseline of its own build.";

/// What the policy declares of configs.
fn attributes(comparison: &Comparison<'_>, gated: &mut Gated) {
    let of = |config: Name| comparison.policy.attributes(comparison.text(config)).cloned().unwrap_or_default();
    let baseline = of(comparison.baseline);
    let base = comparison.text(comparison.baseline);
    let mut unknown: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for &config in &comparison.configs {
        let own = of(config);
        let keys: BTreeSet<&String> = own.keys().chain(baseline.keys()).collect();
        for key in keys {
            match (own.get(key), baseline.get(key)) {
                (Some(mine), Some(theirs)) if mine != theirs => {
                    let message = format!("{key} is {mine} in {} and {theirs} in {base}", comparison.text(config));
                    gated.configs.entry(config).or_default().push(finding(Code::FeatureMismatch, message, SAME_BUILD));
                }
                (Some(_), Some(_)) => {}
                (mine, _) => {
                    let who = if mine.is_none() { comparison.text(config) } else { base };
                    unknown.entry(key.clone()).or_default().insert(who);
                }
            }
        }
    }
    for (key, who) in unknown {
        let who: Vec<&str> = who.into_iter().collect();
        gated.notes.push(format!("{key} of {} is unknown and was not compared.", who.join(", ")));
    }
}

/// What the rows say about what was run.
fn builds(comparison: &Comparison<'_>, gated: &mut Gated) {
    let of = |config: Name| -> BTreeSet<Name> {
        comparison
            .scenarios
            .iter()
            .flat_map(|&scenario| comparison.runs(scenario, config))
            .filter_map(|(_, run)| run.build)
            .collect()
    };
    let words = |builds: &BTreeSet<Name>| -> String {
        builds.iter().map(|&build| comparison.text(build)).collect::<Vec<_>>().join(" and ")
    };
    let theirs = of(comparison.baseline);
    let base = comparison.text(comparison.baseline);
    if theirs.len() > 1 {
        let message = format!("runs of {base} use different builds: {}", words(&theirs));
        gated.all.push(finding(Code::FeatureMismatch, message, SAME_BUILD));
        return;
    }
    for &config in &comparison.configs {
        let mine = of(config);
        if mine.len() > 1 || (!mine.is_empty() && !theirs.is_empty() && mine != theirs) {
            let message =
                format!("{} uses build {}, but {base} uses {}", comparison.text(config), words(&mine), words(&theirs));
            gated.configs.entry(config).or_default().push(finding(Code::FeatureMismatch, message, SAME_BUILD));
        } else if mine.is_empty() != theirs.is_empty() {
            let text = format!("The build of {} or {base} is unknown and was not compared.", comparison.text(config));
            gated.notes.push(text);
        }
    }
}

/// Leaves runs out, and judges the config no more where that leaves out too many.
fn drop_runs(
    comparison: &Comparison<'_>,
    scenario: Name,
    arm: Name,
    runs: &[RunKey],
    found: Finding,
    always: bool,
    gated: &mut Gated,
) {
    gated.excluded.extend(runs.iter().copied());
    let total = comparison.runs(scenario, arm).count();
    let dropped = comparison.runs(scenario, arm).filter(|(key, _)| gated.excluded.contains(*key)).count();
    if always || too_many(dropped, total) {
        let config = (arm != comparison.baseline).then_some(arm);
        gated.cells.entry((scenario, config)).or_default().push(found);
    } else {
        gated.notes.push(format!("{}: {}; left out.", found.code, found.message));
    }
}
