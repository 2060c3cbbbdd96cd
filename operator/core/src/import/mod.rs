//! Results of any benchmark, held against the same rules as Assay's own.
//!
//! Rows become runs ([`Collector`]), runs are gated and judged ([`judge`]). Runs that come in blocks get the verdicts of any
//! experiment. Runs that do not can't have one: what they show is printed, and labelled as advisory.

mod advisory;
mod blocked;
mod collect;
mod columns;
mod comparison;
mod data;
pub mod db_bench;
mod draft;
mod flags;
mod gates;
mod html;
pub mod hyperfine;
mod markdown;
mod policy;
mod report;
mod sessions;
mod terminal;
mod words;

pub use collect::{Collector, Found};
pub use columns::{Columns, Meaning};
pub use data::{Data, DataProblem, Place, Sample};
pub use draft::draft;
pub use flags::{ColumnFlag, Flags, MetricFlag};
pub use html::html;
pub use markdown::markdown;
pub use policy::{Claim, Claimed, ConfigRule, Format, JudgedMetric, Policy, RunFile, ScenarioRule, SessionRule};
pub use report::{CellRuling, ClaimReport, ComparisonReport, ConfigRuling, ImportReport, Layout, Numbers};
pub use sessions::judge;
pub use terminal::terminal;
