//! Files and folders as wholes: there, or not there.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;

/// There is no room for what has to be written: on the disk, or below a limit of this process.
#[derive(Debug)]
pub struct Full {
    what: String,
    fix: &'static str,
}

impl Full {
    /// The disk is full, or would be.
    pub fn disk(what: impl fmt::Display) -> Self {
        Self { what: format!("the disk is full: {what}"), fix: "free some space" }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.fix)
    }
}

impl std::error::Error for Full {}

pub fn make_dir(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).map_err(|error| unwritten(path, error))
}

/// Removes a folder with all that is in it, if it is there.
pub fn remove(dir: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("can't remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a file as a whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    let written = fs::File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&partial, path)).map_err(|error| {
        // Best effort: what matters is the first error.
        let _ = fs::remove_file(&partial);
        unwritten(path, error)
    })
}

fn unwritten(path: &Path, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Full::disk(format_args!("{}: {error}", path.display())).into()
        }
        io::ErrorKind::FileTooLarge => {
            let what = format!("{} would be larger than this process may write", path.display());
            Full { what, fix: "raise the limit on file sizes (ulimit -f)" }.into()
        }
        _ => anyhow::Error::new(error).context(format!("can't write {}", path.display())),
    }
}

/// What is in a file; `None` where there is none.
pub fn read_if_there(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}
