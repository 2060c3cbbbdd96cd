//! The loop: ask what is next, do it, write down what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use assay_core::decide::{Action, Attempt, Fate, Lost, LostReason, Moment, Place, Places};
use assay_core::judge::{design, judge, judge_with};
use assay_core::plan::Plan;
use assay_core::report::{INCOMPLETE, Report};
use assay_core::verdict::{Design, Intervals};
use assay_record::{Exit, TrialId, TrialSpec};

use super::child::{self, Ended, Trial};
use super::machine::{self, Cpus};
use super::oom::{self, OomKills};
use super::screen::{self, Screen, so_far};
use super::store::Store;
use super::{Full, Interrupted};
use crate::bench::Benches;

/// Refusals in a row after which the environment is left alone.
const REFUSALS: u32 = 3;
/// Between two refusals: a full disk or a busy port may clear.
const PAUSE: Duration = Duration::from_millis(500);

pub struct Session<'a> {
    plan: &'a Plan,
    design: Design,
    store: Store,
    benches: &'a Benches,
    cpus: Cpus,
    kills: OomKills,
    stop: Arc<AtomicBool>,
    screen: Screen,
    attempts: Vec<Attempt>,
    refusals: u32,
    /// Configs whose decision was told.
    decided: BTreeSet<String>,
}

/// What came of starting one trial.
enum Tried {
    Attempt(Attempt, f64),
    /// Nothing ran, so nothing counts.
    Refused(String),
}

impl<'a> Session<'a> {
    pub fn new(
        plan: &'a Plan,
        store: Store,
        benches: &'a Benches,
        cpus: Cpus,
        kills: OomKills,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        // Those of a call that was killed.
        store.remove_leftovers()?;
        let loaded = store.load(plan)?;
        let total = plan.blocks.iter().map(|block| block.slots.len()).sum();
        let screen = Screen::new(total, loaded.seconds);
        for message in &loaded.messages {
            screen.say(&format!("assay: {message}"));
        }
        if !loaded.attempts.is_empty() {
            screen.say(&format!("assay: {} attempts are there already, going on", loaded.attempts.len()));
        }
        let (design, attempts) = (design(&plan.experiment), loaded.attempts);
        Ok(Self {
            plan,
            design,
            store,
            benches,
            cpus,
            kills,
            stop,
            screen,
            attempts,
            refusals: 0,
            decided: BTreeSet::new(),
        })
    }

    /// Runs trials until nothing is left to do, or something stops it. Finished records are kept either way.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let ran = self.run_all();
        self.screen.clear();
        ran
    }

    /// The outcome of what there is, written to the folder.
    pub fn report(&self) -> anyhow::Result<Report> {
        let report = judge(self.plan, &self.attempts)?;
        self.store.keep_report(&report)?;
        Ok(report)
    }

    pub fn plan(&self) -> &Plan {
        self.plan
    }

    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Removes the databases of a finished experiment.
    pub fn clean(&self) -> anyhow::Result<()> {
        self.store.remove_work()
    }

    pub fn dir(&self) -> &Path {
        self.store.dir()
    }

    fn run_all(&mut self) -> anyhow::Result<()> {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return Err(Interrupted.into());
            }
            let boot = machine::boot();
            let now = Moment { unix_ms: machine::unix_ms(), boot: boot.as_ref() };
            let places = Places::new(self.plan, &self.attempts)?;
            let (block, slot, trial) = match places.next(now) {
                Action::Finished => return Ok(()),
                Action::GiveUp { trial, .. } => {
                    let message = "its block was interrupted for the last time".to_owned();
                    let lost = self.lost(trial, now.unix_ms, LostReason::GivenUp, message);
                    self.store.keep_lost(&lost)?;
                    self.attempts.push(Attempt::Lost(lost));
                    continue;
                }
                Action::Run { block, slot, trial } => (block, slot, trial),
            };
            let (done, eta) = (done(&places), self.screen.eta(&open(&places)));
            self.screen.begin(&trial, done, &eta);
            let spec = self.plan.trial_spec(&self.plan.blocks[block], slot, trial.attempt)?;
            match self.run_one(&spec, &eta)? {
                Tried::Attempt(attempt, seconds) => {
                    self.refusals = 0;
                    self.attempts.push(attempt);
                    self.tell(&trial, seconds)?;
                }
                Tried::Refused(message) => self.refused(&trial, &message)?,
            }
        }
    }

    fn run_one(&mut self, spec: &TrialSpec, eta: &str) -> anyhow::Result<Tried> {
        let work = self.store.work();
        std::fs::create_dir_all(&work).with_context(|| format!("{} can't be made", work.display()))?;
        check_space(&work, spec)?;
        let dir = self.store.begin(spec)?;
        let longest = Duration::from_secs(self.plan.experiment.max_block_duration_seconds);
        let bench = self.benches.of(&spec.trial.config);
        let trial = Trial { bench, dir: &dir, work: &work, cpus: &self.cpus };
        let (started, since) = (machine::unix_ms(), Instant::now());
        let kills = self.kills.count();
        let child = child::start(&trial).with_context(|| format!("{} can't be started", bench.display()))?;
        self.store.note_child(Some(child.id()));
        let stop = Arc::clone(&self.stop);
        let ended = child::watch(
            child,
            longest,
            || stop.load(Ordering::SeqCst),
            |progress| {
                self.screen.progress(&spec.trial, progress, eta);
            },
        );
        self.store.note_child(None);
        let ended = ended.context("the trial can't be watched")?;
        let seconds = since.elapsed().as_secs_f64();
        self.store.remove_leftovers()?;
        let starved = oom::has_grown(&kills, &self.kills.count());
        self.outcome(spec, ended, started, seconds, starved)
    }

    /// `starved`: the kernel killed something for want of memory meanwhile.
    fn outcome(
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
            Ok(Tried::Attempt(Attempt::Lost(lost), seconds))
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
            Ended::Overdue => return lost(LostReason::Crashed, "it took longer than maxBlockDuration".to_owned()),
            Ended::Exited { status, printed } => (status, printed),
        };
        if starved && child::is_killed(status) {
            let message = "the kernel killed it, as memory had run out".to_owned();
            return lost(LostReason::OutOfMemory, message);
        }
        let words = child::last_words(&dir);
        match status.code().and_then(Exit::from_code) {
            Some(Exit::SpecRefused) => anyhow::bail!(
                "{} refuses the spec of trial {}: {words}; see {}",
                self.benches.of(&spec.trial.config).display(),
                spec.trial.file_stem(),
                dir.display()
            ),
            Some(Exit::EnvironmentRefused) => return Ok(Tried::Refused(words)),
            Some(Exit::Completed | Exit::ConfigFailed) | None => {}
        }
        if let Some(message) = unreadable {
            return lost(LostReason::UnreadableRecord, message);
        }
        let mut message = format!("{} and left no record", child::ending(status));
        for (what, text) in [("it said", words.as_str()), ("it printed", printed.trim())] {
            if !text.is_empty() {
                let _ = write!(message, "; {what}: {text}");
            }
        }
        lost(LostReason::Crashed, message)
    }

    fn lost(&self, trial: TrialId, started_unix_ms: u64, reason: LostReason, message: String) -> Lost {
        Lost { plan: self.plan.digest.clone(), trial, started_unix_ms, boot: machine::boot(), reason, message }
    }

    /// A trial that did not start is no attempt: nothing was seen of it. But it is no use to go on for ever.
    fn refused(&mut self, trial: &TrialId, message: &str) -> anyhow::Result<()> {
        let lower = message.to_lowercase();
        if lower.contains("no space left") || lower.contains("disk is full") {
            return Err(Full(message.to_owned()).into());
        }
        self.refusals += 1;
        self.screen.say(&format!("assay: {} did not start: {message}", trial.file_stem()));
        if self.refusals >= REFUSALS {
            anyhow::bail!(
                "the environment refused {REFUSALS} trials in a row ({message}): correct it, then run the same command again"
            );
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }

    /// Says how a trial went.
    fn tell(&mut self, trial: &TrialId, seconds: f64) -> anyhow::Result<()> {
        let places = Places::new(self.plan, &self.attempts)?;
        let last = self.attempts.len() - 1;
        let (state, loud) = match places.fate(last) {
            Fate::Used => ("valid".to_owned(), false),
            Fate::Held(finding) => (format!("held: {}", finding.message), true),
            Fate::Failed => {
                let message = match &self.attempts[last] {
                    Attempt::Finished(summary) => summary.failure.as_ref().map_or("", |failure| &failure.message),
                    Attempt::Lost(lost) => &lost.message,
                };
                (format!("failed: {message}"), true)
            }
            Fate::Invalid(findings) => {
                let all: Vec<String> =
                    findings.iter().map(|finding| format!("{}: {}", finding.code, finding.message)).collect();
                (format!("invalid: {}", all.join("; ")), true)
            }
            Fate::Lost(lost) => (format!("lost: {}", lost.message), true),
            Fate::BlockInterrupted | Fate::Superseded => ("does not count".to_owned(), false),
        };
        let report = judge_with(&places, &self.design, Intervals::None)?;
        self.screen.end(trial, Some(seconds), done(&places), (&state, loud), &so_far(&report));
        self.tell_decisions(&report);
        Ok(())
    }

    /// Says which configs a look has just decided.
    fn tell_decisions(&mut self, report: &Report) {
        if report.progress.complete {
            return;
        }
        for config in report.configs.iter().filter(|config| config.ruling.reason != INCOMPLETE) {
            if self.decided.insert(config.config.clone()) {
                let blocks = config.ruling.estimates.first().map_or(0, |estimate| estimate.blocks);
                let verdict = format!("{:?}", config.ruling.verdict);
                self.screen.say(&screen::decided(&config.config, blocks, &verdict, &config.ruling.reason));
            }
        }
    }
}

/// Before a trial fails for want of space, which would look like its config's fault.
fn check_space(work: &Path, spec: &TrialSpec) -> anyhow::Result<()> {
    let free = machine::free_bytes(work).with_context(|| format!("the free space of {} is unknown", work.display()))?;
    if free < spec.max_disk_bytes {
        return Err(Full(format!(
            "{} has {} MiB free, a trial of scenario {} may need {} MiB",
            work.display(),
            free >> 20,
            spec.trial.scenario,
            spec.max_disk_bytes >> 20
        ))
        .into());
    }
    Ok(())
}

/// Places that need no more runs.
fn done(places: &Places<'_>) -> usize {
    places.blocks().iter().flat_map(|block| &block.places).filter(|place| !matches!(place, Place::Open { .. })).count()
}

/// Places that do, by scenario.
fn open<'a>(places: &Places<'a>) -> BTreeMap<&'a str, usize> {
    let mut open = BTreeMap::new();
    for (planned, state) in places.plan().blocks.iter().zip(places.blocks()) {
        let count = state.places.iter().filter(|place| matches!(place, Place::Open { .. })).count();
        *open.entry(planned.scenario.as_str()).or_default() += count;
    }
    open
}

#[cfg(test)]
mod tests;
