use std::time::{Duration, Instant};

use assay_protocol::CpuList;

use super::super::cpu_time::{Sample, Shares, parse_stat, shares};
use super::super::kernel_threads::KernelThreads;
use super::super::{affinity, threads};
use super::Tree;

fn list(text: &str) -> CpuList {
    CpuList::parse(text).unwrap()
}

#[test]
fn cpu_lists_are_read_and_written_as_the_kernel_does() {
    for text in ["0", "0-1", "0-3,8,10-11", "5,7", "0-127", ""] {
        assert_eq!(list(text).to_string(), text);
    }
    assert_eq!(list(" 1,0,2\n").to_string(), "0-2");
    assert_eq!(list("0-3,8").len(), 5);
    for text in ["x", "3-1", "0-99999999", "-1", "1-", "0x3"] {
        assert_eq!(CpuList::parse(text), None, "{text}");
    }
}

#[test]
fn affinity_is_the_union_of_all_threads() {
    let tree = Tree::new();
    tree.file("proc/self/task/7/status", "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n")
        .file("proc/self/task/8/status", "Name:\tx\nCpus_allowed_list:\t4\n");
    assert_eq!(affinity::of_process(&tree.path("proc")).unwrap().to_string(), "0-1,4");
    assert_eq!(affinity::of_process(&tree.path("nowhere")), None);
}

#[test]
fn half_a_core_is_not_a_whole_core() {
    let tree = Tree::new();
    for (cpu, siblings) in [(0, "0,4"), (4, "0,4"), (1, "1,5")] {
        tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), siblings);
    }
    assert_eq!(affinity::whole_cores(&tree.sys(), &list("0,4")), Some(true));
    assert_eq!(affinity::whole_cores(&tree.sys(), &list("0-1,4")), Some(false));
    assert_eq!(affinity::whole_cores(&tree.sys(), &list("0,4,6")), None);
}

/// `(stat, own CPU seconds)` at both ends of ten seconds.
fn account(before: (&str, f64), after: (&str, f64), cpus: &str, guest: bool) -> Shares {
    let start = Instant::now();
    let sample = |(stat, own): (&str, f64), at: Instant| Sample {
        earliest: at,
        latest: at,
        cpus: parse_stat(stat),
        own_seconds: Some(own),
    };
    shares(&sample(before, start), &sample(after, start + Duration::from_secs(10)), &list(cpus), guest, None)
}

fn close(found: Option<f64>, wanted: f64) {
    let found = found.unwrap();
    assert!((found - wanted).abs() < 1e-6, "{found} instead of {wanted}");
}

const BEFORE: &str = "cpu  1 1 1 1 1 1 1 1 0 0\n\
    cpu0 1000 0 100 5000 10 0 5 3 0 0\n\
    cpu1 0 0 0 0 0 0 0 0 0 0\n\
    intr 5 5\n";

#[test]
fn foreign_time_is_what_neither_idleness_nor_we_explain() {
    // Of ten seconds: 3 idle, 1 iowait, 0.2 softirq, 0.3 steal, 4 ours. User and system, sampled, say nonsense.
    let after = "cpu0 1900 0 100 5300 110 0 25 33 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n";
    let found = account((BEFORE, 1.0), (after, 5.0), "0", true);
    close(found.foreign, 15.0);
    close(found.steal, 3.0);
    // Four columns that grew and our own clock are good to one tick of 0.1 % each; softirq and steal to themselves.
    close(found.resolution, 0.5 + 2.0 + 3.0);
}

/// Two CPUs, and readings that take 20 and 40 ms: what is between their middles counts, and what they take may be missing.
#[test]
fn slow_readings_make_shares_less_certain() {
    let start = Instant::now();
    let sample = |stat: &str, at: u64, takes: u64, own: f64| Sample {
        earliest: start + Duration::from_millis(at),
        latest: start + Duration::from_millis(at + takes),
        cpus: parse_stat(stat),
        own_seconds: Some(own),
    };
    let before = sample(BEFORE, 0, 20, 1.0);
    let stat = "cpu0 9 0 100 5500 110 0 15 3 0 0\ncpu1 0 0 0 400 0 2 0 5 0 0\n";
    let found = shares(&before, &sample(stat, 10_000, 40, 10.0), &list("0-1"), false, Some(0.5));
    let whole = 2.0 * 10.01;
    // Idle and iowait 10 s, interrupts 0.12 s, steal 0.05 s, ours 9 s, the kernel's threads 0.5 s.
    close(found.foreign, 100.0 * (whole - 10.17 - 9.0 - 0.5) / whole);
    close(found.kernel, 100.0 * 0.5 / whole);
    close(found.steal, 100.0 * 0.05 / whole);
    // A tick and half of both readings for each CPU, and a tick for each of six columns.
    close(found.resolution, 100.0 * (2.0 * (0.01 + 0.03) + 6.0 * 0.01 + 0.12 + 0.05) / whole);
}

#[test]
fn counters_that_explain_half_of_the_time_are_believed() {
    // Of 10 s: user, nice and system, idle and iowait, interrupts, steal; a tick for each of the last five columns and one for us.
    let explained = |user: u64| format!("cpu0 {} 20 130 5040 60 5 12 11 0 0\n", 1000 + user);
    let of = |user: u64| account((BEFORE, 0.0), (&explained(user), 0.0), "0", false).foreign.is_some();
    let rest = 20 + 30 + 40 + 50 + 5 + 7 + 8 + 6;
    assert_eq!([500 - rest, 500 - rest - 1].map(of), [true, false]);
}

#[test]
fn foreign_time_is_shared_over_our_cpus_only() {
    let after = "cpu0 1000 0 100 6000 10 0 5 3 0 0\ncpu1 1000 0 0 0 0 0 0 0 0 0\n";
    close(account((BEFORE, 0.0), (after, 0.0), "0-1", false).foreign, 50.0);
    close(account((BEFORE, 0.0), (after, 0.0), "0", false).foreign, 0.0);
    close(account((BEFORE, 0.0), (after, 10.0), "0-1", false).foreign, 0.0);
    // Rounding may make us use more than there is.
    close(account((BEFORE, 0.0), (after, 10.1), "0-1", false).foreign, 0.0);
}

#[test]
fn what_cannot_be_trusted_is_unknown() {
    let after = "cpu0 2000 0 100 5000 10 0 5 3 0 0\n";
    assert!(account((BEFORE, 0.0), (after, 10.0), "0", false).foreign.is_some());
    // A CPU went offline.
    assert_eq!(account((BEFORE, 0.0), (after, 0.0), "0-1", false), Shares::default());
    // The counters stand still: a sandbox's file.
    assert_eq!(account((BEFORE, 0.0), (BEFORE, 0.0), "0", false), Shares::default());
    // Idle went backwards.
    let back = "cpu0 2000 0 100 4000 10 0 5 3 0 0\n";
    assert_eq!(account((BEFORE, 0.0), (back, 0.0), "0", false), Shares::default());
    assert_eq!(parse_stat("cpu  1 2 3 4 5 6 7 8 9 10\nintr 1\n"), None);
    assert_eq!(parse_stat("cpu0 1 2 3 4\n"), None);
}

#[test]
fn a_guest_that_never_saw_steal_is_not_told() {
    let (before, after) = ("cpu0 0 0 0 0 0 0 0 0 0 0\n", "cpu0 1000 0 0 0 0 0 0 0 0 0\n");
    let guest = account((before, 0.0), (after, 10.0), "0", true);
    assert_eq!(guest.steal, None);
    close(guest.foreign, 0.0);
    close(account((before, 0.0), (after, 10.0), "0", false).steal, 0.0);
    let elsewhere = "cpu0 1000 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 9 0 0\n";
    close(account((before, 0.0), (elsewhere, 10.0), "0", true).steal, 0.0);
}

#[test]
fn a_kernel_that_does_not_keep_run_queue_times_prints_zeros() {
    assert_eq!(threads::parse_run_queue("104361 250 1"), Some(250));
    for (alone, waited) in [("104361 0 0", 0), ("0 250 0", 250), ("0 0 1", 0)] {
        assert_eq!(threads::parse_run_queue(alone), Some(waited), "{alone}");
    }
    assert_eq!(threads::parse_run_queue("0 0 0"), None);
    assert_eq!(threads::parse_run_queue("12"), None);
}

#[test]
fn kernel_threads_are_told_from_processes() {
    let tree = Tree::new();
    let ours = list("1");
    assert_eq!(KernelThreads::read(&tree.path("proc"), &ours), None);
    let write = |nanos: [u64; 5]| {
        let [bound, roaming, elsewhere, process, late] = nanos;
        for (pid, flags, allowed, nanos) in [
            (2, 0x20_8040, "1", bound),
            (3, 0x20_8040, "0-1", roaming),
            (4, 0x20_8040, "0", elsewhere),
            (5, 0x40_0100, "0-1", process),
            (6, 0x20_8040, "1", late),
        ] {
            if nanos > 0 {
                tree.file(&format!("proc/{pid}/stat"), &format!("{pid} (kw o) r) S 2 0 0 0 -1 {flags} 0 0"))
                    .file(&format!("proc/{pid}/status"), &format!("Cpus_allowed_list:\t{allowed}\n"))
                    .file(&format!("proc/{pid}/schedstat"), &format!("{nanos} 5 5\n"));
            }
        }
        KernelThreads::read(&tree.path("proc"), &ours).unwrap()
    };
    let before = write([1_000_000_000, 2_000_000_000, 3, 4, 0]);
    let after = write([1_500_000_000, 2_250_000_000, 900_000_000, 900_000_000, 125_000_000]);
    assert!((after.seconds_since(&before) - 0.875).abs() < 1e-9);
}

#[test]
fn kernel_time_is_not_foreign() {
    let after = "cpu0 1900 0 100 5300 110 0 25 33 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n";
    let start = Instant::now();
    let sample = |stat, own, at| Sample { earliest: at, latest: at, cpus: parse_stat(stat), own_seconds: Some(own) };
    let (first, last) = (sample(BEFORE, 1.0, start), sample(after, 5.0, start + Duration::from_secs(10)));
    let found = shares(&first, &last, &list("0"), true, Some(1.0));
    close(found.foreign, 5.0);
    close(found.kernel, 10.0);
    close(found.resolution, 0.5 + 2.0 + 3.0);
}
