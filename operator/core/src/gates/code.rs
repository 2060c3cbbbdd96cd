use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rule that found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Gate {
    SameWork,
    SameBuild,
    ConfigAttested,
    Inert,
    Isolated,
    Engaged,
    CausalPath,
    Steady,
    GeneratorHeadroom,
    SameUnits,
    Plausible,
    /// Not about one trial: too many of them gave no measurement.
    Attrition,
}

/// Why something does not count. A closed list, so that reports, metrics and conditions can name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Code {
    WorkMismatch,
    CountsMismatch,
    UserBytesMismatch,
    AnswersMismatch,
    WrongAnswers,
    DatasetMismatch,
    RemovalOverdue,
    FeatureMismatch,
    MachineMismatch,
    Rebooted,
    BaselineOptionsMismatch,
    OptionsMismatch,
    OptionsUnstable,
    UndeclaredOptions,
    OptionsUnknown,
    NoEffectPossible,
    AffinityMismatch,
    AffinityUnstable,
    SharedCores,
    Throttled,
    Overheated,
    Steal,
    ForeignCpu,
    MemoryPressure,
    ClockStep,
    DiskNearlyFull,
    DiskFillChanged,
    NotNvme,
    ReplacedSysfs,
    NotGuaranteed,
    ForeignContainer,
    EvidenceUnknown,
    NotEngaged,
    CausalPathExceeded,
    DatasetFilesMismatch,
    NotSettled,
    HdrSaturated,
    GeneratorBound,
    RateMismatch,
    TimeMismatch,
    Implausible,
    Attrition,
    NothingValid,
    DisturbedUnequally,
}

impl Code {
    pub fn gate(self) -> Gate {
        match self {
            Self::WorkMismatch
            | Self::CountsMismatch
            | Self::UserBytesMismatch
            | Self::AnswersMismatch
            | Self::WrongAnswers
            | Self::DatasetMismatch
            | Self::RemovalOverdue => Gate::SameWork,
            Self::FeatureMismatch | Self::MachineMismatch | Self::Rebooted => Gate::SameBuild,
            Self::BaselineOptionsMismatch
            | Self::OptionsMismatch
            | Self::OptionsUnstable
            | Self::UndeclaredOptions
            | Self::OptionsUnknown => Gate::ConfigAttested,
            Self::NoEffectPossible => Gate::Inert,
            Self::AffinityMismatch
            | Self::AffinityUnstable
            | Self::SharedCores
            | Self::Throttled
            | Self::Overheated
            | Self::Steal
            | Self::ForeignCpu
            | Self::MemoryPressure
            | Self::ClockStep
            | Self::DiskNearlyFull
            | Self::DiskFillChanged
            | Self::NotNvme
            | Self::ReplacedSysfs
            | Self::NotGuaranteed
            | Self::ForeignContainer
            | Self::EvidenceUnknown
            | Self::DisturbedUnequally => Gate::Isolated,
            Self::NotEngaged => Gate::Engaged,
            Self::CausalPathExceeded => Gate::CausalPath,
            Self::DatasetFilesMismatch | Self::NotSettled | Self::HdrSaturated => Gate::Steady,
            Self::GeneratorBound => Gate::GeneratorHeadroom,
            Self::RateMismatch | Self::TimeMismatch => Gate::SameUnits,
            Self::Implausible => Gate::Plausible,
            Self::Attrition | Self::NothingValid => Gate::Attrition,
        }
    }

    /// A sentence for whoever reads the code for the first time.
    pub fn what_to_do(self) -> &'static str {
        match self {
            Self::WorkMismatch | Self::CountsMismatch | Self::UserBytesMismatch => {
                "The run did other work than the baseline, so their times can't be compared: look for a workload that \
                 depends on timing, or report a bug with both records."
            }
            Self::AnswersMismatch | Self::WrongAnswers => {
                "Reads returned something else than was written: check the config's merge operator, comparator, \
                 compaction filter and TTL, and the disk, before trusting it with data."
            }
            Self::DatasetMismatch => {
                "The run started from other data than the baseline: remove the experiment's work directory so that the \
                 dataset is made again."
            }
            Self::RemovalOverdue => {
                "The config kept what the others removed, so it did less work: bring its retention in line with what the \
                 scenario retains, such as the size that FIFO compaction keeps."
            }
            Self::FeatureMismatch => {
                "Use one assay-bench for all configs, or declare the difference with the config's image."
            }
            Self::MachineMismatch => "Run all trials of a block on one machine and one kernel.",
            Self::Rebooted => "The machine was rebooted within the block: nothing to do, the block is run again.",
            Self::BaselineOptionsMismatch => {
                "The baseline's options were not the same in all trials: use one RocksDB and one experiment file."
            }
            Self::OptionsMismatch => {
                "The measured database had other options than the config declares: look for an OPTIONS file or a \
                 SetOptions call that changed them."
            }
            Self::OptionsUnstable => {
                "The same config gave different options in different trials: use one RocksDB for all."
            }
            Self::UndeclaredOptions => {
                "Declare every option that differs, or remove what changes it behind the config's back."
            }
            Self::OptionsUnknown => {
                "The options that RocksDB really had could not be read back: check that the data directory is writable."
            }
            Self::NoEffectPossible => {
                "Every option of this config equals the baseline's or reached nothing: check names, families and values."
            }
            Self::AffinityMismatch => "Give the trial exactly the CPUs that placement.cpus asks for.",
            Self::AffinityUnstable => {
                "Something moved the trial to other CPUs: stop what manages CPU affinity meanwhile."
            }
            Self::SharedCores => "Ask for whole cores: both hyper-threads of a core must belong to the trial.",
            Self::Throttled => "Remove the CPU quota, or raise it to at least placement.cpus.",
            Self::Overheated => {
                "The CPUs got too hot to keep their clock: improve the cooling, or cap frequency or power below what heats \
                 them up."
            }
            Self::Steal => "The hypervisor took CPU time: use a machine with dedicated CPUs.",
            Self::ForeignCpu => "Other programs used the trial's CPUs: stop them, or use a quieter machine.",
            Self::MemoryPressure => "Memory was short: give the trial more, or make dataset and caches smaller.",
            Self::ClockStep => "The wall clock was set while the trial ran: let time synchronisation settle first.",
            Self::DiskNearlyFull => {
                "Flash gets slow when it is full: free space until 20 % of the file system are free."
            }
            Self::DiskFillChanged => "The file system filled up or was emptied within the block: keep others off it.",
            Self::NotNvme => "Put the data on a local NVMe device, or set requireNvme: false.",
            Self::ReplacedSysfs => "The record describes a replaced /sys: such records are for tests only.",
            Self::NotGuaranteed => {
                "Something changed what the pod asks for, such as a LimitRange or an injected sidecar: keep it off the \
                 namespace of the experiment."
            }
            Self::ForeignContainer => {
                "Exclude the namespace of the experiment, or pods with the label assay.rocks/role, from the injection of \
                 sidecars."
            }
            Self::EvidenceUnknown => {
                "What the experiment requires could not be observed: run where /proc, /sys and the cgroup are readable, \
                 or do not require it."
            }
            Self::NotEngaged => {
                "These runs can't tell what the config does: make the scenario larger or longer until its options act, or \
                 leave the scenario out."
            }
            Self::CausalPathExceeded => {
                "Something else than RocksDB became faster: look for what the config changes beside its options, and for \
                 what else ran on the machine, before believing the gain."
            }
            Self::DatasetFilesMismatch => {
                "The run started from other files than the rest: remove the experiment's work directory so that the \
                 dataset is made again."
            }
            Self::NotSettled => {
                "RocksDB did not finish what was due before the run: nothing to do if it stays alone, else look at the \
                 config's limits on background work."
            }
            Self::HdrSaturated => {
                "Steps took longer than the histogram reaches, so the metric is missing: make steps smaller, or look for \
                 what stops the database."
            }
            Self::GeneratorBound => {
                "The bench's own work hides a part of every effect: use larger values or batches, or more reads that miss \
                 the cache."
            }
            Self::RateMismatch | Self::TimeMismatch => {
                "The run's own numbers contradict each other: report a bug with its record."
            }
            Self::Implausible => {
                "The run is more than three times better than its config's other runs. It counts once three blocks repeat it; \
                 until then look at its record for what else happened."
            }
            Self::Attrition => {
                "More of its runs were invalid or without a measurement than of the baseline's, or fewer, so those that count may \
                 not be typical: see the reasons of those runs."
            }
            Self::DisturbedUnequally => {
                "Other programs decided this as much as the config: stop them, run more blocks, or use a machine of its own."
            }
            Self::NothingValid => {
                "Fix the named cause, then start again in a new folder: going on would only have used up time."
            }
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
