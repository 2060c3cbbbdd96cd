use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, EngineConfig, Workload};

/// The version of specs and records that this crate writes and reads.
pub const VERSION: u32 = 1;

/// Why a document is refused before anything in it is read.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    #[error("version {found} is not known here (this build reads version {VERSION}): use the assay that wrote it")]
    Unknown { found: u64 },
    #[error("not a document of the trial protocol: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Refuses unknown versions first, so that a newer document is not reported as a broken one.
pub(crate) fn parse_versioned<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, VersionError> {
    #[derive(Deserialize)]
    struct Envelope {
        version: u64,
    }
    let envelope: Envelope = serde_json::from_slice(json)?;
    if envelope.version != u64::from(VERSION) {
        return Err(VersionError::Unknown { found: envelope.version });
    }
    Ok(serde_json::from_slice(json)?)
}

/// Everything that `assay-bench` needs to know to run one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialSpec {
    /// Version of the trial protocol.
    pub version: u32,
    /// Name of the experiment.
    #[schemars(length(max = 253))]
    pub experiment: String,
    /// Digest of the plan that this trial belongs to. A record with another digest belongs elsewhere.
    pub plan: Digest,
    pub trial: TrialId,
    /// Seed of the operations: equal in all trials of a block.
    pub seed: u64,
    /// What this trial runs.
    pub config: EngineConfig,
    /// What this trial is compared with: the attestation tells declared differences from others by it.
    pub baseline: EngineConfig,
    pub workload: Workload,
    /// Column families whose options the experiment changes between configs. What options had to work on is recorded of
    /// these; of all where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tuned_families: Vec<String>,
    pub dataset: DatasetSpec,
    pub page_cache: PageCache,
    /// Number of CPUs that the trial was promised.
    pub cpus: u32,
    /// The trial fails under its config when the workload takes longer than this.
    pub deadline_seconds: u64,
    /// The trial fails under its config when its own directory grows beyond this.
    pub max_disk_bytes: u64,
    /// Metrics that the experiment judges; they are always part of the summary.
    #[schemars(length(max = 8))]
    pub metrics: Vec<String>,
}

impl TrialSpec {
    /// Reads a spec, refusing versions it does not know.
    pub fn from_json(json: &[u8]) -> Result<Self, VersionError> {
        parse_versioned(json)
    }
}

/// Which trial of the plan this is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialId {
    #[schemars(length(max = 63))]
    pub scenario: String,
    /// Number of the block within its scenario, from 0.
    pub block: u32,
    #[schemars(length(max = 63))]
    pub config: String,
    /// Which of the baseline's runs in the block this is; 0 for other configs.
    pub replicate: u32,
    /// Position in the block's order, from 0.
    pub order: u32,
    /// 0 for the first try, counted up by reruns.
    pub attempt: u32,
}

impl TrialId {
    /// The name of files and directories of this attempt.
    pub fn file_stem(&self) -> String {
        let Self { scenario, block, config, replicate, attempt, .. } = self;
        format!("{scenario}-b{block:03}-{config}-r{replicate}-a{attempt}")
    }
}

/// The database that the trial starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatasetSpec {
    /// Seed of keys and values: equal for all formats of a scenario, so their logical content is equal.
    pub seed: u64,
    /// The options that the dataset is written with.
    pub format: EngineConfig,
    /// Set when the dataset was written in the format of another config: the trial includes a migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What the operating system's page cache holds before the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PageCache {
    /// Nothing of the trial's files.
    #[default]
    Evict,
    /// All of the trial's files, as far as memory allows.
    Warm,
    /// Not used: RocksDB reads and writes directly.
    Direct,
}
