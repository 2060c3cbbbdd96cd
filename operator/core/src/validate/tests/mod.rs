use assay_protocol::PageCache;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::verdict::Purpose;

mod answers;
mod blockstore;
mod bounds;
mod broken;
mod ethrex;
mod mistakes;
mod queries;
mod reth_history;

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

/// What is said of the sound document after a change to its spec.
pub(crate) fn messages_with(change: impl Fn(&mut Value)) -> Vec<String> {
    let mut document = document();
    change(&mut document["spec"]);
    messages(&document)
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
    let metrics: Vec<_> =
        experiment.metrics.iter().map(|rule| (rule.name.as_str(), rule.purpose, rule.margin)).collect();
    assert_eq!(
        metrics,
        [
            ("throughput", Purpose::Objective, 0.025),
            ("step_latency_p99", Purpose::Guardrail, 0.10),
            ("drained_throughput", Purpose::Guardrail, 0.05),
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
        ["note: spec.configs[1].image: runs its own bench: for a local run, pass the binary with `--bench small=PATH`"]
    );
}

#[test]
fn default_guardrail_has_its_exceptions() {
    let has = |document: &Value| experiment(document).metrics.iter().any(|rule| rule.name == "drained_throughput");
    assert!(has(&document()));
    assert!(!has(&with("/spec/defaultGuardrails", json!("Remove"))));
    let mut paced = with(&format!("{ROLE}/stepsPerSecond"), json!(1000));
    paced["spec"]["objectives"] = json!([{"metric": "step_latency_p90"}]);
    assert!(has(&paced), "a pace fixes the throughput, but not the drain");
    // Where nothing is written nothing is left to compact, but for what another config has left.
    let mut reads = with(&format!("{ROLE}/mix"), json!({"get": 1}));
    reads["spec"]["scenarios"] = json!([reads["spec"]["scenarios"][0]]);
    assert!(!has(&reads));
    reads["spec"]["scenarios"][0]["dataset"] = json!({"from": reads["spec"]["baseline"]});
    assert!(has(&reads));
    // Objectives that are all latencies bring the rate along, unless it is judged already.
    let rates = |document: &Value| {
        let metrics = experiment(document).metrics;
        metrics
            .iter()
            .filter(|rule| rule.name == "throughput")
            .map(|rule| (rule.purpose, rule.margin))
            .collect::<Vec<_>>()
    };
    let judged = |objectives: Value| with("/spec/objectives", objectives);
    let latency = judged(json!([{"metric": "step_latency_p90"}]));
    assert_eq!(rates(&latency), [(Purpose::Guardrail, 0.05)]);
    assert_eq!(rates(&paced), [(Purpose::Guardrail, 0.05)]);
    assert_eq!(rates(&document()), [(Purpose::Objective, 0.025)]);
    assert_eq!(rates(&judged(json!([{"metric": "step_latency_p90"}, {"metric": "db_bytes"}]))), []);
    let mut named = latency.clone();
    named["spec"]["guardrails"] = json!([{"metric": "throughput", "margin": "8%"}]);
    assert_eq!(rates(&named), [(Purpose::Guardrail, 0.08)]);
    let mut removed = latency;
    removed["spec"]["defaultGuardrails"] = json!("Remove");
    assert_eq!(rates(&removed), []);
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

/// As a branch is on the night after its release.
#[test]
fn two_configs_of_one_image_are_an_a_a_comparison() {
    let changes = |own: Value, baseline: Value| {
        let mut document = with("/spec/configs/1", json!({"name": "small", "image": own}));
        document["spec"]["configs"][0]["image"] = baseline;
        let experiment = validate_document(&document).experiment.unwrap();
        experiment.configs[1].changes.clone()
    };
    assert_eq!(changes(json!("r.example/bench:1"), json!("r.example/bench:1")), [""; 0]);
    assert_eq!(changes(json!("r.example/bench:2"), json!("r.example/bench:1")), ["image: r.example/bench:2"]);
}

#[test]
fn hints_that_are_no_errors() {
    let same = with("/spec/configs/1", json!({"name": "small"}));
    assert_eq!(
        messages(&same),
        ["note: spec.configs[1]: is identical to the baseline: this A/A comparison shows the noise"]
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
            "warning: spec.repetitions: 5 repetitions can't show harm of the config; 7 can: a loss of any size in every block would stay unproven",
            "warning: spec.repetitions: 5 blocks can decide the overall verdict, but not the verdicts per scenario: 1 config against the baseline x 1 objective x 2 scenarios need 6"
        ]
    );
    // As many as are needed are enough.
    second["spec"]["repetitions"] = json!(6);
    let found = messages(&second);
    assert!(matches!(&found[..], [only] if only.contains("can't show harm")), "{found:?}");
    second["spec"]["repetitions"] = json!(7);
    assert_eq!(messages(&second), Vec::<String>::new());
    assert_eq!(messages(&with("/status", json!({}))), ["note: status: is ignored: only the operator sets it"]);
}

/// Five configs beside the baseline, and three objectives.
fn many_claims(spec: &mut Value) {
    let config = |number: i32| json!({"name": format!("c{number}"), "dbOptions": {"max_background_jobs": number}});
    let all: Vec<Value> = (1..=5).map(config).chain([spec["configs"][0].clone()]).collect();
    spec["configs"] = json!(all);
    let metrics = ["throughput", "step_latency_mean", "write_amplification"];
    spec["objectives"] = json!(metrics.map(|metric| json!({"metric": metric})));
}

/// Of 25 blocks a look after ten may spend 5 % x (10 / 25)^2 = 0.8 %. One claim needs 2^-10 = 0.1 %, and fifteen need 1.5 %.
#[test]
fn a_look_has_to_be_enough_for_all_claims() {
    let looks = |document: &Value| experiment(document).looks.map(|looks| looks.blocks);
    let mut document = with("/spec/repetitions", json!(25));
    assert_eq!(looks(&document), Some(vec![10, 17, 25]));
    many_claims(&mut document["spec"]);
    assert_eq!(looks(&document), Some(vec![17, 25]));
}

/// Claims are made of each config on each objective in each scenario: 30 need 2^-n <= 5 % / 30. So do those of harm, of five metrics and
/// of failures.
#[test]
fn blocks_are_counted_for_all_claims_of_scenarios() {
    let found = messages_with(|spec| {
        many_claims(spec);
        let mut again = spec["scenarios"][0].clone();
        again["name"] = json!("again");
        spec["scenarios"] = json!([spec["scenarios"][0], again]);
        spec["repetitions"] = json!(9);
    });
    let told = "9 blocks can decide the overall verdict, but not the verdicts per scenario: 5 configs against the baseline x 3 \
                objectives x 2 scenarios need 10";
    assert!(found.iter().any(|message| message.ends_with(told)), "{found:#?}");
    let told = "9 repetitions can't show harm of one of 5 configs; 10 can: a loss of any size in every block would stay unproven";
    assert!(found.iter().any(|message| message.ends_with(told)), "{found:#?}");
    let found = messages_with(|spec| {
        many_claims(spec);
        spec["repetitions"] = json!(8);
    });
    let told = "8 blocks can't prove anything about 5 configs against the baseline x 3 objectives: no result is significant at 5 % with \
                fewer than 9; set 9 or more";
    assert!(found.iter().any(|message| message.ends_with(told)), "{found:#?}");
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
    let config = |index: usize| json!({"name": format!("c{index}"), "dbOptions": {"max_background_jobs": index + 1}});
    document["spec"]["configs"] = (0..8).map(config).collect();
    document["spec"]["baseline"] = json!("c0");
    assert_eq!(
        messages(&document),
        ["spec.repetitions: makes 320000 trials, at most 100000 allowed: use fewer repetitions, configs or scenarios"]
    );
    // Ten runs in each block: the baseline has three.
    document["spec"]["scenarios"] = (0..10).map(named).collect();
    assert_eq!(messages(&document), Vec::<String>::new());
}

#[test]
fn disk_is_checked_against_what_is_free() {
    let experiment = experiment(&document());
    let need = disk::need(&experiment.scenarios[0].workload);
    // 100 000 entries of 20 + 16 + 50 bytes, 10 % of them dead; written again, twice, with 20 000 more.
    assert_eq!(need, disk::DiskNeed { dataset_bytes: 9_460_000, trial_bytes: 22_360_000 });
    assert_eq!(crate::plan::formats(&experiment, &experiment.scenarios[0]), 1);
    // A trial that has grown beyond everything it ever wrote, three times over, has run away.
    let limit = 120_000 * 136 * 3 + (1 << 30);
    assert_eq!(experiment.scenarios[0].max_disk_bytes, limit);
    let room = disk::room(&experiment);
    assert_eq!(room, disk::Room { datasets_bytes: 9_460_000, scenario: 0, trial_bytes: limit });
    assert_eq!(disk::check(&experiment, room.total()), None);
    let problem = disk::check(&experiment, room.total() - 1).expect("it does not fit").to_string();
    assert_eq!(
        problem,
        "spec.scenarios[0].workload: the experiment needs 1.1 GiB of disk (9 MiB for datasets, 1 GiB per trial of scenario \"writes\"; killed above that), but only 1.1 GiB is free: use fewer keys or steps, or a larger disk"
    );
    // Datasets stay beside each other, trials don't.
    let mut twice = experiment.clone();
    twice.scenarios.push(twice.scenarios[0].clone());
    twice.scenarios[1].max_disk_bytes += 1;
    let both = disk::Room { datasets_bytes: 2 * 9_460_000, scenario: 1, trial_bytes: limit + 1 };
    assert_eq!(disk::room(&twice), both);
    // Of equal ones it is the first.
    twice.scenarios[1].max_disk_bytes = limit;
    assert_eq!(disk::room(&twice), disk::Room { scenario: 0, trial_bytes: limit, ..both });
    // Three datasets and a trial.
    assert_eq!(disk::DiskNeed { dataset_bytes: 7, trial_bytes: 5 }.total(3), 26);
    assert!(disk::check(&twice, room.total()).is_some());
}

#[test]
fn a_cluster_may_give_the_name() {
    let named = with("/metadata", json!({"generateName": "nightly-"}));
    assert_eq!(messages(&named), Vec::<String>::new());
    assert_eq!(experiment(&named).name, "nightly");
    assert_eq!(
        messages(&with("/metadata", json!({"generateName": null}))),
        ["metadata: name is required: results are stored under it"]
    );
    let found = messages(&with("/metadata", json!({"generateName": "Nightly-"})));
    assert!(matches!(&found[..], [only] if only.starts_with("metadata.generateName: must be ")), "{found:?}");
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
    let paused = with("/spec/suspend", json!(true));
    assert_eq!(experiment(&paused).spec, experiment(&document()).spec, "a pause is not another experiment");
    let kept = with("/spec/ttlSecondsAfterFinished", json!(60));
    assert_eq!(experiment(&kept).spec, experiment(&document()).spec);
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
        "sanitised": [{"config": "small", "scope": "state", "option": "write_buffer_size", "message": "RocksDB uses 64 KiB"}],
        "allInert": ["small"],
    }))
    .expect("an answer");
    let problems: Vec<String> = validation.answer_problems(&answer).iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "spec.configs[0].columnFamilies[0].options.write_buffer_size: no",
            "spec.configs[1]: NoEffectPossible: none of this config's options has an effect (max_background_jobs), so it can't differ from the baseline; remove it",
            "spec.configs[1]: can't be opened",
            "spec.configs[1].columnFamilies[0].options.write_buffer_size: RocksDB has no such option; did you mean wbs?",
            "warning: spec.configs[1].columnFamilies[0].options.write_buffer_size: RocksDB uses 64 KiB",
            "warning: spec.configs[1].dbOptions.max_background_jobs: has no effect: ignored",
        ]
    );
}

#[test]
fn keys_of_a_nested_option_are_found_where_they_were_declared() {
    let table = json!("{block_size=16384;filter_policy=blom:10}");
    let document = with("/spec/configs/1/columnFamilies/0/options/block_based_table_factory", table);
    let validation = validate_document(&document);
    let note = |key: &str, message: &str| {
        let option = format!("block_based_table_factory.{key}");
        json!({"config": "small", "scope": "state", "option": option, "message": message})
    };
    let answer = serde_json::from_value(json!({
        "problems": [], "inert": [note("filter_policy", "RocksDB keeps nullptr")],
        "sanitised": [note("block_size", "RocksDB uses 2 instead of 1")], "allInert": [],
    }));
    let problems: Vec<String> =
        validation.answer_problems(&answer.expect("an answer")).iter().map(ToString::to_string).collect();
    let field = "spec.configs[1].columnFamilies[0].options.block_based_table_factory";
    assert_eq!(
        problems,
        [
            format!("warning: {field}: block_size: RocksDB uses 2 instead of 1"),
            format!("warning: {field}: filter_policy has no effect: RocksDB keeps nullptr"),
        ]
    );
}

#[test]
fn what_is_refused_anyway_is_not_tried() {
    let document = with("/spec/configs/1/dbOptions", json!({"wal_dir": "/elsewhere", "max_background_jobs": "4"}));
    let validation = validate_document(&document);
    assert!(
        validation.problems.iter().any(|problem| problem.to_string().contains("dbOptions.wal_dir: would put files"))
    );
    let asked = &validation.questions()[0].configs["small"].db_options;
    assert_eq!(asked.keys().collect::<Vec<_>>(), ["max_background_jobs"]);
    let document = with("/spec/configs/1/columnFamilies/0/options", json!({"merge_operator": "x", "ttl": 60}));
    let asked = &validate_document(&document).questions()[0].configs["small"].column_families;
    // Beside what the baseline has.
    assert_eq!(asked[1].options.keys().collect::<Vec<_>>(), ["ttl"]);
}

#[test]
fn each_way_to_use_the_page_cache_is_asked_about_once() {
    let asked = |caches: &[&str]| -> Vec<PageCache> {
        let mut document = document();
        let scenario = |cache: &&str| {
            let mut scenario = document["spec"]["scenarios"][0].clone();
            (scenario["name"], scenario["pageCache"]) = (json!(cache.to_lowercase()), json!(cache));
            scenario
        };
        document["spec"]["scenarios"] = caches.iter().map(scenario).collect();
        validate_document(&document).questions().iter().map(|question| question.page_cache).collect()
    };
    assert_eq!(asked(&["Evict", "Warm"]), [PageCache::Evict]);
    assert_eq!(asked(&["Direct"]), [PageCache::Direct]);
    assert_eq!(asked(&["Direct", "Warm"]), [PageCache::Evict, PageCache::Direct]);
}

#[test]
fn what_writes_nothing_has_no_write_amplification() {
    let mut document = with("/spec/guardrails/0", json!({"metric": "write_amplification"}));
    assert_eq!(messages(&document), [""; 0]);
    document["spec"]["scenarios"][0]["workload"]["keyValue"]["roles"][0]["mix"] = json!({"get": 1});
    assert_eq!(
        messages(&document),
        [
            "spec.guardrails[0].metric: scenario \"writes\" writes nothing, so it has no write_amplification; remove one of them"
        ]
    );
}

#[test]
fn databases_are_in_one_place() {
    let messages = |storage: Value| messages(&with("/spec/placement", json!({"storage": storage})));
    let rule = "spec.placement.storage: set exactly one of persistentVolumeClaim, emptyDir and hostPath";
    assert_eq!(messages(json!({})), [format!("{rule} (none is set)")]);
    assert_eq!(messages(json!({"emptyDir": {}, "hostPath": {"path": "/x"}})), [format!("{rule} (2 are set)")]);
    assert_eq!(messages(json!({"emptyDir": {}})), [""; 0]);
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
                    object.iter().for_each(|(key, value)| pointers(value, &format!("{path}/{key}"), found));
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
        document["spec"]["matrix"] = json!({
            "axes": [
                {"name": "memtable", "values": [
                    {"columnFamilies": [{"match": ["*"], "options": {"write_buffer_size": "1M"}}], "blockCache": {"size": "8Mi"}},
                    {"name": "same"},
                ]},
                {"name": "build", "values": [{"image": "bench:2", "writeOptions": {"sync": true}}, {"dbOptions": {"ttl": 3}}]},
            ],
            "exclude": [{"memtable": "same", "build": 3}],
        });
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

#[test]
fn sizes_and_scenarios_have_margins_of_their_own() {
    let declared = json!([{"metric": "throughput", "margin": "5%", "atLeast": "3%", "scenarioMargin": "4%"}]);
    let rules = experiment(&with("/spec/objectives", declared)).metrics;
    assert_eq!((rules[0].at_least, rules[0].scenario_margin), (Some(0.03), Some(0.04)));
    // Without it an objective may lose its margin in a scenario, and a guardrail twice that.
    let rules = experiment(&document()).metrics;
    let of = |purpose| rules.iter().find(|rule| rule.purpose == purpose).unwrap_or_else(|| unreachable!());
    assert_eq!(of(Purpose::Objective).margin_per_scenario(), of(Purpose::Objective).margin);
    assert_eq!(of(Purpose::Guardrail).margin_per_scenario(), 2.0 * of(Purpose::Guardrail).margin);

    let said = |pointer: &str, value: Value| messages(&with(pointer, value));
    assert_eq!(
        said("/spec/guardrails/0/atLeast", json!("3%")),
        ["spec.guardrails[0].atLeast: a guardrail has nothing to gain: make it an objective, or remove atLeast"]
    );
    assert_eq!(
        said("/spec/objectives/0/scenarioMargin", json!("0%")),
        ["spec.objectives[0].scenarioMargin: must be above 0 % and below 100 %, such as 2%, not \"0%\""]
    );
}

#[test]
fn a_margin_may_be_too_wide_to_mean_anything() {
    let wide = messages(&with("/spec/objectives/0/margin", json!("16%")));
    assert_eq!(
        wide,
        [
            "warning: spec.objectives[0].margin: is more than 3 times the usual 5 %: a throughput almost that much worse still \
             counts as unchanged"
        ]
    );
    assert!(messages(&with("/spec/objectives/0/margin", json!("15%"))).is_empty());
    // Three times 1 % is exact.
    let stalls =
        |margin: &str| messages(&with("/spec/guardrails/0", json!({"metric": "stall_fraction", "margin": margin})));
    assert_eq!(stalls("3%"), Vec::<String>::new());
    assert!(matches!(&stalls("3.1%")[..], [only] if only.contains("is more than 3 times the usual 1 %")));
}

#[test]
fn machines_are_shared_unless_cpus_must_be_exclusive() {
    let of = |placement: Value| experiment(&with("/spec/placement", placement)).environment;
    assert_eq!(of(json!({})), Environment::Shared);
    assert_eq!(of(json!({"requireExclusiveCpus": "Require"})), Environment::Dedicated);
    assert_eq!(of(json!({"environment": "Dedicated"})), Environment::Dedicated);
    assert_eq!(of(json!({"environment": "Shared", "requireExclusiveCpus": "Require"})), Environment::Shared);
    // It is judged by it, so it is part of the plan.
    let digest =
        |placement: Value| Plan::new(experiment(&with("/spec/placement", placement))).map(|plan| plan.digest).ok();
    assert_ne!(digest(json!({})), digest(json!({"environment": "Dedicated"})));
}
