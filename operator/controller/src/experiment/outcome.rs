//! What came of a pod: from how it ended, or from what happened to its node.

use std::time::Duration;

use assay_api::bounds;
use assay_core::attempt::LostReason;
use assay_core::cluster;
use assay_core::plan::Plan;
use assay_core::status::shorten;
use assay_protocol::{Exit, Summary};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tracing::warn;

use super::ended::{self, Ended};
use super::observe::UnderWay;
use super::{Reconcile, TURN};
use crate::error::{Error, call};
use crate::logs::Log;
use crate::pod::CHECK_SECONDS;
use crate::record;

/// What is said of a trial that runs for too long, as `assay run` says it.
const OVERDUE: &str = "took longer than maxBlockDurationSeconds";
/// And of one that we end ourselves.
const NOT_ENDED: &str = "and its kubelet did not end it";
/// How long the scheduler may take to find room on a node: the pod before may be just going, and a volume be made.
const ROOM: Duration = Duration::from_mins(1);
/// How much later than the kubelet we end a pod: it has to see that it is late, to ask it to end, and to kill it.
const SLACK: Duration = Duration::from_mins(1);

/// What came of a pod.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Finished {
        summary: String,
        record: Option<Log>,
    },
    Lost(LostReason, String),
    /// Nothing ran, so nothing counts.
    Refused(String),
    /// The bench can't run this trial, now or ever.
    Unfit(String),
}

/// What came of a pod; `None` while it goes on.
pub async fn outcome(reconcile: &Reconcile<'_>, plan: &Plan, found: &UnderWay) -> Result<Option<Outcome>, Error> {
    let pod = &found.pod;
    match ended::ended(pod) {
        Some(Ended::Exited { code }) => return exited(reconcile, plan, found, code).await,
        Some(Ended::OutOfMemory) => {
            let message = "killed by the kernel: it used more than placement.memory".to_owned();
            return Ok(Some(Outcome::Lost(LostReason::OutOfMemory, message)));
        }
        Some(Ended::OutgrewDisk(why)) => return Ok(Some(Outcome::Lost(LostReason::DiskQuota, why))),
        Some(Ended::Evicted(why)) => return Ok(Some(Outcome::Lost(LostReason::Evicted, why))),
        Some(Ended::Refused(why)) => return Ok(Some(Outcome::Refused(why))),
        Some(Ended::Overdue) => return Ok(Some(Outcome::Lost(LostReason::Crashed, OVERDUE.to_owned()))),
        Some(Ended::Crashed(why)) => return Ok(Some(Outcome::Lost(LostReason::Crashed, why))),
        None => {}
    }
    if let Some(why) = node_lost(reconcile, found.node()) {
        return Ok(Some(Outcome::Lost(LostReason::NodeLost, why)));
    }
    if found.is_dismissed {
        return Ok(Some(Outcome::Refused("its pod is on its way out".to_owned())));
    }
    if found.has_vanished || pod.metadata.deletion_timestamp.is_some() {
        return Ok(Some(match ended::disruption(pod) {
            Some(why) => Outcome::Lost(LostReason::Evicted, why),
            None => Outcome::Lost(LostReason::Deleted, "its pod was deleted".to_owned()),
        }));
    }
    let Some(age) = free_for(reconcile, pod) else { return Ok(None) };
    let patience = pending_patience(reconcile);
    let node = found.node();
    let (late, limit) = if let Some(said) = ended::unschedulable(pod) {
        let limit = patience.min(ROOM);
        ((age >= limit).then(|| Outcome::Refused(format!("{node} had no room for a trial: {said}"))), limit)
    } else if ended::is_pending(pod) {
        (not_started(pod, age, patience), patience)
    } else {
        reconcile.memory().full.remove(node);
        let limit = limit(patience, reconcile.experiment.spec.max_block_duration_seconds);
        ((age >= limit).then(|| Outcome::Lost(LostReason::Crashed, format!("{OVERDUE}, {NOT_ENDED}"))), limit)
    };
    if late.is_none() {
        reconcile.wake_in(limit.saturating_sub(age) + Duration::from_secs(1));
    } else if is_outdated(reconcile, pod).await? {
        return Ok(None);
    }
    if let Some(Outcome::Refused(_)) = late
        && let Some(said) = ended::unschedulable(pod)
    {
        reconcile.memory().full.add(node, said, reconcile.instant());
    }
    Ok(late)
}

/// Whether the API server knows more of a pod that seems to be late than its watch has told: it may have begun, or have ended with a result.
async fn is_outdated(reconcile: &Reconcile<'_>, pod: &Pod) -> Result<bool, Error> {
    let there = call(reconcile.api::<Pod>().get_opt(&pod.name_any())).await?;
    if there.as_ref().is_some_and(|there| there.metadata.resource_version == pod.metadata.resource_version) {
        return Ok(false);
    }
    if let Some(there) = there {
        reconcile.memory().pods.changed(there, reconcile.instant());
    }
    reconcile.wake_in(TURN);
    Ok(true)
}

/// How long a pod may take to start.
fn pending_patience(reconcile: &Reconcile<'_>) -> Duration {
    Duration::from_secs(reconcile.cluster().args.pending_seconds.into())
}

/// For how long we know of a pod that could start; `None` while it is in a queue, where it may wait for as long as it likes.
fn free_for(reconcile: &Reconcile<'_>, pod: &Pod) -> Option<Duration> {
    let uid = pod.uid().unwrap_or_default();
    let mut memory = reconcile.memory();
    if ended::gate(pod).is_some() {
        memory.gated.insert(uid, reconcile.instant());
        return None;
    }
    let known_for = memory.pods.known_for(pod, reconcile.instant());
    let freed = memory.gated.get(&uid).map(|last| reconcile.elapsed(*last));
    Some(freed.map_or(known_for, |freed| known_for.min(freed)))
}

/// How long a pod may be there that may run for so many seconds, if its kubelet, which counts them itself, does not end it.
fn limit(patience: Duration, seconds: u32) -> Duration {
    patience + Duration::from_secs(seconds.into()) + SLACK
}

/// Whether the pod of a check runs for longer than it may and its kubelet does not end it.
pub fn is_overdue(reconcile: &Reconcile<'_>, check: &Pod) -> bool {
    let Some(age) = free_for(reconcile, check).filter(|_| !ended::is_pending(check)) else { return false };
    let limit = limit(pending_patience(reconcile), CHECK_SECONDS);
    reconcile.wake_in(limit.saturating_sub(age) + Duration::from_secs(1));
    age >= limit
}

/// What comes of a pod that could have started for so long.
fn not_started(pod: &Pod, age: Duration, patience: Duration) -> Option<Outcome> {
    let why = || ended::why_waiting(pod).unwrap_or_else(|| "its node gives no reason".to_owned());
    let message = || format!("not started after {} s: {}", patience.as_secs(), why());
    (age >= patience).then(|| Outcome::Lost(LostReason::NotStarted, message()))
}

/// Why what runs on a node is lost; `None` where it is not.
pub fn node_lost(reconcile: &Reconcile<'_>, name: &str) -> Option<String> {
    let Some(node) = reconcile.cluster().nodes.get(name) else {
        return Some(format!("its node {name} is gone"));
    };
    let silent = reconcile.cluster().nodes.silent_for(&node)?;
    let patience = Duration::from_secs(reconcile.cluster().args.node_lost_seconds.into());
    if silent < patience {
        reconcile.wake_in(patience.saturating_sub(silent) + Duration::from_secs(1));
        return None;
    }
    Some(format!("its node {name} has not been ready for {} s", silent.as_secs().min(86_400)))
}

/// What came of a pod whose bench has exited; `None` while its log is not read yet.
async fn exited(reconcile: &Reconcile<'_>, plan: &Plan, found: &UnderWay, code: i32) -> Result<Option<Outcome>, Error> {
    let said = ended::message(&found.pod).unwrap_or_default();
    let exit = Exit::from_code(code);
    let has_record = matches!(exit, Some(Exit::Completed | Exit::ConfigFailed));
    let log = match (found.has_vanished, has_record || said.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => reconcile.log(&found.pod).await,
        (false, false) => reconcile.log_now(&found.pod).await,
    };
    if matches!(log, Ok(None)) && !found.has_vanished {
        return Ok(None);
    }
    if !has_record {
        let last = log.ok().flatten().and_then(|log| last_words(&log));
        let words = last.as_deref().unwrap_or(said);
        return Ok(Some(match exit {
            None => {
                let reason = if Exit::is_fault(code) { LostReason::Faulted } else { LostReason::Crashed };
                Outcome::Lost(reason, format!("exit code {code}: {words}"))
            }
            Some(Exit::SpecRefused) => Outcome::Unfit(words.to_owned()),
            Some(_) => Outcome::Refused(words.to_owned()),
        }));
    }
    // The full record, where the log still has it: no verdict depends on it.
    let trial = found.trial.name_any();
    let log = log.unwrap_or_else(|error| {
        warn!(trial, error = error.message(), "can't read its log: the full record is lost");
        None
    });
    let record = log.and_then(|log| {
        let record = log.into_record();
        if record.is_none() {
            warn!(trial, "its log has no record: the full record is lost");
        }
        record
    });
    let own = |summary: &Summary| {
        summary.plan == plan.digest && summary.trial == cluster::trial_id(&found.trial.spec, found.attempt)
    };
    let mut problem = "its summary belongs to another trial".to_owned();
    match Summary::from_json(said.as_bytes()) {
        Ok(summary) if own(&summary) => {
            // What was printed may be another record only where somebody tampers with logs.
            let is_own = |json: &Log| assay_protocol::Digest::of(json.text().as_bytes()) == summary.record;
            if record.as_ref().is_some_and(|json| !is_own(json)) {
                warn!(trial, "the printed record does not match the summary: not kept");
            }
            let record = record.filter(is_own);
            return Ok(Some(Outcome::Finished { summary: said.to_owned(), record }));
        }
        Ok(_) => {}
        Err(error) => problem = format!("can't read its summary: {error}"),
    }
    // A whole record says more than a broken summary of it.
    let rescued = record.and_then(|json| {
        let bytes = json.text().as_bytes();
        let summary = record::summary(bytes).ok().filter(own)?;
        Some((serde_json::to_string(&summary).ok()?, json))
    });
    Ok(Some(match rescued {
        Some((summary, json)) => Outcome::Finished { summary, record: Some(json) },
        None => Outcome::Lost(LostReason::UnreadableRecord, problem),
    }))
}

/// The last line of a log that says something.
fn last_words(log: &Log) -> Option<String> {
    let line = log.text().lines().rev().find(|line| !line.trim().is_empty())?;
    Some(shorten(line, bounds::MESSAGE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_has_the_time_to_start_and_to_run() {
        assert_eq!(limit(Duration::from_mins(5), 14_400), Duration::from_mins(5 + 240 + 1));
    }

    #[test]
    fn a_pod_that_does_not_start_in_time_is_lost_with_the_reason() {
        let pulling = json!([{"name": "bench", "image": "none:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}}]);
        let patience = Duration::from_mins(10);
        for (statuses, why) in [(pulling, "ErrImagePull: no such tag"), (json!([]), "its node gives no reason")] {
            let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Pending", "containerStatuses": statuses}});
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            assert_eq!(not_started(&pod, Duration::from_millis(599_999), patience), None);
            let late = Outcome::Lost(LostReason::NotStarted, format!("not started after 600 s: {why}"));
            assert_eq!(not_started(&pod, patience, patience), Some(late));
        }
    }
}
