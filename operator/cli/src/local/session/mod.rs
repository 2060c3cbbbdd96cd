//! The loop: ask what is next, do it, write down what came of it.

mod attempt;
mod progress;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_core::attempt::{Attempt, Lost, LostReason, Moment};
use assay_core::decide::{Action, Place, Places, Wait};
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::report::Report;
use assay_core::verdict::Design;
use assay_protocol::TrialId;
use k8s_openapi::jiff::Timestamp;

use super::cpus::Cpus;
use super::interrupted::Interrupted;
use super::oom::OomKills;
use super::quiet;
use crate::bench::Benches;
use crate::folder::{Full, Outcome, Pages, Store, earlier};
use crate::machine;
use crate::screen::{Screen, advised};
pub use attempt::SpecRefused;
use attempt::Tried;

/// Refusals in a row after which the environment is left alone.
const REFUSALS: u32 = 3;
/// Between two refusals: a full disk or a busy port may clear.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two looks at whether Ctrl-C was pressed.
const STEP: Duration = Duration::from_millis(100);

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
    /// Configs whose decision was said.
    decided: BTreeSet<String>,
    /// How long a trial may wait for a quiet machine.
    quiet: Option<Duration>,
    /// When something else is due here, which is not kept waiting by attempts in vain.
    next_due: Option<Timestamp>,
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
            screen.say(&format!("assay: continuing; attempts so far: {}", loaded.attempts.len()));
        }
        let (design, attempts) = (plan.experiment.design(), loaded.attempts);
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
            quiet: None,
            next_due: None,
        })
    }

    pub fn waiting_for_quiet(self, longest: Option<Duration>) -> Self {
        Self { quiet: longest, ..self }
    }

    pub fn before(self, next_due: Option<Timestamp>) -> Self {
        Self { next_due, ..self }
    }

    /// Runs trials until nothing is left to do, or something stops it. Finished records are kept either way.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let ran = self.run_all();
        self.screen.clear();
        ran
    }

    /// The outcome of what there is, written to the folder.
    pub fn report(&self) -> anyhow::Result<Report> {
        let report = advised(judge(self.plan, &self.attempts)?).beside(earlier(self.store.dir()));
        let pages = Pages::of(&report, self.store.dir());
        pages.keep(self.store.dir())?;
        Ok(pages.report)
    }

    /// Removes the databases of a finished experiment.
    pub fn clean(&self) -> anyhow::Result<()> {
        self.store.remove_work()
    }

    /// What came of it, as its report says.
    pub fn outcome(self, report: Report) -> Outcome {
        let dir = self.store.dir().to_owned();
        Outcome { plan: self.plan.clone(), attempts: self.attempts, report, dir }
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
                    let message = "its block was interrupted too often".to_owned();
                    let lost = self.lost(trial, now.unix_ms, LostReason::GivenUp, message);
                    self.store.keep_lost(&lost)?;
                    self.attempts.push(Attempt::from(lost));
                    continue;
                }
                Action::Wait(wait) => {
                    self.wait(&wait)?;
                    continue;
                }
                Action::Run { block, slot, trial } => (block, slot, trial),
            };
            let (done, eta) = (done(&places), self.screen.eta(&open(&places)));
            self.screen.begin(&trial, done, &eta);
            if let Some(longest) = self.quiet {
                quiet::wait(&self.cpus.trial, longest, &self.stop, |text| self.screen.say(text))?;
            }
            let spec = self.plan.trial_spec(&self.plan.blocks[block], slot, trial.attempt)?;
            match self.attempt(&spec, &eta)? {
                Tried::Attempt(attempt, seconds) => {
                    self.refusals = 0;
                    self.attempts.push(attempt);
                    self.say_fate(&trial, seconds)?;
                }
                Tried::Refused(message) => self.refused(&trial, &message)?,
            }
        }
    }

    /// Waits before the next attempt of an experiment without a valid run. The clock may be set meanwhile, so it is read again and again.
    fn wait(&self, wait: &Wait) -> anyhow::Result<()> {
        let until = i64::try_from(wait.until_unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let until = until.unwrap_or(Timestamp::MAX);
        if let Some(due) = self.next_due.filter(|due| *due <= until) {
            anyhow::bail!("{}, and the next night is due at {due:.0}", wait.why);
        }
        let began = machine::unix_ms();
        let seconds = wait.until_unix_ms.saturating_sub(began).div_ceil(1000);
        self.screen.say(&format!("assay: {}: the next one begins in {seconds} s, after {until:.0}", wait.why));
        while (began..wait.until_unix_ms).contains(&machine::unix_ms()) {
            if self.stop.load(Ordering::SeqCst) {
                return Err(Interrupted.into());
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    fn lost(&self, trial: TrialId, started_unix_ms: u64, reason: LostReason, message: String) -> Lost {
        Lost { plan: self.plan.digest.clone(), trial, started_unix_ms, boot: machine::boot(), reason, message }
    }

    /// A trial that the environment refused is no attempt: nothing was seen of it. But it is no use to go on for ever.
    fn refused(&mut self, trial: &TrialId, message: &str) -> anyhow::Result<()> {
        let lower = message.to_lowercase();
        if lower.contains("no space left") || lower.contains("disk is full") {
            return Err(Full::disk(message).into());
        }
        self.refusals += 1;
        self.screen.say(&format!("assay: {} could not run: {message}", trial.file_stem()));
        if self.refusals >= REFUSALS {
            anyhow::bail!(
                "the environment refused {REFUSALS} trials in a row ({message}): fix it and run the same command again"
            );
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
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
