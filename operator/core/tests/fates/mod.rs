//! Whole sweeps whose truth is known: nights, suspicions, visits and what becomes of changes, by the code that sweeps run.

use std::collections::BTreeMap;

use assay_core::stats::Scale;
use assay_core::sweep::confirm::{Asked, Pending, Promised, Stage, Visit, pending, visit_blocks};
use assay_core::sweep::detect::Watch;
use assay_core::sweep::{
    Counts, Failures, Fingerprint, History, Night, Outcome, Point, Reference, Series, Subject, Trigger, VERSION,
};
use assay_protocol::Digest;
use jiff::{SignedDuration, Timestamp};

use super::nights::{Nights, Noise, World};

/// In percent: what matters, how blocks scatter, and how visits usually differ.
pub const MARGIN: f64 = 3.0;
const BLOCK: f64 = 2.449_489_742_783_178;
const SESSION: f64 = 0.3;
const PROMISED: Promised = Promised { alpha: 0.02, per_year: 50, visit_gap: SignedDuration::from_hours(6) };

/// A sweep of one subject, whose program is another one each night, in one scenario with one metric.
pub struct Sweep<'a> {
    history: History,
    nights: Nights,
    noise: Noise,
    /// Percent that the program of a night has lost.
    loss: &'a dyn Fn(usize) -> f64,
    /// How runs of the program of a night end, and those of the reference.
    ends: &'a dyn Fn(usize, &mut Noise) -> (Counts, Counts),
    /// In percent, how visits differ.
    session: f64,
    /// Evidence from which a change is suspected, and what is promised of confirmations.
    alarm: f64,
    promised: Promised,
    count: usize,
}

fn night_of(day: usize) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24) * i32::try_from(day).expect("few nights")
}

fn day_of(night: Timestamp) -> usize {
    (night.duration_since(Timestamp::UNIX_EPOCH).as_hours() / 24) as usize
}

/// Runs of which none fails.
pub fn all_end(_: usize, _: &mut Noise) -> (Counts, Counts) {
    let all = Counts { runs: 12, ..Counts::default() };
    (all, all)
}

impl<'a> Sweep<'a> {
    pub fn new(
        world: World,
        loss: &'a dyn Fn(usize) -> f64,
        ends: &'a dyn Fn(usize, &mut Noise) -> (Counts, Counts),
        seed: u64,
    ) -> Self {
        let (nights, noise) = (Nights::new(world, seed), Noise::new(seed ^ 0x5eed));
        let (session, alarm, promised) = (SESSION, super::nights::ALARM, PROMISED);
        Self { history: History::new("nightly"), nights, noise, loss, ends, session, alarm, promised, count: 0 }
    }

    fn watch(&self) -> Watch {
        let margins = BTreeMap::from([("throughput".to_owned(), MARGIN / 100.0)]);
        Watch { alarm: Some(self.alarm), margins, promised: Some(self.promised), bisect: None }
    }

    /// Measures a night, and makes the visits that come before the next one.
    pub fn go_on(&mut self) {
        let (day, value) = (self.count, self.nights.next());
        self.count += 1;
        let Some(value) = value else { return };
        let (own, reference) = (self.ends)(day, &mut self.noise);
        let name = Series { subject: "main".to_owned(), scenario: "fill".to_owned(), metric: "throughput".to_owned() };
        let (effect, error) = ((value.effect - (self.loss)(day)) / 100.0, value.standard_error / 100.0);
        let failures = Failures { subject: name.subject.clone(), scenario: name.scenario.clone(), own, reference };
        let night = Night {
            subjects: vec![Subject {
                name: name.subject.clone(),
                image: Some(format!("bench@{day}")),
                revision: None,
                config: Digest::of(b"config"),
                settings: None,
                unchanged: false,
            }],
            points: vec![Point::new(name, Scale::Log, effect, error, 12, None)],
            failures: if own.failed + reference.failed > 0 { vec![failures] } else { Vec::new() },
            ..entry(night_of(day), Outcome::Measured)
        };
        self.history.add(night).expect("a night");
        let mut at = night_of(day);
        for _ in 0..3 {
            let watched = self.history.watched(&self.watch());
            let Some(Pending { from, visit }) = pending(&self.history, &watched, &self.promised) else { return };
            at = (at + SignedDuration::from_hours(6)).max(from);
            if at >= night_of(day + 1) {
                return;
            }
            let night = self.visited(&visit, at);
            self.history.add(night).expect("a visit");
        }
    }

    fn visited(&mut self, visit: &Visit, at: Timestamp) -> Night {
        let (good, bad) = (day_of(visit.good), day_of(visit.bad));
        let moved = (self.loss)(bad) - (self.loss)(good) + self.session * self.noise.normal();
        let blocks = visit_blocks(BLOCK / 100.0, MARGIN / 100.0, PROMISED.alpha, 1);
        let ended = |day, noise: &mut Noise| (self.ends)(day, noise).0;
        let failures = visit.failing.iter().map(|scenario| {
            let (own, reference) = (ended(bad, &mut self.noise), ended(good, &mut self.noise));
            Failures { subject: visit.subject.clone(), scenario: scenario.clone(), own, reference }
        });
        let failures: Vec<Failures> = failures.collect();
        let series = visit.series.iter().map(|asked| {
            let losses = (0..blocks).map(|_| (moved + BLOCK * self.noise.normal()) / 100.0).collect();
            Asked { losses, ..asked.clone() }
        });
        let visit = Visit { series: series.collect(), ..visit.clone() };
        Night { visit: Some(visit), failures, trigger: Trigger::Confirmation, ..entry(at, Outcome::Visited) }
    }

    /// Stages of all its changes, with the night that raised each.
    pub fn changes(&self) -> Vec<(usize, Stage)> {
        let changes = self.history.changes(&self.history.watched(&self.watch()));
        changes.iter().map(|change| (day_of(change.raised), change.stage)).collect()
    }

    pub fn has(&self, stage: Stage) -> bool {
        self.changes().iter().any(|(_, own)| *own == stage)
    }
}

fn entry(night: Timestamp, outcome: Outcome) -> Night {
    let is_night = outcome == Outcome::Measured;
    let fingerprint = Fingerprint {
        machine: "one".to_owned(),
        protocol: 1,
        workloads: BTreeMap::from([("fill".to_owned(), Digest::of(b"fill"))]),
    };
    let reference =
        Reference { name: "v1".to_owned(), image: Some("bench@v1".to_owned()), config: Digest::of(b"config") };
    Night {
        version: VERSION,
        sweep: "nightly".to_owned(),
        night,
        trigger: Trigger::Schedule,
        run_now: None,
        outcome,
        reason: None,
        message: None,
        experiment: None,
        key: None,
        fingerprint: is_night.then_some(fingerprint),
        reference: is_night.then_some(reference),
        subjects: Vec::new(),
        points: Vec::new(),
        gaps: Vec::new(),
        failures: Vec::new(),
        visit: None,
        accepted: None,
    }
}

/// Nights before anything happens.
pub const BEFORE: usize = 40;

/// Whether an alert about a loss, in percent, is closed as recovered within so many nights, counted from its end if it ends so many nights
/// after the alert. None if there is no alert within a quarter of a year.
pub fn recovered(world: World, loss: f64, ends: Option<usize>, patience: usize, seed: u64) -> Option<bool> {
    let alert = std::cell::Cell::new(None);
    let of = |day: usize| {
        let is_over = ends.zip(alert.get()).is_some_and(|(ends, alert)| day >= alert + ends);
        if day < BEFORE || is_over { 0.0 } else { loss }
    };
    let mut sweep = Sweep::new(world, &of, &all_end, seed);
    for day in 0..BEFORE + 90 {
        sweep.go_on();
        if day >= BEFORE && sweep.has(Stage::Regressed) {
            alert.set(Some(day));
            break;
        }
    }
    alert.get()?;
    let begin = ends.unwrap_or_default();
    let is_closed = (0..begin + patience).any(|_| {
        sweep.go_on();
        sweep.has(Stage::Recovered)
    });
    Some(is_closed)
}

/// Percent that a build has lost when it raises an alert, if it loses so much each night; none after 300 nights.
pub fn slid(world: World, by: f64, seed: u64) -> Option<f64> {
    let of = |day: usize| by * day.saturating_sub(BEFORE) as f64;
    let mut sweep = Sweep::new(world, &of, &all_end, seed);
    (0..BEFORE + 300).find_map(|day| {
        sweep.go_on();
        (day > BEFORE && sweep.has(Stage::Regressed)).then(|| of(day))
    })
}

fn is_alert(stage: Stage) -> bool {
    matches!(stage, Stage::Regressed | Stage::SmallRegression | Stage::Recovered)
}

/// Alerts of one series in a year in which nothing changes, and 1 % of runs fail alike in both arms.
pub fn false_alerts(world: World, seed: u64) -> usize {
    let of = |_: usize| 0.0;
    let ends = |_: usize, noise: &mut Noise| {
        let mut arm = || {
            let failed = (0..12).filter(|_| noise.is(0.01)).count() as u32;
            Counts { runs: 12, failed, damaged: 0 }
        };
        (arm(), arm())
    };
    let mut sweep = Sweep::new(world, &of, &ends, seed);
    for _ in 0..365 {
        sweep.go_on();
    }
    sweep.changes().iter().filter(|(_, stage)| is_alert(*stage)).count()
}

/// Whether half of the runs that damage data from a night on are raised in that night, and whether they are ever called anything but open.
pub fn corrupted(world: World, seed: u64) -> (bool, bool) {
    let of = |_: usize| 0.0;
    let ends = |day: usize, noise: &mut Noise| {
        let (own, reference) = all_end(day, noise);
        let damaged = if day < BEFORE { 0 } else { 6 };
        (Counts { failed: damaged, damaged, ..own }, reference)
    };
    let mut sweep = Sweep::new(world, &of, &ends, seed);
    for _ in 0..=BEFORE {
        sweep.go_on();
    }
    let is_raised = sweep.changes().contains(&(BEFORE, Stage::Regressed));
    for _ in 0..30 {
        sweep.go_on();
    }
    (is_raised, sweep.changes().contains(&(BEFORE, Stage::Regressed)))
}

/// Confirmations of a series whose visits differ by so many percent in a year in which nothing changes, those of them that raise an alert,
/// and whether a loss of 5 % raises one within 30 nights after that year.
pub fn restless(world: World, session: f64, seed: u64) -> (usize, usize, bool) {
    let of = |day: usize| if day < 365 { 0.0 } else { 5.0 };
    let promised = Promised { per_year: 10_000, ..PROMISED };
    // Suspicions that nights alone would not raise, so that visits decide often.
    let mut sweep = Sweep { session, alarm: 5.0, promised, ..Sweep::new(world, &of, &all_end, seed) };
    for _ in 0..365 {
        sweep.go_on();
    }
    let changes = sweep.changes();
    let alerts = changes.iter().filter(|(_, stage)| is_alert(*stage)).count();
    let is_found = (0..30).any(|_| {
        sweep.go_on();
        sweep.changes().iter().any(|(raised, stage)| *raised >= 365 && *stage == Stage::Regressed)
    });
    (changes.len(), alerts, is_found)
}
