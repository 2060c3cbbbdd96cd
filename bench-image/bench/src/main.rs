//! `assay-bench` runs one trial: it reads a `TrialSpec`, makes RocksDB work, and leaves a `TrialRecord`.

mod dataset;
mod driver;
mod engagement;
mod engine;
mod events;
mod evidence;
mod failure;
mod fill;
mod guard;
mod live;
mod load;
mod measure;
mod metrics;
mod metrics_server;
mod options;
mod time_spent;
mod trial;
mod watch;
mod workload;

use std::{
    fs,
    io::{self, Read as _},
    net::SocketAddr,
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::Context as _;
use assay_protocol::{Exit, OptionsQuestion, invocation, output};
use clap::{Parser, Subcommand};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};

use crate::{evidence::Roots, failure::TrialError, live::Live, metrics_server::MetricsServer};

/// Runs one trial of an Assay experiment.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a trial and writes its record.
    #[command(name = invocation::RUN)]
    Run(RunArgs),
    /// Prepares a trial's dataset and nothing else. `run` prepares it if it is missing.
    #[command(hide = true)]
    Prepare {
        spec: PathBuf,
        #[arg(long = invocation::DATA)]
        data: PathBuf,
    },
    /// Lists the declared options that RocksDB does not have or that would have no effect.
    #[command(name = invocation::OPTIONS)]
    Options {
        /// The question as JSON; - for standard input.
        question: PathBuf,
        /// For a pod: also write the answer here, cut to what Kubernetes keeps.
        #[arg(long = invocation::TERMINATION_LOG)]
        termination_log: Option<PathBuf>,
    },
    /// Waits until it is asked to end. On a cluster, it keeps a node that was brought for a trial.
    #[command(name = invocation::WAIT)]
    Wait,
    /// The same in this process, which options may crash; `options` calls it.
    #[command(name = options::COMMAND, hide = true)]
    AnswerOptions {
        question: PathBuf,
        /// Where databases are made.
        scratch: PathBuf,
    },
}

#[derive(clap::Args)]
struct RunArgs {
    /// The `TrialSpec` as JSON.
    spec: PathBuf,
    /// Directory for datasets and the trial's database.
    #[arg(long = invocation::DATA)]
    data: PathBuf,
    /// File for the record.
    #[arg(long = invocation::OUT)]
    out: PathBuf,
    /// For a pod: write the record's summary here and the record to standard output, on one line. docs/protocol.md has the
    /// format.
    #[arg(long = invocation::TERMINATION_LOG)]
    termination_log: Option<PathBuf>,
    /// Serve Prometheus metrics at /metrics on this address during the trial.
    #[arg(long = invocation::METRICS)]
    metrics: Option<SocketAddr>,
    /// Read device and CPU facts from here instead of /sys. The record notes this and is invalid outside tests.
    #[arg(long, hide = true)]
    sysfs: Option<PathBuf>,
}

fn main() -> ExitCode {
    allow_many_files();
    let code = match Args::parse().command {
        Command::Run(args) => match run(&args) {
            Ok(()) => Exit::Completed as u8,
            Err(error) => refuse(&error),
        },
        Command::Prepare { spec, data } => {
            end_with_parent(Output::Optional);
            match trial::prepare(&spec, &data) {
                Ok(()) => Exit::Completed as u8,
                Err(error) => refuse(&error),
            }
        }
        Command::Options { question, termination_log } => answered(options(&question, termination_log.as_deref())),
        Command::Wait => answered(wait()),
        Command::AnswerOptions { question, scratch } => {
            end_with_parent(Output::Optional);
            answered(options::answer_here(&question, &scratch))
        }
    };
    ExitCode::from(code)
}

/// The first process of a container is not ended by a signal that it does not wait for.
fn wait() -> anyhow::Result<()> {
    let ends: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    ends.thread_block().context("can't wait for a signal")?;
    ends.wait().context("can't wait for a signal")?;
    Ok(())
}

fn answered(result: anyhow::Result<()>) -> u8 {
    match result {
        Ok(()) => Exit::Completed as u8,
        Err(error) => {
            eprintln!("assay-bench: {error:#}");
            Exit::SpecRefused as u8
        }
    }
}

fn refuse(error: &TrialError) -> u8 {
    eprintln!("assay-bench: {error}");
    error.exit_code()
}

fn run(args: &RunArgs) -> Result<(), TrialError> {
    // In a pod the last words are enough.
    end_with_parent(if args.termination_log.is_some() { Output::Optional } else { Output::Read });
    let (spec, digest) = trial::read_spec(&args.spec)?;
    let roots = args.sysfs.as_deref().map_or_else(Roots::default, Roots::with_sysfs);
    let live = Arc::new(Live::default());
    let server = args.metrics.map(|address| {
        let live = Arc::clone(&live);
        MetricsServer::start(address, Arc::new(move || live.render()))
    });
    let server =
        server.transpose().map_err(|error| TrialError::Environment(format!("can't serve metrics: {error}")))?;
    if let Some(server) = &server {
        // Port 0 asks for any free port, so whoever wants to scrape has to be told.
        println!("{}", output::metrics_line(server.local_addr()));
    }
    let paths = trial::Paths {
        spec: args.spec.clone(),
        data: args.data.clone(),
        record: args.out.clone(),
        termination_log: args.termination_log.clone(),
    };
    trial::run(&spec, digest, &paths, roots, &live)
}

fn options(question: &Path, termination_log: Option<&Path>) -> anyhow::Result<()> {
    let json = if question == Path::new(invocation::STDIN) {
        let mut json = Vec::new();
        io::stdin().read_to_end(&mut json)?;
        json
    } else {
        fs::read(question).with_context(|| question.display().to_string())?
    };
    trial::check_input(&json).map_err(anyhow::Error::msg)?;
    let question: OptionsQuestion = serde_json::from_slice(&json).context("can't parse the question")?;
    let answer = options::answer(&question)?;
    println!("{}", serde_json::to_string(&answer)?);
    if let Some(log) = termination_log {
        fs::write(log, answer.short_json()?).with_context(|| log.display().to_string())?;
    }
    Ok(())
}

/// RocksDB keeps all files open by default. What shells allow, often 1024, is meant for programs that call select; the hard limit is
/// the machine's.
fn allow_many_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Whether someone has to read what this process prints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Read,
    Optional,
}

/// A trial without its runner would go on measuring for nobody, on CPUs that the next trial needs.
fn end_with_parent(output: Output) {
    let parent = nix::unistd::getppid();
    // The runner may have gone before this process could see who it was, or behind a script that stays: its end of our output has gone
    // with it.
    let is_gone =
        move || nix::unistd::getppid() != parent || (output == Output::Read && is_unread(io::stdout().as_fd()));
    thread::spawn(move || {
        loop {
            if is_gone() {
                eprintln!("assay-bench: the process that started this trial is gone");
                std::process::exit(Exit::EnvironmentRefused as i32);
            }
            thread::sleep(Duration::from_millis(500));
        }
    });
}

/// Whether a file is a pipe whose other end is closed.
fn is_unread(file: BorrowedFd<'_>) -> bool {
    let mut files = [PollFd::new(file, PollFlags::empty())];
    poll(&mut files, PollTimeout::ZERO).is_ok()
        && files[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// The version of RocksDB that this program links, from the crate that carries its sources.
fn rocksdb_version() -> String {
    env!("ASSAY_ROCKSDB_VERSION").to_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use assay_protocol::invocation::in_pod;

    use super::*;

    /// What is read of the arguments that an executor gives.
    fn read<I: Into<OsString>>(arguments: impl IntoIterator<Item = I>) -> Command {
        let words = ["assay-bench".into()].into_iter().chain(arguments.into_iter().map(Into::into));
        Args::try_parse_from(words).unwrap_or_else(|error| unreachable!("{error}")).command
    }

    #[test]
    fn what_executors_say_is_understood() {
        let Command::Run(args) = read(invocation::run(Path::new("s"), Path::new("d"), Path::new("o"))) else {
            unreachable!("another command")
        };
        assert_eq!((args.spec, args.data, args.out), ("s".into(), "d".into(), "o".into()));
        assert_eq!((args.termination_log, args.metrics, args.sysfs), (None, None, None));

        let Command::Run(args) = read(in_pod::run("/data/of/it")) else { unreachable!("another command") };
        assert_eq!(args.spec, Path::new(in_pod::INPUT_DIR).join(in_pod::INPUT_FILE));
        assert_eq!(args.data, Path::new("/data/of/it"));
        assert!(args.out.starts_with(in_pod::TEMPORARY_DIR));
        assert_eq!(args.termination_log.as_deref(), Some(Path::new(in_pod::TERMINATION_MESSAGE)));
        assert_eq!(args.metrics.map(|address| address.port()), Some(in_pod::METRICS_PORT));

        let Command::Options { question, termination_log } = read(invocation::options()) else {
            unreachable!("another command")
        };
        assert_eq!((question.as_path(), termination_log), (Path::new(invocation::STDIN), None));

        let Command::Options { question, termination_log } = read(in_pod::options()) else {
            unreachable!("another command")
        };
        assert_eq!(question, Path::new(in_pod::INPUT_DIR).join(in_pod::INPUT_FILE));
        assert_eq!(termination_log.as_deref(), Some(Path::new(in_pod::TERMINATION_MESSAGE)));
    }
}
