//! What is wrong with a file, and where.

use std::fmt;

use saphyr_parser::Marker;

/// Line and column, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// Why a file can't be read as an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    pub at: Option<Position>,
    pub message: String,
}

impl FileProblem {
    pub fn new(message: impl Into<String>) -> Vec<Self> {
        vec![Self { at: None, message: message.into() }]
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.at {
            write!(f, "{line}:{column}: ")?;
        }
        f.write_str(&self.message)
    }
}
