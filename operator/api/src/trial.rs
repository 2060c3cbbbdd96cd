use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{FindingStatus, bounds};

/// One trial of an experiment: one run of one config in one block, with all its attempts. The operator creates it.
#[expect(clippy::duplicated_attributes, reason = "columns of one type are no duplicates")]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "assay.rocks",
    version = "v1alpha1",
    kind = "TuningTrial",
    plural = "tuningtrials",
    namespaced,
    derive = "PartialEq",
    doc = "One trial of an experiment: one run of one config in one block, with all its attempts. The operator creates it.",
    status = "TuningTrialStatus",
    printcolumn(name = "Experiment", type_ = "string", json_path = ".spec.experiment"),
    printcolumn(name = "Scenario", type_ = "string", json_path = ".spec.scenario"),
    printcolumn(name = "Block", type_ = "integer", json_path = ".spec.block"),
    printcolumn(name = "Config", type_ = "string", json_path = ".spec.config"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[?(@.type=='Finished')].reason"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TuningTrialSpec {
    /// Name of the experiment.
    #[schemars(length(max = 63))]
    pub experiment: String,
    /// Digest of the plan that the trial belongs to.
    #[schemars(length(max = 64))]
    pub plan: String,
    /// Name of the scenario.
    #[schemars(length(max = 63))]
    pub scenario: String,
    /// Number of the block within its scenario, from 0.
    pub block: u32,
    /// Name of the config.
    #[schemars(length(max = 63))]
    pub config: String,
    /// Which of the baseline's runs in the block this is; 0 for other configs.
    pub replicate: u32,
    /// Position in the block's order, from 0.
    pub order: u32,
    /// Seed for the operations, the same for all trials of the block.
    pub seed: u64,
    /// Name of the node that the block runs on. It changes only if the block is restarted on another node.
    #[schemars(length(max = 253))]
    pub node: String,
}

/// State of a trial. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TuningTrialStatus {
    /// Finished is True once the trial's last attempt has ended. Its reason is the outcome: Valid, Held, Invalid,
    /// Failed or Lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::condition::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// Every attempt that has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["attempt"]))]
    pub attempts: Vec<AttemptStatus>,
    /// How often a node refused the next attempt before anything ran.
    #[serde(default)]
    pub refusals: u32,
}

/// One attempt that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStatus {
    /// Number of the attempt, from 0.
    pub attempt: u32,
    /// Name of its pod, which no longer exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pod: Option<String>,
    /// Name of the node that it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// When the pod was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When its outcome was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Outcome as known when the attempt ended: Valid, Held, Invalid, Failed or Lost; if its block was restarted,
    /// `BlockInterrupted` or Superseded. The experiment's report shows what is known now.
    #[schemars(length(max = 32))]
    pub outcome: String,
    /// Why it does not count, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    /// What happened, for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::MESSAGE))]
    pub message: Option<String>,
    /// What the gates found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FINDINGS), extend("x-kubernetes-list-type" = "atomic"))]
    pub findings: Vec<FindingStatus>,
    /// The summary of its record in JSON, as the trial wrote it. A lost attempt has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = assay_protocol::MAX_SUMMARY_BYTES))]
    pub summary: Option<String>,
    /// Name of the `ConfigMap` with its full record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub record: Option<String>,
    /// What the cluster reports about the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<PodEvidenceStatus>,
    /// Digest of its node's boot ID, if known. Only for a lost attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub boot: Option<String>,
}

/// What the cluster reports about the pod of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodEvidenceStatus {
    /// Quality of service class of the pod. Only Guaranteed pods can get exclusive CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub qos_class: Option<String>,
    /// CPU manager policy of the node's kubelet. Only static gives pods exclusive CPUs. Known if the operator may query
    /// kubelets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cpu_manager_policy: Option<String>,
    /// Containers in the pod that Assay did not add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FOREIGN_CONTAINERS), inner(length(max = 63)), extend("x-kubernetes-list-type" = "atomic"))]
    pub foreign_containers: Vec<String>,
    /// Name of the persistent volume that held the database, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub volume: Option<String>,
    /// Whether the node's page cache was dropped before the attempt. Known if the node has an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheState>,
    /// CPUs that the kubelet gave exclusively to the pod, such as 2-5,9. Known if the node has an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::CPU_LIST))]
    pub cpu_ids: Option<String>,
    /// How often the most throttled CPU of the attempt slowed down because of heat. Known if the node has an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_events: Option<u64>,
    /// Device interrupts that the attempt's CPUs served. Known if the node has an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_interrupts: Option<u64>,
    /// Models of the CPU and the disk that its record names. Nights of a sweep on other models are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub machine: Option<String>,
    /// Values of the experiment's Prometheus metrics over the measured window, as decimal numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "metrics_schema")]
    pub metrics: BTreeMap<String, String>,
}

/// What happened to a node's page cache before an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PageCacheState {
    Dropped,
    Kept,
}

fn metrics_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": bounds::METRICS,
        "additionalProperties": {"type": "string", "maxLength": bounds::NUMBER},
    })
}
