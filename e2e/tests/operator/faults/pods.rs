//! Pods that somebody takes away, or that can't begin.

use assay_api::{TuningExperiment, TuningTrial, names};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use serde_json::json;

use crate::bench::{End, Run};
use crate::experiment::{on_the_real_node, small};
use crate::lab::{Lab, SOON};
use crate::operator::IMAGE;
use crate::scene::Scene;

/// A scene in which the chosen trial hangs, and the name of its pod.
async fn hanging(name: &str) -> (Scene, String) {
    let hold = |run: &Run| if run.is_chosen() { End::Never } else { run.done() };
    let scene = Scene::new(name, |bench| bench.script(hold)).await;
    scene.begin(|_| ()).await;
    let held = scene.bench.held(&scene.lab).await;
    (scene, held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_deleted_by_hand_is_run_again() {
    let (scene, held) = hanging("deleted").await;
    scene.lab.api::<Pod>().delete(&held, &DeleteParams::default()).await.expect("a pod can be deleted");
    scene.ends_well(&["Lost Deleted"]).await;
}

/// Where its kubelet does not end it, as on a fake node. What its block has measured so long ago is measured again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bench_that_hangs_costs_one_attempt_and_gives_its_node_back() {
    let hold = |run: &Run| if run.is_chosen() { End::Never } else { run.done() };
    let scene = Scene::of(Lab::new("hangs").await, "hangs", &["--pending-seconds", "5"], |bench| bench.script(hold));
    scene.begin(|spec| spec["maxBlockDurationSeconds"] = json!(60)).await;
    let held = scene.bench.held(&scene.lab).await;
    let pod = scene.lab.api::<Pod>().get(&held).await.expect("the pod that hangs");
    assert_eq!(pod.spec.and_then(|spec| spec.active_deadline_seconds), Some(60), "a kubelet would end it");
    scene.lab.decided(&scene.name, "Win", 5).await;
    let lost = scene.lab.losses(&scene.name).await;
    let hung = lost.iter().filter(|lost| *lost == "Lost Crashed").count();
    scene.lab.check(hung == 1, &format!("lost were {lost:?}")).await;
    scene.witness.saw_nothing_wrong(&scene.lab).await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_pod_is_run_again() {
    let (scene, held) = hanging("drained").await;
    scene.lab.api::<Pod>().evict(&held, &EvictParams::default()).await.expect("a pod can be evicted");
    // The reason is on the pod that goes: of a fake one, which goes at once, it is not always seen.
    scene.lab.decided(&scene.name, "Win", 5).await;
    let lost = scene.lab.losses(&scene.name).await;
    let named = lost == ["Lost Evicted"] || lost == ["Lost Deleted"];
    scene.lab.check(named, &format!("lost were {lost:?}")).await;
    scene.witness.saw_nothing_wrong(&scene.lab).await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_pod_is_run_again() {
    let (scene, held) = hanging("evicted").await;
    let status = json!({"status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: ephemeral-storage.",
    }});
    let pods = scene.lab.api::<Pod>();
    pods.patch_status(&held, &PatchParams::default(), &Patch::Merge(&status)).await.expect("the pod fails");
    scene.ends_well(&["Lost Evicted"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_pods_stay_as_long_as_the_experiment_says() {
    let script = |run: &Run| if run.is_chosen() { End::crashes() } else { run.done() };
    let scene = Scene::new("ttl", |bench| bench.script(script)).await;
    scene.begin(|spec| spec["failedPodRetentionSeconds"] = json!(15)).await;
    scene.decides(&["Lost Crashed"]).await;
    let there = scene.lab.names::<Pod>("assay.rocks/role=trial").await;
    scene.lab.check(there.len() == 1 && there[0].ends_with("-a0"), &format!("the lost pod stays: {there:?}")).await;
    scene
        .lab
        .until("the lost pod goes after its time", SOON, async || {
            scene.lab.names::<Pod>("assay.rocks/role=trial").await.is_empty().then_some(())
        })
        .await;
    assert_eq!(scene.lab.trials(&scene.name).await.len(), 10, "trials are never removed");
    scene.lab.close().await;
}

/// As a Job that has ended goes, with its pods.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_experiment_goes_after_its_time_with_all_that_it_owns() {
    let scene = Scene::new("goes", |bench| bench).await;
    scene.begin(|_| ()).await;
    scene.decides(&[]).await;
    let made = scene.lab.trials(&scene.name).await.len();
    scene.lab.check(made == 10, "its trials are there").await;
    // Whoever wants to look at it may have it stay longer or go sooner.
    let change = Patch::Merge(json!({"spec": {"ttlSecondsAfterFinished": 1}}));
    let experiments = scene.lab.api::<TuningExperiment>();
    experiments.patch(&scene.name, &PatchParams::default(), &change).await.expect("it can be changed");
    scene
        .lab
        .until("it is gone with its trials and records", SOON, async || {
            let is_gone = experiments.get_opt(&scene.name).await.ok()?.is_none();
            let records = scene.lab.names::<ConfigMap>(names::EXPERIMENT_LABEL).await;
            (is_gone && records.is_empty() && scene.lab.trials(&scene.name).await.is_empty()).then_some(())
        })
        .await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_finished_experiments_so_many_stay_as_the_operator_is_told() {
    let scene = Scene::of(Lab::new("many").await, "first", &["--keep-finished", "1"], |bench| bench);
    scene.begin(|_| ()).await;
    scene.decides(&[]).await;
    scene.lab.apply(small(&scene.lab, "second")).await;
    scene.lab.decided("second", "Win", 5).await;
    let experiments = scene.lab.api::<TuningExperiment>();
    scene
        .lab
        .until("the first one goes", SOON, async || experiments.get_opt("first").await.ok()?.is_none().then_some(()))
        .await;
    scene.lab.check(experiments.get_opt("second").await.expect("an answer").is_some(), "the second stays").await;
    scene.lab.close().await;
}

/// And not one for both, with the words of the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lost_trial_has_an_event_of_its_own() {
    let script = |run: &Run| {
        let is_lost = run.is_first_of_baseline() && matches!(run.spec.trial.block, 1 | 3);
        if is_lost { End::crashes() } else { run.done() }
    };
    let scene = Scene::new("events", |bench| bench.script(script)).await;
    scene.begin(|_| ()).await;
    scene.decides(&["Lost Crashed", "Lost Crashed"]).await;
    let trials = scene.lab.trials(&scene.name).await;
    let ran_twice = |trial: &&TuningTrial| trial.status.as_ref().is_some_and(|status| status.attempts.len() == 2);
    let mut lost: Vec<String> = trials.iter().filter(ran_twice).map(ResourceExt::name_any).collect();
    lost.sort();
    scene
        .lab
        .until(&format!("an event for each of {lost:?}"), SOON, async || {
            let told = scene.lab.events("TrialLost").await;
            let mut named: Vec<String> = told
                .into_iter()
                .filter(|event| {
                    let trial = event.related.as_ref().and_then(|related| related.name.as_deref());
                    trial.is_some_and(|trial| event.note.as_ref().is_some_and(|note| note.starts_with(trial)))
                })
                .filter_map(|event| event.related?.name)
                .collect();
            named.sort();
            (named == lost).then_some(())
        })
        .await;
    scene.lab.close().await;
}

/// By the kubelet of the real node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_not_there_is_named() {
    let lab = Lab::with_nodes("image", 0).await;
    let scene = Scene::of(lab, "image", &["--pending-seconds", "10"], |bench| bench);
    scene.begin(on_the_real_node).await;
    scene
        .lab
        .until("a condition names the image that can't be pulled", 90, async || {
            let status = scene.lab.status(&scene.name).await;
            status.conditions.iter().any(|found| found.message.contains(IMAGE)).then_some(())
        })
        .await;
    assert_eq!(scene.witness.ran(), 0);
    scene.lab.close().await;
}
