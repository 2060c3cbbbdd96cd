//! All series of a sweep together.

use std::collections::BTreeMap;

use assay_api::{Bisect, TuningSweepSpec};
use jiff::Timestamp;

use super::course::{Cause, Course, Measured, Suspicion, Threshold};
use super::detector::Value;
use super::promise::Promise;
use crate::experiment::Experiment;
use crate::report::number;
use crate::stats::Scale;
use crate::sweep::confirm::{Promised, spent_since};
use crate::sweep::history::History;
use crate::sweep::point::{Night, Point, Series};
use crate::sweep::series::Segment;
use crate::validate::fraction;

/// Evidence of a change, in parts of what suspects one, that keeps nights from being skipped: the next ones will tell.
pub const WATCHFUL: f64 = 0.1;

/// What a sweep watches for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// Evidence from which a change of a series is suspected. If not set, what as many series need by default.
    pub alarm: Option<f64>,
    /// The smallest changes that matter, by metric: 0.05 for 5 %.
    pub margins: BTreeMap<String, f64>,
    /// What is promised of confirmations; none where only what nights say is asked.
    pub promised: Option<Promised>,
    /// Among what a culprit is looked for, if it is.
    pub bisect: Option<Bisect>,
}

/// A series that the last measured night is about.
#[derive(Clone, Debug)]
pub struct Watched<'a> {
    pub series: &'a Series,
    pub scale: Scale,
    /// The smallest change that matters, as an effect.
    pub margin: Option<f64>,
    pub course: Course,
    /// With the cause that all series together speak for.
    pub suspicion: Option<Suspicion>,
    /// Time at which the yearly budget of confirmations was used up; `None` while another one may start.
    pub spent_since: Option<Timestamp>,
}

impl Watched<'_> {
    pub fn name(&self) -> String {
        format!("{} {} {}", self.series.subject, self.series.scenario, self.series.metric)
    }

    /// What is suspected, in a sentence without its end.
    pub fn said(&self) -> Option<String> {
        let own = self.suspicion.as_ref()?;
        let minute = |time: Timestamp| time.strftime("%Y-%m-%d %H:%M").to_string();
        let nights = match own.nights.as_slice() {
            [first, .., last] => format!(" (with 90 % between {} and {})", minute(*first), minute(*last)),
            _ => String::new(),
        };
        let evidence = match self.course.evidence() {
            large if large >= 1000.0 => "more than 1000".to_owned(),
            evidence => format!("{evidence:.1}"),
        };
        let cause = match own.cause {
            Cause::Subject => "",
            Cause::EnvironmentShift => {
                "; the subject was the same before and after, so look at its machine and data (EnvironmentShift)"
            }
            Cause::ReferenceBroken => {
                "; all series moved while no subject changed, so look at the reference (ReferenceBroken)"
            }
        };
        let constant = if own.is_constant { "; equal nights before and after, so chance is unknown" } else { "" };
        let shift = number::effect(self.scale, own.shift);
        let first = minute(own.first);
        let spent = self.spent();
        Some(format!("suspected {shift} since {first}{nights}, evidence {evidence} of 1{constant}{cause}{spent}"))
    }

    /// Sentence, without its end, about small losses that add up to half a margin or more.
    pub fn accumulated(&self) -> Option<String> {
        let sum = self.course.sum()?;
        let (shift, bound) = (number::effect(self.scale, sum.shift), number::effect(self.scale, sum.bound));
        let accepted = sum.accepted.strftime("%Y-%m-%d");
        let spent = self.spent();
        Some(format!("suspected {shift} since {accepted}, surely below {bound} (AccumulatedRegression){spent}"))
    }

    fn spent(&self) -> String {
        self.spent_since.map_or(String::new(), |since| format!("; {}", budget_spent(since)))
    }
}

/// Sentence, without its end, about a yearly budget of confirmations that was used up at a time.
pub fn budget_spent(since: Timestamp) -> String {
    let day = since.strftime("%Y-%m-%d");
    format!("nothing can be confirmed since {day}: confirmations of a year are used up (ConfirmationBudgetSpent)")
}

impl History {
    /// How nights of a metric scatter, as a standard deviation of effects: that of the noisiest series whose level is known. A step is no
    /// scatter.
    pub fn scatter(&self, metric: &str) -> Option<f64> {
        let of = |series: &Series| {
            let view = self.view(series)?;
            let segment = view.segments.last().filter(|segment| !segment.level.is_learning())?;
            let own = segment.points.iter().map(|(_, point)| point.standard_error.powi(2)).sum::<f64>();
            let own = (own / segment.points.len() as f64).sqrt();
            let effects = segment.points.windows(2).map(|pair| (pair[1].1.effect - pair[0].1.effect).abs());
            let mut differences: Vec<f64> = effects.collect();
            differences.sort_by(f64::total_cmp);
            // Of normal nights, 0.6745 standard deviations of a difference.
            let from_night_to_night = differences[differences.len() / 2] / (0.6745 * std::f64::consts::SQRT_2);
            Some(segment.level.between_nights.hypot(own).min(from_night_to_night.max(own)))
        };
        self.series().filter(|series| series.metric == metric).filter_map(of).reduce(f64::max)
    }

    /// The series of the last measured night, in order, with what confirmations have said of them.
    pub fn watched(&self, watch: &Watch) -> Vec<Watched<'_>> {
        let (answers, margins) = (self.answers(), self.confirmed_margins());
        let Some(last) = self.last_measured() else { return Vec::new() };
        let spent_since = watch.promised.as_ref().and_then(|promised| spent_since(self, promised));
        let alarm = watch.alarm.unwrap_or_else(|| Promise::of_series(last.points.len()).alarm());
        let named = self.series().filter(|series| last.names(series));
        let mut all: Vec<Watched<'_>> = named
            .filter_map(|series| {
                let view = self.view(series)?;
                let answers = answers.get(series).map_or(&[][..], Vec::as_slice);
                let segment = view.segments.last()?;
                let scale = segment.points.last()?.1.scale;
                // A history that was moved has the margins of its visits.
                let margin = watch.margins.get(&series.metric).map(|margin| scale.margin(*margin));
                let margin = margin.or_else(|| margins.get(series).copied());
                let course = Course::of(&measured(segment), Threshold { alarm, margin }, answers);
                let suspicion = course.suspicion();
                Some(Watched { series: view.series, scale, margin, course, suspicion, spent_since })
            })
            .collect();
        let has_moved_alone =
            |watched: &Watched<'_>| watched.suspicion.as_ref().is_some_and(|own| own.cause == Cause::EnvironmentShift);
        if all.len() > 1 && all.iter().all(has_moved_alone) {
            for suspicion in all.iter_mut().filter_map(|watched| watched.suspicion.as_mut()) {
                suspicion.cause = Cause::ReferenceBroken;
            }
        }
        all
    }
}

impl Watch {
    /// Of a sweep that is sound.
    pub fn of(spec: &TuningSweepSpec, experiment: &Experiment, now: Timestamp) -> Self {
        let declared = spec.detect.margin.as_deref().and_then(fraction);
        let margins = experiment.metrics.iter().map(|rule| (rule.name.clone(), declared.unwrap_or(rule.margin)));
        Self {
            alarm: Promise::of(spec, experiment.series(), now).map(|promise| promise.alarm()),
            margins: margins.collect(),
            promised: Some(Promised::of(&spec.detect)),
            bisect: spec.bisect.clone(),
        }
    }
}

/// The nights of a segment, each with whether the subject had changed since the one before. It is compared with the last night that has
/// a value: the series may have none of the night that changed its subject.
fn measured(segment: &Segment<'_>) -> Vec<Measured> {
    let subject = |place: usize| {
        let (night, point) = segment.points.get(place)?;
        night.subject(&point.series.subject)
    };
    let is_same = |place: usize| {
        let before = place.checked_sub(1).and_then(subject);
        before.zip(subject(place)).is_some_and(|(before, now)| before.same(now))
    };
    let of = |(place, (night, point)): (usize, &(&Night, &Point))| Measured {
        night: night.night,
        value: Value { effect: point.effect, standard_error: point.standard_error },
        is_changed: !is_same(place),
    };
    segment.points.iter().enumerate().map(of).collect()
}
