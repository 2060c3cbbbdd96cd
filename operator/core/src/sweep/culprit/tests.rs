use std::collections::BTreeMap;

use assay_api::{Bisect, Candidate};
use assay_protocol::Digest;
use jiff::{SignedDuration, Timestamp};

use super::sought::between as sought_between;
use super::*;
use crate::stats::Scale;
use crate::sweep::confirm::{Asked, Change, Pending, Promised, Stage, Visit};
use crate::sweep::detect::Watch;
use crate::sweep::next::{Remembered, Unmeasured};
use crate::sweep::testing::{Noise, image, measured, series, subject, time};
use crate::sweep::{History, Night, Outcome, Point, Subject, Trigger};

const PROMISED: Promised = Promised { alpha: 0.02, per_year: 50, visit_gap: SignedDuration::from_hours(6) };
const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn candidate(name: &str) -> Candidate {
    Candidate { image: image(name), revision: Some(name.to_owned()), subject: None, weight: 1 }
}

/// All builds from `r0`, which is good, to `r8`, which is bad.
fn listed() -> Bisect {
    Bisect { candidates: (0..=8).map(|number| candidate(&format!("r{number}"))).collect() }
}

fn watch(bisect: Option<Bisect>) -> Watch {
    let margins = BTreeMap::from([("throughput".to_owned(), 0.03)]);
    Watch { alarm: None, margins, promised: Some(PROMISED), bisect }
}

/// Nights of `main`, which ran `r0` and has lost 5 % since it runs `r8`.
fn history() -> History {
    let mut noise = Noise::new(7);
    let mut history = History::new("nightly");
    for day in 0..24 {
        let (effect, revision) = if day >= 20 { (-0.05, "r8") } else { (0.0, "r0") };
        let mut own = subject("main");
        (own.image, own.revision) = (Some(image(revision)), Some(revision.to_owned()));
        let effect = effect + 0.004 * noise.normal();
        let point = Point::new(series("main", "fill", "throughput"), Scale::Log, effect, 0.006, 6, None);
        history.add(Night { subjects: vec![own], points: vec![point], ..measured(day) }).unwrap();
    }
    history
}

/// What comes of a visit of a search.
enum Came {
    /// So much is the candidate worse than the reference.
    Loss(f64),
    Nothing(&'static str),
}

fn entry(visit: &Visit, at: Timestamp, came: &Came, noise: &mut Noise) -> Night {
    match came {
        Came::Loss(loss) => {
            let blocks = visit.search.as_ref().map_or(8, |search| search.blocks);
            let losses = |_: &Asked| (0..blocks).map(|_| *loss + 0.01 * noise.normal()).collect::<Vec<f64>>();
            let mut losses = losses;
            let series =
                visit.series.iter().map(|asked| Asked { losses: losses(asked), ..asked.clone() }).collect::<Vec<_>>();
            let base = measured(0);
            Night {
                night: at,
                trigger: Trigger::Confirmation,
                outcome: Outcome::Visited,
                visit: Some(Visit { series, ..visit.clone() }),
                fingerprint: None,
                reference: None,
                subjects: Vec::new(),
                ..base
            }
        }
        Came::Nothing(reason) => Unmeasured {
            night: at,
            trigger: Trigger::Confirmation,
            run_now: None,
            visit: Some(visit.clone()),
            accepted: None,
            outcome: Outcome::Gap,
            reason: (*reason).to_owned(),
            message: "can't pull it".to_owned(),
        }
        .night("nightly"),
    }
}

fn next_visit(history: &History, bisect: &Bisect) -> Option<Pending> {
    Remembered::of(history, &watch(Some(bisect.clone()))).visit
}

fn only_change(history: &History) -> Change {
    let mut changes = history.changes(&history.watched(&watch(None)));
    assert_eq!(changes.len(), 1, "{changes:?}");
    changes.remove(0)
}

/// Makes all visits that come, each with what its two candidates are together. What was compared is returned.
fn search(
    history: &mut History,
    bisect: &Bisect,
    seed: u64,
    came: impl Fn(usize, usize) -> Came,
) -> Vec<(usize, usize)> {
    let mut noise = Noise::new(seed);
    let mut compared = Vec::new();
    for _ in 0..80 {
        let Some(Pending { from, visit }) = next_visit(history, bisect) else { return compared };
        let came = match &visit.search {
            None => Came::Loss(0.05),
            Some(search) => {
                compared.push((search.reference, search.candidate));
                came(search.reference, search.candidate)
            }
        };
        history.add(entry(&visit, from + HOUR, &came, &mut noise)).unwrap();
        // A history that was written and read again says the same.
        let lines: Vec<String> = history.nights().map(|night| night.line().unwrap()).collect();
        let read: Vec<Night> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(read.iter().eq(history.nights()));
    }
    panic!("visits without an end: {compared:?}");
}

/// What a visit sees of a loss of 5 % that a candidate has brought.
fn since(culprit: usize) -> impl Fn(usize, usize) -> Came {
    move |reference, candidate| Came::Loss(if reference < culprit && culprit <= candidate { 0.05 } else { 0.0 })
}

#[test]
fn a_confirmed_regression_is_searched_until_one_version_is_named() {
    for (seed, culprit) in (0..).zip(1..=8) {
        let mut history = history();
        let compared = search(&mut history, &listed(), seed, since(culprit));
        let change = only_change(&history);
        let finding = change.finding.clone().unwrap();
        let Found::Culprit(named) = &finding.found else { panic!("{finding:?}") };
        assert!(named.starts_with(&format!("r{culprit} (-")), "{named} in {compared:?}");
        assert!((2..12).contains(&finding.measured) && finding.suspects == 8, "{finding:?}");
        assert_eq!(change.stage, Stage::Regressed);
        assert!(change.said().contains(&format!("; culprit: r{culprit} (-")), "{}", change.said());
        let watched = history.watched(&watch(None));
        let lines = history.explain(&change, &watched, Some(&listed()));
        let searched: Vec<&String> = lines.iter().filter(|line| line.starts_with("search: ")).collect();
        assert!((2..10).contains(&searched.len()) && searched[0].contains(" against r0: "), "{lines:#?}");
        assert!(lines.last().unwrap().starts_with("next: fix it, or revert it; or accept it"), "{lines:#?}");
    }
}

#[test]
fn what_is_searched_is_asked_as_it_was_confirmed() {
    let mut history = history();
    let before = |history: &History| next_visit(history, &listed()).unwrap().visit;
    let mut noise = Noise::new(1);
    for number in 1..=2 {
        let visit = before(&history);
        assert_eq!((visit.number, &visit.search), (number, &None), "nothing is searched before it is confirmed");
        let from = next_visit(&history, &listed()).unwrap().from;
        history.add(entry(&visit, from + HOUR, &Came::Loss(0.05), &mut noise)).unwrap();
        assert_eq!(only_change(&history).finding, None);
    }
    let pending = next_visit(&history, &listed()).unwrap();
    let first = &pending.visit;
    let search = first.search.clone().unwrap();
    let names: Vec<String> = search.candidates.iter().map(Sought::name).collect();
    assert_eq!(names, ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"]);
    assert_eq!((search.reference, search.candidate, search.blocks, first.number), (0, 4, 6, 3));
    assert_eq!(first.change(), only_change(&history).name);
    assert!(pending.from <= history.nights().next_back().unwrap().night, "it need not wait");
    history.add(entry(first, pending.from + HOUR, &Came::Loss(0.0), &mut noise)).unwrap();
    let second = next_visit(&history, &listed()).unwrap().visit;
    assert!(second.search.as_ref().unwrap().candidates.is_empty(), "they are listed once");
    assert_eq!(second.number, 4);
    let finding = only_change(&history).finding.unwrap();
    assert_eq!(finding.said(), "looking for it among 8 versions; 1 visit so far");
    // What is listed later changes nothing.
    let others = Bisect { candidates: vec![candidate("x1"), candidate("x2")] };
    assert_eq!(next_visit(&history, &others).unwrap().visit, second);
    // Without a list nothing is begun. A search that has begun is not gone on with either.
    assert_eq!(Remembered::of(&history, &watch(None)).visit, None);
}

#[test]
fn a_list_that_says_nothing_of_a_change_is_told() {
    let mut history = history();
    let backwards = Bisect { candidates: listed().candidates.into_iter().rev().collect() };
    assert_eq!(search(&mut history, &backwards, 1, since(5)), []);
    let (change, watched) = (only_change(&history), history.watched(&watch(None)));
    assert_eq!(unlisted(&history, &change, &backwards), Some(Unlisted::OutOfOrder));
    let lines = history.explain(&change, &watched, Some(&backwards));
    assert!(lines.iter().any(|line| line.starts_with("search: none: spec.bisect.candidates has the version after")));
    assert_eq!(unlisted(&history, &change, &listed()), None, "it will be searched");
    let advice = |bisect: Option<&Bisect>| history.explain(&change, &watched, bisect).pop().unwrap();
    assert!(advice(Some(&listed())).starts_with("next: wait until its culprit is looked for; or accept it"));
    for bisect in [None, Some(&backwards)] {
        assert!(advice(bisect).starts_with("next: find the commit with `assay bisect`"));
    }
    search(&mut history, &listed(), 1, since(5));
    assert_eq!(unlisted(&history, &only_change(&history), &backwards), None, "it was searched");
}

#[test]
fn a_version_that_can_not_run_is_avoided() {
    let mut history = history();
    let compared = search(&mut history, &listed(), 3, |reference, candidate| {
        if candidate == 4 { Came::Nothing("ImagePullFailed") } else { since(5)(reference, candidate) }
    });
    assert_eq!(compared.iter().filter(|(_, candidate)| *candidate == 4).count(), 1, "{compared:?}");
    let finding = only_change(&history).finding.unwrap();
    let Found::Culprit(named) = &finding.found else { panic!("{finding:?}") };
    assert!(named.starts_with("one of r4, r5, which could not all be measured (-"), "{named}");
    assert_eq!(finding.failed, 1);
    let lines = history.explain(&only_change(&history), &history.watched(&watch(None)), None);
    assert!(lines.contains(&"search: r4 can't be measured: avoided".to_owned()), "{lines:#?}");
}

#[test]
fn visits_that_fail_by_no_ones_fault_end_the_search() {
    let mut torn = history();
    let compared = search(&mut torn, &listed(), 3, |_, _| Came::Nothing("NodesMissing"));
    assert_eq!(compared, [(0, 4); 3], "no version is to blame");
    let said = only_change(&torn).finding.unwrap().said();
    assert_eq!(said, "not found among 8 versions: the last visits have failed: can't pull it; 0 visits");
    // Both ends have run before, so that an image which can't be had is no fault of theirs.
    let mut ends = history();
    let compared = search(&mut ends, &listed(), 4, |reference, candidate| {
        if candidate == 8 { Came::Nothing("ImagePullFailed") } else { since(8)(reference, candidate) }
    });
    assert!(compared.ends_with(&[(0, 8); 3]), "{compared:?}");
}

#[test]
fn a_change_that_is_accepted_or_gone_is_not_searched_any_more() {
    let mut history = history();
    let mut noise = Noise::new(1);
    for _ in 0..3 {
        let Pending { from, visit } = next_visit(&history, &listed()).unwrap();
        history.add(entry(&visit, from + HOUR, &Came::Loss(0.05), &mut noise)).unwrap();
    }
    assert!(next_visit(&history, &listed()).is_some());
    let accept = assay_api::Accept { change: only_change(&history).name, reason: "worth it".to_owned(), expires: None };
    history.add(Unmeasured::accepting(time(25), &accept).night("nightly")).unwrap();
    assert_eq!(only_change(&history).stage, Stage::Accepted);
    assert_eq!(only_change(&history).finding, None, "nothing is looked for");
    assert_eq!(next_visit(&history, &listed()), None);
}

#[test]
fn what_lies_between_two_nights_is_what_is_listed_between_them() {
    let night = |revision: &str| Subject {
        image: Some(image(revision)),
        revision: Some(revision.to_owned()),
        ..subject("main")
    };
    let between = |bisect: &Bisect, before: &Subject, after: &Subject| {
        sought_between(bisect, before, after).map(|all| all.iter().map(Sought::name).collect::<Vec<_>>())
    };
    let all = listed();
    assert_eq!(between(&all, &night("r2"), &night("r5")).unwrap(), ["r2", "r3", "r4", "r5"]);
    // A tag is found by its revision, and what is not listed at all stands before or after it all.
    let tagged = Subject { image: Some("r/a:tag".to_owned()), ..night("r6") };
    assert_eq!(between(&all, &tagged, &night("r8")).unwrap(), ["r6", "r7", "r8"]);
    assert_eq!(between(&all, &night("r6"), &night("new")).unwrap(), ["r6", "r7", "r8", "new"]);
    assert_eq!(between(&all, &night("r2"), &night("r3")), Err(Unlisted::NoneBetween));
    assert_eq!(between(&all, &night("r5"), &night("r2")), Err(Unlisted::OutOfOrder));
    // Of other subjects there may be as many as they like.
    let mut mixed = listed();
    mixed.candidates[3].subject = Some("other".to_owned());
    mixed.candidates[4].subject = Some("main".to_owned());
    assert_eq!(between(&mixed, &night("r2"), &night("r5")).unwrap(), ["r2", "r4", "r5"]);
    // Options that have changed with the program are a version of their own.
    let set = Subject { config: Digest::of(b"other"), ..night("r4") };
    let found = sought_between(&all, &night("r2"), &set).unwrap();
    let (images, configs): (Vec<_>, Vec<_>) = found.iter().map(|own| (own.image.clone().unwrap(), &own.config)).unzip();
    assert_eq!(images, ["r2", "r2", "r3", "r4"].map(image));
    assert!(configs[0] != configs[1] && configs[1..].iter().all(|own| *own == configs[1]));
    let alone = Subject { config: Digest::of(b"other"), ..night("r2") };
    assert_eq!(between(&all, &night("r2"), &alone), Err(Unlisted::NoneBetween));
    // Programs that are equal can't differ.
    let equal = Bisect { candidates: vec![candidate("r2"), candidate("r2"), candidate("r5")] };
    assert_eq!(between(&equal, &night("r2"), &night("r5")), Err(Unlisted::NoneBetween));
}

#[test]
fn lines_about_a_search_that_make_no_sense_are_refused() {
    let mut history = history();
    let mut noise = Noise::new(1);
    for _ in 0..2 {
        let Pending { from, visit } = next_visit(&history, &listed()).unwrap();
        history.add(entry(&visit, from + HOUR, &Came::Loss(0.05), &mut noise)).unwrap();
    }
    let Pending { from, visit } = next_visit(&history, &listed()).unwrap();
    let with = |change: fn(&mut Search)| {
        let mut wrong = visit.clone();
        change(wrong.search.as_mut().unwrap());
        entry(&wrong, from + HOUR, &Came::Loss(0.0), &mut Noise::new(2)).check().map_err(|refused| refused.field)
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|own| own.candidate = 0).unwrap_err(), "visit.search");
    assert_eq!(with(|own| own.candidate = usize::MAX).unwrap_err(), "visit.search");
    assert_eq!(with(|own| own.candidate = 9).unwrap_err(), "visit.search.candidate");
    assert_eq!(with(|own| own.unusable = Some(5)).unwrap_err(), "visit.search.unusable");
    assert_eq!(
        with(|own| own.candidates[1].image = Some("x".repeat(600))).unwrap_err(),
        "visit.search.candidates[1].image"
    );
    // What lists no candidates belongs to a search whose beginning has fallen out.
    let mut rest = visit.clone();
    rest.search.as_mut().unwrap().candidates = Vec::new();
    history.add(entry(&rest, from + HOUR, &Came::Loss(0.0), &mut noise)).unwrap();
    assert_eq!(only_change(&history).finding, None);
}
