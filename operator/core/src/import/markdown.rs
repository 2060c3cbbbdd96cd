use std::fmt::Write as _;

use super::report::{ComparisonReport, ImportReport, Layout, Numbers};
use super::words::{design, direction_note, has_samples, percent, probability, shift, supported};
use crate::report::markdown::{bullets, code, escape, folded};
use crate::report::{Ruling, number};

/// The report as Markdown: claims first, where there are any.
pub fn markdown(report: &ImportReport) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# {}\n", escape(&report.title));
    if !report.claims.is_empty() {
        claims(&mut out, report);
    }
    for comparison in &report.comparisons {
        one(&mut out, report, comparison);
    }
    let _ = writeln!(out, "{}\n", direction_note(report, has_samples(report)));
    if !report.notes.is_empty() {
        let _ = writeln!(out, "{}", bullets(&report.notes.iter().map(|note| escape(note)).collect::<Vec<_>>()));
    }
    let _ = writeln!(out, "Judged by {}.", report.produced_by);
    out
}

fn claims(out: &mut String, report: &ImportReport) {
    let holding = report.claims.iter().filter(|claim| claim.holds()).count();
    let _ = writeln!(out, "## Claims\n\n{holding} of {} hold.\n", report.claims.len());
    let _ = writeln!(out, "| claim | config | claimed | supported | means | shift | p | best p | runs |");
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|---|");
    for claim in &report.claims {
        let session = claim.session.as_ref().map_or(String::new(), |session| format!("{session}: "));
        let numbers = claim.numbers.as_ref().map_or(" | | | |".to_owned(), |numbers| cells(report, numbers));
        let _ = writeln!(
            out,
            "| {} | {} | {:?} | **{}** | {numbers} |",
            escape(&format!("{session}{}", claim.text)),
            code(&claim.config),
            claim.claimed,
            escape(&supported(claim.supported, &claim.reason)),
        );
    }
    let _ = writeln!(out);
}

/// Means, shift, p, the least p, runs.
fn cells(report: &ImportReport, numbers: &Numbers) -> String {
    let scale =
        report.metrics.iter().find(|rule| rule.name == numbers.metric).map(|rule| rule.scale).unwrap_or_default();
    format!(
        "{} | {} | {} | {} | {}/{}",
        numbers.means_percent.map_or(String::new(), percent),
        shift(scale, numbers),
        probability(numbers.p),
        probability(numbers.smallest_p),
        numbers.config_runs,
        numbers.baseline_runs
    )
}

fn one(out: &mut String, report: &ImportReport, comparison: &ComparisonReport) {
    let name = comparison.session.clone().unwrap_or_else(|| "Runs".to_owned());
    let (baseline, design) = (code(&comparison.baseline), design(comparison));
    let _ = writeln!(out, "## {} against {baseline}\n\nDesign: {design}.\n", escape(&name));
    match comparison.design {
        Layout::Blocked => {
            let _ =
                writeln!(out, "| config | scenario | verdict | reason | metric | estimate | 95 % interval | mean |");
            let _ = writeln!(out, "|---|---|---|---|---|---|---|---|");
            for config in &comparison.configs {
                let why = config.ruling.why(config.failed, config.runs);
                rows(out, &config.config, "all", &config.ruling, &why);
            }
            if comparison.scenarios.len() > 1 {
                for cell in &comparison.cells {
                    let why = cell.ruling.why(cell.failed, cell.runs);
                    rows(out, &cell.config, &cell.scenario, &cell.ruling, &why);
                }
            }
        }
        Layout::Unblocked => {
            let _ = writeln!(out, "| config | scenario | verdict | metric | means | shift | p | best p | runs |");
            let _ = writeln!(out, "|---|---|---|---|---|---|---|---|---|");
            for cell in &comparison.cells {
                let why = cell.ruling.why(cell.failed, cell.runs);
                let verdict = escape(&supported(Some(cell.ruling.verdict), &why));
                for numbers in &cell.numbers {
                    let first = format!("{} | {} | **{verdict}**", code(&cell.config), code(&cell.scenario));
                    let _ = writeln!(out, "| {first} | {} | {} |", code(&numbers.metric), cells(report, numbers));
                }
            }
        }
    }
    let _ = writeln!(out);
    let sentences: Vec<String> = comparison.configs.iter().map(|config| escape(&config.ruling.sentence)).collect();
    let _ = writeln!(out, "{}", bullets(&sentences));
    if !comparison.notes.is_empty() {
        let notes: Vec<String> = comparison.notes.iter().map(|note| escape(note)).collect();
        let _ = writeln!(out, "Notes:\n\n{}", bullets(&notes));
    }
    folded(out, "What these verdicts guarantee", &bullets(&comparison.guarantees));
}

fn rows(out: &mut String, config: &str, scenario: &str, ruling: &Ruling, why: &str) {
    for (i, estimate) in ruling.estimates.iter().enumerate() {
        let named = format!("{} | {} | **{:?}** | {}", code(config), code(scenario), ruling.verdict, escape(why));
        let named = if i == 0 { named } else { " | | |".to_owned() };
        let (value, interval, mean) = (number::estimate(estimate), number::interval(estimate), number::mean(estimate));
        let _ = writeln!(out, "| {named} | {} | {value} | {interval} | {mean} |", code(&estimate.metric));
    }
}
