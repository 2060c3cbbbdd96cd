//! A sweep over its nights, as data and as text. Everything here follows from the history and the margins: the same nights give the same
//! bytes.

mod chart;
mod html;
mod markdown;
mod words;

use jiff::Timestamp;
use serde::Serialize;

pub use html::html;
pub use markdown::markdown;

use super::confirm::{Answered, Change, Stage};
use super::detect::{Cause, Decision, Suspicion, Watch, Watched};
use super::history::History;
use super::level::{LEARNED, Level};
use super::point::{Night, Outcome, Reference, Series};
use super::series::{Seen, Segment, SeriesView};
use crate::PRODUCED_BY;
use crate::stats::{Interval, Scale};
use crate::verdict::Verdict;

/// The version of these reports.
const VERSION: u32 = 1;

/// What a sweep remembers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
    pub version: u32,
    /// The program that wrote it, with its version.
    pub produced_by: String,
    pub sweep: String,
    /// Of the last measured night.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    pub nights: NightCounts,
    /// The first and the last night, measured or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_measured: Option<Timestamp>,
    /// What confirmations are or were about, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeReport>,
    /// In order of subject, scenario and metric; those that have ended are the last.
    pub series: Vec<SeriesReport>,
    /// Nights without a measurement, those of one reason in a row together.
    pub not_measured: Vec<NotMeasured>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NightCounts {
    pub measured: usize,
    pub skipped: usize,
    pub gaps: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeriesReport {
    pub subject: String,
    pub scenario: String,
    pub metric: String,
    pub state: State,
    pub scale: Scale,
    /// Smallest change that matters: a ratio (0.05 = 5 %) on a log scale, a difference on a linear one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// The present level against the present reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelReport>,
    /// How much speaks for a change, in parts of what is needed to suspect one. Absent if it is beyond all numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<f64>,
    /// The first nights after changes that were confirmed, most likely.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<Timestamp>,
    /// A change that is suspected, and that nothing has confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspected: Option<SuspectedReport>,
    /// What small changes have added up to, in words, if that is more than the margin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulated: Option<String>,
    /// Measured nights of the present segment, and of all.
    pub nights_of_level: usize,
    pub nights_measured: usize,
    pub segments: Vec<SegmentReport>,
    pub points: Vec<PointReport>,
    pub gaps: Vec<GapReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// No night has a value of it.
    Unmeasured,
    /// Its segment has too few nights for a level to rely on.
    Learning,
    /// Its level is known.
    Known,
    /// The last measured night did not have it any more.
    Ended,
}

/// A change that was suspected, and what its confirmation says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeReport {
    pub name: String,
    pub subject: String,
    pub stage: Stage,
    /// The night that raised the suspicion, the last one before the change, and the one whose subject has it.
    pub raised: Timestamp,
    pub good: Timestamp,
    pub bad: Timestamp,
    pub visits: usize,
    pub series: Vec<ChangedSeries>,
    /// In a sentence.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedSeries {
    pub scenario: String,
    pub metric: String,
    /// The first night after the change, most likely.
    pub first: Timestamp,
    /// Absent while visits are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// By the fresh trials, as an effect: positive is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    pub blocks: usize,
}

impl From<&Change> for ChangeReport {
    fn from(change: &Change) -> Self {
        let of = |(own, _): &(Answered, Scale)| ChangedSeries {
            scenario: own.asked.scenario.clone(),
            metric: own.asked.metric.clone(),
            first: own.asked.first,
            decision: own.decision,
            shift: own.shift,
            blocks: own.blocks,
        };
        Self {
            name: change.name.clone(),
            subject: change.subject.clone(),
            stage: change.stage,
            raised: change.raised,
            good: change.good,
            bad: change.bad,
            visits: change.visits,
            series: change.series.iter().map(of).collect(),
            message: change.said(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SuspectedReport {
    /// The first night after the change, most likely.
    pub first: Timestamp,
    /// Nights that have the first one with 90 % probability; empty if the subject had changed in none of them.
    pub nights: Vec<Timestamp>,
    /// The night since which the evidence has been enough.
    pub raised: Timestamp,
    /// As an effect: positive is better.
    pub shift: f64,
    pub cause: Cause,
    /// Nights before and after it are all equal, so nothing shows by how much chance moves them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_constant: bool,
    /// In a sentence.
    pub message: String,
}

impl SuspectedReport {
    fn of(watched: &Watched<'_>) -> Option<Self> {
        let Suspicion { raised, first, nights, shift, cause, is_constant } = watched.suspicion.clone()?;
        Some(Self { first, nights, raised, shift, cause, is_constant, message: watched.said()? })
    }
}

/// An effect on the scale of its series, positive being better: a log ratio, or a difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LevelReport {
    pub effect: f64,
    pub standard_error: f64,
    pub interval95: Interval,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentReport {
    pub first: Timestamp,
    pub last: Timestamp,
    pub nights: usize,
    /// Name of its reference.
    pub reference: String,
    /// Against its own reference.
    pub level: LevelReport,
    /// How far the true effects of its nights scatter: a standard deviation.
    pub between_nights: f64,
    /// What was new in its first night.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<&'static str>,
    /// The night with which it went on after those of another segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Timestamp>,
    /// What differs from the segment before it.
    #[serde(skip)]
    crossed: Vec<&'static str>,
    /// Nights in which the old reference ran beside the new one.
    pub bridge_nights: usize,
    /// The old reference against the new one, once the bridge is long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge: Option<LevelReport>,
    /// Against the present reference, over all bridges; absent where one is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chained: Option<LevelReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PointReport {
    pub night: Timestamp,
    /// Which segment it belongs to, counted from 0.
    pub segment: usize,
    /// Against the reference of its night.
    pub effect: f64,
    pub interval95: Interval,
    pub blocks: u32,
    /// The subject was the same as in the last measured night.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GapReport {
    pub night: Timestamp,
    pub outcome: Outcome,
    pub reason: String,
    /// The night was measured, and only this series has no value.
    pub alone: bool,
}

/// Nights in a row that were not measured for the same reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotMeasured {
    pub first: Timestamp,
    pub last: Timestamp,
    pub nights: usize,
    pub outcome: Outcome,
    pub reason: String,
    /// Of the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl SweepReport {
    /// The report of a history, with what its sweep watches for.
    pub fn new(history: &History, watch: &Watch) -> Self {
        let mut nights = NightCounts::default();
        let of_series = || history.nights().filter(|night| night.is_of_series());
        for night in of_series() {
            match night.outcome {
                Outcome::Measured => nights.measured += 1,
                Outcome::Skipped => nights.skipped += 1,
                Outcome::Gap => nights.gaps += 1,
                Outcome::Visited | Outcome::Accepted => {}
            }
        }
        let last = history.last_measured();
        let views = history.series().filter_map(|series| history.view(series));
        let watched = history.watched(watch);
        let changes: Vec<ChangeReport> = history.changes(&watched).iter().map(Into::into).collect();
        let of = |view: SeriesView<'_>| {
            let watched = watched.iter().find(|watched| watched.series == view.series);
            let confirmed = confirmed(&changes, view.series);
            SeriesReport { confirmed, ..SeriesReport::of(&view, last, watch, watched) }
        };
        let mut series: Vec<SeriesReport> = views.map(of).collect();
        series.sort_by_key(|series| series.state == State::Ended);
        Self {
            version: VERSION,
            produced_by: PRODUCED_BY.to_owned(),
            sweep: history.sweep().to_owned(),
            reference: last.and_then(|night| night.reference.clone()),
            nights,
            first: of_series().next().map(|night| night.night),
            last: of_series().next_back().map(|night| night.night),
            last_measured: last.map(|night| night.night),
            changes,
            series,
            not_measured: not_measured(history),
        }
    }
}

/// The first nights after the confirmed changes of a series.
fn confirmed(changes: &[ChangeReport], series: &Series) -> Vec<Timestamp> {
    let own = changes.iter().filter(|change| change.subject == series.subject).flat_map(|change| &change.series);
    let own = own.filter(|own| own.scenario == series.scenario && own.metric == series.metric);
    own.filter(|own| own.decision == Some(Decision::Confirmed)).map(|own| own.first).collect()
}

fn not_measured(history: &History) -> Vec<NotMeasured> {
    let mut rows: Vec<NotMeasured> = Vec::new();
    let mut is_in_row = false;
    for night in history.nights().filter(|night| night.is_of_series()) {
        let (time, outcome, message) = (night.night, night.outcome, night.message.clone());
        if outcome == Outcome::Measured {
            is_in_row = false;
            continue;
        }
        let reason = night.reason.clone().unwrap_or_default();
        match rows.last_mut().filter(|row| is_in_row && row.outcome == outcome && row.reason == reason) {
            Some(row) => (row.last, row.nights, row.message) = (time, row.nights + 1, message),
            None => rows.push(NotMeasured { first: time, last: time, nights: 1, outcome, reason, message }),
        }
        is_in_row = true;
    }
    rows
}

impl SeriesReport {
    fn of(view: &SeriesView<'_>, last_night: Option<&Night>, watch: &Watch, watched: Option<&Watched<'_>>) -> Self {
        let Series { subject, scenario, metric } = view.series.clone();
        let has_ended = last_night.is_some_and(|night| !night.names(view.series));
        let last = view.segments.last();
        let mut points: Vec<PointReport> = view
            .segments
            .iter()
            .enumerate()
            .flat_map(|(segment, own)| {
                own.points.iter().map(move |(night, point)| {
                    let subject = night.subject(&point.series.subject);
                    PointReport {
                        night: night.night,
                        segment,
                        effect: point.effect,
                        interval95: point.interval95(),
                        blocks: point.blocks,
                        unchanged: subject.is_some_and(|subject| subject.unchanged),
                        verdict: point.verdict,
                    }
                })
            })
            .collect();
        points.sort_by_key(|point| point.night);
        let gaps = view.entries.iter().filter_map(|entry| match entry.seen {
            Seen::Missing { outcome, reason } => Some(GapReport {
                night: entry.night.night,
                outcome,
                reason: reason.to_owned(),
                alone: entry.night.outcome == Outcome::Measured,
            }),
            Seen::Point(_) => None,
        });
        let nights_of_level = last.map_or(0, |segment| segment.points.len());
        Self {
            state: match nights_of_level {
                _ if has_ended => State::Ended,
                0 => State::Unmeasured,
                n if n < LEARNED => State::Learning,
                _ => State::Known,
            },
            scale: last.and_then(|segment| segment.points.last()).map_or(Scale::Log, |(_, point)| point.scale),
            margin: watch.margins.get(&metric).copied(),
            evidence: watched.map(|watched| watched.course.evidence()).filter(|evidence| evidence.is_finite()),
            confirmed: Vec::new(),
            suspected: watched.and_then(SuspectedReport::of),
            accumulated: watched.and_then(Watched::accumulated),
            level: last.map(|segment| segment.level.into()),
            nights_of_level,
            nights_measured: view.segments.iter().map(|segment| segment.points.len()).sum(),
            segments: view.segments.iter().filter_map(SegmentReport::of).collect(),
            points,
            gaps: gaps.collect(),
            subject,
            scenario,
            metric,
        }
    }

    /// The margin as an effect.
    fn effect_margin(&self) -> Option<f64> {
        self.margin.map(|margin| self.scale.margin(margin))
    }

    /// All nights of which something is said.
    fn nights(&self) -> impl Iterator<Item = Timestamp> {
        self.points.iter().map(|point| point.night).chain(self.gaps.iter().map(|gap| gap.night))
    }

    fn last_point(&self) -> Option<&PointReport> {
        self.points.last()
    }
}

impl SegmentReport {
    fn of(segment: &Segment<'_>) -> Option<Self> {
        let (last, _) = segment.points.last()?;
        let link = segment.link.as_ref();
        Some(Self {
            first: segment.first()?,
            last: last.night,
            nights: segment.points.len(),
            reference: last.reference.as_ref().map_or(String::new(), |reference| reference.name.clone()),
            level: segment.level.into(),
            between_nights: segment.level.between_nights,
            changed: segment.changed.clone(),
            resumed: segment.resumed,
            crossed: link.map_or(Vec::new(), |link| link.changed.clone()),
            bridge_nights: link.map_or(0, |link| link.nights),
            bridge: link.and_then(|link| link.bridge).map(Into::into),
            chained: segment.chained.map(Into::into),
        })
    }

    /// What brings its effects to the present reference; none where a bridge is missing.
    fn shift(&self) -> Option<f64> {
        self.chained.map(|chained| chained.effect - self.level.effect)
    }
}

impl From<Level> for LevelReport {
    fn from(level: Level) -> Self {
        Self { effect: level.mean, standard_error: level.standard_error, interval95: level.interval95 }
    }
}

#[cfg(test)]
pub(super) mod tests;
