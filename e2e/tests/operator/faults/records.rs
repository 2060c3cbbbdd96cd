//! Trials that leave something else than a sound summary.

use assay_record::{FailureKind, Summary};

use crate::bench::{End, Run};
use crate::scene::Scene;

/// The chosen trial ends in another way, once.
async fn chosen(name: &str, end: impl Fn(&Run) -> End + Send + Sync + 'static) -> Scene {
    let script = move |run: &Run| if run.is_chosen() { end(run) } else { run.done() };
    let scene = Scene::new(name, |bench| bench.script(script)).await;
    scene.begin(|_| ()).await;
    scene
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_summary_is_run_again() {
    let scene = chosen("truncated", |run| {
        let whole = serde_json::to_string(&run.summary).expect("a summary is JSON");
        End::says(0, &whole[..whole.len() / 2])
    });
    scene.await.ends_well(&["Lost UnreadableRecord"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_summary_of_another_trial_is_run_again() {
    let scene = chosen("another", |run| run.done_with(|summary| summary.trial.block = 3)).await;
    scene.ends_well(&["Lost UnreadableRecord"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_is_run_again() {
    chosen("crash", |_| End::says(139, "")).await.ends_well(&["Lost Crashed"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disturbed_trial_is_run_again() {
    let disturbed = |summary: &mut Summary| summary.disturbance.throttled_periods = Some(3);
    let scene = chosen("disturbed", move |run| run.done_with(disturbed)).await;
    scene.ends_well(&["Invalid Throttled"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_out_of_memory_is_a_fact_about_the_config() {
    let scene = chosen("oom", |_| End::Says { exit_code: 137, reason: "OOMKilled", message: String::new() }).await;
    fails_once(scene, "Failed OutOfMemory").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_under_the_config_is_not_repeated() {
    let scene = chosen("fails", |run| {
        let mut failed = run.clone();
        let failure = serde_json::json!({"kind": FailureKind::DiskQuota, "message": "too large"});
        failed.summary.failure = Some(serde_json::from_value(failure).expect("a failure"));
        failed.summary.metrics.clear();
        End::says(4, &serde_json::to_string(&failed.summary).expect("a summary is JSON"))
    });
    fails_once(scene.await, "Failed DiskQuota").await;
}

async fn fails_once(scene: Scene, how: &str) {
    let status = scene.lab.finished(&scene.name).await;
    scene.lost(&[how]).await;
    let progress = status.progress.unwrap_or_default();
    assert_eq!((progress.attempts, progress.attempts_failed, progress.trials_valid), (10, 1, 9));
    scene.witness.saw_nothing_wrong(&scene.lab).await;
    scene.lab.close().await;
}
