//! Answers like `assay-bench`, without RocksDB, and misbehaves when it is told to.
//!
//! `FAKE_BENCH` holds faults, separated by commas: `KIND=TRIAL`, where TRIAL is the name of an attempt. `FAKE_BENCH_EPOCH` is the
//! time at which all trials pretend to have started, so that two runs can leave the same records.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use assay_record::{Digest, OptionsAnswer, Outcome, TrialRecord, TrialSpec};

#[path = "record.rs"]
mod record;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["options", _] => {
            println!("{}", serde_json::to_string(&OptionsAnswer::default()).expect("an answer is JSON"));
            ExitCode::SUCCESS
        }
        ["run", spec, "--data", data, "--out", out] => run(Path::new(spec), Path::new(data), Path::new(out)),
        other => {
            eprintln!("fake-bench: unknown arguments {other:?}");
            ExitCode::from(2)
        }
    }
}

/// The fault that is asked for in this trial.
fn fault(trial: &str) -> Option<String> {
    let faults = std::env::var("FAKE_BENCH").unwrap_or_default();
    let mut faults = faults.split(',').filter_map(|fault| fault.split_once('='));
    faults.find(|(_, name)| *name == trial).map(|(kind, _)| kind.to_owned())
}

fn run(spec_path: &Path, data: &Path, out: &Path) -> ExitCode {
    let json = std::fs::read(spec_path).expect("a spec");
    let spec = TrialSpec::from_json(&json).expect("a spec of this version");
    let name = spec.trial.file_stem();
    let mine = data.join("trials").join(&name);
    std::fs::create_dir_all(&mine).expect("a directory");
    println!(r#"{{"progress":{{"phase":"measure","done":1,"total":2,"stepsPerSecond":1000.5}}}}"#);
    let mut record = recorded(spec, Digest::of(&json));
    match fault(&name).as_deref() {
        Some("crash") => std::process::abort(),
        Some("mute") => {
            println!("garbage \u{1b}[31m from a stranger");
            return ExitCode::SUCCESS;
        }
        Some("garbage") => {
            std::fs::write(out, b"{\"version\": 1, \"spec\": garbage").expect("written");
            return ExitCode::SUCCESS;
        }
        Some("other") => {
            "elsewhere".clone_into(&mut record.spec.experiment);
        }
        Some("spec") => {
            eprintln!("fake-bench: the spec is refused: no such thing");
            return ExitCode::from(2);
        }
        Some("refuse") => {
            eprintln!("fake-bench: the environment is not fit: no luck today");
            return ExitCode::from(3);
        }
        Some("refuse-once") => {
            let marker = data.join("refused");
            if !marker.exists() {
                std::fs::write(marker, b"").expect("written");
                eprintln!("fake-bench: the environment is not fit: no luck this time");
                return ExitCode::from(3);
            }
        }
        Some("full") => {
            eprintln!("fake-bench: the environment is not fit: No space left on device (os error 28)");
            return ExitCode::from(3);
        }
        Some("fail") => {
            record.outcome = Outcome::Failed {
                kind: assay_record::FailureKind::OutOfMemory,
                message: "fake-bench: out of memory".to_owned(),
            };
            record.metrics.clear();
        }
        Some("disturbed") => record.evidence.disturbance.throttled_periods = Some(3),
        // Longer than any test: only a signal ends it.
        Some("slow") => std::thread::sleep(Duration::from_mins(10)),
        Some(other) => {
            eprintln!("fake-bench: unknown fault {other}");
            return ExitCode::from(2);
        }
        None => {}
    }
    let failed = matches!(record.outcome, Outcome::Failed { .. });
    let partial: PathBuf = out.with_extension("tmp");
    std::fs::write(&partial, serde_json::to_vec(&record).expect("a record is JSON")).expect("written");
    std::fs::rename(&partial, out).expect("renamed");
    ExitCode::from(if failed { 4 } else { 0 })
}

fn recorded(spec: TrialSpec, spec_digest: Digest) -> TrialRecord {
    let name = spec.trial.file_stem();
    let noise = f64::from(name.bytes().fold(0_u8, u8::wrapping_add)) / 25_500.0;
    let is_baseline = spec.config == spec.baseline;
    let epoch = std::env::var("FAKE_BENCH_EPOCH").expect("FAKE_BENCH_EPOCH");
    // What the kernel says, so that tests see whether the runner has pinned us.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let measured = record::Measured {
        started_unix_ms: epoch.parse().expect("milliseconds"),
        throughput: 1000.0 * (1.0 + noise) * if is_baseline { 1.0 } else { 1.3 },
        other: 1.0 + noise,
        boot_id: boot_id.ok().map(|id| id.trim().to_owned()),
        cpus: cpus.map(|list| list.trim().to_owned()),
    };
    record::record(spec, spec_digest, measured)
}
