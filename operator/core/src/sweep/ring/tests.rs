use std::collections::BTreeMap;

use assay_protocol::Digest;
use proptest::prelude::*;

use super::*;
use crate::sweep::Outcome;
use crate::sweep::testing::{Noise, full_night, night, time, unmeasured};

/// The objects of a cluster.
type Stored = BTreeMap<String, Vec<u8>>;

fn read(stored: &Stored) -> Ring {
    Ring::read("nightly", stored.iter().map(|(name, bytes)| Object { name: name.clone(), bytes: bytes.clone() }))
}

fn apply(stored: &mut Stored, change: Change) {
    stored.extend(change.write.into_iter().map(|object| (object.name, object.bytes)));
    for name in change.delete {
        assert!(stored.remove(&name).is_some(), "{name} was never written");
    }
}

fn bytes(stored: &Stored) -> usize {
    stored.values().map(Vec::len).sum()
}

/// A night with so many series that no compression makes it much shorter than 200 bytes for each.
fn large(day: u32, series: u32, noise: &mut Noise) -> Night {
    let mut night = night(day, 0.0);
    let template = night.points[0].clone();
    for _ in 1..series {
        let mut point = template.clone();
        point.series.metric = (0..250).map(|_| char::from(b'a' + (noise.uniform() * 26.0) as u8)).collect();
        night.points.push(point);
    }
    night
}

#[test]
fn a_year_of_fifty_series_fits_and_three_years_are_bounded() {
    let (mut stored, mut ring, mut noise) = (Stored::new(), read(&Stored::new()), Noise::new(1));
    for day in 0..1100 {
        let change = ring.add(full_night(day, &mut noise)).unwrap();
        assert!(change.write.len() == 1 && change.delete.len() <= 1);
        apply(&mut stored, change);
        assert!(stored.len() <= MOST_OBJECTS && stored.values().all(|object| object.len() <= MOST_BYTES));
        if day == 364 {
            assert!(bytes(&stored) <= 5 << 19, "{} bytes", bytes(&stored));
            assert_eq!(read(&stored).history().nights().count(), 365);
        }
    }
    assert!(bytes(&stored) <= 5 << 19, "{} bytes", bytes(&stored));
    let again = read(&stored);
    assert_eq!(again.history(), ring.history());
    assert_eq!(again.history().nights().next_back().unwrap().night, time(1099));
    assert!(again.history().nights().count() >= 365 && again.damaged().is_empty());
}

#[test]
fn the_oldest_fall_out() {
    let (mut stored, mut noise) = (Stored::new(), Noise::new(2));
    let mut ring = read(&stored);
    let mut day = 0;
    while !stored.contains_key("nightly-history-00014") {
        apply(&mut stored, ring.add(large(day, 100, &mut noise)).unwrap());
        day += 1;
    }
    assert_eq!(stored.len(), MOST_OBJECTS);
    assert!(!stored.contains_key("nightly-history-00001"));
    let kept: Vec<Timestamp> = ring.history().nights().map(|night| night.night).collect();
    assert_eq!(kept.last(), Some(&time(day - 1)));
    assert_eq!(kept.len(), kept.iter().filter(|night| **night >= kept[0]).count());
    assert!(kept[0] > time(1) && read(&stored).history() == ring.history());
    // Older nights come too late: they take no room from the newer ones for long.
    let old: String = (1..400)
        .map(|back| {
            night(0, 0.0)
                .line()
                .unwrap()
                .replace("2026-01-01T02:00", &format!("20{:02}-01-01T02:{:02}", 10 + back / 60, back % 60))
                + "\n"
        })
        .collect();
    let (imported, change) = ring.import(&old).unwrap();
    assert_eq!(imported.known, 0);
    apply(&mut stored, change);
    assert!(stored.len() <= MOST_OBJECTS && read(&stored).history() == ring.history());
    assert!(kept.iter().rev().take(kept.len() / 2).all(|night| ring.history().get(*night).is_some()));
}

/// Nights of so many series fall out before the experiments that a sweep may keep.
#[test]
fn a_ring_knows_since_when_it_has_forgotten_nothing() {
    let (mut stored, mut noise) = (Stored::new(), Noise::new(4));
    let mut ring = read(&stored);
    let mut day = 0;
    while !stored.contains_key("nightly-history-00014") {
        assert_eq!((ring.kept_from(), read(&stored).kept_from()), (None, None));
        apply(&mut stored, ring.add(large(day, 500, &mut noise)).unwrap());
        day += 1;
    }
    assert!(day < 100, "{day}");
    let first = ring.history().nights().next().unwrap().night;
    assert!(first > time(0));
    assert_eq!((ring.kept_from(), read(&stored).kept_from()), (Some(first), Some(first)));
}

#[test]
fn a_night_larger_than_an_object_is_refused() {
    let mut noise = Noise::new(3);
    let mut ring = read(&Stored::new());
    ring.add(large(0, 500, &mut noise)).unwrap();
    // Only what is not counted by series can be so large.
    let mut night = large(1, 500, &mut noise);
    let workloads = &mut night.fingerprint.as_mut().unwrap().workloads;
    for number in 0..9000 {
        workloads.insert(number.to_string(), Digest::of(&u32::to_le_bytes(number)));
    }
    let error = ring.add(night).unwrap_err().to_string();
    assert!(error.starts_with("night 2026-01-02T02:00:00Z takes "), "{error}");
    assert!(error.ends_with(" bytes, and an object holds 196608: measure fewer series or scenarios"), "{error}");
    assert_eq!(ring.history().nights().count(), 1);
}

#[test]
fn a_damaged_object_is_named_and_the_others_are_read() {
    let (mut stored, mut ring) = (Stored::new(), read(&Stored::new()));
    for day in 0..9 {
        apply(&mut stored, ring.add(night(day, 0.01)).unwrap());
        if day % 3 == 2 {
            // As if it were full.
            let held = ring.held.last_entry().unwrap();
            let next = held.key() + 1;
            ring.held.insert(next, Held::default());
        }
    }
    assert_eq!(stored.len(), 3);
    let line = |night: Night| compressed(&(night.line().unwrap() + "\n")).unwrap();
    let (second, sound) = ("nightly-history-00002", stored["nightly-history-00002"].clone());
    let zeros = compressed(&"\n".repeat(MOST_TEXT + 1)).unwrap();
    let other = Night { sweep: "weekly".to_owned(), ..night(3, 0.0) };
    for (bytes, expected) in [
        (Vec::new(), "can't be unpacked"),
        (b"plain".to_vec(), "can't be unpacked"),
        (sound[..sound.len() - 9].to_vec(), "can't be unpacked"),
        ([sound.as_slice(), b"x"].concat(), "can't be unpacked"),
        (compressed("{}").unwrap(), "line 1: missing field"),
        (line(other), "line 1: sweep: weekly; this is the history of nightly"),
        (line(night(0, 0.02)), "line 1: night 2026-01-01T02:00:00Z is already there, with other"),
        (zeros, "more than 16777216 bytes when unpacked"),
    ] {
        stored.insert(second.to_owned(), bytes);
        let mut ring = read(&stored);
        let [damaged] = ring.damaged() else { unreachable!("{:?}", ring.damaged()) };
        assert!(damaged.to_string().starts_with(&format!("{second}: {expected}")), "{damaged}");
        assert_eq!(ring.history().nights().count(), 6);
        // It is left as it is.
        let change = ring.add(night(20, 0.0)).unwrap();
        assert_eq!((change.write[0].name.as_str(), change.delete.len()), ("nightly-history-00003", 0));
    }
    // If it is the newest, the next night begins another.
    stored.insert(second.to_owned(), sound);
    stored.insert("nightly-history-00003".to_owned(), b"x".to_vec());
    let change = read(&stored).add(night(20, 0.0)).unwrap();
    assert_eq!(change.write[0].name, "nightly-history-00004");
    // What is not ours is left alone.
    for name in ["nightly-history-1", "nightly-history-00001x", "weekly-history-00009", "nightly-history-+0009"] {
        let mut ring = Ring::read("nightly", [Object { name: name.to_owned(), bytes: Vec::new() }]);
        assert_eq!(
            ring.damaged()[0].to_string(),
            format!("{name}: not a name of the history of nightly; it was left alone")
        );
        assert_eq!(ring.add(night(0, 0.0)).unwrap().delete, Vec::<String>::new());
        assert_eq!(ring.damaged().len(), 1);
    }
}

#[test]
fn damaged_objects_fall_out_first() {
    let mut stored: Stored = (1..=13).map(|number| (format!("nightly-history-{number:05}"), b"x".to_vec())).collect();
    let mut ring = read(&stored);
    assert_eq!(ring.damaged().len(), 13);
    apply(&mut stored, ring.add(night(0, 0.0)).unwrap());
    assert!(stored.len() == 13 && !stored.contains_key("nightly-history-00001"));
    assert_eq!(ring.damaged().len(), 12);
}

/// The operator may die between any two writes; it then begins again with the same night.
#[test]
fn a_night_can_be_added_again_after_a_crash() {
    let (mut stored, mut noise) = (Stored::new(), Noise::new(4));
    let mut ring = read(&stored);
    for day in 0..400 {
        let next = large(day, 100, &mut noise);
        let change = ring.add(next.clone()).unwrap();
        if change.delete.is_empty() {
            apply(&mut stored, change);
            continue;
        }
        // Written, but not yet deleted.
        apply(&mut stored, Change { write: change.write.clone(), ..Change::default() });
        assert_eq!(stored.len(), MOST_OBJECTS + 1);
        let again = read(&stored).add(next.clone()).unwrap();
        assert_eq!(again, Change { write: Vec::new(), delete: change.delete });
        apply(&mut stored, again);
        assert_eq!(read(&stored).add(next).unwrap(), Change::default());
        return;
    }
    unreachable!("nothing ever fell out");
}

#[test]
fn an_import_is_all_or_nothing() {
    let mut ring = read(&Stored::new());
    ring.add(night(5, 0.01)).unwrap();
    let lines = |days: &[u32]| days.iter().map(|day| night(*day, 0.01).line().unwrap() + "\n").collect::<String>();
    let bad = lines(&[1, 2]) + &night(5, 0.02).line().unwrap();
    let error = ring.import(&bad).unwrap_err().to_string();
    assert!(error.starts_with("line 3: night 2026-01-06T02:00:00Z is already there"), "{error}");
    assert_eq!(ring.history().nights().count(), 1);
    let (imported, change) = ring.import(&lines(&[9, 1, 5])).unwrap();
    assert_eq!(imported, Imported { new: 2, known: 1 });
    let mut stored = Stored::new();
    apply(&mut stored, change);
    assert_eq!(read(&stored).history(), ring.history());
    assert_eq!(ring.import(&lines(&[9, 1, 5])).unwrap(), (Imported { new: 0, known: 3 }, Change::default()));
}

fn any_night() -> impl Strategy<Value = Night> {
    let (day, kind, value) = (0_u32..40, 0_u8..3, -0.1..0.1_f64);
    (day, kind, value).prop_map(|(day, kind, value)| match kind {
        0 => unmeasured(day, Outcome::Skipped, "Unchanged"),
        1 => unmeasured(day, Outcome::Gap, "Missed"),
        _ => night(day, (value * 20.0).round() / 20.0),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In any order, twice or with crashes: the objects say what the nights said that were taken first.
    #[test]
    fn objects_remember_what_was_added(nights in prop::collection::vec((any_night(), any::<bool>()), 1..25)) {
        let (mut stored, mut expected) = (Stored::new(), History::new("nightly"));
        for (night, crash) in nights {
            let taken = expected.add(night.clone());
            let change = read(&stored).add(night.clone());
            prop_assert_eq!(taken.is_ok(), change.is_ok());
            let Ok(change) = change else { continue };
            prop_assert_eq!(taken.unwrap(), !change.write.is_empty());
            if crash {
                // Nothing of it was done, or all of it and nobody knows.
                prop_assert_eq!(&read(&stored).add(night.clone()).unwrap(), &change);
            }
            apply(&mut stored, change);
            prop_assert_eq!(read(&stored).add(night).unwrap(), Change::default());
        }
        let ring = read(&stored);
        prop_assert_eq!(ring.history(), &expected);
        let mut moved = History::new("nightly");
        moved.import(&expected.lines().unwrap()).unwrap();
        prop_assert_eq!(moved, expected);
    }

    /// No bytes make the reader panic, and what it can't read it names.
    #[test]
    fn any_bytes_are_read_or_named(at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut ring = read(&Stored::new());
        let mut object = ring.add(night(0, 0.01)).unwrap().write.remove(0);
        let end = cut.index(object.bytes.len()) + 1;
        object.bytes.truncate(end);
        let at = at.index(object.bytes.len());
        object.bytes[at] = with;
        let ring = Ring::read("nightly", [object]);
        // A bit of the header may change nothing; what was measured never changes unseen.
        prop_assert!(ring.damaged().len() == 1 || ring.history().get(time(0)) == Some(&night(0, 0.01)));
    }
}
