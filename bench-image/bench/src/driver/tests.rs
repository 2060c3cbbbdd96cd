use std::cell::Cell;

use assay_protocol::{Digest, PageCache};

use super::*;
use crate::{
    engine::Family,
    workload::{Rules, Step, StepSource},
};

fn role(name: &str, threads: u32, follows: Option<Follows>) -> RolePlan {
    RolePlan {
        name: name.to_owned(),
        threads,
        steps: 20,
        until_primary_ends: false,
        warmup_steps: 0,
        interval_ns: None,
        operations_per_step: 1,
        follows,
    }
}

#[test]
fn who_follows_waits_for_the_slowest_thread() {
    let follows = Follows { leader: 0, steps: 4, backlog: 1 };
    let progress = Progress::new(&[role("leader", 2, None), role("follower", 1, Some(follows))]);
    // Thread 0 has done steps 0, 2, 4, 6: half of what the first two steps take up.
    progress.advance(0, 0, 4, 8);
    assert_eq!(progress.roles[0].done(), 4);
    assert!(!progress.is_fed(1, 0));
    progress.advance(0, 1, 2, 5);
    assert!(progress.is_fed(1, 0) && !progress.is_fed(1, 1));
}

#[test]
fn who_leads_waits_beyond_the_backlog() {
    let follows = Follows { leader: 0, steps: 4, backlog: 1 };
    let progress = Progress::new(&[role("leader", 1, None), role("follower", 1, Some(follows))]);
    // One step may be due while the leader makes the next four.
    assert!(progress.has_room(0, 7) && !progress.has_room(0, 8));
    progress.advance(1, 0, 1, 1);
    assert!(progress.has_room(0, 8));
}

/// What a thread brings home, each number another one.
fn done(n: u64, latency: &[u64]) -> Done {
    let mut histogram = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
    for nanos in latency {
        histogram.record(*nanos).unwrap();
    }
    let sum = |item| {
        let mut sum = ParityHash::default();
        sum.add(item);
        sum
    };
    let f = |place: u64| (n * place) as f64;
    Done {
        counts: RoleCounts {
            steps: n,
            puts: 2 * n,
            gets: 3 * n,
            gets_found: 4 * n,
            deletes: 5 * n,
            scans: 6 * n,
            scanned_entries: 7 * n,
            bytes_written: 8 * n,
            bytes_read: 9 * n,
        },
        latency: histogram,
        saturated: 10 * n,
        steps_ns: 22 * n,
        longest_ns: 23 * n,
        time: RoleTime {
            threads: 1,
            wall_seconds: f(11),
            db_seconds: f(12),
            generator_seconds: f(13),
            idle_seconds: f(14),
            compute_seconds: f(15),
            run_queue_seconds: Some(f(16)),
            cpu_seconds: Some(f(17)),
        },
        calls: CallParts { get: 18 * n, ..CallParts::default() },
        work: sum(n),
        answers: sum(100 * n),
        wrong_answers: 19 * n,
        policy_operations: 20 * n,
        elapsed: Duration::from_secs(21 * n),
    }
}

#[test]
fn a_role_is_the_sum_of_its_threads_and_ends_with_the_last() {
    let role = role("reader", 2, None);
    let mut results = Results::default();
    results.merge(&role, done(1000, &[5, 7]));
    results.merge(&role, done(1, &[900]));
    let expected = done(1001, &[5, 7, 900]);
    let whole = &results.roles["reader"];
    assert_eq!((whole.counts, &whole.latency), (expected.counts, &expected.latency));
    assert_eq!(whole.time, RoleTime { threads: 2, ..expected.time });
    assert_eq!((whole.saturated, whole.calls), (expected.saturated, expected.calls));
    assert_eq!((whole.steps_ns, whole.longest_ns), (expected.steps_ns, 23_000));
    assert_eq!(whole.elapsed, done(1000, &[]).elapsed);
    assert_eq!(
        (results.wrong_answers, results.policy_operations),
        (expected.wrong_answers, expected.policy_operations)
    );
    assert_eq!((results.user_bytes, results.planned_user_bytes), (8008, 8008));
    let mut work = done(1000, &[]).work;
    work.merge(done(1, &[]).work);
    let mut answers = done(1000, &[]).answers;
    answers.merge(done(1, &[]).answers);
    assert_eq!((results.work, results.answers), (work, answers));
    assert_ne!(work, answers);
}

#[test]
fn one_thread_without_a_clock_makes_the_role_unknown() {
    let role = role("reader", 2, None);
    let mut results = Results::default();
    let mut unknown = done(1, &[]);
    unknown.time.run_queue_seconds = None;
    results.merge(&role, done(2, &[]));
    results.merge(&role, unknown);
    let time = &results.roles["reader"].time;
    assert_eq!((time.run_queue_seconds, time.cpu_seconds), (None, Some(51.0)));
}

#[test]
fn company_is_no_work_in_common() {
    let mut results = Results::default();
    results.merge(&role("reader", 1, None), done(1, &[]));
    results.merge(&RolePlan { until_primary_ends: true, ..role("writer", 1, None) }, done(10, &[]));
    assert_eq!((results.work, results.answers), (done(1, &[]).work, done(1, &[]).answers));
    // What it wrote is there all the same, and its wrong answers are wrong.
    assert_eq!((results.user_bytes, results.planned_user_bytes, results.wrong_answers), (88, 8, 209));
}

#[test]
fn a_run_ends_with_its_last_thread_and_the_primary_role_with_its_own() {
    let progress = Progress::new(&[role("primary", 2, None), role("company", 1, None)]);
    let end = |role, seconds| {
        progress.end(role, Duration::from_secs(seconds));
        (progress.primary_ended(), progress.finished())
    };
    assert_eq!((progress.primary_ended(), progress.finished()), (None, false));
    assert_eq!(end(0, 3), (None, false));
    assert_eq!(end(1, 4), (None, false));
    assert_eq!(end(0, 7), (Some(Duration::from_secs(7)), true));
}

#[test]
fn who_leads_or_follows_is_coupled() {
    let follows = Follows { leader: 0, steps: 4, backlog: 1 };
    let roles = [role("leader", 1, None), role("follower", 1, Some(follows)), role("other", 1, None)];
    let progress = Progress::new(&roles);
    assert_eq!([0, 1, 2].map(|role| progress.is_coupled(role)), [true, true, false]);
}

const DAY: Duration = Duration::from_hours(24);

/// Whoever is not woken sleeps for a day.
#[test]
fn the_end_of_the_primary_role_and_a_stop_wake_sleepers() {
    let roles = [role("primary", 1, None), role("company", 1, None)];
    let ended = Progress::new(&roles);
    ended.end(0, Duration::ZERO);
    ended.sleep_beside_primary(DAY);
    let stopped = Progress::new(&roles);
    stopped.stop();
    stopped.sleep_beside_primary(DAY);
    stopped.wait_until(|| false);
    let (before, time) = (Instant::now(), Duration::from_millis(20));
    Progress::new(&roles).sleep_beside_primary(time);
    assert!(before.elapsed() >= time, "nothing has woken this one");
}

#[test]
fn a_bell_wakes_whoever_waits() {
    let (bell, waits, rung) = (Bell::default(), AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            bell.wait_at_most(DAY, || {
                let rung = rung.load(Ordering::SeqCst);
                waits.store(true, Ordering::SeqCst);
                rung
            });
        });
        while !waits.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        rung.store(true, Ordering::SeqCst);
        bell.ring();
    });
    bell.wait_at_most(DAY, || true);
    let before = Instant::now();
    bell.wait(|| false);
    assert!(before.elapsed() >= TICK);
}

#[test]
fn whoever_waits_looks_once_more_before_it_sleeps() {
    let progress = Progress::new(&[role("reader", 1, None)]);
    let looks = |enough: u32| {
        let looks = Cell::new(0);
        progress.wait_until(|| {
            looks.set(looks.get() + 1);
            looks.get() >= enough
        });
        looks.get()
    };
    assert_eq!(looks(1), 1);
    // What the second one sees, the third one confirms: without that look the second would come after the sleep, and be the last.
    assert_eq!(looks(2), 3);
}

/// How often somebody looked before the window and in it.
#[derive(Default)]
struct Looks {
    before: AtomicU64,
    within: AtomicU64,
}

impl Observer for &Looks {
    fn open(&mut self, _: &Progress) {}

    fn tick(&mut self, _: &Progress, window: Option<Duration>) {
        let looks = if window.is_some() { &self.within } else { &self.before };
        looks.fetch_add(1, Ordering::SeqCst);
    }

    fn close(&mut self) {}
}

/// A step before the window and one in it, each of which is there when the observer has looked twice, or after two minutes.
struct Patient<'a>(&'a Looks);

impl Workload for Patient<'_> {
    fn families(&self, _: &EngineConfig) -> Vec<Family> {
        vec![Family::new("default")]
    }

    fn load_steps(&self) -> u64 {
        0
    }

    fn load(&self, _: u64, _: &mut Step) {}

    fn content(&self) -> Digest {
        Digest::of(b"")
    }

    fn source(&self, _: usize) -> Box<dyn StepSource + '_> {
        Box::new(Self(self.0))
    }

    fn live_bytes(&self, loaded: u64, _: &[u64]) -> u64 {
        loaded
    }

    fn answers_are_deterministic(&self) -> bool {
        true
    }
}

impl StepSource for Patient<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        let looks = if step == 0 { &self.0.before } else { &self.0.within };
        for _ in 0..1200 {
            if looks.load(Ordering::SeqCst) >= 2 {
                return;
            }
            thread::sleep(TICK);
        }
    }
}

#[test]
fn the_observer_looks_before_the_window_and_in_it_but_no_more_than_it_has_to() {
    let (folder, config) = (tempfile::tempdir().unwrap(), EngineConfig::default());
    let engine = Engine::open(folder.path(), &config, &[Family::new("default")], PageCache::Evict).unwrap();
    let roles = [RolePlan { warmup_steps: 1, steps: 1, ..role("reader", 1, None) }];
    let (policy, progress, looks) = (Policy::new(Rules::default()), Progress::new(&roles), Looks::default());
    let before = Instant::now();
    run(&engine, &config, &policy, &Patient(&looks), &roles, &progress, &mut &looks).unwrap();
    let ticks = (before.elapsed().as_nanos() / TICK.as_nanos()) as u64;
    let [before, within] = [looks.before, looks.within].map(AtomicU64::into_inner);
    assert!(before >= 2 && within >= 2, "{before} looks before the window and {within} in it");
    // The end of either comes before the next tick.
    assert!(before + within <= ticks + 2, "{before} and {within} looks in {ticks} ticks");
}
