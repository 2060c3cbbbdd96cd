use std::borrow::Cow;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// Something of this object.
    One { kind: Cow<'static, str>, namespace: String, name: String },
    /// Something of a node.
    Node(String),
    /// A node that nobody holds any more.
    Freed(String),
    /// Something that any object may go by.
    All,
}

impl Touched {
    pub fn one<K: Resource<DynamicType = ()>>(namespace: String, name: String) -> Self {
        Self::One { kind: K::kind(&()), namespace, name }
    }

    /// The objects of a store that have to be reconciled because of it, given those of all that what happened to a node concerns.
    pub fn of<K>(&self, store: &Store<K>, concerned: impl Fn(Vec<Arc<K>>, &Self) -> Vec<Arc<K>>) -> Vec<ObjectRef<K>>
    where
        K: Resource<DynamicType = ()> + Clone + 'static,
    {
        let mut all = match self {
            Self::One { kind, namespace, name } if *kind == K::kind(&()) => {
                vec![ObjectRef::new(name).within(namespace)]
            }
            Self::One { .. } => Vec::new(),
            Self::Node(_) | Self::Freed(_) => {
                concerned(store.state(), self).iter().map(|object| ObjectRef::from_obj(&**object)).collect()
            }
            Self::All => store.state().iter().map(|object| ObjectRef::from_obj(&**object)).collect(),
        };
        // A store has no order of its own.
        all.sort_unstable_by(|a: &ObjectRef<K>, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        all
    }
}

#[cfg(test)]
mod tests {
    use assay_api::{TuningExperiment, TuningTrial};
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt as _;
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_wakes_those_whose_it_is() {
        let (store, mut writer) = reflector::store();
        for name in ["a", "b"] {
            let pod = serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns"}}));
            writer.apply_watcher_event(&Event::<Pod>::Apply(pod.expect("a pod")));
        }
        let names = |touched: Touched| {
            let names: Vec<String> = touched
                .of(&store, |mut all, touched| {
                    all.retain(|pod| {
                        pod.name_any() == if *touched == Touched::Freed("n".to_owned()) { "a" } else { "b" }
                    });
                    all
                })
                .into_iter()
                .map(|object| object.name)
                .collect();
            names
        };
        let own = || ("ns".to_owned(), "a".to_owned());
        let (namespace, name) = own();
        assert_eq!(names(Touched::one::<Pod>(namespace, name)), ["a"]);
        let (namespace, name) = own();
        assert_eq!(names(Touched::one::<TuningExperiment>(namespace, name)), [""; 0], "another kind of this name");
        assert_eq!(names(Touched::All), ["a", "b"]);
        assert_eq!(names(Touched::Node("n".to_owned())), ["b"]);
        assert_eq!(names(Touched::Freed("n".to_owned())), ["a"]);
        let (namespace, name) = own();
        assert_ne!(Touched::one::<TuningTrial>(namespace.clone(), name.clone()), Touched::one::<Pod>(namespace, name));
    }
}
