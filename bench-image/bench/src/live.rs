//! What a running trial tells while it runs: progress lines and Prometheus metrics.

use std::{
    fmt,
    io::{self, Write as _},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use assay_protocol::output::{self, STEP_LATENCY, STEPS_DONE, STEPS_PLANNED};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet, text::encode},
    metrics::{MetricType, counter::ConstCounter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::{
    driver::Progress,
    engine::{Engine, Properties as _},
};

/// How often a progress line is written.
const LINE: Duration = Duration::from_secs(1);

/// Shared between the trial and the metrics endpoint.
#[derive(Default)]
pub struct Live {
    watched: Mutex<Option<Watched>>,
    line: Mutex<Line>,
}

struct Watched {
    engine: Arc<Engine>,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Line {
    phase: &'static str,
    at: Option<Instant>,
    steps: u64,
}

/// The latency histogram of every role, from the counts that its threads share.
#[derive(Debug)]
struct Latencies(Arc<Progress>);

impl Collector for Latencies {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family =
            encoder.encode_descriptor(STEP_LATENCY, "Latency of measured steps", None, MetricType::Histogram)?;
        for role in &self.0.roles {
            let (mut buckets, sum) = role.latency();
            let count = buckets.iter().map(|(_, count)| count).sum();
            if let Some(last) = buckets.last_mut() {
                last.0 = f64::INFINITY;
            }
            let labels = [("role", role.name.as_str())];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

impl Live {
    pub fn watch(&self, engine: &Arc<Engine>, progress: &Arc<Progress>) {
        let watched = Watched { engine: Arc::clone(engine), progress: Arc::clone(progress) };
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = Some(watched);
    }

    /// The engine is about to be closed.
    pub fn unwatch(&self) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A progress line for a phase without steps, at its start and about once a second.
    pub fn report(&self, phase: &'static str, done: u64, total: u64) {
        self.write(phase, done, total, None);
    }

    /// A progress line for the steps of the primary role.
    pub fn steps(&self, progress: &Progress, window: Option<Duration>) {
        let Some(primary) = progress.roles.first() else { return };
        let done = primary.done();
        match window {
            None => self.write("warmup", done, primary.warmup_steps, Some(done)),
            Some(_) => {
                self.write("measure", done.saturating_sub(primary.warmup_steps), primary.steps, Some(done));
            }
        }
    }

    fn write(&self, phase: &'static str, done: u64, total: u64, steps: Option<u64>) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = line.at.is_none_or(|at| now - at >= LINE);
        if line.phase == phase && !due {
            return;
        }
        let rate = line
            .at
            .zip(steps)
            .filter(|_| line.phase == phase)
            .map(|(at, steps)| steps.saturating_sub(line.steps) as f64 / (now - at).as_secs_f64());
        *line = Line { phase, at: Some(now), steps: steps.unwrap_or_default() };
        let progress = output::Progress { phase: phase.to_owned(), done, total, steps_per_second: rate };
        // Nobody may be listening any more; the trial goes on.
        let _ = writeln!(io::stdout().lock(), "{}", progress.line());
    }

    /// The body of `/metrics`.
    pub fn render(&self) -> Result<String, fmt::Error> {
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        struct RoleLabel {
            role: String,
        }
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        struct LevelLabel {
            family: String,
            level: u32,
        }
        let mut registry = Registry::default();
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Watched { engine, progress }) = watched.as_ref() {
            let (done, planned) = (Family::<RoleLabel, Gauge>::default(), Family::<RoleLabel, Gauge>::default());
            for role in &progress.roles {
                let label = RoleLabel { role: role.name.clone() };
                done.get_or_create(&label).set(role.done().cast_signed());
                // A role that ends with the primary one has no plan.
                if role.steps > 0 {
                    planned.get_or_create(&label).set((role.warmup_steps + role.steps).cast_signed());
                }
            }
            registry.register_collector(Box::new(Latencies(Arc::clone(progress))));
            registry.register(STEPS_DONE, "Steps done, including warm-up", done);
            registry.register(STEPS_PLANNED, "Steps planned, including warm-up", planned);
            for (name, count) in engine.counters().moved() {
                // RocksDB's own name, as Prometheus spells names.
                let name = name.replace(['.', '-'], "_").to_lowercase();
                registry.register(name, "RocksDB ticker", ConstCounter::new(count));
            }
            let files = Family::<LevelLabel, Gauge>::default();
            for family in engine.families() {
                for (level, count) in (0..).zip(engine.files_by_level(family)) {
                    files.get_or_create(&LevelLabel { family: family.clone(), level }).set(count.cast_signed());
                }
            }
            registry.register("rocksdb_num_files_at_level", "Files at a level", files);
            for (name, property, help) in [
                (
                    "rocksdb_estimate_pending_compaction_bytes",
                    "rocksdb.estimate-pending-compaction-bytes",
                    "Compaction debt",
                ),
                ("rocksdb_cur_size_all_mem_tables", "rocksdb.cur-size-all-mem-tables", "Bytes in memtables"),
                ("rocksdb_live_sst_files_size", "rocksdb.live-sst-files-size", "Bytes in live table files"),
            ] {
                let gauge: Gauge = Gauge::default();
                gauge.set(engine.sum(property).unwrap_or_default().cast_signed());
                registry.register(name, help, gauge);
            }
        }
        let mut body = String::new();
        encode(&mut body, &registry)?;
        Ok(body)
    }
}
