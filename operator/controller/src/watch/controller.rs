//! What reconciles the objects of a kind: each when something of it has changed, when it asked for it, and after an error.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;

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
use super::turns::Turns;
use super::{Touched, Wiring};
use crate::clock::SharedClock;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::task;

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
        let turns = Arc::new(Turns::new(self.concurrency.into()));
        let queue = queue(self.changes.subscribe(), store.clone(), Arc::clone(&controller), Arc::clone(&turns))
            .take_until(self.stop.asked());
        let (clock, metrics, health) = (Arc::clone(&self.clock), Arc::clone(&self.metrics), Arc::clone(&self.health));
        let (stop, objects) = (self.stop.clone(), store.clone());
        let failures = Arc::new(Backoff::default());
        let (backoff, now) = (Arc::clone(&failures), Arc::clone(&clock));
        // Each beside all others: one that has much to compute holds nobody up, and one that panics ends nobody else.
        let begin = move |object: Arc<C::Kind>, controller| {
            let (clock, metrics, health) = (Arc::clone(&clock), Arc::clone(&metrics), Arc::clone(&health));
            let (failures, name) = (Arc::clone(&failures), ObjectRef::from_obj(&*object));
            let (turns, stop, objects, who) = (Arc::clone(&turns), stop.asked(), objects.clone(), name.clone());
            let reconcile = async move {
                let _turn = tokio::select! {
                    biased;
                    () = stop => return Ok(Action::await_change()),
                    turn = turns.next(who.clone()) => turn,
                };
                // As it is by now, and if it is still there.
                let Some(object) = objects.get(&who) else { return Ok(Action::await_change()) };
                // Boxed, since each that waits would have to hold it.
                Box::pin(health.watch(reconcile(controller, object, clock, metrics))).await
            };
            task::begin(reconcile).map(move |ended| {
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
        applier(begin, on_error, controller, store, Box::pin(queue), Config::default()).for_each(|_| async {}).boxed()
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
        metrics.reconciled(clock.since(started), &result);
        if let Err(error) = &result {
            warn!(error = error.message(), "will retry");
        }
        result
    };
    timed.instrument(C::span(&object)).await
}

/// The objects that have to be reconciled because of a change, but for those that are about to be.
fn queue<C: Controller>(
    changes: broadcast::Receiver<Touched>,
    store: Store<C::Kind>,
    controller: Arc<C>,
    turns: Arc<Turns<ObjectRef<C::Kind>>>,
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
        stream::iter(concerned.into_iter().filter(|name| !turns.is_in_line(name)).map(Ok).collect::<Vec<_>>())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::Duration;

    use clap::Parser as _;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use kube::runtime::reflector::store;
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::args::Args;
    use crate::clock::System;
    use crate::health::Health;
    use crate::http::testing::server;
    use crate::lock::locked;
    use crate::stop::Stop;

    /// Reconciles again after this, and counts.
    struct Counting {
        again: Action,
        counts: Mutex<BTreeMap<String, usize>>,
    }

    impl Controller for Counting {
        type Kind = ConfigMap;

        fn span(_: &ConfigMap) -> Span {
            Span::none()
        }

        fn concerned(&self, all: Vec<Arc<ConfigMap>>, _: &Touched) -> Vec<Arc<ConfigMap>> {
            all
        }

        async fn reconcile(&self, object: &ConfigMap) -> Result<Action, Error> {
            *locked(&self.counts).entry(object.name_any()).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(self.again.clone())
        }
    }

    /// How often each of so many objects is reconciled in ten seconds, four at a time, where all of them change again and again.
    async fn reconciles(objects: usize, again: Action, changes_every: Duration) -> Vec<usize> {
        let (reader, mut writer) = store::<ConfigMap>();
        let object = |number: usize| {
            let mut object = ConfigMap::default();
            (object.metadata.namespace, object.metadata.name) = (Some("here".into()), Some(format!("o{number}")));
            object
        };
        writer.apply_watcher_event(&Event::Init);
        (0..objects).for_each(|number| writer.apply_watcher_event(&Event::InitApply(object(number))));
        writer.apply_watcher_event(&Event::InitDone);
        let args = Args::parse_from(["assay-operator", "--bench-image", "bench", "--concurrency", "4"]);
        let (clock, stop): (SharedClock, _) = (Arc::new(System), Stop::default());
        let watched = (Arc::new(Metrics::new()), Arc::new(Health::new(Arc::clone(&clock))));
        let (wiring, _changes) = Wiring::new(server(200).0, &args, clock, watched, stop.clone());
        let counting = Arc::new(Counting { again, counts: Mutex::default() });
        let running = tokio::spawn(wiring.run(&counting, vec![reader]));
        tokio::task::yield_now().await;
        for _ in 0..Duration::from_secs(10).as_millis() / changes_every.as_millis() {
            assert!(wiring.changes.send(Touched::All).is_ok(), "it is heard");
            tokio::time::sleep(changes_every).await;
        }
        stop.ask();
        running.await.expect("those that wait do not begin any more");
        let counts = locked(&counting.counts).clone();
        counts.into_values().collect()
    }

    /// However much the others have to do, and whatever wakes them.
    #[tokio::test(start_paused = true)]
    async fn every_object_has_its_turn() {
        let counts = reconciles(40, Action::requeue(Duration::ZERO), Duration::from_millis(100)).await;
        assert_eq!(counts.len(), 40, "{counts:?}");
        assert!(counts.iter().all(|count| (9..=11).contains(count)), "{counts:?}");
    }

    /// What changes all the time is not put off until it does no longer.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_never_rests_has_its_turn() {
        let counts = reconciles(1, Action::await_change(), Duration::from_millis(10)).await;
        assert!(matches!(counts[..], [70..=100]), "{counts:?}");
    }
}
