//! The connection to a cluster. Commands for this machine need none, so it and its runtime are made here and nowhere else.

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use assay_api::{TuningExperiment, TuningTrial, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::{Api, Client, Config, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::errors::{Explain as _, Unreachable, another_version, not_found};
use crate::folder::Origin;
use crate::print;

/// A cluster that does not answer for so long is not there.
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection on which nothing comes for so long is broken: a cluster itself ends a watch before.
const SILENT: Duration = Duration::from_mins(5);
/// Objects that are asked for at once: each trial carries its summaries.
const PAGE: u32 = 200;

/// Which cluster, said as to kubectl.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig file; default: KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; default: the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace; default: that of the context
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl ClusterArgs {
    /// Where no cluster was asked for.
    pub fn must_be_empty(&self) -> anyhow::Result<()> {
        anyhow::ensure!(*self == Self::default(), "--kubeconfig, --context and --namespace require --cluster");
        Ok(())
    }
}

/// A connection to one namespace.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    pub namespace: String,
}

/// Runs a command on a cluster.
pub fn on<T, F: Future<Output = anyhow::Result<T>>>(
    args: &ClusterArgs,
    command: impl FnOnce(Cluster) -> F,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("can't start the runtime")?.block_on(async { command(Cluster::connect(args).await?).await })
}

impl Cluster {
    async fn connect(args: &ClusterArgs) -> anyhow::Result<Self> {
        let mut config = config(args).await?;
        config.connect_timeout = Some(PATIENCE);
        // From the last request on, and not from the answer before.
        (config.read_timeout, config.reset_reader_on_write) = (Some(SILENT), true);
        let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).explain(&format!("can't connect to {server}"))?;
        Ok(Self { client, namespace })
    }

    /// The same cluster in another namespace.
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// Where the trials of a folder come from.
    pub fn origin(&self, experiment: &TuningExperiment) -> Origin {
        Origin {
            namespace: self.namespace.clone(),
            experiment: experiment.name_any(),
            uid: experiment.uid().unwrap_or_default(),
        }
    }

    pub fn experiments(&self) -> Api<TuningExperiment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// All experiments of the namespace, or of all namespaces.
    pub async fn all_experiments(&self, everywhere: bool) -> anyhow::Result<Vec<DeserializeGuard<TuningExperiment>>> {
        let client = self.client.clone();
        let api = if everywhere { Api::all(client) } else { Api::namespaced(client, &self.namespace) };
        all(&api, ListParams::default()).await.explain("can't read the experiments")
    }

    pub fn trials(&self) -> Api<TuningTrial> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn records(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The experiment of this name, if there is one.
    pub async fn find(&self, name: &str) -> anyhow::Result<Option<TuningExperiment>> {
        match self.experiments().get(name).await {
            Ok(experiment) => Ok(Some(experiment)),
            Err(error) if not_found(&error) => Ok(None),
            Err(error) => Err(error).explain(&format!("can't read experiment {name}")),
        }
    }

    /// The experiment of this name.
    pub async fn experiment(&self, name: &str) -> anyhow::Result<TuningExperiment> {
        self.find(name).await?.with_context(|| {
            format!("no experiment {name} in namespace {}: `assay status -A` lists all namespaces", self.namespace)
        })
    }

    /// Every trial of the namespace.
    pub async fn all_trials(&self) -> anyhow::Result<Vec<DeserializeGuard<TuningTrial>>> {
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        all(&api, ListParams::default()).await.explain("can't read the trials")
    }

    /// Every trial of an experiment that was begun.
    pub async fn trials_of(&self, experiment: &TuningExperiment) -> anyhow::Result<Vec<DeserializeGuard<TuningTrial>>> {
        let name = experiment.name_any();
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        let labelled = ListParams::default().labels(&of_experiment(&name));
        let mut trials = all(&api, labelled).await.explain(&format!("can't read the trials of {name}"))?;
        trials.retain(|trial| is_of(trial, experiment));
        Ok(trials)
    }
}

/// All objects that are asked for, page by page: of a large cluster they are more than the API server should send at once.
pub async fn all<K>(api: &Api<K>, mut page: ListParams) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    page.limit = Some(PAGE);
    let mut objects = Vec::new();
    loop {
        let found = api.list(&page).await?;
        objects.extend(found.items);
        match found.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// Those that this version can read; the others are told. One object of another version must not hide all others.
pub fn readable<K: Resource<DynamicType = ()>>(found: Vec<DeserializeGuard<K>>) -> Vec<K> {
    let told = |why| print::note(format_args!("assay: {why:#}"));
    found.into_iter().filter_map(|object| read(object).map_err(told).ok()).collect()
}

/// An object that has to be read.
pub fn read<K: Resource<DynamicType = ()>>(object: DeserializeGuard<K>) -> anyhow::Result<K> {
    object.0.map_err(|InvalidObject { error, metadata }| {
        let (kind, name) = (K::kind(&()), metadata.name.unwrap_or_default());
        anyhow!("can't read {kind} {name}: {}", another_version(&error))
    })
}

/// Whether a trial is of this very experiment: those of one that was deleted may be there for a while, under the same name.
pub fn is_of(trial: &impl Resource, experiment: &TuningExperiment) -> bool {
    trial.owner_references().iter().any(|owner| Some(&owner.uid) == experiment.metadata.uid.as_ref())
}

/// What selects the objects of an experiment.
pub fn of_experiment(name: &str) -> String {
    format!("{}={name}", names::EXPERIMENT_LABEL)
}

async fn config(args: &ClusterArgs) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(unchosen)?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unchosen)
        }
        None if args.context.is_some() => Config::from_kubeconfig(&options).await.map_err(unchosen),
        // In a pod there is a cluster without a kubeconfig.
        None => Config::infer().await.map_err(unchosen),
    }
}

/// These errors say their causes themselves.
fn unchosen(error: impl std::fmt::Display) -> anyhow::Error {
    let said = format!(
        "can't choose a cluster ({error}): set KUBECONFIG, or pass a kubeconfig with --kubeconfig and one of its \
         contexts with --context"
    );
    Unreachable { said, is_chosen: false }.into()
}
