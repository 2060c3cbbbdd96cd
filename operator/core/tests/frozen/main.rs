//! What Assay wrote once is read by every later Assay, and judged as it was judged then. The corpus in `v1` is never made anew;
//! its README says how it came about, and what has been renamed since on purpose. `v2`, `v3`, `v6` and `v9/folder` have what the second to
//! fifth version of the rules say of the same folder, and are not made anew either. `v4`, `v5` and `v7` to `v10` have what `v1` lacks.

#![allow(clippy::unwrap_used, clippy::panic)]

mod fields;
mod v4;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use assay_api::{TuningExperimentStatus, TuningTrialSpec, TuningTrialStatus};
use assay_core::{
    attempt::{Attempt, Lost},
    cluster,
    experiment::{Environment, Experiment},
    judge::judge,
    plan::Plan,
    report::Earlier,
    status,
    validate::validate_document,
};
use assay_protocol::{Digest, Outcome, RolePlan, Summary, TrialRecord, TrialSpec};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Fields that have another name now: the old one with its value, and the new one. Nothing else may differ.
const RENAMED: [[(&str, &str); 2]; 3] = [
    [("engine", "assay 0.1.0"), ("producedBy", "assay 0.1.0")],
    [("role", "primary"), ("purpose", "objective")],
    [("role", "guardrail"), ("purpose", "guardrail")],
];

/// Fields with sentences for people, which may be said in other words at any time: only that something is said there is compared.
const TEXTS: [&str; 6] = ["sentence", "text", "message", "whatToDo", "guarantees", "reproduce"];

/// Fields that documents of then do not have. Where they have one, it has to be the same.
const ADDED: [&str; 8] = ["gates", "gate", "unchecked", "notJudged", "workloads", "windowSeconds", "bounds", "reject"];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen/v1")
}

fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = corpus().join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A frozen document under the names of today.
fn renamed(file: &str) -> Value {
    let mut document: Value = serde_json::from_slice(&read(file)).unwrap();
    rename(&mut document);
    document
}

fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for [(old, was), (new, is)] in RENAMED {
                if fields.get(old).is_some_and(|value| value == was) {
                    fields.remove(old);
                    fields.insert(new.to_owned(), is.into());
                }
            }
            fields.values_mut().for_each(rename);
        }
        Value::Array(items) => items.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Names of the files or folders in a folder of the corpus, in order.
fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(corpus().join(folder)).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Where two documents differ. Libraries of mathematics differ in the last digits.
fn differences(path: &str, was: &Value, is: &Value, found: &mut Vec<String>) {
    match (was, is) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                differences(&format!("{path}/{key}"), &was[key], &is[key], found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&format!("{path}/{index}"), old, new, found);
            }
        }
        (Value::Number(old), Value::Number(new)) if old.is_f64() && new.is_f64() => {
            let (old, new) = (old.as_f64().unwrap(), new.as_f64().unwrap());
            if (old - new).abs() > 1e-9 * old.abs().max(new.abs()) {
                found.push(format!("{path}: was {old}, is {new}"));
            }
        }
        (Value::String(old), Value::String(new)) if is_text(path) && old.is_empty() == new.is_empty() => {}
        _ if was == is => {}
        _ => found.push(format!("{path}: was {was}, is {is}")),
    }
}

/// Whether a path leads to a sentence: a field of one, or an entry of a list of them.
fn is_text(path: &str) -> bool {
    path.rsplit('/').find(|part| part.parse::<usize>().is_err()).is_some_and(|field| TEXTS.contains(&field))
}

fn assert_same(what: &str, was: &Value, is: &Value) {
    let mut found = Vec::new();
    differences("", was, is, &mut found);
    assert!(found.is_empty(), "{what} is not what it was:\n{}", found.join("\n"));
}

/// What was read is written again with nothing lost.
fn assert_kept<T: DeserializeOwned + Serialize>(what: &str, document: &Value) -> T {
    let read: T = serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same(what, document, &serde_json::to_value(&read).unwrap());
    read
}

fn plan() -> Plan {
    let plan: Plan = serde_json::from_slice(&read("folder/plan.json")).unwrap();
    plan.check().unwrap();
    plan
}

/// The attempts of the folder, with the names of their trials' folders.
fn attempts() -> Vec<(String, Attempt)> {
    let attempt = |name: &String| {
        let dir = PathBuf::from("folder/trials").join(name);
        if corpus().join(&dir).join("lost.json").exists() {
            return Attempt::from(serde_json::from_slice::<Lost>(&read(dir.join("lost.json"))).unwrap());
        }
        let bytes = read(dir.join("record.json"));
        let record = TrialRecord::from_json(&bytes).unwrap();
        Attempt::Finished(Summary::of(&record, &bytes).unwrap().into())
    };
    names("folder/trials").into_iter().map(|name| (name.clone(), attempt(&name))).collect()
}

/// What a trial of the corpus was asked and what it left are read and written as they were; its workload.
fn assert_trial(dir: &str, failed: bool) -> String {
    let file = |end: &str| format!("{dir}/{end}");
    assert_kept::<TrialSpec>(&file("spec.json"), &renamed(&file("spec.json")));
    let bytes = read(file("record.json"));
    assert_kept::<TrialRecord>(&file("record.json"), &renamed(&file("record.json")));
    let record = TrialRecord::from_json(&bytes).unwrap();
    let summary = Summary::of(&record, &bytes).unwrap();
    let message = read(file("termination-message.json"));
    assert_eq!(Summary::from_json(&message).unwrap(), summary, "{dir}");
    let was: Value = serde_json::from_slice(&message).unwrap();
    assert_same(&file("termination-message.json"), &was, &serde_json::to_value(&summary).unwrap());
    assert_eq!(matches!(record.outcome, Outcome::Failed { .. }), failed, "{dir}");
    let workload = serde_json::to_value(&record.spec.workload).unwrap();
    workload.as_object().unwrap().keys().next().unwrap().clone()
}

#[test]
fn records_and_specs_are_read_and_summed_up_as_they_were() {
    let mut of_workload: BTreeMap<String, usize> = BTreeMap::new();
    for name in names("trials") {
        let workload = assert_trial(&format!("trials/{name}"), name == "failed");
        *of_workload.entry(workload).or_default() += 1;
    }
    assert_eq!(of_workload.len(), 4, "a trial of each workload: {of_workload:?}");
}

/// A plan without a default guardrail: what the file names stays.
fn without_default(mut experiment: Experiment, document: &Value, default: &str) -> Experiment {
    let named =
        |list: &str| document["spec"][list].as_array().is_some_and(|of| of.iter().any(|one| one["metric"] == default));
    let is_declared = named("objectives") || named("guardrails");
    experiment.metrics.retain(|rule| is_declared || rule.name != default);
    experiment
}

/// A plan as it was before objectives that are all latencies brought a guardrail along.
fn without_a_rate(experiment: Experiment, document: &Value) -> Experiment {
    without_default(experiment, document, "throughput")
}

/// A plan as it was when, besides, a pace in any scenario took the other default guardrail away.
fn without_a_drain_of_paced(experiment: Experiment, document: &Value) -> Experiment {
    let is_paced = |role: RolePlan| role.interval_ns.is_some();
    let experiment = without_a_rate(experiment, document);
    if experiment.scenarios.iter().any(|scenario| scenario.workload.primary_role().is_some_and(is_paced)) {
        return without_default(experiment, document, "drained_throughput");
    }
    experiment
}

/// A document of the time when trials stopped for futility unless the file said otherwise, as an API server keeps it and as a file says it
/// now.
fn stopping_for_futility(mut document: Value) -> Value {
    let spec = document["spec"].as_object_mut().unwrap();
    spec.entry("futility").or_insert_with(|| "Stop".into());
    document
}

#[test]
fn the_same_file_has_the_same_plan() {
    let digests = String::from_utf8(read("plans/digests.txt")).unwrap();
    assert_eq!(digests.lines().count(), names("plans").len() - 1, "one line for each other file");
    for line in digests.lines() {
        let (digest, name) = line.split_once(' ').unwrap();
        let document: Value = serde_json::from_slice(&read(format!("plans/{name}.json"))).unwrap();
        let experiment = validate_document(&stopping_for_futility(document.clone())).experiment.unwrap();
        // Machines that nobody says anything of are shared since the second version of the rules, and a plan says so.
        assert_eq!(experiment.environment, Environment::Shared, "{name}");
        let before = Experiment { environment: Environment::Dedicated, ..experiment };
        let again = Plan::new(without_a_drain_of_paced(before, &document)).unwrap();
        assert_eq!(again.digest.as_str(), digest, "{name}: records of this experiment can't be judged any more");
        assert!(name != "folder" || again == plan(), "the plan of the folder");
    }
}

#[test]
fn a_folder_is_judged_as_it_was() {
    let plan = plan();
    let attempts = attempts();
    assert!(attempts.iter().any(|(_, attempt)| matches!(attempt, Attempt::Lost(_))), "one attempt was lost");
    for (name, attempt) in &attempts {
        assert_eq!(*name, attempt.trial().file_stem());
        if let Attempt::Finished(summary) = attempt {
            let kept: Value = serde_json::from_slice(&read(format!("folder/trials/{name}/summary.json"))).unwrap();
            assert_same(name, &kept, &serde_json::to_value(&**summary).unwrap());
        }
    }
    let attempts: Vec<Attempt> = attempts.into_iter().map(|(_, attempt)| attempt).collect();
    let mut report = judge(&plan, &attempts).unwrap();
    report.advise(1, &|_, _| ());
    let report_json: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    // By other rules, but from the same numbers.
    let before = renamed("report.json");
    let mut numbers = 0;
    for part in ["configs", "cells"] {
        for (was, is) in before[part].as_array().unwrap().iter().zip(report_json[part].as_array().unwrap()) {
            // Failed runs were missing once; now they are the worst, which moves tests and no estimate.
            let all_ended = is["failed"] == 0 && is["baselineFailed"].as_u64().unwrap_or(0) == 0;
            for (was, is) in was["estimates"].as_array().unwrap().iter().zip(is["estimates"].as_array().unwrap()) {
                for number in ["estimate", "interval95", "baselineMedian", "configMedian"] {
                    assert_same(number, &was[number], &is[number]);
                    numbers += 1;
                }
                for p in ["better", "worse", "nonInferior", "noGain", "equivalent"].into_iter().filter(|_| all_ended) {
                    assert_same(p, &was["p"][p], &is["p"][p]);
                }
            }
        }
    }
    assert!(numbers > 0);
    assert_frozen("../v9/folder/report.json", &report_json);
    for (rules, folder) in [(2, "v2"), (3, "v3"), (4, "v6")] {
        let kept = Earlier::of(&read(format!("../{folder}/report.json"))).unwrap();
        assert_eq!((kept.rules, kept.verdicts.len()), (rules, report.configs.len()), "what those rules said is kept");
    }
    let earlier = Earlier::of(&read("report.json")).unwrap();
    let verdict = |config: &Value| (config["config"].clone(), config["verdict"].clone(), config["reason"].clone());
    let told: Vec<_> = earlier
        .verdicts
        .iter()
        .map(|v| (v.config.as_str().into(), v.verdict.as_str().into(), v.reason.as_str().into()))
        .collect();
    assert_eq!(told, before["configs"].as_array().unwrap().iter().map(verdict).collect::<Vec<_>>());
    assert_eq!(earlier.rules, 1);

    // What the operator wrote of the same attempts can be read, and what it writes of them now is the same as then by these rules.
    let mut of_report = status::of(&report).unwrap();
    let kept: TuningExperimentStatus =
        serde_json::from_value(renamed("status/experiment.json")).unwrap_or_else(|error| panic!("{error}"));
    of_report.plan.clone_from(&kept.plan);
    // A digest has no last digits that may differ, and the names are part of it.
    of_report.report_digest.clone_from(&kept.report_digest);
    assert_frozen("../v9/folder/status.json", &serde_json::to_value(&of_report).unwrap());
}

/// A document without the fields that were added since another one was written.
fn without_added(was: &Value, is: &Value) -> Value {
    match (was, is) {
        (Value::Object(old), Value::Object(new)) => {
            let kept = new.iter().filter(|(key, _)| old.contains_key(*key) || !ADDED.contains(&key.as_str()));
            kept.map(|(key, value)| (key.clone(), without_added(&was[key], value))).collect()
        }
        (Value::Array(old), Value::Array(new)) => {
            new.iter().enumerate().map(|(i, value)| without_added(old.get(i).unwrap_or(&Value::Null), value)).collect()
        }
        _ => is.clone(),
    }
}

/// Compares with a frozen document. One that is not there is written, to be looked at and committed.
fn assert_frozen(file: &str, is: &Value) {
    let path = corpus().join(file);
    if !path.exists() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, serde_json::to_string_pretty(is).unwrap() + "\n").unwrap();
        panic!("{} was not there: it is now, as this build says it; look at it, and commit it", path.display());
    }
    let was: Value = serde_json::from_slice(&read(file)).unwrap();
    assert_same(file, &was, &without_added(&was, is));
}

#[test]
fn the_status_of_a_trial_tells_the_same_attempts() {
    let plan = plan();
    let trials = renamed("status/trials.json");
    let trials = trials.as_array().unwrap();
    let folder: BTreeMap<String, Attempt> = attempts().into_iter().collect();
    assert_eq!(trials.len(), folder.len());
    for trial in trials {
        let spec: TuningTrialSpec = assert_kept("the spec of a trial", &trial["spec"]);
        let status: TuningTrialStatus = assert_kept("the status of a trial", &trial["status"]);
        assert_eq!(Digest::of_json(&plan.digest).unwrap(), Digest::of_json(&spec.plan).unwrap());
        for told in &status.attempts {
            let attempt = cluster::attempt(&spec, told).unwrap();
            match (&attempt, &folder[&attempt.trial().file_stem()]) {
                (Attempt::Finished(told), Attempt::Finished(summary)) => {
                    assert_eq!(told.record, summary.record);
                    assert_eq!(told.pod.as_ref().unwrap().qos_class.as_deref(), Some("Guaranteed"));
                    assert_eq!(told.metrics["watts"], 17.25);
                }
                (Attempt::Lost(told), Attempt::Lost(lost)) => assert_eq!(told.reason, lost.reason),
                (told, kept) => panic!("{told:?} was {kept:?}"),
            }
        }
    }
}

#[test]
fn only_listed_fields_may_be_added() {
    let was = serde_json::json!({"notes": [{"text": "a"}]});
    let is = serde_json::json!({"notes": [{"text": "a", "gate": "Steady"}], "gates": [], "other": 1});
    assert_eq!(without_added(&was, &is), serde_json::json!({"notes": [{"text": "a"}], "other": 1}));
    let with = serde_json::json!({"gates": [1]});
    assert_eq!(without_added(&with, &serde_json::json!({"gates": [2]})), serde_json::json!({"gates": [2]}));
}

#[test]
fn a_renamed_field_and_a_changed_number_are_seen() {
    let was = renamed("report.json");
    let mut is = was.clone();
    let fields = is.as_object_mut().unwrap();
    let value = fields.remove("seed").unwrap();
    fields.insert("Seed".to_owned(), value);
    let mut found = Vec::new();
    differences("", &was, &is, &mut found);
    assert_eq!(found.len(), 2, "{found:?}");
    let mut found = Vec::new();
    differences("", &1.000_000_1.into(), &1.000_000_2.into(), &mut found);
    differences("", &1.0.into(), &(1.0 + 1e-12).into(), &mut found);
    assert_eq!(found.len(), 1, "{found:?}");
}
