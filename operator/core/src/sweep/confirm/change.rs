//! What has become of changes that confirmations were about.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::answer::{Answered, Confirmation, LOOKS};
use super::visit::Asks;
use crate::report::html::plural;
use crate::report::number;
use crate::stats::Scale;
use crate::sweep::culprit::Finding;
use crate::sweep::detect::{Course, Decision, Watched};
use crate::sweep::failing::{Counts, Failing};
use crate::sweep::history::History;
use crate::sweep::point::{Night, Outcome, Series};

/// Confirmations by which a sweep is called noisy.
const LATEST: usize = 6;

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// Visits are missing.
    Confirming,
    /// A confirmed change for the worse that nobody has accepted and that is still there.
    Regressed,
    /// The same, smaller than the margin.
    SmallRegression,
    /// A confirmed change for the better: the level has moved with it.
    Improved,
    Refuted,
    /// Neither confirmed nor refuted, after all visits.
    Undecided,
    Accepted,
    /// Confirmed, and back to where it was.
    Recovered,
    /// Confirmed, and its series have ended, or have begun anew since.
    Ended,
}

/// Whether more than half of the latest six confirmations that are over were refuted: nights are worth little then.
pub fn is_noisy(changes: &[Change]) -> bool {
    let over = changes.iter().rev().filter(|change| change.stage != Stage::Confirming).take(LATEST);
    let (refuted, all) =
        over.fold((0, 0), |(refuted, all), change| (refuted + usize::from(change.stage == Stage::Refuted), all + 1));
    all == LATEST && 2 * refuted > LATEST
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A change, with its story.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As `assay accept` takes it.
    pub name: String,
    pub subject: String,
    pub stage: Stage,
    pub raised: Timestamp,
    pub good: Timestamp,
    pub bad: Timestamp,
    pub visits: usize,
    pub failed: usize,
    /// Many small steps since the accepted version, so that there is no single culprit.
    pub is_sum: bool,
    /// Of each series, with the scale of its effects.
    pub series: Vec<(Answered, Scale)>,
    /// Failures of a change that consists of failed runs; such a change has no series.
    pub failing: Vec<Failing>,
    /// Why it was accepted, and until when.
    pub accepted: Option<(String, Option<Timestamp>)>,
    /// What the search for its culprit says, if there is one or one has ended.
    pub finding: Option<Finding>,
}

impl History {
    /// All changes, the oldest first. `watched` is what the history says now.
    pub fn changes(&self, watched: &[Watched<'_>]) -> Vec<Change> {
        let of = |confirmation: &Confirmation<'_>| {
            let visit = confirmation.visit;
            let name = visit.change();
            let scale = |answered: Answered| {
                let scale = self.scale(&answered.series);
                (answered, scale)
            };
            let series: Vec<(Answered, Scale)> = confirmation.answered().into_iter().map(scale).collect();
            let acceptance = self.acceptance(&name);
            let finding = self.hunt(confirmation).map(|hunt| Finding::of(&hunt, self.scale(&hunt.series)));
            let stage = stage(confirmation, &series, acceptance.is_some(), watched);
            // Nothing is searched any more once a change is accepted or over.
            let finding = finding.filter(|finding| stage == Stage::Regressed || finding.is_over());
            Change {
                subject: visit.subject.clone(),
                is_sum: visit.asks == Asks::Sum,
                failing: Vec::new(),
                stage,
                raised: visit.raised,
                good: visit.good,
                bad: visit.bad,
                visits: confirmation.visits.len(),
                failed: confirmation.failed,
                series,
                accepted: acceptance.map(why),
                finding,
                name,
            }
        };
        let recoveries = self.recoveries();
        let failures = self.changes_by_failures().into_iter().filter_map(|(name, failing)| {
            let (raised, subject) = (failing.first()?.raised, failing.first()?.subject.clone());
            let visits = || recoveries.iter().filter(|((change, _), _)| *change == name).map(|(_, own)| own);
            let bad = failing.iter().map(|own| own.first).min()?;
            let (visited, failed) = (visits().map(|own| own.visits.len()).sum(), visits().map(|own| own.failed).sum());
            Some(Change {
                // Open as long as one of its scenarios is.
                stage: failing.iter().map(|own| own.stage).min_by_key(|stage| *stage != Stage::Regressed)?,
                raised,
                good: self
                    .within(..bad)
                    .filter(|night| night.subject(&subject).is_some())
                    .last()
                    .map_or(bad, |own| own.night),
                bad,
                visits: visited,
                failed,
                is_sum: false,
                series: Vec::new(),
                failing,
                accepted: self.acceptance(&name).map(why),
                finding: None,
                subject,
                name,
            })
        });
        let mut all: Vec<Change> = self.confirmations().values().map(of).chain(failures).collect();
        all.sort_by(|a, b| (a.raised, &a.name).cmp(&(b.raised, &b.name)));
        all
    }

    /// The scale of the effects of a series.
    pub(super) fn scale(&self, series: &Series) -> Scale {
        let scale = self.view(series).and_then(|view| Some(view.segments.last()?.points.last()?.1.scale));
        scale.unwrap_or(Scale::Log)
    }

    /// The entry that accepts a change, as long as it holds.
    pub(in crate::sweep) fn acceptance(&self, change: &str) -> Option<&Night> {
        let last = self.nights().rev().find(|night| night.outcome == Outcome::Measured)?.night;
        let of_change = |night: &&Night| night.accepted.as_ref().is_some_and(|accepted| accepted.change == change);
        let latest = self.nights().rev().find(of_change)?;
        let expires = latest.accepted.as_ref().and_then(|accepted| accepted.expires);
        expires.is_none_or(|expires| last < expires).then_some(latest)
    }
}

/// Reason and expiry of an acceptance.
fn why(acceptance: &Night) -> (String, Option<Timestamp>) {
    let expires = acceptance.accepted.as_ref().and_then(|accepted| accepted.expires);
    (acceptance.message.clone().unwrap_or_default(), expires)
}

fn stage(
    confirmation: &Confirmation<'_>,
    series: &[(Answered, Scale)],
    is_accepted: bool,
    watched: &[Watched<'_>],
) -> Stage {
    if !confirmation.is_over() {
        return Stage::Confirming;
    }
    let confirmed: Vec<&Answered> =
        series.iter().map(|(own, _)| own).filter(|own| own.decision == Some(Decision::Confirmed)).collect();
    if confirmed.is_empty() {
        let is_refuted = |(own, _): &(Answered, Scale)| own.decision == Some(Decision::Refuted);
        return if !series.is_empty() && series.iter().all(is_refuted) { Stage::Refuted } else { Stage::Undecided };
    }
    let worse: Vec<&&Answered> = confirmed.iter().filter(|own| own.asked.shift < 0.0).collect();
    if worse.is_empty() {
        return Stage::Improved;
    }
    if is_accepted {
        return Stage::Accepted;
    }
    let course = |own: &&&Answered| {
        let course = &watched.iter().find(|watched| *watched.series == own.series)?.course;
        course.since().is_some_and(|since| since < own.asked.first).then_some((course, own.asked.first))
    };
    let known: Vec<(&Course, Timestamp)> = worse.iter().filter_map(course).collect();
    if known.is_empty() {
        return Stage::Ended;
    }
    let open =
        known.iter().filter_map(|(course, first)| course.regression().filter(|regression| regression.first <= *first));
    match open.map(|regression| regression.is_small).reduce(|a, b| a && b) {
        None => Stage::Recovered,
        Some(true) => Stage::SmallRegression,
        Some(false) => Stage::Regressed,
    }
}

fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

impl Change {
    /// The series that it was confirmed for; while that is open, and where nothing was, all of them.
    pub(in crate::sweep) fn shown(&self) -> Vec<&(Answered, Scale)> {
        let confirmed: Vec<_> =
            self.series.iter().filter(|(own, _)| own.decision == Some(Decision::Confirmed)).collect();
        if confirmed.is_empty() { self.series.iter().collect() } else { confirmed }
    }

    /// In a sentence without its end: what it is, and what is known of it.
    pub fn said(&self) -> String {
        if !self.failing.is_empty() {
            return self.said_of_failures();
        }
        let shown = self.shown();
        let worst = shown.iter().max_by(|(a, _), (b, _)| a.asked.shift.abs().total_cmp(&b.asked.shift.abs()));
        let Some((worst, scale)) = worst else { return self.stage.to_string() };
        let shift = number::effect(*scale, worst.shift.unwrap_or(worst.asked.shift));
        let bound = worst.bound.map_or(String::new(), |bound| {
            let side = if worst.asked.shift < 0.0 { "below" } else { "above" };
            format!(", surely {side} {}", number::effect(*scale, bound))
        });
        let others = match shown.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more series"),
        };
        let what = format!("{} ({}){others}", worst.series.metric, worst.series.scenario);
        let visits = match (self.stage, self.failed) {
            (Stage::Confirming, 0) => {
                let of = if self.visits < LOOKS[0] { LOOKS[0] } else { LOOKS[1] };
                format!("; {} of {of} visits measured", self.visits)
            }
            (_, 0) => format!("; {} visits", self.visits),
            (_, failed) => format!("; {} visits, {failed} more failed", self.visits),
        };
        let accepted = self.said_of_acceptance();
        let culprit = self.finding.as_ref().map_or(String::new(), |finding| format!("; culprit: {}", finding.said()));
        let since = if self.is_sum {
            format!("{}, in small steps (AccumulatedRegression)", day(self.good))
        } else {
            day(worst.asked.first)
        };
        format!("{} {shift}{bound} in {what} since {since}{visits}{culprit}{accepted}", self.stage)
    }

    fn said_of_failures(&self) -> String {
        let of = |own: &Failing| {
            let Counts { runs, failed, damaged } = own.own;
            let damaged = if damaged > 0 { format!(", {damaged} of them damaged data,") } else { String::new() };
            let Counts { runs: beside, failed: theirs, .. } = own.reference;
            format!(
                "{failed} of {runs} runs failed{damaged} in {}, of the reference {theirs} of {beside}",
                own.scenario
            )
        };
        let all: Vec<String> = self.failing.iter().map(of).collect();
        let since = self.failing.iter().map(|own| own.since.runs).min().unwrap_or_default();
        let visits = match (self.stage, self.visits) {
            (Stage::Regressed, 0) => String::new(),
            (_, visits) => format!("; {since} runs since, {} of fresh trials", plural(visits, "visit")),
        };
        format!("{}, {} since {}{visits}{}", self.stage, all.join(" and "), day(self.bad), self.said_of_acceptance())
    }

    fn said_of_acceptance(&self) -> String {
        self.accepted.as_ref().map_or(String::new(), |(why, expires)| {
            let until = expires.map_or(String::new(), |expires| format!(" until {}", day(expires)));
            format!("; accepted{until}: {why}")
        })
    }
}
