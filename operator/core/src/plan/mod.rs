//! The plan: which trial runs when. Fixed and digested before the first trial.
//!
//! # The order, for another implementation
//!
//! Randomness is the key stream of `ChaCha20` (96-bit nonce and counter zero, 20 rounds), read as little-endian 32-bit
//! words. Its key is the SHA-256 of a JSON array without white space:
//!
//! - of block `b` of a scenario: `["assay plan 2","block","SPEC","SEED","SCENARIO",b]`,
//! - of round `b`: `["assay plan 2","round","SPEC","SEED",b]`,
//!
//! where SPEC is `experiment.spec` and SEED is `spec.seed` in decimal. A number below `n` is drawn by taking words until
//! one is below the largest multiple of `n` that is not above 2^32; the number is that word modulo `n`. A list is
//! shuffled by exchanging, for `i` from its last index down to 1, element `i` with the element at a number below `i + 1`.
//!
//! A block of `k` configs and `m` baseline runs has `k + m` slots, in segments: segment `j` begins at slot
//! `floor(j (k + m) / m)`. For each segment in turn a number below its length says where its baseline run is. If the
//! next number below 2 is 1, each of these slots is counted from the end of the block instead. Then the configs, in the order of the file, are shuffled and fill the other slots in order. The seed of the block's operations
//! is the next two words, low word first, without the upper 11 bits, so that every reader of JSON holds it exactly.
//!
//! Round `b` is block `b` of every scenario: the scenarios, in the order of the file, shuffled by the round's stream. So
//! whoever stops early has complete rounds. The order of configs and scenarios in the file matters, as it is part of
//! the spec that the seed is made of.

mod estimate;
mod order;
pub mod power;
mod spec;

use assay_protocol::{Digest, TrialId, TrialSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::{ConfigUnderTest, Experiment, Scenario};

pub use estimate::{Duration, assumed, assumed_seconds};
pub use spec::{format_of, formats};

/// The version of plans that this crate writes and reads.
pub const VERSION: u32 = 1;

/// Randomised complete blocks: every block holds every config once and the baseline `m0` times, in seeded
/// random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Version of the plan's format.
    pub version: u32,
    /// Digest of experiment and blocks. Every record names it.
    pub digest: Digest,
    pub experiment: Experiment,
    /// In the order in which they run.
    pub blocks: Vec<Block>,
}

/// One repetition of one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Block {
    pub scenario: String,
    /// Number within the scenario, from 0.
    pub number: u32,
    /// Seed of the operations, equal for all trials of the block.
    pub seed: u64,
    /// The trials in the order in which they run.
    pub slots: Vec<Slot>,
}

/// One trial of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slot {
    pub config: String,
    /// Which of the baseline's runs in the block this is; 0 for other configs.
    pub replicate: u32,
}

/// Why there is no plan, or none of its trials.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("the experiment has no baseline")]
    NoBaseline,
    #[error("the plan has version {found}, but this build reads version {VERSION}; use the assay that wrote it")]
    Version { found: u32 },
    #[error("the plan was changed after it was made: its digest is {found}, but its content has {expected}")]
    Changed { found: Digest, expected: Digest },
    #[error("the plan has no run {} in block {} of scenario {scenario:?}", slot + 1, block + 1)]
    NoSuchSlot { scenario: String, block: u32, slot: usize },
    #[error("the plan can't be written as JSON: {0}")]
    Unwritable(#[from] serde_json::Error),
}

impl Plan {
    /// Draws the order of all trials.
    pub fn new(experiment: Experiment) -> Result<Self, PlanError> {
        let blocks = order::blocks(&experiment)?;
        let digest = Digest::of_json(&(&experiment, &blocks))?;
        Ok(Self { version: VERSION, digest, experiment, blocks })
    }

    /// Refuses plans of another version, and those that were edited since they were made.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.version != VERSION {
            return Err(PlanError::Version { found: self.version });
        }
        let expected = Digest::of_json(&(&self.experiment, &self.blocks))?;
        if expected == self.digest { Ok(()) } else { Err(PlanError::Changed { found: self.digest.clone(), expected }) }
    }

    /// The block of this number within a scenario.
    pub fn block(&self, scenario: &str, number: u32) -> Option<&Block> {
        self.blocks.iter().find(|block| block.number == number && block.scenario == scenario)
    }

    /// The first attempt of every trial, in the order in which they run.
    pub fn trials(&self) -> impl Iterator<Item = TrialId> + '_ {
        self.blocks.iter().flat_map(|block| (0..block.slots.len()).filter_map(|slot| block.trial(slot, 0)))
    }

    /// What the bench has to know to run a trial of this plan.
    pub fn trial_spec(&self, block: &Block, slot: usize, attempt: u32) -> Result<TrialSpec, PlanError> {
        let missing = || PlanError::NoSuchSlot { scenario: block.scenario.clone(), block: block.number, slot };
        let trial = block.trial(slot, attempt).ok_or_else(missing)?;
        let scenario = self.experiment.scenario(&trial.scenario).ok_or_else(missing)?;
        let config = self.experiment.config(&trial.config).ok_or_else(missing)?;
        Ok(spec::trial_spec(&self.experiment, scenario, config, &self.digest, trial, block.seed))
    }

    /// A spec of the same size as the largest that these two take part in: what the limit on summaries is checked with.
    pub(crate) fn largest_spec(experiment: &Experiment, scenario: &Scenario, config: &ConfigUnderTest) -> TrialSpec {
        let trial = TrialId {
            scenario: scenario.name.clone(),
            block: u32::MAX,
            config: config.name.clone(),
            replicate: u32::MAX,
            order: u32::MAX,
            attempt: u32::MAX,
        };
        spec::trial_spec(experiment, scenario, config, &experiment.spec, trial, u64::MAX)
    }
}

impl Block {
    /// An attempt of the trial in a slot.
    pub fn trial(&self, slot: usize, attempt: u32) -> Option<TrialId> {
        self.slots.get(slot).map(|Slot { config, replicate }| TrialId {
            scenario: self.scenario.clone(),
            block: self.number,
            config: config.clone(),
            replicate: *replicate,
            order: slot as u32,
            attempt,
        })
    }
}

#[cfg(test)]
mod tests;
