//! What the single fields of a row say.

use super::{Collector, MOST_NAME};
use crate::import::columns::{self, Meaning};
use crate::import::data::{Place, Sample};
use crate::stats::Unmeasurable;
use crate::verdict::{Ending, MetricRule};

impl Collector<'_> {
    /// Whether all names are fit to be kept.
    pub(super) fn has_names(&mut self, place: Place, sample: &Sample) -> bool {
        let named = [
            (Meaning::Scenario, Some(&sample.scenario)),
            (Meaning::Config, Some(&sample.config)),
            (Meaning::Metric, Some(&sample.metric)),
            (Meaning::Session, Some(&sample.session).filter(|text| !text.is_empty())),
            (Meaning::Block, sample.block.as_ref()),
            (Meaning::Replicate, sample.replicate.as_ref()),
            (Meaning::Unit, sample.unit.as_ref()),
            (Meaning::Work, sample.work.as_ref()),
            (Meaning::Build, sample.build.as_ref()),
        ];
        let mut fit = true;
        for (meaning, text) in named.into_iter().filter_map(|(meaning, text)| Some((meaning, text?))) {
            if let Some(problem) = name_problem(text) {
                let column = self.policy.columns.column(meaning);
                self.problem(place, Some(column), problem);
                fit = false;
            }
        }
        fit
    }

    /// How the run ended, as far as its row says.
    pub(super) fn ending(&mut self, place: Place, sample: &Sample) -> Option<Ending> {
        let word = sample.failed.as_deref().unwrap_or_default();
        let ending = columns::ending(word);
        if ending.is_none() {
            let column = self.policy.columns.column(Meaning::Failed);
            self.problem(place, Some(column), format!("{} is not valid: {}", shown(word), columns::ENDINGS));
        }
        ending
    }

    /// The value of a run that did not fail.
    pub(super) fn measured(&mut self, place: Place, sample: &Sample, rule: usize) -> Option<f64> {
        if self.unit(place, sample) { self.value(place, rule, sample) } else { None }
    }

    fn unit(&mut self, place: Place, sample: &Sample) -> bool {
        let Some(unit) = &sample.unit else { return true };
        let (metric, unit) = (self.name(&sample.metric), self.name(unit));
        let (known, first) = *self.data.units.entry(metric).or_insert((unit, place));
        if known == unit {
            return true;
        }
        let message = format!(
            "{} is in {} here and in {} at {}: convert one of them",
            sample.metric,
            self.data.names.text(unit),
            self.data.names.text(known),
            self.data.at(first)
        );
        let column = self.policy.columns.column(Meaning::Unit);
        self.problem(place, Some(column), message);
        false
    }

    fn value(&mut self, place: Place, rule: usize, sample: &Sample) -> Option<f64> {
        let MetricRule { name, scale, direction, .. } = &self.rules[rule];
        let text = &sample.value;
        let column = if sample.is_wide { sample.metric.as_str() } else { self.policy.columns.column(Meaning::Value) };
        let problem = match text.parse::<f64>() {
            _ if text.is_empty() => format!("empty: {}", self.without_value()),
            Err(_) if has_comma(text) => {
                self.comma(place, column, text);
                return None;
            }
            Err(_) => format!("{} is not a number: write it as 1234.5 or 1.2345e3", shown(text)),
            Ok(value) => match scale.transform(*direction, value) {
                // Zero has no logarithm, but a rank. Adding it turns -0 into it.
                Ok(_) | Err(Unmeasurable::Zero) => return Some(value + 0.0),
                Err(problem @ Unmeasurable::Negative) => {
                    format!("{} {problem}: correct it, or declare {name} with scale: linear", shown(text))
                }
                Err(problem) => format!("{} {problem}: {}", shown(text), self.without_value()),
            },
        };
        self.problem(place, Some(column), problem);
        None
    }

    /// A number with commas: decimals in one country, thousands in another. The other numbers have them, too.
    pub(super) fn comma(&mut self, place: Place, column: &str, text: &str) {
        let problem =
            format!("{} has a comma: write all numbers with a decimal point only, such as 1234.5", shown(text));
        self.problem(place, Some(column), problem);
        self.over = true;
    }

    /// What to do about a row that has none: a run that is missing could be one that somebody did not like.
    fn without_value(&self) -> String {
        let failed = self.policy.columns.column(Meaning::Failed);
        format!("keep the row and write true in its {failed} column; a failed run needs no value")
    }
}

fn name_problem(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("empty: every row needs a value".to_owned());
    }
    let length = text.chars().count();
    if length > MOST_NAME {
        return Some(format!("{length} characters, at most {MOST_NAME} allowed: use a shorter name"));
    }
    text.chars().any(char::is_control).then(|| "contains control characters: remove them".to_owned())
}

/// Digits between commas, and perhaps points.
pub(super) fn has_comma(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    unsigned.contains(',') && unsigned.split([',', '.']).all(is_number)
}

/// A value as it was written, as far as anybody wants to read it.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{more}")
}
