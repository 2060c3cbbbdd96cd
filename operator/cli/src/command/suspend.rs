//! `assay suspend` and `assay resume`.

use std::process::ExitCode;

use super::options::NameArgs;
use crate::cluster::{Cluster, changes, finished, on};
use crate::print;

pub fn command(args: &NameArgs, suspend: bool) -> anyhow::Result<ExitCode> {
    on(&args.cluster, |cluster| set(cluster, args.name.clone(), suspend))
}

async fn set(cluster: Cluster, name: String, suspend: bool) -> anyhow::Result<ExitCode> {
    let experiment = cluster.experiment(&name).await?;
    if let Some(end) = finished(&experiment) {
        anyhow::bail!("experiment {name} has finished ({}): nothing is running; see `assay report {name}`", end.reason);
    }
    changes::suspend(&cluster, &name, suspend).await?;
    print::out(if suspend {
        format!(
            "experiment {name} suspended: running trials finish and count, no new ones start; `assay resume {name}` \
             continues\n"
        )
    } else {
        format!("experiment {name} resumed\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
