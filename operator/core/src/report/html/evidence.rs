//! How the numbers came about: gates, attempts that do not count, looks, and what is promised.

use std::fmt::Write as _;

use super::text::{Table, folded, plural};
use super::{badge, escape};
use crate::gates::Finding;
use crate::report::gates::question;
use crate::report::{GateState, Report, TrialFate};

pub fn evidence(report: &Report) -> String {
    let progress = &report.progress;
    let mut out = format!(
        "<p>{}: {} valid, {} invalid, {} failed under their config, {} lost. Gates check how a run was measured, not \
         its result.</p>\n",
        plural(progress.attempts, "attempt"),
        progress.trials_valid,
        progress.invalid,
        progress.failed,
        progress.lost
    );
    out.push_str(&gates(report));
    out.push_str(&unused(report));
    if report.design.looks.is_empty() {
        let _ = writeln!(out, "<p>Judged once, after all {} blocks of every scenario.</p>", report.design.blocks);
    }
    out.push_str(&looks(report));
    out.push_str(&order_check(report));
    out.push_str(&by_node(report));
    if !report.notes.is_empty() {
        out.push_str("<h3>Notes</h3>\n<ul>\n");
        for note in &report.notes {
            let config =
                note.config.as_ref().map_or(String::new(), |config| format!("<code>{}</code>: ", escape(config)));
            let gate = note.gate.map_or(String::new(), |gate| format!(" <small>{gate:?}</small>"));
            let _ = writeln!(out, "<li>{config}{}{gate}</li>", escape(&note.text));
        }
        out.push_str("</ul>\n");
    }
    out
}

fn gates(report: &Report) -> String {
    if report.gates.is_empty() {
        return String::new();
    }
    let mut table = Table::new("Gates that every run went through", &["gate", "what it checks", "state", "details"]);
    for gate in &report.gates {
        let class = match gate.state {
            GateState::Passed => "passed",
            GateState::Noted => "noted",
            GateState::CouldNotCheck => "unchecked",
            GateState::Failed => "failed",
        };
        let state = format!("<strong class=\"state {class}\">{}</strong>", gate.state.words());
        table.row(&[format!("{:?}", gate.gate), question(gate.gate).to_owned(), state, escape(&gate.details())]);
    }
    table.finish()
}

fn unused(report: &Report) -> String {
    let unused: Vec<_> = report.trials.iter().filter(|trial| trial.state != TrialFate::Valid).collect();
    if unused.is_empty() {
        return "<p>All attempts count.</p>\n".to_owned();
    }
    let mut table = Table::new("Attempts that do not count", &["trial", "state", "why", "what to do"]);
    for trial in &unused {
        let why = trial.findings.iter().map(|finding| format!("{}: {}", finding.code, finding.message));
        let why: Vec<String> = why.chain(trial.message.clone()).map(|text| escape(&text)).collect();
        let todo: Vec<String> = trial.findings.iter().map(|Finding { what_to_do, .. }| escape(what_to_do)).collect();
        let state = format!("{:?}", trial.state);
        table.row(&[
            format!("<code>{}</code>", escape(&trial.trial.file_stem())),
            state,
            why.join("; "),
            todo.join(" "),
        ]);
    }
    let table = table.finish();
    // What is short need not be asked for.
    if unused.len() <= 8 { table } else { folded(&format!("{} attempts that do not count", unused.len()), &table) }
}

fn looks(report: &Report) -> String {
    // A single one says what the verdicts say.
    if report.looks.len() < 2 {
        return String::new();
    }
    let mut columns = vec!["config".to_owned()];
    columns.extend(report.looks.iter().map(|look| format!("after {} blocks", look.blocks)));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Verdicts as they stood at each planned look", &columns);
    for config in &report.configs {
        let mut row = vec![escape(&config.config)];
        let mut stopped = false;
        for look in &report.looks {
            let own = look.configs.iter().find(|own| own.config == config.config);
            row.push(match own {
                Some(_) if stopped => "<small>decided earlier</small>".to_owned(),
                Some(own) => {
                    stopped = own.stopped;
                    format!("{} <small>{}</small>", badge(own.verdict), escape(&own.reason))
                }
                None => String::new(),
            });
        }
        table.row(&row);
    }
    table.finish()
}

fn order_check(report: &Report) -> String {
    if report.order_check.is_empty() {
        return String::new();
    }
    let mut table = Table::new("Effect of the run order", &["scenario", "metric", "effect of", "#p", "state"]);
    for check in &report.order_check {
        let state =
            if check.warning { "<strong>seen</strong>: the random order keeps verdicts fair" } else { "not seen" };
        let p = check.p.map_or("unknown".to_owned(), |p| format!("{p:.4}"));
        let effect = check.effect.words().to_owned();
        table.row(&[escape(&check.scenario), escape(&check.metric), effect, format!("#{p}"), state.to_owned()]);
    }
    table.finish()
}

fn by_node(report: &Report) -> String {
    if report.configs.iter().all(|config| config.by_node.is_empty()) {
        return String::new();
    }
    let mut table = Table::new("Estimates by node", &["config", "metric", "node", "#blocks", "#estimate"]);
    for config in &report.configs {
        for node in &config.by_node {
            let scale = report.design.metrics.iter().find(|rule| rule.name == node.metric).map(|rule| rule.scale);
            let estimate = node
                .estimate
                .zip(scale)
                .map_or("unknown".to_owned(), |(effect, scale)| super::number::effect(scale, effect));
            table.row(&[
                escape(&config.config),
                escape(&node.metric),
                escape(&node.node),
                format!("#{}", node.blocks),
                format!("#{estimate}"),
            ]);
        }
    }
    table.finish()
}

pub fn promise(report: &Report) -> String {
    let mut out = "<ul>\n".to_owned();
    for sentence in &report.guarantees {
        let _ = writeln!(out, "<li>{}</li>", escape(sentence));
    }
    out.push_str("</ul>\n");
    let design = &report.design;
    let _ = writeln!(
        out,
        "<p>Fixed before the first run: {} per scenario with {} each. Proving a gain takes at least {} blocks overall \
         and {} in a single scenario.</p>",
        plural(design.blocks as usize, "block"),
        plural(design.baseline_replicates as usize, "baseline run"),
        design.fewest_blocks,
        design.fewest_blocks_per_scenario
    );
    out
}

pub fn reproduce(report: &Report) -> String {
    let mut out = "<ul>\n".to_owned();
    for line in &report.reproduce {
        // Commands stand between backticks.
        let marked: String = escape(line)
            .split('`')
            .enumerate()
            .map(|(i, part)| if i % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
            .collect();
        let _ = writeln!(out, "<li>{marked}</li>");
    }
    out.push_str("</ul>\n");
    out
}
