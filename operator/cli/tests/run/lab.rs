//! A folder with an experiment, and what became of running it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

#[path = "../support/fresh.rs"]
mod fresh;

/// Blocks of the experiment below; each has two trials.
pub const BLOCKS: usize = 6;

pub const EXPERIMENT: &str = "
apiVersion: assay.rocks/v1alpha1
kind: TuningExperiment
metadata: {name: buffers}
spec:
  seed: 7
  baseline: base
  configs:
  - {name: base, dbOptions: {max_background_jobs: '2'}}
  - {name: candidate, dbOptions: {max_background_jobs: '4'}}
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

/// The fake bench. Cargo builds it beside the tests, but not when it is asked for this test alone.
pub fn fake_bench() -> PathBuf {
    static BUILT: Once = Once::new();
    let programs = Path::new(env!("CARGO_BIN_EXE_assay"));
    let bench = programs.with_file_name("examples").join("fake-bench");
    BUILT.call_once(|| {
        let mut arguments = vec!["--package", env!("CARGO_PKG_NAME"), "--example", "fake-bench"];
        if programs.parent().is_some_and(|dir| dir.ends_with("release")) {
            arguments.push("--release");
        }
        fresh::build(&bench, &arguments);
    });
    bench
}

pub fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// A folder with an experiment.
pub struct Lab {
    pub dir: TempDir,
    pub epoch: u128,
    /// What is run in it.
    pub args: &'static [&'static str],
}

impl Lab {
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("experiment.yaml"), EXPERIMENT).unwrap();
        Self { dir, epoch: now_ms(), args: &["run", "experiment.yaml", "--out", "out"] }
    }

    /// The folder without links in its path, as the kernel names it.
    pub fn folder(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub fn trial(&self, name: &str) -> PathBuf {
        self.out().join("trials").join(name)
    }

    pub fn command(&self, faults: &str) -> Command {
        self.command_of(Command::new(env!("CARGO_BIN_EXE_assay")), faults)
    }

    /// The same, started by another program with these arguments.
    pub fn command_under(&self, program: &str, arguments: &[&str], faults: &str) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).arg(env!("CARGO_BIN_EXE_assay"));
        self.command_of(command, faults)
    }

    fn command_of(&self, mut command: Command, faults: &str) -> Command {
        command
            .current_dir(self.dir.path())
            .args(self.args)
            .arg("--bench")
            .arg(fake_bench())
            .env("FAKE_BENCH", faults)
            .env("FAKE_BENCH_EPOCH", self.epoch.to_string())
            .env_remove("ASSAY_BENCH")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// As with `assay run experiment.yaml 2>&1 | head -1`, when head has ended.
    pub fn command_without_readers(&self, faults: &str) -> Command {
        let mut command = self.command(faults);
        command.stdout(unread()).stderr(unread());
        command
    }

    pub fn run(&self, faults: &str) -> Ran {
        Ran(self.command(faults).output().unwrap())
    }

    pub fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.out().join("report.json")).unwrap()).unwrap()
    }

    pub fn report_bytes(&self) -> [String; 3] {
        ["report.json", "report.md", "report.html"].map(|name| fs::read_to_string(self.out().join(name)).unwrap())
    }

    pub fn records(&self) -> usize {
        let trials = fs::read_dir(self.out().join("trials")).unwrap();
        trials.filter(|entry| entry.as_ref().unwrap().path().join("record.json").exists()).count()
    }

    /// Attempts by their state in the report.
    pub fn states(&self, state: &str) -> Vec<String> {
        let report = self.report();
        let trials = report["trials"].as_array().unwrap().iter().filter(|trial| trial["state"] == state);
        trials
            .map(|trial| format!("{} {}", trial["trial"]["config"].as_str().unwrap(), trial["trial"]["attempt"]))
            .collect()
    }

    /// Starts a run and waits until a trial hangs.
    pub fn hanging(&self, trial: &str) -> Child {
        self.hanging_as(&mut self.command(&format!("slow={trial}")), trial)
    }

    pub fn hanging_as(&self, command: &mut Command, trial: &str) -> Child {
        let child = command.spawn().unwrap();
        let spec = self.trial(trial).join("spec.json");
        let work = self.out().join("work/trials").join(trial);
        wait_for(|| spec.exists() && work.exists());
        child
    }
}

pub struct Ran(pub Output);

impl Ran {
    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    #[track_caller]
    pub fn refused(&self, message: &str) {
        assert_eq!(self.code(), 1, "{}{}", self.stdout(), self.stderr());
        assert!(self.stderr().contains(message), "{}", self.stderr());
    }

    #[track_caller]
    pub fn succeeded(&self) {
        assert_eq!(self.code(), 0, "{}{}", self.stdout(), self.stderr());
    }
}

/// The end of a pipe whose other end is closed.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[track_caller]
pub fn wait_for(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_mins(1), "it never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}
