//! A namespace that has no room.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::machine::audit_log;
use crate::scene::Scene;

const QUOTA: &str = "narrow";

/// An experiment in a namespace that has so much room and no more.
async fn begun_within(hard: Value, name: &str) -> Scene {
    let lab = Lab::new(name).await;
    let quota = json!({"metadata": {"name": QUOTA}, "spec": {"hard": hard}});
    lab.put::<ResourceQuota>(Some(&lab.namespace), quota).await;
    let scene = Scene::of(lab, name, &[], |bench| bench);
    scene.begin(|_| ()).await;
    scene
}

async fn lift(lab: &Lab) {
    lab.api::<ResourceQuota>().delete(QUOTA, &DeleteParams::default()).await.expect("a quota can be lifted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_room_for_pods_is_waited_for() {
    let scene = begun_within(json!({"pods": "0"}), "quota").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(scene.witness.ran(), 0);
    let status = scene.lab.status(&scene.name).await;
    let says = status.conditions.iter().any(|condition| condition.message.contains("quota"));
    scene.lab.check(says, "the status says that a quota is in the way").await;
    lift(&scene.lab).await;
    scene.ends_well(&[]).await;
}

/// How often somebody has taken a node there.
fn taken(namespace: &str) -> usize {
    let log = std::fs::read_to_string(audit_log()).expect("the cluster keeps an audit log");
    let entries =
        log.lines().filter(|line| line.contains(namespace)).filter_map(|line| serde_json::from_str(line).ok());
    let is_taken = |entry: &Value| {
        let of = &entry["objectRef"];
        (&entry["verb"], &of["resource"], &of["namespace"]) == (&json!("create"), &json!("leases"), &json!(namespace))
            && of["name"].as_str().is_some_and(|name| name.starts_with("assay-node-"))
    };
    entries.filter(is_taken).count()
}

/// The node is taken and given back with every try, and whoever waits for a node is woken by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_pods_are_tried_now_and_then() {
    // Enough for those that check options.
    let scene = begun_within(json!({"requests.cpu": "100m"}), "small").await;
    let lab = &scene.lab;
    let refused = lab.condition(&scene.name, "Progressing", "False", Some("PodRefused"), 60).await;
    lab.check(refused.message.contains("exceeded quota"), &refused.message).await;
    let (began, before) = (Instant::now(), taken(&lab.namespace));
    lab.check(before > 0, "the node was taken once").await;
    let more = async || Some(taken(&lab.namespace) - before).filter(|tries| *tries >= 4);
    let tries = lab.until("it is tried four times more", 120, more).await;
    // Never more often than each 5 s, though the first of them may be counted late; on a busy machine it is rarer.
    let seconds = began.elapsed().as_secs();
    lab.check(tries as u64 <= seconds / 5 + 2, &format!("{tries} tries in {seconds} s, one each 5 s")).await;
    // What is called like a pod of ours and is none. It says that it asks for no CPU, so that the quota lets it pass: the
    // API server may go by that for a moment after its deletion, too.
    let security = json!({"runAsNonRoot": true, "runAsUser": 1000, "allowPrivilegeEscalation": false,
        "seccompProfile": {"type": "RuntimeDefault"}, "capabilities": {"drop": ["ALL"]}});
    let foreign = json!({
        "metadata": {"name": "foreign", "labels": {"assay.rocks/experiment": scene.name}},
        "spec": {
            "nodeSelector": {"nowhere": "yes"},
            "containers": [{
                "name": "own",
                "image": "localhost/pause:1",
                "resources": {"requests": {"cpu": "0"}},
                "securityContext": security,
            }],
        },
    });
    lab.put::<Pod>(Some(&lab.namespace), foreign).await;
    lift(lab).await;
    lab.decided(&scene.name, "Win", 5).await;
    lab.until("its own pods have gone", 60, async || (lab.names::<Pod>("").await == ["foreign"]).then_some(())).await;
    scene.lab.close().await;
}
