//! The folder of an experiment that runs on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use assay_core::attempt::{Attempt, Lost};
use assay_core::plan::Plan;
use assay_protocol::{Summary, TrialId, TrialRecord, TrialSpec, invocation};

use super::files::{make_dir, read_if_there, remove, write};
use super::kept::Origin;
use super::lock::Lock;
use super::others::refuse_others;
use super::plan::keep_plan;
use super::read::{Found, Unfit, has_trials, read_attempt, seconds, trial_dirs};
use super::work_of;
use crate::bench::{BenchDigests, Benches};

/// An experiment's folder, held for this process.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    _lock: Lock,
}

/// What a folder holds already.
#[derive(Debug, Default)]
pub struct Loaded {
    pub attempts: Vec<Attempt>,
    /// Seconds that trials took, by scenario.
    pub seconds: BTreeMap<String, Vec<f64>>,
    /// One line per record that was set aside.
    pub messages: Vec<String>,
}

impl Store {
    /// Opens or makes the folder of a plan, whose experiment file is `source`. A folder that holds another plan is left alone.
    pub fn open(dir: &Path, plan: &Plan, source: &[u8], benches: &Benches) -> anyhow::Result<Self> {
        refuse_others(dir)?;
        let trials = dir.join("trials");
        fs::create_dir_all(&trials)
            .with_context(|| format!("can't create {}: choose another folder with --out", trials.display()))?;
        // A later call may come from another directory, and has to recognise our paths.
        let dir = &fs::canonicalize(dir).with_context(|| format!("can't find {}", dir.display()))?;
        let lock = Lock::take(dir, "--out")?;
        if Origin::of(dir)?.is_some() {
            bail!("{} holds trials from a cluster: use another --out", dir.display());
        }
        let store = Self { dir: dir.clone(), _lock: lock };
        keep_plan(&store.dir, plan)?;
        store.keep_benches(benches)?;
        let copy = dir.join("experiment.yaml");
        if !copy.exists() {
            write(&copy, source)?;
        }
        Ok(store)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where databases are.
    pub fn work(&self) -> PathBuf {
        work_of(&self.dir)
    }

    pub fn trial_dir(&self, trial: &TrialId) -> PathBuf {
        self.dir.join("trials").join(trial.file_stem())
    }

    /// Another build of the bench in the middle would make all trials before it incomparable.
    fn keep_benches(&self, benches: &Benches) -> anyhow::Result<()> {
        let now = benches.digests()?;
        let path = self.dir.join("bench.json");
        let Some(bytes) = read_if_there(&path)? else {
            if has_trials(&self.dir) {
                bail!(
                    "{} is missing, so no one knows which build of assay-bench ran these trials: restore it, or use \
                     another --out",
                    path.display()
                );
            }
            return write(&path, &serde_json::to_vec_pretty(&now)?);
        };
        let kept: BenchDigests = serde_json::from_slice(&bytes)
            .map_err(|error| anyhow!("{} is corrupted ({error}): restore it, or use another --out", path.display()))?;
        if kept != now {
            bail!(
                "another build of assay-bench ran the trials in {}, and runs of two builds can't be compared: use that \
                 build, or start over with another --out",
                self.dir.display()
            );
        }
        Ok(())
    }

    /// Reads what earlier calls have left. Broken records are set aside, those of other experiments are an error.
    pub fn load(&self, plan: &Plan) -> anyhow::Result<Loaded> {
        let mut loaded = Loaded::default();
        for dir in trial_dirs(&self.dir)? {
            match read_attempt(&dir, plan).and_then(|found| self.check_summary(&dir, found)) {
                Ok(None) => {}
                Ok(Some((attempt, seconds))) => {
                    if let Some(seconds) = seconds {
                        loaded.seconds.entry(attempt.trial().scenario.clone()).or_default().push(seconds);
                    }
                    loaded.attempts.push(attempt);
                }
                Err(Unfit::Foreign(message)) => bail!(message),
                Err(Unfit::Corrupt(message)) => {
                    let aside = set_aside(&dir)?;
                    loaded.messages.push(format!("{message}: moved to {}; the trial runs again", aside.display()));
                }
            }
        }
        Ok(loaded)
    }

    /// Trials are not run again for what they said already, so what they said must not have changed.
    fn check_summary(&self, dir: &Path, found: Option<Found>) -> Result<Option<Found>, Unfit> {
        let Some((Attempt::Finished(summary), _)) = &found else { return Ok(found) };
        let path = dir.join("summary.json");
        let kept = read_if_there(&path).map_err(|error| Unfit::Foreign(format!("{error:#}")))?;
        match kept.map(|bytes| Summary::from_json(&bytes)) {
            Some(Ok(kept)) if kept == **summary => {}
            Some(_) => {
                let record = dir.join("record.json");
                return Err(Unfit::Corrupt(format!("{} does not match its summary", record.display())));
            }
            // We were killed between the two.
            None => self.keep_summary(summary).map_err(|error| Unfit::Foreign(format!("{error:#}")))?,
        }
        Ok(found)
    }

    /// Makes the folder of a trial with its spec; what an interrupted try left there goes.
    pub fn begin(&self, spec: &TrialSpec) -> anyhow::Result<PathBuf> {
        let dir = self.trial_dir(&spec.trial);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("can't remove {}", dir.display()))?;
        }
        make_dir(&dir)?;
        write(&dir.join("spec.json"), &serde_json::to_vec_pretty(spec)?)?;
        Ok(dir)
    }

    /// Reads the record that a trial has just left.
    pub fn finish(&self, spec: &TrialSpec) -> Result<Option<(Summary, f64)>, String> {
        let path = self.trial_dir(&spec.trial).join("record.json");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let record = TrialRecord::from_json(&bytes).map_err(|error| format!("can't read its record: {error}"))?;
        if record.spec != *spec {
            return Err("its record is for another spec".to_owned());
        }
        let summary = Summary::of(&record, &bytes).map_err(|error| format!("can't summarize its record: {error}"))?;
        Ok(Some((summary, seconds(&record))))
    }

    pub fn keep_summary(&self, summary: &Summary) -> anyhow::Result<()> {
        write(&self.trial_dir(&summary.trial).join("summary.json"), &serde_json::to_vec_pretty(summary)?)
    }

    pub fn keep_lost(&self, lost: &Lost) -> anyhow::Result<()> {
        let dir = self.trial_dir(&lost.trial);
        make_dir(&dir)?;
        // A record that can't be read must not be found again.
        let record = dir.join("record.json");
        if record.exists() {
            fs::rename(&record, dir.join("record.json.corrupt"))
                .with_context(|| format!("can't rename {}", record.display()))?;
        }
        write(&dir.join("lost.json"), &serde_json::to_vec_pretty(lost)?)
    }

    /// Removes the databases of trials that did not end by themselves; datasets stay.
    pub fn remove_leftovers(&self) -> anyhow::Result<()> {
        remove(&invocation::trials_dir(&self.work()))
    }

    /// Removes all databases.
    pub fn remove_work(&self) -> anyhow::Result<()> {
        remove(&self.work())
    }
}

/// Renames a trial's folder to one that is not read any more.
fn set_aside(dir: &Path) -> anyhow::Result<PathBuf> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut aside = dir.with_file_name(format!("{name}.corrupt"));
    let mut count = 1_u32;
    while aside.exists() {
        count += 1;
        aside = dir.with_file_name(format!("{name}.corrupt-{count}"));
    }
    fs::rename(dir, &aside).with_context(|| format!("can't rename {}", dir.display()))?;
    Ok(aside)
}
