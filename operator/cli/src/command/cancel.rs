//! `assay cancel`.

use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use anyhow::bail;
use assay_api::TuningTrial;

use super::options::experiment_name;
use crate::cluster::{Cluster, ClusterArgs, changes, finished, on, readable};
use crate::print;
use crate::text::plural;

/// Arguments of `assay cancel`.
#[derive(Clone, Debug, clap::Args)]
pub struct CancelArgs {
    /// The name of the experiment
    #[arg(value_parser = experiment_name)]
    name: String,
    /// Don't ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: &CancelArgs) -> anyhow::Result<ExitCode> {
    on(&args.cluster, |cluster| delete(cluster, args.clone()))
}

async fn delete(cluster: Cluster, args: CancelArgs) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    let experiment = cluster.experiment(name).await?;
    let trials = readable(cluster.trials_of(&experiment).await?);
    print::out(what_goes(name, &cluster.namespace, &trials) + "\n")?;
    if finished(&experiment).is_none() {
        print::out(format_args!("To pause it instead: `assay suspend {name}`.\n"))?;
    }
    if !args.yes && !confirmed()? {
        print::out("Nothing deleted.\n")?;
        return Ok(ExitCode::FAILURE);
    }
    changes::delete(&cluster, &experiment).await?;
    print::out(format_args!("experiment {name} deleted\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn what_goes(name: &str, namespace: &str, trials: &[TuningTrial]) -> String {
    let attempts = trials.iter().filter_map(|trial| trial.status.as_ref()).flat_map(|status| &status.attempts);
    let records = attempts.filter(|attempt| attempt.record.is_some()).count();
    format!(
        "This permanently deletes experiment {name} in namespace {namespace} with {} and {}.\n\
         To save them in a folder first: `assay report {name}`.",
        plural(trials.len(), "trial"),
        plural(records, "record"),
    )
}

fn confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nothing deleted; use --yes when not interactive");
    }
    print::out("Delete it? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
