//! `assay`: one experiment file in, honest verdicts out.

mod aa;
mod args;
mod bench;
mod check;
mod crd;
mod file;
mod judge;
mod plan;
mod run;
mod validate;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Validate(args) => Ok(validate::command(&args)),
        Command::Plan(args) => plan::command(&args),
        Command::Run(args) => run::command(args),
        Command::Aa(args) => aa::command(args),
        Command::Judge(args) => judge::command(&args),
        Command::Crd => crd::command(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("assay: {error:#}");
        ExitCode::FAILURE
    })
}
