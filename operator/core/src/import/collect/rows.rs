//! Rows of a table: columns get their meaning. A table is long, with a row for each metric of a run, or wide, with a column for each.

use std::collections::BTreeSet;

use super::Collector;
use super::fields::has_comma;
use crate::import::columns::Meaning;
use crate::import::comparison::shown;
use crate::import::data::{Place, Sample};
use crate::validate::{did_you_mean, nearest};

/// The scenario of rows that name none.
const ONLY_SCENARIO: &str = "workload";

impl Collector<'_> {
    /// Checks the columns of a table before its rows. Whether the rows can be read.
    pub fn header(&mut self, place: Place, columns: &[&str]) -> bool {
        let before = self.problems.len();
        let mut seen = BTreeSet::new();
        for (index, column) in columns.iter().enumerate() {
            self.column(column);
            if column.is_empty() {
                let message =
                    format!("column {} has no name: name it, or remove it (pandas: to_csv(index=False))", index + 1);
                self.problem(place, None, message);
            } else if !seen.insert(*column) {
                self.problem(place, Some(column), "duplicate column: rename one of them");
            }
        }
        let roles: BTreeSet<Meaning> = columns.iter().filter_map(|column| self.role(column)).collect();
        let is_long = is_long(&roles);
        let free = |column: &&str| self.role(column).is_none() && !self.is_ignored(column);
        let free: Vec<&str> = seen.iter().copied().filter(free).collect();
        for column in free {
            if is_long {
                self.unknown(place, column);
            } else {
                self.may_be_a_metric(place, column, &roles);
            }
        }
        if is_long {
            for needed in Meaning::NEEDED.into_iter().filter(|needed| !roles.contains(needed)) {
                self.missing(place, needed, columns, &roles);
            }
        } else {
            self.wide_roles(place, &roles);
            if !roles.contains(&Meaning::Config) {
                self.missing(place, Meaning::Config, columns, &roles);
            }
        }
        self.problems.len() == before
    }

    fn role(&self, column: &str) -> Option<Meaning> {
        self.policy.columns.meaning(column).filter(|_| !self.is_ignored(column))
    }

    fn missing(&mut self, place: Place, needed: Meaning, columns: &[&str], roles: &BTreeSet<Meaning>) {
        let (wanted, role) = (self.policy.columns.column(needed), needed.name());
        if needed == Meaning::Metric && roles.contains(&Meaning::Value) {
            let value = self.policy.columns.column(Meaning::Value);
            let message = format!(
                "column {wanted} is missing: add it, or rename the column {value} to what it measures (in a table \
                 without {wanted} and {value}, every other column of numbers is a metric)"
            );
            return self.problem(place, None, message);
        }
        if needed == Meaning::Config
            && let Some(baseline) = self.policy.baseline.as_deref().filter(|name| columns.contains(name))
        {
            let metric = self.policy.objectives.first().map_or("ops_per_sec", |judged| judged.metric.as_str());
            let message = format!(
                "the config {baseline} is a column here: write a row per run, with the config in a column {wanted}, such \
                 as \"{wanted},block,{metric}\" and then \"{baseline},1,48211.7\""
            );
            return self.problem(place, None, message);
        }
        let free = || columns.iter().copied().filter(|column| self.role(column).is_none());
        let close = nearest(wanted, free()).or_else(|| free().find(|column| Meaning::likely(column) == Some(needed)));
        let hint = close.map(|name| format!(" (is it {name}?)")).unwrap_or_default();
        let message = format!(
            "column {wanted} is missing: pass --column {role}=NAME, or set columns.{role} in a policy{hint}; columns \
             found: {}{}",
            shown(columns),
            if needed == Meaning::Config && hint.is_empty() {
                ". If configs are columns here, write a row per run instead, such as \"config,block,ops_per_sec\" and \
                 then \"old,1,48211.7\""
            } else {
                ""
            }
        );
        self.problem(place, None, message);
    }

    /// A column of a long table that nobody knows is an error, once.
    fn unknown(&mut self, place: Place, column: &str) {
        if !self.asked.insert(column.to_owned()) {
            return;
        }
        let hint = did_you_mean(column, Meaning::ALL.map(|meaning| self.policy.columns.column(meaning)));
        let message = format!(
            "unknown column: pass --column ROLE={column} or --ignore-column {column} (in a policy: columns, \
             ignoreColumns){hint}"
        );
        self.problem(place, Some(column), message);
    }

    /// A column of a wide table that nobody knows is a metric, unless its name suggests that it tells runs apart.
    fn may_be_a_metric(&mut self, place: Place, column: &str, roles: &BTreeSet<Meaning>) {
        // What the config is has to be said anyway.
        let likely = Meaning::likely(column).filter(|role| *role != Meaning::Config && !roles.contains(role));
        let Some(role) = likely.filter(|_| !self.is_judged(column)) else { return };
        if self.asked.insert(column.to_owned()) {
            let message = format!(
                "may be the {0}: pass --column {0}={column} if it is, or --ignore-column {column} if it is not",
                role.name()
            );
            self.problem(place, Some(column), message);
        }
    }

    fn is_judged(&self, metric: &str) -> bool {
        self.rules.iter().any(|rule| rule.name == metric)
    }

    /// Roles that a wide table has no use for.
    fn wide_roles(&mut self, place: Place, roles: &BTreeSet<Meaning>) {
        let unit = self.policy.columns.column(Meaning::Unit);
        if roles.contains(&Meaning::Unit) && self.asked.insert(unit.to_owned()) {
            let message = format!("a table with a column per metric has no units: pass --ignore-column {unit}");
            self.problem(place, Some(unit), message);
        }
    }

    /// A row: columns and values.
    pub fn row<'r>(&mut self, place: Place, fields: impl IntoIterator<Item = (&'r str, &'r str)>) {
        let mut sample = Sample { scenario: ONLY_SCENARIO.to_owned(), ..Sample::default() };
        let (mut roles, mut others) = (BTreeSet::new(), Vec::new());
        for (column, value) in fields {
            self.column(column);
            if self.is_ignored(column) {
                continue;
            }
            let value = value.trim();
            let Some(meaning) = self.policy.columns.meaning(column) else {
                others.push((column, value));
                continue;
            };
            roles.insert(meaning);
            let text = value.to_owned();
            let optional = (!value.is_empty()).then(|| text.clone());
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
        let is_long = is_long(&roles);
        // A failed run need not have measured anything.
        let is_needed = |meaning: Meaning| match meaning {
            Meaning::Config => true,
            Meaning::Value => is_long && sample.failed.is_none(),
            _ => is_long,
        };
        let missing = Meaning::NEEDED.into_iter().filter(|&needed| is_needed(needed) && !roles.contains(&needed));
        let missing: Vec<Meaning> = missing.collect();
        for needed in &missing {
            let wanted = self.policy.columns.column(*needed);
            let message = format!(
                "{wanted} is missing: add it to every row, or pass --column {0}=NAME (columns.{0} in a policy)",
                needed.name()
            );
            self.problem(place, None, message);
        }
        if is_long {
            for (column, _) in others {
                self.unknown(place, column);
            }
            if missing.is_empty() {
                self.sample(place, &sample);
            }
        } else if missing.is_empty() {
            self.wide_roles(place, &roles);
            self.wide(place, sample, &others, &roles);
        }
    }

    /// A row of a wide table: whatever has no role is a metric.
    fn wide(&mut self, place: Place, mut sample: Sample, metrics: &[(&str, &str)], roles: &BTreeSet<Meaning>) {
        sample.is_wide = true;
        for (column, value) in metrics {
            if self.is_full() {
                return;
            }
            (sample.metric, sample.value) = ((*column).to_owned(), (*value).to_owned());
            if self.is_judged(column) {
                self.sample(place, &sample);
                continue;
            }
            if has_comma(value) {
                return self.comma(place, column, value);
            }
            self.may_be_a_metric(place, column, roles);
            let is_number = value.is_empty() || value.parse::<f64>().is_ok();
            if is_number {
                self.not_judged(&sample);
            } else if self.asked.insert((*column).to_owned()) {
                let short: String = value.chars().take(40).collect();
                let message = format!(
                    "{short:?} is not a number, so this is no metric: pass --ignore-column {column}, or --column \
                     ROLE={column} if it has a role"
                );
                self.problem(place, Some(column), message);
            }
        }
    }
}

/// Whether each row holds one metric.
fn is_long(roles: &BTreeSet<Meaning>) -> bool {
    roles.contains(&Meaning::Metric) || roles.contains(&Meaning::Value)
}
