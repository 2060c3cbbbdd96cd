//! One trial from its spec to its record.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use assay_record::{
    Attestation, DatasetFacts, Digest, Disturbance, Engagement, Evidence, FailureKind, Latency, LsmState, Outcome,
    Placement, RoleCounts, Series, Storage, Summary, TrialRecord, TrialSpec, VERSION, Work,
};
use hdrhistogram::serialization::{Serializer as _, V2Serializer};

use crate::{
    dataset,
    driver::{self, Observer, Progress, Results, RoleResult},
    engine::{Attestor, Engine, EngineError},
    events,
    evidence::{self, PeakRss, Probe, ProcessDelta, ProcessUsage, Roots},
    live::Live,
    measure::{self, Counters, Sampler},
    workload::{self, Workload},
};

/// Where a trial works and what it leaves.
#[derive(Clone, Debug)]
pub struct Paths {
    pub data: PathBuf,
    pub record: PathBuf,
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("the spec is refused: {0}")]
    Spec(String),
    #[error("the environment is not fit: {0}")]
    Environment(String),
    #[error("the workload failed under config {config}: {message}")]
    Config { config: String, kind: FailureKind, message: String },
}

/// Sorts an engine's error by who is to blame.
fn blame(error: &EngineError, spec: &TrialSpec) -> TrialError {
    let message = error.to_string();
    let kind = match error {
        EngineError::Options { .. } => return TrialError::Spec(message),
        EngineError::Io { .. } => return TrialError::Environment(message),
        EngineError::Open { .. } | EngineError::Call(_) if message.contains("No space left on device") => {
            return TrialError::Environment(format!("the disk is full ({message})"));
        }
        EngineError::Open { .. } | EngineError::Call(_) if message.contains("Corruption") => FailureKind::Corruption,
        EngineError::Open { .. } if message.contains("Invalid argument") => return TrialError::Spec(message),
        EngineError::Open { .. } | EngineError::Call(_) => FailureKind::EngineError,
    };
    TrialError::Config { config: spec.trial.config.clone(), kind, message }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Runs the trial and writes its record, also where the config failed.
pub fn run(spec: &TrialSpec, spec_digest: Digest, paths: &Paths, roots: Roots, live: &Live) -> Result<(), TrialError> {
    let started = unix_ms();
    Summary::check_fits(spec).map_err(|error| TrialError::Spec(error.to_string()))?;
    let workload = workload::build(&spec.workload, spec.seed, spec.dataset.seed).map_err(TrialError::Spec)?;
    fs::create_dir_all(&paths.data)
        .map_err(|error| TrialError::Environment(format!("{}: {error}", paths.data.display())))?;
    let probe = Probe::open(roots, &paths.data, spec.cpus);
    let mut draft = draft(spec, spec_digest, started, &probe);
    let trial_dir = paths.data.join("trials").join(spec.trial.file_stem());
    let result = measure_trial(&mut draft, spec, workload.as_ref(), paths, &trial_dir, &probe, live);
    // Whatever happened, the next trial needs the space.
    let removed = dataset::remove(&trial_dir);
    draft.finished_unix_ms = unix_ms();
    match result {
        Ok(()) => {
            write_record(&draft, &paths.record)?;
            removed.map_err(|error| TrialError::Environment(error.to_string()))
        }
        Err(TrialError::Config { config, kind, message }) => {
            draft.outcome = Outcome::Failed { kind, message: message.clone() };
            draft.metrics.clear();
            write_record(&draft, &paths.record)?;
            Err(TrialError::Config { config, kind, message })
        }
        Err(error) => Err(error),
    }
}

/// A record with all that is known before anything runs.
fn draft(spec: &TrialSpec, spec_digest: Digest, started: u64, probe: &Probe) -> TrialRecord {
    let (placement, storage, _) = probe.begin().end();
    TrialRecord {
        version: VERSION,
        spec: spec.clone(),
        spec_digest,
        outcome: Outcome::Completed,
        started_unix_ms: started,
        finished_unix_ms: started,
        window_started_unix_ms: started,
        window_seconds: 0.0,
        metrics: BTreeMap::new(),
        work: Work {
            hash: Digest::of(b""),
            counts: BTreeMap::new(),
            user_bytes: 0,
            answers: None,
            wrong_answers: 0,
            policy_operations: 0,
        },
        dataset: DatasetFacts {
            content: Digest::of(b""),
            format: Digest::of(b""),
            entries: 0,
            sst_bytes: 0,
            files_by_level: Vec::new(),
        },
        evidence: Evidence {
            build: evidence::build_facts(
                env!("CARGO_PKG_VERSION"),
                crate::rocksdb_version(),
                env!("ASSAY_ROCKSDB_BUILD").to_owned(),
            ),
            host: probe.host(),
            placement,
            storage,
            disturbance: Disturbance::default(),
            attestation: Attestation::default(),
            lsm_before: LsmState::default(),
            lsm_after: LsmState::default(),
            engagement: Engagement::default(),
            role_time: BTreeMap::new(),
            drift_percent: None,
        },
        latency: BTreeMap::new(),
        families: BTreeMap::new(),
        tickers: BTreeMap::new(),
        series: Series::default(),
    }
}

fn measure_trial(
    draft: &mut TrialRecord,
    spec: &TrialSpec,
    workload: &dyn Workload,
    paths: &Paths,
    trial_dir: &Path,
    probe: &Probe,
    live: &Live,
) -> Result<(), TrialError> {
    let to_trial = |error: EngineError| blame(&error, spec);
    let families = workload.families();

    let dataset = dataset::prepare(&paths.data, spec, workload, &mut |done, total| live.report("prepare", done, total))
        .map_err(to_trial)?;
    draft.dataset = dataset.facts.clone();
    live.report("clone", 0, 1);
    let attestor = Attestor::new(&paths.data, &spec.baseline, &spec.config, &families, spec.page_cache)
        .map_err(to_trial)?;
    dataset::clone_to(&dataset, trial_dir).map_err(to_trial)?;
    let engine = Arc::new(
        Engine::open(trial_dir, &spec.config, &families, spec.page_cache).map_err(to_trial)?,
    );
    draft.evidence.attestation = attestor.attest(trial_dir).map_err(to_trial)?;
    live.report("settle", 0, 1);
    engine.wait_until_settled().map_err(to_trial)?;
    let settled = measure::lsm_state(&engine).settled;
    dataset::set_page_cache(trial_dir, spec.page_cache).map_err(to_trial)?;

    let roles = spec.workload.roles();
    let progress = Arc::new(Progress::new(roles));
    live.watch(&engine, &progress);
    let mut watcher = Watcher::new(&engine, trial_dir, spec, probe, live);
    let outcome = driver::run(&engine, &spec.config, workload, roles, &progress, &mut watcher);
    live.unwatch();
    if let Some(failure) = watcher.failure.take() {
        return Err(failure);
    }
    let results = outcome.map_err(to_trial)?;
    let Some(mut closed) = watcher.closed.take() else {
        return Err(TrialError::Environment("the window never closed".to_owned()));
    };
    closed.lsm_before.settled = settled;
    fill(draft, spec, workload, &engine, trial_dir, &results, closed, watcher.sampler);

    live.report("drain", 0, 1);
    let draining = Instant::now();
    engine.flush().and_then(|()| engine.wait_until_settled()).map_err(to_trial)?;
    let drain = draining.elapsed().as_secs_f64();
    draft.metrics.insert("drain_seconds".to_owned(), drain);
    if let Some(primary) = roles.first().and_then(|role| results.roles.get(&role.name)) {
        let whole = primary.elapsed.as_secs_f64() + drain;
        draft.metrics.insert("drained_throughput".to_owned(), primary.counts.steps as f64 / whole);
    }
    Ok(())
}

/// Readings from both ends of the window.
struct Closed {
    placement: Placement,
    storage: Storage,
    disturbance: Disturbance,
    usage: ProcessDelta,
    peak_rss: Option<u64>,
    counters: Counters,
    stalls: Option<u64>,
    lsm_before: LsmState,
    lsm_after: LsmState,
    opened_unix_us: u64,
    closed_unix_us: u64,
    db_bytes: u64,
}

/// Reads everything when the window opens and closes, and guards its limits in between.
struct Watcher<'a> {
    engine: &'a Engine,
    trial_dir: &'a Path,
    spec: &'a TrialSpec,
    probe: &'a Probe,
    live: &'a Live,
    started: Instant,
    next_size_check: Duration,
    sampler: Sampler,
    open: Option<Opened>,
    closed: Option<Closed>,
    failure: Option<TrialError>,
}

struct Opened {
    window: evidence::Window,
    usage: ProcessUsage,
    peak: PeakRss,
    counters: Counters,
    stalls: Option<u64>,
    lsm: LsmState,
    unix_us: u64,
}

impl<'a> Watcher<'a> {
    fn new(engine: &'a Engine, trial_dir: &'a Path, spec: &'a TrialSpec, probe: &'a Probe, live: &'a Live) -> Self {
        Self {
            engine,
            trial_dir,
            spec,
            probe,
            live,
            started: Instant::now(),
            next_size_check: Duration::ZERO,
            sampler: Sampler::default(),
            open: None,
            closed: None,
            failure: None,
        }
    }

    fn fail(&mut self, progress: &Progress, kind: FailureKind, message: String) {
        if self.failure.is_none() {
            self.failure = Some(TrialError::Config { config: self.spec.trial.config.clone(), kind, message });
            progress.stop();
        }
    }
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

impl Observer for Watcher<'_> {
    fn open(&mut self) {
        self.sampler.open(self.engine, self.live.progress().as_deref().unwrap_or(&Progress::new(&[])));
        self.open = Some(Opened {
            lsm: measure::lsm_state(self.engine),
            stalls: measure::stalls(self.engine),
            counters: Counters::read(self.engine),
            peak: PeakRss::begin(),
            usage: ProcessUsage::now(),
            unix_us: unix_us(),
            window: self.probe.begin(),
        });
    }

    fn tick(&mut self, progress: &Progress, window: Option<Duration>) {
        const SIZE_CHECK: Duration = Duration::from_secs(1);
        let elapsed = self.started.elapsed();
        if elapsed.as_secs() >= self.spec.deadline_seconds {
            let message = format!("the workload was not done after {} s (deadlineSeconds)", self.spec.deadline_seconds);
            self.fail(progress, FailureKind::Deadline, message);
        }
        if elapsed >= self.next_size_check {
            self.next_size_check = elapsed + SIZE_CHECK;
            let (size, limit) = (dataset::size(self.trial_dir), self.spec.max_disk_bytes);
            if size > limit {
                self.fail(progress, FailureKind::DiskQuota, format!("the database grew to {size} bytes, {limit} were declared"));
            }
        }
        if let Some(window) = window {
            self.sampler.tick(self.engine, progress, window);
            if let Some(open) = &self.open {
                open.peak.sample();
            }
        }
        self.live.steps(progress, window);
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let (placement, storage, disturbance) = open.window.end();
        let counters = Counters::read(self.engine).since(&open.counters);
        self.closed = Some(Closed {
            placement,
            storage,
            disturbance,
            usage: ProcessUsage::now().since(&open.usage),
            peak_rss: open.peak.end().bytes,
            counters,
            stalls: measure::stalls(self.engine)
                .zip(open.stalls)
                .map(|(after, before)| after.saturating_sub(before)),
            lsm_before: open.lsm,
            lsm_after: measure::lsm_state(self.engine),
            opened_unix_us: open.unix_us,
            closed_unix_us: unix_us(),
            db_bytes: dataset::size(self.trial_dir),
        });
    }
}

#[expect(clippy::too_many_arguments, reason = "everything that a record is made of, used once")]
fn fill(
    draft: &mut TrialRecord,
    spec: &TrialSpec,
    workload: &dyn Workload,
    engine: &Engine,
    trial_dir: &Path,
    results: &Results,
    closed: Closed,
    sampler: Sampler,
) {
    let events = events::read(trial_dir, closed.opened_unix_us, closed.closed_unix_us);
    draft.window_started_unix_ms = closed.opened_unix_us / 1000;
    draft.window_seconds = results.window.as_secs_f64();
    draft.work = Work {
        hash: results.work.digest(),
        counts: results.roles.iter().map(|(name, role)| (name.clone(), role.counts)).collect(),
        user_bytes: results.user_bytes,
        answers: workload.answers_are_deterministic().then(|| results.answers.digest()),
        wrong_answers: results.wrong_answers,
        policy_operations: 0,
    };
    draft.latency = results.roles.iter().map(|(name, role)| (name.clone(), latency(spec, name, role))).collect();
    draft.families = measure::family_facts(engine, &sampler.l0_peaks);
    draft.tickers = closed.counters.moved();

    let primary = spec.workload.primary_role().and_then(|role| results.roles.get(&role.name));
    draft.metrics = primary.map(|primary| metrics(results, primary, &closed, events.as_ref())).unwrap_or_default();

    let evidence = &mut draft.evidence;
    evidence.drift_percent = sampler.drift_percent();
    evidence.role_time = results.roles.iter().map(|(name, role)| (name.clone(), role.time.clone())).collect();
    let ticker = |name: &str| Some(closed.counters.get(name));
    let tuned = tuned_families(&evidence.attestation, engine);
    let peak = tuned.iter().filter_map(|family| sampler.l0_peaks.get(*family)).max().copied();
    evidence.engagement = Engagement {
        flushes: events.as_ref().map(|events| events.flushes),
        compactions: events.as_ref().map(|events| events.compactions),
        l0_files_peak: events.as_ref().map(|events| events.l0_files_peak).max(peak),
        immutable_memtables_peak: Some(sampler.immutable_peak),
        memtable_bytes_peak: Some(sampler.memtable_peak),
        wal_bytes: ticker("rocksdb.wal.bytes"),
        stalls: closed.stalls,
        user_bytes_written: Some(results.user_bytes),
        block_cache_misses: ticker("rocksdb.block.cache.miss"),
        block_cache_hits: ticker("rocksdb.block.cache.hit"),
        bloom_useful: ticker("rocksdb.bloom.filter.useful"),
        bytes_compressed_by_level: events.map(|events| events.compressed_by_level),
        bytes_decompressed: ticker("rocksdb.bytes.decompressed.to"),
    };
    evidence.placement = closed.placement;
    evidence.storage = closed.storage;
    evidence.disturbance = closed.disturbance;
    evidence.lsm_before = closed.lsm_before;
    evidence.lsm_after = closed.lsm_after;
    draft.series = sampler.into_series();
}

/// The families whose options were declared, or all.
fn tuned_families<'a>(attestation: &'a Attestation, engine: &'a Engine) -> Vec<&'a String> {
    let tuned: Vec<&String> = engine
        .families()
        .iter()
        .filter(|family| attestation.facts.iter().any(|fact| fact.declared.is_some() && fact.scope == **family))
        .collect();
    if tuned.is_empty() { engine.families().iter().collect() } else { tuned }
}

fn metrics(
    results: &Results,
    primary: &RoleResult,
    closed: &Closed,
    events: Option<&events::Events>,
) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    // What is unknown, or no number, stays absent: it must not be taken for a measurement.
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            metrics.insert(name.to_owned(), value);
        }
    };
    let window = results.window.as_secs_f64();
    let steps = primary.counts.steps as f64;
    let counted = |pick: fn(&RoleCounts) -> u64| {
        results.roles.values().map(|role| pick(&role.counts)).sum::<u64>() as f64
    };
    let operations = counted(|counts| counts.puts + counts.gets + counts.deletes + counts.scans);
    put("throughput", Some(steps / primary.elapsed.as_secs_f64()));
    put("operation_throughput", Some(operations / window));

    let us = |nanos: f64| Some(nanos / 1e3);
    put("step_latency_mean", us(primary.latency.mean()));
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        put(&format!("step_latency_{name}"), us(primary.latency.value_at_quantile(quantile) as f64));
    }

    let ticker = |name: &str| closed.counters.get(name) as f64;
    let (flushed, compacted) = (ticker("rocksdb.flush.write.bytes"), ticker("rocksdb.compact.write.bytes"));
    let (read, written) = (counted(|counts| counts.bytes_read), results.user_bytes as f64);
    put("write_amplification", Some((flushed + compacted) / written));
    let from_files = ticker("rocksdb.last.level.read.bytes") + ticker("rocksdb.non.last.level.read.bytes");
    put("read_amplification", Some((from_files - ticker("rocksdb.compact.read.bytes")).max(0.0) / read));
    let live = closed.lsm_after.live_sst_bytes.zip(closed.lsm_after.live_data_bytes);
    put("space_amplification", live.map(|(files, data)| files as f64 / data as f64));

    let writers: u32 = results.roles.values().filter(|role| role.counts.bytes_written > 0).map(|role| role.time.threads).sum();
    let stalled = ticker("rocksdb.stall.micros") / 1e6;
    // Every writing thread can be stalled at the same time.
    put("stall_fraction", Some(if writers == 0 { 0.0 } else { stalled / (window * f64::from(writers)) }));
    put("stall_seconds", Some(stalled));
    put("stall_count", closed.stalls.map(|count| count as f64));
    put("flush_count", events.map(|events| events.flushes as f64));
    put("flush_bytes", Some(flushed));
    put("compaction_count", events.map(|events| events.compactions as f64));
    put("compaction_read_bytes", Some(ticker("rocksdb.compact.read.bytes")));
    put("compaction_write_bytes", Some(compacted));
    put("compaction_seconds", Some(closed.counters.compaction_seconds()));
    put("compaction_cpu_seconds", Some(ticker("rocksdb.compaction.total.time.cpu_micros") / 1e6));
    put("wal_bytes", Some(ticker("rocksdb.wal.bytes")));
    put("device_read_bytes", closed.usage.read_bytes.map(|bytes| bytes as f64));
    put("device_write_bytes", closed.usage.write_bytes.map(|bytes| bytes as f64));
    put("cpu_user_seconds", closed.usage.user_seconds);
    put("cpu_system_seconds", closed.usage.system_seconds);
    let cpu = closed.usage.user_seconds.zip(closed.usage.system_seconds).map(|(user, system)| user + system);
    put("cpu_seconds_per_step", cpu.map(|cpu| cpu / steps));
    put("rss_peak_bytes", closed.peak_rss.map(|bytes| bytes as f64));
    put("db_bytes", Some(closed.db_bytes as f64));
    put("debt_in_bytes", closed.lsm_before.pending_compaction_bytes.map(|bytes| bytes as f64));
    put("debt_out_bytes", closed.lsm_after.pending_compaction_bytes.map(|bytes| bytes as f64));
    metrics
}

fn latency(spec: &TrialSpec, name: &str, role: &RoleResult) -> Latency {
    let mut bytes = Vec::new();
    let encoded = V2Serializer::new().serialize(&role.latency, &mut bytes).is_ok();
    Latency {
        count: role.latency.len(),
        saturated: role.saturated,
        from_intended_start: spec
            .workload
            .roles()
            .iter()
            .any(|role| role.name == name && role.steps_per_second.is_some()),
        histogram: if encoded { base64(&bytes) } else { String::new() },
    }
}

/// Standard base64 with padding (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (word >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { ALPHABET[index as usize] as char } else { '=' });
        }
    }
    text
}

/// Writes the record where nobody can see half of it.
fn write_record(record: &TrialRecord, path: &Path) -> Result<(), TrialError> {
    let write = || -> io::Result<()> {
        let unfinished = path.with_extension("new");
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    write().map_err(|error| TrialError::Environment(format!("can't write the record {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_vectors() {
        for (plain, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
