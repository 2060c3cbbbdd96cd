use anyhow::Context as _;
use assay_api::names::SWEEP_LABEL;
use assay_api::{TuningExperiment, TuningSweep};
use k8s_openapi::api::core::v1::Pod;

use kube::api::ObjectMeta;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;

use crate::watch::{self, Part, Touched, Unreadable, Wiring};

/// What is watched for sweeps.
pub struct Stores {
    pub sweeps: Store<TuningSweep>,
    pub experiments: Store<TuningExperiment>,
    pub pods: Store<Pod>,
    /// Sweeps that this version can't read, and experiments.
    pub unreadable: Unreadable,
    pub unreadable_experiments: Unreadable,
}

/// The sweep that an object is part of.
fn touched(meta: &ObjectMeta) -> Option<Touched> {
    let sweep = meta.labels.as_ref()?.get(SWEEP_LABEL)?;
    Some(Touched::one::<TuningSweep>(meta.namespace.clone()?, sweep.clone()))
}

impl watch::Stores for Stores {
    fn watch(wiring: &Wiring, namespace: Option<&str>) -> Self {
        let itself = |meta: &ObjectMeta| Some(Touched::one::<TuningSweep>(meta.namespace.clone()?, meta.name.clone()?));
        let (sweeps, unreadable) = wiring.reflect_readable(
            wiring.api(namespace),
            watcher::Config::default(),
            Part::all(),
            move |one: &TuningSweep| itself(&one.metadata),
            itself,
        );
        let of_sweeps = || watcher::Config::default().labels(SWEEP_LABEL);
        let (experiments, unreadable_experiments) = wiring.reflect_readable(
            wiring.api(namespace),
            of_sweeps(),
            Part::all(),
            |one: &TuningExperiment| touched(&one.metadata),
            touched,
        );
        let pods = wiring.reflect(wiring.api(namespace), of_sweeps(), |pod: &Pod| touched(&pod.metadata));
        Self { sweeps, experiments, pods, unreadable, unreadable_experiments }
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.sweeps.wait_until_ready().await.context("can't watch sweeps")?;
        self.experiments.wait_until_ready().await.context("can't watch the experiments of sweeps")?;
        self.pods.wait_until_ready().await.context("can't watch the pods of sweeps")
    }
}
