//! The nights of a sweep, in order, and what the next one has to know of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use crate::sweep::level::LEARNED;
use crate::sweep::point::{Night, Outcome, Reference, Refused, Series, Subject, VERSION, newer};
use crate::sweep::series::Setting;

/// All nights that a sweep remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    sweep: String,
    nights: BTreeMap<Timestamp, Night>,
    /// Of each series the nights that name it, with the place of its point; none of a gap.
    series: BTreeMap<Series, BTreeMap<Timestamp, Option<usize>>>,
}

/// Why a night can't be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("night {night} is already there, with other {}; nights are never changed, only added", fields.join(", "))]
    Contradiction { night: Timestamp, fields: Vec<String> },
}

/// What is wrong with a line of a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LineError {
    pub line: usize,
    pub problem: String,
}

/// What an import brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    pub new: usize,
    /// Nights that were there already.
    pub known: usize,
}

impl History {
    pub fn new(sweep: impl Into<String>) -> Self {
        Self { sweep: sweep.into(), nights: BTreeMap::new(), series: BTreeMap::new() }
    }

    pub fn sweep(&self) -> &str {
        &self.sweep
    }

    /// Adds a night, and says whether it is new. The same again changes nothing; another one of the same minute is refused.
    pub fn add(&mut self, night: Night) -> Result<bool, HistoryError> {
        if self.knows(&night)? {
            return Ok(false);
        }
        for (index, point) in night.points.iter().enumerate() {
            self.series.entry(point.series.clone()).or_default().insert(night.night, Some(index));
        }
        for gap in &night.gaps {
            let Some(metric) = gap.metric.clone() else { continue };
            let series = Series { subject: gap.subject.clone(), scenario: gap.scenario.clone(), metric };
            self.series.entry(series).or_default().insert(night.night, None);
        }
        self.nights.insert(night.night, night);
        Ok(true)
    }

    /// Whether the night is there already; an error if it must not be added.
    pub fn knows(&self, night: &Night) -> Result<bool, HistoryError> {
        night.check()?;
        if night.sweep != self.sweep {
            let problem = format!("{}; this is the history of {}", night.sweep, self.sweep);
            return Err(Refused { field: "sweep".to_owned(), problem }.into());
        }
        match self.nights.get(&night.night) {
            None => Ok(false),
            Some(own) if own == night => Ok(true),
            Some(own) => Err(HistoryError::Contradiction { night: night.night, fields: differing(own, night) }),
        }
    }

    /// Adds all nights of JSON lines, or none if one of them is wrong.
    pub fn import(&mut self, lines: &str) -> Result<Imported, LineError> {
        let mut merged = self.clone();
        let mut imported = Imported { new: 0, known: 0 };
        for read in nights(lines) {
            let (line, night) = read?;
            let is_new = merged.add(night).map_err(|error| LineError { line, problem: error.to_string() })?;
            *(if is_new { &mut imported.new } else { &mut imported.known }) += 1;
        }
        *self = merged;
        Ok(imported)
    }

    /// Its nights as JSON lines, the oldest first.
    pub fn lines(&self) -> Result<String, serde_json::Error> {
        let mut out = String::new();
        for night in self.nights.values() {
            out.push_str(&night.line()?);
            out.push('\n');
        }
        Ok(out)
    }

    /// The oldest first.
    pub fn nights(&self) -> impl DoubleEndedIterator<Item = &Night> {
        self.nights.values()
    }

    pub fn get(&self, night: Timestamp) -> Option<&Night> {
        self.nights.get(&night)
    }

    /// All series that some night names, in order.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.series.keys()
    }

    pub(super) fn into_nights(self) -> impl Iterator<Item = Night> {
        self.nights.into_values()
    }

    /// A night whose object fell out.
    pub(super) fn forget(&mut self, night: Timestamp) {
        self.nights.remove(&night);
        self.series.retain(|_, own| {
            own.remove(&night);
            !own.is_empty()
        });
    }

    pub(super) fn named(&self, series: &Series) -> Option<(&Series, &BTreeMap<Timestamp, Option<usize>>)> {
        self.series.get_key_value(series)
    }

    /// The nights of a span of time.
    pub(super) fn within(&self, span: impl std::ops::RangeBounds<Timestamp>) -> impl Iterator<Item = &Night> {
        self.nights.range(span).map(|(_, night)| night)
    }

    fn measured(&self) -> impl DoubleEndedIterator<Item = &Night> {
        self.nights().filter(|night| night.outcome == Outcome::Measured)
    }

    pub fn last_measured(&self) -> Option<&Night> {
        self.measured().next_back()
    }

    /// Nights without a measurement since the last one that has one.
    pub fn unmeasured(&self) -> usize {
        let nights = self.nights().rev().filter(|night| night.is_of_series());
        nights.take_while(|night| night.outcome != Outcome::Measured).count()
    }

    /// Whether something was new in the last measured night and a series of it has no value: that was never seen. Once it is measured
    /// again, whoever has none still can't be measured.
    pub fn has_unseen(&self) -> bool {
        let mut nights = self.measured().rev();
        let Some(last) = nights.next() else { return false };
        !last.gaps.is_empty() && nights.next().is_none_or(|before| before.key != last.key)
    }

    /// The series of the last measured night whose segment is too short for a level: no night is skipped while there are any. A series
    /// that has only gaps in it does not count, or one that can't be measured would keep all others running.
    pub fn learning(&self) -> Vec<&Series> {
        let Some(last) = self.last_measured() else { return Vec::new() };
        let is_learning = |(series, own): &(&Series, &BTreeMap<Timestamp, Option<usize>>)| {
            // A metric that nobody asks for any more is not waited for.
            let is_asked = own.contains_key(&last.night) || last.gaps.iter().any(|gap| gap.covers(series));
            let setting = Setting::of(last, &series.scenario).filter(|_| is_asked);
            let same = |night: &&Night| setting.is_some() && Setting::of(night, &series.scenario) == setting;
            let nights =
                own.iter().rev().filter(|(_, point)| point.is_some()).filter_map(|(night, _)| self.get(*night));
            (1..LEARNED).contains(&nights.filter(same).take(LEARNED).count())
        };
        self.series.iter().filter(is_learning).map(|(series, _)| series).collect()
    }
}

impl Subject {
    pub(super) fn same(&self, other: &Self) -> bool {
        self.name == other.name && self.image == other.image && self.config == other.config
    }
}

impl Reference {
    pub(super) fn same(&self, other: &Self) -> bool {
        self.image == other.image && self.config == other.config
    }
}

/// The nights of JSON lines, each with the number of its line. Empty lines are none.
pub(super) fn nights(lines: &str) -> impl Iterator<Item = Result<(usize, Night), LineError>> {
    let lines = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| match parse(line) {
        Ok(night) => Ok((index + 1, night)),
        Err(problem) => Err(LineError { line: index + 1, problem }),
    })
}

fn parse(line: &str) -> Result<Night, String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    serde_json::from_str(line).map_err(|error| match serde_json::from_str::<Versioned>(line) {
        // What another version calls its fields says less than that it is another one.
        Ok(Versioned { version }) if version != VERSION => newer(version).to_string(),
        _ => error.to_string(),
    })
}

/// The names of the fields in which two nights differ.
fn differing(a: &Night, b: &Night) -> Vec<String> {
    let (a, b) = (serde_json::to_value(a).unwrap_or_default(), serde_json::to_value(b).unwrap_or_default());
    let names = [&a, &b].into_iter().filter_map(|night| night.as_object()).flat_map(|night| night.keys());
    let mut names: Vec<String> = names.filter(|name| a.get(*name) != b.get(*name)).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
