//! What decides, without I/O and without a clock. Floor upon floor, each of which uses those below it only:
//!
//! - `adopt`: from what users have to an experiment,
//! - `sweep`: when nights are due, and what is remembered of them,
//! - `bisect`: which of many candidates was the first to be worse,
//! - `import`, `aa`, `status`, `cluster`, `node`: what else is done with verdicts and attempts,
//! - `judge`: from attempts to a report,
//! - `report`: what a report holds, and its texts,
//! - `decide`: what counts of all attempts, and what to run next,
//! - `gates`: which trials count,
//! - `validate`: from what a user wrote to an experiment,
//! - `plan`: which trial runs when,
//! - `experiment`: what has passed every check,
//! - `verdict`: from samples to verdicts,
//! - `stats`, `quantity`, `promql`, `attempt`: formulas, amounts of bytes, queries, one try of one trial.

pub mod aa;
pub mod adopt;
pub mod attempt;
pub mod bisect;
pub mod cluster;
pub mod decide;
pub mod experiment;
pub mod gates;
pub mod import;
pub mod judge;
pub mod node;
pub mod plan;
pub mod promql;
pub mod quantity;
pub mod report;
pub mod stats;
pub mod status;
pub mod sweep;
pub mod validate;
pub mod verdict;

/// What makes plans and reports, with its version.
pub const PRODUCED_BY: &str = concat!("assay ", env!("CARGO_PKG_VERSION"));
