//! The controller of sweeps: what it watches.

use std::sync::Arc;

use anyhow::Context as _;
use assay_api::{TuningExperiment, TuningSweep};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use tracing::{Span, error_span};

use super::Reconcile;
use super::memory::Memories;
use super::metrics::Findings;
use super::notify::Notifier;
use super::status::{Stalled, State};
use super::stores::Stores;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::experiment::why_unreadable;
use crate::watch::{self, Running, Scope, Touched, Unreadable, Wiring};

/// What the reconciles of sweeps share.
pub struct Context {
    pub cluster: Arc<Cluster>,
    pub sweeps: Vec<Store<TuningSweep>>,
    /// Those of nights.
    pub experiments: Vec<Store<TuningExperiment>>,
    /// Those that look up images.
    pub pods: Vec<Store<Pod>>,
    unreadable: Vec<Unreadable>,
    pub unreadable_experiments: Vec<Unreadable>,
    pub memories: Memories,
    pub notifier: Notifier,
    /// A history may take megabytes when it is read: one at a time.
    pub reading: tokio::sync::Mutex<()>,
}

/// Begins to watch, and lets nights begin once all that is needed can be seen.
pub async fn controller(wiring: &Wiring, cluster: &Arc<Cluster>) -> anyhow::Result<Running> {
    let watched = wiring.watch::<Stores>();
    let watched = wiring.ready(watched).await?;
    cluster.wait_until_ready().await.context("can't watch the cluster")?;
    let mut context = Context {
        cluster: Arc::clone(cluster),
        sweeps: Vec::new(),
        experiments: Vec::new(),
        pods: Vec::new(),
        unreadable: Vec::new(),
        unreadable_experiments: Vec::new(),
        memories: Memories::default(),
        notifier: Notifier::new(wiring),
        reading: tokio::sync::Mutex::default(),
    };
    for Scope { stores, .. } in watched {
        context.sweeps.push(stores.sweeps);
        context.experiments.push(stores.experiments);
        context.pods.push(stores.pods);
        context.unreadable.push(stores.unreadable);
        context.unreadable_experiments.push(stores.unreadable_experiments);
    }
    let context = Arc::new(context);
    wiring.metrics.collect(Findings(Arc::clone(&context)));
    Ok(wiring.run(&context, context.sweeps.clone()))
}

impl Context {
    /// Sweeps that this version can't read.
    pub fn unreadable(&self) -> impl Iterator<Item = InvalidObject> {
        self.unreadable.iter().flat_map(Unreadable::all)
    }

    /// Why the sweep with this uid can't be read.
    pub fn why_unreadable(&self, uid: &str) -> Option<String> {
        let own = self.unreadable().find(|object| object.metadata.uid.as_deref() == Some(uid));
        own.map(|object| why_unreadable("this sweep", &object.error))
    }
}

impl watch::Controller for Context {
    type Kind = TuningSweep;

    fn span(sweep: &TuningSweep) -> Span {
        error_span!("reconcile", namespace = sweep.namespace().unwrap_or_default(), sweep = sweep.name_any())
    }

    /// Its experiments look after nodes.
    fn concerned(&self, _: Vec<Arc<TuningSweep>>, _: &Touched) -> Vec<Arc<TuningSweep>> {
        Vec::new()
    }

    async fn reconcile(&self, sweep: &TuningSweep) -> Result<Action, Error> {
        let mut reconcile = Reconcile::new(self, sweep);
        let ended = reconcile.run().await;
        let stalled = match &ended {
            Err(Error::Unexpected(why)) => {
                Some((Stalled::Unreadable, why_unreadable("what is stored of this sweep", why)))
            }
            Err(error @ Error::History(_)) => Some((Stalled::HistoryUnreadable, error.to_string())),
            _ => None,
        };
        if let Some((why, message)) = stalled {
            super::status::write(&mut reconcile, &State::Stalled { why, message }, None).await?;
        }
        ended
    }
}
