//! Which of many candidates in a row was the first to be worse, found with few blocks: docs/statistics.md, "Bisection".
//!
//! Candidates are numbered from the good end, 0, to the bad end. A visit compares one of them with a reference, in blocks. All that is
//! known follows from the visits that were made, in their order, so what is next can be computed again from records alone.

mod belief;
mod candidates;
mod file;
mod monotone;
mod search;
mod visit;
mod written;

pub use belief::{Belief, Prior, Spread};
pub use candidates::{Candidate, Candidates, Group};
pub use file::{Listed, Listing, read as read_listing};
pub use search::{Answer, Bisection, Culprit, End, Next, PROOF, Question, QuestionError};
pub use visit::{Arm, Came, Observed, Probe, Purpose, Unvisited, Visit, observed, plan};
pub use written::{experiment, whole};
