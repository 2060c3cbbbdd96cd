use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::super::process::{PeakMethod, PeakRss, ProcessUsage};
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

/// Until this thread has used so many seconds of CPU time, however long it has to wait for them.
fn compute(seconds: f64) {
    let used = || {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    };
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
