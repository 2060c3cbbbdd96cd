use super::*;
use crate::sweep::Gap;
use crate::sweep::testing::{Noise, measured, night, reference, series, subject, time, unmeasured};

fn main() -> Series {
    series("main", "fill", "throughput")
}

fn history(nights: impl IntoIterator<Item = Night>) -> History {
    let mut history = History::new("nightly");
    for night in nights {
        assert_eq!(history.add(night), Ok(true));
    }
    history
}

/// A night of `main` and of the reference before, both against `v2`.
fn crossing(day: u32, main: f64, former: f64) -> Night {
    let mut night = night(day, main);
    night.reference = Some(reference("v2"));
    night.subjects.push(Subject { name: "former".to_owned(), ..subject("v1") });
    let series = series("former", "fill", "throughput");
    night.points.push(Point::new(series, Scale::Log, former, 0.01, 6, None));
    night
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn nights_without_a_point_are_gaps_with_their_reason() {
    let gap = |metric: Option<&str>| Gap {
        subject: "main".to_owned(),
        scenario: "fill".to_owned(),
        metric: metric.map(ToOwned::to_owned),
        reason: "NoSamples".to_owned(),
    };
    let mut partial = measured(3);
    partial.gaps.push(gap(Some("throughput")));
    partial.points.push(Point::new(series("main", "fill", "stalls"), Scale::Linear, 0.0, 0.0, 6, None));
    // A night in which the sweep did not have the scenario, and what comes behind it.
    let mut without = measured(4);
    without.points.push(Point::new(series("main", "read", "throughput"), Scale::Log, 0.0, 0.01, 6, None));
    let history = history([
        unmeasured(0, Outcome::Gap, "Missed"),
        night(1, 0.01),
        unmeasured(2, Outcome::Skipped, "Unchanged"),
        partial,
        without,
        unmeasured(5, Outcome::Gap, "Missed"),
    ]);
    let view = history.view(&main()).unwrap();
    let seen = view.entries.iter().map(|entry| match entry.seen {
        Seen::Point(point) => point.effect.to_string(),
        Seen::Missing { outcome, reason } => format!("{outcome:?} {reason}"),
    });
    assert_eq!(seen.collect::<Vec<_>>(), ["0.01", "Skipped Unchanged", "Gap NoSamples"]);
    assert_eq!(history.view(&series("main", "scan", "throughput")), None);
    // A series that never had a point is there as well.
    let mut never = night(1, 0.0);
    never.gaps.push(gap(Some("stalls")));
    let never = self::history([never]);
    let view = never.view(&series("main", "fill", "stalls")).unwrap();
    assert_eq!((view.entries.len(), view.segments.len(), view.level()), (1, 0, None));
}

#[test]
fn what_makes_ratios_incomparable_starts_a_segment() {
    type Change = fn(&mut Night);
    let cases: [(&[&str], Change); 7] = [
        (&[], |n| n.subjects[0].image = None),
        (&[], |n| n.reference.as_mut().unwrap().name = "renamed".to_owned()),
        (&["reference"], |n| n.reference = Some(reference("v2"))),
        (&["machine"], |n| n.fingerprint.as_mut().unwrap().machine = "m7gd".to_owned()),
        (&["protocol"], |n| n.fingerprint.as_mut().unwrap().protocol = 4),
        (&["scale"], |n| n.points[0].scale = Scale::Linear),
        (&["reference", "workload"], |n| {
            n.reference = Some(reference("v2"));
            let workloads = &mut n.fingerprint.as_mut().unwrap().workloads;
            workloads.insert("fill".to_owned(), Digest::of(b"new"));
        }),
    ];
    for (expected, change) in cases {
        let nights = (0..6).map(|day| {
            let mut night = night(day, 0.01);
            if day >= 3 {
                change(&mut night);
            }
            night
        });
        let history = history(nights);
        let view = history.view(&main()).unwrap();
        assert_eq!(view.segments.len(), if expected.is_empty() { 1 } else { 2 }, "{expected:?}");
        assert_eq!(view.segments[0].link, None);
        let Some(link) = view.segments.last().and_then(|segment| segment.link.as_ref()) else { continue };
        assert_eq!((link.changed.as_slice(), link.bridge), (expected, None));
        assert_eq!(view.segments[0].chained, None);
        assert_eq!(view.segments[1].chained, Some(view.segments[1].level));
    }
}

#[test]
fn seven_nights_with_both_references_carry_a_level_over() {
    let before: Vec<Night> = (0..10).map(|day| night(day, 0.05)).collect();
    let both = |nights: u32| (10..10 + nights).map(|day| crossing(day, 0.02, -0.03));
    let after = (20..25).map(|day| Night { reference: Some(reference("v2")), ..night(day, 0.02) });
    for nights in [6, 7] {
        let history = history(before.iter().cloned().chain(both(nights)).chain(after.clone()));
        let view = history.view(&main()).unwrap();
        let [old, new] = view.segments.as_slice() else { unreachable!("{:?}", view.segments) };
        let link = new.link.as_ref().unwrap();
        assert_eq!((link.changed.as_slice(), link.nights), (&["reference"][..], nights as usize));
        assert_eq!(link.bridge.is_some(), nights == 7);
        assert!(close(new.level.mean, 0.02) && close(old.level.mean, 0.05));
        assert_eq!(new.chained, Some(new.level));
        let Some(chained) = old.chained else { continue };
        // main/v1 times v1/v2.
        assert!(close(chained.mean, 0.02) && chained.standard_error > old.level.standard_error, "{chained:?}");
        // The old reference as a subject has its own series, which has nothing to be bridged.
        let former = history.view(&series("former", "fill", "throughput")).unwrap();
        assert_eq!((former.segments.len(), former.entries.len()), (1, 7));
    }
}

/// Two bridges, one behind the other: errors add up, and the middle one is crossed by both.
#[test]
fn bridges_make_a_chain() {
    let mut noise = Noise::new(7);
    let step = |day: u32, reference: u32, noise: &mut Noise| {
        // Reference n is n * 4 % faster than the first, main 10 %.
        let mut night = night(day, 0.10 - 0.04 * f64::from(reference) + 0.005 * noise.normal());
        night.reference = Some(self::reference(&format!("v{reference}")));
        if reference > 0 {
            night.subjects.push(Subject { name: "former".to_owned(), ..subject(&format!("v{}", reference - 1)) });
            let series = series("former", "fill", "throughput");
            night.points.push(Point::new(series, Scale::Log, -0.04 + 0.005 * noise.normal(), 0.005, 6, None));
        }
        night
    };
    let history = history((0..60).map(|day| step(day, day / 20, &mut noise)));
    let view = history.view(&main()).unwrap();
    assert_eq!(view.segments.len(), 3);
    let chained: Vec<Level> = view.segments.iter().map(|segment| segment.chained.unwrap()).collect();
    for level in &chained {
        assert!((level.mean - 0.02).abs() < 4.0 * level.standard_error, "{level:?}");
    }
    assert!(chained[0].standard_error > chained[1].standard_error);
    assert!(chained[1].standard_error > chained[2].standard_error);
}

/// An edit that is undone costs the nights between, and no others.
#[test]
fn a_reference_that_returns_goes_on_with_its_segment() {
    let returned = |until: u32| {
        history((0..until).map(|day| {
            let (name, effect) = if day / 3 == 1 { ("v2", 0.05) } else { ("v1", 0.01) };
            Night { reference: Some(reference(name)), ..night(day, effect) }
        }))
    };
    let (away, back) = (returned(6), returned(9));
    let nights = |segment: &Segment<'_>| segment.points.iter().map(|(night, _)| night.night).collect::<Vec<_>>();
    let view = away.view(&main()).unwrap();
    let [old, new] = view.segments.as_slice() else { unreachable!("{:?}", view.segments) };
    assert_eq!((nights(old).len(), nights(new)), (3, [3, 4, 5].map(time).to_vec()));
    assert_eq!((old.changed.len(), new.changed.as_slice(), new.resumed), (0, &["reference"][..], None));
    assert_eq!(away.learning(), [&main()]);
    let view = back.view(&main()).unwrap();
    let [other, own] = view.segments.as_slice() else { unreachable!("{:?}", view.segments) };
    assert_eq!((nights(other), nights(own)), ([3, 4, 5].map(time).to_vec(), [0, 1, 2, 6, 7, 8].map(time).to_vec()));
    assert_eq!((other.changed.as_slice(), own.changed.len(), own.resumed), (&["reference"][..], 0, Some(time(6))));
    assert!(close(view.level().unwrap().mean, 0.01) && own.chained == Some(own.level) && other.chained.is_none());
    assert!(back.learning().is_empty());
}

/// Of a bridge all nights count, also those before it was interrupted.
#[test]
fn a_bridge_goes_on_with_its_segment() {
    let both = |days: std::ops::Range<u32>| days.map(|day| crossing(day, 0.02, -0.03));
    let before = (0..5).map(|day| night(day, 0.05));
    let broken = (9..11).map(|day| Night { reference: Some(reference("v3")), ..night(day, 0.0) });
    let history = history(before.chain(both(5..9)).chain(broken).chain(both(11..14)));
    let view = history.view(&main()).unwrap();
    let [broken, old, own] = view.segments.as_slice() else { unreachable!("{:?}", view.segments) };
    assert_eq!((broken.points.len(), old.points.len(), own.points.len()), (2, 5, 7));
    assert_eq!(own.link.as_ref().unwrap().nights, 7);
    assert!(old.chained.is_some() && broken.chained.is_none());
}

/// Whatever a night may say, what follows from it is a number.
#[test]
fn no_night_makes_a_level_that_is_no_number() {
    let effects = [-1e100, -0.01, 0.0, 1e-300, 0.02, 1e100];
    let errors = [0.0, 1e-300, 1e-155, 1e-120, 1e-90, 1e-7, 1.0, 1e100];
    let all: Vec<(f64, f64)> = effects.iter().flat_map(|effect| errors.map(|error| (*effect, error))).collect();
    let mut seen = 0;
    for (first, second) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
        let mut history = History::new("nightly");
        for (day, (effect, error)) in [first, second, first].into_iter().enumerate() {
            let mut night = night(day as u32, 0.0);
            (night.points[0].effect, night.points[0].standard_error) = (*effect, *error);
            if history.add(night).is_err() {
                break;
            }
        }
        let Some(view) = history.view(&series("main", "fill", "throughput")) else { continue };
        let level = *view.level().expect("a level");
        let ends = [level.mean, level.standard_error, level.between_nights];
        let ends = ends.into_iter().chain(level.interval95.low).chain(level.interval95.high);
        assert!(ends.clone().all(f64::is_finite), "{first:?} {second:?}: {level:?}");
        seen += ends.count();
    }
    assert!(seen > 1000, "{seen}");
}
