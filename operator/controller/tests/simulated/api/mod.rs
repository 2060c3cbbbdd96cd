//! An API server in memory: what the operator asks of a real one, answered as a real one does. Versions, preconditions, server-side apply,
//! watches; not schemas, since everything here comes from typed objects.

mod answers;
mod merge;
mod selector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::QUEUE_LABELS;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

pub use answers::{Answer, Asked};
pub use selector::Selector;

/// When the world begins. What virtual time there is counts from here.
const BEGIN: i64 = 1_793_577_600;

/// The gate that a queue puts before a pod.
pub const QUEUE_GATE: &str = "kueue.x-k8s.io/admission";

/// A kind of objects: its plural, its name, its version, and whether its status is written apart.
pub struct Kind {
    pub plural: &'static str,
    pub name: &'static str,
    pub version: &'static str,
    pub has_status: bool,
}

const fn kind(plural: &'static str, name: &'static str, version: &'static str, has_status: bool) -> Kind {
    Kind { plural, name, version, has_status }
}

pub const KINDS: [Kind; 11] = [
    kind("nodes", "Node", "v1", true),
    kind("pods", "Pod", "v1", true),
    kind("persistentvolumeclaims", "PersistentVolumeClaim", "v1", true),
    kind("configmaps", "ConfigMap", "v1", false),
    kind("secrets", "Secret", "v1", false),
    kind("leases", "Lease", "coordination.k8s.io/v1", false),
    kind("events", "Event", "events.k8s.io/v1", false),
    kind("tuningexperiments", "TuningExperiment", "assay.rocks/v1alpha1", true),
    kind("tuningtrials", "TuningTrial", "assay.rocks/v1alpha1", true),
    kind("tuningsweeps", "TuningSweep", "assay.rocks/v1alpha1", true),
    kind("tuninghistories", "TuningHistory", "assay.rocks/v1alpha1", false),
];

pub fn kind_of(plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.plural == plural)
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub plural: &'static str,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(plural: &'static str, namespace: &str, name: &str) -> Self {
        Self { plural, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { plural, namespace, name } = self;
        if namespace.is_empty() {
            write!(formatter, "{plural}/{name}")
        } else {
            write!(formatter, "{plural}/{namespace}/{name}")
        }
    }
}

/// What a write has changed.
#[derive(Clone)]
pub struct Change {
    pub revision: u64,
    /// By virtual time.
    pub at: Duration,
    pub key: Key,
    pub before: Option<Arc<Value>>,
    pub after: Option<Arc<Value>>,
}

impl Change {
    /// The object as it is, or was last.
    pub fn object(&self) -> &Value {
        static NONE: Value = Value::Null;
        self.after.as_deref().or(self.before.as_deref()).unwrap_or(&NONE)
    }
}

#[derive(Default)]
pub struct Server {
    objects: BTreeMap<Key, Arc<Value>>,
    /// What each field manager has applied last, by whether it was the status.
    applied: BTreeMap<(Key, String, bool), Value>,
    pub log: Vec<Change>,
    /// What each pod has printed, by its uid.
    pub logs: BTreeMap<String, String>,
    pub revision: u64,
    /// Watches can't begin before this.
    pub compacted: u64,
    uids: u64,
    pub now: Duration,
}

/// A refusal, as its reason and its code.
#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
}

pub fn refusal(code: u16, reason: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { code, reason, message: message.into() }
}

impl Server {
    pub fn time(&self) -> Timestamp {
        time(self.now)
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// All objects of a kind, in their order.
    pub fn all(&self, plural: &'static str) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let from = Key::new(plural, "", "");
        self.objects.range(from..).take_while(move |(key, _)| key.plural == plural)
    }

    pub fn everything(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    fn write(&mut self, key: Key, before: Option<Arc<Value>>, after: Option<Value>) -> Arc<Value> {
        self.revision += 1;
        let version = json!(self.revision.to_string());
        let stamped = |object: &Value| {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = version.clone();
            Arc::new(object)
        };
        let is_gone = after.is_none();
        let after = after.map(|object| stamped(&object));
        // What is deleted has a last version, too.
        let before = if is_gone { before.map(|object| stamped(&object)) } else { before };
        if let Some(object) = &after {
            self.objects.insert(key.clone(), Arc::clone(object));
        } else {
            self.objects.remove(&key);
            self.applied.retain(|(of, ..), _| *of != key);
        }
        let written = after.clone().or_else(|| before.clone()).unwrap_or_default();
        self.log.push(Change { revision: self.revision, at: self.now, key, before, after });
        written
    }

    /// Creates an object, as far as nobody has one of its name.
    pub fn create(&mut self, plural: &'static str, namespace: &str, mut object: Value) -> Result<Arc<Value>, Refusal> {
        let Some(kind) = kind_of(plural) else { unreachable!("no kind {plural}") };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(refusal(422, "Invalid", "metadata.name: Required value"));
        }
        let key = Key::new(plural, namespace, &name);
        if self.objects.contains_key(&key) {
            return Err(refusal(409, "AlreadyExists", format!("{key} already exists")));
        }
        self.uids += 1;
        let metadata = &mut object["metadata"];
        metadata["uid"] = format!("uid-{}", self.uids).into();
        metadata["creationTimestamp"] = json!(Timestamp::from_second(self.time().as_second()).unwrap_or_default());
        metadata["generation"] = 1.into();
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        (object["apiVersion"], object["kind"]) = (kind.version.into(), kind.name.into());
        if kind.has_status && plural != "nodes" {
            object.as_object_mut().map(|object| object.remove("status"));
        }
        if plural == "pods" {
            object["status"] = json!({"phase": "Pending", "qosClass": "Guaranteed"});
            let labels = object["metadata"]["labels"].as_object();
            // As the webhook of a queue does.
            if labels.is_some_and(|labels| labels.keys().any(|label| label.starts_with(QUEUE_LABELS))) {
                let mut gates = object["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
                gates.push(json!({"name": QUEUE_GATE}));
                object["spec"]["schedulingGates"] = gates.into();
            }
        }
        Ok(self.write(key, None, Some(object)))
    }

    /// Changes an object that is there, if there is something to change.
    pub fn change(&mut self, key: &Key, change: impl FnOnce(&mut Value)) -> Option<Arc<Value>> {
        let before = Arc::clone(self.objects.get(key)?);
        let mut object = (*before).clone();
        change(&mut object);
        if object == *before {
            return Some(before);
        }
        if object["spec"] != before["spec"] {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
            object["metadata"]["generation"] = (generation + 1).into();
        }
        Some(self.write(key.clone(), Some(before), Some(object)))
    }

    /// Removes an object at once.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = Arc::clone(self.objects.get(key)?);
        Some(self.write(key.clone(), Some(before), None))
    }

    /// Deletes an object. A pod that may run somewhere waits for its kubelet, if it is given time.
    pub fn delete(&mut self, key: &Key, grace_seconds: Option<u64>) -> Option<Arc<Value>> {
        let object = Arc::clone(self.objects.get(key)?);
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        let runs = key.plural == "pods" && object["spec"]["nodeName"].is_string() && !is_terminal(phase);
        let grace = grace_seconds.or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_u64()).unwrap_or(30);
        if !runs || grace == 0 {
            return self.remove(key);
        }
        if object["metadata"]["deletionTimestamp"].is_string() {
            return Some(object);
        }
        let now = json!(Timestamp::from_second(self.time().as_second()).unwrap_or_default());
        self.change(key, |object| {
            object["metadata"]["deletionTimestamp"] = now;
            object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        })
    }

    /// Becomes what it was after these changes, all that there were until then.
    pub fn restore(&mut self, log: &[Change]) {
        for change in log {
            match &change.after {
                Some(object) => drop(self.objects.insert(change.key.clone(), Arc::clone(object))),
                None => drop(self.objects.remove(&change.key)),
            }
        }
        self.revision = log.last().map_or(0, |change| change.revision);
    }
}

pub fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// The time of day after so much virtual time.
pub fn time(passed: Duration) -> Timestamp {
    Timestamp::from_second(BEGIN).unwrap_or_default() + passed
}
