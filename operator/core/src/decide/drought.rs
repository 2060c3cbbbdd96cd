//! Experiments without a valid run: how long to wait before the next attempt, and when to give up.
//!
//! Disturbances come in stretches, so the first attempts may fail for a cause that ends by itself. After [`HOPELESS`] failed attempts, each
//! wait is as long as the time since the first attempt, from a minute to an hour. The experiment ends after [`HOPELESS`] failed attempts in
//! each of [`HOPELESS_BLOCKS`] blocks, or once attempts have failed for `maxWaitSeconds`. Waits and end follow from the attempts, so a
//! restart loses nothing and a later judgement agrees.

use std::collections::BTreeMap;

use crate::attempt::{Attempt, Lost, LostReason};
use crate::experiment::Experiment;
use crate::gates::{Code, Finding, Gated, TrialState};

/// Attempts without a valid run after which executors wait before the next one, and after which a block is hopeless.
pub const HOPELESS: usize = 6;
/// Hopeless blocks after which an experiment without a valid run ends.
pub const HOPELESS_BLOCKS: usize = 3;

const SHORTEST_WAIT_MS: u64 = 60_000;
const LONGEST_WAIT_MS: u64 = 3_600_000;

/// Attempts of an experiment, none of which was valid.
#[derive(Debug)]
pub(super) struct Drought {
    attempts: usize,
    hopeless_blocks: usize,
    /// When the first and the last of the attempts began that count.
    first_unix_ms: u64,
    last_unix_ms: u64,
    causes: String,
}

impl Drought {
    /// `None` once a run is valid or has failed under its config, and before there are [`HOPELESS`] attempts. What the infrastructure
    /// does to trials says nothing about those to come, and does not count.
    pub fn of(attempts: &[Attempt], gated: &Gated) -> Option<Self> {
        let useful = gated.trials.iter().any(|state| !matches!(state, TrialState::Invalid(_)))
            || attempts.iter().any(Attempt::has_failed);
        if useful {
            return None;
        }
        let counts = |attempt: &&Attempt| match attempt {
            Attempt::Finished(_) => true,
            Attempt::Lost(lost) => was_made(lost) && !lost.reason.is_infrastructure(),
        };
        let counted: Vec<&Attempt> = attempts.iter().filter(counts).collect();
        let began = || counted.iter().map(|attempt| attempt.moment().unix_ms);
        let (first_unix_ms, last_unix_ms) = (began().min()?, began().max()?);
        let mut of_blocks: BTreeMap<(&str, u32), usize> = BTreeMap::new();
        for attempt in &counted {
            let id = attempt.trial();
            *of_blocks.entry((&id.scenario, id.block)).or_default() += 1;
        }
        (counted.len() >= HOPELESS).then(|| Self {
            attempts: gated.trials.len() + lost(attempts).count(),
            hopeless_blocks: of_blocks.values().filter(|&&tries| tries >= HOPELESS).count(),
            first_unix_ms,
            last_unix_ms,
            causes: causes(attempts, gated),
        })
    }

    /// Why the experiment ends; `None` while another attempt is worth its time.
    pub fn end(&self, experiment: &Experiment) -> Option<Finding> {
        let blocks = experiment.scenarios.len().saturating_mul(experiment.repetitions as usize);
        let limit = if self.hopeless_blocks >= HOPELESS_BLOCKS.min(blocks) {
            format!("{HOPELESS} or more in each of {} blocks", self.hopeless_blocks)
        } else if self.last_unix_ms >= self.deadline(experiment) {
            format!("for as long as maxWaitSeconds allows, {} s", experiment.max_wait_seconds)
        } else {
            return None;
        };
        let message = format!("none of {} attempts was valid ({}), {limit}", self.attempts, self.causes);
        Some(Finding::new(Code::NothingValid, message))
    }

    /// When the next attempt may begin, if that is later than now. The last attempt begins at the deadline. If the clock was set back, the
    /// next attempt begins at once.
    pub fn wait_until(&self, experiment: &Experiment, now_unix_ms: u64) -> Option<u64> {
        let spent = self.last_unix_ms - self.first_unix_ms;
        let until = self.last_unix_ms.saturating_add(spent.clamp(SHORTEST_WAIT_MS, LONGEST_WAIT_MS));
        let until = until.min(self.deadline(experiment));
        (self.last_unix_ms <= now_unix_ms && now_unix_ms < until).then_some(until)
    }

    /// Number and causes of the attempts so far, in words.
    pub fn why(&self) -> String {
        format!("none of {} attempts was valid so far ({})", self.attempts, self.causes)
    }

    fn deadline(&self, experiment: &Experiment) -> u64 {
        self.first_unix_ms.saturating_add(experiment.max_wait_seconds.saturating_mul(1000))
    }
}

fn was_made(lost: &Lost) -> bool {
    lost.reason != LostReason::GivenUp
}

/// Attempts that were made and left no record.
fn lost(attempts: &[Attempt]) -> impl Iterator<Item = &Lost> {
    let lost = attempts.iter().filter_map(|attempt| match attempt {
        Attempt::Finished(_) => None,
        Attempt::Lost(lost) => Some(&**lost),
    });
    lost.filter(|lost| was_made(lost))
}

/// Each cause with how often it was seen.
fn causes(attempts: &[Attempt], gated: &Gated) -> String {
    let mut causes: BTreeMap<String, usize> = BTreeMap::new();
    for state in &gated.trials {
        if let TrialState::Invalid(findings) = state {
            let code = findings.first().map(|finding| finding.code.to_string());
            *causes.entry(code.unwrap_or_default()).or_default() += 1;
        }
    }
    for lost in lost(attempts) {
        *causes.entry(format!("{:?}", lost.reason)).or_default() += 1;
    }
    let causes: Vec<String> = causes.iter().map(|(cause, count)| format!("{cause} {count} times")).collect();
    causes.join(", ")
}
