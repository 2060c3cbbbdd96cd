//! What the tests of the command line share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assay_protocol::invocation;

/// Where this package is: paths in messages are relative to it.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The examples of experiments.
pub fn examples() -> Vec<PathBuf> {
    examples_of("TuningExperiment")
}

/// The examples of sweeps.
pub fn sweeps() -> Vec<PathBuf> {
    examples_of("TuningSweep")
}

fn examples_of(kind: &str) -> Vec<PathBuf> {
    let is_of_kind = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a text");
        text.lines().any(|line| line == format!("kind: {kind}"))
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(package().join("../../examples"))
        .expect("there are examples")
        .map(|entry| entry.expect("an example").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .filter(is_of_kind)
        .collect();
    files.sort();
    files
}

/// Runs assay with a bench that says yes to everything, unless the file provokes it.
pub fn assay(args: &[&str]) -> Output {
    command(args).output().expect("assay starts")
}

/// The same, not run yet.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    command.args(args).current_dir(package()).env("ASSAY_BENCH", "tests/bench/fake.sh");
    command.env("ASKED_WITH", invocation::options().join(" "));
    command
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is text")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is text")
}

/// Compares with a file that `ASSAY_UPDATE_GOLDEN=1` writes anew.
pub fn golden(name: &str, text: &str) {
    golden_at(&package().join("tests/cases").join(name), text);
}

/// The same, wherever the file is.
pub fn golden_at(path: &Path, text: &str) {
    if std::env::var_os("ASSAY_UPDATE_GOLDEN").is_some() {
        std::fs::write(path, text).expect("a golden is written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, expected, "{} is stale: run the tests with ASSAY_UPDATE_GOLDEN=1", path.display());
}
