use super::table::{Table, paragraph};
use super::{CellReport, Report, Ruling, TrialFate, neighbours, number};
use crate::verdict::MetricRule;

/// Attempts that are listed one by one; the rest stands in report.json.
const LISTED: usize = 20;

/// The report for a terminal of so many columns: no colour needed.
pub fn terminal(report: &Report, width: usize) -> String {
    let say = |out: &mut String, text: &str| paragraph(out, text, width, 0);
    let mut out = String::new();
    let progress = &report.progress;
    let mut head = format!("{}: {}, baseline {}", report.experiment, progress.text(), report.baseline);
    if !progress.complete {
        head.push_str(" (incomplete: only planned looks give verdicts)");
    }
    say(&mut out, &head);
    say(&mut out, &margins(&report.design.metrics));
    out.push('\n');
    out.push_str(&verdicts(report, width));
    say(&mut out, "Positive estimates are better, for latencies too.");
    out.push('\n');
    for config in &report.configs {
        say(&mut out, &config.ruling.sentence);
    }
    for config in &report.configs {
        for (scenario, lines) in report.not_judged_of(&config.config) {
            let place = if report.design.scenarios.len() > 1 { format!(" in {scenario}") } else { String::new() };
            say(&mut out, &format!("{}{place}, not judged: {}.", config.config, lines.join("; ")));
        }
    }
    for finding in &report.invalid {
        say(&mut out, &format!("Invalid ({}): {}. {}", finding.code, finding.message, finding.what_to_do));
    }
    for labelled in &report.labels {
        say(&mut out, &format!("{:?}: {}", labelled.label, labelled.text));
    }
    for note in &report.notes {
        let about = note.config.as_deref().map_or(String::new(), |config| format!("{config}: "));
        say(&mut out, &format!("Note: {about}{}", note.text));
    }
    let neighbours = report.setup.as_ref().and_then(|setup| neighbours::named(setup.neighbours.as_deref()?));
    if let Some(text) = neighbours {
        say(&mut out, &format!("Programs beside the trials: {text}."));
    }
    unused(&mut out, report, width);
    out
}

/// What counts as a change, metric by metric.
pub(crate) fn margins(metrics: &[MetricRule]) -> String {
    let margin = |rule: &MetricRule| format!("{} {}", rule.name, number::margin(rule.scale, rule.margin));
    format!("Margins: {}.", metrics.iter().map(margin).collect::<Vec<_>>().join(", "))
}

fn verdicts(report: &Report, width: usize) -> String {
    let mut table = Table::new(width);
    heads(&mut table);
    for config in &report.configs {
        ruling(&mut table, &config.config, &config.ruling, &config.ruling.why(config.failed, config.runs));
        // With one scenario its cell says what the overall verdict says.
        if report.design.scenarios.len() > 1 {
            for CellReport { scenario, ruling: own, failed, runs, .. } in report.cells_of(&config.config) {
                ruling(&mut table, &format!("  in {scenario}"), own, &own.why(*failed, *runs));
            }
        }
    }
    table.render()
}

pub(crate) fn heads(table: &mut Table) {
    table.row(&["config and metric", "estimate", "95 % interval", "proven", "mean"]);
}

/// A verdict across all columns, and the metrics below it.
pub(crate) fn ruling(table: &mut Table, about: &str, ruling: &Ruling, why: &str) {
    table.heading(&format!("{about}: {:?} ({why})", ruling.verdict));
    let indent = about.chars().take_while(|c| *c == ' ').count() + 2;
    for estimate in &ruling.estimates {
        let metric = format!("{:indent$}{}", "", estimate.metric);
        let status = estimate.status.map_or(String::new(), |status| format!("{status:?}"));
        let (value, interval) = (number::estimate(estimate), number::interval(estimate));
        table.row(&[&metric, &value, &interval, &status, &number::mean(estimate)]);
    }
}

/// Attempts that do not count, with the reason.
fn unused(out: &mut String, report: &Report, width: usize) {
    let unused: Vec<_> = report.trials.iter().filter(|trial| trial.state != TrialFate::Valid).collect();
    if unused.is_empty() {
        return;
    }
    out.push_str("\nAttempts that do not count:\n");
    for trial in unused.iter().take(LISTED) {
        let why = trial
            .findings
            .first()
            .map(|finding| format!("{}: {}", finding.code, finding.message))
            .or_else(|| trial.message.clone())
            .unwrap_or_default();
        let text = format!("  {} {:?} {why}", trial.trial.file_stem(), trial.state);
        paragraph(out, text.trim_end(), width, 4);
    }
    if unused.len() > LISTED {
        paragraph(out, &format!("  and {} more in report.json", unused.len() - LISTED), width, 4);
    }
}
