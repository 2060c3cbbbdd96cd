use std::borrow::Cow;

use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Something of this object.
    One { kind: Cow<'static, str>, namespace: String, name: String },
    /// Something of a node.
    Node(String),
    /// Something that any object may go by.
    All,
}

impl Touched {
    pub fn one<K: Resource<DynamicType = ()>>(namespace: String, name: String) -> Self {
        Self::One { kind: K::kind(&()), namespace, name }
    }

    /// The objects of a store that have to be reconciled because of it, given those that a node concerns.
    pub fn of<K>(&self, store: &Store<K>, concerns: impl Fn(&K, &str) -> bool) -> Vec<ObjectRef<K>>
    where
        K: Resource<DynamicType = ()> + Clone + 'static,
    {
        let mut all = match self {
            Self::One { kind, namespace, name } if *kind == K::kind(&()) => {
                vec![ObjectRef::new(name).within(namespace)]
            }
            Self::One { .. } => Vec::new(),
            Self::Node(node) => {
                let concerned = store.state().into_iter().filter(|object| concerns(object, node));
                concerned.map(|object| ObjectRef::from_obj(&*object)).collect()
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
                .of(&store, |object, node| object.metadata.name.as_deref() == Some("b") && node == "n")
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
        assert_eq!(names(Touched::Node("m".to_owned())), [""; 0]);
        let (namespace, name) = own();
        assert_ne!(Touched::one::<TuningTrial>(namespace.clone(), name.clone()), Touched::one::<Pod>(namespace, name));
    }
}
