//! What a trial saw of its own conditions. `None` (null) always means unknown, and unknown is never clean.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// How the trial was measured. The bench only observes; gates judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evidence {
    pub build: Build,
    pub host: Host,
    pub placement: Placement,
    pub storage: Storage,
    pub disturbance: Disturbance,
    pub attestation: Attestation,
    /// The tree when the window opened: the debt carried in. `settled` is from before the warm-up.
    pub lsm_before: LsmState,
    /// The tree when the window closed: the debt left behind.
    pub lsm_after: LsmState,
    /// Options that say when compaction is due and that differ from the baseline's after the window, too, because RocksDB does not
    /// change them in an open database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_triggers: Vec<String>,
    /// Counters that show whether options had anything to act on.
    pub engagement: Engagement,
    /// How the threads of each role spent the window.
    pub role_time: BTreeMap<String, RoleTime>,
    /// Change in throughput from the first half of the window to the second, in percent of the first.
    pub drift_percent: Option<f64>,
}

/// The bench program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Build {
    pub bench_version: String,
    /// Digest of the running executable.
    pub binary: Option<Digest>,
    pub rocksdb_version: String,
    /// How RocksDB was compiled: compiler, flags, codecs.
    pub rocksdb_build: String,
    pub allocator: String,
    /// Optimisation level of the bench's own code.
    pub profile: String,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Host {
    pub hostname: Option<String>,
    pub kernel: Option<String>,
    pub boot_id: Option<String>,
    pub cpu_model: Option<String>,
    pub cpu_flags: Option<Digest>,
    pub online_cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub governor: Option<String>,
    pub transparent_hugepage: Option<String>,
}

/// Which CPUs the trial ran on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// CPUs that the spec asked for.
    pub requested_cpus: u32,
    /// The process's affinity when the window opened and closed, as a CPU list such as `0-1,4`.
    pub affinity_before: Option<String>,
    pub affinity_after: Option<String>,
    pub affinity_cpus: Option<u32>,
    /// The CPUs that the cgroup allows.
    pub cpuset: Option<String>,
    /// The cgroup's CFS quota in CPUs; 0 means no quota.
    pub quota_cpus: Option<f64>,
    /// All hyper-threads of the used cores belong to the trial.
    pub whole_cores: Option<bool>,
}

/// The device behind the data directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Storage {
    pub filesystem: Option<String>,
    pub mount_options: Option<String>,
    /// Kernel name of the whole disk, such as nvme0n1.
    pub device: Option<String>,
    pub model: Option<String>,
    pub rotational: Option<bool>,
    /// For example pcie for local NVMe, tcp or rdma for NVMe over fabrics, virtio for a virtual disk.
    pub transport: Option<String>,
    pub total_bytes: Option<u64>,
    pub free_bytes_before: Option<u64>,
    pub free_bytes_after: Option<u64>,
    /// Bytes that other processes wrote to the device within the window.
    pub foreign_write_bytes: Option<u64>,
    /// Set when a test replaced the sysfs root. Such a record is invalid outside tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_sysfs: Option<String>,
}

/// What disturbed the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Disturbance {
    /// CFS periods in which the cgroup was throttled.
    pub throttled_periods: Option<u64>,
    pub throttled_seconds: Option<f64>,
    /// Time that the hypervisor took from the trial's CPUs, in percent of the window.
    pub steal_percent: Option<f64>,
    /// Time that other processes ran on the trial's CPUs, in percent of the window times these CPUs. Includes kernel
    /// threads only if they can't be told apart.
    pub foreign_cpu_percent: Option<f64>,
    /// Time of kernel threads that may run on the trial's CPUs: write-back, journal and block layer, mostly for the
    /// trial. Time they ran on other CPUs hides the same amount of foreign time.
    pub kernel_cpu_percent: Option<f64>,
    /// Foreign time that can go unseen: clock ticks and interrupts.
    pub foreign_cpu_resolution_percent: Option<f64>,
    /// Pressure stall information, in percent of the window.
    pub cpu_pressure_some_percent: Option<f64>,
    pub memory_pressure_full_percent: Option<f64>,
    /// Time in which another cgroup that reached no limit of its own was stalled on memory, and at most as much as above. Absent where no
    /// other cgroup can be seen, as in a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_memory_pressure_percent: Option<f64>,
    pub io_pressure_full_percent: Option<f64>,
    /// Involuntary context switches of the whole process.
    pub involuntary_switches: Option<u64>,
    pub major_faults: Option<u64>,
    /// Difference between the wall clock and the monotonic clock over the window.
    pub clock_step_seconds: Option<f64>,
    /// The busiest programs that ran last on the trial's CPUs, most first. Absent in a container, which sees only its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Vec<Neighbour>>,
}

/// A program that ran on the trial's CPUs beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Neighbour {
    /// As the kernel has it: up to 15 characters.
    pub name: String,
    /// CPU time of all its processes of that name, in percent of the window times the trial's CPUs.
    pub cpu_percent: f64,
}

/// The options in effect, read back from RocksDB's OPTIONS file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Attestation {
    /// Digest of the baseline's options on an empty database: equal in every trial of an experiment.
    pub baseline_options: Option<Digest>,
    /// Digest of this config's options on an empty database.
    pub config_options: Option<Digest>,
    /// Digest of the measured database's options.
    pub effective_options: Option<Digest>,
    /// Every option that was declared, differs from the baseline, or differs from the request.
    pub facts: Vec<OptionFact>,
    /// Every option of the measured database by section, as in its OPTIONS file. Full record only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, BTreeMap<String, String>>,
}

/// One option in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionFact {
    /// `db` or the column family.
    pub scope: String,
    pub option: String,
    pub status: OptionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<String>,
}

/// Where an option's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OptionStatus {
    /// Declared, and RocksDB uses it.
    Applied,
    /// Declared, but equal to the baseline's value, or accepted by RocksDB without effect.
    Inert,
    /// Declared, but RocksDB corrected the value.
    Sanitised,
    /// Not declared: RocksDB derived it from a declared option.
    Implied,
    /// Declared, and confirmed by other means because the OPTIONS file lacks it.
    AppliedNotSerialised,
    /// The measured database has another value than the same options give on an empty one.
    Undeclared,
}

/// The shape of the tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LsmState {
    pub pending_compaction_bytes: Option<u64>,
    /// Largest number of L0 files of any family.
    pub l0_files: Option<u64>,
    pub immutable_memtables: Option<u64>,
    pub running_compactions: Option<u64>,
    pub running_flushes: Option<u64>,
    pub live_sst_bytes: Option<u64>,
    /// Bytes of live blob files. Older records have none.
    pub live_blob_bytes: Option<u64>,
    /// RocksDB's own estimate of live data, as it is compressed. Only older records have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_data_bytes: Option<u64>,
    /// Level that L0 is compacted to, the highest of any family.
    pub base_level: Option<u64>,
    /// No flush or compaction was running or pending.
    pub settled: Option<bool>,
    /// Bytes of keys and values that no compaction has merged yet: in memtables and in L0, of families with more levels that don't use FIFO
    /// compaction.
    pub unmerged_bytes: Option<u64>,
}

/// Counters that show whether an option had anything to act on.
///
/// Counters of a family's files and memtables cover the families that the experiment tunes. A peak of one family is the
/// highest among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Engagement {
    /// Flushes of the tuned families.
    pub flushes: Option<u64>,
    /// Compactions of the tuned families.
    pub compactions: Option<u64>,
    /// Most files in L0 of one tuned family.
    pub l0_files_peak: Option<u64>,
    /// Flushes of tuned families because of a full memtable.
    pub filled_memtables: Option<u64>,
    /// Most bytes in the active memtable of one tuned family.
    pub fullest_memtable_bytes: Option<u64>,
    /// Most memtables of one tuned family waiting to be flushed.
    pub immutable_memtables_peak: Option<u64>,
    /// Most bytes in the memtables of all families together.
    pub memtable_bytes_peak: Option<u64>,
    /// Flushes of any family because of the limit on all memtables together.
    pub buffer_manager_flushes: Option<u64>,
    /// The largest table or blob file that flush or compaction wrote for any family.
    pub largest_file_bytes: Option<u64>,
    /// Times that FIFO compaction dropped files because of size or age.
    pub fifo_drops: Option<u64>,
    /// Most flushes running or due at the same time.
    pub flushes_due_peak: Option<u64>,
    /// Most compactions running or due at the same time.
    pub compactions_due_peak: Option<u64>,
    /// Writes that another thread did together with its own.
    pub grouped_writes: Option<u64>,
    pub wal_bytes: Option<u64>,
    pub stalls: Option<u64>,
    pub user_bytes_written: Option<u64>,
    pub block_cache_misses: Option<u64>,
    pub block_cache_hits: Option<u64>,
    pub bytes_decompressed: Option<u64>,
    /// Levels to which flush and compaction wrote compressed data of tuned families. The seventh also stands for deeper
    /// levels.
    pub levels_compressed: Option<Vec<u8>>,
    /// Levels with files from which tuned families were read, counted in the same way.
    pub levels_read: Option<Vec<u8>>,
    /// The lowest and the highest base level of a tuned family: the level to which its L0 is compacted. It decides which
    /// entry of `compression_per_level` applies to a level.
    pub base_levels: Option<[u8; 2]>,
    /// The deepest level of a tuned family that holds a file.
    pub last_level: Option<u8>,
    /// Tuned families without writes. A summary names the first ones and counts the rest.
    pub idle_families: Option<Vec<String>>,
}

/// How the threads of one role spent their time. Seconds are summed over the role's threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RoleTime {
    pub threads: u32,
    pub wall_seconds: f64,
    /// Inside RocksDB calls, including waits for other threads there.
    pub db_seconds: f64,
    /// Making operations and values.
    pub generator_seconds: f64,
    /// Waiting for the intended start of a paced step, or for another role to produce a step's input.
    pub idle_seconds: f64,
    /// Work of the steps outside the database, such as executing blocks.
    pub compute_seconds: f64,
    /// Runnable, but waiting for a CPU.
    pub run_queue_seconds: Option<f64>,
    pub cpu_seconds: Option<f64>,
}
