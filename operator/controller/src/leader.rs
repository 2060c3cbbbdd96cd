//! One replica acts, the others wait for it to vanish.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::args::Args;
use crate::error::Error;
use crate::lease::{Asked, Leases};

/// The lease that replicas of one installation share.
const NAME: &str = "assay-operator";
/// How long a leader that is not heard of keeps its office.
const DURATION: Duration = Duration::from_secs(30);
/// A leader that could not renew for this long stops by itself, well before another one begins.
const GIVE_UP: Duration = Duration::from_secs(20);
/// Between two tries after one that failed.
const RETRY: Duration = Duration::from_secs(3);
const RENEW: Duration = Duration::from_secs(10);
/// How long a renewal may take.
const ANSWER: Duration = Duration::from_secs(5);

/// Waits until this replica leads: told of every change of the lease, and by its own clock when it has run out.
pub async fn elected(client: &Client, args: &Args) -> (Leases, Lease) {
    let leases = Leases::new(client, &args.own_namespace, DURATION);
    let api = Api::namespaced(client.clone(), &args.own_namespace);
    let mut changes = std::pin::pin!(watch_object::<Lease>(api, NAME).default_backoff());
    let mut known = None;
    let mut pause = DURATION;
    let mut told = String::new();
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(Ok(lease)) => known = lease,
                Some(Err(error)) => {
                    warn!(%error, "the leader's lease can't be watched");
                    continue;
                }
                None => {}
            },
            () = tokio::time::sleep(pause) => {}
        }
        pause = known.as_ref().map_or(DURATION, |lease| leases.remains(lease)).max(RETRY);
        match leases.ask(NAME, &args.identity, &args.identity, known.as_ref()).await {
            Ok(Asked::Held(lease)) => {
                info!(identity = args.identity, "this replica leads");
                return (leases, *lease);
            }
            Ok(Asked::Taken(other)) if other != told => {
                info!(leader = other, "another replica leads; waiting");
                told = other;
            }
            Ok(Asked::Taken(_)) => {}
            Err(error) => {
                warn!(%error, "the leader's lease can't be asked for");
                pause = RETRY;
            }
        }
    }
}

/// Holds the office until it is lost.
pub async fn lead(leases: &Leases, mut held: Lease, args: &Args) {
    let mut renewed = Instant::now();
    let mut pause = RENEW;
    loop {
        tokio::time::sleep(pause).await;
        let asked_at = Instant::now();
        pause = RETRY;
        match tokio::time::timeout(ANSWER, renew(leases, &held, args)).await {
            Ok(Ok(Asked::Held(lease))) => (held, renewed, pause) = (*lease, asked_at, RENEW),
            Ok(Ok(Asked::Taken(other))) => {
                warn!(leader = other, "another replica leads now");
                return;
            }
            Ok(Err(error)) => warn!(%error, "the leader's lease can't be renewed"),
            Err(_) => warn!("the leader's lease can't be renewed: no answer"),
        }
        if renewed.elapsed() > GIVE_UP {
            warn!("the leader's lease could not be renewed for {} s", GIVE_UP.as_secs());
            return;
        }
    }
}

async fn renew(leases: &Leases, held: &Lease, args: &Args) -> Result<Asked, Error> {
    match leases.ask(NAME, &args.identity, &args.identity, Some(held)).await? {
        // It may be our own renewal, whose answer was lost.
        Asked::Taken(_) => {
            let known = leases.get(NAME).await?;
            leases.ask(NAME, &args.identity, &args.identity, known.as_ref()).await
        }
        renewed @ Asked::Held(_) => Ok(renewed),
    }
}

/// Gives the office back. A hint only: without it the next leader waits until the lease has run out.
pub async fn resign(leases: &Leases, args: &Args) {
    if let Ok(Some(lease)) = leases.get(NAME).await
        && lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(&args.identity)
        && let Err(error) = leases.release(&lease).await
    {
        warn!(%error, "the leader's lease can't be given back");
    }
}
