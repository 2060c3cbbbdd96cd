//! What the bench of `make campaign` plants in whole trials.

#![cfg(feature = "planted")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;

use assay_protocol::{Exit, FailureKind, Outcome, TrialRecord, TrialSpec};
use support::{Bench, Ran, puts, role, spec, workload};

fn run(bench: &Bench, block: u32, planted: &str) -> Ran {
    let mut spec: TrialSpec = spec(workload(vec![role("writer", 1000, puts())]));
    spec.trial.block = block;
    let _ = fs::remove_file(bench.record_path());
    let json = serde_json::to_vec(&spec).unwrap();
    let output = bench.command(&json).env("ASSAY_PLANTED", planted).output().unwrap();
    Ran { output, record_json: fs::read(bench.record_path()).ok() }
}

/// Eight blocks in a row: one of them is hit.
fn eight(bench: &Bench, planted: &str) -> Vec<Ran> {
    (0..8).map(|block| run(bench, block, planted)).collect()
}

#[test]
fn one_run_of_eight_fails_under_its_config() {
    let bench = Bench::new();
    let failed: Vec<TrialRecord> = eight(&bench, "other:slow=10 c:fail")
        .iter()
        .filter(|ran| ran.code() != Some(Exit::Completed as i32))
        .inspect(|ran| assert_eq!(ran.code(), Some(Exit::ConfigFailed as i32), "{}", ran.stderr()))
        .map(Ran::record)
        .collect();
    let [record] = failed.as_slice() else { panic!("{} runs failed", failed.len()) };
    let Outcome::Failed { kind, message } = &record.outcome else { panic!("it has completed") };
    assert_eq!(*kind, FailureKind::EngineError);
    assert!(message.contains("planted by ASSAY_PLANTED"), "{message}");
}

#[test]
fn one_run_of_eight_stalls_and_says_which_bench_it_was() {
    let records: Vec<TrialRecord> = eight(&Bench::new(), "c:stall=3000").iter().map(Ran::record).collect();
    let longest = |record: &&TrialRecord| record.metrics["step_latency_max"] >= 3e6 && record.window_seconds >= 3.0;
    assert_eq!(records.iter().filter(longest).count(), 1);
    assert!(records.iter().all(|record| record.evidence.build.bench_version.ends_with("+planted")));
}

#[test]
fn nothing_is_planted_by_a_word_that_is_not_understood() {
    let ran = run(&Bench::new(), 0, "c:slwo=5");
    assert_eq!(ran.code(), Some(Exit::SpecRefused as i32));
    assert!(ran.stderr().contains(r#"can't read "c:slwo=5": write CONFIG:slow=PERCENT"#), "{}", ran.stderr());
}
