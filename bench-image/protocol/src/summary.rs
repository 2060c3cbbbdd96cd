use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Attestation, Build, Digest, Engagement, Evidence, FailureKind, Host, METRICS, OptionStatus, Outcome, Storage,
    TrialId, TrialRecord, TrialSpec, VersionError, spec::parse_versioned,
};

/// What Kubernetes keeps of a container's termination message.
pub const MAX_SUMMARY_BYTES: usize = 4096;

/// Metrics that every summary carries beside those that the experiment judges.
pub const FIXED_METRICS: [&str; 12] = [
    "throughput",
    "drained_throughput",
    "step_latency_mean",
    "step_latency_p50",
    "step_latency_p99",
    "write_amplification",
    "stall_fraction",
    "compaction_write_bytes",
    "cpu_seconds_per_step",
    "rss_peak_bytes",
    "db_bytes",
    "debt_out_bytes",
];

/// Option names kept per status; more are counted, and stand in the full record.
const MAX_NAMED_OPTIONS: usize = 2;
const MAX_OPTION_NAME: usize = 36;
/// Idle families kept by name.
const MAX_IDLE_FAMILIES: usize = 2;
const MAX_FAMILY_NAME: usize = 25;
const MAX_MESSAGE: usize = 120;
/// Digits kept of a number: far below any noise, and what keeps its length bounded.
const SIGNIFICANT_DIGITS: usize = 7;
/// The largest whole number: more is as much, and JSON readers keep fifteen digits of any number.
const MAX_COUNT: u64 = 999_999_999_999_999;

/// A spec whose summaries could outgrow the limit.
#[derive(Debug, thiserror::Error)]
pub enum SummaryTooLarge {
    #[error(
        "a trial's summary could need {bytes} bytes, above the limit of {MAX_SUMMARY_BYTES}: judge fewer metrics or shorten names"
    )]
    TooLarge { bytes: usize },
    #[error("can't write a summary as JSON: {0}")]
    Unwritable(#[from] serde_json::Error),
}

/// The part of a record that gates and statistics use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Summary {
    pub version: u32,
    pub plan: Digest,
    pub trial: TrialId,
    /// Digest of the full record's bytes.
    pub record: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    pub started_unix_ms: u64,
    pub window_seconds: f64,
    pub metrics: BTreeMap<String, f64>,
    pub parity: Parity,
    pub options: Options,
    pub placement: PlacementSummary,
    pub storage: StorageSummary,
    pub disturbance: DisturbanceSummary,
    pub engagement: Engagement,
    /// Time of the primary role.
    pub primary: PrimaryTime,
    pub steady: Steady,
    /// What the cluster reports about the trial's pod. The operator adds it, because the bench can't know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodEvidence>,
}

/// What a cluster reports about a trial's pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodEvidence {
    /// Name of the node.
    pub node: Option<String>,
    /// Kubernetes' quality of service class of the pod.
    pub qos_class: Option<String>,
    /// Other containers in the bench's pod.
    pub foreign_containers: Vec<String>,
    /// The node's page cache was dropped before the trial. Only a node agent knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_dropped: Option<bool>,
    /// Most times that one CPU of the trial throttled because of heat. Only a node agent knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_events: Option<u64>,
}

/// How a config failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

/// Digests that must be equal within a block, or within an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parity {
    pub work: Digest,
    pub counts: Digest,
    pub user_bytes: u64,
    pub answers: Option<Digest>,
    pub wrong_answers: u64,
    pub build: Digest,
    /// True if the bench's executable could be read and is part of `build`.
    pub build_known: bool,
    /// CPU model and flags, kernel.
    pub machine: Digest,
    pub boot: Option<Digest>,
    pub dataset: Digest,
    pub dataset_files: Digest,
}

/// The attestation in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    pub baseline: Option<Digest>,
    pub config: Option<Digest>,
    pub effective: Option<Digest>,
    /// Number of declared options, each counted once for all families.
    pub declared: u32,
    pub inert: NamedOptions,
    pub sanitised: NamedOptions,
    pub undeclared: NamedOptions,
}

/// A count and the first few names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NamedOptions {
    pub count: u32,
    pub names: Vec<String>,
}

/// Placement as gates need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementSummary {
    pub requested_cpus: u32,
    pub affinity_cpus: Option<u32>,
    pub online_cpus: Option<u32>,
    pub stable: Option<bool>,
    pub whole_cores: Option<bool>,
    pub quota_cpus: Option<f64>,
}

/// Storage as gates need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StorageSummary {
    pub nvme: Option<bool>,
    pub rotational: Option<bool>,
    pub free_percent: Option<f64>,
    pub foreign_write_percent: Option<f64>,
    /// A test replaced the sysfs root.
    pub replaced_sysfs: bool,
}

/// Disturbance as gates need it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DisturbanceSummary {
    pub throttled_periods: Option<u64>,
    pub steal_percent: Option<f64>,
    pub foreign_cpu_percent: Option<f64>,
    pub kernel_cpu_percent: Option<f64>,
    pub foreign_cpu_resolution_percent: Option<f64>,
    pub cpu_pressure_some_percent: Option<f64>,
    /// The trial's own cgroup, or the machine's if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressure_full_percent: Option<f64>,
    /// The part of it that others must have caused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "foreignMemoryPercent")]
    pub foreign_memory_pressure_percent: Option<f64>,
    pub clock_step_seconds: Option<f64>,
}

/// How the primary role spent the window, in percent of its wall time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the unit belongs to the name of a number in a document")]
pub struct PrimaryTime {
    pub db_percent: f64,
    pub generator_percent: f64,
    pub idle_percent: f64,
    /// Work of the steps outside the database.
    pub compute_percent: f64,
    pub run_queue_percent: Option<f64>,
}

/// Debt and drift.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Steady {
    pub settled_before: Option<bool>,
    pub debt_in_bytes: Option<u64>,
    pub debt_out_bytes: Option<u64>,
    pub drift_percent: Option<f64>,
    pub saturated_steps: u64,
    /// The drain followed rules of the config's own: the record names them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_drain: bool,
    /// Share of the slots to remove that are still there; absent if none had to be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue_percent: Option<f64>,
    /// Data that no compaction had merged yet, at the end of the window more than at its start, in percent of what the window wrote. Below 0
    /// if it merged what the warm-up had left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postponed_percent: Option<f64>,
}

fn shorten(text: &str, max: usize) -> String {
    // Bytes in JSON are what counts, so everything that JSON would escape or widen is replaced first.
    let plain: String = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    let plain = plain.replace(['"', '\\'], "'");
    if plain.len() <= max { plain } else { format!("{}...", &plain[..max - 3]) }
}

fn named(attestation: &Attestation, status: OptionStatus) -> NamedOptions {
    let mut names: Vec<&str> =
        attestation.facts.iter().filter(|fact| fact.status == status).map(|fact| fact.option.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    NamedOptions {
        count: names.len() as u32,
        names: names.iter().take(MAX_NAMED_OPTIONS).map(|name| shorten(name, MAX_OPTION_NAME)).collect(),
    }
}

/// The first few of them; as many as there are do not fit.
fn idle_families(all: &[String]) -> Vec<String> {
    let mut names: Vec<String> =
        all.iter().take(MAX_IDLE_FAMILIES).map(|name| shorten(name, MAX_FAMILY_NAME)).collect();
    if all.len() > MAX_IDLE_FAMILIES {
        names.push(format!("{} more", all.len() - MAX_IDLE_FAMILIES));
    }
    names
}

fn build_digest(build: &Build) -> Result<Digest, serde_json::Error> {
    Digest::of_json(build)
}

fn machine_digest(host: &Host) -> Result<Digest, serde_json::Error> {
    Digest::of_json(&(&host.cpu_model, &host.cpu_flags, &host.kernel))
}

/// The same document with every number bounded in length: fractions are rounded to the digits that are kept.
fn rounded<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> Result<T, serde_json::Error> {
    fn round(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Number(number) => {
                let short = number
                    .as_f64()
                    .filter(|_| number.is_f64())
                    .and_then(|float| format!("{float:.*e}", SIGNIFICANT_DIGITS - 1).parse().ok())
                    .and_then(serde_json::Number::from_f64);
                if let Some(short) = short {
                    *number = short;
                } else if number.as_u64().is_some_and(|count| count > MAX_COUNT) {
                    *number = MAX_COUNT.into();
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(round),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(round),
            _ => {}
        }
    }
    let mut tree = serde_json::to_value(value)?;
    round(&mut tree);
    serde_json::from_value(tree)
}

/// Local, not behind a network. Unknown if the device, or the transport of an NVMe device, is.
fn is_local_nvme(storage: &Storage) -> Option<bool> {
    if storage.device.as_ref()?.starts_with("nvme") { Some(storage.transport.as_ref()? == "pcie") } else { Some(false) }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Of nothing that was written there is no share.
fn postponed_percent(evidence: &Evidence) -> Option<f64> {
    let (before, after) = (evidence.lsm_before.unmerged_bytes?, evidence.lsm_after.unmerged_bytes?);
    let written = evidence.engagement.user_bytes_written.filter(|written| *written > 0)?;
    Some(100.0 * (after as f64 - before as f64) / written as f64)
}

impl Summary {
    /// Reads a summary, refusing versions it does not know.
    pub fn from_json(json: &[u8]) -> Result<Self, VersionError> {
        parse_versioned(json)
    }

    /// The summary of a record, whose own bytes are digested so that the two can be matched later.
    pub fn of(record: &TrialRecord, record_json: &[u8]) -> Result<Self, serde_json::Error> {
        let evidence = &record.evidence;
        let declared: std::collections::BTreeSet<&str> = evidence
            .attestation
            .facts
            .iter()
            .filter(|fact| fact.declared.is_some())
            .map(|fact| fact.option.as_str())
            .collect();
        let primary_name = record.spec.workload.primary_role().map_or(String::new(), |role| role.name);
        let time = evidence.role_time.get(&primary_name).cloned().unwrap_or_default();
        // What reads find follows from timing where threads race for the same keys, as the answers do.
        let mut counts = record.work.counts.clone();
        if record.work.answers.is_none() {
            for counts in counts.values_mut() {
                (counts.gets_found, counts.scanned_entries, counts.bytes_read) = (0, 0, 0);
            }
        }
        let storage = &evidence.storage;
        let placement = &evidence.placement;
        rounded(&Self {
            version: record.version,
            plan: record.spec.plan.clone(),
            trial: record.spec.trial.clone(),
            record: Digest::of(record_json),
            failure: match &record.outcome {
                Outcome::Completed => None,
                Outcome::Failed { kind, message } => {
                    Some(Failure { kind: *kind, message: shorten(message, MAX_MESSAGE) })
                }
            },
            started_unix_ms: record.started_unix_ms,
            window_seconds: record.window_seconds,
            // What a failed trial measured counts for nothing.
            metrics: record
                .metrics
                .iter()
                .filter(|_| record.outcome == Outcome::Completed)
                .filter(|(name, _)| FIXED_METRICS.contains(&name.as_str()) || record.spec.metrics.contains(name))
                .map(|(name, value)| (name.clone(), *value))
                .collect(),
            parity: Parity {
                work: record.work.hash.clone(),
                counts: Digest::of_json(&counts)?,
                user_bytes: record.work.user_bytes,
                answers: record.work.answers.clone(),
                wrong_answers: record.work.wrong_answers,
                build: build_digest(&evidence.build)?,
                build_known: evidence.build.binary.is_some(),
                machine: machine_digest(&evidence.host)?,
                boot: evidence.host.boot_id.as_ref().map(|id| Digest::of(id.as_bytes())),
                dataset: record.dataset.content.clone(),
                dataset_files: Digest::of_json(&(
                    &record.dataset.format,
                    record.dataset.sst_bytes,
                    &record.dataset.files_by_level,
                ))?,
            },
            options: Options {
                baseline: evidence.attestation.baseline_options.clone(),
                config: evidence.attestation.config_options.clone(),
                effective: evidence.attestation.effective_options.clone(),
                declared: declared.len() as u32,
                inert: named(&evidence.attestation, OptionStatus::Inert),
                sanitised: named(&evidence.attestation, OptionStatus::Sanitised),
                undeclared: named(&evidence.attestation, OptionStatus::Undeclared),
            },
            placement: PlacementSummary {
                requested_cpus: placement.requested_cpus,
                affinity_cpus: placement.affinity_cpus,
                online_cpus: evidence.host.online_cpus,
                stable: placement
                    .affinity_before
                    .as_ref()
                    .zip(placement.affinity_after.as_ref())
                    .map(|(before, after)| before == after),
                whole_cores: placement.whole_cores,
                quota_cpus: placement.quota_cpus,
            },
            storage: StorageSummary {
                nvme: is_local_nvme(storage),
                rotational: storage.rotational,
                free_percent: storage
                    .free_bytes_after
                    .zip(storage.total_bytes)
                    .map(|(free, total)| percent(free as f64, total as f64)),
                foreign_write_percent: storage
                    .foreign_write_bytes
                    .zip(record.metrics.get("device_write_bytes"))
                    .map(|(foreign, own)| percent(foreign as f64, foreign as f64 + own)),
                replaced_sysfs: storage.replaced_sysfs.is_some(),
            },
            disturbance: DisturbanceSummary {
                throttled_periods: evidence.disturbance.throttled_periods,
                steal_percent: evidence.disturbance.steal_percent,
                foreign_cpu_percent: evidence.disturbance.foreign_cpu_percent,
                kernel_cpu_percent: evidence.disturbance.kernel_cpu_percent,
                foreign_cpu_resolution_percent: evidence.disturbance.foreign_cpu_resolution_percent,
                cpu_pressure_some_percent: evidence.disturbance.cpu_pressure_some_percent,
                // A termination message has no room for both: what others waited is what a gate needs.
                memory_pressure_full_percent: evidence
                    .disturbance
                    .memory_pressure_full_percent
                    .filter(|_| evidence.disturbance.foreign_memory_pressure_percent.is_none()),
                foreign_memory_pressure_percent: evidence.disturbance.foreign_memory_pressure_percent,
                clock_step_seconds: evidence.disturbance.clock_step_seconds,
            },
            engagement: Engagement {
                idle_families: evidence.engagement.idle_families.as_deref().map(idle_families),
                ..evidence.engagement.clone()
            },
            primary: PrimaryTime {
                db_percent: percent(time.db_seconds, time.wall_seconds),
                generator_percent: percent(time.generator_seconds, time.wall_seconds),
                idle_percent: percent(time.idle_seconds, time.wall_seconds),
                compute_percent: percent(time.compute_seconds, time.wall_seconds),
                run_queue_percent: time.run_queue_seconds.map(|seconds| percent(seconds, time.wall_seconds)),
            },
            steady: Steady {
                settled_before: evidence.lsm_before.settled,
                debt_in_bytes: evidence.lsm_before.pending_compaction_bytes,
                debt_out_bytes: evidence.lsm_after.pending_compaction_bytes,
                drift_percent: evidence.drift_percent,
                saturated_steps: record.latency.get(&primary_name).map_or(0, |latency| latency.saturated),
                own_drain: !evidence.own_triggers.is_empty(),
                overdue_percent: record.metrics.get("overdue_percent").copied(),
                postponed_percent: postponed_percent(evidence),
            },
            pod: None,
        })
    }

    /// The most bytes that a summary of this spec can have: every number at its longest, every list full.
    pub fn worst_case_bytes(spec: &TrialSpec) -> Result<usize, serde_json::Error> {
        let digest = Digest::of(b"");
        // The longest numbers: of f64 with the digits that are kept, and of whole ones.
        let float = -1.234_567e-300_f64;
        let int = MAX_COUNT;
        let full = NamedOptions { count: u32::MAX, names: vec!["x".repeat(MAX_OPTION_NAME); MAX_NAMED_OPTIONS] };
        let metrics = METRICS
            .iter()
            .map(|metric| metric.name)
            .filter(|name| FIXED_METRICS.contains(name) || spec.metrics.iter().any(|declared| declared == name));
        let completed = Self {
            version: u32::MAX,
            plan: digest.clone(),
            trial: TrialId {
                block: u32::MAX,
                replicate: u32::MAX,
                order: u32::MAX,
                attempt: u32::MAX,
                ..spec.trial.clone()
            },
            record: digest.clone(),
            failure: None,
            started_unix_ms: int,
            window_seconds: float,
            metrics: metrics.map(|name| (name.to_owned(), float)).collect(),
            parity: Parity {
                work: digest.clone(),
                counts: digest.clone(),
                user_bytes: int,
                answers: Some(digest.clone()),
                wrong_answers: int,
                build: digest.clone(),
                build_known: false,
                machine: digest.clone(),
                boot: Some(digest.clone()),
                dataset: digest.clone(),
                dataset_files: digest.clone(),
            },
            options: Options {
                baseline: Some(digest.clone()),
                config: Some(digest.clone()),
                effective: Some(digest),
                declared: u32::MAX,
                inert: full.clone(),
                sanitised: full.clone(),
                undeclared: full,
            },
            placement: PlacementSummary {
                requested_cpus: u32::MAX,
                affinity_cpus: Some(u32::MAX),
                online_cpus: Some(u32::MAX),
                stable: Some(false),
                whole_cores: Some(false),
                quota_cpus: Some(float),
            },
            storage: StorageSummary {
                nvme: Some(false),
                rotational: Some(false),
                free_percent: Some(float),
                foreign_write_percent: Some(float),
                replaced_sysfs: false,
            },
            disturbance: DisturbanceSummary {
                throttled_periods: Some(int),
                steal_percent: Some(float),
                foreign_cpu_percent: Some(float),
                kernel_cpu_percent: Some(float),
                foreign_cpu_resolution_percent: Some(float),
                cpu_pressure_some_percent: Some(float),
                memory_pressure_full_percent: None,
                foreign_memory_pressure_percent: Some(float),
                clock_step_seconds: Some(float),
            },
            engagement: Engagement {
                flushes: Some(int),
                compactions: Some(int),
                l0_files_peak: Some(int),
                filled_memtables: Some(int),
                fullest_memtable_bytes: Some(int),
                immutable_memtables_peak: Some(int),
                memtable_bytes_peak: Some(int),
                buffer_manager_flushes: Some(int),
                largest_file_bytes: Some(int),
                fifo_drops: Some(int),
                flushes_due_peak: Some(int),
                compactions_due_peak: Some(int),
                grouped_writes: Some(int),
                wal_bytes: Some(int),
                stalls: Some(int),
                user_bytes_written: Some(int),
                block_cache_misses: Some(int),
                block_cache_hits: Some(int),
                bytes_decompressed: Some(int),
                levels_compressed: Some((0..7).collect()),
                levels_read: Some((0..7).collect()),
                base_levels: Some([u8::MAX; 2]),
                last_level: Some(u8::MAX),
                idle_families: Some(idle_families(&vec!["x".repeat(MAX_FAMILY_NAME); 99])),
            },
            primary: PrimaryTime {
                db_percent: float,
                generator_percent: float,
                idle_percent: float,
                compute_percent: float,
                run_queue_percent: Some(float),
            },
            steady: Steady {
                settled_before: Some(false),
                debt_in_bytes: Some(int),
                debt_out_bytes: Some(int),
                drift_percent: Some(float),
                saturated_steps: int,
                own_drain: true,
                overdue_percent: spec.workload.measured_role("overdue_percent").map(|_| float),
                postponed_percent: Some(float),
            },
            pod: None,
        };
        let failed = Self {
            failure: Some(Failure { kind: FailureKind::EngineError, message: "x".repeat(MAX_MESSAGE) }),
            metrics: BTreeMap::new(),
            ..completed.clone()
        };
        Ok(serde_json::to_vec(&completed)?.len().max(serde_json::to_vec(&failed)?.len()))
    }

    /// Refuses a spec whose summaries might not fit.
    pub fn check_fits(spec: &TrialSpec) -> Result<(), SummaryTooLarge> {
        let bytes = Self::worst_case_bytes(spec)?;
        if bytes <= MAX_SUMMARY_BYTES { Ok(()) } else { Err(SummaryTooLarge::TooLarge { bytes }) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bounded_wherever_they_are() {
        let value = (1.234_567_89, vec![-0.000_123_456_789], [("a".to_owned(), 1.0 / 3.0)].into());
        let expected: (f64, Vec<f64>, BTreeMap<String, f64>) =
            (1.234_568, vec![-0.000_123_456_8], [("a".to_owned(), 0.333_333_3)].into());
        assert_eq!(rounded(&value).unwrap(), expected);
        let counts = [0, 123_456_789, MAX_COUNT - 1, MAX_COUNT, MAX_COUNT + 1, u64::MAX];
        assert_eq!(
            rounded(&counts).unwrap(),
            [0, 123_456_789, MAX_COUNT - 1, MAX_COUNT, MAX_COUNT, MAX_COUNT],
            "whole numbers keep their digits, up to the largest"
        );
    }
}
