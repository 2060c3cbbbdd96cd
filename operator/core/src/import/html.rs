//! The report as one page, of the same parts as that of an experiment. Single runs are not in the report, so the page has no plots of them.

use std::fmt::Write as _;

use super::report::{CellRuling, ClaimReport, ComparisonReport, ConfigRuling, ImportReport, Layout, Numbers};
use super::words::{design, direction_note, percent, probability, shift, supported};
use crate::gates::Finding;
use crate::report::html::{Judged, Table, badge, card, effects, escape, estimates, folded, page, plural, section};
use crate::verdict::MetricRule;

/// The report as a page.
pub fn html(report: &ImportReport) -> String {
    let mut out = String::new();
    if !report.claims.is_empty() {
        section(&mut out, "claims", "Claims", &claims(report));
    }
    for (index, comparison) in report.comparisons.iter().enumerate() {
        let several = report.comparisons.len() > 1;
        // The first one has the plain names, which the page links.
        let id = |name: &str| if index == 0 { name.to_owned() } else { format!("{name}-{}", index + 1) };
        let title = |name: &str| {
            if several { format!("{name}: {}", escape(&about(comparison))) } else { name.to_owned() }
        };
        let notes = if index == 0 { report.notes.as_slice() } else { &[] };
        section(&mut out, &id("verdicts"), &title("Verdicts"), &verdicts(comparison, notes));
        section(&mut out, &id("effects"), &title("Effects"), &shown_effects(report, comparison));
        section(&mut out, &id("promise"), &title("What these verdicts guarantee"), &promise(comparison));
        section(&mut out, &id("numbers"), &title("All numbers"), &numbers(report, comparison));
    }
    let footer =
        format!("{}, report version {}, rules version {}.", escape(&report.produced_by), report.version, report.rules);
    page(&report.title, "verdicts", &header(report), &out, &footer)
}

/// Which comparison it is, where there are several.
fn about(comparison: &ComparisonReport) -> String {
    let session = comparison.session.as_ref().map_or(String::new(), |session| format!("{session}, "));
    format!("{session}against {}", comparison.baseline)
}

fn header(report: &ImportReport) -> String {
    let mut out = format!("<p class=\"kicker\">Judged by Assay</p>\n<h1>{}</h1>\n", escape(&report.title));
    for comparison in &report.comparisons {
        let session = comparison.session.as_ref().map_or(String::new(), |session| format!("{}: ", escape(session)));
        let _ = writeln!(
            out,
            "<p class=\"lead\">{session}{} against the baseline <code>{}</code> in {}: {}.</p>",
            plural(comparison.configs.len(), "config"),
            escape(&comparison.baseline),
            plural(comparison.scenarios.len(), "scenario"),
            design(comparison)
        );
    }
    out
}

fn of_config(config: &ConfigRuling) -> Judged<'_> {
    let ConfigRuling { config, ruling, runs, failed, .. } = config;
    Judged { config, scenario: None, ruling, runs: *runs, failed: *failed }
}

fn of_cell(cell: &CellRuling) -> Judged<'_> {
    let CellRuling { scenario, config, ruling, runs, failed, .. } = cell;
    Judged { config, scenario: Some(scenario), ruling, runs: *runs, failed: *failed }
}

/// The verdicts by scenario of one config, where there is more than one scenario.
fn cells<'a>(comparison: &'a ComparisonReport, config: &'a ConfigRuling) -> Vec<Judged<'a>> {
    let several = comparison.scenarios.len() > 1;
    comparison.cells.iter().filter(|cell| several && cell.config == config.config).map(of_cell).collect()
}

/// Verdicts, with what the gates found, and notes about all of the data.
fn verdicts(comparison: &ComparisonReport, notes: &[String]) -> String {
    let mut out = String::new();
    if comparison.design == Layout::Unblocked {
        out.push_str(
            "<p class=\"banner\"><strong>Advice only.</strong> Without blocks, differences between hours, machines and \
             run orders are in every number, so there is no verdict.</p>\n",
        );
    }
    out.push_str("<div class=\"cards\">\n");
    for config in &comparison.configs {
        card(&mut out, of_config(config), "", "", &cells(comparison, config));
    }
    out.push_str("</div>\n");
    out.push_str(&findings(comparison));
    for note in notes {
        let _ = writeln!(out, "<p class=\"label\">{}</p>", escape(note));
    }
    out
}

fn shown_effects(report: &ImportReport, comparison: &ComparisonReport) -> String {
    let configs: Vec<Judged<'_>> = comparison.configs.iter().map(of_config).collect();
    let cells: Vec<Judged<'_>> = comparison.configs.iter().flat_map(|config| cells(comparison, config)).collect();
    effects(&report.metrics, &configs, &cells)
}

/// Why configs are invalid; empty if none is.
fn findings(comparison: &ComparisonReport) -> String {
    let found = comparison.configs.iter().flat_map(|config| config.findings.iter().map(move |one| (config, one)));
    let mut found = found.peekable();
    if found.peek().is_none() {
        return String::new();
    }
    let mut table = Table::new("Why configs are invalid", &["config", "code", "finding", "what to do"]);
    for (config, Finding { code, message, what_to_do, .. }) in found {
        table.row(&[escape(&config.config), format!("{code}"), escape(message), escape(what_to_do)]);
    }
    table.finish()
}

/// What follows from all that is known of the runs.
fn promise(comparison: &ComparisonReport) -> String {
    let mut out = String::new();
    if comparison.configs.iter().all(|config| config.findings.is_empty()) {
        out.push_str("<p>No gate found anything that makes a config invalid.</p>\n");
    }
    out + &list(&[comparison.notes.as_slice(), &comparison.guarantees].concat())
}

fn list(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.iter().fold(String::new(), |mut out, line| {
        let _ = writeln!(out, "<li>{}</li>", escape(line));
        out
    });
    format!("<ul>\n{lines}</ul>\n")
}

fn numbers(report: &ImportReport, comparison: &ComparisonReport) -> String {
    let mut out =
        format!("<p>The same numbers are in <code>report.json</code>. {}</p>\n", escape(&direction_note(report, true)));
    if comparison.design == Layout::Blocked {
        let judged = comparison.configs.iter().flat_map(|config| {
            let cells = comparison.cells.iter().filter(|cell| cell.config == config.config);
            std::iter::once(of_config(config)).chain(cells.map(of_cell))
        });
        out.push_str(&folded("Estimates", &estimates(judged)));
    }
    let columns = ["config", "scenario", "metric", "#means", "#shift", "#p", "#Holm p", "#best p", "#runs"];
    let mut table = Table::new("The runs as two samples", &columns);
    for cell in &comparison.cells {
        for (rule, numbers) in report.metrics.iter().zip(&cell.numbers) {
            let mut row = vec![escape(&cell.config), escape(&cell.scenario), escape(&numbers.metric)];
            row.extend(samples(rule, numbers).map(|number| format!("#{number}")));
            table.row(&row);
        }
    }
    out.push_str(&folded("Runs", &table.finish()));
    out
}

/// Means, shift, p, p after Holm, the least p, runs.
fn samples(rule: &MetricRule, numbers: &Numbers) -> [String; 6] {
    [
        numbers.means_percent.map_or("–".to_owned(), percent),
        shift(rule.scale, numbers),
        escape(&probability(numbers.p)),
        escape(&probability(numbers.p_adjusted)),
        escape(&probability(numbers.smallest_p)),
        format!("{}/{}", numbers.config_runs, numbers.baseline_runs),
    ]
}

fn claims(report: &ImportReport) -> String {
    let holding = report.claims.iter().filter(|claim| claim.holds()).count();
    let mut out = format!("<p>{holding} of {} hold.</p>\n", report.claims.len());
    let columns = ["claim", "config", "claimed", "supported", "reason"];
    let mut table = Table::new("Claims and what the runs support", &columns);
    for ClaimReport { text, session, config, claimed, supported: found, reason, .. } in &report.claims {
        let session = session.as_ref().map_or(String::new(), |session| format!("{session}: "));
        table.row(&[
            escape(&format!("{session}{text}")),
            escape(config),
            format!("{claimed:?}"),
            found.map_or_else(|| escape(&supported(None, reason)), badge),
            escape(reason),
        ]);
    }
    out.push_str(&table.finish());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::import::{Collector, Place, Policy, judge};
    use crate::report::html::tests::elements;

    /// A page of runs in two sessions and two scenarios, of which one session has no blocks.
    fn sample(config: &str) -> String {
        let policy = json!({
            "title": "A <title>",
            "baseline": "a",
            "objectives": [{"metric": "ops", "direction": "higher", "margin": "5%"}],
            "guardrails": [{"metric": "p99", "direction": "lower", "margin": "5%"}],
            "claims": [{"text": "faster", "config": config, "claimed": "Win", "session": "x"}],
        });
        let policy = Policy::read(&policy).expect("the policy is valid");
        let mut to = Collector::new(&policy);
        let file = to.file("runs.csv");
        let mut line = 0;
        let mut row = |session: &str, scenario: &str, config: &str, block: &str, ops: f64| {
            line += 1;
            let (ops, p99) = (ops.to_string(), (1e6 / ops).to_string());
            let fields = [("session", session), ("scenario", scenario), ("config", config), ("block", block)];
            to.row(Place { file, line }, fields.into_iter().chain([("ops", ops.as_str()), ("p99", p99.as_str())]));
        };
        for block in 1..=8_u32 {
            let noise = 1.0 + f64::from(block * 37 % 11) / 777.0;
            for scenario in ["fill", "read"] {
                row("x", scenario, "a", &block.to_string(), 1000.0 * noise);
                row("x", scenario, config, &block.to_string(), 1300.0 * noise * noise);
            }
            row("y", "fill", "a", "", 900.0 * noise);
            row("y", "fill", config, "", 950.0 * noise * noise);
        }
        let report = to.finish().and_then(|data| judge(&data, &policy)).expect("rows can be judged");
        html(&report)
    }

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let page = sample("b");
        let elements = elements(&page);
        let count = |name: &str| elements.iter().filter(|element| **element == name).count();
        assert_eq!((count("html"), count("h1"), count("main"), count("script"), count("article")), (1, 1, 1, 0, 2));
        assert_eq!(count("title"), count("svg") + 1);
        assert_eq!(count("caption"), count("table"));
        for forbidden in ["http:", "https:", "NaN", "inf ", " src=", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        for expected in [
            "A &lt;title&gt;",
            "blocked, 8 blocks",
            "Advice only.",
            "id=\"verdicts\"",
            "id=\"verdicts-2\"",
            "in read",
            "1 of 1 hold",
            "takes on trust",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
    }

    #[test]
    fn names_can_not_become_markup() {
        let page = sample("<script>alert('x')</script>\"&");
        assert!(!elements(&page).contains(&"script"));
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
    }
}
