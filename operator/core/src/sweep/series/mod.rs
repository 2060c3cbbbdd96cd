//! One series over the nights: its points and gaps, its segments, and the bridges between them.

use assay_protocol::Digest;
use jiff::Timestamp;

use crate::stats::Scale;
use crate::sweep::history::History;
use crate::sweep::level::Level;
use crate::sweep::point::{Night, Outcome, Point, Reference, Series, Subject};

/// Nights in which both references have to run before levels are carried over from the old one to the new one.
pub const BRIDGE_NIGHTS: usize = 7;

/// A series as its history shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesView<'a> {
    pub series: &'a Series,
    /// The nights from the first that names it, in order; those in which the sweep did not have it are left out.
    pub entries: Vec<Entry<'a>>,
    /// The last one is the present, behind those that led to it. Empty as long as it has no point.
    pub segments: Vec<Segment<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    pub night: &'a Night,
    pub seen: Seen<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen<'a> {
    Point(&'a Point),
    /// A gap in a measured night, or a night that was not measured.
    Missing {
        outcome: Outcome,
        reason: &'a str,
    },
}

/// Nights that are measured alike and against the same reference, whatever was measured between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment<'a> {
    pub points: Vec<(&'a Night, &'a Point)>,
    pub level: Level,
    /// What was new in its first night: of `reference`, `machine`, `protocol`, `workload` and `scale`. Nothing in the first of all.
    pub changed: Vec<&'static str>,
    /// The night with which it went on after the last night of another segment.
    pub resumed: Option<Timestamp>,
    /// What lies between it and the segment before it.
    pub link: Option<Link>,
    /// Its level against the reference of the last segment; none where a bridge is missing on the way.
    pub chained: Option<Level>,
}

/// What lies between two segments.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What differs.
    pub changed: Vec<&'static str>,
    /// Measured nights in which the old reference ran beside the new one, as a subject.
    pub nights: usize,
    /// The old reference against the new one: what is added to effects before the link to compare them with those behind it. Only if nothing
    /// but the reference changed, and both ran for [`BRIDGE_NIGHTS`].
    pub bridge: Option<Level>,
}

impl Segment<'_> {
    pub fn first(&self) -> Option<Timestamp> {
        self.points.first().map(|(night, _)| night.night)
    }

    pub fn last(&self) -> Option<Timestamp> {
        self.points.last().map(|(night, _)| night.night)
    }
}

impl SeriesView<'_> {
    /// The present level.
    pub fn level(&self) -> Option<&Level> {
        self.segments.last().map(|segment| &segment.level)
    }
}

/// What makes the nights of a scenario comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    machine: &'a str,
    protocol: u32,
    workload: &'a Digest,
    image: Option<&'a str>,
    config: &'a Digest,
}

impl<'a> Setting<'a> {
    /// Of a measured night.
    pub fn of(night: &'a Night, scenario: &str) -> Option<Self> {
        let (fingerprint, reference) = (night.fingerprint.as_ref()?, night.reference.as_ref()?);
        Some(Self {
            machine: &fingerprint.machine,
            protocol: fingerprint.protocol,
            workload: fingerprint.workloads.get(scenario)?,
            image: reference.image.as_deref(),
            config: &reference.config,
        })
    }

    /// What is new since another one.
    pub fn changes(&self, before: &Self) -> Vec<&'static str> {
        [
            ("reference", (self.image, self.config) != (before.image, before.config)),
            ("machine", self.machine != before.machine),
            ("protocol", self.protocol != before.protocol),
            ("workload", self.workload != before.workload),
        ]
        .into_iter()
        .filter_map(|(name, is_new)| is_new.then_some(name))
        .collect()
    }
}

/// What becomes a segment.
struct Part<'a> {
    points: Vec<(&'a Night, &'a Point)>,
    changed: Vec<&'static str>,
    resumed: Option<Timestamp>,
}

/// What differs between two points of a series.
fn changes(series: &Series, before: (&Night, &Point), after: (&Night, &Point)) -> Option<Vec<&'static str>> {
    let of = |night| Setting::of(night, &series.scenario);
    let mut changed = of(after.0)?.changes(&of(before.0)?);
    if before.1.scale != after.1.scale {
        changed.push("scale");
    }
    Some(changed)
}

impl History {
    /// A series over the nights; none if no night names it.
    pub fn view(&self, series: &Series) -> Option<SeriesView<'_>> {
        let (series, own) = self.named(series)?;
        let first = *own.keys().next()?;
        let (mut entries, mut parts) = (Vec::new(), Vec::<Part<'_>>::new());
        // Whether the last measured night had it.
        let mut is_in = false;
        for night in self.within(first..).filter(|night| night.is_of_series()) {
            let point = own.get(&night.night).copied().flatten().and_then(|index| night.points.get(index));
            if let Some(point) = point {
                join(series, &mut parts, (night, point));
            }
            let gap = night.gaps.iter().find(|gap| gap.covers(series));
            let missing = |outcome, reason| Some(Seen::Missing { outcome, reason });
            let seen = match (night.outcome, point, gap, night.reason.as_deref()) {
                (_, Some(point), _, _) => Some(Seen::Point(point)),
                (_, None, Some(gap), _) => missing(Outcome::Gap, gap.reason.as_str()),
                (Outcome::Measured, None, None, _) => None,
                (outcome, None, None, reason) => {
                    let named = night.subjects.iter().any(|subject| subject.name == series.subject);
                    let is_meant = if night.subjects.is_empty() { is_in } else { named };
                    missing(outcome, reason.unwrap_or_default()).filter(|_| is_meant)
                }
            };
            if night.outcome == Outcome::Measured {
                is_in = seen.is_some();
            }
            entries.extend(seen.map(|seen| Entry { night, seen }));
        }
        Some(SeriesView { series, entries, segments: self.segments(series, parts) })
    }

    fn segments<'a>(&'a self, series: &Series, parts: Vec<Part<'a>>) -> Vec<Segment<'a>> {
        let mut segments: Vec<Segment<'a>> = Vec::new();
        for Part { points, changed, resumed } in parts {
            let Some(level) = level(points.iter().map(|(_, point)| *point)) else { continue };
            let link = segments.last().and_then(|before| self.link(series, before, &points));
            segments.push(Segment { points, level, changed, resumed, link, chained: None });
        }
        let mut shift: Option<Level> = None;
        let mut is_whole = true;
        for segment in segments.iter_mut().rev() {
            let moved = shift.map_or(segment.level, |shift| segment.level.moved(&shift));
            segment.chained = is_whole.then_some(moved);
            match segment.link.as_ref().and_then(|link| link.bridge) {
                Some(bridge) => shift = Some(shift.map_or(bridge, |shift| bridge.moved(&shift))),
                None => is_whole = false,
            }
        }
        segments
    }

    /// What lies between a segment and the points behind it.
    fn link(&self, series: &Series, before: &Segment<'_>, points: &[(&Night, &Point)]) -> Option<Link> {
        let (last, (new, next)) = (*before.points.last()?, *points.first()?);
        let changed = changes(series, last, (new, next))?;
        if changed != ["reference"] {
            return Some(Link { changed, nights: 0, bridge: None });
        }
        let former = last.0.reference.as_ref()?;
        let setting = Setting::of(new, &series.scenario);
        let both = self.nights().filter(|night| Setting::of(night, &series.scenario) == setting);
        let both: Vec<&Point> = both.filter_map(|night| of_former(night, former, series, next.scale)).collect();
        let bridge = level(both.iter().copied()).filter(|level| level.nights >= BRIDGE_NIGHTS);
        Some(Link { changed, nights: both.len(), bridge })
    }
}

/// Adds a point, the latest, to the part that was measured as it is, which thereby becomes the last.
fn join<'a>(series: &Series, parts: &mut Vec<Part<'a>>, own: (&'a Night, &'a Point)) {
    let difference = |part: &Part<'_>| changes(series, *part.points.last()?, own);
    let place = parts.iter().position(|part| difference(part).is_some_and(|changed| changed.is_empty()));
    let Some(place) = place else {
        let changed = parts.last().and_then(difference).unwrap_or_default();
        parts.push(Part { points: vec![own], changed, resumed: None });
        return;
    };
    let is_back = place + 1 < parts.len();
    // What came between leads nowhere, and what led to this one still does.
    parts.rotate_left(place + 1);
    let Some(part) = parts.last_mut() else { return };
    if is_back {
        part.resumed = Some(own.0.night);
    }
    part.points.push(own);
}

/// The point of a former reference that runs as a subject.
fn of_former<'a>(night: &'a Night, former: &Reference, series: &Series, scale: Scale) -> Option<&'a Point> {
    let is_former = |subject: &&Subject| subject.image == former.image && subject.config == former.config;
    let subject = night.subjects.iter().find(is_former)?;
    night.points.iter().find(|point| {
        let own = &point.series;
        own.subject == subject.name
            && own.scenario == series.scenario
            && own.metric == series.metric
            && point.scale == scale
    })
}

fn level<'a>(points: impl Iterator<Item = &'a Point>) -> Option<Level> {
    Level::of(&points.map(|point| (point.effect, point.standard_error)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
