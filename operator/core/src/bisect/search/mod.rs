//! What to visit next, and when enough is known. A fold over the visits that were made.

use super::belief::{Belief, Prior, Spread};
use super::candidates::{Candidate, Candidates, Group};
use super::monotone::monotone;
use super::visit::{Came, Probe, Purpose, Visit};
use crate::stats::{Shift, WORST, exceeds, is_below, look_weights, spread};

/// A candidate that is the culprit with this chance is measured against the one before it.
const SURE: f64 = 0.95;
/// What is told when the budget is spent holds the culprit with this chance.
const LIKELY: f64 = 0.9;
/// Error of the tests that say that a candidate is worse.
const ALPHA: f64 = 0.02;
/// Error of the test that says that it is not.
const REFUTED: f64 = 0.05;
/// Below this p measurements contradict "it only got worse".
const CONTRADICTION: f64 = 0.01;
/// The part of the margin by which sessions of the same program may differ.
const SESSIONS: f64 = 6.0;
/// The part of the margin that a second culprit must have to be looked for.
const REST: f64 = 3.0;
/// Fewest blocks that prove anything: 2^-7 is below half of the error.
pub const PROOF: usize = 7;
/// Visits of a comparison that has to be proven.
const VISITS: usize = 2;
/// How many times the blocks of a quiet machine a noisy one gets at most.
const MOST_NOISE: f64 = 4.0;
/// Candidates of the grid, and blocks of each.
const GRID: usize = 8;
const GRID_BLOCKS: usize = 4;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// From the good end to the bad end.
    pub candidates: Vec<Candidate>,
    /// The smallest loss that matters, on the scale of effects.
    pub margin: f64,
    /// Blocks of a visit of the search: one or two. Revisits say more than long visits.
    pub blocks: usize,
    /// Blocks of a comparison that has to be proven: of both ends, and of a culprit with the candidate before it.
    pub proof: usize,
    /// Blocks of a search. If absent, as many as [`Bisection::budget`] says.
    pub budget: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// With none, both ends are the same, or there is no bad end.
    #[error("no candidate can be the first bad one")]
    NoSuspect,
    #[error("the margin must be above zero")]
    Margin,
    /// Fewer blocks prove nothing at this error, of which each of two looks has half.
    #[error("a visit needs 1 block or more, and a proof {PROOF} or more")]
    Blocks,
}

/// A search, after the visits that were added.
#[derive(Clone, Debug, PartialEq)]
pub struct Bisection {
    question: Question,
    candidates: Candidates,
    /// Losses of the bad end against the good end.
    ends: Vec<f64>,
    spread: Option<Spread>,
    total: Option<Shift>,
    visits: Vec<Visit>,
    culprits: Vec<Culprit>,
    /// Blocks of this search that led to no culprit.
    spent: usize,
    /// A suspect of this search was not confirmed.
    has_failed: bool,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Ends,
    Search,
    Verify { suspect: Group, losses: Vec<f64> },
    Grid,
    Over(End),
}

/// A candidate, or a group of them, that was shown to be worse than the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Culprit {
    /// With the chance that it is the culprit, as it was before it was confirmed by a test.
    pub group: Group,
    /// How much worse it is.
    pub step: Shift,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// In the order in which they were found.
    pub culprits: Vec<Culprit>,
    pub end: End,
}

/// Why a search ended; with culprits, that for the rest of the loss.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The culprits explain the loss.
    Found,
    /// The bad end is not worse than the good end. With its chance, if the ends seemed to differ at first.
    NotReproduced(Option<f64>),
    /// The noise is too large to tell both ends apart with these blocks.
    Undecided,
    /// The budget is spent: these hold the culprit with this chance.
    Unsure(Vec<Group>, f64),
    /// It got worse, better, and worse again; or the machine scatters far more than it did at first.
    NonMonotone,
    /// An end can't be measured.
    NoEnd(usize),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Visit(Probe),
    Answer(Answer),
}

impl Bisection {
    pub fn new(question: Question) -> Result<Self, QuestionError> {
        let candidates = Candidates::new(&question.candidates).ok_or(QuestionError::NoSuspect)?;
        if !(question.margin > 0.0 && question.margin.is_finite()) {
            return Err(QuestionError::Margin);
        }
        if question.blocks == 0 || question.proof < PROOF {
            return Err(QuestionError::Blocks);
        }
        Ok(Self {
            question,
            candidates,
            ends: Vec::new(),
            spread: None,
            total: None,
            visits: Vec::new(),
            culprits: Vec::new(),
            spent: 0,
            has_failed: false,
            stage: Stage::Ends,
        })
    }

    /// The candidates of a group that may be the culprit: what is equal to one before it is not.
    pub fn members(&self, group: &Group) -> Vec<usize> {
        let all = Candidates::new(&self.question.candidates);
        let may_be = |candidate: &usize| all.as_ref().is_some_and(|all| all.prior()[*candidate] > 0.0);
        group.members().filter(may_be).collect()
    }

    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// How much worse the bad end is, once that is known.
    pub fn total(&self) -> Option<Shift> {
        self.total.or_else(|| Shift::of(&self.ends))
    }

    /// How much measurements are assumed to scatter, once that is known.
    pub fn spread(&self) -> Option<Spread> {
        self.spread
    }

    /// All visits but those of the ends.
    pub fn visits(&self) -> &[Visit] {
        &self.visits
    }

    /// Blocks that the search may take: those that were asked for, or ten for each halving of the candidates, and up to four times as many
    /// where the noise is large.
    pub fn budget(&self) -> usize {
        let halvings = halvings(self.candidates.suspects()).ceil().max(1.0);
        let noise = self.noise().unwrap_or(1.0).clamp(1.0, MOST_NOISE);
        self.question.budget.unwrap_or((10.0 * halvings * noise).ceil() as usize)
    }

    /// About how many blocks the search takes, by what is known of loss and noise.
    pub fn expected_blocks(&self) -> Option<f64> {
        Some((3.6 * halvings(self.candidates.suspects()) + 4.0) * self.noise()?)
    }

    /// How many times more blocks the search takes than where the loss is one and a half times the scatter of a block.
    fn noise(&self) -> Option<f64> {
        let (rest, spread) = (self.rest()?, self.spread?);
        let ratio = spread.block / rest.mean.abs().max(f64::MIN_POSITIVE);
        Some(2.25 * ratio * ratio)
    }

    /// What is believed of the part of the loss that is searched; `None` before both ends are known to differ.
    pub fn belief(&self) -> Option<Belief> {
        let (rest, spread) = (self.rest()?, self.spread?);
        let prior = Prior { loss: rest.mean, standard_error: rest.standard_error };
        Some(Belief::of(&self.candidates, &prior, &spread, &self.culprits, &self.visits))
    }

    /// The part of the loss that no culprit explains.
    fn rest(&self) -> Option<Shift> {
        Some(self.total?.without(self.culprits.iter().map(|culprit| &culprit.step)))
    }

    /// What to do next.
    pub fn next(&self) -> Next {
        let half = self.question.proof.div_ceil(VISITS);
        let last = self.candidates.last();
        let visit =
            |purpose, reference, candidate, blocks| Next::Visit(Probe { purpose, reference, candidate, blocks });
        match &self.stage {
            Stage::Ends => {
                // Up to the end of a look.
                let proof = self.question.proof;
                let open = proof - self.ends.len() % proof;
                visit(Purpose::Ends, 0, last, half.min(open))
            }
            Stage::Search => match self.belief().and_then(|belief| belief.next(&self.candidates)) {
                Some(candidate) => visit(Purpose::Search, 0, candidate, self.question.blocks),
                None => self.answer(End::NoEnd(last)),
            },
            Stage::Verify { suspect, losses } => {
                let open = self.question.proof.saturating_sub(losses.len());
                visit(Purpose::Verify, suspect.after, suspect.last, half.min(open))
            }
            Stage::Grid => match self.open_in_grid() {
                Some(candidate) => visit(Purpose::Grid, 0, candidate, self.question.blocks),
                None => self.answer(End::NonMonotone),
            },
            Stage::Over(end) => self.answer(end.clone()),
        }
    }

    fn answer(&self, end: End) -> Next {
        Next::Answer(Answer { culprits: self.culprits.clone(), end })
    }

    /// Adds what came of a visit. One that is not asked for counts for what it says, so that records decide, whatever asked for them.
    pub fn add(&mut self, probe: &Probe, came: Came) {
        let losses = match came {
            Came::Measured(losses) => losses,
            Came::Unusable(which) => return self.avoid(which),
        };
        if losses.is_empty() || probe.candidate > self.candidates.last() || probe.reference >= probe.candidate {
            return;
        }
        if self.stage == Stage::Ends {
            let before = self.ends.len();
            self.ends.extend(&losses);
            return self.look_at_ends(before);
        }
        let blocks = losses.len();
        let is_proof = match &mut self.stage {
            Stage::Verify { suspect, losses: own }
                if (probe.reference, probe.candidate) == (suspect.after, suspect.last) =>
            {
                own.extend(&losses);
                true
            }
            _ => false,
        };
        self.visits.push(Visit { reference: probe.reference, candidate: probe.candidate, losses: self.sized(&losses) });
        if !is_proof {
            self.spent += blocks;
        }
        self.consider();
    }

    /// Losses with a size for blocks whose run failed: a failure counts as the whole loss that is searched.
    fn sized(&self, losses: &[f64]) -> Vec<f64> {
        let total = self.total.map_or(self.question.margin, |total| total.mean.max(self.question.margin));
        losses.iter().map(|loss| if loss.abs() < WORST { *loss } else { total.copysign(*loss) }).collect()
    }

    fn avoid(&mut self, which: usize) {
        if which == 0 || which == self.candidates.last() {
            self.stage = Stage::Over(End::NoEnd(which));
            return;
        }
        self.candidates.avoid(which);
        if matches!(&self.stage, Stage::Verify { suspect, .. } if suspect.after == which || suspect.last == which) {
            self.stage = Stage::Search;
        }
        if self.stage == Stage::Search {
            self.consider();
        }
    }

    /// The exact test of both ends, at two looks that share its error.
    fn look_at_ends(&mut self, before: usize) {
        let proof = self.question.proof;
        let looks = [proof, 2 * proof];
        let Some(look) = looks.iter().position(|look| before < *look && *look <= self.ends.len()) else { return };
        let (allowance, share) = (self.question.margin / SESSIONS, look_weights(&looks, 1)[look]);
        if exceeds(&self.ends, allowance) <= ALPHA * share {
            self.total = Shift::of(&self.ends);
            self.spread = spread(&self.ends).map(|block| Spread { block, visit: allowance });
            self.stage = Stage::Search;
            return self.consider();
        }
        if is_below(&self.ends, self.question.margin / 2.0) <= REFUTED * share {
            self.stage = Stage::Over(End::NotReproduced(None));
        } else if look + 1 == looks.len() {
            self.stage = Stage::Over(End::Undecided);
        }
    }

    /// Decides where the search stands.
    fn consider(&mut self) {
        let (Some(belief), Some(spread)) = (self.belief(), self.spread) else { return };
        match &self.stage {
            Stage::Verify { losses, .. } if losses.len() < self.question.proof => return,
            Stage::Verify { suspect, losses } => {
                let (suspect, losses) = (*suspect, losses.clone());
                if exceeds(&losses, self.question.margin / SESSIONS) > ALPHA {
                    self.spent += losses.len();
                    self.has_failed = true;
                    self.stage = Stage::Search;
                    return self.consider();
                }
                let Some(step) = Shift::of(&losses) else { return };
                let probability = belief.first_bad[suspect.members()].iter().sum();
                return self.convict(Culprit { group: Group { probability, ..suspect }, step });
            }
            Stage::Search => {}
            Stage::Ends | Stage::Grid | Stage::Over(_) => return,
        }
        // Whom everything points at is put to the proof, but not for ever.
        let is_spent = self.spent >= self.budget();
        let suspect = belief.likeliest(&self.candidates).filter(|group| group.probability >= SURE);
        self.stage = if monotone(&self.visits, &spread) < CONTRADICTION {
            Stage::Grid
        } else if belief.none >= SURE {
            Stage::Over(End::NotReproduced(Some(belief.none)))
        } else if let Some(suspect) = suspect.filter(|_| !(is_spent && self.has_failed)) {
            Stage::Verify { suspect, losses: Vec::new() }
        } else if is_spent {
            let (likely, probability) = belief.likely(&self.candidates, LIKELY);
            Stage::Over(End::Unsure(likely, probability))
        } else {
            Stage::Search
        };
    }

    /// A culprit is confirmed. If it does not explain the loss, there is another one.
    fn convict(&mut self, culprit: Culprit) {
        let remains = self.candidates.clear(&culprit.group);
        self.culprits.push(culprit);
        let open = self.rest().is_some_and(|rest| rest.low() > self.question.margin / REST);
        self.stage = if open && remains { Stage::Search } else { Stage::Over(End::Found) };
        (self.spent, self.has_failed) = (0, false);
        self.consider();
    }

    /// The first candidate of the grid that has too few blocks.
    fn open_in_grid(&self) -> Option<usize> {
        let usable: Vec<usize> = self.candidates.usable().collect();
        let count = usable.len().min(GRID);
        let grid = (1..=count).map(|place| usable[place * usable.len() / count - 1]);
        let blocks = |candidate: usize| -> usize {
            let own = self.visits.iter().filter(|visit| (visit.reference, visit.candidate) == (0, candidate));
            own.map(|visit| visit.losses.len()).sum()
        };
        grid.filter(|candidate| blocks(*candidate) < GRID_BLOCKS).min()
    }
}

/// How often so many candidates can be halved.
fn halvings(suspects: usize) -> f64 {
    (suspects.max(1) as f64).log2()
}

#[cfg(test)]
mod tests;
