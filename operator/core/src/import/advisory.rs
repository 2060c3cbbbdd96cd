//! Runs that do not come in blocks: what they say is shown, and proves nothing.

use std::collections::BTreeSet;

use super::comparison::{Comparison, in_session};
use super::data::Name;
use super::gates::Gated;
use super::report::{CellRuling, ComparisonReport, ConfigRuling, Layout, Numbers};
use super::words::probability;
use crate::gates::Finding;
use crate::report::{About, Estimate, Failures, Ruling, sentence, sided};
use crate::stats::{Direction, Scale, Unmeasurable, holm, mann_whitney, median, shift};
use crate::verdict::{Ending, Family, MetricRule, Purpose, Reason, Runs, Verdict};

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
            let failures = failures(comparison, &[scenario], config);
            let (estimates, numbers) = numbers(comparison, gated, scenario, config, failures, !findings.is_empty());
            let about = about(comparison, config, failures);
            let ruling = cell(comparison.rules, about, estimates, &numbers, &findings, families.cells.n_min);
            cells.push(CellRuling {
                scenario: comparison.text(scenario).to_owned(),
                config: about.config.to_owned(),
                ruling,
                runs: failures.own.ended(),
                failed: failures.own.failed,
                baseline_runs: failures.baseline.ended(),
                baseline_failed: failures.baseline.failed,
                numbers,
            });
        }
    }
    adjust(comparison.rules, &mut cells);
    let configs = comparison.configs.iter().enumerate().map(|(c, &config)| {
        let own: Vec<&CellRuling> = cells.iter().skip(c).step_by(comparison.configs.len()).collect();
        let findings = gated.anywhere(config);
        let failures = failures(comparison, &comparison.scenarios, config);
        let ruling = overall(about(comparison, config, failures), &gated.config(config), &own, &findings);
        let (runs, failed) = (failures.own.ended(), failures.own.failed);
        ConfigRuling { config: comparison.text(config).to_owned(), ruling, runs, failed, findings }
    });
    let configs = configs.collect();
    let mut notes = gated.notes.clone();
    notes.extend(left_out(comparison, &cells));
    notes.push(format!(
        "The runs{} have no blocks, so it is unknown which ones ran next to each other. Differences between hours, \
         machines and run orders are in every number, so there is no verdict.",
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

/// How the runs of one arm ended.
fn ended(comparison: &Comparison<'_>, scenario: Name, arm: Name) -> Runs {
    let count = |wanted: &dyn Fn(Ending) -> bool| {
        comparison.runs(scenario, arm).filter(|(_, run)| wanted(run.ending)).count() as u32
    };
    Runs {
        failed: count(&Ending::has_failed),
        damaged: count(&|ending| ending == Ending::Damaged),
        sound: count(&|ending| ending == Ending::Sound),
    }
}

/// The same of a config in some scenarios, and of the baseline.
fn failures(comparison: &Comparison<'_>, scenarios: &[Name], config: Name) -> Failures {
    let of = |scenario: Name, arm: Name| ended(comparison, scenario, arm);
    Failures::of(scenarios.iter().map(|&scenario| (of(scenario, config), of(scenario, comparison.baseline))))
}

/// The runs that no mean and no shift has in it, and why.
fn left_out(comparison: &Comparison<'_>, cells: &[CellRuling]) -> Vec<String> {
    let mut notes = Vec::new();
    for &scenario in &comparison.scenarios {
        for arm in comparison.arms() {
            let runs = ended(comparison, scenario, arm);
            if runs.failed == 0 {
                continue;
            }
            let damaged =
                if runs.damaged > 0 { format!(" ({} with damaged data)", runs.damaged) } else { String::new() };
            notes.push(format!(
                "{} of {} runs of {} in {} failed{damaged}. For p they rank below all others; medians, means and \
                 shifts leave them out.",
                runs.failed,
                runs.ended(),
                comparison.text(arm),
                comparison.text(scenario)
            ));
        }
    }
    notes.extend(zeros(cells));
    notes
}

/// A note for each metric with zeros, which have no ratio to other values.
pub(super) fn zeros(cells: &[CellRuling]) -> Vec<String> {
    let with_zeros = cells.iter().flat_map(|cell| &cell.numbers).filter(|numbers| numbers.has_zeros);
    let names: BTreeSet<&str> = with_zeros.map(|numbers| numbers.metric.as_str()).collect();
    let note = |metric: &str| {
        format!(
            "Some values of {metric} are zero. They rank best or worst, but have no ratio to others, so the effect has no \
             size. If zero is a usual value of {metric}, declare it in a policy with scale: linear."
        )
    };
    names.into_iter().map(note).collect()
}

/// The runs of one arm, as one metric saw them.
struct Arm {
    values: Vec<f64>,
    failed: u32,
}

/// Two samples, metric by metric. A cell that is invalid is shown with the runs that made it so.
fn numbers(
    comparison: &Comparison<'_>,
    gated: &Gated,
    scenario: Name,
    config: Name,
    failures: Failures,
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
        let baseline = Arm { values: values(comparison.baseline), failed: failures.baseline.failed };
        let own = Arm { values: values(config), failed: failures.own.failed };
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
            bounds: None,
            estimate_percent: numbers.shift.and_then(|shift| rule.scale.percent(shift)),
            mean: None,
            mean_percent: None,
            has_zeros: numbers.has_zeros,
            at_least: rule.at_least,
            detectable_percent: None,
            blocks_for_margin: None,
            p: None,
            baseline_median: median(&baseline.values),
            config_median: median(&own.values),
        };
        (estimate, numbers)
    });
    pairs.unzip()
}

fn two_samples(rule: &MetricRule, baseline: &Arm, own: &Arm) -> Numbers {
    let (a, b) = (baseline.effects(rule), own.effects(rule));
    let finite = |effects: &[f64]| -> Vec<f64> { effects.iter().copied().filter(|x| x.is_finite()).collect() };
    let has_zeros = baseline.has_zeros(rule) || own.has_zeros(rule);
    let test = mann_whitney(&ranked(&a), &ranked(&b));
    Numbers {
        metric: rule.name.clone(),
        config_runs: own.values.len(),
        baseline_runs: baseline.values.len(),
        config_failed: own.failed,
        baseline_failed: baseline.failed,
        means_percent: means_percent(rule, &baseline.values, &own.values),
        shift: if has_zeros { None } else { shift(&finite(&a), &finite(&b)) },
        has_zeros,
        p: test.two_sided,
        p_adjusted: test.two_sided,
        smallest_p: test.smallest_two_sided,
    }
}

impl Arm {
    /// Effects, of which those that no number can express are infinite: a failed run is the worst, a zero the worst or the best.
    fn effects(&self, rule: &MetricRule) -> Vec<f64> {
        let failed = std::iter::repeat_n(f64::NEG_INFINITY, self.failed as usize);
        self.values.iter().filter_map(|&value| effect(rule, value)).chain(failed).collect()
    }

    fn has_zeros(&self, rule: &MetricRule) -> bool {
        rule.scale == Scale::Log && self.values.contains(&0.0)
    }
}

fn effect(rule: &MetricRule, value: f64) -> Option<f64> {
    match (rule.scale.transform(rule.direction, value), rule.direction) {
        (Ok(effect), _) => Some(effect),
        (Err(Unmeasurable::Zero), Direction::Higher) => Some(f64::NEG_INFINITY),
        (Err(Unmeasurable::Zero), Direction::Lower) => Some(f64::INFINITY),
        // What else can't be transformed was refused when it was read.
        (Err(_), _) => None,
    }
}

/// Finite values in the same order, as the test wants them.
fn ranked(effects: &[f64]) -> Vec<f64> {
    effects.iter().map(|&effect| effect.clamp(f64::MIN, f64::MAX)).collect()
}

/// What most people compute: one mean against the other. As everywhere, positive is better: for a time it is how much faster.
pub(super) fn means_percent(rule: &MetricRule, baseline: &[f64], own: &[f64]) -> Option<f64> {
    // In ascending order, so that the sum does not depend on the order of rows.
    let mean = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_unstable_by(f64::total_cmp);
        values.iter().sum::<f64>() / values.len() as f64
    };
    let ratio = match rule.direction {
        Direction::Higher => mean(own) / mean(baseline),
        Direction::Lower => mean(baseline) / mean(own),
    };
    let percent = 100.0 * (ratio - 1.0);
    (rule.scale == Scale::Log && percent.is_finite()).then_some(percent)
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
    rules: &[MetricRule],
    about: About<'_>,
    estimates: Vec<Estimate>,
    numbers: &[Numbers],
    findings: &[Finding],
    n_min: usize,
) -> Ruling {
    if !findings.is_empty() {
        return invalid(about, codes(findings), Vec::new(), findings, estimates);
    }
    let objectives = || rules.iter().zip(numbers).filter(|(rule, _)| rule.purpose == Purpose::Objective);
    let few = objectives().any(|(_, numbers)| fewest(numbers) < n_min);
    let parts: Vec<String> = objectives().map(|(rule, numbers)| words(rule, numbers)).collect();
    let why = if few {
        format!("Even in blocks, fewer than {n_min} runs of each can't prove anything here")
    } else {
        "Without blocks nothing is proven".to_owned()
    };
    Ruling {
        verdict: Verdict::Inconclusive,
        reason: if few { TOO_FEW } else { UNBLOCKED }.to_owned(),
        sentence: with_failures(about, format!("{why}. {}: {}.", about.config, parts.join("; "))),
        recommendation: "run in blocks".to_owned(),
        labels: Vec::new(),
        estimates,
    }
}

/// Runs of the arm that has fewer.
fn fewest(numbers: &Numbers) -> usize {
    let own = numbers.config_runs + numbers.config_failed as usize;
    own.min(numbers.baseline_runs + numbers.baseline_failed as usize)
}

fn words(rule: &MetricRule, numbers: &Numbers) -> String {
    let Numbers { metric, config_runs, baseline_runs, p, smallest_p, .. } = numbers;
    let effect = match numbers.shift {
        Some(shift) => sided(rule.scale, shift),
        None if numbers.has_zeros => "is zero in some runs, so its effect has no size".to_owned(),
        None => return format!("{metric} unknown"),
    };
    format!(
        "{metric} {effect} ({config_runs} runs against {baseline_runs}, p {}, best possible p {})",
        probability(*p),
        probability(*smallest_p)
    )
}

/// A sentence with every failure.
fn with_failures(about: About<'_>, sentence: String) -> String {
    let failures = about.failures;
    if failures.own.failed + failures.baseline.failed == 0 {
        return sentence;
    }
    format!("{sentence} {}.", failures.words(&about))
}

fn overall(about: About<'_>, everywhere: &[Finding], cells: &[&CellRuling], findings: &[Finding]) -> Ruling {
    if let [only] = cells {
        return only.ruling.clone();
    }
    if !findings.is_empty() {
        let bad = cells.iter().filter(|cell| cell.ruling.verdict == Verdict::Invalid);
        let scenarios =
            if everywhere.is_empty() { bad.map(|cell| cell.scenario.clone()).collect() } else { Vec::new() };
        let named = if everywhere.is_empty() { codes(findings) } else { codes(everywhere) };
        return invalid(about, named, scenarios, findings, Vec::new());
    }
    let few = cells.iter().any(|cell| cell.ruling.reason == TOO_FEW);
    let sentence = format!("Without blocks nothing is proven about {}: see its scenarios.", about.config);
    Ruling {
        verdict: Verdict::Inconclusive,
        reason: if few { TOO_FEW } else { UNBLOCKED }.to_owned(),
        sentence: with_failures(about, sentence),
        recommendation: "run in blocks".to_owned(),
        labels: Vec::new(),
        estimates: Vec::new(),
    }
}

fn codes(findings: &[Finding]) -> Vec<String> {
    let mut codes: Vec<String> = findings.iter().map(|finding| finding.code.to_string()).collect();
    codes.sort();
    codes.dedup();
    codes
}

fn about<'a>(comparison: &'a Comparison<'_>, config: Name, failures: Failures) -> About<'a> {
    let (config, baseline) = (comparison.text(config), comparison.text(comparison.baseline));
    About { config, baseline, family: Family::default(), failures, needed: None }
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
    let recommendation = "fix setup".to_owned();
    Ruling { verdict: Verdict::Invalid, reason, sentence, recommendation, labels: Vec::new(), estimates }
}
