//! Arguments that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use assay_core::report::Report;
use clap::Args;
use k8s_openapi::jiff::SignedDuration;

use crate::bench::BenchArg;
use crate::cluster::ClusterArgs;
use crate::file::{self, Checked, Wanted};
use crate::machine;

/// Exit code after Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// What every command needs that reads an experiment.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The experiment or the sweep: a YAML file, or - for standard input
    pub file: PathBuf,
    /// The bench for all configs, or, as NAME=PATH, for a config, or a value of the matrix, that declares an image
    ///
    /// Default: the bench that `ASSAY_BENCH` names, else the assay-bench next to assay.
    #[arg(long, value_name = "[NAME=]PATH")]
    pub bench: Vec<BenchArg>,
    /// The directory that trials will write to; fails if the experiment needs more than its free space
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl CheckArgs {
    pub fn check(&self, wanted: Wanted) -> Checked {
        file::check(&self.file, wanted, &self.bench, |_| self.dir.as_deref().map(machine::space))
    }
}

/// What runs an experiment.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The experiment: a YAML file with one `TuningExperiment`, or - for standard input
    pub file: PathBuf,
    /// The folder for records and reports; default: results/EXPERIMENT
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The bench for all configs, or, as NAME=PATH, for a config, or a value of the matrix, that declares an image
    ///
    /// Default: the bench that `ASSAY_BENCH` names, else the assay-bench next to assay.
    #[arg(long, value_name = "[NAME=]PATH")]
    pub bench: Vec<BenchArg>,
    /// Before each trial, wait until other programs leave its CPUs alone, or for this long; 10m if you name no duration
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "10m", value_parser = duration)]
    pub wait_for_quiet: Option<Duration>,
}

/// What a verdict means to a script.
#[derive(Clone, Copy, Debug, Args)]
pub struct CodeArgs {
    /// Exit 0 if the only problem is an Inconclusive verdict without likely harm; for CI that should fail only on regressions
    #[arg(long)]
    pub allow_inconclusive: bool,
}

impl CodeArgs {
    pub fn code(self, report: &Report) -> u8 {
        if self.allow_inconclusive && report.is_open_at_worst() { 0 } else { report.exit_code() }
    }
}

/// Arguments of commands that only need a name.
#[derive(Clone, Debug, Args)]
pub struct NameArgs {
    /// The name of the experiment
    #[arg(value_parser = experiment_name)]
    pub name: String,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// A name that can be part of a path.
pub fn experiment_name(text: &str) -> Result<String, String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let sound = text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-') && !text.is_empty();
    if sound { Ok(text.to_owned()) } else { Err("must be the name of an experiment, such as quickstart".to_owned()) }
}

/// A length of time such as `90s`, `10m` or `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let told = text.parse::<SignedDuration>().ok().and_then(|told| Duration::try_from(told).ok());
    told.ok_or_else(|| "must be a duration, such as 90s, 10m or 1h".to_owned())
}
