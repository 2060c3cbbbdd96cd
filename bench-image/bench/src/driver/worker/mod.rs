//! One thread of a role: makes its steps ahead, executes them, times them.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use assay_protocol::{ParityHash, RoleCounts, RolePlan, RoleTime, WriteOptions};
use hdrhistogram::Histogram;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{FIRST_BUCKET, LATENCY_BUCKETS, Policy, Progress, clock::Clock};
use crate::{
    engine::{Batch, CallParts, EngineError, Families, ONE_IN, Session},
    evidence::threads::ThreadClock,
    workload::{Action, Step, StepSource, mix},
};

/// The longest step that a histogram tells apart from longer ones.
const LONGEST_STEP_NS: u64 = 3_600_000_000_000;
/// Operations that are generated ahead of the steps that execute them.
const OPERATIONS_AHEAD: u64 = 64;
/// Steps after which those that were made ahead have left the CPU's cache. The first ones take up to 4 % longer, later ones less than 1 %.
const COLD: u64 = 8;
/// With fewer steps in a thread's window each takes long, and none can be spared.
const MANY: u64 = 1000;
/// Bytes of keys and values after which no further step is made ahead: they shall still be in the CPU's cache when they
/// are used.
const BYTES_AHEAD: usize = 64 << 10;

/// What one thread brings home.
pub struct Done {
    pub counts: RoleCounts,
    /// Of the steps that measuring did not touch.
    pub latency: Histogram<u64>,
    pub saturated: u64,
    /// Nanoseconds of all steps, and of the longest.
    pub steps_ns: u64,
    pub longest_ns: u64,
    pub time: RoleTime,
    pub calls: CallParts,
    pub work: ParityHash,
    pub answers: ParityHash,
    pub wrong_answers: u64,
    /// Removals that the config's policy made: no work that configs have in common.
    pub policy_operations: u64,
    pub elapsed: Duration,
}

/// What all threads have in common.
pub struct Shared<'a> {
    /// The families as operations number them.
    pub families: &'a Families<'a>,
    pub write_options: WriteOptions,
    pub policy: &'a Policy,
    pub progress: &'a Progress,
}

/// One thread of one role.
pub struct Worker<'a, C> {
    pub session: Session<'a>,
    policy: &'a Policy,
    progress: &'a Progress,
    clock: C,
    role: &'a RolePlan,
    /// The role's position.
    number: usize,
    /// The thread's number within the role.
    index: u32,
    ahead: Vec<Step>,
    /// Of the steps that were made ahead.
    took: Vec<Took>,
    /// Small enough for measuring to slow some of them down and others not.
    has_small_steps: bool,
    #[cfg(feature = "planted")]
    planted: super::planted::Planted<C>,
    pub done: Done,
}

/// What a step took.
#[derive(Clone, Copy, Default)]
struct Took {
    nanos: u64,
    /// Measuring had no part in it.
    is_untouched: bool,
}

impl<'a, C: Clock> Worker<'a, C> {
    pub fn new(shared: &Shared<'a>, clock: C, role: &'a RolePlan, number: usize, index: u32) -> Self {
        let Shared { families, write_options, policy, progress } = *shared;
        // A paced role makes its steps one by one while it waits: many at once would delay those that are due meanwhile.
        let one_by_one = role.interval_ns.is_some() || progress.is_coupled(number);
        let ahead = if one_by_one { 1 } else { (OPERATIONS_AHEAD / role.operations_per_step.max(1)).max(1) };
        Self {
            session: Session::new(families, write_options),
            policy,
            progress,
            clock,
            role,
            number,
            index,
            ahead: (0..ahead).map(|_| Step::default()).collect(),
            took: vec![Took::default(); ahead as usize],
            has_small_steps: role.operations_per_step < ONE_IN
                && (role.until_primary_ends || role.steps / u64::from(role.threads.max(1)) >= MANY),
            #[cfg(feature = "planted")]
            planted: super::planted::Planted::new(progress.plant, clock, role, number),
            done: Done {
                counts: RoleCounts::default(),
                // Bounds are constants, so this can't fail; a default histogram would resize itself instead.
                latency: Histogram::new_with_bounds(1, LONGEST_STEP_NS, 3)
                    .unwrap_or_else(|_| unreachable!("constant bounds")),
                saturated: 0,
                steps_ns: 0,
                longest_ns: 0,
                time: RoleTime { threads: 1, ..RoleTime::default() },
                calls: CallParts::default(),
                work: ParityHash::default(),
                answers: ParityHash::default(),
                wrong_answers: 0,
                policy_operations: 0,
                elapsed: Duration::ZERO,
            },
        }
    }

    pub fn end(&mut self, start: Instant, thread: ThreadClock) {
        self.done.elapsed = self.clock.now().saturating_duration_since(start);
        self.done.time.wall_seconds = self.done.elapsed.as_secs_f64();
        self.done.calls = self.session.calls();
        let used = thread.stop();
        self.done.time.cpu_seconds = used.cpu_seconds;
        self.done.time.run_queue_seconds = used.run_queue_seconds;
    }

    /// Executes this thread's share of `count` steps from `first` on.
    pub fn steps(
        &mut self,
        source: &mut dyn StepSource,
        first: u64,
        count: u64,
        start: Instant,
        measured: bool,
    ) -> Result<(), EngineError> {
        let threads = u64::from(self.role.threads);
        let interval = self.role.interval_ns;
        let mut next = u64::from(self.index);
        if interval.is_some() {
            // By default the kernel may wake a sleeper 50 us late, which would count as latency.
            let _ = nix::sys::prctl::set_timerslack(1);
        }
        self.progress.advance(self.number, self.index, 0, first + next.min(count));
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut now = self.clock.now();
        #[cfg(feature = "planted")]
        self.planted.begin();
        let mut has_ended = false;
        while next < count && !has_ended && !self.progress.stopped() {
            let most = (count - next).div_ceil(threads).min(ahead.len() as u64);
            let (mut chunk, mut bytes) = (0, 0);
            for slot in &mut ahead[..most as usize] {
                source.fill(first + next + chunk * threads, slot);
                chunk += 1;
                bytes += slot.bytes();
                if bytes >= BYTES_AHEAD {
                    break;
                }
            }
            let generated = self.clock.now();
            let mut generator = generated - now;
            now = generated;
            let [mut busy, mut idle, mut compute] = [Duration::ZERO; 3];
            let mut executed = 0;
            for (slot, offset) in ahead.iter().zip(0..chunk) {
                if self.progress.stopped() {
                    return Ok(());
                }
                let number = next + offset * threads;
                let mut intended = now;
                if let Some(interval) = interval {
                    intended = start + Duration::from_nanos((number as f64 * interval) as u64);
                    let Some(woken) = self.sleep_until(intended, start, now) else {
                        has_ended = true;
                        break;
                    };
                    idle += woken - now;
                    now = woken;
                }
                // What is not there yet can't be taken up: no latency. A leader that waits for its followers feels them.
                if !self.progress.is_fed(self.number, first + number) {
                    self.progress.wait_until(|| self.progress.is_fed(self.number, first + number));
                    let fed = self.clock.now();
                    idle += fed - now;
                    (now, intended) = (fed, fed);
                }
                self.progress.wait_until(|| self.progress.has_room(self.number, first + number));
                if self.progress.stopped() {
                    return Ok(());
                }
                // One thread's failure is the end of all: the trial has no result any more.
                let computed = self.execute(slot, first + number).inspect_err(|_| self.progress.stop())?;
                #[cfg(feature = "planted")]
                self.planted.after(first + number).inspect_err(|_| self.progress.stop())?;
                let finished = self.clock.now();
                busy += (finished - now).saturating_sub(computed);
                compute += computed;
                let is_touched = self.session.was_timed() || (offset < COLD && chunk > COLD);
                let nanos = (finished - intended).as_nanos() as u64;
                self.took[offset as usize] = Took { nanos, is_untouched: !is_touched || !self.has_small_steps };
                now = finished;
                executed += 1;
            }
            self.done.counts.steps += executed;
            next += executed * threads;
            let shared = &self.progress.roles[self.number];
            self.progress.advance(self.number, self.index, executed, first + next.min(count));
            if measured {
                // Together, because a histogram is large: between two steps the database would have thrown it out of
                // the CPU's cache.
                let (mut by_latency, mut latency_ns) = ([0_u64; LATENCY_BUCKETS], 0);
                for &Took { nanos, is_untouched } in &self.took[..executed as usize] {
                    if is_untouched {
                        self.done.saturated += u64::from(nanos > LONGEST_STEP_NS);
                        self.done.latency.saturating_record(nanos.max(1));
                    }
                    let power = nanos.max(1).ilog2().saturating_sub(FIRST_BUCKET) as usize;
                    by_latency[power.min(LATENCY_BUCKETS - 1)] += 1;
                    latency_ns += nanos;
                    self.done.longest_ns = self.done.longest_ns.max(nanos);
                }
                self.done.steps_ns += latency_ns;
                shared.latency_ns.fetch_add(latency_ns, Ordering::Relaxed);
                for (sum, count) in shared.by_latency.iter().zip(by_latency).filter(|(_, count)| *count > 0) {
                    sum.fetch_add(count, Ordering::Relaxed);
                }
            }
            for slot in ahead.iter().take(executed as usize) {
                self.done.work.merge(slot.parity);
            }
            if measured {
                let summed = self.clock.now();
                // Adding up is the generator's work too: it isn't the database's.
                generator += summed - now;
                now = summed;
                self.done.time.generator_seconds += generator.as_secs_f64();
                self.done.time.db_seconds += busy.as_secs_f64();
                self.done.time.idle_seconds += idle.as_secs_f64();
                self.done.time.compute_seconds += compute.as_secs_f64();
            }
        }
        self.ahead = ahead;
        Ok(())
    }

    /// Sleeps until a paced step is due, and returns when it woke up. `None` if the step is not due any more: the primary role, with which this
    /// one ends, was done before.
    fn sleep_until(&self, due: Instant, start: Instant, mut now: Instant) -> Option<Instant> {
        loop {
            let is_bound = self.role.until_primary_ends;
            if is_bound && self.progress.primary_ended().is_some_and(|end| due >= start + end) {
                return None;
            }
            let Some(wait) = due.checked_duration_since(now).filter(|wait| !wait.is_zero()) else { return Some(now) };
            if is_bound {
                self.progress.sleep_beside_primary(wait);
                // Woken by the end, it may have to catch up with nothing.
                if self.progress.stopped() {
                    return None;
                }
            } else {
                self.clock.sleep(wait);
            }
            now = self.clock.now();
        }
    }

    /// One step: reads happen at once, writes together at its end, or where the step says so. Returns the time that it took beside the
    /// database.
    fn execute(&mut self, step: &Step, number: u64) -> Result<Duration, EngineError> {
        let mut batch: Option<Batch<'_>> = None;
        let mut computed = Duration::ZERO;
        let mut purges = Vec::new();
        // The wait for a turn is what the policy costs, so it counts as time in the database.
        let turn = self.policy.turn(self.number);
        let single = step.operations.len() == 1;
        for (operation, index) in step.operations.iter().zip(0..) {
            let family = operation.family;
            let key = step.resolve(operation.key);
            let counts = &mut self.done.counts;
            match operation.action {
                Action::Put { value } => {
                    counts.puts += 1;
                    counts.bytes_written += operation.key.len() + value.len();
                    let value = step.resolve(value);
                    if single {
                        self.session.put(family, key, value)?;
                    } else {
                        batch.get_or_insert_with(|| self.session.batch(bytes_of(step))).put(family, key, value);
                    }
                }
                Action::Delete => {
                    counts.deletes += 1;
                    counts.bytes_written += operation.key.len();
                    if single {
                        self.session.delete(family, key)?;
                    } else {
                        batch.get_or_insert_with(|| self.session.batch(bytes_of(step))).delete(family, key);
                    }
                }
                Action::Merge { operand } => {
                    counts.puts += 1;
                    counts.bytes_written += operation.key.len() + operand.len();
                    let batch = batch.get_or_insert_with(|| self.session.batch(bytes_of(step)));
                    batch.merge(family, key, step.resolve(operand));
                }
                Action::Commit => {
                    if let Some(batch) = batch.take() {
                        self.session.write(batch)?;
                    }
                }
                Action::Purge => purges.push((family, key)),
                Action::Compute { hashes } => {
                    let started = self.clock.now();
                    compute(hashes);
                    computed += self.clock.now() - started;
                }
                Action::Get { length, begins } => {
                    counts.gets += 1;
                    let found = self.session.get(family, key)?;
                    // The key follows from the place.
                    let place = (self.number as u64) << 32 | index << 1 | u64::from(found.is_some());
                    self.done.answers.add(mix(&[number, place]));
                    if let Some(value) = found {
                        counts.gets_found += 1;
                        counts.bytes_read += key.len() as u64 + value.len() as u64;
                        let right = value.len() == length as usize && value.starts_with(step.resolve(begins));
                        self.done.wrong_answers += u64::from(!right);
                    }
                }
                Action::Scan { entries } => {
                    counts.scans += 1;
                    let place = mix(&[self.number as u64, number, index]);
                    let answers = &mut self.done.answers;
                    self.session.scan(family, key, entries, |rank, key, value| {
                        counts.scanned_entries += 1;
                        counts.bytes_read += key.len() as u64 + value.len() as u64;
                        let key = xxh3_64_with_seed(key, mix(&[place, rank]));
                        answers.add(xxh3_64_with_seed(value, key));
                    })?;
                }
            }
        }
        if let Some(batch) = batch {
            self.session.write(batch)?;
        }
        drop(turn);
        if !purges.is_empty() {
            self.done.policy_operations += self.policy.purge(&self.session, &purges)?;
        }
        Ok(computed)
    }
}

/// The same work on every machine, which no compiler can leave out.
fn compute(hashes: u64) {
    let mut block = [0_u8; 64];
    for _ in 0..hashes {
        let hash = xxh3_64_with_seed(&block, 0);
        block[..8].copy_from_slice(&hash.to_le_bytes());
    }
    std::hint::black_box(block);
}

/// What a batch of a step's writes takes up, about.
fn bytes_of(step: &Step) -> usize {
    const OVERHEAD: u64 = 16;
    let bytes: u64 = step
        .operations
        .iter()
        .map(|operation| {
            let value = match operation.action {
                Action::Put { value } => value.len(),
                Action::Merge { operand } => operand.len(),
                _ => 0,
            };
            operation.key.len() + value + OVERHEAD
        })
        .sum();
    bytes as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
