//! Answers like `assay-bench`, without RocksDB, and misbehaves when it is told to.
//!
//! `FAKE_BENCH` holds faults, separated by commas: `KIND=TRIAL`, where TRIAL is the name of an attempt. `FAKE_BENCH_EPOCH` is the
//! time at which all trials pretend to have started, so that two runs can leave the same records. `FAKE_BENCH_BUILD` is the build that it
//! pretends to be, and `FAKE_BENCH_FACTOR` how many times faster than others that is.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use assay_protocol::{Digest, Exit, OptionsAnswer, Outcome, TrialRecord, TrialSpec, invocation, output};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

#[path = "record.rs"]
mod record;

#[derive(Parser)]
enum Command {
    #[command(name = invocation::OPTIONS)]
    Options { _question: PathBuf },
    #[command(name = invocation::RUN)]
    Run(Run),
}

#[derive(clap::Args)]
struct Run {
    spec: PathBuf,
    #[arg(long = invocation::DATA)]
    data: PathBuf,
    #[arg(long = invocation::OUT)]
    out: PathBuf,
}

fn main() -> ExitCode {
    // A limit on the size of files is meant for the runner.
    let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).expect("a limit");
    setrlimit(Resource::RLIMIT_FSIZE, most, most).expect("a higher limit");
    let exit = match Command::parse() {
        Command::Options { .. } => {
            println!("{}", serde_json::to_string(&OptionsAnswer::default()).expect("an answer is JSON"));
            Exit::Completed
        }
        Command::Run(args) => run(&args),
    };
    ExitCode::from(exit as u8)
}

/// The fault that is asked for in this trial.
fn fault(trial: &str) -> Option<String> {
    let faults = std::env::var("FAKE_BENCH").unwrap_or_default();
    let mut faults = faults.split(',').filter_map(|fault| fault.split_once('='));
    faults.find(|(_, name)| *name == trial).map(|(kind, _)| kind.to_owned())
}

fn run(Run { spec, data, out }: &Run) -> Exit {
    let json = std::fs::read(spec).expect("a spec");
    let spec = TrialSpec::from_json(&json).expect("a spec of this version");
    let name = spec.trial.file_stem();
    let mine = invocation::trial_dir(data, &spec.trial);
    std::fs::create_dir_all(&mine).expect("a directory");
    let progress = output::Progress { phase: "measure".to_owned(), done: 1, total: 2, steps_per_second: Some(1000.5) };
    // Whether anyone reads that or not: this bench does not notice that its runner has gone.
    let _ = writeln!(std::io::stdout(), "{}", progress.line());
    let mut record = recorded(spec, Digest::of(&json));
    match fault(&name).as_deref() {
        Some("crash") => nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("it is the end"),
        Some("abort") => std::process::abort(),
        Some("mute") => {
            println!("garbage \u{1b}[31m from a stranger");
            return Exit::Completed;
        }
        Some("garbage") => {
            std::fs::write(out, b"{\"version\": 1, \"spec\": garbage").expect("written");
            return Exit::Completed;
        }
        Some("other") => {
            "elsewhere".clone_into(&mut record.spec.experiment);
        }
        Some("spec") => {
            eprintln!("fake-bench: spec refused: no such thing");
            return Exit::SpecRefused;
        }
        Some("refuse") => {
            eprintln!("fake-bench: environment not usable: no luck today");
            return Exit::EnvironmentRefused;
        }
        Some("refuse-once") => {
            let marker = data.join("refused");
            if !marker.exists() {
                std::fs::write(marker, b"").expect("written");
                eprintln!("fake-bench: environment not usable: no luck this time");
                return Exit::EnvironmentRefused;
            }
        }
        Some("full") => {
            eprintln!("fake-bench: environment not usable: No space left on device (os error 28)");
            return Exit::EnvironmentRefused;
        }
        Some("fail") => {
            record.outcome = Outcome::Failed {
                kind: assay_protocol::FailureKind::OutOfMemory,
                message: "fake-bench: out of memory".to_owned(),
            };
            record.metrics.clear();
        }
        Some("disturbed") => record.evidence.disturbance.throttled_periods = Some(3),
        Some("crowded") => {
            record.evidence.disturbance.foreign_cpu_percent = Some(20.0);
            record.evidence.disturbance.neighbours = [("cc1plus", 18.24), ("make", 0.61)]
                .map(|(name, cpu_percent)| assay_protocol::Neighbour { name: name.to_owned(), cpu_percent })
                .to_vec()
                .into();
        }
        // Longer than any test: only a signal ends it.
        Some("slow") => std::thread::sleep(Duration::from_mins(10)),
        Some(other) => {
            eprintln!("fake-bench: unknown fault {other}");
            return Exit::SpecRefused;
        }
        None => {}
    }
    let failed = matches!(record.outcome, Outcome::Failed { .. });
    let partial: PathBuf = out.with_extension("tmp");
    std::fs::write(&partial, serde_json::to_vec(&record).expect("a record is JSON")).expect("written");
    std::fs::rename(&partial, out).expect("renamed");
    if failed { Exit::ConfigFailed } else { Exit::Completed }
}

fn recorded(spec: TrialSpec, spec_digest: Digest) -> TrialRecord {
    let name = spec.trial.file_stem();
    let noise = f64::from(name.bytes().fold(0_u8, u8::wrapping_add)) / 25_500.0;
    let is_baseline = spec.config == spec.baseline;
    // With more jobs than the other tests ask for, it is faster still.
    let jobs = spec.config.db_options.get("max_background_jobs").and_then(|jobs| jobs.parse::<f64>().ok());
    let gain = if is_baseline { 1.0 } else { 1.3 + 0.05 * (jobs.unwrap_or(4.0) - 4.0).max(0.0) };
    let epoch = std::env::var("FAKE_BENCH_EPOCH").expect("FAKE_BENCH_EPOCH");
    let factor = std::env::var("FAKE_BENCH_FACTOR").map_or(1.0, |factor| factor.parse().expect("a number"));
    // What the kernel says, so that tests see whether the runner has pinned us.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let measured = record::Measured {
        started_unix_ms: epoch.parse().expect("milliseconds"),
        throughput: factor * 1000.0 * (1.0 + noise) * gain,
        other: 1.0 + noise,
        boot_id: boot_id.ok().map(|id| id.trim().to_owned()),
        cpus: cpus.map(|list| list.trim().to_owned()),
    };
    let mut record = record::record(spec, spec_digest, measured);
    if let Ok(build) = std::env::var("FAKE_BENCH_BUILD") {
        record.evidence.build.binary = Some(Digest::of(build.as_bytes()));
    }
    record
}
