//! From places to the samples that verdicts follow from.

mod attrition;

use std::collections::{BTreeMap, BTreeSet};

use super::places::{Place, Places};
use crate::attempt::Attempt;
use crate::gates::{self, Code, Finding, Note};
use crate::stats::median;
use crate::verdict::{Attempts, Design, Invalid, MetricSamples, Observed, ScenarioAttempts, Scope};

/// What verdicts follow from, and what is to be said besides.
pub(crate) struct Samples {
    pub observed: Observed,
    pub notes: BTreeSet<Note>,
    /// What makes the baseline, and so everything, invalid.
    pub baseline_findings: Vec<Finding>,
    /// By config: what is invalid in single scenarios.
    findings: BTreeMap<String, Vec<Finding>>,
}

impl Samples {
    /// The samples of the first `rounds` rounds. No more will come if they have `ended`.
    pub fn of(places: &Places<'_>, design: &Design, rounds: usize, ended: bool) -> Self {
        let mut samples = Self {
            observed: Observed { ended, ..Observed::default() },
            notes: BTreeSet::new(),
            baseline_findings: Vec::new(),
            findings: BTreeMap::new(),
        };
        samples.values(places, design, rounds);
        samples.attempts(places, design);
        samples.invalid(places, design);
        // Before the end everything is still missing something.
        if places.is_complete() {
            samples.unfit(places, design);
            samples.attrition(places, design);
        }
        samples
    }

    pub fn findings_of(&self, config: &str) -> impl Iterator<Item = &Finding> {
        self.findings.get(config).into_iter().flatten()
    }

    /// Medians of the baseline and a config.
    pub fn medians(&self, scenario: usize, metric: usize, config: usize) -> (Option<f64>, Option<f64>) {
        let samples = &self.observed.samples[scenario][metric];
        let baseline: Vec<f64> = samples.baseline.iter().flatten().flatten().copied().collect();
        let own: Vec<f64> = samples.configs[config].iter().flatten().copied().collect();
        (median(&baseline), median(&own))
    }

    /// Runs of a config that ended, and those of them that failed.
    pub fn runs(&self, scenario: usize, config: usize) -> (u32, u32) {
        let Attempts { failed, ok } = self.observed.attempts[scenario].configs[config];
        (failed + ok, failed)
    }

    fn values(&mut self, places: &Places<'_>, design: &Design, blocks: usize) {
        let empty = MetricSamples {
            baseline: vec![vec![None; design.m0]; blocks],
            configs: vec![vec![None; blocks]; design.configs.len()],
        };
        self.observed.samples = vec![vec![empty; design.metrics.len()]; design.scenarios.len()];
        for (planned, state) in places.plan().blocks.iter().zip(places.blocks()) {
            let scenario = design.scenarios.iter().position(|scenario| scenario.name == planned.scenario);
            let (Some(scenario), block) = (scenario, planned.number as usize) else { continue };
            for (slot, place) in planned.slots.iter().zip(&state.places) {
                let Place::Valid(attempt) = place else { continue };
                let Some(summary) = places.summary(*attempt) else { continue };
                for (metric, rule) in design.metrics.iter().enumerate() {
                    let measured = summary.metrics.get(&rule.name).copied();
                    let saturated = gates::saturated(summary, &rule.name);
                    // A value that can't be transformed is missing, for this metric only: the run itself is sound.
                    let value = measured
                        .filter(|&value| saturated.is_none() && rule.scale.transform(rule.direction, value).is_ok());
                    if value.is_none() {
                        let text = match (&saturated, measured) {
                            (Some(Finding { code, message, .. }), _) => {
                                format!("{code} in some runs of {}: {message}.", planned.scenario)
                            }
                            (None, measured) => {
                                let what =
                                    measured.map_or("was not measured".to_owned(), |value| format!("is {value}"));
                                format!(
                                    "{} {what} in some runs of {}; they don't count for it.",
                                    rule.name, planned.scenario
                                )
                            }
                        };
                        self.notes.insert(Note { config: Some(slot.config.clone()), text });
                    }
                    let samples = &mut self.observed.samples[scenario][metric];
                    let cell = match design.configs.iter().position(|config| *config == slot.config) {
                        Some(config) => samples.configs[config].get_mut(block),
                        None => samples.baseline.get_mut(block).and_then(|runs| runs.get_mut(slot.replicate as usize)),
                    };
                    if let Some(cell) = cell {
                        *cell = value;
                    }
                }
            }
        }
    }

    /// Failures count wherever they happened, in interrupted blocks too: they are facts about the config.
    fn attempts(&mut self, places: &Places<'_>, design: &Design) {
        let none = ScenarioAttempts {
            baseline: Attempts::default(),
            configs: vec![Attempts::default(); design.configs.len()],
        };
        self.observed.attempts = vec![none; design.scenarios.len()];
        for attempt in places.attempts() {
            let trial = attempt.trial();
            let Some(scenario) = design.scenarios.iter().position(|s| s.name == trial.scenario) else {
                continue;
            };
            let counts = &mut self.observed.attempts[scenario];
            let own = match design.configs.iter().position(|config| *config == trial.config) {
                Some(config) => &mut counts.configs[config],
                None => &mut counts.baseline,
            };
            match attempt {
                failed if failed.has_failed() => own.failed += 1,
                Attempt::Finished(_) => own.ok += 1,
                Attempt::Lost(_) => {}
            }
        }
    }

    fn invalid(&mut self, places: &Places<'_>, design: &Design) {
        let gated = places.gated();
        for finding in &gated.experiment {
            self.mark(Scope::Design, finding.code);
        }
        for (config, findings) in &gated.configs {
            let position = design.configs.iter().position(|name| name == config);
            for finding in findings {
                // What is wrong with the baseline is wrong with every comparison.
                self.mark(position.map_or(Scope::Design, Scope::Config), finding.code);
                if position.is_none() {
                    self.baseline_findings.push(finding.clone());
                }
            }
        }
    }

    /// Scenarios that the runs can't say anything about.
    fn unfit(&mut self, places: &Places<'_>, design: &Design) {
        let gated = places.gated();
        let position = |name: &str| design.scenarios.iter().position(|scenario| scenario.name == name);
        for (name, findings) in &gated.scenarios {
            let Some(scenario) = position(name) else { continue };
            for finding in findings {
                self.mark(Scope::Scenario(scenario), finding.code);
                self.baseline_findings.push(finding.clone());
            }
        }
    }

    /// Takes back everything.
    pub fn distrust(&mut self, finding: Finding) {
        self.mark(Scope::Design, finding.code);
        self.baseline_findings.push(finding);
    }

    fn mark(&mut self, scope: Scope, code: Code) {
        self.observed.invalid.push(Invalid { scope, code: code.to_string() });
    }
}
