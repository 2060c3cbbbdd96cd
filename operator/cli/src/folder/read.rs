//! Reading what is in an experiment's folder, whoever has written it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use assay_core::attempt::{Attempt, Lost};
use assay_core::plan::Plan;
use assay_protocol::{Digest, Summary, TrialId, TrialRecord, VersionError};

use super::files::read_if_there;
use super::kept::KeptAttempt;

/// Why an attempt can't be used.
pub enum Unfit {
    /// Broken: set aside and run again.
    Corrupt(String),
    /// Somebody else's, or from another version: nothing is touched.
    Foreign(String),
}

/// An attempt with the seconds that it took, if it has a record.
pub type Found = (Attempt, Option<f64>);

/// All attempts of a folder from their records alone, whatever was derived from them. Nothing is written.
pub fn kept_attempts(dir: &Path, plan: &Plan) -> anyhow::Result<Vec<Attempt>> {
    let mut attempts = Vec::new();
    for dir in trial_dirs(dir)? {
        match read_attempt(&dir, plan) {
            Ok(found) => attempts.extend(found.map(|(attempt, _)| attempt)),
            Err(Unfit::Foreign(message)) => bail!(message),
            Err(Unfit::Corrupt(message)) => {
                bail!("{message}: restore it, or remove its folder and run the trial again")
            }
        }
    }
    Ok(attempts)
}

/// The folders of all trials, in the order of their names.
pub fn trial_dirs(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let trials = dir.join("trials");
    let entries = fs::read_dir(&trials).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.with_context(|| format!("can't read {}", trials.display()))?;
    let mut dirs: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    dirs.retain(|path| {
        // Of the trial's own name: a folder of experiments may be called anything.
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        path.is_dir() && !name.contains(".corrupt")
    });
    dirs.sort();
    Ok(dirs)
}

/// Whether a folder has trials, also such as were interrupted.
pub fn has_trials(dir: &Path) -> bool {
    trial_dirs(dir).is_ok_and(|dirs| !dirs.is_empty())
}

/// The attempt in a trial's folder; `None` where it was interrupted.
pub fn read_attempt(dir: &Path, plan: &Plan) -> Result<Option<Found>, Unfit> {
    let read = |name: &str| {
        let path = dir.join(name);
        read_if_there(&path).map_err(|error| Unfit::Foreign(format!("{error:#}")))
    };
    let check = |path: &Path, found: &Digest, trial: &TrialId| {
        if *found != plan.digest {
            return Err(Unfit::Foreign(format!(
                "{} belongs to another experiment (plan {found}; this one is {}): move it away, or use another --out",
                path.display(),
                plan.digest
            )));
        }
        let named = dir.file_name().is_some_and(|name| *name == *trial.file_stem());
        if named { Ok(()) } else { Err(Unfit::Corrupt(format!("{} belongs to another trial", path.display()))) }
    };
    if let Some(bytes) = read("attempt.json")? {
        let path = dir.join("attempt.json");
        let kept: KeptAttempt = serde_json::from_slice(&bytes)
            .map_err(|error| Unfit::Corrupt(format!("{} is corrupted ({error})", path.display())))?;
        let attempt = kept.read(&path, read("record.json")?.as_deref()).map_err(Unfit::Corrupt)?;
        check(&path, attempt.plan(), attempt.trial())?;
        return Ok(Some((attempt, None)));
    }
    if let Some(bytes) = read("record.json")? {
        let path = dir.join("record.json");
        let record = TrialRecord::from_json(&bytes).map_err(|error| match error {
            VersionError::Unknown { .. } => Unfit::Foreign(format!("{}: {error}", path.display())),
            VersionError::Malformed(_) => Unfit::Corrupt(format!("{} is corrupted ({error})", path.display())),
        })?;
        let trial = &record.spec.trial;
        check(&path, &record.spec.plan, trial)?;
        let planned = plan.block(&trial.scenario, trial.block);
        let planned = planned.and_then(|block| plan.trial_spec(block, trial.order as usize, trial.attempt).ok());
        if planned.as_ref() != Some(&record.spec) {
            return Err(Unfit::Corrupt(format!("{} has a spec that is not in the plan", path.display())));
        }
        let summary = Summary::of(&record, &bytes)
            .map_err(|error| Unfit::Corrupt(format!("{} can't be summarized ({error})", path.display())))?;
        return Ok(Some((Attempt::Finished(summary.into()), Some(seconds(&record)))));
    }
    let Some(bytes) = read("lost.json")? else {
        // It was summed up, so it was there. To run the trial again as if it had never been seen would let people choose.
        if dir.join("summary.json").exists() {
            return Err(Unfit::Corrupt(format!("{} is missing", dir.join("record.json").display())));
        }
        return Ok(None);
    };
    let path = dir.join("lost.json");
    let lost: Lost = serde_json::from_slice(&bytes)
        .map_err(|error| Unfit::Corrupt(format!("{} is corrupted ({error})", path.display())))?;
    check(&path, &lost.plan, &lost.trial)?;
    Ok(Some((Attempt::from(lost), None)))
}

pub fn seconds(record: &TrialRecord) -> f64 {
    let step = record.evidence.disturbance.clock_step_seconds.unwrap_or(0.0);
    took(record.started_unix_ms, record.finished_unix_ms, step, record.window_seconds)
}

/// Seconds between two times of the wall clock, by which it was set in the window; never less than the window, which has a clock that
/// nobody sets.
fn took(started_unix_ms: u64, finished_unix_ms: u64, step_seconds: f64, window_seconds: f64) -> f64 {
    ((finished_unix_ms as f64 - started_unix_ms as f64) / 1000.0 - step_seconds).max(window_seconds)
}

#[cfg(test)]
mod tests {
    use super::took;

    #[test]
    fn a_clock_that_is_set_does_not_change_how_long_a_trial_took() {
        let began = 1_700_000_000_000;
        for (seconds, step, expected) in [
            (50.0, 0.0, 50.0),
            // Set in the window, which tells by how much.
            (50.0 + 3600.0, 3600.0, 50.0),
            (50.0 - 3600.0, -3600.0, 50.0),
            // Set back before it, which nothing tells.
            (50.0 - 3600.0, 0.0, 40.0),
        ] {
            let ended = (began as f64 + seconds * 1000.0) as u64;
            assert_eq!(took(began, ended, step, 40.0), expected, "{seconds} s with a step of {step} s");
        }
    }
}
