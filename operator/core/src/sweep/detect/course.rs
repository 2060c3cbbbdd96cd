//! Fate of a series against one reference: its accepted level, the change that is suspected, the one that is open, and small losses that
//! add up ("Detection").

use std::ops::Range;

use jiff::Timestamp;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::detector::{Detector, Value};
use crate::sweep::level::{LEARNED, Level};

/// The chance with which the nights of a suspicion have the first bad one.
const SURE: f64 = 0.9;
/// Nights at the beginning of the accepted level, and latest nights, whose levels are compared to find losses that add up. A sum that was
/// not confirmed is suspected again after as many nights.
const FORTNIGHT: usize = 14;
/// Part of the margin that a sum has to exceed, and below which a regression may have recovered.
const HALF: f64 = 0.5;
/// Error of one-sided bounds of levels.
const ERROR: f64 = 0.05;
/// Error of calling a series recovered by its nights alone, which is asked each night for a year.
const YEARLY_ERROR: f64 = ERROR / 365.0;

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
    /// The visits compared with the accepted version, many nights before.
    pub is_sum: bool,
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
    /// Fresh trials show that a regression has ended.
    Recovered,
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

/// Loss since the accepted version that no single step explains: `AccumulatedRegression`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum {
    /// The first night of the level of today.
    pub first: Timestamp,
    /// The last night at the beginning of the accepted level.
    pub accepted: Timestamp,
    /// Against the accepted level.
    pub shift: f64,
    /// With 95 % probability, the loss is at least this.
    pub bound: f64,
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
    raised: Option<usize>,
    open: Option<(usize, Regression)>,
    /// Nights known when fresh trials last failed to show that small losses add up.
    unconfirmed: usize,
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
            raised: None,
            open: None,
            unconfirmed: 0,
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
        self.grow();
        self.recover();
    }

    fn raise(&mut self) {
        let is_enough = self.detector.evidence().sum() >= self.threshold.alarm;
        self.raised = is_enough.then(|| self.raised.unwrap_or(self.nights.len() - 1));
    }

    fn answer(&mut self, answer: &Answer) {
        let first = self.nights.partition_point(|night| night.night < answer.first);
        match answer.decision {
            Decision::Refuted | Decision::Undecided => {
                self.detector.restart();
                self.raised = None;
                if answer.is_sum {
                    self.unconfirmed = self.nights.len();
                }
                return;
            }
            // Without a night since the change, its level is unknown.
            Decision::Confirmed | Decision::Accepted | Decision::Recovered if first == self.nights.len() => return,
            Decision::Confirmed => {
                let before = if answer.is_sum { self.beginning() } else { (self.start..first).collect() };
                let after = self.level_of(first..self.nights.len());
                let (Some(before), Some(after)) = (self.level(before.into_iter()), after) else { return };
                let is_harm = after.mean < before.mean;
                if is_harm {
                    self.harmed(first, &after, answer);
                } else if self.open.is_none() {
                    self.accepted = (first..self.nights.len()).collect();
                }
            }
            Decision::Accepted => {
                self.accepted = (first..self.nights.len()).collect();
                self.open = None;
            }
            Decision::Recovered if self.open.is_none() => return,
            Decision::Recovered => self.recovered(first),
        }
        self.begin(first);
    }

    /// Opens a regression, or makes one that is open larger.
    fn harmed(&mut self, first: usize, after: &Level, answer: &Answer) {
        if answer.is_sum {
            self.accepted = self.beginning();
        }
        self.accepted.retain(|night| *night < first);
        let Some(accepted) = self.accepted() else { return };
        let shift = after.mean - accepted.mean;
        let size = answer.shift.map_or(shift, |fresh| fresh.min(shift));
        let is_small = self.threshold.margin.is_some_and(|margin| -size < margin);
        let first = self.open.map_or(first, |(first, _)| first);
        self.open = Some((first, Regression { first: self.nights[first].night, shift, is_small }));
    }

    /// Makes a small regression a full one once the nights are surely worse by the margin.
    fn grow(&mut self) {
        let (Some((_, regression)), Some(margin)) = (self.open, self.threshold.margin) else { return };
        let today = self.nights.len().saturating_sub(FORTNIGHT).max(self.start);
        let (Some(accepted), Some(today)) = (self.accepted(), self.level_of(today..self.nights.len())) else { return };
        let Some((_, high)) = difference(&accepted, &today, ERROR) else { return };
        if regression.is_small && !today.is_learning() && high < -margin {
            let shift = today.mean - accepted.mean;
            self.open = self.open.map(|(first, open)| (first, Regression { shift, is_small: false, ..open }));
        }
    }

    fn recovered(&mut self, first: usize) {
        self.open = None;
        self.accepted.extend(first..self.nights.len());
    }

    /// Looks for the next change from this night on.
    fn begin(&mut self, first: usize) {
        self.start = first;
        self.detector = Detector::of(self.nights[first..].iter().map(|night| night.value));
        self.raised = None;
        self.raise();
    }

    /// Closes a regression without visits if the nights surely exclude a loss of the margin, at an error that all nights of a year share.
    fn recover(&mut self) {
        let (Some((_, regression)), Some(margin)) = (self.open, self.threshold.margin) else { return };
        let first = self.nights.len().saturating_sub(FORTNIGHT).max(self.start);
        let (Some(accepted), Some(latest)) = (self.accepted(), self.level_of(first..self.nights.len())) else { return };
        let low = difference(&accepted, &latest, YEARLY_ERROR).map(|(low, _)| low);
        if !regression.is_small && latest.nights == FORTNIGHT && low.is_some_and(|low| low > -margin) {
            self.recovered(first);
            self.begin(first);
        }
    }

    /// First night of a possible recovery, which visits have to confirm.
    pub fn seems_recovered(&self) -> Option<Timestamp> {
        let (_, regression) = self.open.filter(|(_, regression)| !regression.is_small)?;
        let first = self.nights.len().checked_sub(LEARNED)?.max(self.start);
        let (accepted, latest) = (self.accepted()?, self.level_of(first..self.nights.len())?);
        let least = accepted.mean - HALF * self.threshold.margin?;
        let good = (first..self.nights.len()).find(|night| self.nights[*night].value.effect > least)?;
        (latest.mean > least && self.nights[good].night > regression.first).then(|| self.nights[good].night)
    }

    /// The first nights of the accepted level.
    fn beginning(&self) -> Vec<usize> {
        self.accepted.iter().copied().take(FORTNIGHT).collect()
    }

    /// Small losses that add up, if the latest nights are surely worse by half a margin than the accepted level was at its beginning.
    pub fn sum(&self) -> Option<Sum> {
        let (beginning, count) = (self.beginning(), self.nights.len());
        let last = *beginning.last()?;
        let first = count.saturating_sub(FORTNIGHT).max(last + 1);
        let is_asked_again = self.unconfirmed > 0 && count < self.unconfirmed + FORTNIGHT;
        if self.open.is_some() || is_asked_again {
            return None;
        }
        let (accepted, today) = (self.level(beginning.into_iter())?, self.level_of(first..count)?);
        if accepted.is_learning() || today.is_learning() {
            return None;
        }
        let (_, high) = difference(&accepted, &today, ERROR)?;
        let is_much = high < -HALF * self.threshold.margin?;
        let (first, accepted_until) = (self.nights[first].night, self.nights[last].night);
        let shift = today.mean - accepted.mean;
        is_much.then_some(Sum { first, accepted: accepted_until, shift, bound: high })
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
}

/// Bounds of the second level minus the first, each of which holds but for this error. Both know no more than the one that knows less.
fn difference(first: &Level, second: &Level, error: f64) -> Option<(f64, f64)> {
    let freedom = first.nights.min(second.nights).checked_sub(1)? as f64;
    let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - error);
    let (change, room) = (second.mean - first.mean, quantile * first.standard_error.hypot(second.standard_error));
    Some((change - room, change + room))
}
