//! The experiment as child processes on this machine, one trial at a time.
//!
//! Whatever ends a call, the records of finished trials stay, and the same call goes on where it ended.

pub mod bisect;
mod child;
mod cpus;
mod elsewhere;
mod interrupted;
pub mod nights;
mod oom;
mod quiet;
mod session;
mod sound;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use assay_core::experiment::Experiment;
use assay_core::plan::Plan;
use assay_core::report::terminal;
use k8s_openapi::jiff::Timestamp;

use crate::bench::Benches;
use crate::folder::{Full, Outcome, Store, folder_of};
use crate::print;
use cpus::Cpus;
use interrupted::Interrupted;
use oom::OomKills;
use session::Session;
pub use sound::{Sound, sound};

/// Runs an experiment to its end, or to where something stops it; `None` where that was Ctrl-C.
pub fn execute(
    experiment: Experiment,
    source: &[u8],
    benches: &Benches,
    out: Option<&Path>,
    wait_for_quiet: Option<Duration>,
    next_due: Option<Timestamp>,
) -> anyhow::Result<Option<Outcome>> {
    images(&experiment, benches)?;
    let out = folder_of(&experiment.name, out);
    let how = How { source, benches, out: &out, wait_for_quiet, next_due, stop: &stop_on_signals()?, tells: true };
    run(&Plan::new(experiment)?, &how)
}

/// How a plan runs.
struct How<'a> {
    source: &'a [u8],
    benches: &'a Benches,
    out: &'a Path,
    wait_for_quiet: Option<Duration>,
    /// When something else is due here, which is not kept waiting by attempts in vain.
    next_due: Option<Timestamp>,
    stop: &'a Arc<AtomicBool>,
    /// Whether its report is printed: nobody wants to read that of a part.
    tells: bool,
}

/// What becomes true when this process is asked to end.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("can't handle signals")?;
    }
    Ok(stop)
}

fn run(plan: &Plan, how: &How<'_>) -> anyhow::Result<Option<Outcome>> {
    let cpus = Cpus::divide(plan.experiment.cpus)?;
    let store = Store::open(how.out, plan, how.source, how.benches)?;
    cpus.stand_aside().context("can't move this process to other CPUs")?;
    let kills = OomKills::of_this_machine();
    let session = Session::new(plan, store, how.benches, cpus, kills, Arc::clone(how.stop))?;
    finish(session.waiting_for_quiet(how.wait_for_quiet).before(how.next_due), how.out, how.tells)
}

fn finish(mut session: Session<'_>, out: &Path, tells: bool) -> anyhow::Result<Option<Outcome>> {
    let ran = session.run();
    let interrupted = ran.as_ref().err().is_some_and(anyhow::Error::is::<Interrupted>);
    let report = session.report();
    let again = format!("finished trials are kept in {}; run the same command again to continue", out.display());
    let stop = |error: anyhow::Error| if error.is::<Full>() { anyhow::anyhow!("{error}; {again}") } else { error };
    match (ran, report) {
        (Ok(()), Ok(report)) => {
            session.clean()?;
            let outcome = session.outcome(report);
            if tells {
                print::out(outcome.text())?;
            }
            Ok(Some(outcome))
        }
        (Ok(()), Err(error)) => Err(stop(error)),
        (Err(stopped), report) => {
            // Why it has stopped is said in any case.
            if let Ok(report) = report
                && tells
                && let Err(error) = print::out(terminal(&report, print::width()))
            {
                print::note(format_args!("assay: {error:#}"));
            }
            if interrupted {
                print::note(format_args!("assay: interrupted; {again}"));
                return Ok(None);
            }
            Err(stop(stopped))
        }
    }
}

/// A declared difference in code needs a program that has it.
fn images(experiment: &Experiment, benches: &Benches) -> anyhow::Result<()> {
    for config in &experiment.configs {
        if let Some(image) = &config.image
            && !benches.by_config.contains_key(&config.name)
        {
            bail!(
                "config {} uses image {image}, which can't run here: pass the bench binary to use with --bench {}=PATH",
                config.name,
                config.name
            );
        }
    }
    Ok(())
}
