//! What the reconciles of experiments share.

use std::sync::Arc;

use assay_api::TuningExperiment;
use assay_api::names::TRIAL_LABEL;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::reflector::{ObjectRef, Store};

use super::agent::Agents;
use super::is_finished;
use super::memory::Memories;
use super::metrics::Metrics;
use super::share::Taking;
use super::stores::Stores;
use super::trial::Trial;
use crate::cluster::Cluster;
use crate::logs::Whose;
use crate::pod::is_owned;
use crate::watch::{Objects, Scope, Touched, Unreadable, Wiring};

/// What is said of an object that can't be read.
pub fn why_unreadable(what: &str, error: &str) -> String {
    format!("{} can't read {what}: {error}. Finish it with the version that wrote it", assay_core::PRODUCED_BY)
}

pub struct Context {
    pub cluster: Arc<Cluster>,
    /// Where experiments can be seen: in these namespaces, or in all where none is named.
    pub namespaces: Vec<String>,
    pub experiments: Vec<Store<TuningExperiment>>,
    pub trials: Vec<Objects<Trial>>,
    pub pods: Vec<Objects<Pod>>,
    /// The same by the nodes that they use.
    pods_on_nodes: Vec<Objects<Pod>>,
    pub unreadable_experiments: Vec<Unreadable>,
    pub unreadable_trials: Vec<Unreadable>,
    /// Those of nodes, where there are any.
    pub agents: Option<Agents>,
    pub metrics: Metrics,
    pub memories: Memories,
    pub taking: Taking,
}

impl Context {
    pub fn new(wiring: &Wiring, cluster: Arc<Cluster>, watched: Vec<Scope<Stores>>, agents: Option<Agents>) -> Self {
        let mut context = Self {
            // Whoever has a node in a namespace that we can't see is not gone.
            namespaces: watched.iter().filter_map(|one| one.namespace.clone()).collect(),
            experiments: Vec::new(),
            trials: Vec::new(),
            pods: Vec::new(),
            pods_on_nodes: Vec::new(),
            unreadable_experiments: Vec::new(),
            unreadable_trials: Vec::new(),
            agents,
            metrics: Metrics::register(&wiring.metrics),
            memories: Memories::new(watched.iter().flat_map(|one| one.stores.pods.all.state()), wiring.clock.instant()),
            taking: Taking::default(),
            cluster,
        };
        for Scope { stores, .. } in watched {
            context.experiments.push(stores.experiments);
            context.trials.push(stores.trials);
            context.pods.push(stores.pods);
            context.pods_on_nodes.push(stores.pods_on_nodes);
            context.unreadable_experiments.push(stores.unreadable_experiments);
            context.unreadable_trials.push(stores.unreadable_trials);
        }
        context
    }

    /// An experiment as the watches tell of it by now; `None` where it is gone.
    pub fn newest(&self, experiment: &TuningExperiment) -> Option<Arc<TuningExperiment>> {
        let name = ObjectRef::from_obj(experiment);
        let newest = self.experiments.iter().find_map(|store| store.get(&name));
        newest.filter(|now| now.metadata.uid == experiment.metadata.uid)
    }

    /// All experiments that the watches tell of.
    pub fn all_experiments(&self) -> Vec<Arc<TuningExperiment>> {
        self.experiments.iter().flat_map(Store::state).collect()
    }

    /// All pods that the watches tell of.
    pub fn all_pods(&self) -> Vec<Arc<Pod>> {
        self.pods.iter().flat_map(|pods| pods.all.state()).collect()
    }

    /// The pods that use a node, as the watches tell.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = Arc<Pod>> {
        let node = Touched::Node(node.to_owned());
        self.pods_on_nodes.iter().flat_map(move |pods| pods.of(&node))
    }

    /// The trial that a pod is an attempt of.
    pub fn trial_of(&self, pod: &Pod) -> Option<Arc<Trial>> {
        let trial = ObjectRef::new(pod.labels().get(TRIAL_LABEL)?).within(pod.metadata.namespace.as_deref()?);
        let found = self.trials.iter().find_map(|trials| trials.all.get(&trial));
        found.filter(|trial| is_owned(pod, &**trial))
    }

    /// Whether the watches tell of an experiment with this uid that is not over.
    pub fn needs_nodes(&self, uid: &str) -> bool {
        let is_it = |one: &TuningExperiment| one.metadata.uid.as_deref() == Some(uid) && !is_finished(one);
        self.experiments.iter().any(|store| store.find(is_it).is_some()) || self.unreadable(uid).is_some()
    }

    /// Why the experiment with this uid can't be read, or one of its trials.
    pub fn unreadable(&self, uid: &str) -> Option<String> {
        let experiments = self.unreadable_experiments.iter().flat_map(Unreadable::all);
        let mut own = experiments.filter(|object| object.metadata.uid.as_deref() == Some(uid));
        if let Some(object) = own.next() {
            return Some(why_unreadable("this experiment", &object.error));
        }
        let trials = self.unreadable_trials.iter().flat_map(Unreadable::all);
        let is_owned =
            |object: &InvalidObject| object.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid);
        let trial = trials.into_iter().find(is_owned)?;
        let name = trial.metadata.name.as_deref().unwrap_or_default();
        Some(why_unreadable(&format!("trial {name}"), &trial.error))
    }

    /// Whether a log may still be asked for: its pod is there, and its experiment goes on.
    fn may_ask_for(&self, whose: &Whose) -> bool {
        let experiment = ObjectRef::new(&whose.experiment).within(&whose.namespace);
        let pod = ObjectRef::new(&whose.pod).within(&whose.namespace);
        let goes_on = |one: &TuningExperiment| !is_finished(one) && one.metadata.deletion_timestamp.is_none();
        self.experiments.iter().find_map(|store| store.get(&experiment)).is_some_and(|one| goes_on(&one))
            && self.pods.iter().any(|pods| pods.all.get(&pod).is_some())
    }

    /// Forgets everything about experiments that are over or gone, and about nodes that are.
    pub fn prune(&self) {
        self.memories.prune(&self.all_experiments(), &self.all_pods(), self.cluster.clock.instant());
        let cluster = &self.cluster;
        cluster.logs.prune(|whose| !self.may_ask_for(whose));
        let is_there = |node: &str| cluster.nodes.get(node).is_some();
        cluster.nodes.prune();
        cluster.kubelets.prune(is_there);
        cluster.leases.prune(&cluster.node_leases.state());
        if let Some(agents) = &self.agents {
            agents.prune(is_there);
        }
    }
}
