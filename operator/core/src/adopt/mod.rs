//! From what users have to an experiment: the OPTIONS file of a database, its folder, a command line of `db_bench`, or answers to a
//! few questions. Everything becomes a [`Draft`], which says in comments what it leaves to its user and what could not be carried over.

mod answers;
mod baseline;
mod database;
mod db_bench;
mod defaults;
mod draft;
mod info_log;
mod options_file;
mod scale;

pub use answers::Answers;
pub use baseline::{Baseline, Difference};
pub use database::{Database, Import, from_options};
pub use db_bench::{BENCHMARKS, from_command};
pub use defaults::{BUNDLED, Scope};
pub use draft::{Change, Draft};
pub use info_log::InfoLog;
pub use options_file::{Malformed, OptionsFile, parse as parse_options};
pub use scale::{Data, Machine};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
