//! RocksDB under a config: opening it, and proving which options it has.

mod answer;
mod attest;
mod floor;
mod needs;
mod open;
mod options_file;

pub use answer::options_answer;
pub use attest::Attestor;
pub use floor::Floor;
pub use open::{Engine, EngineError, Family, Merge};

#[cfg(test)]
mod tests;
