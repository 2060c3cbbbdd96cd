//! Experiments and sweeps on a cluster: the operator runs them, we ask for them and say what came of them.

pub mod bisect;
pub mod changes;
mod client;
mod errors;
mod fetch;
mod following;
pub mod nodes;
mod plan;
mod records;
pub mod run;
pub mod status;
pub mod sweeps;
mod words;

pub use client::{Cluster, ClusterArgs, on, readable};
pub use errors::Unreachable;
pub use fetch::outcome;
pub use words::{age, finished};
