//! The status of a sweep: where it stands, in one write where anything has changed.

use assay_api::condition::find;
use assay_api::names::{ACCEPTED, READY, REGRESSED, STALE, STALLED, SUSPENDED};
use assay_api::{
    ActiveNight, BegunNight, Condition, KnownChange, SkippedNight, Time, TuningSweep, TuningSweepStatus, bounds,
};
use assay_core::status::shorten;
use assay_core::sweep::Schedule;
use assay_core::sweep::child::ChildState;
use assay_core::sweep::confirm::{Change, Stage, Visit};
use assay_core::sweep::culprit::Finding;
use assay_core::sweep::detect::budget_spent;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::Patch;
use kube::runtime::events::EventType;
use serde_json::json;

use super::children::Children;
use super::memory::Known;
use super::resolve::Lookup;
use super::{Reconcile, notify};
use crate::error::{Error, call};
use crate::experiment::{condition, forced, whole_second};
use crate::object::find as find_object;
use crate::watch::version;

/// Changes that a status shows: the history has them all.
const MOST_CHANGES: usize = 20;

/// Why nothing is done for a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalled {
    Invalid,
    Unreadable,
    HistoryUnreadable,
}

impl Stalled {
    /// The reason of its conditions, and the state of the sweep in a word.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Invalid => ("Invalid", "Refused"),
            Self::Unreadable => ("Unreadable", "Unreadable"),
            Self::HistoryUnreadable => ("HistoryUnreadable", "HistoryUnreadable"),
        }
    }
}

/// How a sweep stands.
pub enum State<'a> {
    /// Nothing is done for the sweep. Its status keeps what it records about nights.
    Stalled { why: Stalled, message: String },
    Sound {
        children: &'a Children,
        /// Names of experiments that it owns and has not begun.
        foreign: &'a [String],
        schedule: &'a Schedule,
        lookup: &'a Lookup,
    },
}

/// The status as it is: a watch may be late to tell of what was just written.
pub fn latest(reconcile: &Reconcile<'_>) -> TuningSweepStatus {
    as_known(reconcile).0
}

/// The status as the API server has it.
pub async fn latest_there(reconcile: &Reconcile<'_>) -> Result<TuningSweepStatus, Error> {
    let there = find_object(&reconcile.api::<TuningSweep>(), &reconcile.name).await?;
    if let Some(there) = there.filter(|there| there.uid().as_ref() == Some(&reconcile.uid)) {
        reconcile.context.memories.of(reconcile.sweep).lock().written = Some(there);
    }
    Ok(latest(reconcile))
}

/// Records the night that is about to be created: any other experiment is foreign.
pub async fn begin(reconcile: &Reconcile<'_>, begun: BegunNight) -> Result<(), Error> {
    let (before, version) = as_known(reconcile);
    if before.begun.as_ref() == Some(&begun) {
        return Ok(());
    }
    put(reconcile, &TuningSweepStatus { begun: Some(begun), ..before }, version).await
}

/// The same, with the version of the sweep that has it.
fn as_known(reconcile: &Reconcile<'_>) -> (TuningSweepStatus, Option<String>) {
    let memory = reconcile.context.memories.of(reconcile.sweep);
    let memory = memory.lock();
    let newer = memory.written.as_ref().filter(|written| version(*written) > version(reconcile.sweep));
    let known = newer.unwrap_or(reconcile.sweep);
    (known.status.clone().unwrap_or_default(), known.resource_version())
}

/// Since when nights are this sweep's: its creation, or when its schedule was first seen. What another schedule would have asked for before is
/// not caught up.
pub fn since(reconcile: &Reconcile<'_>, status: &TuningSweepStatus) -> Timestamp {
    let created = reconcile.sweep.metadata.creation_timestamp.as_ref().map_or(reconcile.now, |time| time.0);
    match (&status.schedule, &status.schedule_since) {
        // A clock that was ahead must not silence them until it has caught up.
        (Some(schedule), Some(since)) if *schedule == scheduled(reconcile) => since.0.max(created).min(reconcile.now),
        // Another one, as of now. The first one is as old as the sweep.
        (Some(_), _) => reconcile.now,
        _ => created,
    }
}

fn scheduled(reconcile: &Reconcile<'_>) -> String {
    let spec = &reconcile.sweep.spec;
    format!("{} {}", spec.schedule, spec.time_zone)
}

pub async fn write(reconcile: &mut Reconcile<'_>, state: &State<'_>, known: Option<&Known>) -> Result<(), Error> {
    let (before, version) = as_known(reconcile);
    let mut after = before.clone();
    after.observed_generation = reconcile.sweep.metadata.generation;
    if let (State::Sound { children, schedule, .. }, Some(known)) = (state, known) {
        after.schedule_since = Some(Time(whole_second(since(reconcile, &before))));
        after.schedule = Some(scheduled(reconcile));
        of_nights(reconcile, &mut after, children, schedule, known);
        notify::carry(reconcile, &before, &mut after);
        after.stale_after_time = stale_after(reconcile, schedule, &after);
    }
    if reconcile.sweep.spec.suspend == Some(true) {
        after.stale_after_time = None;
    }
    after.conditions = conditions(reconcile, state, &after, known, &before.conditions);
    after.state = Some(word(reconcile, state, &after, known).to_owned());
    if before == after {
        return Ok(());
    }
    put(reconcile, &after, version).await?;
    publish(reconcile, known, (&before, &after)).await;
    Ok(())
}

async fn put(reconcile: &Reconcile<'_>, status: &TuningSweepStatus, version: Option<String>) -> Result<(), Error> {
    let patch = json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningSweep",
        // As it is known: a leader that another one has followed would tell once more of changes that its successor has told of.
        "metadata": {"name": reconcile.name, "uid": reconcile.uid, "resourceVersion": version},
        "status": status,
    });
    let api = reconcile.api::<TuningSweep>();
    let written = call(api.patch_status(&reconcile.name, &forced(), &Patch::Apply(&patch))).await?;
    reconcile.context.memories.of(reconcile.sweep).lock().written = Some(written);
    Ok(())
}

/// What follows from the nights.
fn of_nights(
    reconcile: &Reconcile<'_>,
    status: &mut TuningSweepStatus,
    children: &Children,
    schedule: &Schedule,
    known: &Known,
) {
    let spec = &reconcile.sweep.spec;
    let time = |time: Timestamp| Time(whole_second(time));
    let remembered = &known.remembered;
    let active = children.iter().find(|(night, _)| !remembered.nights.contains(night));
    status.active = active.map(|(night, (child, experiment))| ActiveNight {
        time: time(*night),
        experiment: Some(experiment.name_any()),
        confirms: child.visit.as_ref().map(Visit::change),
    });
    let of_children = children.iter().filter(|(_, (child, _))| child.trigger.is_scheduled()).map(|(night, _)| *night);
    let begun = remembered.scheduled.iter().copied().chain(of_children).filter(|night| *night <= reconcile.now);
    // Never back: a history that was lost does not make its nights due again.
    let last = begun.chain(status.last_schedule_time.as_ref().map(|time| time.0)).max();
    status.last_schedule_time = last.map(time);
    let is_suspended = spec.suspend == Some(true);
    status.next_schedule_time = schedule.next_after(reconcile.now).filter(|_| !is_suspended).map(time);
    status.last_measured_time = remembered.last_measured(reconcile.now).map(|(night, _)| time(night));
    status.last_skipped = known.last_skipped.as_ref().map(|(night, reason, message)| SkippedNight {
        time: time(*night),
        reason: reason.clone(),
        message: shorten(message, bounds::MESSAGE),
    });
    status.consecutive_skips = known.consecutive_skips;
    status.nights_measured = known.measured;
    status.level = known.level.as_deref().map(|level| shorten(level, 256));
    status.series = reconcile.checked().series;
    status.changes = known.changes.iter().rev().take(MOST_CHANGES).map(|change| shown(known, change)).collect();
    if let Some(token) = &spec.run_now {
        let of_child = children.values().any(|(child, _)| child.run_now.as_ref() == Some(token));
        if of_child || remembered.answered.contains(token) {
            status.last_manual_run = Some(token.clone());
        }
    }
}

fn shown(known: &Known, change: &Change) -> KnownChange {
    let unlisted = || known.unlisted.get(&change.name).map(|why| format!("not looked for: {why}"));
    let culprit = change.finding.as_ref().map(Finding::said).or_else(unlisted);
    KnownChange {
        name: change.name.clone(),
        stage: change.stage.to_string(),
        message: shorten(&change.said(), bounds::MESSAGE),
        culprit: culprit.map(|said| shorten(&said, bounds::ADVICE)),
        notified: None,
    }
}

/// When nights should have been measured, if none is until then.
fn stale_after(reconcile: &Reconcile<'_>, schedule: &Schedule, status: &TuningSweepStatus) -> Option<Time> {
    let created = reconcile.sweep.metadata.creation_timestamp.as_ref().map_or(reconcile.now, |time| time.0);
    let last = status.last_measured_time.as_ref().map(|time| time.0);
    let since = last.unwrap_or(created).max(since(reconcile, status));
    let since = since.max(resumed(&status.conditions, reconcile.now).unwrap_or(since));
    let longest = SignedDuration::from_hours(24 * i64::from(reconcile.sweep.spec.max_skip_days));
    schedule.stale_from(since, longest).map(Time)
}

fn is_stale(status: &TuningSweepStatus, now: Timestamp) -> bool {
    status.stale_after_time.as_ref().is_some_and(|from| now > from.0)
}

/// The names of changes that are confirmed for the worse, and neither accepted nor over.
fn regressed<'a>(status: &'a TuningSweepStatus, known: Option<&'a Known>) -> Vec<&'a str> {
    if let Some(known) = known {
        let open = known.changes.iter().filter(|change| change.stage == Stage::Regressed);
        return open.map(|change| change.name.as_str()).collect();
    }
    let open = status.changes.iter().filter(|change| change.stage == Stage::Regressed.to_string());
    open.map(|change| change.name.as_str()).collect()
}

/// Since when it has not been suspended, if it was before. Nobody misses the nights of that time.
fn resumed(conditions: &[Condition], now: Timestamp) -> Option<Timestamp> {
    let suspended = find(conditions, SUSPENDED)?;
    Some(if suspended.status == "True" { now } else { suspended.last_transition_time.0 })
}

fn conditions(
    reconcile: &Reconcile<'_>,
    state: &State<'_>,
    after: &TuningSweepStatus,
    known: Option<&Known>,
    before: &[Condition],
) -> Vec<Condition> {
    let generation = reconcile.sweep.metadata.generation;
    let make = |type_: &str, status: &str, reason: &str, message: &str| {
        condition((type_, status), (reason, message), generation, before, reconcile.now)
    };
    let suspended = if reconcile.sweep.spec.suspend == Some(true) {
        make(SUSPENDED, "True", "Suspended", "spec.suspend is true")
    } else {
        make(SUSPENDED, "False", "NotSuspended", "")
    };
    let accepted = || make(ACCEPTED, "True", "Valid", "the spec is valid");
    let stale = if is_stale(after, reconcile.now) {
        let last = after.last_measured_time.as_ref().map_or_else(
            || "no night has been measured yet".to_owned(),
            |last| format!("the last measured night was that of {}", last.0),
        );
        make(STALE, "True", "NotMeasured", &last)
    } else {
        make(STALE, "False", "Measured", "")
    };
    let open = regressed(after, known);
    let regressed = match open.as_slice() {
        [] => make(REGRESSED, "False", "NoOpenChange", ""),
        open => make(REGRESSED, "True", "ChangeConfirmed", &shorten(&open.join(", "), 1000)),
    };
    let (children, foreign, lookup) = match state {
        State::Stalled { why, message } => {
            let (reason, _) = why.words();
            let stopped = |type_: &str, status: &str| make(type_, status, reason, message);
            let accepted = if *why == Stalled::HistoryUnreadable { accepted() } else { stopped(ACCEPTED, "False") };
            return vec![accepted, stopped(READY, "False"), suspended, stopped(STALLED, "True"), regressed, stale];
        }
        State::Sound { children, foreign, lookup, .. } => (children, foreign, lookup),
    };
    let damaged = known.map(|known| known.damaged.join("; ")).filter(|damaged| !damaged.is_empty());
    let waiting = after.active.as_ref().and_then(|active| match &children.get(&active.time.0)?.0.state {
        ChildState::Waiting { reason, message } => {
            Some(format!("the night of {} waits: {reason}: {message}", active.time.0))
        }
        ChildState::Stuck { reason, message } => Some(format!(
            "nothing of the night of {} runs, and it ends when the next one is due: {reason}: {message}",
            active.time.0
        )),
        ChildState::Running | ChildState::Finished | ChildState::Altered => None,
    });
    let unknown = known.and_then(|known| {
        let is_unknown = |name: &&str| !known.remembered.changes.contains_key(*name);
        let named = reconcile.sweep.spec.accept.iter().map(|accept| accept.change.as_str());
        let unknown: Vec<&str> = named.filter(is_unknown).collect();
        (!unknown.is_empty()).then(|| unknown.join(", "))
    });
    let ready = if let Some(damaged) = damaged {
        let message = format!("parts of the history can't be read, and are left alone: {damaged}");
        make(READY, "False", "HistoryUnreadable", &shorten(&message, 1000))
    } else {
        let unknown = || unknown.map(|unknown| format!("spec.accept names what is no confirmed change: {unknown}"));
        let pulling = lookup.waits().map(|pulling| format!("looking up images: {pulling}"));
        let foreign = || {
            let is_any = !foreign.is_empty();
            is_any.then(|| format!("ignores experiments that it has not begun: {}", foreign.join(", ")))
        };
        let spent = || known.and_then(|known| known.spent_since).map(budget_spent);
        let trouble = || notify::trouble(reconcile, after);
        let message = pulling.or(waiting).or_else(foreign).or_else(unknown).or_else(spent).or_else(trouble);
        make(READY, "True", "Scheduled", &shorten(&message.unwrap_or_default(), 1000))
    };
    vec![accepted(), ready, suspended, regressed, stale]
}

/// Where the sweep stands, in a word.
fn word(
    reconcile: &Reconcile<'_>,
    state: &State<'_>,
    after: &TuningSweepStatus,
    known: Option<&Known>,
) -> &'static str {
    match state {
        State::Stalled { why, .. } => why.words().1,
        _ if known.is_some_and(|known| !known.damaged.is_empty()) => Stalled::HistoryUnreadable.words().1,
        _ if after.active.is_some() => "Measuring",
        _ if reconcile.sweep.spec.suspend == Some(true) => "Suspended",
        _ if is_stale(after, reconcile.now) => "Stale",
        // A damaged run is proof in a night from which levels can't be learned yet.
        _ if !regressed(after, known).is_empty() => "Regressed",
        _ if known.is_none_or(|known| known.remembered.learning || known.measured == 0) => "Learning",
        State::Sound { .. } => "Watching",
    }
}

async fn publish(
    reconcile: &Reconcile<'_>,
    known: Option<&Known>,
    (before, after): (&TuningSweepStatus, &TuningSweepStatus),
) {
    let status_of = |status: &TuningSweepStatus, type_: &str| {
        find(&status.conditions, type_).map(|known| (known.status.clone(), known.reason.clone()))
    };
    let has_changed = |type_: &str| status_of(before, type_) != status_of(after, type_);
    let unready = find(&after.conditions, READY).filter(|ready| ready.status == "False");
    if let Some(unready) = unready.filter(|_| has_changed(READY)) {
        reconcile.publish(EventType::Warning, &unready.reason, &unready.message).await;
    }
    for change in after.changes.iter().rev() {
        let known = before.changes.iter().find(|known| known.name == change.name);
        if known.is_none_or(|known| known.stage != change.stage) {
            let (type_, reason) = told(&change.stage);
            reconcile.publish(type_, reason, &format!("{}: {}", change.name, change.message)).await;
        }
    }
    for change in known.into_iter().flat_map(|known| &known.changes) {
        let Some(finding) = change.finding.as_ref().filter(|finding| finding.is_over()) else { continue };
        let said = shorten(&finding.said(), bounds::ADVICE);
        let of = |status: &TuningSweepStatus| {
            status.changes.iter().find(|own| own.name == change.name).and_then(|own| own.culprit.clone())
        };
        if of(before).as_ref() != Some(&said) && of(after).is_some() {
            let reason = if finding.is_found() { "CulpritFound" } else { "CulpritNotFound" };
            reconcile.publish(EventType::Normal, reason, &format!("{}: {said}", change.name)).await;
        }
    }
    notify::publish(reconcile, before, after).await;
    let stale = find(&after.conditions, STALE).filter(|stale| stale.status == "True");
    if let Some(stale) = stale.filter(|_| has_changed(STALE)) {
        reconcile.publish(EventType::Warning, "SweepStale", &stale.message).await;
    }
}

/// What an event calls the new stage of a change.
fn told(stage: &str) -> (EventType, &'static str) {
    match stage {
        "Confirming" => (EventType::Normal, "ChangeSuspected"),
        "Regressed" => (EventType::Warning, "ChangeConfirmed"),
        "SmallRegression" | "Improved" => (EventType::Normal, "ChangeConfirmed"),
        "Refuted" => (EventType::Normal, "ChangeRefuted"),
        "Accepted" => (EventType::Normal, "ChangeAccepted"),
        "Recovered" => (EventType::Normal, "ChangeRecovered"),
        "Ended" => (EventType::Normal, "ChangeEnded"),
        _ => (EventType::Normal, "ChangeUndecided"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nights_in_which_a_sweep_was_suspended_are_not_missed() {
        let at = |time: &str| time.parse::<Timestamp>().expect("a time");
        let now = at("2026-11-26T12:00:00Z");
        let since = |status: &str| {
            let known = json!([{"type": "Suspended", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-11-20T12:00:00Z"}]);
            resumed(&serde_json::from_value::<Vec<Condition>>(known).expect("conditions"), now)
        };
        assert_eq!(since("False"), Some(at("2026-11-20T12:00:00Z")));
        assert_eq!(since("True"), Some(now), "the status is as old as the last write, and the spec says that it runs");
        assert_eq!(resumed(&[], now), None);
    }
}
