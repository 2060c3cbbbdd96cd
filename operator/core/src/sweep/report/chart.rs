//! A series over its nights as a picture that is as wide as its place, with its words beside it: three nights or seven hundred.

use std::fmt::Write as _;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::{PointReport, SegmentReport, SeriesReport};
use crate::report::html::escape;
use crate::report::html::svg::{Axis, Svg};
use crate::report::number;
use crate::stats::Scale;
use crate::sweep::level::LEARNED;
use crate::sweep::point::Outcome;

/// The size on which the picture is drawn; its style says how high it is, its place how wide.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 160.0;
/// Room at the top for the halves of marks and labels, and at the bottom for nights without a value.
const TOP: f64 = 8.0;
const FLOOR: f64 = 148.0;
/// Points beyond which single intervals can't be told apart.
const DENSE: usize = 150;
/// The most labels below the picture for which a phone has room.
const DAYS: i64 = 5;
const MONTHS: i64 = 4;
const TIMES: i64 = 4;

/// The time that all charts of a page show.
#[derive(Clone, Copy)]
pub struct Time {
    first: Timestamp,
    last: Timestamp,
    /// Room on both sides, in seconds.
    room: f64,
}

impl Time {
    pub fn new(first: Timestamp, last: Timestamp) -> Self {
        const HALF_DAY: f64 = 43_200.0;
        let seconds = last.duration_since(first).as_secs_f64();
        let room = if seconds > 0.0 { (seconds * 0.015).max(HALF_DAY.min(seconds * 0.1)) } else { HALF_DAY };
        Self { first, last, room }
    }

    /// The share of the picture before this.
    fn share(&self, time: Timestamp) -> f64 {
        let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        (seconds(self.first, time) + self.room) / (seconds(self.first, self.last) + 2.0 * self.room)
    }

    fn at(&self, time: Timestamp) -> f64 {
        WIDTH * self.share(time)
    }

    fn days(&self) -> i64 {
        self.last.duration_since(self.first).as_hours() / 24
    }

    /// More nights than a small chart has room for.
    pub fn is_long(&self) -> bool {
        self.days() > 60
    }

    /// Where labels stand, and what they say: times within two days, days while there are few, else months.
    fn labels(&self) -> Vec<(f64, String)> {
        if self.first < self.last && self.days() < 2 {
            return self.times();
        }
        if let Some(step) = [1, 2, 3, 7, 14].into_iter().find(|step| self.days() / step < DAYS) {
            let times = (0..=self.days() / step).map(|n| self.first + SignedDuration::from_hours(24 * step * n));
            return times.map(|time| (self.share(time), date(time).strftime("%-d %b").to_string())).collect();
        }
        let month = |time: Timestamp| i64::from(date(time).year()) * 12 + i64::from(date(time).month()) - 1;
        // The month that has begun before the first night has its label outside.
        let (first, last) = (month(self.first) + 1, month(self.last));
        let steps = [1, 2, 3, 6, 12, 24, 60, 120];
        let step = steps.into_iter().find(|step| (last - first) / step < MONTHS).unwrap_or(1200);
        let round = (first..=last).filter(|month| month % step == 0);
        round.filter_map(|month| self.month(month)).collect()
    }

    /// Round times, the first of a day with its date.
    fn times(&self) -> Vec<(f64, String)> {
        let minutes = self.last.duration_since(self.first).as_secs() / 60;
        let step = 60 * [1, 5, 15, 30, 60, 180, 360].into_iter().find(|step| minutes / step < TIMES).unwrap_or(720);
        let (first, last) = (self.first.as_second(), self.last.as_second());
        let round = (first + step - 1).div_euclid(step)..=last.div_euclid(step);
        let times: Vec<Timestamp> = round.filter_map(|n| Timestamp::from_second(n * step).ok()).collect();
        let is_new_day = |place: usize| place == 0 || date(times[place - 1]) != date(times[place]);
        let label = |(place, time): (usize, &Timestamp)| {
            let format = if is_new_day(place) { "%-d %b %H:%M" } else { "%H:%M" };
            (self.share(*time), TimeZone::UTC.to_datetime(*time).strftime(format).to_string())
        };
        times.iter().enumerate().map(label).collect()
    }

    fn month(&self, month: i64) -> Option<(f64, String)> {
        let first = Date::new(i16::try_from(month / 12).ok()?, i8::try_from(month % 12 + 1).ok()?, 1).ok()?;
        let time = first.to_zoned(TimeZone::UTC).ok()?.timestamp();
        Some((self.share(time), first.strftime("%b %Y").to_string()))
    }
}

fn date(time: Timestamp) -> Date {
    TimeZone::UTC.to_datetime(time).date()
}

/// What is drawn of a point: across, and the heights of its value and of its interval.
struct Drawn<'a> {
    point: &'a PointReport,
    x: f64,
    y: f64,
    low: f64,
    high: f64,
}

/// A chart in markup: a picture with its labels. Effects before a bridge are shown against the present reference.
pub fn chart(series: &SeriesReport, time: Time) -> String {
    let shown = |effect: f64| number::shown(series.scale, effect);
    let y = axis(series);
    let at = |shown: f64| FLOOR - (FLOOR - TOP) * y.share(shown).clamp(0.0, 1.0);
    let height = |effect: f64| at(shown(effect));
    let title = format!("{} of {} in {} over the nights", series.metric, series.subject, series.scenario);
    let mut svg = Svg::stretched(WIDTH, HEIGHT, &title, &description(series));
    for tick in &y.ticks {
        svg.line("grid", (0.0, at(*tick)), (WIDTH, at(*tick)));
    }
    if (y.low..=y.high).contains(&0.0) {
        svg.line("zero", (0.0, height(0.0)), (WIDTH, height(0.0)));
    }
    for (index, segment) in series.segments.iter().enumerate() {
        let own = series.points.iter().filter(|point| point.segment == index);
        let shift = segment.shift().unwrap_or_default();
        let drawn: Vec<Drawn<'_>> = own
            .map(|point| {
                let end = |end: Option<f64>| height(end.unwrap_or(point.effect) + shift);
                let (low, high) = (end(point.interval95.low), end(point.interval95.high));
                Drawn { point, x: time.at(point.night), y: height(point.effect + shift), low, high }
            })
            .collect();
        // What can't be compared with the present nights steps back.
        let old = if segment.shift().is_none() { " old" } else { "" };
        intervals(&mut svg, old, &drawn, series.points.len() > DENSE);
        let vague = if segment.nights < LEARNED { " vague" } else { "" };
        for run in runs(series).filter(|run| run[0].segment == index) {
            let ends = ends(run, time);
            level(&mut svg, &format!("{vague}{old}"), segment, shift, ends, &height);
            if index + 1 == series.segments.len() {
                margins(&mut svg, series, segment, ends, &height);
            }
        }
        dots(&mut svg, old, &drawn, series.points.len() > DENSE);
    }
    // Between the last night before it and the first one.
    let before = |first: Timestamp| {
        let last = series.points.iter().rev().map(|point| point.night).find(|night| *night < first);
        let (first, last) = (time.at(first), last.map_or(0.0, |last| time.at(last)));
        first - 0.4 * (first - last)
    };
    for run in runs(series).skip(1) {
        let across = before(run[0].night);
        svg.line("segment", (across, TOP), (across, FLOOR));
    }
    let suspected = series.suspected.iter().map(|own| ("change", own.first));
    for (class, first) in series.confirmed.iter().map(|first| ("change sure", *first)).chain(suspected) {
        svg.line(class, (before(first), TOP), (before(first), FLOOR));
    }
    for (outcome, class, top) in [(Outcome::Skipped, "skipped", HEIGHT - 4.0), (Outcome::Gap, "gap", HEIGHT - 10.0)] {
        let own = series.gaps.iter().filter(|gap| gap.outcome == outcome);
        svg.strokes(class, own.map(|gap| (time.at(gap.night), top, HEIGHT)));
    }
    let mut out = "<div class=\"timeline\">\n<div class=\"y\" aria-hidden=\"true\">".to_owned();
    for tick in &y.ticks {
        let label = match series.scale {
            Scale::Log => y.signed_percent(*tick),
            Scale::Linear => y.label(*tick),
        };
        let top = 100.0 * at(*tick) / HEIGHT;
        let _ = write!(out, "<span style=\"top:{top:.1}%\">{}</span>", escape(&label));
    }
    let _ = write!(out, "</div>\n{}\n<div class=\"x\" aria-hidden=\"true\">", svg.finish());
    for (share, label) in time.labels() {
        let class = if share < 0.06 {
            " class=\"first\""
        } else if share > 0.94 {
            " class=\"last\""
        } else {
            ""
        };
        let _ = write!(out, "<span{class} style=\"left:{:.1}%\">{label}</span>", 100.0 * share);
    }
    out.push_str("</div>\n</div>");
    out
}

fn description(series: &SeriesReport) -> String {
    let gaps = series.gaps.iter().filter(|gap| gap.outcome == Outcome::Gap).count();
    format!("{} points, {gaps} gaps, {} segments.", series.points.len(), series.segments.len())
}

/// An axis over all values, the level with its margin, and no effect, where that is near.
fn axis(series: &SeriesReport) -> Axis {
    let shift = |segment: usize| series.segments.get(segment).and_then(SegmentReport::shift).unwrap_or_default();
    let mut values: Vec<f64> = series.points.iter().map(|point| point.effect + shift(point.segment)).collect();
    let mut ends: Vec<f64> = Vec::new();
    for point in &series.points {
        let limits = [point.interval95.low, point.interval95.high];
        ends.extend(limits.into_iter().flatten().map(|end| end + shift(point.segment)));
    }
    // One night of few blocks must not make all others flat: beyond the picture its interval is cut.
    ends.sort_by(f64::total_cmp);
    let cut = ends.len() / 50;
    values.extend(ends.get(cut..ends.len() - cut).unwrap_or_default());
    if let (Some(level), Some(margin)) = (series.level, series.effect_margin()) {
        values.extend([level.effect - 1.1 * margin, level.effect + 1.1 * margin]);
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if (low - (high - low)..=high + (high - low)).contains(&0.0) {
        values.push(0.0);
    }
    let shown: Vec<f64> = values.into_iter().map(|value| number::shown(series.scale, value)).collect();
    let (low, high) = shown.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let room = 0.04 * (high - low);
    Axis::over(shown.iter().copied(), 5).cut(low - room, high + room)
}

/// The 95 % interval of each night; of many, what they cover together.
fn intervals(svg: &mut Svg, old: &str, drawn: &[Drawn<'_>], dense: bool) {
    if !dense {
        svg.strokes(&format!("night{old}"), drawn.iter().map(|own| (own.x, own.low, own.high)));
        return;
    }
    let (Some(first), Some(last)) = (drawn.first(), drawn.last()) else { return };
    let usual = (last.x - first.x) / drawn.len() as f64;
    // A band across a long gap would show what nobody measured.
    for part in drawn.chunk_by(|a, b| b.x - a.x < 4.0 * usual) {
        let ends: Vec<(f64, f64, f64)> = part.iter().map(|own| (own.x, own.low, own.high)).collect();
        svg.between(&format!("nights{old}"), &ends);
    }
}

/// A dot for each night, a ring if nothing had changed.
fn dots(svg: &mut Svg, old: &str, drawn: &[Drawn<'_>], dense: bool) {
    let small = if dense { " small" } else { "" };
    svg.dots(&format!("value{small}{old}"), drawn.iter().map(|own| (own.x, own.y)));
    let unchanged = drawn.iter().filter(|own| own.point.unchanged);
    svg.dots(&format!("hole{small}"), unchanged.map(|own| (own.x, own.y)));
}

/// Nights in a row of one segment, which another one may have interrupted.
fn runs(series: &SeriesReport) -> impl Iterator<Item = &[PointReport]> {
    series.points.chunk_by(|a, b| a.segment == b.segment)
}

fn level(
    svg: &mut Svg,
    old: &str,
    segment: &SegmentReport,
    shift: f64,
    (from, to): (f64, f64),
    height: &impl Fn(f64) -> f64,
) {
    let (low, high) = (segment.level.interval95.low, segment.level.interval95.high);
    // The interval of a few nights would cover them all, and says nothing that they don't.
    if let (Some(low), Some(high), true) = (low, high, segment.nights >= LEARNED) {
        let (low, high) = (height(low + shift), height(high + shift));
        svg.between(&format!("sure{old}"), &[(from, low, high), (to, low, high)]);
    }
    let at = height(segment.level.effect + shift);
    svg.line(&format!("mean{old}"), (from, at), (to, at));
}

fn margins(
    svg: &mut Svg,
    series: &SeriesReport,
    segment: &SegmentReport,
    (from, to): (f64, f64),
    height: &impl Fn(f64) -> f64,
) {
    let Some(margin) = series.effect_margin() else { return };
    for side in [-margin, margin] {
        let at = height(segment.level.effect + side);
        svg.line("margin", (from, at), (to, at));
    }
}

/// A level is drawn a bit longer than its nights are, so that one of a single night can be seen.
fn ends(run: &[PointReport], time: Time) -> (f64, f64) {
    let room = WIDTH * 0.008;
    let at = |point: Option<&PointReport>| point.map_or(0.0, |point| time.at(point.night));
    (at(run.first()) - room, at(run.last()) + room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(nights: &[&str]) -> Vec<String> {
        let times: Vec<Timestamp> = nights.iter().map(|night| format!("2026-11-{night}Z").parse().unwrap()).collect();
        let time = Time::new(times[0], *times.last().unwrap());
        let shares: Vec<f64> = times.iter().map(|night| time.share(*night)).collect();
        assert!(shares[0] > 0.0 && shares.is_sorted() && shares[shares.len() - 1] < 1.0, "{shares:?}");
        // Nights are as far apart as there is room.
        assert!(shares[shares.len() - 1] - shares[0] > 0.6, "{shares:?}");
        time.labels().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn labels_tell_nights_apart() {
        assert_eq!(labels(&["26T05:37", "26T05:47", "26T06:06"]), ["26 Nov 05:45", "06:00"]);
        assert_eq!(labels(&["25T20:10", "26T03:30"]), ["25 Nov 21:00", "26 Nov 00:00", "03:00"]);
        assert_eq!(labels(&["25T01:17", "26T01:17", "27T01:17"]), ["25 Nov", "26 Nov", "27 Nov"]);
    }
}
