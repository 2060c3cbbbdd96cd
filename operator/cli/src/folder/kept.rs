//! What a folder holds of a run on a cluster.

use std::path::Path;

use anyhow::anyhow;
use assay_api::{AttemptStatus, TuningTrialSpec};
use assay_core::attempt::Attempt;
use assay_core::cluster::{attempt, trial_id};
use assay_protocol::{Digest, TrialRecord};
use serde::{Deserialize, Serialize};

use super::files::{read_if_there, write};

/// The experiment of a cluster that a folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    pub namespace: String,
    pub experiment: String,
    /// Another one of the same name has other trials.
    pub uid: String,
}

impl Origin {
    /// Where the trials of a folder come from; `None` where they were run here.
    pub fn of(dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = dir.join("cluster.json");
        let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
        let origin: serde_json::Result<Self> = serde_json::from_slice(&bytes);
        let corrupted = |error| anyhow!("{} is corrupted ({error}): restore it, or use another --out", path.display());
        origin.map(Some).map_err(corrupted)
    }

    pub fn keep(&self, dir: &Path) -> anyhow::Result<()> {
        write(&dir.join("cluster.json"), &serde_json::to_vec_pretty(self)?)
    }
}

/// An attempt as the cluster has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeptAttempt {
    pub trial: TuningTrialSpec,
    pub attempt: AttemptStatus,
    /// Parts that its record lost before it was stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
}

impl KeptAttempt {
    /// The attempt as the rules read it, held against its record where there is one; else what is corrupted.
    pub fn read(&self, path: &Path, record: Option<&[u8]>) -> Result<Attempt, String> {
        let corrupt = |why: &str| format!("{} is corrupted ({why})", path.display());
        let found = attempt(&self.trial, &self.attempt).map_err(|why| corrupt(&why))?;
        if *found.trial() != trial_id(&self.trial, self.attempt.attempt) {
            return Err(corrupt("its summary belongs to another trial"));
        }
        if found.plan().as_str() != self.trial.plan {
            return Err(corrupt("its summary belongs to another plan"));
        }
        let (Attempt::Finished(summary), Some(bytes)) = (&found, record) else { return Ok(found) };
        let kept = if self.dropped.is_empty() {
            Digest::of(bytes) == summary.record
        } else {
            TrialRecord::from_json(bytes).is_ok_and(|record| record.spec.trial == summary.trial)
        };
        if kept {
            Ok(found)
        } else {
            let record = path.with_file_name("record.json");
            Err(format!("{} does not match its summary", record.display()))
        }
    }
}
