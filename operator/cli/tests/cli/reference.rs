//! `docs/reference.md`: every field of all kinds, from the definitions that the API server has, and every metric, from what the bench
//! computes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use assay_protocol::METRICS;
use serde_json::Value;

use crate::common::{golden_at, package};

const HEAD: &str = "# API reference

Every field of `assay.rocks/v1alpha1`, made from the definitions in `crds/` by `make generate`; `kubectl explain tuningexperiment.spec` says
the same. [experiment.md](experiment.md) explains how to write an experiment. The bench's metrics are [at the end](#metrics).
";

const METRICS_HEAD: &str = "
## Metrics

What the bench computes of each trial, made from the definitions in `bench-image/protocol/src/metric.rs` by `make generate`. The window opens
after the warm-up and closes when all roles have made their steps. `rocksdb.` begins the names of RocksDB's tickers, histograms and properties;
of a ticker it is the growth in the window that counts. A metric that can't be read is absent from the record, never 0.
[experiment.md](experiment.md) says which metrics can be judged, with which margins.

| metric | unit | what it is | formula | read from | what it leaves out |
|---|---|---|---|---|---|
";

/// A table of the fields of an object, then those of the objects in it. What several objects have is told once: `shown` has where.
fn section(path: &str, schema: &Value, shown: &mut BTreeMap<String, String>, out: &mut String) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let root = |path: &str| path.split('.').next().map(str::to_owned);
    if let Some(known) = shown.get(&schema.to_string()).filter(|known| root(known) != root(path)) {
        // Writing to a string can't fail.
        let _ = writeln!(out, "\n## {path}\n\nAs {known}.");
        return;
    }
    shown.entry(schema.to_string()).or_insert_with(|| path.to_owned());
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // Writing to a string can't fail.
    let _ = writeln!(out, "\n## {path}\n");
    if let Some(description) = schema["description"].as_str() {
        let _ = writeln!(out, "{}\n", escaped(description));
    }
    let _ = writeln!(out, "| field | type | |\n|---|---|---|");
    for (name, field) in properties {
        let mut says = escaped(field["description"].as_str().unwrap_or_default());
        if required.contains(&name.as_str()) {
            says.push_str(" **Required.**");
        }
        if let Some(default) = field.get("default").filter(|default| !default.is_null() && !default.is_object()) {
            let _ = write!(says, " Default: `{}`.", default.to_string().trim_matches('"'));
        }
        let _ = writeln!(out, "| `{name}` | {} | {says} |", kind(field));
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "\nRule: {}", escaped(rule["message"].as_str().unwrap_or_default()));
    }
    for (name, field) in properties {
        section(&format!("{path}.{name}"), field, shown, out);
        section(&format!("{path}.{name}[]"), &field["items"], shown, out);
        section(&format!("{path}.{name}.*"), &field["additionalProperties"], shown, out);
    }
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind(&schema["additionalProperties"]))
        }
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

fn metrics() -> String {
    METRICS.iter().fold(METRICS_HEAD.to_owned(), |mut text, metric| {
        let [help, formula, source, leaves_out] =
            [metric.help, metric.formula, metric.source, metric.leaves_out].map(escaped);
        // Writing to a string can't fail.
        let _ =
            writeln!(text, "| `{}` | {} | {help} | {formula} | {source} | {leaves_out} |", metric.name, metric.unit);
        text
    })
}

#[test]
fn every_metric_is_explained() {
    for metric in METRICS {
        for text in [metric.unit, metric.help, metric.formula, metric.source, metric.leaves_out] {
            assert!(!text.is_empty(), "{} lacks a text in metric.rs", metric.name);
        }
    }
}

#[test]
fn the_reference_has_every_field() {
    let (mut text, mut shown) = (HEAD.to_owned(), BTreeMap::new());
    for crd in assay_api::crds().expect("definitions") {
        let kind = crd["spec"]["names"]["kind"].as_str().expect("a kind");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for part in ["spec", "status"] {
            section(&format!("{kind}.{part}"), &schema["properties"][part], &mut shown, &mut text);
        }
    }
    text.push_str(&metrics());
    golden_at(&package().join("../../docs/reference.md"), &text);
}

/// The rows of the tables of a page, by the heading above and the first cell, with all cells.
fn rows(page: &str) -> BTreeMap<(&str, &str), &str> {
    let mut heading = "";
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            heading = title;
        } else if let Some((name, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) {
            assert!(rows.insert((heading, name), line).is_none(), "{heading}: two rows of {name}");
        }
    }
    rows
}

/// The page is made by the functions above, which may leave something out: held against the definitions as they are committed, found
/// in another way.
#[test]
fn nothing_is_missing_in_the_reference() {
    /// Every object with fields, by the path to it.
    fn objects<'a>(schema: &'a Value, path: &str, found: &mut BTreeMap<String, &'a Value>) {
        let Value::Object(parts) = schema else { return };
        if parts.contains_key("properties") {
            found.insert(path.to_owned(), schema);
        }
        for (part, inner) in parts {
            match part.as_str() {
                "properties" => {
                    for (name, field) in inner.as_object().into_iter().flatten() {
                        objects(field, &format!("{path}.{name}"), found);
                    }
                }
                "items" => objects(inner, &format!("{path}[]"), found),
                "additionalProperties" => objects(inner, &format!("{path}.*"), found),
                _ => {}
            }
        }
    }
    let page = fs::read_to_string(package().join("../../docs/reference.md")).expect("the page");
    let rows = rows(&page);
    // What an object of another kind has, too, is told there.
    let told: Vec<(&str, &str)> = page
        .split("\n## ")
        .filter_map(|part| Some((part.lines().next()?, part.lines().nth(2)?.strip_prefix("As ")?.strip_suffix('.')?)))
        .collect();
    let place = |path: &str| {
        let within = told.iter().find_map(|(own, other)| {
            let rest = path.strip_prefix(own).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))?;
            Some(format!("{other}{rest}"))
        });
        within.unwrap_or_else(|| path.to_owned())
    };
    assert!(told.len() > 2, "{told:?}");
    let mut expected = BTreeSet::new();
    for kind in ["tuningexperiments", "tuningsweeps", "tuninghistories", "tuningtrials"] {
        let file = package().join(format!("../../crds/assay.rocks_{kind}.yaml"));
        let crd: Value = serde_yaml::from_str(&fs::read_to_string(file).expect("a definition")).expect("YAML");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let kind = crd["spec"]["names"]["kind"].as_str().expect("a kind");
        let mut found = BTreeMap::new();
        for part in ["spec", "status"] {
            objects(&schema["properties"][part], &format!("{kind}.{part}"), &mut found);
        }
        for (path, object) in found {
            let path = place(&path);
            for (name, field) in object["properties"].as_object().expect("fields") {
                let row = rows.get(&(path.as_str(), name.as_str())).unwrap_or_else(|| panic!("no {path}.{name}"));
                let is_required =
                    object["required"].as_array().is_some_and(|names| names.contains(&name.as_str().into()));
                assert_eq!(row.contains("**Required.**"), is_required, "{row}");
                for choice in field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    assert!(row.contains(&format!("`{choice}`")), "{path}.{name} lacks {choice}");
                }
                if let Some(default) = field.get("default").filter(|default| default.is_number() || default.is_string())
                {
                    let default = default.to_string();
                    assert!(row.contains(&format!("Default: `{}`", default.trim_matches('"'))), "{row}");
                }
                expected.insert((path.clone(), name.clone()));
            }
        }
    }
    expected.extend(METRICS.iter().map(|metric| ("Metrics".to_owned(), metric.name.to_owned())));
    let listed: BTreeSet<(String, String)> =
        rows.keys().map(|(path, name)| ((*path).to_owned(), (*name).to_owned())).collect();
    assert_eq!(listed, expected);
    for metric in METRICS {
        let row = rows[&("Metrics", metric.name)];
        assert!(row.contains(&escaped(metric.formula)) && row.contains(&escaped(metric.leaves_out)), "{row}");
    }
}
