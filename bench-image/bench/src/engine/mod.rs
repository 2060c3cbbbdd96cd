//! RocksDB under a config: opening it, calling it, reading its counters, and proving which options it has. Nobody else calls RocksDB,
//! and nothing here knows a workload.

mod answer;
mod attest;
mod background;
mod call_timer;
mod compression_clock;
mod counters;
mod declared;
mod drain;
mod error;
mod family;
mod floor;
mod needs;
mod open;
mod options_file;
mod properties;
mod rejected;
mod session;
mod spelling;

pub use answer::options_answer;
pub use attest::Attestor;
pub use background::logged_failure;
pub use call_timer::{CallParts, ONE_IN};
pub use compression_clock::CompressionClock;
pub use counters::Counters;
pub use declared::{Declared, only, without};
pub use error::{EngineError, Fault};
pub use family::{Family, Merge, Operands};
pub use floor::Floor;
pub use open::Engine;
pub use options_file::DB_SCOPE;
pub use properties::Properties;
pub use session::{Batch, Families, Session};

#[cfg(test)]
mod tests;
