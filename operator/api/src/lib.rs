//! The Kubernetes API of Assay, group `assay.rocks`, version `v1alpha1`.

mod crd;
mod experiment;

pub use crd::{crds, schema};
pub use experiment::{
    BlockCacheSpec, CacheSharing, CellsAdjust, Config, DatasetSource, DefaultGuardrails, FamilyOptionsSpec, Futility,
    JudgedMetric, OptionValue, Placement, Requirement, Scenario, StopOn, TuningExperiment, TuningExperimentSpec,
    WriteOptionsSpec,
};
