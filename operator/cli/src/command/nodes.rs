//! `assay nodes`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use assay_api::Placement;

use crate::cluster::{ClusterArgs, nodes, on};
use crate::file::{Wanted, check_for_cluster};
use crate::print;

/// Arguments of `assay nodes`.
#[derive(Clone, Debug, clap::Args)]
pub struct NodesArgs {
    /// An experiment whose placement the nodes must meet; default: a whole CPU and 2 GiB for a pod
    file: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: &NodesArgs) -> anyhow::Result<ExitCode> {
    let placement = match &args.file {
        None => Placement::default(),
        Some(file) => {
            let checked = check_for_cluster(file, Wanted::Experiment);
            print::err(&checked);
            let spec = checked.spec.filter(|_| checked.experiment.is_some());
            spec.with_context(|| format!("{} is not a valid experiment: see above", file.display()))?.placement
        }
    };
    let text = on(&args.cluster, |cluster| async move { nodes::overview(&cluster, &placement).await })?;
    print::out(text)?;
    Ok(ExitCode::SUCCESS)
}
