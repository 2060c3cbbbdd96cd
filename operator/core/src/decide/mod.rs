//! What to do next: a pure step from what was observed to one action.
//!
//! The rules of retrying, for every executor:
//!
//! - A place is one run of a plan: a config (or one of the baseline's runs) in a block. An attempt that was lost, or that a gate
//!   found invalid, is repeated at the end of its block, at most [`RERUNS`] times. Then its place stays empty.
//! - All attempts of a block belong together only while the machine has not been rebooted and the block is younger than
//!   `maxBlockDuration`. After that, or when one of the baseline's places stays empty, the block is interrupted: its
//!   runs are kept but don't count, and it is run again as a whole, at most [`REDOS`] times. What is still open in the last
//!   pass is given up.
//! - A run that failed under its config is a fact about the config. It is not repeated: a config that needs three tries to
//!   get through is not a config that got through. After [`FAILURES`] failures without a single success in a scenario the rest of
//!   its runs there are skipped.
//! - Runs of a config that a gate has found invalid for good are skipped, and when nothing is left to compare, or the first
//!   [`HOPELESS`] attempts gave nothing valid, the experiment is over.
//!
//! None of this looks at results, so nobody's luck is repeated until it turns. Only the looks that were planned before the
//! first trial do ([`looks`]): they end a config's runs early, at the price that its claims pay for each look.

pub mod fleet;
mod looks;
mod places;
#[cfg(test)]
mod simulation;

use assay_record::{Digest, Summary, TrialId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use places::{BlockState, Fate, Place, Places, Unplanned};

use crate::plan::Plan;

/// Repetitions of a place within its block.
pub const RERUNS: u32 = 2;
/// Repetitions of a whole block.
pub const REDOS: u32 = 2;
/// Failures of a config in a scenario, without a success, after which it is not tried there again.
pub const FAILURES: u32 = 5;
/// Attempts without a valid run at the start of an experiment after which it is not worth going on.
pub const HOPELESS: usize = 6;

/// Attempts of a place in one pass over its block. The attempt's number tells the pass by it.
const TRIES: u32 = RERUNS + 1;

/// Which pass over its block an attempt belongs to, from 0.
pub fn pass(attempt: u32) -> u32 {
    attempt / TRIES
}

/// One try of one trial, as the executor saw it end.
#[derive(Clone, Debug, PartialEq)]
pub enum Attempt {
    /// There is a record: of a completed trial, or of one that failed under its config.
    Finished(Box<Summary>),
    Lost(Lost),
}

impl Attempt {
    pub fn trial(&self) -> &TrialId {
        match self {
            Self::Finished(summary) => &summary.trial,
            Self::Lost(lost) => &lost.trial,
        }
    }

    /// Digest of the plan that it belongs to.
    pub fn plan(&self) -> &Digest {
        match self {
            Self::Finished(summary) => &summary.plan,
            Self::Lost(lost) => &lost.plan,
        }
    }

    /// Whether the workload failed under its config.
    pub fn has_failed(&self) -> bool {
        match self {
            Self::Finished(summary) => summary.failure.is_some(),
            Self::Lost(lost) => lost.reason == LostReason::OutOfMemory,
        }
    }

    fn moment(&self) -> Moment<'_> {
        match self {
            Self::Finished(summary) => Moment { unix_ms: summary.started_unix_ms, boot: summary.parity.boot.as_ref() },
            Self::Lost(lost) => Moment { unix_ms: lost.started_unix_ms, boot: lost.boot.as_ref() },
        }
    }
}

/// An attempt that left no record: nobody's fault, except where the reason says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lost {
    pub plan: Digest,
    pub trial: TrialId,
    pub started_unix_ms: u64,
    pub boot: Option<Digest>,
    pub reason: LostReason,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum LostReason {
    /// The program ended without a record, or with an unknown exit code.
    Crashed,
    /// The kernel killed it for want of memory. There is no record, but it is a failure under the config all the same.
    OutOfMemory,
    /// What it left is not a record of this trial.
    UnreadableRecord,
    /// The environment refused before the workload started.
    EnvironmentRefused,
    /// Its pod did not start in time: no image, no volume, no room.
    NotStarted,
    /// Somebody deleted its pod.
    Deleted,
    /// The node needed its resources for something else.
    Evicted,
    /// Its node vanished, or was silent for too long.
    NodeLost,
    /// Not run: its block was interrupted for the last time.
    GivenUp,
}

impl LostReason {
    /// Every reason there is.
    pub const ALL: [Self; 9] = [
        Self::Crashed,
        Self::OutOfMemory,
        Self::UnreadableRecord,
        Self::EnvironmentRefused,
        Self::NotStarted,
        Self::Deleted,
        Self::Evicted,
        Self::NodeLost,
        Self::GivenUp,
    ];

    /// The reason that is written so.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| format!("{reason:?}") == word)
    }

    /// It tells of what happened around the trial, and nothing of the trial.
    pub fn is_infrastructure(self) -> bool {
        matches!(self, Self::EnvironmentRefused | Self::Deleted | Self::Evicted | Self::NodeLost)
    }
}

/// When and where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment<'a> {
    pub unix_ms: u64,
    /// Digest of the machine's boot id.
    pub boot: Option<&'a Digest>,
}

/// What the executor is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run this trial: position of the block in the plan, and of the slot in the block.
    Run { block: usize, slot: usize, trial: TrialId },
    /// Note this trial as lost for [`LostReason::GivenUp`]: nothing will be run in its place.
    GiveUp { block: usize, slot: usize, trial: TrialId },
    /// Nothing is left to do.
    Finished,
}

/// The next action, given everything that was observed. The order of the attempts does not matter.
pub fn decide(plan: &Plan, attempts: &[Attempt], now: Moment<'_>) -> Result<Action, Unplanned> {
    Ok(Places::new(plan, attempts)?.next(now))
}

impl Places<'_> {
    /// The next action.
    pub fn next(&self, now: Moment<'_>) -> Action {
        if self.is_over() {
            return Action::Finished;
        }
        (0..self.blocks().len()).find_map(|block| self.next_in(block, now)).unwrap_or(Action::Finished)
    }

    /// The next action in one block; `None` when nothing is left to do in it.
    pub fn next_in(&self, index: usize, now: Moment<'_>) -> Option<Action> {
        let block = &self.blocks()[index];
        let last_pass = block.pass == REDOS;
        if block.is_lost() {
            return if block.is_closed() { None } else { self.redo(index) };
        }
        // First tries in the planned order, then repetitions: a disturbance may be gone by the end of the block.
        let open = |tried: bool| {
            block.places.iter().enumerate().find_map(move |(slot, place)| match place {
                Place::Open { tries } if (*tries > 0) == tried => Some((slot, *tries)),
                _ => None,
            })
        };
        let (slot, tries) = open(false).or_else(|| open(true))?;
        let expired = block.opened.is_some_and(|opened| {
            let age = now.unix_ms.saturating_sub(opened.unix_ms);
            opened.boot != now.boot || age > self.plan().experiment.max_block_duration_seconds.saturating_mul(1000)
        });
        if expired && !last_pass {
            return self.redo(index);
        }
        let trial = self.plan().blocks[index].trial(slot, block.pass * TRIES + tries)?;
        Some(if expired {
            Action::GiveUp { block: index, slot, trial }
        } else {
            Action::Run { block: index, slot, trial }
        })
    }

    /// Starts the next pass over a block with its first place that is still wanted.
    fn redo(&self, index: usize) -> Option<Action> {
        let block = &self.blocks()[index];
        let slot = block.places.iter().position(|place| !matches!(place, Place::Skipped | Place::Freed))?;
        let trial = self.plan().blocks[index].trial(slot, (block.pass + 1) * TRIES)?;
        Some(Action::Run { block: index, slot, trial })
    }
}
