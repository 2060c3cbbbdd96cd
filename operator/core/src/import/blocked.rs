//! Runs that come in blocks: they get the verdicts of any experiment.

use super::comparison::{Comparison, in_session};
use super::data::{DataProblem, Name};
use super::gates::Gated;
use super::report::{CellRuling, ComparisonReport, ConfigRuling, Layout, Numbers};
use crate::gates::Finding;
use crate::report::{About, Estimate, Failures, Ruling, sentence};
use crate::verdict::{
    self, Design, Effect, Ending, Endings, Intervals, Invalid, Lack, MetricSamples, Observed, PValues, Scope,
};

/// Steps of the null distributions that an interval per effect may take in all: half a minute.
const AFFORDABLE: f64 = 3e8;
/// Steps for each of an interval's kinks, of which a block has about as many as the cube of its baseline runs.
const PER_KINK: f64 = 16.0;

/// What Assay can't vouch for.
const UNSEEN: &str = "Assay did not make these runs. It takes on trust that the runs of a block ran close together in \
                      random order, that their number was fixed in advance, and that nothing else disturbed them.";

pub(super) fn judge(comparison: &Comparison<'_>, gated: &Gated) -> Result<ComparisonReport, DataProblem> {
    let design = comparison.design();
    let observed = observed(comparison, gated);
    let intervals = affordable(&design);
    let judgement = verdict::judge(&design, &observed, intervals).map_err(|error| {
        DataProblem::new(format!(
            "the runs{} can't be judged: {error}",
            in_session(comparison.data, comparison.session)
        ))
    })?;
    let families = design.families();
    let baseline = comparison.text(comparison.baseline);
    let ruling = |about: About<'_>, found: &verdict::Conclusion, findings: &[Finding]| {
        let verdict::Conclusion { outcome, recommendation: what, metrics, .. } = found;
        let estimates: Vec<Estimate> =
            metrics.iter().zip(&design.metrics).map(|(effect, rule)| Estimate::of(effect, rule, true)).collect();
        let reason = outcome.reason.to_string();
        let sentence = sentence(about, outcome.verdict, &reason, &estimates, findings);
        let labels = Ruling::labels(outcome.verdict, &estimates);
        Ruling { verdict: outcome.verdict, reason, sentence, recommendation: what.to_string(), labels, estimates }
    };
    let configs = judgement.overall.iter().zip(&comparison.configs).enumerate().map(|(position, (found, &config))| {
        let findings = gated.anywhere(config);
        let failures = Failures::of((0..design.scenarios.len()).map(|s| observed.runs(s, position, usize::MAX)));
        let about = About { config: &found.config, baseline, family: families.overall, failures, needed: None };
        let ruling = ruling(about, &found.conclusion, &findings);
        let (runs, failed) = (failures.own.ended(), failures.own.failed);
        ConfigRuling { config: found.config.clone(), ruling, runs, failed, findings }
    });
    let cells = judgement.cells.iter().enumerate().map(|(unit, found)| {
        let (s, c) = (unit / design.configs.len(), unit % design.configs.len());
        let (scenario, config) = (comparison.scenarios[s], comparison.configs[c]);
        let (conclusion, findings) = (&found.conclusion, gated.cell(scenario, config));
        let failures = Failures::of(std::iter::once(observed.runs(s, c, usize::MAX)));
        let about = About { config: &found.config, baseline, family: families.cells, failures, needed: None };
        let mut ruling = ruling(about, conclusion, &findings);
        for (metric, estimate) in ruling.estimates.iter_mut().enumerate() {
            (estimate.baseline_median, estimate.config_median) = observed.samples[s][metric].medians(c);
        }
        let effects = conclusion.metrics.iter().enumerate();
        let numbers =
            effects.map(|(metric, effect)| numbers(comparison, scenario, config, metric, effect, failures)).collect();
        CellRuling {
            scenario: found.scenario.clone(),
            config: found.config.clone(),
            ruling,
            runs: failures.own.ended(),
            failed: failures.own.failed,
            baseline_runs: failures.baseline.ended(),
            baseline_failed: failures.baseline.failed,
            numbers,
        }
    });
    let mut notes = gated.notes.clone();
    if intervals != Intervals::All {
        notes.push(
            "With this many runs, some intervals take too long to compute: they are shown as \"no interval\"."
                .to_owned(),
        );
    }
    let cells: Vec<CellRuling> = cells.collect();
    notes.extend(super::advisory::zeros(&cells));
    let guarantees = std::iter::once(UNSEEN.to_owned()).chain(verdict::guarantees(&design)).collect();
    Ok(ComparisonReport {
        session: comparison.session_name(),
        baseline: comparison.text(comparison.baseline).to_owned(),
        design: Layout::Blocked,
        scenarios: design.scenarios.iter().map(|scenario| scenario.name.clone()).collect(),
        blocks: comparison.blocks.len(),
        baseline_replicates: comparison.m0,
        fewest_blocks: judgement.families.overall.n_min,
        configs: configs.collect(),
        cells,
        notes,
        guarantees,
    })
}

/// The intervals that end in time: those of every cell, those over all scenarios, or none.
fn affordable(design: &Design) -> Intervals {
    let (blocks, m0) = (design.max_blocks as f64, design.m0 as f64);
    let each = blocks * (blocks * m0).powi(2) + PER_KINK * blocks * m0.powi(3);
    let overall = (design.configs.len() * design.metrics.len()) as f64 * each;
    if overall * (design.scenarios.len() + 1) as f64 <= AFFORDABLE {
        Intervals::All
    } else if overall <= AFFORDABLE {
        Intervals::Overall
    } else {
        Intervals::None
    }
}

/// All values and endings. A run that is left out has neither, so that both stay beside each other.
fn observed(comparison: &Comparison<'_>, gated: &Gated) -> Observed {
    let (mut samples, endings, lacks) = taken(comparison, gated);
    let mut firsts = samples.clone();
    for (metrics, &scenario) in firsts.iter_mut().zip(&comparison.scenarios) {
        for (key, run) in comparison.runs(scenario, comparison.baseline).filter(|(key, _)| gated.held.contains(*key)) {
            let block = comparison.blocks.iter().position(|&block| Some(block) == key.block);
            for (metric, samples) in metrics.iter_mut().enumerate() {
                if let Some(runs) = block.and_then(|block| samples.baseline.get_mut(block)) {
                    runs.push(run.value(metric));
                }
            }
        }
    }
    for row in samples.iter_mut().chain(&mut firsts).flatten() {
        row.baseline.iter_mut().for_each(|runs| runs.truncate(comparison.m0));
    }
    if firsts == samples {
        firsts.clear();
    }
    let invalid = invalid(comparison, gated);
    Observed { samples, firsts, endings, lacks, invalid, ended: true, ..Observed::default() }
}

/// What the runs that count have measured, how they ended, and what they lack.
fn taken(comparison: &Comparison<'_>, gated: &Gated) -> (Vec<Vec<MetricSamples>>, Vec<Endings>, Vec<Lack>) {
    let (blocks, configs) = (comparison.blocks.len(), comparison.configs.len());
    let (mut samples, mut endings, mut lacks) = (Vec::new(), Vec::new(), Vec::new());
    for &scenario in &comparison.scenarios {
        let empty = MetricSamples { baseline: vec![Vec::new(); blocks], configs: vec![vec![None; blocks]; configs] };
        let mut metrics = vec![empty; comparison.rules.len()];
        let mut ends =
            Endings { baseline: vec![Vec::new(); blocks], configs: vec![vec![Ending::Missing; blocks]; configs] };
        for (arm, name) in comparison.arms().enumerate() {
            // The first arm is the baseline.
            let config = arm.checked_sub(1);
            for (key, run) in comparison.runs(scenario, name).filter(|(key, _)| !gated.excluded.contains(*key)) {
                let Some(block) = comparison.blocks.iter().position(|&block| Some(block) == key.block) else {
                    continue;
                };
                match config {
                    None => ends.baseline[block].push(run.ending),
                    Some(config) => ends.configs[config][block] = run.ending,
                }
                for (metric, samples) in metrics.iter_mut().enumerate() {
                    if run.value(metric).is_none() && !run.ending.has_failed() {
                        lacks.push(Lack { scenario: endings.len(), metric, config, block });
                    }
                    match config {
                        None => samples.baseline[block].push(run.value(metric)),
                        Some(config) => samples.configs[config][block] = run.value(metric),
                    }
                }
            }
        }
        samples.push(metrics);
        endings.push(ends);
    }
    (samples, endings, lacks)
}

fn invalid(comparison: &Comparison<'_>, gated: &Gated) -> Vec<Invalid> {
    let config = |name: Name| comparison.configs.iter().position(|&config| config == name);
    let mut invalid = Vec::new();
    let mut mark = |scope: Option<Scope>, findings: &[Finding]| {
        let Some(scope) = scope else { return };
        invalid.extend(findings.iter().map(|finding| Invalid { scope, code: finding.code.to_string() }));
    };
    mark(Some(Scope::Design), &gated.all);
    for (&name, findings) in &gated.configs {
        mark(config(name).map(Scope::Config), findings);
    }
    for (&(scenario, arm), findings) in &gated.cells {
        let scenario = comparison.scenarios.iter().position(|&name| name == scenario);
        let scope = match arm {
            None => scenario.map(Scope::Scenario),
            Some(arm) => scenario.zip(config(arm)).map(|(scenario, config)| Scope::Cell { scenario, config }),
        };
        mark(scope, findings);
    }
    invalid
}

/// The paired test's numbers in the words of two samples.
fn numbers(
    comparison: &Comparison<'_>,
    scenario: Name,
    config: Name,
    metric: usize,
    effect: &Effect,
    failures: Failures,
) -> Numbers {
    let values =
        |arm: Name| -> Vec<f64> { comparison.runs(scenario, arm).filter_map(|(_, run)| run.value(metric)).collect() };
    let (baseline, own) = (values(comparison.baseline), values(config));
    let PValues { better, worse, better_adjusted, worse_adjusted, .. } = effect.p;
    let two_sided = |a: f64, b: f64| (2.0 * a.min(b)).min(1.0);
    Numbers {
        metric: effect.metric.clone(),
        config_runs: own.len(),
        baseline_runs: baseline.len(),
        config_failed: failures.own.failed,
        baseline_failed: failures.baseline.failed,
        means_percent: super::advisory::means_percent(&comparison.rules[metric], &baseline, &own),
        shift: effect.estimate,
        has_zeros: effect.has_zeros,
        p: two_sided(better, worse),
        p_adjusted: two_sided(better_adjusted.unwrap_or(1.0), worse_adjusted.unwrap_or(1.0)),
        smallest_p: 0.5_f64.powf(effect.n as f64 - 1.0).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Adjust, Direction, Scale};
    use crate::verdict::{MetricRule, Purpose, Scenario};

    #[test]
    fn intervals_end_in_time() {
        let chosen = |configs: usize, scenarios: usize, max_blocks: usize, m0: usize| {
            let rule = MetricRule::new("ops", Direction::Higher, Purpose::Objective, 0.05, Scale::Log);
            affordable(&Design {
                metrics: vec![rule],
                scenarios: (0..scenarios).map(|i| Scenario { name: i.to_string(), weight: 1.0 }).collect(),
                configs: (0..configs).map(|i| i.to_string()).collect(),
                m0,
                max_blocks,
                looks: None,
                cells_adjust: Adjust::Holm,
            })
        };
        assert_eq!(chosen(18, 3, 30, 2), Intervals::All);
        assert_eq!(chosen(18, 8, 100, 2), Intervals::Overall);
        assert_eq!(chosen(100, 3, 256, 2), Intervals::None);
        // Few blocks of many runs.
        assert_eq!(chosen(1, 1, 5, 50), Intervals::All);
        assert_eq!(chosen(1, 1, 5, 200), Intervals::None);
    }
}
