//! What brought a confirmed change: a bisection over the versions between the last good one and the first bad one, in visits that are
//! entries of the history ("Bisection").
//!
//! As with a confirmation, all that is known of a search follows from its visits. The first one lists the candidates.

mod finding;
mod list;
mod pending;
mod search;
mod sought;

pub use finding::{Finding, Found};
pub use list::{read as read_candidates, with as with_candidate};
pub use pending::{pending, unlisted};
pub use search::Search;
pub use sought::{Sought, Unlisted};

#[cfg(test)]
mod tests;
