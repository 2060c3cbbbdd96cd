//! Objects that this version can't read, since a newer one has written them or their definition. One of them must not hide all others,
//! which is what a list of typed objects would do.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use kube::Resource;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;

use crate::lock::locked;

/// Those of a kind, as the watch has them.
#[derive(Clone, Default)]
pub struct Unreadable(Arc<Mutex<Known>>);

/// By namespace and name.
type Objects = BTreeMap<(String, String), InvalidObject>;

#[derive(Default)]
struct Known {
    now: Objects,
    /// Those of a list that is not complete yet.
    listed: Objects,
}

impl Unreadable {
    /// All of them.
    pub fn all(&self) -> Vec<InvalidObject> {
        locked(&self.0).now.values().cloned().collect()
    }

    /// What those who read objects shall hear of an event, given what they know of an object; nothing of one that can't be read.
    pub fn divide<K>(
        &self,
        event: Event<DeserializeGuard<K>>,
        known: impl FnOnce(&ObjectRef<K>) -> Option<Arc<K>>,
    ) -> Option<Event<K>>
    where
        K: Resource<DynamicType = ()> + Clone + Debug,
    {
        let all = &mut *locked(&self.0);
        match event {
            Event::Apply(DeserializeGuard(Ok(object))) => {
                all.now.remove(&name(&object));
                Some(Event::Apply(object))
            }
            // What was known of it before is true as far as it goes; who acts by it asks here first.
            Event::Apply(DeserializeGuard(Err(object))) => {
                all.now.insert(name_of(&object), object);
                None
            }
            Event::Delete(DeserializeGuard(Ok(object))) => {
                all.now.remove(&name(&object));
                Some(Event::Delete(object))
            }
            Event::Delete(DeserializeGuard(Err(object))) => {
                let (namespace, name) = name_of(&object);
                all.now.remove(&(namespace.clone(), name.clone()));
                known(&ObjectRef::new(&name).within(&namespace)).map(|known| Event::Delete((*known).clone()))
            }
            Event::Init => {
                all.listed.clear();
                Some(Event::Init)
            }
            Event::InitApply(DeserializeGuard(Ok(object))) => Some(Event::InitApply(object)),
            Event::InitApply(DeserializeGuard(Err(object))) => {
                all.now.insert(name_of(&object), object.clone());
                all.listed.insert(name_of(&object), object);
                None
            }
            Event::InitDone => {
                all.now = std::mem::take(&mut all.listed);
                Some(Event::InitDone)
            }
        }
    }
}

fn name<K: Resource>(object: &K) -> (String, String) {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

fn name_of(object: &InvalidObject) -> (String, String) {
    let meta = &object.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use assay_api::TuningTrial;
    use serde_json::json;

    use super::*;

    fn trial(name: &str, is_newer: bool) -> DeserializeGuard<TuningTrial> {
        let mut trial = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial",
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"experiment": "e", "plan": "p", "scenario": "s", "block": 0, "config": "c", "replicate": 0,
                "order": 0, "seed": 0, "node": "n"},
        });
        if is_newer {
            trial["spec"]["planted"] = json!(true);
        }
        serde_json::from_value(trial).expect("at least its metadata")
    }

    fn words(event: Option<Event<TuningTrial>>) -> String {
        match event {
            None => "nothing".to_owned(),
            Some(Event::Apply(object)) => format!("apply {}", name(&object).1),
            Some(Event::Delete(object)) => format!("delete {}", name(&object).1),
            Some(Event::Init) => "begin".to_owned(),
            Some(Event::InitApply(object)) => format!("listed {}", name(&object).1),
            Some(Event::InitDone) => "done".to_owned(),
        }
    }

    #[test]
    fn what_can_not_be_read_is_kept_apart_and_hides_nothing() {
        let unreadable = Unreadable::default();
        let known = |name: &str| trial(name, false).0.ok().map(Arc::new);
        let names = || unreadable.all().iter().map(|object| name_of(object).1).collect::<Vec<_>>();
        let hear = |event| words(unreadable.divide(event, |object| known(&object.name)));
        let list = [Event::Init, Event::InitApply(trial("a", false)), Event::InitApply(trial("b", true))];
        assert_eq!(list.map(hear), ["begin", "listed a", "nothing"]);
        assert_eq!(names(), ["b"], "known before the list is complete");
        assert_eq!(hear(Event::InitDone), "done");
        assert!(unreadable.all()[0].error.contains("planted"), "{}", unreadable.all()[0].error);
        assert_eq!(hear(Event::Apply(trial("a", true))), "nothing");
        assert_eq!(names(), ["a", "b"]);
        assert_eq!(hear(Event::Apply(trial("b", false))), "apply b");
        assert_eq!(names(), ["a"], "it can be read now");
        // Those who knew it as it was before have to hear that it is gone.
        assert_eq!(hear(Event::Delete(trial("a", true))), "delete a");
        assert_eq!(names(), [""; 0]);
        assert_eq!(hear(Event::Apply(trial("c", true))), "nothing");
        // A list after a broken watch does not say what has gone meanwhile.
        assert_eq!([Event::Init, Event::InitDone].map(hear), ["begin", "done"]);
        assert_eq!(names(), [""; 0]);
    }
}
