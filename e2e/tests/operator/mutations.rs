//! Stored objects that are damaged in many ways, as by hand in etcd or by a definition that lets everything in: each costs its own
//! experiment a condition, and no other anything.

use std::collections::BTreeMap;

use assay_api::{TuningExperiment, TuningTrial, names};
use assay_core::cluster;
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::validate::validate;
use assay_protocol::{Digest, Summary};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::experiment::small;
use crate::lab::{Lab, SOON, now_ms};
use crate::record::{Measured, record};
use crate::scene::Scene;
use crate::versions::Definitions;

/// How many objects of each kind are damaged. They are drawn by a digest, so that they are the same in every run.
const OF_EACH_KIND: usize = 48;
/// Of all, those that this version can't read or can't make sense of, at least.
const UNREADABLE: usize = 50;

/// What is done to a value, in a word. None of it leaves the value as it was.
fn damaged(value: &Value) -> Vec<(&'static str, Option<Value>)> {
    let mut ways = vec![("removed", None), ("wrapped", Some(json!([value]))), ("a map", Some(json!({"planted": 1})))];
    if !value.is_null() {
        ways.push(("null", Some(Value::Null)));
    }
    if !value.is_boolean() {
        ways.push(("true", Some(json!(true))));
    }
    match value {
        Value::Number(number) => {
            ways.extend([("text", Some(json!(number.to_string()))), ("negative", Some(json!(-1)))]);
            ways.extend([("huge", Some(json!(1e300))), ("a fraction", Some(json!(0.5)))]);
        }
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert("planted".to_owned(), json!("newer"));
            ways.extend([("a field more", Some(Value::Object(more))), ("text", Some(json!("text")))]);
        }
        Value::Array(items) => {
            ways.extend([
                ("emptied", Some(json!([]))),
                ("twice", Some(json!([items.clone(), items.clone()].concat()))),
            ]);
            ways.push(("text", Some(json!("text"))));
        }
        _ => ways.extend([("a number", Some(json!(7))), ("other text", Some(json!("?")))]),
    }
    ways.retain(|(_, new)| new.as_ref() != Some(value));
    ways
}

/// Every value of an object's spec and status with every way to damage it, in an order that says nothing.
fn mutations(object: &Value) -> Vec<(String, Value)> {
    fn walk(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
        found.push((path.to_owned(), value.clone()));
        match value {
            Value::Object(fields) => {
                let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
                fields.iter().for_each(|(key, value)| walk(&format!("{path}/{}", escaped(key)), value, found));
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, value)| walk(&format!("{path}/{index}"), value, found));
            }
            _ => {}
        }
    }
    let mut values = Vec::new();
    for part in ["spec", "status"] {
        walk(&format!("/{part}"), &object[part], &mut values);
    }
    let mut all = BTreeMap::new();
    for (path, value) in values {
        for (way, new) in damaged(&value) {
            let mut changed = object.clone();
            let (parent, key) = path.rsplit_once('/').expect("a path");
            match new {
                Some(new) => *changed.pointer_mut(&path).expect("it is there") = new,
                None => take(changed.pointer_mut(parent).expect("it is there"), key),
            }
            let what = format!("{path} {way}");
            all.insert(Digest::of(what.as_bytes()).to_string(), (what, changed));
        }
    }
    all.into_values().collect()
}

/// Takes a part out of a value, by the last step of its path.
fn take(value: &mut Value, key: &str) {
    match value {
        Value::Array(items) => {
            items.remove(key.parse().expect("an index"));
        }
        fields => {
            fields.as_object_mut().expect("a map").remove(&key.replace("~1", "/").replace("~0", "~"));
        }
    }
}

/// Creates an object as it is, with its status.
async fn store<K: Resource<DynamicType = ()>>(lab: &Lab, object: &Value) -> DynamicObject {
    let api: Api<DynamicObject> =
        Api::namespaced_with(lab.client.clone(), &lab.namespace, &ApiResource::erase::<K>(&()));
    let mut wanted: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let params = PostParams::default();
    let made = api.create(&params, &wanted).await.unwrap_or_else(|error| panic!("{error}: {object}"));
    wanted.metadata.resource_version = made.resource_version();
    api.replace_status(&made.name_any(), &params, &wanted).await.unwrap_or_else(|error| panic!("{error}: {object}"))
}

fn plan(name: &str, experiment: &Value) -> Plan {
    let spec = serde_json::from_value(experiment["spec"].clone()).expect("a spec");
    Plan::new(validate(name, &spec).experiment.expect("it is valid")).expect("a plan")
}

/// An experiment of which nothing starts, as it is stored.
fn experiment(lab: &Lab, name: &str) -> Value {
    let mut experiment = small(lab, name);
    experiment["apiVersion"] = json!("assay.rocks/v1alpha1");
    experiment["kind"] = json!("TuningExperiment");
    experiment["spec"]["suspend"] = json!(true);
    experiment
}

/// The first trial of an experiment's plan, after a sound attempt.
fn trial(lab: &Lab, name: &str, experiment: &Value, uid: &str) -> Value {
    let plan = plan(name, experiment);
    let spec = plan.trial_spec(&plan.blocks[0], 0, 0).expect("a trial");
    let id = spec.trial.clone();
    let input = serde_json::to_vec(&spec).expect("JSON");
    let measured = Measured {
        started_unix_ms: now_ms(),
        throughput: 1000.0,
        other: 1.0,
        boot_id: None,
        cpus: Some("0".to_owned()),
    };
    let record = record(spec, Digest::of(&input), measured);
    let summary = Summary::of(&record, &serde_json::to_vec(&record).expect("JSON")).expect("a summary");
    let now = Timestamp::now().strftime("%FT%TZ").to_string();
    let owner = json!({"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "name": name, "uid": uid});
    json!({
        "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial",
        "metadata": {
            "name": cluster::trial_name(name, &id), "namespace": lab.namespace, "ownerReferences": [owner],
            "labels": {names::EXPERIMENT_LABEL: name, names::MANAGED_LABEL: names::MANAGED_BY},
        },
        "spec": cluster::spec(&plan, &id, plan.blocks[0].seed, &lab.nodes[0]),
        "status": {
            "conditions": [{"type": "Finished", "status": "True", "reason": "Valid", "message": "", "lastTransitionTime": now}],
            "attempts": [{
                "attempt": 0, "node": lab.nodes[0], "pod": "gone", "startTime": now, "completionTime": now,
                "outcome": "Valid", "summary": serde_json::to_string(&summary).expect("JSON"), "findings": [],
                "evidence": {"qosClass": "Guaranteed", "pageCache": "Kept", "metrics": {}},
            }],
            "refusals": 0,
        },
    })
}

/// Whether this version can read a trial and judge by it.
fn makes_sense(plan: &Plan, stored: Value) -> bool {
    let Ok(trial) = serde_json::from_value::<TuningTrial>(stored) else { return false };
    let attempts = cluster::attempts(plan, [&trial]);
    attempts.is_ok_and(|attempts| judge(plan, &attempts).is_ok())
}

/// What is wanted of an experiment.
struct Expected {
    what: String,
    is_unreadable: bool,
}

/// Waits until each says what it should: that it can't be read, or anything else.
async fn all_say(lab: &Lab, expected: &BTreeMap<String, Expected>) {
    let kind = ApiResource::erase::<TuningExperiment>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), &lab.namespace, &kind);
    let mut wrong = Vec::new();
    for _ in 0..90 {
        wrong.clear();
        let all = api.list(&ListParams::default()).await.expect("a list").items;
        for object in all {
            let Some(expected) = expected.get(&object.name_any()) else { continue };
            let none = Vec::new();
            let conditions = object.data["status"]["conditions"].as_array().unwrap_or(&none);
            let unreadable = conditions.iter().filter(|one| one["reason"] == "Unreadable").count();
            // To say so in damaged conditions is to mend them.
            let is_mended = expected.what.starts_with("/status/conditions");
            let is_right = (unreadable > 0) == (expected.is_unreadable && !is_mended);
            let is_right = is_right && !conditions.is_empty();
            if !is_right {
                wrong.push(format!("{}, {}: {}", object.name_any(), expected.what, object.data["status"]));
            }
        }
        if wrong.is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    lab.fail(&format!("{} are told wrong:\n{}", wrong.len(), wrong.join("\n"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_object_costs_its_experiment_a_condition() {
    let mut scene = Scene::of(Lab::alone("damaged", 1).await, "good", &[], |bench| bench);
    // What an experiment is like of which trials are done.
    scene.begin(|_| ()).await;
    scene.lab.attempted("good", 2).await;
    let status = scene.lab.kubectl(&["get", "tune", "good", "--output", "jsonpath={.status}"]).await;
    let status: Value = serde_json::from_str(&status).unwrap_or_else(|error| panic!("{error}: {status}"));
    scene.decides(&[]).await;
    assert!(scene.operator.terminate(), "it ends when it is asked to");

    let definitions = Definitions::now(&scene.lab).await;
    let anything = json!({"x-kubernetes-preserve-unknown-fields": true});
    let open = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}});
    Definitions::put(&scene.lab, [open.clone(), open]).await;
    let lab = &scene.lab;
    let probe = async || {
        let mut probe = experiment(lab, "probe");
        probe["spec"]["planted"] = json!(1);
        let made = store::<TuningExperiment>(lab, &probe).await;
        lab.kubectl(&["delete", "tune", "probe"]).await;
        (made.data["spec"]["planted"] == 1).then_some(())
    };
    lab.until("anything is let in", SOON, probe).await;

    let mut expected = BTreeMap::new();
    let mut model = experiment(lab, "model");
    model["status"] = status;
    let damaged = mutations(&model);
    println!("{} ways to damage an experiment", damaged.len());
    for (number, (what, mut object)) in damaged.into_iter().take(OF_EACH_KIND).enumerate() {
        let name = format!("e-{number:02}");
        object["metadata"] = json!({"name": name, "namespace": lab.namespace});
        let stored = json!(store::<TuningExperiment>(lab, &object).await);
        let is_unreadable = serde_json::from_value::<TuningExperiment>(stored).is_err();
        expected.insert(name, Expected { what, is_unreadable });
    }
    let sound = trial(lab, "t", &experiment(lab, "t"), "u");
    assert!(makes_sense(&plan("t", &experiment(lab, "t")), sound.clone()), "{sound}");
    let ways: Vec<String> = mutations(&sound).into_iter().map(|(what, _)| what).collect();
    println!("{} ways to damage a trial", ways.len());
    for (number, way) in ways.into_iter().take(OF_EACH_KIND).chain([String::new()]).enumerate() {
        let name = format!("t-{number:02}");
        let of = experiment(lab, &name);
        let owner = store::<TuningExperiment>(lab, &of).await;
        let sound = trial(lab, &name, &of, &owner.uid().expect("a uid"));
        // The last one stays as it is.
        let found = mutations(&sound).into_iter().find(|(what, _)| *what == way);
        let object = found.map_or(sound, |(_, object)| object);
        let stored = json!(store::<TuningTrial>(lab, &object).await);
        let is_unreadable = !makes_sense(&plan(&name, &of), stored);
        expected.insert(name, Expected { what: format!("its trial's {way}"), is_unreadable });
    }
    let count = expected.values().filter(|expected| expected.is_unreadable).count();
    println!("{count} of {} can't be read or judged by", expected.len());
    assert!(count >= UNREADABLE && count < expected.len());

    for name in ["beside", "later"] {
        scene.operator.start_again();
        let lab = &scene.lab;
        lab.apply(small(lab, name)).await;
        lab.decided(name, "Win", 5).await;
        all_say(lab, &expected).await;
        assert!(scene.operator.terminate(), "it ends when it is asked to");
    }
    // And where it is damaged under the operator's eyes.
    scene.operator.start_again();
    let lab = &scene.lab;
    store::<TuningExperiment>(lab, &experiment(lab, "live")).await;
    lab.condition("live", names::SUSPENDED, "True", None, SOON).await;
    let kind = ApiResource::erase::<TuningExperiment>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), &lab.namespace, &kind);
    let change = Patch::Merge(json!({"spec": {"configs": "none"}}));
    api.patch("live", &PatchParams::default(), &change).await.expect("it can be damaged");
    let what = "damaged while it is watched".to_owned();
    all_say(lab, &[("live".to_owned(), Expected { what, is_unreadable: true })].into()).await;
    let said = scene.operator.said();
    scene.lab.check(!said.contains("panicked"), "nothing panics").await;
    scene.witness.saw_nothing_wrong(&scene.lab).await;
    drop(definitions);
    scene.lab.close().await;
}
