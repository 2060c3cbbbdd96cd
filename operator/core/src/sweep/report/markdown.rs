//! The report as Markdown.

use std::fmt::Write as _;

use super::SweepReport;
use super::words::{
    SUSPECTED, effect, has_segments, interval, lead, lone, margin, minute, nights, outcome, span, start, state,
    suspected, unknown,
};
use crate::report::markdown::{code, escape, folded};
use crate::report::number;

/// The report as Markdown, which forges render.
pub fn markdown(report: &SweepReport) -> String {
    let mut out = format!("# {}\n\n{}: {}.\n\n", escape(&report.sweep), escape(&lead(report)), nights(report));
    if report.series.is_empty() {
        out.push_str("No night was measured yet.\n\n");
    } else {
        out.push_str(&summary(report));
        out.push('\n');
    }
    if !report.changes.is_empty() {
        out.push_str("**Changes**\n\n");
        for change in report.changes.iter().rev() {
            let _ = writeln!(out, "- {}: {}", code(&change.name), escape(&change.message));
        }
        out.push('\n');
    }
    if suspected(report).next().is_some() {
        let _ = writeln!(out, "**Suspected changes.** {SUSPECTED}\n");
        for (series, said) in suspected(report) {
            let name = [&series.subject, &series.scenario, &series.metric].map(|name| code(name)).join(" ");
            let _ = writeln!(out, "- {name}: {}", escape(said));
        }
        out.push('\n');
    }
    if has_segments(report) {
        folded(&mut out, "Segments and bridges", &segments(report));
    }
    if !report.not_measured.is_empty() {
        folded(&mut out, "Nights without a measurement", &not_measured(report));
    }
    if !lone(report).is_empty() {
        folded(&mut out, "Series without a value in a measured night", &lone_gaps(report));
    }
    let _ = writeln!(out, "<sub>{}, report version {}</sub>", report.produced_by, report.version);
    out
}

fn summary(report: &SweepReport) -> String {
    let mut out =
        "| subject | scenario | metric | state | level | 95 % interval | margin | last night | measured | nights |\n\
                   |---|---|---|---|--:|--:|--:|--:|---|--:|\n"
            .to_owned();
    for series in &report.series {
        let last = series.last_point();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            code(&series.subject),
            code(&series.scenario),
            code(&series.metric),
            state(series),
            effect(series.scale, series.level.as_ref()),
            series.level.map_or(unknown(), |level| interval(series.scale, level.interval95)),
            margin(series),
            last.map_or(unknown(), |point| number::effect(series.scale, point.effect)),
            last.map_or(unknown(), |point| minute(point.night)),
            series.nights_measured
        );
    }
    out.push_str(
        "\nPositive is better. A level is the mean of the nights since the last change of reference or set-up.\n",
    );
    out
}

fn segments(report: &SweepReport) -> String {
    let mut out = "| series | nights | number | reference | level | against the present reference | starts with |\n\
                   |---|---|--:|---|--:|--:|---|\n"
        .to_owned();
    for series in report.series.iter().filter(|series| series.segments.len() > 1) {
        for segment in &series.segments {
            let _ = writeln!(
                out,
                "| {} {} {} | {} | {} | {} | {} | {} | {} |",
                code(&series.subject),
                code(&series.scenario),
                code(&series.metric),
                span(segment.first, segment.last),
                segment.nights,
                code(&segment.reference),
                effect(series.scale, Some(&segment.level)),
                effect(series.scale, segment.chained.as_ref()),
                start(series.scale, segment)
            );
        }
    }
    out
}

fn not_measured(report: &SweepReport) -> String {
    let mut out = "| nights | number | outcome | reason | message of the last |\n|---|--:|---|---|---|\n".to_owned();
    for row in report.not_measured.iter().rev() {
        let message = escape(row.message.as_deref().unwrap_or_default());
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {message} |",
            span(row.first, row.last),
            row.nights,
            outcome(row.outcome),
            escape(&row.reason)
        );
    }
    out
}

fn lone_gaps(report: &SweepReport) -> String {
    let mut out = "| series | reason | number | nights |\n|---|---|--:|---|\n".to_owned();
    for lone in lone(report) {
        let series = lone.series;
        let _ = writeln!(
            out,
            "| {} {} {} | {} | {} | {} |",
            code(&series.subject),
            code(&series.scenario),
            code(&series.metric),
            escape(lone.reason),
            lone.nights,
            span(lone.first, lone.last)
        );
    }
    out
}
