//! What pages and Markdown say alike.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{LevelReport, SegmentReport, SeriesReport, State, SweepReport};
use crate::report::html::plural;
use crate::report::number;
use crate::stats::{Interval, Scale};
use crate::sweep::level::LEARNED;
use crate::sweep::point::Outcome;
use crate::sweep::series::BRIDGE_NIGHTS;

fn day(time: Timestamp) -> String {
    TimeZone::UTC.to_datetime(time).strftime("%Y-%m-%d").to_string()
}

pub fn minute(time: Timestamp) -> String {
    TimeZone::UTC.to_datetime(time).strftime("%Y-%m-%d %H:%M").to_string()
}

pub fn span(first: Timestamp, last: Timestamp) -> String {
    let (first, last) = (day(first), day(last));
    if first == last { first } else { format!("{first} to {last}") }
}

/// What the sweep is about, in a sentence without its end.
pub fn lead(report: &SweepReport) -> String {
    let count = |of: fn(&SeriesReport) -> &String| {
        let mut names: Vec<&String> = report.series.iter().map(of).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    let against = report.reference.as_ref().map_or(String::new(), |reference| format!(" against {}", reference.name));
    format!(
        "{}{against} in {}, {}",
        plural(count(|series| &series.subject), "subject"),
        plural(count(|series| &series.scenario), "scenario"),
        format_args!("{} series", report.series.len())
    )
}

pub fn nights(report: &SweepReport) -> String {
    let counts = report.nights;
    let span = match (report.first, report.last) {
        (Some(first), Some(last)) => format!(", {}", span(first, last)),
        _ => String::new(),
    };
    let (measured, skipped) = (plural(counts.measured, "night"), counts.skipped);
    format!("{measured} measured, {skipped} skipped, {}{span}", plural(counts.gaps, "gap"))
}

pub fn state(series: &SeriesReport) -> String {
    match series.state {
        State::Unmeasured => "Unmeasured".to_owned(),
        State::Learning => format!("Learning, {} of {LEARNED} nights", series.nights_of_level),
        State::Known if series.suspected.is_some() => "Known, change suspected".to_owned(),
        State::Known => "Known".to_owned(),
        State::Ended => "Ended".to_owned(),
    }
}

pub fn effect(scale: Scale, level: Option<&LevelReport>) -> String {
    level.map_or(unknown(), |level| number::effect(scale, level.effect))
}

pub fn interval(scale: Scale, interval: Interval) -> String {
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => {
            let (low, high) = (number::effect(scale, low), number::effect(scale, high));
            format!("{} to {high}", low.trim_end_matches(" %"))
        }
        _ => unknown(),
    }
}

/// An image with as much of its digest as tells it from others.
pub fn image(image: &str) -> String {
    match image.split_once("@sha256:") {
        Some((repository, digest)) => format!("{repository}@sha256:{}", digest.chars().take(12).collect::<String>()),
        None => image.to_owned(),
    }
}

pub fn margin(series: &SeriesReport) -> String {
    series.margin.map_or(unknown(), |margin| number::margin(series.scale, margin))
}

pub fn unknown() -> String {
    "–".to_owned()
}

/// Why a segment starts, and how it is bridged.
pub fn start(scale: Scale, segment: &SegmentReport) -> String {
    let again = segment.resumed.map_or(String::new(), |night| format!("; again since {}", minute(night)));
    if segment.changed.is_empty() {
        return format!("first night{again}");
    }
    let changed = format!("new {}{again}", segment.changed.join(", "));
    let bridge = match &segment.bridge {
        Some(bridge) => {
            let (effect, interval) = (number::effect(scale, bridge.effect), interval(scale, bridge.interval95));
            let nights = plural(segment.bridge_nights, "night");
            format!("bridge of {nights}: old reference {effect} against the new one ({interval})")
        }
        None if segment.crossed.is_empty() => return changed,
        None if segment.crossed != ["reference"] => "no bridge: levels before it are not comparable".to_owned(),
        None => format!("bridge has {} of {BRIDGE_NIGHTS} nights with both references", segment.bridge_nights),
    };
    format!("{changed}; {bridge}")
}

/// What is suspected, and what has added up, by series.
pub fn suspected(report: &SweepReport) -> impl Iterator<Item = (&SeriesReport, &str)> {
    report.series.iter().flat_map(|series| {
        let said = [series.suspected.as_ref().map(|own| &own.message), series.accumulated.as_ref()];
        said.into_iter().flatten().map(move |said| (series, said.as_str()))
    })
}

pub const SUSPECTED: &str =
    "Nothing has confirmed these changes. Evidence is in parts of what is needed to suspect one.";

/// Whether some series has more than one segment.
pub fn has_segments(report: &SweepReport) -> bool {
    report.series.iter().any(|series| series.segments.len() > 1)
}

pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Measured => "Measured",
        Outcome::Skipped => "Skipped",
        Outcome::Gap => "Gap",
        Outcome::Visited => "Confirmation",
        Outcome::Accepted => "Accepted",
    }
}

/// Gaps of single series in nights that were measured: how many of each reason, and when.
pub struct Lone<'a> {
    pub series: &'a SeriesReport,
    pub reason: &'a str,
    pub nights: usize,
    pub first: Timestamp,
    pub last: Timestamp,
}

pub fn lone(report: &SweepReport) -> Vec<Lone<'_>> {
    let mut all: Vec<Lone<'_>> = Vec::new();
    for series in &report.series {
        let start = all.len();
        for gap in series.gaps.iter().filter(|gap| gap.alone) {
            match all[start..].iter_mut().find(|lone| lone.reason == gap.reason) {
                Some(lone) => (lone.nights, lone.last) = (lone.nights + 1, gap.night),
                None => {
                    all.push(Lone { series, reason: &gap.reason, nights: 1, first: gap.night, last: gap.night });
                }
            }
        }
    }
    all
}
