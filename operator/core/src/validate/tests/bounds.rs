//! What may not be set at all, and the bounds of what may: each at its last good value and beyond it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{experiment, messages, with};
use crate::attempt::Moment;
use crate::decide::{Action, decide};
use crate::plan::Plan;
use crate::validate::problem::FieldPath;
use crate::validate::schema;

const WORKLOAD: &str = "is fixed by the workload, because another one would change the data it reads; remove it. A config can set \
    RocksDB's other options (dbOptions, columnFamilies), blockCache, writeOptions";
const PLACE: &str = "would put files outside the trial's directory, where they are not counted or removed";
const CACHE: &str = "can't be set as an option; use the config's blockCache field (size and sharing)";

/// In either place, alone or as a part of another option.
#[test]
fn options_of_the_bench_are_refused_with_the_reason() {
    let owned = [
        ("merge_operator", WORKLOAD),
        ("comparator", WORKLOAD),
        ("create_if_missing", "is set by the bench, which creates the database"),
        ("create_missing_column_families", "is set by the bench, which creates the column families"),
        ("error_if_exists", "is set by the bench, which clones the dataset"),
        ("wal_dir", PLACE),
        ("db_log_dir", PLACE),
        ("db_paths", PLACE),
        ("cf_paths", PLACE),
        ("env", PLACE),
        ("statistics", "is set by the bench, which reads it as evidence"),
        ("block_cache", CACHE),
        ("row_cache", "is an object, so an option string can't set it"),
        ("rate_limiter", "is an object; use rate_limiter_bytes_per_sec"),
        ("comparator.id", WORKLOAD),
        ("block_based_table_factory.block_cache", CACHE),
        ("block_based_table_factory.block_cache.capacity", CACHE),
        ("table_factory.block_cache", CACHE),
    ];
    assert_eq!(crate::validate::configs::owned().filter(|name| owned.iter().all(|(own, _)| own != name)).count(), 0);
    for (option, why) in owned {
        for (pointer, field) in [
            ("/spec/configs/1/dbOptions", "spec.configs[1].dbOptions"),
            ("/spec/configs/1/columnFamilies/0/options", "spec.configs[1].columnFamilies[0].options"),
        ] {
            let key = if option.contains('.') { format!("[{option:?}]") } else { format!(".{option}") };
            assert_eq!(messages(&with(pointer, json!({option: "1"}))), [format!("{field}{key}: {why}")]);
        }
    }
    for option in ["rate_limiter_bytes_per_sec", "statistics_", "block_based_table_factory.block_size", "blob_cache"] {
        assert_eq!(
            messages(&with("/spec/configs/1/dbOptions", json!({option: "1"}))),
            Vec::<String>::new(),
            "{option}"
        );
    }
}

#[test]
fn what_is_no_name_of_an_option_is_refused() {
    for name in ["a b", "a=1;b", "a-b", "a{b", "ä", "a\nb", " "] {
        let found = messages(&with("/spec/configs/1/dbOptions", json!({name: "1"})));
        let path = FieldPath::root().keys("spec.configs").index(1).key("dbOptions").key(name);
        assert_eq!(found, [format!("{path}: is not an option name; use letters, digits and _")]);
    }
}

#[test]
fn sizes_end_where_whole_numbers_do() {
    type Placed = fn(&str) -> Value;
    let folder = |size: &str| json!({"storage": {"emptyDir": {"sizeLimit": size}}});
    let claim = |size: &str| json!({"storage": {"persistentVolumeClaim": {"storageClassName": "local", "size": size}}});
    let places: [(&str, &str, Placed); 4] = [
        ("/spec/configs/1/blockCache", "spec.configs[1].blockCache.size", |size| json!({"size": size})),
        ("/spec/placement", "spec.placement.memory", |size| json!({"memory": size})),
        ("/spec/placement", "spec.placement.storage.emptyDir.sizeLimit", folder),
        ("/spec/placement", "spec.placement.storage.persistentVolumeClaim.size", claim),
    ];
    for (pointer, field, value) in places {
        for beyond in ["9223372036854775808", "8Ei", "1e30"] {
            let found = messages(&with(pointer, value(beyond)));
            let expected = format!("{field}: is too large; the limit is 2^63 - 1 bytes");
            assert!(found.contains(&expected), "{beyond}: {found:?}");
        }
        let found = messages(&with(pointer, value("9223372036854775807")));
        assert!(!found.iter().any(|message| message.contains("too large")), "{found:?}");
    }
    // An option's value is a number of YAML, or a text of which RocksDB makes what it can.
    for (value, found) in [
        (json!(i64::MAX), vec![]),
        (
            json!(u64::MAX),
            vec![
                "spec.configs[1].dbOptions.x: 18446744073709551615 is too large for a 64-bit integer; put it in quotes: \
                  \"18446744073709551615\"",
            ],
        ),
        (json!(u64::MAX.to_string()), vec![]),
    ] {
        assert_eq!(messages(&with("/spec/configs/1/dbOptions", json!({"x": value}))), found);
    }
}

/// A step from a value to a part of it.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Item,
}

/// One bound of the schema, and where it stands.
#[derive(Debug)]
struct Bound {
    steps: Vec<Step>,
    rule: String,
    limit: i64,
}

fn bounds(schema: &Value, steps: &[Step], found: &mut Vec<Bound>) {
    let rules =
        ["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    for rule in rules {
        if let Some(limit) = schema[rule].as_i64() {
            found.push(Bound { steps: steps.to_vec(), rule: rule.to_owned(), limit });
        }
    }
    let below = |step: Step| [steps, &[step]].concat();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        bounds(property, &below(Step::Key(key.clone())), found);
    }
    if schema["items"].is_object() {
        bounds(&schema["items"], &below(Step::Item), found);
    }
    if schema["additionalProperties"].is_object() {
        bounds(&schema["additionalProperties"], &below(Step::Key("any".to_owned())), found);
    }
}

impl Bound {
    /// A value of this size.
    fn value(&self, size: i64) -> Value {
        let count = usize::try_from(size).unwrap_or_default();
        match &self.rule[3..] {
            "imum" => json!(size),
            "Length" => json!("a".repeat(count)),
            "Items" => (0..count).map(|item| json!(item)).collect(),
            _ => Value::Object((0..count).map(|key| (format!("k{key}"), json!("1"))).collect::<Map<_, _>>()),
        }
    }

    /// What is said of a value of this size in this place.
    fn said(&self, schema: &Value, size: i64) -> Vec<String> {
        let around = |inner: Value, step: &Step| match step {
            Step::Key(key) => json!({key: inner}),
            Step::Item => json!([inner]),
        };
        let document = self.steps.iter().rev().fold(self.value(size), around);
        let path = self.steps.iter().fold(FieldPath::root(), |path, step| match step {
            Step::Key(key) => path.key(key),
            Step::Item => path.index(0),
        });
        let of_size = |message: &String| {
            ["must be at ", "must not be empty", "needs at least", "allowed"]
                .iter()
                .any(|words| message.contains(words))
        };
        let problems = schema::check(schema, &document, &FieldPath::root()).into_iter();
        problems.filter(|problem| problem.path == path).map(|problem| problem.message).filter(of_size).collect()
    }
}

#[test]
fn every_bound_of_the_schema_is_its_last_good_value() {
    let schema = assay_api::schema::<assay_api::TuningExperiment>().unwrap_or_else(|error| unreachable!("{error}"));
    let schema = &schema["properties"]["spec"];
    let mut found = Vec::new();
    bounds(schema, &[], &mut found);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for bound in &found {
        *kinds.entry(&bound.rule).or_default() += 1;
        let is_least = bound.rule.starts_with("min");
        let (inside, beyond) = if is_least { (1, -1) } else { (-1, 1) };
        for good in [bound.limit, bound.limit + inside] {
            assert_eq!(bound.said(schema, good), Vec::<String>::new(), "{bound:?} at {good}");
        }
        // Nothing has fewer than no parts.
        if bound.rule != "minimum" && is_least && bound.limit == 0 {
            continue;
        }
        let said = bound.said(schema, bound.limit + beyond);
        assert!(said.len() == 1, "{bound:?} beyond: {said:?}");
        let names_it = said[0].contains(&bound.limit.to_string()) || said[0] == "must not be empty";
        assert!(names_it, "{bound:?}: {said:?}");
    }
    assert!(found.len() > 150 && kinds.len() >= 7, "{kinds:?}");
}

/// As many of everything as the schema and the limit on trials allow.
#[test]
fn an_experiment_at_its_maxima_is_planned() {
    let family = |index: usize| format!("{index:0>63}").replacen('0', "f", 1);
    let families: Vec<String> = (0..32).map(family).collect();
    let role = |index: usize| json!({"name": format!("r{index:0>15}"), "threads": 256, "steps": 1_000_000_000_000_u64, "warmupSteps": 1_000_000, "mix": {"put": 1000}});
    let scenario = |index: usize| {
        json!({
            "name": format!("s{index:0>62}"),
            "weight": 1000,
            "deadlineSeconds": 604_800,
            "workload": {"keyValue": {
                "keys": 100_000_000_000_u64, "keyBytes": 1024, "valueBytes": {"fixed": 16_777_216}, "families": families,
                "roles": (0..8).map(role).collect::<Vec<_>>(),
            }},
        })
    };
    let config = |index: usize| {
        let entry = |family: &String| json!({"match": [family], "options": {"write_buffer_size": (index + 1) << 20}});
        json!({"name": format!("c{index:0>62}"), "columnFamilies": families.iter().map(entry).collect::<Vec<_>>()})
    };
    let mut document = with("/spec/repetitions", json!(45));
    document["metadata"]["name"] = json!("e".repeat(63));
    let spec = &mut document["spec"];
    spec["configs"] = (0..65).map(config).collect();
    spec["baseline"] = spec["configs"][0]["name"].clone();
    spec["scenarios"] = (0..32).map(scenario).collect();
    spec["placement"] = json!({"cpus": 1024});
    spec["maxBlockDurationSeconds"] = json!(604_800);
    spec["seed"] = json!(9_007_199_254_740_991_u64);
    spec.as_object_mut().unwrap_or_else(|| unreachable!()).remove("guardrails");
    let experiment = experiment(&document);
    let plan = Plan::new(experiment).unwrap_or_else(|error| unreachable!("{error}"));
    // The baseline has four runs in each block.
    assert_eq!(plan.trials().count(), 32 * 45 * (64 + 4));
    let first = decide(&plan, &[], Moment { unix_ms: 0, boot: None });
    assert!(matches!(&first, Ok(Action::Run { block: 0, slot: 0, .. })), "{first:?}");
    let last = plan.blocks.last().unwrap_or_else(|| unreachable!());
    let spec = plan.trial_spec(last, last.slots.len() - 1, 0).unwrap_or_else(|error| unreachable!("{error}"));
    assert_eq!(spec.tuned_families.len(), 32);
    // One repetition more is one too many.
    document["spec"]["repetitions"] = json!(46);
    let found = messages(&document);
    assert!(found.iter().any(|message| message.contains("at most 100000 allowed")), "{found:?}");
}
