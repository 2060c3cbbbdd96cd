//! The nodes of a cluster: which can run trials, and what trials have seen of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use assay_api::{AttemptStatus, Placement, Time, names};
use assay_core::decide::fleet::NodeState;
use assay_core::node::{self, Needs, Room};
use assay_core::quantity;
use assay_protocol::{Evidence, TrialRecord};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::client::{Cluster, all, readable};
use super::errors::{Explain as _, words};
use super::records::unpacked;
use super::words::age;
use crate::machine::unix_ms;
use crate::print;
use crate::text::table;

/// Records that are read at the same time.
const AT_ONCE: usize = 16;

/// A node that is silent for less is waited for.
const PATIENCE: Duration = Duration::from_secs(node::PATIENCE_SECONDS as u64);

/// What the trials of a node have seen.
struct Seen {
    at: Option<Time>,
    policy: Option<String>,
    evidence: Option<Evidence>,
}

/// A table of all nodes, held against a placement.
pub async fn overview(cluster: &Cluster, placement: &Placement) -> anyhow::Result<String> {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let mut nodes = all(&nodes, ListParams::default()).await.explain("can't read the nodes")?;
    nodes.sort_by_key(kube::ResourceExt::name_any);
    let holders = holders(cluster).await;
    let seen = seen(cluster).await?;
    let needs = Needs::new(placement, PATIENCE);
    let now = Timestamp::now();
    let heads =
        ["node", "usable", "CPUs", "memory", "kernel", "held by", "CPU policy", "CPU", "governor", "disk", "seen"];
    let mut rows = vec![heads.map(ToOwned::to_owned).to_vec()];
    let mut reasons = String::new();
    for node in &nodes {
        let name = node.name_any();
        let of_node = seen.get(&name);
        let policy = of_node.and_then(|seen| seen.policy.as_deref());
        let (state, why) = match (
            node::judge(node, &Room::of(node), &needs, node::silent_for(node, now)),
            node::policy_problem(policy),
        ) {
            ((NodeState::Usable, _), Some(why)) => (NodeState::Gone, Some(why)),
            (judged, _) => judged,
        };
        if let Some(why) = why {
            // Writing to a string can't fail.
            let _ = writeln!(reasons, "{name} {why}");
        }
        let use_ = match state {
            NodeState::Usable => "yes",
            NodeState::Busy => "not now",
            NodeState::Gone => "no",
        };
        rows.push(row(node, use_, holders.get(&name).map(String::as_str), of_node));
    }
    let mut text = table(&rows);
    if !reasons.is_empty() {
        text.push_str("\nWhy not:\n");
        text.push_str(&reasons);
    }
    if seen.is_empty() {
        let _ = writeln!(
            text,
            "\nNo trial has run in namespace {} yet, so CPUs and disks are unknown. `assay aa --cluster FILE` runs an \
             A/A and also shows how noisy the nodes are.",
            cluster.namespace
        );
    }
    Ok(text)
}

fn row(node: &Node, use_: &str, holder: Option<&str>, seen: Option<&Seen>) -> Vec<String> {
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let evidence = seen.and_then(|seen| seen.evidence.as_ref());
    let kernel =
        node.status.as_ref().and_then(|status| status.node_info.as_ref()).map(|info| info.kernel_version.clone());
    let disk = evidence.map(|evidence| {
        let storage = &evidence.storage;
        let parts = [&storage.device, &storage.model, &storage.transport];
        parts
            .into_iter()
            .flatten()
            .map(|part| part.trim())
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    });
    let room = Room::of(node);
    vec![
        node.name_any(),
        use_.to_owned(),
        known(room.cpus.map(|cpus| cpus.to_string())),
        known(room.memory_bytes.map(quantity::display)),
        known(kernel),
        holder.unwrap_or("none").to_owned(),
        known(seen.and_then(|seen| seen.policy.clone())),
        known(evidence.and_then(|evidence| evidence.host.cpu_model.clone())),
        known(evidence.and_then(|evidence| evidence.host.governor.clone())),
        known(disk.filter(|disk| !disk.is_empty())),
        seen.map_or_else(|| "never".to_owned(), |seen| age(seen.at.as_ref(), unix_ms())),
    ]
}

/// Who has each node, by the Leases of all operators; nobody where they may not be read.
async fn holders(cluster: &Cluster) -> BTreeMap<String, String> {
    let leases: Api<Lease> = Api::all(cluster.client.clone());
    let ours = ListParams::default().labels(&format!("{}={}", names::MANAGED_LABEL, names::MANAGED_BY));
    match all(&leases, ours).await {
        Ok(found) => {
            let held = found.into_iter().filter_map(|lease| {
                let node = lease.name_any().strip_prefix(names::NODE_LEASE_PREFIX)?.to_owned();
                Some((node, lease.spec?.holder_identity?))
            });
            held.collect()
        }
        Err(error) => {
            print::note(format_args!("assay: can't tell who holds which node: {}", words(&error)));
            BTreeMap::new()
        }
    }
}

/// What the latest attempt on each node that left a record in this namespace has seen.
async fn seen(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, Seen>> {
    let trials = readable(cluster.all_trials().await?);
    let mut latest: BTreeMap<String, AttemptStatus> = BTreeMap::new();
    for attempt in trials.into_iter().filter_map(|trial| trial.status).flat_map(|status| status.attempts) {
        let Some(node) = attempt.node.clone().filter(|_| attempt.record.is_some()) else { continue };
        let is_newer = latest.get(&node).is_none_or(|known| known.completion_time < attempt.completion_time);
        if is_newer {
            latest.insert(node, attempt);
        }
    }
    let records = cluster.records();
    let seen = latest.into_iter().map(|(node, attempt)| {
        let records = &records;
        async move {
            let record = records.get(attempt.record.as_deref().unwrap_or_default()).await.ok();
            let json = record.and_then(|record| unpacked(&record).ok());
            let evidence = json.and_then(|json| TrialRecord::from_json(&json).ok()).map(|record| record.evidence);
            let policy = attempt.evidence.and_then(|evidence| evidence.cpu_manager_policy);
            (node, Seen { at: attempt.completion_time, policy, evidence })
        }
    });
    Ok(stream::iter(seen).buffer_unordered(AT_ONCE).collect().await)
}
