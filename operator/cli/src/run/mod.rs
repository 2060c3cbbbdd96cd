//! `assay run`: the experiment as child processes on this machine, one trial at a time.
//!
//! Whatever ends a call, the records of finished trials stay, and the same call goes on where it ended.

mod child;
mod elsewhere;
mod machine;
mod oom;
pub mod screen;
mod session;
pub mod store;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use assay_core::experiment::Experiment;
use assay_core::plan::Plan;
use assay_core::report::{Report, terminal};

use crate::bench::{BenchArg, Benches};
use crate::check::{check_for, space};
use crate::cluster::{self, ClusterArgs};
use crate::file::Document;
use crate::print;
use machine::Cpus;
pub use machine::{free_bytes, unix_ms};
use oom::OomKills;
pub use session::Session;
use store::Store;

/// Exit code after Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Where results go if nobody says otherwise, a folder for each experiment.
const RESULTS: &str = "results";

/// Arguments of `assay run`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 no config is rejected, 10 any Reject or Tradeoff, 11 any Invalid or Inconclusive (and no \
                        Reject or Tradeoff), 1 an error, 130 interrupted. After an error or Ctrl-C the same command goes on \
                        where it stopped. An experiment on a cluster goes on by itself."
)]
pub struct RunCommandArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Run it on a Kubernetes cluster with the operator of Assay, follow it, and fetch the report at its end
    #[arg(long, conflicts_with = "bench")]
    cluster: bool,
    #[command(flatten)]
    codes: CodeArgs,
    #[command(flatten)]
    which: ClusterArgs,
}

/// What a verdict means to a script.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CodeArgs {
    /// End with 0, too, where all that is wrong is an Inconclusive: for jobs that shall fail at harm only
    #[arg(long)]
    pub allow_inconclusive: bool,
}

impl CodeArgs {
    pub fn code(self, report: &Report) -> u8 {
        if self.allow_inconclusive && report.is_open_at_worst() { 0 } else { report.exit_code() }
    }
}

/// What runs an experiment on this machine.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The experiment: a YAML file with one `TuningExperiment`, or - for standard input
    pub file: PathBuf,
    /// The folder for records and reports; by default results/NAME of the experiment
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The bench that runs all configs, or, as CONFIG=PATH, one that declares an image
    ///
    /// By default the bench that the variable `ASSAY_BENCH` names, else the assay-bench beside assay.
    #[arg(long, value_name = "[CONFIG=]PATH")]
    pub bench: Vec<BenchArg>,
}

impl RunArgs {
    fn folder(&self, experiment: &Experiment) -> PathBuf {
        self.out.clone().unwrap_or_else(|| results_of(&experiment.name))
    }
}

/// Somebody pressed Ctrl-C, or asked this process to end.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// The disk is full, or would be.
#[derive(Debug)]
pub struct Full(pub String);

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the disk is full: {}", self.0)
    }
}

impl std::error::Error for Full {}

pub fn command(args: RunCommandArgs) -> anyhow::Result<ExitCode> {
    let RunCommandArgs { run: args, cluster, codes, which } = args;
    if cluster {
        return cluster::run::command(&args, codes, &which);
    }
    which.must_be_empty()?;
    let Sound { experiment, document, benches } = sound(&args)?;
    execute(experiment, &document.source, &benches, args.out, |_, report| Ok(codes.code(report)))
}

/// What a run needs of its file.
pub struct Sound {
    pub experiment: Experiment,
    pub document: Document,
    pub benches: Benches,
}

/// Checks the file, and says everything that there is to say about it.
pub fn sound(args: &RunArgs) -> anyhow::Result<Sound> {
    let mut checked = check_for(&args.file, &args.bench, |experiment| Some(room(&args.folder(experiment))));
    print::err(&checked);
    let (Some(experiment), Some(document), Some(benches)) =
        (checked.experiment.take(), checked.document.take(), checked.benches.take())
    else {
        bail!(
            "{} is not run: correct the {} above",
            checked.file(),
            crate::validate::plural(checked.errors(), "error")
        );
    };
    if let Some(spec) = &checked.spec {
        elsewhere::refuse(spec)?;
        if let Some(note) = elsewhere::note(spec) {
            print::note(format_args!("{}: {note}", checked.file()));
        }
    }
    Ok(Sound { experiment, document, benches })
}

/// Bytes that an experiment may use in its folder: those that are free, and those of the databases that an earlier call has left.
fn room(out: &Path) -> anyhow::Result<u64> {
    let work = store::work_of(out);
    let used = machine::used_bytes(&work).with_context(|| format!("the size of {} can't be read", work.display()))?;
    Ok(space(existing(out))?.saturating_add(used))
}

/// Runs an experiment to its end, or to where something stops it. `after` says what its outcome means.
pub fn execute(
    experiment: Experiment,
    source: &[u8],
    benches: &Benches,
    out: Option<PathBuf>,
    after: impl FnOnce(&Session<'_>, &Report) -> anyhow::Result<u8>,
) -> anyhow::Result<ExitCode> {
    images(&experiment, benches)?;
    let cpus = Cpus::divide(experiment.cpus)?;
    let out = out.unwrap_or_else(|| results_of(&experiment.name));
    let plan = Plan::new(experiment)?;
    let store = Store::open(&out, &plan, source, benches)?;

    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signals can't be received")?;
    }
    cpus.stand_aside().context("this process can't be moved to other CPUs")?;
    let kills = OomKills::of_this_machine();
    finish(Session::new(&plan, store, benches, cpus, kills, stop)?, &out, after)
}

fn finish(
    mut session: Session<'_>,
    out: &Path,
    after: impl FnOnce(&Session<'_>, &Report) -> anyhow::Result<u8>,
) -> anyhow::Result<ExitCode> {
    let ran = session.run();
    let interrupted = ran.as_ref().err().is_some_and(anyhow::Error::is::<Interrupted>);
    let report = session.report();
    match (ran, report) {
        (Ok(()), Ok(report)) => {
            session.clean()?;
            print::out(outcome_text(&report, session.dir()))?;
            Ok(ExitCode::from(after(&session, &report)?))
        }
        (Ok(()), Err(error)) => Err(error),
        (Err(stopped), report) => {
            // Why it has stopped is told in any case.
            if let Ok(report) = report
                && let Err(error) = print::out(terminal(&report))
            {
                print::note(format_args!("assay: {error:#}"));
            }
            let again = format!("finished trials are kept in {}; the same command goes on from there", out.display());
            if interrupted {
                print::note(format_args!("assay: interrupted; {again}"));
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(if stopped.is::<Full>() { anyhow::anyhow!("{stopped}. Free some space: {again}") } else { stopped })
        }
    }
}

/// What is printed of a report that was kept in a folder.
pub fn outcome_text(report: &Report, dir: &Path) -> String {
    format!("{}\nReport: {}; for a pull request: report.md\n", terminal(report), dir.join("report.html").display())
}

/// A declared difference in code needs a program that has it.
fn images(experiment: &Experiment, benches: &Benches) -> anyhow::Result<()> {
    for config in &experiment.configs {
        if let Some(image) = &config.image
            && !benches.by_config.contains_key(&config.name)
        {
            bail!(
                "config {} runs image {image}, which this machine can't: name the bench that plays it with --bench {}=PATH",
                config.name,
                config.name
            );
        }
    }
    Ok(())
}

/// The folder of an experiment where no other was named.
pub fn results_of(experiment: &str) -> PathBuf {
    Path::new(RESULTS).join(experiment)
}

/// The folder itself, or the nearest one above that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("."))
}
