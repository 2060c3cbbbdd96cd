//! Runs of any benchmark, as far as judging needs them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::db_bench;
use crate::verdict::Ending;

/// Where in the data something stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Position in the list of files.
    pub file: u32,
    /// Counted from 1; 0 is the file as a whole.
    pub line: u64,
}

/// One value of one run, or that it failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Empty where there is only one.
    pub session: String,
    pub scenario: String,
    pub config: String,
    pub block: Option<String>,
    pub replicate: Option<String>,
    pub metric: String,
    /// As it is written.
    pub value: String,
    pub unit: Option<String>,
    pub work: Option<String>,
    pub build: Option<String>,
    /// As it is written; a failed run needs no value.
    pub failed: Option<String>,
    /// The metric names the column of the value.
    pub is_wide: bool,
}

/// Why data can't be judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataProblem {
    pub file: Option<String>,
    /// Counted from 1.
    pub line: Option<u64>,
    pub column: Option<String>,
    pub message: String,
}

impl DataProblem {
    /// A problem of the data as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { file: None, line: None, column: None, message: message.into() }
    }
}

impl fmt::Display for DataProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            f.write_str(file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        if let Some(column) = &self.column {
            write!(f, "column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// A name in few bytes. Those that came first are smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(u32);

/// All names, each kept once.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    known: HashMap<String, Name>,
    texts: Vec<String>,
}

impl Names {
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(&name) = self.known.get(text) {
            return name;
        }
        let name = Name(self.texts.len() as u32);
        self.known.insert(text.to_owned(), name);
        self.texts.push(text.to_owned());
        name
    }

    pub fn find(&self, text: &str) -> Option<Name> {
        self.known.get(text).copied()
    }

    pub fn text(&self, name: Name) -> &str {
        &self.texts[name.0 as usize]
    }
}

/// What tells a run from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunKey {
    pub session: Name,
    pub scenario: Name,
    pub config: Name,
    pub block: Option<Name>,
    pub replicate: Replicate,
}

/// Which of the runs of a config in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Replicate {
    /// The only one.
    Only,
    /// Counted where nothing names it.
    Counted(u32),
    /// Likewise, among the runs that failed: those may lack some metrics.
    CountedFailed(u32),
    Named(Name),
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Run {
    pub place: Place,
    pub ending: Ending,
    /// By position in the policy's rules; none of a failed run.
    pub values: Vec<(usize, f64, Place)>,
    pub work: Option<Name>,
    pub build: Option<Name>,
}

impl Run {
    pub fn value(&self, rule: usize) -> Option<f64> {
        self.values.iter().find(|(metric, ..)| *metric == rule).map(|(_, value, _)| *value)
    }
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Data {
    pub(super) files: Vec<String>,
    pub(super) names: Names,
    pub(super) runs: BTreeMap<RunKey, Run>,
    /// The unit of each metric that has one, and its first place.
    pub(super) units: BTreeMap<Name, (Name, Place)>,
    /// Things to tell about how the data was read.
    pub(super) notes: Vec<String>,
}

impl Data {
    /// How files of `db_bench` are named, if theirs seem to number runs in another way; begins a sentence.
    pub(super) fn naming(&self) -> String {
        let is_odd = self.notes.iter().any(|note| note == db_bench::NAMING);
        if is_odd { format!(". {}", db_bench::NAMING) } else { String::new() }
    }

    /// The unit of a metric, if the data says it.
    pub(super) fn unit(&self, metric: &str) -> Option<&str> {
        let (unit, _) = self.units.get(&self.names.find(metric)?)?;
        Some(self.names.text(*unit))
    }

    /// A place in words.
    pub(super) fn at(&self, place: Place) -> String {
        let file = self.files.get(place.file as usize).map_or("data", String::as_str);
        if place.line == 0 { file.to_owned() } else { format!("{file}:{}", place.line) }
    }
}
