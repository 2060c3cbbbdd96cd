//! From places to the samples that verdicts follow from.

mod attrition;
mod firsts;

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::{FailureKind, Summary};

use super::places::{Fate, Place, Places};
use crate::attempt::Attempt;
use crate::gates::{self, Code, Finding, Note};
use crate::stats::Unmeasurable;
use crate::verdict::{
    Design, Ending, Endings, Invalid, Lack, MetricRule, MetricSamples, Observed, Runs, Saturated, Scope,
};

/// What verdicts follow from, and what is to be said besides.
pub(crate) struct Samples {
    pub observed: Observed,
    pub notes: BTreeSet<Note>,
    /// What makes the baseline, and so everything, invalid.
    pub baseline_findings: Vec<Finding>,
    /// By config: what is invalid in single scenarios.
    findings: BTreeMap<String, Vec<Finding>>,
}

/// How an attempt ended, as a fact about its config. Wrong data is one whatever became of the attempt.
fn ending(attempt: &Attempt) -> Ending {
    let damaged = |summary: &Summary| {
        let corrupt = summary.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::Corruption);
        corrupt || summary.parity.wrong_answers > 0
    };
    match attempt {
        Attempt::Finished(summary) if damaged(summary) => Ending::Damaged,
        failed if failed.has_failed() => Ending::Failed,
        _ => Ending::Missing,
    }
}

/// A run's value of a metric. One that can't be transformed is missing, for this metric only: the run itself is sound. Zero is a value, and
/// so is the end of a histogram, which `saturated` names.
fn value(summary: &Summary, rule: &MetricRule) -> Option<f64> {
    let is_value = |value: f64| {
        let transformed = rule.scale.transform(rule.direction, value);
        transformed.is_ok() || transformed == Err(Unmeasurable::Zero)
    };
    summary.metrics.get(&rule.name).copied().filter(|&value| is_value(value))
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
        let positions = places.positions();
        samples.values(places, design, rounds, &positions);
        samples.firsts(places, design, &positions);
        samples.endings(places, design, rounds);
        samples.invalid(places, design);
        samples.hidden(places, design);
        if places.is_complete() {
            samples.unfit(places, design);
        }
        // Rounds that are open are still missing something.
        if places.is_complete() || rounds <= places.rounds_closed() {
            samples.attrition(places, design, rounds);
        }
        samples
    }

    pub fn findings_of(&self, config: &str) -> impl Iterator<Item = &Finding> {
        self.findings.get(config).into_iter().flatten()
    }

    /// How all runs of a config in a scenario ended, and those of the baseline beside them.
    pub fn all_runs(&self, scenario: usize, config: usize) -> (Runs, Runs) {
        self.observed.runs(scenario, config, usize::MAX)
    }

    fn values(&mut self, places: &Places<'_>, design: &Design, blocks: usize, positions: &[usize]) {
        let empty = MetricSamples {
            baseline: vec![vec![None; design.m0]; blocks],
            configs: vec![vec![None; blocks]; design.configs.len()],
        };
        self.observed.positions = vec![empty.clone(); design.scenarios.len()];
        self.observed.samples = vec![vec![empty; design.metrics.len()]; design.scenarios.len()];
        for (planned, state) in places.plan().blocks.iter().zip(places.blocks()) {
            let scenario = design.scenarios.iter().position(|scenario| scenario.name == planned.scenario);
            let (Some(scenario), block) = (scenario, planned.number as usize) else { continue };
            for (slot, place) in planned.slots.iter().zip(&state.places) {
                let Place::Valid(attempt) = place else { continue };
                let Some(summary) = places.summary(*attempt) else { continue };
                let config = design.configs.iter().position(|config| *config == slot.config);
                if let Some(cell) = self.observed.positions[scenario].run_mut(config, block, slot.replicate) {
                    *cell = Some(positions[*attempt] as f64);
                }
                for (metric, rule) in design.metrics.iter().enumerate() {
                    let value = value(summary, rule);
                    let about = Some(slot.config.as_str());
                    if let Some(Finding { gate, code, message, .. }) = gates::saturated(summary, &rule.name) {
                        let text = format!(
                            "{code} in some runs of {}: {message}. They rank as the worst runs of {}.",
                            planned.scenario, rule.name
                        );
                        self.notes.insert(Note::of(gate, about, text));
                        let run = if config.is_some() { 0 } else { slot.replicate as usize };
                        self.observed.saturated.push(Saturated { scenario, metric, config, block, run });
                    }
                    if value.is_none() {
                        let measured = summary.metrics.get(&rule.name);
                        let what = measured.map_or("was not measured".to_owned(), |value| format!("is {value}"));
                        let text = format!(
                            "{} {what} in some runs of {}; these runs don't count for it.",
                            rule.name, planned.scenario
                        );
                        self.notes.insert(Note::new(about, text));
                        self.observed.lacks.push(Lack { scenario, metric, config, block });
                    }
                    let samples = &mut self.observed.samples[scenario][metric];
                    if let Some(cell) = samples.run_mut(config, block, slot.replicate) {
                        *cell = value;
                    }
                }
            }
        }
    }

    /// Failures count wherever they happened, in interrupted blocks too: they are facts about the config. A place counts once.
    fn endings(&mut self, places: &Places<'_>, design: &Design, blocks: usize) {
        let none = Endings {
            baseline: vec![vec![Ending::Missing; design.m0]; blocks],
            configs: vec![vec![Ending::Missing; blocks]; design.configs.len()],
        };
        self.observed.endings = vec![none; design.scenarios.len()];
        for (planned, state) in places.plan().blocks.iter().zip(places.blocks()) {
            for (slot, place) in planned.slots.iter().zip(&state.places) {
                if matches!(place, Place::Valid(_) | Place::Held(_)) {
                    self.ended(design, &planned.scenario, planned.number, &slot.config, slot.replicate, Ending::Sound);
                }
            }
        }
        for (index, attempt) in places.attempts().iter().enumerate() {
            let trial = attempt.trial();
            let other_answers = matches!(places.fate(index), Fate::Invalid(found) if found.iter().any(|f| f.code == Code::AnswersMismatch));
            let ending = if other_answers { Ending::Damaged } else { ending(attempt) };
            if ending.has_failed() {
                self.ended(design, &trial.scenario, trial.block, &trial.config, trial.replicate, ending);
            }
        }
    }

    /// Notes how a run of a place ended; what is worse stays.
    fn ended(&mut self, design: &Design, scenario: &str, block: u32, config: &str, replicate: u32, ending: Ending) {
        let Some(scenario) = design.scenarios.iter().position(|s| s.name == scenario) else { return };
        let endings = &mut self.observed.endings[scenario];
        let own = match design.configs.iter().position(|name| name == config) {
            Some(config) => endings.configs[config].get_mut(block as usize),
            None => endings.baseline.get_mut(block as usize).and_then(|runs| runs.get_mut(replicate as usize)),
        };
        if let Some(own) = own
            && *own < ending
        {
            *own = ending;
        }
    }

    fn invalid(&mut self, places: &Places<'_>, design: &Design) {
        let gated = places.gated();
        for ((scenario, config), findings) in &gated.cells {
            let scenario = design.scenarios.iter().position(|own| own.name == *scenario);
            let cell = scenario.zip(design.configs.iter().position(|own| own == config));
            if findings.iter().any(|finding| finding.code == Code::NotEngaged) {
                self.observed.idle.extend(cell);
            }
        }
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

    fn hidden(&mut self, places: &Places<'_>, design: &Design) {
        let shares = &places.gated().generator_shares;
        let of = |name: &str| shares.get(name).copied().unwrap_or_default();
        let hidden: Vec<f64> = design.scenarios.iter().map(|scenario| of(&scenario.name)).collect();
        if hidden.iter().any(|&share| share > 0.0) {
            self.observed.hidden = hidden;
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

    fn mark(&mut self, scope: Scope, code: Code) {
        self.observed.invalid.push(Invalid { scope, code: code.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gates::testing;

    #[test]
    fn only_corruption_is_damage() {
        let ending = |kind: FailureKind| {
            let mut summary = testing::summaries(&testing::experiment()).remove(0);
            testing::fail(&mut summary, &format!("{kind:?}"));
            ending(&Attempt::Finished(Arc::new(summary)))
        };
        assert_eq!(ending(FailureKind::Corruption), Ending::Damaged);
        for kind in [FailureKind::OutOfMemory, FailureKind::Deadline, FailureKind::DiskQuota, FailureKind::EngineError]
        {
            assert_eq!(ending(kind), Ending::Failed, "{kind:?}");
        }
    }

    #[test]
    fn wrong_answers_are_damage_without_a_failure() {
        let ending = |wrong: u64| {
            let mut summary = testing::summaries(&testing::experiment()).remove(0);
            summary.parity.wrong_answers = wrong;
            ending(&Attempt::Finished(Arc::new(summary)))
        };
        assert_eq!((ending(0), ending(1)), (Ending::Missing, Ending::Damaged));
    }

    #[test]
    fn each_scenario_hides_what_its_generator_takes() {
        let mut experiment = testing::experiment();
        experiment.scenarios.push(testing::scenario("read"));
        let hidden = |fill: f64, read: f64| {
            let mut all = testing::summaries(&experiment);
            for summary in &mut all {
                let generator = if summary.trial.scenario == "read" { read } else { fill };
                let time = &mut summary.primary;
                (time.db_percent, time.generator_percent, time.idle_percent) = (100.0 - generator, generator, 0.0);
            }
            let attempts: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
            let plan = testing::plan(&experiment);
            let places = Places::new(&plan, &attempts).unwrap();
            Samples::of(&places, &experiment.design(), 8, true).observed.hidden
        };
        assert_eq!(hidden(25.0, 0.0), [0.25, 0.0]);
        assert_eq!(hidden(0.0, 50.0), [0.0, 0.5]);
        assert_eq!(hidden(0.0, 0.0), [0.0; 0]);
    }

    #[test]
    fn a_value_that_is_missing_is_missing_in_its_arm() {
        let mut experiment = testing::experiment();
        let mut same = experiment.configs[1].clone();
        same.name = "same".to_owned();
        experiment.configs.push(same);
        let mut all = testing::summaries(&experiment);
        for summary in &mut all {
            if matches!((summary.trial.block, summary.trial.config.as_str()), (2, "same") | (3, "base")) {
                summary.metrics.remove("throughput");
            }
        }
        let attempts: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        let plan = testing::plan(&experiment);
        let places = Places::new(&plan, &attempts).unwrap();
        let found = Samples::of(&places, &experiment.design(), 8, true).observed.lacks;
        let lack = |block, config| Lack { scenario: 0, metric: 0, config, block };
        assert_eq!(found, [lack(2, Some(1)), lack(3, None)]);
    }
}
