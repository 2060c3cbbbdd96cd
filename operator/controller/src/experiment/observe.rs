//! What there is of an experiment: its trials with the attempts that have ended, and the pods that may add to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assay_api::TuningTrial;
use assay_api::names::{ATTEMPT_LABEL, ROLE_LABEL, ROLE_TRIAL, TRIAL_LABEL};
use assay_core::attempt::Attempt;
use assay_core::plan::Plan;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::trial::Trial;
use super::{Reconcile, collect};
use crate::error::Error;
use crate::pod::{is_owned, target};
use crate::task;

/// What there is of an experiment.
pub struct Observed {
    pub trials: BTreeMap<String, Arc<Trial>>,
    /// Pods of attempts whose end is not written down yet.
    pub under_way: Vec<UnderWay>,
    /// Pods of attempts whose end is.
    pub leftover: Vec<UnderWay>,
}

/// The pod of an attempt.
#[derive(Clone)]
pub struct UnderWay {
    pub trial: Arc<Trial>,
    pub attempt: u32,
    pub pod: Arc<Pod>,
    /// For how long we know of it. When it was created it says by the API server's clock.
    pub known_for: Duration,
    /// It is there no more, and not because of us.
    pub has_vanished: bool,
    /// It was deleted by us.
    pub is_dismissed: bool,
}

/// What there is, and the attempts that have ended, in the order of the plan.
pub async fn observe(reconcile: &Reconcile<'_>, plan: &Plan) -> Result<(Observed, Vec<Attempt>), Error> {
    let trials = reconcile.trials_there().await?;
    let attempts = task::compute(|| {
        let known = &mut reconcile.memory().attempts;
        known.update(plan, trials.values().map(AsRef::as_ref)).map(|()| known.all())
    });
    let attempts = attempts.map_err(|error| Error::Unexpected(error.to_string()))?;
    let seen = reconcile.pods_there().await?;
    let mut observed = Observed { trials, under_way: Vec::new(), leftover: Vec::new() };
    let present = seen.present.into_values().map(|pod| (pod, false));
    let vanished = seen.vanished.into_values().map(|pod| (pod, true));
    for (pod, has_vanished) in present.chain(vanished) {
        let name = pod.name_any();
        let is_dismissed = seen.dismissed.contains(&name);
        let known_for = reconcile.memory().pods.known_for(&pod, reconcile.instant());
        let Some(found) = observed.of_trial(pod, known_for, has_vanished, is_dismissed) else {
            if has_vanished {
                reconcile.memory().pods.gone(&name);
            }
            continue;
        };
        match (is_written(&found.trial, found.attempt), has_vanished) {
            (true, true) => reconcile.memory().pods.gone(&name),
            (true, false) => observed.leftover.push(found),
            (false, _) => observed.under_way.push(found),
        }
    }
    Ok((observed, attempts))
}

/// The number of the attempt that a pod makes.
pub fn attempt(pod: &Pod) -> Option<u32> {
    pod.labels().get(ATTEMPT_LABEL)?.parse().ok()
}

/// Whether the end of an attempt is written down.
pub fn is_written(trial: &TuningTrial, attempt: u32) -> bool {
    trial.status.iter().flat_map(|status| &status.attempts).any(|ended| ended.attempt == attempt)
}

impl UnderWay {
    /// The node that it is for. Of two leaders, each may have found another one for the trial.
    pub fn node(&self) -> &str {
        target(&self.pod).unwrap_or(&self.trial.spec.node)
    }
}

impl Observed {
    /// The trial that a pod is an attempt of; `None` for pods that are something else, or belong to a trial that is gone.
    fn of_trial(&self, pod: Arc<Pod>, known_for: Duration, has_vanished: bool, is_dismissed: bool) -> Option<UnderWay> {
        let labels = pod.labels();
        if labels.get(ROLE_LABEL)? != ROLE_TRIAL {
            return None;
        }
        let trial = Arc::clone(self.trials.get(labels.get(TRIAL_LABEL)?)?);
        let attempt = attempt(&pod)?;
        is_owned(&*pod, &*trial).then_some(UnderWay { trial, attempt, pod, known_for, has_vanished, is_dismissed })
    }

    /// A trial as it is known now: another attempt of it may have ended in this reconcile.
    pub fn newest(&self, trial: &Arc<Trial>) -> Arc<Trial> {
        Arc::clone(self.trials.get(&trial.name_any()).unwrap_or(trial))
    }

    /// Pods that may use a node: all but those that have ended and are kept to be looked at. One that was just removed is there
    /// until the watch tells that it has gone.
    pub fn on_nodes(&self, reconcile: &Reconcile<'_>) -> impl Iterator<Item = &UnderWay> {
        let leftover = self.leftover.iter().filter(|found| !collect::is_kept(reconcile, found));
        self.under_way.iter().chain(leftover).filter(|found| !found.has_vanished)
    }
}
