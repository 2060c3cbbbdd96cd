//! What is next on each node, and the objects that bring it about.
//!
//! ```text
//! survey  what there is to go by: claims, nodes, leases, what is remembered   reads
//! decide  what is to be done, and how the experiment stands then              neither
//! apply   does it                                                             writes
//! ```

mod apply;
mod decide;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::TRIAL_LABEL;
use assay_core::decide::Places;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::memory::Awaited;
use super::observe::Observed;
use super::settle::State;
use super::{RETRY, Reconcile, ended, node_lease};
use crate::error::Error;
use crate::pod::target;

/// How long a pod usually takes to start, and nobody need hear of it.
const STARTS: Duration = Duration::from_secs(10);

/// How long a node that was given back is left to others.
pub const YIELD: Duration = Duration::from_secs(3);

pub async fn advance(reconcile: &Reconcile<'_>, places: &Places<'_>, observed: &mut Observed) -> Result<State, Error> {
    let survey = survey::survey(reconcile, places.plan(), observed).await?;
    let decision = decide::decide(places, &survey);
    reconcile.wake_in(decision.wake);
    {
        let memory = &mut *reconcile.memory();
        (memory.waits_for, memory.bound_to) = (Awaited::new(decision.waits_for), decision.bound_to);
    }
    let applied = apply::apply(reconcile, places, observed, decision.actions).await?;
    for held in survey.held.iter().filter(|held| held.is_given) {
        reconcile.memory().given.remove(&held.node);
    }
    stand_in_line(reconcile, !applied.begun.is_empty());
    let (state, wake) = decide::state(decision.outlook, &survey, applied, &observed.under_way);
    reconcile.wake_in(wake);
    Ok(state)
}

/// Whoever is given a node goes to the end of the line for the next one.
fn stand_in_line(reconcile: &Reconcile<'_>, is_served: bool) {
    let now = reconcile.instant();
    let memory = &mut *reconcile.memory();
    let since = memory.in_line.filter(|_| !is_served).unwrap_or(now);
    memory.in_line = (!memory.waits_for.is_empty()).then_some(since);
}

/// Keeps the nodes on which something runs, whatever else there is to do for an experiment, and however long that takes.
pub async fn keep_nodes(reconcile: &Reconcile<'_>) -> Result<(), Error> {
    let trials = reconcile.trials();
    let pods = reconcile.pods().present;
    // What waits in a queue has no node to keep.
    let is_of_trial = |pod: &&Arc<Pod>| pod.labels().get(TRIAL_LABEL).is_some_and(|trial| trials.contains_key(trial));
    let running = pods.values().filter(|pod| ended::uses_node(pod));
    let nodes: BTreeSet<&str> = running.filter(is_of_trial).filter_map(|pod| target(pod)).collect();
    for node in nodes {
        node_lease::hold(reconcile, node).await?;
    }
    Ok(())
}
