use super::report::{ClaimReport, ComparisonReport, ImportReport, Layout, Numbers};
use super::words::{design, direction_note, has_samples, percent, probability, shift, supported};
use crate::report::table::{Table, paragraph};
use crate::report::terminal::{heads, margins, ruling};
use crate::verdict::{MetricRule, Verdict};

/// The report for a terminal of so many columns: no colour needed.
pub fn terminal(report: &ImportReport, width: usize) -> String {
    let say = |out: &mut String, text: &str| paragraph(out, text, width, 0);
    let mut out = String::new();
    say(&mut out, &report.title);
    for comparison in &report.comparisons {
        out.push('\n');
        say(&mut out, &heading(comparison));
        out.push_str(&match comparison.design {
            Layout::Blocked => blocked(report, comparison, width),
            Layout::Unblocked => unblocked(report, comparison, width),
        });
        for config in &comparison.configs {
            if comparison.design == Layout::Blocked || config.ruling.verdict == Verdict::Invalid {
                say(&mut out, &config.ruling.sentence);
            }
        }
        for note in &comparison.notes {
            say(&mut out, &format!("Note: {note}"));
        }
    }
    out.push('\n');
    say(&mut out, &direction_note(report, has_samples(report)));
    for note in &report.notes {
        say(&mut out, &format!("Note: {note}"));
    }
    if !report.claims.is_empty() {
        out.push('\n');
        claims(&mut out, &report.metrics, &report.claims, width);
    }
    out
}

fn heading(comparison: &ComparisonReport) -> String {
    let session = comparison.session.as_ref().map_or(String::new(), |session| format!("{session}: "));
    format!("{session}baseline {}, design: {}", comparison.baseline, design(comparison))
}

fn blocked(report: &ImportReport, comparison: &ComparisonReport, width: usize) -> String {
    let mut out = String::new();
    paragraph(&mut out, &margins(&report.metrics), width, 0);
    out.push('\n');
    let mut table = Table::new(width);
    heads(&mut table);
    for config in &comparison.configs {
        ruling(&mut table, &config.config, &config.ruling, &config.ruling.why(config.failed, config.runs));
        if comparison.scenarios.len() > 1 {
            for cell in comparison.cells.iter().filter(|cell| cell.config == config.config) {
                let why = cell.ruling.why(cell.failed, cell.runs);
                ruling(&mut table, &format!("  in {}", cell.scenario), &cell.ruling, &why);
            }
        }
    }
    out + &table.render()
}

fn unblocked(report: &ImportReport, comparison: &ComparisonReport, width: usize) -> String {
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
    rendered(&rows, width)
}

fn rendered<const N: usize>(rows: &[[String; N]], width: usize) -> String {
    let mut table = Table::new(width);
    for row in rows {
        table.row(&row.each_ref().map(String::as_str));
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

fn claims(out: &mut String, metrics: &[MetricRule], claims: &[ClaimReport], width: usize) {
    let holding = claims.iter().filter(|claim| claim.holds()).count();
    paragraph(out, &format!("Claims and what the runs support ({holding} of {} hold)", claims.len()), width, 0);
    let scale = |name: &str| metrics.iter().find(|rule| rule.name == name).map(|rule| rule.scale).unwrap_or_default();
    let head = ["config", "claimed", "supported", "reason", "means", "shift", "p", "best p", "runs"];
    for group in claims.chunk_by(|a, b| (&a.text, &a.session) == (&b.text, &b.session)) {
        let session = group[0].session.as_ref().map_or(String::new(), |session| format!("{session}: "));
        out.push('\n');
        paragraph(out, &format!("{session}{}", group[0].text), width, 0);
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
        out.push_str(&rendered(&rows, width));
    }
}
