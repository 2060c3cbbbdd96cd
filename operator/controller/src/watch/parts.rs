//! Objects by what they are part of, so that who needs a few of many need not look at all.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};

use super::Touched;
use crate::lock::locked;

/// The objects of a store, and what each of them is part of.
pub struct Objects<K: Resource<DynamicType = ()> + Clone + 'static> {
    pub all: Store<K>,
    parts: Parts,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Objects<K> {
    pub fn new(all: Store<K>, parts: Parts) -> Self {
        Self { all, parts }
    }

    /// Those that are part of this.
    pub fn of(&self, whole: &Touched) -> Vec<Arc<K>> {
        let object = |name: &Name| self.all.get(&ObjectRef::new(&name.1).within(&name.0));
        self.parts.of(whole).iter().filter_map(object).collect()
    }
}

/// Namespace and name of an object. Both ways to look share it: there may be ten thousand.
type Name = Arc<(String, String)>;

/// The names of objects, by what they are part of. It is a step ahead of its store: what it has and the store has not is just coming, or
/// going.
#[derive(Clone, Default)]
pub struct Parts(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    now: Index,
    /// Of a list that is not complete yet.
    listed: Index,
}

#[derive(Default)]
struct Index {
    parts: HashMap<Arc<Touched>, BTreeSet<Name>>,
    wholes: HashMap<Name, Arc<Touched>>,
}

impl Parts {
    pub fn saw<K: Resource>(&self, event: &Event<K>, whole: impl Fn(&K) -> Option<Touched>) {
        let Known { now, listed } = &mut *locked(&self.0);
        match event {
            Event::Apply(object) => now.put(name(object), whole(object)),
            Event::Delete(object) => now.put(name(object), None),
            Event::Init => *listed = Index::default(),
            Event::InitApply(object) => listed.put(name(object), whole(object)),
            Event::InitDone => *now = std::mem::take(listed),
        }
    }

    fn of(&self, whole: &Touched) -> BTreeSet<Name> {
        locked(&self.0).now.parts.get(whole).cloned().unwrap_or_default()
    }
}

impl Index {
    fn put(&mut self, name: Name, whole: Option<Touched>) {
        if let Some(before) = self.wholes.remove(&name)
            && let Some(parts) = self.parts.get_mut(&before)
        {
            parts.remove(&name);
            if parts.is_empty() {
                self.parts.remove(&before);
            }
        }
        if let Some(whole) = whole {
            let known = self.parts.get_key_value(&whole).map(|(known, _)| Arc::clone(known));
            let whole = known.unwrap_or_else(|| Arc::new(whole));
            self.parts.entry(Arc::clone(&whole)).or_default().insert(Arc::clone(&name));
            self.wholes.insert(name, whole);
        }
    }
}

fn name(object: &impl Resource) -> Name {
    Arc::new((object.namespace().unwrap_or_default(), object.name_any()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::Pod;
    use kube::runtime::reflector;
    use kube::runtime::reflector::store::Writer;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, whole: Option<&str>) -> Pod {
        let labels: BTreeMap<_, _> = whole.map(|whole| ("of", whole)).into_iter().collect();
        let pod = json!({"metadata": {"name": name, "namespace": "ns", "labels": labels}});
        serde_json::from_value(pod).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn whole(pod: &Pod) -> Option<Touched> {
        Some(Touched::Node(pod.labels().get("of")?.clone()))
    }

    struct Watch(Objects<Pod>, Writer<Pod>);

    impl Watch {
        fn new() -> Self {
            let (store, writer) = reflector::store();
            Self(Objects::new(store, Parts::default()), writer)
        }

        fn tell(&mut self, event: &Event<Pod>) {
            self.0.parts.saw(event, whole);
            self.1.apply_watcher_event(event);
        }

        /// The names of those that are part of this, after a look at all of them.
        fn of(&self, of: &str) -> Vec<String> {
            let part = Touched::Node(of.to_owned());
            let mut walked = self.0.all.state_filter(|pod| whole(pod).as_ref() == Some(&part));
            walked.sort_by_key(|pod| pod.name_any());
            let found: Vec<String> = self.0.of(&part).iter().map(|pod| pod.name_any()).collect();
            assert_eq!(found, walked.iter().map(|pod| pod.name_any()).collect::<Vec<_>>());
            found
        }
    }

    #[test]
    fn parts_are_those_that_a_walk_finds() {
        let mut watch = Watch::new();
        for (name, whole) in [("a", Some("x")), ("b", Some("x")), ("c", Some("y")), ("d", None)] {
            watch.tell(&Event::Apply(pod(name, whole)));
        }
        assert_eq!((watch.of("x"), watch.of("y")), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]));
        watch.tell(&Event::Apply(pod("b", Some("y"))));
        watch.tell(&Event::Delete(pod("c", Some("y"))));
        watch.tell(&Event::Apply(pod("d", Some("z"))));
        assert_eq!(
            (watch.of("x"), watch.of("y"), watch.of("z")),
            (vec!["a".to_owned()], vec!["b".to_owned()], vec!["d".to_owned()])
        );
        watch.tell(&Event::Delete(pod("a", Some("x"))));
        assert!(watch.of("x").is_empty());
    }

    #[test]
    fn a_list_says_what_has_gone_meanwhile() {
        let mut watch = Watch::new();
        watch.tell(&Event::Apply(pod("a", Some("x"))));
        watch.tell(&Event::Init);
        watch.tell(&Event::InitApply(pod("b", Some("x"))));
        // A list that breaks off is begun again.
        watch.tell(&Event::Init);
        assert_eq!(watch.of("x"), ["a"], "until the list is complete");
        watch.tell(&Event::InitApply(pod("c", Some("x"))));
        watch.tell(&Event::InitDone);
        assert_eq!(watch.of("x"), ["c"]);
    }
}
