//! Pods that wait behind a scheduling gate until a queue lets them go, as Kueue does it.

use std::time::Duration;

use assay_api::names;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::experiment::small;
use crate::lab::{Lab, SOON};
use crate::scene::Scene;

const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const GATE: &str = "kueue.x-k8s.io/admission";

/// The version of the API that has such policies: it is stable since Kubernetes 1.36, and `cluster.sh` switches on what older ones have.
async fn served(lab: &Lab) -> &'static str {
    for version in ["admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1alpha1"] {
        let resources = lab.client.list_api_group_resources(version).await.map(|list| list.resources);
        if resources.into_iter().flatten().any(|resource| resource.kind == "MutatingAdmissionPolicy") {
            return version;
        }
    }
    panic!("this API server has no MutatingAdmissionPolicy");
}

/// Puts every pod with a queue's name behind its gate, in the place of Kueue's webhook.
async fn gates(lab: &Lab) {
    let name = &lab.namespace;
    let group = served(lab).await;
    let pods = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let gate =
        format!("Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: '{GATE}'}}]}}}}");
    let policy = json!({"apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "resourceRules": [pods],
        },
        "matchConditions": [{"name": "queued", "expression": format!("'{QUEUE}' in object.metadata.labels")}],
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gate}}],
    }});
    let binding = json!({"apiVersion": group, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name}});
    let file = lab.folder.join("gates.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
    std::fs::write(&file, list.to_string()).expect("a manifest");
    let said = lab.kubectl(&["apply", "--filename", &file.display().to_string()]).await;
    let label = format!("--labels={QUEUE}=team");
    let probe = ["run", "probe", "--image=probe", &label, "--dry-run=server", "--output=yaml"];
    lab.until(&format!("pods are gated: {said}"), SOON, async || {
        lab.kubectl(&probe).await.contains(GATE).then_some(())
    })
    .await;
}

/// Lets all pods with these labels go, for ever.
async fn open(pods: Api<Pod>, labels: &'static str) {
    loop {
        let listed = pods.list(&ListParams::default().labels(labels)).await;
        for pod in listed.map(|list| list.items).unwrap_or_default() {
            let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
            if gates.is_some_and(|gates| gates.iter().any(|gate| gate.name == GATE)) {
                let gate = json!({"$patch": "delete", "name": GATE});
                let change = Patch::Strategic(json!({"spec": {"schedulingGates": [gate]}}));
                let _ = pods.patch(&pod.name_any(), &PatchParams::default(), &change).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Takes away what puts pods behind their gate.
async fn no_gates(lab: &Lab) {
    lab.kubectl(&["delete", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", &lab.namespace]).await;
}

fn queued(lab: &Lab, name: &str) -> Value {
    let mut experiment: Value = small(lab, name);
    experiment["metadata"]["labels"] = json!({QUEUE: "team"});
    experiment
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stands_in_a_queue_keeps_no_node_from_others() {
    let lab = Lab::new("in-line").await;
    lab.enforce("privileged").await;
    gates(&lab).await;
    let scene = Scene::of(lab, "others", &[], |bench| bench);
    let checks = tokio::spawn(open(scene.lab.api(), "assay.rocks/role=check"));
    scene.lab.apply(queued(&scene.lab, "queued")).await;
    let waits = scene.lab.condition("queued", names::PROGRESSING, "False", Some("Queued"), SOON).await;
    scene.lab.check(waits.message.contains("SchedulingGated"), &waits.message).await;
    scene.begin(|_| ()).await;
    scene.decides(&[]).await;
    let begun = scene.lab.trials("queued").await.iter().filter(|trial| trial.status.is_some()).count();
    scene.lab.check(begun == 0, "it stands in its queue all the time").await;
    checks.abort();
    // It gets its turn, and its node.
    let all = tokio::spawn(open(scene.lab.api(), "assay.rocks/role"));
    scene.lab.decided("queued", "Win", 5).await;
    scene.lab.check(scene.lab.losses("queued").await.is_empty(), "nothing is lost").await;
    all.abort();
    scene.witness.saw_nothing_wrong(&scene.lab).await;
    no_gates(&scene.lab).await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_may_take_its_time() {
    let lab = Lab::new("queue").await;
    lab.enforce("privileged").await;
    gates(&lab).await;
    let scene = Scene::of(lab, "queue", &["--pending-seconds", "5"], |bench| bench);
    scene.lab.apply(queued(&scene.lab, "queue")).await;
    // First the check of the options, which asks for little and waits in line all the same.
    let waits = async |reason: &str| {
        scene
            .lab
            .condition(
                "queue",
                names::PROGRESSING,
                if reason == "Queued" { "False" } else { "True" },
                Some(reason),
                SOON,
            )
            .await
    };
    let checking = scene
        .lab
        .until("the check waits behind the gate", SOON, async || {
            let found = waits("Checking").await;
            found.message.contains("SchedulingGated").then_some(found)
        })
        .await;
    assert!(checking.message.contains("SchedulingGated"));
    let opener = tokio::spawn(open(scene.lab.api(), "assay.rocks/role"));
    scene.lab.running_pod().await;
    opener.abort();
    let queued = waits("Queued").await;
    scene.lab.check(queued.message.contains("SchedulingGated"), &queued.message).await;
    // Longer than a pod may be pending.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let opener = tokio::spawn(open(scene.lab.api(), "assay.rocks/role"));
    scene.decides(&[]).await;
    opener.abort();
    no_gates(&scene.lab).await;
    scene.lab.close().await;
}
