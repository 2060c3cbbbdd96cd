use anyhow::Context as _;
use assay_api::names::EXPERIMENT_LABEL;
use assay_api::{TuningExperiment, TuningTrial};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;

use super::memory::experiment_of;
use crate::watch::{self, Touched, Unreadable, Wiring};

/// What is watched for experiments.
pub struct Stores {
    pub experiments: Store<TuningExperiment>,
    pub trials: Store<TuningTrial>,
    pub pods: Store<Pod>,
    /// Experiments and trials that this version can't read.
    pub unreadable_experiments: Unreadable,
    pub unreadable_trials: Unreadable,
}

/// Something of the experiment of this namespace and name.
pub fn touched((namespace, name): (String, String)) -> Touched {
    Touched::one::<TuningExperiment>(namespace, name)
}

impl watch::Stores for Stores {
    fn watch(wiring: &Wiring, namespace: Option<&str>) -> Self {
        let itself = |meta: &ObjectMeta| Some(touched((meta.namespace.clone()?, meta.name.clone()?)));
        let all = watcher::Config::default;
        let (experiments, unreadable_experiments) = wiring.reflect_readable(
            wiring.api(namespace),
            all(),
            move |one: &TuningExperiment| itself(&one.metadata),
            itself,
        );
        let of_trial = |trial: &TuningTrial| Some(touched((trial.namespace()?, trial.spec.experiment.clone())));
        let of_unreadable_trial = |meta: &ObjectMeta| {
            let experiment = meta.labels.as_ref()?.get(EXPERIMENT_LABEL)?;
            Some(touched((meta.namespace.clone()?, experiment.clone())))
        };
        let (trials, unreadable_trials) =
            wiring.reflect_readable(wiring.api(namespace), all(), of_trial, of_unreadable_trial);
        let of_experiments = watcher::Config::default().labels(EXPERIMENT_LABEL);
        let pods = wiring.reflect(wiring.api(namespace), of_experiments, |pod: &Pod| experiment_of(pod).map(touched));
        Self { experiments, trials, pods, unreadable_experiments, unreadable_trials }
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.experiments.wait_until_ready().await.context("can't watch experiments")?;
        self.trials.wait_until_ready().await.context("can't watch trials")?;
        self.pods.wait_until_ready().await.context("can't watch pods")
    }
}
