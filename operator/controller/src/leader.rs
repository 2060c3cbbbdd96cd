//! One replica acts, the others wait for it to vanish.

use std::time::Duration;

use kube::Client;
use tracing::{info, warn};

use crate::args::Args;
use crate::lease::{Asked, Leases};

/// The lease that replicas of one installation share.
const NAME: &str = "assay-operator";
/// How long a leader that is not heard of keeps its office.
const DURATION: Duration = Duration::from_secs(30);
/// A leader that could not renew for this long stops by itself, well before another one begins.
const GIVE_UP: Duration = Duration::from_secs(20);
/// Between two tries to become the leader.
const RETRY: Duration = Duration::from_secs(3);
const RENEW: Duration = Duration::from_secs(10);
/// How long a renewal may take.
const ANSWER: Duration = Duration::from_secs(5);

/// Waits until this replica leads.
pub async fn elected(client: &Client, args: &Args) -> Leases {
    let leases = Leases::new(client, &args.own_namespace, DURATION);
    let mut told = String::new();
    loop {
        match ask(&leases, args).await {
            Ok(None) => {
                info!(identity = args.identity, "this replica leads");
                return leases;
            }
            Ok(Some(other)) if other != told => {
                info!(leader = other, "another replica leads; waiting");
                told = other;
            }
            Ok(Some(_)) => {}
            Err(error) => warn!(%error, "the leader's lease can't be asked for"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Holds the office until it is lost.
pub async fn lead(leases: &Leases, args: &Args) {
    let mut renewed = tokio::time::Instant::now();
    let mut pause = RENEW;
    loop {
        tokio::time::sleep(pause).await;
        let asked_at = tokio::time::Instant::now();
        pause = RETRY;
        match tokio::time::timeout(ANSWER, ask(leases, args)).await {
            Ok(Ok(None)) => (renewed, pause) = (asked_at, RENEW),
            Ok(Ok(Some(other))) => {
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

/// Gives the office back. A hint only: without it the next leader waits until the lease has run out.
pub async fn resign(leases: &Leases, args: &Args) {
    if let Ok(Some(lease)) = leases.get(NAME).await
        && lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(&args.identity)
        && let Err(error) = leases.release(&lease).await
    {
        warn!(%error, "the leader's lease can't be given back");
    }
}

/// `None` where this replica has the lease, else who has it.
async fn ask(leases: &Leases, args: &Args) -> Result<Option<String>, crate::error::Error> {
    let known = leases.get(NAME).await?;
    match leases.ask(NAME, &args.identity, &args.identity, known.as_ref()).await? {
        Asked::Held(_) => Ok(None),
        Asked::Taken(other) => Ok(Some(other)),
    }
}
