//! What all controllers share: the way to the cluster, and what is known of its nodes. Nothing in here is needed after a restart.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use assay_api::TuningExperiment;
use assay_api::names::{HOLDER_ANNOTATION, MANAGED_BY, MANAGED_LABEL};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerImage, Node, ObjectReference};
use kube::api::ListParams;
use kube::runtime::events::EventType;
use kube::runtime::reflector::Store;
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
use crate::logs::Logs;
use crate::nodes::Nodes;
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
    pub nodes: Nodes,
    pub node_leases: Store<Lease>,
    pub leases: Leases,
    events: Events,
}

impl Cluster {
    /// Begins to watch nodes and who holds them.
    pub fn watch(wiring: &Wiring, args: Args, kubelets: Kubelets, webhooks: Webhooks) -> Self {
        let client = &wiring.client;
        let nodes = Nodes::watch(wiring);
        let ours = watcher::Config::default().labels(&format!("{MANAGED_LABEL}={MANAGED_BY}"));
        let leases = wiring.api(Some(args.node_lease_namespace()));
        // Who waits for a node need not know which of the others has got it.
        let node_leases = wiring.reflect_part(leases, ours, PART_OF_LEASE, |lease: &Lease| {
            let (namespace, name, _) = noted(lease)?;
            Some(Touched::one::<TuningExperiment>(namespace.to_owned(), name.to_owned()))
        });
        Self {
            http: Http::new(),
            kubelets,
            webhooks,
            logs: Logs::new(&wiring.clock, &wiring.tell()),
            leases: Leases::new(client, args.node_lease_namespace(), NODE_LEASE, Arc::clone(&wiring.clock)),
            events: Events::new(client, &args.identity, Arc::clone(&wiring.clock)),
            client: client.clone(),
            args,
            clock: Arc::clone(&wiring.clock),
            nodes,
            node_leases,
        }
    }

    pub async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.nodes.wait_until_ready().await?;
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
}

/// That a Lease was renewed touches nobody: that it was not is seen by whoever looks at it.
const PART_OF_LEASE: Part<Lease> = Part {
    parts: Vec::new(),
    slim: |_| (),
    matters: Some(|lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
        json!([lease.metadata.uid, holder, lease.annotations().get(HOLDER_ANNOTATION)])
    }),
    gone: Some(|lease| Some(Touched::Freed(node_of(lease)?.to_owned()))),
    saw: None,
};
