//! Sweeps in virtual time, with seeds: an operator that is killed between any two writes, a status that is lost or late, clocks that jump,
//! people who edit, suspend, delete and ask for nights. Whatever happens, no night begins twice and none that was due is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use assay_protocol::Digest;
use jiff::{SignedDuration, Timestamp};

use super::child::{Child, ChildState, NOTHING_VALID};
use super::confirm::{Asked, Asks, Pending, Visit};
use super::culprit::Search;
use super::next::{Observed, Remembered, Rules, Step, Tonight, Unmeasured, next};
use super::point::{Outcome, Trigger};
use super::schedule::Schedule;

/// Numbers that look random, the same for the same seed (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators").
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Debug)]
struct Entry {
    outcome: Outcome,
    trigger: Trigger,
    reason: String,
    run_now: Option<String>,
    visit: Option<Visit>,
    /// When it was written, by a clock that never jumps.
    at: Timestamp,
}

/// Everything that outlives an operator.
#[allow(clippy::struct_excessive_bools, reason = "each is a switch that is thrown by itself")]
struct World {
    schedule: Schedule,
    history: BTreeMap<Timestamp, Entry>,
    children: BTreeMap<Timestamp, (Child, Timestamp)>,
    keys: BTreeMap<Timestamp, Digest>,
    last_scheduled: Option<Timestamp>,
    last_manual: Option<String>,
    active: Option<Timestamp>,
    since: Timestamp,
    now: Timestamp,
    skew: SignedDuration,
    suspended: bool,
    replace: bool,
    deadline: Option<SignedDuration>,
    run_now: Option<String>,
    key: Digest,
    suspecting: bool,
    /// Changes that were suspected, each by what its visits ask.
    changes: Vec<Visit>,
    resolved: bool,
    begun: BTreeMap<Timestamp, usize>,
    tokens: Vec<String>,
}

const LEARNED: usize = 5;
const VISIT_GAP: SignedDuration = SignedDuration::from_hours(6);

/// Visits until what brought a change is found.
const SEARCH: usize = 4;

fn searches(entry: &Entry) -> bool {
    entry.visit.as_ref().is_some_and(|visit| visit.search.is_some())
}

/// A change that is suspected from now on.
fn change(raised: Timestamp) -> Visit {
    let asked = Asked {
        scenario: "fill".to_owned(),
        metric: "throughput".to_owned(),
        first: raised,
        shift: -0.03,
        margin: 0.03,
        losses: Vec::new(),
    };
    let (subject, good, bad) = ("main".to_owned(), raised, raised);
    let (asks, series, failing) = (Asks::Step, vec![asked], Vec::new());
    Visit { raised, subject, asks, number: 1, good, bad, alpha: 0.02, spread: 0.0, series, failing, search: None }
}

impl World {
    fn new(seed: u64, draw: &mut Draw) -> Self {
        let now: Timestamp = "2026-03-20T12:00:30Z".parse().expect("a time");
        let zone = ["Etc/UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"][draw.below(4) as usize];
        let fields = ["17 1 * * *", "30 2 * * *", "0 */6 * * *", "15 2 * * mon-fri"][draw.below(4) as usize];
        Self {
            schedule: Schedule::parse(fields, zone, now).expect("a schedule"),
            history: BTreeMap::new(),
            children: BTreeMap::new(),
            keys: BTreeMap::new(),
            last_scheduled: None,
            last_manual: None,
            active: None,
            since: now,
            now,
            skew: SignedDuration::ZERO,
            suspended: false,
            replace: draw.one_in(3),
            deadline: (!draw.one_in(3)).then_some(SignedDuration::from_hours(3)),
            run_now: None,
            key: Digest::of(&seed.to_le_bytes()),
            suspecting: false,
            changes: Vec::new(),
            resolved: false,
            begun: BTreeMap::new(),
            tokens: Vec::new(),
        }
    }

    fn measured(&self) -> impl Iterator<Item = (&Timestamp, &Entry)> {
        self.history.iter().filter(|(_, entry)| entry.outcome == Outcome::Measured)
    }

    fn remembered(&self) -> Remembered {
        let scheduled = self.history.iter().filter(|(_, entry)| entry.trigger.is_scheduled());
        Remembered {
            nights: self.history.keys().copied().collect(),
            kept_from: None,
            scheduled: scheduled.map(|(night, _)| *night).collect(),
            answered: self.history.values().filter_map(|entry| entry.run_now.clone()).collect(),
            measured: self.measured().map(|(night, _)| (*night, Some(self.keys[night].clone()))).collect(),
            learning: self.measured().count() < LEARNED,
            suspecting: self.suspecting,
            unseen: false,
            visit: self.changes.iter().filter_map(|change| self.pending(change)).min_by_key(|own| own.from),
            changes: BTreeMap::new(),
        }
    }

    fn visits(&self, change: &Visit) -> Vec<(Timestamp, &Entry)> {
        let of_change =
            |(_, entry): &(&Timestamp, &Entry)| entry.visit.as_ref().is_some_and(|visit| visit.raised == change.raised);
        self.history.iter().filter(of_change).map(|(night, entry)| (*night, entry)).collect()
    }

    /// Visits that measured something and others: of its confirmation, or of the search for what brought it.
    fn counts(&self, change: &Visit, is_search: bool) -> (usize, usize) {
        let visits = self.visits(change);
        let of_kind = |(_, entry): &&(Timestamp, &Entry)| searches(entry) == is_search;
        let all = visits.iter().filter(of_kind).count();
        let measured = visits.iter().filter(of_kind).filter(|(_, entry)| entry.outcome == Outcome::Visited).count();
        (measured, all - measured)
    }

    fn is_answered(&self, change: &Visit) -> bool {
        let (measured, failed) = self.counts(change, false);
        measured >= 2 || failed >= 3
    }

    /// Whether the version that brought it is found or given up, if there is one.
    fn is_searched(&self, change: &Visit) -> bool {
        let (measured, failed) = self.counts(change, true);
        self.counts(change, false).0 < 2 || measured >= SEARCH || failed >= 3
    }

    fn pending(&self, change: &Visit) -> Option<Pending> {
        let visits = self.visits(change);
        let last = visits.last().map(|(night, _)| *night);
        let visit = change.anew(visits.len() as u32 + 1);
        if !self.is_answered(change) {
            return Some(Pending { from: last.map_or(change.raised, |night| night + VISIT_GAP), visit });
        }
        let search = Search { reference: 0, candidate: 1, blocks: 6, candidates: Vec::new(), unusable: None };
        let visit = Visit { search: Some(search), ..visit };
        (!self.is_searched(change)).then(|| Pending { from: last.unwrap_or(change.raised), visit })
    }

    fn step(&self) -> Step {
        let remembered = self.remembered();
        let children: BTreeMap<Timestamp, Child> =
            self.children.iter().map(|(night, (child, _))| (*night, child.clone())).collect();
        let lost = self.active.filter(|night| !children.contains_key(night));
        next(&Observed {
            now: self.now + self.skew,
            rules: Rules {
                schedule: &self.schedule,
                suspended: self.suspended,
                deadline: self.deadline,
                replace: self.replace,
                run_now: self.run_now.as_deref(),
                max_skip: SignedDuration::from_hours(7 * 24),
                accept: &[],
            },
            since: self.since,
            last_scheduled: self.last_scheduled,
            last_manual: self.last_manual.as_deref(),
            children: &children,
            lost,
            remembered: &remembered,
            tonight: if self.resolved { Tonight::Known(self.key.clone()) } else { Tonight::Unresolved },
        })
    }

    fn record(&mut self, night: Timestamp, entry: Entry) {
        assert!(
            !self.history.contains_key(&night),
            "{night} is recorded twice: {:?} and {entry:?}",
            self.history[&night]
        );
        self.history.insert(night, entry);
    }

    /// Takes a step; the operator may be killed after it, before the status says so. Whether there is more to do at once.
    fn take(&mut self, step: Step, killed: bool) -> bool {
        match step {
            Step::Wait(until) => {
                assert!(until.is_none_or(|until| until > self.now + self.skew), "it waits for the past");
                return false;
            }
            Step::Collect(night) => {
                let (child, _) = self.children[&night].clone();
                self.keys.insert(night, self.key.clone());
                let (trigger, run_now, visit) = (child.trigger, child.run_now, child.visit);
                let outcome = if visit.is_some() { Outcome::Visited } else { Outcome::Measured };
                self.record(night, Entry { outcome, trigger, reason: String::new(), run_now, visit, at: self.now });
            }
            Step::Record(unmeasured) => {
                let Unmeasured { night, trigger, run_now, visit, outcome, reason, .. } = *unmeasured;
                if reason == "PreviousRunning" {
                    let running = self.children.iter().filter(|(other, _)| !self.history.contains_key(other));
                    let stuck: Vec<_> =
                        running.filter(|(_, (child, _))| matches!(child.state, ChildState::Stuck { .. })).collect();
                    assert!(stuck.is_empty(), "{night} is skipped for {stuck:?}");
                }
                if reason == "Unchanged" {
                    let last = self.measured().last().map(|(night, _)| *night).expect("a measured night");
                    assert!(self.measured().count() >= LEARNED, "skipped while it learns");
                    assert!(!self.suspecting, "skipped while a change is likely");
                    let days = night.duration_since(last).as_hours() as f64 / 24.0;
                    assert!(days < 7.1, "skipped {days} days after the last measured night");
                }
                self.record(night, Entry { outcome, trigger, reason, run_now, visit, at: self.now });
            }
            Step::End(night) => {
                self.children.remove(&night);
            }
            Step::Taken(until) => {
                assert!(until > self.now + self.skew, "it waits for the past");
                return false;
            }
            Step::Resolve(..) => self.resolved = true,
            Step::Begin { .. } | Step::Confirm(..) => {
                let (night, trigger, run_now, visit) = match step {
                    Step::Begin { night, trigger, run_now } => (night, trigger, run_now, None),
                    Step::Confirm(night, visit) => (night, Trigger::Confirmation, None, Some(*visit)),
                    _ => return false,
                };
                assert!(visit.is_none() || !self.suspended, "a visit begins while the sweep is suspended");
                let running: Vec<_> =
                    self.children.iter().filter(|(_, (child, _))| child.state != ChildState::Finished).collect();
                assert!(running.is_empty(), "{night} begins beside {running:?}");
                assert!(
                    !self.history.contains_key(&night) && !self.children.contains_key(&night),
                    "{night} begins twice"
                );
                *self.begun.entry(night).or_default() += 1;
                let waiting = ChildState::Waiting { reason: "NodesMissing".to_owned(), message: "no node".to_owned() };
                self.children.insert(night, (Child { trigger, run_now, visit, state: waiting }, self.now));
                self.resolved = false;
            }
        }
        if !killed {
            // The status follows from what is there.
            let now = self.now + self.skew;
            let of_children = self.children.iter().map(|(night, (child, _))| (*night, child.trigger));
            let known = self.history.iter().map(|(night, entry)| (*night, entry.trigger)).chain(of_children);
            self.last_scheduled =
                known.filter(|(night, trigger)| trigger.is_scheduled() && *night <= now).map(|(night, _)| night).max();
            self.active = self
                .children
                .iter()
                // The status says of a visit that it is one: that leaves no gap.
                .find(|(_, (child, _))| child.state != ChildState::Finished && child.visit.is_none())
                .map(|(night, _)| *night);
            let tokens = self
                .history
                .values()
                .map(|entry| &entry.run_now)
                .chain(self.children.values().map(|(child, _)| &child.run_now));
            let answered: BTreeSet<&String> = tokens.flatten().collect();
            if let Some(token) = self.run_now.clone().filter(|token| answered.contains(token)) {
                self.last_manual = Some(token);
            }
        }
        true
    }

    /// What happens by itself: experiments go on.
    fn pass(&mut self, draw: &mut Draw) {
        for (child, begun) in self.children.values_mut() {
            let hours = self.now.duration_since(*begun).as_hours();
            child.state = match child.state.clone() {
                ChildState::Waiting { .. } if !draw.one_in(3) => ChildState::Running,
                ChildState::Running if hours >= 1 && draw.one_in(3) => ChildState::Finished,
                ChildState::Running if draw.one_in(8) => {
                    let reason = if draw.one_in(6) { "PlanChanged" } else { NOTHING_VALID };
                    ChildState::Stuck { reason: reason.to_owned(), message: "nothing runs".to_owned() }
                }
                ChildState::Stuck { reason, .. } if reason == NOTHING_VALID && draw.one_in(2) => ChildState::Running,
                other => other,
            };
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Sound,
    Jumps,
}

/// Runs a sweep for so many days, in steps of an hour.
fn simulate(seed: u64, days: i64, clock: Clock) -> World {
    let mut draw = Draw(seed);
    let mut world = World::new(seed, &mut draw);
    let begin = world.now;
    let mut down = 0;
    while world.now.duration_since(begin).as_hours() < 24 * days {
        world.now += SignedDuration::from_hours(1);
        let is_quiet = world.now.duration_since(begin).as_hours() > 24 * (days - 3);
        world.pass(&mut draw);
        if is_quiet {
            (world.suspended, world.skew, down) = (false, SignedDuration::ZERO, 0);
        } else {
            match draw.below(300) {
                0 => world.suspended = !world.suspended,
                1 => {
                    let token = format!("token-{}", world.tokens.len());
                    world.tokens.push(token.clone());
                    world.run_now = Some(token);
                }
                2 => {
                    // Somebody deletes the experiment of a night, or the history of the status.
                    if let Some(night) = world.children.keys().next().copied() {
                        world.children.remove(&night);
                    }
                }
                3 => (world.last_scheduled, world.last_manual, world.active) = (None, None, None),
                4 => world.key = Digest::of(&draw.below(u64::MAX).to_le_bytes()),
                5..7 => down = draw.below(60),
                7 if clock == Clock::Jumps => {
                    world.skew = SignedDuration::from_mins(draw.below(6000).cast_signed() - 3000);
                }
                8 => world.replace = !world.replace,
                9 => world.suspecting = !world.suspecting,
                10 => world.changes.push(change(world.now)),
                _ => {}
            }
        }
        if down > 0 {
            down -= 1;
            continue;
        }
        for _ in 0..100 {
            let killed = !is_quiet && draw.one_in(10);
            let step = world.step();
            if !world.take(step, killed) || killed {
                break;
            }
        }
    }
    world
}

/// Sweeps whose clocks are right, by their seed.
fn sound() -> &'static [World] {
    static WORLDS: OnceLock<Vec<World>> = OnceLock::new();
    WORLDS.get_or_init(|| (0..24).map(|seed| simulate(seed, 60, Clock::Sound)).collect())
}

/// What was due from a time on.
fn due(world: &World) -> Vec<Timestamp> {
    let mut due = Vec::new();
    let mut time = world.since;
    while let Some(night) = world.schedule.next_after(time).filter(|night| *night <= world.now) {
        due.push(night);
        time = night;
    }
    due
}

#[test]
fn no_night_begins_twice_and_none_that_was_due_is_forgotten() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (seed, world) in sound().iter().enumerate() {
        for night in due(world) {
            assert!(
                world.history.contains_key(&night) || world.children.contains_key(&night),
                "seed {seed}: {night} was due and is forgotten"
            );
        }
        for token in &world.tokens {
            let asked = world.history.values().filter(|entry| entry.run_now.as_ref() == Some(token)).count();
            assert!(asked <= 1, "seed {seed}: {token} was answered {asked} times");
        }
        if let Some(last) = world.tokens.last() {
            let of_child = |(child, _): &(Child, Timestamp)| child.run_now.as_ref() == Some(last);
            let answered = world.history.values().any(|entry| entry.run_now.as_ref() == Some(last))
                || world.children.values().any(of_child);
            assert!(answered || world.last_manual.as_ref() == Some(last), "seed {seed}: {last} was not answered");
        }
        for entry in world.history.values() {
            let name = if entry.reason.is_empty() { format!("{:?}", entry.trigger) } else { entry.reason.clone() };
            *seen.entry(name).or_default() += 1;
        }
    }
    // The simulation has been everywhere.
    for expected in [
        "Schedule",
        "CatchUp",
        "Manual",
        "Canary",
        "Unchanged",
        "Suspended",
        "Missed",
        "PreviousRunning",
        "Replaced",
        "Deleted",
        "NodesMissing",
        "PlanChanged",
    ] {
        assert!(seen.contains_key(expected), "{expected} never happened: {seen:?}");
    }
}

/// A clock that jumps may cost nights their place. It neither begins one twice nor silences the schedule.
#[test]
fn a_clock_that_jumps_begins_no_night_twice_and_ends_no_schedule() {
    for seed in 1000..1016 {
        let world = simulate(seed, 40, Clock::Jumps);
        // In the last three days it was right.
        let end = world.now;
        let late = due(&world).into_iter().filter(|night| end.duration_since(*night).as_hours() < 48);
        for night in late {
            assert!(
                world.history.contains_key(&night) || world.children.contains_key(&night),
                "seed {seed}: {night} was due after the clock was set right, and is forgotten"
            );
        }
    }
}

/// With nothing but time, a sweep learns for five nights, then measures once in seven days.
#[test]
fn an_unchanged_sweep_is_measured_once_in_seven_days() {
    let mut world = World::new(1, &mut Draw(1));
    world.schedule = Schedule::parse("17 1 * * *", "Europe/Berlin", world.now).expect("a schedule");
    world.deadline = None;
    let begin = world.now;
    while world.now.duration_since(begin).as_hours() < 24 * 33 {
        world.now += SignedDuration::from_mins(30);
        for (child, _) in world.children.values_mut() {
            child.state = ChildState::Finished;
        }
        while {
            let step = world.step();
            world.take(step, false)
        } {}
    }
    let measured: Vec<i64> = world.measured().map(|(night, _)| night.duration_since(begin).as_hours() / 24).collect();
    assert_eq!(measured, [0, 1, 2, 3, 4, 11, 18, 25, 32]);
    let canaries = world.history.values().filter(|entry| entry.trigger == Trigger::Canary).count();
    assert_eq!(canaries, 4);
    assert!(
        world
            .history
            .values()
            .filter(|entry| entry.outcome == Outcome::Skipped)
            .all(|entry| entry.reason == "Unchanged")
    );
    assert!(world.history.iter().all(|(night, entry)| entry.at.duration_since(*night).as_hours() < 1));
}

/// Whatever happens to an operator, to experiments and to clocks, each visit of a change is made once, those of a confirmation hours apart, and
/// each change has its answer in the end, and a confirmed one what brought it.
#[test]
fn every_change_has_its_visits_once_and_apart() {
    let (mut answered, mut failed, mut beside, mut searched) = (0, 0, 0, 0);
    for (seed, world) in sound().iter().enumerate() {
        for change in &world.changes {
            let visits = world.visits(change);
            let numbers: Vec<u32> = visits.iter().filter_map(|(_, entry)| Some(entry.visit.as_ref()?.number)).collect();
            assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>(), "seed {seed}: {}", change.raised);
            for pair in visits.windows(2).filter(|pair| !searches(pair[1].1)) {
                assert!(pair[1].0 >= pair[0].0 + VISIT_GAP, "seed {seed}: too close to {}", pair[0].0);
            }
            let is_late = world.now.duration_since(change.raised).as_hours() < 24 * 10;
            assert!(world.is_answered(change) || is_late, "seed {seed}: {} has no answer", change.raised);
            let answered_at = visits.iter().rfind(|(_, entry)| !searches(entry)).map_or(world.now, |(night, _)| *night);
            let is_late = world.now.duration_since(answered_at).as_hours() < 24 * 10;
            assert!(world.is_searched(change) || is_late, "seed {seed}: {} has no culprit", change.raised);
            let (measured, _) = world.counts(change, true);
            assert!(measured <= SEARCH, "seed {seed}: {} is searched for ever", change.raised);
            searched += usize::from(measured == SEARCH);
            answered += usize::from(world.is_answered(change));
            failed += visits.iter().filter(|(_, entry)| entry.outcome == Outcome::Gap).count();
            let overlaps = |other: &&Visit| {
                other.raised > change.raised && visits.last().is_some_and(|(last, _)| other.raised < *last)
            };
            beside += world.changes.iter().filter(overlaps).count();
        }
    }
    let seen = format!("{answered} answered, {searched} searched, {failed} visits failed, {beside} beside");
    assert!(answered > 60 && searched > 40 && failed > 5 && beside > 2, "{seen}");
}
