//! Objects that a newer version has written, or whose definition is of one: this build plays the older one.

use std::sync::Arc;
use std::time::Duration;

use assay_api::names;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::bench::{End, Run};
use crate::command_line::{assay, text};
use crate::experiment::small;
use crate::lab::{Lab, SOON};
use crate::scene::Scene;

/// How long the API server goes on to serve watches by a definition that was changed, and more.
const WATCHES: u64 = 300;

const EXPERIMENTS: &str = "tuningexperiments.assay.rocks";
const TRIALS: &str = "tuningtrials.assay.rocks";

/// What objects of both kinds must be like, which a test changes; they are so again when it ends, however it does.
pub struct Definitions([Value; 2]);

impl Definitions {
    pub async fn now(lab: &Lab) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(lab.client.clone());
        let schema = async |name| json!(api.get(name).await.expect("a definition").spec.versions[0].schema);
        Self([schema(EXPERIMENTS).await, schema(TRIALS).await])
    }

    pub async fn put(lab: &Lab, schemas: [Value; 2]) {
        let api: Api<CustomResourceDefinition> = Api::all(lab.client.clone());
        for (name, schema) in [EXPERIMENTS, TRIALS].into_iter().zip(schemas) {
            let patch = Patch::<Value>::Json(serde_json::from_value(whole(&schema)).expect("a patch"));
            api.patch(name, &PatchParams::default(), &patch).await.expect("the definition can be changed");
        }
    }
}

/// To be dropped while no other test runs.
impl Drop for Definitions {
    fn drop(&mut self) {
        for (name, schema) in [EXPERIMENTS, TRIALS].into_iter().zip(&self.0) {
            let file = std::env::temp_dir().join("assay-e2e").join(format!("{name}.json"));
            std::fs::write(&file, whole(schema).to_string()).expect("a patch");
            let mut kubectl = std::process::Command::new("kubectl");
            let _ = kubectl.args(["patch", "crd", name, "--type", "json", "--patch-file"]).arg(&file).status();
        }
    }
}

/// The patch that replaces what objects must be like.
fn whole(schema: &Value) -> Value {
    json!([{"op": "replace", "path": "/spec/versions/0/schema", "value": schema}])
}

/// A step of a JSON patch within the schema of a definition. What only a newer version knows is put there or taken out.
async fn change(lab: &Lab, definition: &str, step: &str, path: &str, value: Value) {
    let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{path}");
    let step = json!({"op": step, "path": path, "value": value});
    let patch = Patch::<Value>::Json(serde_json::from_value(json!([step])).expect("a patch"));
    let api: Api<CustomResourceDefinition> = Api::all(lab.client.clone());
    api.patch(definition, &PatchParams::default(), &patch).await.expect("the definition can be changed");
}

const PLANTED: &str = "spec/properties/planted";

async fn plant(lab: &Lab, definition: &str, schema: Value) {
    change(lab, definition, "add", PLANTED, schema).await;
}

async fn take_out(lab: &Lab, definition: &str) {
    change(lab, definition, "remove", PLANTED, Value::Null).await;
}

/// An experiment with a change that this version can't read, as soon as the API server takes it.
async fn apply_newer(lab: &Lab, name: &str, change: impl FnOnce(&mut Value), shown: &str, value: &str) {
    let mut newer = small(lab, name);
    newer["apiVersion"] = json!("assay.rocks/v1alpha1");
    newer["kind"] = json!("TuningExperiment");
    change(&mut newer["spec"]);
    let file = lab.folder.join(format!("{name}.json"));
    std::fs::write(&file, newer.to_string()).expect("a manifest");
    let file = file.display().to_string();
    lab.until("the API server knows what is newer", SOON, async || {
        lab.kubectl(&["replace", "--force", "--filename", &file]).await;
        let shown = format!("jsonpath={{{shown}}}");
        (lab.kubectl(&["get", "tuningexperiment", name, "--output", &shown]).await == value).then_some(())
    })
    .await;
}

/// Reason and message of a condition, read by somebody who knows all fields.
async fn told(lab: &Lab, experiment: &str, type_: &str) -> (String, String) {
    let of = |field: &str| format!("jsonpath={{.status.conditions[?(@.type=='{type_}')].{field}}}");
    let get = async |field: &str| lab.kubectl(&["get", "tuningexperiment", experiment, "--output", &of(field)]).await;
    (get("reason").await, get("message").await)
}

/// Waits until an experiment says that it, or a trial of it, can't be read, and gives the message.
async fn says_unreadable(lab: &Lab, experiment: &str, seconds: u64) -> String {
    lab.until(&format!("{experiment} says that it can't be read"), seconds, async || {
        let (reason, message) = told(lab, experiment, names::READY).await;
        (reason == "Unreadable").then_some(message)
    })
    .await
}

/// What a command prints, and what it says beside that.
async fn listed(lab: &Lab, args: &[&str]) -> (String, String) {
    let ran = assay(lab, args).await;
    lab.check(ran.status.success(), &text(&ran)).await;
    (String::from_utf8_lossy(&ran.stdout).into_owned(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// A scene whose experiment midway stops in the midst of its second block until it is told to go on.
fn holding(lab: Lab, name: &str) -> (Scene, Arc<Notify>) {
    let told = Arc::new(Notify::new());
    let held = Arc::clone(&told);
    let script = move |run: &Run| {
        let trial = &run.spec.trial;
        let is_meant = trial.scenario == "midway" && (trial.block, trial.order) == (1, 0);
        if is_meant { End::After(Arc::clone(&held)) } else { run.done() }
    };
    (Scene::of(lab, name, &[], |bench| bench.script(script)), told)
}

/// Nothing is lost of experiments, and nobody saw anything wrong.
async fn lost_nothing(scene: &Scene, experiments: &[&str]) {
    for experiment in experiments {
        let losses = scene.lab.losses(experiment).await;
        scene.lab.check(losses.is_empty(), &format!("{experiment} lost {losses:?}")).await;
    }
    scene.witness.saw_nothing_wrong(&scene.lab).await;
}

async fn begin_midway(scene: &Scene) {
    let mut midway = small(&scene.lab, "midway");
    midway["spec"]["scenarios"][0]["name"] = json!("midway");
    scene.lab.apply(midway).await;
    scene.bench.held(&scene.lab).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_of_a_newer_version_costs_one_condition() {
    let lab = Lab::alone("newer", 1).await;
    let definitions = Definitions::now(&lab).await;
    plant(&lab, EXPERIMENTS, json!({"type": "string"})).await;
    let planted = |spec: &mut Value| spec["planted"] = json!("a change");
    apply_newer(&lab, "newer", planted, ".spec.planted", "a change").await;
    // A watch that is older than the definition does not show the field.
    let mut scene = Scene::of(lab, "others", &[], |bench| bench);
    let is_told = async || (told(&scene.lab, "newer", names::ACCEPTED).await.0 == "Unreadable").then_some(());
    scene.lab.until("its condition says so", SOON, is_told).await;
    scene.begin(|_| ()).await;
    scene.decides(&[]).await;
    // Another operator finds it there from the beginning.
    assert!(scene.operator.terminate(), "it ends when it is asked to");
    scene.operator.start_again();
    scene.lab.apply(small(&scene.lab, "later")).await;
    scene.lab.decided("later", "Win", 5).await;
    let made = scene.lab.kubectl(&["get", "tuningtrials,pods", "--selector", "assay.rocks/experiment=newer"]).await;
    scene.lab.check(made.contains("No resources found"), &format!("nothing is run of it: {made}")).await;
    let (list, said) = listed(&scene.lab, &["status"]).await;
    scene.lab.check(list.contains("later") && list.contains("others") && !list.contains("newer"), &list).await;
    let line = "can't read TuningExperiment newer: Unknown field planted";
    scene.lab.check(said.lines().count() == 1 && said.contains(line), &said).await;
    // Once it can be read, it runs.
    let change = r#"{"spec": {"planted": null}}"#;
    scene.lab.kubectl(&["patch", "tuningexperiment", "newer", "--type", "merge", "--patch", change]).await;
    take_out(&scene.lab, EXPERIMENTS).await;
    scene.lab.decided("newer", "Win", 5).await;
    scene.lab.condition("newer", names::ACCEPTED, "True", None, SOON).await;
    drop(definitions);
    scene.lab.close().await;
}

/// `make upgrade-test` runs these.
mod thorough {
    use super::*;

    /// It appears on every object at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_field_with_a_default_stops_experiments_and_loses_nothing() {
        let lab = Lab::alone("defaulted", 1).await;
        let definitions = Definitions::now(&lab).await;
        let (scene, go_on) = holding(lab, "ended");
        scene.begin(|_| ()).await;
        scene.decides(&[]).await;
        begin_midway(&scene).await;
        plant(&scene.lab, EXPERIMENTS, json!({"type": "string", "default": "newer"})).await;
        // The API server tells nobody: it is seen when the watch begins anew.
        for experiment in ["ended", "midway"] {
            let message = says_unreadable(&scene.lab, experiment, WATCHES).await;
            scene.lab.check(message.contains("Unknown field planted"), &message).await;
        }
        let (list, said) = listed(&scene.lab, &["status"]).await;
        scene.lab.check(!list.contains("midway") && said.lines().count() == 2, &format!("{list}{said}")).await;
        let refused = text(&assay(&scene.lab, &["report", "ended"]).await);
        scene.lab.check(refused.contains("Another version of assay wrote it"), &refused).await;
        // What runs ends meanwhile.
        go_on.notify_one();
        take_out(&scene.lab, EXPERIMENTS).await;
        scene.lab.condition("midway", names::FINISHED, "True", Some("Decided"), WATCHES + 120).await;
        scene.lab.decided("midway", "Win", 5).await;
        scene.lab.condition("ended", names::READY, "True", Some("Decided"), SOON).await;
        scene.lab.decided("ended", "Win", 5).await;
        lost_nothing(&scene, &["ended", "midway"]).await;
        drop(definitions);
        scene.lab.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_trial_of_a_newer_version_stops_its_own_experiment() {
        let lab = Lab::alone("trials", 1).await;
        let definitions = Definitions::now(&lab).await;
        let (mut scene, go_on) = holding(lab, "ended");
        scene.begin(|_| ()).await;
        scene.decides(&[]).await;
        begin_midway(&scene).await;
        plant(&scene.lab, TRIALS, json!({"type": "string", "default": "newer"})).await;
        let trials = ["get", "tuningtrials", "--output", "jsonpath={.items[0].spec.planted}"];
        let is_planted = async || (scene.lab.kubectl(&trials).await == "newer").then_some(());
        scene.lab.until("the field is there", SOON, is_planted).await;
        assert!(scene.operator.terminate(), "it ends when it is asked to");
        scene.operator.start_again();
        let message = says_unreadable(&scene.lab, "midway", SOON).await;
        scene.lab.check(message.contains("can't read trial midway-midway-"), &message).await;
        // What is decided needs no trials.
        scene.lab.condition("ended", names::READY, "True", Some("Decided"), SOON).await;
        let (list, _) = listed(&scene.lab, &["status"]).await;
        scene.lab.check(list.contains("ended") && list.contains("midway"), &list).await;
        let (one, said) = listed(&scene.lab, &["status", "midway"]).await;
        scene.lab.check(one.contains("Unreadable") && said.contains("can't read TuningTrial midway-"), &said).await;
        let refused = text(&assay(&scene.lab, &["report", "midway"]).await);
        scene.lab.check(refused.contains("can't read TuningTrial midway-"), &refused).await;
        take_out(&scene.lab, TRIALS).await;
        go_on.notify_one();
        scene.lab.condition("midway", names::FINISHED, "True", Some("Decided"), WATCHES + 120).await;
        scene.lab.decided("midway", "Win", 5).await;
        lost_nothing(&scene, &["midway"]).await;
        drop(definitions);
        scene.lab.close().await;
    }

    /// A value of an enumeration, in a spec and in the status of a trial; a field of a status; a metric.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn values_of_a_newer_version_cost_those_that_have_them() {
        let lab = Lab::alone("values", 1).await;
        let definitions = Definitions::now(&lab).await;
        change(&lab, EXPERIMENTS, "add", "spec/properties/stopOn/enum/-", json!("Planted")).await;
        change(&lab, EXPERIMENTS, "add", "status/properties/planted", json!({"type": "string"})).await;
        let cache = "status/properties/attempts/items/properties/evidence/properties/pageCache/enum/-";
        change(&lab, TRIALS, "add", cache, json!("Planted")).await;
        apply_newer(&lab, "enum", |spec| spec["stopOn"] = json!("Planted"), ".spec.stopOn", "Planted").await;
        let (mut scene, go_on) = holding(lab, "good");
        says_unreadable(&scene.lab, "enum", SOON).await;

        begin_midway(&scene).await;
        let selector = "--selector=assay.rocks/experiment=midway";
        let first = scene
            .lab
            .kubectl(&["get", "tuningtrials", selector, "--output", "jsonpath={.items[0].metadata.name}"])
            .await;
        let attempts =
            scene.lab.kubectl(&["get", "tuningtrial", &first, "--output", "jsonpath={.status.attempts}"]).await;
        let mut attempts: Value = serde_json::from_str(&attempts).unwrap_or_else(|error| panic!("{error}: {attempts}"));
        let sound = json!({"status": {"attempts": attempts}}).to_string();
        attempts[0]["evidence"]["pageCache"] = json!("Planted");
        let planted = json!({"status": {"attempts": attempts}}).to_string();
        let patch = async |patch: &str| {
            let args = ["patch", "tuningtrial", &first, "--subresource", "status", "--type", "merge", "--patch", patch];
            scene.lab.kubectl(&args).await
        };
        let patched = patch(&planted).await;
        scene.lab.check(patched.contains("patched"), &patched).await;
        let message = says_unreadable(&scene.lab, "midway", SOON).await;
        scene.lab.check(message.contains(&first) && message.contains("Unknown variant Planted"), &message).await;

        let metric = |spec: &mut Value| spec["objectives"][0]["metric"] = json!("throughput_of_the_future");
        apply_newer(&scene.lab, "metric", metric, ".spec.objectives[0].metric", "throughput_of_the_future").await;
        let refused = scene.lab.condition("metric", names::FINISHED, "True", Some("Refused"), SOON).await;
        let (_, message) = told(&scene.lab, "metric", names::ACCEPTED).await;
        scene.lab.check(message.contains("throughput_of_the_future"), &format!("{refused:?} {message}")).await;

        // The trial that is held has the node.
        go_on.notify_one();
        patch(&sound).await;
        scene.lab.condition("midway", names::FINISHED, "True", Some("Decided"), 300).await;
        let status = r#"{"status": {"planted": "by a newer version"}}"#;
        scene
            .lab
            .kubectl(&["patch", "tune", "midway", "--subresource", "status", "--type", "merge", "--patch", status])
            .await;
        scene.begin(|_| ()).await;
        scene.decides(&[]).await;
        assert!(scene.operator.terminate(), "it ends when it is asked to");
        scene.operator.start_again();
        scene.lab.apply(small(&scene.lab, "later")).await;
        scene.lab.decided("later", "Win", 5).await;
        let (list, said) = listed(&scene.lab, &["status"]).await;
        let all = ["good", "later", "metric", "midway"];
        scene.lab.check(all.iter().all(|name| list.contains(name)) && !list.contains("enum"), &list).await;
        scene
            .lab
            .check(said.lines().count() == 1 && said.contains("TuningExperiment enum: Unknown variant"), &said)
            .await;
        let path = "jsonpath={.status.planted}";
        let kept = scene.lab.kubectl(&["get", "tuningexperiment", "midway", "--output", path]).await;
        scene.lab.check(kept == "by a newer version", &kept).await;
        drop(definitions);
        scene.lab.close().await;
    }

    /// The API server shows no new field in a watch that is older than its definition, so that an experiment is begun without it. The first
    /// write of its status shows it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_experiment_that_an_old_watch_shows_without_its_field_stops_at_its_first_trial() {
        let lab = Lab::alone("older", 1).await;
        let definitions = Definitions::now(&lab).await;
        let scene = Scene::of(lab, "older", &[], |bench| bench.takes(Duration::from_secs(2)));
        scene.begin(|_| ()).await;
        scene.lab.running_pod().await;
        plant(&scene.lab, EXPERIMENTS, json!({"type": "string"})).await;
        let planted = |spec: &mut Value| spec["planted"] = json!("a change");
        apply_newer(&scene.lab, "newer", planted, ".spec.planted", "a change").await;
        says_unreadable(&scene.lab, "newer", WATCHES).await;
        scene.decides(&[]).await;
        let selector = "--selector=assay.rocks/experiment=newer";
        let begun = scene.lab.kubectl(&["get", "tuningtrials", selector, "--output", "name"]).await;
        println!("begun without the field: {begun}");
        scene.lab.check(begun.matches("tuningtrial.assay.rocks/").count() <= 1, &begun).await;
        drop(definitions);
        scene.lab.close().await;
    }
}
