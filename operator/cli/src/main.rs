//! `assay`: one experiment file in, honest verdicts out.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod aa;
mod args;
mod bench;
mod check;
mod cluster;
mod crd;
mod file;
mod judge;
mod plan;
mod print;
mod run;
mod validate;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let result = match cli().command {
        Command::Validate(args) => validate::command(&args),
        Command::Plan(args) => plan::command(&args),
        Command::Run(args) => run::command(args),
        Command::Aa(args) => aa::command(args),
        Command::Status(args) => cluster::status::command(&args),
        Command::Nodes(args) => cluster::nodes::command(&args),
        Command::Report(args) => cluster::report::command(args),
        Command::Suspend(args) => cluster::suspend::command(&args, true),
        Command::Resume(args) => cluster::suspend::command(&args, false),
        Command::Cancel(args) => cluster::cancel::command(&args),
        Command::Judge(args) => judge::command(&args),
        Command::Crd => crd::command(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "assay", &mut script);
            print::out(String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        print::note(format_args!("assay: {error:#}"));
        ExitCode::FAILURE
    })
}

/// The command line. As `kubectl-assay` this is a plugin, which its users call `kubectl assay`.
fn cli() -> Cli {
    let called = std::env::args_os().next().unwrap_or_default();
    let plugin = Path::new(&called).file_name().is_some_and(|name| name == "kubectl-assay");
    let command = Cli::command();
    let matches = if plugin { command.bin_name("kubectl assay") } else { command }.get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}
