//! The operator of Assay: runs `TuningExperiments` on the nodes of a cluster. The API server, the clocks and the way to webhooks are given
//! to it, so that a simulation can put others in their place.

mod args;
mod clock;
mod cluster;
mod error;
mod events;
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
mod nodes;
mod object;
mod pod;
mod prometheus;
mod readers;
mod record;
mod scrape;
mod server;
mod stop;
mod sweep;
mod task;
mod tls;
mod watch;
mod webhook;

use std::sync::Arc;

use anyhow::Context as _;
use kube::{Client, Config};
use tracing::info;

pub use crate::args::Args;
pub use crate::clock::{Clock, SharedClock, System};
pub use crate::stop::Stop;
pub use crate::webhook::{Mail, Message, Network};

use crate::cluster::Cluster;
use crate::health::Health;
use crate::kubelet::Kubelets;
use crate::metrics::Metrics;
use crate::readers::Readers;
use crate::server::Pages;
use crate::tls::Tls;
use crate::watch::{Changes, Wiring};
use crate::webhook::Webhooks;

/// One replica.
pub struct Operator {
    args: Args,
    client: Client,
    clock: SharedClock,
    kubelets: Kubelets,
    webhooks: Webhooks,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

impl Operator {
    /// A replica whose client has this configuration, by which it asks kubelets as well.
    pub fn new(args: Args, config: Config, client: Client, clock: SharedClock, mail: Arc<dyn Mail>) -> Self {
        let webhooks = Webhooks::new(&args.webhook_hosts, mail);
        let kubelets = Kubelets::new(&args, config, &client, Arc::clone(&clock));
        let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::new(Arc::clone(&clock))));
        Self { args, client, clock, kubelets, webhooks, metrics, health }
    }

    /// Begins to serve its metrics and its health.
    pub async fn serve(&self) -> anyhow::Result<()> {
        let tls = self.args.listen_tls.clone().map(Tls::read).transpose();
        let tls = tls.map_err(anyhow::Error::msg).context("can't serve metrics over TLS")?;
        let readers = self.args.authorize_metrics.then(|| Readers::new(self.client.clone(), Arc::clone(&self.clock)));
        let pages = Pages { metrics: Arc::clone(&self.metrics), health: Arc::clone(&self.health), readers };
        server::begin(self.args.listen, tls, pages).await.context("can't serve metrics")?;
        Ok(())
    }

    /// Leads as soon as no other replica does, until it is asked to stop. When this ends or is dropped, nothing of it goes on.
    pub async fn run(self, stop: Stop) -> anyhow::Result<()> {
        let Self { args, client, clock, kubelets, webhooks, metrics, health } = self;
        // Always in this order, here and wherever branches may be ready at once: whatever depends on chance can't be simulated.
        let (leases, held) = tokio::select! {
            biased;
            () = stop.asked() => return Ok(()),
            elected = leader::elected(&client, &args, &clock) => elected,
        };
        let (wiring, changes) = Wiring::new(client, &args, Arc::clone(&clock), (metrics, Arc::clone(&health)), stop);
        tokio::select! {
            biased;
            // Whatever is under way belongs to the next leader from here on.
            () = leader::lead(&leases, held, &args, &clock, &health) => anyhow::bail!("this replica no longer leads"),
            worked = work(wiring, changes, args.clone(), (kubelets, webhooks)) => worked?,
        }
        // Everything that was begun has ended, so the next leader need not wait.
        leader::resign(&leases, &args).await;
        Ok(())
    }
}

/// Watches and reconciles until it is asked to stop; reconciles that have begun are finished.
async fn work(
    wiring: Wiring,
    mut changes: Changes,
    args: Args,
    (kubelets, webhooks): (Kubelets, Webhooks),
) -> anyhow::Result<()> {
    let cluster = Arc::new(Cluster::watch(&wiring, args, kubelets, webhooks));
    // A line for each kind that has a controller.
    let begun =
        async { futures::try_join!(experiment::controller(&wiring, &cluster), sweep::controller(&wiring, &cluster)) };
    let controllers = tokio::select! {
        biased;
        () = wiring.stop.asked() => return Ok(()),
        ended = changes.ended.first() => return Err(without(&ended)),
        begun = begun => <[_; _]>::from(begun?),
    };
    wiring.metrics.leads();
    info!("watching");
    tokio::select! {
        biased;
        _ = futures::future::join_all(controllers) => Ok(()),
        ended = changes.pass_on() => Err(without(&ended)),
    }
}

fn without(ended: &str) -> anyhow::Error {
    anyhow::anyhow!("{ended} has ended, and all else relies on it")
}
