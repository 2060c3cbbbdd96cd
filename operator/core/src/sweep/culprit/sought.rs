//! The versions that may have brought a change.

use assay_api::{Bisect, Candidate};
use assay_protocol::Digest;
use serde::{Deserialize, Serialize};

use crate::sweep::point::Subject;

/// A version of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sought {
    /// Absent if all run the same bench.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Digest of its options.
    pub config: Digest,
    /// How likely it is to be the culprit, compared with one of weight 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

// The signature that serde asks for.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_one(weight: &u32) -> bool {
    *weight == 1
}

/// Why there is nothing to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unlisted {
    #[error("it is many small steps, of which none is the culprit")]
    ManySteps,
    #[error("spec.bisect.candidates has no version between them")]
    NoneBetween,
    #[error(
        "spec.bisect.candidates has the version after the change before the one from before it: list them from old to new"
    )]
    OutOfOrder,
}

impl Sought {
    /// What a night has run.
    pub fn of(subject: &Subject) -> Self {
        Self {
            image: subject.image.clone(),
            revision: subject.revision.clone(),
            config: subject.config.clone(),
            weight: one(),
        }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.revision.clone().or_else(|| self.image.clone()).unwrap_or_else(|| "the image of the reference".to_owned())
    }
}

/// All versions from the last good one to the first bad one. Options that have changed as well did so before any program: each version runs
/// with the new ones.
pub fn between(bisect: &Bisect, before: &Subject, after: &Subject) -> Result<Vec<Sought>, Unlisted> {
    let is_of = |own: &&Candidate| own.subject.as_ref().is_none_or(|subject| *subject == before.name);
    let listed: Vec<&Candidate> = bisect.candidates.iter().filter(is_of).collect();
    let is = |own: &Candidate, subject: &Subject| {
        Some(&own.image) == subject.image.as_ref()
            || (own.revision.is_some() && own.revision.as_ref() == subject.revision.as_ref())
    };
    let begin = listed.iter().rposition(|own| is(own, before));
    let from = begin.map_or(0, |place| place + 1);
    let end = listed[from..].iter().position(|own| is(own, after)).map(|place| from + place);
    if begin.is_some() && end.is_none() && listed[..from].iter().any(|own| is(own, after) && !is(own, before)) {
        return Err(Unlisted::OutOfOrder);
    }
    let to = end.unwrap_or(listed.len());
    let named = |subject: &Subject, place: Option<usize>| {
        let listed = place.and_then(|place| listed[place].revision.clone());
        Sought { revision: subject.revision.clone().or(listed), ..Sought::of(subject) }
    };
    let mut all = vec![named(before, begin)];
    if before.image != after.image {
        if before.config != after.config {
            all.push(Sought { config: after.config.clone(), revision: None, ..Sought::of(before) });
        }
        all.extend(listed[from..to].iter().map(|own| Sought {
            image: Some(own.image.clone()),
            revision: own.revision.clone(),
            config: after.config.clone(),
            weight: own.weight,
        }));
    }
    let weight = listed.get(to).map_or(one(), |own| own.weight);
    all.push(Sought { weight, ..named(after, end) });
    // One that can't be told from an end is none between them.
    let (good, bad) = (&all[0], &all[all.len() - 1]);
    let differs = |own: &Sought, from: &Sought| (&own.image, &own.config) != (&from.image, &from.config);
    let is_between = |own: &Sought| differs(own, good) && differs(own, bad);
    if all[1..all.len() - 1].iter().any(is_between) { Ok(all) } else { Err(Unlisted::NoneBetween) }
}
