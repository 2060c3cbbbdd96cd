//! Stores that watches keep up to date, and what a change touches.

use std::fmt::Debug;
use std::hash::Hash;

use futures::{Stream, StreamExt as _};
use kube::api::{Api, ObjectMeta};
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::{Touched, Unreadable, Wiring};

impl Wiring {
    /// Keeps a store up to date in the background. `touches` says what a changed object is part of.
    pub fn reflect<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        touches: impl Fn(&K) -> Option<Touched> + Send + 'static,
    ) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
    {
        self.reflect_slim(api, config, |_| (), touches)
    }

    /// The same without what of each object need not be kept.
    pub fn reflect_slim<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        slim: fn(&mut K),
        touches: impl Fn(&K) -> Option<Touched> + Send + 'static,
    ) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
    {
        self.keep(reflector::store(), watcher(api, config).default_backoff(), slim, touches)
    }

    /// The same of a kind that a newer version may have written: what can't be read is kept apart. `unreadable_touches` says what such
    /// an object is part of.
    pub fn reflect_readable<K>(
        &self,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        touches: impl Fn(&K) -> Option<Touched> + Send + 'static,
        unreadable_touches: impl Fn(&ObjectMeta) -> Option<Touched> + Send + 'static,
    ) -> (Store<K>, Unreadable)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (store, writer) = reflector::store::<K>();
        let unreadable = Unreadable::default();
        let (apart, known, sender) = (unreadable.clone(), store.clone(), self.sender.clone());
        let events = watcher(api, config).default_backoff();
        let readable = events.filter_map(move |event| {
            let hidden = match &event {
                Ok(Event::Apply(DeserializeGuard(Err(object)))) => unreadable_touches(&object.metadata),
                _ => None,
            };
            let event = event.map(|event| apart.divide(event, |name| known.get(name)));
            if let Some(touched) = hidden {
                let _ = sender.send(touched);
            }
            std::future::ready(event.transpose())
        });
        (self.keep((store, writer), readable, |_| (), touches), unreadable)
    }

    fn keep<K>(
        &self,
        (store, writer): (Store<K>, Writer<K>),
        events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
        slim: fn(&mut K),
        touches: impl Fn(&K) -> Option<Touched> + Send + 'static,
    ) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
    {
        let sender = self.sender.clone();
        let kept = events.modify(move |object| {
            // Often larger than the object itself.
            object.meta_mut().managed_fields = None;
            slim(object);
        });
        let events = reflector::reflector(writer, kept);
        tokio::spawn(async move {
            let mut events = std::pin::pin!(events);
            let mut is_broken = false;
            loop {
                let event = tokio::select! {
                    biased;
                    // Nobody listens any more at the end.
                    () = sender.closed() => return,
                    event = events.next() => event,
                };
                let Some(event) = event else { return };
                let touched = match event {
                    Ok(Event::Apply(object) | Event::Delete(object)) => touches(&object),
                    // A list after a broken watch does not say what has gone meanwhile.
                    Ok(Event::InitDone) => Some(Touched::All),
                    Ok(Event::Init | Event::InitApply(_)) => None,
                    Err(error) => {
                        // One that was only interrupted is made again at once; what is wrong twice in a row may stay so.
                        if is_broken {
                            warn!(%error, kind = %K::kind(&K::DynamicType::default()), "can't watch; will retry");
                        }
                        is_broken = true;
                        continue;
                    }
                };
                is_broken = false;
                if let Some(touched) = touched {
                    let _ = sender.send(touched);
                }
            }
        });
        store
    }
}

/// Resource versions of one kind are numbers that grow with every write.
pub fn version<K: Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
