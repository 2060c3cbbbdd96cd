//! Nodes that come and go.

use std::time::Duration;

use assay_api::names;
use assay_core::cluster;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::bench::{Bench, End, Run};
use crate::experiment;
use crate::lab::{Lab, SOON};
use crate::operator::IMAGE;
use crate::pods;
use crate::scene::Scene;
use crate::witness::Witness;

async fn cordon(lab: &Lab, node: &str, cordoned: bool) {
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let change = json!({"spec": {"unschedulable": cordoned}});
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&change)).await.expect("a node can be cordoned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cordoned_node_is_waited_for() {
    let scene = Scene::new("cordoned", |bench| bench.takes(Duration::from_secs(1))).await;
    scene.begin(|_| ()).await;
    scene.lab.running_pod().await;
    let node = scene.lab.nodes[0].clone();
    cordon(&scene.lab, &node, true).await;
    // The trial that ran ends, and one that was on its way waits for a node.
    let all = scene.lab.api::<Pod>();
    scene
        .lab
        .until("no trial runs there", SOON, async || {
            let found = all.list(&ListParams::default()).await.ok()?.items;
            let is_idle = |pod: &Pod| pods::node(pod).is_empty() || matches!(pods::phase(pod), "Succeeded" | "Failed");
            found.iter().all(is_idle).then_some(())
        })
        .await;
    let ran = scene.witness.ran();
    tokio::time::sleep(Duration::from_secs(5)).await;
    scene.lab.check(scene.witness.ran() == ran, "nothing runs on a cordoned node").await;
    cordon(&scene.lab, &node, false).await;
    scene.ends_well(&[]).await;
}

/// Nobody but the scheduler knows what `DaemonSets` and others take of a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_room_costs_no_attempt() {
    let lab = Lab::with_nodes("full", 2).await;
    let node = lab.nodes[0].clone();
    let filler = json!({
        "metadata": {"name": "filler"},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "filler", "image": IMAGE,
                "resources": {"requests": {"cpu": "15500m"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    lab.put::<Pod>(Some(&lab.namespace), filler).await;
    let scene = Scene::of(lab, "full", &["--pending-seconds", "5"], |bench| bench);
    scene.begin(|_| ()).await;
    scene.decides(&[]).await;
    let ran_on = scene.lab.trials(&scene.name).await.into_iter().filter_map(|trial| Some(trial.status?.attempts));
    let nodes: Vec<String> = ran_on.flatten().filter_map(|attempt| attempt.node).collect();
    scene.lab.check(!nodes.contains(&node), &format!("trials ran on {nodes:?}")).await;
    scene.lab.close().await;
}

/// However many of its experiments want one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_asks_for_no_more_nodes_than_its_fence_allows() {
    // For checks: it is too small for trials.
    let lab = Lab::with_nodes("asks", 1).await;
    let _bench = Bench::new(&lab).start(&lab);
    let fence = format!("--fence={}", json!({"namespaces": [lab.namespace], "maxNodes": 1}));
    let _operator = lab.operator_with(&[&fence], None);
    let mut names = vec!["one", "two", "three"];
    for name in &names {
        let mut experiment = experiment::small(&lab, name);
        experiment["spec"]["placement"]["provision"] = json!("WhenNeeded");
        experiment["spec"]["placement"]["cpus"] = json!(64);
        lab.apply(experiment).await;
    }
    let who_asks = async |names: &[&'static str]| {
        let mut asks = Vec::new();
        for name in names {
            let waits = lab.condition(name, names::PROGRESSING, "False", None, SOON).await;
            match waits.reason.as_str() {
                "Provisioning" => asks.push(*name),
                "NodeLimit" => {}
                _ => return None,
            }
        }
        (asks.len() == 1).then(|| asks[0])
    };
    let first = lab.until("one asks, and the others wait", SOON, async || who_asks(&names).await).await;
    let pods = lab.names::<Pod>("assay.rocks/role=placeholder").await;
    lab.check(pods.len() == 1, &format!("one pod asks for a node: {pods:?}")).await;
    lab.kubectl(&["delete", "tuningexperiment", first]).await;
    names.retain(|name| *name != first);
    lab.until("the next one asks", SOON, async || who_asks(&names).await).await;
    lab.close().await;
}

/// In the place of an autoscaler, which goes by pods for which there is no node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_nodes_is_asked_for_one() {
    let mut lab = Lab::with_nodes("pool", 0).await;
    let _bench = Bench::new(&lab).start(&lab);
    let witness = Witness::start(&lab);
    let operator = lab.operator();
    let mut experiment = experiment::small(&lab, "pool");
    experiment["spec"]["placement"]["provision"] = json!("WhenNeeded");
    lab.apply(experiment).await;
    // Checks are pods like others: an autoscaler brings a node for them, which may be too small for trials.
    let small = lab.add_node().await;
    lab.condition("pool", names::ACCEPTED, "True", None, SOON).await;
    cordon(&lab, &small, true).await;
    let waits = lab.condition("pool", names::PROGRESSING, "False", Some("Provisioning"), SOON).await;
    lab.check(waits.message.contains("a node is asked for"), &waits.message).await;
    let asks = lab
        .until("a pod asks for a node", SOON, async || {
            let listed = lab.api::<Pod>().list(&ListParams::default().labels("assay.rocks/role=placeholder")).await;
            listed.ok()?.items.pop()
        })
        .await;
    lab.check(asks.spec.is_some_and(|spec| spec.node_name.is_none()), "it waits").await;
    lab.add_node().await;
    lab.decided("pool", "Win", 5).await;
    lab.check(lab.losses("pool").await.is_empty(), "nothing is lost").await;
    let left = lab.names::<Pod>("assay.rocks/role=placeholder").await;
    lab.check(left.is_empty(), &format!("it asks no more: {left:?}")).await;
    witness.saw_nothing_wrong(&lab).await;
    drop(operator);
    lab.close().await;
}

/// By its own clock it has not been ready for ten minutes, which is five times what a node may be silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_blinks_keeps_its_trial_whatever_its_clock_says() {
    let scene = Scene::new("blinks", |bench| bench.takes(Duration::from_secs(5))).await;
    scene.begin(|_| ()).await;
    scene.lab.running_pod().await;
    scene.lab.ready(&scene.lab.nodes[0], "False", Duration::from_mins(10)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    scene.lab.ready(&scene.lab.nodes[0], "True", Duration::ZERO).await;
    scene.ends_well(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_whose_node_is_gone_for_good_is_redone_elsewhere() {
    let hold = |run: &Run| if run.is_chosen() { End::Never } else { run.done() };
    let lab = Lab::with_nodes("gone", 2).await;
    let scene = Scene::of(lab, "gone", &["--node-lost-seconds", "10"], |bench| bench.script(hold));
    scene.begin(|_| ()).await;
    let held = scene.bench.held(&scene.lab).await;
    let pod = scene.lab.pod("the pod that hangs", |pod| pod.metadata.name.as_deref() == Some(&held)).await;
    let node = pods::node(&pod).to_owned();
    let nodes: Api<Node> = Api::all(scene.lab.client.clone());
    nodes.delete(&node, &DeleteParams::default()).await.expect("a node can be deleted");
    scene.lab.decided(&scene.name, "Win", 5).await;
    scene.witness.saw_nothing_wrong(&scene.lab).await;
    let lost = scene.lab.losses(&scene.name).await;
    let named = lost.iter().any(|lost| lost == "Lost NodeLost") && lost.iter().all(|lost| lost.starts_with("Lost"));
    scene.lab.check(named, &format!("the node was lost: {lost:?}")).await;
    scene.lab.close().await;
}

/// No attempt says that a block has begun anew before one has ended, but its volume is there from the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_is_redone_keeps_its_volume() {
    let hold = |run: &Run| if run.is_chosen() { End::Never } else { run.done() };
    let lab = Lab::with_nodes("anew", 2).await;
    for node in &lab.nodes {
        lab.add_volumes(node, 3).await;
    }
    let args = ["--node-lost-seconds", "10", "--pending-seconds", "15"];
    let scene = Scene::of(lab, "anew", &args, |bench| bench.script(hold));
    scene.begin(|spec| spec["placement"]["storage"] = local_nvme()).await;
    let held = scene.bench.held(&scene.lab).await;
    let pod = scene.lab.pod("the pod that hangs", |pod| pod.metadata.name.as_deref() == Some(&held)).await;
    let nodes: Api<Node> = Api::all(scene.lab.client.clone());
    nodes.delete(pods::node(&pod), &DeleteParams::default()).await.expect("a node can be deleted");
    scene.lab.decided(&scene.name, "Win", 5).await;
    let lost = scene.lab.losses(&scene.name).await;
    scene.lab.check(lost == ["Lost NodeLost"], &format!("the node was lost, and nothing else: {lost:?}")).await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_of_an_earlier_experiment_is_waited_for() {
    let lab = Lab::new("earlier").await;
    lab.add_volumes(&lab.nodes[0], 3).await;
    let names: Vec<String> = (0..5).map(|block| cluster::claim_name("earlier", "fill", block, 0)).collect();
    for name in &names {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local-nvme",
            "resources": {"requests": {"storage": "1Gi"}},
        });
        let claim = json!({"metadata": {"name": name}, "spec": spec});
        lab.put::<PersistentVolumeClaim>(Some(&lab.namespace), claim).await;
    }
    let scene = Scene::of(lab, "earlier", &[], |bench| bench);
    scene.begin(|spec| spec["placement"]["storage"] = local_nvme()).await;
    let refused = scene.lab.condition(&scene.name, names::PROGRESSING, "False", Some("PodRefused"), SOON).await;
    scene.lab.check(refused.message.contains("of an earlier experiment to be deleted"), &refused.message).await;
    assert_eq!(scene.witness.ran(), 0);
    for name in &names {
        let claims = scene.lab.api::<PersistentVolumeClaim>();
        claims.delete(name, &DeleteParams::default()).await.expect("a claim can be deleted");
    }
    scene.ends_well(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_can_not_be_is_named_and_keeps_no_node() {
    let scene = Scene::new("misspelt", |bench| bench).await;
    let mut misspelt = experiment::small(&scene.lab, "class");
    misspelt["spec"]["placement"]["storage"] =
        json!({"persistentVolumeClaim": {"storageClassName": "Local_NVMe", "size": "1Gi"}});
    scene.lab.apply(misspelt).await;
    let refused = scene.lab.condition("class", names::PROGRESSING, "False", Some("PodRefused"), SOON).await;
    scene.lab.check(refused.message.contains("Local_NVMe"), &refused.message).await;
    scene.begin(|_| ()).await;
    scene.ends_well(&[]).await;
}

/// Nobody but the scheduler knows where the volume is that a claim was given before its pod had a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_on_another_node_costs_no_attempt() {
    let lab = Lab::with_nodes("elsewhere", 2).await;
    let (first, other) = (lab.nodes[0].clone(), lab.nodes[1].clone());
    let class = lab.namespace.clone();
    let immediate = json!({
        "metadata": {"name": class},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    });
    lab.put::<StorageClass>(None, immediate).await;
    lab.add_volumes_of(&class, &other, 6).await;
    let scene = Scene::of(lab, "elsewhere", &["--pending-seconds", "5"], |bench| bench);
    scene
        .begin(|spec| {
            spec["placement"]["storage"] = json!({"persistentVolumeClaim": {"storageClassName": class, "size": "1Gi"}});
        })
        .await;
    scene.decides(&[]).await;
    let ran_on = scene.lab.trials(&scene.name).await.into_iter().filter_map(|trial| Some(trial.status?.attempts));
    let nodes: Vec<String> = ran_on.flatten().filter_map(|attempt| attempt.node).collect();
    scene.lab.check(!nodes.contains(&first), &format!("trials ran on {nodes:?}")).await;
    let classes: Api<StorageClass> = Api::all(scene.lab.client.clone());
    classes.delete(&class, &DeleteParams::default()).await.expect("a class can be deleted");
    scene.lab.close().await;
}

fn local_nvme() -> Value {
    json!({"persistentVolumeClaim": {"storageClassName": "local-nvme", "size": "1Gi"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_block_has_a_volume_of_its_own() {
    let lab = Lab::new("claims").await;
    lab.add_volumes(&lab.nodes[0], 3).await;
    let scene = Scene::of(lab, "claims", &[], |bench| bench);
    scene.begin(|spec| spec["placement"]["storage"] = local_nvme()).await;
    let claims = scene.lab.api::<PersistentVolumeClaim>();
    let mut seen = std::collections::BTreeSet::new();
    scene
        .lab
        .until("the experiment is done", 300, async || {
            let now = claims.list(&ListParams::default()).await.ok()?.items;
            let now = now.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
            let now: Vec<_> = now.filter_map(|claim| claim.metadata.name).collect();
            // One node runs one block at a time.
            assert!(now.len() <= 1, "{now:?}");
            seen.extend(now);
            let status = scene.lab.status(&scene.name).await;
            experiment::condition(&status, "Finished").filter(|found| found.status == "True").map(|_| ())
        })
        .await;
    assert_eq!(seen.len(), 5, "{seen:?}");
    scene
        .lab
        .until("volumes go with their blocks", SOON, async || {
            claims.list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())
        })
        .await;
    scene.ends_well(&[]).await;
}
