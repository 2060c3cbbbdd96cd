//! `assay sweep list`.

use std::process::ExitCode;

use assay_api::TuningSweep;

use super::table::local;
use crate::cluster::{ClusterArgs, age, on};
use crate::machine::unix_ms;
use crate::print;
use crate::text::table;

/// Arguments of `assay sweep list`.
#[derive(Clone, Debug, clap::Args)]
pub struct ListArgs {
    /// Show the sweeps in all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let everywhere = args.all_namespaces;
    let text = on(&args.cluster, |cluster| async move {
        let found = cluster.all_sweeps(everywhere).await?;
        if found.is_empty() {
            let place = if everywhere { "the cluster".to_owned() } else { format!("namespace {}", cluster.namespace) };
            return Ok(format!("No sweeps in {place}: make one with `kubectl apply -f FILE`.\n"));
        }
        Ok(rows(&found, everywhere, unix_ms()))
    })?;
    print::out(text)?;
    Ok(ExitCode::SUCCESS)
}

fn rows(sweeps: &[TuningSweep], everywhere: bool, now_ms: u64) -> String {
    let row = |namespace: &str, cells: [&str; 7]| -> Vec<String> {
        let namespace = everywhere.then(|| namespace.to_owned());
        namespace.into_iter().chain(cells.map(ToOwned::to_owned)).collect()
    };
    let mut rows = vec![row("namespace", ["name", "state", "nights", "level", "last", "next", "age"])];
    for sweep in sweeps {
        let metadata = &sweep.metadata;
        let status = sweep.status.clone().unwrap_or_default();
        let time = |time: Option<&assay_api::Time>| time.map_or(String::new(), |time| local(&sweep.spec, time.0));
        rows.push(row(
            metadata.namespace.as_deref().unwrap_or_default(),
            [
                metadata.name.as_deref().unwrap_or_default(),
                status.state.as_deref().unwrap_or("Unseen"),
                &status.nights_measured.to_string(),
                status.level.as_deref().unwrap_or_default(),
                &time(status.last_measured_time.as_ref()),
                &time(status.next_schedule_time.as_ref()),
                &age(metadata.creation_timestamp.as_ref(), now_ms),
            ],
        ));
    }
    table(&rows)
}
