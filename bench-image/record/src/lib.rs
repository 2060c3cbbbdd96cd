//! The trial protocol: a [`TrialSpec`] goes into `assay-bench`, a [`TrialRecord`] comes out.
//!
//! Everything that a gate or the statistics consume is in the record's [`Summary`], which fits into a
//! container's termination message by construction. Types only: no I/O, no clock.

mod component;
mod cpu_list;
mod digest;
mod evidence;
mod exit;
mod metric;
pub mod option_value;
mod options;
mod record;
mod spec;
mod summary;
mod workload;

pub use component::{COMPONENTS, Clock, Component, component};
pub use cpu_list::CpuList;
pub use digest::{Digest, ParityHash};
pub use evidence::{
    Attestation, Build, Disturbance, Engagement, Evidence, Host, LsmState, OptionFact, OptionStatus, Placement,
    RoleTime, Storage,
};
pub use exit::Exit;
pub use metric::{Direction, METRICS, MetricInfo, Scale, metric};
pub use options::{OptionNote, OptionProblem, OptionsAnswer, OptionsQuestion};
pub use record::{DatasetFacts, FailureKind, FamilyFacts, Latency, Outcome, RoleCounts, Series, TrialRecord, Work};
pub use spec::{
    BlockCache, DatasetSpec, EngineConfig, FamilyOptions, PageCache, TrialId, TrialSpec, VERSION, VersionError,
    WriteOptions, glob_matches,
};
pub use summary::{DisturbanceSummary, FIXED_METRICS, MAX_SUMMARY_BYTES, PodEvidence, Summary, SummaryTooLarge};
pub use workload::{
    Blockstore, Contracts, Ethrex, Follows, KeyOrder, KeyValue, LEAVES_PER_BRANCH, Mix, Preload, RealSize, RethHistory,
    Role, RolePlan, SAVES, ValueBytes, Volume, Workload,
};

/// The JSON Schemas of the documents that leave a process, by file name.
pub fn schemas() -> [(&'static str, schemars::Schema); 3] {
    [
        ("trial-spec.json", schemars::schema_for!(TrialSpec)),
        ("trial-record.json", schemars::schema_for!(TrialRecord)),
        ("trial-summary.json", schemars::schema_for!(Summary)),
    ]
}
