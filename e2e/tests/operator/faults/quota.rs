//! A namespace that has no room.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::DeleteParams;
use serde_json::json;

use crate::lab::Lab;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_room_for_pods_is_waited_for() {
    let lab = Lab::new("quota").await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    lab.put::<ResourceQuota>(Some(&lab.namespace), quota).await;
    let scene = Scene::of(lab, "quota", &[], |bench| bench);
    scene.begin(|_| ()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(scene.witness.ran(), 0);
    let status = scene.lab.status(&scene.name).await;
    let says = status.conditions.iter().any(|condition| condition.message.contains("quota"));
    scene.lab.check(says, "the status says that a quota is in the way").await;
    scene.lab.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await.expect("a quota can be lifted");
    scene.ends_well(&[]).await;
}
