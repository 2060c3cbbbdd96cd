//! One visit: an experiment of a few blocks with a candidate and a reference, and what it says.

use assay_protocol::Digest;

use crate::attempt::Attempt;
use crate::decide::{Fate, Places, Samples, Unplanned};
use crate::experiment::{ConfigUnderTest, Experiment};
use crate::gates::Code;
use crate::plan::{Plan, PlanError};
use crate::stats::measured_losses;
use crate::verdict::MetricRule;

/// What a visit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To see how much worse the bad end is than the good end, and how much blocks scatter.
    Ends,
    /// To find the culprit.
    Search,
    /// To confirm one, against the candidate before it.
    Verify,
    /// To show how candidates differ that do not just get worse once.
    Grid,
}

/// A visit to be made: a candidate against one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub purpose: Purpose,
    pub reference: usize,
    pub candidate: usize,
    pub blocks: usize,
}

/// A visit that measured something.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    pub reference: usize,
    pub candidate: usize,
    /// By how much the candidate was worse than the reference, block by block, on the scale of effects.
    pub losses: Vec<f64>,
}

impl Visit {
    /// Whether it has a culprit between its reference and its candidate.
    pub(super) fn sees(&self, culprit: usize) -> bool {
        self.reference < culprit && culprit <= self.candidate
    }
}

/// What came of a visit.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    Measured(Vec<f64>),
    /// This candidate can't be measured.
    Unusable(usize),
}

/// Which side of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    Reference,
    Candidate,
}

/// What the attempts of a visit say.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// By how much the candidate was worse, block by block, where at least one block has both sides.
    Losses(Vec<f64>),
    /// One side can't be measured, and why, whereas the other one can.
    Unusable(Arm, String),
    /// Nothing can be said of either side, and why.
    Nothing(String),
}

/// Why there is no experiment of a visit.
#[derive(Debug, thiserror::Error)]
pub enum Unvisited {
    #[error("there is no metric {0:?} to go by")]
    NoMetric(String),
    #[error("there is no scenario {0:?} to go by")]
    NoScenario(String),
    /// An experiment writes configs over its baseline, and can't take an option away.
    #[error(
        "{candidate} would inherit options of {reference} that it does not set: on a cluster, set every option of {reference} in {candidate}, too"
    )]
    Inherits { reference: String, candidate: String },
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The plan of a visit: an experiment of one scenario and one metric. Visits of the same candidates differ in their number, so that each has
/// an order and operations of its own, on the same data.
pub fn plan(
    template: &Experiment,
    (scenario, metric): (&str, &str),
    [reference, candidate]: [ConfigUnderTest; 2],
    blocks: usize,
    number: usize,
) -> Result<Plan, Unvisited> {
    let scenario = template.scenario(scenario).ok_or_else(|| Unvisited::NoScenario(scenario.to_owned()))?.clone();
    let rule = template.metrics.iter().find(|rule| rule.name == metric);
    let rule = rule.ok_or_else(|| Unvisited::NoMetric(metric.to_owned()))?;
    let experiment = Experiment {
        name: format!("{}-{number:03}", reference.name),
        spec: Digest::of_json(&(&template.spec, number)).map_err(PlanError::from)?,
        baseline: 0,
        configs: vec![reference, candidate],
        scenarios: vec![scenario],
        repetitions: blocks as u32,
        baseline_replicates: 1,
        looks: None,
        // What is worse is asked of it, whatever the experiment wanted.
        metrics: vec![MetricRule { purpose: crate::verdict::Purpose::Objective, ..rule.clone() }],
        queries: Vec::new(),
        ..template.clone()
    };
    Ok(Plan::new(experiment)?)
}

/// What the attempts at the plan of a visit say.
pub fn observed(plan: &Plan, attempts: &[Attempt]) -> Result<Observed, Unplanned> {
    let places = Places::new(plan, attempts)?;
    let design = plan.experiment.design();
    let Some(rule) = design.metrics.first() else { return Ok(Observed::Nothing("no metric".to_owned())) };
    let observed = Samples::of(&places, &design, design.max_blocks, true).observed;
    let gated = places.gated();
    let configs = [Arm::Reference, Arm::Candidate].into_iter().zip(&plan.experiment.configs);
    for (arm, config) in configs.clone() {
        if let Some(finding) = gated.configs.get(&config.name).and_then(|findings| findings.first()) {
            // One program with the same effective options: what else there is to measure is noise.
            return Ok(if finding.code == Code::NoEffectPossible {
                Observed::Losses(vec![0.0; design.max_blocks])
            } else {
                Observed::Unusable(arm, format!("{}: {}", finding.code, finding.message))
            });
        }
    }
    let losses = observed.losses((0, 0), [None, Some(0)], rule);
    if !measured_losses(&losses).is_empty() {
        return Ok(Observed::Losses(losses));
    }
    let of = |config: &ConfigUnderTest| -> (bool, Option<String>) {
        let own = (0..attempts.len()).filter(|&attempt| attempts[attempt].trial().config == config.name);
        let fates: Vec<Fate<'_>> = own.clone().map(|attempt| places.fate(attempt)).collect();
        let why = own.zip(&fates).filter_map(|(attempt, fate)| why(&attempts[attempt], fate)).last();
        (
            fates
                .iter()
                .any(|fate| matches!(fate, Fate::Used | Fate::Superseded | Fate::Held(_) | Fate::BlockInterrupted)),
            why,
        )
    };
    let [reference, candidate] = &plan.experiment.configs[..] else {
        return Ok(Observed::Nothing("not two sides".to_owned()));
    };
    Ok(match (of(reference), of(candidate)) {
        ((true, _), (false, Some(why))) => Observed::Unusable(Arm::Candidate, why),
        ((false, Some(why)), (true, _)) => Observed::Unusable(Arm::Reference, why),
        ((_, reference), (_, candidate)) => {
            let why = candidate.or(reference).unwrap_or_else(|| format!("{} was not measured", rule.name));
            Observed::Nothing(why)
        }
    })
}

/// Why an attempt does not count.
fn why(attempt: &Attempt, fate: &Fate<'_>) -> Option<String> {
    match (attempt, fate) {
        (Attempt::Lost(lost), _) => Some(format!("{:?}: {}", lost.reason, lost.message)),
        (_, Fate::Invalid(findings)) => {
            findings.first().map(|finding| format!("{}: {}", finding.code, finding.message))
        }
        (Attempt::Finished(summary), Fate::Failed) => {
            Some(summary.failure.as_ref().map_or("wrong answers".to_owned(), |failure| failure.message.clone()))
        }
        _ => None,
    }
}
