//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::aa::AaArgs;
use crate::bench::BenchArg;
use crate::cluster::NameArgs;
use crate::cluster::cancel::CancelArgs;
use crate::cluster::nodes::NodesArgs;
use crate::cluster::report::ReportArgs;
use crate::cluster::status::StatusArgs;
use crate::judge::JudgeArgs;
use crate::run::RunCommandArgs;

/// Finds out whether a RocksDB change really helps.
#[derive(Debug, Parser)]
#[command(name = "assay", version, about)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check an experiment file and report every problem at once
    Validate(CheckArgs),
    /// Show which trials an experiment runs, in which order, and what it can decide
    Plan(PlanArgs),
    /// Run an experiment on this machine, or on a cluster
    Run(RunCommandArgs),
    /// Run an experiment's baseline against itself: tells how noisy this machine is and what it can resolve
    Aa(AaArgs),
    /// Judge results that any benchmark has written
    Judge(JudgeArgs),
    /// Show the experiments of a cluster, or one of them in detail
    Status(StatusArgs),
    /// Show which nodes of a cluster can run trials, why others can't, and what trials have seen of them
    Nodes(NodesArgs),
    /// Fetch the trials, records and report of an experiment on a cluster
    Report(ReportArgs),
    /// Pause an experiment on a cluster: its running trials end, and no other begins
    Suspend(NameArgs),
    /// Go on with an experiment that was suspended
    Resume(NameArgs),
    /// Delete an experiment of a cluster with all its trials and records
    Cancel(CancelArgs),
    /// Print the custom resource definitions
    Crd,
    /// Print a script that completes commands and options in a shell
    ///
    /// For bash: `source <(assay completions bash)`; other shells have a folder for such scripts.
    Completions { shell: clap_complete::Shell },
}

/// What every command needs that reads an experiment.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The experiment: a YAML file, or - for standard input
    pub file: PathBuf,
    /// The bench that runs all configs, or, as CONFIG=PATH, one that declares an image
    ///
    /// By default the bench that the variable `ASSAY_BENCH` names, else the assay-bench beside assay.
    #[arg(long, value_name = "[CONFIG=]PATH")]
    pub bench: Vec<BenchArg>,
    /// The directory that trials will write to: an experiment that is larger than its free space is refused
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub check: CheckArgs,
    /// The noise of one run in percent, as `assay aa` has measured it: tells which effects the experiment finds
    #[arg(long, value_name = "PERCENT", value_parser = noise)]
    pub noise: Option<f64>,
    /// How to print the plan
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people; long parts are folded
    Text,
    /// The whole plan, for machines
    Json,
}

/// A standard deviation in percent of the mean.
fn noise(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse() {
        Ok(percent) if percent > 0.0 && percent < 1000.0 => Ok(percent),
        _ => Err("must be a positive number, such as 4 or 4%".to_owned()),
    }
}
