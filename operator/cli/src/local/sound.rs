//! Whether a file can be run on this machine.

use std::path::Path;

use anyhow::bail;
use assay_core::experiment::Experiment;

use super::elsewhere;
use crate::bench::{BenchArg, Benches};
use crate::file::{Document, Wanted, check};
use crate::folder::{folder_of, room};
use crate::print;
use crate::text::plural;

/// What a run needs of its file.
pub struct Sound {
    pub experiment: Experiment,
    pub document: Document,
    pub benches: Benches,
}

/// Checks the file, and says everything that there is to say about it.
pub fn sound(file: &Path, out: Option<&Path>, bench: &[BenchArg]) -> anyhow::Result<Sound> {
    let mut checked =
        check(file, Wanted::Experiment, bench, |experiment| Some(room(&folder_of(&experiment.name, out))));
    print::err(&checked);
    let (Some(experiment), Some(document), Some(benches)) =
        (checked.experiment.take(), checked.document.take(), checked.benches.take())
    else {
        bail!("{} was not run: fix the {} above", checked.file(), plural(checked.errors(), "error"));
    };
    if let Some(spec) = &checked.spec {
        elsewhere::refuse(spec)?;
        if let Some(note) = elsewhere::note(spec) {
            print::note(format_args!("{}: {note}", checked.file()));
        }
    }
    Ok(Sound { experiment, document, benches })
}
