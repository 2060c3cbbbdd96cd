use assay_protocol::{PageCache, Workload};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Config, Matrix, Placement, TuningExperimentStatus, bounds};

/// An experiment tests whether changes to RocksDB's configuration really help. Every config runs every scenario
/// in randomised blocks together with the baseline, and each config gets a verdict.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "assay.rocks",
    version = "v1alpha1",
    kind = "TuningExperiment",
    plural = "tuningexperiments",
    shortname = "tune",
    namespaced,
    derive = "PartialEq",
    doc = "An experiment tests whether changes to RocksDB's configuration really help.",
    status = "TuningExperimentStatus",
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.verdict"),
    printcolumn(name = "Trials", type_ = "string", json_path = ".status.trials"),
    printcolumn(name = "Invalid", type_ = "integer", json_path = ".status.progress.attemptsInvalid"),
    printcolumn(name = "Finished", type_ = "string", json_path = ".status.conditions[?(@.type=='Finished')].reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("metadata.name must have at most 63 characters, because it becomes a pod label")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.configs.exists(c, c.name == self.baseline)",
        "message": "baseline must name one of the configs",
        "fieldPath": ".baseline",
    },
    {
        "rule": "has(self.matrix) || self.configs.size() >= 2",
        "message": "configs needs the baseline and a config to compare with it, or a matrix",
        "fieldPath": ".configs",
    },
    {
        "rule": "!has(self.guardrails) || self.guardrails.all(g, !self.objectives.exists(o, o.metric == g.metric))",
        "message": "a metric can't be both an objective and a guardrail",
        "fieldPath": ".guardrails",
    },
    {
        "rule": "self.scenarios.all(s, !has(s.dataset) || !has(s.dataset.from) || self.configs.exists(c, c.name == s.dataset.from))",
        "message": "dataset.from must name one of the configs",
        "fieldPath": ".scenarios",
    },
    {
        "rule": "self.seed == oldSelf.seed && self.baseline == oldSelf.baseline && self.configs == oldSelf.configs && self.scenarios == oldSelf.scenarios && self.repetitions == oldSelf.repetitions && self.stopOn == oldSelf.stopOn && self.futility == oldSelf.futility && self.cellsAdjust == oldSelf.cellsAdjust && self.objectives == oldSelf.objectives && self.guardrails == oldSelf.guardrails && self.defaultGuardrails == oldSelf.defaultGuardrails && self.placement == oldSelf.placement && self.maxBlockDurationSeconds == oldSelf.maxBlockDurationSeconds && (has(self.metrics) ? self.metrics : []) == (has(oldSelf.metrics) ? oldSelf.metrics : []) && has(self.matrix) == has(oldSelf.matrix) && (!has(self.matrix) || self.matrix == oldSelf.matrix) && has(self.maxWaitSeconds) == has(oldSelf.maxWaitSeconds) && (!has(self.maxWaitSeconds) || self.maxWaitSeconds == oldSelf.maxWaitSeconds)",
        "message": "spec is immutable except for suspend, ttlSecondsAfterFinished and failedPodRetentionSeconds: for another margin, objective or config, create a new experiment",
    },
    {
        // Two lists of the type map are equal in any order.
        "rule": "self.configs.map(one, one.name) == oldSelf.configs.map(one, one.name) && self.scenarios.map(one, one.name) == oldSelf.scenarios.map(one, one.name) && self.objectives.map(one, one.metric) == oldSelf.objectives.map(one, one.metric) && self.guardrails.map(one, one.metric) == oldSelf.guardrails.map(one, one.metric) && self.scenarios.map(one, has(one.workload.keyValue) ? one.workload.keyValue.roles.map(role, role.name) : []) == oldSelf.scenarios.map(one, has(one.workload.keyValue) ? one.workload.keyValue.roles.map(role, role.name) : []) && (!has(self.matrix) || !has(oldSelf.matrix) || self.matrix.axes.map(one, one.name) == oldSelf.matrix.axes.map(one, one.name))",
        "message": "configs, axes, scenarios, roles, objectives and guardrails keep their order: trials were planned in it",
    },
]))]
pub struct TuningExperimentSpec {
    /// Seed for the order of trials and for the workloads. The same file with the same seed gives the same plan.
    #[serde(default)]
    // 2^53 - 1: exact in every reader of JSON.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub seed: u64,
    /// Name of the config to compare against.
    #[schemars(length(min = 1, max = 63))]
    pub baseline: String,
    /// The baseline and the configs to compare with it. Every other config starts from the baseline's options, so it
    /// lists only what it changes. With a matrix, the baseline alone is enough.
    #[schemars(length(min = 1, max = bounds::CONFIGS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub configs: Vec<Config>,
    /// More configs to compare with the baseline, one for each combination of the values of several axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// The workloads that every config runs.
    #[schemars(length(min = 1, max = bounds::SCENARIOS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scenarios: Vec<Scenario>,
    /// Maximum number of blocks per scenario. In each block, every config runs once, next to the baseline. From 12
    /// on, results are also judged early, at looks such as 12, 20 and 30 blocks. A config that is decided at a look
    /// stops running.
    #[schemars(range(min = 1, max = 1000))]
    pub repetitions: u32,
    /// When a look ends the trials of a config. Overall: once its verdict over all scenarios is decided. Cells: once
    /// its verdict in every scenario is decided, too. Never: all repetitions run and are judged once.
    #[serde(default)]
    pub stop_on: StopOn,
    /// Continue runs the trials of a config until it is known whether it does harm or makes no difference. Stop ends
    /// them, too, when a gain of the margin is ruled out and harm could have been proven.
    #[serde(default)]
    pub futility: Futility,
    /// How errors in the verdicts per scenario are limited. Holm limits the chance of any false claim. `BenjaminiHochberg`
    /// limits the expected share of false claims: it finds more, but is for exploration only.
    #[serde(default)]
    pub cells_adjust: CellsAdjust,
    /// The metrics that have to improve. One is enough for a Win if none gets worse.
    #[schemars(length(min = 1, max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub objectives: Vec<JudgedMetric>,
    /// The metrics that must be proven not to get worse by more than their margin.
    #[serde(default)]
    #[schemars(length(max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub guardrails: Vec<JudgedMetric>,
    /// Keep adds the guardrail `drained_throughput`, so that postponing compaction is not a Win. In a paced
    /// scenario it compares the time to drain, as a share of the window. It is left out if no scenario writes.
    /// If all objectives are latencies, Keep also adds the guardrail `throughput`, so that doing less is not a Win.
    #[serde(default)]
    pub default_guardrails: DefaultGuardrails,
    /// Metrics that the bench does not have, queried from a Prometheus server over the measured window of each trial.
    /// Objectives and guardrails can name them. Only on a cluster whose operator is set up with a Prometheus server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub metrics: Vec<QueriedMetric>,
    /// What a trial needs from its machine.
    #[serde(default)]
    pub placement: Placement,
    /// True pauses the experiment on a cluster: running trials finish, and no new ones start until it is false again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How long after its end the experiment is deleted, with its verdict, trials, records and pods. If not set, the
    /// operator's default: never, unless its administrator says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub ttl_seconds_after_finished: Option<u32>,
    /// How long pods without a record are kept for inspection after the experiment ends. If not set, the operator's
    /// default: they are removed as soon as their outcome is saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub failed_pod_retention_seconds: Option<u32>,
    /// A block that takes longer than this is run again as a whole; single trials are no longer rerun.
    #[serde(default = "default_block_duration")]
    #[schemars(range(min = 60, max = 604_800))]
    pub max_block_duration_seconds: u32,
    /// For how long attempts are made while none is valid, with longer and longer pauses. Then the experiment is Invalid. If not set, 24 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub max_wait_seconds: Option<u32>,
}

impl TuningExperimentSpec {
    /// The part that can't change, and that the plan is made of.
    #[must_use]
    pub fn fixed(&self) -> Self {
        Self { suspend: None, ttl_seconds_after_finished: None, failed_pod_retention_seconds: None, ..self.clone() }
    }
}

pub(crate) fn default_block_duration() -> u32 {
    4 * 3600
}

/// A metric queried from a Prometheus server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueriedMetric {
    /// Name in objectives, guardrails and reports. It can't be the name of a bench metric.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z][a-z0-9_]*$"))]
    pub name: String,
    /// A `PromQL` query that returns one number. It is evaluated at the end of the measured window. $window is the
    /// length of the window, and every range must be [$window]. $node, $pod and $namespace are where the trial ran.
    /// If a series has fewer than two samples in the window, the trial has no value for the metric.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"\[\$window\]"))]
    pub query: String,
    /// Whether lower or higher values are better.
    pub better: Better,
}

/// Whether lower or higher values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Better {
    Lower,
    Higher,
}

/// What must be decided before the trials of a config end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopOn {
    #[default]
    Overall,
    Cells,
    Never,
}

/// What happens to a config that can't gain the margin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Futility {
    Stop,
    #[default]
    Continue,
}

/// How errors in the claims about single scenarios are limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CellsAdjust {
    #[default]
    Holm,
    BenjaminiHochberg,
}

/// Whether the default guardrails apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DefaultGuardrails {
    #[default]
    Keep,
    Remove,
}

/// A workload with a fixed size, seed and pace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Name in plans, records and verdicts.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Weight in the overall verdict, relative to the other scenarios.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// What to run on RocksDB. Set exactly one workload.
    pub workload: Workload,
    /// State of the operating system's page cache before the warm-up.
    #[serde(default)]
    pub page_cache: PageCache,
    /// Where a trial's initial data comes from.
    #[serde(default)]
    pub dataset: DatasetSource,
    /// A trial fails under its config if settling, its work or draining takes longer than this.
    #[serde(default = "default_deadline")]
    #[schemars(range(min = 1, max = 604_800))]
    pub deadline_seconds: u32,
}

fn default_deadline() -> u32 {
    3600
}

/// Where a trial's initial data comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatasetSource {
    /// Name of a config. If set, all trials start with data in its format. This makes a migration experiment: existing
    /// data in one format is opened under another. If not set, every config starts with data in its own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub from: Option<String>,
}

/// A metric and the margin that matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JudgedMetric {
    /// Name of the metric, such as `throughput` or `step_latency_p99`.
    #[schemars(length(min = 1, max = 63))]
    pub metric: String,
    /// The smallest difference that matters, such as 2%. It is in percent of the baseline; for `stall_fraction`, in
    /// percentage points of the window. Each metric has a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub margin: Option<String>,
    /// Objectives only: the gain that a Win must prove, such as 3%. If not set, a gain of any size is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub at_least: Option<String>,
    /// The most that a Win may lose in a single scenario. If not set, the margin for objectives and twice the margin
    /// for guardrails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub scenario_margin: Option<String>,
}

fn one() -> u32 {
    1
}
