//! Whole experiments: the CLI, its executor and the real RocksDB.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

use assay_protocol::{Summary, TrialRecord};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use spinner::Spinner;
use tempfile::TempDir;

#[path = "../../../operator/cli/tests/support/fresh.rs"]
mod fresh;
#[path = "../../../operator/cli/tests/support/spinner.rs"]
mod spinner;

const EXPERIMENT: &str = "
apiVersion: assay.rocks/v1alpha1
kind: TuningExperiment
metadata: {name: real}
spec:
  seed: 3
  baseline: roomy
  configs:
  - {name: roomy, columnFamilies: [{match: ['*'], options: {write_buffer_size: 64M}}]}
  - {name: cramped, columnFamilies: [{match: ['*'], options: {write_buffer_size: 256K, compression: kNoCompression}}]}
  scenarios:
  - name: writes
    workload:
      keyValue:
        keys: 5000
        valueBytes: {fixed: 400}
        roles: [{name: writer, steps: 20000, warmupSteps: 100, mix: {put: 1}}]
  - name: reads
    workload:
      keyValue:
        keys: 5000
        valueBytes: {fixed: 400}
        roles: [{name: reader, steps: 5000, mix: {get: 1}}]
  repetitions: 5
  objectives: [{metric: throughput, margin: 5%}]
";

/// Windows long enough for the kernel's clock ticks to tell a percent.
const WRITES: &str = "
apiVersion: assay.rocks/v1alpha1
kind: TuningExperiment
metadata: {name: writes}
spec:
  baseline: roomy
  configs:
  - {name: roomy, columnFamilies: [{match: ['*'], options: {write_buffer_size: 64M}}]}
  - {name: cramped, columnFamilies: [{match: ['*'], options: {write_buffer_size: 256K}}]}
  scenarios:
  - name: writes
    workload:
      keyValue:
        keys: 5000
        valueBytes: {fixed: 400}
        roles: [{name: writer, steps: 60000, warmupSteps: 100, mix: {put: 1}}]
  repetitions: 5
  objectives: [{metric: throughput, margin: 5%}]
";

/// A memtable so small that every write waits for flushes. On any machine that is far slower, however busy it is.
const PLANTED: &str = "
apiVersion: assay.rocks/v1alpha1
kind: TuningExperiment
metadata: {name: planted}
spec:
  baseline: BASELINE
  configs:
  - {name: roomy, columnFamilies: [{match: ['*'], options: {write_buffer_size: 64M}}]}
  - {name: cramped, columnFamilies: [{match: ['*'], options: {write_buffer_size: 128K}}]}
  scenarios:
  - name: overwrite
    workload:
      keyValue:
        keys: 20000
        valueBytes: {fixed: 400}
        roles: [{name: writer, steps: 150000, warmupSteps: 5000, mix: {put: 1}}]
  repetitions: 8
  objectives: [{metric: throughput, margin: 5%}]
  defaultGuardrails: Remove
  # Other programs of this machine are part of it.
  placement: {environment: Shared}
";

/// The CLI, which finds the bench beside itself. Where the whole workspace is tested it is there already.
fn assay() -> PathBuf {
    static BUILT: Once = Once::new();
    let bench = Path::new(env!("CARGO_BIN_EXE_assay-bench"));
    let assay = bench.with_file_name("assay");
    BUILT.call_once(|| {
        let mut arguments = vec!["-p", "assay-cli"];
        if bench.parent().is_some_and(|dir| dir.ends_with("release")) {
            arguments.push("--release");
        }
        fresh::build(&assay, &arguments);
    });
    assay
}

/// The bench that users get. Of a bench that nobody has optimised most time is its own, and no verdict follows from that.
fn measured_bench() -> PathBuf {
    static BUILT: Once = Once::new();
    let target = Path::new(env!("CARGO_BIN_EXE_assay-bench")).ancestors().nth(2).unwrap();
    let bench = target.join("measured").join("assay-bench");
    BUILT.call_once(|| fresh::build(&bench, &["--locked", "-p", "assay-bench", "--profile", "measured"]));
    bench
}

/// Two trials on one CPU would find each other foreign, and their runs invalid.
static CPU: Mutex<()> = Mutex::new(());

struct Lab {
    dir: TempDir,
    _cpu: MutexGuard<'static, ()>,
}

impl Lab {
    fn new(experiment: &str) -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("experiment.yaml"), experiment).unwrap();
        Self { dir, _cpu: CPU.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assay());
        command.current_dir(self.dir.path()).args(arguments).env_remove("ASSAY_BENCH").stdin(Stdio::null());
        command
    }

    fn run(&self) -> Output {
        self.command(&["run", "experiment.yaml", "--out", "out"]).output().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("out").join(name)
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("report.json")).unwrap()).unwrap()
    }

    /// The bytes of every finished record by the name of its trial.
    fn records(&self) -> BTreeMap<String, Vec<u8>> {
        fs::read_dir(self.path("trials"))
            .map(|trials| {
                trials
                    .filter_map(|trial| {
                        let path = trial.unwrap().path();
                        let record = fs::read(path.join("record.json")).ok()?;
                        Some((path.file_name().unwrap().to_str().unwrap().to_owned(), record))
                    })
                    .collect()
            })
            .unwrap_or_default()
    }
}

/// Ctrl-C keeps what is finished, a rerun goes on from there, and what comes of both is what any experiment comes to.
#[test]
fn an_interrupted_experiment_reaches_its_verdict_from_real_records() {
    let lab = Lab::new(EXPERIMENT);
    let mut child = lab
        .command(&["run", "experiment.yaml", "--out", "out"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while lab.records().len() < 3 {
        assert!(child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_mins(2), "no third record");
        thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let kept = lab.records();
    assert!(kept.len() >= 3);
    let partial = lab.report();
    assert_eq!(partial["configs"][0]["verdict"], "Inconclusive", "{partial}");
    assert!(partial.to_string().contains("Incomplete"), "{partial}");

    let output = lab.run();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // Which verdict depends on the machine; that there is one does not.
    assert!(matches!(output.status.code(), Some(0 | 10 | 11)), "{text}");
    assert!(text.contains("report.md"), "{text}");
    assert!(fs::read_to_string(lab.path("report.md")).unwrap().contains("cramped"));
    assert!(!lab.path("work").exists());
    assert!(!lab.report().to_string().contains("Incomplete"));

    let records = lab.records();
    assert!(kept.iter().all(|(name, record)| records.get(name) == Some(record)));
    assert!(records.len() >= 20, "{text}");
    let mut work = BTreeMap::<(String, u32), BTreeSet<String>>::new();
    for json in records.values() {
        let record = TrialRecord::from_json(json).unwrap();
        let summary = Summary::of(&record, json).unwrap();
        let id = record.spec.trial.clone();
        work.entry((id.scenario, id.block)).or_default().insert(summary.parity.work.to_string());
        assert_eq!(summary.options.undeclared.count, 0);
        assert_eq!(record.evidence.placement.affinity_cpus, Some(1));
    }
    // Beside a program on the same CPU none would be: see below.
    assert!(lab.report()["progress"]["trialsValid"].as_u64().unwrap() > 0, "{text}");
    // Within a block all configs did the same work; no two blocks did.
    assert!(work.values().all(|hashes| hashes.len() == 1), "{work:?}");
    assert_eq!(work.values().flatten().collect::<BTreeSet<_>>().len(), 10);

    // A finished experiment is only reported again, byte for byte.
    let before = fs::read(lab.path("report.json")).unwrap();
    let again = lab.run();
    assert_eq!(again.status.code(), output.status.code());
    assert_eq!(again.stdout, output.stdout);
    assert_eq!(fs::read(lab.path("report.json")).unwrap(), before);
    assert_eq!(lab.records(), records);
}

fn the_verdict_on(config: &str, baseline: &str) -> (Value, String) {
    let lab = Lab::new(&PLANTED.replace("BASELINE", baseline));
    let output =
        lab.command(&["run", "experiment.yaml", "--out", "out"]).env("ASSAY_BENCH", measured_bench()).output().unwrap();
    let report = lab.report();
    let configs = report["configs"].as_array().unwrap();
    let judged = configs.iter().find(|judged| judged["config"] == config).unwrap();
    (judged["verdict"].clone(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_planted_harm_is_rejected() {
    let (verdict, said) = the_verdict_on("cramped", "roomy");
    assert_eq!(verdict, "Reject", "{said}");
}

#[test]
fn with_the_roles_swapped_it_wins() {
    let (verdict, said) = the_verdict_on("roomy", "cramped");
    assert_eq!(verdict, "Win", "{said}");
}

#[test]
fn a_neighbour_on_the_same_cpu_invalidates_a_trial() {
    // Where others have a right to the machine, they cost no run.
    let dedicated = format!("{WRITES}  placement: {{environment: Dedicated}}\n  maxWaitSeconds: 0\n");
    let busy = Lab::new(&dedicated);
    let spinners = Spinner::everywhere();
    let output = busy.run();
    drop(spinners);
    assert_eq!(output.status.code(), Some(11), "{}", String::from_utf8_lossy(&output.stderr));
    let report = busy.report();
    let trials = report["trials"].as_array().unwrap();
    assert!(!trials.is_empty());
    for trial in trials {
        assert!(trial["state"] == "Invalid" && trial["findings"].to_string().contains("ForeignCpu"), "{trial}");
    }
}

#[test]
fn the_real_library_is_asked_for_options() {
    for (from, to, says) in [
        ("write_buffer_size: 256K", "write_bufer_size: 256K", "did you mean write_buffer_size?"),
        ("kNoCompression", "kBrotli", "kBrotli"),
        ("write_buffer_size: 256K", "write_buffer_size: -1", "negative"),
        ("write_buffer_size: 256K, compression: kNoCompression", "write_buffer_size: 65536K", "NoEffectPossible"),
    ] {
        let lab = Lab::new(&EXPERIMENT.replace(from, to));
        let output = lab.command(&["validate", "experiment.yaml"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        // File, line and column lead every message.
        assert!(text.contains("experiment.yaml:10:"), "{text}");
        assert!(text.contains(says), "{text} does not say {says}");
        assert_eq!(lab.run().status.code(), Some(1));
        assert!(lab.records().is_empty());
    }
    let lab = Lab::new(EXPERIMENT);
    let sound = lab.command(&["validate", "experiment.yaml"]).output().unwrap();
    assert!(sound.status.success(), "{}", String::from_utf8_lossy(&sound.stderr));
}
