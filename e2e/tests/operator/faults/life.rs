//! Experiments and operators that end, pause and come twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_api::{TuningExperiment, TuningTrial, names};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::bench::{End, Run};
use crate::lab::{Lab, SOON};
use crate::scene::Scene;

async fn edit(lab: &Lab, experiment: &str, spec: Value) -> Result<(), kube::Error> {
    let change = json!({"spec": spec});
    let experiments = lab.api::<TuningExperiment>();
    experiments.patch(experiment, &PatchParams::default(), &Patch::Merge(&change)).await.map(|_| ())
}

/// A scene in which the chosen trial hangs as long as nobody says otherwise.
async fn hanging(name: &str) -> (Scene, Arc<AtomicBool>) {
    let hold = Arc::new(AtomicBool::new(true));
    let held = hold.clone();
    let script = move |run: &Run| if run.is_chosen() && held.load(Ordering::Relaxed) { End::Never } else { run.done() };
    let scene = Scene::new(name, |bench| bench.script(script)).await;
    scene.begin(|_| ()).await;
    scene.bench.held(&scene.lab).await;
    (scene, hold)
}

/// The trial that runs is not lost by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_experiment_goes_on_where_it_was() {
    let scene = Scene::new("suspended", |bench| bench.takes(Duration::from_secs(2))).await;
    scene.begin(|_| ()).await;
    scene.lab.running_pod().await;
    edit(&scene.lab, &scene.name, json!({"suspend": true})).await.expect("suspend can be changed");
    scene.lab.condition(&scene.name, names::SUSPENDED, "True", None, SOON).await;
    scene.lab.no_pods().await;
    let ran = scene.witness.ran();
    tokio::time::sleep(Duration::from_secs(5)).await;
    scene.lab.check(scene.witness.ran() == ran, "nothing runs while the experiment is suspended").await;
    edit(&scene.lab, &scene.name, json!({"suspend": false})).await.expect("suspend can be changed");
    scene.ends_well(&[]).await;
}

/// Until it ends nobody else may have the node, however long that takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_experiment_keeps_the_node_of_what_still_runs() {
    let (scene, hold) = hanging("keeps").await;
    edit(&scene.lab, &scene.name, json!({"suspend": true})).await.expect("suspend can be changed");
    scene.lab.condition(&scene.name, names::PROGRESSING, "True", Some("Suspending"), SOON).await;
    let leases: Api<Lease> = scene.lab.api();
    let name = format!("{}{}", names::NODE_LEASE_PREFIX, scene.lab.nodes[0]);
    leases.delete(&name, &DeleteParams::default()).await.expect("somebody deletes the lease");
    let held = async || leases.get_opt(&name).await.ok()??.spec?.holder_identity;
    let holder = scene.lab.until("the lease is held again", SOON, held).await;
    scene.lab.check(holder.ends_with("/keeps"), &holder).await;
    hold.store(false, Ordering::Relaxed);
    let pod = scene.lab.running_pod().await.name_any();
    scene.lab.api::<Pod>().delete(&pod, &DeleteParams::default()).await.expect("a pod can be deleted");
    scene.lab.condition(&scene.name, names::SUSPENDED, "True", None, SOON).await;
    edit(&scene.lab, &scene.name, json!({"suspend": false})).await.expect("suspend can be changed");
    scene.ends_well(&["Lost Deleted"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_experiment_leaves_nothing() {
    let (scene, _hold) = hanging("erased").await;
    let experiments = scene.lab.api::<TuningExperiment>();
    experiments.delete(&scene.name, &DeleteParams::default()).await.expect("an experiment can be deleted");
    scene.lab.no_pods().await;
    let lab = &scene.lab;
    lab.until("trials and records are gone", SOON, async || {
        let records = lab.names::<ConfigMap>(names::EXPERIMENT_LABEL).await;
        (records.is_empty() && lab.names::<TuningTrial>("").await.is_empty()).then_some(())
    })
    .await;
    lab.until("the node is free", SOON, async || {
        let leases = lab.api::<Lease>().list(&ListParams::default()).await.ok()?;
        let mut nodes = leases
            .items
            .iter()
            .filter(|lease| lease.metadata.name.as_deref().is_some_and(|name| name.starts_with("assay-node-")));
        let held = |lease: &Lease| {
            lease
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.as_deref())
                .is_some_and(|holder| !holder.is_empty())
        };
        (!nodes.any(held)).then_some(())
    })
    .await;
    scene.lab.close().await;
}

/// The namespace ends, although nobody is there any more to let go of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_is_uninstalled_holds_nothing_up() {
    let (mut scene, _hold) = hanging("uninstalled").await;
    assert!(scene.operator.terminate(), "the operator ends when it is asked to: {}", scene.operator.said());
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_operators_one_acts_and_the_other_takes_over() {
    let lab = Lab::new("pair").await;
    let mut second = lab.operator();
    let mut scene = Scene::of(lab, "pair", &[], |bench| bench.takes(Duration::from_secs(1)));
    scene.begin(|_| ()).await;
    scene.lab.running_pod().await;
    let lease = scene.lab.api::<Lease>().get("assay-operator").await.expect("the operators elect a leader");
    let leader = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    scene.lab.check(["operator-0", "operator-1"].contains(&leader.as_str()), &format!("{leader:?} leads")).await;
    let (first, other) = (&mut scene.operator, &mut second);
    let (leader, follower) = if leader == "operator-0" { (other, first) } else { (first, other) };
    leader.kill();
    assert!(follower.is_running());
    scene.ends_well(&[]).await;
}

/// What may be edited is no part of the plan, also for an operator that was not there when the plan was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_spec_of_a_running_experiment_can_not_be_edited() {
    let (mut scene, hold) = hanging("edited").await;
    let refused = edit(&scene.lab, &scene.name, json!({"repetitions": 6})).await.expect_err("the spec is immutable");
    assert!(
        refused
            .to_string()
            .contains("spec is immutable except for suspend, ttlSecondsAfterFinished and failedPodRetentionSeconds"),
        "{refused}"
    );
    let experiment = scene.lab.api::<TuningExperiment>().get(&scene.name).await.expect("the experiment");
    let mut configs = experiment.spec.configs;
    configs.reverse();
    let refused =
        edit(&scene.lab, &scene.name, json!({"configs": configs})).await.expect_err("trials were planned in it");
    assert!(refused.to_string().contains("keep their order"), "{refused}");
    edit(&scene.lab, &scene.name, json!({"failedPodRetentionSeconds": 5})).await.expect("that can be changed");
    scene.operator.kill();
    scene.operator.start_again();
    scene.operator.is_back(&scene.lab).await;
    // It has to see the pod before that is gone.
    let looked = async || {
        scene.operator.get("/metrics").await.contains("reconcile_duration_seconds_count{result=\"ok\"}").then_some(())
    };
    scene.lab.until("the operator has looked at the experiment", SOON, looked).await;
    hold.store(false, Ordering::Relaxed);
    // What hangs is run again.
    let held = scene.bench.held(&scene.lab).await;
    scene.lab.api::<Pod>().delete(&held, &DeleteParams::default()).await.expect("a pod can be deleted");
    scene.ends_well(&["Lost Deleted"]).await;
}
