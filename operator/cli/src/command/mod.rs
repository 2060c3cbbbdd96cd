//! The command line: a file for each command, which takes its arguments and asks the other rooms.

pub mod aa;
pub mod accept;
pub mod bisect;
pub mod cancel;
pub mod completions;
pub mod crd;
mod drafted;
mod given;
pub mod import;
pub mod init;
pub mod judge;
pub mod nodes;
mod options;
pub mod plan;
pub mod report;
pub mod run;
pub mod status;
pub mod suspend;
pub mod sweep;
pub mod validate;

use clap::{Parser, Subcommand};

use aa::AaArgs;
use accept::AcceptArgs;
use bisect::BisectArgs;
use cancel::CancelArgs;
use import::ImportArgs;
use init::InitArgs;
use judge::JudgeArgs;
use nodes::NodesArgs;
use options::{CheckArgs, NameArgs};
use plan::PlanArgs;
use report::ReportArgs;
use run::RunCommandArgs;
use status::StatusArgs;
use sweep::SweepCommand;

/// Finds out whether a RocksDB change really helps.
#[derive(Debug, Parser)]
#[command(name = "assay", version, about)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write an experiment file: from an OPTIONS file, a `db_bench` command, or answers to a few questions
    Init(InitArgs),
    /// Write an experiment file that has a database's options as the baseline, from the database's folder
    Import(ImportArgs),
    /// Check the file of an experiment or a sweep and report every problem at once
    Validate(CheckArgs),
    /// Show the trials of an experiment in order, and what it can decide
    Plan(PlanArgs),
    /// Run an experiment on this machine or on a cluster
    Run(RunCommandArgs),
    /// Run an experiment's baseline against itself: shows how noisy the machine is and which effects it can detect
    Aa(AaArgs),
    /// Find which of many builds or configs became worse, with few measurements
    Bisect(BisectArgs),
    /// Measure every night what has changed, against a pinned reference, and remember all nights
    #[command(subcommand)]
    Sweep(SweepCommand),
    /// Take a confirmed regression of a sweep as it is
    Accept(AcceptArgs),
    /// Judge the results of any benchmark
    Judge(JudgeArgs),
    /// Show the experiments on a cluster, or one in detail
    Status(StatusArgs),
    /// Show which nodes of a cluster can run trials, why others can't, and what trials found on them
    Nodes(NodesArgs),
    /// Show the report of an experiment: from a cluster, with its trials and records, or from a folder
    Report(ReportArgs),
    /// Pause an experiment on a cluster: running trials finish; no new ones start
    Suspend(NameArgs),
    /// Resume a suspended experiment
    Resume(NameArgs),
    /// Delete an experiment from a cluster, with all its trials and records
    Cancel(CancelArgs),
    /// Print the custom resource definitions
    Crd,
    /// Print a shell completion script
    ///
    /// For bash: `source <(assay completions bash)`; other shells load such scripts from a folder.
    Completions { shell: clap_complete::Shell },
}
