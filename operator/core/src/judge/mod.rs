//! From attempts to a report: gates, then samples, then verdicts.
//!
//! A verdict is only given when the plan is done, or at a look that was planned before the first trial. Whoever could look
//! at a verdict after every trial, and stop when it pleases, would find an effect in any noise; so before that there are
//! estimates, and the verdict is `Inconclusive` for being `Incomplete`.

mod context;
mod disturbance;
mod engagement;
mod noise;
mod standing;
mod trials;
mod wins;

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_protocol::RealSize;

use crate::attempt::Attempt;
use crate::decide::{Fate, Places, Unplanned};
use crate::experiment::Experiment;
use crate::gates::{Finding, Label, Note, TrialState};
use crate::plan::Plan;
use crate::report::{
    About, CellReport, ConfigReport, DesignFacts, Estimate, Failures, INCOMPLETE, Labelled, LookConfig, LookReport,
    Measured, RULES, Report, Ruling, VERSION, gates, sentence, workload,
};
use crate::stats::ALPHA;
use crate::verdict::{self, Design, Intervals, LookTaken, Outcome, Reason, Recommendation, Verdict};
use context::Context;
pub use noise::{NoNoise, spreads};
use standing::{Standing, Unit};
use trials::{progress, trials};

#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Unplanned(#[from] Unplanned),
    #[error(transparent)]
    Verdict(#[from] verdict::JudgeError),
}

/// Judges everything that was observed so far. The order of the attempts does not matter.
pub fn judge(plan: &Plan, attempts: &[Attempt]) -> Result<Report, JudgeError> {
    let design = plan.experiment.design();
    judge_with(&Places::new(plan, attempts)?, &design, Intervals::All)
}

/// As [`judge`], without intervals where they would take too long.
pub fn judge_with(places: &Places<'_>, design: &Design, intervals: Intervals) -> Result<Report, JudgeError> {
    let experiment = &places.plan().experiment;
    let planned = design;
    let design = &planned.without_looks(places.skipped());
    let standing = Standing::of(places, design, intervals)?;
    let context = Context::of(places, design, &standing)?;
    // A new experiment takes the looks that this one had to skip.
    let repeatable = Arc::new(planned.clone());
    let families = design.families();
    let baseline = experiment.baseline_config().map(|config| config.name.as_str()).unwrap_or_default();
    let ruling = |unit: &Unit<'_>, about: About<'_>, causes: &[Finding]| {
        let Unit { decided, conclusion, .. } = unit;
        let (verdict, reason, recommendation) = announced(*decided, &conclusion.outcome, conclusion.recommendation);
        let estimates: Vec<Estimate> =
            conclusion.metrics.iter().zip(&design.metrics).map(|(e, rule)| Estimate::of(e, rule, *decided)).collect();
        let sentence = sentence(about, verdict, &reason, &estimates, causes);
        Ruling { verdict, reason, sentence, recommendation, labels: Ruling::labels(verdict, &estimates), estimates }
    };
    let samples = &standing.samples;
    let gated = places.gated();
    let experiment_findings: Vec<Finding> =
        gated.experiment.iter().chain(samples.baseline_findings.iter()).cloned().collect();
    let order = context::order_effects(places, design, samples)?;
    let configs = experiment.candidates().enumerate().map(|(position, config)| {
        let mut findings: Vec<Finding> = gated.configs.get(&config.name).into_iter().flatten().cloned().collect();
        findings.extend(standing.findings(&config.name).cloned());
        let mut causes = experiment_findings.clone();
        causes.extend(findings.iter().cloned());
        let unit = standing.overall(position);
        let failures = Failures::of((0..design.scenarios.len()).map(|scenario| samples.all_runs(scenario, position)));
        let about = About { config: unit.config, baseline, family: families.overall, failures, needed: None };
        ConfigReport {
            config: config.name.clone(),
            changes: config.changes.clone(),
            ruling: ruling(&unit, about, &causes),
            runs: failures.own.ended(),
            failed: failures.own.failed,
            needed: None,
            open: noise::open(&standing, &repeatable, position, failures),
            findings,
            stopped_after: unit.stopped_after.map(|blocks| blocks as u32),
            fragile: context.iter().flat_map(|context| context.fragile(position)).collect(),
            by_node: context.iter().flat_map(|context| context.by_node(position)).collect(),
        }
    });
    let configs: Vec<ConfigReport> = configs.collect();
    let cells = (0..design.scenarios.len() * design.configs.len()).map(|unit| {
        let (scenario, config) = (unit / design.configs.len(), unit % design.configs.len());
        let mut causes = experiment_findings.clone();
        causes.extend(configs[config].findings.iter().cloned());
        let failures = Failures::of(std::iter::once(samples.all_runs(scenario, config)));
        let own = standing.cell(unit);
        let about = About { config: own.config, baseline, family: families.cells, failures, needed: None };
        let mut ruling = ruling(&own, about, &causes);
        for (metric, estimate) in ruling.estimates.iter_mut().enumerate() {
            (estimate.baseline_median, estimate.config_median) =
                samples.observed.samples[scenario][metric].medians(config);
        }
        CellReport {
            scenario: design.scenarios[scenario].name.clone(),
            config: design.configs[config].clone(),
            ruling,
            runs: failures.own.ended(),
            failed: failures.own.failed,
            baseline_runs: failures.baseline.ended(),
            baseline_failed: failures.baseline.failed,
        }
    });
    let cells: Vec<CellReport> = cells.collect();
    let mut notes = gated.notes.clone();
    notes.extend(standing.notes.iter().cloned());
    notes.extend(context::smeared(&order));
    notes.extend(configs.iter().filter_map(unseen));
    notes.extend(configs.iter().filter_map(|config| open_alone(config, &cells)));
    notes.extend(disturbance::unseen(places));
    notes.extend(unlooked(places.skipped()));
    let mut report = Report {
        version: VERSION,
        rules: RULES,
        produced_by: crate::PRODUCED_BY.to_owned(),
        experiment: experiment.name.clone(),
        plan: places.plan().digest.clone(),
        spec: experiment.spec.clone(),
        seed: experiment.seed,
        baseline: baseline.to_owned(),
        design: DesignFacts {
            scenarios: design.scenarios.iter().map(|scenario| scenario.name.clone()).collect(),
            workloads: experiment.scenarios.iter().map(|scenario| workload::words(&scenario.workload)).collect(),
            weights: design.scenarios.iter().map(|scenario| scenario.weight).collect(),
            metrics: design.metrics.clone(),
            looks: planned.looks.iter().flat_map(|looks| &looks.blocks).map(|&blocks| blocks as u32).collect(),
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
        notes: notes.into_iter().collect(),
        gates: Vec::new(),
        not_judged: Vec::new(),
        looks: standing.looks().map(|look| look_report(look, design)).collect(),
        order_check: order,
        time_spent: Vec::new(),
        setup: None,
        records: Vec::new(),
        trials: trials(places, design),
        earlier: None,
        guarantees: verdict::guarantees(design),
        reproduce: reproduce(places.plan()),
    };
    let checked = gated.trials.iter().filter(|state| **state != TrialState::Failed).count();
    report.gates = gates(&report, &gated.unknown, checked);
    report.not_judged = measured(places).in_summaries(&report);
    Ok(report)
}

/// All that the runs that count have measured.
fn measured(places: &Places<'_>) -> Measured {
    let mut measured = Measured::default();
    for attempt in (0..places.attempts().len()).filter(|&attempt| places.fate(attempt) == Fate::Used) {
        if let Some(summary) = places.summary(attempt) {
            measured.add(&summary.trial, &summary.metrics);
        }
    }
    measured
}

/// What is concluded of each config: over all scenarios, and scenario by scenario.
pub struct Standings {
    /// In the design's order.
    pub overall: Vec<verdict::Conclusion>,
    /// Scenario by scenario, one per config.
    pub cells: Vec<verdict::Conclusion>,
}

/// What [`judge`] concludes, with all gates and without what only a report shows: for who asks thousands of times.
pub fn standings(places: &Places<'_>, design: &Design) -> Result<Standings, JudgeError> {
    let standing = Standing::of(places, &design.without_looks(places.skipped()), Intervals::Wins)?;
    let configs = 0..design.configs.len();
    let cells = 0..design.configs.len() * design.scenarios.len();
    Ok(Standings {
        overall: configs.map(|config| standing.overall(config).conclusion.clone()).collect(),
        cells: cells.map(|unit| standing.cell(unit).conclusion.clone()).collect(),
    })
}

/// Takes a conclusion away for these causes, which lie in these scenarios.
fn void(conclusion: &mut verdict::Conclusion, causes: &[Finding], scenarios: Vec<String>) {
    let mut codes: Vec<String> = causes.iter().map(|cause| cause.code.to_string()).collect();
    codes.dedup();
    conclusion.outcome = Outcome { verdict: Verdict::Invalid, reason: Reason::Invalid { codes, scenarios } };
    conclusion.recommendation = Recommendation::FixSetup;
}

/// What may be said of an outcome: nothing that results decided before the plan is done or a look was due.
fn announced(decided: bool, outcome: &Outcome, recommendation: Recommendation) -> (Verdict, String, String) {
    if decided || outcome.verdict == Verdict::Invalid {
        return (outcome.verdict, outcome.reason.to_string(), recommendation.to_string());
    }
    (Verdict::Inconclusive, INCOMPLETE.to_owned(), "finish the planned runs".to_owned())
}

fn look_report(look: &LookTaken, design: &Design) -> LookReport {
    let configs = design.configs.iter().zip(&look.overall).map(|(config, outcome)| LookConfig {
        config: config.clone(),
        verdict: outcome.verdict,
        reason: outcome.reason.to_string(),
        stopped: look.stopped.contains(config),
    });
    LookReport { blocks: look.blocks as u32, configs: configs.collect() }
}

fn labels(places: &Places<'_>, experiment: &Experiment) -> Vec<Labelled> {
    let mut labels: BTreeMap<Label, String> = places.gated().labels.clone();
    let migrations: Vec<String> = experiment
        .scenarios
        .iter()
        .filter_map(|scenario| {
            scenario.dataset_from.as_ref().map(|from| format!("{} opens data written by {from}", scenario.name))
        })
        .collect();
    if !migrations.is_empty() {
        labels.insert(Label::Migration, format!("{}: times include the migration.", migrations.join("; ")));
    }
    if let Some(text) = closed_loop(experiment) {
        labels.insert(Label::ClosedLoop, text);
    }
    if let Some(text) = scale(experiment) {
        labels.insert(Label::Scaled, text);
    }
    labels.into_iter().map(|(label, text)| Labelled { label, text }).collect()
}

/// Looks that were planned and not taken.
fn unlooked(skipped: &[usize]) -> Option<Note> {
    let blocks: Vec<String> = skipped.iter().map(ToString::to_string).collect();
    (!blocks.is_empty()).then(|| {
        let text = format!(
            "No look was taken after {} blocks, because a scenario could not be judged then. The next look has its \
             share of the error.",
            blocks.join(" and ")
        );
        Note::new(None, text)
    })
}

/// How rare what spoils a run may be, and yet not have happened in the runs of a Win ("Totals").
fn unseen(config: &ConfigReport) -> Option<Note> {
    let judged = config.ruling.estimates.iter().filter(|estimate| estimate.purpose.is_required());
    let blocks = judged.map(|estimate| estimate.blocks).min().filter(|&blocks| blocks > 0)?;
    let share = 1.0 - ALPHA.powf(1.0 / blocks as f64);
    (config.ruling.verdict == Verdict::Win).then(|| {
        let text = format!(
            "With {blocks} runs in each scenario, a fault that hits fewer than {:.0} % of runs may not have occurred.",
            100.0 * share
        );
        Note::new(Some(&config.config), text)
    })
}

/// Why scenarios may stay open under a verdict that is not.
fn open_alone(config: &ConfigReport, cells: &[CellReport]) -> Option<Note> {
    let own = cells.iter().filter(|cell| cell.config == config.config);
    let open: Vec<&str> =
        own.filter(|cell| cell.ruling.verdict == Verdict::Inconclusive).map(|cell| cell.scenario.as_str()).collect();
    (config.ruling.verdict == Verdict::Neutral && !open.is_empty()).then(|| {
        let text = format!(
            "All scenarios together show that there is no meaningful difference. Alone, {} can't: one scenario has fewer \
             runs than all of them.",
            open.join(" and ")
        );
        Note::new(Some(&config.config), text)
    })
}

/// Judged latency quantiles of roles that no rate drives: while a step stalls, those that would have come meanwhile do not wait.
fn closed_loop(experiment: &Experiment) -> Option<String> {
    let mut found: Vec<String> = Vec::new();
    for scenario in &experiment.scenarios {
        let waits = |rule: &&verdict::MetricRule| {
            let role = scenario.workload.measured_role(&rule.name);
            rule.quantile && role.is_some_and(|role| role.interval_ns.is_none())
        };
        let names: Vec<&str> = experiment.metrics.iter().filter(waits).map(|rule| rule.name.as_str()).collect();
        if !names.is_empty() {
            found.push(format!("{} in {}", names.join(", "), scenario.name));
        }
    }
    (!found.is_empty()).then(|| {
        format!(
            "{}: each step starts when the previous one ends, so a stall counts as one slow step. Set stepsPerSecond \
             to count every step that it delays.",
            found.join("; ")
        )
    })
}

/// How much smaller the scenarios are than what they stand for, those of one size together.
fn scale(experiment: &Experiment) -> Option<String> {
    let mut sizes: Vec<(RealSize, Vec<&str>)> = Vec::new();
    for scenario in &experiment.scenarios {
        let Some(size) = scenario.workload.kind().real_size().filter(RealSize::is_scaled) else { continue };
        match sizes.iter_mut().find(|(known, _)| *known == size) {
            Some((_, names)) => names.push(&scenario.name),
            None => sizes.push((size, vec![&scenario.name])),
        }
    }
    let texts: Vec<String> = sizes.iter().map(|(size, names)| format!("{}: {size}", names.join(", "))).collect();
    (!texts.is_empty()).then(|| format!("{}. Effects may differ at full size.", texts.join("; ")))
}

fn reproduce(plan: &Plan) -> Vec<String> {
    let images = plan.experiment.configs.iter().filter(|config| config.image.is_some());
    let benches: Vec<String> = images.map(|config| format!(" --bench {}=PATH", config.name)).collect();
    vec![
        format!(
            "`assay run experiment.yaml --out NEW{}` runs the same trials in the same order: seed {}, plan {}.",
            benches.concat(),
            plan.experiment.seed,
            plan.digest
        ),
        "The verdicts depend only on plan.json and the records: `assay judge` on this folder computes them again."
            .to_owned(),
    ]
}

#[cfg(test)]
pub(crate) mod tests;
