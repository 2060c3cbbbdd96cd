//! `assay status`.

use std::process::ExitCode;

use super::options::experiment_name;
use crate::cluster::{ClusterArgs, on, status};
use crate::print;

/// Arguments of `assay status`.
#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    /// The name of the experiment to show in detail
    #[arg(value_parser = experiment_name)]
    name: Option<String>,
    /// Show the experiments in all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let text = on(&args.cluster, |cluster| async move {
        match &args.name {
            Some(name) => status::of(&cluster, name).await,
            None => status::overview(&cluster, args.all_namespaces).await,
        }
    })?;
    print::out(text)?;
    Ok(ExitCode::SUCCESS)
}
