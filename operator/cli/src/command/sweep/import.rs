//! `assay sweep history import`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use assay_core::sweep::{History, Imported};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::cluster::{ClusterArgs, on, sweeps};
use crate::folder::{Begun, Nights, kept_sweep};
use crate::print;
use crate::text::plural;

/// Arguments of `assay sweep history import`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Nights that are there already stay as they are, so importing twice changes nothing. A line that contradicts \
                  a night, or that can't be read, is refused, and then nothing is imported."
)]
pub struct ImportArgs {
    /// Files of `assay sweep history --format jsonl`, or - for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The folder of a sweep on this machine; without it, the history goes to the cluster
    #[arg(long, value_name = "DIR")]
    history: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let history = merged(&args.files)?;
    let imported = match &args.history {
        Some(dir) => into_folder(dir, &history)?,
        None => on(&args.cluster, |cluster| async move { sweeps::import(&cluster, &history).await })?,
    };
    print::out(format_args!("{} imported, {} known already\n", plural(imported.new, "night"), imported.known))?;
    Ok(ExitCode::SUCCESS)
}

/// The nights of all files, which are of one sweep.
fn merged(files: &[PathBuf]) -> anyhow::Result<History> {
    let mut merged: Option<History> = None;
    for path in files {
        let text = read(path).with_context(|| format!("can't read {}", path.display()))?;
        let history = match &mut merged {
            Some(history) => history,
            None => merged.insert(History::new(sweep_of(&text).with_context(|| path.display().to_string())?)),
        };
        history.import(&text).with_context(|| path.display().to_string())?;
    }
    merged.context("no file was given")
}

/// The sweep that the first line names.
fn sweep_of(text: &str) -> anyhow::Result<String> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let read: Result<Value, _> = serde_json::from_str(first);
    // What begins like a night is one that was cut.
    let line = if first.starts_with('{') { read.context("line 1")? } else { read.unwrap_or_default() };
    let sweep = line["sweep"].as_str().context("has no nights: give a file of `assay sweep history --format jsonl`")?;
    Ok(sweep.to_owned())
}

fn read(path: &Path) -> std::io::Result<String> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(path)
}

fn into_folder(dir: &Path, history: &History) -> anyhow::Result<Imported> {
    let sweep = history.sweep().to_owned();
    let begun = match kept_sweep(dir)? {
        Some(kept) => Begun { sweep, ..kept },
        // The first run knows the schedule.
        None => Begun {
            sweep,
            schedule: String::new(),
            time_zone: String::new(),
            since: Timestamp::now(),
            margins: BTreeMap::new(),
            alarm: None,
        },
    };
    Nights::open(dir, &begun)?.import(&history.lines()?).with_context(|| format!("can't add to {}", dir.display()))
}
