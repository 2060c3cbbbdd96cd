//! `assay`: one experiment file in, honest verdicts out.

mod args;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::command(args),
        _ => Ok(ExitCode::FAILURE),
    };
    result.unwrap_or_else(|error| {
        eprintln!("assay: {error:#}");
        ExitCode::FAILURE
    })
}
