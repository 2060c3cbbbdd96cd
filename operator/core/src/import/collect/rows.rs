//! Rows in long form: columns get their meaning.

use std::collections::BTreeSet;

use super::Collector;
use crate::import::columns::Meaning;
use crate::import::data::{Place, Sample};
use crate::validate::{did_you_mean, nearest};

impl Collector<'_> {
    /// Checks the columns of a table before its rows. Whether the rows can be read.
    pub fn header(&mut self, place: Place, columns: &[&str]) -> bool {
        let before = self.problems.len();
        let mut seen = BTreeSet::new();
        for column in columns {
            if !seen.insert(column) {
                self.problem(place, Some(column), "duplicate column: rename one of them");
            }
            self.meaning(place, column);
        }
        for needed in Meaning::NEEDED {
            let wanted = self.policy.columns.column(needed);
            if seen.contains(&wanted) {
                continue;
            }
            let close =
                nearest(wanted, columns.iter().copied().filter(|column| self.policy.columns.meaning(column).is_none()));
            let hint = close.map(|name| format!(" (is it {name}?)")).unwrap_or_default();
            let message = format!(
                "column {wanted} is missing: set columns.{0} in the policy to the column with the {0}{hint}",
                needed.name()
            );
            self.problem(place, None, message);
        }
        self.problems.len() == before
    }

    /// What a column means. One that nobody knows is an error, once.
    fn meaning(&mut self, place: Place, column: &str) -> Option<Meaning> {
        if self.policy.ignore_columns.iter().any(|ignored| ignored == column) {
            return None;
        }
        let meaning = self.policy.columns.meaning(column);
        if meaning.is_none() && self.unknown_columns.insert(column.to_owned()) {
            let hint = did_you_mean(column, Meaning::ALL.map(|meaning| self.policy.columns.column(meaning)));
            let message =
                format!("unknown column: map it under columns in the policy, or list it in ignoreColumns{hint}");
            self.problem(place, Some(column), message);
        }
        meaning
    }

    /// A row in long form: column and value.
    pub fn row<'r>(&mut self, place: Place, fields: impl IntoIterator<Item = (&'r str, &'r str)>) {
        let mut sample = Sample::default();
        let mut seen = BTreeSet::new();
        for (column, value) in fields {
            let Some(meaning) = self.meaning(place, column) else { continue };
            seen.insert(meaning);
            let text = value.trim().to_owned();
            let optional = (!text.is_empty()).then(|| text.clone());
            match meaning {
                Meaning::Session => sample.session = text,
                Meaning::Scenario => sample.scenario = text,
                Meaning::Config => sample.config = text,
                Meaning::Metric => sample.metric = text,
                Meaning::Value => sample.value = text,
                Meaning::Block => sample.block = optional,
                Meaning::Replicate => sample.replicate = optional,
                Meaning::Unit => sample.unit = optional,
                Meaning::Work => sample.work = optional,
                Meaning::Build => sample.build = optional,
                Meaning::Failed => sample.failed = optional,
            }
        }
        // A failed run need not have measured anything.
        let is_needed = |meaning: Meaning| meaning != Meaning::Value || sample.failed.is_none();
        let missing = Meaning::NEEDED.into_iter().filter(|&needed| is_needed(needed) && !seen.contains(&needed));
        let missing: Vec<Meaning> = missing.collect();
        for needed in &missing {
            let wanted = self.policy.columns.column(*needed);
            let message =
                format!("{wanted} is missing: add it to every row, or set columns.{} in the policy", needed.name());
            self.problem(place, None, message);
        }
        if missing.is_empty() {
            self.sample(place, &sample);
        }
    }
}
