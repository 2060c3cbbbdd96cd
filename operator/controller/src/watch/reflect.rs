//! Stores that watches keep up to date, and what a change touches.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use futures::{Stream, StreamExt as _};
use kube::api::{Api, ObjectMeta};
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::warn;

use super::{Parts, Touched, Unreadable, Wiring};

impl Wiring {
    /// Keeps a store up to date in the background. `touches` says what a changed object is part of.
    pub fn reflect<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        touches: impl Fn(&K) -> Option<Touched> + Send + Sync + 'static,
    ) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
    {
        self.reflect_part(api, config, Part::all(), touches)
    }

    /// The same of a part of each object.
    pub fn reflect_part<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        part: Part<K>,
        touches: impl Fn(&K) -> Option<Touched> + Send + Sync + 'static,
    ) -> Store<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
    {
        self.keep(reflector::store(), watcher(api, config).default_backoff(), part, touches)
    }

    /// The same of a kind that a newer version may have written: what can't be read is kept apart. `unreadable_touches` says what such
    /// an object is part of.
    pub fn reflect_readable<K>(
        &self,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        part: Part<K>,
        touches: impl Fn(&K) -> Option<Touched> + Send + Sync + 'static,
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
        (self.keep((store, writer), readable, part, touches), unreadable)
    }

    fn keep<K>(
        &self,
        (store, writer): (Store<K>, Writer<K>),
        events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
        Part { slim, matters, parts, gone, saw }: Part<K>,
        touches: impl Fn(&K) -> Option<Touched> + Send + Sync + 'static,
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
        let seen = kept.inspect(move |event| {
            if let Ok(event) = event {
                for (parts, whole) in &parts {
                    parts.saw(event, whole);
                }
            }
        });
        let events = reflector::reflector(writer, seen);
        self.vital.begin(format!("the watch of {}", K::kind(&K::DynamicType::default())), async move {
            let mut events = std::pin::pin!(events);
            let mut errors = 0_u32;
            let mut news = News { matters, known: HashMap::new() };
            while let Some(event) = events.next().await {
                if let (Ok(Event::Apply(object)), Some(saw)) = (&event, &saw) {
                    saw(object);
                }
                let is_new = event.as_ref().is_ok_and(|event| news.is_new(event));
                let touched = match event {
                    Ok(Event::Apply(_)) if !is_new => None,
                    Ok(Event::Apply(object)) => touches(&object),
                    Ok(Event::Delete(object)) => gone.map_or_else(|| touches(&object), |gone| gone(&object)),
                    // A list after a broken watch does not say what has gone meanwhile.
                    Ok(Event::InitDone) => Some(Touched::All),
                    // Only its end says that the list did not fail.
                    Ok(Event::Init | Event::InitApply(_)) => continue,
                    Err(error) => {
                        // One that was only interrupted is made again at once; what is wrong twice in a row may stay so. A list that
                        // fails is tried again each second.
                        errors += 1;
                        if errors > 1 && errors.is_power_of_two() {
                            warn!(%error, kind = %K::kind(&K::DynamicType::default()), "can't watch; will retry");
                        }
                        continue;
                    }
                };
                errors = 0;
                if let Some(touched) = touched {
                    let _ = sender.send(touched);
                }
            }
        });
        store
    }
}

/// What an object is part of.
type Whole<K> = fn(&K) -> Option<Touched>;

/// Hears of an object.
type Saw<K> = Box<dyn Fn(&K) + Send + Sync>;

/// What of each object is kept and looked at.
pub struct Part<K> {
    /// Where it is noted what each is part of, in one way or another.
    pub parts: Vec<(Parts, Whole<K>)>,
    /// Leaves out what need not be kept.
    pub slim: fn(&mut K),
    /// What has to change before it touches anything, `Null` for what need not be known of; `None`: whatever changes does.
    pub matters: Option<fn(&K) -> Value>,
    /// What it touches when it goes, where that is something else.
    pub gone: Option<fn(&K) -> Option<Touched>>,
    /// Told of each that has changed, whether or not that matters.
    pub saw: Option<Saw<K>>,
}

impl<K> Part<K> {
    pub fn all() -> Self {
        Self { parts: Vec::new(), slim: |_| (), matters: None, gone: None, saw: None }
    }
}

/// A digest of what mattered of each object when it was seen last, by its namespace and name.
struct News<K> {
    matters: Option<fn(&K) -> Value>,
    known: HashMap<(Option<String>, String), u64>,
}

impl<K: Resource> News<K> {
    /// Whether what matters has changed since.
    fn is_new(&mut self, event: &Event<K>) -> bool {
        let Some(matters) = self.matters else { return true };
        let name = |object: &K| (object.namespace(), object.name_any());
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let now = matters(object);
                // What need not be known of is not remembered either.
                if now.is_null() {
                    return self.known.remove(&name(object)).is_some();
                }
                let mut hasher = DefaultHasher::new();
                now.to_string().hash(&mut hasher);
                let now = hasher.finish();
                self.known.insert(name(object), now) != Some(now)
            }
            Event::Delete(object) => {
                self.known.remove(&name(object));
                true
            }
            Event::Init | Event::InitDone => true,
        }
    }
}

/// Resource versions of one kind are numbers that grow with every write.
pub fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_matters_is_news() {
        let pod = |label: &str, other: &str| -> Pod {
            let pod = json!({"metadata": {"name": "p", "labels": {"l": label}, "annotations": {"a": other}}});
            serde_json::from_value(pod).unwrap_or_else(|error| unreachable!("{error}"))
        };
        let mut news = News { matters: Some(|pod: &Pod| json!(pod.metadata.labels)), known: HashMap::new() };
        assert!(news.is_new(&Event::Apply(pod("1", "x"))));
        assert!(!news.is_new(&Event::Apply(pod("1", "y"))));
        assert!(news.is_new(&Event::Apply(pod("2", "y"))));
        // What changed while the watch was interrupted is known from the list that followed.
        news.is_new(&Event::InitApply(pod("1", "y")));
        assert!(news.is_new(&Event::Apply(pod("2", "y"))));
        assert!(news.is_new(&Event::Delete(pod("2", "y"))));
        assert!(news.is_new(&Event::Apply(pod("2", "y"))), "another one of this name");
        let mut news = News { matters: Some(|pod: &Pod| json!(pod.labels().get("l"))), known: HashMap::new() };
        let nothing = || serde_json::from_value(json!({"metadata": {"name": "q"}})).expect("a pod");
        assert!(!news.is_new(&Event::Apply(nothing())), "nothing of it matters");
        assert!(news.is_new(&Event::Apply(pod("1", "x"))));
        assert!(news.is_new(&Event::Delete(nothing())));
        let mut all = News { matters: None, known: HashMap::new() };
        assert!((0..2).all(|_| all.is_new(&Event::Apply(pod("1", "x")))));
    }
}
