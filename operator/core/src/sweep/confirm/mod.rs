//! Confirmations: fresh trials of a subject as it was before a suspected change and as it is now, in visits that are hours apart
//! ("Confirmation").
//!
//! A visit is an entry of the history like a night. What a confirmation says follows from its visits alone.

mod answer;
mod change;
mod explain;
mod pending;
mod spread;
mod trials;
mod visit;

pub use answer::{Answered, Confirmation};
pub use change::{Change, Stage, is_noisy};
pub use pending::{Pending, Promised, UNSUREST, pending, spent_since};
pub use trials::{Evidence, Unvisited, experiment, measured, visit_blocks};
pub use visit::{Asked, Asks, Visit, change, change_of_failures};

#[cfg(test)]
mod tests;
