//! Nights and levels as rows.

use std::fmt::Write as _;

use assay_api::TuningSweepSpec;
use assay_core::stats::Scale;
use assay_core::sweep::detect::Watch;
use assay_core::sweep::{History, LEARNED, Level, Moved, Night, Outcome};
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
    let moved = history.moved();
    let mut before = None;
    let rows = history.nights().map(|night| {
        let said = said(night, before, moved.get(&night.night));
        if night.outcome == Outcome::Measured {
            before = Some(night);
        }
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
            said,
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    table(&rows) + &levels(history, watch)
}

/// What a night says, or why it says nothing.
fn said(night: &Night, before: Option<&Night>, moved: Option<&Moved<'_>>) -> String {
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
    night.summary(before, moved)
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
    let segments = history.segments_told();
    if !segments.is_empty() {
        out.push_str("\nSegments\n");
    }
    for (said, count) in segments {
        let _ = writeln!(out, "  {count} series: {said}");
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
            let name = own.name();
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_night_against_another_reference_is_no_repetition() {
        let night = |day: u32, reference: &str| -> Value {
            json!({"version": 1, "sweep": "nightly", "night": format!("2026-11-{day}T01:17:00Z"), "trigger": "Schedule",
                "outcome": "Measured", "key": "0".repeat(32),
                "fingerprint": {"machine": "m", "protocol": 1, "workloads": {"fill": "0".repeat(32)}},
                "reference": {"name": "release", "image": reference, "config": "0".repeat(32)},
                "subjects": [{"name": "main", "config": "1".repeat(32), "unchanged": true}],
                "points": [{"subject": "main", "scenario": "fill", "metric": "throughput", "logRatio": 0.01,
                    "standardError": 0.01, "blocks": 8}]})
        };
        let lines = [night(20, "r@one"), night(21, "r@one"), night(22, "r@two"), night(23, "r@two")];
        let mut history = History::new("nightly");
        history.import(&lines.map(|line| line.to_string() + "\n").concat()).unwrap();
        let text = text(&history, &Watch::default());
        let same: Vec<bool> =
            text.lines().skip(1).take(4).map(|line| line.ends_with(", same programs and options")).collect();
        assert_eq!(same, [false, true, false, true], "{text}");
    }
}
