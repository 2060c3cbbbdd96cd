//! Effects with their intervals against the margin, metric by metric.

use std::fmt::Write as _;

use super::svg::{Axis, Svg};
use super::{Judged, badge, class, escape, number};
use crate::report::{Estimate, Ruling};
use crate::stats::{Interval, Scale};
use crate::verdict::{MetricRule, Purpose, Status, Verdict};

/// Rows up to which the scenarios are shown without being asked for.
const OPEN_ROWS: usize = 30;

/// A row of the plot.
struct Row<'a> {
    config: &'a str,
    /// `None`: over all of them.
    scenario: Option<&'a str>,
    ruling: &'a Ruling,
    estimate: &'a Estimate,
}

/// The effects of configs on each metric, overall and, where there are `cells`, by scenario.
pub(crate) fn effects(metrics: &[MetricRule], configs: &[Judged<'_>], cells: &[Judged<'_>]) -> String {
    let mut out = "<p class=\"how\">The dot is the estimate, the line its 95 % interval, the band the margin: the \
                   smallest change that matters. Right of the middle is better, for latencies too: +25 % means 1.25 \
                   times as fast. The estimate describes the typical run, the mean all runs together.</p>\n"
        .to_owned();
    for (metric, rule) in metrics.iter().enumerate() {
        let (overall, rows) = (rows(configs, metric), rows(cells, metric));
        let axis = axis(rule, overall.iter().chain(&rows).map(|row| row.estimate));
        let purpose = match rule.purpose {
            Purpose::Objective => "objective",
            Purpose::Guardrail => "guardrail",
            Purpose::Info => "for information",
        };
        let _ = writeln!(out, "<h3>{} <small>{purpose}</small></h3>", escape(&rule.name));
        // A plot without a dot or a line is easily taken for one of no effect.
        if overall.iter().chain(&rows).all(|row| row.estimate.estimate.is_none()) {
            out.push_str("<p class=\"empty\">No config has an estimate of it yet.</p>\n");
            continue;
        }
        let over = if rows.is_empty() { "" } else { ", all scenarios" };
        if !overall.is_empty() {
            out.push_str(&plot(&format!("{}{over}", rule.name), rule, &axis, &overall));
        }
        if !rows.is_empty() {
            let by = plot(&format!("{}, by scenario", rule.name), rule, &axis, &rows);
            let open = if rows.len() <= OPEN_ROWS || overall.is_empty() { " open" } else { "" };
            let _ = write!(out, "<details{open}>\n<summary>By scenario</summary>\n{by}</details>\n");
        }
    }
    out
}

fn rows<'a>(judged: &[Judged<'a>], metric: usize) -> Vec<Row<'a>> {
    let row = |&Judged { config, scenario, ruling, .. }: &Judged<'a>| {
        Some(Row { config, scenario, ruling, estimate: ruling.estimates.get(metric)? })
    };
    judged.iter().filter_map(row).collect()
}

/// The interval, or the bounds that stand for it.
fn drawn(estimate: &Estimate) -> Option<Interval> {
    estimate.bounds.or(estimate.interval95)
}

/// One axis for all rows of a metric, in what people read: percent on a log scale.
fn axis<'a>(rule: &MetricRule, estimates: impl Iterator<Item = &'a Estimate>) -> Axis {
    let margin = rule.scale.margin(rule.margin);
    let ends = estimates.flat_map(|e| {
        let Interval { low, high } = drawn(e).unwrap_or(Interval { low: None, high: None });
        [e.estimate, low, high]
    });
    let values: Vec<f64> = ends.flatten().chain([-1.3 * margin, 1.3 * margin]).filter(|v| v.is_finite()).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let room = (high - low) * 0.04;
    // No effect is never so near to the rim that its label has no room.
    let (low, high) = ((low - room).min(-high * RIM / 80.0), (high + room).max(-low * RIM / 80.0));
    let mut axis = Axis::over(values.iter().map(|value| number::shown(rule.scale, *value)), 5)
        .cut(number::shown(rule.scale, low), number::shown(rule.scale, high));
    // Equal distances are equal ratios.
    (axis.low, axis.high) = (low, high);
    axis
}

/// Of what is proven about this metric, not of the verdict: a Tradeoff has a better and a worse one.
fn accent(row: &Row<'_>) -> &'static str {
    match row.estimate.status {
        Some(Status::Better) => class(Verdict::Win),
        Some(Status::Worse) => class(Verdict::Reject),
        Some(Status::Equivalent | Status::NonInferior) => class(Verdict::Neutral),
        Some(Status::Unresolved) => class(Verdict::Inconclusive),
        None => class(row.ruling.verdict),
    }
}

fn plot(caption: &str, rule: &MetricRule, axis: &Axis, rows: &[Row<'_>]) -> String {
    let margin = number::margin(rule.scale, rule.margin);
    let mut out = format!(
        "<table class=\"forest\">\n<caption>Effect on {}, margin {margin}</caption>\n<thead><tr><th scope=\"col\">config</th>\
         <th scope=\"col\" class=\"plot\">effect</th><th scope=\"col\" class=\"n\">estimate</th>\
         <th scope=\"col\" class=\"n\">95 % interval</th><th scope=\"col\" class=\"n\">mean</th>\
         <th scope=\"col\">proven</th></tr></thead>\n<tbody>\n",
        escape(caption)
    );
    let mut before = "";
    for row in rows {
        if row.scenario.is_some() && row.config != before {
            let config = escape(row.config);
            let _ = writeln!(out, "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"6\">{config}</th></tr>");
        }
        before = row.config;
        let name = match row.scenario {
            None => format!("<th scope=\"row\">{}</th>", escape(row.config)),
            Some(scenario) => format!("<th scope=\"row\" class=\"in\">{}</th>", escape(scenario)),
        };
        let estimate = row.estimate;
        let proven = match (estimate.status, row.scenario) {
            (Some(status), _) => format!("{status:?}"),
            (None, _) => badge(row.ruling.verdict),
        };
        let _ = writeln!(
            out,
            "<tr class=\"{}\">{name}<td class=\"plot\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{proven}</td></tr>",
            accent(row),
            strip(row, rule, axis),
            number::estimate(estimate),
            number::interval(estimate),
            number::mean(estimate)
        );
    }
    let _ = write!(
        out,
        "</tbody>\n<tfoot><tr><td></td><td class=\"plot\">{}</td><td colspan=\"4\"></td></tr></tfoot>\n</table>\n",
        scale(rule, axis)
    );
    out
}

const HEIGHT: f64 = 28.0;

fn strip(row: &Row<'_>, rule: &MetricRule, axis: &Axis) -> String {
    let e = row.estimate;
    let percent = |effect: f64| (100.0 * axis.share(effect)).clamp(0.0, 100.0);
    let of = row.scenario.map_or(String::new(), |scenario| format!(" in {scenario}"));
    let title = format!("{} of {}{of}: {}, {}", rule.name, row.config, number::estimate(e), number::interval(e));
    let mut svg = Svg::strip(HEIGHT, &title, "");
    let middle = HEIGHT / 2.0;
    let margin = rule.scale.margin(rule.margin);
    svg.rect("band", (percent(-margin), 0.0), (percent(margin), HEIGHT));
    svg.line("zero", (percent(0.0), 0.0), (percent(0.0), HEIGHT));
    if let Some(interval) = drawn(e) {
        let end = |limit: Option<f64>, open: f64| limit.map_or(open, percent);
        let (low, high) = (end(interval.low, 0.0), end(interval.high, 100.0));
        let open = e.bounds.is_some() || interval.low.is_none() || interval.high.is_none();
        svg.line(if open { "ci open" } else { "ci" }, (low, middle), (high, middle));
        for limit in [interval.low, interval.high].into_iter().flatten() {
            svg.line("ci", (percent(limit), middle - 4.0), (percent(limit), middle + 4.0));
        }
    }
    if let Some(value) = e.estimate {
        svg.circle("dot", (percent(value), middle), if row.scenario.is_none() { 5.0 } else { 4.0 });
    }
    svg.finish()
}

/// Percent of the strip that a label takes where the strip is narrow, and at the rim, where it is moved inwards.
const LABEL: f64 = 20.0;
const RIM: f64 = 10.0;

fn scale(rule: &MetricRule, axis: &Axis) -> String {
    let mut svg = Svg::strip(20.0, &format!("Scale of {}", rule.name), "");
    let at = |tick: f64| 100.0 * axis.share(number::hidden(rule.scale, tick));
    let is_rim = |at: f64| !(RIM..=100.0 - RIM).contains(&at);
    let mut ticks = axis.ticks.clone();
    // What is near to no effect matters most, so it is named first.
    ticks.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut named: Vec<f64> = Vec::new();
    for tick in ticks {
        let own = at(tick);
        let apart = |other: &f64| (own - other).abs() >= LABEL + if is_rim(own) || is_rim(*other) { RIM } else { 0.0 };
        if !named.iter().all(apart) {
            continue;
        }
        named.push(own);
        let label = match rule.scale {
            Scale::Log => axis.signed_percent(tick),
            Scale::Linear => axis.label(tick),
        };
        svg.line("tick", (own, 0.0), (own, 4.0));
        let anchor = if own < RIM {
            "start"
        } else if own > 100.0 - RIM {
            "end"
        } else {
            "mid"
        };
        svg.text(anchor, (own, 16.0), &label);
    }
    svg.finish()
}
