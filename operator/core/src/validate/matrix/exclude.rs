//! `exclude`: which combinations are left out.

use assay_api::Matrix;

use super::names::sanitised;
use super::{Combination, matrix_path};
use crate::validate::problem::Problem;
use crate::validate::schema::join;
use crate::validate::suggest::did_you_mean;

/// One entry: the value that a combination has to have, for each axis that is named.
type Entry = Vec<(usize, usize)>;

/// The entries, `None` for those that name what is not there.
pub fn read(matrix: &Matrix, names: &[Vec<String>], problems: &mut Vec<Problem>) -> Vec<Option<Entry>> {
    let axes = || matrix.axes.iter().map(|axis| axis.name.as_str());
    let mut entries = Vec::new();
    for (index, entry) in matrix.exclude.iter().enumerate() {
        let path = matrix_path().key("exclude").index(index);
        let mut read = Some(Entry::new());
        for (axis, value) in entry {
            let Some(at) = axes().position(|known| known == axis) else {
                let hint = did_you_mean(axis, axes());
                let message = format!("no axis has this name{hint}; the axes are {}", join(axes()));
                problems.push(Problem::error(path.key(axis), message).at_key());
                read = None;
                continue;
            };
            let text = value.to_rocksdb();
            // As it is named, or as it is written where it is set.
            let Some(value) = names[at].iter().position(|name| *name == sanitised(&text)) else {
                let values = || names[at].iter().map(String::as_str);
                let message = format!("no value of axis {axis} is named {text:?}; they are {}", join(values()));
                problems.push(Problem::error(path.key(axis), message));
                read = None;
                continue;
            };
            if let Some(read) = &mut read {
                read.push((at, value));
            }
        }
        entries.push(read);
    }
    entries
}

/// Leaves out what the entries exclude. One that excludes nothing was meant to exclude something else.
pub fn apply(entries: &[Option<Entry>], combinations: &mut Vec<Combination>, problems: &mut Vec<Problem>) {
    let path = matrix_path().key("exclude");
    let had_any = !combinations.is_empty();
    for (index, entry) in entries.iter().enumerate() {
        // An entry without an axis would exclude everything, and the schema refuses it.
        let Some(entry) = entry.as_ref().filter(|entry| !entry.is_empty()) else { continue };
        let before = combinations.len();
        combinations.retain(|combination| !entry.iter().all(|(axis, value)| combination[*axis] == *value));
        if before > 0 && combinations.len() == before {
            let message = "excludes nothing: the entries before it exclude all that it matches; remove it";
            problems.push(Problem::error(path.index(index), message));
        }
    }
    if had_any && combinations.is_empty() {
        problems.push(Problem::error(path, "leaves no combination: remove an entry, or remove the matrix"));
    }
}
