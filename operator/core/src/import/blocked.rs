//! Runs that come in blocks: they get the verdicts of any experiment.

use super::comparison::{Comparison, in_session};
use super::data::{DataProblem, Name};
use super::gates::Gated;
use super::report::{CellRuling, ComparisonReport, ConfigRuling, Layout, Numbers};
use crate::gates::Finding;
use crate::report::{About, Estimate, Ruling, sentence};
use crate::stats::median;
use crate::verdict::{self, Design, Effect, Intervals, Invalid, MetricSamples, Observed, PValues, Scope};

/// Steps of the null distributions that an interval per effect may take in all: half a minute.
const AFFORDABLE: f64 = 3e8;

/// What Assay can't vouch for.
const UNSEEN: &str = "Assay did not make these runs. That the runs of a block were made close together in random order, that \
                      their number was fixed before, and that nothing else disturbed them is taken on trust.";

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
        let verdict::Conclusion { outcome, recommendation: what, metrics } = found;
        let estimates: Vec<Estimate> =
            metrics.iter().zip(&design.metrics).map(|(effect, rule)| Estimate::of(effect, rule, true)).collect();
        let reason = outcome.reason.to_string();
        let sentence = sentence(about, outcome.verdict, &reason, &estimates, findings);
        Ruling { verdict: outcome.verdict, reason, sentence, recommendation: what.to_string(), estimates }
    };
    let configs = judgement.overall.iter().zip(&comparison.configs).map(|(found, &config)| {
        let findings = gated.anywhere(config);
        let about = About { config: &found.config, baseline, fewest_blocks: families.overall.n_min };
        let ruling = ruling(about, &found.conclusion, &findings);
        ConfigRuling { config: found.config.clone(), ruling, findings }
    });
    let cells = judgement.cells.iter().enumerate().map(|(unit, found)| {
        let (s, c) = (unit / design.configs.len(), unit % design.configs.len());
        let (scenario, config) = (comparison.scenarios[s], comparison.configs[c]);
        let (conclusion, findings) = (&found.conclusion, gated.cell(scenario, config));
        let about = About { config: &found.config, baseline, fewest_blocks: families.cells.n_min };
        let mut ruling = ruling(about, conclusion, &findings);
        for (metric, estimate) in ruling.estimates.iter_mut().enumerate() {
            let samples = &observed.samples[s][metric];
            let baseline: Vec<f64> = samples.baseline.iter().flatten().flatten().copied().collect();
            let own: Vec<f64> = samples.configs[c].iter().flatten().copied().collect();
            (estimate.baseline_median, estimate.config_median) = (median(&baseline), median(&own));
        }
        let effects = conclusion.metrics.iter().enumerate();
        let numbers = effects.map(|(metric, effect)| numbers(comparison, scenario, config, metric, effect)).collect();
        CellRuling { scenario: found.scenario.clone(), config: found.config.clone(), ruling, numbers }
    });
    let mut notes = gated.notes.clone();
    if intervals != Intervals::All {
        notes.push("With so many runs some intervals would take too long: they are shown as not bounded.".to_owned());
    }
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
        cells: cells.collect(),
        notes,
        guarantees,
    })
}

/// The intervals that end in time: those of every cell, those over all scenarios, or none.
fn affordable(design: &Design) -> Intervals {
    let blocks = design.max_blocks as f64;
    let each = blocks * (blocks * design.m0 as f64).powi(2);
    let overall = (design.configs.len() * design.metrics.len()) as f64 * each;
    if overall * (design.scenarios.len() + 1) as f64 <= AFFORDABLE {
        Intervals::All
    } else if overall <= AFFORDABLE {
        Intervals::Overall
    } else {
        Intervals::None
    }
}

fn observed(comparison: &Comparison<'_>, gated: &Gated) -> Observed {
    let blocks = comparison.blocks.len();
    let mut samples = Vec::with_capacity(comparison.scenarios.len());
    for &scenario in &comparison.scenarios {
        let empty = MetricSamples {
            baseline: vec![Vec::new(); blocks],
            configs: vec![vec![None; blocks]; comparison.configs.len()],
        };
        let mut metrics = vec![empty; comparison.rules.len()];
        for (arm, name) in comparison.arms().enumerate() {
            for (key, run) in comparison.runs(scenario, name).filter(|(key, _)| !gated.excluded.contains(*key)) {
                let Some(block) = comparison.blocks.iter().position(|&block| Some(block) == key.block) else {
                    continue;
                };
                for (metric, samples) in metrics.iter_mut().enumerate() {
                    match arm {
                        0 => samples.baseline[block].push(run.value(metric)),
                        _ => samples.configs[arm - 1][block] = run.value(metric),
                    }
                }
            }
        }
        samples.push(metrics);
    }
    Observed { samples, attempts: Vec::new(), invalid: invalid(comparison, gated), ended: true }
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
fn numbers(comparison: &Comparison<'_>, scenario: Name, config: Name, metric: usize, effect: &Effect) -> Numbers {
    let values =
        |arm: Name| -> Vec<f64> { comparison.runs(scenario, arm).filter_map(|(_, run)| run.value(metric)).collect() };
    let (baseline, own) = (values(comparison.baseline), values(config));
    let PValues { better, worse, better_adjusted, worse_adjusted, .. } = effect.p;
    let two_sided = |a: f64, b: f64| (2.0 * a.min(b)).min(1.0);
    Numbers {
        metric: effect.metric.clone(),
        config_runs: own.len(),
        baseline_runs: baseline.len(),
        means_percent: super::advisory::means_percent(comparison.rules[metric].scale, &baseline, &own),
        shift: effect.estimate,
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
        let chosen = |configs: usize, scenarios: usize, max_blocks: usize| {
            let rule = MetricRule {
                name: "ops".to_owned(),
                direction: Direction::Higher,
                purpose: Purpose::Objective,
                margin: 0.05,
                scale: Scale::Log,
            };
            affordable(&Design {
                metrics: vec![rule],
                scenarios: (0..scenarios).map(|i| Scenario { name: i.to_string(), weight: 1.0 }).collect(),
                configs: (0..configs).map(|i| i.to_string()).collect(),
                m0: 2,
                max_blocks,
                looks: None,
                cells_adjust: Adjust::Holm,
            })
        };
        assert_eq!(chosen(18, 3, 30), Intervals::All);
        assert_eq!(chosen(18, 8, 100), Intervals::Overall);
        assert_eq!(chosen(100, 3, 256), Intervals::None);
    }
}
