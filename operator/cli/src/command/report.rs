//! `assay report`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::options::{CodeArgs, experiment_name};
use crate::cluster::{self, ClusterArgs, on};

/// Arguments of `assay report`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: no config rejected; 10: any Reject or Tradeoff; 11: any Invalid or Inconclusive (and no \
                        Reject or Tradeoff); 1: error."
)]
pub struct ReportArgs {
    /// The name of the experiment
    #[arg(value_parser = experiment_name)]
    name: String,
    /// The folder for records and reports; default: results/EXPERIMENT
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    codes: CodeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let ReportArgs { name, out, codes, cluster } = args;
    on(&cluster, |cluster| async move {
        let experiment = cluster.experiment(&name).await?;
        let outcome = cluster::outcome(&cluster, &experiment, out.as_deref(), None).await?;
        Ok(ExitCode::from(codes.code(&outcome.report)))
    })
}
