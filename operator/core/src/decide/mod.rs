//! What to do next: a pure step from what was observed to one action.
//!
//! The rules of retrying, for every executor:
//!
//! - A place is one run of a plan: a config (or one of the baseline's runs) in a block. An attempt that was lost, or that a gate
//!   found invalid, is repeated at the end of its block, at most [`RERUNS`](crate::attempt::RERUNS) times. Then its place stays empty.
//! - All attempts of a block belong together only while the machine has not been rebooted and each began less than
//!   `maxBlockDuration` ago by the wall clock, which nobody has set by more than that. After that, or when one of the baseline's places stays empty, the block is interrupted: its
//!   runs are kept but don't count, and it is run again as a whole, at most [`REDOS`] times. What is still open in the last
//!   pass is given up.
//! - A run that failed under its config is a fact about the config. It is not repeated: a config that needs three tries to
//!   get through is not a config that got through. After as many failures without a single success in a scenario as prove it
//!   ([`fewest_failures`](crate::verdict::fewest_failures)) the rest of its runs there are skipped.
//! - Runs of a config that a gate has found invalid for good are skipped. The experiment ends when nothing is left to compare.
//! - While no run is valid, executors wait longer and longer before the next attempt, and give up in the end ([`drought`]).
//!
//! None of this looks at results, so nobody's luck is repeated until it turns. Only the looks that were planned before the
//! first trial do ([`looks`]): they end a config's runs early, at the price that its claims pay for each look.

mod drought;
pub mod fleet;
mod looks;
mod places;
mod said;
mod samples;
#[cfg(test)]
mod simulation;

use assay_protocol::TrialId;

pub use drought::{HOPELESS, HOPELESS_BLOCKS};
pub use places::{BlockState, Fate, Place, Places, Unplanned};
pub use said::Said;
pub(crate) use samples::Samples;

use crate::attempt::{Attempt, Moment, REDOS, TRIES};
use crate::plan::Plan;
use drought::Drought;

/// What the executor is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run this trial: position of the block in the plan, and of the slot in the block.
    Run { block: usize, slot: usize, trial: TrialId },
    /// Note this trial as lost for [`LostReason::GivenUp`](crate::attempt::LostReason::GivenUp): nothing will be run in its place.
    GiveUp { block: usize, slot: usize, trial: TrialId },
    /// Begin nothing before this time, and give others what the experiment holds until then.
    Wait(Wait),
    /// Nothing is left to do.
    Finished,
}

/// A wait before the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub until_unix_ms: u64,
    /// In words.
    pub why: String,
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
        let next = (0..self.blocks().len()).find_map(|block| self.next_in(block, now)).unwrap_or(Action::Finished);
        match self.wait(now.unix_ms) {
            Some(wait) if matches!(next, Action::Run { .. }) => Action::Wait(wait),
            _ => next,
        }
    }

    /// The wait before the next attempt in any block; `None` if it may begin now.
    pub fn wait(&self, now_unix_ms: u64) -> Option<Wait> {
        let drought = Drought::of(self.attempts(), self.gated())?;
        let until_unix_ms = drought.wait_until(&self.plan().experiment, now_unix_ms)?;
        Some(Wait { until_unix_ms, why: drought.why() })
    }

    /// The next action in one block; `None` when nothing is left to do in it.
    pub fn next_in(&self, index: usize, now: Moment<'_>) -> Option<Action> {
        let block = &self.blocks()[index];
        let last_pass = block.pass == REDOS;
        if block.is_lost() {
            return if block.is_closed() { None } else { self.redo(index) };
        }
        // First attempts in the planned order, then repetitions: a disturbance may be gone by the end of the block.
        let open = |tried: bool| {
            block.places.iter().enumerate().find_map(move |(slot, place)| match place {
                Place::Open { tries } if (*tries > 0) == tried => Some((slot, *tries)),
                _ => None,
            })
        };
        let (slot, tries) = open(false).or_else(|| open(true))?;
        let most = self.plan().experiment.max_block_duration_seconds.saturating_mul(1000);
        // The wall clock may have been set meanwhile, back or forward, so what began far ahead is as doubtful as what is old, and
        // the earliest time need not be of the first attempt.
        let expired =
            block.begun.iter().any(|began| began.boot != now.boot || began.unix_ms.abs_diff(now.unix_ms) > most);
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
