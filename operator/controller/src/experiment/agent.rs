//! What is asked of the agents of nodes, where there are any: to prepare a node for a trial, and what the trial met there. Nothing
//! depends on an answer but evidence, so none is waited for longer than [`PATIENCE`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_api::agent::{AgentAnswer, AgentPhase, AgentRequest, AgentSeen, AttemptKey, Done};
use assay_api::names::{AGENT_LEASE_PREFIX, ANSWER_ANNOTATION, MANAGED_BY, MANAGED_LABEL};
use assay_api::{PageCacheState, PodEvidenceStatus, TuningTrial};
use assay_core::attempt::pass;
use assay_core::cluster;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::ended;
use super::node_lease;
use super::observe::UnderWay;
use super::stores::touched;
use super::{Reconcile, refusals};
use crate::error::Error;
use crate::lease::{Asked, Leases};
use crate::lock::locked;
use crate::watch::{Part, Wiring};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of this, what it takes an answer to be heard of.
const HEARD: Duration = Duration::from_secs(1);
/// How long an agent is believed to be there that is not heard of. It says so each minute.
const THERE: Duration = Duration::from_secs(assay_api::agent::LEASE_SECONDS as u64);

/// How long a node counts as prepared, and counters as those of a trial that has ended.
const SOON: Duration = Duration::from_mins(1);

/// The Leases that agents answer in.
pub struct Agents {
    namespace: String,
    leases: Leases,
    store: Store<Lease>,
    /// What was asked last of the agent of each node, and when.
    asked: Mutex<HashMap<String, (AttemptKey, bool, Instant)>>,
}

impl Agents {
    pub fn watch(wiring: &Wiring, namespace: &str) -> Self {
        let ours = watcher::Config::default().labels(&format!("{MANAGED_LABEL}={MANAGED_BY}"));
        let leases = Leases::new(&wiring.client, namespace, THERE, Arc::clone(&wiring.clock));
        let sighted = leases.clone();
        // From when it changed, and not from when somebody asks.
        let saw = move |lease: &Lease| {
            sighted.unchanged_for(lease);
        };
        // A Lease that is renewed, as each is every minute, touches nobody.
        let part = Part { matters: Some(matters), saw: Some(Box::new(saw)), ..Part::all() };
        let store = wiring.reflect_part(wiring.api(Some(namespace)), ours, part, |lease: &Lease| {
            let attempt = answer_in(lease)?.attempt;
            Some(touched((attempt.namespace, attempt.experiment)))
        });
        Self { namespace: namespace.to_owned(), leases, store, asked: Mutex::default() }
    }

    pub async fn wait_until_ready(&self) -> Result<(), kube::runtime::reflector::store::WriterDropped> {
        self.store.wait_until_ready().await
    }

    /// Forgets nodes that are gone.
    pub fn prune(&self, is_there: impl Fn(&str) -> bool) {
        locked(&self.asked).retain(|node, _| is_there(node));
        self.leases.prune(&self.store.state());
    }

    fn lease(&self, node: &str) -> Option<Arc<Lease>> {
        self.store.get(&ObjectRef::new(&format!("{AGENT_LEASE_PREFIX}{node}")).within(&self.namespace))
    }

    /// The answer about exactly this attempt.
    fn answer(&self, node: &str, attempt: &AttemptKey) -> Option<AgentAnswer> {
        answer_in(&*self.lease(node)?).filter(|answer| answer.attempt == *attempt)
    }

    fn is_there(&self, node: &str) -> bool {
        self.lease(node).is_some_and(|lease| self.leases.holder_of(&lease).is_some())
    }
}

/// What of an agent's Lease is news.
fn matters(lease: &Lease) -> Value {
    json!([lease.metadata.uid, lease.annotations().get(ANSWER_ANNOTATION)])
}

fn answer_in(lease: &Lease) -> Option<AgentAnswer> {
    serde_json::from_str(lease.annotations().get(ANSWER_ANNOTATION)?).ok()
}

/// Whether an attempt may begin: once its node is prepared, or its agent has had the time for it.
pub async fn is_prepared(reconcile: &Reconcile<'_>, trial: &TuningTrial, attempt: u32) -> Result<bool, Error> {
    let Some(agents) = &reconcile.context.agents else { return Ok(true) };
    let (key, node) = (key(reconcile, trial, attempt), trial.spec.node.as_str());
    if agents.answer(node, &key).is_some() {
        return Ok(true);
    }
    let block = format!("{}/{}/{}/{}", reconcile.uid, trial.spec.scenario, trial.spec.block, pass(attempt));
    let until = reconcile.cluster().clock.time() + PATIENCE.saturating_sub(HEARD);
    let until_unix_ms = until.as_millisecond().max(0) as u64;
    let may_answer = ask(reconcile, agents, node, key, AgentPhase::Begin { block, until_unix_ms }).await?;
    Ok(!may_answer)
}

/// What the agent of its node says about an attempt that has ended; `None` while it may yet say it.
pub async fn seen(
    reconcile: &Reconcile<'_>,
    found: &UnderWay,
    cpus: Option<String>,
) -> Result<Option<PodEvidenceStatus>, Error> {
    let Some(agents) = &reconcile.context.agents else { return Ok(Some(PodEvidenceStatus::default())) };
    let (key, node) = (key(reconcile, &found.trial, found.attempt), found.node());
    // Whoever knows nothing of the beginning can't tell what happened since.
    let Some(answer) = agents.answer(node, &key) else { return Ok(Some(PodEvidenceStatus::default())) };
    let cpus = cpus.filter(|cpus| cpus.len() <= assay_api::bounds::CPU_LIST);
    if answer.seen.is_none() && ask(reconcile, agents, node, key, AgentPhase::End { cpus }).await? {
        return Ok(None);
    }
    if !is_prepared_for(&answer, &found.pod) {
        info!(
            node,
            pod = found.pod.name_any(),
            "did not start within {} s after its node was prepared: ignoring the agent's evidence",
            SOON.as_secs()
        );
        return Ok(Some(PodEvidenceStatus::default()));
    }
    let page_cache = match answer.page_cache {
        Done::Yes => PageCacheState::Dropped,
        Done::No(_) => PageCacheState::Kept,
    };
    let is_counted = answer.seen.as_ref().is_some_and(|seen| is_counted_for(seen, &found.pod));
    if answer.seen.is_some() && !is_counted {
        info!(node, pod = found.pod.name_any(), "ended long before the agent was asked: ignoring the agent's counters");
    }
    let seen = answer.seen.unwrap_or_default();
    // What a status has no room for would keep it from being written.
    let count = |count: Option<u64>| count.filter(|&count| is_counted && i64::try_from(count).is_ok());
    Ok(Some(PodEvidenceStatus {
        page_cache: Some(page_cache),
        cpu_ids: seen.cpu_ids.filter(|cpus| cpus.len() <= assay_api::bounds::CPU_LIST),
        throttle_events: count(seen.throttle_events),
        device_interrupts: count(seen.device_interrupts),
        ..PodEvidenceStatus::default()
    }))
}

/// Whether a pod began soon after its node was prepared: it may have waited in a queue or for a quota, or the agent may have come too
/// late. All times are of the node's clock.
fn is_prepared_for(answer: &AgentAnswer, pod: &Pod) -> bool {
    let began = ended::terminated(pod).and_then(|ended| ended.started_at.as_ref());
    began.is_some_and(|began| is_soon(began.0.as_millisecond().saturating_sub(answer.prepared_unix_ms.cast_signed())))
}

/// Whether counters were read soon after a pod had ended, and not when others had run as well.
fn is_counted_for(seen: &AgentSeen, pod: &Pod) -> bool {
    let ended = ended::terminated(pod).and_then(|ended| ended.finished_at.as_ref());
    ended.is_some_and(|ended| is_soon(seen.at_unix_ms.cast_signed().saturating_sub(ended.0.as_millisecond())))
}

/// Whether what came so many milliseconds later came soon. The kubelet's times are of whole seconds.
fn is_soon(after_ms: i64) -> bool {
    (-1000..SOON.as_millis() as i64).contains(&after_ms)
}

fn key(reconcile: &Reconcile<'_>, trial: &TuningTrial, attempt: u32) -> AttemptKey {
    AttemptKey {
        namespace: reconcile.namespace.clone(),
        experiment: reconcile.name.clone(),
        pod: cluster::pod_name(&trial.name_any(), attempt),
        trial: trial.uid().unwrap_or_default(),
        refusals: refusals(trial),
    }
}

/// Asks the agent of a node, once; whether there is an answer to wait for.
async fn ask(
    reconcile: &Reconcile<'_>,
    agents: &Agents,
    node: &str,
    attempt: AttemptKey,
    phase: AgentPhase,
) -> Result<bool, Error> {
    let is_end = matches!(phase, AgentPhase::End { .. });
    let asked =
        locked(&agents.asked).get(node).filter(|asked| (&asked.0, asked.1) == (&attempt, is_end)).map(|asked| asked.2);
    let waited = if let Some(asked) = asked {
        reconcile.elapsed(asked)
    } else {
        if !agents.is_there(node) {
            info!(node, pod = attempt.pod, "the node has no agent: its evidence is missing");
            return Ok(false);
        }
        let Some(lease) = node_lease::ours(reconcile, node) else { return Ok(false) };
        let request = serde_json::to_string(&AgentRequest { attempt: attempt.clone(), phase })?;
        if let Asked::Taken(_) = reconcile.cluster().leases.ask_agent(&lease, request).await? {
            reconcile.wake_in(Duration::from_secs(1));
            return Ok(true);
        }
        locked(&agents.asked).insert(node.to_owned(), (attempt.clone(), is_end, reconcile.instant()));
        Duration::ZERO
    };
    if waited >= PATIENCE {
        warn!(
            node,
            pod = attempt.pod,
            "the node's agent did not answer within {} s: its evidence is missing",
            PATIENCE.as_secs()
        );
        return Ok(false);
    }
    reconcile.wake_in(PATIENCE.saturating_sub(waited));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_still_there_is_no_news() {
        let news = |answer: &str, renewed: u8| {
            let lease = json!({
                "metadata": {"name": "a", "annotations": {ANSWER_ANNOTATION: answer}},
                "spec": {"renewTime": format!("2026-11-28T00:0{renewed}:00.000000Z")},
            });
            matters(&serde_json::from_value(lease).unwrap_or_else(|error| unreachable!("{error}")))
        };
        assert_eq!(news("1", 0), news("1", 1), "it was renewed");
        assert_ne!(news("1", 1), news("2", 1));
    }

    #[test]
    fn what_was_seen_long_before_or_after_a_pod_is_not_about_it() {
        let answer = |prepared_unix_ms: u64| {
            let attempt = json!({"namespace": "n", "experiment": "e", "pod": "p", "trial": "t", "refusals": 0});
            serde_json::from_value::<AgentAnswer>(json!({
                "attempt": attempt,
                "pageCache": "yes",
                "preparedUnixMs": prepared_unix_ms,
                "before": {"throttled": {}, "interrupts": {}},
            }))
            .unwrap_or_else(|error| unreachable!("{error}"))
        };
        let pod = |state: Value| {
            let container =
                json!({"name": "bench", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
            serde_json::from_value::<Pod>(json!({"status": {"containerStatuses": [container]}}))
                .unwrap_or_else(|error| unreachable!("{error}"))
        };
        let ended = pod(json!({"terminated": {
            "exitCode": 0, "startedAt": "1970-01-01T00:10:00Z", "finishedAt": "1970-01-01T00:12:00Z",
        }}));
        assert!(is_prepared_for(&answer(595_000), &ended));
        // Whole seconds: it seems to have begun before.
        assert!(is_prepared_for(&answer(600_400), &ended));
        assert!(!is_prepared_for(&answer(530_000), &ended), "it waited");
        assert!(!is_prepared_for(&answer(602_000), &ended), "it was under way already");
        let seen = |at_unix_ms| AgentSeen { at_unix_ms, ..AgentSeen::default() };
        assert!(is_counted_for(&seen(722_000), &ended));
        assert!(!is_counted_for(&seen(800_000), &ended), "others may have run since");
        let unknown = pod(json!({"terminated": {"exitCode": 0}}));
        assert!(!is_prepared_for(&answer(595_000), &unknown) && !is_counted_for(&seen(722_000), &unknown));
    }
}
