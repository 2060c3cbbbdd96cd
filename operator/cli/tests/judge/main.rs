//! `assay judge` as its users see it.

mod bad_input;
mod common;
mod first_hour;
mod formats;
mod outputs;
