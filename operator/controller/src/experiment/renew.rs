//! Renews the Leases of nodes on which something runs, has just run, or is not written down yet, however long a reconcile takes.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use tracing::warn;

use super::context::Context;
use super::node_lease::{self, RENEW};

/// Between two times.
const PAUSE: Duration = Duration::from_secs(5);
/// How many times ahead it is looked at what will be due: no Lease is renewed before half of its time is over.
const AHEAD: u32 = 7;
/// Requests at the same time.
const AT_ONCE: usize = 128;

pub async fn keep_up(context: Arc<Context>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let mut leases = node_lease::kept(&context);
        leases.truncate(due(&leases.iter().map(|(age, _)| *age).collect::<Vec<_>>()));
        let renewed = leases.into_iter().map(async |(_, lease): (_, Arc<Lease>)| {
            if let Err(error) = context.cluster.leases.renew(&lease).await {
                warn!(lease = lease.name_any(), %error, "can't renew it; will retry");
            }
        });
        stream::iter(renewed).for_each_concurrent(AT_ONCE, |done| done).await;
    }
}

/// How many of Leases of these ages, the oldest first, are to be renewed now: those that are due, and of more than come due one after another,
/// such as a thousand that were taken together, so many that no later time has more to renew.
fn due(ages: &[Duration]) -> usize {
    let is_due = |age: Duration, later: u32| age.saturating_add(later * PAUSE) >= RENEW;
    let share = |later: u32| ages.partition_point(|age| is_due(*age, later)) / (later as usize + 1);
    (0..=AHEAD).map(share).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_were_taken_together_are_not_due_together() {
        let in_ten_minutes = |held: usize| {
            let mut ages = vec![Duration::ZERO; held];
            let (mut most, mut writes) = (0, 0);
            for _ in 0..600 / PAUSE.as_secs() {
                for age in &mut ages {
                    *age += PAUSE;
                }
                ages.sort_by_key(|age| std::cmp::Reverse(*age));
                assert!(ages.iter().all(|age| *age < RENEW + PAUSE), "each in time");
                let due = due(&ages);
                ages[..due].fill(Duration::ZERO);
                (most, writes) = (most.max(due), writes + due);
            }
            (most, writes)
        };
        assert_eq!(in_ten_minutes(0), (0, 0));
        assert_eq!(in_ten_minutes(1), (1, 8), "not sooner than it has to be");
        let (most, writes) = in_ten_minutes(1000);
        assert!(most <= 125 && writes <= 8900, "{most} at once, {writes} in ten minutes");
    }

    #[test]
    fn what_is_due_is_renewed_and_what_is_new_is_not() {
        let ages = |old: usize, new: usize| [vec![RENEW; old], vec![RENEW / 3; new]].concat();
        assert_eq!((due(&ages(900, 100)), due(&ages(0, 1000)), due(&ages(1, 1000))), (900, 0, 1));
        assert_eq!(due(&[Duration::MAX, RENEW / 3]), 1, "an operator that begins has renewed none");
    }
}
