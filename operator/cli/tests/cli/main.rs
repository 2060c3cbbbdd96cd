//! The command line as its users see it: `validate`, `plan` and `crd`, and the documentation that tells of it.

mod adopt;
mod check;
mod common;
mod crd;
mod docs;
mod examples;
mod reference;
