//! Why a trial has no measurement, and who is to blame for it.

use assay_protocol::{FailureKind, TrialSpec};

use crate::engine::EngineError;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("spec refused: {0}")]
    Spec(String),
    #[error("environment not usable: {0}")]
    Environment(String),
    #[error("the workload failed under config {config}: {message}")]
    Config { config: String, kind: FailureKind, message: String },
}

/// Sorts an engine's error by who is to blame.
pub fn blame(error: &EngineError, spec: &TrialSpec) -> TrialError {
    let message = error.to_string();
    let kind = match error {
        EngineError::Options { .. } => return TrialError::Spec(message),
        EngineError::Io { .. } => return TrialError::Environment(message),
        EngineError::Open { .. } | EngineError::Call(_) if message.contains("No space left on device") => {
            return TrialError::Environment(format!("the disk is full ({message})"));
        }
        EngineError::Open { .. } | EngineError::Call(_) if message.contains("Corruption") => FailureKind::Corruption,
        EngineError::Open { .. } if message.contains("Invalid argument") => return TrialError::Spec(message),
        EngineError::Open { .. } | EngineError::Call(_) => FailureKind::EngineError,
    };
    TrialError::Config { config: spec.trial.config.clone(), kind, message }
}
