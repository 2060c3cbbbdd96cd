//! Objects that a newer version has written: this build plays the older one.

use assay_api::names;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::experiment::small;
use crate::lab::{Lab, SOON};
use crate::scene::Scene;

/// A field of an experiment's spec that only a newer version knows, put into the definition or taken out of it.
async fn plant(lab: &Lab, planted: bool) {
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/planted";
    let step = if planted {
        json!({"op": "add", "path": path, "value": {"type": "string"}})
    } else {
        json!({"op": "remove", "path": path})
    };
    let patch = Patch::<Value>::Json(serde_json::from_value(json!([step])).expect("a patch"));
    let api: Api<CustomResourceDefinition> = Api::all(lab.client.clone());
    let name = "tuningexperiments.assay.rocks";
    api.patch(name, &PatchParams::default(), &patch).await.expect("the definition can be changed");
}

/// The reason of a condition, read by somebody who knows all fields.
async fn reason(lab: &Lab, experiment: &str, type_: &str) -> String {
    let path = format!("jsonpath={{.status.conditions[?(@.type=='{type_}')].reason}}");
    lab.kubectl(&["get", "tuningexperiment", experiment, "--output", &path]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_of_a_newer_version_costs_one_condition() {
    let lab = Lab::alone("newer", 1).await;
    plant(&lab, true).await;
    let mut newer = small(&lab, "newer");
    newer["apiVersion"] = json!("assay.rocks/v1alpha1");
    newer["kind"] = json!("TuningExperiment");
    newer["spec"]["planted"] = json!("a change that only a newer version makes");
    let file = lab.folder.join("newer.json");
    std::fs::write(&file, newer.to_string()).expect("a manifest");
    let file = file.display().to_string();
    lab.until("the API server knows the field", SOON, async || {
        lab.kubectl(&["replace", "--force", "--filename", &file]).await;
        let planted = ["get", "tuningexperiment", "newer", "--output", "jsonpath={.spec.planted}"];
        lab.kubectl(&planted).await.starts_with("a change").then_some(())
    })
    .await;
    // A watch that is older than the definition does not show the field.
    let mut scene = Scene::of(lab, "others", &[], |bench| bench);
    let is_told = async || (reason(&scene.lab, "newer", names::ACCEPTED).await == "Unreadable").then_some(());
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
    // Once it can be read, it runs.
    let change = r#"{"spec": {"planted": null}}"#;
    scene.lab.kubectl(&["patch", "tuningexperiment", "newer", "--type", "merge", "--patch", change]).await;
    plant(&scene.lab, false).await;
    scene.lab.decided("newer", "Win", 5).await;
    scene.lab.condition("newer", names::ACCEPTED, "True", None, SOON).await;
    scene.lab.close().await;
}
