//! Trials that leave something else than a sound summary.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use assay_core::cluster;
use assay_protocol::{Digest, Exit, FailureKind, Summary, output};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::bench::{Bench, End, Run};
use crate::experiment::small;
use crate::lab::Lab;
use crate::logs::{Fault, Logs};
use crate::record::{Measured, record};
use crate::scene::Scene;
use crate::witness::Witness;

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
        End::says(Exit::Completed, &whole[..whole.len() / 2])
    });
    let scene = scene.await;
    scene.decides(&["Lost UnreadableRecord"]).await;
    let event = scene.lab.event(&scene.name, "TrialLost").await;
    scene.lab.check(event.contains("attempt 0: Lost UnreadableRecord: can't read its summary"), &event).await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_summary_of_another_trial_is_run_again() {
    let scene = chosen("another", |run| run.done_with(|summary| summary.trial.block = 3)).await;
    scene.ends_well(&["Lost UnreadableRecord"]).await;
}

/// Verdicts follow from summaries. What else a trial prints is kept where a summary vouches for it, and stands in for one that is
/// broken if it is this trial's. One that can't be read at once is read later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_counts_only_as_its_own_trials() {
    let lab = Lab::new("printed").await;
    let node = Api::<Node>::all(lab.client.clone()).get(&lab.nodes[0]).await.expect("the node");
    let boot_id = node.status.and_then(|status| status.node_info).map(|info| info.boot_id);
    let printed: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    let logs = printed.clone();
    let faults = [("-b4-", Fault::Silent), ("-b2-", Fault::NoRuntime)];
    let left = Mutex::new(Vec::from(faults));
    let logs = Logs::start(&lab, move |pod| {
        let mut left = left.lock().expect("faults");
        match left.iter().position(|(block, _)| pod.contains(block)) {
            Some(found) => Err(left.remove(found).1),
            None => Ok(logs.lock().expect("logs").get(pod).cloned().unwrap_or_default()),
        }
    })
    .await;
    let script = move |run: &Run| {
        let trial = &run.spec.trial;
        let print = |throughput: f64, block: u32| {
            let mut spec = run.spec.clone();
            spec.trial.block = block;
            let digest = Digest::of_json(&spec).expect("a spec is JSON");
            let started_unix_ms = run.summary.started_unix_ms;
            let (boot_id, cpus) = (boot_id.clone(), Some("0".to_owned()));
            let record = record(spec, digest, Measured { started_unix_ms, throughput, other: 1.0, boot_id, cpus });
            let json = serde_json::to_string(&record).expect("a record is JSON");
            let summary = Summary::of(&record, json.as_bytes()).expect("a summary is JSON");
            (serde_json::to_string(&summary).expect("a summary is JSON"), json)
        };
        let throughput = run.summary.metrics["throughput"];
        let (summary, own) = print(throughput, trial.block);
        let half = summary[..summary.len() / 2].to_owned();
        let (says, prints) = match (trial.block, run.is_first_of_baseline()) {
            (1, true) => (summary, print(2.0 * throughput, trial.block).1),
            (2, true) => (half, own),
            (3, true) => (half, print(throughput, 0).1),
            _ => (summary, own),
        };
        let pod = cluster::pod_name(&cluster::trial_name("printed", trial), trial.attempt);
        let line = String::from_utf8(output::record_line(prints.as_bytes())).expect("a line is text");
        printed.lock().expect("logs").insert(pod, line + "\n");
        End::says(Exit::Completed, &says)
    };
    let (_bench, witness) = (Bench::new(&lab).script(script).start(&lab), Witness::start(&lab));
    let _operator = lab.operator_with(&[], Some(&logs.kubeconfig));
    lab.apply(small(&lab, "printed")).await;
    lab.decided("printed", "Win", 5).await;
    let mut without = Vec::new();
    for trial in lab.trials("printed").await {
        let attempts = trial.status.into_iter().flat_map(|status| status.attempts);
        let none = attempts.filter(|attempt| attempt.record.is_none());
        without.extend(none.map(|none| (trial.spec.block, trial.spec.config.clone(), none.attempt, none.outcome)));
    }
    without.sort();
    let expected =
        [(1, "Valid"), (3, "Lost")].map(|(block, outcome)| (block, "base".to_owned(), 0, outcome.to_owned()));
    lab.check(without == expected, &format!("without a record are {without:?}")).await;
    let asked: Vec<String> = logs.asked().into_iter().filter(|asked| asked.contains("/log?")).collect();
    let pods: BTreeSet<&String> = asked.iter().collect();
    lab.check(asked.len() == pods.len() + faults.len(), "each log that could not be read was asked for again").await;
    let lost = lab.losses("printed").await;
    lab.check(lost == ["Lost UnreadableRecord"], &format!("lost were {lost:?}")).await;
    witness.saw_nothing_wrong(&lab).await;
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_is_run_again() {
    chosen("crash", |_| End::crashes()).await.ends_well(&["Lost Crashed"]).await;
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
async fn a_bench_that_ends_itself_fails_under_its_config() {
    let scene = chosen("faulted", |_| End::Says { exit_code: 139, reason: "Error", message: String::new() }).await;
    fails_once(scene, "Failed Faulted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_under_the_config_is_not_repeated() {
    let scene = chosen("fails", |run| {
        let mut failed = run.clone();
        let failure = serde_json::json!({"kind": FailureKind::DiskQuota, "message": "too large"});
        failed.summary.failure = Some(serde_json::from_value(failure).expect("a failure"));
        failed.summary.metrics.clear();
        End::says(Exit::ConfigFailed, &serde_json::to_string(&failed.summary).expect("a summary is JSON"))
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
