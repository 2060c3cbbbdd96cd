use serde_json::{Value, json};

use super::*;
use crate::plan::Plan;
use crate::validate::tests::{document, experiment, messages_with};
use crate::validate::{Validation, validate, validate_document};

/// A value that sets the size of memtables of all families.
fn memtable(size: &str) -> Value {
    json!({"columnFamilies": [{"match": ["*"], "options": {"write_buffer_size": size}}]})
}

fn jobs(jobs: u32) -> Value {
    json!({"dbOptions": {"max_background_jobs": jobs}})
}

fn axis(name: &str, values: impl IntoIterator<Item = Value>) -> Value {
    json!({"name": name, "values": values.into_iter().collect::<Vec<_>>()})
}

/// The sound document with the baseline alone, and a matrix.
fn with(matrix: &Value) -> Value {
    let mut document = document();
    let spec = &mut document["spec"];
    spec["configs"] = json!([spec["configs"][0]]);
    spec["repetitions"] = json!(20);
    spec["matrix"] = matrix.clone();
    document
}

fn two_axes() -> Value {
    json!({"axes": [axis("memtable", [memtable("1M"), memtable("2M")]), axis("jobs", [jobs(2), jobs(4), jobs(8)])]})
}

fn messages(document: &Value) -> Vec<String> {
    validate_document(document).problems.iter().map(ToString::to_string).collect()
}

fn names(document: &Value) -> Vec<String> {
    experiment(document).configs.into_iter().map(|config| config.name).collect()
}

#[test]
fn every_combination_is_a_config() {
    let document = with(&two_axes());
    assert_eq!(messages(&document), Vec::<String>::new());
    assert_eq!(
        names(&document),
        [
            "large",
            "memtable-1m-jobs-2",
            "memtable-1m-jobs-4",
            "memtable-1m-jobs-8",
            "memtable-2m-jobs-2",
            "memtable-2m-jobs-4",
            "memtable-2m-jobs-8",
        ]
    );
    let last = &experiment(&document).configs[6];
    assert_eq!(
        last.changes,
        ["max_background_jobs: RocksDB's default -> 8", "write_buffer_size: 67108864 -> 2M"],
        "each builds on the baseline"
    );
    assert_eq!(validate_document(&document).matrix.summary(), "6 configs: memtable 2 x jobs 3");
}

/// A matrix is a way to write configs down. It has the plan of the file that has them.
#[test]
fn a_matrix_has_the_plan_of_the_configs_that_it_stands_for() {
    let document = with(&two_axes());
    let plan = Plan::new(experiment(&document)).unwrap_or_else(|error| unreachable!("{error}"));
    let mut spelt_out = document.clone();
    let spec = spelt_out["spec"].as_object_mut().unwrap_or_else(|| unreachable!());
    spec.remove("matrix");
    let mut configs = vec![spec["configs"][0].clone()];
    for size in ["1M", "2M"] {
        for number in [2, 4, 8] {
            let mut config = memtable(size);
            config["name"] = json!(format!("memtable-{}-jobs-{number}", size.to_lowercase()));
            config["dbOptions"] = jobs(number)["dbOptions"].clone();
            configs.push(config);
        }
    }
    spec.insert("configs".to_owned(), json!(configs));
    assert_eq!(Plan::new(experiment(&spelt_out)).unwrap_or_else(|error| unreachable!("{error}")), plan);
    // The operator reads the same of the typed object.
    let typed = serde_json::from_value(document["spec"].clone()).unwrap_or_else(|error| unreachable!("{error}"));
    assert_eq!(validate("memtables", &typed).experiment, Some(plan.experiment));
}

#[test]
fn written_configs_come_first() {
    let mut document = with(&two_axes());
    document["spec"]["configs"] =
        json!([{"name": "other", "dbOptions": {"max_background_jobs": 6}}, {"name": "large"}]);
    let experiment = experiment(&document);
    assert_eq!((experiment.baseline, experiment.configs.len()), (1, 8));
    assert_eq!(
        (experiment.configs[0].name.as_str(), experiment.configs[2].name.as_str()),
        ("other", "memtable-1m-jobs-2")
    );
}

#[test]
fn values_are_named_after_what_they_set() {
    let digest = format!("registry/team/bench@sha256:{}", "0123456789abcdef".repeat(4));
    for (value, name) in [
        (json!({"name": "big", "dbOptions": {"max_background_jobs": 8}}), "big"),
        (jobs(8), "8"),
        (json!({"dbOptions": {"b": "x", "a": -1}}), "1-x"),
        (memtable("64M"), "64m"),
        (
            json!({"columnFamilies": [{"match": ["*"], "options": {"compression": "kLZ4Compression"}}]}),
            "klz4compression",
        ),
        (
            json!({"columnFamilies": [{"match": ["*"], "options": {"block_based_table_factory": "{block_size=16K}"}}]}),
            "block-size-16k",
        ),
        (json!({"blockCache": {"size": "64Mi"}}), "64mi"),
        (json!({"blockCache": {"size": "64Mi", "sharing": "Private"}}), "64mi-private"),
        (json!({"blockCache": {"size": 1024}}), "1024"),
        (json!({"writeOptions": {"sync": true}}), "sync"),
        (json!({"writeOptions": {"disableWAL": true}}), "no-wal"),
        (json!({"policy": {"retention": "fifo"}}), "fifo"),
        (json!({"image": "registry:5000/bench:V2_x"}), "bench-v2-x"),
        (json!({"image": digest}), "bench-0123456789ab"),
        (json!({"image": "bench:2", "dbOptions": {"a": 1}, "writeOptions": {"sync": true}}), "bench-2-1-sync"),
        // What has no letter or digit has no name.
        (json!({}), "1"),
        (json!({"dbOptions": {"a": "ü"}}), "1"),
        (json!({"writeOptions": {}}), "1"),
    ] {
        let matrix: Matrix = serde_json::from_value(json!({"axes": [axis("a", [value.clone()])]}))
            .unwrap_or_else(|error| unreachable!("{value}: {error}"));
        let mut problems = Vec::new();
        let named = names::of_values(&matrix, &mut problems);
        assert_eq!(named, [[name]], "{value}");
        assert_eq!(problems.len(), usize::from(name == "1"), "{value}: {problems:?}");
    }
}

#[test]
fn an_entry_of_exclude_leaves_out_what_has_its_values() {
    for (exclude, expected) in [
        (json!([]), "123456"),
        (json!([{"memtable": "1m", "jobs": "4"}]), "13456"),
        // As the value is written, too.
        (json!([{"memtable": "1M", "jobs": 4}]), "13456"),
        (json!([{"memtable": "2m"}]), "123"),
        (json!([{"memtable": "2m", "jobs": 8}, {"jobs": 2}]), "235"),
        (json!([{"jobs": 8}, {"memtable": "1m"}]), "45"),
    ] {
        let mut matrix = two_axes();
        matrix["exclude"] = exclude.clone();
        let all = names(&with(&two_axes()));
        let expected: Vec<&String> = expected.chars().map(|digit| &all[digit as usize - '0' as usize]).collect();
        let document = with(&matrix);
        assert_eq!(names(&document).iter().skip(1).collect::<Vec<_>>(), expected, "{exclude}");
        let excluded = 6 - expected.len();
        let summary = validate_document(&document).matrix.summary();
        assert_eq!(summary.contains(&format!(", {excluded} excluded")), excluded > 0, "{summary}");
    }
}

/// Axes with so many values each, all of them different.
fn sizes(sizes: &[u32]) -> Value {
    let values = |position: usize, size: u32| {
        let value = move |number: u32| json!({"dbOptions": {format!("option_{position}"): number}});
        axis(&format!("a{position}"), (0..size).map(value))
    };
    json!({"axes": sizes.iter().enumerate().map(|(position, size)| values(position, *size)).collect::<Vec<_>>()})
}

#[test]
fn a_matrix_makes_64_configs_and_no_more() {
    let refused = |count: &str, factors: &str, most: &str| {
        vec![format!(
            "spec.matrix: makes {count} configs ({factors}), at most {most}: use fewer values, or exclude more combinations"
        )]
    };
    for (of, expected) in [
        (&[64][..], vec![]),
        (&[8, 8], vec![]),
        (&[2, 2, 2, 2, 2, 2], vec![]),
        (&[13, 5], refused("65", "a0 13 x a1 5", "64 allowed")),
        (&[64, 64, 2], refused("8192", "a0 64 x a1 64 x a2 2", "64 allowed")),
        (
            &[64; 8],
            refused(
                "281474976710656",
                &["a0 64", "a1 64", "a2 64", "a3 64", "a4 64", "a5 64", "a6 64", "a7 64"].join(" x "),
                "64 allowed",
            ),
        ),
    ] {
        assert_eq!(messages(&with(&sizes(of))), expected, "{of:?}");
    }
    assert_eq!(experiment(&with(&sizes(&[64]))).configs.len(), 65);
    // Excluded ones don't count.
    let mut matrix = sizes(&[13, 5]);
    matrix["exclude"] = json!([{"a0": 12, "a1": 4}]);
    assert_eq!(experiment(&with(&matrix)).configs.len(), 65);
    let mut matrix = sizes(&[10, 10]);
    matrix["exclude"] = json!([{"a0": 9, "a1": 4}, {"a0": 0}]);
    assert_eq!(messages(&with(&matrix)), refused("89", "a0 10 x a1 10, 11 excluded", "64 allowed"));
    // Of 64 x 64, the most that is looked at, only the first row is left.
    let mut matrix = sizes(&[64, 64]);
    matrix["exclude"] = (1..64).map(|row| json!({"a0": row})).collect();
    assert_eq!(messages(&with(&matrix)), Vec::<String>::new());
    // Those that are written down do.
    let mut document = with(&sizes(&[63]));
    document["spec"]["configs"] = json!([{"name": "large"}, {"name": "x", "dbOptions": {"x": 1}}]);
    assert_eq!(messages(&document), Vec::<String>::new());
    document["spec"]["matrix"] = sizes(&[64]);
    assert_eq!(messages(&document), refused("64", "a0 64", "63 allowed next to the 2 in spec.configs"));
}

/// Each mistake, where it was made.
#[test]
fn mistakes_are_told_where_they_are_written() {
    let table = [
        (
            json!({"axes": [axis("memtable", [memtable("1M"), json!({})])]}),
            "spec.matrix.axes[0].values[1]: sets nothing that it could be named after: add a name, such as name: default",
        ),
        (
            json!({"axes": [axis("memtable", [memtable("1M"), memtable("1m")])]}),
            "spec.matrix.axes[0].values[1]: duplicate \"1m\"; first used in spec.matrix.axes[0].values[0]; give it a name of \
             its own",
        ),
        (
            json!({"axes": [axis("memtable", [memtable("1M"), json!({"name": "1m", "dbOptions": {"a": 1}})])]}),
            "spec.matrix.axes[0].values[1].name: duplicate \"1m\"; first used in spec.matrix.axes[0].values[0]",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2)]), axis("jobs", [jobs(3)])]}),
            "spec.matrix.axes[1].name: duplicate \"jobs\"; first used in spec.matrix.axes[0]",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2)])], "exclude": [{"job": 2}]}),
            "spec.matrix.exclude[0].job: no axis has this name; did you mean jobs?; the axes are jobs",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2), jobs(4)])], "exclude": [{"jobs": 3}]}),
            "spec.matrix.exclude[0].jobs: no value of axis jobs is named \"3\"; they are 2 and 4",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2), jobs(4)])], "exclude": [{"jobs": 2}, {"jobs": 2}]}),
            "spec.matrix.exclude[1]: excludes nothing: the entries before it exclude all that it matches; remove it",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2)])], "exclude": [{"jobs": 2}]}),
            "spec.matrix.exclude: leaves no combination: remove an entry, or remove the matrix",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2)])], "exclude": [{"jobs": 2}, {"jobs": 2}]}),
            "spec.matrix.exclude: leaves no combination: remove an entry, or remove the matrix",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2)])], "exclude": [{}]}),
            "spec.matrix.exclude[0]: has 0 entries, needs at least 1",
        ),
        (json!({"axes": []}), "spec.matrix.axes: has 0 entries, needs at least 1"),
        (json!({"axes": [axis("jobs", [])]}), "spec.matrix.axes[0].values: has 0 entries, needs at least 1"),
        (json!({"axes": [axis("jobs", [json!(2)])]}), "spec.matrix.axes[0].values[0]: must be a map of fields, not 2"),
        (
            json!({"axes": [axis("jobs", [jobs(2)])], "include": [{"jobs": 3}]}),
            "spec.matrix.include: unknown field; single configs are in spec.configs",
        ),
        (json!("x"), "spec.matrix: must be a map of fields, not \"x\""),
        // Names that meet.
        (
            json!({"axes": [
                axis("a", [json!({"name": "1", "dbOptions": {"x": 1}}), json!({"name": "1-b-2", "dbOptions": {"x": 2}})]),
                axis("b", [json!({"name": "2-b-3", "dbOptions": {"y": 1}}), json!({"name": "3", "dbOptions": {"y": 2}})]),
            ]}),
            "spec.matrix.axes[0].values[1]: {a: 1, b: 2-b-3} and {a: 1-b-2, b: 3} both make a config named a-1-b-2-b-3: give \
             this value another name",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2), json!({"name": "y".repeat(59), "dbOptions": {"x": 1}})])]}),
            "spec.matrix.axes[0].values[1]: makes a config name of 64 characters, at most 63 allowed: give this value a \
             shorter name than \"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\"",
        ),
        // Configs that are the same. The first that is the baseline shows the noise.
        (
            json!({"axes": [axis("jobs", [json!({"name": "a"}), json!({"name": "b"})])]}),
            "spec.matrix.axes[0].values[1]: changes nothing: {jobs: b} is the same config as {jobs: a}; remove this value, \
             or set its options on one axis only",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2), json!({"name": "two", "dbOptions": {"max_background_jobs": "2"}})])]}),
            "spec.matrix.axes[0].values[1]: changes nothing: {jobs: two} is the same config as {jobs: 2}; remove this value, \
             or set its options on one axis only",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2), jobs(3)]), axis("again", [jobs(8)])]}),
            "spec.matrix.axes[0].values[1]: changes nothing: {jobs: 3, again: 8} is the same config as {jobs: 2, again: 8}; \
             remove this value, or set its options on one axis only",
        ),
        // What is wrong with a config.
        (
            json!({"axes": [axis("jobs", [jobs(2), jobs(3)]), axis("dir", [json!({"dbOptions": {"wal_dir": "/x"}})])]}),
            "spec.matrix.axes[1].values[0].dbOptions.wal_dir: would put files outside the trial's directory, where they are \
             not counted or removed",
        ),
        (
            json!({"axes": [axis("jobs", [jobs(2)]), axis("f", [memtable("1M"), json!({"columnFamilies": [
                {"match": ["*"], "options": {"ttl": 1}}, {"match": ["stat"], "options": {"ttl": 2}},
            ]})])]}),
            "spec.matrix.axes[1].values[1].columnFamilies[1].match[0]: \"stat\" matches no column family; did you mean \
             state?; the scenarios have blocks and state",
        ),
        (
            json!({"axes": [axis("memtable", [memtable("1M")]), axis("f", [json!({"columnFamilies": [
                {"match": ["stat"], "options": {"ttl": 1}},
            ]})])]}),
            "spec.matrix.axes[1].values[0].columnFamilies[0].match[0]: \"stat\" matches no column family; did you mean \
             state?; the scenarios have blocks and state",
        ),
        (
            json!({"axes": [axis("w", [json!({"name": "w", "writeOptions": {"sync": true, "disableWAL": true}})])]}),
            "spec.matrix.axes[0].values[0].writeOptions: RocksDB refuses sync with disableWAL: sync waits for the log that \
             disableWAL skips; set only one",
        ),
        (
            json!({"axes": [axis("c", [json!({"name": "c", "blockCache": {"size": "1500m"}})])]}),
            "spec.matrix.axes[0].values[0].blockCache.size: must be a whole number of bytes",
        ),
        (
            json!({"axes": [axis("p", [json!({"policy": {"retention": "fifo"}})])]}),
            "spec.matrix.axes[0].values[0].policy.retention: the keyValue workload of scenario \"writes\" has no policy keys; \
             remove it",
        ),
        (
            json!({"axes": [axis("jobs", [json!({"dbOptoins": {"max_background_jobs": 2}})])]}),
            "spec.matrix.axes[0].values[0].dbOptoins: unknown field; did you mean dbOptions?",
        ),
    ];
    for (matrix, expected) in table {
        assert_eq!(messages(&with(&matrix)), [expected], "{matrix}");
    }
    // The longest name that a label can hold.
    let longest = json!({"name": "y".repeat(58), "dbOptions": {"x": 1}});
    assert_eq!(messages(&with(&json!({"axes": [axis("jobs", [jobs(2), longest])]}))), Vec::<String>::new());
}

#[test]
fn one_mistake_hides_no_other() {
    // Too many configs, of which each value is still looked at.
    let mut matrix = sizes(&[13, 5]);
    matrix["axes"][0]["values"][12] = json!({"name": "x", "dbOptions": {"wal_dir": "/x"}});
    let found = messages(&with(&matrix));
    assert!(
        matches!(&found[..], [many, dir] if many.contains("makes 65 configs")
        && dir.starts_with("spec.matrix.axes[0].values[12].dbOptions.wal_dir: ")),
        "{found:?}"
    );
    // How many blocks are needed is not known before the number of configs is.
    let mut document = with(&matrix);
    document["spec"]["repetitions"] = json!(1);
    assert_eq!(messages(&document), found);
}

#[test]
fn an_experiment_needs_something_to_compare() {
    let mut document = with(&two_axes());
    document["spec"].as_object_mut().map(|spec| spec.remove("matrix"));
    assert_eq!(
        messages(&document),
        ["spec.configs: has 1 entry, needs at least 2: the baseline and a config to compare with it; or add a matrix"]
    );
}

#[test]
fn other_fields_name_only_configs_that_are_written_down() {
    let change = |change: &dyn Fn(&mut Value)| {
        let mut document = with(&two_axes());
        change(&mut document["spec"]);
        messages(&document)
    };
    let unknown = "no config is named \"memtable-1m-jobs-2\"; the configs are large";
    assert_eq!(change(&|spec| spec["baseline"] = json!("memtable-1m-jobs-2")), [format!("spec.baseline: {unknown}")]);
    assert_eq!(
        change(&|spec| spec["scenarios"][0]["dataset"] = json!({"from": "memtable-1m-jobs-2"})),
        [format!("spec.scenarios[0].dataset.from: {unknown}")]
    );
    let taken = change(&|spec| {
        spec["configs"] = json!([spec["configs"][0], {"name": "memtable-1m-jobs-2", "dbOptions": {"x": 1}}]);
    });
    assert_eq!(
        taken,
        ["spec.configs[1].name: spec.matrix has a config of this name, too: {memtable: 1m, jobs: 2}; rename this one"]
    );
    let same = change(&|spec| {
        let mut own = memtable("1M");
        (own["name"], own["dbOptions"]) = (json!("own"), json!({"max_background_jobs": 2}));
        spec["configs"] = json!([spec["configs"][0], own]);
    });
    assert_eq!(
        same,
        [
            "spec.matrix: {memtable: 1m, jobs: 2} is the same config as own in spec.configs[1]: exclude it, or remove that one"
        ]
    );
}

/// What is true of some of the configs with a value names them.
#[test]
fn hints_name_the_configs_that_they_are_about() {
    // The baseline has memtables of 64 MiB.
    let matrix = json!({"axes": [axis("memtable", [memtable("67108864"), memtable("1M")]), axis("jobs", [json!({"name": "default"}), jobs(4)])]});
    assert_eq!(
        messages(&with(&matrix)),
        [
            "note: spec.matrix: is identical to the baseline: this A/A comparison shows the noise (config memtable-67108864-jobs-default)"
        ]
    );
    // Said once of the value, however many configs have it.
    let low = json!({"axes": [axis("jobs", [jobs(0), jobs(4)]), axis("memtable", [memtable("1M"), memtable("2M")])]});
    assert_eq!(
        messages(&with(&low)),
        [
            "warning: spec.matrix.axes[0].values[0].dbOptions.max_background_jobs: 0 is below 1, and RocksDB runs one flush and one compaction at a time"
        ]
    );
    // Memtables that one limit of three leaves no room for.
    let limit = |limit: &str| json!({"name": limit.to_lowercase(), "dbOptions": {"db_write_buffer_size": limit}});
    let reach =
        json!({"axes": [axis("memtable", [memtable("2M")]), axis("limit", [limit("3M"), limit("6M"), limit("2M")])]});
    let found = messages(&with(&reach));
    assert_eq!(found.len(), 2, "{found:?}");
    for (found, name) in found.iter().zip(["2m", "3m"]) {
        assert!(
            found.starts_with(
                "note: spec.matrix.axes[0].values[0].columnFamilies[0].options.write_buffer_size: can't be reached"
            ),
            "{found}"
        );
        assert!(found.ends_with(&format!("(config memtable-2m-limit-{name})")), "{found}");
    }
    let many = json!({"axes": [axis("limit", [limit("2M"), limit("6M")]), axis("memtable", [memtable("2M")]), axis("jobs", [jobs(2), jobs(3), jobs(4)])]});
    let found = messages(&with(&many));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].ends_with("(configs limit-2m-memtable-2m-jobs-2, limit-2m-memtable-2m-jobs-3 and 1 more)"),
        "{found:?}"
    );
}

fn answered(document: &Value, answer: &Value) -> Validation {
    let mut validation = validate_document(document);
    validation.add_answer(&serde_json::from_value(answer.clone()).unwrap_or_else(|error| unreachable!("{error}")));
    validation
}

#[test]
fn answers_of_rocksdb_find_the_values_that_they_are_about() {
    let matrix = json!({"axes": [
        axis("jobs", [jobs(2), jobs(4)]),
        axis("table", [json!({"name": "blom", "columnFamilies": [
            {"match": ["*"], "options": {"block_based_table_factory": "{filter_policy=blom:10}"}},
        ]}), json!({"name": "none"})]),
    ]});
    let document = with(&matrix);
    let questions = validate_document(&document).questions();
    assert_eq!(questions.len(), 1);
    assert_eq!(
        questions[0].configs.keys().collect::<Vec<_>>(),
        ["jobs-2-table-blom", "jobs-2-table-none", "jobs-4-table-blom", "jobs-4-table-none", "large"]
    );
    let blom = |config: &str| {
        json!({"config": config, "scope": "state", "option": "block_based_table_factory.filter_policy",
            "message": "RocksDB does not know blom", "suggestion": null})
    };
    let note = |config: &str, option: &str| json!({"config": config, "scope": "db", "option": option, "message": "is 2 already"});
    let answer = json!({
        "problems": [blom("jobs-2-table-blom"), blom("jobs-4-table-blom")],
        "inert": [note("jobs-2-table-blom", "max_background_jobs"), note("jobs-2-table-none", "max_background_jobs")],
        "sanitised": [note("jobs-4-table-none", "max_background_jobs")],
        "allInert": ["jobs-2-table-none"],
    });
    let validation = answered(&document, &answer);
    let problems: Vec<String> = validation.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "spec.matrix: NoEffectPossible: none of this config's options has an effect (max_background_jobs), so it can't \
             differ from the baseline; remove it (config jobs-2-table-none)",
            "warning: spec.matrix.axes[0].values[0].dbOptions.max_background_jobs: has no effect: is 2 already",
            "warning: spec.matrix.axes[0].values[1].dbOptions.max_background_jobs: is 2 already (config jobs-4-table-none)",
            "spec.matrix.axes[1].values[0].columnFamilies[0].options.block_based_table_factory: filter_policy: RocksDB does \
             not know blom",
        ]
    );
    assert!(validation.experiment.is_none());
    let nothing = json!({"problems": [], "inert": [], "sanitised": [], "allInert": []});
    assert!(answered(&document, &nothing).experiment.is_some());
}

#[test]
fn images_are_an_axis() {
    let image = |name: &str| json!({"name": name, "image": format!("registry/bench:{name}")});
    let matrix = json!({"axes": [
        axis("build", [image("old"), image("new")]), axis("jobs", [jobs(2), jobs(4)]),
    ]});
    let mut document = with(&matrix);
    document["spec"]["configs"] = json!([document["spec"]["configs"][0], {"name": "own", "image": "registry/own:1"}]);
    // One line for each build, and not for each config that runs it.
    assert_eq!(
        messages(&document),
        ["own", "old", "new"].map(|name| {
            let field = match name {
                "own" => "configs[1]",
                "old" => "matrix.axes[0].values[0]",
                _ => "matrix.axes[0].values[1]",
            };
            format!(
                "note: spec.{field}.image: runs its own bench: for a local run, pass the binary with `--bench {name}=PATH`"
            )
        })
    );
    let validation = validate_document(&document);
    assert_eq!(validation.run_by("old"), ["build-old-jobs-2", "build-old-jobs-4"]);
    assert_eq!(validation.run_by("build-new-jobs-4"), ["build-new-jobs-4"]);
    assert_eq!(validation.run_by("own"), ["own"]);
    for other in ["large", "2", "bench", ""] {
        assert_eq!(validation.run_by(other), Vec::<&str>::new(), "{other}");
    }
    // The operator asks of the spec that it was given.
    let spec: TuningExperimentSpec =
        serde_json::from_value(document["spec"].clone()).unwrap_or_else(|error| unreachable!("{error}"));
    for config in &experiment(&document).configs {
        assert_eq!(super::image(&spec, &config.name), config.image.as_deref(), "{}", config.name);
    }
    assert_eq!(super::image(&spec, "build-old-jobs-2"), Some("registry/bench:old"));
    for other in ["build-old", "build-old-jobs-2-", "build-old-jobs-22", "jobs-2", ""] {
        assert_eq!(super::image(&spec, other), None, "{other}");
    }
    let images: Vec<(String, &str)> = images(&spec).map(|(path, image)| (path.to_string(), image)).collect();
    assert_eq!(
        images,
        [
            ("spec.configs[1].image".to_owned(), "registry/own:1"),
            ("spec.matrix.axes[0].values[0].image".to_owned(), "registry/bench:old"),
            ("spec.matrix.axes[0].values[1].image".to_owned(), "registry/bench:new"),
        ]
    );
}

/// Of two axes that set the same, the later one wins; on other families the earlier one still acts.
#[test]
fn later_axes_win() {
    let state = |size: &str| json!({"columnFamilies": [{"match": ["state"], "options": {"write_buffer_size": size}}]});
    let matrix =
        json!({"axes": [axis("all", [memtable("1M"), memtable("2M")]), axis("state", [state("4M"), state("8M")])]});
    let document = with(&matrix);
    assert_eq!(messages(&document), Vec::<String>::new());
    let engine = &experiment(&document).configs[3].engine;
    let of = |family: &str| engine.family_options(family)["write_buffer_size"].clone();
    assert_eq!((of("state"), of("blocks")), ("4M".to_owned(), "2M".to_owned()));
}

#[test]
fn a_file_without_a_matrix_has_none() {
    let validation = validate_document(&document());
    assert!(!validation.matrix.is_there() && validation.matrix.written() == 2);
    assert_eq!(messages_with(|_| {}), Vec::<String>::new());
}

fn expanded(matrix: &Value) -> (TuningExperimentSpec, Expansion) {
    let spec = serde_json::from_value(with(matrix)["spec"].clone()).unwrap_or_else(|error| unreachable!("{error}"));
    let (spec, expansion, problems) = expand(spec);
    assert_eq!(problems, []);
    (spec, expansion)
}

#[test]
fn only_problems_of_its_configs_are_told_of_the_matrix() {
    let (_, expansion) = expanded(&json!({"axes": [axis("build", [json!({"name": "new", "image": "bench:2"})])]}));
    let config = |index: usize| FieldPath::root().keys("spec.configs").index(index);
    for (path, told) in [
        (config(0).key("image"), "spec.configs[0].image"),
        (config(1).key("image"), "spec.matrix.axes[0].values[0].image"),
        // No single value sets it.
        (config(1).key("columnFamilies"), "spec.matrix"),
        // There is no third config.
        (config(2).key("image"), "spec.configs[2].image"),
        (FieldPath::root().keys("spec.guardrails").index(1).key("metric"), "spec.guardrails[1].metric"),
        (FieldPath::root().keys("status.configs").index(1).key("image"), "status.configs[1].image"),
    ] {
        let found = expansion.told(vec![Problem::error(path, "x")]);
        assert_eq!(found.iter().map(|problem| problem.path.to_string()).collect::<Vec<_>>(), [told]);
    }
    let places = [0, 1].map(|index| expansion.place(index).to_string());
    assert_eq!(places, ["spec.configs[0]", "spec.matrix"]);
}

/// A revision goes with its image: that of one says nothing of another.
#[test]
fn the_last_axis_with_a_program_says_its_revision() {
    let old = json!({"name": "old", "image": "bench:1", "revision": "r1"});
    let others = [
        json!({"name": "image", "image": "bench:2"}),
        json!({"name": "revision", "revision": "r3"}),
        json!({"name": "neither", "dbOptions": {"x": 1}}),
    ];
    let (spec, _) = expanded(&json!({"axes": [axis("a", [old]), axis("b", others)]}));
    let programs = spec.configs[1..].iter().map(|config| (config.image.as_deref(), config.revision.as_deref()));
    assert_eq!(
        programs.collect::<Vec<_>>(),
        [(Some("bench:2"), None), (Some("bench:1"), Some("r3")), (Some("bench:1"), Some("r1"))]
    );
}
