//! What a verdict is seen beside: earlier looks, single nodes, and the order of runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;
pub use crate::verdict::{OrderCheck, OrderEffect};

/// The effect of a config on one metric in the blocks of one node. Positive is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeEstimate {
    pub node: String,
    pub metric: String,
    /// Blocks that count.
    pub blocks: usize,
    /// On the metric's scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
    /// Log scale only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_percent: Option<f64>,
}

/// A judgement during the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LookReport {
    pub blocks: u32,
    /// In the order of the report's configs.
    pub configs: Vec<LookConfig>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LookConfig {
    pub config: String,
    pub verdict: Verdict,
    pub reason: String,
    /// It needs no more runs.
    pub stopped: bool,
}
