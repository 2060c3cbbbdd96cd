use serde_json::json;

use super::{KEY_VALUE, ROLE, SCENARIO, messages, with};

#[test]
fn each_mistake_is_named() {
    let table = [
        ("/apiVersion", json!("assay.rocks/v2"), "apiVersion: must be assay.rocks/v1alpha1, not \"assay.rocks/v2\""),
        ("/kind", json!("Deployment"), "kind: must be TuningExperiment, not \"Deployment\""),
        (
            "/metadata/name",
            json!("My_Test"),
            "metadata.name: must be lowercase letters, digits and '-', with a letter or digit at both ends, not \"My_Test\"; write my-test",
        ),
        ("/metadata", json!({}), "metadata: name is required: results are stored under it"),
        ("/metadata/name", json!(null), "metadata: name is required: results are stored under it"),
        ("/metadata/name", json!(5), "metadata.name: must be a string, not 5"),
        ("/metadata/name", json!("n".repeat(64)), "metadata.name: has 64 characters, at most 63 allowed"),
        ("/metadata/lables", json!({}), "metadata.lables: unknown field; did you mean labels?"),
        (
            "/specs",
            json!({}),
            "specs: unknown field; did you mean spec?; an experiment has apiVersion, kind, metadata and spec",
        ),
        ("/spec", json!(null), "spec is required: it says what to compare"),
        ("/spec/baseline", json!("larg"), "spec.baseline: no config is named \"larg\"; did you mean large?"),
        (
            "/spec/baseline",
            json!("other"),
            "spec.baseline: no config is named \"other\"; the configs are large and small",
        ),
        (
            "/spec/configs/1/name",
            json!("large"),
            "spec.configs[1].name: duplicate \"large\"; first used in spec.configs[0]",
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
            json!({"max_background_jobs": 4.5}),
            "spec.configs[1].dbOptions.max_background_jobs: must be an integer or a string, not 4.5; if the option takes fractions, put it in quotes: \"4.5\"",
        ),
        (
            "/spec/configs/1/columnFamilies/0/options",
            json!({"block_based_table_factory": {"block_size": 16384, "whole_key_filtering": false}}),
            "spec.configs[1].columnFamilies[0].options.block_based_table_factory: must be an integer or a string, not a map; write \"{block_size=16384;whole_key_filtering=false}\"",
        ),
        (
            "/spec/configs/1/dbOptions",
            json!({"a": " "}),
            "spec.configs[1].dbOptions.a: has no value; leave it out to keep RocksDB's default",
        ),
        (
            "/spec/configs/1/dbOptions",
            json!({"a;b=c": 1}),
            "spec.configs[1].dbOptions[\"a;b=c\"]: is not an option name; use letters, digits and _",
        ),
        (
            "/spec/configs/1/columnFamilies/0/options",
            json!({"merge_operator": "x"}),
            "spec.configs[1].columnFamilies[0].options.merge_operator: is fixed by the workload, because another one would change the data it reads; remove it. A config can set RocksDB's other options (dbOptions, columnFamilies), blockCache, writeOptions",
        ),
        (
            "/spec/configs/1/columnFamilies/0/options",
            json!({"block_based_table_factory": "{block_size=4K; block_cache = 8M}"}),
            "spec.configs[1].columnFamilies[0].options.block_based_table_factory: block_cache can't be set as an option; use the config's blockCache field (size and sharing)",
        ),
        (
            "/spec/configs/1/columnFamilies/0/match",
            json!(["stat"]),
            "spec.configs[1].columnFamilies[0].match[0]: \"stat\" matches no column family; did you mean state?; the scenarios have blocks and state",
        ),
        (
            "/spec/configs/1/blockCache",
            json!({"size": "-1Gi"}),
            "spec.configs[1].blockCache.size: must be a non-negative quantity such as 512Mi, not \"-1Gi\"",
        ),
        (
            "/spec/configs/1/blockCache",
            json!({"size": "64MB"}),
            "spec.configs[1].blockCache.size: must be a non-negative quantity such as 512Mi, not \"64MB\"; write 64M or 64Mi",
        ),
        (
            "/spec/configs/1/blockCache",
            json!({"size": 1.5}),
            "spec.configs[1].blockCache.size: must be an integer or a non-negative quantity such as 512Mi, not 1.5",
        ),
        (
            "/spec/configs/1/blockCache",
            json!({"size": true}),
            "spec.configs[1].blockCache.size: must be an integer or a non-negative quantity such as 512Mi, not true",
        ),
        (
            "/spec/configs/1/blockCache",
            json!("64Mi"),
            "spec.configs[1].blockCache: must be a map of fields, not \"64Mi\"; write {size: 64Mi}",
        ),
        ("/spec/configs/1/blockCache", json!({"size": -5}), "spec.configs[1].blockCache.size: must not be negative"),
        (
            "/spec/configs/1/blockCache",
            json!({"size": "1500m"}),
            "spec.configs[1].blockCache.size: must be a whole number of bytes",
        ),
        (
            "/spec/configs/1/writeOptions",
            json!({"sync": true, "disableWAL": true}),
            "spec.configs[1].writeOptions: RocksDB refuses sync with disableWAL: sync waits for the log that disableWAL skips; set only one",
        ),
        (
            "/spec/configs/1/policy",
            json!({"retention": "1"}),
            "spec.configs[1].policy.retention: the keyValue workload of scenario \"writes\" has no policy keys; remove it",
        ),
        (
            "/spec/objectives/0/metric",
            json!("througput"),
            "spec.objectives[0].metric: unknown metric \"througput\"; did you mean throughput?",
        ),
        (
            "/spec/objectives/0/metric",
            json!("p99"),
            "spec.objectives[0].metric: unknown metric \"p99\"; did you mean step_latency_p99?",
        ),
        (
            "/spec/objectives/0/metric",
            json!("amplification"),
            "spec.objectives[0].metric: unknown metric \"amplification\"; use one of write_amplification, read_amplification and space_amplification",
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
            "spec.objectives[0].margin: must be a percentage such as 2% or 2.5%, not \"2 %\"; write 2%",
        ),
        (
            "/spec/guardrails/0/metric",
            json!("throughput"),
            "spec.guardrails[0].metric: throughput is already an objective, and objectives are guarded too; remove it here",
        ),
        (
            "/spec/guardrails/0/metric",
            json!("step_latency_p999"),
            "spec.guardrails[0].metric: step_latency_p999 needs at least 100000 steps (100 of them beyond it), but role \"writer\" of scenario \"writes\" has 20000: raise spec.scenarios[0].workload.keyValue.roles[0].steps, or judge a lower quantile",
        ),
        (
            "/spec/repetitions",
            json!(4),
            "spec.repetitions: 4 blocks can't prove anything about 1 config against the baseline x 1 objective: no result is significant at 5 % with fewer than 5; set 5 or more",
        ),
        (
            &format!("{SCENARIO}/dataset"),
            json!({"from": "smal"}),
            "spec.scenarios[0].dataset.from: no config is named \"smal\"; did you mean small?",
        ),
        (
            &format!("{SCENARIO}/pageCache"),
            json!("evict"),
            "spec.scenarios[0].pageCache: must be one of Evict, Warm and Direct, not \"evict\"; did you mean Evict?",
        ),
        (
            &format!("{SCENARIO}/workload"),
            json!({}),
            "spec.scenarios[0].workload: set exactly one of keyValue, ethrex, blockstore and rethHistory (none is set)",
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
            "spec.scenarios[0].workload.keyValue.keys: 1 key can't fill 2 column families; use at least 2",
        ),
        (
            &format!("{KEY_VALUE}/roles/1"),
            json!({"name": "writer", "steps": 20_000, "mix": {"put": 1}}),
            "spec.scenarios[0].workload.keyValue.roles[1].name: duplicate \"writer\"; first used in spec.scenarios[0].workload.keyValue.roles[0]",
        ),
        (
            &format!("{ROLE}/mix"),
            json!({"put": 1, "read": 1}),
            "spec.scenarios[0].workload.keyValue.roles[0].mix.read: unknown field; did you mean get?",
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
fn no_option_puts_files_elsewhere() {
    let why = "would put files outside the trial's directory, where they are not counted or removed";
    for option in ["wal_dir", "db_log_dir", "db_paths", "cf_paths", "env"] {
        for (pointer, field) in [
            ("/spec/configs/1/dbOptions", "spec.configs[1].dbOptions"),
            ("/spec/configs/1/columnFamilies/0/options", "spec.configs[1].columnFamilies[0].options"),
        ] {
            let found = messages(&with(pointer, json!({option: "/x"})));
            assert_eq!(found, [format!("{field}.{option}: {why}")]);
        }
    }
}

#[test]
fn no_value_brings_options_of_its_own() {
    let why = "has unbalanced braces or text after the last one: RocksDB would read the rest as other options";
    for value in ["{x};wal_dir=/x", "{x}wal_dir=/x", "a=1};wal_dir=/x;c={d=1", "}", "{", "{a={b=1}", "{a=1}}"] {
        let found = messages(&with("/spec/configs/1/dbOptions", json!({"db_host_id": value})));
        assert_eq!(found, [format!("spec.configs[1].dbOptions.db_host_id: {why}")], "{value}");
    }
    for value in ["x", "a;b=1", " {a=1;b={c=2};d={e=3}} ", "a={b=1};c={d=2}"] {
        let found = messages(&with("/spec/configs/1/dbOptions", json!({"db_host_id": value})));
        assert_eq!(found, Vec::<String>::new(), "{value}");
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
        (late, "20000 steps and 0 warm-up steps take 10000 s at 2 steps per second, beyond deadlineSeconds 3600"),
        (empty, "no data to migrate: preload is Empty; remove one of them"),
        (direct, "conflicts with pageCache: Direct in scenario \"writes\"; remove one of them"),
        (idle, "4 steps can't keep 8 threads busy; use at least as many steps"),
        (
            with(&format!("{ROLE}/stepsPerSecond"), json!(1000)),
            "throughput can't improve in scenario \"writes\": stepsPerSecond sets its pace; judge a latency, or remove the pace",
        ),
        (
            with("/spec/guardrails/0/metric", json!("flush_count")),
            "flush_count is informational and can't be judged; these can: throughput",
        ),
    ];
    for (document, message) in table {
        let found = messages(&document);
        assert!(found.len() == 1 && found[0].contains(message), "{message} in {found:?}");
    }
}

#[test]
fn a_direct_scenario_only_refuses_other_reads() {
    for options in [json!({"use_direct_reads": "true"}), json!({"use_fsync": "false"})] {
        let mut document = with(&format!("{SCENARIO}/pageCache"), json!("Direct"));
        document["spec"]["configs"][1]["dbOptions"] = options;
        assert_eq!(messages(&document), Vec::<String>::new());
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
fn another_version_hides_no_other_mistake() {
    let mut document = with("/apiVersion", json!("assay.rocks/v1"));
    document["spec"]["repetitions"] = json!(2);
    let found = messages(&document);
    assert_eq!(found.len(), 2, "{found:?}");
    // Of what is no experiment at all every field is unknown, and that helps nobody.
    document["kind"] = json!("Deployment");
    let found = messages(&document);
    assert!(found.len() == 2 && found[1].starts_with("kind: "), "{found:?}");
}

#[test]
fn an_unknown_workload_hides_no_other_mistake() {
    let mut document = with(&format!("{SCENARIO}/workload"), json!({"keyvalu": {}}));
    document["spec"]["objectives"] = json!([{"metric": "througput"}, {"metric": "step_latency_p999"}]);
    document["spec"]["guardrails"] = json!([]);
    document["spec"]["configs"][1]["columnFamilies"][0]["match"] = json!(["state"]);
    document["spec"]["configs"][1]["policy"] = json!({"retention": "fifo"});
    document["spec"]["configs"][1]["dbOptions"] = json!({"wal_dir": "x"});
    document["spec"]["baseline"] = json!("larg");
    let found = messages(&document);
    let about = [
        "spec.scenarios[0].workload.keyvalu",
        "spec.baseline",
        "spec.configs[1].dbOptions.wal_dir",
        "spec.objectives[0].metric",
    ];
    for field in about {
        assert!(found.iter().any(|message| message.starts_with(&format!("{field}: "))), "{field} in {found:?}");
    }
    // Which families it has, how many steps and which policies, nobody knows.
    assert_eq!(found.len(), about.len(), "{found:?}");
    document["spec"]["scenarios"] = json!(7);
    let found = messages(&document);
    assert!(
        found.len() == about.len() && found.iter().any(|message| message.starts_with("spec.scenarios: ")),
        "{found:?}"
    );
}

/// What is said of the second of two roles, of which the first has 20000 steps.
fn of_company(role: serde_json::Value) -> Vec<String> {
    messages(&with(&format!("{KEY_VALUE}/roles/1"), role))
}

#[test]
fn company_of_the_first_role() {
    let role = |fields: serde_json::Value| {
        let mut role = json!({"name": "reader", "mix": {"get": 1}});
        role.as_object_mut().expect("a map").extend(fields.as_object().cloned().unwrap_or_default());
        role
    };
    let path = "spec.scenarios[0].workload.keyValue.roles[1]";
    let cases = [
        (json!({"until": "PrimaryEnds", "stepsPerSecond": 100}), String::new()),
        (json!({"steps": 20_000}), String::new()),
        (json!({}), format!("{path}.steps: is required; a role next to the first may have until: PrimaryEnds instead")),
        (
            json!({"until": "PrimaryEnds", "stepsPerSecond": 100, "steps": 7}),
            format!("{path}.until: set either steps or until"),
        ),
        (
            json!({"until": "PrimaryEnds"}),
            format!(
                "{path}.until: needs stepsPerSecond: at its own speed a config that slows this role down would win by it"
            ),
        ),
        (
            json!({"steps": 2000}),
            format!(
                "warning: {path}.steps: reader will probably finish before writer, which then runs alone; replace steps with until: PrimaryEnds \
                 and a stepsPerSecond"
            ),
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(of_company(role(fields)).join("\n"), expected);
    }
    let mut document = with(ROLE, role(json!({"until": "PrimaryEnds", "stepsPerSecond": 100})));
    document["spec"]["guardrails"] = json!([]);
    document["spec"]["defaultGuardrails"] = json!("Remove");
    let found = messages(&document);
    assert!(
        found.iter().any(|message| message.contains("roles[0].until: the first role is the one that is measured")),
        "{found:?}"
    );
}

#[test]
fn a_wrong_type_hides_nothing() {
    let mut document = with("/spec/baseline", json!("tody"));
    document["spec"]["objectives"][0] = json!({"metric": "throughwrite", "margin": 3});
    document["spec"]["configs"][1]["colunmFamilies"] = json!([]);
    document["spec"]["repetitions"] = json!("many");
    document.pointer_mut(ROLE).expect("a role")["mix"] = json!({"write": 1});
    document["spec"]["placement"] = json!(7);
    let found = messages(&document);
    let fields = [
        "spec.baseline",
        "spec.objectives[0].metric",
        "spec.objectives[0].margin",
        "spec.configs[1].colunmFamilies",
        "spec.repetitions",
        "spec.scenarios[0].workload.keyValue.roles[0].mix.write",
        "spec.placement",
    ];
    for field in fields {
        assert!(found.iter().any(|message| message.starts_with(&format!("{field}: "))), "{field} in {found:#?}");
    }
    assert_eq!(found.len(), fields.len(), "{found:#?}");
}
