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
    /// How it is computed.
    pub formula: &'static str,
    /// What it is read from: RocksDB's names in backticks, the kernel's, or the driver's own counts.
    pub source: &'static str,
    /// What it does not tell.
    pub leaves_out: &'static str,
}

impl MetricInfo {
    const fn by(self, formula: &'static str, source: &'static str, leaves_out: &'static str) -> Self {
        Self { formula, source, leaves_out, ..self }
    }

    /// Whether it is the latency of a step or a save.
    pub fn is_latency(&self) -> bool {
        self.unit == MICROSECONDS
    }
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
        formula: "",
        source: "",
        leaves_out: "",
    }
}

const fn informing(name: &'static str, unit: &'static str, help: &'static str) -> MetricInfo {
    MetricInfo { default_margin: None, ..judged(name, unit, 0.0, help) }
}

const fn rate(name: &'static str, help: &'static str) -> MetricInfo {
    MetricInfo { direction: Direction::HigherIsBetter, is_time: true, ..judged(name, "steps/s", 0.05, help) }
}

/// The unit of latencies, and of nothing else.
const MICROSECONDS: &str = "us";

const fn latency(name: &'static str, margin: f64, quantile: Option<f64>, help: &'static str) -> MetricInfo {
    MetricInfo { quantile, is_time: true, ..judged(name, MICROSECONDS, margin, help) }
}

/// Of another thread than the primary role's, so that what the primary role does all day does not bound it.
const fn save_latency(name: &'static str, margin: f64, quantile: Option<f64>, help: &'static str) -> MetricInfo {
    MetricInfo { is_time: false, is_everywhere: false, ..latency(name, margin, quantile, help) }
}

/// Of latencies.
const HISTOGRAM: &str = "HDR histogram of the steps' nanoseconds up to an hour, three significant digits";
const MEAN: &str = "sum of latencies / steps";
const DRIVER: &str = "the driver's monotonic clock, all steps";
const WAITS: &str = "Waits for a step's input from another role. A paced step counts from its intended start, any other from its own, so \
                     without pacing the steps that a stall would have delayed are missing.";
const TOUCHED: &str =
    "As step_latency_mean, and steps that measuring slows down (docs/report.md, Where the time went).";

/// Every metric of a record, in the order of reports.
pub const METRICS: &[MetricInfo] = &[
    rate("throughput", "Steps of the primary role per second of its own time.").by(
        "steps / (end of the role's last step - opening of the window)",
        "the driver's count and the monotonic clock",
        "The warm-up, and flushes and compactions that the steps leave behind.",
    ),
    rate(
        "drained_throughput",
        "Steps of the primary role per second, counting the remaining work of roles that follow it or keep it \
         company, and the wait for flush and compaction after the window.",
    )
    .by(
        "steps / (last end of the primary role and of the roles bound to it - opening of the window + \
         drain_seconds)",
        "the driver's count and the monotonic clock",
        "Roles that are not bound to the primary one. Compaction that is not due under the baseline's triggers.",
    ),
    rate("operation_throughput", "Operations of all roles per second of the window.").by(
        "(puts + merges + gets + deletes + scans) / window",
        "the driver's counts and the monotonic clock",
        "Removals of a policy. An operation counts the same whatever its size.",
    ),
    MetricInfo {
        unit: "Mgas/s",
        is_everywhere: false,
        ..rate("gas_throughput", "Gas of the blocks per second, in millions: throughput in a node's own unit.").by(
            "throughput * mgasPerBlock",
            "as throughput; mgasPerBlock of the workload",
            "As throughput.",
        )
    },
    MetricInfo {
        unit: "shreds/s",
        is_everywhere: false,
        ..rate("shred_throughput", "Shreds inserted per second: throughput in a validator's own unit.").by(
            "throughput * shreds of a slot / batches of a slot",
            "as throughput; dataShredsPerSlot and shredsPerBatch of the workload",
            "As throughput.",
        )
    },
    latency("step_latency_mean", 0.05, None, "Mean latency of a step of the primary role.").by(MEAN, DRIVER, WAITS),
    latency("step_latency_p50", 0.05, Some(0.5), "Median latency of a step.").by(
        "smallest latency that half of the steps do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    latency("step_latency_p90", 0.10, Some(0.9), "90th percentile of step latency.").by(
        "smallest latency that 90 % of the steps do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    latency("step_latency_p95", 0.10, Some(0.95), "95th percentile of step latency.").by(
        "smallest latency that 95 % of the steps do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    latency("step_latency_p99", 0.10, Some(0.99), "99th percentile of step latency.").by(
        "smallest latency that 99 % of the steps do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    latency("step_latency_p999", 0.10, Some(0.999), "99.9th percentile of step latency.").by(
        "smallest latency that 99.9 % of the steps do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    MetricInfo {
        default_margin: None,
        ..latency("step_latency_max", 0.0, Some(1.0), "Longest step.").by("largest latency", DRIVER, WAITS)
    },
    save_latency("save_latency_mean", 0.05, None, "Mean latency of a save, on its own thread.").by(MEAN, DRIVER, WAITS),
    save_latency("save_latency_p50", 0.05, Some(0.5), "Median latency of a save.").by(
        "smallest latency that half of the saves do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    save_latency("save_latency_p90", 0.10, Some(0.9), "90th percentile of save latency.").by(
        "smallest latency that 90 % of the saves do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    save_latency("save_latency_p95", 0.10, Some(0.95), "95th percentile of save latency.").by(
        "smallest latency that 95 % of the saves do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    save_latency("save_latency_p99", 0.10, Some(0.99), "99th percentile of save latency.").by(
        "smallest latency that 99 % of the saves do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    save_latency("save_latency_p999", 0.10, Some(0.999), "99.9th percentile of save latency.").by(
        "smallest latency that 99.9 % of the saves do not exceed",
        HISTOGRAM,
        TOUCHED,
    ),
    MetricInfo {
        default_margin: None,
        ..save_latency("save_latency_max", 0.0, Some(1.0), "Longest save.").by("largest latency", DRIVER, WAITS)
    },
    judged("write_amplification", "ratio", 0.10, "Bytes written by flush and compaction per byte the workload wrote.")
        .by(
            "(bytes flushed + bytes that compactions wrote, in the window and the drain) / bytes of keys and values \
             that all roles wrote in the window",
            "`rocksdb.flush.write.bytes`, `rocksdb.compact.write.bytes`; the driver's count",
            "The WAL. What the warm-up left to be flushed and compacted counts, too.",
        ),
    judged("read_amplification", "ratio", 0.10, "Bytes read from files by reads per byte returned.").by(
        "(bytes read from table files - bytes that compactions read) / bytes of keys and values that gets and \
         scans of all roles returned",
        "`rocksdb.last.level.read.bytes`, `rocksdb.non.last.level.read.bytes`, `rocksdb.compact.read.bytes`; \
         the driver's count",
        "Blocks found in the block cache. Whether a read reached the device or the page cache. Reads that \
         open or verify files are included.",
    ),
    judged("space_amplification", "ratio", 0.10, "Bytes of live files per byte of live keys and values, uncompressed.").by(
        "(bytes of live table files + bytes of live blob files at the end of the window) / bytes of keys and \
         values, uncompressed and each live key once, that the steps of all roles leave (work.liveBytes)",
        "`rocksdb.live-sst-files-size`, `rocksdb.live-blob-file-size`; the dataset, the workload and the driver's \
         count of steps",
        "The WAL, and files that are obsolete but not deleted yet. Data that is still in memtables: it is live, but \
         in no file. Live bytes are exact with blockstore, and with keyValue if it is certain which keys are left. \
         Otherwise they are the expected bytes, which are also the same for all configs that did the same work. If \
         one role puts keys that another deletes, each role's steps count as evenly spread over the window.",
    ),
    MetricInfo {
        scale: Scale::Linear,
        ..judged("stall_fraction", "fraction", 0.01, "Share of the window in which writers were delayed or stopped.")
            .by("stall_seconds / window", "`rocksdb.stall.micros`", "As stall_seconds.")
    },
    informing("stall_seconds", "s", "Time during which the write queue was delayed or stopped.").by(
        "microseconds / 1,000,000",
        "`rocksdb.stall.micros`",
        "Writers that wait behind the first one of the queue. Waits because of the limit on all memtables \
         together (allow_stall).",
    ),
    informing(
        "stall_count",
        "count",
        "Times that the tree changed and left a column family in a state that delays or stops writes, summed \
         over column families.",
    )
    .by(
        "growth of total-delays + total-stops in the window, summed over families",
        "`rocksdb.cf-write-stall-stats`",
        "How long each took. A stall that lasts over several changes of the tree counts once for each.",
    ),
    informing("flush_count", "count", "Memtable flushes.").by(
        "events flush_finished in the window, of all families",
        "RocksDB's LOG",
        "Flushes that finish after the window. Unknown if the LOG was rolled or hides events.",
    ),
    informing("flush_bytes", "bytes", "Bytes written by flushes.").by(
        "growth in the window",
        "`rocksdb.flush.write.bytes`",
        "Flushes that have not finished.",
    ),
    informing("compaction_count", "count", "Finished compactions.").by(
        "events compaction_finished in the window, of all families",
        "RocksDB's LOG",
        "Trivial moves, which rewrite nothing. Compactions that finish after the window. Unknown as \
         flush_count.",
    ),
    informing("compaction_read_bytes", "bytes", "Bytes read by compaction.").by(
        "growth in the window",
        "`rocksdb.compact.read.bytes`",
        "Whether the bytes came from the device or the page cache.",
    ),
    informing("compaction_write_bytes", "bytes", "Bytes written by compaction.").by(
        "growth in the window",
        "`rocksdb.compact.write.bytes`",
        "Trivial moves, which write nothing.",
    ),
    informing("compaction_seconds", "s", "Wall time of compactions, summed over jobs.").by(
        "growth of the histogram's sum in the window, in seconds",
        "`rocksdb.compaction.times.micros`",
        "Compactions that have not finished: a job counts as a whole when it ends.",
    ),
    informing("compaction_cpu_seconds", "s", "CPU time of compactions.").by(
        "microseconds / 1,000,000",
        "`rocksdb.compaction.total.time.cpu_micros`",
        "The start and end of a job.",
    ),
    informing("wal_bytes", "bytes", "Bytes written to the WAL.").by(
        "growth in the window",
        "`rocksdb.wal.bytes`",
        "Blocks that the file system allocates ahead.",
    ),
    informing("device_read_bytes", "bytes", "Bytes read from the storage device for this process.").by(
        "growth in the window",
        "read_bytes of /proc/self/io",
        "Reads from the page cache.",
    ),
    informing(
        "device_write_bytes",
        "bytes",
        "Bytes this process wrote to files, whether or not they reached the device.",
    )
    .by(
        "growth in the window",
        "write_bytes of /proc/self/io",
        "What the file system and the device write in addition, such as journals.",
    ),
    informing("cpu_user_seconds", "s", "User CPU time of the whole process.").by(
        "growth in the window",
        "ru_utime of getrusage",
        "Nothing of the process: the generator and the observer are included. The kernel splits user and \
         system time by clock ticks.",
    ),
    informing("cpu_system_seconds", "s", "System CPU time of the whole process.").by(
        "growth in the window",
        "ru_stime of getrusage",
        "Kernel threads, such as those that write back pages. The kernel splits user and system time by clock \
         ticks.",
    ),
    judged(
        "cpu_seconds_per_step",
        "s",
        0.05,
        "CPU time of the whole process per step of the primary role, the drain included.",
    )
    .by(
        "user and system time in the window and the drain / steps",
        "getrusage; the driver's count",
        "Kernel threads. The work of other roles is included.",
    ),
    judged("rss_peak_bytes", "bytes", 0.10, "Largest resident set of the process.").by(
        "the kernel's mark, reset when the window opens",
        "VmHWM of /proc/self/status, or VmRSS every 100 ms if the mark can't be reset",
        "The page cache. With VmRSS, shorter peaks.",
    ),
    judged("db_bytes", "bytes", 0.10, "Size of the database's files at the end of the window.").by(
        "for each file the smaller of its length and its allocated blocks, summed",
        "stat of the files in the trial's folder",
        "Data that is still in memtables, unless the WAL holds it. Obsolete files that are not deleted yet \
         are included.",
    ),
    informing("debt_in_bytes", "bytes", "Estimated pending compaction when the window opened.").by(
        "sum over families when the window opens",
        "`rocksdb.estimate-pending-compaction-bytes`",
        "Data that is still in memtables.",
    ),
    informing("debt_out_bytes", "bytes", "Estimated pending compaction when the window closed.").by(
        "sum over families when the window closes",
        "`rocksdb.estimate-pending-compaction-bytes`",
        "Data that is still in memtables.",
    ),
    informing("drain_seconds", "s", "Wait for flush and compaction after the window.").by(
        "time to flush every family and until no compaction runs or is due under the baseline's triggers",
        "the monotonic clock",
        "The time between the end of the window and the flush.",
    ),
    MetricInfo {
        is_everywhere: false,
        ..informing("dangling_rows", "count", "Metadata rows without shreds, after the drain.").by(
            "rows of index of which the first or last data or coding shred is missing",
            "the database after the drain",
            "Shreds between the first and the last one of a slot.",
        )
    },
    MetricInfo {
        is_everywhere: false,
        ..informing("overdue_percent", "%", "Share of the slots to remove that still have shreds after the drain.").by(
            "100 * (slots to remove - oldest slot left, at least 0) / slots to remove",
            "the database after the drain",
            "Gaps: all slots from the oldest one that is left count. Absent if none had to be removed.",
        )
    },
];

/// Looks a metric up by its name.
pub fn metric(name: &str) -> Option<&'static MetricInfo> {
    METRICS.iter().find(|metric| metric.name == name)
}
