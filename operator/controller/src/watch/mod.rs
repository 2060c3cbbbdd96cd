//! How objects of a kind are watched and reconciled, whatever their kind. A controller brings the [`Stores`] that it goes by and a
//! [`Controller`]; the wiring is the same for all.

mod backoff;
mod controller;
mod namespaces;
mod parts;
mod reflect;
mod touched;
mod unreadable;

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use tokio::sync::{broadcast, mpsc};

pub use controller::{Controller, Running};
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

/// Changes that a controller may be behind with.
const BEHIND: usize = 4096;

/// What controllers are begun with.
pub struct Wiring {
    pub client: Client,
    pub clock: SharedClock,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub stop: Stop,
    /// Objects of a kind that are reconciled at the same time.
    concurrency: u16,
    /// Where objects are watched: in each of these, or in all.
    namespaces: Vec<Option<String>>,
    sender: mpsc::UnboundedSender<Touched>,
    changes: broadcast::Sender<Touched>,
}

/// What watches have to say, kept until all controllers hear it.
pub struct Changes {
    receiver: mpsc::UnboundedReceiver<Touched>,
    changes: broadcast::Sender<Touched>,
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
        let heard = Changes { receiver, changes: changes.clone() };
        (Self { client, clock, metrics, health, stop, concurrency, namespaces, sender, changes }, heard)
    }

    pub fn tell(&self) -> Tell {
        Tell(self.sender.downgrade())
    }

    pub fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let client = self.client.clone();
        namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace))
    }
}

/// Asks for reconciles from outside of a watch. It keeps no watch alive.
#[derive(Clone, Debug)]
pub struct Tell(mpsc::WeakUnboundedSender<Touched>);

impl Tell {
    /// With what hears it, for as long as the sender is kept.
    #[cfg(test)]
    pub fn heard() -> (Self, mpsc::UnboundedSender<Touched>, mpsc::UnboundedReceiver<Touched>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender.downgrade()), sender, receiver)
    }

    pub fn touched(&self, touched: Touched) {
        // Without watches everything is about to end.
        if let Some(sender) = self.0.upgrade() {
            let _ = sender.send(touched);
        }
    }
}

impl Changes {
    /// Passes changes on to the controllers that were begun; ends when no watch is left.
    pub async fn pass_on(mut self) {
        while let Some(touched) = self.receiver.recv().await {
            let _ = self.changes.send(touched);
        }
    }
}
