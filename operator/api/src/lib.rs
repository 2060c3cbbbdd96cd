//! The Kubernetes API of Assay, group `assay.rocks`, version `v1alpha1`.

pub mod agent;
pub mod bounds;
pub mod condition;
mod config;
mod crd;
mod experiment;
mod history;
mod matrix;
pub mod names;
mod placement;
mod status;
mod sweep;
mod trial;

pub use config::{BlockCacheSpec, CacheSharing, Config, FamilyOptionsSpec, OptionValue, WriteOptionsSpec};
pub use crd::{crds, schema};
pub use experiment::{
    Better, CellsAdjust, DatasetSource, DefaultGuardrails, Futility, JudgedMetric, QueriedMetric, Scenario, StopOn,
    TuningExperiment, TuningExperimentSpec,
};
pub use history::{TuningHistory, TuningHistorySpec};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
pub use matrix::{Matrix, MatrixAxis, MatrixValue};
pub use placement::{
    ClaimStorage, EmptyDirStorage, Environment, HostPathStorage, NodeToleration, Placement, Provision, Requirement,
    Storage, TaintEffect, TolerationOperator,
};
pub use status::{
    CellVerdict, ConfigVerdict, EstimateStatus, FindingStatus, LabelStatus, PlanStatus, ProgressStatus,
    TuningExperimentStatus,
};
pub use sweep::{
    Accept, ActiveNight, BegunNight, Bisect, Candidate, ConcurrencyPolicy, Cost, Detect, KnownChange, NightTemplate,
    Notified, Notify, SecretRef, SkippedNight, TuningSweep, TuningSweepSpec, TuningSweepStatus, Webhook,
};
pub use trial::{AttemptStatus, PageCacheState, PodEvidenceStatus, TuningTrial, TuningTrialSpec, TuningTrialStatus};
