//! Checks an experiment that was drafted for the user, and writes it to a file that is not there yet.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use assay_core::adopt::Draft;

use crate::file;
use crate::print;
use crate::text::plural;

/// The file to write.
#[derive(Clone, Debug, clap::Args)]
pub struct FileArgs {
    /// The file to write; must not exist
    #[arg(default_value = "experiment.yaml")]
    pub file: PathBuf,
}

impl FileArgs {
    /// The experiment's name: that of the file, in letters that an experiment can have.
    pub fn name(&self) -> String {
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        let kept: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(63).collect();
        let name = kept.trim_matches('-');
        if name.is_empty() { "experiment".to_owned() } else { name.to_owned() }
    }

    /// Before anything is asked or read: a file that is there is someone's work.
    pub fn refuse_to_overwrite(&self) -> anyhow::Result<()> {
        if self.file.symlink_metadata().is_ok() {
            bail!("{} exists: give the path of a new file", self.file.display());
        }
        Ok(())
    }
}

/// Writes the draft if it is valid, and says what it lacks.
pub fn write(mut draft: Draft, args: &FileArgs) -> anyhow::Result<ExitCode> {
    let mut checked = file::check_text(&args.file, draft.yaml());
    if !checked.rejected.is_empty() {
        // What a newer or older version had is no reason to have nothing.
        draft.refuse(&checked.rejected);
        checked = file::check_text(&args.file, draft.yaml());
    }
    let left = draft.left_behind();
    if !left.is_empty() {
        print::out("Not carried over:\n")?;
    }
    for item in left {
        print::out(format_args!("  {item}\n"))?;
    }
    print::out(&checked)?;
    if checked.experiment.is_none() {
        let errors = plural(checked.errors(), "error");
        bail!("{} was not written: what it would say has {errors}", args.file.display());
    }
    create(&args.file, &draft.yaml())?;
    let file = args.file.display();
    print::out(format_args!(
        "Wrote {file}. Its comments say what to fill in. Next: `assay validate {file}`, `assay plan {file}`\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn create(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists: give the path of a new file", path.display())
        }
        opened => opened.with_context(|| format!("can't create {}", path.display()))?,
    };
    file.write_all(text.as_bytes()).with_context(|| format!("can't write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_named_after_their_files() {
        for (file, name) in [
            ("experiment.yaml", "experiment"),
            ("/tmp/My DB_1.yaml", "my-db-1"),
            ("-.yaml", "experiment"),
            ("ü", "experiment"),
            ("a.b.yaml", "a-b"),
        ] {
            assert_eq!(FileArgs { file: file.into() }.name(), name, "{file}");
        }
        let long = FileArgs { file: ("x".repeat(62) + "--y.yaml").into() };
        assert_eq!(long.name(), "x".repeat(62));
    }
}
