//! `assay sweep explain`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use assay_core::sweep::History;
use assay_core::sweep::confirm::Change;
use assay_core::sweep::detect::Watched;

use super::history::read;
use crate::cluster::ClusterArgs;
use crate::print;

/// A change, and where the sweep is that has it.
#[derive(Clone, Debug, clap::Args)]
pub struct ChangeArgs {
    /// A sweep on a cluster, and the change as `assay sweep status` names it; with --history the change alone
    #[arg(required = true, num_args = 1..=2, value_names = ["SWEEP", "CHANGE"])]
    names: Vec<String>,
    /// The folder of a sweep that runs on one machine
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Arguments of `assay sweep explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

impl ChangeArgs {
    /// The name of the sweep, where it is on a cluster, and of the change.
    pub fn names(&self) -> anyhow::Result<(Option<&str>, &str)> {
        match (self.names.as_slice(), &self.history) {
            ([change], Some(_)) => Ok((None, change)),
            ([sweep, change], None) => Ok((Some(sweep), change)),
            ([_], None) => bail!("name the sweep and the change, or give the folder of a sweep with --history"),
            _ => bail!("with --history, name the change alone"),
        }
    }
}

pub fn command(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let ChangeArgs { history: dir, cluster, .. } = &args.change;
    let (sweep, name) = args.change.names()?;
    let (history, watch) = read(dir.as_deref(), sweep, cluster)?;
    let watched = history.watched(&watch);
    let lines = history.explain(&found(&history, &watched, name)?, &watched, watch.bisect.as_ref());
    print::out(lines.join("\n") + "\n")?;
    Ok(ExitCode::SUCCESS)
}

/// The change of a name.
pub fn found(history: &History, watched: &[Watched<'_>], name: &str) -> anyhow::Result<Change> {
    let mut changes = history.changes(watched);
    let Some(place) = changes.iter().position(|change| change.name == name) else {
        let known: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
        let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
        bail!("sweep {} has no change {name}: it has {known}", history.sweep());
    };
    Ok(changes.swap_remove(place))
}
