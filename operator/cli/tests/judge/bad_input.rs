//! One mistake each: the words, the places, and never a verdict.

use std::fs;

use crate::common::{golden, judge_in, said};

const POLICY: &str = "baseline: a\nobjectives: [{metric: ops, direction: higher, margin: 5%}]\n";
const HEADER: &str = "scenario,config,block,metric,value\n";

/// A name, the policy, the file's name and what is in it.
fn cases() -> Vec<(&'static str, String, &'static str, Vec<u8>)> {
    let csv = |name, rows: &str| (name, POLICY.to_owned(), "runs.csv", format!("{HEADER}{rows}").into_bytes());
    let raw = |name, text: &str| (name, POLICY.to_owned(), "runs.csv", text.as_bytes().to_vec());
    let jsonl = |name, text: &str| (name, POLICY.to_owned(), "runs.jsonl", text.as_bytes().to_vec());
    let rows = "s,a,1,ops,100\ns,b,1,ops,110\n";
    let policy = |name, policy: &str| (name, policy.to_owned(), "runs.csv", format!("{HEADER}{rows}").into_bytes());
    vec![
        csv("not-a-number", "s,a,1,ops,100\ns,b,1,ops,fast\ns,b,2,ops,\"1,5\"\n"),
        csv("not-finite", "s,a,1,ops,NaN\ns,b,1,ops,inf\ns,b,2,ops,1e999\n"),
        csv("negative", "s,a,1,ops,0\ns,b,1,ops,-3\n"),
        csv("empty-value", "s,a,1,ops,\n"),
        csv("empty-name", "s,,1,ops,5\n"),
        csv("long-name", &format!("s,{},1,ops,5\n", "x".repeat(200))),
        csv("duplicate", "s,a,1,ops,100\ns,b,1,ops,110\ns,b,1,ops,111\n"),
        csv("short-row", "s,a,1,ops\n"),
        csv("long-row", "s,a,1,ops,1234,5\n"),
        csv("unclosed-quote", &format!("s,a,1,ops,\"{}", "x".repeat(2 << 20))),
        csv("half-blocked", "s,a,1,ops,100\ns,b,,ops,110\n"),
        csv("only-the-baseline", "s,a,1,ops,100\ns,a,2,ops,110\n"),
        csv("baseline-missing", "s,aa,1,ops,100\ns,b,1,ops,110\n"),
        csv("metric-missing", "s,a,1,opps,100\ns,b,1,opps,110\n"),
        csv("header-only", ""),
        csv("many-problems", &(0..1000).map(|row| format!("s,a,1,ops,x{row}")).collect::<Vec<_>>().join("\n")),
        csv("one-problem-in-all-rows", &"s,a,1,ops,x\n".repeat(1000)),
        raw("empty", ""),
        raw("missing-column", "scenario,config,metric,Value\ns,a,ops,1\n"),
        raw("unknown-column", "scenario,config,metric,value,host\ns,a,ops,1,h\n"),
        raw("failed-word", "scenario,config,block,metric,value,failed\ns,a,1,ops,100,\ns,b,1,ops,,maybe\n"),
        raw(
            "failed-within-a-run",
            "scenario,config,block,metric,value,failed\ns,a,1,ops,100,no\ns,b,1,ops,110,no\ns,b,1,rss,,yes\n",
        ),
        raw("column-twice", "scenario,config,metric,value,value\ns,a,ops,1,2\n"),
        raw("pipes", "scenario|config|metric|value\ns|a|ops|1\n"),
        raw("decimal-commas", "config;block;p99;ops\na;1;2,5;1,5\nb;1;2,6;1,6\n"),
        raw("thousands", "config,block,ops\na,1,\"1,234,567.8\"\nb,1,\"1,234,568.9\"\n"),
        raw("unnamed-column", ",config,block,ops\n0,a,1,5\n1,b,1,6\n"),
        raw("wide-without-config", "variant,block,ops\na,1,5\nb,1,6\n"),
        raw("wide-configs", "block,a,b\n1,100,110\n2,101,111\n"),
        raw("wide-other-configs", "block,old,new\n1,100,110\n"),
        raw("failed-words", &format!("config,block,ops,failed\n{}", "a,1,100,ok\n".repeat(30))),
        raw("wide-roles", "config,round,commit,ops\na,1,7,5\nb,1,7,6\n"),
        raw("wide-text", "config,block,ops,state,p99\na,1,5,ok,7\nb,1,6,ok,8\n"),
        raw("wide-unit", "config,block,ops,unit\na,1,5,ops/s\nb,1,6,ops/s\n"),
        raw("wide-value", "config,block,value\na,1,5\nb,1,6\n"),
        raw("wide-empty-value", "config,block,ops\na,1,5\nb,1,\n"),
        raw("wide-header-only", "config,block,ops\n"),
        raw("mixed-units", "scenario,config,metric,value,unit\ns,a,ops,1,ops/s\ns,b,ops,1,kops/s\n"),
        (
            "work-within-a-run",
            format!("{POLICY}guardrails: [{{metric: rss, direction: lower, margin: 5%}}]\n"),
            "runs.csv",
            b"scenario,config,replicate,metric,value,work\ns,a,1,ops,1,10\ns,a,1,rss,1,11\n".to_vec(),
        ),
        ("not-utf8", POLICY.to_owned(), "runs.csv", [HEADER.as_bytes(), b"s,\xff,1,ops,5\n"].concat()),
        raw(
            "two-runs-in-a-block",
            "scenario,config,block,replicate,metric,value\ns,a,1,1,ops,1\ns,b,1,1,ops,1\ns,b,1,2,ops,1\n",
        ),
        raw("requests", &("scenario,config,metric,value\n".to_owned() + &"s,a,ops,1\ns,b,ops,1\n".repeat(1001))),
        jsonl(
            "json-syntax",
            "{\"scenario\": \"s\", \"config\": \"a\", \"metric\": \"ops\", \"value\": 1}\n{\"scenario\": }\n",
        ),
        jsonl(
            "json-twice",
            "{\"scenario\": \"s\", \"config\": \"a\", \"config\": \"b\", \"metric\": \"ops\", \"value\": 1}\n",
        ),
        jsonl("json-nested", "{\"scenario\": \"s\", \"config\": \"a\", \"metric\": \"ops\", \"value\": [1, 2]}\n"),
        jsonl("json-wide-text", "{\"config\": \"a\", \"ops\": 1, \"state\": \"ok\"}\n{\"ops\": 1}\n"),
        jsonl("json-missing", "{\"scenario\": \"s\", \"config\": \"a\", \"metric\": \"ops\"}\n"),
        jsonl(
            "json-unknown",
            "{\"scenario\": \"s\", \"config\": \"a\", \"metric\": \"ops\", \"value\": 1, \"vlaue\": 1}\n",
        ),
        policy("no-baseline", "objectives: [{metric: ops, direction: higher, margin: 5%}]\n"),
        policy("no-objective", "baseline: a\n"),
        policy("policy-field", &format!("{POLICY}guardrail: []\n")),
        policy("policy-margin", "baseline: a\nobjectives: [{metric: ops, direction: higher, margin: \"0.05\"}]\n"),
        policy(
            "policy-at-least",
            &format!("{POLICY}guardrails: [{{metric: share, direction: lower, margin: 5%, atLeast: 1%}}]\n"),
        ),
        policy("policy-direction", "baseline: a\nobjectives: [{metric: ops, direction: up, margin: 5%}]\n"),
        policy("policy-twice", &format!("{POLICY}guardrails: [{{metric: ops, direction: higher, margin: 5%}}]\n")),
        policy("policy-columns", &format!("{POLICY}columns: {{config: x, scenario: x}}\nignoreColumns: [x]\n")),
        policy("policy-typos", &format!("{POLICY}configs: [{{name: bb}}]\nscenarios: [{{name: x, weight: 2}}]\n")),
        policy("policy-claim", &format!("{POLICY}claims: [{{text: t, config: b, claimed: Better}}]\n")),
        policy("policy-syntax", "baseline: [\n"),
    ]
}

#[test]
fn every_mistake_has_its_words() {
    let mut names = Vec::new();
    for (name, policy, file, bytes) in cases() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("policy.yaml"), policy).expect("a policy");
        fs::write(folder.path().join(file), bytes).expect("a file");
        let output = judge_in(folder.path(), &[file]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", said(&output));
        golden(&format!("{name}.out"), &said(&output));
        names.push(format!("{name}.out"));
    }
    let kept: Vec<String> = fs::read_dir(crate::common::package().join("tests/judge/cases"))
        .expect("goldens")
        .map(|entry| entry.expect("a golden").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with("ok-") && !names.contains(name))
        .collect();
    assert!(kept.is_empty(), "goldens without a case: {kept:?}");
}

#[test]
fn files_that_are_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |args: &[&str]| {
        let output = judge_in(folder.path(), args);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        said(&output)
    };
    assert!(refused(&["nowhere.csv"]).starts_with("assay: can't read nowhere.csv: No such file"));
    assert!(refused(&["."]).starts_with("assay: . has no results: no file ends in csv,"));
    for (name, bytes, words) in [
        (
            "table.xlsx",
            b"PK\x03\x04\x14\0".as_slice(),
            "it is a spreadsheet (.xlsx, .ods) or another zip archive; save it as CSV",
        ),
        ("table.xls", b"\xd0\xcf\x11\xe0\xa1", "it is an old spreadsheet (.xls); save it as CSV"),
        ("table.csv.gz", b"\x1f\x8b\x08\0", "it is compressed; unpack it with gunzip"),
        ("little.csv", b"\xff\xfec\0o\0", "it is UTF-16; save it as UTF-8"),
        ("big.csv", b"\xfe\xff\0c\0o", "it is UTF-16; save it as UTF-8"),
        ("unmarked.csv", b"c\0o\0", "it has NUL bytes: not a text file, or UTF-16; save it as UTF-8"),
    ] {
        fs::write(folder.path().join(name), bytes).expect("a file");
        for extra in [&[][..], &["--objective", "ops:higher", "--baseline", "a"]] {
            let text = refused(&[&[name][..], extra].concat());
            assert_eq!(text, format!("assay: can't read {name}: {words}\nexit code 1\n"));
        }
    }
    fs::write(folder.path().join("plan.json"), "{}").expect("a plan");
    assert!(refused(&["."]).starts_with("assay: ./plan.json is corrupted"));
}
