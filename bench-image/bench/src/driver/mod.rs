//! Runs the roles of a workload against an open database and times every step.

mod clock;
#[cfg(feature = "planted")]
pub mod planted;
mod policy;
mod worker;

use std::{
    collections::BTreeMap,
    sync::{
        Barrier, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use assay_protocol::{EngineConfig, Follows, ParityHash, RoleCounts, RolePlan, RoleTime};
use hdrhistogram::Histogram;

pub use self::policy::Policy;
use self::{
    clock::Monotonic,
    worker::{Done, Shared, Worker},
};
use crate::{
    engine::{CallParts, Engine, EngineError},
    evidence::threads::ThreadClock,
    workload::Workload,
};

/// How far the roles are, for progress and metrics. Shared with the threads that only look.
#[derive(Debug)]
pub struct Progress {
    pub roles: Vec<RoleProgress>,
    running: AtomicU32,
    /// Threads of the primary role that have not ended, and when the last one did: nanoseconds after the opening of the window.
    primary_running: AtomicU32,
    primary_ended: AtomicU64,
    stop: AtomicBool,
    /// Which role follows which, by position.
    follows: Vec<(usize, Follows)>,
    /// Rung when a role that others wait for moves on.
    moved: Bell,
    #[cfg(feature = "planted")]
    plant: planted::Plant,
}

#[derive(Debug)]
pub struct RoleProgress {
    pub name: String,
    pub warmup_steps: u64,
    pub steps: u64,
    done: AtomicU64,
    /// The next step of each thread, warm-up included.
    next: Vec<AtomicU64>,
    /// Measured steps by the power of two that their nanoseconds reach: coarse, but cheap enough to share.
    by_latency: [AtomicU64; LATENCY_BUCKETS],
    latency_ns: AtomicU64,
}

/// From half a microsecond to half a minute; what is shorter or longer counts with the first or last.
const LATENCY_BUCKETS: usize = 27;
const FIRST_BUCKET: u32 = 9;

/// Of a role that has not ended.
const NEVER: u64 = u64::MAX;

impl RoleProgress {
    /// Measured steps that took less than each upper bound in seconds, apart from the others, and their sum.
    pub fn latency(&self) -> (Vec<(f64, u64)>, f64) {
        let buckets = self
            .by_latency
            .iter()
            .enumerate()
            .map(|(power, count)| {
                ((1_u64 << (power as u32 + FIRST_BUCKET + 1)) as f64 / 1e9, count.load(Ordering::Relaxed))
            })
            .collect();
        (buckets, self.latency_ns.load(Ordering::Relaxed) as f64 / 1e9)
    }

    /// Steps done, warm-up included.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Steps without a gap that are done, warm-up included: one thread may be ahead of another.
    fn complete(&self) -> u64 {
        self.next.iter().map(|next| next.load(Ordering::Acquire)).min().unwrap_or_default()
    }
}

impl Progress {
    pub fn new(roles: &[RolePlan]) -> Self {
        Self {
            roles: roles
                .iter()
                .map(|role| RoleProgress {
                    name: role.name.clone(),
                    warmup_steps: role.warmup_steps,
                    steps: role.steps,
                    done: AtomicU64::new(0),
                    next: (0..role.threads).map(|_| AtomicU64::new(0)).collect(),
                    by_latency: [const { AtomicU64::new(0) }; LATENCY_BUCKETS],
                    latency_ns: AtomicU64::new(0),
                })
                .collect(),
            running: AtomicU32::new(roles.iter().map(|role| role.threads).sum()),
            primary_running: AtomicU32::new(roles.first().map_or(0, |role| role.threads)),
            primary_ended: AtomicU64::new(NEVER),
            stop: AtomicBool::new(false),
            follows: roles.iter().enumerate().filter_map(|(i, role)| Some((i, role.follows?))).collect(),
            moved: Bell::default(),
            #[cfg(feature = "planted")]
            plant: planted::Plant::default(),
        }
    }

    #[cfg(feature = "planted")]
    pub fn with(self, plant: planted::Plant) -> Self {
        Self { plant, ..self }
    }

    pub fn finished(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// A thread has ended, so long after the opening of the window.
    fn end(&self, role: usize, elapsed: Duration) {
        if role == 0 && self.primary_running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.primary_ended.store(elapsed.as_nanos() as u64, Ordering::Release);
            self.moved.ring();
        }
        self.running.fetch_sub(1, Ordering::Release);
    }

    /// When the primary role was done, from the opening of the window.
    fn primary_ended(&self) -> Option<Duration> {
        let nanos = self.primary_ended.load(Ordering::Acquire);
        (nanos != NEVER).then(|| Duration::from_nanos(nanos))
    }

    /// Sleeps, but not beyond the end of the primary role.
    fn sleep_beside_primary(&self, time: Duration) {
        self.moved.wait_at_most(time, || self.stopped() || self.primary_ended().is_some());
    }

    /// Asks all threads to end after their current step.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.moved.ring();
    }

    /// Whether a role takes part in a chase, so that its steps have to be told one by one.
    fn is_coupled(&self, role: usize) -> bool {
        self.follows.iter().any(|(follower, follows)| role == *follower || role == follows.leader)
    }

    /// A thread has done some steps, and everything of its own before the `next` one.
    pub fn advance(&self, role: usize, thread: u32, steps: u64, next: u64) {
        self.roles[role].done.fetch_add(steps, Ordering::Release);
        self.roles[role].next[thread as usize].store(next, Ordering::Release);
        if self.is_coupled(role) {
            self.moved.ring();
        }
    }

    /// Whether what this step takes up is there.
    fn is_fed(&self, role: usize, step: u64) -> bool {
        self.follows
            .iter()
            .filter(|(follower, _)| *follower == role)
            .all(|(_, follows)| self.roles[follows.leader].complete() >= (step + 1) * follows.steps)
    }

    /// Whether those who follow this role are near enough for it to go on.
    fn has_room(&self, role: usize, step: u64) -> bool {
        self.follows.iter().filter(|(_, follows)| follows.leader == role).all(|(follower, follows)| {
            let due = (step / follows.steps).saturating_sub(follows.backlog);
            self.roles[*follower].complete() >= due
        })
    }

    /// Waits until something holds, or all shall end.
    fn wait_until(&self, holds: impl Fn() -> bool) {
        while !self.stopped() && !holds() {
            self.moved.wait(|| self.stopped() || holds());
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What one role did within the window.
#[derive(Debug)]
pub struct RoleResult {
    pub counts: RoleCounts,
    /// Of the steps that measuring did not touch.
    pub latency: Histogram<u64>,
    pub saturated: u64,
    /// Nanoseconds of all steps, and of the longest.
    pub steps_ns: u64,
    pub longest_ns: u64,
    pub time: RoleTime,
    pub calls: CallParts,
    /// From the opening of the window to the end of the role's last step.
    pub elapsed: Duration,
}

/// What all roles did.
#[derive(Debug, Default)]
pub struct Results {
    pub roles: BTreeMap<String, RoleResult>,
    /// Over warm-up and window.
    pub work: ParityHash,
    pub answers: ParityHash,
    pub wrong_answers: u64,
    /// Written in the window by all roles.
    pub user_bytes: u64,
    /// The same by those whose steps were planned: what configs have in common.
    pub planned_user_bytes: u64,
    pub policy_operations: u64,
    pub window: Duration,
}

/// Hooks into the run, called from the thread that called [`run`].
pub trait Observer {
    /// Every role has warmed up and waits.
    fn open(&mut self, progress: &Progress);
    /// Called often while roles run. `window` is the time since the opening, if it is open.
    fn tick(&mut self, progress: &Progress, window: Option<Duration>);
    /// The last step is done, and all threads still exist.
    fn close(&mut self);
}

/// How often the observer looks. It runs on the trial's own CPUs, so not more often than it has to.
const TICK: Duration = Duration::from_millis(100);

/// Wakes the observer's thread when there is something to see before its next look.
#[derive(Debug, Default)]
struct Bell {
    lock: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        // Whoever is about to wait has looked before it holds the lock, or looks after.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.rung.notify_all();
    }

    /// Waits for the next look, or until something is `done`.
    fn wait(&self, done: impl Fn() -> bool) {
        self.wait_at_most(TICK, done);
    }

    fn wait_at_most(&self, time: Duration, done: impl Fn() -> bool) {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.rung.wait_timeout_while(lock, time, |()| !done()));
    }
}

/// More steps than any role makes before the primary one ends, and few enough to be added to.
const WITHOUT_END: u64 = u64::MAX / 4;

/// Runs all roles to their end.
pub fn run(
    engine: &Engine,
    config: &EngineConfig,
    policy: &Policy,
    workload: &dyn Workload,
    roles: &[RolePlan],
    progress: &Progress,
    observer: &mut dyn Observer,
) -> Result<Results, EngineError> {
    let families = engine.numbered(&workload.families(config))?;
    let shared = Shared { families: &families, write_options: config.write_options, policy, progress };
    let threads: u32 = roles.iter().map(|role| role.threads).sum();
    // Warmed up, opened, done, closed: everybody meets the observer's thread at each.
    let meeting = Barrier::new(threads as usize + 1);
    let warm = AtomicU32::new(threads);
    let bell = Bell::default();
    let opened = Mutex::new(Instant::now());
    thread::scope(|scope| {
        let mut joins = Vec::new();
        for (number, role) in roles.iter().enumerate() {
            for index in 0..role.threads {
                let mut worker = Worker::new(&shared, Monotonic, role, number, index);
                let mut source = workload.source(number);
                let (meeting, warm, opened, bell) = (&meeting, &warm, &opened, &bell);
                joins.push((
                    role,
                    scope.spawn(move || {
                        let warmed = worker.steps(source.as_mut(), 0, role.warmup_steps, Instant::now(), false);
                        warm.fetch_sub(1, Ordering::Release);
                        bell.ring();
                        meeting.wait();
                        // What the warm-up counted doesn't.
                        worker.done.counts = RoleCounts::default();
                        worker.session.begin_anew();
                        meeting.wait();
                        let clock = ThreadClock::start();
                        let start = *opened.lock().unwrap_or_else(PoisonError::into_inner);
                        let planned = if role.until_primary_ends { WITHOUT_END } else { role.steps };
                        let measured = warmed
                            .and_then(|()| worker.steps(source.as_mut(), role.warmup_steps, planned, start, true));
                        worker.end(start, clock);
                        progress.end(number, worker.done.elapsed);
                        bell.ring();
                        meeting.wait();
                        meeting.wait();
                        measured.map(|()| worker.done)
                    }),
                ));
            }
        }
        while warm.load(Ordering::Acquire) > 0 {
            bell.wait(|| warm.load(Ordering::Acquire) == 0);
            observer.tick(progress, None);
        }
        meeting.wait();
        observer.open(progress);
        let start = Instant::now();
        *opened.lock().unwrap_or_else(PoisonError::into_inner) = start;
        meeting.wait();
        while !progress.finished() {
            bell.wait(|| progress.finished());
            observer.tick(progress, Some(start.elapsed()));
        }
        meeting.wait();
        let window = start.elapsed();
        observer.close();
        meeting.wait();

        let mut results = Results { window, ..Results::default() };
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
    fn merge(&mut self, role: &RolePlan, done: Done) {
        // How far a role got that ends with the primary one depends on the config.
        if !role.until_primary_ends {
            self.work.merge(done.work);
            self.answers.merge(done.answers);
            self.planned_user_bytes += done.counts.bytes_written;
        }
        self.wrong_answers += done.wrong_answers;
        self.user_bytes += done.counts.bytes_written;
        self.policy_operations += done.policy_operations;
        let Some(whole) = self.roles.get_mut(&role.name) else {
            self.roles.insert(
                role.name.clone(),
                RoleResult {
                    counts: done.counts,
                    latency: done.latency,
                    saturated: done.saturated,
                    steps_ns: done.steps_ns,
                    longest_ns: done.longest_ns,
                    time: done.time,
                    calls: done.calls,
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
        whole.steps_ns += done.steps_ns;
        whole.longest_ns = whole.longest_ns.max(done.longest_ns);
        whole.calls.add(&done.calls);
        whole.elapsed = whole.elapsed.max(done.elapsed);
        let time = &mut whole.time;
        time.threads += done.time.threads;
        time.wall_seconds += done.time.wall_seconds;
        time.db_seconds += done.time.db_seconds;
        time.generator_seconds += done.time.generator_seconds;
        time.idle_seconds += done.time.idle_seconds;
        time.compute_seconds += done.time.compute_seconds;
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        time.run_queue_seconds = sum(time.run_queue_seconds, done.time.run_queue_seconds);
        time.cpu_seconds = sum(time.cpu_seconds, done.time.cpu_seconds);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
