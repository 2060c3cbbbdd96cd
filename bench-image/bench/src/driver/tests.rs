use super::*;

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
