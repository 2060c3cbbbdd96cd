use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::detector::log_likelihood;
use super::*;
use crate::stats::Scale;
use crate::sweep::next::Remembered;
use crate::sweep::testing::{Noise, measured, night, reference, series, subject, time};
use crate::sweep::{Gap, History, Night, Point, Series};

fn value(effect: f64, standard_error: f64) -> Value {
    Value { effect, standard_error }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

/// Computed without this code, by tests/reference/detection.py.
#[test]
fn evidence_is_that_of_the_reference() {
    let cases: Json = serde_json::from_str(include_str!("../../../tests/data/detection.json")).unwrap();
    let numbers =
        |json: &Json| -> Vec<f64> { json.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect() };
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let (name, restarted) = (&case["name"], case["restartedAfter"].as_u64().unwrap() as usize);
        let (effects, errors, sums) =
            (numbers(&case["effects"]), numbers(&case["standardErrors"]), numbers(&case["sums"]));
        let mut detector = Detector::default();
        for (place, (effect, error)) in effects.iter().zip(&errors).enumerate() {
            if place > 0 && place == restarted {
                detector.restart();
            }
            detector.add(value(*effect, *error));
            let seen = detector.evidence().sum();
            assert!(
                place < restarted || close(seen, sums[place]),
                "{name}, night {place}: {seen}, not {}",
                sums[place]
            );
        }
        let expected = case["candidates"].as_array().unwrap();
        assert_eq!(detector.evidence().candidates.len(), expected.len(), "{name}");
        for (seen, expected) in detector.evidence().candidates.iter().zip(expected) {
            assert_eq!(seen.night as u64, expected["night"].as_u64().unwrap(), "{name}");
            assert!(close(seen.log_likelihood, expected["logLikelihood"].as_f64().unwrap()), "{name}: {seen:?}");
            assert!(close(seen.shift, expected["shift"].as_f64().unwrap()), "{name}: {seen:?}");
        }
    }
}

/// Under normal nights of any level and scatter each likelihood ratio has a mean of 1, so their sum promises a rate of false suspicions.
/// The statistic T has Student's distribution; with T = sqrt(nu) tan(angle), its density in the angle is cos^(nu - 1).
#[test]
fn a_likelihood_ratio_has_a_mean_of_one() {
    let mean = |before: f64, after: f64, prior_is_right: bool| {
        let (size, freedom) = (before * after / (before + after), before + after - 2.0);
        let steps = 200_000;
        let (mut sum, mut mass) = (0.0, 0.0);
        for step in 0..steps {
            let angle = (f64::from(step) + 0.5) / f64::from(steps) * std::f64::consts::FRAC_PI_2;
            let density = angle.cos().powf(freedom - 1.0);
            // Another size than the one that the ratio has its prior for is another test.
            let assumed = if prior_is_right { freedom } else { freedom + 2.0 };
            sum += density * log_likelihood(size, assumed, angle.tan().powi(2), 1.0).exp();
            mass += density;
        }
        sum / mass
    };
    for (before, after) in [(3.0, 2.0), (5.0, 2.0), (10.0, 5.0), (40.0, 3.0), (100.0, 60.0)] {
        assert!((mean(before, after, true) - 1.0).abs() < 1e-6, "{before} {after}: {}", mean(before, after, true));
        assert!((mean(before, after, false) - 1.0).abs() > 0.01);
    }
}

/// Nine real nights, and four that are half as fast: the first of them once counted whole, and the others as if they were not so far, which
/// looked like scatter.
#[test]
fn a_large_step_is_suspected_however_young_the_series_is() {
    let good = [-0.030, -0.115, 0.0, -0.123, -0.098, -0.128, -0.064, 0.008, 0.012];
    let bad = [-0.832, -0.671, -0.579, -0.607];
    let after = |first: usize| {
        let nights = good[good.len() - first..].iter().chain(&bad[..3]).map(|effect| value(*effect, 0.08));
        Detector::of(nights).evidence().sum()
    };
    for first in 8..=9 {
        assert!(after(first) > 365.0, "{first} nights before: {}", after(first));
    }
    let quiet = Detector::of(good.iter().chain(&good[..4]).map(|effect| value(*effect, 0.08)));
    assert!(quiet.evidence().sum() < 20.0, "{}", quiet.evidence().sum());
}

/// From the definition, all nights at once.
fn whole(nights: &[Value]) -> f64 {
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
    };
    let clipped = |night: usize| {
        let effect = nights[night].effect;
        let mut latest: Vec<f64> = nights[night.saturating_sub(60)..night].iter().map(|own| own.effect).collect();
        let count = latest.len() as f64;
        if count < 5.0 {
            return effect;
        }
        let center = median(&mut latest);
        let spread = median(&mut latest.iter().map(|own| (own - center).abs()).collect());
        let room = 3.0 * 1.4826 * spread * (1.0 + 100.0 / (count * count));
        if room == 0.0 { effect } else { effect.clamp(center - room, center + room) }
    };
    let values: Vec<f64> = (0..nights.len()).map(clipped).collect();
    let usual = median(&mut nights.iter().map(|night| night.standard_error).collect());
    let variance = |night: usize| {
        let near = &nights[night.saturating_sub(20)..(night + 21).min(nights.len())];
        let mut squares: Vec<f64> = near.windows(2).map(|pair| (pair[1].effect - pair[0].effect).powi(2)).collect();
        squares.sort_by(f64::total_cmp);
        let others = squares.len().saturating_sub(1);
        if others < 3 { 0.0 } else { squares[..others].iter().sum::<f64>() / (2 * others) as f64 }
    };
    let mut variances: Vec<f64> = (0..nights.len()).map(variance).filter(|own| *own > 0.0).collect();
    variances.sort_by(f64::total_cmp);
    let usual_variance = variances.get(variances.len() / 2).copied().unwrap_or(1.0);
    let weight = |(place, night): (usize, &Value)| {
        let of_error = if usual == 0.0 { 1.0 } else { night.standard_error.powi(2) + 2.0 * usual.powi(2) };
        1.0 / (of_error * (variance(place) / usual_variance / 1.2).max(1.0))
    };
    let raw: Vec<f64> = nights.iter().enumerate().map(weight).collect();
    let scale = raw.len() as f64 / raw.iter().sum::<f64>();
    let weights: Vec<f64> = raw.iter().map(|weight| weight * scale).collect();
    let mean = |from: usize, to: usize| {
        let sum: f64 = (from..to).map(|night| weights[night] * values[night]).sum();
        sum / weights[from..to].iter().sum::<f64>()
    };
    let mut sum = 0.0;
    let last = nights.len().saturating_sub(1);
    for first in last.saturating_sub(60).max(3)..last {
        let (before, after) = (mean(0, first), mean(first, nights.len()));
        let residual: f64 = (0..nights.len())
            .map(|night| weights[night] * (values[night] - if night < first { before } else { after }).powi(2))
            .sum();
        let (b, c) = (weights[..first].iter().sum::<f64>(), weights[first..].iter().sum::<f64>());
        let (v, nu) = (b * c / (b + c), nights.len() as f64 - 2.0);
        let r = (after - before).powi(2) * v / residual;
        sum += (-(4.0 * v).ln_1p() / 2.0 + f64::midpoint(nu, 1.0) * (r.ln_1p() - (r / (1.0 + 4.0 * v)).ln_1p())).exp();
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn night_by_night_is_the_same_as_all_at_once(
        nights in prop::collection::vec((-0.1..0.1_f64, prop_oneof![Just(0.0), 0.001..0.02_f64]), 5..90),
        step in (0..90_usize, -0.2..0.2_f64),
    ) {
        let moved = |(place, (effect, error)): (usize, &(f64, f64))| {
            value(effect + if place >= step.0 { step.1 } else { 0.0 }, *error)
        };
        let nights: Vec<Value> = nights.iter().enumerate().map(moved).collect();
        let mut detector = Detector::default();
        for (place, night) in nights.iter().enumerate() {
            detector.add(*night);
            let (seen, expected) = (detector.evidence().sum(), whole(&nights[..=place]));
            prop_assert!((seen - expected).abs() <= 1e-6 * expected.max(1.0), "{place}: {seen}, not {expected}");
        }
    }

    /// Whatever a history holds, there is an answer, and it is a number.
    #[test]
    fn no_series_is_too_bad(
        nights in prop::collection::vec(
            (
                prop_oneof![Just(0.0), Just(1e100), Just(-1e100), Just(1e-300), Just(f64::NAN), Just(f64::INFINITY), -1.0..1.0_f64],
                prop_oneof![Just(0.0), Just(1e100), Just(1e-300), Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), 0.0..1.0_f64],
            ),
            0..40,
        ),
        answers in prop::collection::vec((0..50_u32, 0..50_u32, 0..3_usize), 0..6),
    ) {
        let nights: Vec<Measured> = nights
            .iter()
            .enumerate()
            .map(|(place, (effect, error))| Measured {
                night: time(place as u32),
                value: value(*effect, *error),
                is_changed: place % 3 == 0,
            })
            .collect();
        let decisions = [Decision::Confirmed, Decision::Refuted, Decision::Accepted];
        let answers: Vec<Answer> = answers
            .iter()
            .map(|(first, known, what)| Answer { first: time(*first), known: time(*known), decision: decisions[*what], shift: None, is_sum: *first % 2 == 0 })
            .collect();
        let threshold = Threshold { alarm: 100.0, margin: Some(0.03) };
        let course = Course::of(&nights, threshold, &answers);
        prop_assert!(!course.evidence().is_nan());
        let _ = (course.suspicion(), course.sum(), course.seems_recovered(), course.accepted(), course.regression());
    }
}

fn plain(effects: impl IntoIterator<Item = f64>) -> Detector {
    Detector::of(effects.into_iter().map(|effect| value(effect, 0.01)))
}

#[test]
fn too_few_nights_say_nothing() {
    for nights in 0..5 {
        assert_eq!(plain((0..nights).map(f64::from)).evidence(), &Evidence::default());
    }
    assert!(plain([0.0, 0.01, -0.01, 1.0, 1.01]).evidence().sum() > 1.0);
    // One night alone is no change, however far it is.
    let once = plain([0.0, 0.01, -0.01, 0.005, -0.005, 5.0]);
    let again = plain([0.0, 0.01, -0.01, 0.005, -0.005, 5.0, 5.01, 4.99]);
    assert!(once.evidence().sum() < 10.0 && again.evidence().sum() > 100.0, "{}", again.evidence().sum());
}

/// Constants that stay are no change, and a step between constants is one that says what it lacks.
#[test]
fn nights_without_scatter_are_told_as_such() {
    let constant = plain([0.02; 400]);
    assert!(constant.evidence().sum() < 30.0 && constant.evidence().candidates.len() == 60);
    let steps = |noise: f64| {
        let mut course = Vec::new();
        for day in 0..20_u32 {
            let effect = if day >= 12 { -0.05 } else { 0.0 } + noise * f64::from(day % 3);
            course.push(Measured { night: time(day), value: value(effect, 0.0), is_changed: true });
        }
        Course::of(&course, Threshold { alarm: 100.0, margin: None }, &[]).suspicion()
    };
    let (constant, noisy) = (steps(0.0).unwrap(), steps(0.001).unwrap());
    assert!(constant.is_constant && !noisy.is_constant);
    assert!(constant.first == time(12) && (constant.shift + 0.05).abs() < 1e-6, "{constant:?}");
}

/// A night that claims to be exact does not decide alone, and numbers that are none are left out.
#[test]
fn errors_of_zero_and_infinite_ones_do_no_harm() {
    let mut noise = Noise::new(4);
    let mut detector = Detector::default();
    for night in 0..30 {
        let error = if night == 20 { 0.0 } else { 0.01 };
        let effect = if night == 20 { 0.05 } else { 0.01 * noise.normal() };
        detector.add(value(effect, error));
    }
    assert!(detector.evidence().sum() < 100.0, "{}", detector.evidence().sum());
    let before = detector.clone();
    for (effect, error) in [(f64::NAN, 0.01), (f64::INFINITY, 0.01), (0.0, f64::INFINITY), (0.0, f64::NAN), (0.0, -1.0)]
    {
        detector.add(value(effect, error));
    }
    assert_eq!((detector.nights(), detector.evidence()), (30, before.evidence()));
}

/// Nights of a series with a step, some of which have the same subject as before.
fn stepping(nights: u32, at: u32, by: f64, changed: impl Fn(u32) -> bool, seed: u64) -> Vec<Measured> {
    let mut noise = Noise::new(seed);
    let of = |day: u32| Measured {
        night: time(day),
        value: value(0.011 * noise.normal() + if day >= at { by } else { 0.0 }, 0.01),
        is_changed: changed(day),
    };
    (0..nights).map(of).collect()
}

const USUAL: Threshold = Threshold { alarm: 365.0, margin: Some(0.03) };

fn answer(first: u32, known: u32, decision: Decision) -> Answer {
    Answer { first: time(first), known: time(known), decision, shift: None, is_sum: false }
}

#[test]
fn a_step_is_suspected_with_its_nights() {
    let (mut found, mut held) = (0, 0);
    for seed in 0..100 {
        let nights = stepping(36, 30, -0.05, |_| true, seed);
        let suspicion = Course::of(&nights, USUAL, &[]).suspicion();
        let Some(suspicion) = suspicion else { continue };
        found += 1;
        held += usize::from(suspicion.nights.contains(&time(30)));
        assert!((-0.08..-0.02).contains(&suspicion.shift) && suspicion.cause == Cause::Subject, "{suspicion:?}");
        assert!(suspicion.nights.contains(&suspicion.first), "{suspicion:?}");
    }
    assert!(found >= 95 && held >= 85, "{found} {held}");
    let quiet =
        (0..100).filter(|seed| Course::of(&stepping(36, 99, -0.05, |_| true, *seed), USUAL, &[]).suspicion().is_some());
    assert!(quiet.count() <= 5);
}

/// Nights in which the subject was the same enter the evidence, and can't be the first bad one.
#[test]
fn an_unchanged_night_is_never_to_blame() {
    // Changed in every fourth night, and the step comes with it.
    for seed in 0..20 {
        let nights = stepping(40, 32, -0.05, |day| day % 4 == 0, seed);
        let Some(own) = Course::of(&nights, USUAL, &[]).suspicion() else { continue };
        let is_changed = |night: &_| (0..40).step_by(4).any(|day| *night == time(day));
        assert!(own.nights.iter().all(is_changed) && !own.nights.is_empty(), "{own:?}");
    }
    // The subject was the same for three weeks, and moved in between.
    let nights = stepping(40, 30, -0.05, |day| day < 18, 7);
    let own = Course::of(&nights, USUAL, &[]).suspicion().unwrap();
    assert_eq!((own.cause, own.nights.as_slice()), (Cause::EnvironmentShift, &[][..]), "{own:?}");
    let nights = stepping(40, 30, -0.05, |day| day < 31, 7);
    assert_eq!(Course::of(&nights, USUAL, &[]).suspicion().unwrap().cause, Cause::Subject);
}

/// The last good night may happen to be the worst of them. The larger a change, the less that can be mistaken.
#[test]
fn who_is_to_blame_is_the_surer_the_larger_the_change_is() {
    let blamed = |by: f64| {
        let is_right = |seed: &u64| {
            let nights = stepping(38, 30, by, |day| day == 30, *seed);
            let own = Course::of(&nights, USUAL, &[]).suspicion();
            own.is_some_and(|own| (own.cause, own.first) == (Cause::Subject, time(30)))
        };
        (0..200).filter(is_right).count()
    };
    let found = [-0.03, -0.06, -0.15, -0.3, -1.0].map(blamed);
    assert!(found.is_sorted() && found[2] == 200, "{found:?}");
}

#[test]
fn a_refuted_suspicion_does_not_come_back() {
    // A few bad nights, and nothing behind them.
    let mut nights = stepping(70, 60, -0.06, |_| true, 3);
    for own in &mut nights[30..33] {
        own.value.effect -= 0.05;
    }
    let raised = Course::of(&nights[..34], USUAL, &[]).suspicion().unwrap();
    let decision = Decision::Refuted;
    let refuted = [Answer { first: raised.first, known: raised.raised, decision, shift: None, is_sum: false }];
    let course = Course::of(&nights[..34], USUAL, &refuted);
    assert_eq!((course.suspicion(), course.regression()), (None, None));
    assert_eq!(Course::of(&nights[..60], USUAL, &refuted).suspicion(), None);
    // What comes later is seen all the same.
    let again = Course::of(&nights, USUAL, &refuted).suspicion().unwrap();
    assert!(again.first == time(60) && again.raised > time(60), "{again:?}");
}

/// Improvements move the accepted level once they are confirmed; regressions stay open until somebody accepts them or they are gone.
#[test]
fn only_gains_roll_by_themselves() {
    let level = |course: &Course| course.accepted().unwrap().mean;
    let gain = stepping(45, 30, 0.05, |_| true, 5);
    let suspected = Course::of(&gain, USUAL, &[]);
    assert!(suspected.suspicion().unwrap().shift > 0.0 && level(&suspected) < 0.03);
    let confirmed = Course::of(&gain, USUAL, &[answer(30, 36, Decision::Confirmed)]);
    assert!((level(&confirmed) - 0.05).abs() < 0.01 && confirmed.suspicion().is_none(), "{}", level(&confirmed));
    assert_eq!((confirmed.accepted().unwrap().nights, confirmed.regression()), (15, None));

    let harm = stepping(45, 30, -0.05, |_| true, 5);
    let open = Course::of(&harm, USUAL, &[answer(30, 36, Decision::Confirmed)]);
    let regression = open.regression().unwrap();
    assert!(level(&open).abs() < 0.01 && open.accepted().unwrap().nights == 30, "{}", level(&open));
    assert!((regression.shift + 0.05).abs() < 0.015 && !regression.is_small && regression.first == time(30));
    // What was confirmed is not suspected again, and a second step behind it is.
    assert_eq!(open.suspicion(), None);
    let mut twice = harm.clone();
    for own in twice.iter_mut().skip(38) {
        own.value.effect -= 0.08;
    }
    let second = Course::of(&twice, USUAL, &[answer(30, 36, Decision::Confirmed)]);
    assert_eq!(second.suspicion().unwrap().first, time(38));
    assert_eq!(second.regression().unwrap().first, time(30));

    let answers = [answer(30, 36, Decision::Confirmed), answer(30, 40, Decision::Accepted)];
    let accepted = Course::of(&harm, USUAL, &answers);
    assert_eq!(accepted.regression(), None);
    assert!((level(&accepted) + 0.05).abs() < 0.01, "{}", level(&accepted));
}

#[test]
fn a_regression_closes_on_proof_and_leaves_the_level() {
    let mut nights = stepping(60, 30, -0.06, |_| true, 8);
    let confirmed = [answer(30, 34, Decision::Confirmed)];
    let open = Course::of(&nights, USUAL, &confirmed);
    assert!(open.regression().is_some() && open.seems_recovered().is_none());
    for own in nights.iter_mut().skip(44) {
        own.value.effect += 0.06;
    }
    // Five good nights are a reason to ask, and fresh trials the answer.
    let seems = Course::of(&nights[..49], USUAL, &confirmed);
    assert!(seems.regression().is_some());
    assert_eq!(seems.seems_recovered(), Some(time(44)));
    let known = [confirmed[0], answer(44, 48, Decision::Recovered)];
    let closed = Course::of(&nights[..49], USUAL, &known);
    assert_eq!((closed.regression(), closed.suspicion(), closed.seems_recovered()), (None, None, None));
    let accepted = closed.accepted().unwrap();
    assert!(accepted.mean.abs() < 0.008 && accepted.nights == 35, "{accepted:?}");
    // Without trials, nights alone do it late.
    assert!(Course::of(&nights[..54], USUAL, &confirmed).regression().is_some());
    assert_eq!(Course::of(&nights, USUAL, &confirmed).regression(), None);
    // Half of the way back is not back.
    for own in nights.iter_mut().skip(44) {
        own.value.effect -= 0.03;
    }
    assert!(Course::of(&nights, USUAL, &confirmed).regression().is_some());
    // Smaller than the margin: no alert, so nothing to be closed; and one as soon as it has grown.
    let mut small = stepping(90, 30, -0.015, |_| true, 8);
    let confirmed = [answer(30, 50, Decision::Confirmed)];
    assert!(Course::of(&small[..60], USUAL, &confirmed).regression().unwrap().is_small);
    for own in small.iter_mut().skip(60) {
        own.value.effect -= 0.04;
    }
    assert!(!Course::of(&small, USUAL, &confirmed).regression().unwrap().is_small);
}

/// Slowly enough, nothing is suspected of any single night.
#[test]
fn small_steps_add_up() {
    let mut slow = stepping(150, 999, 0.0, |_| true, 6);
    for (day, own) in slow.iter_mut().enumerate() {
        own.value.effect -= 0.0004 * day as f64;
    }
    assert!(Course::of(&slow[..40], USUAL, &[]).sum().is_none());
    let course = Course::of(&slow, USUAL, &[]);
    let sum = course.sum().unwrap();
    assert_eq!((sum.accepted, sum.first), (time(13), time(136)));
    assert!((sum.shift + 0.054).abs() < 0.01 && sum.bound < -0.015 && sum.bound > sum.shift, "{sum:?}");
    // Trials that show nothing are not repeated at once.
    let of = |decision, known| Answer { is_sum: true, ..answer(136, known, decision) };
    for decision in [Decision::Refuted, Decision::Undecided] {
        assert_eq!(Course::of(&slow, USUAL, &[of(decision, 140)]).sum(), None);
        assert!(Course::of(&slow, USUAL, &[of(decision, 130)]).sum().is_some());
    }
    // Against the accepted level, and not against nights that had lost a part of it already.
    let confirmed = Course::of(&slow, USUAL, &[of(Decision::Confirmed, 149)]);
    let regression = confirmed.regression().unwrap();
    assert!((regression.shift - sum.shift).abs() < 1e-9 && !regression.is_small, "{regression:?}");
    assert_eq!((confirmed.sum(), confirmed.accepted().unwrap().nights), (None, 14));
    // A level that somebody accepts is where the next sum begins.
    let accepted = Course::of(&slow, USUAL, &[of(Decision::Confirmed, 149), of(Decision::Accepted, 149)]);
    assert_eq!((accepted.sum(), accepted.regression()), (None, None));
    // Without a margin nothing is too much.
    assert_eq!(Course::of(&slow, Threshold { margin: None, ..USUAL }, &[]).sum(), None);
}

/// Three series of two subjects: what moves from a night on, whether subjects change before and behind it.
fn history(moves: impl Fn(&Series) -> bool, changes: impl Fn(u32) -> bool) -> History {
    let mut noise = Noise::new(12);
    let mut history = History::new("nightly");
    let mut version = 0;
    for day in 0..40 {
        version += u32::from(changes(day));
        let mut night = measured(day);
        night.subjects = ["main", "next"].map(|name| subject(&format!("{name}-{version}"))).to_vec();
        for (subject, name) in night.subjects.iter_mut().zip(["main", "next"]) {
            subject.name = name.to_owned();
        }
        for (subject, scenario) in [("main", "fill"), ("main", "read"), ("next", "fill")] {
            let series = series(subject, scenario, "throughput");
            let moved = if day >= 30 && moves(&series) { -0.06 } else { 0.0 };
            night.points.push(Point::new(series, Scale::Log, 0.011 * noise.normal() + moved, 0.01, 6, None));
        }
        history.add(night).unwrap();
    }
    history
}

fn watch() -> Watch {
    Watch {
        alarm: Some(365.0),
        margins: BTreeMap::from([("throughput".to_owned(), 0.03)]),
        promised: None,
        bisect: None,
    }
}

fn causes(history: &History) -> Vec<Option<Cause>> {
    let watched = history.watched(&watch());
    watched.iter().map(|own| own.suspicion.as_ref().map(|suspicion| suspicion.cause)).collect()
}

/// While a change is likely, no night is skipped for having nothing new.
#[test]
fn a_likely_change_keeps_nights_running() {
    let suspecting = |history: &History| Remembered::of(history, &watch()).suspecting;
    assert!(suspecting(&history(|_| true, |_| true)) && !suspecting(&history(|_| false, |_| true)));
    let mut likely = History::new("nightly");
    for own in history(|_| true, |_| true).nights().take(32) {
        likely.add(own.clone()).unwrap();
    }
    let highest = likely.watched(&watch()).iter().map(|own| own.course.evidence()).fold(0.0, f64::max);
    assert!(highest >= WATCHFUL && suspecting(&likely), "{highest}");
}

#[test]
fn a_broken_reference_and_a_moved_machine_are_no_regressions() {
    let (changed, shift, broken) = (Some(Cause::Subject), Some(Cause::EnvironmentShift), Some(Cause::ReferenceBroken));
    assert_eq!(causes(&history(|_| true, |_| true)), [changed; 3]);
    assert_eq!(causes(&history(|own| own.scenario == "read", |_| true)), [None, changed, None]);
    // Nothing had changed for three weeks.
    assert_eq!(causes(&history(|_| true, |day| day < 20)), [broken; 3]);
    assert_eq!(causes(&history(|own| own.scenario == "read", |day| day < 20)), [None, shift, None]);
    assert_eq!(causes(&history(|own| own.scenario == "fill", |day| day < 20)), [shift, None, shift]);
    assert!(causes(&History::new("nightly")).is_empty());
}

/// The night that changed the subject may be one of which the series has no value.
#[test]
fn a_change_behind_a_gap_is_one() {
    let mut history = History::new("nightly");
    for day in 0..40 {
        let mut night = night(day, if day >= 30 { -0.06 } else { 0.002 * f64::from(day % 5) });
        if day >= 29 {
            night.subjects[0].image = subject("other").image;
        }
        if day == 29 {
            let gap = Gap {
                subject: "main".to_owned(),
                scenario: "fill".to_owned(),
                metric: Some("throughput".to_owned()),
                reason: "NoValue".to_owned(),
            };
            night.points[0].series = series("main", "read", "throughput");
            night.gaps.push(gap);
        }
        history.add(night).unwrap();
    }
    let watched = history.watched(&watch());
    let suspicion = watched[0].suspicion.as_ref().unwrap();
    assert_eq!((suspicion.cause, suspicion.nights.as_slice()), (Cause::Subject, &[time(30)][..]));
}

/// A new reference begins a new segment, and what it measures is no change.
#[test]
fn a_new_reference_is_no_change() {
    let mut history = History::new("nightly");
    let add = |history: &mut History, day: u32, effect: f64, name: &str| {
        history.add(Night { reference: Some(reference(name)), ..night(day, effect) }).unwrap();
    };
    let mut noise = Noise::new(2);
    for day in 0..40 {
        let (name, level) = if day >= 25 { ("v2", -0.2) } else { ("v1", 0.0) };
        add(&mut history, day, level + 0.011 * noise.normal(), name);
    }
    let [watched] = &history.watched(&watch())[..] else { unreachable!() };
    assert_eq!((&watched.suspicion, watched.scale), (&None, Scale::Log));
    assert!((watched.course.accepted().unwrap().mean + 0.2).abs() < 0.02);
}

/// A step is what is looked for, and not what it has to be told from.
#[test]
fn a_step_is_no_scatter() {
    let with = |step: f64| {
        let (mut history, mut noise) = (History::new("nightly"), Noise::new(8));
        for day in 0..24 {
            history.add(night(day, 0.01 * noise.normal() + if day >= 12 { step } else { 0.0 })).unwrap();
        }
        history.scatter("throughput").unwrap()
    };
    let (quiet, stepped) = (with(0.0), with(-0.3));
    assert!((0.008..0.02).contains(&quiet) && (0.008..0.02).contains(&stepped), "{quiet} {stepped}");
}
