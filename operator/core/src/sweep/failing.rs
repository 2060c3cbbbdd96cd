//! Failed runs of a subject, night by night: when they exceed chance, and when the subject has recovered ("Detection").

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

use super::confirm::{Stage, change_of_failures};
use super::history::History;
use super::point::{Night, Outcome};
use super::series::Setting;
use crate::stats::{ALPHA, fisher_greater};
use crate::verdict::Runs;

/// Error of one test against all runs before: with eight windows of nights and 50 pairs of subject and scenario, a year has at most 0.15 false
/// alerts.
const ERROR: f64 = 1e-6;
/// Numbers of latest nights whose runs are tested together. A last window has all nights, for a subject that failed from its first.
const WINDOWS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Measured visits that a recovery from failures needs.
pub const VISITS: usize = 2;

/// Runs of one arm that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counts {
    pub runs: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// Failed runs that damaged data.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u32,
}

// The signature that serde asks for.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Runs of a subject in a scenario, and those of the reference beside them. In a visit: of the version after, and of the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failures {
    pub subject: String,
    pub scenario: String,
    pub own: Counts,
    pub reference: Counts,
}

/// Failures of a subject in a scenario that chance does not explain.
#[derive(Clone, Debug, PartialEq)]
pub struct Failing {
    pub subject: String,
    pub scenario: String,
    /// The night that raised them, and the first of the nights that did.
    pub raised: Timestamp,
    pub first: Timestamp,
    /// Runs of these nights, and of the reference in the same nights.
    pub own: Counts,
    pub reference: Counts,
    /// Runs since the last of these nights, visits included.
    pub since: Counts,
    pub stage: Stage,
    /// The latest night suggests a recovery, so visits may confirm it.
    pub seems_gone: bool,
}

/// A night of a subject in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub night: Timestamp,
    pub own: Counts,
    pub reference: Counts,
}

impl Counts {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { runs: self.runs + other.runs, failed: self.failed + other.failed, damaged: self.damaged + other.damaged }
    }

    fn split(self) -> (u32, u32) {
        (self.failed, self.runs.saturating_sub(self.failed))
    }

    fn rate(self) -> f64 {
        f64::from(self.failed) / f64::from(self.runs.max(1))
    }

    /// Whether a larger share of these runs damaged data.
    fn damages_more_than(self, other: Self) -> bool {
        u64::from(self.damaged) * u64::from(other.runs.max(1)) > u64::from(other.damaged) * u64::from(self.runs)
    }

    fn damage(self) -> Self {
        Self { failed: self.damaged, ..self }
    }
}

impl From<Runs> for Counts {
    fn from(runs: Runs) -> Self {
        Self { runs: runs.ended(), failed: runs.failed, damaged: runs.damaged }
    }
}

/// p of the exact test that one arm fails more often.
fn more(own: Counts, other: Counts) -> f64 {
    fisher_greater(own.split(), other.split())
}

/// Event in the course of failures, in order of time.
#[derive(Clone, Copy, Debug)]
enum Event {
    Night(Seen),
    /// Runs of a recovery visit: of the latest version, and of the one before the failures.
    Visit(Counts, Counts),
    Accepted,
}

struct Open {
    /// Place of the first night.
    first: usize,
    raised: Timestamp,
    own: Counts,
    reference: Counts,
    since: Counts,
    beside: Counts,
    visits: usize,
    seems_gone: bool,
}

impl Open {
    fn is_bad(&self, counts: Counts) -> bool {
        match self.own.damaged {
            0 => counts.failed > 0 && 2.0 * counts.rate() >= self.own.rate(),
            _ => counts.damaged > 0,
        }
    }

    fn add(&mut self, own: Counts, beside: Counts) {
        (self.since, self.beside) = (self.since.plus(own), self.beside.plus(beside));
    }

    fn begin_anew(&mut self) {
        (self.since, self.beside, self.visits) = (Counts::default(), Counts::default(), 0);
    }

    /// Whether the runs since then fail less often than before, and no more often than the other arm, with at least [`VISITS`] visits.
    fn is_gone(&self) -> bool {
        let fewer = Binomial::new(self.own.rate(), self.since.runs.into())
            .is_ok_and(|before| before.cdf(self.since.failed.into()) <= ALPHA);
        self.visits >= VISITS && fewer && more(self.since, self.beside) > ALPHA
    }
}

/// Course of one subject in one scenario over nights that are measured alike.
struct Course {
    subject: String,
    scenario: String,
    nights: Vec<Seen>,
    /// First night that a window may include.
    from: usize,
    /// Runs of the accepted failures, if any: later failures are compared with them.
    accepted: Option<Counts>,
    open: Option<Open>,
    over: Vec<Failing>,
}

impl Course {
    fn add(&mut self, event: Event) {
        match (event, self.open.take()) {
            (Event::Night(seen), None) => {
                self.nights.push(seen);
                self.open = self.raise();
            }
            (Event::Night(seen), Some(mut open)) => {
                self.nights.push(seen);
                open.seems_gone = !open.is_bad(seen.own);
                if open.seems_gone {
                    open.add(seen.own, seen.reference);
                } else {
                    (open.own, open.reference) = (open.own.plus(seen.own), open.reference.plus(seen.reference));
                    open.begin_anew();
                }
                self.go_on(open);
            }
            (Event::Visit(own, before), Some(mut open)) => {
                if open.is_bad(own) {
                    open.begin_anew();
                } else {
                    open.visits += 1;
                    open.add(own, before);
                }
                self.go_on(open);
            }
            (Event::Accepted, Some(open)) => {
                self.accepted = Some(open.own);
                self.end(&open, Stage::Accepted);
            }
            (Event::Visit(..) | Event::Accepted, None) => {}
        }
    }

    fn go_on(&mut self, open: Open) {
        if open.is_gone() {
            self.accepted = None;
            self.end(&open, Stage::Recovered);
        } else {
            self.open = Some(open);
        }
    }

    fn end(&mut self, open: &Open, stage: Stage) {
        self.over.push(self.told(open, stage));
        self.from = self.nights.len();
    }

    fn told(&self, open: &Open, stage: Stage) -> Failing {
        Failing {
            subject: self.subject.clone(),
            scenario: self.scenario.clone(),
            raised: open.raised,
            first: self.nights[open.first].night,
            own: open.own,
            reference: open.reference,
            since: open.since,
            stage,
            seems_gone: open.seems_gone && stage == Stage::Regressed,
        }
    }

    /// Failures of the latest nights that are more than chance, by the shortest window that shows it.
    fn raise(&self) -> Option<Open> {
        let count = self.nights.len();
        let sum =
            |nights: &[Seen], of: fn(&Seen) -> Counts| nights.iter().map(of).fold(Counts::default(), Counts::plus);
        let most = count - self.from;
        let windows = WINDOWS.into_iter().filter(|window| *window < most).chain([most]);
        windows.into_iter().find_map(|window| {
            let begin = count - window;
            let (own, beside) =
                (sum(&self.nights[begin..], |seen| seen.own), sum(&self.nights[begin..], |seen| seen.reference));
            let earlier = sum(&self.nights[self.from..begin], |seen| seen.own)
                .plus(sum(&self.nights[..begin], |seen| seen.reference));
            let before = match self.accepted {
                Some(accepted) => accepted,
                // A reference that also fails more often makes earlier nights no guide, so only the same nights are compared.
                None if more(beside, earlier) <= ALPHA => beside,
                None => earlier.plus(beside),
            };
            let damages = own.damages_more_than(beside)
                && self
                    .accepted
                    .is_none_or(|accepted| accepted.damaged == 0 || more(own.damage(), accepted.damage()) <= ERROR);
            let fails = || more(own, beside) <= ALPHA && more(own, before) <= ERROR;
            let is_raised = damages || fails();
            let first = (begin..count).find(|place| self.nights[*place].own.failed > 0)?;
            is_raised.then(|| Open {
                first,
                raised: self.nights[count - 1].night,
                own: sum(&self.nights[first..], |seen| seen.own),
                reference: sum(&self.nights[first..], |seen| seen.reference),
                since: Counts::default(),
                beside: Counts::default(),
                visits: 0,
                seems_gone: false,
            })
        })
    }
}

impl Night {
    /// Runs of a subject in a scenario; where none failed, as many as its points have blocks.
    fn ended(&self, subject: &str, scenario: &str) -> Option<Seen> {
        let is_own = |own: &&Failures| own.subject == subject && own.scenario == scenario;
        if let Some(Failures { own, reference, .. }) = self.failures.iter().find(is_own) {
            return Some(Seen { night: self.night, own: *own, reference: *reference });
        }
        let points = self.points.iter().map(|point| (&point.series, point.blocks));
        let blocks = points.filter(|(series, _)| series.subject == subject && series.scenario == scenario);
        let all = Counts { runs: blocks.map(|(_, blocks)| blocks).max()?, ..Counts::default() };
        let (own, reference) = (all, all);
        Some(Seen { night: self.night, own, reference })
    }
}

impl History {
    /// All failures that chance does not explain, the oldest first.
    pub fn failing(&self) -> Vec<Failing> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for night in self.nights().filter(|night| night.outcome == Outcome::Measured) {
            let named = night.failures.iter().filter(|own| own.own.failed > 0);
            pairs.extend(named.map(|own| (own.subject.as_str(), own.scenario.as_str())));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut all: Vec<Failing> =
            pairs.into_iter().flat_map(|(subject, scenario)| self.failing_of(subject, scenario)).collect();
        all.sort_by(|a, b| (a.raised, &a.subject, &a.scenario).cmp(&(b.raised, &b.subject, &b.scenario)));
        all
    }

    fn failing_of(&self, subject: &str, scenario: &str) -> Vec<Failing> {
        let mut courses: Vec<(Setting<'_>, Course)> = Vec::new();
        let mut latest = None;
        for night in self.nights() {
            let visit = night
                .visit
                .as_ref()
                .filter(|visit| visit.subject == subject && visit.failing.iter().any(|own| own == scenario));
            let seen = night.failures.iter().find(|own| own.subject == subject && own.scenario == scenario);
            let raised = |(_, course): &(Setting<'_>, Course)| course.open.as_ref().map(|open| open.raised);
            let current = latest.and_then(|place: usize| courses.get_mut(place));
            match (night.outcome, current) {
                (Outcome::Measured, _) => {
                    let Some((setting, seen)) = Setting::of(night, scenario).zip(night.ended(subject, scenario)) else {
                        continue;
                    };
                    let place = courses.iter().position(|(own, _)| *own == setting).unwrap_or_else(|| {
                        let (subject, scenario) = (subject.to_owned(), scenario.to_owned());
                        let course = Course {
                            subject,
                            scenario,
                            nights: Vec::new(),
                            from: 0,
                            accepted: None,
                            open: None,
                            over: Vec::new(),
                        };
                        courses.push((setting, course));
                        courses.len() - 1
                    });
                    courses[place].1.add(Event::Night(seen));
                    latest = Some(place);
                }
                (Outcome::Visited, Some(current))
                    if visit.is_some_and(|visit| Some(visit.raised) == raised(current)) =>
                {
                    if let Some(seen) = seen {
                        current.1.add(Event::Visit(seen.own, seen.reference));
                    }
                }
                (Outcome::Accepted, Some(current)) => {
                    let name = raised(current).map(|raised| change_of_failures(subject, raised));
                    let is_own =
                        night.accepted.as_ref().is_some_and(|accepted| Some(&accepted.change) == name.as_ref());
                    if is_own && name.is_some_and(|name| self.acceptance(&name).is_some()) {
                        current.1.add(Event::Accepted);
                    }
                }
                _ => {}
            }
        }
        let told = |(place, (_, course)): (usize, (Setting<'_>, Course))| {
            let stage = if Some(place) == latest { Stage::Regressed } else { Stage::Ended };
            let open = course.open.as_ref().map(|open| course.told(open, stage));
            course.over.into_iter().chain(open).collect::<Vec<_>>()
        };
        courses.into_iter().enumerate().flat_map(told).collect()
    }

    /// Failures by the change that they are: all of one subject that a night raised.
    pub(super) fn changes_by_failures(&self) -> BTreeMap<String, Vec<Failing>> {
        let mut changes: BTreeMap<String, Vec<Failing>> = BTreeMap::new();
        for own in self.failing() {
            changes.entry(change_of_failures(&own.subject, own.raised)).or_default().push(own);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Scale;
    use crate::sweep::confirm::{Asks, Pending, Promised, Visit, pending};
    use crate::sweep::detect::Watch;
    use crate::sweep::next::Unmeasured;
    use crate::sweep::testing::{Noise, image, measured, series, subject, time};
    use crate::sweep::{Acceptance, Point, Trigger};
    use assay_api::Accept;
    use jiff::SignedDuration;

    const PROMISED: Promised = Promised { alpha: 0.02, per_year: 50, visit_gap: SignedDuration::from_hours(6) };
    const NONE: Counts = Counts { runs: 12, failed: 0, damaged: 0 };

    fn watch() -> Watch {
        let margins = BTreeMap::from([("throughput".to_owned(), 0.03)]);
        Watch { alarm: None, margins, promised: Some(PROMISED), bisect: None }
    }

    fn failed(failed: u32) -> Counts {
        Counts { failed, ..NONE }
    }

    fn damaged(damaged: u32) -> Counts {
        Counts { failed: damaged, damaged, ..NONE }
    }

    fn of(own: Counts, reference: Counts) -> Failures {
        Failures { subject: "main".to_owned(), scenario: "fill".to_owned(), own, reference }
    }

    /// A night of `main` with 12 blocks, of which some failed.
    fn night(day: u32, own: Counts, reference: Counts) -> Night {
        let mut main = subject("main");
        main.image = Some(image(&format!("main-{day}")));
        let point = Point::new(series("main", "fill", "throughput"), Scale::Log, 0.0, 0.01, 12, None);
        let failures = if own.failed + reference.failed > 0 { vec![of(own, reference)] } else { Vec::new() };
        Night { subjects: vec![main], points: vec![point], failures, ..measured(day) }
    }

    fn history(nights: impl IntoIterator<Item = Counts>) -> History {
        let mut history = History::new("nightly");
        for (day, own) in nights.into_iter().enumerate() {
            history.add(night(day as u32, own, NONE)).expect("a night");
        }
        history
    }

    fn next_visit(history: &History) -> Option<Visit> {
        pending(history, &history.watched(&watch()), &PROMISED).map(|Pending { visit, .. }| visit)
    }

    fn visit(history: &mut History, own: Counts) {
        let visit = next_visit(history).expect("a visit");
        let last = history.nights().next_back().expect("a night").night;
        let (at, failures) = (last + SignedDuration::from_hours(7), vec![of(own, NONE)]);
        let day = Night { fingerprint: None, reference: None, subjects: Vec::new(), ..measured(0) };
        let (trigger, outcome) = (Trigger::Confirmation, Outcome::Visited);
        history.add(Night { night: at, trigger, outcome, visit: Some(visit), failures, ..day }).expect("a visit");
    }

    fn stages(history: &History) -> Vec<(String, Stage)> {
        history.changes(&history.watched(&watch())).into_iter().map(|own| (own.name, own.stage)).collect()
    }

    #[test]
    fn one_damaged_run_is_a_regression_in_its_night_and_gone_only_after_fresh_trials() {
        let mut history = history([NONE, NONE, NONE, damaged(1)]);
        let name = "main-20260104-0200-failures".to_owned();
        assert_eq!(stages(&history), [(name.clone(), Stage::Regressed)]);
        assert_eq!(next_visit(&history), None, "it is still there");
        for day in 4..6 {
            history.add(night(day, NONE, NONE)).expect("a night");
        }
        // Two good nights of 12 runs prove little about one of 12.
        assert_eq!(stages(&history), [(name.clone(), Stage::Regressed)]);
        let first = next_visit(&history).expect("a visit");
        assert_eq!((first.asks, first.good, first.bad), (Asks::Recovery, time(2), time(5)));
        assert_eq!(
            (first.change(), first.failing.clone(), first.series.len()),
            (name.clone(), vec!["fill".to_owned()], 0)
        );
        let mut again = history.clone();
        visit(&mut history, NONE);
        assert_eq!(stages(&history), [(name.clone(), Stage::Regressed)]);
        visit(&mut history, NONE);
        assert_eq!(stages(&history), [(name.clone(), Stage::Recovered)]);
        assert_eq!(next_visit(&history), None);
        let change = &history.changes(&history.watched(&watch()))[0];
        let said = "Recovered, 1 of 12 runs failed, 1 of them damaged data, in fill, of the reference 0 of 12 since 2026-01-04; 48 runs since, 2 visits of fresh trials";
        assert_eq!(change.said(), said);
        let told = history.explain(change, &history.watched(&watch()), None).join("\n");
        assert!(told.contains("asked whether it is gone at 2026-01-06 09:00: 0 of 12 runs failed in fill"), "{told}");
        // It comes back in a visit.
        visit(&mut again, damaged(1));
        visit(&mut again, NONE);
        assert_eq!(stages(&again), [(name, Stage::Regressed)]);
        assert_eq!(next_visit(&again), None, "it is asked again after five nights");
    }

    #[test]
    fn many_failures_are_raised_at_once_and_few_by_the_sum_of_nights() {
        let raised = |history: &History| stages(history).first().map(|(name, _)| name.clone());
        let quiet = || std::iter::repeat_n(NONE, 30);
        assert_eq!(raised(&history(quiet().chain([failed(6)]))).as_deref(), Some("main-20260131-0200-failures"));
        // Without nights before it, half of the runs of two nights are not enough, and those of three are.
        assert_eq!(raised(&history([failed(6), failed(6)])), None);
        assert!(raised(&history([failed(6); 3])).is_some());
        // One of 12 each night.
        let few = |nights| history(quiet().chain(std::iter::repeat_n(failed(1), nights)));
        assert_eq!(raised(&few(4)), None);
        assert!(raised(&few(16)).is_some());
        // The reference fails alike: it is the machine.
        let mut alike = history(quiet());
        for day in 30..60 {
            alike.add(night(day, failed(5 + day % 3), failed(6))).expect("a night");
            alike
                .add(Night { night: time(day) + SignedDuration::from_hours(1), ..night(day, damaged(1), damaged(1)) })
                .expect("a night");
        }
        assert_eq!(raised(&alike), None);
    }

    #[test]
    fn accepted_failures_are_raised_again_only_if_there_are_more() {
        let mut history = history([NONE, NONE, damaged(4), damaged(3)]);
        let change = stages(&history)[0].0.clone();
        let accept = Accept { change: change.clone(), reason: "known".to_owned(), expires: None };
        let entry = Unmeasured::accepting(time(3) + SignedDuration::from_hours(1), &accept).night("nightly");
        assert_eq!(entry.accepted, Some(Acceptance::of(&accept)));
        history.add(entry).expect("an acceptance");
        for day in 4..14 {
            history.add(night(day, damaged(4), NONE)).expect("a night");
        }
        assert_eq!(stages(&history), [(change.clone(), Stage::Accepted)]);
        for day in 14..18 {
            history.add(night(day, damaged(12), NONE)).expect("a night");
        }
        assert_eq!(
            stages(&history).iter().map(|(_, stage)| *stage).collect::<Vec<_>>(),
            [Stage::Accepted, Stage::Regressed]
        );
    }

    /// One of a hundred runs fails in both arms: 50 pairs of subject and scenario, for a year each.
    #[test]
    fn failures_alike_in_both_arms_raise_nothing() {
        let mut noise = Noise::new(4);
        let mut runs = || failed((0..12).filter(|_| noise.uniform() < 0.01).count() as u32);
        let mut raised = Vec::new();
        for _ in 0..50 {
            let (subject, scenario) = ("main".to_owned(), "fill".to_owned());
            let mut course =
                Course { subject, scenario, nights: Vec::new(), from: 0, accepted: None, open: None, over: Vec::new() };
            for day in 0..365 {
                course.add(Event::Night(Seen { night: time(day), own: runs(), reference: runs() }));
            }
            raised.extend(course.open.map(|open| (open.own, open.reference, open.raised)));
        }
        assert_eq!(raised, []);
    }
}
