//! What all reconciliations share. Nothing in here is needed after a restart.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_api::{TuningExperiment, TuningExperimentStatus, TuningTrial};
use assay_core::node;
use assay_core::plan::Plan;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::reflector::Store;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use tracing::warn;

use crate::args::Args;
use crate::experiment::Agents;
use crate::http::Http;
use crate::known::{Pods, Trials};
use crate::kubelet::Kubelets;
use crate::lease::Leases;
use crate::metrics::Metrics;
use crate::watch::locked;

/// How long a node stays with an operator that is not heard of.
const NODE_LEASE: Duration = Duration::from_mins(3);

pub struct Context {
    pub client: Client,
    pub args: Args,
    pub http: Http,
    pub kubelets: Kubelets,
    pub experiments: Vec<Store<TuningExperiment>>,
    pub trials: Trials,
    pub pods: Pods,
    pub nodes: Store<Node>,
    pub node_leases: Store<Lease>,
    pub leases: Leases,
    /// Those of nodes, where there are any.
    pub agents: Option<Agents>,
    pub metrics: Arc<Metrics>,
    recorder: Recorder,
    /// Plans by the uid of their experiment: a spec never changes.
    plans: Mutex<HashMap<String, Arc<Plan>>>,
    /// Names of the claims of each experiment, once they were listed.
    pub claims: Mutex<HashMap<String, BTreeSet<String>>>,
    /// Share of its steps that each running pod has done.
    pub progress: Mutex<HashMap<(String, String), f64>>,
    /// What was judged last, by the uid of the experiment.
    pub judged: Mutex<HashMap<String, Judged>>,
    /// Each experiment as the API server had it when its status was written last, and when that was.
    pub written: Mutex<HashMap<String, (Instant, TuningExperiment)>>,
    /// When pods, by their uid, were last seen behind a scheduling gate.
    pub gated: Mutex<HashMap<String, Instant>>,
    /// Experiments that wait for a node, so that whoever has it gives it up after a block.
    pub waiting: Mutex<HashMap<String, HashSet<String>>>,
    /// When the API server would not have an object of an experiment, by its uid, and why.
    pub refused: Mutex<HashMap<String, (Instant, String)>>,
    /// When an experiment, by its uid, has given a node back for others.
    pub yielded: Mutex<HashMap<(String, String), Instant>>,
    /// Since when each node that is not ready was seen to be so.
    silent: Mutex<HashMap<String, Instant>>,
}

/// A status with the number of attempts that it follows from, and whether it is the last.
pub type Judged = ((usize, bool), TuningExperimentStatus);

/// What watches tell.
pub struct Stores {
    pub experiments: Vec<Store<TuningExperiment>>,
    pub trials: Trials,
    pub pods: Pods,
    pub nodes: Store<Node>,
    pub node_leases: Store<Lease>,
    pub agents: Option<Agents>,
}

impl Context {
    pub fn new(client: Client, args: Args, kubelets: Kubelets, stores: Stores, metrics: Arc<Metrics>) -> Self {
        let reporter = Reporter { controller: "assay-operator".to_owned(), instance: Some(args.identity.clone()) };
        Self {
            http: Http::new(),
            kubelets,
            leases: Leases::new(&client, args.node_lease_namespace(), NODE_LEASE),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            args,
            experiments: stores.experiments,
            trials: stores.trials,
            pods: stores.pods,
            nodes: stores.nodes,
            node_leases: stores.node_leases,
            agents: stores.agents,
            metrics,
            plans: Mutex::default(),
            claims: Mutex::default(),
            progress: Mutex::default(),
            judged: Mutex::default(),
            written: Mutex::default(),
            gated: Mutex::default(),
            waiting: Mutex::default(),
            refused: Mutex::default(),
            yielded: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// How long a node has not been ready; `None` where it is. Not longer than we have seen it: what its status says may be by the
    /// node's own clock.
    pub fn silent_for(&self, node: &Node, now: Timestamp) -> Option<Duration> {
        let (mut silent, name) = (locked(&self.silent), node.name_any());
        let Some(said) = node::silent_for(node, now) else {
            silent.remove(&name);
            return None;
        };
        Some(said.min(silent.entry(name).or_insert_with(Instant::now).elapsed()))
    }

    /// The plan of an experiment, made once.
    pub fn plan<E>(&self, uid: &str, make: impl FnOnce() -> Result<Plan, E>) -> Result<Arc<Plan>, E> {
        if let Some(plan) = locked(&self.plans).get(uid) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(make()?);
        locked(&self.plans).insert(uid.to_owned(), Arc::clone(&plan));
        Ok(plan)
    }

    /// Tells whoever looks at an experiment's events. Best effort: the status says everything as well. Events that differ in their
    /// note alone are counted as one, so each trial has its own.
    pub async fn tell(
        &self,
        experiment: &TuningExperiment,
        trial: Option<&TuningTrial>,
        type_: EventType,
        reason: &str,
        note: &str,
    ) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(assay_core::status::shorten(note, 1000)),
            action: "Reconcile".to_owned(),
            secondary: trial.map(|trial| trial.object_ref(&())),
        };
        let about = experiment.object_ref(&());
        if let Err(error) = crate::error::call(self.recorder.publish(&event, &about)).await {
            warn!(%error, "an event could not be written");
        }
    }

    /// Forgets everything about experiments that are over or gone.
    pub fn prune(&self) {
        let known: Vec<_> = self.experiments.iter().flat_map(Store::state).collect();
        let is_over = |experiment: &TuningExperiment| crate::experiment::is_finished(experiment);
        let open = || known.iter().filter(|experiment| !is_over(experiment));
        let uids: HashSet<String> = open().filter_map(|experiment| experiment.uid()).collect();
        self.trials.keep(&uids);
        // Pods of one that is over may have to be removed yet.
        let named = known.iter().map(|experiment| (experiment.namespace().unwrap_or_default(), experiment.name_any()));
        self.pods.keep(&named.collect());
        locked(&self.plans).retain(|uid, _| uids.contains(uid));
        let all: HashSet<String> = known.iter().filter_map(|experiment| experiment.uid()).collect();
        locked(&self.claims).retain(|uid, _| all.contains(uid));
        locked(&self.judged).retain(|uid, _| uids.contains(uid));
        locked(&self.written).retain(|uid, _| uids.contains(uid));
        let pods: HashSet<String> = self.pods.all().iter().filter_map(|pod| pod.uid()).collect();
        locked(&self.gated).retain(|uid, _| pods.contains(uid));
        let nodes: HashSet<String> = self.nodes.state().iter().map(|node| node.name_any()).collect();
        locked(&self.silent).retain(|node, _| nodes.contains(node));
        locked(&self.refused).retain(|uid, _| uids.contains(uid));
        locked(&self.yielded).retain(|(uid, _), _| uids.contains(uid));
        for waiting in locked(&self.waiting).values_mut() {
            waiting.retain(|uid| uids.contains(uid));
        }
    }
}
