//! One attempt: a child that is started and watched, and what it left.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use assay_core::attempt::{Attempt, LostReason};
use assay_protocol::{Exit, TrialSpec};

use super::Session;
use super::progress::in_words;
use crate::folder::Full;
use crate::local::child::{self, Ended, Trial};
use crate::local::interrupted::Interrupted;
use crate::local::oom;
use crate::machine;

/// What came of starting one trial.
pub enum Tried {
    Attempt(Attempt, f64),
    /// Nothing ran, so nothing counts.
    Refused(String),
}

/// A bench can't run what it was asked, whatever the machine does.
#[derive(Debug)]
pub struct SpecRefused {
    pub config: String,
    message: String,
}

impl fmt::Display for SpecRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpecRefused {}

impl Session<'_> {
    /// Makes one attempt of a trial.
    pub fn attempt(&mut self, spec: &TrialSpec, eta: &str) -> anyhow::Result<Tried> {
        let work = self.store.work();
        std::fs::create_dir_all(&work).with_context(|| format!("can't create {}", work.display()))?;
        check_space(&work, spec)?;
        let dir = self.store.begin(spec)?;
        let longest = Duration::from_secs(self.plan.experiment.max_block_duration_seconds);
        let bench = self.benches.of(&spec.trial.config);
        let trial = Trial { bench, dir: &dir, work: &work, cpus: &self.cpus };
        let (started, since) = (machine::unix_ms(), Instant::now());
        let kills = self.kills.count();
        let child = child::start(&trial).with_context(|| format!("can't start {}", bench.display()))?;
        let stop = Arc::clone(&self.stop);
        let ended = child::watch(
            child,
            longest,
            || stop.load(Ordering::SeqCst),
            |progress| {
                self.screen.progress(&spec.trial, &in_words(progress), eta);
            },
        )
        .context("can't watch the trial")?;
        let seconds = since.elapsed().as_secs_f64();
        self.store.remove_leftovers()?;
        let starved = oom::has_grown(&kills, &self.kills.count());
        self.came_of(spec, ended, started, seconds, starved)
    }

    /// `starved`: the kernel killed something for want of memory meanwhile.
    fn came_of(
        &self,
        spec: &TrialSpec,
        ended: Ended,
        started: u64,
        seconds: f64,
        starved: bool,
    ) -> anyhow::Result<Tried> {
        let dir = self.store.trial_dir(&spec.trial);
        let lost = |reason, message: String| -> anyhow::Result<Tried> {
            let lost = self.lost(spec.trial.clone(), started, reason, message);
            self.store.keep_lost(&lost)?;
            Ok(Tried::Attempt(Attempt::from(lost), seconds))
        };
        // A whole record is a record, however the program ended after it had written it.
        let unreadable = match self.store.finish(spec) {
            Ok(Some((summary, _))) => {
                self.store.keep_summary(&summary)?;
                return Ok(Tried::Attempt(Attempt::Finished(summary.into()), seconds));
            }
            Ok(None) => None,
            Err(message) => Some(message),
        };
        let (status, printed) = match ended {
            Ended::Interrupted => return Err(Interrupted.into()),
            Ended::Overdue => return lost(LostReason::Crashed, "took longer than maxBlockDurationSeconds".to_owned()),
            Ended::Exited { status, printed } => (status, printed),
        };
        if starved && child::is_killed(status) {
            let message = "killed by the kernel: out of memory".to_owned();
            return lost(LostReason::OutOfMemory, message);
        }
        let words = child::last_words(&dir);
        match status.code().and_then(Exit::from_code) {
            Some(Exit::SpecRefused) => {
                let bench = self.benches.of(&spec.trial.config).display();
                let (trial, dir) = (spec.trial.file_stem(), dir.display());
                let message = format!("{bench} refused the spec of trial {trial}: {words}; see {dir}");
                return Err(SpecRefused { config: spec.trial.config.clone(), message }.into());
            }
            Some(Exit::EnvironmentRefused) => return Ok(Tried::Refused(words)),
            Some(Exit::Completed | Exit::ConfigFailed) | None => {}
        }
        if let Some(message) = unreadable {
            return lost(LostReason::UnreadableRecord, message);
        }
        let mut message = format!("{}; no record", child::ending(status));
        for (what, text) in [("stderr", words.as_str()), ("stdout", printed.trim())] {
            if !text.is_empty() {
                let _ = write!(message, "; {what}: {text}");
            }
        }
        let reason = if child::is_fault(status) { LostReason::Faulted } else { LostReason::Crashed };
        lost(reason, message)
    }
}

/// Before a trial fails for want of space, which would look like its config's fault.
fn check_space(work: &Path, spec: &TrialSpec) -> anyhow::Result<()> {
    let free =
        machine::free_bytes(work).with_context(|| format!("can't determine the free space in {}", work.display()))?;
    if free < spec.max_disk_bytes {
        return Err(Full::disk(format_args!(
            "{} has {} MiB free, but a trial of scenario {} may need {} MiB",
            work.display(),
            free >> 20,
            spec.trial.scenario,
            spec.max_disk_bytes >> 20
        ))
        .into());
    }
    Ok(())
}
