//! Whether series of a sweep have moved: what is suspected, since when, and why ("Detection").
//!
//! Pure and deterministic: nights in, findings out. Whatever is said can be said again from the nights alone.

mod course;
mod detector;
mod promise;
mod watch;

pub use course::{Answer, Cause, Course, Decision, Measured, Regression, Sum, Suspicion, Threshold};
pub use detector::{Candidate, Detector, Evidence, Value};
pub use promise::{Delay, Movement, Promise, delay};
pub use watch::{WATCHFUL, Watch, Watched, budget_spent};

#[cfg(test)]
mod tests;
