//! Where the time went, as tables.

use std::fmt::Write as _;

use super::engine::missing;
use super::escape;
use super::number;
use super::pairs::TOGETHER;
use super::text::{Table, folded};
use crate::report::time_spent::{HOW, clock_text};
use crate::report::{Report, TimeTable};

pub fn time(report: &Report) -> String {
    if report.time_spent.is_empty() {
        return missing("the time breakdown");
    }
    let mut out = format!("<p class=\"how\">{HOW}</p>\n");
    for table in &report.time_spent {
        let groups = report.configs.len().div_ceil(TOGETHER);
        for group in 0..groups {
            let body = self::table(table, report, group * TOGETHER);
            if group == 0 {
                out.push_str(&body);
            } else {
                let configs = report.configs.iter().skip(group * TOGETHER).take(TOGETHER);
                let names: Vec<&str> = configs.map(|config| config.config.as_str()).collect();
                out.push_str(&folded(&format!("{}: {}", table.scenario, names.join(", ")), &body));
            }
        }
    }
    out
}

/// The configs from the `first` on that have room beside each other.
fn table(table: &TimeTable, report: &Report, first: usize) -> String {
    let mut columns = vec!["component".to_owned(), "clock".to_owned(), format!("#{}, µs", report.baseline)];
    for config in report.configs.iter().skip(first).take(TOGETHER) {
        columns.extend([format!("#{}, µs", config.config), "#difference, µs".to_owned()]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let caption = format!("{}: microseconds per step of {}", table.scenario, table.role);
    let mut rows = Table::new(&caption, &columns);
    for row in &table.rows {
        let name = format!("{}{}", "\u{2003}".repeat(row.depth as usize), escape(&row.component));
        let mut cells = vec![name, clock_text(row.clock).to_owned(), format!("#{}", number::measured(row.baseline))];
        for cell in row.configs.iter().skip(first).take(TOGETHER) {
            let (mut difference, interval) = cell.difference_texts();
            if cell.differs() {
                difference = format!("<strong>{difference}</strong>");
            }
            let _ = write!(difference, " <small>{interval}</small>");
            let mean = cell.mean.map_or("–".to_owned(), number::measured);
            cells.extend([format!("#{mean}"), format!("#{difference}")]);
        }
        rows.row(&cells);
    }
    rows.finish()
}
