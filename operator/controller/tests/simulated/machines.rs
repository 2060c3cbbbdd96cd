//! What a cluster does by itself: its scheduler, its kubelets, its controllers, and a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::{CONTAINER, KIND_LABEL};
use serde_json::{Value, json};

use super::api::{Key, QUEUE_GATE, Server, is_terminal, time};
use super::bench::{End, end_of};
use super::law::{Law, has_gate, is_trial, target, text, uid};
use super::random::Random;
use super::weather::Weather;

/// After this a node that says nothing is not ready, and after this its pods are evicted.
const NOT_READY: Duration = Duration::from_secs(40);
const EVICTED: Duration = Duration::from_mins(5);

/// A label of all nodes that trials may use.
pub const LABEL: &str = "simulated.assay.rocks/node";
/// What all of them are.
pub const KIND: &str = "simulated";

#[derive(Default)]
pub struct Machines {
    pub nodes: BTreeMap<String, Machine>,
    /// When each pod is due for its next step, by uid and step.
    due: BTreeMap<(String, &'static str), Duration>,
    /// What garbage collection has seen.
    collected: u64,
}

#[derive(Default)]
pub struct Machine {
    boots: u64,
    /// Its kubelet reaches nobody since then.
    pub silent: Option<Duration>,
    /// It is no part of the cluster.
    pub is_gone: bool,
    /// What runs, by the uid of its pod.
    containers: BTreeMap<String, Container>,
}

struct Container {
    ends: Duration,
    end: End,
}

/// What a step of the machines goes by.
pub struct Step<'a> {
    pub server: &'a mut Server,
    pub random: &'a mut Random,
    pub law: &'a mut Law,
    pub weather: &'a Weather,
    pub now: Duration,
}

fn node_key(name: &str) -> Key {
    Key::new("nodes", "", name)
}

fn ready(node: &Value) -> bool {
    node["status"]["conditions"][0]["status"] == "True"
}

impl Machine {
    fn boot(&self, name: &str) -> String {
        format!("{name}-boot-{}", self.boots)
    }

    /// Everything on it ends, unseen.
    fn stops(&mut self, name: &str, law: &mut Law) {
        for uid in std::mem::take(&mut self.containers).into_keys() {
            law.ends(name, &uid);
        }
    }
}

impl Machines {
    pub fn add(&mut self, server: &mut Server, name: &str) {
        let machine = self.nodes.entry(name.to_owned()).or_default();
        machine.is_gone = false;
        machine.silent = None;
        let resources = json!({"cpu": "4", "memory": "16Gi", "ephemeral-storage": "1Ti", "pods": "110"});
        let _ = server.create(
            "nodes",
            "",
            json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, LABEL: "true", KIND_LABEL: KIND}},
                "spec": {},
                "status": {"capacity": resources, "allocatable": resources, "nodeInfo": {"bootID": machine.boot(name)},
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": server.time()}]},
            }),
        );
    }

    /// Its kubelet reaches nobody, or does so again.
    pub fn silence(&mut self, server: &mut Server, name: &str, since: Option<Duration>) {
        let Some(machine) = self.nodes.get_mut(name).filter(|machine| !machine.is_gone) else { return };
        machine.silent = since;
        if since.is_none() {
            let boot = machine.boot(name);
            told(server, name, "True", &boot);
        }
    }

    pub fn reboot(&mut self, server: &mut Server, law: &mut Law, name: &str) {
        let Some(machine) = self.nodes.get_mut(name).filter(|machine| !machine.is_gone) else { return };
        machine.stops(name, law);
        machine.boots += 1;
        let boot = machine.boot(name);
        if machine.silent.is_none() {
            told(server, name, "True", &boot);
        }
    }

    pub fn vanish(&mut self, server: &mut Server, law: &mut Law, name: &str) {
        let Some(machine) = self.nodes.get_mut(name).filter(|machine| !machine.is_gone) else { return };
        machine.stops(name, law);
        machine.boots += 1;
        machine.is_gone = true;
        server.remove(&node_key(name));
    }

    /// Whether a step of a pod is due, which is decided by chance when it is asked first.
    fn is_due(&mut self, step: &mut Step<'_>, pod: &str, what: &'static str, (from, to): (u64, u64)) -> bool {
        let due =
            self.due.entry((pod.to_owned(), what)).or_insert_with(|| step.now + step.random.milliseconds(from, to));
        *due <= step.now
    }

    pub fn step(&mut self, mut step: Step<'_>) {
        let pods: Vec<(Key, Arc<Value>)> =
            step.server.all("pods").map(|(key, pod)| (key.clone(), Arc::clone(pod))).collect();
        for (key, pod) in &pods {
            self.schedule(&mut step, key, pod);
        }
        for (key, pod) in &pods {
            let node = text(pod, "/spec/nodeName").to_owned();
            let Some(mut machine) = self.nodes.remove(&node) else { continue };
            if machine.is_gone {
                // Nobody will ever say that it has ended.
                if self.is_due(&mut step, uid(pod), "orphaned", (20_000, 60_000)) {
                    step.server.remove(key);
                }
            } else if machine.silent.is_none() {
                self.sync(&mut step, &node, &mut machine, key, pod);
            } else if machine.silent.is_some_and(|since| step.now > since + EVICTED) {
                evict(step.server, key, "DeletionByTaintManager");
            }
            self.nodes.insert(node, machine);
        }
        let there: BTreeSet<&str> = pods.iter().map(|(_, pod)| uid(pod)).collect();
        self.due.retain(|(uid, _), _| there.contains(uid.as_str()) || !uid.starts_with("uid-"));
        for (name, machine) in &mut self.nodes {
            if let Some(since) = machine.silent {
                if step.now > since + NOT_READY {
                    let boot = machine.boot(name);
                    told(step.server, name, "Unknown", &boot);
                }
                continue;
            }
            let gone: Vec<String> =
                machine.containers.keys().filter(|uid| !there.contains(uid.as_str())).cloned().collect();
            for uid in gone {
                machine.containers.remove(&uid);
                step.law.ends(name, &uid);
            }
        }
        self.collect(&mut step);
    }

    fn schedule(&mut self, step: &mut Step<'_>, key: &Key, pod: &Value) {
        if pod["spec"]["nodeName"].is_string() || is_terminal(text(pod, "/status/phase")) {
            return;
        }
        if has_gate(pod, QUEUE_GATE) {
            if !step.weather.queue_holds && self.is_due(step, uid(pod), "queue", (0, 5000)) {
                step.server.change(key, |pod| {
                    if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
                        gates.retain(|gate| gate["name"] != QUEUE_GATE);
                    }
                });
            }
            return;
        }
        let has_gates = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        if has_gates || !self.is_due(step, uid(pod), "schedule", (5, 300)) {
            return;
        }
        let wanted = target(pod);
        let taken: BTreeSet<String> = {
            let others = step.server.all("pods").map(|(_, other)| other);
            let running = others.filter(|other| is_trial(other) && !is_terminal(text(other, "/status/phase")));
            running.map(|other| text(other, "/spec/nodeName").to_owned()).collect()
        };
        let node = step.server.all("nodes").find(|(key, node)| {
            (wanted.is_empty() || key.name == wanted)
                && ready(node)
                && node["spec"]["unschedulable"] != true
                && !(is_trial(pod) && taken.contains(&key.name))
        });
        let node = node.map(|(key, _)| key.name.clone());
        let time = json!(step.server.time());
        let Some(node) = node else {
            self.due.insert((uid(pod).to_owned(), "schedule"), step.now + Duration::from_secs(1));
            step.server.change(key, |pod| {
                if pod["status"]["conditions"].is_null() {
                    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
                        "reason": "Unschedulable", "message": "0/3 nodes are available", "lastTransitionTime": time}]);
                }
            });
            return;
        };
        step.server.change(key, |pod| {
            pod["spec"]["nodeName"] = node.into();
            pod["status"]["conditions"] =
                json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]);
        });
    }

    /// What the kubelet of a pod's node does for it.
    fn sync(&mut self, step: &mut Step<'_>, node: &str, machine: &mut Machine, key: &Key, pod: &Value) {
        let (own, phase) = (uid(pod), text(pod, "/status/phase"));
        let is_deleted = pod["metadata"]["deletionTimestamp"].is_string();
        if is_terminal(phase) {
            if is_deleted && self.is_due(step, own, "gone", (10, 1500)) {
                step.server.remove(key);
            }
            return;
        }
        if let Some(container) = machine.containers.get(own) {
            let is_killed = is_deleted && self.is_due(step, own, "kill", (10, 5000));
            if step.now >= container.ends || is_killed {
                let end = if step.now >= container.ends { container.end.clone() } else { End::killed(143) };
                machine.containers.remove(own);
                step.law.ends(node, own);
                ended(step.server, key, &end);
            }
            return;
        }
        if is_deleted {
            if self.is_due(step, own, "gone", (10, 1500)) {
                step.server.remove(key);
            }
        } else if phase == "Running" {
            // It was rebooted meanwhile.
            ended(step.server, key, &End { reason: "ContainerStatusUnknown", ..End::killed(137) });
        } else if self.is_due(step, own, "start", (20, 1500)) {
            if step.random.happens(step.weather.admission) {
                step.server.change(key, |pod| {
                    pod["status"]["phase"] = "Failed".into();
                    pod["status"]["reason"] = "UnexpectedAdmissionError".into();
                    pod["status"]["message"] = "no CPUs".into();
                });
                return;
            }
            if is_trial(pod) {
                step.law.runs(node, own, &key.name);
            }
            let started = step.server.time().as_millisecond() as u64;
            let end = end_of(pod, &machine.boot(node), started, step.weather.mishaps, step.random);
            let takes =
                if is_trial(pod) { step.random.milliseconds(500, 6000) } else { step.random.milliseconds(50, 500) };
            machine.containers.insert(own.to_owned(), Container { ends: step.now + takes, end });
            let since = json!(step.server.time());
            step.server.change(key, |pod| {
                pod["status"]["phase"] = "Running".into();
                pod["status"]["containerStatuses"] = statuses(&json!({"running": {"startedAt": since}}));
            });
        }
    }

    /// Deletes what belongs to nobody any more.
    fn collect(&mut self, step: &mut Step<'_>) {
        if self.collected == step.server.revision {
            return;
        }
        let all: BTreeSet<&str> = step.server.everything().map(|(_, object)| uid(object)).collect();
        let is_orphan = |object: &Value| {
            let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten().peekable();
            owners.peek().is_some() && owners.all(|owner| !all.contains(text(owner, "/uid")))
        };
        let orphans: Vec<(Key, String)> = step
            .server
            .everything()
            .filter(|(_, object)| is_orphan(object) && !object["metadata"]["deletionTimestamp"].is_string())
            .map(|(key, object)| (key.clone(), format!("gc-{}", uid(object))))
            .collect();
        if orphans.is_empty() {
            self.collected = step.server.revision;
        }
        for (key, name) in orphans {
            if self.is_due(step, &name, "collect", (50, 3000)) {
                self.due.remove(&(name, "collect"));
                step.server.delete(&key, None);
            }
        }
    }
}

/// What the node controller says of a node.
fn told(server: &mut Server, name: &str, status: &str, boot: &str) {
    let now = json!(time(server.now));
    server.change(&node_key(name), |node| {
        node["status"]["nodeInfo"]["bootID"] = boot.into();
        let condition = &mut node["status"]["conditions"][0];
        if condition["status"] != status {
            condition["status"] = status.into();
            condition["lastTransitionTime"] = now;
        }
    });
}

fn statuses(state: &Value) -> Value {
    json!([{"name": CONTAINER, "image": "bench:1", "imageID": "bench@sha256:1", "ready": false, "restartCount": 0,
        "state": state}])
}

fn ended(server: &mut Server, key: &Key, end: &End) {
    if let Some(pod) = server.get(key) {
        let own = uid(pod).to_owned();
        server.logs.insert(own, end.log.clone());
    }
    server.change(key, |pod| {
        pod["status"]["phase"] = if end.code == 0 { "Succeeded" } else { "Failed" }.into();
        let state = json!({"terminated": {"exitCode": end.code, "reason": end.reason, "message": end.message}});
        pod["status"]["containerStatuses"] = statuses(&state);
    });
}

/// Deletes a pod and says why, as those do who do so on purpose.
pub fn evict(server: &mut Server, key: &Key, reason: &str) {
    let Some(pod) = server.get(key) else { return };
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    server.change(key, |pod| {
        let target = json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "planned"});
        match pod["status"]["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(target),
            None => pod["status"]["conditions"] = json!([target]),
        }
    });
    server.delete(key, None);
}
