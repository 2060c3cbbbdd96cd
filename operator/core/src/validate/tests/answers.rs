//! What RocksDB says about options, as problems of the file.

use assay_protocol::OptionsAnswer;
use serde_json::{Value, json};

use super::{document, validate_document, with};

fn answer(value: Value) -> OptionsAnswer {
    serde_json::from_value(value).expect("an answer")
}

fn problem(config: &str, scope: &str, option: &str, message: &str) -> Value {
    json!({"config": config, "scope": scope, "option": option, "message": message, "suggestion": null})
}

/// What is said of a document once RocksDB has given this answer.
fn said(document: &Value, given: &OptionsAnswer) -> Vec<String> {
    let mut validation = validate_document(document);
    validation.add_answer(given);
    assert_eq!(validation.experiment.is_none(), validation.has_errors());
    validation.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn rocksdb_is_asked_about_no_invented_value() {
    let options = json!({"use_fsync": true, "max_background_jobs": 4.5, "a": [1], "b": {"c": 1}, "bytes_per_sync": 7});
    let validation = validate_document(&with("/spec/configs/1/dbOptions", options));
    let asked = &validation.questions()[0].configs["small"].db_options;
    let expected = [("bytes_per_sync", "7"), ("max_background_jobs", "4.5"), ("use_fsync", "true")];
    assert_eq!(asked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
}

#[test]
fn of_a_value_without_quotes_rocksdb_has_the_last_word() {
    let document = with("/spec/configs/1/dbOptions", json!({"max_background_jobs": 4.5, "use_fsync": true}));
    let field = "spec.configs[1].dbOptions";
    let quotes = format!("{field}.use_fsync: must be an integer or a string, not true; put it in quotes: \"true\"");
    let whole = problem("small", "db", "max_background_jobs", "write a whole number");
    let given = answer(json!({"problems": [whole], "inert": [], "sanitised": [], "allInert": []}));
    assert_eq!(said(&document, &given), [quotes, format!("{field}.max_background_jobs: write a whole number")]);
    // Of another mistake the same place has only one line as well.
    let document = with("/spec/configs/1/dbOptions", json!({"max_background_jobs": " "}));
    assert_eq!(
        said(&document, &given),
        [format!("{field}.max_background_jobs: has no value; leave it out to keep RocksDB's default")]
    );
}

#[test]
fn no_glob_is_about_the_database() {
    let mut document = with("/spec/configs/0/dbOptions", json!({"max_background_jobs": "four"}));
    let entry = json!({"match": ["*"], "options": {"max_background_jobs": 3}});
    document["spec"]["configs"][1] = json!({"name": "small", "columnFamilies": [entry]});
    let problems = ["large", "small"].map(|config| problem(config, "db", "max_background_jobs", "no"));
    let given = answer(json!({"problems": problems, "inert": [], "sanitised": [], "allInert": []}));
    assert_eq!(said(&document, &given), ["spec.configs[0].dbOptions.max_background_jobs: no"]);
}

#[test]
fn configs_with_one_name_are_asked_about_apart() {
    let mut document = document();
    let configs = document["spec"]["configs"].as_array_mut().expect("a list");
    configs.push(json!({"name": "small", "dbOptions": {"x": 1}}));
    configs.push(json!({"name": "large", "dbOptions": {"y": 1}}));
    configs[1]["columnFamilies"] = json!([{"match": ["*"], "options": {"z": 1}}]);
    let validation = validate_document(&document);
    let question = &validation.questions()[0];
    assert_eq!(question.configs.keys().collect::<Vec<_>>(), ["large", "large#3", "small", "small#2"]);
    // The second of the baseline's name is a config like any other.
    assert_eq!(question.configs["large"], question.baseline);
    assert!(question.configs["large#3"].column_families.starts_with(&question.baseline.column_families));
    let problems = [("small", "blocks", "z"), ("small#2", "db", "x"), ("large#3", "db", "y")];
    let problems = problems.map(|(config, scope, option)| problem(config, scope, option, "RocksDB has no such option"));
    let given = answer(json!({"problems": problems, "inert": [], "sanitised": [], "allInert": []}));
    let found = said(&document, &given);
    for field in ["[1].columnFamilies[0].options.z", "[2].dbOptions.x", "[3].dbOptions.y"] {
        let message = format!("spec.configs{field}: RocksDB has no such option");
        assert!(found.contains(&message), "{message} in {found:?}");
    }
}

#[test]
fn an_option_in_the_wrong_place_is_one_mistake() {
    let note = |option: &str, message: &str| json!({"config": "small", "scope": "state", "option": option, "message": message});
    let misplaced = note("write_buffer_size", "this is a database option; declare it under dbOptions");
    let of = |notes: Value| {
        said(&document(), &answer(json!({"problems": [], "inert": notes, "sanitised": [], "allInert": ["small"]})))
    };
    let field = "spec.configs[1].columnFamilies[0].options.write_buffer_size";
    assert_eq!(
        of(json!([misplaced])),
        [format!("{field}: has no effect: this is a database option; declare it under dbOptions")]
    );
    // Beside another without effect the config itself is at fault.
    let found = of(json!([misplaced, note("ttl", "ignored")]));
    assert!(found.iter().any(|message| message.contains("NoEffectPossible")), "{found:?}");
}

#[test]
fn a_config_that_was_not_understood_may_have_an_effect() {
    let given = answer(json!({"problems": [], "inert": [], "sanitised": [], "allInert": ["small"]}));
    let has = |document: &Value| said(document, &given).iter().any(|message| message.contains("NoEffectPossible"));
    assert!(has(&document()));
    assert!(!has(&with("/spec/configs/1/dboptions", json!({"max_background_jobs": 3}))));
    assert!(!has(&with("/spec/configs/1/dbOptions", json!({"wal_dir": "x"}))));
    assert!(!has(&with("/spec/scenarios/0/workload", json!({"keyvalue": {}}))));
    // A mistake elsewhere takes nothing from it.
    assert!(has(&with("/spec/repetitions", json!("many"))));
}
