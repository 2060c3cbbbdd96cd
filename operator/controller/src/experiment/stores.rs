use anyhow::Context as _;
use assay_api::names::EXPERIMENT_LABEL;
use assay_api::{TuningExperiment, TuningTrial};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::ended;
use super::memory::experiment_of;
use crate::watch::{self, Objects, Part, Parts, Touched, Unreadable, Wiring};

/// What is watched for experiments.
pub struct Stores {
    pub experiments: Store<TuningExperiment>,
    pub trials: Objects<TuningTrial>,
    pub pods: Objects<Pod>,
    /// Experiments and trials that this version can't read.
    pub unreadable_experiments: Unreadable,
    pub unreadable_trials: Unreadable,
}

/// Something of the experiment of this namespace and name.
pub fn touched((namespace, name): (String, String)) -> Touched {
    Touched::one::<TuningExperiment>(namespace, name)
}

/// What of an experiment wakes it: of its status nobody else writes more than this.
fn matters(experiment: &TuningExperiment) -> Value {
    let ObjectMeta { uid, generation, deletion_timestamp, labels, annotations, .. } = &experiment.metadata;
    let conditions = experiment.status.iter().flat_map(|status| &status.conditions);
    let conditions: Vec<_> = conditions.map(|known| (&known.type_, &known.status)).collect();
    json!([uid, generation, deletion_timestamp, labels, annotations, conditions])
}

/// Without what nobody asks for. There may be ten thousand of them, and lists that were read have room for more than is in them.
fn slim_trial(trial: &mut TuningTrial) {
    let ObjectMeta { labels, annotations, owner_references, .. } = &mut trial.metadata;
    (*labels, *annotations) = (None, None);
    if let Some(owners) = owner_references {
        owners.shrink_to_fit();
    }
    if let Some(status) = &mut trial.status {
        status.attempts.shrink_to_fit();
        status.conditions.shrink_to_fit();
    }
}

impl watch::Stores for Stores {
    fn watch(wiring: &Wiring, namespace: Option<&str>) -> Self {
        let itself = |meta: &ObjectMeta| Some(touched((meta.namespace.clone()?, meta.name.clone()?)));
        let all = watcher::Config::default;
        let (experiments, unreadable_experiments) = wiring.reflect_readable(
            wiring.api(namespace),
            all(),
            Part { matters: Some(matters), ..Part::all() },
            move |one: &TuningExperiment| itself(&one.metadata),
            itself,
        );
        // By its owner, which says whose it is, whatever else somebody writes into it.
        let of_trial = |trial: &TuningTrial| {
            let owner = trial.owner_references().iter().find(|owner| owner.kind == TuningExperiment::kind(&()))?;
            Some(touched((trial.namespace()?, owner.name.clone())))
        };
        let of_unreadable_trial = |meta: &ObjectMeta| {
            let experiment = meta.labels.as_ref()?.get(EXPERIMENT_LABEL)?;
            Some(touched((meta.namespace.clone()?, experiment.clone())))
        };
        let (parts, parts_of_pods) = (Parts::default(), Parts::default());
        // Nobody else makes one, or writes its status: what matters is that it goes.
        let part = Part { matters: Some(|_: &TuningTrial| Value::Null), slim: slim_trial, ..Part::noted(&parts) };
        let (trials, unreadable_trials) =
            wiring.reflect_readable(wiring.api(namespace), all(), part, of_trial, of_unreadable_trial);
        let trials = Objects::new(trials, parts);
        let of_pod = |pod: &Pod| experiment_of(pod).map(touched);
        let of_experiments = all().labels(EXPERIMENT_LABEL);
        let part = Part { matters: Some(ended::matters), ..Part::noted(&parts_of_pods) };
        let pods = wiring.reflect_part(wiring.api(namespace), of_experiments, part, of_pod);
        let pods = Objects::new(pods, parts_of_pods);
        Self { experiments, trials, pods, unreadable_experiments, unreadable_trials }
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.experiments.wait_until_ready().await.context("can't watch experiments")?;
        self.trials.all.wait_until_ready().await.context("can't watch trials")?;
        self.pods.all.wait_until_ready().await.context("can't watch pods")
    }
}
