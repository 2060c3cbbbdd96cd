//! `assay`: one experiment file in, honest verdicts out.
//!
//! Who may use whom, from left to right:
//!
//! ```text
//! command -> local, cluster, github, judge -> search -> folder, file -> bench, machine, screen -> print, text
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod cluster;
mod command;
mod file;
mod folder;
mod github;
mod judge;
mod local;
mod machine;
mod print;
mod screen;
mod search;
mod text;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::command::{Cli, Command};

fn main() -> ExitCode {
    // A file that becomes larger than this process may write is an error to tell, not the end. Ignoring the signal instead would pass on
    // to the benches.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let result = match cli().command {
        Command::Init(args) => command::init::command(&args),
        Command::Import(args) => command::import::command(&args),
        Command::Validate(args) => command::validate::command(&args),
        Command::Plan(args) => command::plan::command(&args),
        Command::Run(args) => command::run::command(&args),
        Command::Aa(args) => command::aa::command(&args),
        Command::Bisect(args) => command::bisect::command(&args),
        Command::Accept(args) => command::accept::command(&args),
        Command::Status(args) => command::status::command(&args),
        Command::Nodes(args) => command::nodes::command(&args),
        Command::Report(args) => command::report::command(&args),
        Command::Suspend(args) => command::suspend::command(&args, true),
        Command::Resume(args) => command::suspend::command(&args, false),
        Command::Cancel(args) => command::cancel::command(&args),
        Command::Sweep(sweep) => command::sweep::command(&sweep),
        Command::Judge(args) => command::judge::command(&args),
        Command::Crd => command::crd::command(),
        Command::Completions { shell } => command::completions::command(shell),
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
