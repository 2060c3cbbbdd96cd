//! What docs/operations.md says for bad days, done to the cluster. `make runbooks-test` runs these.

use std::time::Duration;

use assay_api::names;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use crate::bench::Bench;
use crate::lab::{Lab, SOON};
use crate::machine::cluster;
use crate::scene::Scene;

/// The components that have seen what etcd has forgotten, in the order of their start.
const WATCHERS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];

fn alone(lab: Lab, name: &str, args: &[&str]) -> Scene {
    Scene::of(lab, name, args, |bench| bench.takes(Duration::from_secs(1)))
}

/// Trials of after the snapshot are run again, and none counts twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_was_restored() {
    let mut scene = alone(Lab::alone("restored", 1).await, "restored", &[]);
    scene.begin(|_| ()).await;
    scene.lab.attempted(&scene.name, 3).await;
    cluster(&["stop", "etcd"]).await;
    cluster(&["exec", "cp", "-a", "/var/lib/etcd", "/var/lib/etcd-snapshot"]).await;
    cluster(&["start", "etcd"]).await;
    scene.lab.attempted(&scene.name, 7).await;
    for component in WATCHERS.iter().rev() {
        cluster(&["stop", component]).await;
    }
    cluster(&["stop", "etcd"]).await;
    cluster(&["exec", "sh", "-c", "rm -r /var/lib/etcd && mv /var/lib/etcd-snapshot /var/lib/etcd"]).await;
    cluster(&["start", "etcd"]).await;
    for component in WATCHERS {
        cluster(&["start", component]).await;
    }
    scene
        .lab
        .until("the API server is back", SOON, async || {
            scene.lab.kubectl(&["get", "--raw", "/readyz"]).await.contains("ok").then_some(())
        })
        .await;
    let attempts = scene.lab.trials(&scene.name).await.into_iter().filter_map(|trial| Some(trial.status?.attempts));
    let known = attempts.flatten().count();
    scene.lab.check((3..7).contains(&known), &format!("{known} attempts are known after the restore")).await;
    // Who plays the bench has ended these pods before.
    scene.bench = Bench::new(&scene.lab).takes(Duration::from_secs(1)).start(&scene.lab);
    // The operator has seen what is no more.
    assert!(scene.operator.terminate() || !scene.operator.is_running(), "it can be ended");
    scene.operator.start_again();
    scene.lab.decided(&scene.name, "Win", 5).await;
    scene.lost(&[]).await;
    scene.lab.close().await;
}

/// etcd's own gateway, from the node.
async fn alarm(action: &str) {
    let body = json!({"action": action, "memberID": 0, "alarm": "NOSPACE"}).to_string();
    let url = "http://127.0.0.1:2379/v3/maintenance/alarm";
    cluster(&["exec", "curl", "--fail", "--silent", "--show-error", "-d", &body, url]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_is_full() {
    let mut scene = alone(Lab::alone("full-etcd", 1).await, "full-etcd", &[]);
    scene.begin(|_| ()).await;
    scene.lab.attempted(&scene.name, 3).await;
    alarm("ACTIVATE").await;
    scene
        .lab
        .until("the operator says why it stands still", SOON, async || {
            scene.operator.said().contains("database space exceeded").then_some(())
        })
        .await;
    // What is deleted makes room even so.
    let other = scene.lab.kubectl(&["delete", "event", "--all"]).await;
    scene.lab.check(!other.contains("space exceeded"), &other).await;
    // Without a Lease nobody leads: the kubelet starts it again until there is room.
    scene.lab.until("it gives up to lead", SOON, async || (!scene.operator.is_running()).then_some(())).await;
    alarm("DEACTIVATE").await;
    // It does not try again to end its pods, as a kubelet does.
    cluster(&["stop", "kwok"]).await;
    cluster(&["start", "kwok"]).await;
    scene.operator.start_again();
    scene.decides(&[]).await;
    scene.lab.close().await;
}

/// Held by nobody that anybody knows, without the labels that operators write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_node_that_is_stuck() {
    let lab = Lab::alone("stuck", 1).await;
    let node = lab.nodes[0].clone();
    let scene = alone(lab, "stuck", &[]);
    let leases: Api<Lease> = Api::namespaced(scene.lab.client.clone(), &scene.lab.namespace);
    let name = format!("{}{node}", names::NODE_LEASE_PREFIX);
    let now = k8s_openapi::jiff::Timestamp::now();
    let held = json!({
        "metadata": {"name": name},
        "spec": {"holderIdentity": "elsewhere/gone", "leaseDurationSeconds": 180, "renewTime": format!("{now:.6}")},
    });
    scene.lab.put::<Lease>(Some(&scene.lab.namespace), held).await;
    scene.begin(|_| ()).await;
    let waits = scene.lab.condition(&scene.name, names::PROGRESSING, "False", Some("NodeHeld"), SOON).await;
    scene.lab.check(waits.message.contains("elsewhere/gone"), &waits.message).await;
    leases.delete(&name, &DeleteParams::default()).await.expect("a Lease can be deleted");
    scene.decides(&[]).await;
    scene.lab.close().await;
}
