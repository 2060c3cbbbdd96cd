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
