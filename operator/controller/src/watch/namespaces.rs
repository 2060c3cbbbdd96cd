//! Which namespaces can be watched. Rights may be given for each of them alone, and one that was deleted, or is without its roles, must
//! not stop all others.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tracing::{error, info, warn};

use super::Wiring;

/// How long the first list of a namespace may take, where others are ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a controller watches in a namespace.
pub trait Stores: Sized + Send + Sync + 'static {
    /// Begins to watch a namespace, or all.
    fn watch(wiring: &Wiring, namespace: Option<&str>) -> Self;

    fn wait_until_ready(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// What is watched of one namespace, or of all.
pub struct Scope<S> {
    pub namespace: Option<String>,
    pub stores: S,
}

impl Wiring {
    /// Begins to watch all namespaces.
    pub fn watch<S: Stores>(&self) -> Vec<Scope<S>> {
        let scope = |namespace: &Option<String>| Scope {
            stores: S::watch(self, namespace.as_deref()),
            namespace: namespace.clone(),
        };
        self.namespaces.iter().map(scope).collect()
    }

    /// Those that can be watched. When one of the others can be watched after all, everything ends, to begin again with it.
    pub async fn ready<S: Stores>(&self, watched: Vec<Scope<S>>) -> anyhow::Result<Vec<Scope<S>>> {
        let (ready, late) = divide(watched).await?;
        if !late.is_empty() {
            let stop = self.stop.clone();
            self.vital.begin("the watch of other namespaces", async move {
                one_is_ready(&late).await;
                stop.ask();
                // What has begun is still to be finished.
                std::future::pending::<()>().await;
            });
        }
        Ok(ready)
    }
}

/// Those that can be watched, and those that can't.
async fn divide<S: Stores>(watched: Vec<Scope<S>>) -> anyhow::Result<(Vec<Scope<S>>, Vec<Scope<S>>)> {
    loop {
        let waits = watched.iter().map(|one| tokio::time::timeout(PATIENCE, one.stores.wait_until_ready()));
        let waited = futures::future::join_all(waits).await;
        if waited.iter().all(Result::is_err) {
            warn!("can't watch any namespace yet");
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
            error!(namespace, "can't watch the namespace: its experiments are ignored until this is fixed");
        }
        return Ok((ready, late));
    }
}

/// Ends when one of these can be watched after all.
async fn one_is_ready<S: Stores>(late: &[Scope<S>]) {
    let waits: FuturesUnordered<_> = late.iter().map(async |one| (one, one.stores.wait_until_ready().await)).collect();
    let mut waits = waits.filter(|(_, waited)| std::future::ready(waited.is_ok()));
    match waits.next().await {
        Some((one, _)) => info!(namespace = one.namespace, "can watch the namespace now: restarting to include it"),
        None => std::future::pending().await,
    }
}
