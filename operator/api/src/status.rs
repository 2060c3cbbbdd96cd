use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// What became of an experiment so far. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TuningExperimentStatus {
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, Progressing, Suspended and Finished. Finished is True for every outcome that nothing will change any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::condition::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// What was fixed before the first trial. Absent until the options of all configs have been checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// The verdicts in a few words, such as Win, or 1 Win, 2 Neutral where there are several configs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub verdict: Option<String>,
    /// Trials that count, of those that are wanted, such as 12/16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub trials: Option<String>,
    /// How much of the plan is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressStatus>,
    /// The verdict of each config over all scenarios, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::CONFIGS - 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub verdicts: Vec<ConfigVerdict>,
    /// The verdict of each config in each scenario, in short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = (bounds::CONFIGS - 1) * bounds::SCENARIOS), extend("x-kubernetes-list-type" = "atomic"))]
    pub cells: Vec<CellVerdict>,
    /// Why nothing can be judged at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::EXPERIMENT_FINDINGS), extend("x-kubernetes-list-type" = "atomic"))]
    pub findings: Vec<FindingStatus>,
    /// Conditions that every verdict here carries, such as `NotIsolated`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub labels: Vec<LabelStatus>,
    /// Digest of the report that `assay judge` makes of the same trials, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub report_digest: Option<String>,
}

/// What was fixed before the first trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Digest of the plan, which every record names.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// Seed of the order of trials and of the workloads.
    pub seed: u64,
    /// Number of blocks over all scenarios.
    pub blocks: u32,
    /// Number of trials, reruns not counted.
    pub trials: u32,
    /// What made the plan, with its version. Another version may not be able to go on with it.
    #[schemars(length(max = 64))]
    pub produced_by: String,
    /// Image of the bench that configs without an image of their own run: to the end, whatever operator goes on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub bench_image: Option<String>,
}

/// How much of the plan is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressStatus {
    /// Blocks of which nothing is left to run.
    pub blocks_done: u32,
    /// Planned trials, reruns not counted.
    pub trials_planned: u32,
    /// Trials with a run that counts.
    pub trials_valid: u32,
    /// Planned trials that are not needed, because a look has decided their config.
    pub trials_freed: u32,
    /// Runs so far, reruns included.
    pub attempts: u32,
    /// Runs that a gate found invalid.
    pub attempts_invalid: u32,
    /// Runs that failed under their config: a fact about the config.
    pub attempts_failed: u32,
    /// Runs that were lost to the infrastructure: nobody's fault.
    pub attempts_lost: u32,
    /// When the experiment will be done, going by the runs so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_completion_time: Option<Time>,
}

/// The verdict of a config over all scenarios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigVerdict {
    /// Name of the config.
    #[schemars(length(max = 63))]
    pub config: String,
    /// One of Win, Reject, Neutral, Tradeoff, Inconclusive and Invalid.
    #[schemars(length(max = 32))]
    pub verdict: String,
    /// Why, in a word.
    #[schemars(length(max = bounds::REASON))]
    pub reason: String,
    /// The same in plain words.
    #[schemars(length(max = bounds::MESSAGE))]
    pub sentence: String,
    /// What to do next.
    #[schemars(length(max = bounds::ADVICE))]
    pub recommendation: String,
    /// Runs that ended.
    #[serde(default)]
    pub runs: u32,
    /// Of these runs, those that failed under the config.
    #[serde(default)]
    pub failed: u32,
    /// Conditions of this verdict alone, such as `SizeOpen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 32)), extend("x-kubernetes-list-type" = "atomic"))]
    pub labels: Vec<String>,
    /// Objectives first, then guardrails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2 * bounds::METRICS + 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub estimates: Vec<EstimateStatus>,
    /// What makes the config invalid as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FINDINGS), extend("x-kubernetes-list-type" = "atomic"))]
    pub findings: Vec<FindingStatus>,
}

/// The effect of a config on one metric. Positive is better, whichever way the metric counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EstimateStatus {
    /// Name of the metric.
    #[schemars(length(max = 63))]
    pub metric: String,
    /// The estimate as a decimal number: in percent of the baseline, or in points of a metric that is a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub percent: Option<String>,
    /// The effect on what all runs add up to, likewise, where they add up to something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub mean_percent: Option<String>,
    /// Lower end of the 95 % confidence interval, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub low_percent: Option<String>,
    /// Upper end of the 95 % confidence interval, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub high_percent: Option<String>,
    /// What is proven of the metric. Absent while the experiment is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub status: Option<String>,
    /// Blocks that count.
    pub blocks: u32,
}

/// The verdict of a config in one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellVerdict {
    /// Name of the scenario.
    #[schemars(length(max = 63))]
    pub scenario: String,
    /// Name of the config.
    #[schemars(length(max = 63))]
    pub config: String,
    /// One of Win, Reject, Neutral, Tradeoff, Inconclusive and Invalid.
    #[schemars(length(max = 32))]
    pub verdict: String,
    /// Why, in a word.
    #[schemars(length(max = bounds::CELL_REASON))]
    pub reason: String,
    /// Estimate and 95 % confidence interval of the first objective in percent, such as +12.3 [+10.1, +14.6].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 96))]
    pub estimate: Option<String>,
    /// Runs that failed under the config.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Something that a gate has found, with what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingStatus {
    /// Name of the finding, as docs/gates.md lists it.
    #[schemars(length(max = 64))]
    pub code: String,
    /// What was seen.
    #[schemars(length(max = bounds::MESSAGE))]
    pub message: String,
    /// What to do about it.
    #[schemars(length(max = bounds::ADVICE))]
    pub what_to_do: String,
}

/// A condition that every verdict carries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelStatus {
    /// Name of the condition.
    #[schemars(length(max = 64))]
    pub label: String,
    /// What it means here.
    #[schemars(length(max = bounds::MESSAGE))]
    pub text: String,
}
