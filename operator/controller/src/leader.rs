//! One replica acts, the others wait for it to vanish.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tracing::{info, warn};

use crate::args::Args;
use crate::clock::SharedClock;
use crate::error::Error;
use crate::health::Health;
use crate::lease::{Asked, Leases, holder};
use crate::watch::impatient;

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
pub async fn elected(client: &Client, args: &Args, clock: &SharedClock) -> (Leases, Lease) {
    let leases = Leases::new(client, &args.own_namespace, DURATION, Arc::clone(clock));
    let api = Api::namespaced(impatient(client.clone()), &args.own_namespace);
    let mut changes = std::pin::pin!(watch_object::<Lease>(api, NAME).default_backoff());
    let mut known = None;
    let mut pause = DURATION;
    let mut told = String::new();
    loop {
        tokio::select! {
            biased;
            change = changes.next() => match change {
                Some(Ok(lease)) => known = lease,
                Some(Err(error)) => {
                    warn!(%error, "can't watch the leader's lease");
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
                warn!(%error, "can't request the leader's lease");
                pause = RETRY;
            }
        }
    }
}

/// Holds the office until it is lost, or this replica is of no use any more.
pub async fn lead(leases: &Leases, mut held: Lease, args: &Args, clock: &SharedClock, health: &Health) {
    let mut renewed = clock.instant();
    let mut pause = RENEW;
    loop {
        tokio::time::sleep(pause).await;
        if !health.is_well() {
            warn!("a reconcile hangs: leaving the rest to another replica");
            return;
        }
        let asked_at = clock.instant();
        pause = RETRY;
        match tokio::time::timeout(ANSWER, renew(leases, &held, args)).await {
            Ok(Ok(Asked::Held(lease))) => (held, renewed, pause) = (*lease, asked_at, RENEW),
            Ok(Ok(Asked::Taken(other))) => {
                warn!(leader = other, "another replica leads now");
                return;
            }
            Ok(Err(error)) => warn!(%error, "can't renew the leader's lease"),
            Err(_) => warn!("can't renew the leader's lease: no answer"),
        }
        if clock.since(renewed) > GIVE_UP {
            warn!("the leader's lease was not renewed for {} s", GIVE_UP.as_secs());
            return;
        }
    }
}

async fn renew(leases: &Leases, held: &Lease, args: &Args) -> Result<Asked, Error> {
    let ask = async |known: Option<&Lease>| leases.ask(NAME, &args.identity, &args.identity, known).await;
    if let renewed @ Asked::Held(_) = ask(Some(held)).await? {
        return Ok(renewed);
    }
    // It changed, which may have been our own renewal, whose answer was lost. Only the lease says whose it is.
    let known = leases.get(NAME).await?;
    match known.as_ref().and_then(holder).filter(|holder| *holder != args.identity) {
        Some(other) => Ok(Asked::Taken(other.to_owned())),
        None => match ask(known.as_ref()).await? {
            Asked::Taken(_) => Err(Error::Unexpected("the lease changed while it was renewed".to_owned())),
            renewed @ Asked::Held(_) => Ok(renewed),
        },
    }
}

/// Gives the office back. A hint only: without it the next leader waits until the lease has run out.
pub async fn resign(leases: &Leases, args: &Args) {
    if let Ok(Some(lease)) = leases.get(NAME).await
        && holder(&lease) == Some(&args.identity)
        && let Err(error) = leases.release(&lease).await
    {
        warn!(%error, "can't release the leader's lease");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use assay_api::names::{MANAGED_BY, MANAGED_LABEL};
    use clap::Parser as _;
    use http_body_util::Full;
    use hyper::body::{Bytes, Incoming};
    use hyper::service::service_fn;
    use hyper::{Method, Request, Response};
    use hyper_util::rt::TokioIo;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::testing::Manual;
    use crate::lock::locked;

    /// An API server with one lease, of this holder, which refuses so many writes.
    async fn renewed(holder: &'static str, refusals: usize) -> Result<Asked, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let left = Arc::new(Mutex::new(refusals));
        let lease = json!({"metadata": {"name": NAME, "resourceVersion": "7"}, "spec": {"holderIdentity": holder}});
        let answer = move |request: Request<Incoming>| {
            let mut left = locked(&left);
            let refuses = request.method() == Method::PUT && *left > 0;
            *left -= usize::from(refuses);
            let conflict = json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409});
            let (status, body) = match request.uri().path() {
                _ if refuses => (409, conflict),
                path if path.ends_with("leases") => (200, json!({"metadata": {}, "items": [lease]})),
                _ => (200, lease.clone()),
            };
            let response = Response::builder().status(status).body(Full::new(Bytes::from(body.to_string())));
            std::future::ready(Ok::<_, Infallible>(response.expect("a response")))
        };
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(answer.clone())));
            }
        });
        let server_url = format!("http://{address}").parse().expect("a URL");
        let client = Client::try_from(kube::Config::new(server_url)).expect("a client");
        let args = ["assay-operator", "--bench-image=bench", "--own-namespace=here", "--identity=me"];
        let args = Args::try_parse_from(args).expect("arguments");
        let held = json!({"metadata": {"name": NAME, "resourceVersion": "6"}, "spec": {"holderIdentity": "me"}});
        let leases = Leases::new(&client, "here", DURATION, Manual::new());
        let asked = renew(&leases, &serde_json::from_value(held).expect("a lease"), &args).await;
        server.abort();
        asked
    }

    /// An API server with a lease of a leader that is gone. It does not answer the first list.
    fn silent_at_first() -> Client {
        let is_asked = Arc::new(AtomicBool::new(false));
        let meta = json!({"name": NAME, "resourceVersion": "7", "labels": {MANAGED_LABEL: MANAGED_BY}});
        let lease = json!({"metadata": meta, "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 30}});
        let server = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (lease, is_asked) = (lease.clone(), Arc::clone(&is_asked));
            async move {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let (code, body) = match request.method().as_str() {
                    "GET" if is_watch || !is_asked.swap(true, Ordering::Relaxed) => return pending().await,
                    "GET" => (200, json!({"metadata": {"resourceVersion": "7"}, "items": [lease]})),
                    "POST" => (409, json!({"kind": "Status", "reason": "AlreadyExists", "code": 409})),
                    _ => (
                        200,
                        serde_json::from_slice(&request.into_body().collect_bytes().await.expect("a body"))
                            .expect("a lease"),
                    ),
                };
                Response::builder().status(code).body(Full::new(Bytes::from(body.to_string())))
            }
        });
        Client::new(server, "here")
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_not_answered_keeps_nobody_from_leading() {
        let clock = Manual::new();
        let args = ["assay-operator", "--bench-image=bench", "--own-namespace=here", "--identity=me"];
        let args = Args::try_parse_from(args).expect("arguments");
        let (client, shared) = (silent_at_first(), Arc::clone(&clock) as SharedClock);
        let passes = async {
            for _ in 0..300 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                clock.pass(Duration::from_secs(1));
            }
        };
        tokio::select! {
            (_, lease) = elected(&client, &args, &shared) => assert_eq!(holder(&lease), Some("me")),
            () = passes => panic!("nobody leads"),
        }
    }

    #[tokio::test]
    async fn only_a_lease_of_another_ends_the_office() {
        assert!(matches!(renewed("me", 0).await, Ok(Asked::Held(_))));
        assert!(matches!(renewed("me", 1).await, Ok(Asked::Held(_))), "the first answer was lost");
        assert!(renewed("me", 2).await.is_err_and(|error| error.is_conflict()), "to be tried again");
        assert!(matches!(renewed("other", 1).await, Ok(Asked::Taken(other)) if other == "other"));
        assert!(matches!(renewed("", 1).await, Ok(Asked::Held(_))), "nobody has taken it");
    }
}
