//! `examples/nightly.yaml` as it is, but for its images, its size and its nodes. The job's pod runs on the real node; its trials do,
//! too, or on a fake one where many are wanted.

use assay_protocol::Digest;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bench::{AtWork, Bench, Run};
use crate::experiment::small;
use crate::lab::Lab;
use crate::machine::image;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/nightly.yaml");

/// Applies the example, with an experiment of this size and place.
async fn set_up(lab: &Lab, size: &Value) {
    let file = lab.folder.join("nightly.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents(size)});
    std::fs::write(&file, list.to_string()).expect("a manifest");
    let said = lab.kubectl(&["apply", "--filename", &file.display().to_string()]).await;
    lab.check(said.contains("cronjob.batch/nightly created"), &said).await;
}

fn documents(size: &Value) -> Vec<Value> {
    let mut yaml = std::fs::read_to_string(FILE).expect("the example");
    let images = [
        ("assay-operator:0.1.0", image("operator")),
        ("assay-bench:release", image("bench")),
        ("assay-bench:tonight", image("bench-unoptimised")),
    ];
    for (theirs, ours) in images {
        let theirs = format!("registry.example/lab/{theirs}");
        assert!(yaml.contains(&theirs), "the example has {theirs}");
        yaml = yaml.replace(&theirs, &ours);
    }
    let mut documents: Vec<Value> =
        serde_yaml::Deserializer::from_str(&yaml).map(|one| Value::deserialize(one).expect("YAML")).collect();
    let map = documents.iter_mut().find(|document| document["kind"] == "ConfigMap").expect("a ConfigMap");
    let experiment = map["data"]["experiment.yaml"].as_str().expect("an experiment");
    let mut experiment: Value = serde_yaml::from_str(experiment).expect("YAML");
    for field in ["placement", "scenarios", "repetitions", "defaultGuardrails"] {
        experiment["spec"][field] = size["spec"][field].clone();
    }
    experiment["spec"]["guardrails"] = json!([]);
    map["data"]["experiment.yaml"] = json!(experiment.to_string());
    documents
}

/// Two images are two builds, or there is nothing to compare. Tonight's is as fast as told, relative to the release.
fn bench(lab: &Lab, tonight: f64) -> AtWork {
    let build =
        |run: &Run| run.done_with(|summary| summary.parity.build = Digest::of(run.spec.trial.config.as_bytes()));
    Bench::new(lab).baseline("release").effect(tonight).script(build).start(lab)
}

/// A night: whether the job succeeded, and what its pod said.
async fn night(lab: &Lab, name: &str, seconds: u64) -> (bool, String) {
    let said = lab.kubectl(&["create", "job", "--from=cronjob/nightly", name]).await;
    let jobs: Api<Job> = lab.api();
    let succeeded = lab
        .until(&format!("the job {name} has ended: {said}"), seconds, async || {
            let conditions = jobs.get_opt(name).await.ok()??.status?.conditions?;
            conditions.iter().filter(|found| found.status == "True").find_map(|found| match found.type_.as_str() {
                "Complete" => Some(true),
                "Failed" => Some(false),
                _ => None,
            })
        })
        .await;
    let pods: Api<Pod> = lab.api();
    let own = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
    let pod = pods.list(&own).await.expect("a list").items.pop().expect("the job has a pod");
    (succeeded, pods.logs(&pod.name_any(), &LogParams::default()).await.expect("a log"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_night_that_makes_things_worse_fails() {
    let lab = Lab::new("nightly").await;
    let _operator = lab.operator_with(&["--allow-image", "*"], None);
    let mut size = small(&lab, "nightly");
    // Five blocks can prove a gain, and no harm.
    size["spec"]["repetitions"] = json!(6);
    set_up(&lab, &size).await;
    let worse = bench(&lab, 0.7);
    let (succeeded, log) = night(&lab, "worse", 180).await;
    lab.check(!succeeded && log.contains("Reject"), &log).await;
    drop(worse);
    let _same = bench(&lab, 1.0);
    let (succeeded, log) = night(&lab, "same", 180).await;
    lab.check(succeeded && !log.contains("Reject"), &log).await;
    let nights = lab.names::<assay_api::TuningExperiment>("").await;
    lab.check(nights.len() == 2 && nights.iter().all(|night| night.starts_with("nightly-")), &nights.join(", ")).await;
    lab.close().await;
}

mod real {
    use super::*;
    use crate::experiment::on_the_real_node;

    /// Tonight's build has the same RocksDB, and code of its own that nobody has optimised: about a third slower.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_worse_build_fails_its_night() {
        let lab = Lab::alone("night", 0).await;
        let _operator = lab.operator_with(&["--allow-image", "*"], None);
        let mut size = small(&lab, "nightly");
        on_the_real_node(&mut size["spec"]);
        // Of six blocks each would have to show it; of twelve, which a look ends after eight if all agree, other programs may spoil one.
        size["spec"]["repetitions"] = json!(12);
        size["spec"]["scenarios"][0]["workload"]["keyValue"] = json!({
            "keys": 50_000,
            "valueBytes": {"fixed": 400},
            "roles": [{"name": "writer", "steps": 400_000, "warmupSteps": 5_000, "mix": {"get": 9, "put": 1}}],
        });
        set_up(&lab, &size).await;
        let (succeeded, log) = night(&lab, "tonight", 900).await;
        lab.check(!succeeded, &log).await;
        let nights = lab.names::<assay_api::TuningExperiment>("").await;
        lab.check(nights.len() == 1, &nights.join(", ")).await;
        lab.check(log.contains("tonight is worse than release: throughput is "), &log).await;
        // Lines are folded.
        let text = log.split_whitespace().collect::<Vec<_>>().join(" ");
        lab.check(text.contains("part of an effect is not RocksDB's"), &log).await;
        lab.follows_from_trials(&nights[0]).await;
        lab.close().await;
    }
}
