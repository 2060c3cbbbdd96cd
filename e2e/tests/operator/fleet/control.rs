//! The least that keeps a fleet busy: it makes a node's next pod when its last has gone, deletes it when it has ended, and does so on
//! all nodes at once. By the account of the operators, and with the pods that they make.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::names;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::lab::Lab;
use crate::{account, pods};

pub struct Control {
    pods: Api<Pod>,
    /// A pod as an operator makes it, as JSON, and the node that it is for.
    pod: String,
    node: String,
}

impl Control {
    /// With pods like this one, which runs.
    pub async fn new(lab: &Lab, pod: &Pod) -> Self {
        let client = account::client(&account::kubeconfig(&lab.client).await).await;
        let pods = Api::namespaced(client, &lab.namespace);
        Self { pods, pod: pattern(pod).to_string(), node: pods::node(pod).to_owned() }
    }

    /// The pod of a name for a node.
    fn pod(&self, name: &str, node: &str) -> Pod {
        let pod = self.pod.replace(&format!("{:?}", self.node), &format!("{node:?}"));
        let mut pod: Value = serde_json::from_str(&pod).expect("a pod is JSON");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["labels"][names::TRIAL_LABEL] = json!(name);
        serde_json::from_value(pod).expect("a pod")
    }

    pub async fn run(&self, nodes: &[String], trials: usize) {
        let mut changes = std::pin::pin!(pods::changes(self.pods.clone()));
        while !matches!(changes.next().await, Some(Event::InitDone)) {}
        let (mut asked, mut at, mut ended) = (JoinSet::new(), BTreeMap::new(), BTreeSet::new());
        let (mut made, mut gone) = (0, 0);
        let mut begin = |asked: &mut JoinSet<_>, at: &mut BTreeMap<String, String>, node: &str| {
            if made == trials {
                return;
            }
            let name = format!("control-{made}");
            let (pods, pod) = (self.pods.clone(), self.pod(&name, node));
            at.insert(name, node.to_owned());
            made += 1;
            asked.spawn(async move { pods.create(&PostParams::default(), &pod).await.map(drop) });
        };
        for node in nodes {
            begin(&mut asked, &mut at, node);
        }
        while gone < trials {
            let event = tokio::select! {
                Some(done) = asked.join_next() => {
                    done.expect("no panic").expect("the API server does what the control asks");
                    continue;
                }
                Some(event) = changes.next() => event,
            };
            match event {
                Event::Apply(pod) if matches!(pods::phase(&pod), "Succeeded" | "Failed") => {
                    let (pods, name) = (self.pods.clone(), pod.name_any());
                    if ended.insert(name.clone()) {
                        asked.spawn(async move { pods.delete(&name, &DeleteParams::default()).await.map(drop) });
                    }
                }
                Event::Delete(pod) => {
                    if let Some(node) = at.remove(&pod.name_any()) {
                        gone += 1;
                        begin(&mut asked, &mut at, &node);
                    }
                }
                Event::Init => unreachable!("the control's watch was interrupted: measure again"),
                _ => {}
            }
        }
    }
}

/// A pod without what it got since it was made, and of no experiment: operators leave it alone.
fn pattern(pod: &Pod) -> Value {
    let mut made = json!({"metadata": {"annotations": pod.annotations(), "labels": pod.labels()}, "spec": pod.spec});
    made["spec"].as_object_mut().expect("a spec").remove("nodeName");
    // It may have been told already how to end.
    let annotations = made["metadata"]["annotations"].as_object_mut().expect("annotations");
    annotations.retain(|name, _| !name.starts_with("fake.assay.rocks/"));
    made["metadata"]["labels"].as_object_mut().expect("labels").remove(names::EXPERIMENT_LABEL);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_nothing_of_the_life_of_a_pod() {
        let pod = json!({
            "metadata": {
                "name": "p", "uid": "u",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "o"}],
                "annotations": {names::INPUT_ANNOTATION: "{}", "fake.assay.rocks/exit-code": "0"},
                "labels": {names::EXPERIMENT_LABEL: "e", names::ROLE_LABEL: names::ROLE_TRIAL},
            },
            "spec": {"nodeName": "n0", "containers": []},
            "status": {"phase": "Running"},
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let expected = json!({
            "metadata": {"annotations": {names::INPUT_ANNOTATION: "{}"}, "labels": {names::ROLE_LABEL: names::ROLE_TRIAL}},
            "spec": {"containers": []},
        });
        assert_eq!(pattern(&pod), expected);
    }
}
