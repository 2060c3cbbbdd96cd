use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::verdict::Role;

pub(crate) fn document() -> Value {
    json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        "metadata": {"name": "memtables"},
        "spec": {
            "seed": 7,
            "baseline": "large",
            "configs": [
                {"name": "large", "columnFamilies": [{"match": ["*"], "options": {"write_buffer_size": 67_108_864}}]},
                {
                    "name": "small",
                    "dbOptions": {"max_background_jobs": 4},
                    "columnFamilies": [{"match": ["state"], "options": {"write_buffer_size": "1048576"}}],
                },
            ],
            "scenarios": [{
                "name": "writes",
                "workload": {"keyValue": {
                    "keys": 100_000,
                    "valueBytes": {"fixed": 100},
                    "families": ["state", "blocks"],
                    "roles": [{"name": "writer", "steps": 20_000, "mix": {"put": 1}}],
                }},
            }],
            "repetitions": 8,
            "objectives": [{"metric": "throughput", "margin": "2.5%"}],
            "guardrails": [{"metric": "step_latency_p99"}],
        },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut document = document();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a parent");
    let parent = document.pointer_mut(parent).expect("the parent exists");
    match (parent, key.parse::<usize>()) {
        (Value::Array(items), Ok(index)) if index == items.len() => items.push(value),
        (parent, Ok(index)) => parent[index] = value,
        (parent, Err(_)) => parent[key] = value,
    }
    document
}

fn messages(document: &Value) -> Vec<String> {
    validate_document(document).problems.iter().map(ToString::to_string).collect()
}

pub(crate) fn experiment(document: &Value) -> Experiment {
    let validation = validate_document(document);
    validation.experiment.unwrap_or_else(|| unreachable!("{:?}", validation.problems))
}

const SCENARIO: &str = "/spec/scenarios/0";
const KEY_VALUE: &str = "/spec/scenarios/0/workload/keyValue";
const ROLE: &str = "/spec/scenarios/0/workload/keyValue/roles/0";

#[test]
fn a_sound_experiment_has_its_defaults() {
    let experiment = experiment(&document());
    assert_eq!(messages(&document()), Vec::<String>::new());
    assert_eq!((experiment.baseline, experiment.baseline_replicates, experiment.cpus), (0, 1, 1));
    let metrics: Vec<_> = experiment.metrics.iter().map(|rule| (rule.name.as_str(), rule.role, rule.margin)).collect();
    assert_eq!(
        metrics,
        [
            ("throughput", Role::Primary, 0.025),
            ("step_latency_p99", Role::Guardrail, 0.10),
            ("drained_throughput", Role::Guardrail, 0.05),
        ]
    );
    assert_eq!(experiment.max_block_duration_seconds, 14_400);
    assert_eq!(experiment.scenarios[0].deadline_seconds, 3600);
}

#[test]
fn a_config_is_the_baseline_and_its_own_options() {
    let experiment = experiment(&document());
    let small = experiment.config("small").expect("small exists");
    assert_eq!(small.engine.db_options, [("max_background_jobs".to_owned(), "4".to_owned())].into());
    let of = |family: &str| small.engine.family_options(family)["write_buffer_size"].clone();
    assert_eq!((of("state"), of("blocks")), ("1048576".to_owned(), "67108864".to_owned()));
    assert_eq!(
        small.changes,
        [
            "max_background_jobs: RocksDB's default -> 4",
            "write_buffer_size: 67108864 -> 1048576 (column families state)",
        ]
    );
    assert!(experiment.baseline_config().is_some_and(|baseline| baseline.changes.is_empty()));
}

#[test]
fn other_fields_override_as_well() {
    let mut document = with("/spec/configs/0/blockCache", json!({"size": "1Gi"}));
    document["spec"]["configs"][1]["blockCache"] = json!({"size": 1024, "sharing": "Private"});
    document["spec"]["configs"][1]["writeOptions"] = json!({"disableWAL": true});
    document["spec"]["configs"][1]["image"] = json!("registry/bench:2");
    let experiment = experiment(&document);
    let changes = &experiment.configs[1].changes;
    for line in [
        "image: registry/bench:2",
        "block cache: 1 GiB shared -> 1 KiB for each column family",
        "disableWAL: false -> true",
    ] {
        assert!(changes.contains(&line.to_owned()), "{line} in {changes:?}");
    }
    assert_eq!(
        messages(&document),
        [
            "note: spec.configs[1].image: runs a bench of its own: on one machine say which with `assay run --bench small=PATH`"
        ]
    );
}

#[test]
fn default_guardrail_has_its_exceptions() {
    let has = |document: &Value| experiment(document).metrics.iter().any(|rule| rule.name == "drained_throughput");
    assert!(has(&document()));
    assert!(!has(&with("/spec/defaultGuardrails", json!("Remove"))));
    let mut paced = with(&format!("{ROLE}/stepsPerSecond"), json!(1000));
    paced["spec"]["objectives"] = json!([{"metric": "step_latency_p90"}]);
    assert!(!has(&paced));
    // Named by the user, it keeps the user's margin.
    let named = with("/spec/guardrails/1", json!({"metric": "drained_throughput", "margin": "7%"}));
    let margins: Vec<f64> = experiment(&named)
        .metrics
        .iter()
        .filter(|rule| rule.name == "drained_throughput")
        .map(|rule| rule.margin)
        .collect();
    assert_eq!(margins, [0.07]);
}

#[test]
fn each_mistake_is_named() {
    let table = [
        ("/apiVersion", json!("assay.rocks/v2"), "apiVersion: must be assay.rocks/v1alpha1, not \"assay.rocks/v2\""),
        ("/kind", json!("Deployment"), "kind: must be TuningExperiment, not \"Deployment\""),
        ("/metadata", json!({}), "metadata: name is missing: results are filed under it"),
        ("/metadata/name", json!("n".repeat(64)), "metadata.name: has 64 characters, 63 at most"),
        ("/metadata/lables", json!({}), "metadata.lables: unknown field; did you mean labels?"),
        (
            "/specs",
            json!({}),
            "specs: unknown field; did you mean spec?; an experiment has apiVersion, kind, metadata and spec",
        ),
        ("/spec", json!(null), "spec is missing: it says what to compare"),
        ("/spec/baseline", json!("larg"), "spec.baseline: no config has the name \"larg\"; did you mean large?"),
        (
            "/spec/baseline",
            json!("other"),
            "spec.baseline: no config has the name \"other\"; the configs are large and small",
        ),
        (
            "/spec/configs/1/name",
            json!("large"),
            "spec.configs[1].name: \"large\" is there twice: spec.configs[0] has it already",
        ),
        (
            "/spec/configs/1",
            json!({"name": "small", "colunmFamilies": []}),
            "spec.configs[1].colunmFamilies: unknown field; did you mean columnFamilies?",
        ),
        ("/spec/repetition", json!(8), "spec.repetition: unknown field; did you mean repetitions?"),
        ("/spec/repetitions", json!("8"), "spec.repetitions: must be an integer, not \"8\"; remove the quotes"),
        ("/spec/seed", json!(-1), "spec.seed: must be at least 0, not -1"),
        (
            "/spec/configs/1/dbOptions",
            json!({"use_fsync": true}),
            "spec.configs[1].dbOptions.use_fsync: must be an integer or a string, not true; put it in quotes: \"true\"",
        ),
        (
            "/spec/configs/1/dbOptions",
            json!({"a": " "}),
            "spec.configs[1].dbOptions.a: has no value; leave it out to keep RocksDB's default",
        ),
        (
            "/spec/configs/1/dbOptions",
            json!({"a;b=c": 1}),
            "spec.configs[1].dbOptions[\"a;b=c\"]: is not the name of an option: names are of letters, digits and _",
        ),
        (
            "/spec/configs/1/dbOptions",
            json!({"wal_dir": "/x"}),
            "spec.configs[1].dbOptions.wal_dir: would put files outside of the trial's own directory, where they are neither counted nor removed",
        ),
        (
            "/spec/configs/1/columnFamilies/0/options",
            json!({"merge_operator": "x"}),
            "spec.configs[1].columnFamilies[0].options.merge_operator: belongs to the workload, which would read other data with another one",
        ),
        (
            "/spec/configs/1/columnFamilies/0/options",
            json!({"block_based_table_factory": "{block_size=4K; block_cache = 8M}"}),
            "spec.configs[1].columnFamilies[0].options.block_based_table_factory: block_cache can't be given as an option: use the config's field blockCache, which holds size and sharing",
        ),
        (
            "/spec/configs/1/columnFamilies/0/match",
            json!(["stat"]),
            "spec.configs[1].columnFamilies[0].match[0]: \"stat\" matches no column family; did you mean state?; the scenarios have blocks and state",
        ),
        (
            "/spec/configs/1/blockCache",
            json!({"size": "-1Gi"}),
            "spec.configs[1].blockCache.size: must be a quantity such as 512Mi, and not negative, not \"-1Gi\"",
        ),
        (
            "/spec/configs/1/blockCache",
            json!({"size": -5}),
            "spec.configs[1].blockCache.size: is negative: a size is at least 0",
        ),
        (
            "/spec/configs/1/blockCache",
            json!({"size": "1500m"}),
            "spec.configs[1].blockCache.size: is not a whole number of bytes",
        ),
        (
            "/spec/configs/1/writeOptions",
            json!({"sync": true, "disableWAL": true}),
            "spec.configs[1].writeOptions: sync waits for the write-ahead log that disableWAL skips: RocksDB refuses both; set one",
        ),
        (
            "/spec/configs/1/policy",
            json!({"retention": "1"}),
            "spec.configs[1].policy.retention: the workload keyValue of scenario \"writes\" declares no policy keys; remove it",
        ),
        (
            "/spec/objectives/0/metric",
            json!("througput"),
            "spec.objectives[0].metric: no metric has the name \"througput\"; did you mean throughput?",
        ),
        (
            "/spec/objectives/0/margin",
            json!("0%"),
            "spec.objectives[0].margin: must be above 0 % and below 100 %, such as 2%, not \"0%\"",
        ),
        (
            "/spec/objectives/0/margin",
            json!("100%"),
            "spec.objectives[0].margin: must be above 0 % and below 100 %, such as 2%, not \"100%\"",
        ),
        (
            "/spec/objectives/0/margin",
            json!("2 %"),
            "spec.objectives[0].margin: must be a percentage such as 2% or 2.5%, not \"2 %\"",
        ),
        (
            "/spec/guardrails/0/metric",
            json!("throughput"),
            "spec.guardrails[0].metric: throughput is an objective already, and an objective is guarded as well; remove it here",
        ),
        (
            "/spec/guardrails/0/metric",
            json!("step_latency_p999"),
            "spec.guardrails[0].metric: step_latency_p999 needs at least 100000 steps, so that 100 lie beyond it, but the primary role of scenario \"writes\" has 20000: raise spec.scenarios[0].workload.keyValue.roles[0].steps, or judge a lower quantile",
        ),
        (
            "/spec/repetitions",
            json!(4),
            "spec.repetitions: 4 blocks can't prove anything about 1 config against the baseline x 1 objective: no result can reach 5 % with fewer than 5; set 5 or more",
        ),
        (
            &format!("{SCENARIO}/dataset"),
            json!({"from": "smal"}),
            "spec.scenarios[0].dataset.from: no config has the name \"smal\"; did you mean small?",
        ),
        (
            &format!("{SCENARIO}/pageCache"),
            json!("evict"),
            "spec.scenarios[0].pageCache: must be one of Evict, Warm and Direct, not \"evict\"; did you mean Evict?",
        ),
        (
            &format!("{SCENARIO}/workload"),
            json!({}),
            "spec.scenarios[0].workload: set keyValue, the only one that exists (none is set)",
        ),
        (
            &format!("{KEY_VALUE}/valueBytes"),
            json!({"uniform": {"min": 9, "max": 3}}),
            "spec.scenarios[0].workload.keyValue.valueBytes.uniform: min 9 is above max 3",
        ),
        (
            &format!("{KEY_VALUE}/valueBytes"),
            json!({}),
            "spec.scenarios[0].workload.keyValue.valueBytes: set exactly one of fixed and uniform (none is set)",
        ),
        (
            &format!("{KEY_VALUE}/keyBytes"),
            json!(7),
            "spec.scenarios[0].workload.keyValue.keyBytes: must be at least 8, not 7",
        ),
        (
            &format!("{KEY_VALUE}/keys"),
            json!(1),
            "spec.scenarios[0].workload.keyValue.keys: 1 keys leave some of the 2 column families empty",
        ),
        (
            &format!("{KEY_VALUE}/roles/1"),
            json!({"name": "writer", "steps": 5, "mix": {"put": 1}}),
            "spec.scenarios[0].workload.keyValue.roles[1].name: \"writer\" is there twice: spec.scenarios[0].workload.keyValue.roles[0] has it already",
        ),
        (
            &format!("{ROLE}/mix"),
            json!({}),
            "spec.scenarios[0].workload.keyValue.roles[0].mix: has no operation: give at least one a weight above 0",
        ),
        (
            &format!("{ROLE}/zipfianExponent"),
            json!("0.99"),
            "spec.scenarios[0].workload.keyValue.roles[0].zipfianExponent: needs keyOrder: Zipfian; set it, or remove the exponent",
        ),
        (&format!("{ROLE}/threads"), json!(256), ""),
        (
            &format!("{SCENARIO}/deadlineSeconds"),
            json!(0),
            "spec.scenarios[0].deadlineSeconds: must be at least 1, not 0",
        ),
    ];
    for (pointer, value, message) in table {
        let expected: Vec<&str> = if message.is_empty() { vec![] } else { vec![message] };
        assert_eq!(messages(&with(pointer, value.clone())), expected, "{pointer} {value}");
    }
}

#[test]
fn combinations_are_checked() {
    let scan = {
        let mut document = with(&format!("{ROLE}/mix"), json!({"scan": 1}));
        document.pointer_mut(ROLE).expect("a role")["batch"] = json!(10);
        document
    };
    let zipf = {
        let mut document = with(&format!("{ROLE}/keyOrder"), json!("Zipfian"));
        document.pointer_mut(ROLE).expect("a role")["zipfianExponent"] = json!("0.0");
        document
    };
    let late = {
        let mut document = with(&format!("{ROLE}/stepsPerSecond"), json!(2));
        document["spec"]["objectives"] = json!([{"metric": "step_latency_p50"}]);
        document
    };
    let empty = {
        let mut document = with(&format!("{KEY_VALUE}/preload"), json!("Empty"));
        document["spec"]["scenarios"][0]["dataset"] = json!({"from": "small"});
        document
    };
    let direct = {
        let mut document = with(&format!("{SCENARIO}/pageCache"), json!("Direct"));
        document["spec"]["configs"][1]["dbOptions"] = json!({"use_direct_reads": "false"});
        document
    };
    let idle = {
        let mut document = with(&format!("{ROLE}/threads"), json!(8));
        document.pointer_mut(ROLE).expect("a role")["steps"] = json!(4);
        document["spec"]["guardrails"] = json!([]);
        document
    };
    let table = [
        (scan, "a scan can't be batched; set batch to 1 (is 10) or give scans a role of their own"),
        (zipf, "must be a decimal number above 0, such as 0.99, not \"0.0\""),
        (late, "20000 steps with 0 to warm up take 10000 s at 2 steps per second, beyond deadlineSeconds 3600"),
        (empty, "there are no data to migrate, as preload is Empty; remove one of them"),
        (direct, "contradicts pageCache: Direct of scenario \"writes\"; remove one of them"),
        (idle, "4 steps leave some of the 8 threads idle"),
        (
            with(&format!("{ROLE}/stepsPerSecond"), json!(1000)),
            "throughput can't improve in scenario \"writes\", which is paced by stepsPerSecond; judge a latency, or remove the pace",
        ),
        (
            with("/spec/guardrails/0/metric", json!("flush_count")),
            "flush_count informs, but can't be judged; these can: throughput",
        ),
    ];
    for (document, message) in table {
        let found = messages(&document);
        assert!(found.len() == 1 && found[0].contains(message), "{message} in {found:?}");
    }
}

#[test]
fn all_problems_come_at_once() {
    let mut document = with("/spec/baseline", json!("none"));
    document["spec"]["color"] = json!("red");
    document["spec"]["repetitions"] = json!(2);
    document["spec"]["objectives"][0]["metric"] = json!("speed");
    document["metadata"]["name"] = json!("Not A Name");
    let found = messages(&document);
    for field in ["metadata.name", "spec.color", "spec.baseline", "spec.objectives[0].metric", "spec.repetitions"] {
        assert!(found.iter().any(|message| message.starts_with(&format!("{field}: "))), "{field} in {found:?}");
    }
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn hints_that_are_no_errors() {
    let same = with("/spec/configs/1", json!({"name": "small"}));
    assert_eq!(
        messages(&same),
        [
            "note: spec.configs[1]: changes nothing against the baseline: an A/A comparison, which shows what noise looks like"
        ]
    );
    assert!(validate_document(&same).experiment.is_some());
    let mut second = document();
    let scenario = second["spec"]["scenarios"][0].clone();
    second["spec"]["scenarios"] = json!([scenario, scenario]);
    second["spec"]["scenarios"][1]["name"] = json!("again");
    second["spec"]["repetitions"] = json!(5);
    assert_eq!(
        messages(&second),
        [
            "warning: spec.repetitions: 5 blocks can decide the overall verdict, but not a single scenario: 1 config against the baseline x 1 objective x 2 scenarios need 6"
        ]
    );
    assert_eq!(messages(&with("/status", json!({}))), ["note: status: is ignored: only the operator writes it"]);
}

#[test]
fn a_family_of_one_scenario_is_enough_for_a_glob() {
    let mut document = document();
    let mut scenario = document["spec"]["scenarios"][0].clone();
    scenario["name"] = json!("other");
    scenario["workload"]["keyValue"]["families"] = json!(["extra"]);
    document["spec"]["scenarios"] = json!([document["spec"]["scenarios"][0], scenario]);
    document["spec"]["configs"][1]["columnFamilies"][0]["match"] = json!(["ext*"]);
    assert_eq!(messages(&document), Vec::<String>::new());
}

#[test]
fn limits_of_the_whole() {
    let mut document = with("/spec/repetitions", json!(1000));
    let scenario = document["spec"]["scenarios"][0].clone();
    let named = |index: usize| {
        let mut scenario = scenario.clone();
        scenario["name"] = json!(format!("s{index}"));
        scenario
    };
    document["spec"]["scenarios"] = (0..32).map(named).collect();
    let config = |index: usize| json!({"name": format!("c{index}"), "dbOptions": {"max_background_jobs": index}});
    document["spec"]["configs"] = (0..8).map(config).collect();
    document["spec"]["baseline"] = json!("c0");
    assert_eq!(
        messages(&document),
        ["spec.repetitions: makes 320000 trials, 100000 at most: use fewer repetitions, configs or scenarios"]
    );
}

#[test]
fn disk_is_checked_against_what_is_free() {
    let experiment = experiment(&document());
    let need = disk::need(&experiment.scenarios[0].workload);
    // 100 000 entries of 20 + 16 + 50 bytes, 10 % of them dead; written again, twice, with 20 000 more.
    assert_eq!(need, disk::DiskNeed { dataset_bytes: 9_460_000, trial_bytes: 22_360_000 });
    assert_eq!(disk::formats(&experiment, &experiment.scenarios[0]), 1);
    assert!(disk::check(&experiment, need.total(1)).is_empty());
    let problems: Vec<String> = disk::check(&experiment, need.total(1) - 1).iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "spec.scenarios[0].workload: scenario \"writes\" needs about 30.3 MiB of disk (9 MiB for 1 storage formats of the dataset, 21.3 MiB for the trial that runs) and 30.3 MiB are free: use fewer keys or steps, or a larger disk"
        ]
    );
    // A trial that has grown beyond everything it ever wrote, three times over, has run away.
    assert_eq!(experiment.scenarios[0].max_disk_bytes, 120_000 * 136 * 3 + (1 << 30));
}

#[test]
fn typed_specs_take_the_same_way() {
    let validation = validate_document(&document());
    let spec = validation.spec.expect("a spec");
    assert_eq!(validate("memtables", &spec).experiment, validation.experiment);
    let refused = validate("Not A Name", &spec);
    assert!(refused.experiment.is_none());
}

#[test]
fn the_digest_of_a_spec_ignores_how_it_is_written() {
    let written_down = with("/spec/placement", json!({"cpus": 1, "requireNvme": false}));
    assert_eq!(experiment(&written_down).spec, experiment(&document()).spec);
    assert_ne!(experiment(&with("/spec/seed", json!(8))).spec, experiment(&document()).spec);
    let mut renamed = document();
    renamed["metadata"]["name"] = json!("other");
    assert_eq!(experiment(&renamed).spec, experiment(&document()).spec);
}

#[test]
fn answers_of_the_bench_find_their_fields() {
    let validation = validate_document(&document());
    let questions = validation.questions();
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0].families, ["blocks", "state"]);
    assert_eq!(questions[0].configs.keys().collect::<Vec<_>>(), ["large", "small"]);
    let answer = serde_json::from_value(json!({
        "problems": [
            {"config": "small", "scope": "state", "option": "write_buffer_size", "message": "RocksDB has no such option", "suggestion": "wbs"},
            // Inherited from the baseline: one mistake, reported where it was made.
            {"config": "large", "scope": "blocks", "option": "write_buffer_size", "message": "no", "suggestion": null},
            {"config": "small", "scope": "blocks", "option": "write_buffer_size", "message": "no", "suggestion": null},
            {"config": "small", "scope": "", "option": "", "message": "can't be opened", "suggestion": null},
        ],
        "inert": [{"config": "small", "scope": "db", "option": "max_background_jobs", "message": "ignored"}],
        "sanitised": [{"config": "small", "scope": "state", "option": "write_buffer_size", "message": "kept 64 KiB"}],
        "allInert": ["small"],
    }))
    .expect("an answer");
    let problems: Vec<String> =
        answer_problems(&validation.spec.expect("a spec"), &answer).iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "spec.configs[0].columnFamilies[0].options.write_buffer_size: no",
            "spec.configs[1]: NoEffectPossible: nothing that this config declares reaches RocksDB (max_background_jobs), so it can't differ from the baseline; remove it",
            "spec.configs[1]: can't be opened",
            "spec.configs[1].columnFamilies[0].options.write_buffer_size: RocksDB has no such option; did you mean wbs?",
            "warning: spec.configs[1].columnFamilies[0].options.write_buffer_size: is changed by RocksDB: kept 64 KiB",
            "warning: spec.configs[1].dbOptions.max_background_jobs: reaches nothing: ignored",
        ]
    );
}

/// A document with one random value somewhere.
fn damaged() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        Just(json!([])),
        Just(json!(true)),
        any::<i64>().prop_map(|number| json!(number)),
        any::<u64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,20}".prop_map(|text| json!(text)),
    ];
    (any::<prop::sample::Index>(), value).prop_map(|(place, value)| {
        fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
            found.push(path.to_owned());
            match value {
                Value::Object(object) => {
                    object.iter().for_each(|(key, value)| pointers(value, &format!("{path}/{key}"), found))
                }
                Value::Array(items) => {
                    items
                        .iter()
                        .enumerate()
                        .for_each(|(index, value)| pointers(value, &format!("{path}/{index}"), found));
                }
                _ => {}
            }
        }
        let mut document = document();
        let mut found = Vec::new();
        pointers(&document, "", &mut found);
        *document.pointer_mut(&found[place.index(found.len())]).expect("the place exists") = value;
        document
    })
}

proptest! {
    #[test]
    fn damage_is_refused_in_words_or_harmless(document in damaged()) {
        let validation = validate_document(&document);
        prop_assert_eq!(validation.experiment.is_none(), validation.has_errors());
        if let Some(experiment) = validation.experiment {
            prop_assert!(Plan::new(experiment).is_ok());
        }
    }
}
