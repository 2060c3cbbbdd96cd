use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::super::process::{PeakMethod, PeakRss, ProcessUsage, cpu_seconds};
use super::super::threads::ThreadClock;
use super::Tree;

#[test]
fn usage_of_files() {
    let tree = Tree::new();
    tree.file("proc/self/status", "Name:\tx\nVmHWM:\t  200 kB\nVmRSS:\t  100 kB\n")
        .file("proc/self/io", "rchar: 1\nread_bytes: 10\nwrite_bytes: 20\ncancelled_write_bytes: 5\n");
    let before = ProcessUsage::read(&tree.path("proc"));
    assert_eq!(before.rss_bytes, Some(100 * 1024));
    assert_eq!(before.peak_rss_bytes, Some(200 * 1024));
    assert_eq!((before.read_bytes, before.write_bytes), (Some(10), Some(20)));
    tree.file("proc/self/io", "read_bytes: 15\nwrite_bytes: 70\n");
    let delta = ProcessUsage::read(&tree.path("proc")).since(&before);
    assert_eq!((delta.read_bytes, delta.write_bytes), (Some(5), Some(50)));

    let at = |user, system| ProcessUsage { user_seconds: Some(user), system_seconds: Some(system), ..before };
    let delta = at(7.0, 9.0).since(&at(2.0, 3.0));
    assert_eq!((delta.user_seconds, delta.system_seconds), (Some(5.0), Some(6.0)));

    let nothing = ProcessUsage::read(&tree.path("nowhere"));
    assert_eq!((nothing.rss_bytes, nothing.read_bytes, nothing.since(&before).write_bytes), (None, None, None));
}

#[test]
fn usage_of_this_process_keeps_ended_threads() {
    let before = ProcessUsage::now();
    thread::spawn(|| compute(0.05)).join().unwrap();
    let delta = ProcessUsage::now().since(&before);
    assert!(delta.user_seconds.unwrap() + delta.system_seconds.unwrap() > 0.04, "{delta:?}");
    assert!(ProcessUsage::now().rss_bytes.unwrap() > 0);
}

/// Both, as the kernel splits them or not.
#[test]
fn the_time_of_a_process_is_that_of_its_parts() {
    compute(0.02);
    let whole = || {
        let now = ProcessUsage::now();
        now.user_seconds.unwrap() + now.system_seconds.unwrap()
    };
    let (before, found, after) = (whole(), cpu_seconds().unwrap(), whole());
    // Each part in whole microseconds.
    assert!(before >= 0.02 && (before - 2e-6..=after + 2e-6).contains(&found), "{before} <= {found} <= {after}");
}

#[test]
fn the_mark_is_reset_or_said_not_to_be() {
    let peak = PeakRss::begin();
    let size = 64 << 20;
    let ballast = black_box(vec![1_u8; size]);
    peak.sample();
    drop(ballast);
    let found = peak.end();
    assert!(found.bytes.unwrap() > size as u64, "{found:?}");

    let tree = Tree::new();
    tree.file("proc/self/status", "VmHWM:\t 900 kB\nVmRSS:\t 100 kB\n");
    let peak = PeakRss::begin_in(&tree.path("proc"));
    tree.file("proc/self/status", "VmHWM:\t 900 kB\nVmRSS:\t 300 kB\n");
    peak.sample();
    tree.file("proc/self/status", "VmHWM:\t 900 kB\nVmRSS:\t 200 kB\n");
    let found = peak.end();
    assert_eq!((found.bytes, found.method), (Some(300 * 1024), PeakMethod::Sampled));
    assert_eq!(PeakRss::begin_in(&tree.path("nowhere")).end().bytes, None);

    tree.file("proc/self/clear_refs", "");
    let found = PeakRss::begin_in(&tree.path("proc")).end();
    assert_eq!((found.bytes, found.method), (Some(900 * 1024), PeakMethod::KernelMark));
    assert_eq!(std::fs::read_to_string(tree.path("proc/self/clear_refs")).unwrap(), "5", "proc(5)");
}

#[test]
fn a_thread_knows_its_own_time() {
    let clock = ThreadClock::start();
    let began = Instant::now();
    let busy = thread::spawn(|| {
        let clock = ThreadClock::start();
        compute(0.2);
        clock.stop()
    });
    let busy = busy.join().unwrap();
    // Whatever of this it was, it was not more: it ran or waited for a CPU.
    let elapsed = began.elapsed().as_secs_f64();
    let idle = clock.stop();
    assert!(busy.cpu_seconds.unwrap() >= 0.2, "{busy:?}");
    assert!(idle.cpu_seconds.unwrap() < 0.2, "what others use is not its own: {idle:?}");
    if let Some(waited) = busy.run_queue_seconds {
        // Two clocks may differ a little.
        assert!(busy.cpu_seconds.unwrap() + waited < 1.1 * elapsed, "{busy:?} within {elapsed} s");
    }
}

#[test]
fn time_before_the_clock_was_started_does_not_count() {
    compute(0.05);
    let before = used();
    let clock = ThreadClock::start();
    compute(0.01);
    let found = clock.stop().cpu_seconds.unwrap();
    let whole = used() - before;
    // The last digits of a sum of seconds.
    assert!((0.01 - 1e-9..=whole + 1e-9).contains(&found), "{found} of {whole}");
}

/// Seconds of CPU time of this thread.
fn used() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Until this thread has used so many seconds of CPU time, however long it has to wait for them.
fn compute(seconds: f64) {
    let end = used() + seconds;
    while used() < end {
        black_box(0);
    }
}

pub fn burn(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        black_box(0);
    }
}
