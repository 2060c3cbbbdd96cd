use std::collections::BTreeMap;

use assay_protocol::{PageCache, Workload};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{Placement, TuningExperimentStatus, bounds};

/// An experiment finds out whether changes of RocksDB's configuration really help. Every config runs on every
/// scenario in randomised blocks together with the baseline, and each config gets a verdict.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "assay.rocks",
    version = "v1alpha1",
    kind = "TuningExperiment",
    plural = "tuningexperiments",
    shortname = "tune",
    namespaced,
    derive = "PartialEq",
    doc = "An experiment finds out whether changes of RocksDB's configuration really help.",
    status = "TuningExperimentStatus",
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.verdict"),
    printcolumn(name = "Trials", type_ = "string", json_path = ".status.trials"),
    printcolumn(name = "Invalid", type_ = "integer", json_path = ".status.progress.attemptsInvalid"),
    printcolumn(name = "Finished", type_ = "string", json_path = ".status.conditions[?(@.type=='Finished')].reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("metadata.name must have at most 63 characters, because it becomes a label of pods")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.configs.exists(c, c.name == self.baseline)",
        "message": "baseline must name one of the configs",
        "fieldPath": ".baseline",
    },
    {
        "rule": "!has(self.guardrails) || self.guardrails.all(g, !self.objectives.exists(o, o.metric == g.metric))",
        "message": "a metric is either an objective or a guardrail",
        "fieldPath": ".guardrails",
    },
    {
        "rule": "self.scenarios.all(s, !has(s.dataset) || !has(s.dataset.from) || self.configs.exists(c, c.name == s.dataset.from))",
        "message": "dataset.from must name one of the configs",
        "fieldPath": ".scenarios",
    },
    {
        "rule": "self.seed == oldSelf.seed && self.baseline == oldSelf.baseline && self.configs == oldSelf.configs && self.scenarios == oldSelf.scenarios && self.repetitions == oldSelf.repetitions && self.stopOn == oldSelf.stopOn && self.futility == oldSelf.futility && self.cellsAdjust == oldSelf.cellsAdjust && self.objectives == oldSelf.objectives && self.guardrails == oldSelf.guardrails && self.defaultGuardrails == oldSelf.defaultGuardrails && self.placement == oldSelf.placement && self.maxBlockDurationSeconds == oldSelf.maxBlockDurationSeconds && (has(self.metrics) ? self.metrics : []) == (has(oldSelf.metrics) ? oldSelf.metrics : [])",
        "message": "spec is immutable but for suspend and ttlSecondsAfterFinished: another margin, objective or config is another experiment",
    },
]))]
pub struct TuningExperimentSpec {
    /// Seed of the order of trials and of the workloads. The same file with the same seed gives the same plan.
    #[serde(default)]
    // 2^53 - 1: exact in every reader of JSON.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub seed: u64,
    /// Name of the config that the others are compared with.
    #[schemars(length(min = 1, max = 63))]
    pub baseline: String,
    /// The baseline and the changes to it. Every other config starts from the baseline's options, so it names
    /// only what it changes.
    #[schemars(length(min = 2, max = bounds::CONFIGS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub configs: Vec<Config>,
    /// The workloads that every config runs on.
    #[schemars(length(min = 1, max = bounds::SCENARIOS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scenarios: Vec<Scenario>,
    /// Number of blocks of every scenario, at most. In each block every config runs once, next to the baseline. From 12 on
    /// there are looks in between, such as 12, 20 and 30: a config that is decided there is not run any more.
    #[schemars(range(min = 1, max = 1000))]
    pub repetitions: u32,
    /// What ends the trials of a config at a look. Overall is its verdict over all scenarios, Cells that and its verdict in
    /// every scenario. Never runs all repetitions and judges once.
    #[serde(default)]
    pub stop_on: StopOn,
    /// Stop ends the trials of a config, too, when a gain of the margin is ruled out. Continue goes on until it is known
    /// whether it does harm or makes no difference.
    #[serde(default)]
    pub futility: Futility,
    /// What bounds the verdicts per scenario. Holm is the chance of any false claim. `BenjaminiHochberg` is the expected share
    /// of false ones among the claims: it finds more, for exploring only.
    #[serde(default)]
    pub cells_adjust: CellsAdjust,
    /// The metrics that have to improve. One is enough for a Win, where none gets worse.
    #[schemars(length(min = 1, max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub objectives: Vec<JudgedMetric>,
    /// The metrics that must be proven not to get worse by more than their margin.
    #[serde(default)]
    #[schemars(length(max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub guardrails: Vec<JudgedMetric>,
    /// Keep adds the guardrail `drained_throughput`, so that putting compaction off is no win. It is left out
    /// where a scenario is paced, since a paced scenario has no throughput of its own.
    #[serde(default)]
    pub default_guardrails: DefaultGuardrails,
    /// Metrics that a Prometheus server knows and the bench does not, by queries over the measured window of each trial.
    /// Objectives and guardrails can name them. Only on a cluster whose operator was told of a Prometheus server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub metrics: Vec<QueriedMetric>,
    /// What a trial needs of the machine that it runs on.
    #[serde(default)]
    pub placement: Placement,
    /// True pauses the experiment on a cluster: the running trials end, and no other begins until it is false again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How long after the end of the experiment the pods stay that left no record, for somebody to look at. Where it is not
    /// set, they are removed as soon as their end is written down. Verdicts and records are never removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub ttl_seconds_after_finished: Option<u32>,
    /// A block that takes longer than this is not repaired by reruns of its trials, but redone.
    #[serde(default = "default_block_duration")]
    #[schemars(range(min = 60, max = 604_800))]
    pub max_block_duration_seconds: u32,
}

impl TuningExperimentSpec {
    /// The part that can't change, and that the plan is made of.
    #[must_use]
    pub fn fixed(&self) -> Self {
        Self { suspend: None, ttl_seconds_after_finished: None, ..self.clone() }
    }
}

fn default_block_duration() -> u32 {
    4 * 3600
}

/// A metric that a Prometheus server is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueriedMetric {
    /// Name in objectives, guardrails and reports. No metric of the bench has it.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z][a-z0-9_]*$"))]
    pub name: String,
    /// A query in `PromQL` that gives one number. $window stands for the length of the measured window at whose end it is
    /// evaluated, and every range is written [$window]; $node, $pod and $namespace stand for where the trial ran. A trial in
    /// whose window a series has fewer than two samples lacks the metric.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"\[\$window\]"))]
    pub query: String,
    /// Which way is better.
    pub better: Better,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Better {
    Lower,
    Higher,
}

/// What must be decided before a config needs no more trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopOn {
    #[default]
    Overall,
    Cells,
    Never,
}

/// What happens to a config without the gain that is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Futility {
    #[default]
    Stop,
    Continue,
}

/// How the claims about single scenarios share their error.
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

/// A configuration of RocksDB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Name in plans, records and verdicts.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Options of the whole database, by RocksDB's own names and in its own value syntax.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 128))]
    pub db_options: BTreeMap<String, OptionValue>,
    /// Options of column families, by RocksDB's own names and in its own value syntax. Where two entries match
    /// a family, the later one wins; of a struct such as `block_based_table_factory` it changes only the keys that it names.
    #[serde(default)]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub column_families: Vec<FamilyOptionsSpec>,
    /// The cache of uncompressed blocks. RocksDB's default, 32 MiB for each column family, where it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_cache: Option<BlockCacheSpec>,
    /// How writes are made, by RocksDB's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_options: Option<WriteOptionsSpec>,
    /// Behaviour of the workload that is part of the change, by the keys that the workload declares.
    #[serde(default)]
    #[schemars(schema_with = "policy_schema")]
    pub policy: BTreeMap<String, String>,
    /// Image of the bench that this config runs: a declared difference in code. All other configs run the
    /// bench of the installation. Locally, `assay run --bench NAME=PATH` says which program plays it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
}

fn policy_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 256},
    })
}

/// The value of an option: an integer, or a string in RocksDB's syntax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    Integer(i64),
    Text(String),
}

impl OptionValue {
    pub fn to_rocksdb(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Text(value) => value.clone(),
        }
    }
}

impl JsonSchema for OptionValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OptionValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "maxLength": 4096,
        })
    }
}

/// Options for the column families that a name or glob matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FamilyOptionsSpec {
    /// Names of column families, or globs such as `*_trie_nodes`. A glob that matches nothing is an error.
    #[schemars(length(min = 1, max = 32), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub r#match: Vec<String>,
    /// Options by RocksDB's own names and in its own value syntax.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 128))]
    pub options: BTreeMap<String, OptionValue>,
}

/// The cache of uncompressed blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockCacheSpec {
    /// Capacity as a quantity, such as 512Mi, or a number of bytes.
    #[schemars(schema_with = "crate::placement::quantity_schema")]
    pub size: Quantity,
    /// Shared is one cache of this size for all column families, Private is one for each.
    #[serde(default)]
    pub sharing: CacheSharing,
}

/// Who uses a block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CacheSharing {
    #[default]
    Shared,
    Private,
}

/// How writes are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteOptionsSpec {
    /// Every write waits until the write-ahead log is on the device.
    #[serde(default)]
    pub sync: bool,
    /// Writes skip the write-ahead log.
    #[serde(default, rename = "disableWAL")]
    pub disable_wal: bool,
}

/// A workload with fixed size, seed and pacing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Name in plans, records and verdicts.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Share in the overall verdict, relative to the other scenarios.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// What RocksDB is made to do. Exactly one workload is set.
    pub workload: Workload,
    /// What the page cache of the operating system holds before the warm-up.
    #[serde(default)]
    pub page_cache: PageCache,
    /// Where the data come from that a trial starts with.
    #[serde(default)]
    pub dataset: DatasetSource,
    /// A trial has failed under its config if settling, its work or draining takes longer.
    #[serde(default = "default_deadline")]
    #[schemars(range(min = 1, max = 604_800))]
    pub deadline_seconds: u32,
}

fn default_deadline() -> u32 {
    3600
}

/// Where the data come from that a trial starts with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatasetSource {
    /// Name of the config whose format all trials find, which makes this a migration experiment: existing data
    /// of one format, opened under another. Without it every config finds data in its own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub from: Option<String>,
}

/// A metric with the margin that matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JudgedMetric {
    /// Name of the metric, such as `throughput` or `step_latency_p99`.
    #[schemars(length(min = 1, max = 63))]
    pub metric: String,
    /// The smallest difference that matters, such as 2%: on `stall_fraction` in points of the window, else in
    /// percent of the baseline. Each metric has a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub margin: Option<String>,
    /// Objectives only: the gain that a Win proves, such as 3%. Without it a Win proves that there is one, of any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub at_least: Option<String>,
    /// The most that a Win may lose in a single scenario. The margin for objectives, twice the margin for guardrails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub scenario_margin: Option<String>,
}

fn one() -> u32 {
    1
}
