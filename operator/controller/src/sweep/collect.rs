//! What a night that has ended has measured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assay_api::condition::find;
use assay_api::names::{EXPERIMENT_LABEL, FINISHED, KIND_LABEL};
use assay_api::{TuningExperiment, TuningTrial};
use assay_core::cluster;
use assay_core::plan::Plan;
use assay_core::sweep::Night;
use assay_core::sweep::child::Child;
use assay_core::sweep::night::Ended;
use assay_core::validate;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::Reconcile;
use super::store;
use crate::error::{Error, call};
use crate::pod::is_owned;
use crate::task;

pub async fn collect(
    reconcile: &Reconcile<'_>,
    night: Timestamp,
    child: &Child,
    experiment: &Arc<TuningExperiment>,
) -> Result<Night, Error> {
    let name = experiment.name_any();
    let status = experiment.status.clone().unwrap_or_default();
    let bench = status.plan.as_ref().and_then(|plan| plan.bench_image.clone());
    let mut ended = Ended {
        sweep: &reconcile.name,
        night,
        trigger: child.trigger,
        run_now: child.run_now.clone(),
        visit: child.visit.as_ref(),
        experiment: &name,
        spec: &experiment.spec,
        machines: BTreeSet::new(),
        bench: bench.as_deref(),
    };
    let finished = find(&status.conditions, FINISHED);
    if finished.is_some_and(|finished| finished.reason == "Refused") {
        let why = find(&status.conditions, assay_api::names::ACCEPTED).map(|accepted| accepted.message.clone());
        return Ok(ended.gap("Refused", &why.unwrap_or_default().replace('\n', "; ")));
    }
    let Some(plan) = plan(experiment) else {
        return Ok(ended.gap("Refused", "this version can't plan its experiment, so its trials can't be judged"));
    };
    if status.plan.as_ref().is_none_or(|planned| planned.digest != plan.digest.as_str()) {
        return Ok(
            ended.gap("PlanChanged", "another version of the operator planned it, so its trials can't be judged")
        );
    }
    let labelled = ListParams::default().labels(&format!("{EXPERIMENT_LABEL}={name}"));
    let trials: Vec<TuningTrial> = call(reconcile.api::<TuningTrial>().list(&labelled)).await?.items;
    let trials: Vec<&TuningTrial> = trials.iter().filter(|trial| is_owned(*trial, &**experiment)).collect();
    ended.machines = machines(reconcile, &trials);
    let unexpected = |error: &dyn std::fmt::Display| Error::Unexpected(error.to_string());
    let attempts = cluster::attempts(&plan, trials).map_err(|error| unexpected(&error))?;
    let ((ring, _), _) = store::read(reconcile).await?;
    task::compute(|| ended.entry(&plan, &attempts, ring.history()).map_err(|error| unexpected(&error)))
}

fn plan(experiment: &TuningExperiment) -> Option<Plan> {
    let validation = validate::validate(&experiment.name_any(), &experiment.spec);
    Plan::new(validation.experiment?).ok()
}

/// The kinds of the machines that trials ran on: what their nodes say, or what their trials saw of CPU and disk.
fn machines(reconcile: &Reconcile<'_>, trials: &[&TuningTrial]) -> BTreeSet<String> {
    let mut seen: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for trial in trials {
        let attempts = trial.status.iter().flat_map(|status| &status.attempts);
        let kind = attempts.filter_map(|attempt| attempt.evidence.as_ref()?.machine.clone()).next_back();
        seen.entry(&trial.spec.node).or_default().get_or_insert(kind.unwrap_or_default());
    }
    let kinds = seen.into_iter().map(|(node, kind)| {
        let labelled = reconcile.cluster().nodes.get(node);
        let labelled = labelled.and_then(|node| node.labels().get(KIND_LABEL).cloned());
        labelled.or(kind.filter(|kind| !kind.is_empty())).unwrap_or_else(|| format!("node {node}"))
    });
    kinds.collect()
}
