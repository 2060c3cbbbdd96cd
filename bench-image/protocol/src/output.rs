//! What a bench says to its executor: lines on standard output, and the page with its metrics.
//!
//! A line that is none of these is for people. What is here in two directions, a bench writes with one function and an
//! executor reads with the other.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::json;

/// A longer line is no progress.
pub const MAX_PROGRESS_BYTES: u64 = 64 << 10;

/// Lines at the end of a pod's log among which its record, its answer or its last words are.
pub const LAST_LINES: u16 = 20;
/// What is read of them at most: an operator reads many logs, and has to hold each in memory.
pub const MAX_LOG_BYTES: u64 = 16 << 20;

/// The path of the page with metrics.
pub const METRICS_PATH: &str = "/metrics";
/// Metrics of a trial by `role`, warm-up included.
pub const STEPS_DONE: &str = "assay_trial_steps_done";
pub const STEPS_PLANNED: &str = "assay_trial_steps_planned";
/// The histogram of measured steps by `role`.
pub const STEP_LATENCY: &str = "assay_trial_step_latency_seconds";

/// How far a phase of a trial is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// A word for people.
    pub phase: String,
    #[serde(default)]
    pub done: u64,
    #[serde(default)]
    pub total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_per_second: Option<f64>,
}

impl Progress {
    /// The line that says it.
    pub fn line(&self) -> String {
        json!({"progress": self}).to_string()
    }

    pub fn from_line(line: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line {
            progress: Progress,
        }
        Some(serde_json::from_str::<Line>(line).ok()?.progress)
    }
}

/// The line that says where metrics are served, for those who asked for any free port.
pub fn metrics_line(address: SocketAddr) -> String {
    json!({"metrics": address}).to_string()
}

pub fn metrics_address(line: &str) -> Option<SocketAddr> {
    #[derive(Deserialize)]
    struct Line {
        metrics: SocketAddr,
    }
    Some(serde_json::from_str::<Line>(line).ok()?.metrics)
}

/// What stands before and after a record in its line.
const FRAME: (&str, &str) = ("{\"record\":", "}");

/// The line that holds a record. Its bytes stay as they are: the summary has their digest.
pub fn record_line(json: &[u8]) -> Vec<u8> {
    [FRAME.0.as_bytes(), json, FRAME.1.as_bytes()].concat()
}

/// The last record in a log.
pub fn record_in(log: &str) -> Option<&str> {
    log.lines().rev().find_map(|line| line.trim_end().strip_prefix(FRAME.0)?.strip_suffix(FRAME.1))
}

/// The share of its steps that a bench has done, all roles together; `None` where its page does not tell.
pub fn share_done(page: &str) -> Option<f64> {
    let sum = |name: &str| -> f64 {
        let lines = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let planned = sum(STEPS_PLANNED);
    (planned > 0.0).then(|| (sum(STEPS_DONE) / planned).min(1.0))
}
