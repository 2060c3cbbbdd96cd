//! What is left to do for an experiment that is over: its pods and volumes go, and in the end it goes itself with all that it owns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assay_api::TuningExperiment;
use assay_api::names::FINISHED;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use tracing::info;

use super::{Reconcile, advise, age, claims, ended, node_lease};
use crate::error::Error;
use crate::object;
use crate::pod::is_owned;

pub async fn after_the_end(reconcile: &Reconcile<'_>) -> Result<Action, Error> {
    let ttl = reconcile.experiment.spec.ttl_seconds_after_finished;
    let ttl = ttl.or(reconcile.cluster().args.ttl_seconds_after_finished).map(|ttl| Duration::from_secs(ttl.into()));
    let known_for = reconcile.elapsed(*reconcile.memory().over.get_or_insert(reconcile.instant()));
    let end = ended_at(reconcile.experiment);
    let left_of = |kept: Duration, end: Timestamp| left(kept, age(end, reconcile.now), known_for);
    let expires = ttl.zip(end).map(|(ttl, end)| left_of(ttl, end));
    if expires == Some(None) {
        info!("its time after the end is over: deleting it with all that it owns");
        object::delete(&reconcile.api::<TuningExperiment>(), reconcile.experiment, None).await?;
        return Ok(Action::await_change());
    }
    let left = end.and_then(|end| left_of(reconcile.failed_pod_retention(), end));
    let (mut stay, mut failed) = (0, None);
    // Anybody may give a pod of their own the label of an experiment.
    let is_ours = |pod: &Pod| is_owned(pod, reconcile.experiment) || reconcile.has_begun(pod);
    for pod in reconcile.pods().present.into_values().filter(|pod| is_ours(pod)) {
        if left.is_some() && ended::ended(&pod).is_some() {
            stay += 1;
            continue;
        }
        if pod.metadata.deletion_timestamp.is_none() {
            failed = reconcile.remove(&pod, None).await.err().or(failed);
        }
    }
    claims::remove_all(reconcile).await?;
    for node in node_lease::held(reconcile) {
        node_lease::release(reconcile, &node).await?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let advice = advise::after_the_end(reconcile, end).await?;
    // It may have been renewed meanwhile, and the watch be late to tell.
    let again = (!node_lease::held(reconcile).is_empty()).then_some(node_lease::AGAIN);
    let wake = left.filter(|_| stay > 0).into_iter().chain(expires.flatten()).chain(again).chain(advice).min();
    Ok(wake.map_or_else(Action::await_change, Action::requeue))
}

/// When an experiment has ended.
fn ended_at(experiment: &TuningExperiment) -> Option<Timestamp> {
    let conditions = &experiment.status.as_ref()?.conditions;
    conditions
        .iter()
        .find(|known| known.type_ == FINISHED && known.status == "True")
        .map(|end| end.last_transition_time.0)
}

/// Finished experiments beyond so many in their namespace: those that have ended first.
pub fn surplus(experiments: Vec<Arc<TuningExperiment>>, keep: usize) -> Vec<Arc<TuningExperiment>> {
    let mut finished: BTreeMap<Option<String>, Vec<(Timestamp, Arc<TuningExperiment>)>> = BTreeMap::new();
    for experiment in experiments {
        if let Some(end) = ended_at(&experiment).filter(|_| experiment.metadata.deletion_timestamp.is_none()) {
            finished.entry(experiment.namespace()).or_default().push((end, experiment));
        }
    }
    let surplus = finished.into_values().flat_map(|mut ended| {
        ended.sort_by_key(|(end, experiment)| (std::cmp::Reverse(*end), experiment.name_any()));
        ended.into_iter().skip(keep).map(|(_, experiment)| experiment)
    });
    surplus.collect()
}

/// How much of a time after the end is left, given its age by a clock that may be set, and for how long we know of it. A clock that was set
/// back since keeps things for no longer than once more after each start; one that was set forward takes them early.
fn left(kept: Duration, age: Duration, known_for: Duration) -> Option<Duration> {
    let left = kept.saturating_sub(age.max(known_for));
    (left > Duration::ZERO).then_some(left)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_many_finished_experiments_the_oldest_go() {
        let experiment = |namespace: &str, name: &str, finished: &str, end: &str| {
            let experiment = json!({
                "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"baseline": "a", "configs": [], "scenarios": [], "repetitions": 1, "objectives": []},
                "status": {"conditions": [{"type": "Finished", "status": finished, "reason": "r", "message": "",
                    "lastTransitionTime": end}]},
            });
            Arc::new(serde_json::from_value(experiment).expect("an experiment"))
        };
        let night = |day: u32| format!("2026-01-{day:02}T03:04:05Z");
        let all = || {
            let mut all: Vec<_> =
                (1..=5).map(|day| experiment("a", &format!("night-{day}"), "True", &night(day))).collect();
            all.rotate_left(2);
            all.push(experiment("a", "runs", "False", &night(1)));
            all.push(experiment("b", "alone", "True", &night(1)));
            all
        };
        let names = |keep| {
            let mut names: Vec<_> = surplus(all(), keep).iter().map(|gone| gone.name_any()).collect();
            names.sort();
            names
        };
        assert_eq!(names(5), [""; 0]);
        assert_eq!(names(3), ["night-1", "night-2"]);
        assert_eq!(names(0).len(), 6, "what runs is no matter of this");
    }

    #[test]
    fn pods_are_kept_for_a_time_whatever_the_clock_does() {
        let seconds = Duration::from_secs;
        let left =
            |age: u64, known_for: u64| left(seconds(60), seconds(age), seconds(known_for)).map(|left| left.as_secs());
        assert_eq!([0, 59, 60, 86_400].map(|age| left(age, 0)), [Some(60), Some(1), None, None]);
        // Set back before the end, by whatever: its age is none for as long.
        assert_eq!([0, 1, 59, 60].map(|known_for| left(0, known_for)), [Some(60), Some(59), Some(1), None]);
        assert_eq!(left(10, 20), Some(40));
    }
}
