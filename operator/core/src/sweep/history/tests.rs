use serde_json::{Value, json};

use super::*;
use crate::stats::Scale;
use crate::sweep::testing::{night, reference, series, subject, time, unmeasured};
use crate::sweep::{Gap, Point};
use crate::verdict::Verdict;

fn refused(night: &Night) -> String {
    night.check().expect_err("it makes no sense").to_string()
}

#[test]
fn a_line_says_what_was_measured() {
    let mut night = night(0, 0.012_345_678_9);
    night.points[0].verdict = Some(Verdict::Neutral);
    night.subjects[0].unchanged = true;
    let metric = "stall_fraction".to_owned();
    night.gaps.push(Gap {
        subject: "main".to_owned(),
        scenario: "fill".to_owned(),
        metric: Some(metric),
        reason: "NoSamples".to_owned(),
    });
    let line: Value = serde_json::from_str(&night.line().unwrap()).unwrap();
    assert_eq!(line["night"], "2026-01-01T02:00:00Z");
    assert_eq!(
        line["points"],
        json!([{"subject": "main", "scenario": "fill", "metric": "throughput", "logRatio": 0.012_345_7,
            "standardError": 0.01, "blocks": 6, "verdict": "Neutral"}])
    );
    assert_eq!(
        line["gaps"],
        json!([{"subject": "main", "scenario": "fill", "metric": "stall_fraction", "reason": "NoSamples"}])
    );
    let again: Night = serde_json::from_value(line).unwrap();
    assert_eq!(again, night);
    again.check().unwrap();
    let share = Point::new(series("main", "fill", "stall_fraction"), Scale::Linear, -0.02, 0.001, 6, None);
    assert_eq!(json!(share)["difference"], -0.02);
    let skipped = unmeasured(1, Outcome::Skipped, "Unchanged");
    let line = r#"{"version":1,"sweep":"nightly","night":"2026-01-02T02:00:00Z","trigger":"Schedule","outcome":"Skipped","reason":"Unchanged"}"#;
    assert_eq!(skipped.line().unwrap(), line);
}

/// Each mistake, and the night that has it.
#[test]
fn a_night_that_makes_no_sense_is_refused() {
    type Break = fn(&mut Night);
    let cases: [(&str, Break); 22] = [
        ("version: 2; this Assay reads version 1", |n| n.version = 2),
        ("sweep: empty", |n| n.sweep.clear()),
        ("night: 2026-01-01T02:00:01Z is not a whole minute", |n| n.night += jiff::SignedDuration::from_secs(1)),
        ("message: longer than 1024 bytes", |n| n.message = Some("x".repeat(1025))),
        ("subjects[1].name: main is used by an earlier subject", |n| n.subjects.push(subject("main"))),
        ("subjects[0].image: 1 to 512 bytes", |n| n.subjects[0].image = Some(String::new())),
        ("fingerprint: required for a measured night", |n| n.fingerprint = None),
        ("reference: required for a measured night", |n| n.reference = None),
        ("reason: only for a night that was not measured", |n| n.reason = Some("Unchanged".to_owned())),
        ("points: a measured night has at least one", |n| n.points.clear()),
        ("points: 501 series, at most 500", |n| n.points = vec![n.points[0].clone(); 501]),
        ("points[1]: main, fill, throughput has an earlier point", |n| n.points.push(n.points[0].clone())),
        ("points[0].subject: other is not in subjects", |n| n.points[0].series.subject = "other".to_owned()),
        ("points[0].scenario: scan is not in fingerprint.workloads", |n| {
            n.points[0].series.scenario = "scan".to_owned();
        }),
        ("points[0].metric: empty", |n| n.points[0].series.metric.clear()),
        ("points[0]: NaN is no effect; leave a gap with a reason", |n| n.points[0].effect = f64::NAN),
        ("points[0]: -inf is no effect", |n| n.points[0].effect = f64::NEG_INFINITY),
        ("points[0].standardError: -0.1 is no standard error", |n| n.points[0].standard_error = -0.1),
        ("points[0].standardError: inf is no standard error", |n| n.points[0].standard_error = f64::INFINITY),
        ("points[0].blocks: a point needs at least one block", |n| n.points[0].blocks = 0),
        ("gaps[0]: the series has a point as well", |n| n.gaps = vec![gap(None, "NoSamples")]),
        ("gaps[0].reason: one word in CamelCase", |n| n.gaps = vec![gap(Some("stalls"), "no samples")]),
    ];
    for (expected, break_it) in cases {
        let mut night = night(0, 0.01);
        night.check().unwrap();
        break_it(&mut night);
        assert!(refused(&night).starts_with(expected), "{} instead of {expected}", refused(&night));
    }
    let mut skipped = unmeasured(0, Outcome::Skipped, "Unchanged");
    skipped.check().unwrap();
    skipped.points = night(0, 0.01).points;
    assert!(refused(&skipped).starts_with("points: a night that was not measured"));
    let mut silent = unmeasured(0, Outcome::Gap, "Missed");
    silent.reason = None;
    assert_eq!(refused(&silent), "reason: required for a night that was not measured");
    for bad in ["", "missed", "Missed it", "Mißd", &"M".repeat(65)] {
        assert!(refused(&unmeasured(0, Outcome::Gap, bad)).starts_with("reason: one word"), "{bad}");
    }
}

fn gap(metric: Option<&str>, reason: &str) -> Gap {
    let (subject, scenario) = ("main".to_owned(), "fill".to_owned());
    Gap { subject, scenario, metric: metric.map(ToOwned::to_owned), reason: reason.to_owned() }
}

#[test]
fn a_point_has_one_value_with_its_unit() {
    let read = |value: &str| {
        let text = format!(r#"{{"subject":"a","scenario":"b","metric":"c",{value}"standardError":0.1,"blocks":3}}"#);
        serde_json::from_str::<Point>(&text).map_err(|error| error.to_string())
    };
    assert_eq!(read(r#""logRatio":0.5,"#).unwrap().scale, Scale::Log);
    for none in ["", r#""logRatio":0.5,"difference":0.5,"#, r#""logRatio":null,"#] {
        assert_eq!(read(none).unwrap_err(), "a point has either a logRatio or a difference", "{none}");
    }
    for bad in [r#""logRatio":1e999,"#, r#""logRatio":"0","#, r#""ratio":0.5,"#] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn nights_are_added_once_and_never_changed() {
    let mut history = History::new("nightly");
    assert_eq!(history.add(night(3, 0.01)), Ok(true));
    assert_eq!(history.add(night(1, 0.02)), Ok(true));
    assert_eq!(history.add(night(3, 0.01)), Ok(false));
    let before = history.clone();
    let error = history.add(night(3, 0.011)).unwrap_err();
    let expected =
        "night 2026-01-04T02:00:00Z is already there, with other points; nights are never changed, only added";
    assert_eq!(error.to_string(), expected);
    let error = history.add(unmeasured(3, Outcome::Gap, "Missed")).unwrap_err();
    assert!(error.to_string().contains("other experiment, fingerprint, outcome, points, reason"), "{error}");
    let other = Night { sweep: "weekly".to_owned(), ..night(4, 0.0) };
    assert_eq!(history.add(other).unwrap_err().to_string(), "sweep: weekly; this is the history of nightly");
    assert_eq!(history, before);
    let days: Vec<Timestamp> = history.nights().map(|night| night.night).collect();
    assert_eq!(days, [time(1), time(3)]);
}

#[test]
fn lines_move_a_history() {
    let mut history = History::new("nightly");
    for day in [2, 0, 1] {
        history.add(night(day, 0.01)).unwrap();
    }
    history.add(unmeasured(3, Outcome::Gap, "ImagePullFailed")).unwrap();
    let lines = history.lines().unwrap();
    assert_eq!(lines.lines().count(), 4);
    let mut moved = History::new("nightly");
    moved.add(night(1, 0.01)).unwrap();
    moved.add(night(9, 0.01)).unwrap();
    assert_eq!(moved.import(&lines), Ok(Imported { new: 3, known: 1 }));
    assert_eq!(moved.import(&format!("\n{lines}\n\n")), Ok(Imported { new: 0, known: 4 }));
    assert_eq!(moved.nights().count(), 5);
    let mut empty = History::new("nightly");
    empty.import(&lines).unwrap();
    assert_eq!(empty, history);
}

#[test]
fn a_bad_line_is_named_and_nothing_is_imported() {
    let good = night(0, 0.01).line().unwrap();
    let other = Night { sweep: "weekly".to_owned(), ..night(1, 0.0) }.line().unwrap();
    let changed = night(0, 0.02).line().unwrap();
    let later = good.replace("\"version\":1", "\"version\":2,\"moon\":\"full\"");
    let unknown = good.replace("\"version\":1", "\"version\":1,\"moon\":\"full\"");
    for (bad, expected) in [
        ("{".to_owned(), "line 3: EOF while parsing"),
        (other, "line 3: sweep: weekly; this is the history of nightly"),
        (changed, "line 3: night 2026-01-01T02:00:00Z is already there, with other points"),
        (later, "line 3: version: 2; this Assay reads version 1, use the one that wrote it"),
        (unknown, "line 3: unknown field `moon`"),
        (good.replace("02:00:00Z", "26:00:00Z"), "line 3: "),
    ] {
        let mut history = History::new("nightly");
        let error = history.import(&format!("{good}\n\n{bad}\n")).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error} instead of {expected}");
        assert_eq!(history, History::new("nightly"));
    }
}

#[test]
fn nights_without_a_measurement_are_counted_from_the_last_one_with_one() {
    let mut history = History::new("nightly");
    assert_eq!((history.unmeasured(), history.last_measured()), (0, None));
    history.add(night(0, 0.0)).unwrap();
    for day in 1..4 {
        history.add(unmeasured(day, Outcome::Skipped, "Unchanged")).unwrap();
    }
    assert_eq!(history.unmeasured(), 3);
    assert_eq!(history.last_measured().unwrap().night, time(0));
    history.add(unmeasured(4, Outcome::Gap, "Missed")).unwrap();
    assert_eq!(history.unmeasured(), 4);
    assert_eq!(history.last_measured().unwrap().night, time(0));
    history.add(night(5, 0.0)).unwrap();
    assert_eq!(history.unmeasured(), 0);
}

#[test]
fn what_was_new_and_has_no_value_is_measured_once_more() {
    let night = |day: u32, key: &str, has_gap: bool| {
        let gaps = if has_gap { vec![gap(Some("stalls"), "NoSamples")] } else { Vec::new() };
        Night { key: Some(assay_protocol::Digest::of(key.as_bytes())), gaps, ..night(day, 0.0) }
    };
    let unseen = |nights: &[(&str, bool)]| {
        let mut history = History::new("nightly");
        for (day, (key, has_gap)) in nights.iter().enumerate() {
            history.add(night(day as u32, key, *has_gap)).unwrap();
            history.add(unmeasured(100 + day as u32, Outcome::Skipped, "Unchanged")).unwrap();
        }
        history.has_unseen()
    };
    assert!(!unseen(&[]) && !unseen(&[("a", false)]) && !unseen(&[("a", false), ("b", false)]));
    assert!(unseen(&[("a", false), ("b", true)]) && unseen(&[("a", true)]));
    assert!(!unseen(&[("a", false), ("b", true), ("b", false)]));
    assert!(!unseen(&[("a", false), ("b", true), ("b", true)]), "it can't be measured");
}

#[test]
fn a_series_learns_until_its_segment_has_five_nights() {
    let mut history = History::new("nightly");
    assert!(history.learning().is_empty());
    for day in 0..4 {
        history.add(night(day, 0.0)).unwrap();
        assert_eq!(history.learning(), [&series("main", "fill", "throughput")]);
    }
    history.add(unmeasured(4, Outcome::Gap, "Missed")).unwrap();
    assert_eq!(history.learning().len(), 1);
    history.add(night(5, 0.0)).unwrap();
    assert!(history.learning().is_empty());
    // Another reference starts a new segment, and only in the scenario whose work changed does that.
    let other = Night { reference: Some(reference("v2")), ..night(6, 0.0) };
    let mut elsewhere = history.clone();
    elsewhere.add(other).unwrap();
    assert_eq!(elsewhere.learning().len(), 1);
    let workload = |scenario: &str| {
        let mut night = night(6, 0.0);
        let workloads = &mut night.fingerprint.as_mut().unwrap().workloads;
        workloads.insert(scenario.to_owned(), assay_protocol::Digest::of(b"new"));
        let mut history = history.clone();
        history.add(night).unwrap();
        history.learning().len()
    };
    assert_eq!((workload("fill"), workload("read")), (1, 0));
    // What can't be measured keeps nobody waiting.
    let gap = Gap { metric: Some("stalls".to_owned()), ..gap(None, "NoSamples") };
    history.add(Night { gaps: vec![gap], ..night(7, 0.0) }).unwrap();
    assert!(history.learning().is_empty() && history.series().count() == 2);
    // Neither does what was measured once and is not asked for any more.
    let stalls = Point::new(series("main", "fill", "stalls"), Scale::Linear, 0.0, 0.0, 6, None);
    let mut more = night(8, 0.0);
    more.points.push(stalls);
    history.add(more).unwrap();
    assert_eq!(history.learning(), [&series("main", "fill", "stalls")]);
    let mut dropped = history.clone();
    dropped.add(night(9, 0.0)).unwrap();
    assert!(dropped.learning().is_empty());
    // A gap does not end it.
    history.add(Night { gaps: vec![self::gap(Some("stalls"), "NoSamples")], ..night(9, 0.0) }).unwrap();
    assert_eq!(history.learning().len(), 1);
}
