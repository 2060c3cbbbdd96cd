//! Which visit comes next.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::Detect;
use jiff::{SignedDuration, Timestamp};

use super::answer::Confirmation;
use super::visit::{Asked, Visit};
use crate::sweep::detect::{Cause, Suspicion, Watched};
use crate::sweep::history::History;
use crate::sweep::point::Night;

/// The largest chance of an error of a confirmation: a less sure one confirms nothing.
pub const UNSUREST: f64 = 0.1;
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// What a sweep promises of its alerts, and what it may do for that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promised {
    /// The chance that a confirmation confirms something although nothing has changed.
    pub alpha: f64,
    /// The most nights a year whose suspicions are confirmed.
    pub per_year: u32,
    /// From the begin of one visit to the next of the same change.
    pub visit_gap: SignedDuration,
}

impl Promised {
    /// Of fields that are sound.
    pub fn of(detect: &Detect) -> Self {
        let declared = detect.false_alerts_per_year.as_deref().map(|number| number.parse().unwrap_or(0.0));
        let confirmations = f64::from(detect.confirmations_per_year);
        Self {
            alpha: declared.unwrap_or_else(|| f64::min(1.0, confirmations * UNSUREST)) / confirmations,
            per_year: detect.confirmations_per_year,
            visit_gap: SignedDuration::from_secs(detect.visit_gap_seconds.into()),
        }
    }
}

/// A visit to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Not earlier.
    pub from: Timestamp,
    pub visit: Visit,
}

/// The visit that comes next, if one does. `watched` is what the history says now.
pub fn pending(history: &History, watched: &[Watched<'_>], promised: &Promised) -> Option<Pending> {
    let known = history.confirmations();
    let open = known.values().filter(|own| !own.is_over()).filter_map(|own| {
        let from = own.last.checked_add(promised.visit_gap).ok()?;
        Some(Pending { from, visit: own.visit.anew(own.count() + 1) })
    });
    open.chain(new(history, watched, &known, promised)).min_by_key(|pending| pending.from)
}

/// Whether no more suspicions are confirmed, because so many were within a year.
pub fn is_spent(history: &History, promised: &Promised) -> bool {
    let Some(now) = history.nights().next_back().map(|night| night.night) else { return false };
    let begun: BTreeSet<Timestamp> = history
        .confirmations()
        .iter()
        .filter(|(_, own)| now.duration_since(own.begun) < YEAR)
        .map(|((raised, _), _)| *raised)
        .collect();
    begun.len() >= promised.per_year as usize
}

/// The first visit of a change that no confirmation is about.
fn new(
    history: &History,
    watched: &[Watched<'_>],
    known: &BTreeMap<(Timestamp, &str), Confirmation<'_>>,
    promised: &Promised,
) -> Option<Pending> {
    let last = history.last_measured()?;
    let mut changes: BTreeMap<&str, Vec<(&Watched<'_>, &Suspicion)>> = BTreeMap::new();
    for own in watched {
        let Some(suspicion) = own.suspicion.as_ref().filter(|suspicion| suspicion.cause == Cause::Subject) else {
            continue;
        };
        let subject = own.series.subject.as_str();
        // What is being confirmed is not asked about twice.
        let is_asked = |((_, of), confirmation): (&(Timestamp, &str), &Confirmation<'_>)| {
            *of == subject && !confirmation.is_over() && confirmation.asks(own.series)
        };
        if !known.iter().any(is_asked) {
            changes.entry(subject).or_default().push((own, suspicion));
        }
    }
    let raised = |all: &Vec<(&Watched<'_>, &Suspicion)>| all.iter().map(|(_, suspicion)| suspicion.raised).max();
    // All changes that one night has raised share its error and count once.
    let of_night = |night: Timestamp| changes.values().filter(|all| raised(all) == Some(night)).count();
    let visit = |(subject, all): (&&str, &Vec<(&Watched<'_>, &Suspicion)>)| {
        let raised = raised(all)?;
        if known.contains_key(&(raised, *subject)) {
            return None;
        }
        let before = known.iter().find(|((night, _), _)| *night == raised).map(|(_, own)| own.visit.alpha);
        if before.is_none() && is_spent(history, promised) {
            return None;
        }
        let first = all.iter().filter_map(|(_, suspicion)| suspicion.nights.first()).min()?;
        let good = last_good(history, last, subject, *first)?;
        if good.subject(subject)?.same(last.subject(subject)?) {
            return None;
        }
        let asked = |(own, suspicion): &(&Watched<'_>, &Suspicion)| {
            Some(Asked {
                scenario: own.series.scenario.clone(),
                metric: own.series.metric.clone(),
                first: suspicion.first,
                shift: suspicion.shift,
                margin: own.margin?,
                losses: Vec::new(),
            })
        };
        let series: Vec<Asked> = all.iter().filter_map(asked).collect();
        let alpha = before.unwrap_or_else(|| promised.alpha / of_night(raised) as f64);
        let (good, bad) = (good.night, last.night);
        let visit = Visit { raised, subject: (*subject).to_owned(), number: 1, good, bad, alpha, series, search: None };
        (!visit.series.is_empty()).then_some(Pending { from: last.night, visit })
    };
    changes.iter().find_map(visit)
}

/// The last night before the change that measured the subject against the reference of the last one.
fn last_good<'a>(history: &'a History, last: &Night, subject: &str, first: Timestamp) -> Option<&'a Night> {
    let reference = last.reference.as_ref()?;
    let same = |night: &&Night| night.reference.as_ref().is_some_and(|own| own.same(reference));
    history.within(..first).filter(same).filter(|night| night.subject(subject).is_some()).last()
}
