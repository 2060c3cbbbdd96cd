//! What all controllers share: the way to the cluster, and what is known of its nodes. Nothing in here is needed after a restart.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use assay_api::names::{HOLDER_ANNOTATION, MANAGED_BY, MANAGED_LABEL};
use assay_api::{Placement, TuningExperiment};
use assay_core::node;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerImage, Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::runtime::events::EventType;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::json;
use tracing::warn;

use crate::args::Args;
use crate::clock::SharedClock;
use crate::error::{Error, call};
use crate::events::{Events, Saying};
use crate::http::Http;
use crate::kubelet::Kubelets;
use crate::lease::{Leases, node_of, noted};
use crate::lock::locked;
use crate::logs::Logs;
use crate::watch::{Part, Touched, Wiring};
use crate::webhook::Webhooks;

/// How long a node stays with an operator that is not heard of.
const NODE_LEASE: Duration = Duration::from_mins(3);

pub struct Cluster {
    pub client: Client,
    pub args: Args,
    pub clock: SharedClock,
    pub http: Http,
    pub kubelets: Kubelets,
    pub webhooks: Webhooks,
    pub logs: Logs,
    pub nodes: Store<Node>,
    pub node_leases: Store<Lease>,
    pub leases: Leases,
    events: Events,
    /// Since when each node that is not ready was seen to be so.
    silent: Mutex<Silences>,
}

/// Nodes that are not ready, by name.
#[derive(Default)]
struct Silences(HashMap<String, Silence>);

struct Silence {
    /// When it began, by whoever's clock wrote it: another time is another silence, and says nothing else.
    said: Option<Time>,
    seen: Instant,
}

impl Silences {
    fn since(&mut self, node: &Node, now: Instant) -> Option<Instant> {
        let name = node.name_any();
        let Some(said) = node::silent_since(node) else {
            self.0.remove(&name);
            return None;
        };
        let new = || Silence { said: said.cloned(), seen: now };
        let known = self.0.entry(name).or_insert_with(new);
        if known.said.as_ref() != said {
            *known = new();
        }
        Some(known.seen)
    }
}

impl Cluster {
    /// Begins to watch nodes and who holds them.
    pub fn watch(wiring: &Wiring, args: Args, kubelets: Kubelets, webhooks: Webhooks) -> Self {
        let client = &wiring.client;
        let touched = |node: &Node| Some(Touched::Node(node.name_any()));
        let nodes = wiring.reflect_part(Api::all(client.clone()), watcher::Config::default(), PART_OF_NODE, touched);
        let ours = watcher::Config::default().labels(&format!("{MANAGED_LABEL}={MANAGED_BY}"));
        let leases = Api::namespaced(client.clone(), args.node_lease_namespace());
        // Who waits for a node need not know which of the others has got it.
        let node_leases = wiring.reflect_part(leases, ours, PART_OF_LEASE, |lease: &Lease| {
            let (namespace, name, _) = noted(lease)?;
            Some(Touched::one::<TuningExperiment>(namespace.to_owned(), name.to_owned()))
        });
        Self {
            http: Http::new(),
            kubelets,
            webhooks,
            logs: Logs::new(),
            leases: Leases::new(client, args.node_lease_namespace(), NODE_LEASE, Arc::clone(&wiring.clock)),
            events: Events::new(client, &args.identity, Arc::clone(&wiring.clock)),
            client: client.clone(),
            args,
            clock: Arc::clone(&wiring.clock),
            nodes,
            node_leases,
            silent: Mutex::default(),
        }
    }

    pub async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.nodes.wait_until_ready().await.context("can't watch nodes")?;
        self.node_leases.wait_until_ready().await.context("can't watch leases")
    }

    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The images that a node has, by all their names. They are asked for rarely, and too many to be kept.
    pub async fn images_on(&self, node: &str) -> Result<Vec<ContainerImage>, Error> {
        let only = ListParams::default().fields(&format!("metadata.name={node}"));
        let found = call(Api::<Node>::all(self.client.clone()).list(&only)).await?.items.pop();
        Ok(found.and_then(|node| node.status?.images).unwrap_or_default())
    }

    /// Whether trials with this placement may run on a node, as far as its labels say. One that is gone concerns everybody.
    pub fn matches(&self, node: &str, placement: &Placement) -> bool {
        let Some(node) = self.nodes.get(&ObjectRef::new(node)) else { return true };
        placement.node_selector.iter().all(|(key, value)| node.labels().get(key) == Some(value))
    }

    /// For how long we have seen that a node is not ready; `None` where it is.
    pub fn silent_for(&self, node: &Node) -> Option<Duration> {
        let since = locked(&self.silent).since(node, self.clock.instant());
        since.map(|since| self.clock.since(since))
    }

    /// Publishes an event. Best effort: the status says everything as well.
    pub async fn publish(
        &self,
        about: &ObjectReference,
        related: Option<ObjectReference>,
        type_: EventType,
        reason: &str,
        note: &str,
    ) {
        let note = assay_core::status::shorten(note, 1000);
        if let Err(error) = self.events.publish(&Saying { about, related, type_, reason, note }).await {
            warn!(%error, "can't write an event");
        }
    }

    /// Forgets nodes that are gone.
    pub fn prune(&self) {
        let nodes: HashSet<String> = self.nodes.state().iter().map(|node| node.name_any()).collect();
        locked(&self.silent).0.retain(|node, _| nodes.contains(node));
    }
}

/// Without what takes most of the space of a node and nobody asks for. A node says again and again that it is alive.
const PART_OF_NODE: Part<Node> = Part {
    parts: None,
    slim: |node| {
        if let Some(status) = &mut node.status {
            (status.images, status.volumes_attached, status.volumes_in_use) = (None, None, None);
            for condition in status.conditions.iter_mut().flatten() {
                condition.last_heartbeat_time = None;
            }
        }
        node.metadata.annotations = None;
    },
    matters: Some(|node| json!([node.metadata.labels, node.metadata.uid, node.spec, node.status])),
    gone: None,
};

/// That a Lease was renewed touches nobody: that it was not is seen by whoever looks at it.
const PART_OF_LEASE: Part<Lease> = Part {
    parts: None,
    slim: |_| (),
    matters: Some(|lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
        json!([lease.metadata.uid, holder, lease.annotations().get(HOLDER_ANNOTATION)])
    }),
    gone: Some(|lease| Some(Touched::Freed(node_of(lease)?.to_owned()))),
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;

    #[test]
    fn a_silence_is_as_long_as_it_is_seen() {
        let node = |status: &str, said: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": said}]}}))
            .unwrap_or_else(|error| unreachable!("{error}"))
        };
        let begin = Manual::new().instant();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut silences = Silences::default();
        // Whatever clock the node has: long ago, or not yet.
        for said in ["1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z"] {
            assert_eq!(silences.since(&node("Unknown", said), at(10)), Some(at(10)), "{said}");
            assert_eq!(silences.since(&node("Unknown", said), at(70)), Some(at(10)), "{said}");
        }
        assert_eq!(silences.since(&node("True", "2100-01-01T00:00:00Z"), at(80)), None);
        assert_eq!(silences.since(&node("Unknown", "2100-01-01T00:00:00Z"), at(90)), Some(at(90)));
        // It was ready meanwhile, which was not seen.
        assert_eq!(silences.since(&node("Unknown", "2100-01-01T00:01:00Z"), at(100)), Some(at(100)));
    }
}
