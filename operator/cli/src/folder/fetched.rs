//! The folder of an experiment on a cluster: what `assay run` leaves on one machine, from what the cluster has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use assay_api::{AttemptStatus, TuningTrialSpec};
use assay_core::cluster::trial_id;
use assay_core::plan::Plan;

use super::files::{make_dir, write};
use super::kept::{KeptAttempt, Origin};
use super::lock::Lock;
use super::others::refuse_others;
use super::plan::keep_plan;

/// The folder, held for this process.
#[derive(Debug)]
pub struct Fetched {
    pub dir: PathBuf,
    _lock: Lock,
}

/// The full record of an attempt, as the cluster has it.
pub struct StoredRecord {
    pub json: Vec<u8>,
    /// Parts that it lost on its way.
    pub dropped: Vec<String>,
}

/// Makes the folder of an experiment where there is none. One that can't be used is refused now, and not in hours when it is
/// needed.
pub fn prepare(dir: &Path, origin: &Origin) -> anyhow::Result<()> {
    let _lock = make(dir)?;
    refuse_another(dir, origin)
}

/// Makes a folder, and holds it.
fn make(dir: &Path) -> anyhow::Result<Lock> {
    refuse_others(dir)?;
    let trials = dir.join("trials");
    fs::create_dir_all(&trials)
        .with_context(|| format!("can't create {}: choose another folder with --out", trials.display()))?;
    Lock::take(dir, "--out")
}

/// Refuses a folder that holds something else than this experiment.
fn refuse_another(dir: &Path, origin: &Origin) -> anyhow::Result<()> {
    if dir.join("bench.json").exists() {
        bail!("{} holds trials run on this machine: use another --out", dir.display());
    }
    match Origin::of(dir)? {
        Some(kept) if kept != *origin => bail!(
            "{} holds the trials of another experiment ({} in namespace {}, uid {}): use another --out",
            dir.display(),
            kept.experiment,
            kept.namespace,
            kept.uid
        ),
        _ => Ok(()),
    }
}

impl Fetched {
    /// Opens or makes the folder of an experiment, whose file is `source`. One that holds another is left alone.
    pub fn open(dir: &Path, origin: &Origin, plan: &Plan, source: &[u8]) -> anyhow::Result<Self> {
        let lock = make(dir)?;
        refuse_another(dir, origin)?;
        keep_plan(dir, plan)?;
        origin.keep(dir)?;
        let copy = dir.join("experiment.yaml");
        if !copy.exists() {
            write(&copy, source)?;
        }
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    /// Writes down an attempt, with its record where that was stored.
    pub fn keep(
        &self,
        trial: &TuningTrialSpec,
        status: &AttemptStatus,
        record: Option<StoredRecord>,
    ) -> anyhow::Result<()> {
        let dir = self.trial_dir(trial, status.attempt);
        make_dir(&dir)?;
        let mut kept = KeptAttempt { trial: trial.clone(), attempt: status.clone(), dropped: Vec::new() };
        if let Some(record) = record {
            kept.dropped = record.dropped;
            write(&dir.join("record.json"), &record.json)?;
        }
        let path = dir.join("attempt.json");
        write(&path, &serde_json::to_vec_pretty(&kept)?)
    }

    /// Whether an attempt is there already, whole and unchanged.
    pub fn has(&self, trial: &TuningTrialSpec, status: &AttemptStatus) -> bool {
        let dir = self.trial_dir(trial, status.attempt);
        let Ok(bytes) = fs::read(dir.join("attempt.json")) else { return false };
        let Ok(kept) = serde_json::from_slice::<KeptAttempt>(&bytes) else { return false };
        let record = fs::read(dir.join("record.json")).ok();
        kept.attempt == *status
            && kept.trial == *trial
            && kept.dropped.is_empty()
            && record.is_some()
            && kept.read(&dir, record.as_deref()).is_ok()
    }

    fn trial_dir(&self, trial: &TuningTrialSpec, attempt: u32) -> PathBuf {
        self.dir.join("trials").join(trial_id(trial, attempt).file_stem())
    }
}
