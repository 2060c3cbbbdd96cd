use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What a trial needs from its machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Number of CPUs to pin every trial to.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub cpus: u32,
    /// Trials are valid only on a local NVMe device.
    #[serde(default)]
    pub require_nvme: bool,
    /// Require: a trial is invalid if it can't prove that it had its CPUs to itself. Prefer: it is accepted, and the
    /// verdict is marked `NotIsolated`.
    #[serde(default)]
    pub require_exclusive_cpus: Requirement,
    /// Whether the machines run only trials. Dedicated: a run that other processes disturbed does not count. Shared:
    /// other processes are expected, and what they take widens the intervals. If not set, Dedicated if exclusive CPUs
    /// are required, otherwise Shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Memory of every trial's pod on a cluster, including the page cache of its files. If not set, 2Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity_schema")]
    pub memory: Option<Quantity>,
    /// Labels that a cluster node must have to run trials.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels_schema")]
    pub node_selector: BTreeMap<String, String>,
    /// Node taints that trials tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<NodeToleration>,
    /// Whether to ask an autoscaler for a node. `WhenNeeded`: while no node can run trials, a pod of their size waits
    /// for one. Never, the default: trials run only on nodes that are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<Provision>,
    /// Where trials keep their databases on a cluster. If not set, in an emptyDir of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            cpus: one(),
            require_nvme: false,
            require_exclusive_cpus: Requirement::Prefer,
            environment: None,
            memory: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            provision: None,
            storage: None,
        }
    }
}

impl Placement {
    /// The environment that is declared, or else the one that follows.
    pub fn environment(&self) -> Environment {
        self.environment.unwrap_or(match self.require_exclusive_cpus {
            Requirement::Require => Environment::Dedicated,
            Requirement::Prefer => Environment::Shared,
        })
    }

    /// Whether a cluster's trials find datasets that others have prepared.
    pub fn keeps_datasets(&self) -> bool {
        self.storage.as_ref().is_some_and(|storage| storage.empty_dir.is_none())
    }
}

fn one() -> u32 {
    1
}

/// How much a condition matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Requirement {
    #[default]
    Prefer,
    Require,
}

/// Whether the machines run only trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Environment {
    Dedicated,
    Shared,
}

/// Whether to ask an autoscaler for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Provision {
    Never,
    WhenNeeded,
}

/// A taint that trials tolerate, as in a pod spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeToleration {
    /// Key of the taint.
    #[schemars(length(min = 1, max = 316))]
    pub key: String,
    /// Exists tolerates every value of the key, Equal only the given one.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint, for the operator Equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Effect of the taint. If not set, every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// What a taint does to pods that don't tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl TaintEffect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// How a toleration matches a taint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
}

/// Where trials keep their databases. Set exactly one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "[has(self.persistentVolumeClaim), has(self.emptyDir), has(self.hostPath)].filter(set, set).size() == 1",
    "message": "set exactly one of persistentVolumeClaim, emptyDir and hostPath",
}]))]
pub struct Storage {
    /// A volume for each block, created when the block begins and removed when it ends. Datasets are prepared once
    /// per block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimStorage>,
    /// A folder on the kubelet's disk for each trial. Datasets are prepared for every trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDirStorage>,
    /// A folder on the node. It must be under one of the paths that the operator was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<HostPathStorage>,
}

/// A volume for each block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimStorage {
    /// Name of the storage class. If not set, the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// Size of the volume. It must hold a dataset in every format and the database of one trial.
    #[schemars(schema_with = "quantity_schema")]
    pub size: Quantity,
}

/// A folder on the kubelet's disk for each trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmptyDirStorage {
    /// Size at which the kubelet evicts the pod, which counts as a failure of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity_schema")]
    pub size_limit: Option<Quantity>,
}

/// A folder on the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostPathStorage {
    /// Absolute path of an existing folder that user 65532 can write to. Every experiment gets its own folder in it.
    #[schemars(length(min = 2, max = 512), regex(pattern = r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"))]
    pub path: String,
}

/// The pattern and the bound that Kubernetes' own schema of a quantity lacks.
pub(crate) fn quantity_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 32,
        "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$",
    })
}

fn labels_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 63},
    })
}
