use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Direction {
    HigherIsBetter,
    LowerIsBetter,
}

/// On which scale differences are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scale {
    /// Ratios: for what is always above 0.
    Log,
    /// Differences: for fractions that may be 0.
    Linear,
}

/// What is known of a metric before anything is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricInfo {
    pub name: &'static str,
    pub unit: &'static str,
    pub direction: Direction,
    pub scale: Scale,
    /// The margin where the user names none: a fraction on the log scale, a difference on the linear one.
    /// `None`: the metric informs, but can't be an objective or a guardrail.
    pub default_margin: Option<f64>,
    /// Set for quantiles: they need enough steps in the tail to mean anything.
    pub quantile: Option<f64>,
    /// Wall time of the workload's own threads: bounded by the share of time they spend in the database.
    pub is_time: bool,
    /// Every workload has it. Of the others, a workload says which it has.
    pub is_everywhere: bool,
    pub help: &'static str,
}

const fn judged(name: &'static str, unit: &'static str, margin: f64, help: &'static str) -> MetricInfo {
    MetricInfo {
        name,
        unit,
        direction: Direction::LowerIsBetter,
        scale: Scale::Log,
        default_margin: Some(margin),
        quantile: None,
        is_time: false,
        is_everywhere: true,
        help,
    }
}

const fn informing(name: &'static str, unit: &'static str, help: &'static str) -> MetricInfo {
    MetricInfo { default_margin: None, ..judged(name, unit, 0.0, help) }
}

const fn rate(name: &'static str, help: &'static str) -> MetricInfo {
    MetricInfo { direction: Direction::HigherIsBetter, is_time: true, ..judged(name, "steps/s", 0.05, help) }
}

const fn latency(name: &'static str, margin: f64, quantile: Option<f64>, help: &'static str) -> MetricInfo {
    MetricInfo { quantile, is_time: true, ..judged(name, "us", margin, help) }
}

/// Of another thread than the primary role's, so that what the primary role does all day does not bound it.
const fn save_latency(name: &'static str, margin: f64, quantile: Option<f64>, help: &'static str) -> MetricInfo {
    MetricInfo { is_time: false, is_everywhere: false, ..latency(name, margin, quantile, help) }
}

/// Every metric of a record, in the order of reports.
pub const METRICS: &[MetricInfo] = &[
    rate("throughput", "Steps of the primary role per second of its window."),
    rate(
        "drained_throughput",
        "Steps of the primary role per second, counting the window, the other roles' remaining work and the wait for \
         compaction after it.",
    ),
    rate("operation_throughput", "Operations of all roles per second of the window."),
    MetricInfo {
        unit: "Mgas/s",
        is_everywhere: false,
        ..rate("gas_throughput", "Gas of the blocks per second, in millions: throughput in a node's own unit.")
    },
    MetricInfo {
        unit: "shreds/s",
        is_everywhere: false,
        ..rate("shred_throughput", "Shreds inserted per second: throughput in a validator's own unit.")
    },
    latency("step_latency_mean", 0.05, None, "Mean latency of a step of the primary role."),
    latency("step_latency_p50", 0.05, Some(0.5), "Median latency of a step."),
    latency("step_latency_p90", 0.10, Some(0.9), "90th percentile of step latency."),
    latency("step_latency_p95", 0.10, Some(0.95), "95th percentile of step latency."),
    latency("step_latency_p99", 0.10, Some(0.99), "99th percentile of step latency."),
    latency("step_latency_p999", 0.10, Some(0.999), "99.9th percentile of step latency."),
    MetricInfo { default_margin: None, ..latency("step_latency_max", 0.0, Some(1.0), "Longest step.") },
    save_latency("save_latency_mean", 0.05, None, "Mean latency of a save, on its own thread."),
    save_latency("save_latency_p50", 0.05, Some(0.5), "Median latency of a save."),
    save_latency("save_latency_p90", 0.10, Some(0.9), "90th percentile of save latency."),
    save_latency("save_latency_p95", 0.10, Some(0.95), "95th percentile of save latency."),
    save_latency("save_latency_p99", 0.10, Some(0.99), "99th percentile of save latency."),
    save_latency("save_latency_p999", 0.10, Some(0.999), "99.9th percentile of save latency."),
    MetricInfo { default_margin: None, ..save_latency("save_latency_max", 0.0, Some(1.0), "Longest save.") },
    judged("write_amplification", "ratio", 0.10, "Bytes written by flush and compaction per byte the workload wrote."),
    judged("read_amplification", "ratio", 0.10, "Bytes read from files by reads per byte returned."),
    judged("space_amplification", "ratio", 0.10, "Bytes of live files per byte of live data, estimated by RocksDB."),
    MetricInfo {
        scale: Scale::Linear,
        ..judged("stall_fraction", "fraction", 0.01, "Share of the window in which writers were delayed or stopped.")
    },
    informing("stall_seconds", "s", "Time during which the write queue was delayed or stopped."),
    informing("stall_count", "count", "Times that RocksDB began to delay or stop writes, summed over column families."),
    informing("flush_count", "count", "Memtable flushes."),
    informing("flush_bytes", "bytes", "Bytes written by flushes."),
    informing("compaction_count", "count", "Finished compactions."),
    informing("compaction_read_bytes", "bytes", "Bytes read by compaction."),
    informing("compaction_write_bytes", "bytes", "Bytes written by compaction."),
    informing("compaction_seconds", "s", "Wall time of compactions, summed over jobs."),
    informing("compaction_cpu_seconds", "s", "CPU time of compactions."),
    informing("wal_bytes", "bytes", "Bytes written to the WAL."),
    informing("device_read_bytes", "bytes", "Bytes read from the storage device for this process."),
    informing(
        "device_write_bytes",
        "bytes",
        "Bytes this process wrote to files, whether or not they reached the device.",
    ),
    informing("cpu_user_seconds", "s", "User CPU time of the whole process."),
    informing("cpu_system_seconds", "s", "System CPU time of the whole process."),
    judged("cpu_seconds_per_step", "s", 0.05, "CPU time of the whole process per step of the primary role."),
    judged("rss_peak_bytes", "bytes", 0.10, "Largest resident set of the process."),
    judged("db_bytes", "bytes", 0.10, "Size of the database's files at the end of the window."),
    informing("debt_in_bytes", "bytes", "Estimated pending compaction when the window opened."),
    informing("debt_out_bytes", "bytes", "Estimated pending compaction when the window closed."),
    informing("drain_seconds", "s", "Wait for flush and compaction after the window."),
    MetricInfo {
        is_everywhere: false,
        ..informing("dangling_rows", "count", "Metadata rows without shreds, after the drain.")
    },
    MetricInfo {
        is_everywhere: false,
        ..informing("overdue_percent", "%", "Share of the slots to remove that still have shreds after the drain.")
    },
];

/// Looks a metric up by its name.
pub fn metric(name: &str) -> Option<&'static MetricInfo> {
    METRICS.iter().find(|metric| metric.name == name)
}
