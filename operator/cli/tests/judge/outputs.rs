//! Reports: the same input gives the same bytes, on the terminal and in files.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{golden, judge_in, package, said};

const POLICY: &str = "title: Twelve rounds
baseline: a
columns: {block: round}
objectives: [{metric: ops, direction: higher, margin: 5%}]
guardrails: [{metric: share, direction: lower, margin: \"0.01\", scale: linear}]
scenarios: [{name: fill, weight: 2}]
claims:
- {text: the blog post, config: b, claimed: Win}
- {text: the blog post, config: c, claimed: Win}
";

/// Two scenarios, two configs, twelve rounds.
fn rows() -> String {
    let mut rows = "\u{feff}scenario,config,round,metric,unit,value\r\n".to_owned();
    for round in 1..=12 {
        for scenario in ["fill", "read"] {
            for (config, factor) in [("a", 1.0), ("b", 1.2), ("c", 1.0)] {
                let ops = (1000 + round * 13 % 7 * 10) as f64 * factor + f64::from(round * 7 % 5);
                let share = if config == "c" { 0.05 } else { f64::from(round % 3) / 1000.0 };
                let _ = write!(
                    rows,
                    "{scenario},\"{config}\",{round},ops,ops/s,{ops}\r\n{scenario},{config},{round},share,,{share}\r\n"
                );
            }
        }
    }
    rows
}

#[test]
fn blocked_reports_are_stable() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("policy.yaml"), POLICY).expect("a policy");
    fs::write(folder.path().join("runs.csv"), rows()).expect("rows");
    let output = judge_in(folder.path(), &[".", "--out", "out"]);
    assert_eq!(output.status.code(), Some(10), "{}", said(&output));
    golden("ok-blocked.txt", &said(&output));
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).expect("a report");
    golden("ok-blocked.md", &read("report.md"));
    let page = read("report.html");
    assert!(page.contains("<h1>Twelve rounds</h1>") && page.contains("<svg"), "{page}");
    let alone = judge_in(folder.path(), &[".", "--html", "page.html"]);
    assert!(said(&alone).contains("\nReport: page.html\n"), "{}", said(&alone));
    assert_eq!(fs::read_to_string(folder.path().join("page.html")).expect("a page"), page);
    // A page replaces nothing that was measured.
    let refused = judge_in(folder.path(), &[".", "--html", "runs.csv"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert_eq!(fs::read_to_string(folder.path().join("runs.csv")).expect("rows"), rows());
    // Nor what others wrote, and what can't be written is refused before the verdict.
    fs::write(folder.path().join("mine.html"), "<title>mine</title>").expect("a page");
    for (args, words) in [
        (
            ["--html", "mine.html"],
            "assay: mine.html is not a report of Assay and would be replaced: choose another name\n",
        ),
        (["--html", "none/x.html"], "assay: can't write none/x.html: there is no folder none; make it first\n"),
        (["--out", "runs.csv"], "assay: runs.csv is a file: choose a folder with --out\n"),
    ] {
        assert_eq!(said(&judge_in(folder.path(), &[&["."], &args[..]].concat())), format!("{words}exit code 1\n"));
    }
    let json = read("report.json");
    assert!(serde_json::from_str::<assay_core::import::ImportReport>(&json).is_ok());
    // Reports that lie with the results are not results.
    assert_eq!(
        said(&judge_in(folder.path(), &[".", "--out", "."])).replace("./report.html", "out/report.html"),
        said(&output)
    );
    assert_eq!(
        said(&judge_in(folder.path(), &[".", "--out", "."])).replace("./report.html", "out/report.html"),
        said(&output)
    );
    assert_eq!(fs::read_to_string(folder.path().join("report.json")).expect("a report"), json);
}

/// The config that is 20 % faster where it does not fail, in a table and in lines of JSON.
#[test]
fn a_failed_run_takes_a_win_away() {
    let judged = |file: &str, text: String| {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = "baseline: a\nobjectives: [{metric: ops, direction: higher, margin: 5%}]\n";
        fs::write(folder.path().join("policy.yaml"), policy).expect("a policy");
        fs::write(folder.path().join(file), text).expect("rows");
        said(&judge_in(folder.path(), &[file]))
    };
    let table = |fifth: &str| {
        let mut rows = "scenario,config,block,metric,value,failed\n".to_owned();
        for block in 1..=12 {
            let own = if block == 5 { fifth.to_owned() } else { format!("{},false", 1200 + block) };
            let _ = write!(rows, "fill,a,{block},ops,{},false\nfill,b,{block},ops,{own}\n", 1000 + block);
        }
        judged("runs.csv", rows)
    };
    let lines = |fifth: &str| {
        let mut rows = String::new();
        for block in 1..=12 {
            for (config, value) in [("a", 1000 + block), ("b", 1200 + block)] {
                let end = if (config, block) == ("b", 5) { fifth.to_owned() } else { format!("\"value\": {value}") };
                let _ = writeln!(
                    rows,
                    "{{\"scenario\": \"fill\", \"config\": \"{config}\", \"block\": {block}, \"metric\": \"ops\", {end}}}"
                );
            }
        }
        judged("runs.jsonl", rows)
    };
    for text in [table("1205,false"), lines("\"value\": 1205, \"failed\": false")] {
        assert!(text.contains("Better:ops") && text.ends_with("exit code 0\n"), "{text}");
    }
    for text in [table(",true"), lines("\"failed\": true")] {
        assert!(text.contains("Do not adopt b yet: 1 of 12 runs of b failed, against 0 of 12 of a."), "{text}");
        assert!(text.ends_with("exit code 11\n"), "{text}");
    }
}

#[test]
fn standard_input_and_another_baseline() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("p.yaml"), POLICY.split("claims").next().unwrap_or_default()).expect("a policy");
    let mut child = Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(["judge", "-", "--policy", "p.yaml", "--baseline", "b"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("assay starts");
    child.stdin.take().expect("its input").write_all(rows().as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(10), "{}", said(&output));
    assert!(said(&output).contains("baseline b, design: blocked"), "{}", said(&output));
}

/// The published sweep that the example holds.
#[test]
fn the_reth_example_says_what_its_runs_support() {
    let root = package().join("../..");
    let output = judge_in(&root, &["examples/judge/reth"]);
    assert_eq!(output.status.code(), Some(11), "{}", said(&output));
    golden("ok-reth.txt", &said(&output));
    let text = said(&output);
    assert!(text.contains("(0 of 25 hold)"), "{text}");
    let row = |parts: &[&str]| text.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    // Corrected baseline: three runs each can't have a smaller p than 0.10.
    assert!(row(&["Win", "Inconclusive", "TooFewBlocks", "+13.2 %", "0.40", "0.10", "3/3"]), "{text}");
    assert!(row(&["Win", "Inconclusive", "TooFewBlocks", "+13.8 %", "0.40", "0.10", "3/3"]), "{text}");
    assert!(row(&["Reject", "Invalid", "FeatureMismatch", "-16.3 %", "0.10", "0.10", "3/3"]), "{text}");
    assert!(row(&["Reject", "Invalid", "FeatureMismatch", "-19.6 %", "0.20", "0.10", "3/3"]), "{text}");
    assert!(row(&["bytes_per_sync_4mb_v2", "Win", "Invalid", "Implausible", "1.00", "1/1"]), "{text}");
}
