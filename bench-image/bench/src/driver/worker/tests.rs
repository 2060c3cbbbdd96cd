//! One thread on a clock of the test's own: what steps are known to take must come out as arithmetic says.
//!
//! The database takes time by a merge operator: to read a key, RocksDB has to apply it, and it moves the clock by what the key says.

use std::{cell::Cell, collections::BTreeSet, sync::atomic::AtomicBool, thread};

use assay_protocol::{EngineConfig, Follows, PageCache};
use tempfile::TempDir;

use super::*;
use crate::{
    driver::clock::Monotonic,
    engine::{Engine, Family, Merge, Operands},
    workload::Rules,
};

thread_local! {
    /// Nanoseconds since the test began.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn pass(nanos: u64) {
    NOW.set(NOW.get() + nanos);
}

/// Moves only when a read or a sleep takes time.
#[derive(Clone, Copy)]
struct Told(Instant);

impl Clock for Told {
    fn now(self) -> Instant {
        self.0 + Duration::from_nanos(NOW.get())
    }

    fn sleep(self, time: Duration) {
        pass(time.as_nanos() as u64);
    }
}

/// Moves by a microsecond whenever somebody looks.
#[derive(Clone, Copy)]
struct Seen(Instant);

impl Clock for Seen {
    fn now(self) -> Instant {
        pass(1000);
        Told(self.0).now()
    }

    fn sleep(self, time: Duration) {
        Told(self.0).sleep(time);
    }
}

/// What an operand says the read takes.
fn take_time(value: Option<&[u8]>, operands: Operands<'_>) -> Option<Vec<u8>> {
    let mut result = value.unwrap_or_default().to_vec();
    for operand in operands {
        pass(u64::from_le_bytes(operand.try_into().ok()?));
        result = operand.to_vec();
    }
    Some(result)
}

/// Steps by what they do.
struct Steps<F>(F);

impl<F: FnMut(u64, &mut Step) + Send> StepSource for Steps<F> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        self.0(step, out);
    }
}

fn plan(steps: u64, interval_ns: Option<f64>) -> RolePlan {
    RolePlan {
        name: "reader".to_owned(),
        threads: 1,
        steps,
        until_primary_ends: false,
        warmup_steps: 0,
        interval_ns,
        operations_per_step: 1,
        follows: None,
    }
}

/// A database with one family.
struct Lab {
    _dir: TempDir,
    engine: Engine,
    families: Vec<Family>,
}

impl Lab {
    /// At the beginning of time.
    fn new() -> Self {
        NOW.set(0);
        let dir = tempfile::tempdir().unwrap();
        let merge = Some(Merge { name: "take_time", apply: take_time });
        let families = vec![Family { merge, ..Family::new("default") }];
        let engine = Engine::open(dir.path(), &EngineConfig::default(), &families, PageCache::Evict).unwrap();
        Self { _dir: dir, engine, families }
    }

    /// What the last role of several does as this one of its threads, from the opening of the window on.
    fn run(&self, roles: &[RolePlan], index: u32, progress: &Progress, source: &mut dyn StepSource) -> Done {
        let start = Instant::now();
        self.run_on(Told(start), start, roles, index, progress, source)
    }

    /// The same by a clock.
    fn run_on<C: Clock>(
        &self,
        clock: C,
        start: Instant,
        roles: &[RolePlan],
        index: u32,
        progress: &Progress,
        source: &mut dyn StepSource,
    ) -> Done {
        let families = self.engine.numbered(&self.families).unwrap();
        let policy = Policy::new(Rules::default());
        let shared = Shared { families: &families, write_options: WriteOptions::default(), policy: &policy, progress };
        let (number, role) = roles.iter().enumerate().next_back().unwrap();
        let mut worker = Worker::new(&shared, clock, role, number, index);
        worker.steps(source, 0, role.steps, start, true).unwrap();
        worker.end(start, ThreadClock::start());
        worker.done
    }

    /// One thread whose steps take what `nanos` says.
    fn reads(&self, role: RolePlan, nanos: impl Fn(u64) -> u64 + Send) -> Done {
        let roles = [role];
        self.run(&roles, 0, &Progress::new(&roles), self.taking(nanos, roles[0].steps).as_mut())
    }

    /// Reads that take what `nanos` says, step by step.
    fn taking<'s>(&self, nanos: impl Fn(u64) -> u64 + Send + 's, steps: u64) -> Box<dyn StepSource + 's> {
        let families = self.engine.numbered(&self.families).unwrap();
        let mut batch = families.batch(0);
        for nanos in (0..steps).map(&nanos).collect::<BTreeSet<u64>>() {
            let nanos = nanos.to_le_bytes();
            batch.merge(0, &nanos, &nanos);
        }
        Session::new(&families, WriteOptions::default()).write(batch).unwrap();
        Box::new(Steps(move |step, out: &mut Step| {
            let key = nanos(step).to_le_bytes();
            let begins = out.put(|arena| arena.extend_from_slice(&key));
            out.push(step, 0, &key, Action::Get { length: 8, begins });
        }))
    }
}

/// Whether a histogram of three digits says this, in nanoseconds.
#[track_caller]
fn assert_quantiles(done: &Done, expected: &[(f64, u64)]) {
    for &(quantile, nanos) in expected {
        let found = done.latency.value_at_quantile(quantile);
        assert!(nanos <= found && found <= nanos + nanos / 1000, "{quantile}: {found} instead of {nanos}");
    }
}

/// Those of so many steps of a thread that measuring leaves alone, where so many are made at once.
fn untouched(steps: u64, at_once: u64) -> impl Iterator<Item = u64> {
    (0..steps).filter(move |step| step % ONE_IN != 0 && (at_once == 1 || step % at_once >= COLD))
}

/// The quantiles of these latencies.
#[track_caller]
fn assert_latencies(done: &Done, latencies: impl Iterator<Item = u64>, quantiles: &[f64]) {
    let mut sorted: Vec<u64> = latencies.collect();
    sorted.sort_unstable();
    let of = |quantile: f64| sorted[((quantile * sorted.len() as f64).ceil() as usize).max(1) - 1];
    assert_eq!(done.latency.len(), sorted.len() as u64);
    assert_quantiles(done, &quantiles.iter().map(|&quantile| (quantile, of(quantile))).collect::<Vec<_>>());
}

/// What all steps took together, and the longest.
#[track_caller]
fn assert_all(done: &Done, latencies: impl Iterator<Item = u64> + Clone) {
    assert_eq!((done.steps_ns, Some(done.longest_ns)), (latencies.clone().sum(), latencies.max()));
}

#[track_caller]
fn assert_seconds(found: f64, nanos: u64) {
    assert!((found * 1e9 - nanos as f64).abs() < 1.0, "{found} s instead of {nanos} ns");
}

#[test]
fn each_fiftieth_step_is_slow() {
    let takes = |step| if step % 50 == 0 { 5 * MS } else { MS / 10 };
    let done = Lab::new().reads(plan(1000, None), takes);
    // Of those that are neither timed in parts nor among the first after others were made 17 of 856.
    assert_quantiles(&done, &[(0.5, MS / 10), (0.98, MS / 10), (0.981, 5 * MS), (0.99, 5 * MS), (1.0, 5 * MS)]);
    assert_latencies(&done, untouched(1000, OPERATIONS_AHEAD).map(takes), &[0.98, 0.981]);
    assert_all(&done, (0..1000).map(takes));
    let whole = 980 * MS / 10 + 20 * 5 * MS;
    assert_eq!((done.latency.len(), done.counts.steps, done.saturated, done.wrong_answers), (856, 1000, 0, 0));
    // The database took all of the time.
    assert_seconds(done.time.db_seconds, whole);
    assert_seconds(done.time.wall_seconds, whole);
    assert_eq!((done.time.idle_seconds, done.time.generator_seconds, done.time.compute_seconds), (0.0, 0.0, 0.0));
}

/// Work beside the database takes time by no other clock than the machine's.
#[test]
fn computing_is_not_the_databases_time() {
    let lab = Lab::new();
    let roles = [plan(20, None)];
    let mut source = Steps(|step, out: &mut Step| out.push(step, 0, &[], Action::Compute { hashes: 50_000 }));
    let done = lab.run_on(Monotonic, Instant::now(), &roles, 0, &Progress::new(&roles), &mut source);
    let time = &done.time;
    assert!(time.compute_seconds > time.db_seconds, "{time:?}");
    assert!(time.compute_seconds + time.db_seconds + time.generator_seconds <= time.wall_seconds * 1.001, "{time:?}");
}

fn stalled(step: u64) -> u64 {
    if step == 4000 { 2 * SECOND } else { MS / 10 }
}

/// Each ms a step is due that takes 0.1 ms; one takes 2 s. Those behind it begin late, so their latency is what is left of the stall:
/// `2000 - 0.9 j` ms for the one that comes `j` later, until the 2223rd begins in time.
#[test]
fn a_stall_is_felt_by_all_who_were_due() {
    let done = Lab::new().reads(plan(10_000, Some(1e6)), stalled);
    let left = |later: u64| 2 * SECOND - later * 9 * MS / 10;
    let takes = |step: u64| if (4000..=6222).contains(&step) { left(step - 4000) } else { MS / 10 };
    let quantiles = [0.5, 0.777, 0.778, 0.9, 0.95, 0.99, 0.999, 1.0];
    assert_latencies(&done, untouched(10_000, 1).map(takes), &quantiles);
    assert_all(&done, (0..10_000).map(takes));
    // About a fifth of them were late, as of all.
    assert_quantiles(&done, &[(0.777, MS / 10), (1.0, 2 * SECOND)]);
    assert!(done.latency.value_at_quantile(0.779) > MS);
    // The last step is due after 9.999 s; what the database does not take of the time is waited.
    assert_seconds(done.time.wall_seconds, 9999 * MS + MS / 10);
    assert_seconds(done.time.db_seconds, 2 * SECOND + 9999 * MS / 10);
    assert_seconds(done.time.idle_seconds, 9999 * MS + MS / 10 - (2 * SECOND + 9999 * MS / 10));
}

/// Unpaced, the next step begins when this one is done, so a stall is one step's.
#[test]
fn without_a_pace_a_stall_is_one_steps() {
    let done = Lab::new().reads(plan(10_000, None), stalled);
    assert_quantiles(&done, &[(0.5, MS / 10), (0.999, MS / 10), (0.9998, MS / 10), (1.0, 2 * SECOND)]);
}

#[test]
fn a_thread_keeps_the_pace_of_its_own_steps() {
    let lab = Lab::new();
    let roles = [RolePlan { threads: 2, ..plan(1001, Some(1e6)) }];
    let done = lab.run(
        &roles,
        1,
        &Progress::new(&roles),
        lab.taking(|step| if step == 1 { 9 * MS } else { MS }, 1001).as_mut(),
    );
    // Of 0 to 1000 the odd ones, each 2 ms after the one before: the first is done 8 ms after it should have been, so that the next
    // seven find less and less of that.
    let late = |j: u64| (9 * MS).saturating_sub(j * MS).max(MS);
    assert_eq!(done.counts.steps, 500);
    assert_latencies(&done, (0..500).map(late), &[0.5, 0.984, 0.986, 0.998, 1.0]);
    assert_all(&done, (0..500).map(late));
    assert_quantiles(&done, &[(0.5, MS), (0.998, 8 * MS), (1.0, 9 * MS)]);
    assert_seconds(done.time.wall_seconds, 1000 * MS);
}

#[test]
fn what_is_beyond_the_histogram_is_counted() {
    let hour = 3600 * SECOND;
    let done = Lab::new().reads(plan(3, None), |step| [hour, hour + 1, SECOND][step as usize]);
    assert_eq!((done.saturated, done.latency.len()), (1, 3));
    // One each 10 minutes, each takes a second, the first two hours: step `j` ends `7200 - 599 j` s late, for `j` to 6 more than an hour.
    let paced = plan(10, Some(600e9));
    let done = Lab::new().reads(paced, |step| if step == 0 { 2 * hour } else { SECOND });
    assert_eq!((done.saturated, done.latency.len()), (7, 10));
    assert_quantiles(&done, &[(0.1, (7200 - 9 * 599) * SECOND), (0.3, (7200 - 7 * 599) * SECOND)]);
    // Never less than an hour, however long it took.
    assert!(done.latency.value_at_quantile(0.4) >= hour && done.latency.max() >= hour);
}

/// Who keeps the primary role company makes the steps that were due when it ended, late as they are, and no other.
#[test]
fn company_ends_with_the_primary_role() {
    let lab = Lab::new();
    let company = RolePlan { until_primary_ends: true, ..plan(u64::MAX / 4, Some(1e6)) };
    let roles = [RolePlan { name: "primary".to_owned(), ..plan(1, None) }, company];
    let progress = Progress::new(&roles);
    let mut source = lab.taking(|_| MS / 10, 1);
    progress.end(0, Duration::from_nanos(5 * MS + MS / 2));
    pass(6 * MS);
    let done = lab.run(&roles, 0, &progress, source.as_mut());
    // Due after 0 to 5 ms, begun after 6 ms.
    assert_eq!(done.counts.steps, 6);
    let late = |step: u64| 6 * MS + (step + 1) * MS / 10 - step * MS;
    assert_quantiles(&done, &[(0.1, late(5)), (0.5, late(3)), (1.0, late(1))]);
}

/// Of large steps each has calls that are timed, as many as the others, and of few each counts.
#[test]
fn only_small_steps_are_left_out_and_only_of_many() {
    let lab = Lab::new();
    let in_histogram = |steps: u64, gets: u64| {
        let roles = [RolePlan { operations_per_step: gets, ..plan(steps, None) }];
        let key = 7_u64.to_le_bytes();
        let families = lab.engine.numbered(&lab.families).unwrap();
        let mut batch = families.batch(0);
        batch.merge(0, &key, &key);
        Session::new(&families, WriteOptions::default()).write(batch).unwrap();
        let mut source = Steps(move |step, out: &mut Step| {
            for place in 0..gets {
                let begins = out.put(|arena| arena.extend_from_slice(&key));
                out.push(step * gets + place, 0, &key, Action::Get { length: 8, begins });
            }
        });
        lab.run(&roles, 0, &Progress::new(&roles), &mut source).latency.len()
    };
    assert_eq!(in_histogram(MANY, ONE_IN), MANY);
    assert_eq!(in_histogram(MANY - 1, 1), MANY - 1);
    assert_eq!(in_histogram(MANY, 1), untouched(MANY, OPERATIONS_AHEAD).count() as u64);
    // More than half of them have a call that is timed.
    assert_eq!(in_histogram(MANY, 33), MANY - (MANY * 33).div_ceil(ONE_IN));
    // Of nine that are made at once the ninth is left, of fewer all; the last of the thousand is alone.
    let untimed =
        |gets: u64| (0..MANY).filter(move |step| (step * gets).div_ceil(ONE_IN) * ONE_IN >= (step + 1) * gets);
    assert_eq!(in_histogram(MANY, 7), untimed(7).filter(|&step| step % 9 == 8 || step == MANY - 1).count() as u64);
    assert_eq!(in_histogram(MANY, 8), untimed(8).count() as u64);
}

#[test]
fn the_shared_buckets_have_the_same_steps() {
    let lab = Lab::new();
    let roles = [plan(100, None)];
    let progress = Progress::new(&roles);
    // Below the first bucket, within one, and beyond the last.
    let nanos = |step| {
        if step == 0 {
            60 * SECOND
        } else if step < 11 {
            100
        } else {
            3000
        }
    };
    lab.run(&roles, 0, &progress, lab.taking(nanos, 100).as_mut());
    let (buckets, sum) = progress.roles[0].latency();
    assert_seconds(sum, 60 * SECOND + 10 * 100 + 89 * 3000);
    let filled: Vec<(f64, u64)> = buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
    assert_eq!(filled, [(1024e-9, 10), (4096e-9, 89), (buckets.last().unwrap().0, 1)]);
    assert_eq!(progress.roles[0].done(), 100);
}

#[test]
fn operations_are_counted_by_what_they_are() {
    let lab = Lab::new();
    let mut source = Steps(|step, out: &mut Step| {
        let value = out.put(|arena| arena.extend_from_slice(b"value"));
        let time = out.put(|arena| arena.extend_from_slice(&0_u64.to_le_bytes()));
        match step {
            // A batch, then another one, and what is read is what is there before the step's end.
            0 => {
                out.push(0, 0, b"a", Action::Put { value });
                out.push(1, 0, b"bb", Action::Put { value });
                out.push(2, 0, b"gone", Action::Delete);
                out.push(3, 0, b"m", Action::Merge { operand: time });
                out.push(4, 0, b"", Action::Commit);
                out.push(5, 0, b"a", Action::Get { length: 5, begins: value });
                out.push(6, 0, b"c", Action::Put { value });
                out.push(7, 0, b"c", Action::Get { length: 5, begins: value });
                out.push(8, 0, b"", Action::Compute { hashes: 1 });
            }
            1 => out.push(9, 0, b"ddd", Action::Put { value }),
            2 => out.push(10, 0, b"a", Action::Delete),
            3 => out.push(11, 0, b"a", Action::Get { length: 5, begins: value }),
            // Another length, and another beginning.
            4 => {
                out.push(12, 0, b"bb", Action::Get { length: 6, begins: value });
                out.push(13, 0, b"bb", Action::Get { length: 5, begins: time });
            }
            _ => out.push(14, 0, b"b", Action::Scan { entries: 3 }),
        }
    });
    let roles = [plan(6, None)];
    let done = lab.run(&roles, 0, &Progress::new(&roles), &mut source);
    let expected = RoleCounts {
        steps: 6,
        // a, bb, the operand, c and ddd.
        puts: 5,
        gets: 5,
        // a in the batch before, and bb twice.
        gets_found: 3,
        deletes: 2,
        scans: 1,
        // bb, c and ddd.
        scanned_entries: 3,
        // a, bb, gone, m, c, ddd and a, with four values and an operand.
        bytes_written: (1 + 5) + (2 + 5) + 4 + (1 + 8) + (1 + 5) + (3 + 5) + 1,
        bytes_read: (1 + 5) + 2 * (2 + 5) + (2 + 5) + (1 + 5) + (3 + 5),
    };
    assert_eq!(done.counts, expected);
    assert_eq!((done.wrong_answers, done.policy_operations), (2, 0));
}

#[test]
fn all_time_of_the_steps_is_somebodys() {
    let lab = Lab::new();
    let (roles, start) = ([plan(200, None)], Instant::now());
    let mut source = Steps(|step, out: &mut Step| out.push(step, 0, &[], Action::Compute { hashes: 1 }));
    let time = lab.run_on(Seen(start), start, &roles, 0, &Progress::new(&roles), &mut source).time;
    let parts = time.generator_seconds + time.db_seconds + time.idle_seconds + time.compute_seconds;
    // Two or three looks come before the steps and after them.
    assert!((1e-6..4e-6).contains(&(time.wall_seconds - parts)), "{time:?}");
}

#[test]
fn a_thread_tells_its_next_step_from_the_first_of_the_warm_up_on() {
    let lab = Lab::new();
    let roles = [RolePlan { threads: 2, ..plan(5, None) }];
    let progress = Progress::new(&roles);
    let next = || progress.roles[0].next[1].load(Ordering::SeqCst);
    let families = lab.engine.numbered(&lab.families).unwrap();
    let policy = Policy::new(Rules::default());
    let shared =
        Shared { families: &families, write_options: WriteOptions::default(), policy: &policy, progress: &progress };
    let clock = Told(Instant::now());
    let mut worker = Worker::new(&shared, clock, &roles[0], 0, 1);
    let mut told = Vec::new();
    let mut source = Steps(|step: u64, _: &mut Step| told.push((step, next())));
    worker.steps(&mut source, 10, 5, clock.0, true).unwrap();
    // Of 10 to 14 the second and the fourth, which are made together.
    assert_eq!((told, next()), (vec![(11, 11), (13, 11)], 15));
}

#[test]
fn no_more_steps_are_made_ahead_than_stay_in_the_cache() {
    let lab = Lab::new();
    let roles = [plan(9, None)];
    let progress = Progress::new(&roles);
    let mut done = Vec::new();
    let mut source = Steps(|_: u64, out: &mut Step| {
        out.put(|arena| arena.resize(BYTES_AHEAD / 4, 0));
        done.push(progress.roles[0].done());
    });
    lab.run(&roles, 0, &progress, &mut source);
    assert_eq!(done, [0, 0, 0, 0, 4, 4, 4, 4, 8]);
}

/// Steps that the last role makes until it is stopped, some time after the one at which it should wait was made.
fn steps_before(at: u64, roles: &[RolePlan], progress: &Progress) -> u64 {
    let is_made = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Not for ever: where the role fails it makes no further step.
            for _ in 0..60_000 {
                if is_made.load(Ordering::SeqCst) {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(50));
            progress.stop();
        });
        let mut source = Steps(|step: u64, _: &mut Step| is_made.store(step >= at, Ordering::SeqCst));
        Lab::new().run(roles, 0, progress, &mut source).counts.steps
    })
}

#[test]
fn each_step_waits_for_its_own_part_of_the_leaders() {
    let follows = |leader| Some(Follows { leader, steps: 4, backlog: 1 });
    let roles = [plan(12, None), RolePlan { follows: follows(0), ..plan(3, None) }];
    let progress = Progress::new(&roles);
    progress.advance(0, 0, 7, 7);
    assert_eq!(steps_before(1, &roles, &progress), 1);
    // One step may be due while the leader makes the next four.
    let roles = [RolePlan { follows: follows(1), ..plan(3, None) }, plan(12, None)];
    assert_eq!(steps_before(8, &roles, &Progress::new(&roles)), 8);
}

#[test]
fn answers_tell_by_whom_at_which_step_and_in_which_place_something_was_found() {
    let answers = |number: usize, found: [[bool; 2]; 2]| {
        let lab = Lab::new();
        let families = lab.engine.numbered(&lab.families).unwrap();
        Session::new(&families, WriteOptions::default()).put(0, b"there", b"value").unwrap();
        let roles = vec![plan(2, None); number + 1];
        let mut source = Steps(|step: u64, out: &mut Step| {
            for (place, is_there) in (0..).zip(found[step as usize]) {
                let begins = out.put(|arena| arena.extend_from_slice(b"value"));
                let key: &[u8] = if is_there { b"there" } else { b"elsewhere" };
                out.push(2 * step + place, 0, key, Action::Get { length: 5, begins });
            }
        });
        lab.run(&roles, 0, &Progress::new(&roles), &mut source).answers.digest()
    };
    let different = [
        answers(0, [[false, false], [false, false]]),
        answers(0, [[true, false], [false, false]]),
        answers(0, [[false, true], [false, false]]),
        answers(0, [[false, false], [true, false]]),
        answers(1, [[true, false], [false, false]]),
    ];
    assert_eq!(BTreeSet::from(different.clone()).len(), different.len(), "{different:?}");
}

#[test]
fn what_is_purged_is_gone_and_the_policys_work() {
    let lab = Lab::new();
    let mut source = Steps(|step: u64, out: &mut Step| {
        let value = out.put(|arena| arena.extend_from_slice(b"value"));
        if step == 0 {
            out.push(0, 0, b"a", Action::Put { value });
            out.push(1, 0, b"z", Action::Put { value });
            out.push(2, 0, b"m", Action::Purge);
        } else {
            out.push(3, 0, b"a", Action::Get { length: 5, begins: value });
            out.push(4, 0, b"z", Action::Get { length: 5, begins: value });
        }
    });
    let roles = [plan(2, None)];
    let done = lab.run(&roles, 0, &Progress::new(&roles), &mut source);
    assert_eq!((done.policy_operations, done.counts.deletes), (2, 0));
    assert_eq!((done.counts.gets_found, done.wrong_answers), (1, 0));
}

#[test]
fn warming_up_leaves_no_latency() {
    let lab = Lab::new();
    let roles = [plan(10, None)];
    let progress = Progress::new(&roles);
    let families = lab.engine.numbered(&lab.families).unwrap();
    let policy = Policy::new(Rules::default());
    let shared =
        Shared { families: &families, write_options: WriteOptions::default(), policy: &policy, progress: &progress };
    let clock = Told(Instant::now());
    let mut worker = Worker::new(&shared, clock, &roles[0], 0, 0);
    worker.steps(lab.taking(|_| MS, 10).as_mut(), 0, 10, clock.0, false).unwrap();
    assert!(worker.done.latency.is_empty());
    assert_eq!((worker.done.counts.steps, worker.done.time.db_seconds), (10, 0.0));
    assert_eq!(progress.roles[0].latency().1, 0.0);
}

#[cfg(feature = "planted")]
#[test]
fn what_is_planted_is_part_of_the_steps() {
    use crate::driver::planted::Plant;
    let run = |plant| {
        let (lab, roles) = (Lab::new(), [plan(1000, None)]);
        lab.run(&roles, 0, &Progress::new(&roles).with(plant), lab.taking(|_| MS, 1000).as_mut())
    };
    let quarter = run(Plant { slow: 0.25, ..Plant::default() });
    assert_seconds(quarter.time.wall_seconds, 1250 * MS);
    // The rate, the latencies and the time in the database agree, or a gate would throw the run away.
    assert_seconds(quarter.time.db_seconds, 1250 * MS);
    assert!((quarter.latency.mean() / (1.25 * MS as f64) - 1.0).abs() < 0.001);
    let stalled = run(Plant { stall: Some(Duration::from_secs(2)), ..Plant::default() });
    assert_seconds(stalled.time.wall_seconds, 3000 * MS);
    assert_quantiles(&stalled, &[(0.998, MS), (1.0, 2001 * MS)]);
}
