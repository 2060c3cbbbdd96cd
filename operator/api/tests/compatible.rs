//! What was once accepted under v1alpha1 is accepted as long as it is served, and nothing that was written is lost. The definitions in
//! `tests/v1alpha1` are those of the last release; a change that this test refuses needs another version of the API.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// Bounds that may only be raised, and those that may only be lowered.
const UPPER: [&str; 4] = ["maxLength", "maxItems", "maxProperties", "maximum"];
const LOWER: [&str; 4] = ["minLength", "minItems", "minProperties", "minimum"];
/// What is compared in ways of its own, and words. Everything else gives a value another meaning and stays as it is.
const KNOWN: [&str; 9] = [
    "description",
    "pattern",
    "enum",
    "nullable",
    "required",
    "x-kubernetes-validations",
    "properties",
    "items",
    "additionalProperties",
];

type Change = fn(&mut Value);

/// What of an old definition does not work with a new one any more.
fn broken(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["group", "scope", "names"] {
        if old["spec"][field] != new["spec"][field] {
            found.push(format!("spec.{field} is another one"));
        }
    }
    for version in array(&old["spec"]["versions"]) {
        let name = version["name"].as_str().unwrap_or_default();
        let Some(now) = array(&new["spec"]["versions"]).iter().find(|now| now["name"] == name && now["served"] == true)
        else {
            found.push(format!("{name} is not served any more"));
            continue;
        };
        if version["subresources"] != now["subresources"] {
            found.push(format!("{name} has other subresources"));
        }
        let schema = "openAPIV3Schema";
        schemas(name, &version["schema"][schema], &now["schema"][schema], &mut found);
    }
    found
}

fn schemas(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    let keys: BTreeSet<&String> = [old, new].into_iter().filter_map(Value::as_object).flat_map(Map::keys).collect();
    let has_own = |key: &str| UPPER.contains(&key) || LOWER.contains(&key) || KNOWN.contains(&key);
    // Only the operator writes a status: its default says that it has not yet.
    let is_status = |key: &str| key == "default" && path == "v1alpha1.status";
    let is_safer = |key: &str| key == "default" && SAFER.contains(&path);
    let is_allowed = |key: &str| has_own(key) || is_status(key) || is_safer(key);
    for key in keys.into_iter().filter(|key| !is_allowed(key) && old[*key] != new[*key]) {
        found.push(format!("{path}: {key} was {}, is {}", old[key], new[key]));
    }
    for (keys, is_tighter) in [(UPPER, (|new, old| new < old) as fn(f64, f64) -> bool), (LOWER, |new, old| new > old)] {
        for key in keys {
            let free = match key {
                "minimum" => f64::NEG_INFINITY,
                _ if keys == UPPER => f64::INFINITY,
                _ => 0.0,
            };
            let (was, is) = (old[key].as_f64().unwrap_or(free), new[key].as_f64().unwrap_or(free));
            if is_tighter(is, was) {
                found.push(format!("{path}: {key} was {}, is {}", old[key], new[key]));
            }
        }
    }
    if !new["pattern"].is_null() && old["pattern"] != new["pattern"] {
        found.push(format!("{path}: pattern was {}, is {}", old["pattern"], new["pattern"]));
    }
    if !new["enum"].is_null()
        && (old["enum"].is_null() || !array(&old["enum"]).iter().all(|v| array(&new["enum"]).contains(v)))
    {
        found.push(format!("{path}: enum was {}, is {}", old["enum"], new["enum"]));
    }
    if old["nullable"] == true && new["nullable"] != true {
        found.push(format!("{path}: may not be null any more"));
    }
    let words =
        |schema: &Value, key: &str| -> BTreeSet<String> { array(&schema[key]).iter().map(Value::to_string).collect() };
    for field in words(new, "required").difference(&words(old, "required")) {
        found.push(format!("{path}: {field} is required now"));
    }
    let rules = |schema: &Value| -> BTreeSet<String> {
        array(&schema["x-kubernetes-validations"]).iter().map(|rule| rule["rule"].to_string()).collect()
    };
    let properties = |schema: &Value| -> BTreeSet<String> {
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let (is, was) = (properties(new), properties(old));
    let added: Vec<&String> = is.difference(&was).collect();
    for rule in rules(new).difference(&rules(old)).filter(|rule| {
        let rule = rule.trim_matches('"');
        !INSTEAD.contains(&rule) && rule != ORDER && !says_more(rule, &rules(old), &added)
    }) {
        found.push(format!("{path}: a new rule, {rule}"));
    }
    for (name, property) in old["properties"].as_object().into_iter().flatten() {
        match &new["properties"][name] {
            Value::Null => found.push(format!("{path}.{name}: was removed")),
            now => schemas(&format!("{path}.{name}"), property, now, found),
        }
    }
    let has_default = |name: &str| path.starts_with("v1alpha1.spec") && !new["properties"][name]["default"].is_null();
    for name in added.into_iter().filter(|name| has_default(name)) {
        found.push(format!("{path}.{name}: is new and has a default, which every stored object would get"));
    }
    for (inner, shown) in [("items", "[]"), ("additionalProperties", "{}")] {
        match (&old[inner], &new[inner]) {
            (Value::Object(_), Value::Object(_)) => schemas(&format!("{path}{shown}"), &old[inner], &new[inner], found),
            (was, is) if was != is => found.push(format!("{path}: {inner} was {was}, is {is}")),
            _ => {}
        }
    }
}

/// Fields whose default changed to one that can't hide harm. Every stored object has the default of its time written out.
const SAFER: [&str; 1] = ["v1alpha1.spec.futility"];

/// Rules that came when less was required: what they refuse either lacks what was required before, or has a field that is new.
const INSTEAD: [&str; 4] = [
    "has(self[0].steps)",
    "has(self.steps) != has(self.until)",
    "!has(self.until) || has(self.stepsPerSecond)",
    "has(self.matrix) || self.configs.size() >= 2",
];

/// Whether a rule is an older one with more about fields that are new, which nothing stored has.
fn says_more(rule: &str, old: &BTreeSet<String>, added: &[&String]) -> bool {
    let (rule, is_new) =
        (rule.trim_matches('"'), |clause: &str| added.iter().any(|name| clause.contains(&format!("self.{name})"))));
    let more = old.iter().find_map(|old| rule.strip_prefix(old.trim_matches('"'))?.strip_prefix(" && "));
    more.is_some_and(|more| more.split(" && ").all(is_new))
}

/// The rule that closes a gap of the rule that a spec is immutable: an edit of the order alone went through, and the experiment
/// ended at the next start of the operator. It refuses edits only, never what is stored or created.
const ORDER: &str = "self.configs.map(one, one.name) == oldSelf.configs.map(one, one.name) && \
    self.scenarios.map(one, one.name) == oldSelf.scenarios.map(one, one.name) && \
    self.objectives.map(one, one.metric) == oldSelf.objectives.map(one, one.metric) && \
    self.guardrails.map(one, one.metric) == oldSelf.guardrails.map(one, one.metric) && \
    self.scenarios.map(one, has(one.workload.keyValue) ? one.workload.keyValue.roles.map(role, role.name) : []) == \
    oldSelf.scenarios.map(one, has(one.workload.keyValue) ? one.workload.keyValue.roles.map(role, role.name) : []) && \
    (!has(self.matrix) || !has(oldSelf.matrix) || \
    self.matrix.axes.map(one, one.name) == oldSelf.matrix.axes.map(one, one.name))";

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn released() -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/v1alpha1");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder is there").map(|f| f.expect("a file").path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| serde_yaml::from_str(&std::fs::read_to_string(file).expect("a file")).expect("YAML"))
        .collect()
}

#[test]
fn the_definitions_are_compatible_with_the_last_release() {
    let (released, now) = (released(), assay_api::crds().expect("definitions"));
    assert_eq!(released.len(), 2);
    for old in released {
        let name = &old["metadata"]["name"];
        let new = now.iter().find(|new| new["metadata"]["name"] == *name).unwrap_or_else(|| panic!("{name} is gone"));
        assert_eq!(broken(&old, new), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn incompatible_changes_are_refused() {
    let old = &released()[0];
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let cases: [(&str, &str, Change); 21] = [
        ("", "v1alpha1 is not served", |crd| crd["spec"]["versions"][0]["served"] = json!(false)),
        ("", "spec.scope is another", |crd| crd["spec"]["scope"] = json!("Cluster")),
        ("", "other subresources", |crd| crd["spec"]["versions"][0]["subresources"] = json!({})),
        (spec, "spec.seed: was removed", |spec| drop(spec["properties"].as_object_mut().unwrap().remove("seed"))),
        (spec, "spec.seed: type was", |spec| spec["properties"]["seed"]["type"] = json!("string")),
        (spec, "\"seed\" is required now", |spec| spec["required"].as_array_mut().unwrap().push(json!("seed"))),
        (spec, "spec.configs: maxItems was", |spec| spec["properties"]["configs"]["maxItems"] = json!(3)),
        (spec, "spec.repetitions: minimum was", |spec| spec["properties"]["repetitions"]["minimum"] = json!(50)),
        (spec, "spec.baseline: pattern was", |spec| spec["properties"]["baseline"]["pattern"] = json!("^x$")),
        (spec, "spec.baseline: enum was null", |spec| spec["properties"]["baseline"]["enum"] = json!(["a"])),
        (spec, "spec.seed: exclusiveMinimum was", |spec| spec["properties"]["seed"]["exclusiveMinimum"] = json!(true)),
        (spec, "spec.baseline: default was", |spec| spec["properties"]["baseline"]["default"] = json!("a")),
        (spec, "spec.baseline: not was", |spec| spec["properties"]["baseline"]["not"] = json!({"enum": ["a"]})),
        ("", "spec.names is another", |crd| crd["spec"]["names"]["plural"] = json!("experiments")),
        (spec, "a new rule", |spec| spec["x-kubernetes-validations"] = json!([{"rule": "self.seed > 1"}])),
        (spec, "a new rule", |spec| {
            spec["x-kubernetes-validations"] = json!([{"rule": "self.baseline == oldSelf.baseline"}]);
        }),
        // An old rule may say more, but only of fields that are new.
        (spec, "a new rule", |spec| {
            spec["properties"]["another"] = json!({"type": "string"});
            let more = |old: &str| format!("{old} && has(self.another) && has(self.seed)");
            let rules = &mut spec["x-kubernetes-validations"];
            rules[0]["rule"] = json!(more(rules[0]["rule"].as_str().unwrap_or_default()));
        }),
        // An older operator could read none of them, nor begin what it has planned.
        (spec, "spec.another: is new and has a default", |spec| {
            spec["properties"]["another"] = json!({"type": "string", "default": "a"});
        }),
        (spec, "spec.configs[].another: is new and has a default", |spec| {
            spec["properties"]["configs"]["items"]["properties"]["another"] = json!({"type": "integer", "default": 0});
        }),
        (spec, "spec.configs: x-kubernetes-list-type was", |spec| {
            spec["properties"]["configs"]["x-kubernetes-list-type"] = json!("set");
        }),
        (spec, "spec.configs[].name: type was", |spec| {
            spec["properties"]["configs"]["items"]["properties"]["name"]["type"] = json!("integer");
        }),
    ];
    for (at, expected, change) in cases {
        let mut new = old.clone();
        change(new.pointer_mut(at).expect("it is there"));
        let found = broken(old, &new);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn compatible_changes_are_not() {
    let old = &released()[0];
    let mut new = old.clone();
    let spec = new.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec").expect("a schema");
    spec["properties"]["another"] = json!({"type": "string"});
    spec["properties"]["configs"]["maxItems"] = json!(1000);
    spec["description"] = json!("Better words.");
    spec["required"] = json!([]);
    let rule = spec["x-kubernetes-validations"][0]["rule"].as_str().expect("a rule").to_owned();
    spec["x-kubernetes-validations"] = json!([{"rule": format!("{rule} && has(self.another)")}]);
    assert_eq!(broken(old, &new), Vec::<String>::new());
}
