//! What `assay-bench options` answers, as a pod asks it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::fs;
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
    let file = dir.path().join("question.json");
    fs::write(&file, serde_json::to_vec(&question).unwrap()).unwrap();
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
