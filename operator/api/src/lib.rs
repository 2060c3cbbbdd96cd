//! The Kubernetes API of Assay, group `assay.rocks`, version `v1alpha1`.

mod crd;
mod experiment;

pub use crd::{crds, schema};
pub use experiment::{
    BlockCacheSpec, CacheSharing, Config, DatasetSource, DefaultGuardrails, FamilyOptionsSpec, JudgedMetric,
    OptionValue, Placement, Requirement, Scenario, TuningExperiment, TuningExperimentSpec, WriteOptionsSpec,
};
