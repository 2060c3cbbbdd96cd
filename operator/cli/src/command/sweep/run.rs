//! `assay sweep run`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::UNMEASURED;
use crate::bench::BenchArg;
use crate::command::given::must_be_sweep;
use crate::command::options::{INTERRUPTED, duration};
use crate::local::nights::{self, Asked, End};

/// Arguments of `assay sweep run`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Call it from cron or CI, at the times of the schedule or more often: each call does what is due, and ends.\n\n\
                  Exit code 0: a night was measured, whatever it says, or none was due, it was skipped, or another call runs; 11: \
                  the night measured nothing; 1: error; 2: wrong arguments; 130: interrupted. After an error or Ctrl-C, run the same command again to \
                  continue the same night."
)]
pub struct SweepRunArgs {
    /// The sweep: a YAML file with one `TuningSweep`, or - for standard input
    pub file: PathBuf,
    /// The folder for the history of the sweep, its report, and the results of its nights
    #[arg(long, value_name = "DIR")]
    pub history: PathBuf,
    /// Measure a night now, whatever the schedule says
    #[arg(long)]
    pub now: bool,
    /// The bench for all configs, or, as NAME=PATH, for the reference or a subject that declares an image
    ///
    /// Default: the bench that `ASSAY_BENCH` names, else the assay-bench next to assay.
    #[arg(long, value_name = "[NAME=]PATH")]
    pub bench: Vec<BenchArg>,
    /// Before each trial, wait until other programs leave its CPUs alone, or for this long; 10m if you name no duration
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "10m", value_parser = duration)]
    pub wait_for_quiet: Option<Duration>,
}

pub fn command(args: &SweepRunArgs) -> anyhow::Result<ExitCode> {
    must_be_sweep(&args.file)?;
    let end = nights::run(&Asked {
        file: &args.file,
        dir: &args.history,
        bench: &args.bench,
        now: args.now,
        wait_for_quiet: args.wait_for_quiet,
    })?;
    Ok(match end {
        End::Done => ExitCode::SUCCESS,
        End::Unmeasured => ExitCode::from(UNMEASURED),
        End::Interrupted => ExitCode::from(INTERRUPTED),
    })
}
