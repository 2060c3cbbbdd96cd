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
    let again = judge(&plan, &store.load(&plan).unwrap().attempts).unwrap();
    assert_eq!(again.without_advice(), report.without_records().without_advice());
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

/// Outcome and attempts of an experiment whose bench is killed in every trial.
fn run_in_vain(spec: &str, change: impl FnOnce(Session<'_>) -> Session<'_>) -> (anyhow::Result<()>, usize, Report) {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("bench"), "#!/bin/sh\nkill -9 $$\n").unwrap();
    fs::set_permissions(path("bench"), fs::Permissions::from_mode(0o755)).unwrap();
    let document: serde_json::Value = serde_yaml::from_str(&format!("{EXPERIMENT}{spec}")).unwrap();
    let plan = Plan::new(validate_document(&document).experiment.unwrap()).unwrap();
    let benches = Benches { default: path("bench"), by_config: BTreeMap::new() };
    let store = Store::open(&path("out"), &plan, b"", &benches).unwrap();
    let kills = OomKills::from(vec![path("no-such-file")]);
    let mut session =
        change(Session::new(&plan, store, &benches, Cpus::divide(1).unwrap(), kills, Arc::default()).unwrap());
    let ran = session.run();
    (ran, session.attempts.len(), session.report().unwrap())
}

#[test]
fn without_a_valid_run_a_night_ends_before_the_next_one_is_due() {
    // Waits begin with a minute.
    let due = Timestamp::now().checked_add(Duration::from_secs(45)).unwrap();
    let (ran, attempts, report) = run_in_vain("", |session| session.before(Some(due)));
    let message =
        format!("none of 6 attempts was valid so far (Crashed 6 times), and the next night is due at {due:.0}");
    assert_eq!((ran.unwrap_err().to_string(), attempts), (message, 6));
    assert!(!report.progress.complete);
}

#[test]
fn waiting_ends_at_once_when_somebody_asks_for_it() {
    let (ran, attempts, _) = run_in_vain("", |session| {
        let (stop, dir) = (Arc::clone(&session.stop), session.store.dir().to_owned());
        std::thread::spawn(move || {
            let lost = || fs::read_dir(dir.join("trials")).into_iter().flatten().flatten();
            while lost().filter(|trial| trial.path().join("lost.json").exists()).count() < 6 {
                std::thread::sleep(STEP);
            }
            stop.store(true, Ordering::SeqCst);
        });
        session
    });
    assert!(ran.unwrap_err().is::<Interrupted>());
    assert_eq!(attempts, 6);
}

#[test]
fn an_experiment_that_may_not_wait_ends_with_what_was_seen() {
    let (ran, attempts, report) = run_in_vain("  maxWaitSeconds: 0\n", |session| session);
    ran.unwrap();
    assert_eq!(attempts, 6);
    let found: Vec<&str> = report.invalid.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(found, ["none of 6 attempts was valid (Crashed 6 times), for as long as maxWaitSeconds allows, 0 s"]);
}
