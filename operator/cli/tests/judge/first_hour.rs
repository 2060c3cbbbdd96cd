//! Results of another benchmark as people have them, and no policy.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common::{judge_in, said};

/// A folder with one file.
fn with(name: &str, text: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(name), text).expect("a file");
    folder
}

/// Eight blocks in which `new` does a fifth more, with slower tails, under these names of columns.
fn wide(config: &str, block: &str, separator: char) -> String {
    let mut rows = format!("{config},{block},ops_per_sec,p99_us\n");
    for round in 1..=8_u32 {
        let noise = 1.0 + f64::from(round * 37 % 11) / 1111.0 + f64::from(round * round % 7) / 7777.0;
        let _ = writeln!(rows, "old,{round},{:.1},{:.3}", 48_211.7 * noise, 151.234 * noise.powi(3));
        let _ = writeln!(rows, "new,{round},{:.1},{:.3}", 57_853.3 * noise.powi(2), 152.345 / noise);
    }
    rows.replace(',', &separator.to_string())
}

fn judged(folder: &Path, args: &[&str]) -> String {
    said(&judge_in(folder, args))
}

const OBJECTIVE: [&str; 4] = ["--baseline", "old", "--objective", "ops_per_sec:higher:3%"];

#[test]
fn a_table_needs_no_policy() {
    let folder = with("runs.csv", &wide("config", "block", ','));
    let text = judged(folder.path(), &[&["runs.csv"][..], &OBJECTIVE].concat());
    assert!(text.contains("baseline old, design: blocked, 8 blocks") && text.contains("Better:ops_per_sec"), "{text}");
    assert!(text.contains("Margins: ops_per_sec 3 %.") && text.ends_with("exit code 0\n"), "{text}");
    assert!(text.contains("Note: Not judged, because not declared: p99_us (new "), "{text}");
    let guarded = judged(folder.path(), &[&["runs.csv", "--guardrail", "p99_us:lower:10%"][..], &OBJECTIVE].concat());
    assert!(guarded.contains("Margins: ops_per_sec 3 %, p99_us 10 %.") && !guarded.contains("Not judged"), "{guarded}");
    // The same in a long table, and with other separators.
    let mut long = "config,block,metric,value\n".to_owned();
    for row in wide("config", "block", ',').lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        for (metric, value) in [("ops_per_sec", cells[2]), ("p99_us", cells[3])] {
            let _ = writeln!(long, "{},{},{metric},{value}", cells[0], cells[1]);
        }
    }
    for other in [long, wide("config", "block", '\t'), wide("config", "block", ';')] {
        let folder = with("runs.csv", &other);
        assert_eq!(judged(folder.path(), &[&["runs.csv"][..], &OBJECTIVE].concat()), text);
    }
    let lines = wide("config", "block", ',').lines().skip(1).fold(String::new(), |mut lines, row| {
        let cells: Vec<&str> = row.split(',').collect();
        let (config, block, ops, p99) = (cells[0], cells[1], cells[2], cells[3]);
        let _ = writeln!(
            lines,
            "{{\"config\": \"{config}\", \"block\": {block}, \"ops_per_sec\": {ops}, \"p99_us\": {p99}}}"
        );
        lines
    });
    let folder = with("runs.jsonl", &lines);
    assert_eq!(judged(folder.path(), &[&["runs.jsonl"][..], &OBJECTIVE].concat()), text);
}

#[test]
fn tables_of_a_folder_may_end_in_tsv() {
    let folder = with("runs.tsv", &wide("config", "block", '\t'));
    let text = judged(folder.path(), &[&["."][..], &OBJECTIVE].concat());
    assert!(text.contains("Better:ops_per_sec"), "{text}");
}

#[test]
fn other_names_are_asked_about_and_can_be_said() {
    let folder = with("runs.csv", &wide("variant", "round", ','));
    let text = judged(folder.path(), &[&["runs.csv"][..], &OBJECTIVE].concat());
    assert_eq!(
        text,
        "runs.csv:1: column round: may be the block: pass --column block=round if it is, or --ignore-column round if \
         it is not\n\
         runs.csv:1: column config is missing: pass --column config=NAME, or set columns.config in a policy (is it \
         variant?); columns found: variant, round, ops_per_sec, p99_us\n\
         runs.csv: 2 errors\nexit code 1\n"
    );
    let named = ["runs.csv", "--column", "config=variant", "--column", "block=round"];
    let text = judged(folder.path(), &[&named[..], &OBJECTIVE].concat());
    assert!(text.contains("8 blocks") && text.contains("Better:ops_per_sec"), "{text}");
    let ignored = ["runs.csv", "--column", "config=variant", "--ignore-column", "round"];
    let text = judged(folder.path(), &[&ignored[..], &OBJECTIVE].concat());
    assert!(text.contains("design: unblocked"), "{text}");
}

#[test]
fn what_could_be_judged_is_said() {
    let folder = with("runs.csv", &wide("config", "block", ','));
    assert_eq!(
        judged(folder.path(), &["runs.csv"]),
        "assay: no objective declared: pass --objective NAME:higher or NAME:lower, or start with --write-policy \
         policy.yaml; metrics found: ops_per_sec, p99_us\nexit code 1\n"
    );
    let text = judged(folder.path(), &["runs.csv", "--objective", "ops_per_sec:higher"]);
    assert!(text.starts_with("baseline is missing: set --baseline, or baseline in the policy; configs are old, new"));
    let text = judged(folder.path(), &["runs.csv", "--baseline", "old", "--objective", "ops:higher"]);
    assert!(text.starts_with("no row has the declared metric ops"), "{text}");
    // What is wrong with the file comes first.
    let folder = with("runs.csv", "config,block,ops_per_sec\n");
    assert_eq!(
        judged(folder.path(), &["runs.csv"]),
        "runs.csv: has a header but no rows: add the runs\nruns.csv: 1 error\nexit code 1\n"
    );
    let output = judge_in(folder.path(), &["runs.csv", "--objective", "ops_per_sec:up"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("\"up\" is not a direction: use higher or lower"), "{}", said(&output));
}

#[test]
fn a_policy_and_flags_must_agree_but_for_the_baseline() {
    let folder = with("runs.csv", &wide("config", "block", ','));
    let policy = "baseline: new\nobjectives: [{metric: ops_per_sec, direction: higher, margin: 5%}]\n";
    fs::write(folder.path().join("policy.yaml"), policy).expect("a policy");
    let text = judged(folder.path(), &["runs.csv", "--baseline", "old", "--guardrail", "p99_us:lower"]);
    assert!(text.contains("baseline old") && text.contains("p99_us"), "{text}");
    assert_eq!(
        judged(folder.path(), &[&["runs.csv"][..], &OBJECTIVE].concat()),
        "policy.yaml: --objective ops_per_sec says 3%, but it is already declared with 5%: remove one of them\n\
         policy.yaml: 1 error\nexit code 1\n"
    );
}

#[test]
fn a_policy_can_be_written_and_used() {
    let folder = with("runs.csv", &wide("variant", "round", ','));
    let columns = ["--column", "config=variant", "--column", "block=round"];
    let text = judged(folder.path(), &[&["runs.csv", "--write-policy", "policy.yaml"][..], &columns].concat());
    assert_eq!(text, "Wrote policy.yaml. Check the guesses in it, then run: assay judge runs.csv\nexit code 0\n");
    let text = judged(folder.path(), &["runs.csv"]);
    assert!(text.contains("baseline old, design: blocked, 8 blocks") && text.contains("Better:ops_per_sec"), "{text}");
    assert!(text.contains("p99_us"), "{text}");
    // Nothing is overwritten, and a second policy would not be found.
    let written = fs::read_to_string(folder.path().join("policy.yaml")).expect("a policy");
    let again = |file: &str| judged(folder.path(), &["runs.csv", "--write-policy", file]);
    assert_eq!(again("other.yaml"), "assay: policy.yaml already exists: edit it, or move it away first\nexit code 1\n");
    fs::rename(folder.path().join("policy.yaml"), folder.path().join("kept.yaml")).expect("a file");
    let text = judged(folder.path(), &[&["runs.csv", "--write-policy", "kept.yaml"][..], &columns].concat());
    assert_eq!(text, "assay: kept.yaml already exists: remove it, or choose another name\nexit code 1\n");
    assert_eq!(fs::read_to_string(folder.path().join("kept.yaml")).expect("a policy"), written);
    let text = judged(folder.path(), &[&["runs.csv", "--write-policy", "new.yaml"][..], &columns].concat());
    assert!(text.ends_with("then run: assay judge runs.csv --policy new.yaml\nexit code 0\n"), "{text}");
    assert!(judged(folder.path(), &["runs.csv", "--policy", "new.yaml"]).contains("Better:ops_per_sec"));
    // What can't be read makes no policy.
    let text = judged(folder.path(), &["runs.csv", "--write-policy", "x.yaml"]);
    assert!(text.contains("column round: may be the block") && !folder.path().join("x.yaml").exists(), "{text}");
}

#[test]
fn copied_blocks_are_no_evidence() {
    let text = wide("config", "block", ',');
    let copied = text.lines().filter(|line| line.contains(",1,")).fold(text.clone(), |mut all, line| {
        let _ = writeln!(all, "{}", line.replacen(",1,", ",9,", 1));
        all
    });
    let folder = with("runs.csv", &copied);
    let text = judged(folder.path(), &[&["runs.csv", "--out", "out"][..], &OBJECTIVE].concat());
    assert!(text.contains("Invalid") && text.contains("CopiedRuns") && text.ends_with("exit code 11\n"), "{text}");
    let line = text.replace('\n', " ");
    assert!(line.contains("2 of 9 runs of old in workload equal another run in 5 digits of ops_per_sec"), "{text}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).expect("a page");
    assert!(page.contains("CopiedRuns") && page.contains("Copies are no evidence."), "{page}");
}
