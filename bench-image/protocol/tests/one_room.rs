//! What executors and benches say to each other is spelled in this crate and nowhere else in Rust.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use assay_protocol::invocation::{self, in_pod};
use assay_protocol::output::{self, Progress};

/// What a copy would have in it. Words that mean other things elsewhere, too, are left out: commands, `--out`, exit codes.
fn wire() -> Vec<String> {
    let progress = Progress { phase: String::new(), done: 0, total: 0, steps_per_second: None }.line();
    let metrics = output::metrics_line("0.0.0.0:0".parse().unwrap());
    let record = String::from_utf8(output::record_line(b"{}")).unwrap();
    let frames = [progress, metrics, record].map(|line| line.split_inclusive(':').next().unwrap().to_owned());
    let flags = [invocation::DATA, invocation::TERMINATION_LOG, invocation::METRICS].map(invocation::flag);
    let others = [
        in_pod::METRICS_PORT.to_string(),
        in_pod::TERMINATION_MESSAGE.to_owned(),
        in_pod::INPUT_DIR.to_owned(),
        output::STEPS_DONE.to_owned(),
        output::STEPS_PLANNED.to_owned(),
        output::STEP_LATENCY.to_owned(),
    ];
    frames.into_iter().chain(flags).chain(others).collect()
}

/// Which of them stand in a source, however its quotes, braces and spaces are written.
fn copies(source: &str, wire: &[String]) -> Vec<String> {
    let spaced = ["\\n", "\\r", "\\t"].iter().fold(source.to_owned(), |text, escape| text.replace(escape, " "));
    let spaced = spaced.replace('\\', "").replace("{{", "{");
    let dense: String = spaced.split_whitespace().collect();
    let is_there = |text: &String| [&spaced, &dense].into_iter().any(|plain| has(plain, text));
    wire.iter().filter(|text| is_there(text)).cloned().collect()
}

/// Whether a text is in another, and not as a part of a longer word.
fn has(plain: &str, text: &str) -> bool {
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    plain.match_indices(text).any(|(at, _)| {
        let goes_on_before = text.starts_with(is_in_word) && plain[..at].ends_with(is_in_word);
        let goes_on_after = text.ends_with(is_in_word) && plain[at + text.len()..].starts_with(is_in_word);
        !goes_on_before && !goes_on_after
    })
}

/// All sources of the workspace but those of this crate, with their tests.
fn sources() -> BTreeMap<PathBuf, String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.ancestors().nth(2).unwrap();
    let mut folders: Vec<PathBuf> = ["operator", "bench-image", "e2e"].map(|name| root.join(name)).into();
    let mut sources = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path != own {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    sources
}

#[test]
fn the_wire_is_spelled_in_one_crate() {
    let sources = sources();
    // Both ends of the wire, and a fake of each kind.
    for known in ["controller/src/pod.rs", "bench/src/live.rs", "support/fake_bench.rs", "tests/operator/bench.rs"] {
        assert!(sources.keys().any(|path| path.ends_with(known)), "{known} is not looked at");
    }
    let wire = wire();
    let found: Vec<String> = sources
        .iter()
        .flat_map(|(path, source)| {
            copies(source, &wire).into_iter().map(move |text| format!("{}: {text}", path.display()))
        })
        .collect();
    assert!(found.is_empty(), "use assay_protocol::invocation or output instead: {found:#?}");
}

#[test]
fn a_planted_copy_is_found() {
    let wire = wire();
    for text in &wire {
        let (escaped, braced) = (text.replace('"', "\\\""), text.replace('{', "{{").replace(':', ": "));
        for copy in [text, &escaped, &braced] {
            let source = format!("fn planted() {{\n    say(\"{copy}\");\n}}\n");
            assert_eq!(copies(&source, &wire), [text.as_str()], "{source}");
        }
    }
    // All of them, where they belong.
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire.rs");
    assert_eq!(copies(&fs::read_to_string(own).unwrap(), &wire), wire);
    // Neither a longer word nor another key.
    let others =
        "--data-dir --metrics-port 19464 0x9464_0000 assay_trial_steps_done_total {\"records\": 1} \"record\": 2";
    assert_eq!(copies(others, &wire), Vec::<String>::new());
}

/// The one executor in shell, which can't be given constants.
#[test]
fn the_comparison_with_db_bench_calls_a_bench_as_others_do() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../db-bench/compare.sh");
    let at = |name: &str| format!("\"$work/{name}\"");
    let (spec, data, out) = (at("spec.json"), at("data"), at("record.json"));
    let arguments = invocation::run(Path::new(&spec), Path::new(&data), Path::new(&out));
    let arguments = arguments.map(|argument| argument.into_string().unwrap()).join(" ");
    assert!(fs::read_to_string(script).unwrap().contains(&arguments), "compare.sh does not say {arguments}");
}
