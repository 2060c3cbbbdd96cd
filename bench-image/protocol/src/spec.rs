use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, EngineConfig, Workload};

/// The version of specs and records that this crate writes and reads.
pub const VERSION: u32 = 1;

/// Why a document is refused before anything in it is read.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    #[error("version {found} is unknown (this build reads version {VERSION}): use the assay that wrote it")]
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
    /// Digest of the plan that this trial belongs to. A record with another digest belongs to another plan.
    pub plan: Digest,
    pub trial: TrialId,
    /// Seed of the operations: equal in all trials of a block.
    pub seed: u64,
    /// The config that this trial runs.
    pub config: EngineConfig,
    /// The config to compare with. The attestation uses it to tell declared differences from others.
    pub baseline: EngineConfig,
    pub workload: Workload,
    /// Column families whose options differ between configs. Engagement is recorded for these, or for all if none is
    /// named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tuned_families: Vec<String>,
    pub dataset: DatasetSpec,
    pub page_cache: PageCache,
    /// Number of CPUs promised to the trial.
    pub cpus: u32,
    /// The trial fails under its config if the workload takes longer than this.
    pub deadline_seconds: u64,
    /// The trial fails under its config if its directory grows beyond this.
    pub max_disk_bytes: u64,
    /// Metrics that the experiment judges. They are always in the summary.
    #[schemars(length(max = 8))]
    pub metrics: Vec<String>,
}

impl TrialSpec {
    /// Reads a spec, refusing versions it does not know.
    pub fn from_json(json: &[u8]) -> Result<Self, VersionError> {
        parse_versioned(json)
    }
}

/// Identifies the trial in the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialId {
    #[schemars(length(max = 63))]
    pub scenario: String,
    /// Number of the block within its scenario, from 0.
    pub block: u32,
    #[schemars(length(max = 63))]
    pub config: String,
    /// Number of the baseline's run within the block, from 0; 0 for other configs.
    pub replicate: u32,
    /// Position in the block's order, from 0.
    pub order: u32,
    /// 0 for the first try; each rerun adds 1.
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
    /// Seed of keys and values: equal for all formats of a scenario, so that they hold equal data.
    pub seed: u64,
    /// The options that the dataset is written with.
    pub format: EngineConfig,
    /// Set if the dataset was written in the format of another config: the trial includes a migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Contents of the operating system's page cache before the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PageCache {
    /// Nothing of the trial's files.
    #[default]
    Evict,
    /// All of the trial's files, as far as memory allows.
    Warm,
    /// Not used: RocksDB does direct I/O.
    Direct,
}
