//! The nodes of the cluster. Nothing in here is needed after a restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use assay_api::Placement;
use assay_core::node::{self, Room};
use assay_protocol::Digest;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use serde_json::json;

use crate::clock::SharedClock;
use crate::lock::locked;
use crate::watch::{Part, Touched, Wiring};

pub struct Nodes {
    store: Store<Node>,
    clock: SharedClock,
    table: Mutex<Table>,
    /// Since when each node that is not ready was seen to be so.
    silences: Mutex<Silences>,
}

/// A node, and what everybody who looks at it asks for.
pub struct Known {
    pub node: Arc<Node>,
    pub name: Arc<str>,
    /// Digest of its boot id.
    pub boot: Option<Digest>,
    pub room: Room,
}

impl Known {
    pub fn new(node: Arc<Node>) -> Self {
        Self {
            name: node.metadata.name.as_deref().unwrap_or_default().into(),
            boot: node::boot(&node),
            room: Room::of(&node),
            node,
        }
    }
}

/// All nodes, as the watch told when somebody looked last. Of a thousand, few have changed since.
#[derive(Default)]
struct Table {
    told: Vec<Arc<Node>>,
    /// In the order of their names.
    sorted: Arc<[Arc<Known>]>,
}

impl Table {
    fn of(&mut self, told: Vec<Arc<Node>>) -> Arc<[Arc<Known>]> {
        let is_same = told.len() == self.told.len() && told.iter().zip(&self.told).all(|(a, b)| Arc::ptr_eq(a, b));
        if !is_same {
            let known: HashMap<*const Node, &Arc<Known>> =
                self.sorted.iter().map(|known| (Arc::as_ptr(&known.node), known)).collect();
            let again = |node: &Arc<Node>| {
                known
                    .get(&Arc::as_ptr(node))
                    .map_or_else(|| Arc::new(Known::new(Arc::clone(node))), |&same| Arc::clone(same))
            };
            let mut sorted: Vec<Arc<Known>> = told.iter().map(again).collect();
            sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            (self.told, self.sorted) = (told, sorted.into());
        }
        Arc::clone(&self.sorted)
    }
}

/// Nodes that are not ready, by name.
#[derive(Default)]
struct Silences(HashMap<String, Silence>);

struct Silence {
    /// When it began, by whoever's clock wrote it: another time is another silence, and says nothing else.
    said: Option<Time>,
    seen: Instant,
}

impl Silences {
    fn since(&mut self, node: &Node, now: Instant) -> Option<Instant> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let Some(said) = node::silent_since(node) else {
            self.0.remove(name);
            return None;
        };
        let new = || Silence { said: said.cloned(), seen: now };
        let known = self.0.entry(name.to_owned()).or_insert_with(new);
        if known.said.as_ref() != said {
            *known = new();
        }
        Some(known.seen)
    }
}

impl Nodes {
    /// Begins to watch them.
    pub fn watch(wiring: &Wiring) -> Self {
        let touched = |node: &Node| Some(Touched::Node(node.name_any()));
        let store = wiring.reflect_part(wiring.everywhere(), watcher::Config::default(), PART, touched);
        Self { store, clock: Arc::clone(&wiring.clock), table: Mutex::default(), silences: Mutex::default() }
    }

    pub async fn wait_until_ready(&self) -> anyhow::Result<()> {
        self.store.wait_until_ready().await.context("can't watch nodes")
    }

    pub fn get(&self, name: &str) -> Option<Arc<Node>> {
        self.store.get(&ObjectRef::new(name))
    }

    /// All of them, in the order of their names.
    pub fn all(&self) -> Arc<[Arc<Known>]> {
        locked(&self.table).of(self.store.state())
    }

    /// Whether trials with this placement may run on a node, as far as its labels say. One that is gone concerns everybody.
    pub fn matches(&self, name: &str, placement: &Placement) -> bool {
        let Some(node) = self.get(name) else { return true };
        placement.node_selector.iter().all(|(key, value)| node.labels().get(key) == Some(value))
    }

    /// For how long we have seen that a node is not ready; `None` where it is.
    pub fn silent_for(&self, node: &Node) -> Option<Duration> {
        let mut silences = locked(&self.silences);
        // As it is of most of many.
        if silences.0.is_empty() && node::silent_since(node).is_none() {
            return None;
        }
        let since = silences.since(node, self.clock.instant());
        since.map(|since| self.clock.since(since))
    }

    /// Forgets those that are gone.
    pub fn prune(&self) {
        locked(&self.silences).0.retain(|node, _| self.get(node).is_some());
    }
}

/// Without what takes most of the space of a node and nobody asks for. A node says again and again that it is alive.
const PART: Part<Node> = Part {
    parts: Vec::new(),
    slim: |node| {
        let is_silent = node::silent_since(node).is_some();
        if let Some(status) = &mut node.status {
            (status.images, status.volumes_attached, status.volumes_in_use) = (None, None, None);
            for condition in status.conditions.iter_mut().flatten() {
                // Each change of a node wakes all that may use it, and times change by themselves. Only this one says something.
                if !(is_silent && condition.type_ == "Ready") {
                    condition.last_transition_time = None;
                }
                (condition.last_heartbeat_time, condition.message) = (None, None);
            }
        }
        node.metadata.annotations = None;
    },
    matters: Some(|node| json!([node.metadata.labels, node.metadata.uid, node.spec, node.status])),
    gone: None,
    saw: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;

    #[test]
    fn a_sign_of_life_is_no_news() {
        let condition = |type_: &str, status: &str, second: u8| {
            let time = format!("2026-11-28T00:00:0{second}Z");
            json!({"type": type_, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time,
                "message": format!("at {time}")})
        };
        let told = |ready: &str, pressure: &str, second: u8| {
            let conditions = [condition("Ready", ready, second), condition("DiskPressure", pressure, second)];
            let node = json!({"metadata": {"name": "n", "annotations": {"second": second.to_string()}},
                "status": {"conditions": conditions, "images": [{"sizeBytes": second}]}});
            let mut node: Node = serde_json::from_value(node).unwrap_or_else(|error| unreachable!("{error}"));
            (PART.slim)(&mut node);
            PART.matters.map(|matters| matters(&node))
        };
        assert_eq!(told("True", "False", 1), told("True", "False", 2));
        assert_ne!(told("True", "False", 1), told("True", "True", 1));
        assert_ne!(told("True", "False", 1), told("False", "False", 1));
        assert_ne!(told("False", "False", 1), told("False", "False", 2), "it is silent anew");
    }

    fn node(name: &str, boot: &str) -> Arc<Node> {
        let node = json!({"metadata": {"name": name}, "status": {"nodeInfo": {"architecture": "", "bootID": boot,
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
            "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}}});
        Arc::new(serde_json::from_value(node).unwrap_or_else(|error| unreachable!("{error}")))
    }

    #[test]
    fn nodes_are_known_as_they_were_told_last() {
        let (a, b, c) = (node("a", "1"), node("b", "1"), node("c", "1"));
        let mut table = Table::default();
        let mut known = |told: &[&Arc<Node>]| table.of(told.iter().map(|node| Arc::clone(node)).collect());
        let names = |known: &[Arc<Known>]| known.iter().map(|known| known.name.to_string()).collect::<Vec<_>>();
        let first = known(&[&c, &a]);
        assert_eq!(names(&first), ["a", "c"]);
        assert_eq!(first[0].boot, Some(Digest::of(b"1")));
        assert!(Arc::ptr_eq(&first, &known(&[&c, &a])), "nothing has changed");
        assert_eq!(names(&known(&[&c, &b, &a])), ["a", "b", "c"], "one has come");
        assert_eq!(names(&known(&[&b, &a])), ["a", "b"], "one is gone");
        assert_eq!(names(&known(&[&c, &a])), ["a", "c"], "another one, in its place");
        let booted = known(&[&c, &node("a", "2")]);
        assert_eq!(booted[0].boot, Some(Digest::of(b"2")));
        assert!(Arc::ptr_eq(&booted[1].node, &c));
    }

    #[test]
    fn a_silence_is_as_long_as_it_is_seen() {
        let node = |status: &str, said: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": said}]}}))
            .unwrap_or_else(|error| unreachable!("{error}"))
        };
        let begin = Manual::new().instant();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut silences = Silences::default();
        // Whatever clock the node has: long ago, or not yet.
        for said in ["1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z"] {
            assert_eq!(silences.since(&node("Unknown", said), at(10)), Some(at(10)), "{said}");
            assert_eq!(silences.since(&node("Unknown", said), at(70)), Some(at(10)), "{said}");
        }
        assert_eq!(silences.since(&node("True", "2100-01-01T00:00:00Z"), at(80)), None);
        assert_eq!(silences.since(&node("Unknown", "2100-01-01T00:00:00Z"), at(90)), Some(at(90)));
        // It was ready meanwhile, which was not seen.
        assert_eq!(silences.since(&node("Unknown", "2100-01-01T00:01:00Z"), at(100)), Some(at(100)));
    }
}
