//! A whole experiment of the records of two real trials.

use std::collections::BTreeSet;
use std::sync::Arc;

use assay_core::{
    attempt::{Attempt, Lost, LostReason},
    decide::{Fate, Places},
    experiment::{Environment, Experiment},
    gates::Code,
    judge::judge,
    plan::Plan,
    report::Report,
    validate::validate_document,
};
use assay_protocol::{Digest, Summary, TrialRecord};

const EXPERIMENT: &str = include_str!("../data/records/experiment.json");
const ROOMY: &str = include_str!("../data/records/roomy.json");
const CRAMPED: &str = include_str!("../data/records/cramped.json");

pub struct Lab {
    pub plan: Plan,
    pub attempts: Vec<Attempt>,
    /// The blocks in which a run of `cramped` is broken.
    pub broken: &'static [u32],
}

/// Every code there is, as the schema lists them.
pub fn codes() -> Vec<Code> {
    let schema = serde_json::to_value(schemars::schema_for!(Code)).unwrap();
    schema["enum"].as_array().unwrap().iter().map(|name| serde_json::from_value(name.clone()).unwrap()).collect()
}

fn summary(json: &str) -> Summary {
    let record = TrialRecord::from_json(json.as_bytes()).unwrap();
    Summary::of(&record, json.as_bytes()).unwrap()
}

impl Lab {
    /// The records, once for each trial of the plan.
    pub fn new() -> Self {
        let document = serde_json::from_str(EXPERIMENT).unwrap();
        Self::of(validate_document(&document).experiment.unwrap())
    }

    /// The same with changes of the experiment.
    pub fn of(experiment: Experiment) -> Self {
        // What disturbs a run costs it only where nobody else has a right to the machine.
        let plan = Plan::new(Experiment { environment: Environment::Dedicated, ..experiment }).unwrap();
        let (roomy, cramped) = (summary(ROOMY), summary(CRAMPED));
        let trials = plan.trials().map(|trial| {
            let mut summary = if trial.config == "roomy" { roomy.clone() } else { cramped.clone() };
            summary.plan = plan.digest.clone();
            summary.trial = trial;
            // Whoever else used the machine while they were recorded.
            summary.disturbance.foreign_cpu_percent = Some(0.0);
            Attempt::Finished(summary.into())
        });
        Self { attempts: trials.collect(), plan, broken: &[2] }
    }

    /// Changes every run of a config, or of all.
    pub fn all(&mut self, config: Option<&str>, change: impl Fn(&mut Summary)) {
        for attempt in &mut self.attempts {
            if let Attempt::Finished(summary) = attempt
                && config.is_none_or(|config| summary.trial.config == config)
            {
                change(Arc::make_mut(summary));
            }
        }
    }

    /// Changes the run of `cramped` in block 2, or in the blocks that are said.
    pub fn one(&mut self, change: impl Fn(&mut Summary)) {
        let broken = self.broken;
        self.all(Some("cramped"), |summary| {
            if broken.contains(&summary.trial.block) {
                change(summary);
            }
        });
    }

    /// Runs of these blocks leave no record, however often they are tried.
    pub fn lose(&mut self, config: Option<&str>, blocks: u32) {
        let lost = |attempt: Attempt| -> Vec<Attempt> {
            let trial = attempt.trial().clone();
            if trial.block >= blocks || config.is_some_and(|config| trial.config != config) {
                return vec![attempt];
            }
            let lost = |attempt| {
                Attempt::from(Lost {
                    plan: self.plan.digest.clone(),
                    trial: assay_protocol::TrialId { attempt, ..trial.clone() },
                    started_unix_ms: 1,
                    boot: Some(Digest::of(b"boot")),
                    reason: LostReason::Crashed,
                    message: "it ended".to_owned(),
                })
            };
            (0..3).map(lost).collect()
        };
        self.attempts = std::mem::take(&mut self.attempts).into_iter().flat_map(lost).collect();
    }

    pub fn report(&self) -> Report {
        judge(&self.plan, &self.attempts).unwrap()
    }

    /// Everything that was found anywhere.
    pub fn found(&self) -> BTreeSet<Code> {
        let places = Places::new(&self.plan, &self.attempts).unwrap();
        let report = self.report();
        let gated = places.gated();
        let held = (0..self.attempts.len()).filter_map(|attempt| match places.fate(attempt) {
            Fate::Held(finding) => Some(finding.code),
            _ => None,
        });
        let findings = report.trials.iter().flat_map(|trial| &trial.findings);
        let findings = findings.chain(report.configs.iter().flat_map(|config| &config.findings)).chain(&report.invalid);
        let findings = findings.chain(gated.cells.values().chain(gated.scenarios.values()).flatten());
        // A metric that is demoted is said in a note: the run itself is sound.
        let named =
            codes().into_iter().filter(|code| report.notes.iter().any(|note| note.text.contains(&code.to_string())));
        findings.map(|finding| finding.code).chain(held).chain(named).collect()
    }
}
