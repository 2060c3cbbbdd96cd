//! Why a trial has no measurement, and who is to blame for it.

use std::path::Path;

use assay_protocol::{Exit, FailureKind, TrialSpec};

use crate::{
    dataset,
    engine::{EngineError, Fault},
};

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("spec refused: {0}")]
    Spec(String),
    #[error("environment not usable: {0}")]
    Environment(String),
    /// The machine failed beneath the workload. Unlike a refusal, this counts as a lost attempt: if it befalls one config more often
    /// than the baseline, no try must be forgotten.
    #[error("the machine failed while the workload ran: {0}")]
    Lost(String),
    #[error("the workload failed under config {config}: {message}")]
    Config { config: String, kind: FailureKind, message: String },
}

impl TrialError {
    pub fn exit_code(&self) -> u8 {
        // None of the protocol's: executors count the attempt as lost.
        const LOST: u8 = 1;
        match self {
            Self::Spec(_) => Exit::SpecRefused as u8,
            Self::Environment(_) => Exit::EnvironmentRefused as u8,
            Self::Lost(_) => LOST,
            Self::Config { .. } => Exit::ConfigFailed as u8,
        }
    }
}

/// Sorts an engine's error by who is to blame. A config is blamed for nothing that the machine can do to any config: a failed system
/// call makes the trial run again.
pub fn blame(error: &EngineError, spec: &TrialSpec, trial_dir: &Path) -> TrialError {
    let message = error.to_string();
    match error.fault() {
        Fault::Refused => TrialError::Spec(message),
        Fault::DiskFull => outgrown(spec, trial_dir)
            .unwrap_or_else(|| TrialError::Environment(format!("the disk is full ({message})"))),
        Fault::Machine => TrialError::Environment(message),
        Fault::Corruption => failed(spec, FailureKind::Corruption, message),
        Fault::Engine => failed(spec, FailureKind::EngineError, message),
    }
}

/// The same for an error after the workload began.
pub fn blame_under_way(error: &EngineError, spec: &TrialSpec, trial_dir: &Path) -> TrialError {
    match (error.fault(), blame(error, spec, trial_dir)) {
        (Fault::Machine, TrialError::Environment(message)) => TrialError::Lost(message),
        (_, other) => other,
    }
}

/// The failure of a trial whose database outgrew its declared size.
pub fn outgrown(spec: &TrialSpec, trial_dir: &Path) -> Option<TrialError> {
    let (size, limit) = (dataset::size(trial_dir), spec.max_disk_bytes);
    let message = || format!("the database grew to {size} bytes; its limit is {limit}");
    (size > limit).then(|| failed(spec, FailureKind::DiskQuota, message()))
}

pub fn failed(spec: &TrialSpec, kind: FailureKind, message: String) -> TrialError {
    TrialError::Config { config: spec.trial.config.clone(), kind, message }
}
