//! Foreign CPU time on the real machine: measured by a process of its own, because a window is about a whole process
//! and the test runner's threads aren't pinned.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::super::threads::ThreadClock;
use super::super::{Probe, Roots};
use super::process::burn;

const MARK: &str = "measured:";

/// The kernel looks who runs at each of its ticks, 250 or fewer a second. As for any share that is counted, half of them is known to
/// 50 % / sqrt(ticks): to 2.6 % after 1.5 s, which would miss the bound now and then, and to 1.1 % after this.
const WINDOW: Duration = Duration::from_secs(8);

/// Set by the other test for the process that it starts.
const IS_MEASURED: &str = "ASSAY_TEST_IS_MEASURED";

/// The body of the measured process; by itself this is no test.
#[test]
fn measured_process() {
    if std::env::var_os(IS_MEASURED).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let probe = Probe::open(Roots::default(), directory.path(), 1);
    let clock = ThreadClock::start();
    let begin = Instant::now();
    let window = probe.begin();
    burn(WINDOW);
    let (placement, _, disturbance) = window.end();
    let seconds = begin.elapsed().as_secs_f64();
    let waited = clock.stop().run_queue_seconds.unwrap() / seconds * 100.0;
    assert_eq!(placement.affinity_cpus, Some(1));
    let (foreign, resolution) = (disturbance.foreign_cpu_percent, disturbance.foreign_cpu_resolution_percent);
    // Where the kernel's threads can't be seen nobody else can.
    let busiest = disturbance
        .neighbours
        .map(|all| all.first().map_or(0.0, |one| if one.name == "sh" { one.cpu_percent } else { 0.0 }));
    println!("\n{MARK} {} {} {waited} {}", foreign.unwrap(), resolution.unwrap(), busiest.unwrap_or(f64::NAN));
}

/// Stopped whatever the test finds.
struct Burner(Child);

impl Drop for Burner {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs on a thread that is pinned to the last CPU that we may use: children inherit that.
fn pinned<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let pinned = thread::spawn(|| {
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let last = (0..CpuSet::count()).rev().find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
        let mut only = CpuSet::new();
        only.set(last).unwrap();
        sched_setaffinity(Pid::from_raw(0), &only).unwrap();
        work()
    });
    pinned.join().unwrap()
}

/// All in percent of the window.
#[derive(Debug)]
struct Measured {
    foreign: f64,
    resolution: f64,
    /// The process never sleeps and has one busy thread, so whenever it isn't running somebody else is. The scheduler
    /// keeps that wait in nanoseconds and knows nothing of `/proc/stat`: a second opinion, on a busy machine too.
    waited: f64,
    /// The share of the program beside us, if it was the busiest one.
    neighbour: f64,
}

impl Measured {
    fn assert_agrees(&self) {
        println!("{self:?}");
        let difference = (self.foreign - self.waited).abs();
        assert!(difference < self.resolution + 3.0, "foreign time is not what our thread waited for: {self:?}");
    }
}

fn measure() -> Measured {
    let (_, module) = module_path!().split_once("::").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::measured_process"), "--nocapture", "--test-threads=1"])
        .env(IS_MEASURED, "yes")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let line = output.lines().find_map(|line| line.strip_prefix(MARK)).unwrap_or_else(|| panic!("{output}"));
    let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    Measured { foreign: numbers[0], resolution: numbers[1], waited: numbers[2], neighbour: numbers[3] }
}

// One test, because the two halves would disturb each other.
#[test]
fn a_neighbour_is_seen_and_its_absence_too() {
    let beside = pinned(|| {
        let script = "while :; do :; done";
        let _burner = Burner(Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap());
        measure()
    });
    assert!(beside.foreign > 10.0, "a process beside us on our only CPU: {beside:?}");
    beside.assert_agrees();
    // Others may be there as well, so it has at most all of the foreign time.
    let seen = beside.neighbour;
    assert!(seen.is_nan() || (10.0..beside.foreign + beside.resolution + 3.0).contains(&seen), "{beside:?}");

    let alone = pinned(measure);
    alone.assert_agrees();
}
