//! The cluster commands against an API server that holds a few objects and misbehaves on demand.
// Helpers outside of test functions count as production code for this lint.
#![allow(clippy::unwrap_used)]

mod bisecting;
mod changing;
mod faults;
mod following;
#[path = "../run/lab.rs"]
#[allow(dead_code)]
mod lab;
mod objects;
#[path = "../support/record.rs"]
mod record;
mod refusing;
mod reporting;
mod server;
mod showing;
mod sweeping;
