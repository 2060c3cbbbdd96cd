//! Every number of the report in tables, folded away.

use super::text::{Table, folded};
use super::{escape, number};
use crate::report::{Report, Ruling};

pub fn numbers(report: &Report) -> String {
    let mut out =
        "<p>The same numbers are in <code>report.json</code>, whose schema is <code>schemas/report.json</code> of the \
                   project.</p>\n"
            .to_owned();
    out.push_str(&folded("Estimates", &estimates(report)));
    out.push_str(&folded("Trials", &trials(report)));
    out
}

fn estimates(report: &Report) -> String {
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
        "#detectable",
        "#p better",
        "#p worse",
        "#p equal",
    ];
    let mut table = Table::new("Estimates; p values hold over all looks and claims", &columns);
    let unknown = |value: Option<String>| format!("#{}", value.unwrap_or_else(|| "–".to_owned()));
    let mut add = |config: &str, scenario: &str, ruling: &Ruling| {
        for e in &ruling.estimates {
            let p = |of: fn(&crate::verdict::PValues) -> f64| unknown(e.p.as_ref().map(|p| format!("{:.4}", of(p))));
            table.row(&[
                escape(config),
                escape(scenario),
                escape(&e.metric),
                format!("{:?}", ruling.verdict),
                e.status.map_or(String::new(), |status| format!("{status:?}")),
                format!("#{}", e.blocks),
                unknown(e.baseline_median.map(number::measured)),
                unknown(e.config_median.map(number::measured)),
                format!("#{}", number::estimate(e)),
                format!("#{}", number::interval(e)),
                unknown(e.detectable_percent.map(|percent| format!("{percent:.1} %"))),
                p(|p| p.better_adjusted.unwrap_or(p.better_seq)),
                p(|p| p.worse_adjusted.unwrap_or(p.worse_seq)),
                p(|p| p.equivalent_seq),
            ]);
        }
    };
    for config in &report.configs {
        add(&config.config, "all", &config.ruling);
        for cell in report.cells_of(&config.config) {
            add(&config.config, &cell.scenario, &cell.ruling);
        }
    }
    table.finish()
}

fn trials(report: &Report) -> String {
    let with_node = report.trials.iter().any(|trial| trial.node.is_some());
    let mut columns = vec!["trial".to_owned(), "#place in block".to_owned(), "state".to_owned()];
    if with_node {
        columns.push("node".to_owned());
    }
    columns.extend(report.design.metrics.iter().map(|rule| format!("#{}", rule.name)));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Every attempt, in the order of the plan", &columns);
    for trial in &report.trials {
        let mut row =
            vec![escape(&trial.trial.file_stem()), format!("#{}", trial.trial.order + 1), format!("{:?}", trial.state)];
        if with_node {
            row.push(trial.node.as_deref().map_or(String::new(), escape));
        }
        for rule in &report.design.metrics {
            let value = trial.metrics.get(&rule.name).copied().map(number::measured);
            row.push(format!("#{}", value.unwrap_or_else(|| "–".to_owned())));
        }
        table.row(&row);
    }
    table.finish()
}
