//! The report as one page that needs nothing else: no network, no script, light and dark, on paper and on a phone.

mod card;
mod engine;
mod evidence;
mod forest;
mod page;
mod pairs;
mod raw;
mod setup;
pub(crate) mod svg;
mod text;
mod time;

use std::fmt::Write as _;

use card::class;
pub(crate) use card::{Judged, badge, card};
pub(crate) use forest::effects;
pub(crate) use page::{page, section};
pub(crate) use raw::estimates;
pub(crate) use text::{Table, escape, folded, plural};

use super::{Attachment, ConfigReport, Report, TrialFate, human_change, number};

/// The report as a page. Of trials that have no attachment it shows what the report itself knows. `experiment` is the text of the
/// experiment's file.
pub fn html(report: &Report, records: &[Attachment], experiment: Option<&str>) -> String {
    let mut out = String::new();
    section(&mut out, "verdicts", "Verdicts", &verdicts(report));
    // Without a run that counts there is nothing to draw.
    if report.trials.iter().any(|trial| trial.state == TrialFate::Valid) {
        section(&mut out, "effects", "Effects", &shown_effects(report));
        section(&mut out, "blocks", "Block by block", &pairs::blocks(report));
        section(&mut out, "order", "In run order", &pairs::order(report));
        section(&mut out, "latency", "Latency", &engine::latency(report, records));
        section(&mut out, "rocksdb", "Inside RocksDB", &engine::series(report, records));
        section(&mut out, "time", "Where the time went", &time::time(report));
    }
    section(&mut out, "setup", "What was run, and where", &setup::setup(report, experiment));
    section(&mut out, "evidence", "How it was measured", &evidence::evidence(report));
    section(&mut out, "promise", "What these verdicts guarantee", &evidence::promise(report));
    section(&mut out, "reproduce", "How to reproduce", &evidence::reproduce(report));
    section(&mut out, "numbers", "All numbers", &raw::numbers(report));
    let footer = format!(
        "{}, report version {}. Plan <code>{}</code>, spec <code>{}</code>, seed {}.",
        escape(&report.produced_by),
        report.version,
        report.plan,
        report.spec,
        report.seed
    );
    page(&report.experiment, "verdicts", &header(report), &out, &footer)
}

/// The verdict of a config over all scenarios, and those in single ones.
fn overall(config: &ConfigReport) -> Judged<'_> {
    let ConfigReport { config, ruling, runs, failed, .. } = config;
    Judged { config, scenario: None, ruling, runs: *runs, failed: *failed }
}

fn by_scenario<'a>(report: &'a Report, config: &'a str) -> impl Iterator<Item = Judged<'a>> {
    report.cells_of(config).map(|cell| Judged {
        config: &cell.config,
        scenario: Some(&cell.scenario),
        ruling: &cell.ruling,
        runs: cell.runs,
        failed: cell.failed,
    })
}

fn shown_effects(report: &Report) -> String {
    let several = report.design.scenarios.len() > 1;
    let configs: Vec<Judged<'_>> = report.configs.iter().map(overall).collect();
    let cells = report.configs.iter().filter(|_| several).flat_map(|config| by_scenario(report, &config.config));
    let cells: Vec<Judged<'_>> = cells.collect();
    effects(&report.design.metrics, &configs, &cells)
}

fn header(report: &Report) -> String {
    let progress = &report.progress;
    let design = &report.design;
    let mut out = format!(
        "<p class=\"kicker\">RocksDB experiment</p>\n<h1>{}</h1>\n<p class=\"lead\">{} against the baseline \
         <code>{}</code> in {}: {}.</p>\n",
        escape(&report.experiment),
        plural(report.configs.len(), "config"),
        escape(&report.baseline),
        plural(design.scenarios.len(), "scenario"),
        progress.text()
    );
    if !progress.complete {
        out.push_str(
            "<p class=\"banner\"><strong>Not finished.</strong> These are estimates so far, plus the verdicts of \
             planned looks. The other verdicts come with the last planned run: stopping at will would find an effect \
             in any noise.</p>\n",
        );
    }
    out
}

fn verdicts(report: &Report) -> String {
    let mut out = String::new();
    for finding in &report.invalid {
        let (message, todo) = (escape(&finding.message), escape(&finding.what_to_do));
        let _ = writeln!(
            out,
            "<p class=\"banner invalid\"><strong>Nothing can be judged ({}).</strong> {message}. {todo}</p>",
            finding.code
        );
    }
    if !report.trials.iter().any(|trial| trial.state == TrialFate::Valid) {
        out.push_str("<p class=\"empty\">No run counts yet, so there is nothing to draw.</p>\n");
    }
    if report.configs.is_empty() {
        out.push_str("<p class=\"empty\">There is no config besides the baseline.</p>\n");
    } else {
        out.push_str("<div class=\"cards\">\n");
        report.configs.iter().for_each(|config| config_card(&mut out, report, config));
        out.push_str("</div>\n");
    }
    if !report.labels.is_empty() {
        out.push_str("<div class=\"labels\">\n");
        for labelled in &report.labels {
            let label = format!("{:?}", labelled.label);
            let _ = writeln!(out, "<p class=\"label\"><strong>{label}.</strong> {}</p>", escape(&labelled.text));
        }
        out.push_str("</div>\n");
    }
    out
}

fn config_card(out: &mut String, report: &Report, config: &ConfigReport) {
    let mut remarks = String::new();
    if !config.fragile.is_empty() {
        let on = config.fragile.iter().map(|what| escape(what)).collect::<Vec<_>>().join(", ");
        let _ =
            writeln!(remarks, "<p class=\"label\"><strong>Fragile.</strong> Without {on} it would not be a Win.</p>");
    }
    let several = report.design.scenarios.len() > 1;
    for (scenario, lines) in report.not_judged_of(&config.config) {
        let place = if several { format!(" in {}", escape(scenario)) } else { String::new() };
        let lines = escape(&lines.join("; "));
        let _ = writeln!(remarks, "<p class=\"label\"><strong>Not judged{place}:</strong> {lines}.</p>");
    }
    if let Some(blocks) = config.stopped_after {
        let planned = report.design.blocks;
        let _ = writeln!(remarks, "<p class=\"label\">Decided early, after {blocks} of {planned} blocks.</p>");
    }
    let mut changes = String::new();
    if config.changes.is_empty() {
        changes.push_str("<p class=\"changes\">Changes nothing: it shows the noise (A/A).</p>\n");
    } else {
        changes.push_str("<ul class=\"changes\">\n");
        for change in &config.changes {
            // A line must not end inside of an arrow.
            let change = human_change(change).replace(" -> ", " \u{2192} ");
            let _ = writeln!(changes, "<li><code>{}</code></li>", escape(&change));
        }
        changes.push_str("</ul>\n");
    }
    let cells: Vec<Judged<'_>> = by_scenario(report, &config.config).filter(|_| several).collect();
    card(out, overall(config), &remarks, &changes, &cells);
}

#[cfg(test)]
pub(crate) mod tests;
