use anyhow::Context as _;
use assay_api::names::EXPERIMENT_LABEL;
use assay_api::{TuningExperiment, TuningTrial};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;

use super::memory::experiment_of;
use crate::watch::{self, Touched, Wiring};

/// What is watched for experiments.
pub struct Stores {
    pub experiments: Store<TuningExperiment>,
    pub trials: Store<TuningTrial>,
    pub pods: Store<Pod>,
}

/// Something of the experiment of this namespace and name.
pub fn touched((namespace, name): (String, String)) -> Touched {
    Touched::one::<TuningExperiment>(namespace, name)
}

impl watch::Stores for Stores {
    fn watch(wiring: &Wiring, namespace: Option<&str>) -> Self {
        let all = watcher::Config::default;
        Self {
            experiments: wiring.reflect(wiring.api(namespace), all(), |experiment: &TuningExperiment| {
                Some(touched((experiment.namespace()?, experiment.name_any())))
            }),
            trials: wiring.reflect(wiring.api(namespace), all(), |trial: &TuningTrial| {
                Some(touched((trial.namespace()?, trial.spec.experiment.clone())))
            }),
            pods: wiring.reflect(wiring.api(namespace), all().labels(EXPERIMENT_LABEL), |pod: &Pod| {
                experiment_of(pod).map(touched)
            }),
        }
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.experiments.wait_until_ready().await.context("can't watch experiments")?;
        self.trials.wait_until_ready().await.context("can't watch trials")?;
        self.pods.wait_until_ready().await.context("can't watch pods")
    }
}
