//! Whether the corpus has a document with each field that there is: one that is in none could be read wrongly and nobody would see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::{names, read};

/// Fields that no bench or operator writes into these documents: what only tests make, and what is added to a summary in memory.
const UNWRITTEN: [&str; 2] = ["/evidence/storage/replacedSysfs", "/pod"];

/// The paths of all fields that a schema allows.
fn allowed(root: &Value, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        return allowed(root, root.pointer(name.trim_start_matches('#')).unwrap(), path, found);
    }
    for part in ["oneOf", "anyOf", "allOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
        allowed(root, part, path, found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        allowed(root, field, &path, found);
        found.insert(path);
    }
    for (key, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            allowed(root, &schema[key], &format!("{path}{step}"), found);
        }
    }
}

/// The paths of all fields in a document. A name that is no field is a key.
fn present(document: &Value, path: &str, allowed: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    for item in document.as_array().into_iter().flatten() {
        present(item, &format!("{path}[]"), allowed, found);
    }
    for (name, value) in document.as_object().into_iter().flatten() {
        let field = format!("{path}/{name}");
        if allowed.contains(&field) {
            present(value, &field, allowed, found);
            found.insert(field);
        } else {
            present(value, &format!("{path}{{}}"), allowed, found);
        }
    }
}

/// The fields that none of the documents has.
fn missing(schema: &Value, documents: &[Value]) -> BTreeSet<String> {
    let (mut fields, mut found) = (BTreeSet::new(), BTreeSet::new());
    allowed(schema, schema, "", &mut fields);
    for document in documents {
        present(document, "", &fields, &mut found);
    }
    fields.retain(|field| !found.contains(field) && !UNWRITTEN.iter().any(|unwritten| field.starts_with(unwritten)));
    fields
}

fn repository(path: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Files of this name in the folders of trials.
fn of_trials(file: &str) -> Vec<Value> {
    let dirs = ["trials", "folder/trials", "../v4/trials", "../v5/trials", "../v9/trials"].into_iter();
    let files = dirs.flat_map(|dir| names(dir).into_iter().map(move |name| format!("{dir}/{name}/{file}")));
    files
        .filter(|path| crate::corpus().join(path).exists())
        .map(|path| serde_json::from_slice(&read(path)).unwrap())
        .collect()
}

#[test]
fn the_corpus_has_every_field() {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (schema, file) in [
        ("schemas/trial-spec.json", "spec.json"),
        ("schemas/trial-record.json", "record.json"),
        ("schemas/trial-summary.json", "termination-message.json"),
    ] {
        let documents = of_trials(file);
        assert!(!documents.is_empty(), "{file}");
        all.insert(schema, missing(&serde_json::from_slice(&repository(schema)).unwrap(), &documents));
    }
    let objects = ["../v4/objects.json", "../v8/objects.json", "../v9/objects.json"];
    let objects = objects.into_iter().flat_map(|path| serde_json::from_slice::<Vec<Value>>(&read(path)).unwrap());
    let objects: Vec<Value> = objects.collect();
    for (crd, kind) in [
        ("crds/assay.rocks_tuningexperiments.yaml", "TuningExperiment"),
        ("crds/assay.rocks_tuningtrials.yaml", "TuningTrial"),
    ] {
        let definition: Value = serde_yaml::from_slice(&repository(crd)).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        assert!(schema["properties"].is_object(), "{crd}");
        let of_kind = objects.iter().filter(|object| object["kind"] == kind).map(|object| object["status"].clone());
        all.insert(crd, missing(schema, &of_kind.collect::<Vec<_>>()));
    }
    all.retain(|_, fields| !fields.is_empty());
    assert!(all.is_empty(), "add a document that has these to a new folder of the corpus: {all:#?}");
}

#[test]
fn a_field_that_no_document_has_is_seen() {
    let schema = serde_json::json!({
        "properties": {"a": {"properties": {"b": {}}}, "list": {"items": {"$ref": "#/$defs/c"}}, "map": {"additionalProperties": {"properties": {"d": {}}}}},
        "$defs": {"c": {"oneOf": [{"properties": {"e": {}}}, {"properties": {"f": {}}}]}},
    });
    let some = serde_json::json!({"a": {"x": 1}, "list": [{"e": 1}], "map": {"any": {"d": 1}}});
    let without: Vec<String> = missing(&schema, std::slice::from_ref(&some)).into_iter().collect();
    assert_eq!(without, ["/a/b", "/list[]/f"]);
    assert!(missing(&schema, &[some, serde_json::json!({"a": {"b": 1}, "list": [{"f": 1}]})]).is_empty());
}

/// Lines that were written once are read, and written as they were.
#[test]
fn nights_are_read_as_they_were_written() {
    let lines = String::from_utf8(read("../v8/history.jsonl")).unwrap();
    let mut history = assay_core::sweep::History::new("nightly");
    assert_eq!(history.import(&lines).unwrap().new, 3);
    assert_eq!(history.lines().unwrap(), lines);
    let series = history.series().map(|series| series.metric.clone()).collect::<Vec<_>>();
    assert_eq!(series, ["stall_fraction", "step_latency_p99", "throughput"]);
    let lines_of_failures = String::from_utf8(read("../v10/history.jsonl")).unwrap();
    let mut failures = assay_core::sweep::History::new("nightly");
    assert_eq!(failures.import(&lines_of_failures).unwrap().new, 3);
    assert_eq!(failures.lines().unwrap(), lines_of_failures);
    // Of another sweep, or of another version, none.
    assert!(assay_core::sweep::History::new("other").import(&lines).is_err());
    assert!(
        assay_core::sweep::History::new("nightly").import(&lines.replace("\"version\":1", "\"version\":2")).is_err()
    );
}
