use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use assay_core::report::{Report, TrialFate};
use assay_core::validate::validate_document;
use assay_core::verdict::Verdict;
use tempfile::TempDir;

use super::*;

#[path = "../../../tests/support/fresh.rs"]
mod fresh;

const EXPERIMENT: &str = "
apiVersion: assay.rocks/v1alpha1
kind: TuningExperiment
metadata: {name: memory}
spec:
  seed: 7
  baseline: base
  configs:
  - {name: base, dbOptions: {max_background_jobs: '2'}}
  - {name: greedy, dbOptions: {max_background_jobs: '4'}}
  scenarios:
  - name: fill
    workload:
      keyValue:
        keys: 10
        valueBytes: {fixed: 10}
        roles: [{name: writer, steps: 100, mix: {put: 1}}]
  repetitions: 6
  objectives: [{metric: throughput, margin: 5%}]
  guardrails: []
  placement: {cpus: 1}
";

/// The fake bench, built where only these tests were asked for.
fn fake_bench() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let bench = tests.parent().and_then(Path::parent).unwrap().join("examples/fake-bench");
    fresh::build(&bench, &["--package", env!("CARGO_PKG_NAME"), "--example", "fake-bench"]);
    bench
}

/// Runs the experiment with a bench that is killed in some trials of a config; `counted`: the kernel counts those kills.
fn run(killed: &str, counted: bool) -> Report {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("experiment.yaml"), EXPERIMENT).unwrap();
    fs::write(path("vmstat"), "oom_kill 3\n").unwrap();
    let count = if counted { "echo \"oom_kill $(date +%s%N)\" >\"$here/vmstat\"" } else { "" };
    let script = format!(
        "#!/bin/sh\nhere=$(dirname \"$0\")\ncase \"$2\" in *{killed}*) {count}\nkill -9 $$;; esac\n\
         FAKE_BENCH_EPOCH={} exec {} \"$@\"\n",
        machine::unix_ms(),
        fake_bench().display()
    );
    fs::write(path("bench"), script).unwrap();
    fs::set_permissions(path("bench"), fs::Permissions::from_mode(0o755)).unwrap();

    let document: serde_json::Value = serde_yaml::from_str(EXPERIMENT).unwrap();
    let plan = Plan::new(validate_document(&document).experiment.unwrap()).unwrap();
    let benches = Benches { default: path("bench"), by_config: BTreeMap::new() };
    let store = Store::open(&path("out"), &plan, b"", &benches).unwrap();
    let kills = OomKills::from(vec![path("no-such-file"), path("vmstat")]);
    let cpus = Cpus::divide(1).unwrap();
    let mut session = Session::new(&plan, store, &benches, cpus, kills, Arc::default()).unwrap();
    session.run().unwrap();
    let report = session.report().unwrap();
    // What is there is read again as it was.
    drop(session);
    let store = Store::open(&path("out"), &plan, b"", &benches).unwrap();
    assert_eq!(judge(&plan, &store.load(&plan).unwrap().attempts).unwrap(), report.without_records());
    report
}

fn messages(report: &Report, state: TrialFate) -> Vec<String> {
    let trials = report.trials.iter().filter(|trial| trial.state == state);
    trials.map(|trial| trial.message.clone().unwrap_or_default()).collect()
}

#[test]
fn a_bench_that_runs_out_of_memory_fails_under_its_config() {
    let report = run("greedy", true);
    let ruling = &report.configs[0].ruling;
    assert_eq!((ruling.verdict, ruling.reason.as_str()), (Verdict::Reject, "Unstable"));
    let failed = messages(&report, TrialFate::Failed);
    assert!(failed.len() >= 4 && failed.iter().all(|message| message.starts_with("OutOfMemory: ")), "{failed:?}");
    assert_eq!((report.progress.failed, report.progress.lost), (failed.len(), 0));
}

#[test]
fn one_that_somebody_kills_is_lost_and_run_again() {
    let report = run("b001-greedy-r0-a0", false);
    assert!(messages(&report, TrialFate::Failed).is_empty());
    let lost = messages(&report, TrialFate::Lost);
    assert!(matches!(&lost[..], [one] if one.starts_with("Crashed: killed by signal 9")), "{lost:?}");
    assert_eq!(report.progress.trials_valid, 12);
}
