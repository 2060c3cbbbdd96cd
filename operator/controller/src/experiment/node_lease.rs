//! Who holds a node: one experiment at a time, of whatever namespace and operator.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_api::names::NODE_LEASE_PREFIX;
use assay_api::{TuningExperiment, TuningTrial};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use super::context::Context;
use super::memory::{Memory, Shared, experiment_of};
use super::observe::{attempt, is_written};
use super::{Reconcile, ended, is_finished, share};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::lease::{Asked, Holding, noted};
use crate::pod::target;

/// How old a lease is when it is renewed at the latest: looked at every five seconds, that is before half of what it lasts.
pub const RENEW: Duration = Duration::from_secs(70);

/// When a node that somebody else was faster to take is looked at again: that may have come to nothing.
pub const AGAIN: Duration = Duration::from_secs(1);

/// How often a node is handed over in a row. Then it is given back to all: another operator hears of no other moment to take it.
const IN_A_ROW: i32 = 9;

fn name(node: &str) -> String {
    format!("{NODE_LEASE_PREFIX}{node}")
}

fn find(cluster: &Cluster, node: &str) -> Option<Arc<Lease>> {
    let name = name(node);
    let watched = cluster.node_leases.get(&ObjectRef::new(&name).within(cluster.args.node_lease_namespace()));
    cluster.leases.newest(&name, watched)
}

/// The Lease of a node that this experiment holds.
pub fn ours(reconcile: &Reconcile<'_>, node: &str) -> Option<Arc<Lease>> {
    find(reconcile.cluster(), node).filter(|lease| is_ours(reconcile, lease))
}

/// Whether an experiment holds a node.
pub fn is_of(cluster: &Cluster, node: &str, experiment: &TuningExperiment) -> bool {
    find(cluster, node).is_some_and(|lease| is_noted(&lease, experiment))
}

fn is_noted(lease: &Lease, experiment: &TuningExperiment) -> bool {
    noted(lease).is_some_and(|(.., uid)| experiment.metadata.uid.as_deref() == Some(uid))
}

/// What the Lease of a node says of the experiment that holds it: in words, and in full.
fn said_of(experiment: &TuningExperiment) -> (String, String) {
    let holder = format!("{}/{}", experiment.namespace().unwrap_or_default(), experiment.name_any());
    let note = format!("{holder}/{}", experiment.uid().unwrap_or_default());
    (holder, note)
}

fn is_ours(reconcile: &Reconcile<'_>, lease: &Lease) -> bool {
    is_noted(lease, reconcile.experiment)
}

/// Who else holds a node.
pub fn other_holder(reconcile: &Reconcile<'_>, node: &str) -> Option<String> {
    let lease = find(reconcile.cluster(), node)?;
    let holder = reconcile.cluster().leases.holder_of(&lease)?;
    (!is_ours(reconcile, &lease)).then(|| holder.to_owned())
}

/// Who else runs something on a node, whoever holds it: somebody may have deleted its Lease, or it has run out.
pub fn other_user(reconcile: &Reconcile<'_>, node: &str) -> Option<String> {
    user(reconcile, &others_unseen(reconcile), node)
}

/// The same, given the pods of others that no watch has told of yet.
pub fn user(reconcile: &Reconcile<'_>, unseen: &[Arc<Pod>], node: &str) -> Option<String> {
    let unseen = unseen.iter().filter(|pod| target(pod) == Some(node)).cloned();
    let mut users =
        reconcile.context.pods_on(node).chain(unseen).filter_map(|pod| experiment_of(&pod).map(|of| (of, pod)));
    users.find_map(|((namespace, name), pod)| {
        let is_namesake = (&namespace, &name) == (&reconcile.namespace, &reconcile.name);
        if is_namesake && reconcile.has_begun(&pod) {
            return None;
        }
        Some(format!("{}{namespace}/{name}", if is_namesake { "an earlier " } else { "" }))
    })
}

/// The pods of others that use a node, and of which no watch has told yet.
pub fn others_unseen(reconcile: &Reconcile<'_>) -> Vec<Arc<Pod>> {
    let now = reconcile.instant();
    let others = reconcile.context.memories.others_and_former(reconcile.experiment);
    let unseen = |memory: &Shared| -> Vec<Arc<Pod>> {
        memory.lock().pods.unseen(now).filter(|pod| ended::uses_node(pod)).cloned().collect()
    };
    others.iter().flat_map(unseen).collect()
}

/// The Leases that have to be kept, and for how long each has not been renewed, the oldest first.
pub fn kept(context: &Context) -> Vec<(Duration, Arc<Lease>)> {
    let (cluster, aside) = (&context.cluster, context.memories.aside());
    let leases = &cluster.leases;
    let of_pods = context.all_pods().into_iter().filter_map(|pod| {
        let trial = context.trial_of(&pod)?;
        if !keeps(&pod, &trial, experiment_of(&pod).is_some_and(|of| aside.contains(&of))) {
            return None;
        }
        let node = target(&pod).unwrap_or(&trial.spec.node);
        let lease = find(cluster, node)?;
        let (.., uid) = noted(&lease)?;
        let is_its = trial.owner_references().iter().any(|owner| owner.uid == uid);
        is_its.then_some(lease)
    });
    // Between two trials there is no pod, and where many have ended that takes as long as they do. Once: whoever begins no other gives it up.
    let used = cluster.node_leases.state().into_iter().filter_map(|lease| {
        let lease = leases.newest(&lease.name_any(), Some(lease)).filter(|lease| leases.is_used(lease))?;
        let (namespace, name, _) = noted(&lease)?;
        (!aside.contains(&(namespace.to_owned(), name.to_owned()))).then_some(lease)
    });
    let by_name: BTreeMap<String, Arc<Lease>> = of_pods.chain(used).map(|lease| (lease.name_any(), lease)).collect();
    let age = |lease: &Lease| leases.renewed_for(lease).unwrap_or(Duration::MAX);
    let mut kept: Vec<_> = by_name.into_values().map(|lease| (age(&lease), lease)).collect();
    kept.sort_by_key(|(age, _)| Reverse(*age));
    kept
}

/// Whether the node of a pod is kept for it: something runs there, or its end is not written down yet, which may take long where many have
/// ended. That of an experiment that does not go on is not waited for, and what waits in a queue has no node to keep.
fn keeps(pod: &Pod, trial: &TuningTrial, is_aside: bool) -> bool {
    if ended::ended(pod).is_none() {
        return ended::gate(pod).is_none();
    }
    !is_aside && attempt(pod).is_some_and(|attempt| !is_written(trial, attempt))
}

/// Takes a node, unless this experiment has it; the answer is who else has it.
pub async fn hold(reconcile: &Reconcile<'_>, node: &str) -> Result<Option<String>, Error> {
    hold_since(reconcile, node, Duration::MAX).await
}

/// The same where something is to begin now: who renews may see nothing of trials that are shorter than the pauses in which it looks.
pub async fn take(reconcile: &Reconcile<'_>, node: &str) -> Result<Option<String>, Error> {
    let other = hold_since(reconcile, node, RENEW).await?;
    if other.is_none()
        && let Some(lease) = ours(reconcile, node)
    {
        reconcile.cluster().leases.uses(&lease);
    }
    Ok(other)
}

async fn hold_since(reconcile: &Reconcile<'_>, node: &str, most: Duration) -> Result<Option<String>, Error> {
    let leases = &reconcile.cluster().leases;
    let known = find(reconcile.cluster(), node);
    if let Some(known) = &known
        && is_ours(reconcile, known)
        && leases.holder_of(known).is_some()
        && !leases.is_doubted(known)
        && leases.unchanged_for(known) < most
    {
        return Ok(None);
    }
    let (holder, note) = said_of(reconcile.experiment);
    match leases.ask(&name(node), &holder, &note, known.as_deref()).await? {
        Asked::Held(_) => Ok(None),
        Asked::Taken(other) => {
            reconcile.wake_in(AGAIN);
            Ok(Some(other))
        }
    }
}

/// Gives a node to the experiment that has waited for it longest of those that hold fewer nodes, or of all. That is one write, where two are
/// needed if it is given back to all, and none of the others tries in vain.
pub async fn hand_over(reconcile: &Reconcile<'_>, node: &str) -> Result<(), Error> {
    let Some(lease) = ours(reconcile, node) else { return Ok(()) };
    let handed = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let leases = &reconcile.cluster().leases;
    match next(reconcile, node).filter(|_| handed < IN_A_ROW) {
        Some(next) => {
            let (holder, note) = said_of(&next);
            let memory = reconcile.context.memories.of(&next);
            // Said first: the write wakes it. It may have given up this very node a moment ago.
            {
                let mut memory = memory.lock();
                memory.given.insert(node.to_owned());
                memory.yielded.remove(node);
            }
            let passed = leases.pass_on(&lease, &holder, &note).await;
            if !matches!(passed, Ok(Asked::Held(_))) {
                memory.lock().given.remove(node);
            }
            passed.map(drop)
        }
        None => leases.release(&lease).await,
    }
}

/// Who waits for a node and is to have it next. Where the nodes of a namespace are limited, they are counted when it takes one.
fn next(reconcile: &Reconcile<'_>, node: &str) -> Option<Arc<TuningExperiment>> {
    let (context, cluster) = (reconcile.context, reconcile.cluster());
    let is_counted = |namespace: Option<&str>| share::most_of(cluster, namespace.unwrap_or_default()).is_some();
    if is_counted(Some(&reconcile.namespace)) {
        return None;
    }
    let mut others = context.all_experiments();
    others.retain(|other| {
        let metadata = &other.metadata;
        metadata.uid.as_deref() != Some(&reconcile.uid)
            && metadata.deletion_timestamp.is_none()
            && other.spec.suspend != Some(true)
            && !is_finished(other)
            && cluster.nodes.matches(node, &other.spec.placement)
    });
    let (memories, now) = (&context.memories, reconcile.instant());
    let leases = all(cluster);
    let holds = holds(&leases, now);
    let own = holds(&reconcile.uid);
    let waits = |_: &TuningExperiment, memory: &Memory| memory.waits_for.contains(node);
    let is_poorer = |one: &TuningExperiment, memory: &Memory| {
        waits(one, memory) && (memory.bound_to.contains(node) || holds(&one.uid().unwrap_or_default()) < own)
    };
    let poorer = memories.next_in_line(others.clone(), is_poorer, 1, now).pop();
    let next = poorer.or_else(|| memories.next_in_line(others, waits, 1, now).pop());
    next.filter(|next| !is_counted(next.namespace().as_deref()))
}

/// Gives a node back.
pub async fn release(reconcile: &Reconcile<'_>, node: &str) -> Result<(), Error> {
    match ours(reconcile, node) {
        Some(lease) => reconcile.cluster().leases.release(&lease).await,
        None => Ok(()),
    }
}

/// All Leases of nodes as they are known best, in the order of their nodes.
pub fn all(cluster: &Cluster) -> Arc<[Holding]> {
    cluster.leases.all(cluster.node_leases.state())
}

/// Every node that this experiment holds, in the order of their names.
pub fn held(reconcile: &Reconcile<'_>) -> Vec<String> {
    held_of(reconcile, &all(reconcile.cluster()))
}

/// The nodes of these Leases that this experiment holds, in the order of their names.
pub fn held_of(reconcile: &Reconcile<'_>, leases: &[Holding]) -> Vec<String> {
    leases.iter().filter(|lease| lease.is_of(&reconcile.uid)).map(|lease| lease.node.to_string()).collect()
}

/// Every node that an experiment of a namespace holds.
pub fn held_in(cluster: &Cluster, namespace: &str) -> BTreeSet<String> {
    let (leases, now) = (all(cluster), cluster.clock.instant());
    let held = leases.iter().filter(|lease| lease.holder(now).is_some() && lease.is_in(namespace));
    held.map(|lease| lease.node.to_string()).collect()
}

/// How many nodes the experiment with a uid holds. A Lease that has run out, be it of a node that is gone, is of no use to anybody.
pub fn holds(leases: &[Holding], now: Instant) -> impl Fn(&str) -> usize {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for uid in leases.iter().filter(|lease| lease.holder(now).is_some()).filter_map(Holding::of) {
        *counts.entry(uid).or_default() += 1;
    }
    move |uid| counts.get(uid).copied().unwrap_or_default()
}

/// Those of these nodes that somebody else would like to have, and how many the one of them holds that holds fewest.
pub fn wanted(reconcile: &Reconcile<'_>, leases: &[Holding], nodes: &[String]) -> HashMap<String, usize> {
    if nodes.is_empty() {
        return HashMap::new();
    }
    let holds = holds(leases, reconcile.instant());
    reconcile.context.memories.others_wait_for(reconcile.experiment, nodes, holds)
}

#[cfg(test)]
mod tests {
    use assay_api::names::{ATTEMPT_LABEL, HOLDER_ANNOTATION, NODE_GATE};
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;
    use crate::http::testing::server;
    use crate::lease::Leases;

    #[tokio::test]
    async fn a_lease_that_has_run_out_is_no_node_that_is_held() {
        let clock = Manual::new();
        let leases = Leases::new(&server(200).0, "here", Duration::from_mins(3), Arc::clone(&clock) as _);
        let lease = |node: &str, version: &str| -> Arc<Lease> {
            let lease = json!({
                "metadata": {"name": name(node), "resourceVersion": version, "annotations": {HOLDER_ANNOTATION: "ns/e/uid"}},
                "spec": {"holderIdentity": "ns/e"},
            });
            Arc::new(serde_json::from_value(lease).expect("a lease"))
        };
        let held = |leases: &[Holding]| ["uid", "another"].map(|uid| holds(leases, clock.instant())(uid));
        assert_eq!(held(&leases.all(vec![lease("n1", "1"), lease("n2", "2")])), [2, 0]);
        clock.pass(Duration::from_mins(2));
        let renewed = leases.all(vec![lease("n1", "1"), lease("n2", "3")]);
        assert_eq!(held(&renewed), [2, 0]);
        clock.pass(Duration::from_mins(1));
        assert_eq!(held(&renewed), [1, 0], "nobody renewed it, be it that its node is gone");
    }

    #[test]
    fn a_node_is_kept_until_the_end_of_its_pod_is_written_down() {
        let pod = |phase: &str| -> Pod {
            let (phase, gates) = match phase {
                "Gated" => ("Pending", json!([{"name": NODE_GATE}])),
                phase => (phase, Value::Null),
            };
            let pod = json!({
                "metadata": {"name": "p", "labels": {ATTEMPT_LABEL: "1"}},
                "spec": {"containers": [], "schedulingGates": gates}, "status": {"phase": phase},
            });
            serde_json::from_value(pod).expect("a pod")
        };
        let trial = |written: &[u32]| -> TuningTrial {
            let attempts: Vec<Value> =
                written.iter().map(|attempt| json!({"attempt": attempt, "outcome": "Lost"})).collect();
            let trial = json!({
                "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial", "metadata": {"name": "t"},
                "spec": {"experiment": "e", "plan": "p", "scenario": "s", "block": 0, "config": "c", "replicate": 0,
                    "order": 0, "seed": 0, "node": "n"},
                "status": {"attempts": attempts},
            });
            serde_json::from_value(trial).expect("a trial")
        };
        for (phase, written, is_aside, expected) in [
            ("Running", &[][..], false, true),
            ("Pending", &[], false, true),
            ("Running", &[], true, true),
            ("Gated", &[], false, false),
            ("Succeeded", &[], false, true),
            ("Succeeded", &[0], false, true),
            ("Succeeded", &[0, 1], false, false),
            ("Failed", &[], true, false),
        ] {
            let known = keeps(&pod(phase), &trial(written), is_aside);
            assert_eq!(known, expected, "{phase} {written:?} {is_aside}");
        }
    }
}
