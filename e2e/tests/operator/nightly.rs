//! `examples/nightly.yaml` as it is, but for its images and nodes: the job's pod runs on the real node, its trials on a fake one.

use assay_record::Digest;
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

/// The documents of the example, with a small experiment for the nodes of this lab.
fn documents(lab: &Lab) -> Vec<Value> {
    let yaml = std::fs::read_to_string(FILE).expect("the example");
    let yaml = yaml.replace("registry.example/lab/assay-operator:0.1.0", &image("operator"));
    let mut documents: Vec<Value> =
        serde_yaml::Deserializer::from_str(&yaml).map(|one| Value::deserialize(one).expect("YAML")).collect();
    let map = documents.iter_mut().find(|document| document["kind"] == "ConfigMap").expect("a ConfigMap");
    let experiment = map["data"]["experiment.yaml"].as_str().expect("an experiment");
    let mut experiment: Value = serde_yaml::from_str(experiment).expect("YAML");
    let small = small(lab, "nightly");
    for field in ["placement", "scenarios", "repetitions", "defaultGuardrails"] {
        experiment["spec"][field] = small["spec"][field].clone();
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
async fn night(lab: &Lab, name: &str) -> (bool, String) {
    let said = lab.kubectl(&["create", "job", "--from=cronjob/nightly", name]).await;
    let jobs: Api<Job> = lab.api();
    let succeeded = lab
        .until(&format!("the job {name} has ended: {said}"), 180, async || {
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
    let _operator = lab.operator();
    let file = lab.folder.join("nightly.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents(&lab)});
    std::fs::write(&file, list.to_string()).expect("a manifest");
    let said = lab.kubectl(&["apply", "--filename", &file.display().to_string()]).await;
    lab.check(said.contains("cronjob.batch/nightly created"), &said).await;

    let worse = bench(&lab, 0.7);
    let (succeeded, log) = night(&lab, "worse").await;
    lab.check(!succeeded && log.contains("Reject"), &log).await;
    drop(worse);
    let _same = bench(&lab, 1.0);
    let (succeeded, log) = night(&lab, "same").await;
    lab.check(succeeded && !log.contains("Reject"), &log).await;
    let nights = lab.names::<assay_api::TuningExperiment>("").await;
    lab.check(nights.len() == 2 && nights.iter().all(|night| night.starts_with("nightly-")), &nights.join(", ")).await;
    lab.close().await;
}
