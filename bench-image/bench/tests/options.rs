//! What `assay-bench options` answers, as a pod asks it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use assay_protocol::{EngineConfig, Exit, MAX_SUMMARY_BYTES, OptionsAnswer, OptionsQuestion, PageCache, invocation};
use support::options;
use tempfile::TempDir;

/// Asks about a config in a folder, where the answer goes as well.
fn ask(dir: &TempDir, config: EngineConfig) -> Output {
    let question = OptionsQuestion {
        families: vec!["default".to_owned()],
        baseline: EngineConfig::default(),
        configs: BTreeMap::from([("candidate".to_owned(), config)]),
        page_cache: PageCache::Evict,
    };
    answer(dir, &question)
}

fn answer(dir: &TempDir, question: &OptionsQuestion) -> Output {
    let file = dir.path().join("question.json");
    fs::write(&file, serde_json::to_vec(question).unwrap()).unwrap();
    Command::new(env!("CARGO_BIN_EXE_assay-bench"))
        .arg(invocation::OPTIONS)
        .arg(file)
        .arg(invocation::flag(invocation::TERMINATION_LOG))
        .arg(dir.path().join("log"))
        .output()
        .unwrap()
}

#[test]
fn a_pod_gets_the_answer_twice() {
    let dir = TempDir::new().unwrap();
    let output = ask(&dir, options(&[("write_bufer_size", "1M")]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: OptionsAnswer = serde_json::from_slice(&output.stdout).unwrap();
    let logged: OptionsAnswer = serde_json::from_slice(&fs::read(dir.path().join("log")).unwrap()).unwrap();
    assert_eq!(logged, printed);
    assert_eq!(logged.problems[0].suggestion.as_deref(), Some("write_buffer_size"));
}

#[test]
fn a_long_answer_is_shortened_in_the_termination_log_alone() {
    let dir = TempDir::new().unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("no_such_option_{number}")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let output = ask(&dir, options(&pairs));
    let printed: OptionsAnswer = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed.problems.len(), 100);
    let log = fs::read(dir.path().join("log")).unwrap();
    assert!(log.len() <= MAX_SUMMARY_BYTES);
    let logged: OptionsAnswer = serde_json::from_slice(&log).unwrap();
    assert!(!logged.problems.is_empty() && printed.problems.starts_with(&logged.problems));
}

/// `assay import` compares with defaults from a file, since it does not link RocksDB.
#[test]
fn the_defaults_that_are_committed_are_those_of_rocksdb() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operator/core/src/adopt/defaults.ini");
    let text = fs::read_to_string(file).unwrap();
    // What can't be declared: objects, what is empty, and what the bench sets itself.
    let cannot = [
        "comparator",
        "create_if_missing",
        "create_missing_column_families",
        "db_host_id",
        "error_if_exists",
        "flush_block_policy_factory",
        "table_factory",
    ];
    let (mut sections, mut title) = (BTreeMap::<&str, BTreeMap<&str, &str>>::new(), "");
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') {
            title = line;
        } else if let Some((name, value)) = line.split_once('=')
            && !matches!(value, "" | "nullptr")
            && !cannot.contains(&name)
        {
            sections.entry(title).or_default().insert(name, value);
        }
    }
    let table = &sections["[TableOptions/BlockBasedTable \"default\"]"];
    let as_string = table.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(";");
    let as_string = format!("{{{as_string}}}");
    let mut family: Vec<(&str, &str)> =
        sections["[CFOptions \"default\"]"].iter().map(|(name, value)| (*name, *value)).collect();
    family.push(("block_based_table_factory", &as_string));
    let db = sections["[DBOptions]"].iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let output = ask(&TempDir::new().unwrap(), EngineConfig { db_options: db, ..options(&family) });
    let answer: OptionsAnswer = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((answer.problems, answer.sanitised), (Vec::new(), Vec::new()));
    // Each of them is what a database has without it.
    let inert: Vec<&str> = answer.inert.iter().map(|note| note.option.as_str()).collect();
    let in_table = table.keys().map(|name| format!("block_based_table_factory.{name}"));
    let plain = sections["[DBOptions]"].keys().chain(sections["[CFOptions \"default\"]"].keys());
    for option in plain.map(|name| (*name).to_owned()).chain(in_table) {
        assert!(inert.contains(&option.as_str()), "{option} has another default: write defaults.ini anew");
    }
}

#[test]
fn a_log_that_can_not_be_written_is_an_error() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("log")).unwrap();
    let output = ask(&dir, EngineConfig::default());
    assert_eq!(output.status.code(), Some(Exit::SpecRefused as i32));
    assert!(String::from_utf8_lossy(&output.stderr).contains("log: Is a directory"));
}

/// Values that RocksDB's parser takes and its databases don't: each is named, and its config alone is refused.
#[test]
fn options_that_crash_or_hang_rocksdb_are_named() {
    let cases = [
        ("table_cache_numshardbits", "40", "db"),
        ("max_file_opening_threads", "100000", "db"),
        ("num_levels", "1000000", "default"),
    ];
    for (option, value, scope) in cases {
        let dir = TempDir::new().unwrap();
        let mut config = options(&[("write_buffer_size", "1M"), ("level0_file_num_compaction_trigger", "8")]);
        if scope == "db" {
            config.db_options.insert(option.to_owned(), value.to_owned());
        } else {
            config.column_families[0].options.insert(option.to_owned(), value.to_owned());
        }
        let output = ask(&dir, config);
        assert!(output.status.success(), "{option}: {}", String::from_utf8_lossy(&output.stderr));
        let answer: OptionsAnswer = serde_json::from_slice(&output.stdout).unwrap();
        let [problem] = &answer.problems[..] else { panic!("{option}: {answer:?}") };
        assert_eq!((problem.scope.as_str(), problem.option.as_str()), (scope, option), "{}", problem.message);
        assert!(problem.message.contains(value), "{}", problem.message);
    }
}

#[test]
fn a_baseline_that_crashes_rocksdb_hides_no_other_mistake() {
    let dir = TempDir::new().unwrap();
    let mut baseline = EngineConfig::default();
    baseline.db_options.insert("table_cache_numshardbits".to_owned(), "40".to_owned());
    let over = |own: EngineConfig| EngineConfig { column_families: own.column_families, ..baseline.clone() };
    let question = OptionsQuestion {
        families: vec!["default".to_owned()],
        configs: BTreeMap::from([
            ("a".to_owned(), over(options(&[("write_bufer_size", "1M")]))),
            ("base".to_owned(), baseline.clone()),
            ("c".to_owned(), over(options(&[("write_buffer_size", "64M")]))),
        ]),
        baseline,
        page_cache: PageCache::Evict,
    };
    let output = answer(&dir, &question);
    let answer: OptionsAnswer = serde_json::from_slice(&output.stdout).unwrap();
    let named: Vec<(&str, &str)> =
        answer.problems.iter().map(|problem| (problem.config.as_str(), problem.option.as_str())).collect();
    assert_eq!(named, [("base", "table_cache_numshardbits"), ("a", "write_bufer_size")], "{answer:?}");
    assert_eq!(answer.all_inert, ["c"]);
}
