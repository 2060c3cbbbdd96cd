//! Files of candidates, with the lines of what is wrong with it.

use std::path::{Path, PathBuf};

use anyhow::bail;
use assay_api::Candidate;
use assay_core::bisect::{Listing, read_listing};
use assay_core::sweep::culprit::read_candidates;
use assay_core::validate::{FieldPath, Problem};

use super::document::{self, Document};
use super::problem::Position;
use crate::print;
use crate::text::plural;

/// A listing that was read, and where its fields are.
pub struct ListingFile {
    pub listing: Listing,
    name: String,
    dir: PathBuf,
    document: Document,
}

impl ListingFile {
    /// Reads a listing, or says all that is wrong with it.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let (name, document) = open(path)?;
        match read_listing(&document.value) {
            Ok(listing) => {
                // A program without a folder would be looked for elsewhere.
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
                Ok(Self { listing, name, dir: dir.to_owned(), document })
            }
            Err(problems) => Err(refuse(&name, &document, &problems)),
        }
    }

    /// A path that the file names: from its own folder.
    pub fn path(&self, named: &str) -> PathBuf {
        self.dir.join(named)
    }

    /// The path of a field of a candidate.
    pub fn field(index: usize, field: &str) -> FieldPath {
        FieldPath::root().key("candidates").index(index).key(field)
    }

    /// Says what is wrong, if anything is.
    pub fn check(&self, problems: &[Problem]) -> anyhow::Result<()> {
        if problems.is_empty() { Ok(()) } else { Err(refuse(&self.name, &self.document, problems)) }
    }
}

/// Reads the versions that a sweep is to have, or says all that is wrong with them.
pub fn read_versions(path: &Path) -> anyhow::Result<Vec<Candidate>> {
    let (name, document) = open(path)?;
    read_candidates(&document.value).map_err(|problems| refuse(&name, &document, &problems))
}

fn open(path: &Path) -> anyhow::Result<(String, Document)> {
    let name = path.display().to_string();
    match document::read(path) {
        Ok(document) => Ok((name, document)),
        Err(problems) => {
            let count = problems.len();
            for problem in problems {
                print::note(format_args!("{name}: {problem}"));
            }
            bail!("nothing was done: fix the {} above", plural(count, "error"));
        }
    }
}

fn refuse(name: &str, document: &Document, problems: &[Problem]) -> anyhow::Error {
    for problem in problems {
        let Position { line, column } = document.places.find(&problem.path, problem.at_key);
        print::note(format_args!("{name}:{line}:{column}: {problem}"));
    }
    anyhow::anyhow!("nothing was done: fix the {} above", plural(problems.len(), "error"))
}
