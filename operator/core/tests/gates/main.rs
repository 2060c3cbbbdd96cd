//! Every gate on real records: as they are nothing is found, and with one thing broken exactly that is.

#![allow(clippy::unwrap_used, clippy::panic)]

mod docs;
mod every_code;
mod lab;
