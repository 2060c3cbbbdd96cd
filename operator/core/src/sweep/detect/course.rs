//! What becomes of a series against one reference: its accepted level, the change that is suspected, the one that is open, and what all
//! changes add up to ("Detection").

use std::ops::Range;

use jiff::Timestamp;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::detector::{Detector, Value};
use crate::sweep::level::{LEARNED, Level};

/// The chance with which the nights of a suspicion have the first bad one.
const SURE: f64 = 0.9;
/// Nights of the level at the beginning, and of that of today, which the ledger compares; and how often it does.
const LEDGER: usize = 14;
const MONTH: usize = 30;
/// Error of the ledger, and of calling a series recovered.
const ERROR: f64 = 0.05;

/// A measured night of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub night: Timestamp,
    pub value: Value,
    /// The subject is not what it was in the night before.
    pub is_changed: bool,
}

/// What came of a suspicion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The first night after the change.
    pub first: Timestamp,
    /// The last night that was known when it was answered.
    pub known: Timestamp,
    pub decision: Decision,
    /// How much the change is by fresh trials, as an effect: nights may have recovered meanwhile.
    pub shift: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Decision {
    /// Fresh trials show the change. Whether it is one for the better is up to the nights.
    Confirmed,
    /// They show that there is none.
    Refuted,
    /// They show neither.
    Undecided,
    /// Somebody takes the level as it is now.
    Accepted,
}

/// When a change is suspected, and what size matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Evidence from which a change is suspected.
    pub alarm: f64,
    /// The smallest change that matters, as an effect; none for metrics without one.
    pub margin: Option<f64>,
}

/// A change that the nights speak for. Nothing has confirmed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspicion {
    /// The night since which the evidence has been enough.
    pub raised: Timestamp,
    /// The first night after the change, most likely.
    pub first: Timestamp,
    /// Nights that have the first one with 90 % probability. Only nights in which the subject had changed; none if it never had.
    pub nights: Vec<Timestamp>,
    /// Positive is better.
    pub shift: f64,
    pub cause: Cause,
    /// The nights on either side are all equal, so nothing shows by how much chance moves them.
    pub is_constant: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Cause {
    /// Something that the subject changed.
    Subject,
    /// The subject most likely was the same before and after it: its machine or its data has changed.
    EnvironmentShift,
    /// All series of the sweep have moved while their subjects were the same: what they have in common is the reference.
    ReferenceBroken,
}

/// A confirmed change for the worse that nobody has accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regression {
    pub first: Timestamp,
    /// Against the accepted level.
    pub shift: f64,
    /// Smaller than the margin: true, and not worth an alert.
    pub is_small: bool,
}

/// How far a series has come since its first nights, whatever was accepted since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ledger {
    pub change: f64,
    /// It is surely above this, with 95 % probability, and below that.
    pub low: f64,
    pub high: f64,
    /// It is surely worse than the margin, though no single step is open: the finding `AccumulatedRegression`.
    pub is_regression: bool,
}

/// A series over the nights of one segment.
#[derive(Clone, Debug)]
pub struct Course {
    nights: Vec<Measured>,
    threshold: Threshold,
    detector: Detector,
    /// The first night that the detector knows.
    start: usize,
    /// Nights of the accepted level.
    accepted: Vec<usize>,
    /// The first night behind which the level has moved.
    moved: Option<usize>,
    raised: Option<usize>,
    open: Option<(usize, Regression)>,
}

impl Course {
    /// Each answer counts from the last night that was known with it. One that fits no nights is ignored: they may have been edited, or
    /// have fallen out.
    pub fn of(nights: &[Measured], threshold: Threshold, answers: &[Answer]) -> Self {
        let mut course = Self {
            nights: Vec::with_capacity(nights.len()),
            threshold,
            detector: Detector::default(),
            start: 0,
            accepted: Vec::new(),
            moved: None,
            raised: None,
            open: None,
        };
        for (place, night) in nights.iter().enumerate() {
            course.add(*night);
            let next = nights.get(place + 1).map(|next| next.night);
            let is_now = |answer: &&Answer| night.night <= answer.known && next.is_none_or(|next| answer.known < next);
            for answer in answers.iter().filter(is_now) {
                course.answer(answer);
            }
        }
        course
    }

    fn add(&mut self, night: Measured) {
        let place = self.nights.len();
        self.nights.push(night);
        self.detector.add(night.value);
        if self.open.is_none() {
            self.accepted.push(place);
        }
        self.raise();
        self.recover();
    }

    fn raise(&mut self) {
        let is_enough = self.detector.evidence().sum() >= self.threshold.alarm;
        self.raised = is_enough.then(|| self.raised.unwrap_or(self.nights.len() - 1));
    }

    fn answer(&mut self, answer: &Answer) {
        if matches!(answer.decision, Decision::Refuted | Decision::Undecided) {
            self.detector.restart();
            self.raised = None;
            return;
        }
        let first = self.nights.partition_point(|night| night.night < answer.first);
        let Some(after) = self.level_of(first..self.nights.len()) else { return };
        if answer.decision == Decision::Confirmed {
            let Some(before) = self.level_of(self.start..first) else { return };
            let is_harm = after.mean < before.mean;
            if is_harm {
                self.accepted.retain(|night| *night < first);
                let shift = after.mean - self.accepted().map_or(before.mean, |level| level.mean);
                let size = answer.shift.map_or(shift, |fresh| fresh.min(shift));
                let is_small = self.threshold.margin.is_some_and(|margin| -size < margin);
                let first = self.open.map_or(first, |(first, _)| first);
                self.open = Some((first, Regression { first: self.nights[first].night, shift, is_small }));
            } else if self.open.is_none() {
                self.accepted = (first..self.nights.len()).collect();
            }
        } else {
            self.accepted = (first..self.nights.len()).collect();
            self.open = None;
        }
        self.moved = Some(self.moved.map_or(first, |moved| moved.min(first)));
        self.begin(first);
        self.recover();
    }

    /// Looks for the next change from this night on.
    fn begin(&mut self, first: usize) {
        self.start = first;
        self.detector = Detector::of(self.nights[first..].iter().map(|night| night.value));
        self.raised = None;
        self.raise();
    }

    /// An open regression is over once the latest nights are surely no worse than the accepted level by the margin.
    fn recover(&mut self) {
        let (Some((_, regression)), Some(margin)) = (self.open, self.threshold.margin) else { return };
        let first = self.nights.len().saturating_sub(LEARNED).max(self.start);
        let (Some(accepted), Some(latest)) = (self.accepted(), self.level_of(first..self.nights.len())) else { return };
        if regression.is_small || latest.is_learning() {
            return;
        }
        let Some((low, _)) = difference(&accepted, &latest) else { return };
        if low > -margin {
            self.open = None;
            self.accepted.extend(first..self.nights.len());
            self.begin(first);
        }
    }

    fn level_of(&self, nights: Range<usize>) -> Option<Level> {
        self.level(nights.filter(|night| *night < self.nights.len()))
    }

    fn level(&self, nights: impl Iterator<Item = usize>) -> Option<Level> {
        let of = |night: usize| (self.nights[night].value.effect, self.nights[night].value.standard_error);
        Level::of(&nights.map(of).collect::<Vec<_>>())
    }

    /// Its first night.
    pub fn since(&self) -> Option<Timestamp> {
        self.nights.first().map(|night| night.night)
    }

    /// The level that was accepted last, or of all nights if none had to be. Improvements move it once they are confirmed, harm only if
    /// somebody accepts it.
    pub fn accepted(&self) -> Option<Level> {
        self.level(self.accepted.iter().copied())
    }

    /// How much speaks for a change, in parts of what is enough to suspect one.
    pub fn evidence(&self) -> f64 {
        self.detector.evidence().sum() / self.threshold.alarm
    }

    pub fn regression(&self) -> Option<Regression> {
        self.open.map(|(_, regression)| regression)
    }

    pub fn suspicion(&self) -> Option<Suspicion> {
        let (raised, evidence) = (self.raised?, self.detector.measured());
        let most_likely = evidence.most_likely()?;
        let at = |candidate: usize| &self.nights[self.start + candidate];
        let mut changed: Vec<(usize, f64)> = evidence
            .candidates
            .iter()
            .filter(|own| at(own.night).is_changed)
            .map(|own| (own.night, evidence.share(own)))
            .collect();
        let share_of_changed: f64 = changed.iter().map(|(_, share)| share).sum();
        changed.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut sum = 0.0;
        changed.retain(|(_, share)| {
            let is_needed = sum < SURE * share_of_changed;
            sum += share;
            is_needed
        });
        let mut nights: Vec<Timestamp> = changed.iter().map(|(night, _)| at(*night).night).collect();
        nights.sort_unstable();
        // One night alone may be off by chance, so it is all of them that say whether the subject had changed.
        let cause = if share_of_changed > 0.5 { Cause::Subject } else { Cause::EnvironmentShift };
        Some(Suspicion {
            raised: self.nights[raised].night,
            first: at(most_likely.night).night,
            nights: if cause == Cause::Subject { nights } else { Vec::new() },
            shift: evidence.candidates.iter().map(|own| evidence.share(own) * own.shift).sum(),
            cause,
            is_constant: most_likely.is_constant,
        })
    }

    /// What all changes add up to, as of the last month that is whole.
    pub fn ledger(&self) -> Option<Ledger> {
        let until = self.nights.len() / MONTH * MONTH;
        let first = self.level_of(0..LEDGER.min(self.moved.unwrap_or(LEDGER)))?;
        let now = self.level_of(until.checked_sub(LEDGER)?.max(self.start)..until)?;
        if first.is_learning() || now.is_learning() {
            return None;
        }
        let (low, high) = difference(&first, &now)?;
        let is_open = self.open.is_some_and(|(_, regression)| !regression.is_small);
        let is_regression = self.threshold.margin.is_some_and(|margin| high < -margin) && !is_open;
        Some(Ledger { change: now.mean - first.mean, low, high, is_regression })
    }
}

/// Bounds of the second level minus the first, each of which holds with 95 % probability. Both know no more than the one that knows less.
fn difference(first: &Level, second: &Level) -> Option<(f64, f64)> {
    let freedom = first.nights.min(second.nights).checked_sub(1)? as f64;
    let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - ERROR);
    let (change, room) = (second.mean - first.mean, quantile * first.standard_error.hypot(second.standard_error));
    Some((change - room, change + room))
}
