//! The trial protocol between an executor, which plans trials, and a bench, which runs one: a [`TrialSpec`] goes in, a
//! [`TrialRecord`] comes out. How a bench is called is in [`invocation`], what it prints in [`output`], how it ends in
//! [`Exit`]. Neither side spells any of it.
//!
//! Everything that a gate or the statistics consume is in the record's [`Summary`], which fits into a
//! container's termination message by construction. No I/O, no clock.

mod bytes;
mod component;
mod cpu_list;
mod digest;
mod engine_config;
mod evidence;
mod exit;
pub mod invocation;
mod metric;
pub mod option_value;
mod options;
pub mod output;
mod record;
mod spec;
mod summary;
mod workload;

pub use bytes::Bytes;
pub use component::{COMPONENTS, Clock, Component, component};
pub use cpu_list::CpuList;
pub use digest::{Digest, ParityHash};
pub use engine_config::{BlockCache, EngineConfig, FamilyOptions, WriteOptions, glob_matches};
pub use evidence::{
    Attestation, Build, Disturbance, Engagement, Evidence, Host, LsmState, Neighbour, OptionFact, OptionStatus,
    Placement, RoleTime, Storage,
};
pub use exit::Exit;
pub use metric::{Direction, METRICS, MetricInfo, Scale, metric};
pub use options::{OptionNote, OptionProblem, OptionsAnswer, OptionsQuestion};
pub use record::{DatasetFacts, FailureKind, FamilyFacts, Latency, Outcome, RoleCounts, Series, TrialRecord, Work};
pub use spec::{DatasetSpec, PageCache, TrialId, TrialSpec, VERSION, VersionError};
pub use summary::{DisturbanceSummary, FIXED_METRICS, MAX_SUMMARY_BYTES, PodEvidence, Summary, SummaryTooLarge};
pub use workload::{
    Blockstore, Contracts, Ethrex, Follows, KeyOrder, KeyValue, Kind, LEAVES_PER_BRANCH, Mix, Preload, RealSize,
    RethHistory, Role, RolePlan, SAVES, Until, ValueBytes, Volume, Workload, WorkloadProblem,
};

/// The JSON Schemas of the documents that leave a process, by file name.
pub fn schemas() -> [(&'static str, schemars::Schema); 3] {
    [
        ("trial-spec.json", schemars::schema_for!(TrialSpec)),
        ("trial-record.json", schemars::schema_for!(TrialRecord)),
        ("trial-summary.json", schemars::schema_for!(Summary)),
    ]
}
