//! Runs the roles of a workload against an open database and times every step.

use std::{
    collections::BTreeMap,
    sync::{
        Barrier, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use assay_record::{EngineConfig, ParityHash, Role, RoleCounts, RoleTime};
use hdrhistogram::Histogram;
use rocksdb::{ColumnFamily, DB, ReadOptions, WriteBatch, WriteOptions};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    engine::{Engine, EngineError},
    evidence::threads::ThreadClock,
    workload::{Action, Step, StepSource, Workload, mix},
};

/// The longest step that a histogram tells apart from longer ones.
const LONGEST_STEP_NS: u64 = 3_600_000_000_000;
/// Operations that are generated ahead of the steps that execute them.
const OPERATIONS_AHEAD: u32 = 64;

/// How far the roles are, for progress and metrics. Shared with the threads that only look.
#[derive(Debug)]
pub struct Progress {
    pub roles: Vec<RoleProgress>,
    running: AtomicU32,
    stop: AtomicBool,
}

#[derive(Debug)]
pub struct RoleProgress {
    pub name: String,
    pub warmup_steps: u64,
    pub steps: u64,
    done: AtomicU64,
    /// Measured steps by the power of two that their nanoseconds reach: coarse, but cheap enough to share.
    by_latency: [AtomicU64; LATENCY_BUCKETS],
    latency_ns: AtomicU64,
}

/// From half a microsecond to half a minute; what is shorter or longer counts with the first or last.
const LATENCY_BUCKETS: usize = 27;
const FIRST_BUCKET: u32 = 9;

impl RoleProgress {
    /// Measured steps that took less than each upper bound in seconds, apart from the others, and their sum.
    pub fn latency(&self) -> (Vec<(f64, u64)>, f64) {
        let buckets = self
            .by_latency
            .iter()
            .enumerate()
            .map(|(power, count)| ((1_u64 << (power as u32 + FIRST_BUCKET + 1)) as f64 / 1e9, count.load(Ordering::Relaxed)))
            .collect();
        (buckets, self.latency_ns.load(Ordering::Relaxed) as f64 / 1e9)
    }

    /// Steps done, warm-up included.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Progress {
    pub fn new(roles: &[Role]) -> Self {
        Self {
            roles: roles
                .iter()
                .map(|role| RoleProgress {
                    name: role.name.clone(),
                    warmup_steps: role.warmup_steps,
                    steps: role.steps,
                    done: AtomicU64::new(0),
                    by_latency: [const { AtomicU64::new(0) }; LATENCY_BUCKETS],
                    latency_ns: AtomicU64::new(0),
                })
                .collect(),
            running: AtomicU32::new(roles.iter().map(|role| role.threads).sum()),
            stop: AtomicBool::new(false),
        }
    }

    pub fn finished(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// Asks all threads to end after their current step.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What one role did within the window.
#[derive(Debug)]
pub struct RoleResult {
    pub counts: RoleCounts,
    pub latency: Histogram<u64>,
    pub saturated: u64,
    pub time: RoleTime,
    /// From the opening of the window to the end of the role's last step.
    pub elapsed: Duration,
}

/// What all roles did.
#[derive(Debug)]
pub struct Results {
    pub roles: BTreeMap<String, RoleResult>,
    /// Over warm-up and window.
    pub work: ParityHash,
    pub answers: ParityHash,
    pub wrong_answers: u64,
    pub user_bytes: u64,
    pub window: Duration,
}

/// Hooks into the run, called from the thread that called [`run`].
pub trait Observer {
    /// Every role has warmed up and waits.
    fn open(&mut self);
    /// Called often while roles run. `window` is the time since the opening, if it is open.
    fn tick(&mut self, progress: &Progress, window: Option<Duration>);
    /// The last step is done, and all threads still exist.
    fn close(&mut self);
}

/// Runs all roles to their end.
pub fn run(
    engine: &Engine,
    config: &EngineConfig,
    workload: &dyn Workload,
    roles: &[Role],
    progress: &Progress,
    observer: &mut dyn Observer,
) -> Result<Results, EngineError> {
    let handles = workload
        .families()
        .iter()
        .map(|family| engine.handle(&family.name))
        .collect::<Result<Vec<_>, _>>()?;
    let threads: u32 = roles.iter().map(|role| role.threads).sum();
    // Warmed up, opened, done, closed: everybody meets the observer's thread at each.
    let gate = Barrier::new(threads as usize + 1);
    let warm = AtomicU32::new(threads);
    let opened = Mutex::new(Instant::now());
    thread::scope(|scope| {
        let mut joins = Vec::new();
        for (number, role) in roles.iter().enumerate() {
            for index in 0..role.threads {
                let mut worker = Worker::new(&engine.db, &handles, config, workload, role, index, progress, number);
                let mut source = workload.source(number);
                let (gate, warm, opened) = (&gate, &warm, &opened);
                joins.push((
                    role,
                    scope.spawn(move || {
                        let warmed = worker.steps(source.as_mut(), 0, role.warmup_steps, Instant::now(), false);
                        warm.fetch_sub(1, Ordering::Release);
                        gate.wait();
                        // What the warm-up counted doesn't.
                        worker.done.counts = RoleCounts::default();
                        gate.wait();
                        let clock = ThreadClock::start();
                        let start = *opened.lock().unwrap_or_else(PoisonError::into_inner);
                        let measured = warmed
                            .and_then(|()| worker.steps(source.as_mut(), role.warmup_steps, role.steps, start, true));
                        worker.end(start, clock);
                        progress.running.fetch_sub(1, Ordering::Release);
                        gate.wait();
                        gate.wait();
                        measured.map(|()| worker.done)
                    }),
                ));
            }
        }
        while warm.load(Ordering::Acquire) > 0 {
            thread::sleep(Duration::from_millis(5));
            observer.tick(progress, None);
        }
        gate.wait();
        observer.open();
        let start = Instant::now();
        *opened.lock().unwrap_or_else(PoisonError::into_inner) = start;
        gate.wait();
        while !progress.finished() {
            thread::sleep(Duration::from_millis(5));
            observer.tick(progress, Some(start.elapsed()));
        }
        gate.wait();
        let window = start.elapsed();
        observer.close();
        gate.wait();

        let mut results = Results {
            roles: BTreeMap::new(),
            work: ParityHash::default(),
            answers: ParityHash::default(),
            wrong_answers: 0,
            user_bytes: 0,
            window,
        };
        for (role, join) in joins {
            match join.join() {
                Ok(done) => results.merge(role, done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(results)
    })
}

impl Results {
    fn merge(&mut self, role: &Role, done: Done) {
        self.work.merge(done.work);
        self.answers.merge(done.answers);
        self.wrong_answers += done.wrong_answers;
        self.user_bytes += done.counts.bytes_written;
        let Some(whole) = self.roles.get_mut(&role.name) else {
            self.roles.insert(
                role.name.clone(),
                RoleResult {
                    counts: done.counts,
                    latency: done.latency,
                    saturated: done.saturated,
                    time: done.time,
                    elapsed: done.elapsed,
                },
            );
            return;
        };
        let add = |sum: &mut u64, more: u64| *sum += more;
        let RoleCounts { steps, puts, gets, gets_found, deletes, scans, scanned_entries, bytes_written, bytes_read } =
            done.counts;
        add(&mut whole.counts.steps, steps);
        add(&mut whole.counts.puts, puts);
        add(&mut whole.counts.gets, gets);
        add(&mut whole.counts.gets_found, gets_found);
        add(&mut whole.counts.deletes, deletes);
        add(&mut whole.counts.scans, scans);
        add(&mut whole.counts.scanned_entries, scanned_entries);
        add(&mut whole.counts.bytes_written, bytes_written);
        add(&mut whole.counts.bytes_read, bytes_read);
        // Equal bounds, so adding can't fail.
        let _ = whole.latency.add(&done.latency);
        whole.saturated += done.saturated;
        whole.elapsed = whole.elapsed.max(done.elapsed);
        let time = &mut whole.time;
        time.threads += done.time.threads;
        time.wall_seconds += done.time.wall_seconds;
        time.db_seconds += done.time.db_seconds;
        time.generator_seconds += done.time.generator_seconds;
        time.idle_seconds += done.time.idle_seconds;
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        time.run_queue_seconds = sum(time.run_queue_seconds, done.time.run_queue_seconds);
        time.cpu_seconds = sum(time.cpu_seconds, done.time.cpu_seconds);
    }
}

/// What one thread brings home.
struct Done {
    counts: RoleCounts,
    latency: Histogram<u64>,
    saturated: u64,
    time: RoleTime,
    work: ParityHash,
    answers: ParityHash,
    wrong_answers: u64,
    elapsed: Duration,
}

/// One thread of one role.
struct Worker<'a> {
    db: &'a DB,
    handles: &'a [&'a ColumnFamily],
    pool: &'a [u8],
    role: &'a Role,
    index: u32,
    progress: &'a Progress,
    number: usize,
    write_options: WriteOptions,
    read_options: ReadOptions,
    ahead: Vec<Step>,
    done: Done,
}

impl<'a> Worker<'a> {
    #[expect(clippy::too_many_arguments, reason = "one call site, and a struct would only repeat the fields")]
    fn new(
        db: &'a DB,
        handles: &'a [&'a ColumnFamily],
        config: &EngineConfig,
        workload: &'a dyn Workload,
        role: &'a Role,
        index: u32,
        progress: &'a Progress,
        number: usize,
    ) -> Self {
        let mut write_options = WriteOptions::default();
        write_options.set_sync(config.write_options.sync);
        write_options.disable_wal(config.write_options.disable_wal);
        let ahead = (OPERATIONS_AHEAD / role.batch).max(1);
        Self {
            db,
            handles,
            pool: workload.pool(),
            role,
            index,
            progress,
            number,
            write_options,
            read_options: ReadOptions::default(),
            ahead: (0..ahead).map(|_| Step::default()).collect(),
            done: Done {
                counts: RoleCounts::default(),
                // Bounds are constants, so this can't fail; a default histogram would resize itself instead.
                latency: Histogram::new_with_bounds(1, LONGEST_STEP_NS, 3)
                    .unwrap_or_else(|_| unreachable!("constant bounds")),
                saturated: 0,
                time: RoleTime { threads: 1, ..RoleTime::default() },
                work: ParityHash::default(),
                answers: ParityHash::default(),
                wrong_answers: 0,
                elapsed: Duration::ZERO,
            },
        }
    }

    fn end(&mut self, start: Instant, clock: ThreadClock) {
        self.done.elapsed = start.elapsed();
        self.done.time.wall_seconds = self.done.elapsed.as_secs_f64();
        let used = clock.stop();
        self.done.time.cpu_seconds = used.cpu_seconds;
        self.done.time.run_queue_seconds = used.run_queue_seconds;
    }

    /// Executes this thread's share of `count` steps from `first` on.
    fn steps(
        &mut self,
        source: &mut dyn StepSource,
        first: u64,
        count: u64,
        start: Instant,
        measured: bool,
    ) -> Result<(), EngineError> {
        let threads = u64::from(self.role.threads);
        let interval = self.role.steps_per_second.map(|rate| 1e9 / rate as f64);
        let mut next = u64::from(self.index);
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut now = Instant::now();
        while next < count && !self.progress.stopped() {
            let chunk = (count - next).div_ceil(threads).min(ahead.len() as u64);
            for (slot, offset) in ahead.iter_mut().zip(0..chunk) {
                source.fill(first + next + offset * threads, slot);
            }
            let generated = Instant::now();
            let mut generator = generated - now;
            now = generated;
            let (mut busy, mut idle) = (Duration::ZERO, Duration::ZERO);
            let (mut by_latency, mut latency_ns) = ([0_u64; LATENCY_BUCKETS], 0);
            for (slot, offset) in ahead.iter().zip(0..chunk) {
                let number = next + offset * threads;
                let mut intended = now;
                if let Some(interval) = interval {
                    intended = start + Duration::from_nanos((number as f64 * interval) as u64);
                    if let Some(wait) = intended.checked_duration_since(now) {
                        thread::sleep(wait);
                        let woken = Instant::now();
                        idle += woken - now;
                        now = woken;
                    }
                }
                self.execute(slot, first + number)?;
                let finished = Instant::now();
                busy += finished - now;
                if measured {
                    let nanos = (finished - intended).as_nanos() as u64;
                    self.done.saturated += u64::from(nanos > LONGEST_STEP_NS);
                    self.done.latency.saturating_record(nanos.max(1));
                    let power = nanos.max(1).ilog2().saturating_sub(FIRST_BUCKET) as usize;
                    by_latency[power.min(LATENCY_BUCKETS - 1)] += 1;
                    latency_ns += nanos;
                }
                now = finished;
            }
            self.done.counts.steps += chunk;
            let shared = &self.progress.roles[self.number];
            shared.done.fetch_add(chunk, Ordering::Relaxed);
            if measured {
                shared.latency_ns.fetch_add(latency_ns, Ordering::Relaxed);
                for (sum, count) in shared.by_latency.iter().zip(by_latency).filter(|(_, count)| *count > 0) {
                    sum.fetch_add(count, Ordering::Relaxed);
                }
            }
            for slot in ahead.iter().take(chunk as usize) {
                self.done.work.merge(slot.parity);
            }
            next += chunk * threads;
            if measured {
                let summed = Instant::now();
                // Adding up hashes is the generator's work too: it isn't the database's.
                generator += summed - now;
                now = summed;
                self.done.time.generator_seconds += generator.as_secs_f64();
                self.done.time.db_seconds += busy.as_secs_f64();
                self.done.time.idle_seconds += idle.as_secs_f64();
            }
        }
        self.ahead = ahead;
        Ok(())
    }

    /// One step: reads happen at once, writes together at its end.
    fn execute(&mut self, step: &Step, number: u64) -> Result<(), EngineError> {
        let mut batch: Option<WriteBatch> = None;
        let single = step.operations.len() == 1;
        for (operation, index) in step.operations.iter().zip(0..) {
            let handle = self.handles[operation.family as usize];
            let key = step.resolve(operation.key, self.pool);
            let counts = &mut self.done.counts;
            match operation.action {
                Action::Put { value } => {
                    counts.puts += 1;
                    counts.bytes_written += operation.key.len() + value.len();
                    let value = step.resolve(value, self.pool);
                    if single {
                        self.db.put_cf_opt(handle, key, value, &self.write_options)?;
                    } else {
                        batch.get_or_insert_with(|| batch_for(step)).put_cf(handle, key, value);
                    }
                }
                Action::Delete => {
                    counts.deletes += 1;
                    counts.bytes_written += operation.key.len();
                    if single {
                        self.db.delete_cf_opt(handle, key, &self.write_options)?;
                    } else {
                        batch.get_or_insert_with(|| batch_for(step)).delete_cf(handle, key);
                    }
                }
                Action::Get { expected } => {
                    counts.gets += 1;
                    let found = self.db.get_pinned_cf_opt(handle, key, &self.read_options)?;
                    let place = mix(&[self.number as u64, number, index, u64::from(found.is_some())]);
                    self.done.answers.add(xxh3_64_with_seed(key, place));
                    if let Some(value) = found {
                        counts.gets_found += 1;
                        counts.bytes_read += key.len() as u64 + value.len() as u64;
                        self.done.wrong_answers += u64::from(*value != *step.resolve(expected, self.pool));
                    }
                }
                Action::Scan { entries } => {
                    counts.scans += 1;
                    let mut iterator = self.db.raw_iterator_cf_opt(handle, ReadOptions::default());
                    iterator.seek(key);
                    let place = mix(&[self.number as u64, number, index]);
                    for rank in 0..u64::from(entries) {
                        let Some((key, value)) = iterator.item() else { break };
                        counts.scanned_entries += 1;
                        counts.bytes_read += key.len() as u64 + value.len() as u64;
                        self.done.answers.add(xxh3_64_with_seed(key, mix(&[place, rank, value.len() as u64])));
                        iterator.next();
                    }
                    iterator.status()?;
                }
            }
        }
        if let Some(batch) = batch {
            self.db.write_opt(batch, &self.write_options)?;
        }
        Ok(())
    }
}

fn batch_for(step: &Step) -> WriteBatch {
    const RECORD_OVERHEAD: u64 = 16;
    let bytes: u64 = step
        .operations
        .iter()
        .map(|operation| {
            let value = if let Action::Put { value } = operation.action { value.len() } else { 0 };
            operation.key.len() + value + RECORD_OVERHEAD
        })
        .sum();
    WriteBatch::with_capacity_bytes(bytes as usize)
}
