//! What only full records know: the distribution of latency, and what RocksDB did over time.

use std::fmt::Write as _;

use super::escape;
use super::number;
use super::pairs::{BASELINE, STYLES, TOGETHER, grouped, legend};
use super::svg::{Axis, Chart, Ticks};
use super::text::{Table, charts, with_words};
use crate::report::attachments::WRITE_AMPLIFICATION;
use crate::report::{Attachment, Report, unit};

/// A chart over time: column, name, and what its numbers count.
const PANELS: [(&str, &str, &str); 7] = [
    ("steps_per_second", "Steps", "steps/s"),
    (WRITE_AMPLIFICATION, "Write amplification so far", "bytes per byte"),
    ("stall_fraction", "Writers stalled", "share of time"),
    ("flush_bytes_per_second", "Flush", "bytes/s"),
    ("compaction_write_bytes_per_second", "Compaction writes", "bytes/s"),
    ("l0_files", "Files in level 0", "highest of any family"),
    ("pending_compaction_bytes", "Pending compaction", "bytes"),
];

/// The attachments of a scenario that a chart shows, the baseline first, with their styles.
fn shown<'a>(
    report: &Report,
    records: &'a [Attachment],
    scenario: &str,
    group: &[&str],
) -> Vec<(&'static str, &'a Attachment)> {
    let styles = std::iter::once((report.baseline.as_str(), BASELINE)).chain(group.iter().copied().zip(STYLES));
    let of = |config: &str| records.iter().find(|a| a.scenario == scenario && a.config == config);
    styles.filter_map(|(config, (class, _))| Some((class, of(config)?))).collect()
}

/// One set of charts per group of configs that can be told apart, the first with the words about all of them.
fn by_group(report: &Report, how: &str, chart: impl Fn(&str, &[&str]) -> Vec<(String, String)>) -> Option<String> {
    let configs: Vec<&str> = report.configs.iter().map(|config| config.config.as_str()).collect();
    let mut out = String::new();
    for group in configs.chunks(TOGETHER) {
        let how = if out.is_empty() { how } else { "" };
        let mut body = format!("{how}{}", legend(report, group, true));
        let all: Vec<_> = report.design.scenarios.iter().map(|scenario| (scenario, chart(scenario, group))).collect();
        let any = all.iter().any(|(_, charts)| !charts.is_empty());
        if all.iter().all(|(_, charts)| charts.len() <= 1) {
            let single: Vec<_> = all.into_iter().flat_map(|(_, charts)| charts).collect();
            body = with_words(&body, &single);
        } else {
            for (scenario, own) in all.iter().filter(|(_, charts)| !charts.is_empty()) {
                if report.design.scenarios.len() > 1 {
                    let _ = writeln!(body, "<h3>{}</h3>", escape(scenario));
                }
                body.push_str(&charts(own));
            }
        }
        if any {
            out.push_str(&grouped(&configs, group, &body));
        }
    }
    (!out.is_empty()).then_some(out)
}

pub(super) fn missing(what: &str) -> String {
    format!(
        "<p class=\"empty\">No data: {what} comes from full records, and this page was written without one of a trial \
         that counts. Run <code>assay run</code> on the experiment's folder to rewrite it with all available \
         records.</p>\n"
    )
}

pub fn latency(report: &Report, records: &[Attachment]) -> String {
    let how = "<p class=\"how\">Latency of the primary role's steps, all counted runs of a config together. Lower is \
               better; the far right is the worst case seen. This chart pools runs; verdicts compare them pair by \
               pair.</p>\n";
    let found = by_group(report, how, |scenario, group| {
        let own = shown(report, records, scenario, group);
        let caption = format!("<strong>{}</strong>", escape(scenario));
        distribution(scenario, &own).map(|svg| (caption, svg)).into_iter().collect()
    });
    found.unwrap_or_else(|| missing("the latency distribution")) + &percentiles(report)
}

/// Columns of the table below a chart of latencies.
const LATENCIES: [(&str, &str); 5] = [
    ("step_latency_p50", "#p50"),
    ("step_latency_p90", "#p90"),
    ("step_latency_p99", "#p99"),
    ("step_latency_p999", "#p99.9"),
    ("step_latency_max", "#longest"),
];

/// Percentiles of the runs that count, and their stalls.
fn percentiles(report: &Report) -> String {
    if report.records.is_empty() {
        return String::new();
    }
    let mut columns = vec!["scenario", "config", "#runs"];
    columns.extend(LATENCIES.map(|(_, column)| column));
    columns.extend(["#stalls", "#time stalled"]);
    let caption = "Latency of a step, medians of the runs that count; stalls of all these runs together";
    let mut table = Table::new(caption, &columns);
    for facts in &report.records {
        let mut row = vec![escape(&facts.scenario), escape(&facts.config), format!("#{}", facts.runs)];
        let shown = |name: &str, value: Option<f64>| {
            format!("#{}", value.map_or("unknown".to_owned(), |value| unit::value(name, value)))
        };
        row.extend(LATENCIES.map(|(name, _)| shown(name, facts.medians.get(name).copied())));
        row.push(shown("stall_count", facts.stalls));
        row.push(shown("stall_seconds", facts.stall_seconds));
        table.row(&row);
    }
    table.finish()
}

/// Percentiles that are named where they are in reach.
const PERCENTILES: [(f64, &str); 8] = [
    (1.0, "0"),
    (2.0, "50"),
    (10.0, "90"),
    (1e2, "99"),
    (1e3, "99.9"),
    (1e4, "99.99"),
    (1e5, "99.999"),
    (1e6, "99.9999"),
];

fn distribution(scenario: &str, shown: &[(&str, &Attachment)]) -> Option<String> {
    let points = || shown.iter().flat_map(|(_, own)| &own.latency);
    let longest = points().map(|(one_in, _)| *one_in).fold(0.0, f64::max);
    if longest < 2.0 {
        return None;
    }
    let mut x = Axis::over([0.0, longest.log10()].into_iter(), 1).cut(0.0, longest.log10());
    let named: Vec<(f64, &str)> = PERCENTILES.into_iter().filter(|(one_in, _)| *one_in <= longest * 1.001).collect();
    x.ticks = named.iter().map(|(one_in, _)| one_in.log10()).collect();
    // Where the tail is long there is no room for all of them.
    let crowded = |one_in: f64| (one_in == 1.0 && longest > 1e3) || (one_in == 1e5 && longest > 3e5);
    let labels = named.iter().map(|(one_in, name)| if crowded(*one_in) { "" } else { name });
    let x = Ticks { labels: labels.map(ToString::to_string).collect(), axis: x };
    let y = logarithmic(points().map(|(_, nanoseconds)| *nanoseconds as f64));
    let mut description = "95 of 100 steps took no longer than".to_owned();
    for (_, own) in shown {
        if let Some((_, value)) = own.latency.iter().find(|(one_in, _)| *one_in >= 20.0) {
            let _ = write!(description, " {} with {},", number::latency(*value as f64), own.config);
        }
    }
    let mut chart = Chart::new(
        &format!("Latency by percentile in {scenario}"),
        description.trim_end_matches(','),
        x,
        "percent of steps that took no longer",
        y,
    );
    for (class, own) in shown {
        let line = own.latency.iter().map(|(one_in, nanoseconds)| (one_in.log10(), (*nanoseconds as f64).log10()));
        chart.line(&format!("l {class}"), line);
    }
    Some(chart.finish())
}

/// An axis of decades, with 2 and 5 between them where there are few.
fn logarithmic(values: impl Iterator<Item = f64>) -> Ticks {
    let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
    let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let fine: &[f64] = if high - low > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let grid: Vec<f64> =
        (0..12).flat_map(|decade| fine.iter().map(move |step| (step * 10_f64.powi(decade)).log10())).collect();
    let first = grid.iter().copied().filter(|tick| *tick <= low).fold(0.0, f64::max);
    let last = grid.iter().copied().filter(|tick| *tick >= high).fold(12.0, f64::min);
    let mut axis = Axis::over([first, last].into_iter(), 1).cut(first, last);
    axis.ticks = grid.into_iter().filter(|tick| (first..=last).contains(tick)).collect();
    Ticks::new(axis, |_, tick| number::latency(10_f64.powf(tick).round()))
}

pub fn series(report: &Report, records: &[Attachment]) -> String {
    let how = "<p class=\"how\">Over the measured window, median of the counted runs. A slower config has a longer \
               line; it ends when half of its runs have ended.</p>\n";
    let found = by_group(report, how, |scenario, group| {
        let own = shown(report, records, scenario, group);
        PANELS.iter().filter_map(|panel| over_time(scenario, *panel, &own)).collect()
    });
    found.unwrap_or_else(|| missing("RocksDB's activity over time"))
}

fn over_time(scenario: &str, panel: (&str, &str, &str), shown: &[(&str, &Attachment)]) -> Option<(String, String)> {
    let (column, name, unit) = panel;
    let lines: Vec<(&str, &Attachment, &Vec<f64>)> =
        shown.iter().filter_map(|(class, own)| Some((*class, *own, own.series.get(column)?))).collect();
    let seconds = |own: &Attachment, point: usize| (point as f64 + 0.5) * own.seconds_per_point;
    let end = lines.iter().map(|(_, own, values)| seconds(own, values.len())).fold(0.0, f64::max);
    if lines.is_empty() {
        return None;
    }
    let caption = format!("<strong>{name}</strong> <small>{unit}</small>");
    let values = || lines.iter().flat_map(|(_, _, values)| values.iter().copied());
    if values().all(|value| value == 0.0) {
        // A flat line along the axis is easily taken for a missing one.
        return Some((caption, format!("<p class=\"empty\">Always 0 in {}.</p>", escape(scenario))));
    }
    let x = Ticks::new(Axis::over([0.0, end].into_iter(), 5).cut(0.0, end), Axis::label);
    let y = Ticks::new(Axis::over(values().chain([0.0]), 4), Axis::label);
    let mut description = "Means over the window:".to_owned();
    for (_, own, values) in &lines {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let _ = write!(description, " {} {} ({} runs),", own.config, number::measured(mean), own.trials);
    }
    let title = format!("{name} in {scenario}, {unit}");
    let mut chart = Chart::new(&title, description.trim_end_matches(','), x, "seconds since the window opened", y);
    for (class, own, values) in &lines {
        let points = values.iter().enumerate().map(|(point, value)| (seconds(own, point), *value));
        chart.line(&format!("l {class}"), points);
    }
    Some((caption, chart.finish()))
}
