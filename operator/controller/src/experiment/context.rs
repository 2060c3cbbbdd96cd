//! What the reconciles of experiments share.

use std::sync::Arc;

use assay_api::{TuningExperiment, TuningTrial};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;

use super::agent::Agents;
use super::memory::Memories;
use super::metrics::Metrics;
use super::stores::Stores;
use crate::cluster::Cluster;
use crate::watch::{Scope, Wiring};

pub struct Context {
    pub cluster: Arc<Cluster>,
    /// Where experiments can be seen: in these namespaces, or in all where none is named.
    pub namespaces: Vec<String>,
    pub experiments: Vec<Store<TuningExperiment>>,
    pub trials: Vec<Store<TuningTrial>>,
    pub pods: Vec<Store<Pod>>,
    /// Those of nodes, where there are any.
    pub agents: Option<Agents>,
    pub metrics: Metrics,
    pub memories: Memories,
}

impl Context {
    pub fn new(wiring: &Wiring, cluster: Arc<Cluster>, watched: Vec<Scope<Stores>>, agents: Option<Agents>) -> Self {
        let mut context = Self {
            // Whoever has a node in a namespace that we can't see is not gone.
            namespaces: watched.iter().filter_map(|one| one.namespace.clone()).collect(),
            experiments: Vec::new(),
            trials: Vec::new(),
            pods: Vec::new(),
            agents,
            metrics: Metrics::register(&wiring.metrics),
            memories: Memories::new(watched.iter().flat_map(|one| one.stores.pods.state()), wiring.clock.instant()),
            cluster,
        };
        for Scope { stores, .. } in watched {
            context.experiments.push(stores.experiments);
            context.trials.push(stores.trials);
            context.pods.push(stores.pods);
        }
        context
    }

    /// All experiments that the watches tell of.
    pub fn all_experiments(&self) -> Vec<Arc<TuningExperiment>> {
        self.experiments.iter().flat_map(Store::state).collect()
    }

    /// All pods that the watches tell of.
    pub fn all_pods(&self) -> Vec<Arc<Pod>> {
        self.pods.iter().flat_map(Store::state).collect()
    }

    /// Whether the watches tell of an experiment with this uid.
    pub fn knows(&self, uid: &str) -> bool {
        self.experiments.iter().any(|store| store.find(|experiment| experiment.uid().as_deref() == Some(uid)).is_some())
    }

    /// Forgets everything about experiments that are over or gone.
    pub fn prune(&self) {
        self.memories.prune(&self.all_experiments(), &self.all_pods());
        self.cluster.prune();
    }
}
