//! Reads everything when the window opens and closes, and guards the trial's limits in between.

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use assay_protocol::{Disturbance, FailureKind, LsmState, Placement, Storage, TrialSpec};

use crate::{
    dataset,
    driver::{Observer, Progress},
    engagement::Peaks,
    engine::{CompressionClock, Counters, Engine, Properties as _},
    evidence::{self, BackgroundTime, PeakRss, Probe, ProcessDelta, ProcessUsage},
    failure::{TrialError, blame_under_way, failed, outgrown},
    live::Live,
    measure::{self, Sampler},
};

/// Readings from both ends of the window.
pub struct Closed {
    pub placement: Placement,
    pub storage: Storage,
    pub disturbance: Disturbance,
    pub usage: ProcessDelta,
    pub background: Option<BackgroundTime>,
    pub peak_rss: Option<u64>,
    pub counters: Counters,
    /// Blocks written while compression was timed.
    pub timed_blocks: u64,
    pub stalls: Option<u64>,
    pub lsm_before: LsmState,
    pub lsm_after: LsmState,
    pub opening_unix_us: u64,
    pub closing_unix_us: u64,
    pub db_bytes: u64,
    /// What was counted before the window opened.
    pub before: (Counters, ProcessUsage),
}

/// The window and the wait for flush and compaction after it.
pub struct Drained {
    pub wait: Duration,
    /// From the opening of the window to the end of the wait.
    pub counters: Counters,
    pub usage: ProcessDelta,
}

impl Closed {
    pub fn drained(&self, engine: &Engine, wait: Duration) -> Drained {
        let (counters, usage) = &self.before;
        Drained { wait, counters: engine.counters().since(counters), usage: ProcessUsage::now().since(usage) }
    }
}

/// Reads everything when the window opens and closes, and guards its limits in between.
pub struct Watcher<'a> {
    engine: &'a Engine,
    trial_dir: &'a Path,
    spec: &'a TrialSpec,
    probe: &'a Probe,
    live: &'a Live,
    started: Instant,
    next_check: Duration,
    pub sampler: Sampler,
    open: Option<Opened>,
    pub closed: Option<Closed>,
    pub failure: Option<TrialError>,
}

struct Opened {
    window: evidence::Window,
    usage: ProcessUsage,
    background: Option<BackgroundTime>,
    peak: PeakRss,
    counters: Counters,
    compression: CompressionClock,
    stalls: Option<u64>,
    lsm: LsmState,
    unix_us: u64,
}

impl<'a> Watcher<'a> {
    pub fn new(
        engine: &'a Engine,
        trial_dir: &'a Path,
        spec: &'a TrialSpec,
        probe: &'a Probe,
        live: &'a Live,
        peaks: Peaks,
    ) -> Self {
        Self {
            engine,
            trial_dir,
            spec,
            probe,
            live,
            started: Instant::now(),
            next_check: Duration::ZERO,
            sampler: Sampler::new(peaks),
            open: None,
            closed: None,
            failure: None,
        }
    }

    fn fail(&mut self, progress: &Progress, failure: TrialError) {
        if self.failure.is_none() {
            self.failure = Some(failure);
            progress.stop();
        }
    }
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

impl Observer for Watcher<'_> {
    fn open(&mut self, progress: &Progress) {
        self.sampler.open(self.engine, progress);
        self.open = Some(Opened {
            lsm: measure::lsm_state(self.engine, &self.spec.config),
            stalls: measure::stalls(self.engine),
            counters: self.engine.counters(),
            compression: CompressionClock::default(),
            peak: PeakRss::begin(),
            background: BackgroundTime::now(),
            usage: ProcessUsage::now(),
            unix_us: unix_us(),
            window: self.probe.begin(),
        });
    }

    fn tick(&mut self, progress: &Progress, window: Option<Duration>) {
        const CHECK: Duration = Duration::from_secs(1);
        let elapsed = self.started.elapsed();
        if elapsed >= self.next_check {
            self.next_check = elapsed + CHECK;
            if let Some(failure) = outgrown(self.spec, self.trial_dir) {
                self.fail(progress, failure);
            }
            // RocksDB tells only some calls. Before the deadline: who fails to flush may not get any further.
            if let Err(error) = self.engine.check_background() {
                self.fail(progress, blame_under_way(&error, self.spec, self.trial_dir));
            }
        }
        if elapsed.as_secs() >= self.spec.deadline_seconds {
            let message =
                format!("the workload did not finish within {} s (deadlineSeconds)", self.spec.deadline_seconds);
            self.fail(progress, failed(self.spec, FailureKind::Deadline, message));
        }
        if let Some(window) = window {
            self.sampler.tick(self.engine, progress, window);
            if let Some(open) = &mut self.open {
                open.peak.sample();
                open.compression.tick(self.engine, window);
            }
        }
        self.live.steps(progress, window);
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.sampler.peaks.close(self.engine);
        let (placement, storage, disturbance) = open.window.end();
        let counters = self.engine.counters().since(&open.counters);
        self.closed = Some(Closed {
            placement,
            storage,
            disturbance,
            usage: ProcessUsage::now().since(&open.usage),
            background: BackgroundTime::now().zip(open.background).map(|(now, earlier)| now.since(earlier)),
            peak_rss: open.peak.end().bytes,
            counters,
            timed_blocks: open.compression.close(self.engine),
            stalls: measure::stalls(self.engine).zip(open.stalls).map(|(after, before)| after.saturating_sub(before)),
            lsm_before: open.lsm,
            lsm_after: measure::lsm_state(self.engine, &self.spec.config),
            opening_unix_us: open.unix_us,
            closing_unix_us: unix_us(),
            db_bytes: dataset::size(self.trial_dir),
            before: (open.counters, open.usage),
        });
    }
}
