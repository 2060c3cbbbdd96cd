use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// State of an experiment. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TuningExperimentStatus {
    /// Generation of the spec that this status describes; -1 if no operator has seen the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, Progressing, Suspended, Finished and Ready. Finished and Ready are True once the outcome is final. Stalled if it can't run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::condition::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// What was fixed before the first trial. Absent until the options of all configs have been checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// The verdicts in brief, such as Win, or 1 Win, 2 Neutral for several configs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub verdict: Option<String>,
    /// Valid trials out of those needed, such as 12/16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub trials: Option<String>,
    /// How much of the plan is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressStatus>,
    /// The verdict of each config over all scenarios, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::CONFIGS - 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub verdicts: Vec<ConfigVerdict>,
    /// The verdict of each config in each scenario, in brief.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = (bounds::CONFIGS - 1) * bounds::SCENARIOS), extend("x-kubernetes-list-type" = "atomic"))]
    pub cells: Vec<CellVerdict>,
    /// Why nothing can be judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::EXPERIMENT_FINDINGS), extend("x-kubernetes-list-type" = "atomic"))]
    pub findings: Vec<FindingStatus>,
    /// Conditions that apply to every verdict of the experiment, such as `NotIsolated`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub labels: Vec<LabelStatus>,
    /// Digest of the JSON report that `assay judge` makes from the same trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub report_digest: Option<String>,
}

/// What was fixed before the first trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Digest of the plan. Every record names it.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// Seed for the order of trials and for the workloads.
    pub seed: u64,
    /// Number of blocks in all scenarios.
    pub blocks: u32,
    /// Number of trials, not counting reruns.
    pub trials: u32,
    /// Program that made the plan, with its version. Another version may not be able to continue it.
    #[schemars(length(max = 64))]
    pub produced_by: String,
    /// Version of the rules of verdicts that the experiment started with. The operator judges by its own version; the condition Accepted
    /// names both if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<u32>,
    /// Bench image for configs that don't set their own. It never changes, even if another operator version takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub bench_image: Option<String>,
}

/// How much of the plan is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressStatus {
    /// Blocks with nothing left to run.
    pub blocks_done: u32,
    /// Planned trials, not counting reruns.
    pub trials_planned: u32,
    /// Trials with a valid run.
    pub trials_valid: u32,
    /// Planned trials that are no longer needed because a look has decided their config.
    pub trials_freed: u32,
    /// Runs so far, including reruns.
    pub attempts: u32,
    /// Runs that a gate found invalid.
    pub attempts_invalid: u32,
    /// Runs that failed under their config. They count as results of the config.
    pub attempts_failed: u32,
    /// Runs lost to the infrastructure. They are not held against the config.
    pub attempts_lost: u32,
    /// When the experiment is expected to finish, estimated from the runs so far.
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
    /// The verdict in plain English.
    #[schemars(length(max = bounds::MESSAGE))]
    pub sentence: String,
    /// What to do next.
    #[schemars(length(max = bounds::ADVICE))]
    pub recommendation: String,
    /// Runs that have finished.
    #[serde(default)]
    pub runs: u32,
    /// Finished runs that failed under the config.
    #[serde(default)]
    pub failed: u32,
    /// Conditions that apply to this verdict only, such as `SizeOpen`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 32)), extend("x-kubernetes-list-type" = "atomic"))]
    pub labels: Vec<String>,
    /// Objectives first, then guardrails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2 * bounds::METRICS + 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub estimates: Vec<EstimateStatus>,
    /// What makes the config as a whole invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FINDINGS), extend("x-kubernetes-list-type" = "atomic"))]
    pub findings: Vec<FindingStatus>,
    /// Metrics that the experiment does not judge and that moved a lot, worst first. Advice only: no verdict depends on
    /// it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = bounds::NOT_JUDGED),
        inner(length(max = bounds::NOT_JUDGED_TEXT)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub not_judged: Vec<String>,
}

/// The effect of a config on one metric. Positive is always better, also for metrics where lower is better.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EstimateStatus {
    /// Name of the metric.
    #[schemars(length(max = 63))]
    pub metric: String,
    /// The estimate as a decimal number, in percent of the baseline, or in percentage points if the metric is a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub percent: Option<String>,
    /// The effect on the total of all runs, in the same unit. Absent if the metric has no total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub mean_percent: Option<String>,
    /// Lower end of the 95 % confidence interval, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub low_percent: Option<String>,
    /// Upper end of the 95 % confidence interval, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NUMBER))]
    pub high_percent: Option<String>,
    /// What is proven about the metric. Absent while the experiment is incomplete.
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

/// Something a gate found, and what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingStatus {
    /// Name of the finding, as listed in docs/gates.md.
    #[schemars(length(max = 64))]
    pub code: String,
    /// What was seen.
    #[schemars(length(max = bounds::MESSAGE))]
    pub message: String,
    /// What to do about it.
    #[schemars(length(max = bounds::ADVICE))]
    pub what_to_do: String,
}

/// A condition that applies to every verdict.
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
