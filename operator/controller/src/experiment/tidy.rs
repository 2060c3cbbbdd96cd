//! What is left to do for an experiment that is over: its pods and volumes go, its verdict and records stay.

use std::collections::BTreeSet;
use std::time::Duration;

use assay_api::names::FINISHED;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;

use super::{Reconcile, age, claims, ended, node_lease};
use crate::error::Error;

pub async fn after_the_end(reconcile: &mut Reconcile<'_>) -> Result<Action, Error> {
    let left = kept_for(reconcile);
    let mut stay = 0;
    let trials = reconcile.trials();
    let owners: BTreeSet<&str> =
        trials.values().filter_map(|trial| trial.metadata.uid.as_deref()).chain([reconcile.uid.as_str()]).collect();
    // Anybody may give a pod of their own the label of an experiment.
    let is_ours = |pod: &Pod| pod.owner_references().iter().any(|owner| owners.contains(owner.uid.as_str()));
    for pod in reconcile.pods().present.into_values().filter(|pod| is_ours(pod)) {
        if left.is_some() && ended::ended(&pod).is_some() {
            stay += 1;
            continue;
        }
        if pod.metadata.deletion_timestamp.is_none() {
            reconcile.remove(&pod, None).await?;
        }
    }
    claims::remove_all(reconcile).await?;
    for node in node_lease::held(reconcile) {
        node_lease::release(reconcile, &node).await?;
    }
    Ok(match left {
        Some(left) if stay > 0 => Action::requeue(left),
        _ => Action::await_change(),
    })
}

/// How long pods that left no record stay yet; `None` where nobody asked for that, or the time is over.
fn kept_for(reconcile: &Reconcile<'_>) -> Option<Duration> {
    let kept = Duration::from_secs(reconcile.experiment.spec.ttl_seconds_after_finished?.into());
    let conditions = &reconcile.experiment.status.as_ref()?.conditions;
    let end: Timestamp = conditions.iter().find(|known| known.type_ == FINISHED)?.last_transition_time.0;
    left_of(kept, end, reconcile.now)
}

/// A clock that was set back meanwhile keeps them for no longer than once more; one that was set forward takes them early.
fn left_of(kept: Duration, end: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = kept.saturating_sub(age(end, now));
    (left > Duration::ZERO).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_kept_for_a_time_whatever_the_clock_does() {
        let at = |second: i64| Timestamp::from_second(second).unwrap_or_else(|error| unreachable!("{error}"));
        let left = |now: i64| left_of(Duration::from_mins(1), at(1_800_000_000), at(now)).map(|left| left.as_secs());
        assert_eq!([0, 59, 60, 86_400].map(|after| left(1_800_000_000 + after)), [Some(60), Some(1), None, None]);
        // Set back: by a little, by a day, to the beginning.
        assert_eq!([1_799_999_999, 1_799_913_600, 0].map(left), [Some(60); 3]);
    }
}
