//! What the tests of `assay judge` share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs assay in a folder, so that paths in messages are short.
pub fn judge_in(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    command.arg("judge").args(args).current_dir(dir).output().expect("assay starts")
}

pub fn data(name: &str) -> PathBuf {
    package().join("tests/judge/data").join(name)
}

/// Everything that was said, with the exit code.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is text");
    format!("{}{}exit code {}\n", text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
}

/// Compares with a file that `ASSAY_UPDATE_GOLDEN=1` writes anew.
pub fn golden(name: &str, text: &str) {
    let path = package().join("tests/judge/cases").join(name);
    if std::env::var_os("ASSAY_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("a golden is written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} is stale: run the tests with ASSAY_UPDATE_GOLDEN=1", path.display());
}
