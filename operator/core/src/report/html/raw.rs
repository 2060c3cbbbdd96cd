//! Every number of the report in tables, folded away.

use assay_protocol::METRICS;

use super::text::{Table, folded};
use super::{Judged, by_scenario, escape, number, overall};
use crate::report::{RecordFacts, Report, TrialReport, unit};

pub fn numbers(report: &Report) -> String {
    let mut out =
        "<p>The same numbers are in <code>report.json</code>; its schema is <code>schemas/report.json</code> in the \
         project.</p>\n"
            .to_owned();
    let judged = report.configs.iter().flat_map(|config| {
        let cells = by_scenario(report, &config.config);
        std::iter::once(overall(config)).chain(cells)
    });
    out.push_str(&folded("Estimates", &estimates(judged)));
    if !report.records.is_empty() {
        out.push_str(&folded("Medians of every metric", &medians(report)));
    }
    out.push_str(&folded("Runs", &runs(report)));
    out
}

/// What is known of each metric of these verdicts.
pub(crate) fn estimates<'a>(judged: impl Iterator<Item = Judged<'a>>) -> String {
    let columns = [
        "config",
        "scenario",
        "metric",
        "verdict",
        "proven",
        "#blocks",
        "#baseline",
        "#config",
        "#estimate",
        "#95 % interval",
        "#p better",
        "#p worse",
        "#p equal",
    ];
    let mut table = Table::new("Estimates; p values are corrected for all looks and claims", &columns);
    let unknown = |value: Option<String>| format!("#{}", value.unwrap_or_else(|| "–".to_owned()));
    for Judged { config, scenario, ruling, .. } in judged {
        for e in &ruling.estimates {
            let p = |of: fn(&crate::verdict::PValues) -> f64| unknown(e.p.as_ref().map(|p| format!("{:.4}", of(p))));
            let median = |value: Option<f64>| unknown(value.map(|value| unit::value(&e.metric, value)));
            table.row(&[
                escape(config),
                escape(scenario.unwrap_or("all")),
                escape(&e.metric),
                format!("{:?}", ruling.verdict),
                e.status.map_or(String::new(), |status| format!("{status:?}")),
                format!("#{}", e.blocks),
                median(e.baseline_median),
                median(e.config_median),
                format!("#{}", number::estimate(e)),
                format!("#{}", number::interval(e)),
                p(|p| p.better_adjusted.unwrap_or(p.better_seq)),
                p(|p| p.worse_adjusted.unwrap_or(p.worse_seq)),
                p(|p| p.equivalent_seq),
            ]);
        }
    }
    table.finish()
}

/// A table for each scenario: a row for each metric that any arm has, a column for each arm.
fn medians(report: &Report) -> String {
    let mut out = String::new();
    for scenario in &report.design.scenarios {
        let arms: Vec<&RecordFacts> = report.records.iter().filter(|facts| facts.scenario == *scenario).collect();
        if arms.is_empty() {
            continue;
        }
        let named = arms.iter().map(|facts| format!("#{}", facts.config));
        let columns: Vec<String> = std::iter::once("metric".to_owned()).chain(named).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut table = Table::new(&format!("{scenario}: medians of the runs that count"), &columns);
        for info in METRICS.iter().filter(|info| arms.iter().any(|facts| facts.medians.contains_key(info.name))) {
            let cell = |facts: &&RecordFacts| match facts.medians.get(info.name) {
                Some(value) => format!("#{}", unit::value(info.name, *value)),
                None => "#–".to_owned(),
            };
            table.row(&std::iter::once(info.name.to_owned()).chain(arms.iter().map(cell)).collect::<Vec<_>>());
        }
        out.push_str(&table.finish());
    }
    out
}

/// One line per run.
fn runs(report: &Report) -> String {
    let with_node = report.trials.iter().any(|trial| trial.node.is_some());
    let mut columns: Vec<String> =
        ["#block", "#order", "config", "scenario", "state", "#window"].map(ToOwned::to_owned).into();
    columns.extend(report.design.metrics.iter().map(|rule| format!("#{}", rule.name)));
    if with_node {
        columns.push("node".to_owned());
    }
    columns.push("folder".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Every attempt, in plan order", &columns);
    for trial in &report.trials {
        let missing = || "–".to_owned();
        let window = trial.window_seconds.map_or_else(missing, |seconds| format!("{seconds:.1} s"));
        let mut row = vec![
            format!("#{}", trial.trial.block + 1),
            format!("#{}", trial.trial.order + 1),
            escape(&config(trial)),
            escape(&trial.trial.scenario),
            format!("{:?}", trial.state),
            format!("#{window}"),
        ];
        for rule in &report.design.metrics {
            let value = trial.metrics.get(&rule.name).map(|value| unit::value(&rule.name, *value));
            row.push(format!("#{}", value.unwrap_or_else(missing)));
        }
        if with_node {
            row.push(trial.node.as_deref().map_or(String::new(), escape));
        }
        row.push(format!("<code>{}</code>", escape(&trial.trial.file_stem())));
        table.row(&row);
    }
    table.finish()
}

/// The config, with which of the baseline's runs and which try it is.
fn config(trial: &TrialReport) -> String {
    let run = if trial.trial.replicate > 0 { format!(", run {}", trial.trial.replicate + 1) } else { String::new() };
    let again = if trial.trial.attempt > 0 { format!(", try {}", trial.trial.attempt + 1) } else { String::new() };
    format!("{}{run}{again}", trial.trial.config)
}
