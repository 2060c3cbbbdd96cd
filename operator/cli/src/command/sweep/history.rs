//! `assay sweep history`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use assay_core::sweep::History;
use assay_core::sweep::detect::Watch;
use assay_core::sweep::report::{SweepReport, html, markdown};
use assay_core::sweep::validate::validate;
use clap::{Subcommand, ValueEnum};
use k8s_openapi::jiff::Timestamp;

use super::{import, table};
use crate::cluster::{ClusterArgs, on};
use crate::command::options::experiment_name;
use crate::folder::{Begun, kept_active, kept_history, kept_sweep};
use crate::print;

/// Arguments of `assay sweep history`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// The name of a sweep on a cluster
    #[arg(value_parser = experiment_name)]
    name: Option<String>,
    /// The folder of a sweep that runs on one machine
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    history: Option<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum HistoryCommand {
    /// Add the nights of files to the history of their sweep: to move it, or to restore it
    Import(import::ImportArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// All that is remembered, a line of JSON for each night; what `import` reads
    Jsonl,
    /// A page with each series over its nights
    Html,
    /// The same as text, for a pull request or a chat
    Markdown,
}

pub fn command(args: &HistoryArgs) -> anyhow::Result<ExitCode> {
    if let Some(HistoryCommand::Import(args)) = &args.command {
        return import::command(args);
    }
    let (history, watch) = read(args.history.as_deref(), args.name.as_deref(), &args.cluster)?;
    show(&history, &watch, args.format)?;
    if let (Some(dir), Format::Table) = (&args.history, args.format) {
        let active = kept_active(dir)?.filter(|active| history.get(active.night).is_none());
        if let Some(active) = active {
            let night = active.night.strftime("%Y-%m-%d %H:%M");
            print::out(format_args!("\n{night} has begun and is not over: `assay sweep run` continues it\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a sweep remembers and watches for, from a folder or from a cluster.
pub fn read(dir: Option<&Path>, name: Option<&str>, cluster: &ClusterArgs) -> anyhow::Result<(History, Watch)> {
    match (dir, name) {
        (Some(dir), _) => {
            let sweep = kept(dir)?;
            Ok((kept_history(dir, &sweep.sweep)?, sweep.watch()))
        }
        (None, Some(name)) => on(cluster, |cluster| async move {
            let (ring, objects) = cluster.ring(name).await?;
            // It may outlive its sweep, and a new sweep has none.
            let sweep =
                if objects.is_empty() { Some(cluster.sweep(name).await?) } else { cluster.find_sweep(name).await? };
            let now = Timestamp::now();
            let watch = sweep.map(|sweep| validate(name, &sweep.spec, now).watch(now));
            Ok((ring.history().clone(), watch.unwrap_or_default()))
        }),
        (None, None) => bail!("name a sweep on a cluster, or a folder with --history"),
    }
}

/// The sweep of a folder.
pub fn kept(dir: &Path) -> anyhow::Result<Begun> {
    kept_sweep(dir)?.with_context(|| {
        format!("{} is not the folder of a sweep: give the one that `assay sweep run --history` wrote", dir.display())
    })
}

fn show(history: &History, watch: &Watch, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Jsonl => print::out(history.lines()?),
        Format::Html => print::out(html(&SweepReport::new(history, watch))),
        Format::Markdown => print::out(markdown(&SweepReport::new(history, watch))),
        Format::Table if history.nights().next().is_none() => {
            print::out(format_args!("no nights yet of sweep {}\n", history.sweep()))
        }
        Format::Table => print::out(table::text(history, watch)),
    }
}
