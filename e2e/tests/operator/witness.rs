//! Sees every pod of a namespace, or of some nodes, and knows nothing of the operator's own accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use assay_api::names;
use assay_protocol::Exit;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use tokio::task::AbortHandle;

use crate::lab::Lab;
use crate::pods;

/// A pod by name and uid, since a deleted one may come again under its name.
type Id = (String, String);

#[derive(Default)]
struct Seen {
    /// Pods of trials that ran, with the trial's name and the number of the attempt.
    ran: BTreeMap<Id, (String, u32)>,
    /// Those that their environment refused: the bench said so, or their node: they may come again.
    refused: BTreeSet<Id>,
    /// By node, what occupies it now.
    running: BTreeMap<String, BTreeSet<Id>>,
    nodes: BTreeSet<String>,
    wrongs: Vec<String>,
}

pub struct Witness {
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Witness {
    /// Sees the pods of a namespace.
    pub fn start(lab: &Lab) -> Self {
        Self::of(pods::changes(lab.api()))
    }

    /// Sees the pods on the nodes of a lab, whosever they are.
    pub fn of_nodes(lab: &Lab) -> Self {
        let nodes = lab.nodes.clone();
        let changes = pods::changes(Api::all(lab.client.clone()));
        Self::of(changes.filter(move |event| {
            let is_meant = match event {
                Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod) => {
                    nodes.iter().any(|node| node == pods::node(pod))
                }
                Event::Init | Event::InitDone => true,
            };
            std::future::ready(is_meant)
        }))
    }

    fn of(changes: impl Stream<Item = Event<Pod>> + Send + 'static) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            let mut changes = std::pin::pin!(changes);
            while let Some(event) = changes.next().await {
                let mut seen = shared.lock().expect("the witness");
                match event {
                    // A watch that begins again lists all that is there.
                    Event::Init => seen.running.clear(),
                    Event::Apply(pod) | Event::InitApply(pod) => seen.changed(&pod),
                    Event::Delete(pod) => seen.gone(&pod),
                    Event::InitDone => {}
                }
            }
        });
        Self { seen, task: task.abort_handle() }
    }

    /// Number of trial pods that ever ran.
    pub fn ran(&self) -> usize {
        self.seen.lock().expect("the witness").ran.len()
    }

    pub fn nodes(&self) -> Vec<String> {
        self.seen.lock().expect("the witness").nodes.iter().cloned().collect()
    }

    /// No attempt ran twice, and no two trials ran on one node at once.
    pub async fn saw_nothing_wrong(&self, lab: &Lab) {
        let wrongs = self.seen.lock().expect("the witness").wrongs();
        lab.check(wrongs.is_empty(), &format!("the witness saw: {}", wrongs.join("; "))).await;
    }
}

impl Seen {
    fn changed(&mut self, pod: &Pod) {
        if pods::role(pod) != names::ROLE_TRIAL {
            return;
        }
        let id = (pod.name_any(), pod.uid().unwrap_or_default());
        let node = pods::node(pod).to_owned();
        match pods::phase(pod) {
            "Running" => {
                self.nodes.insert(node.clone());
                self.ran.insert(id.clone(), (pods::trial(pod).to_owned(), pods::attempt(pod)));
                let running = self.running.entry(node.clone()).or_default();
                running.insert(id);
                if running.len() > 1 {
                    let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
                    self.wrongs.push(format!("{} ran at once on {node}", names.join(" and ")));
                }
            }
            "Failed" | "Succeeded" => {
                if exit_code(pod) == Some(Exit::EnvironmentRefused as i32)
                    || reason(pod) == Some("UnexpectedAdmissionError")
                {
                    self.refused.insert(id);
                }
                self.gone(pod);
            }
            _ => {}
        }
    }

    fn gone(&mut self, pod: &Pod) {
        let id = (pod.name_any(), pod.uid().unwrap_or_default());
        self.running.values_mut().for_each(|running| {
            running.remove(&id);
        });
    }

    fn wrongs(&self) -> Vec<String> {
        let mut runs: BTreeMap<&(String, u32), usize> = BTreeMap::new();
        for (_, attempt) in self.ran.iter().filter(|(id, _)| !self.refused.contains(*id)) {
            *runs.entry(attempt).or_default() += 1;
        }
        let twice = runs.into_iter().filter(|(_, times)| *times > 1);
        let twice = twice.map(|((trial, attempt), times)| format!("attempt {attempt} of {trial} ran {times} times"));
        self.wrongs.iter().cloned().chain(twice).collect()
    }
}

fn reason(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.reason.as_deref()
}

fn exit_code(pod: &Pod) -> Option<i32> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    Some(containers.first()?.state.as_ref()?.terminated.as_ref()?.exit_code)
}
