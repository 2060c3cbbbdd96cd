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
        anyhow::bail!(
            "experiment {name} is finished ({}): nothing of it runs any more; `assay report {name}`",
            end.reason
        );
    }
    changes::suspend(&cluster, &name, suspend).await?;
    print::out(if suspend {
        format!(
            "experiment {name} is suspended: running trials end and count, no other begins; `assay resume {name}` goes on\n"
        )
    } else {
        format!("experiment {name} goes on\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
