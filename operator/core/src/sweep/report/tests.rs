use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::judge::tests::golden;
use crate::report::html::tests::elements;
use crate::sweep::testing::{Noise, night, reference, series, subject, time, unmeasured};
use crate::sweep::{Gap, Night, Point, Subject};

fn watch() -> Watch {
    let margins = BTreeMap::from([("throughput".to_owned(), 0.05), ("stall_fraction".to_owned(), 0.02)]);
    Watch { alarm: None, margins, promised: None, bisect: None }
}

/// Two references with a bridge, two metrics, a gap of each kind, and a series that never had a value.
fn small(bridge: u32) -> History {
    let (mut history, mut noise) = (History::new("nightly"), Noise::new(5));
    for day in 0..24 {
        let mut night = night(day, 0.02 + 0.01 * noise.normal());
        let stalls = series("main", "fill", "stall_fraction");
        night.points.push(Point::new(stalls, Scale::Linear, 0.002 * noise.normal(), 0.002, 6, Some(Verdict::Neutral)));
        night.subjects[0].unchanged = day % 2 == 1;
        if day >= 10 {
            night.reference = Some(reference("v2"));
        }
        if (10..10 + bridge).contains(&day) {
            night.subjects.push(Subject { name: "former".to_owned(), ..subject("v1") });
            let (rate, stalls) = (series("former", "fill", "throughput"), series("former", "fill", "stall_fraction"));
            night.points.push(Point::new(rate, Scale::Log, -0.03 + 0.01 * noise.normal(), 0.01, 6, None));
            night.points.push(Point::new(stalls, Scale::Linear, 0.002 * noise.normal(), 0.002, 6, None));
        }
        if day == 20 {
            night.points.truncate(1);
        }
        night.gaps.push(Gap {
            subject: "main".to_owned(),
            scenario: "fill".to_owned(),
            metric: Some("step_latency_p999".to_owned()),
            reason: "TooFewOperations".to_owned(),
        });
        let night = match day {
            4 => Night {
                message: Some("no node of kind c6id".to_owned()),
                ..unmeasured(day, Outcome::Gap, "NodesMissing")
            },
            5..=7 => unmeasured(day, Outcome::Skipped, "Unchanged"),
            _ => night,
        };
        history.add(night).unwrap();
    }
    history
}

fn report(history: &History) -> SweepReport {
    SweepReport::new(history, &watch())
}

#[test]
fn reports_are_as_committed() {
    let report = report(&small(8));
    golden("sweep.html", &html(&report));
    golden("sweep.md", &markdown(&report));
    golden("sweep.json", &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
}

#[test]
fn a_report_says_what_is_known() {
    let report = report(&small(8));
    let json: Value = serde_json::to_value(&report).unwrap();
    assert_eq!(json["nights"], json!({"measured": 20, "skipped": 3, "gaps": 1}));
    let rows: Vec<(State, usize, usize)> =
        report.series.iter().map(|own| (own.state, own.nights_of_level, own.nights_measured)).collect();
    // Stalls, what was never there, throughput, and the former reference.
    assert_eq!(
        rows,
        [
            (State::Known, 13, 19),
            (State::Unmeasured, 0, 0),
            (State::Known, 14, 20),
            (State::Ended, 8, 8),
            (State::Ended, 8, 8)
        ]
    );
    let throughput = &report.series[2];
    let [old, new] = throughput.segments.as_slice() else { unreachable!("{:?}", throughput.segments) };
    assert_eq!((new.changed.as_slice(), new.bridge_nights), (&["reference"][..], 8));
    let shift = old.shift().unwrap();
    assert!((shift + 0.03).abs() < 0.02 && new.shift() == Some(0.0), "{shift}");
    let [gap, skipped] = report.not_measured.as_slice() else { unreachable!("{:?}", report.not_measured) };
    assert_eq!((gap.nights, gap.message.as_deref()), (1, Some("no node of kind c6id")));
    assert_eq!((skipped.nights, skipped.reason.as_str()), (3, "Unchanged"));
    // A metric without a declared margin has none.
    assert_eq!((report.series[1].margin, throughput.margin), (None, Some(0.05)));
}

#[test]
fn pages_are_well_formed_and_load_nothing() {
    let empty = History::new("nightly");
    let mut never = History::new("nightly");
    never.add(unmeasured(0, Outcome::Gap, "Missed")).unwrap();
    let mut single = History::new("nightly");
    single.add(night(0, 0.01)).unwrap();
    for (history, charts) in [(empty, 0), (never, 0), (single, 1), (small(3), 4), (small(8), 4)] {
        let page = html(&report(&history));
        let elements = elements(&page);
        let count = |name: &str| elements.iter().filter(|element| **element == name).count();
        assert_eq!((count("html"), count("h1"), count("main"), count("script")), (1, 1, 1, 0));
        // One title is the page's.
        assert_eq!(count("title"), count("svg") + 1);
        assert_eq!((count("caption"), count("figcaption")), (count("table"), count("figure")));
        assert_eq!(page.matches("class=\"timeline\"").count(), charts);
        for forbidden in ["http:", "https:", "NaN", "inf ", " src=", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        let text = markdown(&report(&history));
        assert!(text.starts_with("# nightly\n") && !text.contains("NaN"), "{text}");
    }
}

#[test]
fn a_bridge_that_is_too_short_says_so() {
    let (short, long) = (report(&small(6)), report(&small(7)));
    let words = "new reference; bridge has 6 of 7 nights with both references";
    assert!(html(&short).contains(words) && markdown(&short).contains(words));
    assert!(
        !html(&long).contains("of 7 nights with both") && html(&long).contains("bridge of 7 nights: old reference")
    );
    // What can't be compared steps back.
    assert!(html(&short).contains("class=\"value old\"") && !html(&long).contains("class=\"value old\""));
}

/// Where a change is suspected, all forms of the report say so, and that nothing has confirmed it.
#[test]
fn a_suspected_change_is_marked() {
    let with = |step: f64| {
        let (mut history, mut noise) = (History::new("nightly"), Noise::new(5));
        for day in 0..30 {
            let mut night = night(day, 0.01 * noise.normal() - if day >= 20 { step } else { 0.0 });
            night.subjects = vec![Subject { name: "main".to_owned(), ..subject(&format!("main-{day}")) }];
            history.add(night).unwrap();
        }
        report(&history)
    };
    let (quiet, moved) = (with(0.0), with(0.06));
    assert!(quiet.series[0].suspected.is_none() && quiet.series[0].evidence.unwrap() < 1.0);
    let suspected = moved.series[0].suspected.as_ref().unwrap();
    assert!(suspected.message.starts_with("suspected -") && suspected.message.contains("since 2026-01-2"));
    let json = serde_json::to_value(&moved).unwrap();
    assert_eq!(json["series"][0]["suspected"]["cause"], "Subject");
    for (marks, report) in [(false, &quiet), (true, &moved)] {
        let (page, text) = (html(report), markdown(report));
        assert_eq!(page.contains("id=\"suspected\"") && page.contains("Known, change suspected"), marks);
        assert_eq!(page.matches("class=\"change\"").count(), if marks { 2 } else { 1 }, "the legend has one");
        assert_eq!(text.contains("Nothing has confirmed these changes"), marks, "{text}");
        assert_eq!(text.contains("- `main` `fill` `throughput`: suspected "), marks, "{text}");
    }
}

/// Also with several nights a day, and where a segment was interrupted.
#[test]
fn a_new_segment_is_drawn_between_its_nights() {
    let mut history = History::new("nightly");
    for (minutes, name) in [(0, "v1"), (10, "v1"), (29, "v2"), (40, "v1")] {
        let night_of = time(0) + SignedDuration::from_mins(minutes);
        history.add(Night { night: night_of, reference: Some(reference(name)), ..night(0, 0.01) }).unwrap();
    }
    let report = report(&history);
    let page = html(&report);
    let chart = page.split("class=\"timeline").nth(1).unwrap();
    let numbers = |start: &str| -> Vec<f64> {
        chart.split(start).skip(1).map(|rest| rest.split(['"', ' ']).next().unwrap().parse().unwrap()).collect()
    };
    let marks =
        chart.split("class=\"value").skip(1).map(|rest| rest.split("d=\"").nth(1).unwrap().split('"').next().unwrap());
    let mut dots: Vec<f64> = marks
        .flat_map(|path| path.split('M').skip(1).map(|dot| dot.split(' ').next().unwrap().parse().unwrap()))
        .collect();
    dots.sort_by(f64::total_cmp);
    let lines = numbers("class=\"segment\" x1=\"");
    let [first, second, third, fourth] = dots.as_slice() else { unreachable!("{dots:?}") };
    let [away, back] = lines.as_slice() else { unreachable!("{lines:?}") };
    assert!(
        second - first > 100.0 && (second..third).contains(&away) && (third..fourth).contains(&back),
        "{lines:?} {dots:?}"
    );
    // The level of a segment is drawn where its nights are.
    assert_eq!(chart.matches("class=\"mean").count(), 3);
    let text = markdown(&report);
    assert!(
        text.contains("| first night; again since 2026-01-01 02:40 |") && text.contains("| new reference |"),
        "{text}"
    );
}

#[test]
fn names_can_not_become_markup() {
    let mut history = History::new("<script>|x");
    let bad = "<script>alert('x')</script>\"&|";
    let mut night = night(0, 0.01);
    night.sweep = "<script>|x".to_owned();
    night.subjects[0].name = bad.to_owned();
    night.points[0].series.subject = bad.to_owned();
    night.points[0].series.metric = bad.to_owned();
    night.reference.as_mut().unwrap().name = bad.to_owned();
    history.add(night.clone()).unwrap();
    let mut gap = unmeasured(1, Outcome::Gap, "Missed");
    (gap.sweep, gap.message) = (night.sweep, Some(bad.to_owned()));
    history.add(gap).unwrap();
    let (page, text) = (html(&report(&history)), markdown(&report(&history)));
    assert!(!elements(&page).contains(&"script"));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;|"));
    let outside: String = text.split('`').step_by(2).collect();
    assert!(!outside.contains("<script>"), "{outside}");
}

/// However many nights there are, a chart has one path for each kind of mark: intervals, dots and, once it is known, the level's band.
#[test]
fn many_nights_take_few_elements() {
    let paths = |nights: u32| {
        let (mut history, mut noise) = (History::new("nightly"), Noise::new(6));
        for day in 0..nights {
            history.add(night(day, 0.01 * noise.normal())).unwrap();
        }
        let page = html(&report(&history));
        let charts = page.split("class=\"charts").nth(1).unwrap().to_owned();
        (charts.matches("<path").count(), charts.contains("class=\"nights\""))
    };
    assert_eq!((paths(3), paths(150), paths(700)), ((2, false), (3, false), (3, true)));
}
