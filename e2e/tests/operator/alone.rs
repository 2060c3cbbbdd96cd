//! Faults of the real node, while the bench itself is at work there.

use std::time::Duration;

use assay_api::names;
use assay_protocol::invocation::in_pod::USER;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::experiment::{on_the_real_node, small};
use crate::lab::{Lab, SOON};
use crate::machine::{cluster, image, node};
use crate::scene::Scene;

/// The real bench there, in trials long enough that something can happen meanwhile.
async fn at_work(name: &str, args: &[&str]) -> Scene {
    let image = image("bench");
    let args = [&["--bench-image", image.as_str()], args].concat();
    let scene = Scene::of(Lab::alone(name, 0).await, name, &args, |bench| bench);
    scene
        .begin(|spec| {
            on_the_real_node(spec);
            let options = json!([{"match": ["*"], "options": {"write_buffer_size": 131_072}}]);
            spec["configs"] = json!([{"name": "base"}, {"name": "candidate", "columnFamilies": options}]);
            spec["scenarios"][0]["workload"]["keyValue"] = json!({
                "keys": 50_000,
                "valueBytes": {"fixed": 400},
                "roles": [{"name": "writer", "steps": 200_000, "mix": {"put": 1}}],
            });
        })
        .await;
    scene
}

/// The container goes on without it, and what it left is found afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_that_was_away_costs_no_trial() {
    let scene = at_work("kubelet", &[]).await;
    scene.lab.running_pod().await;
    cluster(&["stop", "kubelet"]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster(&["start", "kubelet"]).await;
    // The one that ran, and one that began afterwards. Whether they are valid depends on who else is busy on this machine.
    scene.lab.attempted(&scene.name, 2).await;
    let losses = scene.lab.losses(&scene.name).await;
    let lost = losses.iter().any(|loss| loss.starts_with("Lost"));
    scene.lab.check(!lost, &format!("no trial is lost: {losses:?}")).await;
    scene.witness.saw_nothing_wrong(&scene.lab).await;
    scene.lab.close().await;
}

/// Its pod can't be seen to end, and would keep the node for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_was_deleted_on_a_lost_node_is_removed_by_force() {
    let scene = at_work("drained", &["--node-lost-seconds", "10"]).await;
    let pod = scene.lab.running_pod().await.name_any();
    cluster(&["stop", "kubelet"]).await;
    scene.lab.api::<Pod>().delete(&pod, &DeleteParams::default()).await.expect("a pod can be deleted");
    // The controller of nodes says so later by itself.
    scene.lab.ready(&node(), "Unknown", Duration::from_mins(10)).await;
    let pods = scene.lab.api::<Pod>();
    scene
        .lab
        .until("the pod is gone before its kubelet is back", SOON, async || {
            pods.get_opt(&pod).await.ok()?.is_none().then_some(())
        })
        .await;
    cluster(&["start", "kubelet"]).await;
    scene.lab.attempted(&scene.name, 2).await;
    let losses = scene.lab.losses(&scene.name).await;
    scene.lab.check(losses.iter().any(|loss| loss == "Lost Deleted"), &format!("it was deleted: {losses:?}")).await;
    scene.lab.close().await;
}

/// Only where the operator was told that it may be, and a folder for each experiment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_the_node_holds_databases() {
    let lab = Lab::alone("folder", 0).await;
    // The strictest standard forbids such volumes to everybody.
    lab.enforce("privileged").await;
    let allowed = lab.folder.join("allowed");
    std::fs::create_dir_all(&allowed).expect("a folder");
    std::os::unix::fs::chown(&allowed, Some(USER), Some(USER)).expect("it belongs to the bench's user");
    let (image, path) = (image("bench"), allowed.display().to_string());
    let _operator = lab.operator_with(&["--bench-image", &image, "--host-path", &path], None);
    let on = |name: &str, path: &str| {
        let mut experiment = small(&lab, name);
        on_the_real_node(&mut experiment["spec"]);
        experiment["spec"]["placement"]["storage"] = json!({"hostPath": {"path": path}});
        experiment
    };
    lab.apply(on("elsewhere", "/etc")).await;
    let refused = lab.condition("elsewhere", names::ACCEPTED, "False", Some("NotAllowed"), SOON).await;
    let says = format!(
        "spec.placement.storage.hostPath.path: /etc is not allowed; this operator allows only paths under {path}"
    );
    lab.check(refused.message.contains(&says), &refused.message).await;
    // It could read what others keep there.
    let mut strange = on("strange", &path);
    strange["spec"]["configs"][1]["image"] = json!("registry.example/somebody/bench:1");
    lab.apply(strange).await;
    let refused = lab.condition("strange", names::ACCEPTED, "False", Some("NotAllowed"), SOON).await;
    let says = "with a hostPath, this operator allows only";
    lab.check(refused.message.contains(says), &refused.message).await;
    lab.apply(on("folder", &path)).await;
    lab.attempted("folder", 2).await;
    let ended = lab.losses("folder").await;
    lab.check(!ended.iter().any(|loss| loss.starts_with("Lost")), &format!("no trial is lost: {ended:?}")).await;
    let own = allowed.join(&lab.namespace).join("folder");
    lab.check(own.is_dir(), &format!("{} has the databases", own.display())).await;
    lab.close().await;
}
