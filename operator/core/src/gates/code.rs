use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rule behind a finding.
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
    /// Not about a single trial: too many trials gave no measurement.
    Attrition,
}

impl Gate {
    /// Whether it is about the circumstances of a run. The work, the config and the clocks were those that they should be, so its numbers are
    /// what they are, though they don't count.
    pub(crate) fn is_about_circumstances(self) -> bool {
        matches!(self, Self::Isolated | Self::Steady)
    }
}

/// Why something does not count. A closed list: reports, metrics and conditions name these codes.
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
    Postponed,
    HdrSaturated,
    RateMismatch,
    TimeMismatch,
    Implausible,
    CopiedRuns,
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
            Self::DatasetFilesMismatch | Self::NotSettled | Self::Postponed | Self::HdrSaturated => Gate::Steady,
            Self::RateMismatch | Self::TimeMismatch => Gate::SameUnits,
            Self::Implausible | Self::CopiedRuns => Gate::Plausible,
            Self::Attrition | Self::NothingValid => Gate::Attrition,
        }
    }

    /// Advice for a first-time reader of the code.
    pub fn what_to_do(self) -> &'static str {
        match self {
            Self::WorkMismatch | Self::CountsMismatch | Self::UserBytesMismatch => {
                "The run did different work than the baseline, so their times are not comparable. Look for a workload \
                 that depends on timing, or report a bug with both records."
            }
            Self::AnswersMismatch | Self::WrongAnswers => {
                "Reads did not return what was written. Before trusting the config with data, check its merge \
                 operator, comparator, compaction filter and TTL, and the disk."
            }
            Self::DatasetMismatch => {
                "The run started from different data than the baseline. Remove the experiment's work directory to \
                 rebuild the dataset."
            }
            Self::RemovalOverdue => {
                "The config kept data that the others removed, so it did less work. Match its retention to the \
                 scenario's: with FIFO compaction, check the size it keeps."
            }
            Self::FeatureMismatch => {
                "Use the same assay-bench for all configs, or declare the difference with the config's image."
            }
            Self::MachineMismatch => "Run all trials of a block on the same machine and kernel.",
            Self::Rebooted => "The machine rebooted during the block. Nothing to do: the block runs again.",
            Self::BaselineOptionsMismatch => {
                "The baseline's options differed between trials. Use one RocksDB and one experiment file."
            }
            Self::OptionsMismatch => {
                "The database's options differ from the declared ones. Look for an OPTIONS file or a SetOptions call \
                 that changed them."
            }
            Self::OptionsUnstable => {
                "The same config produced different options in different trials. Use one RocksDB for all."
            }
            Self::UndeclaredOptions => "Declare every option that differs, or remove the cause of the difference.",
            Self::OptionsUnknown => {
                "RocksDB's actual options could not be read back. Check that the data directory is writable."
            }
            Self::NoEffectPossible => {
                "Every option of this config equals the baseline's or had no effect. Check names, families and values."
            }
            Self::AffinityMismatch => "Give the trial exactly as many CPUs as placement.cpus requests.",
            Self::AffinityUnstable => {
                "The trial was moved to other CPUs. Stop tools that manage CPU affinity while trials run."
            }
            Self::SharedCores => "Request whole cores: both hyper-threads of a core must belong to the trial.",
            Self::Throttled => "Remove the CPU quota, or raise it to at least placement.cpus.",
            Self::Overheated => {
                "The CPUs overheated and lowered their clock. Improve the cooling, or cap frequency or power."
            }
            Self::Steal => "The hypervisor took CPU time. Use a machine with dedicated CPUs.",
            Self::ForeignCpu => {
                "Other programs used the trial's CPUs. Stop them, or use a quieter machine. The report's environment \
                 names the busiest (other programs), and a record those of its run \
                 (evidence.disturbance.neighbours); a container can't see them."
            }
            Self::MemoryPressure => {
                "Other programs were short of memory, too. Run fewer of them beside the trial, or add memory."
            }
            Self::ClockStep => {
                "The wall clock was changed during the trial, or the machine was suspended. Let time synchronisation \
                 settle first, and keep the machine awake."
            }
            Self::DiskNearlyFull => "Flash slows down when full. Free up space until 20 % of the file system is free.",
            Self::DiskFillChanged => {
                "Free disk space changed during the block. Keep other programs off the file system."
            }
            Self::NotNvme => "Put the data on a local NVMe device, or set requireNvme: false.",
            Self::ReplacedSysfs => "The record was made with a replaced /sys. Such records are for tests only.",
            Self::NotGuaranteed => {
                "The pod's resource requests were changed, for example by a LimitRange or an injected sidecar. Keep \
                 those out of the experiment's namespace."
            }
            Self::ForeignContainer => {
                "Exclude the experiment's namespace, or pods with the label assay.rocks/role, from sidecar injection."
            }
            Self::EvidenceUnknown => {
                "The experiment's requirements could not be checked. Run where /proc, /sys and the cgroup are \
                 readable, or drop the requirement."
            }
            Self::NotEngaged => {
                "These runs can't show what the config does. Make the scenario larger or longer until its options take \
                 effect, or leave the scenario out."
            }
            Self::CausalPathExceeded => {
                "Something other than RocksDB got faster. Before trusting the gain, check what the config changes \
                 besides its options and what else ran on the machine."
            }
            Self::DatasetFilesMismatch => {
                "The run started from different files than the others. Remove the experiment's work directory to \
                 rebuild the dataset."
            }
            Self::NotSettled => {
                "RocksDB had not finished its background work before the run. Ignore a single case; if it recurs, \
                 check the config's limits on background work."
            }
            Self::Postponed => {
                "The window ended before the config's compaction was due. Run more steps, so that it compacts several times \
                 in each window, and use a longer warm-up."
            }
            Self::HdrSaturated => {
                "Some steps exceeded the histogram's range, so the metric is missing. Make steps smaller, or find out \
                 what stalls the database."
            }
            Self::RateMismatch | Self::TimeMismatch => {
                "The run's numbers contradict each other. Report a bug with its record."
            }
            Self::Implausible => {
                "The run is more than three times better than its config's other runs. It counts once three blocks \
                 show the same. Until then, check its record for another cause."
            }
            Self::CopiedRuns => {
                "Copies are no evidence. Check how the results were put together, and make the missing runs. If equal \
                 work always gives an equal value, declare the metric with deterministic: true in a policy."
            }
            Self::Attrition => {
                "It lost a different share of runs than the baseline (invalid or without a measurement), so the runs \
                 that count may not be typical. Check why the others did not count."
            }
            Self::DisturbedUnequally => {
                "Other programs influenced this result as much as the config did. Stop them (the report's environment \
                 names the busiest), run more blocks, or use a dedicated machine."
            }
            Self::NothingValid => {
                "Attempts were repeated after longer and longer pauses. Fix the cause, then start again in a new folder."
            }
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_gates_are_about_circumstances() {
        let all = [
            Gate::SameWork,
            Gate::SameBuild,
            Gate::ConfigAttested,
            Gate::Inert,
            Gate::Isolated,
            Gate::Engaged,
            Gate::CausalPath,
            Gate::Steady,
            Gate::GeneratorHeadroom,
            Gate::SameUnits,
            Gate::Plausible,
            Gate::Attrition,
        ];
        let found: Vec<Gate> = all.into_iter().filter(|gate| gate.is_about_circumstances()).collect();
        assert_eq!(found, [Gate::Isolated, Gate::Steady]);
    }
}
