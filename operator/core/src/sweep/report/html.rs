//! The report as one page, of the same parts as that of an experiment.

use std::fmt::Write as _;

use super::chart::{Time, chart};
use super::words::{
    SUSPECTED, effect, has_segments, image, interval, lead, lone, margin, minute, nights, outcome, span, start, state,
    suspected, unknown,
};
use super::{SeriesReport, State, SweepReport};
use crate::report::html::svg::Svg;
use crate::report::html::{Table, escape, folded, page, plural, section};
use crate::report::number;

/// Charts, and rows of a table, up to which all are shown without being asked for.
const OPEN_CHARTS: usize = 24;
const OPEN_ROWS: usize = 30;

/// The report as a page that needs nothing else.
pub fn html(report: &SweepReport) -> String {
    let mut out = String::new();
    section(&mut out, "summary", "Summary", &summary(report));
    if !report.changes.is_empty() {
        section(&mut out, "changes", "Changes", &confirmed(report));
    }
    if suspected(report).next().is_some() {
        section(&mut out, "suspected", "Suspected changes", &changes(report));
    }
    if !report.series.is_empty() {
        section(&mut out, "series", "Night by night", &series(report));
    }
    if has_segments(report) {
        section(&mut out, "segments", "Segments and bridges", &segments(report));
    }
    if !report.not_measured.is_empty() || !lone(report).is_empty() {
        section(&mut out, "gaps", "What was not measured", &gaps(report));
    }
    let footer = format!("{}, report version {}.", escape(&report.produced_by), report.version);
    page(&report.sweep, "summary", &header(report), &out, &footer)
}

fn header(report: &SweepReport) -> String {
    format!(
        "<p class=\"kicker\">Nightly sweep</p>\n<h1>{}</h1>\n<p class=\"lead\">{}: {}.</p>\n",
        escape(&report.sweep),
        escape(&lead(report)),
        nights(report)
    )
}

fn summary(report: &SweepReport) -> String {
    if report.series.is_empty() {
        return "<p class=\"empty\">No night was measured yet. The first gives each series a value against the reference, \
                and five make a level to rely on.</p>\n"
            .to_owned();
    }
    let mut out = String::new();
    if let Some(last) = report.last_measured {
        let reference = report.reference.as_ref().map_or(String::new(), |own| {
            let image = own.image.as_deref().map(|own| format!(" (<code>{}</code>)", escape(&image(own))));
            format!(" The reference is <code>{}</code>{}.", escape(&own.name), image.unwrap_or_default())
        });
        let _ = writeln!(out, "<p>The last night that was measured is {} UTC.{reference}</p>", minute(last));
    }
    let columns = [
        "subject",
        "scenario",
        "metric",
        "state",
        "#level",
        "#95 % interval",
        "#margin",
        "#last night",
        "#measured",
        "#nights",
    ];
    let mut table = Table::new("Each series against the reference; positive is better", &columns);
    for series in &report.series {
        let last = series.last_point();
        table.row(&[
            escape(&series.subject),
            escape(&series.scenario),
            escape(&series.metric),
            state_cell(series),
            format!("#{}", effect(series.scale, series.level.as_ref())),
            format!("#{}", series.level.map_or(unknown(), |level| interval(series.scale, level.interval95))),
            format!("#{}", margin(series)),
            format!("#{}", last.map_or(unknown(), |point| number::effect(series.scale, point.effect))),
            format!("#{}", last.map_or(unknown(), |point| minute(point.night))),
            format!("#{}", series.nights_measured),
        ]);
    }
    out.push_str(&table.finish());
    out
}

/// What confirmations say, the latest first.
fn confirmed(report: &SweepReport) -> String {
    let mut out = "<ul>\n".to_owned();
    for change in report.changes.iter().rev() {
        let _ = writeln!(out, "<li><strong>{}</strong>: {}</li>", escape(&change.name), escape(&change.message));
    }
    out.push_str("</ul>\n");
    out
}

fn changes(report: &SweepReport) -> String {
    let mut out = format!("<p class=\"how\">{SUSPECTED}</p>\n<ul>\n");
    for (series, said) in suspected(report) {
        let _ = writeln!(out, "<li><strong>{}</strong>: {}</li>", escape(&name(series)), escape(said));
    }
    out.push_str("</ul>\n");
    out
}

fn state_cell(series: &SeriesReport) -> String {
    let class = match series.state {
        State::Known if series.suspected.is_some() => "state noted",
        State::Known => "state passed",
        State::Learning => "state noted",
        State::Unmeasured => "state unchecked",
        State::Ended => "state",
    };
    format!("<span class=\"{class}\">{}</span>", state(series))
}

/// The charts, by subject and scenario.
fn series(report: &SweepReport) -> String {
    let mut out = "<p class=\"how\">Each dot is a night: the subject against the reference in the same blocks, with its \
                   95 % interval. Up is better, for latencies too. A ring is a night in which the subject had not \
                   changed. The level is the mean of the nights since the last change of reference or set-up, in a band \
                   of its own 95 % interval; the margin around it is the smallest change that matters. Nights before a \
                   bridge are shown against the present reference; faded ones can't be compared with it.</p>\n"
        .to_owned();
    out.push_str(&legend());
    let mut drawn = 0;
    for group in report.series.chunk_by(|a, b| (&a.subject, &a.scenario) == (&b.subject, &b.scenario)) {
        let name = format!("{} in {}", group[0].subject, group[0].scenario);
        // One time for all of a group, so that they can be compared.
        let nights = || group.iter().flat_map(SeriesReport::nights);
        let (Some(first), Some(last)) = (nights().min(), nights().max()) else { continue };
        let time = Time::new(first, last);
        let wide = if time.is_long() { " wide" } else { "" };
        let mut body = format!("<div class=\"charts{wide}\">\n");
        for series in group {
            let _ = writeln!(
                body,
                "<figure><figcaption>{}</figcaption>{}</figure>",
                caption(series),
                drawing(series, time)
            );
        }
        body.push_str("</div>\n");
        if drawn < OPEN_CHARTS && group[0].state != State::Ended {
            let _ = write!(out, "<h3>{}</h3>\n{body}", escape(&name));
        } else {
            out.push_str(&folded(&name, &body));
        }
        drawn += group.len();
    }
    out
}

fn drawing(series: &SeriesReport, time: Time) -> String {
    if series.points.is_empty() {
        return "<p class=\"empty\">No night has a value of it.</p>".to_owned();
    }
    chart(series, time)
}

fn caption(series: &SeriesReport) -> String {
    let level = match &series.level {
        Some(level) => {
            let of = if series.state == State::Learning { "learning" } else { "level" };
            let interval = interval(series.scale, level.interval95);
            format!(" <small>{of} {} ({interval})</small>", effect(series.scale, Some(level)))
        }
        None => String::new(),
    };
    format!("<strong>{}</strong>{level}", escape(&series.metric))
}

/// What the marks stand for, as they are drawn.
fn legend() -> String {
    let mut out = "<p class=\"legend\">".to_owned();
    let mut entry = |name: &str, draw: &dyn Fn(&mut Svg)| {
        let mut svg = Svg::sized(28.0, 12.0, name, "");
        draw(&mut svg);
        let _ = write!(out, "<span>{} {name}</span> ", svg.finish());
    };
    entry("night", &|svg| {
        svg.strokes("night", [(14.0, 0.0, 12.0)].into_iter());
        svg.dots("value", [(14.0, 6.0)].into_iter());
    });
    entry("unchanged", &|svg| {
        svg.dots("value", [(14.0, 6.0)].into_iter());
        svg.dots("hole", [(14.0, 6.0)].into_iter());
    });
    entry("level", &|svg| {
        svg.between("sure", &[(0.0, 9.0, 3.0), (28.0, 9.0, 3.0)]);
        svg.line("mean", (0.0, 6.0), (28.0, 6.0));
    });
    entry("margin", &|svg| svg.line("margin", (0.0, 6.0), (28.0, 6.0)));
    entry("new segment", &|svg| svg.line("segment", (14.0, 0.0), (14.0, 12.0)));
    entry("suspected change", &|svg| svg.line("change", (14.0, 0.0), (14.0, 12.0)));
    entry("confirmed change", &|svg| svg.line("change sure", (14.0, 0.0), (14.0, 12.0)));
    entry("gap", &|svg| svg.strokes("gap", [(14.0, 2.0, 12.0)].into_iter()));
    entry("skipped", &|svg| svg.strokes("skipped", [(14.0, 8.0, 12.0)].into_iter()));
    out.push_str("</p>\n");
    out
}

fn segments(report: &SweepReport) -> String {
    let mut out = "<p class=\"how\">A new reference, machine, protocol or workload starts a new segment, because ratios \
                   across it compare something else. A bridge carries levels over to a new reference: nights in which the \
                   old one ran beside it.</p>\n"
        .to_owned();
    let columns =
        ["series", "#nights", "#measured", "reference", "#level", "#against the present reference", "starts with"];
    let mut table = Table::new("Segments of series that have more than one", &columns);
    let mut rows = 0;
    for series in report.series.iter().filter(|series| series.segments.len() > 1) {
        for segment in &series.segments {
            let chained = segment.chained.map_or(unknown(), |level| {
                format!("{} ({})", effect(series.scale, Some(&level)), interval(series.scale, level.interval95))
            });
            table.row(&[
                escape(&name(series)),
                format!("#{}", span(segment.first, segment.last)),
                format!("#{}", segment.nights),
                format!("<code>{}</code>", escape(&segment.reference)),
                format!("#{}", effect(series.scale, Some(&segment.level))),
                format!("#{chained}"),
                start(series.scale, segment),
            ]);
            rows += 1;
        }
    }
    out.push_str(&open(rows, table));
    out
}

fn name(series: &SeriesReport) -> String {
    format!("{}, {}, {}", series.subject, series.scenario, series.metric)
}

/// A long table folded away.
fn open(rows: usize, table: Table) -> String {
    if rows <= OPEN_ROWS { table.finish() } else { folded(&plural(rows, "row"), &table.finish()) }
}

fn gaps(report: &SweepReport) -> String {
    let mut out = String::new();
    if !report.not_measured.is_empty() {
        let columns = ["#nights", "#number", "outcome", "reason", "message of the last"];
        let mut table = Table::new("Nights without a measurement, the newest first", &columns);
        for row in report.not_measured.iter().rev() {
            table.row(&[
                format!("#{}", span(row.first, row.last)),
                format!("#{}", row.nights),
                outcome(row.outcome).to_owned(),
                escape(&row.reason),
                escape(row.message.as_deref().unwrap_or_default()),
            ]);
        }
        out.push_str(&open(report.not_measured.len(), table));
    }
    let lone = lone(report);
    if !lone.is_empty() {
        let columns = ["series", "reason", "#number", "#nights"];
        let mut table = Table::new("Series without a value in nights that were measured", &columns);
        for lone in &lone {
            table.row(&[
                escape(&name(lone.series)),
                escape(lone.reason),
                format!("#{}", lone.nights),
                format!("#{}", span(lone.first, lone.last)),
            ]);
        }
        out.push_str(&open(lone.len(), table));
    }
    out
}
