//! RocksDB under a config: opening it, and proving which options it has.

mod attest;
mod open;
mod options_file;

pub use attest::{Attestor, options_answer};
pub use open::{Engine, EngineError, Family};

#[cfg(test)]
mod tests;
