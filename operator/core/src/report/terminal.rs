use std::fmt::Write as _;

use super::table::{Table, WIDTH, wrap};
use super::{CellReport, Estimate, Report, Ruling, TrialFate, number};

/// Attempts that are listed one by one; the rest stands in report.json.
const LISTED: usize = 20;

/// The report for a terminal: no colour needed, at most 100 columns.
pub fn terminal(report: &Report) -> String {
    let mut out = String::new();
    let progress = &report.progress;
    let mut head = format!("{}: {}, baseline {}", report.experiment, progress.text(), report.baseline);
    if !progress.complete {
        head.push_str(" (incomplete: only planned looks give verdicts)");
    }
    paragraph(&mut out, &head);
    out.push('\n');
    out.push_str(&verdicts(report));
    paragraph(&mut out, "Positive estimates are better, for latencies too.");
    out.push('\n');
    for config in &report.configs {
        paragraph(&mut out, &config.ruling.sentence);
    }
    for config in &report.configs {
        for (scenario, lines) in report.not_judged_of(&config.config) {
            let place = if report.design.scenarios.len() > 1 { format!(" in {scenario}") } else { String::new() };
            paragraph(&mut out, &format!("{}{place}, not judged: {}.", config.config, lines.join("; ")));
        }
    }
    for finding in &report.invalid {
        paragraph(&mut out, &format!("Invalid ({}): {}. {}", finding.code, finding.message, finding.what_to_do));
    }
    for labelled in &report.labels {
        paragraph(&mut out, &format!("{:?}: {}", labelled.label, labelled.text));
    }
    for note in &report.notes {
        let about = note.config.as_deref().map_or(String::new(), |config| format!("{config}: "));
        paragraph(&mut out, &format!("Note: {about}{}", note.text));
    }
    out.push_str(&unused(report));
    out
}

fn verdicts(report: &Report) -> String {
    let mut table = Table::new(&[16, 20, 9, 18, 12], WIDTH);
    table.row(["config", "metric", "estimate", "95 % interval", "verdict", "reason"]);
    let one_scenario = report.design.scenarios.len() == 1;
    for config in &report.configs {
        ruling(&mut table, &config.config, "overall", &config.ruling, &config.ruling.why(config.failed, config.runs));
        // With one scenario its cell says what the overall verdict says.
        if !one_scenario {
            for CellReport { scenario, ruling: own, failed, runs, .. } in report.cells_of(&config.config) {
                ruling(&mut table, "", &format!("in {scenario}"), own, &own.why(*failed, *runs));
            }
        }
    }
    table.render()
}

fn ruling(table: &mut Table, config: &str, scope: &str, ruling: &Ruling, why: &str) {
    table.row([config, scope, "", "", &format!("{:?}", ruling.verdict), why]);
    for estimate in &ruling.estimates {
        let (value, interval) = (number::estimate(estimate), number::interval(estimate));
        let status = estimate.status.map_or(String::new(), |status| format!("{status:?}"));
        let metric = format!("  {}", estimate.metric);
        table.row(["", &metric, &value, &interval, &status, &margin(estimate)]);
    }
}

fn margin(estimate: &Estimate) -> String {
    let margin = format!("margin {}", number::margin(estimate.scale, estimate.margin));
    if estimate.mean.is_some() { format!("{margin}, mean {}", number::mean(estimate)) } else { margin }
}

/// Attempts that do not count, with the reason.
fn unused(report: &Report) -> String {
    let mut out = String::new();
    let unused: Vec<_> = report.trials.iter().filter(|trial| trial.state != TrialFate::Valid).collect();
    if unused.is_empty() {
        return out;
    }
    let _ = writeln!(out, "\nAttempts that do not count:");
    for trial in unused.iter().take(LISTED) {
        let why = trial
            .findings
            .first()
            .map(|finding| format!("{}: {}", finding.code, finding.message))
            .or_else(|| trial.message.clone())
            .unwrap_or_default();
        let text = format!("{} {:?} {why}", trial.trial.file_stem(), trial.state);
        for (i, line) in wrap(text.trim_end(), WIDTH - 4).into_iter().enumerate() {
            let _ = writeln!(out, "  {}{line}", if i == 0 { "" } else { "  " });
        }
    }
    if unused.len() > LISTED {
        let _ = writeln!(out, "  and {} more in report.json", unused.len() - LISTED);
    }
    out
}

fn paragraph(out: &mut String, text: &str) {
    for line in wrap(text, WIDTH) {
        out.push_str(&line);
        out.push('\n');
    }
}
