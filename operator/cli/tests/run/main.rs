//! `assay run` against a bench that misbehaves on demand.
// Helpers outside of test functions count as production code for this lint.
#![allow(clippy::panic, clippy::unwrap_used)]

mod bisect;
mod broken;
mod elsewhere;
mod folders;
mod github;
mod judged;
mod killed;
mod lab;
mod looks;
mod nights;
mod quiet;
mod trace;
mod trials;
