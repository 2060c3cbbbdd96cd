//! Runs that do not come in blocks: what they say is shown, and proves nothing.

use super::comparison::{Comparison, in_session};
use super::data::Name;
use super::gates::Gated;
use super::report::{CellRuling, ComparisonReport, ConfigRuling, Layout, Numbers};
use super::words::probability;
use crate::gates::Finding;
use crate::report::{About, Estimate, Ruling, number, sentence};
use crate::stats::{Scale, holm, mann_whitney, median, shift};
use crate::verdict::{MetricRule, Purpose, Reason, Verdict};

/// The reason of a verdict that blocks could have given.
const UNBLOCKED: &str = "Unblocked";
/// The reason where even in blocks there are too few runs.
const TOO_FEW: &str = "TooFewBlocks";

/// Says what unblocked runs show. No verdict but `Inconclusive` and `Invalid` ever comes from it: whatever differed between
/// hours and machines is part of every difference here, and no test can take it out.
pub(super) fn judge(comparison: &Comparison<'_>, gated: &Gated) -> ComparisonReport {
    let families = comparison.design().families();
    let mut cells: Vec<CellRuling> = Vec::new();
    for &scenario in &comparison.scenarios {
        for &config in &comparison.configs {
            let findings = gated.cell(scenario, config);
            let (estimates, numbers) = numbers(comparison, gated, scenario, config, !findings.is_empty());
            let ruling = cell(comparison, config, estimates, &numbers, &findings, families.cells.n_min);
            let (scenario, config) = (comparison.text(scenario).to_owned(), comparison.text(config).to_owned());
            cells.push(CellRuling { scenario, config, ruling, numbers });
        }
    }
    adjust(comparison.rules, &mut cells);
    let configs = comparison.configs.iter().enumerate().map(|(c, &config)| {
        let own: Vec<&CellRuling> = cells.iter().skip(c).step_by(comparison.configs.len()).collect();
        let findings = gated.anywhere(config);
        let ruling = overall(comparison, gated, config, &own, &findings);
        ConfigRuling { config: comparison.text(config).to_owned(), ruling, findings }
    });
    let configs = configs.collect();
    let mut notes = gated.notes.clone();
    notes.push(format!(
        "The runs{} have no blocks: nothing shows which were made next to each other. What differed between hours, machines and \
         orders of runs is in every number, so no verdict can follow from them.",
        in_session(comparison.data, comparison.session)
    ));
    ComparisonReport {
        session: comparison.session_name(),
        baseline: comparison.text(comparison.baseline).to_owned(),
        design: Layout::Unblocked,
        scenarios: comparison.scenarios.iter().map(|&name| comparison.text(name).to_owned()).collect(),
        blocks: 0,
        baseline_replicates: 0,
        fewest_blocks: families.overall.n_min,
        configs,
        cells,
        notes,
        guarantees: vec!["None: p values of unblocked runs are advisory.".to_owned()],
    }
}

/// Two samples, metric by metric. A cell that is invalid is shown with the runs that made it so.
fn numbers(
    comparison: &Comparison<'_>,
    gated: &Gated,
    scenario: Name,
    config: Name,
    all: bool,
) -> (Vec<Estimate>, Vec<Numbers>) {
    let pairs = comparison.rules.iter().enumerate().map(|(metric, rule)| {
        let values = |arm: Name| -> Vec<f64> {
            let counted = |key| all || !gated.excluded.contains(key);
            comparison
                .runs(scenario, arm)
                .filter(|(key, _)| counted(*key))
                .filter_map(|(_, run)| run.value(metric))
                .collect()
        };
        let (baseline, own) = (values(comparison.baseline), values(config));
        let numbers = two_samples(rule, &baseline, &own);
        let estimate = Estimate {
            metric: rule.name.clone(),
            purpose: rule.purpose,
            scale: rule.scale,
            margin: rule.margin,
            status: None,
            blocks: 0,
            estimate: numbers.shift,
            interval95: None,
            estimate_percent: numbers.shift.and_then(|shift| rule.scale.percent(shift)),
            detectable_percent: None,
            blocks_for_margin: None,
            p: None,
            baseline_median: median(&baseline),
            config_median: median(&own),
        };
        (estimate, numbers)
    });
    pairs.unzip()
}

fn two_samples(rule: &MetricRule, baseline: &[f64], own: &[f64]) -> Numbers {
    // What can't be transformed was refused when it was read.
    let effects = |values: &[f64]| -> Vec<f64> {
        values.iter().filter_map(|&value| rule.scale.transform(rule.direction, value).ok()).collect()
    };
    let (a, b) = (effects(baseline), effects(own));
    let test = mann_whitney(&a, &b);
    Numbers {
        metric: rule.name.clone(),
        config_runs: own.len(),
        baseline_runs: baseline.len(),
        means_percent: means_percent(rule.scale, baseline, own),
        shift: shift(&a, &b),
        p: test.two_sided,
        p_adjusted: test.two_sided,
        smallest_p: test.smallest_two_sided,
    }
}

/// What most people compute: one mean against the other.
pub(super) fn means_percent(scale: Scale, baseline: &[f64], own: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let percent = 100.0 * (mean(own) / mean(baseline) - 1.0);
    (scale == Scale::Log && percent.is_finite()).then_some(percent)
}

/// Every comparison on an objective is one more chance to find something by accident.
fn adjust(rules: &[MetricRule], cells: &mut [CellRuling]) {
    let claims: Vec<(usize, usize)> = (0..cells.len())
        .flat_map(|cell| rules.iter().enumerate().map(move |(metric, rule)| (cell, metric, rule)))
        .filter(|(_, _, rule)| rule.purpose == Purpose::Objective)
        .map(|(cell, metric, _)| (cell, metric))
        .collect();
    let p: Vec<f64> = claims.iter().map(|&(cell, metric)| cells[cell].numbers[metric].p).collect();
    for ((cell, metric), adjusted) in claims.into_iter().zip(holm(&p)) {
        cells[cell].numbers[metric].p_adjusted = adjusted;
    }
}

fn cell(
    comparison: &Comparison<'_>,
    config: Name,
    estimates: Vec<Estimate>,
    numbers: &[Numbers],
    findings: &[Finding],
    n_min: usize,
) -> Ruling {
    if !findings.is_empty() {
        return invalid(about(comparison, config), codes(findings), Vec::new(), findings, estimates);
    }
    let config = comparison.text(config);
    let objectives = || comparison.rules.iter().zip(numbers).filter(|(rule, _)| rule.purpose == Purpose::Objective);
    let few = objectives().any(|(_, numbers)| numbers.config_runs.min(numbers.baseline_runs) < n_min);
    let parts: Vec<String> = objectives().map(|(rule, numbers)| words(rule, numbers)).collect();
    let why = if few {
        format!("Even in blocks, fewer than {n_min} runs of each could prove nothing here")
    } else {
        "Without blocks nothing is proven".to_owned()
    };
    Ruling {
        verdict: Verdict::Inconclusive,
        reason: if few { TOO_FEW } else { UNBLOCKED }.to_owned(),
        sentence: format!("{why}. {config}: {}.", parts.join("; ")),
        recommendation: "run in blocks".to_owned(),
        estimates,
    }
}

fn words(rule: &MetricRule, numbers: &Numbers) -> String {
    let Numbers { metric, config_runs, baseline_runs, p, smallest_p, .. } = numbers;
    let Some(shift) = numbers.shift else { return format!("{metric} unknown") };
    format!(
        "{metric} {} ({config_runs} runs against {baseline_runs}, p {}, at best {})",
        number::effect(rule.scale, shift),
        probability(*p),
        probability(*smallest_p)
    )
}

fn overall(
    comparison: &Comparison<'_>,
    gated: &Gated,
    config: Name,
    cells: &[&CellRuling],
    findings: &[Finding],
) -> Ruling {
    let name = comparison.text(config);
    if let [only] = cells {
        return only.ruling.clone();
    }
    if !findings.is_empty() {
        let everywhere = gated.config(config);
        let bad = cells.iter().filter(|cell| cell.ruling.verdict == Verdict::Invalid);
        let scenarios =
            if everywhere.is_empty() { bad.map(|cell| cell.scenario.clone()).collect() } else { Vec::new() };
        let named = if everywhere.is_empty() { codes(findings) } else { codes(&everywhere) };
        return invalid(about(comparison, config), named, scenarios, findings, Vec::new());
    }
    let few = cells.iter().any(|cell| cell.ruling.reason == TOO_FEW);
    Ruling {
        verdict: Verdict::Inconclusive,
        reason: if few { TOO_FEW } else { UNBLOCKED }.to_owned(),
        sentence: format!("Without blocks nothing is proven about {name}: see its scenarios."),
        recommendation: "run in blocks".to_owned(),
        estimates: Vec::new(),
    }
}

fn codes(findings: &[Finding]) -> Vec<String> {
    let mut codes: Vec<String> = findings.iter().map(|finding| finding.code.to_string()).collect();
    codes.sort();
    codes.dedup();
    codes
}

fn about<'a>(comparison: &'a Comparison<'_>, config: Name) -> About<'a> {
    About { config: comparison.text(config), baseline: comparison.text(comparison.baseline), fewest_blocks: 0 }
}

fn invalid(
    about: About<'_>,
    codes: Vec<String>,
    scenarios: Vec<String>,
    findings: &[Finding],
    estimates: Vec<Estimate>,
) -> Ruling {
    let reason = Reason::Invalid { codes, scenarios }.to_string();
    let sentence = sentence(about, Verdict::Invalid, &reason, &estimates, findings);
    Ruling { verdict: Verdict::Invalid, reason, sentence, recommendation: "fix setup".to_owned(), estimates }
}
