//! The report as one page that needs nothing else: no network, no script, light and dark, on paper and on a phone.

mod engine;
mod evidence;
mod forest;
mod pairs;
mod raw;
mod setup;
mod svg;
mod text;
mod time;

use std::fmt::Write as _;

use text::escape;

use super::{Attachment, ConfigReport, Report, TrialFate, human_change, number};
use crate::verdict::Verdict;

/// Nothing may be loaded, whatever a name in the report contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The report as a page. Of trials that have no attachment it shows what the report itself knows. `experiment` is the text of the
/// experiment's file.
pub fn html(report: &Report, records: &[Attachment], experiment: Option<&str>) -> String {
    let title = escape(&report.experiment);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{title}: Assay report</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#verdicts\">Skip to the verdicts</a>\n",
        include_str!("style.css")
    );
    header(&mut out, report);
    out.push_str("<main>\n");
    section(&mut out, "verdicts", "Verdicts", &verdicts(report));
    // Without a run that counts there is nothing to draw.
    if report.trials.iter().any(|trial| trial.state == TrialFate::Valid) {
        section(&mut out, "effects", "Effects", &forest::effects(report));
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
    let _ = write!(
        out,
        "</main>\n<footer>\n<p>{}, report version {}. Plan <code>{}</code>, spec <code>{}</code>, seed {}.</p>\n</footer>\n\
         </body>\n</html>\n",
        escape(&report.produced_by),
        report.version,
        report.plan,
        report.spec,
        report.seed
    );
    out
}

fn header(out: &mut String, report: &Report) {
    let progress = &report.progress;
    let design = &report.design;
    let _ = write!(
        out,
        "<header>\n<p class=\"kicker\">RocksDB experiment</p>\n<h1>{}</h1>\n<p class=\"lead\">{} against the baseline \
         <code>{}</code> in {}: {}.</p>\n",
        escape(&report.experiment),
        text::plural(report.configs.len(), "config"),
        escape(&report.baseline),
        text::plural(design.scenarios.len(), "scenario"),
        progress.text()
    );
    if !progress.complete {
        out.push_str(
            "<p class=\"banner\"><strong>Not finished.</strong> These are estimates so far, plus the verdicts of \
             planned looks. The other verdicts come with the last planned run: stopping at will would find an effect \
             in any noise.</p>\n",
        );
    }
    out.push_str("</header>\n");
}

fn section(out: &mut String, id: &str, title: &str, body: &str) {
    let _ = write!(out, "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{body}</section>\n");
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
        report.configs.iter().for_each(|config| card(&mut out, report, config));
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

fn card(out: &mut String, report: &Report, config: &ConfigReport) {
    let ruling = &config.ruling;
    let _ = write!(
        out,
        "<article class=\"card {}\">\n<h3>{} <span class=\"config\">{}</span></h3>\n<div>\n<p>{}</p>\n",
        class(ruling.verdict),
        badge(ruling.verdict),
        escape(&config.config),
        escape(&ruling.sentence)
    );
    for label in &ruling.labels {
        let _ =
            writeln!(out, "<p class=\"label\"><strong>{label:?}.</strong> Its interval starts below the margin.</p>");
    }
    if config.failed > 0 {
        let (failed, runs) = (config.failed, config.runs);
        let _ =
            writeln!(out, "<p class=\"label\"><strong>{failed} of {runs} runs failed</strong> under this config.</p>");
    }
    if !config.fragile.is_empty() {
        let on = config.fragile.iter().map(|what| escape(what)).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "<p class=\"label\"><strong>Fragile.</strong> Without {on} it would not be a Win.</p>");
    }
    for (scenario, lines) in report.not_judged_of(&config.config) {
        let place = if report.design.scenarios.len() > 1 { format!(" in {}", escape(scenario)) } else { String::new() };
        let lines = escape(&lines.join("; "));
        let _ = writeln!(out, "<p class=\"label\"><strong>Not judged{place}:</strong> {lines}.</p>");
    }
    if let Some(blocks) = config.stopped_after {
        let planned = report.design.blocks;
        let _ = writeln!(out, "<p class=\"label\">Decided early, after {blocks} of {planned} blocks.</p>");
    }
    out.push_str("</div>\n<div>\n");
    if config.changes.is_empty() {
        out.push_str("<p class=\"changes\">Changes nothing: it shows the noise (A/A).</p>\n");
    } else {
        out.push_str("<ul class=\"changes\">\n");
        for change in &config.changes {
            let _ = writeln!(out, "<li><code>{}</code></li>", escape(&human_change(change)));
        }
        out.push_str("</ul>\n");
    }
    let mut cells = report.cells_of(&config.config).peekable();
    if report.design.scenarios.len() > 1 && cells.peek().is_some() {
        out.push_str("<ul class=\"cells\">\n");
        for cell in cells {
            let (scenario, reason) = (escape(&cell.scenario), escape(&cell.ruling.why(cell.failed, cell.runs)));
            let _ = writeln!(out, "<li>{} in {scenario} <small>{reason}</small></li>", badge(cell.ruling.verdict));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</div>\n</article>\n");
}

/// A verdict with its sign, so that colour is not all that tells it.
fn badge(verdict: Verdict) -> String {
    let sign = match verdict {
        Verdict::Win => '▲',
        Verdict::Reject => '▼',
        Verdict::Neutral => '=',
        Verdict::Tradeoff => '⇅',
        Verdict::Inconclusive => '?',
        Verdict::Invalid => '✕',
    };
    format!("<span class=\"badge {}\"><span aria-hidden=\"true\">{sign}</span> {verdict:?}</span>", class(verdict))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Win => "win",
        Verdict::Reject => "reject",
        Verdict::Neutral => "neutral",
        Verdict::Tradeoff => "tradeoff",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Invalid => "invalid",
    }
}

#[cfg(test)]
mod tests;
