//! From attempts to a report: gates, then samples, then verdicts.
//!
//! A verdict is only given when the plan is done, or at a look that was planned before the first trial. Whoever could look
//! at a verdict after every trial, and stop when it pleases, would find an effect in any noise; so before that there are
//! estimates, and the verdict is `Inconclusive` for being `Incomplete`.

mod samples;

use std::collections::BTreeMap;

use crate::decide::{Attempt, Fate, Place, Places, Unplanned};
use crate::experiment::{ConfigUnderTest, Experiment};
use crate::gates::{Finding, Label};
use crate::plan::Plan;
use crate::report::{
    CellReport, ConfigReport, DesignFacts, Estimate, INCOMPLETE, Labelled, Progress, Report, Ruling, TrialFate,
    TrialReport, VERSION, sentence,
};
use crate::verdict::{self, Design, Effect, Intervals, Judgement, Outcome, Recommendation, Scenario, Verdict};
pub(crate) use samples::Samples;

#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Unplanned(#[from] Unplanned),
    #[error(transparent)]
    Verdict(#[from] verdict::JudgeError),
}

/// Effects up to which every interval is computed; beyond, only those over all scenarios.
const ALL_INTERVALS: usize = 256;

/// The design whose verdicts an experiment promises.
pub fn design(experiment: &Experiment) -> Design {
    Design {
        metrics: experiment.metrics.clone(),
        scenarios: experiment
            .scenarios
            .iter()
            .map(|scenario| Scenario { name: scenario.name.clone(), weight: f64::from(scenario.weight) })
            .collect(),
        configs: candidates(experiment).map(|config| config.name.clone()).collect(),
        m0: experiment.baseline_replicates as usize,
        max_blocks: experiment.repetitions as usize,
        looks: experiment.looks.clone(),
        cells_adjust: experiment.cells_adjust,
    }
}

/// Every config but the baseline, in the order of the file.
fn candidates(experiment: &Experiment) -> impl Iterator<Item = &ConfigUnderTest> {
    let others = experiment.configs.iter().enumerate().filter(|(index, _)| *index != experiment.baseline);
    others.map(|(_, config)| config)
}

/// Judges everything that was observed so far. The order of the attempts does not matter.
pub fn judge(plan: &Plan, attempts: &[Attempt]) -> Result<Report, JudgeError> {
    let design = design(&plan.experiment);
    let effects = design.configs.len() * design.scenarios.len() * design.metrics.len();
    let intervals = if effects <= ALL_INTERVALS { Intervals::All } else { Intervals::Overall };
    judge_with(&Places::new(plan, attempts)?, &design, intervals)
}

/// As [`judge`], without intervals where they would take too long.
pub fn judge_with(places: &Places<'_>, design: &Design, intervals: Intervals) -> Result<Report, JudgeError> {
    let experiment = &places.plan().experiment;
    let standing = Standing::of(places, design, intervals)?;
    let ruling = |unit: &Unit<'_>, causes: &[Finding]| {
        let Unit { config, decided, finding } = unit;
        let (verdict, reason, recommendation) = announced(*decided, &finding.outcome, finding.recommendation);
        let estimates: Vec<Estimate> =
            finding.metrics.iter().zip(&design.metrics).map(|(e, rule)| Estimate::of(e, rule, *decided)).collect();
        let sentence = sentence(config, verdict, &reason, &estimates, causes);
        Ruling { verdict, reason, sentence, recommendation, estimates }
    };
    let samples = &standing.samples;
    let gated = places.gated();
    let experiment_findings: Vec<Finding> =
        gated.experiment.iter().chain(samples.baseline_findings.iter()).cloned().collect();
    let configs = candidates(experiment).enumerate().map(|(position, config)| {
        let mut findings: Vec<Finding> = gated.configs.get(&config.name).into_iter().flatten().cloned().collect();
        findings.extend(samples.findings_of(&config.name).cloned());
        let mut causes = experiment_findings.clone();
        causes.extend(findings.iter().cloned());
        ConfigReport {
            config: config.name.clone(),
            changes: config.changes.clone(),
            ruling: ruling(&standing.overall(position), &causes),
            findings,
        }
    });
    let configs: Vec<ConfigReport> = configs.collect();
    let cells = (0..design.scenarios.len() * design.configs.len()).map(|unit| {
        let (scenario, config) = (unit / design.configs.len(), unit % design.configs.len());
        let mut causes = experiment_findings.clone();
        causes.extend(configs[config].findings.iter().cloned());
        let mut ruling = ruling(&standing.cell(unit), &causes);
        for (metric, estimate) in ruling.estimates.iter_mut().enumerate() {
            (estimate.baseline_median, estimate.config_median) = samples.medians(scenario, metric, config);
        }
        let (runs, failed) = samples.runs(scenario, config);
        let (scenario, config) = (design.scenarios[scenario].name.clone(), design.configs[config].clone());
        CellReport { scenario, config, ruling, runs, failed }
    });
    let cells = cells.collect();
    let families = design.families();
    Ok(Report {
        version: VERSION,
        engine: concat!("assay ", env!("CARGO_PKG_VERSION")).to_owned(),
        experiment: experiment.name.clone(),
        plan: places.plan().digest.clone(),
        spec: experiment.spec.clone(),
        seed: experiment.seed,
        baseline: experiment.baseline_config().map(|config| config.name.clone()).unwrap_or_default(),
        design: DesignFacts {
            scenarios: design.scenarios.iter().map(|scenario| scenario.name.clone()).collect(),
            metrics: design.metrics.clone(),
            blocks: experiment.repetitions,
            baseline_replicates: experiment.baseline_replicates,
            fewest_blocks: families.overall.n_min,
            fewest_blocks_per_scenario: families.cells.n_min,
        },
        progress: progress(places),
        configs,
        cells,
        invalid: experiment_findings,
        labels: labels(places, experiment),
        notes: gated.notes.iter().cloned().chain(samples.notes.iter().cloned()).collect(),
        trials: trials(places, design),
        guarantees: verdict::guarantees(design),
        reproduce: reproduce(places.plan()),
    })
}

/// What every verdict is based on.
struct Standing {
    /// Everything that there is.
    samples: Samples,
    /// Estimates from all of it; the verdicts, too, if no more will come.
    latest: Judgement,
    /// While more will come: the verdicts of the last look.
    look: Option<Judgement>,
    complete: bool,
}

/// What was found about a config, overall or in a scenario.
struct Unit<'a> {
    config: &'a str,
    decided: bool,
    finding: &'a verdict::Finding,
}

impl Standing {
    fn of(places: &Places<'_>, design: &Design, intervals: Intervals) -> Result<Self, verdict::JudgeError> {
        let complete = places.is_complete();
        let rounds = if complete { places.rounds_wanted() } else { design.max_blocks };
        let samples = Samples::of(places, design, rounds, true);
        let latest = verdict::judge(design, &samples.evidence, intervals)?;
        let look = if complete || design.looks.is_none() {
            None
        } else {
            let closed = Samples::of(places, design, places.rounds_closed(), false);
            Some(verdict::judge(design, &closed.evidence, intervals)?)
        };
        Ok(Self { samples, latest, look, complete })
    }

    fn overall(&self, config: usize) -> Unit<'_> {
        let decided = self.decided(config);
        let found = &decided.unwrap_or(&self.latest).overall[config];
        Unit { config: &found.config, decided: decided.is_some(), finding: &found.finding }
    }

    fn cell(&self, unit: usize) -> Unit<'_> {
        let decided = self.decided(unit % self.latest.overall.len());
        let found = &decided.unwrap_or(&self.latest).cells[unit];
        Unit { config: &found.config, decided: decided.is_some(), finding: &found.finding }
    }

    /// Where a config was decided, if it is.
    fn decided(&self, config: usize) -> Option<&Judgement> {
        match &self.look {
            None if self.complete => Some(&self.latest),
            None => None,
            Some(look) => look.overall[config].stopped_at.map(|_| look),
        }
    }
}

/// What may be said of an outcome: nothing that results decided before the plan is done or a look was due.
fn announced(decided: bool, outcome: &Outcome, recommendation: Recommendation) -> (Verdict, String, String) {
    if decided || outcome.verdict == Verdict::Invalid {
        return (outcome.verdict, outcome.reason.to_string(), recommendation.to_string());
    }
    (Verdict::Inconclusive, INCOMPLETE.to_owned(), "finish the planned runs".to_owned())
}

impl Estimate {
    fn of(effect: &Effect, rule: &verdict::MetricRule, decided: bool) -> Self {
        Self {
            metric: effect.metric.clone(),
            role: effect.role,
            scale: rule.scale,
            margin: rule.margin,
            status: decided.then_some(effect.status),
            blocks: effect.n,
            estimate: effect.estimate,
            interval95: effect.ci95,
            estimate_percent: effect.estimate_percent,
            detectable_percent: effect.detectable_percent,
            p: decided.then_some(effect.p),
            baseline_median: None,
            config_median: None,
        }
    }
}

fn progress(places: &Places<'_>) -> Progress {
    let mut progress = Progress {
        complete: places.is_complete(),
        blocks_planned: places.blocks().len(),
        blocks_done: places.blocks().iter().filter(|block| block.is_closed()).count(),
        trials_planned: places.plan().blocks.iter().map(|block| block.slots.len()).sum(),
        attempts: places.attempts().len(),
        freed: places.blocks().iter().flat_map(|b| &b.places).filter(|place| **place == Place::Freed).count(),
        ..Progress::default()
    };
    for attempt in 0..places.attempts().len() {
        match places.fate(attempt) {
            Fate::Used => progress.trials_valid += 1,
            Fate::Invalid(_) => progress.invalid += 1,
            Fate::Failed => progress.failed += 1,
            Fate::Lost(_) => progress.lost += 1,
            Fate::Held(_) | Fate::BlockInterrupted | Fate::Superseded => {}
        }
    }
    progress
}

fn labels(places: &Places<'_>, experiment: &Experiment) -> Vec<Labelled> {
    let mut labels: BTreeMap<Label, String> = places.gated().labels.clone();
    let migrations: Vec<String> = experiment
        .scenarios
        .iter()
        .filter_map(|scenario| {
            scenario
                .dataset_from
                .as_ref()
                .map(|from| format!("{} opens data that was written by {from}", scenario.name))
        })
        .collect();
    if !migrations.is_empty() {
        labels.insert(Label::Migration, format!("{}: times include the migration.", migrations.join("; ")));
    }
    labels.into_iter().map(|(label, text)| Labelled { label, text }).collect()
}

/// Every attempt in the order of the plan.
fn trials(places: &Places<'_>, design: &Design) -> Vec<TrialReport> {
    let position: BTreeMap<(&str, u32), usize> = places
        .plan()
        .blocks
        .iter()
        .enumerate()
        .map(|(position, block)| ((block.scenario.as_str(), block.number), position))
        .collect();
    let mut order: Vec<usize> = (0..places.attempts().len()).collect();
    order.sort_by_key(|&attempt| {
        let id = places.attempts()[attempt].trial();
        (position.get(&(id.scenario.as_str(), id.block)), id.attempt, id.order)
    });
    order.into_iter().map(|attempt| trial(places, design, attempt)).collect()
}

fn trial(places: &Places<'_>, design: &Design, index: usize) -> TrialReport {
    let attempt = &places.attempts()[index];
    let fate = places.fate(index);
    let (state, findings) = match &fate {
        Fate::Used => (TrialFate::Valid, Vec::new()),
        Fate::Held(finding) => (TrialFate::Held, vec![(*finding).clone()]),
        Fate::Failed => (TrialFate::Failed, Vec::new()),
        Fate::Invalid(findings) => (TrialFate::Invalid, findings.to_vec()),
        Fate::Lost(_) => (TrialFate::Lost, Vec::new()),
        Fate::BlockInterrupted => (TrialFate::BlockInterrupted, Vec::new()),
        Fate::Superseded => (TrialFate::Superseded, Vec::new()),
    };
    match attempt {
        Attempt::Finished(summary) => TrialReport {
            trial: summary.trial.clone(),
            state,
            findings,
            message: match fate {
                Fate::BlockInterrupted => Some("the block was interrupted and run again as a whole".to_owned()),
                _ => summary.failure.as_ref().map(|failure| format!("{:?}: {}", failure.kind, failure.message)),
            },
            started_unix_ms: summary.started_unix_ms,
            record: Some(summary.record.clone()),
            metrics: design
                .metrics
                .iter()
                .filter_map(|rule| summary.metrics.get(&rule.name).map(|value| (rule.name.clone(), *value)))
                .collect(),
        },
        Attempt::Lost(lost) => TrialReport {
            trial: lost.trial.clone(),
            state,
            findings,
            message: Some(format!("{:?}: {}", lost.reason, lost.message)),
            started_unix_ms: lost.started_unix_ms,
            record: None,
            metrics: BTreeMap::new(),
        },
    }
}

fn reproduce(plan: &Plan) -> Vec<String> {
    vec![
        format!(
            "`assay run experiment.yaml --out NEW` runs the same trials in the same order: seed {}, plan {}.",
            plan.experiment.seed, plan.digest
        ),
        "The verdicts follow from plan.json and the records alone: `assay run` on this folder computes them again."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests;
