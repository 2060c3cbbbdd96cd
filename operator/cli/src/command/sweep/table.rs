//! Nights and levels as rows.

use std::fmt::Write as _;

use assay_api::TuningSweepSpec;
use assay_core::stats::Scale;
use assay_core::sweep::detect::Watch;
use assay_core::sweep::{History, LEARNED, Level, Night, Outcome, Point};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::tz::TimeZone;

use crate::text::table;

/// A time by the clocks of a sweep.
pub fn local(spec: &TuningSweepSpec, time: Timestamp) -> String {
    let zone = TimeZone::get(&spec.time_zone).unwrap_or(TimeZone::UTC);
    time.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M %Z").to_string()
}

/// All nights, the latest last, and where the series stand.
pub fn text(history: &History, watch: &Watch) -> String {
    let head = ["night (UTC)", "came of it", "why it ran", "what it says"].map(str::to_owned).to_vec();
    let rows = history.nights().map(|night| {
        let outcome = match night.outcome {
            Outcome::Measured => "measured",
            Outcome::Skipped => "skipped",
            Outcome::Gap => "gap",
            Outcome::Visited => "confirmation",
            Outcome::Accepted => "accepted",
        };
        vec![
            night.night.strftime("%Y-%m-%d %H:%M").to_string(),
            outcome.to_owned(),
            format!("{:?}", night.trigger),
            said(night),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    table(&rows) + &levels(history, watch)
}

/// The most certain harm of a measured night, or why there was none.
fn said(night: &Night) -> String {
    if let Some(visit) = &night.visit {
        let came = night
            .reason
            .as_ref()
            .map_or(String::new(), |reason| format!(": {reason}: {}", night.message.as_deref().unwrap_or_default()));
        return format!("visit {} of {}{came}", visit.number, visit.change());
    }
    if let Some(accepted) = &night.accepted {
        return format!("{}: {}", accepted.change, night.message.as_deref().unwrap_or_default());
    }
    if night.outcome != Outcome::Measured {
        let reason = night.reason.as_deref().unwrap_or_default();
        return format!("{reason}: {}", night.message.as_deref().unwrap_or_default());
    }
    let in_errors = |point: &&Point| if point.standard_error > 0.0 { point.effect / point.standard_error } else { 0.0 };
    let lowest = night.points.iter().min_by(|a, b| in_errors(a).total_cmp(&in_errors(b)));
    let lowest = lowest.map_or(String::new(), |point| {
        let series = &point.series;
        format!(
            ", lowest {} {} ({}, {})",
            shown(point.scale, point.effect),
            series.metric,
            series.subject,
            series.scenario
        )
    });
    let gaps = if night.gaps.is_empty() { String::new() } else { format!(", {} missing", night.gaps.len()) };
    let unchanged = night.subjects.iter().all(|subject| subject.unchanged);
    let same = if unchanged { ", nothing changed" } else { "" };
    format!("{} series{gaps}{lowest}{same}", night.points.len())
}

/// Where each series stands against the reference, in its present segment, and what is suspected of it.
pub fn levels(history: &History, watch: &Watch) -> String {
    let Some(last) = history.last_measured() else { return String::new() };
    let mut rows =
        vec![["subject", "scenario", "metric", "level", "95 % interval", "nights", ""].map(str::to_owned).to_vec()];
    for point in &last.points {
        let Some(view) = history.view(&point.series) else { continue };
        let Some(level) = view.level() else { continue };
        let series = &point.series;
        let learning = if level.is_learning() { format!("learning: fewer than {LEARNED}") } else { String::new() };
        rows.push(vec![
            series.subject.clone(),
            series.scenario.clone(),
            series.metric.clone(),
            shown(point.scale, level.mean),
            interval(point.scale, level),
            level.nights.to_string(),
            learning,
        ]);
    }
    let mut out = "\nLevels against the reference (positive is better)\n".to_owned();
    for row in table(&rows).lines() {
        // Writing to a string can't fail.
        let _ = writeln!(out, "  {row}");
    }
    let watched = history.watched(watch);
    let changes = history.changes(&watched);
    if !changes.is_empty() {
        out.push_str("\nChanges\n");
    }
    for change in changes {
        let _ = writeln!(out, "  {}: {}", change.name, change.said());
    }
    let said: Vec<String> = watched
        .iter()
        .flat_map(|own| {
            let name = format!("{} {} {}", own.series.subject, own.series.scenario, own.series.metric);
            own.said().into_iter().chain(own.accumulated()).map(move |said| format!("{name}: {said}"))
        })
        .collect();
    if !said.is_empty() {
        out.push_str("\nSuspected, and not confirmed yet (evidence is in parts of what is needed)\n");
    }
    for line in said {
        let _ = writeln!(out, "  {line}");
    }
    out
}

fn interval(scale: Scale, level: &Level) -> String {
    match (level.interval95.low, level.interval95.high) {
        (Some(low), Some(high)) => format!("{} to {}", shown(scale, low), shown(scale, high)),
        _ => "unknown".to_owned(),
    }
}

/// An effect in percent, or in points where it is a difference.
fn shown(scale: Scale, effect: f64) -> String {
    match scale {
        Scale::Log => format!("{:+.1} %", 100.0 * effect.exp_m1()),
        Scale::Linear => format!("{:+.1} points", 100.0 * effect),
    }
}
