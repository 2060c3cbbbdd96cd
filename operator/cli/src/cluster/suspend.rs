//! `assay suspend` and `assay resume`.

use std::process::ExitCode;

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::errors::Told as _;
use super::words::finished;
use super::{Cluster, MANAGER, NameArgs, on};
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
    let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    cluster.experiments().patch(&name, &params, &patch).await.told(&format!("experiment {name} can't be changed"))?;
    print::out(if suspend {
        format!(
            "experiment {name} is suspended: running trials end and count, no other begins; `assay resume {name}` goes on\n"
        )
    } else {
        format!("experiment {name} goes on\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
