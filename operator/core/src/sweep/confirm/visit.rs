//! A visit, as the history keeps it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::sweep::culprit::Search;
use crate::sweep::point::Series;

/// Question that a visit answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asks {
    /// Whether a subject has changed in one step, between two nights.
    #[default]
    Step,
    /// Whether many small steps since the accepted version add up to a regression.
    Sum,
    /// Whether a subject has recovered from a confirmed regression or from its failures.
    Recovery,
}

impl Asks {
    // The signature that serde asks for.
    #[expect(clippy::trivially_copy_pass_by_ref)]
    fn is_step(&self) -> bool {
        *self == Self::Step
    }
}

/// Fresh trials about a change that is suspected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Visit {
    /// The night that raised the suspicion. With the subject it names the change.
    pub raised: Timestamp,
    pub subject: String,
    #[serde(default, skip_serializing_if = "Asks::is_step")]
    pub asks: Asks,
    /// Counted from 1, with those that failed.
    pub number: u32,
    /// The subject of this night is the one before the change.
    pub good: Timestamp,
    /// The subject of this night has the change, or may have recovered from it.
    pub bad: Timestamp,
    /// The chance that any of the series is called changed although none is, over all visits.
    pub alpha: f64,
    /// How visits before it differed although they compared the same versions: a standard deviation in parts of the margin. 0 unless they
    /// surely did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spread: f64,
    pub series: Vec<Asked>,
    /// Scenarios in which it asks whether the subject still fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// What it compares, if the change is confirmed and this is to find what brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
}

// The signature that serde asks for.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// A series that a visit asks about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Asked {
    pub scenario: String,
    pub metric: String,
    /// The first night after the change, most likely.
    pub first: Timestamp,
    /// What nights say of the change, on the scale of effects: positive is better.
    pub shift: f64,
    /// The smallest change that matters, as an effect.
    pub margin: f64,
    /// Loss of the version after the change against the one before it, block by block, as an effect. [`WORST`](crate::stats::WORST) if only
    /// the run after it failed, its negative if only the run before it did. Empty if nothing was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<f64>,
}

impl Visit {
    /// What the change is called.
    pub fn change(&self) -> String {
        let of = if self.failing.is_empty() { change } else { change_of_failures };
        of(&self.subject, self.raised)
    }

    /// Whether it decides if a suspicion is a change.
    pub(in crate::sweep) fn is_confirmation(&self) -> bool {
        self.search.is_none() && self.asks != Asks::Recovery
    }

    pub fn series(&self, asked: &Asked) -> Series {
        let Asked { scenario, metric, .. } = asked;
        Series { subject: self.subject.clone(), scenario: scenario.clone(), metric: metric.clone() }
    }

    /// It without what it has measured.
    #[must_use]
    pub fn anew(&self, number: u32) -> Self {
        let series = self.series.iter().map(|asked| Asked { losses: Vec::new(), ..asked.clone() });
        Self { number, series: series.collect(), ..self.clone() }
    }
}

/// The name of a change: its subject, and the minute of the night that raised the suspicion.
pub fn change(subject: &str, raised: Timestamp) -> String {
    format!("{subject}-{}", raised.to_zoned(TimeZone::UTC).strftime("%Y%m%d-%H%M"))
}

/// The name of a change that is failures: one night may raise both.
pub fn change_of_failures(subject: &str, raised: Timestamp) -> String {
    format!("{}-failures", change(subject, raised))
}
