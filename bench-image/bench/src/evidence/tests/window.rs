use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use nix::time::ClockId;

use super::super::window::{clock_offset, clock_step, nanos};
use super::super::{Probe, Roots};
use super::Tree;
use super::process::burn;

#[test]
fn a_window_on_this_machine() {
    let directory = tempfile::tempdir().unwrap();
    let probe = Probe::open(Roots::default(), directory.path(), 1);
    let window = probe.begin();
    fs::write(directory.path().join("file"), vec![1; 1 << 20]).unwrap();
    burn(Duration::from_millis(300));
    let (placement, storage, disturbance) = window.end();
    assert_eq!(placement.requested_cpus, 1);
    assert!(placement.affinity_cpus.unwrap() >= 1);
    assert!(storage.filesystem.is_some());
    assert!(storage.free_bytes_after.unwrap() <= storage.total_bytes.unwrap());
    assert_eq!(storage.replaced_sysfs, None);
    // Somebody may set the clock meanwhile.
    assert!(disturbance.clock_step_seconds.is_some());
    for percent in [
        disturbance.steal_percent,
        disturbance.foreign_cpu_percent,
        disturbance.cpu_pressure_some_percent,
        disturbance.memory_pressure_full_percent,
        disturbance.io_pressure_full_percent,
    ] {
        assert!(percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)), "{disturbance:?}");
    }
    assert!(probe.host().kernel.is_some());
    println!("{:#?}\n{placement:#?}\n{storage:#?}\n{disturbance:#?}", probe.host());
}

#[test]
fn clocks_are_read_in_nanoseconds() {
    let now = || UNIX_EPOCH.elapsed().unwrap().as_nanos().cast_signed();
    let (before, found, after) = (now(), nanos(ClockId::CLOCK_REALTIME).unwrap(), now());
    assert!((before..=after).contains(&found), "{before} <= {found} <= {after}");
    let (began, before) = (Instant::now(), nanos(ClockId::CLOCK_MONOTONIC).unwrap());
    std::thread::sleep(Duration::from_millis(2));
    let passed = nanos(ClockId::CLOCK_MONOTONIC).unwrap() - before;
    assert!((2_000_000..=began.elapsed().as_nanos().cast_signed()).contains(&passed), "{passed}");
}

#[test]
fn a_step_of_the_clock_is_seen_and_an_interruption_is_none() {
    let mut now = 1_000_000_000;
    // Each reading takes a microsecond; before some of them the thread does not run for a second.
    let mut offset = |ahead: i128, interrupted: &[usize]| {
        let mut reading = 0;
        let nanos = |clock| {
            now += if interrupted.contains(&reading) { 1_000_000_000 } else { 1000 };
            reading += 1;
            Some(if clock == ClockId::CLOCK_REALTIME { now + ahead } else { now })
        };
        clock_offset(nanos)
    };
    let seconds = 1_000_000_000;
    let before = offset(5 * seconds, &[]);
    assert_eq!(before, Some(5 * seconds), "from the middle of the two other readings");
    for (ahead, interrupted, step) in [
        (5 * seconds, &[][..], 0.0),
        (5 * seconds, &[1, 2, 5, 7, 13], 0.0),
        (5 * seconds + seconds / 4, &[2], 0.25),
        (4 * seconds, &[], -1.0),
    ] {
        assert_eq!(clock_step(before, offset(ahead, interrupted)), Some(step));
    }
    assert_eq!(clock_offset(|_| None), None);
    assert_eq!(clock_step(before, None), None);
}

#[test]
fn a_machine_without_files_is_unknown_and_clean_in_nothing() {
    let tree = Tree::new();
    let probe = Probe::open(tree.roots(), &tree.path("nowhere"), 4);
    let (placement, storage, disturbance) = probe.begin().end();
    let unknown = |value: serde_json::Value, known: &[&str]| {
        for (key, value) in value.as_object().unwrap() {
            assert_eq!(value.is_null(), !known.contains(&key.as_str()), "{key}: {value}");
        }
    };
    unknown(serde_json::to_value(placement).unwrap(), &["requestedCpus"]);
    unknown(serde_json::to_value(storage).unwrap(), &["replacedSysfs"]);
    // These come from system calls.
    let calls = ["involuntarySwitches", "majorFaults", "clockStepSeconds"];
    unknown(serde_json::to_value(disturbance).unwrap(), &calls);
}

#[test]
fn a_foreign_stat_file_is_not_believed() {
    let tree = Tree::new();
    tree.file("proc/self/mountinfo", "9 1 0:50 /proc/stat /proc/stat rw - fuse.lxcfs lxcfs rw\n")
        .file("proc/self/task/1/status", "Cpus_allowed_list:\t0\n")
        .file("proc/stat", "cpu0 0 0 0 0 0 0 0 0 0 0\n");
    let window = Probe::open(tree.roots(), &tree.path("proc"), 1).begin();
    burn(Duration::from_millis(100));
    tree.file("proc/stat", "cpu0 0 0 0 10 0 0 0 0 0 0\n");
    let (placement, _, disturbance) = window.end();
    assert_eq!(placement.affinity_before.as_deref(), Some("0"));
    assert_eq!((disturbance.steal_percent, disturbance.foreign_cpu_percent), (None, None));
}

#[test]
fn threads_that_move_make_foreign_time_unknown() {
    for (after, known) in [("0", true), ("0-1", false)] {
        let tree = Tree::new();
        tree.file("proc/self/task/1/status", "Cpus_allowed_list:\t0\n").file("proc/stat", "cpu0 0 0 0 0 0 0 0 0 0 0\n");
        let (window, began) = (Probe::open(tree.roots(), &tree.path("proc"), 1).begin(), Instant::now());
        burn(Duration::from_millis(100));
        // Where others are busy it took longer, and idle time that lacks some of it is not believed.
        tree.file("proc/stat", &format!("cpu0 0 0 0 {} 0 0 0 0 0 0\n", began.elapsed().as_millis() / 10))
            .file("proc/self/task/1/status", &format!("Cpus_allowed_list:\t{after}\n"));
        let (placement, _, disturbance) = window.end();
        assert_eq!(placement.affinity_after.as_deref(), Some(after));
        assert_eq!(disturbance.foreign_cpu_percent.is_some(), known, "{disturbance:?}");
    }
}

#[test]
fn a_replaced_sysfs_is_stamped() {
    let tree = Tree::new();
    let roots = Roots::with_sysfs(&tree.sys());
    assert_eq!(roots.sys, tree.sys());
    assert_eq!(roots.proc, Path::new("/proc"));
    let (_, storage, _) = Probe::open(roots, &tree.path(""), 1).begin().end();
    assert_eq!(storage.replaced_sysfs, Some(tree.sys().display().to_string()));
}
