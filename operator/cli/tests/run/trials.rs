//! What a bench can do to the runner.

use std::fs;

use serde_json::Value;

use crate::lab::{BLOCKS, EXPERIMENT, Lab, Ran};

#[test]
fn an_experiment_runs_to_its_verdict() {
    let lab = Lab::new();
    let ran = lab.run("");
    ran.succeeded();
    assert!(ran.stdout().contains("Win"), "{}", ran.stdout());
    let report = lab.report();
    assert_eq!(report["configs"][0]["verdict"], "Win");
    assert_eq!(report["progress"]["trialsValid"], 2 * BLOCKS);
    assert_eq!(report["labels"][0]["label"], "NotIsolated");
    for file in ["experiment.yaml", "plan.json", "report.md", "report.html", "bench.json"] {
        assert!(lab.out().join(file).exists(), "{file}");
    }
    assert!(!lab.out().join("work").exists(), "databases are removed");
    let [.., page] = lab.report_bytes();
    assert!(page.contains("<title>Steps in fill, steps/s</title>"), "the page has what the records hold");
    assert!(page.contains("No data: the latency distribution"), "and says what they don't hold");
    let spent = &report["timeSpent"][0]["rows"][0];
    assert_eq!(spent["component"], "process");
    let less = spent["configs"][0]["interval95"]["high"].as_f64();
    assert!(less.is_some_and(|less| less < 0.0), "the faster config takes less time: {spent}");
    let lines = ran.stderr().lines().filter(|line| line.contains(" done: ")).count();
    assert_eq!(lines, 2 * BLOCKS, "a line per trial where there is no terminal");
    // Once more: nothing is run again, and the report is the same.
    let before = lab.report_bytes();
    lab.run("crash=fill-b000-base-r0-a0").succeeded();
    assert_eq!(lab.report_bytes(), before);
}

#[test]
fn trials_are_pinned() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let record: Value =
        serde_json::from_slice(&fs::read(lab.trial("fill-b000-base-r0-a0").join("record.json")).unwrap()).unwrap();
    assert_eq!(record["evidence"]["placement"]["affinityCpus"], 1);
}

#[test]
fn a_killed_bench_costs_one_attempt() {
    let lab = Lab::new();
    let ran = lab.run("crash=fill-b001-base-r0-a0");
    ran.succeeded();
    assert!(ran.stderr().contains("killed by signal 9"), "{}", ran.stderr());
    assert_eq!(lab.states("Lost"), ["base 0"]);
    assert_eq!(lab.report()["progress"]["trialsValid"], 2 * BLOCKS);
}

/// Whoever kills what takes too long, until it is fast, has no Win.
#[test]
fn a_killed_run_of_the_config_may_have_been_a_slow_one() {
    let lab = Lab::new();
    let ran = lab.run("crash=fill-b001-candidate-r0-a0");
    assert!(ran.stderr().contains("killed by signal 9"), "{}", ran.stderr());
    assert_eq!(lab.states("Lost"), ["candidate 0"]);
    let report = lab.report();
    assert_eq!(report["progress"]["trialsValid"], 2 * BLOCKS);
    let config = &report["configs"][0];
    assert_eq!((&config["verdict"], &config["reason"]), (&"Inconclusive".into(), &"Attrition".into()));
}

#[test]
fn one_that_ends_itself_fails_under_its_config() {
    let lab = Lab::new();
    let ran = lab.run("abort=fill-b001-candidate-r0-a0");
    assert!(ran.stderr().contains("killed by signal 6"), "{}", ran.stderr());
    assert_eq!(lab.states("Failed"), ["candidate 0"]);
    assert_eq!(lab.states("Lost"), Vec::<String>::new());
    assert_eq!(lab.report()["configs"][0]["failed"], 1);
}

#[test]
fn garbage_is_not_a_record() {
    let lab = Lab::new();
    let ran = lab.run("mute=fill-b001-candidate-r0-a0,garbage=fill-b002-base-r0-a0,other=fill-b003-base-r0-a0");
    ran.succeeded();
    assert!(ran.stderr().contains("no record; stdout: garbage ?[31m from a stranger"), "{}", ran.stderr());
    assert!(ran.stderr().contains("can't read its record"), "{}", ran.stderr());
    assert!(ran.stderr().contains("its record is for another spec"), "{}", ran.stderr());
    assert_eq!(lab.states("Lost").len(), 3);
    // What was garbage once is not found again.
    let before = lab.report_bytes();
    lab.run("").succeeded();
    assert_eq!(lab.report_bytes(), before);
}

#[test]
fn a_bench_that_is_no_bench_says_so() {
    let lab = Lab::new();
    let mut command = lab.command("");
    let output = command.args(["--bench", "/bin/echo"]).output().unwrap();
    Ran(output).refused("its answer does not match this version of assay");
    assert!(!lab.out().exists());
}

#[test]
fn a_disturbed_trial_is_run_again() {
    let lab = Lab::new();
    let ran = lab.run("disturbed=fill-b002-base-r0-a0");
    ran.succeeded();
    assert_eq!(lab.states("Invalid"), ["base 0"]);
    assert!(ran.stdout().contains("Throttled"), "{}", ran.stdout());
}

/// No summary has room for names: they come from the records.
#[test]
fn who_disturbed_a_trial_is_named() {
    let lab = Lab::new();
    let shared = lab.run("crowded=fill-b002-base-r0-a0");
    shared.succeeded();
    let said = shared.stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("which count on a shared machine: 1 of 12. Example: 20.0 %"), "{said}");
    let named = "cc1plus (in 1 run; at most 18 % of its CPU time), make (in 1 run; at most 1 % of its CPU time).";
    assert!(said.contains(&format!("Programs beside the trials: {named}")), "{said}");

    let lab = Lab::new();
    let dedicated = EXPERIMENT.replace("{cpus: 1}", "{cpus: 1, environment: Dedicated}");
    fs::write(lab.dir.path().join("experiment.yaml"), dedicated).unwrap();
    let ran = lab.run("crowded=fill-b002-base-r0-a0");
    ran.succeeded();
    assert_eq!(lab.states("Invalid"), ["base 0"]);
    let said = ran.stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    let finding = "ForeignCpu: 20.0 % of the trial's CPU time used by others (limit 1.0 %: a fifth of the usual margin): \
                   cc1plus 18.2 %, make 0.6 %";
    assert!(said.contains(finding), "{said}");
    assert!(lab.report().to_string().contains(finding.trim_start_matches("ForeignCpu: ")));
}

#[test]
fn a_failing_config_is_rejected() {
    let lab = Lab::new();
    let faults: Vec<String> = (0..BLOCKS).map(|block| format!("fail=fill-b{block:03}-candidate-r0-a0")).collect();
    let ran = lab.run(&faults.join(","));
    assert_eq!(ran.code(), 10, "{}", ran.stderr());
    assert_eq!(lab.report()["configs"][0]["reason"], "Unstable");
}

#[test]
fn a_refused_spec_stops_at_once() {
    let lab = Lab::new();
    lab.run("spec=fill-b001-base-r0-a0").refused("spec refused: no such thing");
    assert_eq!(lab.report()["progress"]["complete"], false);
    assert!(lab.records() >= 2);
}

#[test]
fn an_unfit_environment_is_tried_again_and_then_left() {
    let lab = Lab::new();
    lab.run("refuse-once=fill-b001-base-r0-a0").succeeded();
    assert!(lab.states("Lost").is_empty(), "what did not start is no attempt");
    let lab = Lab::new();
    lab.run("refuse=fill-b001-base-r0-a0").refused("the environment refused 3 trials in a row");
    let kept = lab.records();
    assert!(kept >= 2);
    lab.run("").succeeded();
    assert_eq!(lab.records(), 2 * BLOCKS);
}

#[test]
fn a_full_disk_stops_cleanly_and_loses_nothing() {
    let lab = Lab::new();
    let ran = lab.run("full=fill-b003-base-r0-a0");
    ran.refused("the disk is full");
    assert!(ran.stderr().contains("run the same command again to continue"), "{}", ran.stderr());
    let kept = lab.records();
    assert!(kept >= 6, "{kept} records");
    assert_eq!(lab.report()["configs"][0]["reason"], "Incomplete");
    lab.run("").succeeded();
    assert_eq!(lab.records(), 2 * BLOCKS);
}
