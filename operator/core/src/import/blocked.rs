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
    let mut notes: Vec<String> = comparison.rounds.note.iter().chain(&gated.notes).cloned().collect();
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
        blocks: comparison.rounds.count,
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

/// All values and endings. A run that is left out has neither, and keeps its position, so that all of them stay beside each other.
fn observed(comparison: &Comparison<'_>, gated: &Gated) -> Observed {
    let (blocks, configs) = (comparison.rounds.count, comparison.configs.len());
    let mut observed = Observed { ended: true, ..Observed::default() };
    for (scenario, &name) in comparison.scenarios.iter().enumerate() {
        let empty = MetricSamples { baseline: vec![Vec::new(); blocks], configs: vec![vec![None; blocks]; configs] };
        let mut samples = vec![empty; comparison.rules.len()];
        let mut firsts = samples.clone();
        let mut endings =
            Endings { baseline: vec![Vec::new(); blocks], configs: vec![vec![Ending::Missing; blocks]; configs] };
        for (arm, arm_name) in comparison.arms().enumerate() {
            // The first arm is the baseline.
            let config = arm.checked_sub(1);
            let placed = comparison.placed(name, arm_name).into_iter();
            for (block, (key, run)) in placed.flat_map(|(block, runs)| runs.into_iter().map(move |run| (block, run))) {
                let counts = !gated.excluded.contains(key);
                let ending = if counts { run.ending } else { Ending::Missing };
                match config {
                    None => endings.baseline[block].push(ending),
                    Some(config) => endings.configs[config][block] = ending,
                }
                // A baseline run that is too good still counts against a config.
                let is_first = counts || (config.is_none() && gated.held.contains(key));
                for metric in 0..comparison.rules.len() {
                    let value = run.value(metric);
                    if counts && value.is_none() && !run.ending.has_failed() {
                        observed.lacks.push(Lack { scenario, metric, config, block });
                    }
                    let (value, first) = (value.filter(|_| counts), value.filter(|_| is_first));
                    match config {
                        None => {
                            samples[metric].baseline[block].push(value);
                            firsts[metric].baseline[block].push(first);
                        }
                        Some(config) => {
                            samples[metric].configs[config][block] = value;
                            firsts[metric].configs[config][block] = first;
                        }
                    }
                }
            }
        }
        for firsts in &mut firsts {
            fill_baseline(firsts, comparison.m0);
        }
        observed.samples.push(samples);
        observed.firsts.push(firsts);
        observed.endings.push(endings);
    }
    if observed.firsts == observed.samples {
        observed.firsts.clear();
    }
    observed.lost_firsts.clone_from(&gated.lost_firsts);
    observed.invalid = invalid(comparison, gated);
    observed
}

/// Puts the baseline's median in the place of baseline runs that a block lacks: a missing baseline row must not hide the config's run.
fn fill_baseline(firsts: &mut MetricSamples, m0: usize) {
    let Some(usual) = firsts.median(None) else { return };
    for (block, runs) in firsts.baseline.iter_mut().enumerate() {
        if firsts.configs.iter().any(|values| values.get(block).is_some_and(Option::is_some)) {
            runs.resize(m0, None);
            for run in runs {
                *run = run.or(Some(usual));
            }
        }
    }
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
