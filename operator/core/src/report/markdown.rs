use std::fmt::Write as _;

use super::gates::{counted, question};
use super::time_spent::{HOW, clock_text};
use super::{Report, Ruling, TimeCell, TimeTable, TrialFate, TrialReport, human_change, number, setup, unit};

/// The report as Markdown for a pull request: what matters first, the rest folded away.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# {}\n", escape(&report.experiment));
    summary(&mut out, report);
    let _ = writeln!(out);
    for config in &report.configs {
        let _ = writeln!(out, "- {}", escape(&config.ruling.sentence));
        if !config.fragile.is_empty() {
            let on = escape(&config.fragile.join(", "));
            let _ = writeln!(out, "  - **Fragile**: without {on} it would not be a Win.");
        }
        for (scenario, lines) in report.not_judged_of(&config.config) {
            let place = if report.design.scenarios.len() > 1 { format!(" in {scenario}") } else { String::new() };
            let _ = writeln!(out, "  - **Not judged**{}: {}.", escape(&place), escape(&lines.join("; ")));
        }
    }
    for finding in &report.invalid {
        let text = format!("**Invalid ({})**: {}. {}", finding.code, escape(&finding.message), finding.what_to_do);
        let _ = writeln!(out, "- {text}");
    }
    for labelled in &report.labels {
        let _ = writeln!(out, "- **{:?}**: {}", labelled.label, escape(&labelled.text));
    }
    let _ = writeln!(out);
    folded(&mut out, "Effects in full", &overall(report));
    if report.design.scenarios.len() > 1 {
        folded(&mut out, "By scenario", &by_scenario(report));
    }
    folded(&mut out, "What the configs change", &changes(report));
    if !report.time_spent.is_empty() {
        folded(&mut out, "Where the time went", &time_spent(report));
    }
    if !report.records.is_empty() {
        folded(&mut out, "Latency and stalls", &latency(report));
    }
    folded(&mut out, "What was run, and where", &run(report));
    if report.looks.len() > 1 {
        folded(&mut out, "Looks", &looks(report));
    }
    if !report.order_check.is_empty() {
        folded(&mut out, "Effect of the run order", &order_check(report));
    }
    if !report.gates.is_empty() {
        folded(&mut out, &format!("Gates: {}", counted(&report.gates)), &gates(report));
    }
    if !report.notes.is_empty() {
        folded(&mut out, "Notes", &notes(report));
    }
    folded(&mut out, &trials_title(report), &trials(report));
    folded(&mut out, "What these verdicts guarantee", &bullets(&report.guarantees));
    folded(&mut out, "How to reproduce", &bullets(&report.reproduce));
    out
}

/// One line per config: a reader of a pull request wants to know which to take.
fn summary(out: &mut String, report: &Report) {
    let metrics: Vec<String> = report.design.metrics.iter().map(|rule| code(&rule.name)).collect();
    let _ = writeln!(out, "| | config | {} |", metrics.join(" | "));
    let _ = writeln!(out, "|---|---|{}", "---|".repeat(metrics.len()));
    for config in &report.configs {
        let cells: Vec<String> = config
            .ruling
            .estimates
            .iter()
            .map(|e| format!("{} ({})", number::estimate(e), number::interval(e)))
            .collect();
        let _ = writeln!(out, "| **{:?}** | {} | {} |", config.ruling.verdict, code(&config.config), cells.join(" | "));
    }
    let progress = &report.progress;
    let _ = writeln!(
        out,
        "\nChange from {} with its 95 % interval. Positive is better, for latencies too. {}.{}",
        code(&report.baseline),
        progress.text(),
        if progress.complete { "" } else { " **Incomplete: only planned looks give verdicts.**" }
    );
}

fn overall(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "| config | verdict | reason | metric | estimate | 95 % interval | mean | proven |");
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|");
    for config in &report.configs {
        rows(&mut out, &[&code(&config.config)], &config.ruling, &config.ruling.why(config.failed, config.runs));
    }
    let _ = writeln!(out, "\n{MEAN}");
    out
}

/// Configs beside each other in a table.
const TOGETHER: usize = 4;

fn time_spent(report: &Report) -> String {
    let mut out = format!("{HOW}\n");
    for table in &report.time_spent {
        for first in (0..report.configs.len()).step_by(TOGETHER) {
            let _ = writeln!(out, "\nIn {}, per step of {}:\n", code(&table.scenario), code(&table.role));
            time_table(&mut out, table, report, first);
        }
    }
    out
}

fn time_table(out: &mut String, table: &TimeTable, report: &Report, first: usize) {
    let configs = report.configs.iter().skip(first).take(TOGETHER);
    let columns: Vec<String> = configs.map(|config| format!("{}, µs | difference, µs", code(&config.config))).collect();
    let _ = writeln!(out, "| component | clock | {}, µs | {} |", code(&report.baseline), columns.join(" | "));
    let _ = writeln!(out, "|---|---|--:|{}", "--:|--:|".repeat(columns.len()));
    for row in &table.rows {
        let name = format!("{}{}", "\u{2003}".repeat(row.depth as usize), code(&row.component));
        let cells: Vec<String> = row.configs.iter().skip(first).take(TOGETHER).map(time_cell).collect();
        let (clock, baseline) = (clock_text(row.clock), number::measured(row.baseline));
        let _ = writeln!(out, "| {name} | {clock} | {baseline} | {} |", cells.join(" | "));
    }
}

fn time_cell(cell: &TimeCell) -> String {
    let mean = cell.mean.map_or("unknown".to_owned(), number::measured);
    let bold = if cell.differs() { "**" } else { "" };
    let (difference, interval) = cell.difference_texts();
    format!("{mean} | {bold}{difference}{bold} ({interval})")
}

/// Percentiles and stalls, as full records have them.
fn latency(report: &Report) -> String {
    const COLUMNS: [&str; 4] = ["step_latency_p50", "step_latency_p99", "step_latency_p999", "step_latency_max"];
    let mut out = "Latency of a step: medians of the runs that count. Stalls: all these runs together.\n\n".to_owned();
    let _ = writeln!(out, "| scenario | config | runs | p50 | p99 | p99.9 | longest | stalls | time stalled |");
    let _ = writeln!(out, "|---|---|--:|--:|--:|--:|--:|--:|--:|");
    for facts in &report.records {
        let shown =
            |name: &str, value: Option<f64>| value.map_or("unknown".to_owned(), |value| unit::value(name, value));
        let mut cells: Vec<String> =
            COLUMNS.iter().map(|name| shown(name, facts.medians.get(*name).copied())).collect();
        cells.push(shown("stall_count", facts.stalls));
        cells.push(shown("stall_seconds", facts.stall_seconds));
        let (scenario, config) = (code(&facts.scenario), code(&facts.config));
        let _ = writeln!(out, "| {scenario} | {config} | {} | {} |", facts.runs, cells.join(" | "));
    }
    out
}

/// Workloads and environment.
fn run(report: &Report) -> String {
    let mut out = String::new();
    for (scenario, workload) in report.design.scenarios.iter().zip(&report.design.workloads) {
        let _ = writeln!(out, "- {}: {}", code(scenario), escape(workload));
    }
    let _ = writeln!(out, "\n| | as the records tell |\n|---|---|");
    for (name, value) in setup::rows(report) {
        let _ = writeln!(out, "| {name} | {} |", escape(&value));
    }
    out
}

fn looks(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "| blocks | config | verdict | reason | |\n|---|---|---|---|---|");
    for look in &report.looks {
        for own in &look.configs {
            let stopped = if own.stopped { "decided" } else { "" };
            let (config, reason) = (code(&own.config), escape(&own.reason));
            let _ = writeln!(out, "| {} | {config} | {:?} | {reason} | {stopped} |", look.blocks, own.verdict);
        }
    }
    out
}

fn order_check(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "| scenario | metric | effect of | p | |\n|---|---|---|---|---|");
    for check in &report.order_check {
        let p = check.p.map_or("unknown".to_owned(), |p| format!("{p:.4}"));
        let (scenario, metric, seen) =
            (code(&check.scenario), code(&check.metric), if check.warning { "seen" } else { "" });
        let _ = writeln!(out, "| {scenario} | {metric} | {} | {p} | {seen} |", check.effect.words());
    }
    out
}

/// With the number of those that do not count, so that nobody has to unfold it to know.
fn trials_title(report: &Report) -> String {
    let unused = report.trials.iter().filter(|trial| trial.state != TrialFate::Valid).count();
    if unused == 0 { "Trials: all counted".to_owned() } else { format!("Trials: {unused} not counted") }
}

/// What the mean is beside the estimate.
const MEAN: &str =
    "The estimate describes the typical run, the mean all runs together: total work over total time, or total cost.";

fn rows(out: &mut String, first: &[&str], ruling: &Ruling, why: &str) {
    let verdict = format!("**{:?}**", ruling.verdict);
    let reason = escape(why);
    let named: Vec<&str> = first.iter().copied().chain([verdict.as_str(), reason.as_str()]).collect();
    let blank = vec![""; named.len()];
    if ruling.estimates.is_empty() {
        let _ = writeln!(out, "| {} | | | | | |", named.join(" | "));
    }
    for (i, estimate) in ruling.estimates.iter().enumerate() {
        let start = if i == 0 { &named } else { &blank };
        let status = estimate.status.map_or(String::new(), |status| format!("{status:?}"));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {status} |",
            start.join(" | "),
            code(&estimate.metric),
            number::estimate(estimate),
            number::interval(estimate),
            number::mean(estimate)
        );
    }
}

fn by_scenario(report: &Report) -> String {
    let mut out = String::new();
    let _ =
        writeln!(out, "| scenario | config | verdict | reason | metric | estimate | 95 % interval | mean | proven |");
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|---|");
    for cell in &report.cells {
        let why = cell.ruling.why(cell.failed, cell.runs);
        rows(&mut out, &[&code(&cell.scenario), &code(&cell.config)], &cell.ruling, &why);
    }
    let _ = writeln!(out, "\nMedians of the runs that count:\n");
    let _ = writeln!(out, "| scenario | config | metric | baseline | config |\n|---|---|---|---|---|");
    for cell in &report.cells {
        for estimate in &cell.ruling.estimates {
            let shown =
                |value: Option<f64>| value.map_or("unknown".to_owned(), |value| unit::value(&estimate.metric, value));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                code(&cell.scenario),
                code(&cell.config),
                code(&estimate.metric),
                shown(estimate.baseline_median),
                shown(estimate.config_median)
            );
        }
    }
    out
}

fn changes(report: &Report) -> String {
    let mut out = String::new();
    for config in &report.configs {
        let _ = writeln!(out, "- {}", code(&config.config));
        if config.changes.is_empty() {
            let _ = writeln!(out, "  - nothing (A/A)");
        }
        for change in &config.changes {
            let _ = writeln!(out, "  - {}", code(&human_change(change)));
        }
    }
    out
}

fn gates(report: &Report) -> String {
    let mut out = "| gate | what it checks | state | details |\n|---|---|---|---|\n".to_owned();
    for gate in &report.gates {
        let (state, details) = (gate.state.words(), escape(&gate.details()));
        let _ = writeln!(out, "| {:?} | {} | {state} | {details} |", gate.gate, question(gate.gate));
    }
    out
}

fn notes(report: &Report) -> String {
    let lines: Vec<String> = report
        .notes
        .iter()
        .map(|note| match &note.config {
            Some(config) => format!("{}: {}", code(config), escape(&note.text)),
            None => escape(&note.text),
        })
        .collect();
    bullets(&lines)
}

fn trials(report: &Report) -> String {
    let mut out = String::new();
    let progress = &report.progress;
    let _ = writeln!(
        out,
        "{} attempts: {} valid, {} invalid, {} failed under their config, {} lost. Only attempts that do not count are \
         listed; `report.json` has all.\n",
        progress.attempts, progress.trials_valid, progress.invalid, progress.failed, progress.lost
    );
    let unused: Vec<&TrialReport> = report.trials.iter().filter(|trial| trial.state != TrialFate::Valid).collect();
    if unused.is_empty() {
        return out;
    }
    let _ = writeln!(out, "| trial | state | why |\n|---|---|---|");
    for trial in unused {
        let mut why: Vec<String> =
            trial.findings.iter().map(|finding| format!("{}: {}", finding.code, finding.message)).collect();
        why.extend(trial.message.clone());
        let why = escape(&why.join("; "));
        let _ = writeln!(out, "| {} | {:?} | {why} |", code(&trial.trial.file_stem()), trial.state);
    }
    out
}

pub(crate) fn bullets(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut out, line| {
        let _ = writeln!(out, "- {line}");
        out
    })
}

pub(crate) fn folded(out: &mut String, title: &str, body: &str) {
    // GitHub needs the empty lines to read Markdown inside.
    let _ = writeln!(out, "<details>\n<summary>{title}</summary>\n\n{}\n\n</details>\n", body.trim_end());
}

/// Text from outside must not become markup: names and messages can hold anything.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|").replace(['\n', '\r'], " ")
}

pub(crate) fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|").replace(['\n', '\r'], " "))
}
