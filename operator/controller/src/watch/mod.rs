//! How objects of a kind are watched and reconciled, whatever their kind. A controller brings the [`Stores`] that it goes by and a
//! [`Controller`]; the wiring is the same for all.

mod backoff;
mod controller;
mod impatient;
mod namespaces;
mod parts;
mod reflect;
mod touched;
mod turns;
mod unreadable;

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use tokio::sync::{broadcast, mpsc};

pub use controller::{Controller, Running};
pub use impatient::impatient;
pub use namespaces::{Scope, Stores};
pub use parts::{Objects, Parts};
pub use reflect::{Part, version};
pub use touched::Touched;
pub use unreadable::Unreadable;

use crate::args::Args;
use crate::clock::SharedClock;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::stop::Stop;
use crate::task::{Ended, Vital};

/// Changes that a controller may be behind with.
const BEHIND: usize = 4096;

/// What controllers are begun with.
pub struct Wiring {
    pub client: Client,
    pub clock: SharedClock,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub stop: Stop,
    /// What watches, and whatever else reconciles rely on.
    pub vital: Vital,
    /// For what is watched.
    watcher: Client,
    /// Objects of a kind that are reconciled at the same time.
    concurrency: u16,
    /// Where objects are watched: in each of these, or in all.
    namespaces: Vec<Option<String>>,
    sender: mpsc::UnboundedSender<Touched>,
    changes: broadcast::Sender<Touched>,
}

/// What watches have to say, kept until all controllers hear it. Watches end when this is dropped.
pub struct Changes {
    receiver: mpsc::UnboundedReceiver<Touched>,
    controllers: broadcast::Sender<Touched>,
    pub ended: Ended,
}

impl Wiring {
    pub fn new(
        client: Client,
        args: &Args,
        clock: SharedClock,
        (metrics, health): (Arc<Metrics>, Arc<Health>),
        stop: Stop,
    ) -> (Self, Changes) {
        let concurrency = args.concurrency;
        let namespaces = match args.namespaces.as_slice() {
            [] => vec![None],
            named => named.iter().cloned().map(Some).collect(),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let (changes, _) = broadcast::channel(BEHIND);
        let (vital, ended) = Vital::new();
        let watcher = impatient(client.clone());
        let heard = Changes { receiver, controllers: changes.clone(), ended };
        (Self { client, clock, metrics, health, stop, vital, watcher, concurrency, namespaces, sender, changes }, heard)
    }

    pub fn tell(&self) -> Tell {
        Tell(self.sender.clone())
    }

    /// What may be watched in a namespace, or in all.
    pub fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let everywhere = || self.everywhere();
        namespace.map_or_else(everywhere, |namespace| Api::namespaced(self.watcher.clone(), namespace))
    }

    pub fn everywhere<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType: Default>,
    {
        Api::all(self.watcher.clone())
    }
}

/// Asks for reconciles from outside of a watch.
#[derive(Clone, Debug)]
pub struct Tell(mpsc::UnboundedSender<Touched>);

impl Tell {
    /// With what hears it.
    #[cfg(test)]
    pub fn heard() -> (Self, mpsc::UnboundedReceiver<Touched>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub fn touched(&self, touched: Touched) {
        // Where nobody hears it, everything is about to end.
        let _ = self.0.send(touched);
    }
}

impl Changes {
    /// Passes changes on to the controllers that were begun, until something vital has ended: says what.
    pub async fn pass_on(mut self) -> String {
        loop {
            tokio::select! {
                biased;
                ended = self.ended.first() => return ended,
                Some(touched) = self.receiver.recv() => {
                    let _ = self.controllers.send(touched);
                }
            }
        }
    }
}
