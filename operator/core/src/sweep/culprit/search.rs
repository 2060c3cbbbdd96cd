//! What a visit of a search compares, and what all visits of it say.

use std::collections::BTreeSet;

use assay_protocol::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::sought::Sought;
use crate::bisect::{Answer, Bisection, Came, Candidate, Next, PROOF, Probe, Purpose, Question};
use crate::stats::{ALPHA, measured_losses, n_min};
use crate::sweep::confirm::{Asked, Confirmation, Visit};
use crate::sweep::history::History;
use crate::sweep::point::{Night, Outcome, Series};

/// Visits in a row that may fail while no version is to blame.
const MOST_FAILED: usize = 3;
/// Why a visit has no trials, where the reason is one of its versions.
const OF_A_VERSION: [&str; 3] = ["ImagePullFailed", "NotAllowed", "Refused"];

/// What a visit compares: two of the candidates, which are counted from the good end, 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Search {
    pub reference: usize,
    pub candidate: usize,
    /// As many as it is to have, at least.
    pub blocks: usize,
    /// All candidates, from the good end to the bad end, in the first visit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Sought>,
    /// Which of the two can't be measured, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<usize>,
}

impl Search {
    pub fn new(probe: &Probe, candidates: Vec<Sought>) -> Self {
        let Probe { reference, candidate, blocks, .. } = *probe;
        Self { reference, candidate, blocks, candidates, unusable: None }
    }
}

/// A search, after the visits that were made.
#[derive(Clone, Debug)]
pub struct Hunt<'a> {
    pub candidates: &'a [Sought],
    /// What it goes by.
    pub series: Series,
    pub bisection: Bisection,
    /// Visits that measured something.
    pub measured: usize,
    pub failed: usize,
    /// Candidates that can't be measured.
    pub unusable: Vec<usize>,
    /// Why the last one has failed.
    pub why: Option<&'a str>,
    /// The time of the last visit.
    pub last: Timestamp,
    failed_in_row: usize,
}

/// Blocks of a visit: as few as an experiment of three sides may have.
pub fn fewest() -> usize {
    n_min(2, ALPHA)
}

/// The question that a search answers. What a confirmation has measured is what is known of both ends.
pub fn question(candidates: &[Sought], asked: &Asked, confirmation: &Confirmation<'_>) -> Option<Bisection> {
    let candidate = |own: &Sought| {
        let digest = Digest::of_json(&(&own.image, &own.config)).ok()?;
        Some(Candidate { digest, weight: f64::from(own.weight) })
    };
    let same = |own: &&Asked| (&own.scenario, &own.metric) == (&asked.scenario, &asked.metric);
    let of = |(_, visit): &(Timestamp, &'_ Visit)| visit.series.iter().find(same).map(|own| own.losses.clone());
    let losses: Vec<f64> = confirmation.visits.iter().filter_map(of).flatten().collect();
    let mut bisection = Bisection::new(Question {
        candidates: candidates.iter().map(candidate).collect::<Option<_>>()?,
        margin: asked.margin,
        blocks: fewest(),
        proof: losses.len().max(PROOF),
        budget: None,
    })
    .ok()?;
    let ends = Probe { purpose: Purpose::Ends, reference: 0, candidate: candidates.len() - 1, blocks: losses.len() };
    bisection.add(&ends, Came::Measured(losses));
    Some(bisection)
}

impl History {
    /// The candidates of the search that a visit belongs to; absent if it is the first one.
    pub(in crate::sweep) fn candidates(&self, visit: &Visit) -> Option<&[Sought]> {
        let all = self.nights().filter_map(|night| night.visit.as_ref());
        let own = all.filter(|own| (own.raised, &own.subject) == (visit.raised, &visit.subject));
        own.filter_map(|own| own.search.as_ref()).map(|search| search.candidates.as_slice()).find(|all| !all.is_empty())
    }

    /// The search for what brought the change of a confirmation, if it has begun.
    pub(in crate::sweep) fn hunt(&self, confirmation: &Confirmation<'_>) -> Option<Hunt<'_>> {
        let about =
            |visit: &&Visit| (visit.raised, &visit.subject) == (confirmation.visit.raised, &confirmation.visit.subject);
        let of = |night| {
            let night: &Night = night;
            let visit = night.visit.as_ref().filter(about)?;
            Some((night, visit, visit.search.as_ref()?))
        };
        let mut entries = self.nights().filter_map(of).peekable();
        let (_, first, search) = entries.peek()?;
        // Where the first visits have fallen out, what is left says nothing.
        let candidates = Some(search.candidates.as_slice()).filter(|all| !all.is_empty())?;
        let asked = first.series.first()?;
        let mut hunt = Hunt {
            candidates,
            series: first.series(asked),
            bisection: question(candidates, asked, confirmation)?,
            measured: 0,
            failed: 0,
            unusable: Vec::new(),
            why: None,
            last: confirmation.last,
            failed_in_row: 0,
        };
        let mut runs = BTreeSet::from([0, candidates.len() - 1]);
        for (night, visit, search) in entries {
            hunt.last = night.night;
            hunt.add(night, visit, search, &mut runs);
        }
        Some(hunt)
    }
}

impl<'a> Hunt<'a> {
    /// Adds what came of a visit. `runs` are the candidates that are known to run.
    fn add(&mut self, night: &'a Night, visit: &Visit, search: &Search, runs: &mut BTreeSet<usize>) {
        let Search { reference, candidate, blocks, .. } = *search;
        let probe = Probe { purpose: Purpose::Search, reference, candidate, blocks };
        if night.outcome == Outcome::Visited {
            self.measured += 1;
            self.failed_in_row = 0;
            runs.extend([reference, candidate]);
            let losses = visit.series.first().map(|asked| asked.losses.clone()).unwrap_or_default();
            // A version whose runs all failed has no measured loss.
            let came = match losses.first().filter(|_| measured_losses(&losses).is_empty()) {
                Some(loss) => Came::Unusable(if *loss > 0.0 { candidate } else { reference }),
                None => Came::Measured(losses),
            };
            self.unusable.extend(if let Came::Unusable(which) = came { Some(which) } else { None });
            return self.bisection.add(&probe, came);
        }
        self.failed += 1;
        self.why = night.message.as_deref();
        let is_of_a_version = night.reason.as_deref().is_some_and(|reason| OF_A_VERSION.contains(&reason));
        let new = || [candidate, reference].into_iter().find(|side| !runs.contains(side));
        match search.unusable.or_else(|| new().filter(|_| is_of_a_version)) {
            Some(which) => {
                self.failed_in_row = 0;
                self.unusable.push(which);
                self.bisection.add(&probe, Came::Unusable(which));
            }
            None => self.failed_in_row += 1,
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failed_in_row >= MOST_FAILED
    }

    /// What to visit next.
    pub fn next(&self) -> Option<Probe> {
        match self.bisection.next() {
            Next::Visit(probe) if !self.has_failed() => Some(probe),
            Next::Visit(_) | Next::Answer(_) => None,
        }
    }

    pub fn answer(&self) -> Option<Answer> {
        match self.bisection.next() {
            Next::Answer(answer) => Some(answer),
            Next::Visit(_) => None,
        }
    }
}
