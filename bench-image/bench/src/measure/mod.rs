//! What RocksDB's counters say about the window.

use std::{collections::BTreeMap, time::Duration};

use assay_protocol::{EngineConfig, FamilyFacts, LsmState, Series};

use crate::{
    driver::Progress,
    engagement::Peaks,
    engine::{Counters, Properties},
};

/// The shape of the tree now, under a config.
pub fn lsm_state(engine: &dyn Properties, config: &EngineConfig) -> LsmState {
    let due = engine.max("rocksdb.compaction-pending").zip(engine.max("rocksdb.mem-table-flush-pending"));
    let running = engine.max("rocksdb.num-running-compactions").zip(engine.max("rocksdb.num-running-flushes"));
    LsmState {
        pending_compaction_bytes: engine.sum("rocksdb.estimate-pending-compaction-bytes"),
        l0_files: engine.max("rocksdb.num-files-at-level0"),
        immutable_memtables: engine.sum("rocksdb.num-immutable-mem-table"),
        running_compactions: running.map(|(compactions, _)| compactions),
        running_flushes: running.map(|(_, flushes)| flushes),
        live_sst_bytes: engine.sum("rocksdb.live-sst-files-size"),
        live_blob_bytes: engine.sum("rocksdb.live-blob-file-size"),
        live_data_bytes: None,
        base_level: engine.max("rocksdb.base-level"),
        settled: due.zip(running).map(|(due, running)| due == (0, 0) && running == (0, 0)),
        unmerged_bytes: unmerged_bytes(engine, config),
    }
}

/// Where everything stays in L0, nothing there waits to be merged.
fn unmerged_bytes(engine: &dyn Properties, config: &EngineConfig) -> Option<u64> {
    let merging = engine.families().iter().filter(|family| !config.is_fifo(family));
    let merging = merging.filter(|family| engine.files_by_level(family).len() > 1);
    let of = |family: &String| {
        let files = engine.family_text(family, "rocksdb.aggregated-table-properties-at-level0")?;
        Some(engine.family_property(family, "rocksdb.cur-size-all-mem-tables")? + raw_bytes(&files)?)
    };
    merging.map(of).sum()
}

/// Bytes of keys and values, as properties of tables say them: `# data blocks=1; ...; raw key size=24; ...; raw value size=10; ...`.
fn raw_bytes(properties: &str) -> Option<u64> {
    let of = |name: &str| {
        let mut pairs = properties.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(key, _)| *key == name)?.1.parse::<u64>().ok()
    };
    Some(of("raw key size")? + of("raw value size")?)
}

/// Times that RocksDB found a family in a state in which writes are delayed or stopped, since the database was opened.
pub fn stalls(engine: &dyn Properties) -> Option<u64> {
    let of = |family: &String| stalls_of(&engine.family_text(family, "rocksdb.cf-write-stall-stats")?);
    engine.families().iter().map(of).sum()
}

/// Both totals of a family, by what RocksDB says of it: `Write Stall (count): memtable-limit-delays: 1, ..., total-stops: 0`.
fn stalls_of(text: &str) -> Option<u64> {
    let text = text.strip_prefix("Write Stall (count): ")?;
    let count = |name: &str| {
        let counts = text.split(',').filter_map(|part| part.rsplit_once(": "));
        counts.filter(|(part, _)| part.trim() == name).find_map(|(_, count)| count.trim().parse::<u64>().ok())
    };
    Some(count("total-delays")? + count("total-stops")?)
}

/// The facts of every family at the end of the window.
pub fn family_facts(engine: &dyn Properties, peaks: &BTreeMap<String, u64>) -> BTreeMap<String, FamilyFacts> {
    engine
        .families()
        .iter()
        .map(|family| {
            let number = |property: &str| engine.family_property(family, property);
            let files = engine.files_by_level(family);
            let ratios = (0..files.len())
                .filter_map(|level| {
                    engine.family_text(family, &format!("rocksdb.compression-ratio-at-level{level}"))?.parse().ok()
                })
                .collect();
            let facts = FamilyFacts {
                files_by_level: files,
                compression_ratio_by_level: ratios,
                live_sst_bytes: number("rocksdb.live-sst-files-size").unwrap_or_default(),
                estimated_keys: number("rocksdb.estimate-num-keys").unwrap_or_default(),
                base_level: number("rocksdb.base-level"),
                l0_files_peak: peaks.get(family).copied().unwrap_or_default(),
            };
            (family.clone(), facts)
        })
        .collect()
}

/// Samples over the window: rows of the series, and peaks in between.
#[derive(Debug, Default)]
pub struct Sampler {
    series: Series,
    next: Duration,
    next_peak: Duration,
    previous: Counters,
    previous_steps: u64,
    previous_at: Duration,
    /// Steps of the primary role by time, fine enough to tell the halves of a short window apart.
    steps: Vec<(f64, u64)>,
    pub peaks: Peaks,
}

/// Between rows of the series: often enough for a curve of a short window, and few enough for a long one.
const ROW: Duration = Duration::from_millis(250);
const LATE_ROW: Duration = Duration::from_secs(1);
/// How long rows are close to each other.
const EARLY: Duration = Duration::from_secs(30);
const PEAK: Duration = Duration::from_millis(200);
/// With fewer samples of other numbers of steps than this, a single long step would decide about drift.
const ENOUGH: usize = 6;

impl Sampler {
    pub fn new(peaks: Peaks) -> Self {
        Self { peaks, ..Self::default() }
    }

    pub fn open(&mut self, engine: &dyn Properties, progress: &Progress) {
        *self = Self {
            peaks: std::mem::take(&mut self.peaks),
            previous: engine.counters(),
            previous_steps: primary_steps(progress),
            next: ROW,
            ..Self::default()
        };
        self.peaks.open(engine);
    }

    /// Called often; samples when it is time.
    pub fn tick(&mut self, engine: &dyn Properties, progress: &Progress, window: Duration) {
        if window >= self.next_peak {
            self.next_peak = window + PEAK;
            self.peaks.sample(engine);
            self.steps.push((window.as_secs_f64(), primary_steps(progress)));
        }
        if window >= self.next {
            self.next = window + if window < EARLY { ROW } else { LATE_ROW };
            self.row(engine, progress, window);
        }
    }

    fn row(&mut self, engine: &dyn Properties, progress: &Progress, window: Duration) {
        let counters = engine.counters();
        let steps = primary_steps(progress);
        let seconds = window.saturating_sub(self.previous_at).as_secs_f64();
        let moved = counters.since(&self.previous);
        let rate = |name: &str| moved.get(name) as f64 / seconds;
        let columns = [
            ("steps_per_second", (steps - self.previous_steps) as f64 / seconds),
            ("stall_fraction", rate("rocksdb.stall.micros") / 1e6),
            ("flush_bytes_per_second", rate("rocksdb.flush.write.bytes")),
            ("compaction_read_bytes_per_second", rate("rocksdb.compact.read.bytes")),
            ("compaction_write_bytes_per_second", rate("rocksdb.compact.write.bytes")),
            ("user_bytes_per_second", rate("rocksdb.bytes.written")),
            ("wal_bytes_per_second", rate("rocksdb.wal.bytes")),
            ("l0_files", engine.max("rocksdb.num-files-at-level0").unwrap_or_default() as f64),
            (
                "pending_compaction_bytes",
                engine.sum("rocksdb.estimate-pending-compaction-bytes").unwrap_or_default() as f64,
            ),
            ("memtable_bytes", engine.sum("rocksdb.cur-size-all-mem-tables").unwrap_or_default() as f64),
            ("live_sst_bytes", engine.sum("rocksdb.live-sst-files-size").unwrap_or_default() as f64),
        ];
        self.series.seconds.push(window.as_secs_f64());
        for (name, value) in columns {
            self.series.columns.entry(name.to_owned()).or_default().push(value);
        }
        (self.previous, self.previous_steps, self.previous_at) = (counters, steps, window);
    }

    /// Throughput of the window's second half against its first, in percent of the first.
    pub fn drift_percent(&self) -> Option<f64> {
        // Beside a primary role that is done already, others may go on. A pause before that belongs to its half.
        let (_, all) = self.steps.last()?;
        let samples = &self.steps[..=self.steps.iter().position(|(_, steps)| steps == all)?];
        let moved = samples.windows(2).filter(|pair| pair[0].1 < pair[1].1).count();
        let ((start, first), (end, last)) = (samples.first()?, samples.last()?);
        let middle = f64::midpoint(*start, *end);
        let (at, half) = samples.iter().find(|(at, _)| *at >= middle)?;
        if moved + 1 < ENOUGH || at <= start || end <= at {
            return None;
        }
        let early = (half - first) as f64 / (at - start);
        let late = (last - half) as f64 / (end - at);
        (early > 0.0).then(|| 100.0 * (late / early - 1.0))
    }

    pub fn into_series(self) -> Series {
        self.series
    }
}

fn primary_steps(progress: &Progress) -> u64 {
    progress.roles.first().map_or(0, crate::driver::RoleProgress::done)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
#[cfg(test)]
pub mod told;
