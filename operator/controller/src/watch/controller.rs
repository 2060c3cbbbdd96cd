//! What reconciles the objects of a kind: each when something of it has changed, when it asked for it, and after an error.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use kube::Resource;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tracing::{Instrument as _, Span, warn};

use super::backoff::Backoff;
use super::{Touched, Wiring};
use crate::clock::SharedClock;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::task;

/// Several changes at once are one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// What the reconciles of a kind share.
pub trait Controller: Send + Sync + 'static {
    type Kind: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static;

    /// What says of whatever is logged during a reconcile whose it is, at every level that a log may have.
    fn span(object: &Self::Kind) -> Span;

    /// Those of all objects that go by what happened to a node.
    fn concerned(&self, all: Vec<Arc<Self::Kind>>, by: &Touched) -> Vec<Arc<Self::Kind>>;

    /// Reconciles an object and says when to do so again.
    fn reconcile(&self, object: &Self::Kind) -> impl Future<Output = Result<Action, Error>> + Send;
}

/// Reconciles until it is asked to stop; reconciles that have begun are finished.
pub type Running = BoxFuture<'static, ()>;

impl Wiring {
    /// Reconciles the objects of these stores.
    pub fn run<C: Controller>(&self, controller: &Arc<C>, stores: Vec<Store<C::Kind>>) -> Running {
        let running: Vec<_> = stores.into_iter().map(|store| self.run_one(Arc::clone(controller), store)).collect();
        futures::future::join_all(running).map(drop).boxed()
    }

    fn run_one<C: Controller>(&self, controller: Arc<C>, store: Store<C::Kind>) -> Running {
        let queue =
            queue(self.changes.subscribe(), store.clone(), Arc::clone(&controller)).take_until(self.stop.asked());
        let (clock, metrics, health) = (Arc::clone(&self.clock), Arc::clone(&self.metrics), Arc::clone(&self.health));
        let failures = Arc::new(Backoff::default());
        let (backoff, now) = (Arc::clone(&failures), Arc::clone(&clock));
        // Each beside all others: one that has much to compute holds nobody up, and one that panics ends nobody else.
        let begin = move |object: Arc<C::Kind>, controller| {
            let (health, failures, name) = (Arc::clone(&health), Arc::clone(&failures), ObjectRef::from_obj(&*object));
            let reconcile = reconcile(controller, object, Arc::clone(&clock), Arc::clone(&metrics));
            let reconcile = task::begin(async move { health.watch(reconcile).await });
            reconcile.map(move |ended| {
                let ended = ended.unwrap_or_else(|panic| Err(Error::Unexpected(panic.to_string())));
                if ended.is_ok() {
                    failures.succeeded(&name);
                }
                ended
            })
        };
        let on_error = move |object: Arc<C::Kind>, error: &Error, _: Arc<C>| {
            Action::requeue(backoff.failed(ObjectRef::from_obj(&*object), error.is_conflict(), now.instant()))
        };
        let config = Config::default().debounce(DEBOUNCE).concurrency(self.concurrency);
        applier(begin, on_error, controller, store, Box::pin(queue), config).for_each(|_| async {}).boxed()
    }
}

async fn reconcile<C: Controller>(
    controller: Arc<C>,
    object: Arc<C::Kind>,
    clock: SharedClock,
    metrics: Arc<Metrics>,
) -> Result<Action, Error> {
    let timed = async {
        let started = clock.instant();
        let result = controller.reconcile(&object).await;
        metrics.reconciled(clock.since(started), result.is_ok());
        if let Err(error) = &result {
            warn!(error = error.message(), "will retry");
        }
        result
    };
    timed.instrument(C::span(&object)).await
}

/// The objects that have to be reconciled because of a change.
fn queue<C: Controller>(
    changes: broadcast::Receiver<Touched>,
    store: Store<C::Kind>,
    controller: Arc<C>,
) -> impl Stream<Item = Result<ObjectRef<C::Kind>, Infallible>> {
    stream::unfold(changes, |mut changes| async move {
        match changes.recv().await {
            Ok(touched) => Some((touched, changes)),
            // Too many changes to name: all of them.
            Err(RecvError::Lagged(_)) => Some((Touched::All, changes)),
            Err(RecvError::Closed) => None,
        }
    })
    .flat_map(move |touched| {
        let concerned = touched.of(&store, |all, touched| controller.concerned(all, touched));
        stream::iter(concerned.into_iter().map(Ok))
    })
}
