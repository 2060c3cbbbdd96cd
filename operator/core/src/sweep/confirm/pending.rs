//! Which visit comes next.

use std::collections::BTreeMap;

use assay_api::Detect;
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answered, Confirmation};
use super::visit::{Asked, Asks, Visit};
use crate::sweep::detect::{Cause, Decision, Watched};
use crate::sweep::failing::Failing;
use crate::sweep::history::History;
use crate::sweep::level::LEARNED;
use crate::sweep::next::IMAGE;
use crate::sweep::point::{Night, Outcome};

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
    let (known, recoveries) = (history.confirmations(), history.recoveries());
    let open = known.values().chain(recoveries.values()).filter(|own| !own.is_over()).filter_map(|own| {
        let from = own.last.checked_add(promised.visit_gap).ok()?;
        Some(Pending { from, visit: own.visit.anew(own.count() + 1) })
    });
    let first = new(history, watched, &known, promised).or_else(|| recovery(history, watched, &recoveries, promised));
    open.chain(first).min_by_key(|pending| pending.from)
}

/// Begin of the confirmation that used up the yearly budget; `None` while another one may start.
pub fn spent_since(history: &History, promised: &Promised) -> Option<Timestamp> {
    let now = history.nights().next_back()?.night;
    let confirmations = history.confirmations();
    // All changes that one night has raised share its error and count once.
    let mut begun: BTreeMap<Timestamp, Timestamp> = BTreeMap::new();
    for ((raised, _), own) in confirmations {
        begun.entry(raised).or_insert(own.begun);
    }
    let recoveries = history.recoveries();
    let begun = begun.into_values().chain(recoveries.values().map(|own| own.begun));
    let mut within: Vec<Timestamp> = begun.filter(|begun| now.duration_since(*begun) < YEAR).collect();
    within.sort_unstable();
    within.last().copied().filter(|_| within.len() >= promised.per_year as usize)
}

/// Series that the next visit of its subject includes.
struct Suspect<'a> {
    watched: &'a Watched<'a>,
    raised: Timestamp,
    /// Earliest night that may be the first after the change; for a sum, the last night of the accepted level.
    earliest: Timestamp,
    first: Timestamp,
    shift: f64,
    is_sum: bool,
}

impl<'a> Suspect<'a> {
    fn of(watched: &'a Watched<'a>, last: &Night) -> Option<Self> {
        if let Some(sum) = watched.course.sum() {
            let (raised, earliest) = (last.night, sum.accepted);
            return Some(Self { watched, raised, earliest, first: sum.first, shift: sum.shift, is_sum: true });
        }
        let own = watched.suspicion.as_ref().filter(|suspicion| suspicion.cause == Cause::Subject)?;
        // A recovery visit compares an open regression with the version before it, so an improvement needs no visit.
        if own.shift > 0.0 && watched.course.regression().is_some_and(|regression| !regression.is_small) {
            return None;
        }
        let (raised, earliest) = (own.raised, *own.nights.first()?);
        Some(Self { watched, raised, earliest, first: own.first, shift: own.shift, is_sum: false })
    }

    fn asked(&self) -> Option<Asked> {
        let series = self.watched.series;
        Some(Asked {
            scenario: series.scenario.clone(),
            metric: series.metric.clone(),
            first: self.first,
            shift: self.shift,
            margin: self.watched.margin?,
            losses: Vec::new(),
        })
    }
}

/// First visit of the most strongly suspected change that has no confirmation.
fn new(
    history: &History,
    watched: &[Watched<'_>],
    known: &BTreeMap<(Timestamp, &str), Confirmation<'_>>,
    promised: &Promised,
) -> Option<Pending> {
    let last = history.last_measured()?;
    let mut changes: BTreeMap<&str, Vec<Suspect<'_>>> = BTreeMap::new();
    for own in watched {
        let subject = own.series.subject.as_str();
        // A series has one open confirmation at a time.
        let is_asked = |((_, of), confirmation): (&(Timestamp, &str), &Confirmation<'_>)| {
            *of == subject && !confirmation.is_over() && confirmation.asks(own.series)
        };
        if let Some(suspect) = Suspect::of(own, last).filter(|_| !known.iter().any(is_asked)) {
            changes.entry(subject).or_default().push(suspect);
        }
    }
    let raised = |all: &[Suspect<'_>]| all.iter().map(|own| own.raised).max();
    // All changes that one night has raised share its error and count once.
    let of_night = |night: Timestamp| changes.values().filter(|all| raised(all) == Some(night)).count();
    let visit = |(subject, all): &(&&str, &Vec<Suspect<'_>>)| {
        let raised = raised(all)?;
        if known.contains_key(&(raised, **subject)) {
            return None;
        }
        let before = known.iter().find(|((night, _), _)| *night == raised).map(|(_, own)| own.visit.alpha);
        if before.is_none() && spent_since(history, promised).is_some() {
            return None;
        }
        let is_sum = all.iter().any(|own| own.is_sum);
        let earliest = all.iter().filter(|own| own.is_sum == is_sum).map(|own| own.earliest).min()?;
        let good = if is_sum {
            accepted_good(history, last, subject, earliest)?
        } else {
            last_good(history, last, subject, earliest)?
        };
        if good.subject(subject)?.same(last.subject(subject)?) {
            return None;
        }
        let series: Vec<Asked> = all.iter().filter_map(Suspect::asked).collect();
        let alpha = before.unwrap_or_else(|| promised.alpha / of_night(raised) as f64);
        let visit = Visit {
            raised,
            subject: (**subject).to_owned(),
            asks: if is_sum { Asks::Sum } else { Asks::Step },
            number: 1,
            good: good.night,
            bad: last.night,
            alpha,
            spread: history.visit_spread(),
            series,
            failing: Vec::new(),
            search: None,
        };
        (!visit.series.is_empty()).then_some(Pending { from: last.night, visit })
    };
    let evidence = |(_, all): &(&&str, &Vec<Suspect<'_>>)| {
        let of = |own: &Suspect<'_>| if own.is_sum { f64::INFINITY } else { own.watched.course.evidence() };
        all.iter().map(of).fold(0.0, f64::max)
    };
    let mut strongest: Vec<_> = changes.iter().collect();
    strongest.sort_by(|a, b| evidence(b).total_cmp(&evidence(a)));
    strongest.iter().find_map(visit)
}

/// First visit of a recovery, if the latest nights suggest one. A recovery that failed is tried again after [`LEARNED`] nights.
fn recovery(
    history: &History,
    watched: &[Watched<'_>],
    recoveries: &BTreeMap<(String, Timestamp), Confirmation<'_>>,
    promised: &Promised,
) -> Option<Pending> {
    let last = history.last_measured()?;
    if spent_since(history, promised).is_some() {
        return None;
    }
    let is_due = |visit: &Visit| {
        let change = visit.change();
        let asked = recoveries.iter().filter(|((name, _), _)| *name == change).map(|(_, own)| own.last).max();
        let since = |asked| history.within(asked..).filter(|night| night.outcome == Outcome::Measured).count();
        asked.is_none_or(|asked| since(asked) >= LEARNED)
    };
    let confirmations = history.confirmations();
    let regressions = confirmations.values().filter(|own| own.is_over()).filter_map(|own| {
        let series: Vec<Asked> = own.answered().iter().filter_map(|answered| gone(answered, watched)).collect();
        let (alpha, spread) = (promised.alpha, history.visit_spread());
        let visit = Visit { asks: Asks::Recovery, bad: last.night, alpha, spread, series, ..own.visit.anew(1) };
        (!visit.series.is_empty()).then_some(visit)
    });
    let failures = history.changes_by_failures().into_values().filter_map(|all| {
        let gone: Vec<&Failing> = all.iter().filter(|own| own.seems_gone).collect();
        let (subject, first) = (&gone.first()?.subject, gone.iter().map(|own| own.first).min()?);
        Some(Visit {
            raised: gone.first()?.raised,
            subject: subject.clone(),
            asks: Asks::Recovery,
            number: 1,
            // A subject that failed in its first night has no good version, so the visit runs the present one twice.
            good: last_good(history, last, subject, first).unwrap_or(last).night,
            bad: last.night,
            alpha: promised.alpha,
            spread: 0.0,
            series: Vec::new(),
            failing: gone.iter().map(|own| own.scenario.clone()).collect(),
            search: None,
        })
    });
    failures.chain(regressions).find(is_due).map(|visit| Pending { from: last.night, visit })
}

/// Question about the recovery of a series that a confirmation found worse, if its latest nights suggest one.
fn gone(answered: &Answered, watched: &[Watched<'_>]) -> Option<Asked> {
    let is_harm = answered.decision == Some(Decision::Confirmed) && answered.asked.shift < 0.0;
    let course = &watched.iter().find(|watched| *watched.series == answered.series).filter(|_| is_harm)?.course;
    // The first of several regressions has the version that the series is compared with.
    course.regression().filter(|regression| regression.first == answered.asked.first)?;
    Some(Asked { first: course.seems_recovered()?, losses: Vec::new(), ..answered.asked.clone() })
}

/// Nights up to a time that measured the subject against the reference of the last one, in order.
fn comparable<'a>(
    history: &'a History,
    last: &'a Night,
    subject: &'a str,
    nights: impl std::ops::RangeBounds<Timestamp>,
) -> impl Iterator<Item = &'a Night> {
    let reference = last.reference.as_ref();
    let same = move |night: &&Night| {
        let both = night.reference.as_ref().zip(reference);
        both.is_some_and(|(own, last)| own.same(last)) && night.subject(subject).is_some()
    };
    history.within(nights).filter(same)
}

/// The last night before the change.
fn last_good<'a>(history: &'a History, last: &'a Night, subject: &'a str, first: Timestamp) -> Option<&'a Night> {
    comparable(history, last, subject, ..first).last()
}

/// Night with the accepted version: the last one at the beginning of the accepted level. If its image can't be pulled, the oldest later
/// night whose image can.
fn accepted_good<'a>(
    history: &'a History,
    last: &'a Night,
    subject: &'a str,
    accepted: Timestamp,
) -> Option<&'a Night> {
    let is_gone = |night: &Night| {
        let failed = history.nights().filter(|own| own.reason.as_deref() == Some(IMAGE));
        let tried = failed.filter_map(|own| own.visit.as_ref()).filter(|visit| visit.subject == subject);
        let tried = tried.filter_map(|visit| history.get(visit.good)?.subject(subject)).collect::<Vec<_>>();
        night.subject(subject).is_some_and(|own| tried.iter().any(|tried| tried.same(own)))
    };
    comparable(history, last, subject, accepted..).find(|night| !is_gone(night))
}
