//! `assay-operator`: runs `TuningExperiments` on the nodes of a cluster.

mod args;
mod context;
mod error;
mod experiment;
mod http;
mod known;
mod kubelet;
mod leader;
mod lease;
mod metrics;
mod pod;
mod prometheus;
mod record;
mod scrape;
mod server;
mod watch;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use assay_api::names::{EXPERIMENT_LABEL, MANAGED_BY, MANAGED_LABEL, ROLE_LABEL, ROLE_TRIAL};
use assay_api::{TuningExperiment, TuningTrial};
use clap::Parser as _;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Config, Resource, ResourceExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{broadcast, mpsc, watch as flag};
use tracing::{error, info, warn};

use crate::args::Args;
use crate::context::{Context, Stores};
use crate::error::Error;
use crate::experiment::Agents;
use crate::known::{Pods, Trials};
use crate::kubelet::Kubelets;
use crate::metrics::Metrics;
use crate::watch::{Touched, locked, reflect};

/// Several changes at once are one look.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// Experiments that are looked at at the same time.
const CONCURRENCY: u16 = 8;
/// How long the first list of a namespace may take, where others are ready.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two scrapes of running trials.
const SCRAPE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(error) = assay_log::init() {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let mut config = Config::infer().await.context("no kubeconfig was found, and this is no pod")?;
    // Who asked has to know that an answer was an error: the next look tries again, with what is true by then.
    config.default_retry = false;
    let client = Client::try_from(config.clone()).context("the kubeconfig can't be used")?;
    let kubelets = Kubelets::new(args.ask_kubelets.then_some(config));
    let metrics = Arc::new(Metrics::new());
    let server = tokio::spawn(server::serve(args.listen, Arc::clone(&metrics)));
    let stop = on_signals()?;

    let (leases, held) = tokio::select! {
        elected = leader::elected(&client, &args) => elected,
        served = server => return served?.context("metrics can't be served"),
        () = stopped(stop.clone()) => return Ok(()),
    };
    tokio::select! {
        worked = work(&client, args.clone(), kubelets, metrics, stop) => worked?,
        // Whatever is under way belongs to the next leader from here on.
        () = leader::lead(&leases, held, &args) => anyhow::bail!("this replica does not lead any more"),
    }
    // Everything that was begun has ended, so the next leader need not wait.
    leader::resign(&leases, &args).await;
    Ok(())
}

/// A flag that SIGTERM and Ctrl-C set.
fn on_signals() -> anyhow::Result<flag::Receiver<bool>> {
    let (sender, receiver) = flag::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("signals can't be received")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        info!("asked to end");
        let _ = sender.send(true);
        // Whoever asks is answered by the receivers; nobody else sends.
        std::future::pending::<()>().await;
    });
    Ok(receiver)
}

async fn stopped(mut stop: flag::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What is watched of one namespace, or of all.
struct Watched {
    namespace: Option<String>,
    experiments: Store<TuningExperiment>,
    trials: Store<TuningTrial>,
    pods: Store<Pod>,
}

impl Watched {
    fn begin(client: &Client, namespace: Option<String>, sender: &UnboundedSender<Touched>) -> Self {
        let all = watcher::Config::default;
        let of = namespace.as_deref();
        Self {
            experiments: reflect(api(client, of), all(), sender.clone(), |experiment: &TuningExperiment| {
                Some(Touched::Experiment(experiment.namespace()?, experiment.name_any()))
            }),
            trials: reflect(api(client, of), all(), sender.clone(), |trial: &TuningTrial| {
                Some(Touched::Experiment(trial.namespace()?, trial.spec.experiment.clone()))
            }),
            pods: reflect(api(client, of), all().labels(EXPERIMENT_LABEL), sender.clone(), |pod: &Pod| {
                Some(Touched::Experiment(pod.namespace()?, pod.labels().get(EXPERIMENT_LABEL)?.clone()))
            }),
            namespace,
        }
    }

    async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.experiments.wait_until_ready().await.context("experiments can't be watched")?;
        self.trials.wait_until_ready().await.context("trials can't be watched")?;
        self.pods.wait_until_ready().await.context("pods can't be watched")
    }
}

/// Those that can be watched, and those that can't: one that was deleted, or is without its roles, must not stop all others.
async fn divide(watched: Vec<Watched>) -> anyhow::Result<(Vec<Watched>, Vec<Watched>)> {
    loop {
        let waits = watched.iter().map(|one| tokio::time::timeout(PATIENCE, one.wait_until_ready()));
        let waited = futures::future::join_all(waits).await;
        if waited.iter().all(Result::is_err) {
            warn!("no namespace can be watched yet");
            continue;
        }
        let (mut ready, mut late) = (Vec::new(), Vec::new());
        for (one, waited) in watched.into_iter().zip(waited) {
            match waited {
                Ok(is_ready) => is_ready.map(|()| ready.push(one))?,
                Err(_) => late.push(one),
            }
        }
        for namespace in late.iter().filter_map(|one| one.namespace.as_deref()) {
            error!(namespace, "can't be watched: its experiments are left alone until that is mended");
        }
        return Ok((ready, late));
    }
}

/// Ends when one of these can be watched after all.
async fn one_is_ready(late: Vec<Watched>) {
    let waits: FuturesUnordered<_> = late.iter().map(async |one| (one, one.wait_until_ready().await)).collect();
    let mut waits = waits.filter(|(_, waited)| std::future::ready(waited.is_ok()));
    match waits.next().await {
        Some((one, _)) => info!(namespace = one.namespace, "can be watched now: beginning again, with it"),
        None => std::future::pending().await,
    }
}

/// Watches and reconciles until it is asked to stop; looks that have begun are finished.
async fn work(
    client: &Client,
    mut args: Args,
    kubelets: Kubelets,
    metrics: Arc<Metrics>,
    stop: flag::Receiver<bool>,
) -> anyhow::Result<()> {
    let (sender, mut touched) = mpsc::unbounded_channel();
    let namespaces: Vec<Option<String>> = match args.namespaces.as_slice() {
        [] => vec![None],
        named => named.iter().cloned().map(Some).collect(),
    };
    let watched = namespaces.into_iter().map(|namespace| Watched::begin(client, namespace, &sender)).collect();
    let any = |_: &Node| Some(Touched::All);
    let nodes = reflect(Api::<Node>::all(client.clone()), watcher::Config::default(), sender.clone(), any);
    let leases: Api<Lease> = Api::namespaced(client.clone(), args.node_lease_namespace());
    let ours = watcher::Config::default().labels(&format!("{MANAGED_LABEL}={MANAGED_BY}"));
    let node_leases = reflect(leases, ours, sender.clone(), |_| Some(Touched::All));
    let agents = args.agent_namespace.as_deref().map(|namespace| Agents::watch(client, namespace, sender));
    let begun = async {
        let divided = divide(watched).await?;
        nodes.wait_until_ready().await.context("nodes can't be watched")?;
        node_leases.wait_until_ready().await.context("leases can't be watched")?;
        if let Some(agents) = &agents {
            agents.wait_until_ready().await.context("the Leases of agents can't be watched")?;
        }
        anyhow::Ok(divided)
    };
    let (watched, late) = tokio::select! {
        begun = begun => begun?,
        () = stopped(stop.clone()) => return Ok(()),
    };
    // Whoever has a node in a namespace that we can't see is not gone.
    args.namespaces = watched.iter().filter_map(|one| one.namespace.clone()).collect();
    let ends = async move {
        tokio::select! {
            () = stopped(stop) => {}
            () = one_is_ready(late) => {}
        }
    };
    let ends = ends.boxed().shared();

    let experiments: Vec<_> = watched.iter().map(|one| one.experiments.clone()).collect();
    let stores = Stores {
        experiments: experiments.clone(),
        trials: Trials::new(watched.iter().map(|one| one.trials.clone()).collect()),
        pods: Pods::new(watched.iter().map(|one| one.pods.clone()).collect()),
        nodes,
        node_leases,
        agents,
    };
    let context = Arc::new(Context::new(client.clone(), args, kubelets, stores, metrics));
    context.metrics.watch(Arc::clone(&context));
    tokio::spawn(scrape(Arc::clone(&context)));
    tokio::spawn({
        let context = Arc::clone(&context);
        async move { experiment::sweep(&context).await }
    });

    let (all, _) = broadcast::channel(4096);
    let running = experiments.into_iter().map(|store| {
        let queue = told(all.subscribe(), store.clone()).take_until(ends.clone());
        let config = controller::Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY);
        let looks = applier(look, experiment::on_error, Arc::clone(&context), store, Box::pin(queue), config);
        looks.for_each(|_| async {})
    });
    let running = futures::future::join_all(running);
    let pass_on = async {
        while let Some(touched) = touched.recv().await {
            let _ = all.send(touched);
        }
    };
    context.metrics.leads();
    info!("watching");
    tokio::select! {
        _ = running => Ok(()),
        () = pass_on => anyhow::bail!("no watch is left"),
    }
}

/// A look at an experiment, beside those at others.
fn look(
    experiment: Arc<TuningExperiment>,
    context: Arc<Context>,
) -> impl Future<Output = Result<Action, Error>> + Unpin {
    let look = tokio::spawn(experiment::reconcile(experiment, context));
    look.map(|looked| looked.unwrap_or_else(|panic| Err(Error::Unexpected(panic.to_string()))))
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace))
}

/// The experiments that have to be looked at because of a change.
fn told(
    changes: broadcast::Receiver<Touched>,
    store: Store<TuningExperiment>,
) -> impl Stream<Item = Result<ObjectRef<TuningExperiment>, Infallible>> {
    stream::unfold(changes, |mut changes| async move {
        match changes.recv().await {
            Ok(touched) => Some((touched, changes)),
            // Too many changes to name: all of them.
            Err(RecvError::Lagged(_)) => Some((Touched::All, changes)),
            Err(RecvError::Closed) => None,
        }
    })
    .flat_map(move |touched| {
        let refs: Vec<ObjectRef<TuningExperiment>> = match touched {
            Touched::Experiment(namespace, name) => vec![ObjectRef::new(&name).within(&namespace)],
            Touched::All => store.state().iter().map(|experiment| ObjectRef::from_obj(&**experiment)).collect(),
        };
        stream::iter(refs.into_iter().map(Ok))
    })
}

/// Asks running trials for their progress, again and again. The API server is not asked.
async fn scrape(context: Arc<Context>) {
    loop {
        tokio::time::sleep(SCRAPE).await;
        let running = context.pods.all().into_iter().filter_map(|pod| {
            let status = pod.status.as_ref()?;
            let is_trial = pod.labels().get(ROLE_LABEL).is_some_and(|role| role == ROLE_TRIAL);
            let is_running = status.phase.as_deref() == Some("Running");
            let ip = status.pod_ip.clone().filter(|_| is_trial && is_running)?;
            Some(((pod.namespace()?, pod.name_any()), ip))
        });
        let asked = running.map(|(pod, ip)| {
            let http = &context.http;
            async move { Some((pod, scrape::progress(http, &ip).await?)) }
        });
        let known = futures::future::join_all(asked).await.into_iter().flatten().collect();
        *locked(&context.progress) = known;
    }
}
