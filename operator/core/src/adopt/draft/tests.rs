use std::collections::BTreeMap;

use super::super::options_file::Options;
use super::*;

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn draft() -> Draft {
    let mix = Mix { get: 9, put: 1, ..Mix::default() };
    let workload = placeholder(1000, 20, 400, vec!["default".to_owned(), "ü: #\n".to_owned()], mix);
    Draft {
        name: "mine".to_owned(),
        head: vec!["Made from\u{7}\na test.".to_owned()],
        baseline: Baseline {
            db: options(&[("max_background_jobs", "8"), ("enable_pipelined_write", "true")]),
            families: vec![
                ("default".to_owned(), options(&[("ttl", "0"), ("block_based_table_factory.block_size", "8192")])),
                (
                    "ü: #\n".to_owned(),
                    options(&[
                        ("ttl", "18446744073709551615"),
                        ("block_based_table_factory.block_size", "8192"),
                        ("block_based_table_factory.filter_policy", "bloomfilter:10:false"),
                    ]),
                ),
            ],
            ..Baseline::default()
        },
        cache: Some(Cache { bytes: 96 << 20, shared: false }),
        write: WriteOptions { sync: true, disable_wal: false },
        scenarios: vec![DraftScenario { name: "mixed".to_owned(), notes: vec!["Fill in.".to_owned()], workload }],
        cpus: 4,
        ..Draft::default()
    }
}

#[test]
fn the_file_reads_as_a_person_would_write_it() {
    let expected = r#"# Made from??a test.
apiVersion: assay.rocks/v1alpha1
kind: TuningExperiment
metadata:
  name: mine
spec:
  baseline: current
  configs:
  - name: current
    dbOptions:
      enable_pipelined_write: "true"
      max_background_jobs: 8
    columnFamilies:
    - match: ["*"]
      options:
        block_based_table_factory: "{block_size=8192}"
    - match: [default]
      options:
        ttl: 0
    - match: ["ü: #\U0000000a"]
      options:
        block_based_table_factory: "{filter_policy=bloomfilter:10:false}"
        ttl: "18446744073709551615"
    blockCache: {size: 96Mi, sharing: Private}
    writeOptions: {sync: true}
"#;
    let text = draft().yaml();
    assert!(text.starts_with(expected), "{text}");
    let scenario = r#"
  scenarios:
  # Fill in.
  - name: mixed
    workload:
      keyValue:
        keys: 1000
        keyBytes: 20
        valueBytes: {fixed: 400}
        compressedPercent: 50
        families: [default, "ü: #\U0000000a"]
        roles:
        - name: client
          steps: 500000
          warmupSteps: 500000
          mix: {put: 1, get: 9}

"#;
    assert!(text.contains(scenario), "{text}");
    assert!(text.ends_with("  placement:\n    cpus: 2    # each trial is pinned to so many\n"), "{text}");
}

#[test]
fn the_other_config_is_a_template_or_a_change() {
    let template = draft().yaml();
    let commented = "  - name: candidate\n    # columnFamilies:\n    # - match: [\"*\"]\n    #   options:\n    #     \
                     block_based_table_factory: \"{block_size=16384}\"\n";
    assert!(template.contains(commented), "{template}");
    let change = |scope, option: &str, value: &str| {
        let change = Some(Change { scope, option: option.to_owned(), value: value.to_owned() });
        Draft { change, ..draft() }.yaml()
    };
    let db = change(Scope::Db, "max_background_jobs", "2");
    assert!(db.contains("  - name: candidate\n    dbOptions:\n      max_background_jobs: 2\n"), "{db}");
    let table = change(Scope::Families, "block_based_table_factory.block_size", "16384");
    assert!(table.contains("options:\n        block_based_table_factory: \"{block_size=16384}\"\n"), "{table}");
}

#[test]
fn what_is_judged_follows_from_the_scenarios() {
    let with = |steps: u64, rate: Option<u64>| {
        let mut draft = draft();
        let role = &mut draft.scenarios[0].workload.roles[0];
        (role.steps, role.steps_per_second) = (Some(steps), rate);
        let judged = draft.judged();
        (judged.objective, judged.guardrail)
    };
    assert_eq!(with(10_000, None), ("throughput", Some("step_latency_p99")));
    assert_eq!(with(9_999, None), ("throughput", None));
    assert_eq!(with(10_000, Some(5)), ("step_latency_p99", None));
    assert_eq!(with(9_999, Some(5)), ("step_latency_mean", None));
}

#[test]
fn what_rocksdb_rejects_is_taken_out_and_named() {
    let mut draft = draft();
    let problem = |config: &str, scope: &str, option: &str| OptionProblem {
        config: config.to_owned(),
        scope: scope.to_owned(),
        option: option.to_owned(),
        message: "no".to_owned(),
        suggestion: None,
    };
    draft.refuse(&[
        problem(BASELINE, "db", "max_background_jobs"),
        problem(BASELINE, "default", "block_based_table_factory"),
        problem(CANDIDATE, "db", "enable_pipelined_write"),
        problem(BASELINE, "db", ""),
    ]);
    assert_eq!(draft.baseline.db, options(&[("enable_pipelined_write", "true")]));
    let families: BTreeMap<_, _> = draft.baseline.families.iter().cloned().collect();
    assert_eq!(families["default"], options(&[("ttl", "0")]));
    assert_eq!(families["ü: #\n"].len(), 3);
    assert_eq!(
        draft.left_behind(),
        ["rejected by RocksDB: no: block_based_table_factory.block_size=8192 (default), max_background_jobs=8"]
    );
    assert!(draft.yaml().contains("# Not carried over:\n# - rejected by RocksDB: no: block"), "{}", draft.yaml());
}

#[test]
fn long_comments_are_wrapped() {
    let draft = Draft { lost: vec!["word ".repeat(60)], ..draft() };
    let comment: Vec<String> =
        draft.yaml().lines().take_while(|line| line.starts_with('#')).map(str::to_owned).collect();
    assert!(comment.iter().all(|line| line.len() <= 100), "{comment:#?}");
    assert!(comment[3].starts_with("# - word") && comment[4].starts_with("#   word"), "{comment:#?}");
}
