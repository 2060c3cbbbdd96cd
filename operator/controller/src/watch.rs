//! Stores that watches keep up to date, and who is told of a change.

use std::fmt::Debug;
use std::hash::Hash;

use futures::StreamExt as _;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

/// What has changed: one object, or all of a kind.
#[derive(Clone, Debug)]
pub enum Touched {
    /// Something of the experiment of this namespace and name.
    Experiment(String, String),
    All,
}

/// Keeps a store up to date in the background. `touches` says which experiment a changed object belongs to.
pub fn reflect<K>(
    api: Api<K>,
    config: watcher::Config,
    sender: UnboundedSender<Touched>,
    touches: impl Fn(&K) -> Option<Touched> + Send + 'static,
) -> Store<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
{
    let (store, writer) = reflector::store();
    let events = reflector::reflector(writer, watcher(api, config).default_backoff());
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        let mut is_broken = false;
        while let Some(event) = events.next().await {
            let touched = match event {
                Ok(Event::Apply(object) | Event::Delete(object)) => touches(&object),
                // A list after a broken watch does not say what has gone meanwhile.
                Ok(Event::InitDone) => Some(Touched::All),
                Ok(Event::Init | Event::InitApply(_)) => None,
                Err(error) => {
                    // One that was only interrupted is made again at once; what is wrong twice in a row may stay so.
                    if is_broken {
                        warn!(%error, kind = %K::kind(&K::DynamicType::default()), "can't be watched, and is tried again");
                    }
                    is_broken = true;
                    continue;
                }
            };
            is_broken = false;
            if let Some(touched) = touched
                && sender.send(touched).is_err()
            {
                return;
            }
        }
    });
    store
}

/// A lock that a panic elsewhere does not spoil: what is behind it is a memory, and the API server knows better.
pub fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
