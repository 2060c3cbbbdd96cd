//! What the visits of a confirmation say.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::spread::room;
use super::visit::{Asked, Asks, Visit};
use crate::stats::{Shift, at_least, exceeds, holm, is_below};
use crate::sweep::detect::{Answer, Decision};
use crate::sweep::failing::VISITS as FAILURE_VISITS;
use crate::sweep::history::History;
use crate::sweep::point::{Outcome, Series};

/// Measured visits after which a confirmation is looked at: what is open then is looked at once more, with as many again. Each look spends
/// half of the error.
pub(super) const LOOKS: [usize; 2] = [2, 4];
/// Visits of a change that may fail.
pub(super) const MOST_FAILED: usize = 3;
/// A change has to exceed this part of the margin at least: visits may differ by some of it before they surely do.
pub(super) const SESSION: f64 = 1.0 / 6.0;
/// One that is surely below this part of the margin is refuted, with this error.
const NOTHING: f64 = 0.5;
const ERROR: f64 = 0.05;

/// All visits about a change.
#[derive(Clone, Debug)]
pub struct Confirmation<'a> {
    /// Those that measured something, in order, each with its time.
    pub visits: Vec<(Timestamp, &'a Visit)>,
    /// What its visits ask about.
    pub visit: &'a Visit,
    /// When it began, and the time of the last visit.
    pub begun: Timestamp,
    pub last: Timestamp,
    pub failed: usize,
}

/// What a confirmation says of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub series: Series,
    /// None while visits are missing.
    pub decision: Option<Decision>,
    /// How much the change is, on the scale of effects, where positive is better.
    pub shift: Option<f64>,
    /// Smallest change that visits like these confirm; set if the change is confirmed.
    pub bound: Option<f64>,
    /// p of the exact test, by all blocks, that the change exceeds the limit.
    pub p: f64,
    /// Change that chance between visits may bring about, as an effect.
    pub limit: f64,
    pub blocks: usize,
    pub asked: Asked,
}

impl History {
    /// All confirmations, by what they are about.
    pub fn confirmations(&self) -> BTreeMap<(Timestamp, &str), Confirmation<'_>> {
        self.visits(|visit| visit.is_confirmation().then_some((visit.raised, visit.subject.as_str())))
    }

    /// Recovery visits by the name of their change and the night whose subject they run.
    pub(in crate::sweep) fn recoveries(&self) -> BTreeMap<(String, Timestamp), Confirmation<'_>> {
        self.visits(|visit| (visit.asks == Asks::Recovery).then(|| (visit.change(), visit.bad)))
    }

    /// Groups visits that answer one question together, by the key that `about` returns.
    fn visits<'a, K: Ord>(&'a self, about: impl Fn(&'a Visit) -> Option<K>) -> BTreeMap<K, Confirmation<'a>> {
        let mut all: BTreeMap<K, Confirmation<'a>> = BTreeMap::new();
        for night in self.nights() {
            let Some((visit, about)) = night.visit.as_ref().and_then(|visit| Some((visit, about(visit)?))) else {
                continue;
            };
            // Where the first visits have fallen out, what is left can't be looked at as it was.
            if visit.number > 1 && !all.contains_key(&about) {
                continue;
            }
            let own = all.entry(about).or_insert_with(|| Confirmation {
                visits: Vec::new(),
                visit,
                begun: night.night,
                last: night.night,
                failed: 0,
            });
            own.last = night.night;
            match night.outcome {
                Outcome::Visited => own.visits.push((night.night, visit)),
                Outcome::Measured | Outcome::Skipped | Outcome::Gap | Outcome::Accepted => own.failed += 1,
            }
        }
        all
    }

    /// The margins that visits went by, by series.
    pub(in crate::sweep) fn confirmed_margins(&self) -> BTreeMap<Series, f64> {
        let all = self.confirmations();
        let asked =
            all.values().flat_map(|own| own.visit.series.iter().map(|asked| (own.visit.series(asked), asked.margin)));
        asked.collect()
    }

    /// Answers to suspicions, by series.
    pub fn answers(&self) -> BTreeMap<Series, Vec<Answer>> {
        let mut answers: BTreeMap<Series, Vec<Answer>> = BTreeMap::new();
        for confirmation in self.confirmations().values().filter(|own| own.is_over()) {
            let acceptance = self.acceptance(&confirmation.visit.change());
            let is_sum = confirmation.visit.asks == Asks::Sum;
            for answered in confirmation.answered() {
                let Some(decision) = answered.decision else { continue };
                let first = answered.asked.first;
                let own = answers.entry(answered.series).or_default();
                own.push(Answer { first, known: confirmation.last, decision, shift: answered.shift, is_sum });
                if let Some(night) = acceptance.filter(|_| decision == Decision::Confirmed) {
                    let (known, decision) = (night.night, Decision::Accepted);
                    own.push(Answer { first, known, decision, shift: None, is_sum });
                }
            }
        }
        for recovery in self.recoveries().values() {
            // A recovery counts once its visits refute the loss, as they would refute a wrong suspicion.
            let is_gone = |own: &Answered| own.decision == Some(Decision::Refuted);
            for answered in recovery.answered().into_iter().filter(is_gone) {
                let (first, known, decision) = (answered.asked.first, recovery.last, Decision::Recovered);
                let answer = Answer { first, known, decision, shift: None, is_sum: false };
                answers.entry(answered.series).or_default().push(answer);
            }
        }
        for own in answers.values_mut() {
            own.sort_by_key(|answer| answer.known);
        }
        answers
    }
}

impl Confirmation<'_> {
    /// Visits begun.
    pub(in crate::sweep) fn count(&self) -> u32 {
        (self.visits.len() + self.failed) as u32
    }

    /// Whether no more visits come.
    pub fn is_over(&self) -> bool {
        let is_answered = if self.visit.failing.is_empty() {
            self.answered().iter().all(|own| own.decision.is_some())
        } else {
            self.visits.len() >= FAILURE_VISITS
        };
        self.has_failed() || self.visits.len() >= LOOKS[1] || is_answered
    }

    pub fn has_failed(&self) -> bool {
        self.failed >= MOST_FAILED
    }

    pub(super) fn asks(&self, series: &Series) -> bool {
        self.visit.series.iter().any(|asked| self.visit.series(asked) == *series)
    }

    /// What it says of each series, in the order of its visits.
    pub fn answered(&self) -> Vec<Answered> {
        let first = self.visit;
        let mut decisions = vec![None; first.series.len()];
        for (number, look) in LOOKS.into_iter().enumerate().filter(|(_, look)| self.visits.len() >= *look) {
            let alpha = first.alpha / LOOKS.len() as f64;
            let is_last = number + 1 == LOOKS.len();
            for (decision, new) in decisions.iter_mut().zip(self.look(look, alpha)) {
                let open = if is_last { Some(Decision::Undecided) } else { None };
                *decision = decision.or(new).or(open);
            }
        }
        if self.has_failed() {
            for decision in &mut decisions {
                *decision = decision.or(Some(Decision::Undecided));
            }
        }
        let of = |(asked, decision): (&Asked, Option<Decision>)| {
            let (towards, direction) = (self.towards(asked, self.visits.len()), asked.shift.signum());
            let shift = Shift::of(&towards);
            let error = first.alpha / (LOOKS.len() * first.series.len()) as f64;
            let limit = self.limit(asked, self.visits.len(), first.alpha / LOOKS.len() as f64);
            let least = || Some(at_least(&towards, error)? - limit);
            let bound = if decision == Some(Decision::Confirmed) { least() } else { None };
            Answered {
                series: first.series(asked),
                decision,
                shift: shift.map(|own| own.mean * direction),
                bound: bound.map(|own| own * direction),
                p: exceeds(&towards, limit),
                limit: limit * direction,
                blocks: towards.len(),
                asked: asked.clone(),
            }
        };
        first.series.iter().zip(decisions).map(of).collect()
    }

    /// Decisions by the first so many visits.
    fn look(&self, visits: usize, alpha: f64) -> Vec<Option<Decision>> {
        let p: Vec<f64> = self
            .visit
            .series
            .iter()
            .map(|asked| exceeds(&self.towards(asked, visits), self.limit(asked, visits, alpha)))
            .collect();
        let decide = |(asked, p): (&Asked, f64)| {
            let nothing = asked.margin * (NOTHING - room(self.visit.spread, visits, ERROR));
            let is_refuted = || is_below(&self.towards(asked, visits), nothing) <= ERROR;
            // In a recovery, a remaining loss below half a margin refutes the regression, even if that loss is proven.
            let is_recovery = self.visit.asks == Asks::Recovery;
            if p <= alpha && !(is_recovery && is_refuted()) {
                Some(Decision::Confirmed)
            } else {
                is_refuted().then_some(Decision::Refuted)
            }
        };
        self.visit.series.iter().zip(holm(&p)).map(decide).collect()
    }

    /// Loss that the mean of these visits has to exceed: chance alone moves it by less.
    fn limit(&self, asked: &Asked, visits: usize, error: f64) -> f64 {
        asked.margin * f64::max(SESSION, room(self.visit.spread, visits, error))
    }

    /// The blocks of the first so many visits, positive where the change is as it is suspected.
    fn towards(&self, asked: &Asked, visits: usize) -> Vec<f64> {
        self.losses(asked, visits).flatten().map(|loss| -loss * asked.shift.signum()).collect()
    }

    /// Losses in the blocks of the first visits, one slice for each visit.
    pub(super) fn losses(&self, asked: &Asked, visits: usize) -> impl Iterator<Item = &[f64]> {
        let same = |other: &&Asked| other.scenario == asked.scenario && other.metric == asked.metric;
        self.visits.iter().take(visits).filter_map(move |(_, visit)| Some(&*visit.series.iter().find(same)?.losses))
    }
}
