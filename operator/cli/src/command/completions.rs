//! `assay completions`.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;
use crate::print;

/// Prints the script for a shell.
pub fn command(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "assay", &mut script);
    print::out(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
