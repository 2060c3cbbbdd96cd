use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::parse_versioned;
use crate::{Digest, Evidence, TrialSpec, VersionError};

/// Measurements and evidence of one trial. Immutable once written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialRecord {
    /// Version of the trial protocol.
    pub version: u32,
    /// The spec of this trial.
    pub spec: TrialSpec,
    /// Digest of the spec as it was read.
    pub spec_digest: Digest,
    pub outcome: Outcome,
    /// Wall clock at the start of the process, in milliseconds since the epoch.
    pub started_unix_ms: u64,
    pub finished_unix_ms: u64,
    /// When the measured window opened and how long it lasted.
    pub window_started_unix_ms: u64,
    pub window_seconds: f64,
    /// By metric name; metrics that could not be measured are absent.
    pub metrics: BTreeMap<String, f64>,
    pub work: Work,
    pub dataset: DatasetFacts,
    pub evidence: Evidence,
    /// By role.
    pub latency: BTreeMap<String, Latency>,
    /// By column family.
    pub families: BTreeMap<String, FamilyFacts>,
    /// RocksDB tickers that changed within the window.
    pub tickers: BTreeMap<String, u64>,
    /// Seconds of the window by component; components overlap. Components that could not be measured are absent; older
    /// records have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub time_spent: BTreeMap<String, f64>,
    /// One sample per second of the window.
    pub series: Series,
}

impl TrialRecord {
    /// Reads a record, refusing versions it does not know.
    pub fn from_json(json: &[u8]) -> Result<Self, VersionError> {
        parse_versioned(json)
    }
}

/// How the trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Outcome {
    Completed,
    /// The workload failed under this config: a fact about the config.
    Failed {
        kind: FailureKind,
        message: String,
    },
}

/// Why a trial failed under its config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureKind {
    OutOfMemory,
    Corruption,
    Deadline,
    DiskQuota,
    EngineError,
}

/// Proof of the work done, equal for every trial of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Work {
    /// Order-independent digest of every operation in warm-up and window.
    pub hash: Digest,
    /// By role.
    pub counts: BTreeMap<String, RoleCounts>,
    /// Bytes of keys and values that the workload wrote.
    pub user_bytes: u64,
    /// Bytes of keys and values, uncompressed and each live key once, that the steps of all roles leave at the end of the window: from the
    /// workload and the number of steps, without asking RocksDB. Older records and those of failed trials have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// Order-independent digest of what reads returned; absent if threads race for the same keys, because answers then
    /// depend on timing.
    pub answers: Option<Digest>,
    /// Reads that returned another value than the workload had written.
    pub wrong_answers: u64,
    /// Operations of a policy, separate from the workload's own.
    pub policy_operations: u64,
}

/// Operations of one role within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RoleCounts {
    pub steps: u64,
    pub puts: u64,
    pub gets: u64,
    pub gets_found: u64,
    pub deletes: u64,
    pub scans: u64,
    pub scanned_entries: u64,
    pub bytes_written: u64,
    pub bytes_read: u64,
}

/// The database that the trial started from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatasetFacts {
    /// Digest of the logical content: equal for all formats of a scenario.
    pub content: Digest,
    /// Digest of the options it was written with.
    pub format: Digest,
    pub entries: u64,
    /// Bytes of keys and values, uncompressed. Older records have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_bytes: Option<u64>,
    pub sst_bytes: u64,
    pub files_by_level: Vec<u64>,
}

/// The distribution of step latency of one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Latency {
    /// Steps in the histogram: those that measuring did not slow down.
    pub count: u64,
    /// Steps beyond the histogram's range; they count with its largest value.
    pub saturated: u64,
    /// Latency counts from the intended start of a paced step.
    pub from_intended_start: bool,
    /// HdrHistogram V2 log encoding of nanoseconds, in base64.
    pub histogram: String,
}

/// Facts of one column family at the end of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FamilyFacts {
    pub files_by_level: Vec<u64>,
    /// Raw size over compressed size by level, as RocksDB reports it; below 0 if a level is empty.
    pub compression_ratio_by_level: Vec<f64>,
    pub live_sst_bytes: u64,
    pub estimated_keys: u64,
    pub base_level: Option<u64>,
    pub l0_files_peak: u64,
}

/// Samples over the window, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Series {
    /// Seconds since the window opened.
    pub seconds: Vec<f64>,
    pub columns: BTreeMap<String, Vec<f64>>,
}
