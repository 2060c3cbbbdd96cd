//! How an executor calls a bench, and where a bench works. `docs/protocol.md` says the same for people.

pub mod in_pod;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::TrialId;

/// The command that runs a trial; the file of its spec follows.
pub const RUN: &str = "run";
/// The command that answers a question about options; its file follows.
pub const OPTIONS: &str = "options";
/// The command that waits until it is asked to end: it keeps a node for a trial.
pub const WAIT: &str = "wait";
/// Says which bench this is, and ends.
pub const VERSION: &str = "--version";
/// Instead of a file: standard input.
pub const STDIN: &str = "-";

/// Names of arguments. On a command line they begin with dashes, see [`flag`].
pub const DATA: &str = "data";
pub const OUT: &str = "out";
pub const TERMINATION_LOG: &str = "termination-log";
pub const METRICS: &str = "metrics";

/// From asking a bench to end, with SIGTERM, to killing it.
pub const GRACE: Duration = Duration::from_secs(5);

/// An argument's name as it stands on a command line.
pub fn flag(name: &str) -> String {
    format!("--{name}")
}

/// The arguments of a trial on this machine.
pub fn run(spec: &Path, data: &Path, out: &Path) -> [OsString; 6] {
    [RUN.into(), spec.into(), flag(DATA).into(), data.into(), flag(OUT).into(), out.into()]
}

/// The arguments of a question about options that is written to standard input.
pub fn options() -> [&'static str; 2] {
    [OPTIONS, STDIN]
}

/// Where the databases of trials are, below the folder for data. Its executor removes what a trial has left there.
pub fn trials_dir(data: &Path) -> PathBuf {
    data.join("trials")
}

/// The only place where a trial keeps what nobody needs after it.
pub fn trial_dir(data: &Path, trial: &TrialId) -> PathBuf {
    trials_dir(data).join(trial.file_stem())
}
