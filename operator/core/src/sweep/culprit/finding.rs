//! What a search has found, in words.

use super::search::Hunt;
use super::sought::Sought;
use crate::bisect::{Answer, End, Group};
use crate::report::html::plural;
use crate::report::number;
use crate::stats::Scale;

/// What a search says, with what it is based on.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub found: Found,
    /// Versions that could have brought the change.
    pub suspects: usize,
    /// Visits that measured something, and others.
    pub measured: usize,
    pub failed: usize,
}

/// How far a search is.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Visits are missing.
    Searching,
    /// By name: one, or several that can't be told apart or that brought a part each.
    Culprit(String),
    /// Why there is none.
    Nothing(String),
}

impl Finding {
    pub(in crate::sweep) fn of(hunt: &Hunt<'_>, scale: Scale) -> Self {
        let found = match hunt.answer() {
            Some(answer) => found(hunt, &answer, scale),
            None if hunt.has_failed() => {
                Found::Nothing(format!("the last visits have failed: {}", hunt.why.unwrap_or_default()))
            }
            None => Found::Searching,
        };
        let suspects = hunt.candidates.len() - 1;
        Self { found, suspects, measured: hunt.measured, failed: hunt.failed }
    }

    /// In a part of a sentence.
    pub fn said(&self) -> String {
        let visits = plural(self.measured, "visit");
        match &self.found {
            Found::Searching => format!("looking for it among {} versions; {visits} so far", self.suspects),
            Found::Culprit(name) => format!("{name}; {visits}"),
            Found::Nothing(why) => format!("not found among {} versions: {why}; {visits}", self.suspects),
        }
    }

    pub fn is_over(&self) -> bool {
        self.found != Found::Searching
    }

    pub fn is_found(&self) -> bool {
        matches!(self.found, Found::Culprit(_))
    }
}

fn found(hunt: &Hunt<'_>, answer: &Answer, scale: Scale) -> Found {
    let culprits: Vec<String> = answer
        .culprits
        .iter()
        .map(|culprit| {
            let step = number::effect(scale, -culprit.step.mean);
            format!("{} ({step}, {})", members(hunt, &culprit.group), chance(culprit.group.probability))
        })
        .collect();
    if !culprits.is_empty() {
        return Found::Culprit(culprits.join(" and "));
    }
    Found::Nothing(match &answer.end {
        End::Found => "nothing is left to measure".to_owned(),
        End::NotReproduced(_) => "it could not be reproduced".to_owned(),
        End::Undecided => "the noise is too large".to_owned(),
        End::NonMonotone => "versions became worse, better and worse again".to_owned(),
        End::NoEnd(end) => format!("{} can't be measured any more", hunt.candidates[*end].name()),
        End::Unsure(groups, probability) => {
            let groups: Vec<String> = groups.iter().map(|group| members(hunt, group)).collect();
            return Found::Culprit(format!("one of {} ({})", groups.join(", "), chance(*probability)));
        }
    })
}

/// A group by its names: all but the last one can't be measured.
fn members(hunt: &Hunt<'_>, group: &Group) -> String {
    let names: Vec<String> =
        hunt.bisection.members(group).into_iter().map(|member| name(hunt.candidates, member)).collect();
    match names.as_slice() {
        [one] => one.clone(),
        many => format!("one of {}, which could not all be measured", many.join(", ")),
    }
}

/// What a candidate is called. One that runs the program before it is a change of options.
fn name(candidates: &[Sought], place: usize) -> String {
    let own = &candidates[place];
    let is_same_program = place.checked_sub(1).is_some_and(|before| candidates[before].image == own.image);
    if is_same_program { "the change of options".to_owned() } else { own.name() }
}

fn chance(probability: f64) -> String {
    if probability > 0.999 { "99.9 %".to_owned() } else { format!("{:.0} %", 100.0 * probability) }
}
