//! Specs for small real trials, and what it takes to run them.

#![allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "shared by several test files")]

pub mod hostile;
pub mod wal;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use assay_protocol::{
    DatasetSpec, Digest, EngineConfig, Exit, FamilyOptions, KeyOrder, KeyValue, Mix, PageCache, Preload, Role, TrialId,
    TrialRecord, TrialSpec, VERSION, ValueBytes, Workload, invocation,
};
use tempfile::TempDir;

pub fn role(name: &str, steps: u64, mix: Mix) -> Role {
    Role {
        name: name.to_owned(),
        threads: 1,
        steps: Some(steps),
        until: None,
        warmup_steps: steps / 10,
        steps_per_second: None,
        mix,
        batch: 1,
        scan_length: 10,
        key_order: KeyOrder::Uniform,
        zipfian_exponent: None,
    }
}

pub fn puts() -> Mix {
    Mix { put: 1, ..Mix::default() }
}

pub fn gets() -> Mix {
    Mix { get: 1, ..Mix::default() }
}

pub fn options(pairs: &[(&str, &str)]) -> EngineConfig {
    let options = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    EngineConfig {
        column_families: vec![FamilyOptions { r#match: vec!["*".to_owned()], options }],
        ..EngineConfig::default()
    }
}

pub fn workload(roles: Vec<Role>) -> KeyValue {
    KeyValue {
        keys: 20_000,
        key_bytes: 20,
        value_bytes: ValueBytes::Fixed(400),
        compressed_percent: 50,
        families: vec!["default".to_owned()],
        preload: Preload::Shuffled,
        roles,
    }
}

pub fn spec(workload: KeyValue) -> TrialSpec {
    TrialSpec {
        version: VERSION,
        experiment: "test".to_owned(),
        plan: Digest::of(b"plan"),
        trial: TrialId {
            scenario: "s".to_owned(),
            block: 0,
            config: "c".to_owned(),
            replicate: 0,
            order: 0,
            attempt: 0,
        },
        seed: 1,
        config: EngineConfig::default(),
        baseline: EngineConfig::default(),
        workload: Workload::KeyValue(workload),
        tuned_families: Vec::new(),
        dataset: DatasetSpec { seed: 7, format: EngineConfig::default(), from: None },
        page_cache: PageCache::Evict,
        cpus: 1,
        deadline_seconds: 300,
        max_disk_bytes: 10 << 30,
        metrics: vec!["throughput".to_owned()],
    }
}

/// A folder for trials. Datasets are shared by all trials in it.
pub struct Bench {
    pub dir: TempDir,
}

pub struct Ran {
    pub output: Output,
    pub record_json: Option<Vec<u8>>,
}

impl Ran {
    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub fn record(&self) -> TrialRecord {
        assert!(self.record_json.is_some(), "no record: {}", self.stderr());
        TrialRecord::from_json(self.record_json.as_ref().unwrap()).unwrap()
    }
}

impl Bench {
    pub fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub fn in_folder(folder: &str) -> Self {
        Self { dir: TempDir::new_in(folder).unwrap() }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn command(&self, spec_json: &[u8]) -> Command {
        let spec = self.dir.path().join("spec.json");
        fs::write(&spec, spec_json).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay-bench"));
        command.args(invocation::run(&spec, &self.data(), &self.record_path()));
        command
    }

    pub fn record_path(&self) -> PathBuf {
        self.dir.path().join("record.json")
    }

    pub fn run_with(&self, spec_json: &[u8], extra: &[&str]) -> Ran {
        let _ = fs::remove_file(self.record_path());
        let output = self.command(spec_json).args(extra).output().unwrap();
        Ran { output, record_json: fs::read(self.record_path()).ok() }
    }

    pub fn run(&self, spec: &TrialSpec) -> Ran {
        self.run_with(&serde_json::to_vec(spec).unwrap(), &[])
    }

    /// The record of a trial that must succeed.
    pub fn record(&self, spec: &TrialSpec) -> TrialRecord {
        let ran = self.run(spec);
        assert_eq!(ran.code(), Some(Exit::Completed as i32), "{}", ran.stderr());
        ran.record()
    }
}

/// Files left below a folder.
pub fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|entries| entries.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
}
