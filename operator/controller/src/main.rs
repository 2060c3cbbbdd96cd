//! `assay-operator`: runs `TuningExperiments` on the nodes of a cluster.

mod args;
mod clock;
mod cluster;
mod error;
mod experiment;
mod fence;
mod health;
mod http;
mod kubelet;
mod leader;
mod lease;
mod lock;
mod logs;
mod metrics;
mod pod;
mod prometheus;
mod readers;
mod record;
mod scrape;
mod server;
mod stop;
mod sweep;
mod tls;
mod watch;
mod webhook;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser as _;
use kube::{Client, Config};
use tracing::{error, info};

use crate::args::Args;
use crate::clock::SharedClock;
use crate::cluster::Cluster;
use crate::health::Health;
use crate::kubelet::Kubelets;
use crate::metrics::Metrics;
use crate::readers::Readers;
use crate::server::Pages;
use crate::stop::Stop;
use crate::tls::Tls;
use crate::watch::{Changes, Wiring};

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
    let mut config = Config::infer().await.context("no kubeconfig found, and not running in a pod")?;
    // Who asked has to know that an answer was an error: the next reconcile tries again, with what is true by then.
    config.default_retry = false;
    let client = Client::try_from(config.clone()).context("can't use the kubeconfig")?;
    let clock: SharedClock = Arc::new(clock::System);
    let kubelets = Kubelets::new(&args, config, &client, Arc::clone(&clock));
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::new(Arc::clone(&clock)));
    let tls = args.listen_tls.clone().map(Tls::read).transpose();
    let tls = tls.map_err(anyhow::Error::msg).context("can't serve metrics over TLS")?;
    let readers = args.authorize_metrics.then(|| Readers::new(client.clone(), Arc::clone(&clock)));
    let pages = Pages { metrics: Arc::clone(&metrics), health: Arc::clone(&health), readers };
    server::begin(args.listen, tls, pages).await.context("can't serve metrics")?;
    let stop = Stop::on_signals()?;

    let (leases, held) = tokio::select! {
        elected = leader::elected(&client, &args, &clock) => elected,
        () = stop.asked() => return Ok(()),
    };
    let (wiring, changes) =
        Wiring::new(client, &args.namespaces, Arc::clone(&clock), (metrics, Arc::clone(&health)), stop);
    tokio::select! {
        worked = work(wiring, changes, args.clone(), kubelets) => worked?,
        // Whatever is under way belongs to the next leader from here on.
        () = leader::lead(&leases, held, &args, &clock, &health) => anyhow::bail!("this replica no longer leads"),
    }
    // Everything that was begun has ended, so the next leader need not wait.
    leader::resign(&leases, &args).await;
    Ok(())
}

/// Watches and reconciles until it is asked to stop; reconciles that have begun are finished.
async fn work(wiring: Wiring, changes: Changes, args: Args, kubelets: Kubelets) -> anyhow::Result<()> {
    let cluster = Arc::new(Cluster::watch(&wiring, args, kubelets));
    // A line for each kind that has a controller.
    let begun =
        async { futures::try_join!(experiment::controller(&wiring, &cluster), sweep::controller(&wiring, &cluster)) };
    let controllers = tokio::select! {
        begun = begun => <[_; _]>::from(begun?),
        () = wiring.stop.asked() => return Ok(()),
    };
    wiring.metrics.leads();
    info!("watching");
    // Who holds it could begin more watches, so that there would always seem to be one left.
    drop(wiring);
    tokio::select! {
        _ = futures::future::join_all(controllers) => Ok(()),
        () = changes.pass_on() => anyhow::bail!("all watches have ended"),
    }
}
