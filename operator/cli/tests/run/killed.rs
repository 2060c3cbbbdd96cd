//! A run that is killed anywhere goes on where it ended, and comes to the same verdict.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lab::{BLOCKS, Lab, Ran, wait_for};
use crate::trace::{Call, calls_of_a_run, kill_before, places, processes};

/// The outcome of a run that nothing disturbed, and all that it did.
struct Whole {
    lab: Lab,
    calls: Vec<Call>,
}

impl Whole {
    fn new() -> Self {
        let lab = Lab::new();
        let calls = calls_of_a_run(&lab);
        Self { lab, calls }
    }

    /// A new folder in which the same run leaves the same.
    fn again(&self) -> Lab {
        let mut lab = Lab::new();
        lab.epoch = self.lab.epoch;
        lab
    }

    /// Runs in a folder to the end, and compares.
    #[track_caller]
    fn goes_on(&self, lab: &Lab, after: &str) {
        let ran = lab.run("");
        assert_eq!(ran.code(), 0, "after {after}: {}{}", ran.stdout(), ran.stderr());
        assert_eq!(lab.report_bytes(), self.lab.report_bytes(), "after {after}");
        let trials = names(&lab.out().join("trials"));
        assert_eq!(trials, names(&self.lab.out().join("trials")), "each trial has one attempt, after {after}");
        assert_eq!(names(&lab.out()), names(&self.lab.out()), "nothing else is left, after {after}");
        for trial in trials {
            assert_eq!(names(&lab.trial(&trial)), names(&self.lab.trial(&trial)), "{trial} after {after}");
        }
        assert!(processes(lab).is_empty(), "after {after}");
    }
}

fn names(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Does something for each of these, on the few CPUs that there are.
pub fn for_each<T: Sync>(items: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    act(item);
                }
            });
        }
    });
}

/// To be killed after one call is to be killed before the next one: what a run reads in between changes nothing.
#[test]
fn a_run_that_is_killed_before_or_after_any_of_its_calls_goes_on() {
    let whole = Whole::new();
    let places = places(&whole.calls);
    for needed in ["write out/plan.", "write out/trials/TRIAL/summary.", "clone", "unlink"] {
        assert!(places.iter().any(|call| call.site().starts_with(needed)), "{needed} is a place in {places:#?}");
    }
    for_each(&places, |call| {
        let lab = whole.again();
        kill_before(&lab, call, "");
        whole.goes_on(&lab, &format!("a kill before {} number {}", call.site(), call.number));
    });
}

/// The bench of the first trial runs for hours. Its runner is killed before it could do anything else than start it.
#[test]
fn a_bench_is_ended_whenever_its_runner_was_killed() {
    let whole = Whole::new();
    let first = "fill-b000-base-r0-a0";
    let begun = whole.calls.iter().position(|call| call.paths.iter().any(|path| path.contains("stderr.log"))).unwrap();
    let calls = whole.calls[begun..].iter().skip_while(|call| !call.starts_process()).skip(1);
    let calls: Vec<Call> = calls.take_while(|call| !call.name.contains("kill")).cloned().collect();
    assert!(!calls.is_empty());
    for_each(&calls, |call| {
        let lab = whole.again();
        kill_before(&lab, call, &format!("slow={first}"));
        wait_for(|| !processes(&lab).is_empty());
        whole.goes_on(&lab, &format!("a kill before {} number {}", call.site(), call.number));
    });
}

/// Every file is cut off by the limit on the size of files once. The bench may write what it needs.
#[test]
fn a_run_that_may_not_write_a_file_says_so_and_goes_on() {
    let whole = Whole::new();
    let first = "out/trials/fill-b000-base-r0-a0";
    let file = |name: &str| {
        if ["spec.json", "summary.json"].contains(&name) { format!("{first}/{name}") } else { format!("out/{name}") }
    };
    let names =
        ["plan.json", "bench.json", "experiment.yaml", "spec.json", "summary.json", "report.json", "report.html"];
    for_each(&names, |name| {
        let file = file(name);
        let lab = whole.again();
        // The file of each trial's spec is written before that of its summary, and is smaller.
        let before = if *name == "summary.json" { "spec" } else { name.split('.').next().unwrap() };
        let partial = format!("/{before}.partial");
        let opened = whole.calls.iter().find(|call| call.name.contains("open") && call.site().ends_with(&partial));
        kill_before(&lab, opened.unwrap(), "");
        let size = fs::metadata(whole.lab.dir.path().join(&file)).unwrap().len();
        // Of this process and not of what it starts: the fake bench raises it again.
        let limit = format!("--fsize={}:", size - 1);
        let ran = Ran(lab.command_under("prlimit", &[&limit], "").output().unwrap());
        let expected = format!(
            "{} would be larger than this process may write: raise the limit",
            lab.folder().join(&file).display()
        );
        ran.refused(&expected);
        assert_eq!(
            ran.stderr().lines().filter(|line| line.contains("assay: ") && !line.contains("continuing")).count(),
            1,
            "{}",
            ran.stderr()
        );
        whole.goes_on(&lab, &format!("a limit for {file}"));
    });
}

/// Whoever comes first runs the trials; the others are told, or find the verdict.
#[test]
fn of_several_runs_at_once_one_runs() {
    let whole = Whole::new();
    for _ in 0..2 {
        let lab = whole.again();
        let children: Vec<_> = (0..4).map(|_| lab.command("").spawn().unwrap()).collect();
        let ran: Vec<Ran> = children.into_iter().map(|child| Ran(child.wait_with_output().unwrap())).collect();
        let trials = ran.iter().map(|ran| ran.stderr().lines().filter(|line| line.contains(" done: ")).count());
        assert_eq!(trials.sum::<usize>(), 2 * BLOCKS);
        for ran in &ran {
            if ran.code() != 0 {
                ran.refused("out is in use by a");
            }
        }
        whole.goes_on(&lab, "several runs at once");
    }
}

/// Otherwise the power may go with the name there and the content not.
#[test]
fn a_file_is_on_the_disk_before_it_has_its_name() {
    let whole = Whole::new();
    let mut renamed = 0;
    for (at, call) in whole.calls.iter().enumerate().filter(|(_, call)| call.name.starts_with("rename")) {
        let before = &whole.calls[at - 1];
        assert_eq!((before.name.as_str(), &before.paths[0]), ("fsync", &call.paths[0]), "before {}", call.site());
        renamed += 1;
    }
    assert!(renamed >= 2 * 2 * BLOCKS + 6, "{renamed}");
}
