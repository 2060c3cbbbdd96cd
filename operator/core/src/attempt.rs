//! One try of one trial, and which pass over its block it belongs to.

use std::sync::Arc;

use assay_protocol::{Digest, Summary, TrialId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Repetitions of a place within its block.
pub const RERUNS: u32 = 2;
/// Repetitions of a whole block.
pub const REDOS: u32 = 2;
/// Attempts of a place in one pass over its block. The attempt's number tells the pass by it.
pub(crate) const TRIES: u32 = RERUNS + 1;

/// Which pass over its block an attempt belongs to, from 0.
pub fn pass(attempt: u32) -> u32 {
    attempt / TRIES
}

/// One try of one trial, as the executor saw it end.
#[derive(Clone, Debug, PartialEq)]
pub enum Attempt {
    /// There is a record: of a completed trial, or of one that failed under its config.
    Finished(Arc<Summary>),
    Lost(Arc<Lost>),
}

impl From<Lost> for Attempt {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost.into())
    }
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

    /// Whether the workload failed under its config. Wrong answers are no measurement of anything, whatever the run's end.
    pub fn has_failed(&self) -> bool {
        match self {
            Self::Finished(summary) => has_failed(summary),
            Self::Lost(lost) => lost.reason.is_failure(),
        }
    }

    pub(crate) fn moment(&self) -> Moment<'_> {
        match self {
            Self::Finished(summary) => Moment { unix_ms: summary.started_unix_ms, boot: summary.parity.boot.as_ref() },
            Self::Lost(lost) => Moment { unix_ms: lost.started_unix_ms, boot: lost.boot.as_ref() },
        }
    }
}

/// Whether a run with a record failed under its config.
pub(crate) fn has_failed(summary: &Summary) -> bool {
    summary.failure.is_some() || summary.parity.wrong_answers > 0
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
    /// It ended itself, by an illegal access, an abort or a panic: a failure under the config, though without a record.
    Faulted,
    /// The kernel killed it for want of memory. There is no record, but it is a failure under the config all the same.
    OutOfMemory,
    /// It filled more of its node's disk than its pod may, and was evicted. There is no record, but it is a failure under the config.
    DiskQuota,
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
    pub const ALL: [Self; 11] = [
        Self::Crashed,
        Self::Faulted,
        Self::OutOfMemory,
        Self::DiskQuota,
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

    /// There is no record, but the workload failed under its config.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::OutOfMemory | Self::DiskQuota | Self::Faulted)
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
