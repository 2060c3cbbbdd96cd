//! Pods that have ended: what they left is kept, what became of them is written down, and then they go. In this order, so that
//! whatever is interrupted is done again and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use assay_api::names::CONTAINER;
use assay_api::{AttemptStatus, PodEvidenceStatus, Time};
use assay_core::attempt::{Attempt, LostReason};
use assay_core::cluster;
use assay_core::decide::Places;
use assay_core::node;
use assay_core::plan::Plan;
use assay_protocol::Digest;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::PostParams;
use tracing::{info, warn};

use super::agent;
use super::ended;
use super::observe::{Observed, UnderWay, is_written};
use super::outcome::{Outcome, node_lost, outcome};
use super::trial_status::{attempt, end_attempts, to_change, write};
use super::{AT_MOST, Reconcile, each, refusals, turn};
use crate::error::{Error, call};
use crate::prometheus::{Server, Window};
use crate::record::{self, Glance};

/// Times that a node may refuse an attempt before it counts as lost.
const REFUSALS: u32 = 5;

/// How long it is tried to keep a record that is refused for a reason that may pass.
const PATIENCE: Duration = Duration::from_secs(30);

/// How far the clocks of nodes may be apart from ours where a time is asked for.
const CLOCK_SECONDS: f64 = 5.0;

/// What came of the pods.
pub enum Collected {
    /// These attempts have ended, and their ends are not written down yet.
    Ended(Vec<Ended>),
    /// A bench can't run what was planned.
    Unfit(String),
}

/// An attempt that has ended.
pub struct Ended {
    found: UnderWay,
    pub attempt: Attempt,
    status: AttemptStatus,
}

/// What was found of a pod.
enum Found {
    /// It goes on, or its end is yet to be seen.
    GoesOn(UnderWay),
    /// It has ended, and what it left is kept.
    Ended(Box<Ended>),
    Refused(UnderWay, String),
    /// It was refused, and that is counted already: it is on its way out.
    Leftover(UnderWay),
    /// Its bench can't run what was planned.
    Unfit(String),
}

/// Sees what has ended, and keeps the records. Where a bench can't run what was planned, nothing of the rest can be run either: the answer says why.
pub async fn collect(reconcile: &Reconcile<'_>, plan: &Plan, observed: &mut Observed) -> Collected {
    let mut under_way = std::mem::take(&mut observed.under_way);
    let last = reconcile.memory().collected.take();
    if last.is_some() {
        under_way.sort_by_cached_key(|found| turn(&found.pod.name_any(), last.as_deref()));
    }
    let count = AtomicUsize::new(0);
    let found = under_way.into_iter().map(|pod| find(reconcile, plan, pod, &count));
    let (mut ended, mut refused, mut unfit) = (Vec::new(), Vec::new(), None);
    for found in each(found).await {
        match found {
            Found::GoesOn(found) => observed.under_way.push(found),
            Found::Ended(found) => ended.push(*found),
            Found::Refused(found, why) => refused.push((found, why)),
            Found::Leftover(found) => observed.leftover.push(found),
            Found::Unfit(why) => unfit = unfit.or(Some(why)),
        }
    }
    if let Some(why) = unfit {
        return Collected::Unfit(why);
    }
    for (found, why) in refused {
        if let Err(error) = refuse(reconcile, observed, found.clone(), &why).await {
            observed.under_way.push(again(reconcile, found, &error));
        }
    }
    let is_more = ended.len() >= AT_MOST;
    if is_more {
        reconcile.wake_in(Duration::ZERO);
    }
    if is_more || reconcile.room.are_unmet() {
        reconcile.memory().collected = ended.last().map(|ended: &Ended| ended.found.pod.name_any()).or(last);
    }
    Collected::Ended(ended)
}

/// What can't be seen or written down is tried again, and holds up nobody else.
fn again(reconcile: &Reconcile<'_>, found: UnderWay, error: &Error) -> UnderWay {
    reconcile.later(&found.pod.name_any(), error);
    found
}

/// Sees what became of a pod, and keeps its record if it has ended. Once as many have ended as one reconcile writes down, those that are left
/// are not looked at; a few more are being looked at by then.
async fn find(reconcile: &Reconcile<'_>, plan: &Plan, found: UnderWay, count: &AtomicUsize) -> Found {
    if count.load(Ordering::Relaxed) >= AT_MOST {
        return Found::GoesOn(found);
    }
    match end_of(reconcile, plan, found.clone()).await {
        Ok(found) => {
            count.fetch_add(matches!(found, Found::Ended(_)).into(), Ordering::Relaxed);
            found
        }
        Err(error) => Found::GoesOn(again(reconcile, found, &error)),
    }
}

async fn end_of(reconcile: &Reconcile<'_>, plan: &Plan, found: UnderWay) -> Result<Found, Error> {
    let Some(outcome) = outcome(reconcile, plan, &found).await? else { return Ok(Found::GoesOn(found)) };
    let (outcome, seen) = match outcome {
        Outcome::Unfit(why) => {
            let (trial, image) =
                (found.trial.name_any(), reconcile.template().image(&found.trial.spec.config).to_owned());
            return Ok(Found::Unfit(format!("the bench {image} refuses trial {trial}: {why}")));
        }
        Outcome::Refused(_) if is_counted(reconcile, &found) => return Ok(Found::Leftover(found)),
        Outcome::Refused(why) => match lost_by_refusals(refusals(&found.trial), &why) {
            None => return Ok(Found::Refused(found, why)),
            Some(lost) => (lost, PodEvidenceStatus::default()),
        },
        outcome => match seen(reconcile, &found, &outcome).await? {
            None => return Ok(Found::GoesOn(found)),
            Some(seen) => (outcome, seen),
        },
    };
    Ok(Found::Ended(keep(reconcile, found, outcome, seen).await?.into()))
}

/// Writes down what became of attempts, which are the last of those of the places. Then their pods go.
pub async fn tell(
    reconcile: &Reconcile<'_>,
    places: &Places<'_>,
    observed: &mut Observed,
    ended: Vec<Ended>,
) -> Result<(), Error> {
    let (told, pods): (Vec<_>, Vec<_>) = ended
        .into_iter()
        .map(|ended| ((ended.found.trial.name_any(), ended.attempt, ended.status), ended.found))
        .unzip();
    end_attempts(reconcile, places, observed, told).await?;
    for found in pods {
        observed.leftover.push(UnderWay { trial: observed.newest(&found.trial), ..found });
    }
    let gone = observed.leftover.iter().filter(|found| !is_kept(reconcile, found)).map(|found| {
        // Nobody is there to confirm that a pod has ended: without force it would stay, and its node with it.
        let is_lost = node_lost(reconcile, found.node()).is_some();
        async move {
            if let Err(error) = dismiss(reconcile, found, is_lost).await {
                reconcile.later(&found.pod.name_any(), &error);
            }
        }
    });
    each(gone.collect::<Vec<_>>()).await;
    Ok(())
}

/// What becomes of an attempt that was refused again, after so many times; `None` where it is tried once more.
fn lost_by_refusals(before: u32, why: &str) -> Option<Outcome> {
    let message = || format!("refused {REFUSALS} times, the last time because: {why}");
    (before + 1 >= REFUSALS).then(|| Outcome::Lost(LostReason::EnvironmentRefused, message()))
}

/// What its node's agent saw of an attempt that left a summary; `None` while it may yet say it.
async fn seen(
    reconcile: &Reconcile<'_>,
    found: &UnderWay,
    outcome: &Outcome,
) -> Result<Option<PodEvidenceStatus>, Error> {
    let Outcome::Finished { record, .. } = outcome else { return Ok(Some(PodEvidenceStatus::default())) };
    let record = record.as_ref().and_then(|json| Glance::at(json.text().as_bytes()));
    agent::seen(reconcile, found, record.and_then(Glance::cpus)).await
}

/// Keeps the record of an attempt that has ended, and what is to be written down about it, with what its node's agent saw.
async fn keep(
    reconcile: &Reconcile<'_>,
    found: UnderWay,
    outcome: Outcome,
    seen: PodEvidenceStatus,
) -> Result<Ended, Error> {
    let pod = &found.pod;
    let mut glance = None;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let mut status = AttemptStatus {
        attempt: found.attempt,
        pod: Some(pod.name_any()),
        node: node.or_else(|| Some(found.node().to_owned())),
        start_time: pod.creation_timestamp(),
        completion_time: Some(Time(super::whole_second(reconcile.now))),
        ..AttemptStatus::default()
    };
    match outcome {
        Outcome::Finished { summary, record } => {
            let mut evidence = evidence(pod, seen);
            let kubelets = &reconcile.cluster().kubelets;
            evidence.cpu_manager_policy = status.node.as_deref().and_then(|node| kubelets.cpu_manager_policy(node));
            if let Some(json) = record.as_ref().map(|record| record.text().as_bytes()) {
                status.record = keep_record(reconcile, &found, json).await?;
                glance = Glance::at(json);
                evidence.machine = glance.as_ref().and_then(Glance::machine);
            }
            status.summary = Some(summary);
            status.evidence = Some(evidence);
        }
        Outcome::Lost(reason, message) => {
            status.reason = Some(format!("{reason:?}"));
            status.message = Some(assay_core::status::shorten(&message, assay_api::bounds::MESSAGE));
            let node = reconcile.cluster().nodes.get(found.node());
            status.boot = node.and_then(|node| node::boot(&node)).map(|boot| boot.to_string());
        }
        Outcome::Refused(_) | Outcome::Unfit(_) => {}
    }
    // The experiment's own metrics, for which no record need be in memory.
    if let (Some(evidence), Some(record)) = (&mut status.evidence, glance) {
        evidence.metrics = metrics(reconcile, &found, &record).await;
    }
    let attempt = attempt(&found.trial, &status)?;
    Ok(Ended { found, attempt, status })
}

/// What the cluster says about a pod, beside what its node's agent saw.
fn evidence(pod: &Pod, seen: PodEvidenceStatus) -> PodEvidenceStatus {
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| spec.containers.iter().map(|container| &container.name));
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten().map(|c| &c.name);
    let ephemeral = spec.and_then(|spec| spec.ephemeral_containers.as_ref()).into_iter().flatten().map(|c| &c.name);
    let all = containers.into_iter().flatten().chain(init).chain(ephemeral);
    let mut volumes = spec.and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
    PodEvidenceStatus {
        qos_class: pod.status.as_ref().and_then(|status| status.qos_class.clone()),
        foreign_containers: all
            .filter(|name| *name != CONTAINER)
            .take(assay_api::bounds::FOREIGN_CONTAINERS)
            .cloned()
            .collect(),
        volume: volumes.find_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone())),
        ..seen
    }
}

/// Keeps a full record where it outlives its pod. Its name says what is in it, so that one which is there already is the same, without
/// a right to read it: by ourselves, before we were interrupted, or of an attempt that vanished before its end was written down.
async fn keep_record(reconcile: &Reconcile<'_>, found: &UnderWay, json: &[u8]) -> Result<Option<String>, Error> {
    let name = format!("{}-{:.8}", found.pod.name_any(), Digest::of(json).as_str());
    let map = match record::config_map(&found.trial, &name, found.attempt, json) {
        Ok(map) => map,
        Err(error) => {
            warn!(trial = found.trial.name_any(), %error, "can't keep the full record");
            return Ok(None);
        }
    };
    let api = reconcile.api::<ConfigMap>();
    match call(api.create(&PostParams::default(), &map)).await {
        Ok(_) => Ok(Some(name)),
        Err(error) if error.is_already_there() => Ok(Some(name)),
        Err(error) if error.is_refusal() || error.is_conflict() => {
            let (uid, now) = (found.pod.uid().unwrap_or_default(), reconcile.instant());
            let since = *reconcile.memory().unkept.entry(uid).or_insert(now);
            // A quota that says so will say so again.
            if error.may_pass() && reconcile.elapsed(since) < PATIENCE {
                return Err(error);
            }
            warn!(trial = found.trial.name_any(), error = error.message(), "can't keep the full record");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The experiment's own metrics over the measured window; what could not be had is missing.
async fn metrics(reconcile: &Reconcile<'_>, found: &UnderWay, record: &Glance) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let pod = found.pod.name_any();
    let window = Window {
        namespace: &reconcile.namespace,
        pod: &pod,
        node: found.node(),
        started_unix_ms: record.window_started_unix_ms,
        seconds: record.window_seconds,
    };
    // By a clock that is off, Prometheus would be asked about another time.
    let begins = window.started_unix_ms as f64 / 1000.0;
    let existed = found.pod.creation_timestamp().map(|since| since.0.as_second() as f64);
    let now = reconcile.now.as_millisecond() as f64 / 1000.0;
    if existed.is_none_or(|since| begins < since - CLOCK_SECONDS) || begins + window.seconds > now + CLOCK_SECONDS {
        warn!(trial = found.trial.name_any(), "no metrics: the clock of {} is off", window.node);
        return values;
    }
    let server = match Server::find(&reconcile.cluster().args, &reconcile.cluster().http, &reconcile.namespace) {
        Ok(Some(server)) => server,
        Ok(None) => return values,
        Err(why) => {
            warn!(trial = found.trial.name_any(), why, "can't get metrics");
            return values;
        }
    };
    // At once: a server that does not answer shall not hold up everything else for each of them.
    let asked =
        reconcile.experiment.spec.metrics.iter().map(async |metric| (metric, server.value(metric, &window).await));
    for (metric, answer) in futures::future::join_all(asked).await {
        match answer {
            Ok(value) => drop(values.insert(metric.name.clone(), cluster::number(value))),
            Err(why) => warn!(trial = found.trial.name_any(), metric = metric.name, why, "can't get a metric"),
        }
    }
    values
}

/// Counts a refusal and makes room for another try.
async fn refuse(reconcile: &Reconcile<'_>, observed: &mut Observed, found: UnderWay, why: &str) -> Result<(), Error> {
    let known = observed.newest(&found.trial);
    let mut status = to_change(reconcile, &known).await?;
    status.refusals += 1;
    info!(trial = found.trial.name_any(), refusals = status.refusals, why, "refused before it started");
    reconcile.memory().pods.refused(&found.pod, status.refusals);
    let trial = write(reconcile, &known, &status).await?;
    // Whatever fails before it goes, it is not counted again.
    reconcile.memory().pods.dismissed(&found.pod);
    observed.trials.insert(trial.name_any(), Arc::clone(&trial));
    observed.leftover.push(UnderWay { trial, ..found });
    Ok(())
}

/// Whether the refusal of a pod is counted: it is on its way out, or that is written down though no answer has said so.
fn is_counted(reconcile: &Reconcile<'_>, found: &UnderWay) -> bool {
    found.is_dismissed
        || found.pod.metadata.deletion_timestamp.is_some()
        || reconcile.memory().pods.is_counted(&found.pod, refusals(&found.trial))
}

/// Whether a pod stays to be looked at: one that has ended and left no record, where the experiment asks for it.
pub fn is_kept(reconcile: &Reconcile<'_>, found: &UnderWay) -> bool {
    reconcile.failed_pod_retention() > Duration::ZERO
        && is_written(&found.trial, found.attempt)
        && !found.trial.has_summary(found.attempt)
        && ended::ended(&found.pod).is_some()
}

/// Removes a pod whose end is written down, by force where its node is lost.
pub async fn dismiss(reconcile: &Reconcile<'_>, found: &UnderWay, is_lost: bool) -> Result<(), Error> {
    if found.has_vanished || (found.pod.metadata.deletion_timestamp.is_some() && !is_lost) {
        reconcile.memory().pods.dismissed(&found.pod);
        return Ok(());
    }
    reconcile.remove(&found.pod, is_lost.then_some(0)).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_attempt_that_is_refused_again_and_again_is_lost_in_the_end() {
        for before in 0..REFUSALS - 1 {
            assert_eq!(lost_by_refusals(before, "full"), None, "{before}");
        }
        let lost =
            Outcome::Lost(LostReason::EnvironmentRefused, "refused 5 times, the last time because: full".to_owned());
        for before in [REFUSALS - 1, REFUSALS, 1000] {
            assert_eq!(lost_by_refusals(before, "full").as_ref(), Some(&lost), "{before}");
        }
    }

    /// What others change in a pod before it is made: the sidecars of a mesh, and the resources that a `LimitRange` sets.
    #[test]
    fn what_others_add_to_a_pod_is_evidence() {
        let seen = |spec: Value, class: Value| {
            let pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": {"qosClass": class}});
            evidence(&serde_json::from_value(pod).expect("a pod"), PodEvidenceStatus::default())
        };
        let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
        let own = seen(json!({"containers": named(&[CONTAINER])}), json!("Guaranteed"));
        assert_eq!((own.qos_class.as_deref(), own.foreign_containers), (Some("Guaranteed"), vec![]));
        // Without a class nothing is claimed.
        assert_eq!(seen(json!({"containers": []}), Value::Null).qos_class, None);
        let changed = seen(
            json!({
                "containers": named(&["proxy", CONTAINER]),
                "initContainers": named(&["init", "native-sidecar"]),
                "ephemeralContainers": named(&["debug"]),
            }),
            json!("Burstable"),
        );
        assert_eq!(changed.qos_class.as_deref(), Some("Burstable"));
        assert_eq!(changed.foreign_containers, ["proxy", "init", "native-sidecar", "debug"]);
        // More than a status has space for say the same.
        let many: Vec<String> = (0..40).map(|number| format!("c{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let seen = seen(json!({"containers": named(&many)}), json!("Guaranteed"));
        assert_eq!(seen.foreign_containers.len(), assay_api::bounds::FOREIGN_CONTAINERS);
    }
}
