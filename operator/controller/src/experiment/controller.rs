//! The controller of experiments: what it watches, and what it does beside its reconciles.

use std::sync::Arc;

use anyhow::Context as _;
use assay_api::TuningExperiment;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use tracing::{Span, error_span};

use super::agent::Agents;
use super::context::{Context, why_unreadable};
use super::metrics::Findings;
use super::stores::Stores;
use super::{Reconcile, is_finished, node_lease, progress, renew, upkeep};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::watch::{self, Running, Touched, Wiring};

/// Those in line for a node that are woken when it is free: more than one, since whoever is first may need none any more.
const WOKEN: usize = 2;

/// Begins to watch, and runs experiments once all that is needed can be seen.
pub async fn controller(wiring: &Wiring, cluster: &Arc<Cluster>) -> anyhow::Result<Running> {
    let watched = wiring.watch::<Stores>();
    let agents = cluster.args.agent_namespace.as_deref().map(|namespace| Agents::watch(wiring, namespace));
    let watched = wiring.ready(watched).await?;
    cluster.wait_until_ready().await?;
    if let Some(agents) = &agents {
        agents.wait_until_ready().await.context("can't watch the agents' Leases")?;
    }
    let context = Arc::new(Context::new(wiring, Arc::clone(cluster), watched, agents));
    wiring.metrics.collect(Findings(Arc::clone(&context)));
    wiring.vital.begin("what asks trials for their progress", progress::keep_up(Arc::clone(&context)));
    wiring.vital.begin("upkeep", upkeep::keep_up(Arc::clone(&context)));
    wiring.vital.begin("what renews Leases", renew::keep_up(Arc::clone(&context)));
    Ok(wiring.run(&context, context.experiments.clone()))
}

impl watch::Controller for Context {
    type Kind = TuningExperiment;

    fn span(experiment: &TuningExperiment) -> Span {
        let (namespace, name) = (experiment.namespace().unwrap_or_default(), experiment.name_any());
        error_span!("reconcile", namespace, experiment = name)
    }

    /// A node concerns those that may use it, and those that have it; one that is free now those that have waited longest for it: if all
    /// of them tried to take it, all but one would have done so for nothing.
    fn concerned(&self, mut all: Vec<Arc<TuningExperiment>>, by: &Touched) -> Vec<Arc<TuningExperiment>> {
        all.retain(|experiment| !is_finished(experiment));
        let may_use =
            |node: &str, experiment: &TuningExperiment| self.cluster.nodes.matches(node, &experiment.spec.placement);
        match by {
            Touched::Freed(node) => {
                // A limit may have kept it from any node.
                let limited = self.memories.limited(all.clone());
                let now = self.cluster.clock.instant();
                let waiting = self.memories.next_in_line(all, |one, _| may_use(node, one), WOKEN, now);
                return [limited, waiting].concat();
            }
            Touched::Node(node) => {
                all.retain(|one| may_use(node, one) || node_lease::is_of(&self.cluster, node, one));
            }
            Touched::One { .. } | Touched::All => {}
        }
        all
    }

    async fn reconcile(&self, experiment: &TuningExperiment) -> Result<Action, Error> {
        let reconcile = Reconcile::new(self, experiment);
        let ended = reconcile.run().await;
        // What is stored makes no sense, and will make none the next time.
        if let Err(Error::Unexpected(why)) = &ended {
            reconcile.wait_for_another_version(why_unreadable("what is stored of this experiment", why)).await?;
        }
        ended
    }
}
