//! Benchmarks of `db_bench` as scenarios.

use assay_protocol::{KeyOrder, KeyValue, Mix, Preload, Role, Until, ValueBytes};

use super::flags::Flags;
use crate::adopt::draft::{DraftScenario, role};

/// Those that become scenarios.
pub const BENCHMARKS: [&str; 18] = [
    "deleterandom",
    "deleteseq",
    "fill100K",
    "fillbatch",
    "fillrandom",
    "fillseq",
    "filluniquerandom",
    "overwrite",
    "readmissing",
    "readrandom",
    "readrandomsmall",
    "readrandomwriterandom",
    "readseq",
    "readtocache",
    "readwhilewriting",
    "seekrandom",
    "seekrandomwhilewriting",
    "updaterandom",
];

/// Those that `db_bench` ends after their operations, whatever `--duration` says.
const UNTIMED: [&str; 6] = ["deleteseq", "fillbatch", "fillseq", "filluniquerandom", "readseq", "readtocache"];

/// More than these would run for years.
const MOST_OPERATIONS: u64 = 1_000_000_000_000;

/// Entries of one scan that stands for an iterator over the whole database.
const LONG_SCAN: u64 = 100;

/// The longest that a paced role runs. A scenario of Assay has a fixed number of steps, and a deadline of an hour.
const LONGEST_SECONDS: u64 = 1200;

/// What flags say of every benchmark.
#[derive(Clone, Debug)]
pub struct Work {
    num: u64,
    reads: u64,
    writes: u64,
    deletes: u64,
    threads: u32,
    key_bytes: u32,
    value_bytes: ValueBytes,
    compressed_percent: u32,
    batch: u32,
    seek_nexts: u32,
    read_percent: u32,
    seconds: u64,
    /// Operations in a second, over all threads.
    reads_per_second: Option<u64>,
    /// Bytes in a second.
    write_rate: Option<u64>,
    families: Vec<String>,
    /// What had to be changed, a sentence each.
    pub changed: Vec<String>,
}

/// What comes of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Scenario(Box<DraftScenario>),
    /// Assay does this anyway, or it says nothing about work.
    NotNeeded,
    /// Why there is none.
    Missing(&'static str),
}

impl Work {
    /// Takes the flags that describe work.
    pub fn of(flags: &mut Flags, families: &[String]) -> Self {
        let mut changed = Vec::new();
        let num = flags.within("num", 1_000_000, 1, 100_000_000_000);
        let mut or_num = |flag: &str| {
            // One below zero is as one that is missing.
            let given = flags.number(flag, -1);
            match u64::try_from(given) {
                Ok(given) if given > MOST_OPERATIONS => {
                    flags.refuse(format!("--{flag}={given}: must be between 0 and {MOST_OPERATIONS}"));
                    num
                }
                Ok(given) => given,
                Err(_) => num,
            }
        };
        let (reads, writes, deletes) = (or_num("reads"), or_num("writes"), or_num("deletes"));
        let threads = flags.within("threads", 1, 1, 256);
        let batch = flags.within("batch_size", 1, 1, 100_000);
        let mut key_bytes = flags.within("key_size", 16, 1, 1024);
        if key_bytes < 8 {
            changed.push(format!("--key_size={key_bytes}: keys have at least 8 bytes"));
            key_bytes = 8;
        }
        let value_bytes = values(flags, &mut changed);
        let ratio = flags.decimal("compression_ratio", 0.5);
        let seconds = flags.within("duration", 0, 0, 604_800);
        let seek_nexts = flags.within("seek_nexts", 0, 0, 1_000_000);
        let read_percent = flags.within("readwritepercent", 90, 1, 99);
        let mut rate = |flag: &str| Some(flags.within(flag, 0, 0, 1 << 50)).filter(|rate| *rate > 0);
        let (reads_per_second, write_rate) = (rate("benchmark_read_rate_limit"), rate("benchmark_write_rate_limit"));
        Self {
            num,
            reads,
            writes,
            deletes,
            threads: threads as u32,
            key_bytes: key_bytes as u32,
            value_bytes,
            compressed_percent: (ratio * 100.0).round().clamp(1.0, 100.0) as u32,
            batch: batch as u32,
            seek_nexts: seek_nexts as u32,
            read_percent: read_percent as u32,
            seconds,
            reads_per_second,
            write_rate,
            families: families.to_vec(),
            changed,
        }
    }

    /// The scenario of a benchmark that begins with what `filled` leaves behind.
    pub fn scenario(&self, benchmark: &str, filled: Preload) -> Outcome {
        let fresh = |role: Role| self.play(benchmark, self.num, self.value_bytes, Preload::Empty, vec![role]);
        let filled_with = |roles: Vec<Role>| self.play(benchmark, self.num, self.value_bytes, filled, roles);
        let reads = self.reads;
        let readwrites = self.reads.max(self.writes);
        match benchmark {
            "fillseq" => fresh(self.writer(self.threads, self.batch, KeyOrder::Sequential)),
            "fillbatch" => fresh(self.writer(self.threads, 1000, KeyOrder::Sequential)),
            "fillrandom" => fresh(self.writer(self.threads, self.batch, KeyOrder::Uniform)),
            "filluniquerandom" => {
                let one = self.writer(1, self.batch, KeyOrder::Uniform);
                noted(fresh(one), "Keys repeat: db_bench writes each key once, in random order.")
            }
            "fill100k" => {
                // db_bench divides the keys, and not the writes.
                let role = self.writer(self.threads, self.batch, KeyOrder::Uniform);
                self.play(benchmark, (self.num / 1000).max(1), ValueBytes::Fixed(100_000), Preload::Empty, vec![role])
            }
            "overwrite" => filled_with(vec![self.writer(self.threads, self.batch, KeyOrder::Uniform)]),
            "readrandom" => filled_with(vec![self.reader(reads, GET)]),
            "readrandomsmall" => filled_with(vec![self.reader(reads / 1000, GET)]),
            "readmissing" => filled_with(vec![self.reader(reads, Mix { get_missing: 1, ..Mix::default() })]),
            "readseq" => noted(filled_with(vec![self.scanner(reads, self.threads)]), LONG_SCANS),
            "readtocache" => noted(filled_with(vec![self.scanner(self.num, 1)]), LONG_SCANS),
            "seekrandom" => filled_with(vec![self.seeker()]),
            "readwhilewriting" => {
                self.with_writer(filled_with(vec![self.reader(reads, GET), self.background_writer()]))
            }
            "seekrandomwhilewriting" => self.with_writer(filled_with(vec![self.seeker(), self.background_writer()])),
            "deleterandom" => filled_with(vec![self.deleter(KeyOrder::Uniform)]),
            "deleteseq" => filled_with(vec![self.deleter(KeyOrder::Sequential)]),
            "readrandomwriterandom" => {
                let mix = Mix { get: self.read_percent, put: 100 - self.read_percent, ..Mix::default() };
                filled_with(vec![self.client(readwrites, mix)])
            }
            "updaterandom" => {
                let mix = Mix { get: 1, put: 1, ..Mix::default() };
                let client = self.client(readwrites.saturating_mul(2), mix);
                noted(
                    filled_with(vec![client]),
                    "An update is two steps here, a get and a put, each of a random key; db_bench writes the key that it \
                     has read.",
                )
            }
            "compact"
            | "compactall"
            | "compact0"
            | "compact1"
            | "waitforcompaction"
            | "flush"
            | "stats"
            | "resetstats"
            | "levelstats"
            | "memstats"
            | "sstables"
            | "heapprofile"
            | "cache_report_problems"
            | "block_cache_entry_stats"
            | "verify"
            | "verifychecksum"
            | "verifyfilechecksums"
            | "stats_history" => Outcome::NotNeeded,
            "mixgraph" => Outcome::Missing("not supported: approximate it with a mix of get, put and scan"),
            "fillsync" => Outcome::Missing(
                "sync belongs to a config here, so it can't differ between scenarios; make it another experiment, with --sync",
            ),
            "multireadrandom" | "multireadwhilewriting" => Outcome::Missing("the workloads do not use MultiGet"),
            "readreverse" => Outcome::Missing("the workloads do not iterate backwards"),
            "readwhilescanning" => Outcome::Missing("write readrandom with a second role that has mix: {scan: 1}"),
            "readwhilemerging"
            | "seekrandomwhilemerging"
            | "mergerandom"
            | "readrandommergerandom"
            | "getmergeoperands"
            | "readrandomoperands"
            | "xorupdaterandom"
            | "appendrandom" => Outcome::Missing("keyValue writes no merges"),
            _ => Outcome::Missing("no counterpart"),
        }
    }

    fn play(&self, name: &str, keys: u64, value_bytes: ValueBytes, preload: Preload, roles: Vec<Role>) -> Outcome {
        let mut notes = Vec::new();
        if self.seconds > 0 {
            notes.push(if UNTIMED.contains(&name) {
                "db_bench does all of its operations, too: --duration does not apply to this benchmark.".to_owned()
            } else {
                let seconds = self.seconds;
                format!("db_bench ends this after {seconds} s. Here the work is fixed: set steps so that a trial takes as long.")
            });
        }
        let cut = roles
            .iter()
            .any(|role| role.steps_per_second.is_some_and(|rate| role.steps == Some(rate * LONGEST_SECONDS)));
        if cut {
            notes.push(format!("Cut to {LONGEST_SECONDS} s at this pace."));
        }
        let workload = KeyValue {
            keys: keys.max(self.families.len() as u64),
            key_bytes: self.key_bytes,
            value_bytes,
            compressed_percent: self.compressed_percent,
            families: self.families.clone(),
            preload,
            roles,
        };
        Outcome::Scenario(Box::new(DraftScenario { name: name.to_owned(), notes, workload }))
    }

    fn writer(&self, threads: u32, batch: u32, key_order: KeyOrder) -> Role {
        // Each thread of db_bench does all of its operations.
        let steps = self.writes.div_ceil(u64::from(batch)).max(1).saturating_mul(u64::from(threads));
        let rate = self.write_rate.map(|bytes| self.entries_of(bytes).div_ceil(u64::from(batch)));
        paced(Role { threads, batch, key_order, ..role("writer", steps, PUT) }, rate)
    }

    /// Reads, which have a limit of their own.
    fn reader(&self, each: u64, mix: Mix) -> Role {
        paced(Role { name: "reader".to_owned(), ..self.client(each, mix) }, self.reads_per_second)
    }

    fn client(&self, each: u64, mix: Mix) -> Role {
        let steps = each.max(1).saturating_mul(u64::from(self.threads));
        Role { threads: self.threads, warmup_steps: steps / 10, ..role("client", steps, mix) }
    }

    fn seeker(&self) -> Role {
        Role { scan_length: self.seek_nexts.max(1), ..self.reader(self.reads, SCAN) }
    }

    fn scanner(&self, each: u64, threads: u32) -> Role {
        let length = LONG_SCAN.min(self.num);
        let steps = each.div_ceil(length).max(1).saturating_mul(u64::from(threads));
        Role { threads, scan_length: length as u32, ..role("reader", steps, SCAN) }
    }

    fn deleter(&self, key_order: KeyOrder) -> Role {
        let steps = self.deletes.div_ceil(u64::from(self.batch)).max(1).saturating_mul(u64::from(self.threads));
        let mix = Mix { delete: 1, ..Mix::default() };
        Role { threads: self.threads, batch: self.batch, key_order, ..role("deleter", steps, mix) }
    }

    /// The thread that `db_bench` lets write until its readers are done.
    fn background_writer(&self) -> Role {
        let rate = self.write_rate.map_or(PLACEHOLDER_RATE, |bytes| self.entries_of(bytes));
        Role { steps: None, until: Some(Until::PrimaryEnds), steps_per_second: Some(rate), ..role("writer", 1, PUT) }
    }

    fn with_writer(&self, outcome: Outcome) -> Outcome {
        if self.write_rate.is_some() { outcome } else { noted(outcome, BACKGROUND) }
    }

    /// Entries that so many bytes hold.
    fn entries_of(&self, bytes: u64) -> u64 {
        let entry = u64::from(self.key_bytes) + self.value_bytes.mean() as u64;
        (bytes / entry.max(1)).clamp(1, 100_000_000)
    }
}

const PUT: Mix = Mix { put: 1, get: 0, get_missing: 0, delete: 0, scan: 0 };
const GET: Mix = Mix { put: 0, get: 1, get_missing: 0, delete: 0, scan: 0 };
const SCAN: Mix = Mix { put: 0, get: 0, get_missing: 0, delete: 0, scan: 1 };

const LONG_SCANS: &str = "db_bench reads with one iterator per thread from the first key on. Here each step reads a part, from a random key on.";
const BACKGROUND: &str = "db_bench's writer runs as fast as it can. Here it has a pace, so that no config wins by slowing it down: set \
    stepsPerSecond to the load that you expect.";

/// Steps in a second of a background writer whose pace nobody has named.
const PLACEHOLDER_RATE: u64 = 10_000;

/// A role at a fixed pace, and not for longer than a deadline allows.
fn paced(role: Role, rate: Option<u64>) -> Role {
    let Some(rate) = rate.map(|rate| rate.clamp(1, 100_000_000)) else { return role };
    let steps = role.steps.unwrap_or_default().min(rate.saturating_mul(LONGEST_SECONDS)).max(u64::from(role.threads));
    Role { steps: Some(steps), warmup_steps: role.warmup_steps.min(steps / 10), steps_per_second: Some(rate), ..role }
}

fn noted(outcome: Outcome, note: &str) -> Outcome {
    match outcome {
        Outcome::Scenario(mut scenario) => {
            scenario.notes.push(note.to_owned());
            Outcome::Scenario(scenario)
        }
        other => other,
    }
}

fn values(flags: &mut Flags, changed: &mut Vec<String>) -> ValueBytes {
    const MOST: u64 = 16 << 20;
    let fixed = ValueBytes::Fixed(flags.within("value_size", 100, 0, MOST) as u32);
    let min = flags.within("value_size_min", 100, 0, MOST) as u32;
    let max = flags.within("value_size_max", 102_400, 0, MOST) as u32;
    let kind = flags.take("value_size_distribution_type").unwrap_or("fixed".to_owned());
    match kind.as_str() {
        "fixed" => fixed,
        "uniform" | "normal" => {
            if min > max {
                flags.refuse(format!("--value_size_min={min} is above --value_size_max={max}"));
            }
            if kind == "normal" {
                changed.push("--value_size_distribution_type=normal: sizes are spread evenly instead".to_owned());
            }
            ValueBytes::Uniform { min, max }
        }
        other => {
            let known = "db_bench knows fixed, uniform and normal";
            flags.refuse(format!("--value_size_distribution_type={other}: {known}"));
            fixed
        }
    }
}
