use std::collections::BTreeMap;

use assay_api::{Config, OptionValue, TuningSweepSpec};
use assay_protocol::{Digest, EngineConfig};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use crate::stats::Scale;
use crate::sweep::detect::Watch;
use crate::sweep::next::{Remembered, Unmeasured};
use crate::sweep::testing::{Noise, image, measured, series, subject, time};
use crate::sweep::validate::validate;
use crate::sweep::{Acceptance, History, Night, Outcome, Point, Trigger, night, settings};
use crate::validate::over;

const PROMISED: Promised = Promised { alpha: 0.02, per_year: 50, visit_gap: SignedDuration::from_hours(6) };

fn watch() -> Watch {
    Watch {
        alarm: None,
        margins: BTreeMap::from([("throughput".to_owned(), 0.03)]),
        promised: Some(PROMISED),
        bisect: None,
    }
}

fn point(subject: &str, effect: f64) -> Point {
    Point::new(series(subject, "fill", "throughput"), Scale::Log, effect, 0.006, 6, None)
}

/// A night of some subjects, each with an image of its own and its effect.
fn night_of(day: u32, effects: &[(&str, f64)]) -> Night {
    let subjects = effects.iter().map(|(name, _)| {
        let mut own = subject(name);
        own.image = Some(image(&format!("{name}-{day}")));
        own
    });
    Night {
        subjects: subjects.collect(),
        points: effects.iter().map(|(name, effect)| point(name, *effect)).collect(),
        ..measured(day)
    }
}

/// Nights of `main`, which has lost 5 % since a day.
fn history(days: u32, since: u32) -> History {
    let mut noise = Noise::new(7);
    let mut history = History::new("nightly");
    for day in 0..days {
        let effect = 0.004 * noise.normal() - if day >= since { 0.05 } else { 0.0 };
        history.add(night_of(day, &[("main", effect)])).unwrap();
    }
    history
}

fn next_visit(history: &History) -> Option<Pending> {
    pending(history, &history.watched(&watch()), &PROMISED)
}

/// The entry of a visit with these losses for all that it asks.
fn visited(visit: &Visit, at: Timestamp, losses: &[f64]) -> Night {
    let series = visit.series.iter().map(|asked| Asked { losses: losses.to_vec(), ..asked.clone() });
    let visit = Visit { series: series.collect(), ..visit.clone() };
    let day = measured(0);
    Night {
        night: at,
        trigger: Trigger::Confirmation,
        outcome: Outcome::Visited,
        visit: Some(visit),
        fingerprint: None,
        reference: None,
        subjects: Vec::new(),
        ..day
    }
}

fn failed(visit: &Visit, at: Timestamp) -> Night {
    Unmeasured {
        night: at,
        trigger: Trigger::Confirmation,
        run_now: None,
        visit: Some(visit.clone()),
        accepted: None,
        outcome: Outcome::Gap,
        reason: "ImagePullFailed".to_owned(),
        message: "no such image".to_owned(),
    }
    .night("nightly")
}

/// Makes visits as they come, with these losses each, until none is wanted; how many there were.
fn confirm(history: &mut History, losses: impl Fn(u32) -> Vec<f64>) -> usize {
    for count in 0..10 {
        let Some(Pending { from, visit }) = next_visit(history) else { return count };
        let at = from + SignedDuration::from_mins(1);
        history.add(visited(&visit, at, &losses(visit.number))).unwrap();
    }
    panic!("visits without an end");
}

fn spread(around: f64) -> Vec<f64> {
    (0..8).map(|block| around + 0.004 * (f64::from(block) - 3.5) / 3.5).collect()
}

fn only_change(history: &History) -> Change {
    let mut changes = history.changes(&history.watched(&watch()));
    assert_eq!(changes.len(), 1, "{changes:?}");
    changes.remove(0)
}

#[test]
fn a_suspicion_is_confirmed_by_two_visits_that_are_hours_apart() {
    let mut history = history(24, 20);
    let first = next_visit(&history).expect("a visit");
    assert_eq!((first.visit.number, first.visit.subject.as_str(), first.visit.alpha), (1, "main", 0.02));
    assert_eq!((first.visit.good, first.visit.bad), (time(19), time(23)));
    assert_eq!(first.from, time(23));
    history.add(visited(&first.visit, time(23) + SignedDuration::from_mins(7), &spread(0.05))).unwrap();
    // One visit proves nothing, however clear it is.
    let change = only_change(&history);
    assert_eq!(change.stage, Stage::Confirming);
    assert!(change.said().contains("1 of 2 visits"), "{}", change.said());
    assert!(history.answers().is_empty());
    let second = next_visit(&history).expect("another visit");
    assert_eq!((second.visit.number, second.from), (2, time(23) + SignedDuration::from_mins(6 * 60 + 7)));
    assert!(second.visit.series.iter().all(|asked| asked.losses.is_empty()));
    history.add(visited(&second.visit, second.from, &spread(0.05))).unwrap();
    assert_eq!(next_visit(&history), None);
    let change = only_change(&history);
    assert_eq!((change.stage, change.name.as_str()), (Stage::Regressed, first.visit.change().as_str()));
    assert!(change.said().starts_with("Regressed -4.9 %, surely below -4."), "{}", change.said());
    let watched = history.watched(&watch());
    assert!(watched[0].suspicion.is_none() && watched[0].course.regression().is_some());
}

#[test]
fn what_is_not_there_is_refuted_and_what_is_in_between_gets_a_second_look() {
    for (around, visits, stage) in [(0.0, 2, Stage::Refuted), (0.05, 2, Stage::Regressed), (0.002, 2, Stage::Refuted)] {
        let mut history = history(24, 20);
        assert_eq!(confirm(&mut history, |_| spread(around)), visits, "{around}");
        assert_eq!(only_change(&history).stage, stage, "{around}");
    }
    // Visits that contradict each other: neither is proven, so there are two more, and then it is left.
    let mut torn = history(24, 20);
    let count = confirm(&mut torn, |number| vec![if number % 2 == 0 { 0.06 } else { -0.04 }; 2]);
    assert_eq!((count, only_change(&torn).stage), (4, Stage::Undecided));
    // Two more visits can settle it.
    let mut late = history(24, 20);
    let count = confirm(&mut late, |number| if number == 1 { spread(-0.002) } else { spread(0.05) });
    assert_eq!((count, only_change(&late).stage), (4, Stage::Regressed));
}

#[test]
fn a_refuted_suspicion_comes_back_only_with_new_nights() {
    let mut history = history(24, 20);
    confirm(&mut history, |_| spread(0.0));
    assert!(history.watched(&watch())[0].suspicion.is_none());
    assert_eq!(next_visit(&history), None);
    let mut noise = Noise::new(11);
    for day in 24..40 {
        history.add(night_of(day, &[("main", -0.05 + 0.004 * noise.normal())])).unwrap();
    }
    // The level was lower all the time, so it speaks again, of its own nights.
    assert!(next_visit(&history).is_some_and(|pending| pending.visit.raised >= time(24)));
}

#[test]
fn a_change_whose_series_began_anew_has_ended_and_not_recovered() {
    let mut history = history(24, 20);
    confirm(&mut history, |_| spread(0.05));
    for day in 24..31 {
        let mut night = night_of(day, &[("main", -0.05)]);
        night.reference = Some(crate::sweep::testing::reference("v2"));
        history.add(night).unwrap();
    }
    assert_eq!(only_change(&history).stage, Stage::Ended);
}

#[test]
fn what_is_left_of_a_confirmation_whose_beginning_fell_out_is_no_confirmation() {
    let mut history = history(24, 20);
    confirm(&mut history, |_| spread(0.05));
    let mut rest = History::new("nightly");
    for night in history.nights().filter(|night| night.visit.as_ref().is_none_or(|visit| visit.number > 1)) {
        rest.add(night.clone()).unwrap();
    }
    assert!(rest.confirmations().is_empty() && rest.answers().is_empty());
    assert!(next_visit(&rest).is_some_and(|pending| pending.visit.number == 1), "it is asked anew");
}

#[test]
fn six_confirmations_of_which_most_are_refuted_are_noisy() {
    let mut refuted = history(24, 20);
    confirm(&mut refuted, |_| spread(0.0));
    let (refuted, mut found) = (only_change(&refuted), history(24, 20));
    confirm(&mut found, |_| spread(0.05));
    let found = only_change(&found);
    let of = |stages: &[bool]| -> Vec<Change> {
        stages.iter().map(|is_refuted| if *is_refuted { refuted.clone() } else { found.clone() }).collect()
    };
    assert!(is_noisy(&of(&[true, true, true, true, false, false])));
    assert!(!is_noisy(&of(&[true, true, true, false, false, false])), "half are not most");
    assert!(!is_noisy(&of(&[true; 5])), "too few");
    assert!(!is_noisy(&of(&[true, true, true, true, true, false, false, false])), "the latest six count");
    let open = Change { stage: Stage::Confirming, ..found.clone() };
    let with_open: Vec<Change> = of(&[true, true, true, true, false]).into_iter().chain([open]).collect();
    assert!(!is_noisy(&with_open), "what is open says nothing yet");
}

#[test]
fn an_explanation_names_versions_nights_and_visits() {
    let mut history = history(24, 20);
    confirm(&mut history, |_| spread(0.05));
    let watched = history.watched(&watch());
    let lines = history.explain(&only_change(&history), &watched, None);
    for (line, parts) in lines.iter().zip([
        &["Regressed -4.9 %", "since 2026-01-2"][..],
        &["suspected in the night of 2026-01-2", "in 1 series"],
        &["before ", &image("main-19"), "2026-01-20 02:00"],
        &["first ", "2026-01-2"],
        &["after ", &image("main-23"), "2026-01-24 02:00"],
        &["options the same before and after"],
        &["throughput (fill): ", " before, -4.", "since"],
        &["throughput (fill): -4.9 % by fresh trials in 16 blocks; p 1.53e-5 for beyond -0.5 %: confirmed"],
        &["visit 1 at 2026-01-24 02:01: -4.9 % in 8 blocks"],
        &["visit 2 at 2026-01-24 08:02: -4.9 % in 8 blocks"],
        &["if nothing had changed, visits would confirm it with a chance of at most 2.000 %"],
        &["the subject's other series: 0 in other changes, 0 suspected, 0 quiet"],
        &["next: find the commit with `assay bisect`"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?}: {line}");
    }
    assert_eq!(lines.len(), 13, "{lines:#?}");
}

/// What one version has done to two metrics may be suspected in different nights.
#[test]
fn an_explanation_names_other_changes_that_begin_in_the_same_night() {
    let mut history = history(24, 20);
    let mut other = next_visit(&history).unwrap().visit;
    confirm(&mut history, |_| spread(0.05));
    other.raised += SignedDuration::from_hours(24);
    other.series[0].metric = "drained_throughput".to_owned();
    for number in 1..=2 {
        let visit = Visit { number, ..other.clone() };
        history.add(visited(&visit, time(24 + number), &spread(0.04))).unwrap();
    }
    let watched = history.watched(&watch());
    let changes = history.changes(&watched);
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    for (change, other) in [(&changes[0], names[1]), (&changes[1], names[0])] {
        let lines = history.explain(change, &watched, None);
        let same = lines.iter().find(|line| line.starts_with("begins in the same night: "));
        assert!(same.is_some_and(|line| line.contains(other)), "{lines:#?}");
    }
    let lines = history.explain(&changes[1], &watched, None);
    assert!(
        lines.contains(&"the subject's other series: 1 in other changes, 0 suspected, 0 quiet".to_owned()),
        "{lines:#?}"
    );
}

#[test]
fn visits_that_fail_are_made_again_and_given_up_after_three() {
    let mut history = history(24, 20);
    for number in 1..=3 {
        let pending = next_visit(&history).expect("a visit");
        assert_eq!(pending.visit.number, number);
        history.add(failed(&pending.visit, pending.from + SignedDuration::from_mins(1))).unwrap();
    }
    assert_eq!(next_visit(&history), None);
    let change = only_change(&history);
    assert_eq!((change.stage, change.failed), (Stage::Undecided, 3));
    // A visit that failed is no night of the series.
    assert_eq!(history.unmeasured(), 0);
    let view = history.view(&series("main", "fill", "throughput")).unwrap();
    assert_eq!((view.entries.len(), view.segments[0].points.len()), (24, 24));
}

#[test]
fn an_improvement_moves_the_level_and_alerts_nobody() {
    let mut noise = Noise::new(3);
    let mut history = History::new("nightly");
    for day in 0..24 {
        let effect = 0.004 * noise.normal() + if day >= 20 { 0.06 } else { 0.0 };
        history.add(night_of(day, &[("main", effect)])).unwrap();
    }
    confirm(&mut history, |_| spread(-0.06));
    assert_eq!(only_change(&history).stage, Stage::Improved);
    let watched = history.watched(&watch());
    assert!(watched[0].course.accepted().is_some_and(|level| level.mean > 0.05));
}

#[test]
fn a_change_that_is_accepted_is_closed_until_it_expires() {
    let mut history = history(24, 20);
    confirm(&mut history, |_| spread(0.05));
    let name = only_change(&history).name;
    let accepted = |change: &str, day: u32, expires: Option<Timestamp>| Night {
        trigger: Trigger::Manual,
        outcome: Outcome::Accepted,
        message: Some("worth it: it saves memory".to_owned()),
        accepted: Some(Acceptance { change: change.to_owned(), expires }),
        ..Night { night: time(day) + SignedDuration::from_hours(9), visit: None, ..failed_base() }
    };
    history.add(accepted(&name, 24, Some(time(30)))).unwrap();
    let change = only_change(&history);
    assert_eq!(change.stage, Stage::Accepted);
    assert!(change.said().contains("accepted until 2026-01-31: worth it"), "{}", change.said());
    assert!(history.watched(&watch())[0].course.regression().is_none());
    // It ends with the first night after that.
    let mut noise = Noise::new(5);
    for day in 25..31 {
        history.add(night_of(day, &[("main", -0.05 + 0.004 * noise.normal())])).unwrap();
        let stage = only_change(&history).stage;
        assert_eq!(stage, if day < 30 { Stage::Accepted } else { Stage::Regressed }, "day {day}");
    }
    // Then for good.
    history.add(accepted(&name, 31, None)).unwrap();
    assert_eq!(only_change(&history).stage, Stage::Accepted);
}

fn failed_base() -> Night {
    Night { experiment: None, fingerprint: None, reference: None, subjects: Vec::new(), reason: None, ..measured(0) }
}

/// Nights of `main` that are this much worse.
fn add_nights(history: &mut History, days: std::ops::Range<u32>, loss: f64) {
    let mut noise = Noise::new(days.start.into());
    for day in days {
        history.add(night_of(day, &[("main", 0.004 * noise.normal() - loss)])).unwrap();
    }
}

#[test]
fn a_regression_has_recovered_once_fresh_trials_show_it() {
    let mut history = history(24, 20);
    confirm(&mut history, |_| spread(0.05));
    add_nights(&mut history, 24..26, 0.0);
    assert_eq!((only_change(&history).stage, next_visit(&history)), (Stage::Regressed, None));
    add_nights(&mut history, 26..29, 0.0);
    assert_eq!(only_change(&history).stage, Stage::Regressed);
    let first = next_visit(&history).expect("a visit").visit;
    assert_eq!((first.asks, first.number, first.good, first.bad), (Asks::Recovery, 1, time(19), time(28)));
    assert_eq!((first.series[0].first, first.change()), (time(24), only_change(&history).name));
    // The loss is still there: nothing is closed, and it is asked again after five more nights.
    let mut lost = history.clone();
    assert_eq!(confirm(&mut lost, |_| spread(0.05)), 2);
    assert_eq!(only_change(&lost).stage, Stage::Regressed);
    add_nights(&mut lost, 29..33, 0.0);
    assert_eq!(next_visit(&lost), None);
    add_nights(&mut lost, 33..34, 0.0);
    assert_eq!(next_visit(&lost).map(|own| own.visit.bad), Some(time(33)));
    // A part of it, which is no margin, but more than half of one.
    let mut part = history.clone();
    confirm(&mut part, |_| spread(0.018));
    assert_eq!(only_change(&part).stage, Stage::Regressed);
    assert_eq!(confirm(&mut history, |_| spread(0.0)), 2);
    let change = only_change(&history);
    assert_eq!((change.stage, change.visits), (Stage::Recovered, 2));
    let told = history.explain(&change, &history.watched(&watch()), None).join("\n");
    assert!(told.contains("asked whether it is gone at 2026-01-29"), "{told}");
    // Also where nothing but the history is known.
    assert_eq!(history.changes(&history.watched(&Watch::default()))[0].stage, Stage::Recovered);
}

/// Its visits still compare the version that was bad, so it is confirmed; and whether it is gone is asked at once.
#[test]
fn a_change_that_recovers_during_its_confirmation_is_asked_about_at_once() {
    let mut history = history(24, 20);
    let first = next_visit(&history).expect("a visit");
    history.add(visited(&first.visit, time(23) + SignedDuration::from_mins(7), &spread(0.05))).unwrap();
    add_nights(&mut history, 24..31, 0.0);
    let second = next_visit(&history).expect("the second visit");
    assert_eq!((second.visit.number, second.visit.bad, second.visit.raised), (2, time(23), first.visit.raised));
    history.add(visited(&second.visit, time(30) + SignedDuration::from_mins(7), &spread(0.05))).unwrap();
    assert_eq!(only_change(&history).stage, Stage::Regressed);
    let third = next_visit(&history).expect("a visit").visit;
    assert_eq!((third.asks, third.good, third.bad), (Asks::Recovery, first.visit.good, time(30)));
    confirm(&mut history, |_| spread(0.0));
    assert_eq!(only_change(&history).stage, Stage::Recovered);
    assert!(history.watched(&watch())[0].course.regression().is_none());
}

/// Of a slide, no night is the first bad one: today is compared with what was accepted.
#[test]
fn small_steps_are_confirmed_against_the_accepted_version() {
    let mut noise = Noise::new(3);
    let mut history = History::new("nightly");
    let visit = (0..120)
        .find_map(|day| {
            let loss = 0.0004 * f64::from(day);
            history.add(night_of(day, &[("main", 0.006 * noise.normal() - loss)])).unwrap();
            // Between neighbouring versions there is next to nothing.
            while let Some(step) = next_visit(&history).filter(|own| own.visit.asks == Asks::Step) {
                let at = step.from + SignedDuration::from_mins(1);
                history.add(visited(&step.visit, at, &spread(0.0))).unwrap();
            }
            next_visit(&history)
        })
        .expect("a visit")
        .visit;
    assert_eq!((visit.asks, visit.good, visit.raised), (Asks::Sum, time(13), visit.bad));
    // Its image is gone: the oldest one that is left takes its place.
    let mut gone = history.clone();
    for minute in 1..4 {
        let at = visit.bad + SignedDuration::from_hours(7 * minute);
        let next = next_visit(&gone).expect("a visit").visit;
        gone.add(failed(&next, at)).unwrap();
    }
    let day = gone.last_measured().unwrap().night;
    let days = (day.duration_since(time(0)).as_hours() / 24) as u32;
    for later in days + 1..days + 20 {
        gone.add(night_of(later, &[("main", -0.0004 * f64::from(later))])).unwrap();
    }
    let next = next_visit(&gone).expect("another visit").visit;
    assert_eq!((next.asks, next.good), (Asks::Sum, time(14)));
    confirm(&mut history, |_| spread(0.04));
    let change = history.changes(&history.watched(&watch())).pop().expect("a change");
    assert_eq!((change.stage, change.is_sum), (Stage::Regressed, true));
    assert!(change.said().contains("since 2026-01-14, in small steps (AccumulatedRegression)"), "{}", change.said());
    let told = history
        .explain(&change, &history.watched(&watch()), Some(&assay_api::Bisect { candidates: Vec::new() }))
        .join("\n");
    assert!(told.contains("search: none: it is many small steps"), "{told}");
}

#[test]
fn subjects_that_one_night_has_moved_share_its_error_and_count_once() {
    let mut noise = Noise::new(1);
    let mut history = History::new("nightly");
    for day in 0..23 {
        let lost = if day >= 20 { 0.06 } else { 0.0 };
        let effects = ["one", "two"].map(|name| (name, 0.004 * noise.normal() - lost));
        history.add(night_of(day, &effects)).unwrap();
    }
    let once = Promised { per_year: 1, ..PROMISED };
    let next = |history: &History| pending(history, &history.watched(&watch()), &once);
    let first = next(&history).expect("a visit");
    // The stronger suspicion comes first.
    assert_eq!((first.visit.subject.as_str(), first.visit.alpha), ("two", 0.01));
    history.add(visited(&first.visit, first.from + SignedDuration::from_mins(1), &spread(0.06))).unwrap();
    let second = next(&history).expect("a visit of the other one");
    assert_eq!((second.visit.subject.as_str(), second.visit.alpha, second.visit.number), ("one", 0.01, 1));
    history.add(visited(&second.visit, second.from + SignedDuration::from_mins(2), &spread(0.06))).unwrap();
    // The year's only confirmation goes on, and no other begins.
    let third = next(&history).expect("its second visit");
    assert_eq!((third.visit.subject.as_str(), third.visit.number), ("two", 2));
    history.add(visited(&third.visit, third.from, &spread(0.06))).unwrap();
    let fourth = next(&history).expect("its second visit");
    history.add(visited(&fourth.visit, fourth.from, &spread(0.06))).unwrap();
    for day in 23..40 {
        let effects = ["one", "two"].map(|name| (name, 0.004 * noise.normal() - if day >= 30 { 0.2 } else { 0.06 }));
        history.add(night_of(day, &effects)).unwrap();
    }
    assert!(history.watched(&watch()).iter().all(|own| own.suspicion.is_some()));
    let since = spent_since(&history, &once);
    assert_eq!(since, Some(second.from + SignedDuration::from_mins(2)));
    assert!(next(&history).is_none());
    let spent = history.watched(&Watch { promised: Some(once), ..watch() });
    assert!(spent.iter().all(|own| own.said().unwrap().contains("(ConfirmationBudgetSpent)")));
    assert!(history.watched(&watch()).iter().all(|own| !own.said().unwrap().contains("Spent")));
    assert!(next_visit(&history).is_some(), "another sweep may confirm more");
}

#[test]
fn a_subject_that_has_not_changed_is_not_visited() {
    let mut noise = Noise::new(2);
    let mut same = History::new("nightly");
    for day in 0..24 {
        let effect = 0.004 * noise.normal() - if day >= 20 { 0.05 } else { 0.0 };
        let night = Night { subjects: vec![subject("main")], points: vec![point("main", effect)], ..measured(day) };
        same.add(night).unwrap();
    }
    assert!(same.watched(&watch())[0].suspicion.is_some());
    assert_eq!(next_visit(&same), None, "fresh trials of one program against itself show nothing");
    // Whoever promises no confirmations has none.
    let history = history(24, 20);
    assert!(Remembered::of(&history, &watch()).visit.is_some());
    assert!(Remembered::of(&history, &Watch { promised: None, ..watch() }).visit.is_none());
}

fn spec(reference: &Config, subject: &Config) -> TuningSweepSpec {
    let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100}, "roles": [
        {"name": "writer", "steps": 10000, "mix": {"put": 1}},
    ]}});
    serde_json::from_value(json!({
        "schedule": "17 1 * * *",
        "reference": reference,
        "subjects": [subject],
        "experiment": {
            "scenarios": [
                {"name": "fill", "workload": workload},
                {"name": "read", "workload": workload},
            ],
            "repetitions": 6,
            "objectives": [{"metric": "throughput", "margin": "3%"}],
        },
    }))
    .expect("a spec")
}

fn config(name: &str, options: &[(&str, i64)]) -> Config {
    let options = options.iter().map(|(option, value)| ((*option).to_owned(), OptionValue::Integer(*value)));
    Config { name: name.to_owned(), db_options: options.collect(), ..Config::default() }
}

/// What a config has over a reference.
fn over_reference(reference: &Config, config: &Config) -> Digest {
    settings::digest(&over(&over(&EngineConfig::default(), reference), config)).unwrap()
}

/// A history whose nights have the configs of a spec, with an image for each night of `main`.
fn of_spec(reference: &Config, subject_of: impl Fn(u32) -> Config, image_of: impl Fn(u32) -> String) -> History {
    let mut history = History::new("nightly");
    for day in 0..24 {
        let mut night = night_of(day, &[("main", if day >= 20 { -0.05 } else { 0.001 * f64::from(day % 3) })]);
        let config = subject_of(day);
        let planned = night::experiment(&spec(reference, &config));
        let digests: Vec<Digest> = trials::effective(&planned).into_iter().map(|(_, digest)| digest).collect();
        night.subjects[0].image = Some(image_of(day));
        night.subjects[0].config = digests[1].clone();
        night.subjects[0].settings = (day == 0 || subject_of(day - 1) != config).then_some(config);
        let own = night.reference.as_mut().unwrap();
        own.config = digests[0].clone();
        own.image = Some(image("release"));
        history.add(night).unwrap();
    }
    history
}

#[test]
fn a_visit_runs_the_versions_before_and_after_beside_the_reference() {
    let (reference, main) = (config("release", &[]), config("main", &[("max_open_files", 100)]));
    let history = of_spec(&reference, |_| main.clone(), |day| image(&format!("build-{day}")));
    let visit = next_visit(&history).expect("a visit").visit;
    let experiment = experiment(&spec(&reference, &main), &history, &visit).expect("an experiment");
    let names: Vec<&str> = experiment.configs.iter().map(|config| config.name.as_str()).collect();
    assert_eq!(names, ["release", "before-1", "after-1"]);
    let images: Vec<&str> = experiment.configs.iter().filter_map(|config| config.image.as_deref()).collect();
    assert_eq!(images, [image("release"), image("build-19"), image("build-23")]);
    assert!(experiment.configs[1..].iter().all(|own| own.db_options == main.db_options));
    // Only what is suspected runs.
    assert_eq!(experiment.scenarios.len(), 1);
    assert!(experiment.repetitions >= 6);
    // Whatever the nights need, this is an experiment that can be planned.
    let mut few = spec(&reference, &main);
    few.experiment.repetitions = 5;
    assert!(validate("nightly", &few, time(24)).problems().iter().all(|problem| !problem.is_error()));
    let few = super::experiment(&few, &history, &visit).expect("an experiment");
    let problems = crate::validate::validate("visit", &few).problems;
    assert!(problems.iter().all(|problem| !problem.is_error()), "{problems:?}");
    // Another visit has another order.
    let again = super::experiment(&spec(&reference, &main), &history, &visit.anew(2)).expect("an experiment");
    assert_ne!(Digest::of_json(&again.fixed()).unwrap(), Digest::of_json(&experiment.fixed()).unwrap());
}

#[test]
fn a_visit_of_a_search_runs_two_candidates_beside_the_reference() {
    let (reference, main) = (config("release", &[]), config("main", &[("max_open_files", 100)]));
    let build = |day| image(if day < 20 { "build-0" } else { "build-4" });
    let mut history = of_spec(&reference, |_| main.clone(), build);
    confirm(&mut history, |_| spread(0.05));
    let candidate = |number| json!({"image": image(&format!("build-{number}"))});
    let mut sweep = spec(&reference, &main);
    sweep
        .experiment
        .objectives
        .push(serde_json::from_value(json!({"metric": "step_latency_p99", "margin": "5%"})).unwrap());
    sweep.bisect = serde_json::from_value(json!({"candidates": (1..4).map(candidate).collect::<Vec<_>>()})).unwrap();
    let next = |history: &History| {
        let watch = Watch { bisect: sweep.bisect.clone(), ..watch() };
        Remembered::of(history, &watch).visit.expect("a visit").visit
    };
    let run = |history: &History, visit: &Visit| experiment(&sweep, history, visit).expect("an experiment");
    let visit = next(&history);
    let built = run(&history, &visit);
    let names: Vec<&str> = built.configs.iter().map(|config| config.name.as_str()).collect();
    assert_eq!(names, ["release", "before-3", "after-3"]);
    let images: Vec<&str> = built.configs.iter().filter_map(|config| config.image.as_deref()).collect();
    assert_eq!(images, [image("release"), image("build-0"), image("build-2")]);
    assert!(built.configs[1..].iter().all(|own| own.db_options == main.db_options));
    // One metric needs fewer blocks than two.
    assert_eq!((built.objectives.len(), built.repetitions), (1, 6));
    let problems = crate::validate::validate("visit", &built).problems;
    assert!(problems.iter().all(|problem| !problem.is_error()), "{problems:?}");
    // Later visits find the candidates in the first one, and can't without it.
    history.add(visited(&visit, time(25), &spread(0.05))).unwrap();
    let second = next(&history);
    assert_eq!(run(&history, &second).configs[2].image, Some(image("build-1")));
    let mut rest = History::new("nightly");
    for night in history.nights().filter(|night| night.visit.as_ref().is_none_or(|visit| visit.search.is_none())) {
        rest.add(night.clone()).unwrap();
    }
    assert_eq!(experiment(&sweep, &rest, &second), Err(Unvisited::NoCandidates));
}

#[test]
fn a_side_that_is_the_reference_runs_as_it() {
    let (reference, main) = (config("release", &[("max_open_files", 100)]), config("main", &[]));
    let build = |day| if day < 20 { image("release") } else { image("tonight") };
    let history = of_spec(&reference, |_| main.clone(), build);
    let visit = next_visit(&history).expect("a visit").visit;
    let experiment = experiment(&spec(&reference, &main), &history, &visit).expect("an experiment");
    let names: Vec<&str> = experiment.configs.iter().map(|config| config.name.as_str()).collect();
    assert_eq!(names, ["release", "after-1"]);
}

#[test]
fn options_that_have_changed_come_from_the_history() {
    let reference = config("release", &[]);
    let of = |day| config("main", &[("max_open_files", if day < 20 { 500 } else { 10 })]);
    let history = of_spec(&reference, of, |_| image("release"));
    let visit = next_visit(&history).expect("a visit").visit;
    let built = experiment(&spec(&reference, &of(23)), &history, &visit).expect("an experiment");
    let files: Vec<Option<&OptionValue>> =
        built.configs.iter().map(|config| config.db_options.get("max_open_files")).collect();
    assert_eq!(files, [None, Some(&OptionValue::Integer(500)), Some(&OptionValue::Integer(10))]);
    // All run one program, and the sweep says which.
    assert!(built.configs.iter().all(|config| config.image.is_none()));
    // Without the options nothing can run.
    let mut poor = History::new("nightly");
    for night in history.nights() {
        let mut night = night.clone();
        night.subjects[0].settings = None;
        poor.add(night).unwrap();
    }
    assert_eq!(experiment(&spec(&reference, &of(23)), &poor, &visit), Err(Unvisited::NoConfig("main".to_owned())));
    let other = config("release", &[("max_open_files", 1)]);
    assert_eq!(experiment(&spec(&other, &of(23)), &history, &visit), Err(Unvisited::Reference(time(23))));
}

/// What was written over another reference means something else over this one.
#[test]
fn options_of_another_reference_are_not_taken_for_those_of_this_one() {
    let (old, reference) = (config("release", &[]), config("release", &[("max_background_jobs", 4)]));
    let before = config("main", &[("max_background_jobs", 4), ("max_open_files", 500)]);
    let of = |day| config("main", &[("max_open_files", if day < 20 { 500 } else { 10 })]);
    let visited = of_spec(&reference, of, |_| image("release"));
    let visit = next_visit(&visited).expect("a visit").visit;
    let files = |kept: Config| {
        let mut history = History::new("nightly");
        for night in visited.nights() {
            let mut night = night.clone();
            night.subjects[0].settings = night.subjects[0].settings.take().map(|_| kept.clone());
            history.add(night).unwrap();
        }
        let built = experiment(&spec(&reference, &of(23)), &history, &visit);
        built.map(|built| built.configs[1].db_options.clone())
    };
    assert_eq!(over_reference(&old, &before), over_reference(&reference, &of(0)));
    assert_eq!(files(before.clone()), Ok(before.db_options), "it sets the same over either");
    assert_eq!(files(config("main", &[("max_background_jobs", 2)])), Err(Unvisited::NoConfig("main".to_owned())));
}

type Break = fn(&mut Night);

#[test]
fn entries_that_contradict_themselves_are_refused() {
    let history = history(24, 20);
    let visit = next_visit(&history).unwrap().visit;
    let good = visited(&visit, time(23) + SignedDuration::from_mins(1), &spread(0.05));
    assert_eq!(good.check(), Ok(()));
    let line = good.line().unwrap();
    assert_eq!(serde_json::from_str::<Night>(&line).unwrap(), good);
    let broken: [(&str, Break); 8] = [
        ("visit", |night| night.visit = None),
        ("visit", |night| night.trigger = Trigger::Manual),
        ("accepted", |night| night.accepted = Some(Acceptance { change: "x".to_owned(), expires: None })),
        ("visit.series", |night| night.visit.as_mut().unwrap().series.clear()),
        ("visit.alpha", |night| night.visit.as_mut().unwrap().alpha = 1.5),
        ("visit.series[0].shift", |night| night.visit.as_mut().unwrap().series[0].shift = 0.0),
        ("visit.series[0].losses", |night| night.visit.as_mut().unwrap().series[0].losses[0] = f64::NAN),
        ("visit.series", |night| night.visit.as_mut().unwrap().series[0].losses.clear()),
    ];
    for (field, breaks) in broken {
        let mut night = good.clone();
        breaks(&mut night);
        assert_eq!(night.check().unwrap_err().field, field);
    }
    let mut night = measured(3);
    night.visit = Some(visit);
    night.points = vec![point("main", 0.0)];
    assert_eq!(night.check().unwrap_err().field, "visit");
}
