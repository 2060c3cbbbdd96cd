//! `assay run`: the experiment as child processes on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `assay run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The experiment: a YAML file with one TuningExperiment
    pub file: PathBuf,
}

pub fn command(_args: RunArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
