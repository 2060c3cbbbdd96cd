use super::report::{ClaimReport, ComparisonReport, ImportReport, Layout, Numbers};
use super::words::{design, direction_note, percent, probability, shift, supported};
use crate::report::number;
use crate::report::table::{Table, WIDTH, wrap};
use crate::report::{Estimate, Ruling};
use crate::verdict::{MetricRule, Verdict};

/// The report for a terminal: no colour needed, at most 100 columns.
pub fn terminal(report: &ImportReport) -> String {
    let mut out = String::new();
    paragraph(&mut out, &report.title);
    for comparison in &report.comparisons {
        out.push('\n');
        paragraph(&mut out, &heading(comparison));
        out.push_str(&match comparison.design {
            Layout::Blocked => blocked(comparison),
            Layout::Unblocked => unblocked(report, comparison),
        });
        for config in &comparison.configs {
            if comparison.design == Layout::Blocked || config.ruling.verdict == Verdict::Invalid {
                paragraph(&mut out, &config.ruling.sentence);
            }
        }
        for note in &comparison.notes {
            paragraph(&mut out, &format!("Note: {note}"));
        }
    }
    out.push('\n');
    paragraph(&mut out, direction_note());
    for note in &report.notes {
        paragraph(&mut out, &format!("Note: {note}"));
    }
    if !report.claims.is_empty() {
        out.push('\n');
        claims(&mut out, &report.metrics, &report.claims);
    }
    out
}

fn heading(comparison: &ComparisonReport) -> String {
    let session = comparison.session.as_ref().map_or(String::new(), |session| format!("{session}: "));
    format!("{session}baseline {}, design: {}", comparison.baseline, design(comparison))
}

fn blocked(comparison: &ComparisonReport) -> String {
    let mut table = Table::new(&[16, 20, 9, 18, 12], WIDTH);
    table.row(["config", "metric", "estimate", "95 % interval", "verdict", "reason"]);
    let mut add = |config: &str, scope: &str, ruling: &Ruling, why: &str| {
        table.row([config, scope, "", "", &format!("{:?}", ruling.verdict), why]);
        for estimate in &ruling.estimates {
            let Estimate { metric, status, scale, margin, .. } = estimate;
            let status = status.map_or(String::new(), |status| format!("{status:?}"));
            let mut margin = format!("margin {}", number::margin(*scale, *margin));
            if estimate.mean.is_some() {
                margin = format!("{margin}, mean {}", number::mean(estimate));
            }
            let (value, interval) = (number::estimate(estimate), number::interval(estimate));
            table.row(["", &format!("  {metric}"), &value, &interval, &status, &margin]);
        }
    };
    for config in &comparison.configs {
        add(&config.config, "overall", &config.ruling, &config.ruling.why(config.failed, config.runs));
        if comparison.scenarios.len() > 1 {
            for cell in comparison.cells.iter().filter(|cell| cell.config == config.config) {
                let why = cell.ruling.why(cell.failed, cell.runs);
                add("", &format!("in {}", cell.scenario), &cell.ruling, &why);
            }
        }
    }
    table.render()
}

fn unblocked(report: &ImportReport, comparison: &ComparisonReport) -> String {
    let head = ["config", "metric", "shift", "means", "Holm p", "best p", "runs", "verdict"];
    let mut rows = vec![head.map(str::to_owned)];
    for cell in &comparison.cells {
        let mut config = cell.config.clone();
        if comparison.scenarios.len() > 1 {
            config = format!("{config} in {}", cell.scenario);
        }
        let verdict = supported(Some(cell.ruling.verdict), &cell.ruling.why(cell.failed, cell.runs));
        for (i, (rule, numbers)) in report.metrics.iter().zip(&cell.numbers).enumerate() {
            let first = |text: &str| if i == 0 { text.to_owned() } else { String::new() };
            let [moved, means, _, adjusted, best, runs] = columns(rule, numbers);
            rows.push([first(&config), numbers.metric.clone(), moved, means, adjusted, best, runs, first(&verdict)]);
        }
    }
    fitted(&rows)
}

/// A table whose first column has what the others leave of a line.
fn fitted<const N: usize>(rows: &[[String; N]]) -> String {
    // Of a column, and of the first one; two spaces lie between columns.
    const MOST: usize = 25;
    const FEWEST: usize = 12;
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).min(MOST);
    let others: usize = (1..N).map(|column| width(column) + 2).sum();
    let mut limits: Vec<usize> = (0..N - 1).map(width).collect();
    limits[0] = WIDTH.saturating_sub(others).max(FEWEST);
    let mut table = Table::new(&limits, WIDTH);
    for row in rows {
        table.row(row.each_ref().map(String::as_str));
    }
    table.render()
}

/// Shift, means, p, p after Holm, the least p, runs.
fn columns(rule: &MetricRule, numbers: &Numbers) -> [String; 6] {
    [
        shift(rule.scale, numbers),
        numbers.means_percent.map_or(String::new(), percent),
        probability(numbers.p),
        probability(numbers.p_adjusted),
        probability(numbers.smallest_p),
        format!("{}/{}", numbers.config_runs, numbers.baseline_runs),
    ]
}

fn claims(out: &mut String, metrics: &[MetricRule], claims: &[ClaimReport]) {
    let holding = claims.iter().filter(|claim| claim.holds()).count();
    paragraph(out, &format!("Claims and what the runs support ({holding} of {} hold)", claims.len()));
    let scale = |name: &str| metrics.iter().find(|rule| rule.name == name).map(|rule| rule.scale).unwrap_or_default();
    let head = ["config", "claimed", "supported", "reason", "means", "shift", "p", "best p", "runs"];
    for group in claims.chunk_by(|a, b| (&a.text, &a.session) == (&b.text, &b.session)) {
        let session = group[0].session.as_ref().map_or(String::new(), |session| format!("{session}: "));
        out.push('\n');
        paragraph(out, &format!("{session}{}", group[0].text));
        let mut rows = vec![head.map(str::to_owned)];
        for claim in group {
            let numbers = claim.numbers.as_ref();
            let shown = |value: &dyn Fn(&Numbers) -> String| numbers.map_or(String::new(), value);
            rows.push([
                claim.config.clone(),
                format!("{:?}", claim.claimed),
                claim.supported.map_or("nothing".to_owned(), |verdict| format!("{verdict:?}")),
                claim.reason.clone(),
                shown(&|n| n.means_percent.map_or(String::new(), percent)),
                shown(&|n| shift(scale(&n.metric), n)),
                shown(&|n| probability(n.p)),
                shown(&|n| probability(n.smallest_p)),
                shown(&|n| format!("{}/{}", n.config_runs, n.baseline_runs)),
            ]);
        }
        out.push_str(&fitted(&rows));
    }
}

fn paragraph(out: &mut String, text: &str) {
    for line in wrap(text, WIDTH) {
        out.push_str(&line);
        out.push('\n');
    }
}
