//! No input makes the importers panic, and what they refuse has words.

use assay_core::import::{Collector, DataProblem, Place, Policy, db_bench, hyperfine, judge, markdown, terminal};
use assay_core::report::WIDTH;
use proptest::prelude::*;
use serde_json::{Value, json};

fn policy(metric: &str) -> Policy {
    let policy = json!({"baseline": "a", "objectives": [{"metric": metric, "direction": "higher", "margin": "5%"}],
        "guardrails": [{"metric": "share", "direction": "lower", "margin": "0.01", "scale": "linear"}]});
    Policy::read(&policy).expect("the policy is valid")
}

/// Judges what was collected, and prints it in every form.
fn to_the_end(collector: Collector<'_>, policy: &Policy) -> Result<(), Vec<DataProblem>> {
    let report = collector.finish().and_then(|data| judge(&data, policy))?;
    assert!(terminal(&report, WIDTH).lines().all(|line| line.chars().count() <= WIDTH), "{}", terminal(&report, WIDTH));
    assert!(!markdown(&report).is_empty());
    assert!(report.json().is_ok());
    Ok(())
}

fn has_words(outcome: Result<(), Vec<DataProblem>>) {
    if let Err(problems) = outcome {
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.to_string().trim().is_empty()));
    }
}

fn read_db_bench(text: &str, name: &str) {
    let policy = policy(db_bench::DEFAULT_OBJECTIVE);
    let mut collector = Collector::new(&policy);
    let mut reader = db_bench::Reader::new(collector.file(name), db_bench::RunId::of_file(name, &policy));
    for (number, line) in text.lines().enumerate() {
        reader.line(number as u64 + 1, line, &mut collector);
    }
    reader.finish(&mut collector);
    has_words(to_the_end(collector, &policy));
}

fn read_hyperfine(text: &str) {
    let policy = policy(hyperfine::DEFAULT_OBJECTIVE);
    for block in [None, Some("1")] {
        let mut collector = Collector::new(&policy);
        let file = collector.file("export.json");
        hyperfine::read(text, file, block, &mut collector);
        has_words(to_the_end(collector, &policy));
    }
}

const OUTPUT: &str = "RocksDB:    version 11.8.1\nKeys:       16 bytes each\nEntries:    1000\n\
    fillrandom   :       3.421 micros/op 292338 ops/sec 3.421 seconds 1000 operations;  115.3 MB/s\n\
    Microseconds per write:\nPercentiles: P50: 2.77 P75: 3.81 P99: 9.22\n# assay: config=b block=2\n\
    readrandom   :       7.1 micros/op 139000 ops/sec 7.1 seconds 1000 operations;  15.5 MB/s (632 of 1000 found)\n";
const EXPORT: &str = r#"{"results": [{"command": "a", "times": [1.5, 1.25], "exit_codes": [0, 0]},
    {"command": "b", "times": [1.0, 1.125], "exit_codes": [0, 0]}]}"#;

/// A text with one character replaced by others.
fn mutated(text: &str, at: prop::sample::Index, with: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = at.index(characters.len());
    characters[..at].iter().copied().chain(with.chars()).chain(characters[at + 1..].iter().copied()).collect()
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just(String::new()), ".{0,6}"]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        (1_u32..100).prop_map(|value| value.to_string()),
        any::<f64>().prop_map(|value| value.to_string()),
        ".{0,8}",
        Just("NaN".to_owned()),
        Just("1e400".to_owned()),
        Just("1e-320".to_owned()),
        Just("-0".to_owned()),
    ]
}

fn failed() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec!["", "no", "TRUE", "corruption"]);
    prop_oneof![9 => known.prop_map(str::to_owned), 1 => ".{0,4}"]
}

/// Mostly small numbers, and nothing at all.
fn measured() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 1.0_f64..3.0, 1 => Just(0.0), 1 => 20.0_f64..30.0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn db_bench_takes_anything(text in "(?s).{0,400}", name in ".{0,20}") {
        read_db_bench(&text, &name);
    }

    #[test]
    fn db_bench_takes_broken_output(at in any::<prop::sample::Index>(), with in ".{0,3}") {
        read_db_bench(&mutated(OUTPUT, at, &with), "a.1.txt");
    }

    #[test]
    fn hyperfine_takes_anything(text in "(?s).{0,200}") {
        read_hyperfine(&text);
    }

    #[test]
    fn hyperfine_takes_broken_exports(at in any::<prop::sample::Index>(), with in ".{0,3}") {
        read_hyperfine(&mutated(EXPORT, at, &with));
    }

    #[test]
    fn policies_take_anything(at in any::<prop::sample::Index>(), with in "[ -~]{0,3}") {
        let text = json!({"baseline": "a", "columns": {"value": "v"}, "workTolerance": "1%",
            "objectives": [{"metric": "m", "direction": "higher", "margin": "5%"}],
            "claims": [{"text": "t", "config": "b", "claimed": "Win"}]}).to_string();
        if let Ok(value) = serde_json::from_str::<Value>(&mutated(&text, at, &with))
            && let Err(problems) = Policy::read(&value)
        {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn rows_take_anything(rows in prop::collection::vec(
        (name(), name(), name(), name(), name(), prop_oneof![Just("ops".to_owned()), name()], value(), name(), name(), failed()),
        0..30)) {
        const COLUMNS: [&str; 10] =
            ["session", "scenario", "config", "block", "replicate", "metric", "value", "work", "build", "failed"];
        let policy = policy("ops");
        let mut collector = Collector::new(&policy);
        let file = collector.file("rows");
        for (line, (a, b, c, d, e, f, g, h, i, j)) in rows.iter().enumerate() {
            let fields = COLUMNS.into_iter().zip([a, b, c, d, e, f, g, h, i, j].map(String::as_str));
            collector.row(Place { file, line: line as u64 }, fields);
        }
        has_words(to_the_end(collector, &policy));
    }

    /// Rows that mostly can be judged reach all the arithmetic.
    #[test]
    fn sound_rows_are_judged(
        values in prop::collection::vec((0..3_usize, 0..2_usize, 0..8_u32, 0..8_usize, measured()), 1..60),
        blocked: bool,
        higher: bool,
    ) {
        const ENDINGS: [&str; 3] = ["", "true", "corruption"];
        let direction = if higher { "higher" } else { "lower" };
        let policy = Policy::read(&json!({"baseline": "a",
            "objectives": [{"metric": "ops", "direction": direction, "margin": "5%"}]})).expect("sound");
        let mut collector = Collector::new(&policy);
        let file = collector.file("rows");
        for (line, (config, scenario, block, ending, value)) in values.iter().enumerate() {
            let (block, value) = (block.to_string(), value.to_string());
            let failed = ENDINGS.get(*ending).copied().unwrap_or_default();
            let kind = if blocked { "block" } else { "replicate" };
            let fields = [("config", ["a", "b", "c"][*config]), ("scenario", ["s", "t"][*scenario]), (kind, &*block),
                ("metric", "ops"), ("value", &*value), ("failed", failed)];
            collector.row(Place { file, line: line as u64 }, fields);
        }
        has_words(to_the_end(collector, &policy));
    }
}

#[test]
fn sound_examples_are_sound() {
    let policy = policy("time");
    let mut collector = Collector::new(&policy);
    let file = collector.file("export.json");
    hyperfine::read(EXPORT, file, None, &mut collector);
    let problems = to_the_end(collector, &policy).expect_err("its guardrail is missing");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].to_string(), "no row has the declared metric share");
}
