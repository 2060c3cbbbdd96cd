//! Published numbers, judged as imported runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assay_core::import::{Collector, ImportReport, Place, Policy, judge};
use serde_json::{Value, json};

/// Judges rows of comma-separated values under these columns.
pub fn judged(policy: &Value, columns: &str, rows: &str) -> Result<ImportReport, String> {
    let policy = Policy::read(policy).map_err(|problems| format!("{problems:?}"))?;
    let mut collector = Collector::new(&policy);
    let file = collector.file("rows.csv");
    for (line, row) in rows.lines().enumerate() {
        collector.row(Place { file, line: line as u64 + 2 }, columns.split(',').zip(row.split(',')));
    }
    let report = collector.finish().and_then(|data| judge(&data, &policy));
    report.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// One objective that should grow, and guardrails that should not.
pub fn policy(objective: &str, guardrails: &[&str]) -> Value {
    let guardrails: Vec<Value> =
        guardrails.iter().map(|metric| json!({"metric": metric, "direction": "lower", "margin": "5%"})).collect();
    json!({
        "baseline": "base",
        "objectives": [{"metric": objective, "direction": "higher", "margin": "2%"}],
        "guardrails": guardrails,
    })
}

pub const COLUMNS: &str = "scenario,config,block,replicate,metric,value,work";

/// Both configs' values of each metric, once in every block, with the noise of a quiet machine.
pub fn blocks(count: u32, metrics: &[(&str, f64, f64)]) -> String {
    let mut rows = String::new();
    for block in 1..=count {
        for (metric, base, changed) in metrics {
            let noise = 1.0 + f64::from(block * 37 % 101) / 10_000.0;
            let more = noise * (1.0 + f64::from(block * 29 % 7) / 2000.0);
            let _ = writeln!(
                rows,
                "s,base,{block},,{metric},{},\ns,changed,{block},,{metric},{},",
                base * noise,
                changed * more
            );
        }
    }
    rows
}

/// `Verdict Reason` by config, of the whole comparison.
pub fn verdicts(report: &ImportReport) -> BTreeMap<String, String> {
    let configs = report.comparisons.iter().flat_map(|comparison| &comparison.configs);
    configs
        .map(|config| (config.config.clone(), format!("{:?} {}", config.ruling.verdict, config.ruling.reason)))
        .collect()
}

pub fn verdict(policy: &Value, rows: &str) -> String {
    verdicts(&judged(policy, COLUMNS, rows).unwrap())["changed"].clone()
}
