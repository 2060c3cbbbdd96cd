//! One changed option with everything that its rule may look at.

use std::collections::BTreeMap;

use assay_protocol::{Engagement, option_value};

/// What the trials say about one changed option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Acted,
    /// It can't have, for what was seen, and what it takes.
    Idle(String),
    Unknown,
}

/// A family, or the database itself, in which the option has another value in one arm than in the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// All declared options there: of the baseline, and of the config.
    pub before: BTreeMap<String, String>,
    pub after: BTreeMap<String, String>,
}

pub struct Case<'a> {
    pub option: &'a str,
    pub places: &'a [Place],
    /// Trials of both arms.
    pub seen: &'a [&'a Engagement],
    /// The files that trials start from were written in another format than their own.
    pub migration: bool,
}

/// Something that a trial counts.
pub type Read = fn(&Engagement) -> Option<u64>;

impl Case<'_> {
    /// The option acted where one of the counters reached its number in one trial of either arm.
    pub fn judge(&self, signs: &[(Read, u64)], why: impl FnOnce() -> String) -> Answer {
        let readings = || signs.iter().flat_map(|sign| self.seen.iter().map(move |trial| (sign.0(trial), sign.1)));
        if readings().any(|(reading, needed)| reading.is_some_and(|reading| reading >= needed)) {
            Answer::Acted
        } else if readings().any(|(reading, _)| reading.is_none()) {
            Answer::Unknown
        } else {
            Answer::Idle(why())
        }
    }

    /// The most that any trial counted.
    pub fn most(&self, read: Read) -> u64 {
        self.seen.iter().filter_map(|trial| read(trial)).max().unwrap_or_default()
    }

    /// Every value of the option, in both arms of every place; `None` where one can't be read. Below zero it is switched off.
    pub fn values(&self, default: u64) -> Option<Vec<u64>> {
        let value = |text: Option<&String>| match text {
            None => Some(default),
            Some(text) => {
                option_value::number(text.trim()).map(|value| if value < 0.0 { u64::MAX } else { value as u64 })
            }
        };
        let both = |place: &Place| [value(place.before.get(self.option)), value(place.after.get(self.option))];
        self.places.iter().flat_map(both).collect()
    }

    /// The lowest value in either arm.
    pub fn lowest(&self, default: u64) -> Option<u64> {
        self.values(default)?.into_iter().min()
    }

    /// The lowest value of an option that is off at 0; the highest number there is where it is always off.
    pub fn lowest_in_use(&self) -> Option<u64> {
        Some(self.values(0)?.into_iter().filter(|value| *value > 0).min().unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
impl Case<'_> {
    /// Values of an option in both arms, in one place.
    pub fn place(option: &str, before: Option<&str>, after: Option<&str>) -> Place {
        let map = |value: Option<&str>| value.map(|value| (option.to_owned(), value.to_owned())).into_iter().collect();
        Place { before: map(before), after: map(after) }
    }
}
