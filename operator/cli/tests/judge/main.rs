//! `assay judge` as its users see it.

mod bad_input;
mod common;
mod formats;
mod outputs;
