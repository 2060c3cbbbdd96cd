//! What was found out about imported runs, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::Claimed;
use crate::gates::Finding;
use crate::report::Ruling;
use crate::verdict::{MetricRule, Verdict};

/// The version of reports that this crate writes.
pub const VERSION: u32 = 1;

/// The outcome of judging somebody's data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportReport {
    pub version: u32,
    /// Version of the rules that verdicts follow from.
    pub rules: u32,
    /// What judged, with its version.
    pub produced_by: String,
    pub title: String,
    pub metrics: Vec<MetricRule>,
    /// One for each session and baseline.
    pub comparisons: Vec<ComparisonReport>,
    /// In the order of the policy.
    pub claims: Vec<ClaimReport>,
    pub notes: Vec<String>,
}

/// How the runs were laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Layout {
    Blocked,
    Unblocked,
}

/// Everything that was held against one baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComparisonReport {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub baseline: String,
    pub design: Layout,
    pub scenarios: Vec<String>,
    /// 0 for unblocked runs.
    pub blocks: usize,
    pub baseline_replicates: usize,
    /// Fewest blocks that can prove a gain overall.
    pub fewest_blocks: usize,
    pub configs: Vec<ConfigRuling>,
    /// Scenario by scenario, one per config.
    pub cells: Vec<CellRuling>,
    pub notes: Vec<String>,
    /// What the verdicts promise.
    pub guarantees: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigRuling {
    pub config: String,
    #[serde(flatten)]
    pub ruling: Ruling,
    /// Runs that ended, over all scenarios, and those among them that failed.
    pub runs: u32,
    pub failed: u32,
    /// What makes it invalid.
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellRuling {
    pub scenario: String,
    pub config: String,
    #[serde(flatten)]
    pub ruling: Ruling,
    /// Runs that ended, and those among them that failed.
    pub runs: u32,
    pub failed: u32,
    /// The same of the baseline, in the same blocks where there are blocks.
    pub baseline_runs: u32,
    pub baseline_failed: u32,
    /// Metric by metric.
    pub numbers: Vec<Numbers>,
}

/// What the runs themselves say about one metric, whatever may be concluded from it. Positive is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Numbers {
    pub metric: String,
    /// Runs with a value.
    pub config_runs: usize,
    pub baseline_runs: usize,
    /// Runs that failed: p takes them for the worst, and no other number has them.
    pub config_failed: u32,
    pub baseline_failed: u32,
    /// The ratio of the means in percent, log scale only. Positive is better: for a time it is the gain in speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means_percent: Option<f64>,
    /// Hodges-Lehmann: a log ratio, or a difference on a linear scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// Some runs have a zero: it ranks as the best or the worst, but has no ratio to the others, so there is no shift.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_zeros: bool,
    /// Two-sided: exact rank sums for unblocked runs, the test of the verdict for blocked ones.
    pub p: f64,
    /// Corrected for all comparisons that were made (Holm).
    pub p_adjusted: f64,
    /// The smallest p that so few runs can have.
    pub smallest_p: f64,
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimReport {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub config: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    pub claimed: Claimed,
    /// Absent where no runs were published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported: Option<Verdict>,
    pub reason: String,
    /// In one scenario only: over several there is no single number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
}

impl ImportReport {
    /// 10 where a config must not be taken over, 11 where an answer is missing, else 0.
    pub fn exit_code(&self) -> u8 {
        let verdicts = || self.comparisons.iter().flat_map(|c| &c.configs).map(|config| config.ruling.verdict);
        if verdicts().any(|verdict| matches!(verdict, Verdict::Reject | Verdict::Tradeoff)) {
            10
        } else if verdicts().any(|verdict| matches!(verdict, Verdict::Invalid | Verdict::Inconclusive)) {
            11
        } else {
            0
        }
    }

    /// The report as JSON, with a line break at its end.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

impl ClaimReport {
    /// Whether the runs say what was claimed.
    pub fn holds(&self) -> bool {
        let claimed = match self.claimed {
            Claimed::Win => Verdict::Win,
            Claimed::Neutral => Verdict::Neutral,
            Claimed::Reject => Verdict::Reject,
            Claimed::Tradeoff => Verdict::Tradeoff,
        };
        self.supported == Some(claimed)
    }
}
