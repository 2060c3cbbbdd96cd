//! What was run, where and when.

use std::fmt::Write as _;

use super::escape;
use super::text::{Table, folded};
use crate::report::{Report, setup};

/// `experiment`: the text of the experiment's file, where it is there.
pub fn setup(report: &Report, experiment: Option<&str>) -> String {
    let mut out = String::new();
    if !report.design.workloads.is_empty() {
        let mut table = Table::new("Workload of each scenario", &["scenario", "workload"]);
        for (scenario, workload) in report.design.scenarios.iter().zip(&report.design.workloads) {
            table.row(&[escape(scenario), escape(workload)]);
        }
        out.push_str(&table.finish());
    }
    let mut table = Table::new("Environment", &["what", "as the records tell"]);
    for (name, value) in setup::rows(report) {
        table.row(&[name.to_owned(), escape(&value)]);
    }
    out.push_str(&table.finish());
    if let Some(text) = experiment {
        let mut file =
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"The experiment file\">\n".to_owned();
        let _ = writeln!(file, "<pre><code>{}</code></pre>\n</div>", escape(text));
        out.push_str(&folded("The experiment file", &file));
    }
    out
}
