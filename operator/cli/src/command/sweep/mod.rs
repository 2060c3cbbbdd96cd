//! `assay sweep`: nights that are measured again and again.

mod candidates;
mod explain;
mod github;
mod history;
mod import;
mod list;
mod plan;
mod promise;
mod run;
mod run_now;
mod set_image;
mod status;
mod table;

pub use explain::{ChangeArgs, found};
pub use history::{kept, read};

use std::process::ExitCode;

use clap::Subcommand;

use super::options::experiment_name;
use crate::cluster::{ClusterArgs, on, sweeps};
use crate::print;

/// What a night that measured nothing is to a script: the same as an Invalid experiment.
const UNMEASURED: u8 = 11;

/// What to do with a sweep.
#[derive(Clone, Debug, Subcommand)]
pub enum SweepCommand {
    /// Show what a night measures, when nights are due, and what they cost
    Plan(plan::SweepPlanArgs),
    /// Run the night that is due on this machine, without a cluster
    Run(run::SweepRunArgs),
    /// Show all nights of a sweep and where its series stand, or bring nights from elsewhere
    History(history::HistoryArgs),
    /// Say why a change is believed, or is not
    Explain(explain::ExplainArgs),
    /// Tell GitHub what is known of changes: a status of a commit, and one comment that is edited in place
    #[command(name = "github")]
    GitHub(github::GitHubArgs),
    /// Show the sweeps on a cluster
    List(list::ListArgs),
    /// Show one sweep on a cluster in detail
    Status(SweepNameArgs),
    /// Pause a sweep: a running night finishes; no new one starts by the schedule
    Suspend(SweepNameArgs),
    /// Resume a suspended sweep
    Resume(SweepNameArgs),
    /// Measure a night of a sweep on a cluster now, whatever its schedule says
    RunNow(run_now::RunNowArgs),
    /// Set the image that a subject runs from the next night on
    SetImage(set_image::SetImageArgs),
    /// Show or change the versions among which a culprit is looked for
    Candidates(candidates::CandidatesArgs),
}

/// Arguments of commands that only need a name.
#[derive(Clone, Debug, clap::Args)]
pub struct SweepNameArgs {
    /// The name of the sweep
    #[arg(value_parser = experiment_name)]
    name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(command: &SweepCommand) -> anyhow::Result<ExitCode> {
    match command {
        SweepCommand::Plan(args) => plan::command(args),
        SweepCommand::Run(args) => run::command(args),
        SweepCommand::History(args) => history::command(args),
        SweepCommand::Explain(args) => explain::command(args),
        SweepCommand::GitHub(args) => github::command(args),
        SweepCommand::List(args) => list::command(args),
        SweepCommand::Status(args) => status::command(args),
        SweepCommand::Suspend(args) => suspend(args, true),
        SweepCommand::Resume(args) => suspend(args, false),
        SweepCommand::RunNow(args) => run_now::command(args),
        SweepCommand::SetImage(args) => set_image::command(args),
        SweepCommand::Candidates(args) => candidates::command(args),
    }
}

fn suspend(args: &SweepNameArgs, suspend: bool) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    on(&args.cluster, |cluster| async move {
        cluster.sweep(name).await?;
        sweeps::suspend(&cluster, name, suspend).await
    })?;
    print::out(if suspend {
        format!(
            "sweep {name} suspended: a running night finishes, no new one starts; `assay sweep resume {name}` continues\n"
        )
    } else {
        format!("sweep {name} resumed\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
