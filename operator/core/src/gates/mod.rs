//! Gates: rules over what trials recorded about themselves that decide which of them count.
//!
//! A gate sees evidence, not results: no gate knows which way a metric went, except [`plausible`], which holds back
//! runs that are too good to be true, and three that can only take a claim away and so work on verdicts: [`causal_path`], [`postponed`], and
//! the one about disturbance on shared machines. One gate, one file; a new gate is one more `check` in [`check`]. `docs/gates.md` lists what they find and
//! which traps that closes.

pub(crate) mod attrition;
pub mod causal_path;
mod code;
mod config_attested;
mod engaged;
mod generator_headroom;
mod inert;
mod isolated;
pub(crate) mod plausible;
pub mod postponed;
mod same_build;
mod same_units;
pub(crate) mod same_work;
mod steady;
#[cfg(test)]
pub(crate) mod testing;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use code::{Code, Gate};
pub use isolated::{CPU_PERCENT, share_taken};
pub use same_work::wrong_answers;
pub use steady::saturated;
use view::View;

use crate::experiment::Experiment;

/// What a gate found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub gate: Gate,
    pub code: Code,
    /// What was seen, with its numbers.
    pub message: String,
    pub what_to_do: String,
}

impl Finding {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { gate: code.gate(), code, message: message.into(), what_to_do: code.what_to_do().to_owned() }
    }
}

/// What the gates say about one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialState {
    Valid,
    /// Not plausible by itself. It counts once its config has repeated it; it is never rerun, since that would be choosing
    /// results by their value.
    Held(Finding),
    Invalid(Vec<Finding>),
    /// The workload failed under the config: no measurement, but a fact about the config.
    Failed,
}

/// A condition that applies to every verdict of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Label {
    /// Other programs could use the trials' CPUs.
    NotIsolated,
    /// A scenario opens data written in another config's format.
    Migration,
    /// A config changes several things at once.
    Bundled,
    /// A scenario holds less data than the real system.
    Scaled,
    /// A latency quantile comes from a role that waits for each step before it starts the next.
    ClosedLoop,
    /// A config is drained by rules of its own, so some of the compaction that it postpones may not be seen.
    OwnDebt,
    /// On a single verdict: better, but perhaps by less than the margin.
    SizeOpen,
}

/// Something worth knowing that invalidates nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The config it is about; absent if it is about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    pub text: String,
    /// The gate that it comes from, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// It says what the gate could not check, not what it saw.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchecked: bool,
}

impl Note {
    /// A note that no gate makes.
    pub fn new(config: Option<&str>, text: impl Into<String>) -> Self {
        Self { config: config.map(ToOwned::to_owned), text: text.into(), gate: None, unchecked: false }
    }

    /// A note about what a gate saw.
    pub fn of(gate: Gate, config: Option<&str>, text: impl Into<String>) -> Self {
        Self { gate: Some(gate), ..Self::new(config, text) }
    }

    /// A note about what a gate could not see.
    pub fn unchecked(gate: Gate, config: Option<&str>, text: impl Into<String>) -> Self {
        Self { unchecked: true, ..Self::of(gate, config, text) }
    }
}

/// What a gate needs and could not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    runs: usize,
    /// In how many of them, by its name.
    names: BTreeMap<String, usize>,
}

impl Unknown {
    /// Adds what is unknown of one run, which counts if that is anything.
    pub fn add<'a>(&mut self, of_run: impl IntoIterator<Item = &'a str>) {
        let mut is_any = false;
        for name in of_run {
            is_any = true;
            match self.names.get_mut(name) {
                Some(runs) => *runs += 1,
                None => drop(self.names.insert(name.to_owned(), 1)),
            }
        }
        self.runs += usize::from(is_any);
    }

    /// Runs in which any of it is unknown.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Each by its name. One that is unknown in fewer runs than all together says in how many, or it would be denied of runs that show it.
    pub fn names(&self) -> Vec<String> {
        let name = |(name, runs): (&String, &usize)| match *runs {
            own if own == self.runs => name.clone(),
            1 => format!("{name} (1 run)"),
            own => format!("{name} ({own} runs)"),
        };
        self.names.iter().map(name).collect()
    }
}

/// The names of what is unknown, given whether each is.
fn named<const N: usize>(all: [(bool, &'static str); N]) -> impl Iterator<Item = &'static str> {
    all.into_iter().filter_map(|(is_unknown, name)| is_unknown.then_some(name))
}

/// What all gates say about all trials so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gated {
    /// One per summary, in the order in which they were given.
    pub trials: Vec<TrialState>,
    /// Configs that can't be judged at all, and why. More runs would not change it.
    pub configs: BTreeMap<String, BTreeSet<Finding>>,
    /// Why nothing can be judged at all.
    pub experiment: BTreeSet<Finding>,
    /// Scenarios in which nothing can be judged, and why. More runs may change it, so it counts at the end only.
    pub scenarios: BTreeMap<String, BTreeSet<Finding>>,
    /// The same for single configs, by scenario and config.
    pub cells: BTreeMap<(String, String), BTreeSet<Finding>>,
    pub labels: BTreeMap<Label, String>,
    pub notes: BTreeSet<Note>,
    pub unknown: BTreeMap<Gate, Unknown>,
    /// Median share of the primary role's time that the generator takes in the baseline's runs, 0 to 1, for each scenario.
    pub generator_shares: BTreeMap<String, f64>,
}

/// Judges everything that was recorded so far. The answer does not depend on the order of the summaries.
pub fn check(experiment: &Experiment, summaries: &[&Summary]) -> Gated {
    let view = View::new(experiment, summaries);
    let mut findings = Findings::new(summaries.len());
    same_work::check(&view, &mut findings);
    same_build::check(&view, &mut findings);
    config_attested::check(&view, &mut findings);
    inert::check(&view, &mut findings);
    isolated::check(&view, &mut findings);
    same_units::check(&view, &mut findings);
    steady::check(&view, &mut findings);
    // Last of those over single trials: what is invalid for another reason says nothing about what is plausible.
    plausible::check(&view, &mut findings);
    engaged::check(&view, &mut findings);
    generator_headroom::check(&view, &mut findings);
    causal_path::unknown(&view, &mut findings);
    findings.into_gated(&view)
}

/// What gates write down.
struct Findings {
    trials: Vec<Vec<Finding>>,
    held: BTreeMap<usize, Finding>,
    configs: BTreeMap<String, BTreeSet<Finding>>,
    experiment: BTreeSet<Finding>,
    scenarios: BTreeMap<String, BTreeSet<Finding>>,
    cells: BTreeMap<(String, String), BTreeSet<Finding>>,
    labels: BTreeMap<Label, String>,
    notes: BTreeSet<Note>,
    unknown: BTreeMap<Gate, Unknown>,
    generator_shares: BTreeMap<String, f64>,
}

impl Findings {
    fn new(trials: usize) -> Self {
        Self {
            trials: vec![Vec::new(); trials],
            held: BTreeMap::new(),
            configs: BTreeMap::new(),
            experiment: BTreeSet::new(),
            scenarios: BTreeMap::new(),
            cells: BTreeMap::new(),
            labels: BTreeMap::new(),
            notes: BTreeSet::new(),
            unknown: BTreeMap::new(),
            generator_shares: BTreeMap::new(),
        }
    }

    fn trial(&mut self, trial: usize, code: Code, message: impl Into<String>) {
        self.trials[trial].push(Finding::new(code, message));
    }

    fn config(&mut self, config: &str, code: Code, message: impl Into<String>) {
        let found = self.configs.entry(config.to_owned()).or_default();
        // The first example of a fault is enough: the trials carry their own.
        if !found.iter().any(|finding| finding.code == code) {
            found.insert(Finding::new(code, message));
        }
    }

    fn experiment(&mut self, code: Code, message: impl Into<String>) {
        if !self.experiment.iter().any(|finding| finding.code == code) {
            self.experiment.insert(Finding::new(code, message));
        }
    }

    fn scenario(&mut self, scenario: &str, code: Code, message: impl Into<String>) {
        self.scenarios.entry(scenario.to_owned()).or_default().insert(Finding::new(code, message));
    }

    fn cell(&mut self, scenario: &str, config: &str, code: Code, message: impl Into<String>) {
        let cell = (scenario.to_owned(), config.to_owned());
        self.cells.entry(cell).or_default().insert(Finding::new(code, message));
    }

    fn note(&mut self, gate: Gate, config: Option<&str>, text: impl Into<String>) {
        self.notes.insert(Note::of(gate, config, text));
    }

    /// Notes down what of one run a gate needs and could not see. A gate does so once for each run.
    fn unknown<'a>(&mut self, gate: Gate, of_run: impl IntoIterator<Item = &'a str>) {
        let mut of_run = of_run.into_iter().peekable();
        if of_run.peek().is_some() {
            self.unknown.entry(gate).or_default().add(of_run);
        }
    }

    fn into_gated(mut self, view: &View<'_>) -> Gated {
        let trials = self
            .trials
            .into_iter()
            .enumerate()
            .map(|(trial, findings)| {
                if crate::attempt::has_failed(view.summary(trial)) {
                    TrialState::Failed
                } else if !findings.is_empty() {
                    TrialState::Invalid(findings)
                } else if let Some(finding) = self.held.remove(&trial) {
                    TrialState::Held(finding)
                } else {
                    TrialState::Valid
                }
            })
            .collect();
        Gated {
            trials,
            configs: self.configs,
            experiment: self.experiment,
            scenarios: self.scenarios,
            cells: self.cells,
            labels: self.labels,
            notes: self.notes,
            unknown: self.unknown,
            generator_shares: self.generator_shares,
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_protocol::Digest;

    use super::*;
    use crate::decide::{HOPELESS, HOPELESS_BLOCKS};
    use crate::experiment::Environment;

    #[test]
    fn a_good_experiment_passes_every_gate() {
        let experiment = testing::experiment();
        let summaries = testing::summaries(&experiment);
        let gated = check(&experiment, &summaries.iter().collect::<Vec<_>>());
        assert!(gated.trials.iter().all(|state| *state == TrialState::Valid), "{gated:?}");
        assert!(gated.configs.is_empty() && gated.experiment.is_empty() && gated.notes.is_empty(), "{gated:?}");
        assert!(gated.scenarios.is_empty() && gated.cells.is_empty() && gated.unknown.is_empty(), "{gated:?}");
    }

    #[test]
    fn what_a_run_does_not_show_is_unknown_to_its_gate() {
        let experiment = testing::experiment();
        let unknown = |change: fn(&mut Summary)| -> Vec<String> {
            let gated = testing::gated_with(&experiment, 0, change);
            assert!(gated.trials.iter().all(|state| *state == TrialState::Valid), "{gated:?}");
            let said = gated.unknown.iter().map(|(gate, unknown)| {
                assert_eq!(unknown.runs(), 1);
                format!("{gate:?}: {}", unknown.names().join(", "))
            });
            said.collect()
        };
        for (change, said) in [
            ((|s| s.disturbance.steal_percent = None) as fn(&mut Summary), "Isolated: steal"),
            (|s| s.disturbance.clock_step_seconds = None, "Isolated: clock changes"),
            (|s| s.storage.free_percent = None, "Isolated: free disk space"),
            (|s| s.steady.settled_before = None, "Steady: background work before the run"),
            (|s| s.steady.debt_in_bytes = None, "Steady: compaction due at the start"),
            (|s| s.parity.boot = None, "SameBuild: boot"),
            (|s| s.parity.build_known = false, "SameBuild: executable"),
            (|s| s.primary.run_queue_percent = None, "CausalPath: waits for a CPU"),
        ] {
            assert_eq!(unknown(change), [said]);
        }
    }

    #[test]
    fn a_failed_trial_is_a_fact_and_not_invalid() {
        let experiment = testing::experiment();
        let gated = testing::gated_with(&experiment, 1, |summary| {
            testing::fail(summary, "OutOfMemory");
            // A failed trial has done less work: that is not a mismatch.
            summary.parity.user_bytes = 0;
        });
        assert_eq!(gated.trials[1], TrialState::Failed);
        assert!(gated.configs.is_empty());
    }

    /// Published limits and those that decide are the same.
    #[test]
    fn limits_are_what_the_docs_say() {
        const DOCS: &str = include_str!("../../../../docs/gates.md");
        let words = ["zero", "one", "two", "three"];
        let (factor, repeated) = (plausible::FACTOR, plausible::REPEATED);
        let limits = [
            ("`Steal`", format!("at most {CPU_PERCENT} %")),
            ("`ForeignCpu`", format!("at most {CPU_PERCENT} %")),
            ("`MemoryPressure`", format!("at most {} %", isolated::MEMORY_PRESSURE_PERCENT)),
            ("`DiskNearlyFull`", format!("{} % of the file system free", isolated::FREE_DISK_PERCENT)),
            ("`DiskFillChanged`", format!("at most {} points", isolated::DISK_FILL_POINTS)),
            ("`RateMismatch`", format!("within {} %", 100.0 * same_units::RATE)),
            ("`TimeMismatch`", format!("within {} %", 100.0 * same_units::TIME)),
            ("`Implausible`", format!("at most {factor} times off its config's other runs, unless {repeated} blocks")),
            ("`NothingValid`", format!("{HOPELESS} attempts in each of {HOPELESS_BLOCKS} blocks")),
            ("`Postponed`", format!("at most {} points more", postponed::POINTS)),
            ("G8", format!("{} % of experiments", 100.0 * steady::ODD)),
        ];
        for (first, rule) in limits {
            let row = DOCS.lines().find(|line| line.starts_with(&format!("| {first} |"))).unwrap_or_default();
            assert!(row.contains(&rule), "{rule:?} is not what docs/gates.md says: {row}");
        }
        // And each has its reason beside it.
        let (cpu, clock) = (CPU_PERCENT, (isolated::CLOCK_STEP_SECONDS, 100.0 * isolated::CLOCK_STEP_SHARE));
        let reasons = [
            (format!("{cpu} % of CPU time"), Code::Steal),
            (format!("{cpu} % of CPU time"), Code::ForeignCpu),
            (format!("{} % of the window", isolated::MEMORY_PRESSURE_PERCENT), Code::MemoryPressure),
            (format!("{} s, {} % of the window", clock.0, clock.1), Code::ClockStep),
            (format!("{} % free", isolated::FREE_DISK_PERCENT), Code::DiskNearlyFull),
            (format!("{} points", isolated::DISK_FILL_POINTS), Code::DiskFillChanged),
            (format!("{} %", 100.0 * same_units::RATE), Code::RateMismatch),
            (format!("{} %", 100.0 * same_units::TIME), Code::TimeMismatch),
            (format!("{factor} times, {repeated} blocks"), Code::Implausible),
            (format!("{HOPELESS} attempts in {HOPELESS_BLOCKS} blocks"), Code::NothingValid),
            (format!("{} points of what was written", postponed::POINTS), Code::Postponed),
        ];
        let rows: Vec<Vec<&str>> = DOCS.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
        for (limit, code) in reasons {
            let of = |row: &&Vec<&str>| row.len() == 5 && row[1] == limit && row[2].contains(&format!("`{code}`"));
            assert!(rows.iter().any(|row| of(&row) && !row[3].is_empty()), "no reason for {limit} of {code}");
        }
        let said = Code::Implausible.what_to_do();
        assert!(said.contains(&format!("{} times", words[factor as usize])), "{said}");
        assert!(said.contains(&format!("{} blocks", words[repeated])), "{said}");
        let said = Code::DiskNearlyFull.what_to_do();
        assert!(said.contains(&format!("{} %", isolated::FREE_DISK_PERCENT)), "{said}");
    }

    #[test]
    fn order_does_not_matter() {
        let experiment = testing::experiment();
        let mut summaries = testing::summaries(&experiment);
        summaries[2].parity.user_bytes += 1;
        summaries[5].disturbance.throttled_periods = Some(3);
        let forward: Vec<_> = summaries.iter().collect();
        let backward: Vec<_> = summaries.iter().rev().collect();
        let mut gated = check(&experiment, &backward);
        gated.trials.reverse();
        assert_eq!(check(&experiment, &forward), gated);
    }

    /// Nor does it for the runs that texts name as examples.
    #[test]
    fn order_changes_no_word() {
        let mut shared = testing::experiment();
        (shared.environment, shared.baseline_replicates) = (Environment::Shared, 2);
        shared.scenarios.push(testing::scenario("read"));
        let mut summaries = testing::summaries(&shared);
        // Each run has faults with numbers of its own.
        for (number, summary) in (0_u32..).zip(&mut summaries) {
            let own = Digest::of(&number.to_le_bytes());
            summary.disturbance.steal_percent = Some(2.0 + f64::from(number));
            summary.options.effective = Some(own.clone());
            (summary.parity.machine, summary.parity.build) = (own.clone(), own);
            summary.parity.user_bytes += u64::from(number);
        }
        let count = summaries.len();
        let checked = |order: &[usize]| {
            let given: Vec<&Summary> = order.iter().map(|&i| &summaries[i]).collect();
            let mut gated = check(&shared, &given);
            let mut trials: Vec<_> = order.iter().copied().zip(gated.trials).collect();
            trials.sort_unstable_by_key(|(i, _)| *i);
            gated.trials = trials.into_iter().map(|(_, state)| state).collect();
            gated
        };
        let in_order = checked(&(0..count).collect::<Vec<_>>());
        assert!(in_order.notes.iter().any(|note| note.text.contains("48 of 48. Example: 2.0 % of CPU time stolen")));
        assert_eq!(checked(&(0..count).rev().collect::<Vec<_>>()), in_order);
        // Five and 48 have no common factor, so each comes once.
        assert_eq!(checked(&(0..count).map(|i| i * 5 % count).collect::<Vec<_>>()), in_order);
    }

    #[test]
    fn of_each_code_the_first_example_is_enough() {
        let mut findings = Findings::new(0);
        for (code, message) in [(Code::OptionsUnknown, "a"), (Code::OptionsMismatch, "b"), (Code::OptionsUnknown, "c")]
        {
            findings.config("candidate", code, message);
            findings.experiment(code, message);
        }
        let expected =
            BTreeSet::from([Finding::new(Code::OptionsUnknown, "a"), Finding::new(Code::OptionsMismatch, "b")]);
        assert_eq!((&findings.configs["candidate"], &findings.experiment), (&expected, &expected));
    }
}
