//! The CEL rules of the schema, evaluated as the API server does, both ways.

use std::collections::BTreeSet;

use assay_api::{TuningExperiment, TuningTrial, schema};
use kube_cel::Validator;
use serde_json::{Value, json};

fn experiment() -> Value {
    json!({
        "metadata": {"name": "memtables"},
        "spec": {
            "baseline": "large",
            "configs": [{"name": "large"}, {"name": "small", "dbOptions": {"max_background_jobs": 4}}],
            "scenarios": [{
                "name": "writes",
                "workload": {"keyValue": {
                    "keys": 1000,
                    "valueBytes": {"fixed": 100},
                    "roles": [{"name": "writer", "steps": 1000, "mix": {"put": 1}}],
                }},
            }],
            "repetitions": 8,
            "objectives": [{"metric": "throughput"}],
        },
    })
}

const KEY_VALUE: &str = "/spec/scenarios/0/workload/keyValue";

const ENDS: &str = "set exactly one of steps and until";

fn writer() -> Value {
    json!({"name": "writer", "steps": 1000, "mix": {"put": 1}})
}

/// Axes of these names, each with a value.
fn matrix(axes: &[&str]) -> Value {
    let axis = |name: &&str| json!({"name": name, "values": [{"dbOptions": {"max_background_jobs": 8}}]});
    json!({"axes": axes.iter().map(axis).collect::<Vec<_>>()})
}

const STORAGE: &str = "set exactly one of persistentVolumeClaim, emptyDir and hostPath";

/// What the rules say of an object, and of an update from another.
fn messages(object: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = schema::<TuningExperiment>().expect("the schema is generated");
    let errors = Validator::new().validate(&schema, object, old).err().map(kube_cel::ValidationErrors::into_vec);
    errors.unwrap_or_default().into_iter().map(|error| error.message).collect()
}

fn with(pointer: &str, value: Value) -> Value {
    let mut object = experiment();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a parent");
    let parent = object.pointer_mut(parent).expect("the parent exists");
    match key.parse::<usize>() {
        Ok(index) => parent[index] = value,
        Err(_) => parent[key] = value,
    }
    object
}

#[test]
fn a_sound_experiment_passes() {
    assert_eq!(messages(&experiment(), None), Vec::<String>::new());
    assert_eq!(messages(&experiment(), Some(&experiment())), Vec::<String>::new());
}

/// Changes of the experiment, each with the rule that refuses it.
fn refused() -> Vec<(String, Value, &'static str)> {
    let role = format!("{KEY_VALUE}/roles/0");
    let refused = [
        ("/spec/baseline", json!("medium"), "baseline must name one of the configs"),
        (
            "/spec/configs",
            json!([{"name": "large"}]),
            "configs needs the baseline and a config to compare with it, or a matrix",
        ),
        ("/spec/guardrails", json!([{"metric": "throughput"}]), "a metric can't be both an objective and a guardrail"),
        ("/spec/scenarios/0/dataset", json!({"from": "medium"}), "dataset.from must name one of the configs"),
        (
            "/spec/scenarios/0/workload",
            json!({}),
            "set exactly one workload: keyValue, ethrex, blockstore or rethHistory",
        ),
        (&format!("{KEY_VALUE}/valueBytes"), json!({}), "set exactly one of fixed and uniform"),
        (
            &format!("{KEY_VALUE}/valueBytes"),
            json!({"fixed": 1, "uniform": {"min": 1, "max": 2}}),
            "set exactly one of fixed and uniform",
        ),
        (&format!("{KEY_VALUE}/valueBytes"), json!({"uniform": {"min": 3, "max": 2}}), "min is at most max"),
        (&format!("{role}/mix"), json!({}), "at least one operation needs a weight above 0"),
        (&format!("{role}/zipfianExponent"), json!("0.99"), "zipfianExponent needs keyOrder: Zipfian"),
        (
            &role,
            json!({"name": "writer", "steps": 9, "until": "PrimaryEnds", "stepsPerSecond": 9, "mix": {"put": 1}}),
            ENDS,
        ),
        (&format!("{KEY_VALUE}/roles"), json!([writer(), {"name": "b", "mix": {"put": 1}}]), ENDS),
        (
            &format!("{KEY_VALUE}/roles"),
            json!([writer(), {"name": "b", "until": "PrimaryEnds", "mix": {"put": 1}}]),
            "until needs stepsPerSecond",
        ),
        (
            &format!("{KEY_VALUE}/roles"),
            json!([{"name": "b", "until": "PrimaryEnds", "stepsPerSecond": 9, "mix": {"put": 1}}]),
            "the first role is the one that is measured: set its steps",
        ),
        ("/spec/placement", json!({"storage": {}}), STORAGE),
        ("/spec/placement", json!({"storage": {"emptyDir": {}, "hostPath": {"path": "/mnt/nvme"}}}), STORAGE),
        (
            "/metadata/name",
            json!("n".repeat(64)),
            "metadata.name must have at most 63 characters, because it becomes a pod label",
        ),
    ];
    refused.map(|(pointer, value, message): (&str, Value, &str)| (pointer.to_owned(), value, message)).into()
}

#[test]
fn each_rule_refuses_and_accepts() {
    for (pointer, value, message) in refused() {
        assert_eq!(messages(&with(&pointer, value.clone()), None), [message], "{pointer} {value}");
    }
    let role = format!("{KEY_VALUE}/roles/0");
    let accepted = [
        ("/spec/baseline", json!("small")),
        ("/spec/matrix", matrix(&["memtable", "jobs"])),
        ("/spec/guardrails", json!([{"metric": "db_bytes"}])),
        ("/spec/scenarios/0/dataset", json!({"from": "small"})),
        (&format!("{KEY_VALUE}/valueBytes"), json!({"uniform": {"min": 2, "max": 2}})),
        (&format!("{role}/mix"), json!({"getMissing": 1})),
        (
            &format!("{KEY_VALUE}/roles"),
            json!([writer(), {"name": "b", "until": "PrimaryEnds", "stepsPerSecond": 9, "mix": {"put": 1}}]),
        ),
        ("/spec/placement", json!({"storage": {"emptyDir": {}}})),
        ("/spec/placement", json!({"storage": {"hostPath": {"path": "/mnt/nvme"}}})),
        ("/spec/placement", json!({"storage": {"persistentVolumeClaim": {"size": "200Gi"}}})),
        ("/metadata/name", json!("n".repeat(63))),
    ];
    for (pointer, value) in accepted {
        assert_eq!(messages(&with(pointer, value.clone()), None), Vec::<String>::new(), "{pointer} {value}");
    }
    let mut alone = with("/spec/configs", json!([{"name": "large"}]));
    alone["spec"]["matrix"] = matrix(&["memtable"]);
    assert_eq!(messages(&alone, None), Vec::<String>::new());
    let mut zipfian = with(&format!("{role}/zipfianExponent"), json!("0.99"));
    zipfian.pointer_mut(&role).expect("the role exists")["keyOrder"] = json!("Zipfian");
    assert_eq!(messages(&zipfian, None), Vec::<String>::new());
}

const IMMUTABLE: &str = "spec is immutable except for suspend, ttlSecondsAfterFinished and failedPodRetentionSeconds: for another margin, objective or config, create a new experiment";

#[test]
fn spec_is_immutable() {
    let metrics = json!([{"name": "node_reads", "query": "increase(a[$window])", "better": "Lower"}]);
    for (pointer, value) in [
        ("/spec/repetitions", json!(9)),
        ("/spec/seed", json!(1)),
        ("/spec/objectives/0/margin", json!("3%")),
        ("/spec/configs/1/dbOptions/max_background_jobs", json!(8)),
        ("/spec/placement", json!({"memory": "4Gi"})),
        ("/spec/metrics", metrics),
        ("/spec/matrix", matrix(&["memtable"])),
    ] {
        let changed = with(pointer, value);
        assert_eq!(messages(&changed, Some(&experiment())), [IMMUTABLE], "{pointer}");
        assert_eq!(messages(&experiment(), Some(&changed)), [IMMUTABLE], "{pointer} back");
    }
    let (mut before, mut after) = (experiment(), experiment());
    before["spec"]["matrix"] = matrix(&["memtable"]);
    after["spec"]["matrix"] = matrix(&["jobs"]);
    assert!(messages(&after, Some(&before)).contains(&IMMUTABLE.to_owned()));
    assert_eq!(messages(&before, Some(&before)), Vec::<String>::new());
    for (pointer, value) in [
        // Writing a default down changes nothing.
        ("/spec/seed", json!(0)),
        ("/spec/metrics", json!([])),
        ("/spec/suspend", json!(true)),
        ("/spec/ttlSecondsAfterFinished", json!(3600)),
        ("/spec/failedPodRetentionSeconds", json!(3600)),
        ("/metadata/labels", json!({"a": "b"})),
    ] {
        let changed = with(pointer, value);
        assert_eq!(messages(&changed, Some(&experiment())), Vec::<String>::new(), "{pointer}");
        assert_eq!(messages(&experiment(), Some(&changed)), Vec::<String>::new(), "{pointer} back");
    }
}

const ORDER: &str =
    "configs, axes, scenarios, roles, objectives and guardrails keep their order: trials were planned in it";

/// The API server takes two lists with keys for equal in any order, so the rule above does not see it.
#[test]
fn lists_keep_their_order() {
    let pairs = [
        ("/spec/configs", json!([{"name": "large"}, {"name": "small"}])),
        (
            "/spec/scenarios",
            json!([experiment()["spec"]["scenarios"][0], {
                "name": "other", "workload": experiment()["spec"]["scenarios"][0]["workload"],
            }]),
        ),
        (&format!("{KEY_VALUE}/roles"), json!([writer(), {"name": "b", "steps": 9, "mix": {"put": 1}}])),
        ("/spec/objectives", json!([{"metric": "throughput"}, {"metric": "db_bytes"}])),
        ("/spec/guardrails", json!([{"metric": "db_bytes"}, {"metric": "stall_fraction"}])),
        ("/spec/matrix/axes", matrix(&["memtable", "jobs"])["axes"].clone()),
    ];
    let with = |pointer: &str, value: Value| {
        let mut object = experiment();
        if pointer.starts_with("/spec/matrix") {
            object["spec"]["matrix"] = json!({"axes": value});
            return object;
        }
        with(pointer, value)
    };
    for (pointer, list) in pairs {
        let mut reversed = list.clone();
        reversed.as_array_mut().expect("a list").reverse();
        let (before, after) = (with(pointer, list), with(pointer, reversed));
        assert!(messages(&after, Some(&before)).contains(&ORDER.to_owned()), "{pointer}");
        assert!(!messages(&before, Some(&before)).contains(&ORDER.to_owned()), "{pointer} as it was");
    }
}

/// A field that the rule forgets could be changed while the experiment runs.
#[test]
fn every_field_is_immutable_or_meant_not_to_be() {
    let schema = schema::<TuningExperiment>().expect("the schema is generated");
    let spec = &schema["properties"]["spec"];
    let rules = spec["x-kubernetes-validations"].as_array().expect("the spec has rules");
    let rule = rules.iter().find(|rule| rule["message"] == IMMUTABLE).expect("one is about changes");
    let clauses: Vec<&str> = rule["rule"].as_str().expect("a rule is text").split(" && ").collect();
    let fields = spec["properties"].as_object().expect("the spec has fields");
    let mut seen = 0;
    for (name, field) in fields {
        // What has no default may be absent, which no comparison survives.
        let may_be_absent =
            field["default"].is_null() && !spec["required"].as_array().is_some_and(|r| r.contains(&json!(name)));
        let wanted = match field["type"].as_str() {
            // Only a list has an empty value of its type.
            Some("object" | "integer") if may_be_absent => vec![
                format!("has(self.{name}) == has(oldSelf.{name})"),
                format!("(!has(self.{name}) || self.{name} == oldSelf.{name})"),
            ],
            _ if may_be_absent => {
                vec![format!("(has(self.{name}) ? self.{name} : []) == (has(oldSelf.{name}) ? oldSelf.{name} : [])")]
            }
            _ => vec![format!("self.{name} == oldSelf.{name}")],
        };
        let changes = matches!(name.as_str(), "suspend" | "ttlSecondsAfterFinished" | "failedPodRetentionSeconds");
        for clause in wanted {
            assert_eq!(clauses.contains(&clause.as_str()), !changes, "{clause}");
            seen += usize::from(!changes);
        }
    }
    assert_eq!(clauses.len(), seen);
}

/// Every rule of the schema is in the tables above: a new one has to be tried before it can be committed.
#[test]
fn no_rule_is_untried() {
    fn rules(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(object) => {
                let own = object.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
                // Without a message of its own nobody could tell which one it is.
                found.extend(own.map(|rule| rule["message"].as_str().expect("a rule has a message").to_owned()));
                object.values().for_each(|value| rules(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| rules(value, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    rules(&schema::<TuningExperiment>().expect("the schema is generated"), &mut found);
    rules(&schema::<TuningTrial>().expect("the schema is generated"), &mut found);
    let tried = refused().into_iter().map(|(_, _, message)| message).chain([IMMUTABLE, ORDER]);
    assert_eq!(found, tried.map(str::to_owned).collect());
}
