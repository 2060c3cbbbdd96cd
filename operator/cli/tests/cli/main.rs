//! The command line as its users see it: `validate`, `plan` and `crd`.

mod check;
mod common;
mod crd;
mod examples;
