//! `docs/protocol.md` against what is true: whoever writes a bench by the page must not find out by running it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use assay_protocol::invocation::{self, flag, in_pod};
use assay_protocol::output::{self, Progress};
use assay_protocol::{Digest, Exit, MAX_SUMMARY_BYTES, OptionsAnswer, TrialId, VERSION};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md")).unwrap()
}

/// The lines of the blocks in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}");
    let mut lines = page.lines();
    let mut found = Vec::new();
    while lines.by_ref().any(|line| line == fence) {
        found.extend(lines.by_ref().take_while(|line| *line != "```"));
    }
    found
}

/// What the page has to say, letter by letter.
fn wanted() -> Vec<String> {
    let run = invocation::run(Path::new("SPEC"), Path::new("DIR"), Path::new("FILE"));
    let run = run.map(|argument| argument.into_string().unwrap()).join(" ");
    let (scenario, config) = ("writes".to_owned(), "roomy".to_owned());
    let trial = TrialId { scenario, block: 2, config, replicate: 0, order: 0, attempt: 3 };
    let trials = invocation::trials_dir(Path::new("DIR"));
    let address = "127.0.0.1:40123".parse().unwrap();
    let progress = Progress { phase: "measure".to_owned(), done: 1200, total: 3000, steps_per_second: Some(1000.5) };
    let record = |json: &str| String::from_utf8(output::record_line(json.as_bytes())).unwrap();
    let (before, after) = record("RECORD").split_once("RECORD").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let flagged = |name, value| format!("| `{} {value}` |", flag(name));
    vec![
        format!("\n{run} "),
        format!("\n{} ", invocation::options().join(" ")),
        format!("\n{}\n", in_pod::run(in_pod::DATA_DIR).join(" ")),
        format!("\n{}\n", in_pod::options().join(" ")),
        format!("\n{} ", invocation::WAIT),
        flagged(invocation::DATA, "DIR"),
        flagged(invocation::OUT, "FILE"),
        flagged(invocation::TERMINATION_LOG, "FILE"),
        flagged(invocation::METRICS, "ADDRESS"),
        format!("`{}`", invocation::trial_dir(Path::new("DIR"), &trial).display()),
        format!("`{}`", trials.display()),
        format!("below `{}`", in_pod::DATA_DIR),
        format!("`{}`", in_pod::TEMPORARY_DIR),
        format!("user and group {} ", in_pod::USER),
        format!("SIGKILL {} s later", invocation::GRACE.as_secs()),
        format!("`version` is {VERSION} "),
        format!("`{}` accepts everything", serde_json::to_string(&OptionsAnswer::default()).unwrap()),
        format!("exits with {}.", Exit::SpecRefused as i32),
        format!("that of `abc` is\n`{}`", Digest::of(b"abc")),
        format!("at most {MAX_SUMMARY_BYTES} bytes"),
        format!("\n{}\n{}\n{}\n", output::metrics_line(address), progress.line(), record(r#"{"version":1}"#)),
        format!("At most {} bytes", output::MAX_PROGRESS_BYTES),
        format!("between `{before}` and `{after}`"),
        format!("last {} lines of the log, {} bytes at most", output::LAST_LINES, output::MAX_LOG_BYTES),
        format!("`GET {}`", output::METRICS_PATH),
        format!("`{}` is the histogram", output::STEP_LATENCY),
    ]
}

fn missing(page: &str) -> Vec<String> {
    wanted().into_iter().filter(|text| !page.contains(text.as_str())).collect()
}

#[test]
fn the_page_says_what_is_true() {
    let page = page();
    assert_eq!(missing(&page), Vec::<String>::new());
    assert_eq!(missing(&page.replace("4096", "4097")), [format!("at most {MAX_SUMMARY_BYTES} bytes")]);
}

#[test]
fn its_examples_can_be_read() {
    let page = page();
    let lines = blocks(&page, "json");
    assert!(lines.iter().any(|line| output::metrics_address(line).is_some()));
    assert!(lines.iter().any(|line| Progress::from_line(line).is_some()));
    assert!(output::record_in(&lines.join("\n")).is_some());
    assert_eq!(output::share_done(&blocks(&page, "text").join("\n")), Some(0.4));
}

#[test]
fn every_end_has_its_row() {
    let page = page();
    let section = page.split("\n## ").find(|section| section.starts_with("How it ends\n")).unwrap();
    let codes: Vec<i32> = section.lines().filter_map(|line| line.split('|').nth(1)?.trim().parse().ok()).collect();
    assert_eq!(codes, Exit::ALL.map(|exit| exit as i32));
}
