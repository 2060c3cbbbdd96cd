//! Which visit of a search comes next.

use assay_api::Bisect;
use jiff::Timestamp;

use super::search::{Search, question};
use super::sought::{Sought, Unlisted, between};
use crate::bisect::Next;
use crate::sweep::confirm::{Asked, Change, Confirmation, Pending, Stage, Visit};
use crate::sweep::detect::{Decision, Watched};
use crate::sweep::history::History;

/// The visit that comes next, if one does: of the oldest open change that is searched, or can be. `watched` is what the history says now.
pub fn pending(history: &History, watched: &[Watched<'_>], bisect: &Bisect) -> Option<Pending> {
    let confirmations = history.confirmations();
    let open = history.changes(watched).into_iter().filter(is_searchable);
    open.into_iter().find_map(|change| {
        let confirmation = confirmations.get(&(change.raised, change.subject.as_str()))?;
        match history.hunt(confirmation) {
            Some(hunt) => {
                let number = confirmation.count() + (hunt.measured + hunt.failed) as u32 + 1;
                let search = Search::new(&hunt.next()?, Vec::new());
                let begun = history.nights().rev().filter_map(|night| night.visit.as_ref());
                let about = |visit: &&Visit| visit.search.is_some() && visit.change() == change.name;
                let visit = begun.into_iter().find(about)?.anew(number);
                Some(Pending { from: hunt.last, visit: Visit { search: Some(search), ..visit } })
            }
            None => first(history, confirmation, bisect),
        }
    })
}

/// Why a change that is to be searched is not.
pub fn unlisted(history: &History, change: &Change, bisect: &Bisect) -> Option<Unlisted> {
    if change.is_sum && change.stage == Stage::Regressed {
        return Some(Unlisted::ManySteps);
    }
    if !is_searchable(change) || change.finding.is_some() {
        return None;
    }
    versions(history, &change.subject, [change.good, change.bad], bisect)?.err()
}

/// Whether a change may have a single culprit that a metric shows.
fn is_searchable(change: &Change) -> bool {
    change.stage == Stage::Regressed && !change.is_sum && change.failing.is_empty()
}

/// All versions from that of a good night to that of a bad one; none where the history has lost one of the nights.
fn versions(
    history: &History,
    subject: &str,
    [good, bad]: [Timestamp; 2],
    bisect: &Bisect,
) -> Option<Result<Vec<Sought>, Unlisted>> {
    let side = |night| history.get(night)?.subject(subject);
    Some(between(bisect, side(good)?, side(bad)?))
}

/// The first visit of a search.
fn first(history: &History, confirmation: &Confirmation<'_>, bisect: &Bisect) -> Option<Pending> {
    let visit = confirmation.visit;
    let candidates = versions(history, &visit.subject, [visit.good, visit.bad], bisect)?.ok()?;
    let asked = worst(confirmation)?;
    let Next::Visit(probe) = question(&candidates, &asked, confirmation)?.next() else { return None };
    let (number, search) = (confirmation.count() + 1, Some(Search::new(&probe, candidates)));
    let series = vec![Asked { losses: Vec::new(), ..asked }];
    Some(Pending { from: confirmation.last, visit: Visit { number, series, search, ..visit.clone() } })
}

/// The series that has become worse by the most margins.
fn worst(confirmation: &Confirmation<'_>) -> Option<Asked> {
    let answered = confirmation.answered().into_iter();
    let worse = answered.filter(|own| own.decision == Some(Decision::Confirmed) && own.asked.shift < 0.0);
    let margins = |own: &Asked| own.shift.abs() / own.margin.max(f64::MIN_POSITIVE);
    worse.map(|own| own.asked).max_by(|a, b| margins(a).total_cmp(&margins(b)))
}
