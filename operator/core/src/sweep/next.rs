//! What a sweep does next, as a pure function of what is there and of the time.
//!
//! Whatever was done is read from what it left behind: nights in the history, experiments of nights, and last the status, which may be
//! lost or late. So a step that was interrupted anywhere is either done or taken again, and no night begins twice.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::{Accept, bounds};
use assay_protocol::Digest;
use jiff::{SignedDuration, Timestamp};

use super::child::{Child, ChildState};
use super::confirm::{self, Confirmation, Pending, Visit};
use super::culprit;
use super::detect::{Decision, WATCHFUL, Watch};
use super::history::History;
use super::point::{Acceptance, Night, Outcome, Trigger, VERSION};
use super::schedule::Schedule;
use crate::status::shorten;

/// So many nights that are overdue get an entry each; of older ones the last entry tells.
const MOST_MISSED: usize = 32;
/// A night that begins this much after its time was caught up.
const LATE: SignedDuration = SignedDuration::from_mins(5);
/// Days have 23 to 25 hours where clocks are changed.
const DAYLIGHT: SignedDuration = SignedDuration::from_hours(2);

/// Why an experiment waits for an image that can't be pulled, and how long that of a visit does: a registry that restarts is back by then.
pub(super) const IMAGE: &str = "ImagePullFailed";
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// What of a sweep's spec decides when nights begin.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    pub schedule: &'a Schedule,
    pub suspended: bool,
    /// How late the first trial of a night may begin.
    pub deadline: Option<SignedDuration>,
    /// A night that is due ends one that runs.
    pub replace: bool,
    pub run_now: Option<&'a str>,
    /// The longest time between two measured nights.
    pub max_skip: SignedDuration,
    /// Changes that somebody takes as they are.
    pub accept: &'a [Accept],
}

/// What the history says about nights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remembered {
    /// All that are in it.
    pub nights: BTreeSet<Timestamp>,
    /// Nights before it may have fallen out; none have if it is not set.
    pub kept_from: Option<Timestamp>,
    /// Those of them that the schedule asked for.
    pub scheduled: BTreeSet<Timestamp>,
    /// Values of `runNow` that were answered.
    pub answered: BTreeSet<String>,
    /// What each measured night has measured, if that is known.
    pub measured: BTreeMap<Timestamp, Option<Digest>>,
    /// A series has too few nights to say where it stands.
    pub learning: bool,
    /// A series may have moved, and the next nights will tell.
    pub suspecting: bool,
    /// A series has no value of what was new in the last measured night.
    pub unseen: bool,
    /// The visit that comes next.
    pub visit: Option<Pending>,
    /// Changes that are confirmed, with what accepts them last.
    pub changes: BTreeMap<String, Option<Acceptance>>,
}

impl Remembered {
    pub fn of(history: &History, watch: &Watch) -> Self {
        let nights = || history.nights();
        let measured = nights().filter(|night| night.outcome == Outcome::Measured);
        let watched = history.watched(watch);
        let confirms = watch.promised.as_ref().and_then(|promised| confirm::pending(history, &watched, promised));
        let searches = watch.bisect.as_ref().and_then(|bisect| culprit::pending(history, &watched, bisect));
        let visit = confirms.into_iter().chain(searches).min_by_key(|pending| pending.from);
        Self {
            changes: confirmed(history),
            nights: nights().map(|night| night.night).collect(),
            kept_from: None,
            scheduled: nights().filter(|night| night.trigger.is_scheduled()).map(|night| night.night).collect(),
            answered: nights().filter_map(|night| night.run_now.clone()).collect(),
            measured: measured.map(|night| (night.night, night.key.clone())).collect(),
            learning: !history.learning().is_empty(),
            unseen: history.has_unseen(),
            suspecting: watched.iter().any(|watched| watched.course.evidence() >= WATCHFUL),
            visit,
        }
    }

    /// The last night that was measured by a time, and what it measured. A clock that was ahead may have left later ones.
    pub fn last_measured(&self, now: Timestamp) -> Option<(Timestamp, Option<&Digest>)> {
        self.measured.range(..=now).next_back().map(|(night, key)| (*night, key.as_ref()))
    }

    /// What is to be accepted and is not in the history yet. Only a change that is confirmed can be accepted.
    fn to_accept<'a>(&self, accept: &'a [Accept]) -> Option<&'a Accept> {
        accept.iter().find(|own| {
            let known = self.changes.get(&own.change);
            known.is_some_and(|last| last.as_ref().is_none_or(|last| *last != Acceptance::of(own)))
        })
    }

    /// Whether another night of the same tells something.
    fn is_curious(&self) -> bool {
        self.learning || self.suspecting || self.unseen
    }
}

/// Changes that are confirmed or need no confirmation, with their last acceptance.
fn confirmed(history: &History) -> BTreeMap<String, Option<Acceptance>> {
    let is_confirmed = |own: &&Confirmation<'_>| {
        own.is_over() && own.answered().iter().any(|answered| answered.decision == Some(Decision::Confirmed))
    };
    let last = |change: &str| {
        let accepted = history.nights().rev().filter_map(|night| night.accepted.as_ref());
        accepted.into_iter().find(|accepted| accepted.change == change).cloned()
    };
    let named = history.confirmations();
    let confirmed = named.values().filter(is_confirmed).map(|own| own.visit.change());
    confirmed.chain(history.changes_by_failures().into_keys()).map(|name| (name.clone(), last(&name))).collect()
}

/// What would be measured tonight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tonight {
    /// Tags have not been looked up for the night that is due.
    Unresolved,
    /// They are being looked up; why it takes long, in a word and in words.
    Resolving { reason: String, message: String },
    /// The digest of all images, configs and workloads.
    Known(Digest),
    /// They can't be: a reason in a word, and in words.
    Failed { reason: String, message: String },
}

/// All that decides what comes next.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub now: Timestamp,
    pub rules: Rules<'a>,
    /// Nights before this are nobody's: when the sweep was created, or got its schedule.
    pub since: Timestamp,
    /// The last night that the status says was begun or decided.
    pub last_scheduled: Option<Timestamp>,
    /// The value of `runNow` that the status says was answered.
    pub last_manual: Option<&'a str>,
    /// Experiments by the time of their night.
    pub children: &'a BTreeMap<Timestamp, Child>,
    /// A night that the status says runs, and whose experiment is certainly gone.
    pub lost: Option<Timestamp>,
    pub remembered: &'a Remembered,
    pub tonight: Tonight,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read what a finished night has measured, and add it to the history.
    Collect(Timestamp),
    /// Add a night to the history that measured nothing.
    Record(Box<Unmeasured>),
    /// Delete the experiment of a night that is in the history as ended, or was in it, or that was altered.
    End(Timestamp),
    /// Look up what the tags of images mean now.
    Resolve(Timestamp, Trigger),
    /// Create the experiment of a night.
    Begin { night: Timestamp, trigger: Trigger, run_now: Option<String> },
    /// Create the experiment of a visit.
    Confirm(Timestamp, Box<Visit>),
    /// Nothing, until this minute: the present one has its entry, by which entries are told apart.
    Taken(Timestamp),
    /// Nothing, until then.
    Wait(Option<Timestamp>),
}

/// A night that measured nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmeasured {
    pub night: Timestamp,
    pub trigger: Trigger,
    pub run_now: Option<String>,
    /// What a visit was to ask.
    pub visit: Option<Visit>,
    pub accepted: Option<Acceptance>,
    pub outcome: Outcome,
    /// In a word.
    pub reason: String,
    pub message: String,
}

impl Unmeasured {
    /// The entry of a change that somebody accepts.
    pub fn accepting(minute: Timestamp, accept: &Accept) -> Self {
        let own = unmeasured(minute, Trigger::Manual, None, Outcome::Accepted, "", &accept.reason);
        Self { accepted: Some(Acceptance::of(accept)), ..own }
    }

    /// Its entry in the history.
    pub fn night(&self, sweep: &str) -> Night {
        Night {
            version: VERSION,
            sweep: sweep.to_owned(),
            night: self.night,
            trigger: self.trigger,
            run_now: self.run_now.clone(),
            outcome: self.outcome,
            reason: (self.outcome != Outcome::Accepted).then(|| self.reason.clone()),
            message: Some(within(&self.message, bounds::MESSAGE)),
            experiment: None,
            key: None,
            fingerprint: None,
            reference: None,
            subjects: Vec::new(),
            points: Vec::new(),
            gaps: Vec::new(),
            failures: Vec::new(),
            visit: self.visit.clone(),
            accepted: self.accepted.clone(),
        }
    }
}

/// A text in so many bytes, which are what a line of the history has room for.
pub(super) fn within(text: &str, bytes: usize) -> String {
    let ascii: String = text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
    shorten(if text.len() > bytes { &ascii } else { text }, bytes)
}

/// The next step. Whoever takes it asks again.
pub fn next(observed: &Observed<'_>) -> Step {
    let recorded = |night: &Timestamp| observed.remembered.nights.contains(night);
    for (night, child) in observed.children {
        match (recorded(night), &child.state) {
            // Treated like a deleted one: its annotations can't be trusted.
            (_, ChildState::Altered) => return Step::End(*night),
            // It was ended, or its name came back with an old copy of the history.
            (true, ChildState::Waiting { .. } | ChildState::Running | ChildState::Stuck { .. }) => {
                return Step::End(*night);
            }
            // Added again, it would take the place of a later night, whose experiment is the next to be added again.
            (false, ChildState::Finished) if observed.remembered.kept_from.is_some_and(|kept| *night < kept) => {
                return Step::End(*night);
            }
            (false, ChildState::Finished) => return Step::Collect(*night),
            (true, ChildState::Finished)
            | (false, ChildState::Waiting { .. } | ChildState::Running | ChildState::Stuck { .. }) => {}
        }
    }
    if let Some(night) = observed.lost.filter(|night| !recorded(night) && !observed.children.contains_key(night)) {
        let message = "its experiment was deleted, or changed and then ended, before it had finished";
        let (trigger, run_now) = observed.origin(night);
        return record(unmeasured(night, trigger, run_now, Outcome::Gap, "Deleted", message));
    }
    let active = observed.children.iter().find(|(night, _)| !recorded(night));
    if let Some((night, child)) = active
        && let Some(step) = observed.ends(*night, child)
    {
        return step;
    }
    if let Some(accept) = observed.remembered.to_accept(observed.rules.accept) {
        return observed.accept(accept);
    }
    match observed.overdue().split_first() {
        Some((due, older)) => observed.due(*due, older, active.map(|(night, _)| *night)),
        None => observed.manual(active.is_some()),
    }
}

impl Observed<'_> {
    /// Nights that are due and have no entry, the latest first.
    fn overdue(&self) -> Vec<Timestamp> {
        let of_children =
            self.children.iter().filter(|(_, child)| child.trigger.is_scheduled()).map(|(night, _)| *night);
        let known = self.remembered.scheduled.iter().copied().chain(of_children).chain(self.last_scheduled);
        // A clock that was set back must not silence the schedule until it has caught up.
        let considered = known.filter(|night| *night <= self.now).chain([self.since]).max().unwrap_or(self.since);
        let mut overdue = Vec::new();
        let mut until = self.now;
        while overdue.len() <= MOST_MISSED
            && let Some(due) = self.rules.schedule.last_until(until).filter(|due| *due > considered)
        {
            overdue.push(due);
            let Some(before) = due.checked_sub(SignedDuration::from_secs(1)).ok() else { break };
            until = before;
        }
        overdue.retain(|due| !self.remembered.nights.contains(due) && !self.children.contains_key(due));
        overdue
    }

    /// Why a night had begun of which nothing is left but its time. Whoever asked for it waits for an answer.
    fn origin(&self, night: Timestamp) -> (Trigger, Option<String>) {
        if self.rules.schedule.last_until(night) == Some(night) {
            return (Trigger::Schedule, None);
        }
        let open = |token: &&str| !self.remembered.answered.contains(*token);
        (Trigger::Manual, self.last_manual.filter(open).map(str::to_owned))
    }

    /// How a night that has begun ends before its time.
    fn ends(&self, night: Timestamp, child: &Child) -> Option<Step> {
        let is_followed = self.overdue().iter().any(|due| *due > night);
        let (reason, message) = match &child.state {
            ChildState::Stuck { reason, message } if is_followed => {
                return Some(record(child.gap(night, reason, &format!("{message}; the next night is due"))));
            }
            ChildState::Waiting { reason, message } => (reason, message),
            ChildState::Stuck { .. } | ChildState::Running | ChildState::Finished | ChildState::Altered => return None,
        };
        // A version of a visit is not pushed once more.
        if child.visit.is_some() && reason == IMAGE && self.now.duration_since(night) > PATIENCE {
            return Some(record(child.gap(night, reason, message)));
        }
        let late = self.rules.deadline.is_some_and(|deadline| self.now.duration_since(child.asked(night)) > deadline);
        // Nothing is lost with it, and the next one may have more luck.
        if !late && !is_followed {
            return None;
        }
        let after = if late { "startingDeadlineSeconds" } else { "the time until the next night" };
        let message = format!("no trial has begun within {after}: {message}");
        Some(record(child.gap(night, reason, &message)))
    }

    fn due(&self, due: Timestamp, older: &[Timestamp], active: Option<Timestamp>) -> Step {
        let skipped = |night: Timestamp, reason: &str, message: &str| {
            record(unmeasured(night, Trigger::Schedule, None, Outcome::Skipped, reason, message))
        };
        // The oldest first, so that an interruption leaves none out.
        if let Some(oldest) = older.last() {
            let more = if older.len() >= MOST_MISSED { "; nights before it may have been missed, too" } else { "" };
            if self.rules.suspended {
                return skipped(*oldest, "Suspended", &format!("the sweep was suspended{more}"));
            }
            if active.is_some_and(|active| active < *oldest) && !self.rules.replace {
                return skipped(*oldest, "PreviousRunning", &format!("the night before it still ran{more}"));
            }
            let message = format!("nothing ran it in time, and a later night is due{more}");
            return record(unmeasured(*oldest, Trigger::Schedule, None, Outcome::Gap, "Missed", &message));
        }
        if self.rules.suspended {
            return skipped(due, "Suspended", "the sweep is suspended");
        }
        let late = self.now.duration_since(due);
        if self.rules.deadline.is_some_and(|deadline| late > deadline) {
            // What kept it says more than that it is late.
            if let Tonight::Resolving { reason, message } | Tonight::Failed { reason, message } = &self.tonight {
                let message = format!("its images were not known within startingDeadlineSeconds: {message}");
                return record(unmeasured(due, Trigger::Schedule, None, Outcome::Gap, reason, &message));
            }
            let message = format!(
                "it could begin only {} s after its time, which is later than startingDeadlineSeconds allows",
                late.as_secs()
            );
            return record(unmeasured(due, Trigger::Schedule, None, Outcome::Gap, "Missed", &message));
        }
        let trigger = if late > LATE { Trigger::CatchUp } else { Trigger::Schedule };
        if let Some(active) = active {
            if !self.rules.replace {
                return skipped(due, "PreviousRunning", &format!("the night of {active} still runs"));
            }
            let child = &self.children[&active];
            let message = format!("the night of {due} was due, and concurrencyPolicy is Replace");
            return record(child.gap(active, "Replaced", &message));
        }
        match &self.tonight {
            Tonight::Unresolved => Step::Resolve(due, trigger),
            Tonight::Resolving { .. } => {
                Step::Wait(self.deadline_of(due).into_iter().chain(self.rules.schedule.next_after(self.now)).min())
            }
            Tonight::Failed { reason, message } => {
                record(unmeasured(due, trigger, None, Outcome::Gap, reason, message))
            }
            Tonight::Known(key) => match self.remembered.last_measured(self.now) {
                Some((last, measured)) if measured == Some(key) && !self.remembered.is_curious() => {
                    let next = self.rules.schedule.next_after(due);
                    if next.is_some_and(|next| next.duration_since(last) <= self.rules.max_skip + DAYLIGHT) {
                        return skipped(due, "Unchanged", &format!("nothing has changed since the night of {last}"));
                    }
                    Step::Begin { night: due, trigger: Trigger::Canary, run_now: None }
                }
                _ => Step::Begin { night: due, trigger, run_now: None },
            },
        }
    }

    /// A night that somebody asked for, or nothing.
    fn manual(&self, is_active: bool) -> Step {
        let next = self.rules.schedule.next_after(self.now);
        let token = self.rules.run_now.filter(|token| {
            let of_child = |child: &Child| child.run_now.as_deref() == Some(token);
            self.last_manual != Some(token)
                && !self.remembered.answered.contains(*token)
                && !self.children.values().any(of_child)
        });
        let Some(token) = token.filter(|_| !is_active) else { return self.visit(is_active, next) };
        let minute = match self.minute() {
            Ok(minute) => minute,
            Err(taken) => return taken,
        };
        match &self.tonight {
            Tonight::Unresolved => Step::Resolve(minute, Trigger::Manual),
            Tonight::Resolving { .. } => Step::Wait(next),
            Tonight::Failed { reason, message } => {
                let token = Some(token.to_owned());
                record(unmeasured(minute, Trigger::Manual, token, Outcome::Gap, reason, message))
            }
            Tonight::Known(_) => {
                Step::Begin { night: minute, trigger: Trigger::Manual, run_now: Some(token.to_owned()) }
            }
        }
    }

    /// The entry of a change that is accepted.
    fn accept(&self, accept: &Accept) -> Step {
        let minute = match self.minute() {
            Ok(minute) => minute,
            Err(taken) => return taken,
        };
        record(Unmeasured::accepting(minute, accept))
    }

    /// A visit that is due, or nothing.
    fn visit(&self, is_active: bool, next: Option<Timestamp>) -> Step {
        let wait = Step::Wait(self.deadline_of_active(next));
        let Some(pending) = self.remembered.visit.as_ref().filter(|_| !is_active && !self.rules.suspended) else {
            return wait;
        };
        if self.now < pending.from {
            return Step::Wait(next.into_iter().chain([pending.from]).min());
        }
        self.minute().map_or_else(|taken| taken, |minute| Step::Confirm(minute, Box::new(pending.visit.clone())))
    }

    /// The minute of an entry that begins now, or the wait for the next one.
    fn minute(&self) -> Result<Timestamp, Step> {
        let minute = Timestamp::from_second(self.now.as_second() / 60 * 60).unwrap_or(self.now);
        if self.remembered.nights.contains(&minute) || self.children.contains_key(&minute) {
            return Err(minute.checked_add(SignedDuration::from_mins(1)).map_or(Step::Wait(None), Step::Taken));
        }
        Ok(minute)
    }

    /// When to look again: at the next night, or when the one that waits must have begun.
    fn deadline_of_active(&self, next: Option<Timestamp>) -> Option<Timestamp> {
        let waiting = self.children.iter().filter(|(_, child)| matches!(child.state, ChildState::Waiting { .. }));
        let until = |(night, child): (&Timestamp, &Child)| {
            let patience = child.visit.as_ref().and_then(|_| after(*night, PATIENCE)).filter(|until| *until > self.now);
            patience.into_iter().chain(self.deadline_of(child.asked(*night))).min()
        };
        waiting.filter_map(until).chain(next).min()
    }

    /// When the deadline of a night has passed.
    fn deadline_of(&self, night: Timestamp) -> Option<Timestamp> {
        after(night, self.rules.deadline?)
    }
}

impl Child {
    /// When it was asked for at the latest: one that no schedule asks for is named by the minute in which that was.
    fn asked(&self, night: Timestamp) -> Timestamp {
        let rest = SignedDuration::from_secs(if self.trigger.is_scheduled() { 0 } else { 59 });
        night.checked_add(rest).unwrap_or(night)
    }

    /// The entry of one that has ended without a result.
    fn gap(&self, night: Timestamp, reason: &str, message: &str) -> Unmeasured {
        let gap = unmeasured(night, self.trigger, self.run_now.clone(), Outcome::Gap, reason, message);
        Unmeasured { visit: self.visit.clone(), ..gap }
    }
}

/// The first second after a time since a night.
fn after(night: Timestamp, time: SignedDuration) -> Option<Timestamp> {
    night.checked_add(time.checked_add(SignedDuration::from_secs(1))?).ok()
}

fn record(unmeasured: Unmeasured) -> Step {
    Step::Record(Box::new(unmeasured))
}

fn unmeasured(
    night: Timestamp,
    trigger: Trigger,
    run_now: Option<String>,
    outcome: Outcome,
    reason: &str,
    message: &str,
) -> Unmeasured {
    Unmeasured {
        night,
        trigger,
        run_now,
        visit: None,
        accepted: None,
        outcome,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::child::NOTHING_VALID;
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-11-26T{time}Z").parse().expect("a time")
    }

    static NONE: BTreeMap<Timestamp, Child> = BTreeMap::new();

    /// A time at which the night of 01:17 is due and may begin for five minutes.
    fn observed<'a>(now: &str, schedule: &'a Schedule, remembered: &'a Remembered, tonight: Tonight) -> Observed<'a> {
        let rules = Rules {
            schedule,
            suspended: false,
            deadline: Some(SignedDuration::from_mins(5)),
            replace: false,
            run_now: None,
            max_skip: SignedDuration::from_hours(24),
            accept: &[],
        };
        Observed {
            now: at(now),
            rules,
            since: at("00:00:00"),
            last_scheduled: None,
            last_manual: None,
            children: &NONE,
            lost: None,
            remembered,
            tonight,
        }
    }

    fn due(now: &str, remembered: &Remembered, tonight: Tonight) -> Step {
        let schedule = Schedule::parse("17 1 * * *", "Etc/UTC", at(now)).expect("a schedule");
        next(&observed(now, &schedule, remembered, tonight))
    }

    #[test]
    fn a_night_of_the_same_is_skipped_unless_it_tells_something() {
        let key = Digest::of(b"tonight");
        let reason = |change: fn(&mut Remembered)| {
            let before: Timestamp = "2026-11-25T23:17:00Z".parse().expect("a time");
            let measured = BTreeMap::from([(before, Some(key.clone()))]);
            let mut remembered = Remembered { measured, ..Remembered::default() };
            change(&mut remembered);
            match due("01:17:30", &remembered, Tonight::Known(key.clone())) {
                Step::Record(skipped) => skipped.reason,
                step => format!("{step:?}"),
            }
        };
        assert_eq!(reason(|_| ()), "Unchanged");
        let changes: [fn(&mut Remembered); 4] = [
            |own| own.learning = true,
            |own| own.suspecting = true,
            |own| own.unseen = true,
            |own| _ = own.measured.insert("2026-11-25T23:18:00Z".parse().expect("a time"), None),
        ];
        for change in changes {
            assert!(reason(change).starts_with("Begin"), "{}", reason(change));
        }
    }

    #[test]
    fn a_night_that_has_fallen_out_is_not_added_again() {
        let schedule = Schedule::parse("17 1 * * *", "Etc/UTC", at("00:00:00")).expect("a schedule");
        let child = Child { trigger: Trigger::Schedule, run_now: None, visit: None, state: ChildState::Finished };
        let children = BTreeMap::from([(at("00:30:00"), child)]);
        let with = |kept_from: Option<&str>| {
            let remembered = Remembered { kept_from: kept_from.map(at), ..Remembered::default() };
            let observed = observed("01:00:00", &schedule, &remembered, Tonight::Unresolved);
            next(&Observed { children: &children, ..observed })
        };
        assert_eq!(with(Some("00:31:00")), Step::End(at("00:30:00")));
        assert_eq!(with(Some("00:29:00")), Step::Collect(at("00:30:00")));
        assert_eq!(with(None), Step::Collect(at("00:30:00")));
    }

    #[test]
    fn whoever_asked_for_a_night_that_was_deleted_is_answered() {
        let schedule = Schedule::parse("17 1 * * *", "Etc/UTC", at("00:00:00")).expect("a schedule");
        let lost = |night: &str, answered: &[&str]| {
            let answered = answered.iter().map(|token| (*token).to_owned()).collect();
            let remembered = Remembered { answered, ..Remembered::default() };
            let mut observed = observed("01:17:30", &schedule, &remembered, Tonight::Unresolved);
            (observed.lost, observed.last_manual) = (Some(at(night)), Some("please"));
            let step = next(&observed);
            let Step::Record(gap) = step else { panic!("{step:?}") };
            assert_eq!((gap.night, gap.outcome, gap.reason.as_str()), (at(night), Outcome::Gap, "Deleted"));
            (gap.trigger, gap.run_now)
        };
        assert_eq!(lost("01:05:00", &[]), (Trigger::Manual, Some("please".to_owned())));
        assert_eq!(lost("01:05:00", &["please"]), (Trigger::Manual, None));
        assert_eq!(lost("01:17:00", &[]), (Trigger::Schedule, None));
    }

    /// The clock was a year ahead when the last night was measured.
    #[test]
    fn a_night_that_a_clock_measured_too_early_does_not_stand_for_those_before_it() {
        let key = Digest::of(b"tonight");
        let after = |nights: &[&str]| {
            let measured = nights.iter().map(|night| (night.parse().expect("a time"), Some(key.clone()))).collect();
            due("01:17:30", &Remembered { measured, ..Remembered::default() }, Tonight::Known(key.clone()))
        };
        let begun = |trigger| Step::Begin { night: at("01:17:00"), trigger, run_now: None };
        assert_eq!(after(&["2027-11-26T01:17:00Z"]), begun(Trigger::Schedule));
        assert_eq!(after(&["2026-11-20T01:17:00Z", "2027-11-26T01:17:00Z"]), begun(Trigger::Canary));
        let skipped = after(&["2026-11-25T23:17:00Z", "2027-11-26T01:17:00Z"]);
        let Step::Record(skipped) = skipped else { panic!("{skipped:?}") };
        assert_eq!((skipped.reason.as_str(), skipped.message.ends_with("2026-11-25T23:17:00Z")), ("Unchanged", true));
    }

    #[test]
    fn a_visit_whose_image_can_not_be_pulled_ends_before_its_night_would() {
        let schedule = Schedule::parse("17 1 * * *", "Etc/UTC", at("00:00:00")).expect("a schedule");
        let asked = json!({"scenario": "fill", "metric": "throughput", "first": at("00:00:00"), "shift": -0.05, "margin": 0.03});
        let visit: Visit = serde_json::from_value(json!({
            "raised": at("00:00:00"), "subject": "main", "number": 3, "good": at("00:00:00"), "bad": at("00:00:00"),
            "alpha": 0.02, "series": [asked],
        }))
        .expect("a visit");
        let step = |now: &str, visit: Option<Visit>, reason: &str| {
            let state = ChildState::Waiting { reason: reason.to_owned(), message: "no such tag".to_owned() };
            let child = Child { trigger: Trigger::Confirmation, run_now: None, visit, state };
            let (children, remembered) = (BTreeMap::from([(at("02:00:00"), child)]), Remembered::default());
            let mut observed = observed(now, &schedule, &remembered, Tonight::Unresolved);
            (observed.rules.deadline, observed.last_scheduled) = (None, Some(at("01:17:00")));
            next(&Observed { children: &children, ..observed })
        };
        let until = Step::Wait(Some(at("02:10:01")));
        assert_eq!(step("02:05:00", Some(visit.clone()), IMAGE), until);
        let Step::Record(gap) = step("02:10:01", Some(visit.clone()), IMAGE) else { panic!("it waits") };
        assert_eq!((gap.outcome, gap.reason.as_str(), gap.visit), (Outcome::Gap, IMAGE, Some(visit.clone())));
        // A night may have its image pushed once more, and nodes come back.
        for (visit, reason) in [(None, IMAGE), (Some(visit), "NodesMissing")] {
            assert!(matches!(step("02:10:01", visit, reason), Step::Wait(_)), "{reason}");
        }
    }

    #[test]
    fn a_night_that_is_stuck_ends_when_the_next_one_is_due() {
        let schedule = Schedule::parse("17 1 * * *", "Etc/UTC", at("00:00:00")).expect("a schedule");
        let step = |now: &str, state: ChildState| {
            let child = Child { trigger: Trigger::Manual, run_now: None, visit: None, state };
            let (children, remembered) = (BTreeMap::from([(at("00:30:00"), child)]), Remembered::default());
            let mut observed = observed(now, &schedule, &remembered, Tonight::Unresolved);
            observed.last_scheduled = Some(at("00:00:00"));
            next(&Observed { children: &children, ..observed })
        };
        for reason in [NOTHING_VALID, "PlanChanged", "NodesMissing"] {
            let stuck = || ChildState::Stuck { reason: reason.to_owned(), message: "nothing runs".to_owned() };
            assert_eq!(step("01:16:59", stuck()), Step::Wait(Some(at("01:17:00"))));
            let Step::Record(gap) = step("01:17:00", stuck()) else { panic!("it waits") };
            assert_eq!((gap.night, gap.outcome, gap.reason.as_str()), (at("00:30:00"), Outcome::Gap, reason));
            assert_eq!(gap.message, "nothing runs; the next night is due");
        }
        let Step::Record(skipped) = step("01:17:00", ChildState::Running) else { panic!("it waits") };
        assert_eq!((skipped.night, skipped.reason.as_str()), (at("01:17:00"), "PreviousRunning"));
    }

    /// Asked for in the last second of a minute, one had no time at all to begin in.
    #[test]
    fn a_night_that_somebody_asked_for_has_its_whole_time_to_begin_in() {
        let schedule = Schedule::parse("17 1 * * *", "Etc/UTC", at("02:00:00")).expect("a schedule");
        let step = |now: &str, trigger: Trigger| {
            let state = ChildState::Waiting { reason: "NotSeen".to_owned(), message: String::new() };
            let child = Child { trigger, run_now: None, visit: None, state };
            let (children, remembered) = (BTreeMap::from([(at("02:00:00"), child)]), Remembered::default());
            let mut observed = observed(now, &schedule, &remembered, Tonight::Unresolved);
            observed.last_scheduled = Some(at("01:17:00"));
            next(&Observed { children: &children, ..observed })
        };
        // Five minutes after the minute of the schedule, or after the end of the one in which it was asked for.
        for (trigger, last, until) in [
            (Trigger::Schedule, "02:05:00", "02:05:01"),
            (Trigger::Manual, "02:05:59", "02:06:00"),
            (Trigger::Confirmation, "02:05:59", "02:06:00"),
        ] {
            assert_eq!(step(last, trigger), Step::Wait(Some(at(until))), "{trigger:?}");
            assert!(matches!(step(until, trigger), Step::Record(_)), "{trigger:?}");
        }
    }

    #[test]
    fn a_night_whose_images_are_not_known_in_time_says_what_kept_them() {
        let (reason, message) = ("ImagePullFailed".to_owned(), "can't pull it".to_owned());
        let resolving = Tonight::Resolving { reason: reason.clone(), message: message.clone() };
        let failed = Tonight::Failed { reason, message };
        let due = |now: &str, tonight: Tonight| due(now, &Remembered::default(), tonight);
        assert_eq!(due("01:17:30", Tonight::Unresolved), Step::Resolve(at("01:17:00"), Trigger::Schedule));
        // The deadline is looked at in time.
        assert_eq!(due("01:20:00", resolving.clone()), Step::Wait(Some(at("01:22:01"))));
        for (tonight, expected) in
            [(resolving, "ImagePullFailed"), (failed, "ImagePullFailed"), (Tonight::Unresolved, "Missed")]
        {
            let step = due("01:22:01", tonight);
            let Step::Record(gap) = &step else { panic!("{step:?}") };
            assert_eq!((gap.outcome, gap.reason.as_str(), gap.night), (Outcome::Gap, expected, at("01:17:00")));
            assert_eq!(gap.message.ends_with("can't pull it"), expected == "ImagePullFailed", "{gap:?}");
        }
    }
}
