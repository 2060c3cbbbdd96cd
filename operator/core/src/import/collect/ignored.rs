//! Columns that are to be ignored: of tables, and those that the output of a program stands for.

use std::collections::BTreeSet;

use super::Collector;
use crate::import::columns::Meaning;
use crate::import::comparison::shown;
use crate::import::data::{DataProblem, Place, Sample};
use crate::validate::did_you_mean;

impl Collector<'_> {
    pub(super) fn is_ignored(&self, column: &str) -> bool {
        self.policy.ignore_columns.iter().any(|ignored| ignored == column)
    }

    /// Remembers that there is a column of this name.
    pub fn column(&mut self, name: &str) {
        if !self.columns.contains(name) {
            self.columns.insert(name.to_owned());
        }
    }

    /// One value that a program has printed. What a table would have in columns of its own can be ignored as there.
    pub fn printed(&mut self, place: Place, sample: &Sample) {
        let mut sample = sample.clone();
        for (meaning, field) in [
            (Meaning::Block, &mut sample.block),
            (Meaning::Replicate, &mut sample.replicate),
            (Meaning::Unit, &mut sample.unit),
            (Meaning::Work, &mut sample.work),
            (Meaning::Build, &mut sample.build),
        ] {
            if field.is_some() {
                self.column(meaning.name());
            }
            if self.is_ignored(meaning.name()) {
                *field = None;
            }
        }
        self.column(&sample.metric);
        if !self.is_ignored(&sample.metric) {
            self.sample(place, &sample);
        }
    }

    /// Columns that the policy names and that there are not.
    pub(super) fn not_there(&self) -> Vec<DataProblem> {
        let columns = || self.columns.iter().map(String::as_str);
        let ignored: BTreeSet<&str> = self.policy.ignore_columns.iter().map(String::as_str).collect();
        let ignored = ignored.into_iter().map(|column| (column, "to ignore".to_owned()));
        // Where a table lacks what it needs, that is said already.
        let named = self.policy.columns.named().filter(|_| self.problems.is_empty());
        let named = named.map(|(meaning, column)| (column, format!("for {}", meaning.name())));
        let absent = ignored.chain(named).filter(|(column, _)| !self.columns.contains(*column));
        let said = absent.map(|(column, purpose)| {
            let hint = did_you_mean(column, columns());
            let found = shown(&columns().collect::<Vec<_>>());
            DataProblem::new(format!("there is no column {column} {purpose}{hint}; columns found: {found}"))
        });
        said.collect()
    }
}
