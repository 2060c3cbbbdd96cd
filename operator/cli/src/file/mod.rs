//! The file of an experiment or a sweep: reading it, and everything that is checked of it.

mod check;
mod document;
mod listing;
mod node;
mod places;
mod problem;

pub use check::{Checked, Wanted, check, check_for_cluster, check_text};
pub use document::{Document, read};
pub use listing::{ListingFile, read_versions};
