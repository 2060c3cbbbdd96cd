//! What runs the cluster goes away and comes back. Nobody else can use it meanwhile.

use std::time::Duration;

use kube::ResourceExt;

use crate::lab::Lab;
use crate::machine::cluster;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_etcd_is_survived() {
    let scene = Scene::of(Lab::alone("etcd", 1).await, "etcd", &[], |bench| bench.takes(Duration::from_secs(1)));
    scene.begin(|_| ()).await;
    scene.lab.running_pod().await;
    cluster(&["stop", "etcd", "KILL"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster(&["start", "etcd"]).await;
    scene.ends_well(&[]).await;
}

/// Garbage collection can miss what a deleted experiment left where one of its name follows at once. Here nobody collects at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_takes_the_place_of_a_deleted_one() {
    let scene = Scene::of(Lab::alone("again", 1).await, "again", &[], |bench| bench);
    scene.begin(|_| ()).await;
    scene.lab.attempted(&scene.name, 3).await;
    let first: Vec<_> = scene.lab.trials(&scene.name).await.iter().filter_map(ResourceExt::uid).collect();
    cluster(&["stop", "kube-controller-manager"]).await;
    scene.lab.kubectl(&["delete", "tuningexperiment", &scene.name]).await;
    scene.begin(|_| ()).await;
    scene.lab.decided(&scene.name, "Win", 5).await;
    let trials = scene.lab.trials(&scene.name).await;
    let is_new = trials.iter().filter_map(ResourceExt::uid).all(|uid| !first.contains(&uid));
    scene.lab.check(is_new && trials.len() == 10, "no trial of the first stands for one of the second").await;
    cluster(&["start", "kube-controller-manager"]).await;
    scene.lab.close().await;
}
