//! Answers like `assay-bench`, without RocksDB, and misbehaves when it is told to.
//!
//! `FAKE_BENCH` holds faults, separated by commas: `KIND=TRIAL`, where TRIAL is the name of an attempt. `FAKE_BENCH_EPOCH` is the
//! time at which all trials pretend to have started, so that two runs can leave the same records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use assay_record::{
    Attestation, Build, DatasetFacts, Digest, Disturbance, Engagement, Evidence, Host, LsmState, OptionsAnswer,
    Outcome, Placement, RoleTime, Series, Storage, TrialRecord, TrialSpec, VERSION, Work,
};

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
    let mut record = record(spec, Digest::of(&json));
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

fn record(spec: TrialSpec, spec_digest: Digest) -> TrialRecord {
    let name = spec.trial.file_stem();
    let epoch: u64 = std::env::var("FAKE_BENCH_EPOCH").expect("FAKE_BENCH_EPOCH").parse().expect("milliseconds");
    let noise = f64::from(name.bytes().fold(0_u8, u8::wrapping_add)) / 25_500.0;
    let is_baseline = spec.config == spec.baseline;
    let throughput = 1000.0 * (1.0 + noise) * if is_baseline { 1.0 } else { 1.3 };
    let mut metrics = BTreeMap::from([
        ("throughput".to_owned(), throughput),
        ("drained_throughput".to_owned(), throughput),
        ("step_latency_mean".to_owned(), 1e6 / throughput),
    ]);
    for metric in &spec.metrics {
        metrics.entry(metric.clone()).or_insert(1.0 + noise);
    }
    // A closed loop that is in its steps all the time.
    let steps = spec.workload.primary_role().map_or(0, |role| role.steps);
    let seconds = steps as f64 / throughput;
    let options = |config| Digest::of_json(config).ok();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned());
    TrialRecord {
        version: VERSION,
        spec_digest,
        outcome: Outcome::Completed,
        started_unix_ms: epoch,
        finished_unix_ms: epoch + 1000,
        window_started_unix_ms: epoch,
        window_seconds: seconds,
        metrics,
        work: Work {
            hash: Digest::of(&spec.seed.to_le_bytes()),
            counts: BTreeMap::new(),
            user_bytes: 1000,
            answers: None,
            wrong_answers: 0,
            policy_operations: 0,
        },
        dataset: DatasetFacts {
            content: Digest::of(b"content"),
            format: Digest::of(b"format"),
            entries: 10,
            sst_bytes: 1000,
            files_by_level: vec![1],
        },
        evidence: evidence(&spec, seconds, boot_id, options(&spec.baseline), options(&spec.config)),
        latency: BTreeMap::new(),
        families: BTreeMap::new(),
        tickers: BTreeMap::new(),
        time_spent: BTreeMap::from([("process".to_owned(), seconds)]),
        series: Series {
            seconds: vec![1.0, 2.0],
            columns: BTreeMap::from([("steps_per_second".to_owned(), vec![1000.0, 1100.0])]),
        },
        spec,
    }
}

fn evidence(
    spec: &TrialSpec,
    seconds: f64,
    boot_id: Option<String>,
    baseline: Option<Digest>,
    config: Option<Digest>,
) -> Evidence {
    // What the kernel says, so that tests see whether the runner has pinned us.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned());
    let count = allowed.as_deref().map(count_cpus);
    Evidence {
        build: Build {
            bench_version: "fake".to_owned(),
            binary: Some(Digest::of(b"fake")),
            rocksdb_version: "none".to_owned(),
            rocksdb_build: "none".to_owned(),
            allocator: "system".to_owned(),
            profile: "debug".to_owned(),
        },
        host: Host {
            hostname: None,
            kernel: None,
            boot_id,
            cpu_model: None,
            cpu_flags: None,
            online_cpus: Some(2),
            memory_bytes: None,
            governor: None,
            transparent_hugepage: None,
        },
        placement: Placement {
            requested_cpus: spec.cpus,
            affinity_before: allowed.clone(),
            affinity_after: allowed,
            affinity_cpus: count,
            cpuset: None,
            quota_cpus: Some(0.0),
            whole_cores: Some(true),
        },
        storage: Storage {
            filesystem: None,
            mount_options: None,
            device: None,
            model: None,
            rotational: None,
            transport: None,
            total_bytes: Some(1000),
            free_bytes_before: Some(800),
            free_bytes_after: Some(800),
            foreign_write_bytes: None,
            replaced_sysfs: None,
        },
        disturbance: Disturbance {
            throttled_periods: Some(0),
            steal_percent: Some(0.0),
            foreign_cpu_percent: Some(0.0),
            foreign_cpu_resolution_percent: Some(0.1),
            memory_pressure_full_percent: Some(0.0),
            clock_step_seconds: Some(0.0),
            ..Disturbance::default()
        },
        attestation: Attestation {
            baseline_options: baseline,
            config_options: config.clone(),
            effective_options: config,
            ..Attestation::default()
        },
        lsm_before: LsmState::default(),
        lsm_after: LsmState::default(),
        engagement: Engagement {
            flushes: Some(1),
            compactions: Some(1),
            compactions_due_peak: Some(2),
            ..Engagement::default()
        },
        role_time: BTreeMap::from([(
            "writer".to_owned(),
            RoleTime { threads: 1, wall_seconds: seconds, db_seconds: seconds, ..RoleTime::default() },
        )]),
        drift_percent: Some(0.0),
    }
}

/// Number of CPUs in a list such as `0-2,5`.
fn count_cpus(list: &str) -> u32 {
    list.split(',')
        .map(|range| match range.split_once('-') {
            Some((first, last)) => last.parse::<u32>().unwrap_or(0) - first.parse::<u32>().unwrap_or(0) + 1,
            None => 1,
        })
        .sum()
}
