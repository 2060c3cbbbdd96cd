//! What can be checked of the documentation: its links, its snippets, and that no field and no reason is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assay_api::{TuningExperiment, TuningSweep, names};
use assay_core::attempt::LostReason;
use assay_core::verdict::Reason;
use serde_json::Value;

use crate::common::{assay, package, stderr, stdout};
use crate::examples::merge;

fn root() -> PathBuf {
    package().join("../..")
}

fn read(path: &Path) -> String {
    assert!(path.is_file(), "there is no {}", path.display());
    fs::read_to_string(path).expect("a text")
}

fn page(name: &str) -> String {
    read(&root().join("docs").join(name))
}

/// The pages that are about Assay as a whole.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("there is documentation");
    let docs =
        docs.map(|entry| entry.expect("a page").path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    let others = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "charts/assay/README.md"];
    let mut pages: Vec<PathBuf> = docs.chain(others.map(|name| root().join(name))).collect();
    pages.sort();
    pages
}

/// Lines outside of code, and blocks of code with their language.
fn parts(text: &str) -> (Vec<&str>, Vec<(&str, String)>) {
    let (mut prose, mut blocks) = (Vec::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("```") {
            None => prose.push(line),
            Some(language) => {
                let code: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
                blocks.push((language, code.join("\n") + "\n"));
            }
        }
    }
    (prose, blocks)
}

/// No version is claimed that tests don't run on.
#[test]
fn versions_of_kubernetes_are_those_that_tests_run_on() {
    let version = |modules: &str| {
        let modules = read(&root().join("e2e/cluster/kubernetes").join(modules));
        let found = modules.lines().find_map(|line| line.strip_prefix("\tk8s.io/kubernetes v"));
        found.expect("modules of Kubernetes").to_owned()
    };
    let (oldest, newest) = (version("oldest.mod"), version("go.mod"));
    let minor = oldest.rsplit_once('.').expect("a patch").0;
    let needs = format!("| Kubernetes | tested on {oldest}, the oldest that the chart accepts, and on {newest} |");
    assert!(page("operator.md").lines().any(|line| line == needs), "docs/operator.md: {needs}");
    assert!(read(&root().join("charts/assay/Chart.yaml")).contains(&format!("kubeVersion: \">={minor}.0-0\"")));
    for path in ["docs/install.md", "charts/assay/README.md"] {
        assert!(read(&root().join(path)).contains(&format!("Kubernetes {minor} or newer")), "{path}: {minor}");
    }
}

/// The anchor that a heading gets where it is shown.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &Path) -> BTreeSet<String> {
    let text = read(page);
    parts(&text).0.into_iter().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_matches('#'))).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = read(&page);
        let prose = parts(&text).0.join("\n");
        let links = prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.starts_with("http")) {
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            if !target.exists() || !wanted.is_empty() && !anchors(&target).contains(wanted) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

#[test]
fn every_page_is_in_the_readme() {
    let readme = read(&root().join("README.md"));
    for page in pages().iter().filter(|page| page.parent().is_some_and(|folder| folder.ends_with("docs"))) {
        let name = page.file_name().unwrap_or_default().to_string_lossy();
        assert!(readme.contains(&format!("](docs/{name})")), "README.md does not link docs/{name}");
    }
}

/// What begins with `spec:` is a patch of the example that readers start from.
#[test]
fn every_snippet_of_an_experiment_is_valid() {
    let folder = tempfile::tempdir().expect("a folder");
    let yaml = |text: &str| -> Value { serde_yaml::from_str(text).expect("a document of YAML") };
    let example = read(&root().join("examples/quickstart.yaml"));
    let mut checked = 0;
    for page in pages() {
        let text = read(&page);
        for (_, snippet) in parts(&text).1.iter().filter(|(language, _)| *language == "yaml") {
            let mut document = yaml(&example);
            if snippet.starts_with("apiVersion: assay.rocks") {
                document = yaml(snippet);
            } else if snippet.starts_with("spec:") {
                merge(&mut document, yaml(snippet));
            } else {
                continue;
            }
            let path = folder.path().join("snippet.yaml");
            fs::write(&path, serde_yaml::to_string(&document).expect("YAML")).expect("a file");
            let validated = assay(&["validate", &path.display().to_string()]);
            assert!(validated.status.success(), "{}:\n{snippet}{}", page.display(), stdout(&validated));
            checked += 1;
        }
    }
    assert!(checked >= 6, "only {checked} snippets were found");
}

/// Readers are told to print it themselves.
#[test]
fn the_example_of_a_verdict_is_what_judge_prints() {
    let text = page("verdict.md");
    let example = parts(&text).1.into_iter().map(|(_, code)| code).find(|code| code.starts_with("$ bin/assay judge"));
    let printed = read(&package().join("tests/judge/cases/ok-db-bench.txt"));
    let example = example.expect("docs/verdict.md has an example");
    let (_, shown) = example.split_once("\n\n").expect("the command, then what it prints");
    assert!(printed.contains(shown), "docs/verdict.md shows what is not printed:\n{shown}");
}

/// Names of all fields below a schema.
fn fields(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(properties) = object.get("properties").and_then(Value::as_object) {
                found.extend(properties.keys().cloned());
            }
            object.values().for_each(|value| fields(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_a_spec_is_explained() {
    let schema = assay_api::schema::<TuningExperiment>().expect("there is a schema");
    let mut wanted = BTreeSet::new();
    fields(&schema["properties"]["spec"], &mut wanted);
    assert!(wanted.contains("maxBlockDurationSeconds") && wanted.contains("zipfianExponent"), "{wanted:?}");
    let has = |text: &str, field: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == field);
    let text = page("experiment.md");
    wanted.retain(|field| !has(&text, field));
    assert!(wanted.is_empty(), "docs/experiment.md lacks {wanted:?}");
    // What a sweep has besides.
    let schema = assay_api::schema::<TuningSweep>().expect("there is a schema");
    fields(&schema["properties"]["spec"], &mut wanted);
    let (nights, example) = (page("nights.md"), read(&root().join("examples/nightly.yaml")));
    wanted.retain(|field| !has(&text, field) && !has(&nights, field) && !has(&example, field));
    assert!(wanted.is_empty(), "docs/nights.md lacks {wanted:?}");
}

fn must_have(name: &str, words: impl IntoIterator<Item = String>) {
    let text = page(name);
    let mut words: BTreeSet<String> = words.into_iter().collect();
    assert!(!words.is_empty(), "nothing is asked of docs/{name}");
    words.retain(|word| !text.contains(&format!("`{word}")));
    assert!(words.is_empty(), "docs/{name} lacks {words:?}");
}

#[test]
fn every_benchmark_that_becomes_a_scenario_is_explained() {
    must_have("db-bench.md", assay_core::adopt::BENCHMARKS.map(ToOwned::to_owned));
}

/// The loop of shell that readers are told to copy, with another benchmark.
#[test]
fn the_loop_around_a_program_of_ones_own_ends_in_a_verdict() {
    let text = page("application.md");
    let found = parts(&text).1.into_iter().find(|(_, code)| code.contains("for block in")).expect("there is a loop");
    let program = env!("CARGO_BIN_EXE_assay");
    let lines = found.1.lines().map(|line| match line {
        // To drop the page cache takes root, and time.
        line if line.contains("drop_caches") => "    true\n".to_owned(),
        line => line.replace("bin/assay", program) + "\n",
    });
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    put("loop.sh", &lines.collect::<String>());
    put("snapshot", "data");
    put("benchmark", "#!/bin/sh\ncase $2 in candidate.ini) echo 200;; *) echo 100;; esac\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path().join("benchmark"), mode).expect("a program");
    let output = Command::new("sh").arg("loop.sh").current_dir(folder.path()).output().expect("sh");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("candidate is better than current"), "{}", stdout(&output));
}

/// The values of an enum in a committed schema.
fn values(schema: &str, name: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(&read(&root().join("schemas").join(schema))).expect("a schema is JSON");
    let definition = &schema["$defs"][name];
    let variants = definition["oneOf"].as_array().into_iter().flatten().chain([definition]);
    let words = variants.flat_map(|of| of["enum"].as_array().into_iter().flatten().chain(of.get("const")));
    words.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

#[test]
fn every_verdict_reason_and_label_is_explained() {
    let none = Vec::new;
    let reasons = [
        Reason::Unstable,
        Reason::Harm(none()),
        Reason::Better(none()),
        Reason::GuardrailUnresolved(none()),
        Reason::Failures,
        Reason::Attrition,
        Reason::SlowTail { metrics: none(), scenarios: none() },
        Reason::ScenarioUnresolved(none()),
        Reason::Equivalent,
        Reason::TooFewBlocks,
        Reason::LikelyHarm { metrics: none(), scenarios: none() },
        Reason::NoGain,
        Reason::Underpowered,
        Reason::WorseIn(none()),
    ];
    must_have("verdict.md", reasons.map(|reason| reason.to_string()));
    must_have("verdict.md", ["Incomplete", "Unblocked"].map(ToOwned::to_owned));
    for name in ["Verdict", "Status", "Label"] {
        must_have("verdict.md", values("report.json", name));
    }
}

#[test]
fn every_end_of_an_attempt_is_explained() {
    must_have("troubleshooting.md", LostReason::ALL.map(|reason| format!("{reason:?}")));
    must_have("troubleshooting.md", values("trial-record.json", "FailureKind"));
    must_have("troubleshooting.md", values("report.json", "TrialFate"));
}

/// What is between quotation marks in the operator's sources, and what is between those, file by file and in order: both are known
/// by what they are, so it does not matter how the code is laid out, nor which file has it. Tests, which stand last in a file or in one of
/// their own, say nothing to users.
fn parts_of_the_operator() -> Vec<Vec<String>> {
    let mut folders = vec![root().join("operator/controller/src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the operator has sources") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let text = read(&path);
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                files.push(code.split('"').map(ToOwned::to_owned).collect());
            }
        }
    }
    files
}

/// Words in `CamelCase` that the operator quotes and that are no reasons of conditions. Most are Kubernetes' own.
const OTHERS: [&str; 45] = [
    "Always",
    "Completed",
    "Conflict",
    "ContainerCreating",
    "DeadlineExceeded",
    "Directory",
    "Disrupted",
    "DisruptionTarget",
    "Equal",
    "ErrImage",
    "ErrImageNeverPull",
    "ErrImagePull",
    "Error",
    "EvictionByEvictionAPI",
    "Exists",
    "Failure",
    "False",
    "Findings",
    "InternalIP",
    "Job",
    "Never",
    "NodeAffinity",
    "NodeShutdown",
    "Normal",
    "NotFound",
    "OOMKilled",
    "OutOfmemory",
    "OutOfpods",
    "PascalCase",
    "Pending",
    "PodInitializing",
    "PodScheduled",
    "ReadWriteOnce",
    "Reconcile",
    "RuntimeDefault",
    "SMTAlignmentError",
    "Status",
    "Succeeded",
    "True",
    "TuningExperiment",
    "TuningSweep",
    "TuningTrial",
    "UnexpectedAdmissionError",
    "Unknown",
    "Warning",
];

/// Reasons of conditions have no type: they are all other words in `CamelCase` that the operator quotes.
fn reasons() -> BTreeSet<String> {
    let is_camel_case = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.contains(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_alphabetic())
    };
    let words = parts_of_the_operator().into_iter().flatten();
    words.filter(|word| is_camel_case(word) && !OTHERS.contains(&word.as_str())).collect()
}

#[test]
fn every_reason_of_a_condition_is_explained() {
    // Those of nights are where nights are.
    let nights = page("nights.md");
    let others = reasons().into_iter().filter(|reason| !nights.contains(&format!("`{reason}`")));
    must_have("troubleshooting.md", others);
    // And the other way round: where the sources of a reason are looked for no more, its row says so.
    let text = page("troubleshooting.md");
    let tables =
        text.split("\n| status | reason |").skip(1).map(|table| table.split("\n\n").next().unwrap_or_default());
    let rows = tables.flat_map(|table| table.lines().skip(2));
    let told: BTreeSet<String> = rows.filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect();
    assert!(
        told.contains("OptionsChecked") && told.contains("Decided"),
        "docs/troubleshooting.md has tables: {told:?}"
    );
    let unknown: Vec<_> = told.difference(&reasons()).cloned().collect();
    assert!(
        unknown.is_empty(),
        "docs/troubleshooting.md tells of reasons that the operator does not quote: {unknown:?}"
    );
}

/// The script for Argo CD, which nobody here runs, compares with words that conditions really have.
#[test]
fn the_health_of_an_experiment_is_told_by_conditions_that_there_are() {
    let text = page("operations.md");
    let script = parts(&text).1.into_iter().map(|(_, code)| code).find(|code| code.contains("customizations.health"));
    let script = script.expect("docs/operations.md has a script");
    let compared = |with: &str| -> BTreeSet<String> {
        let comparison = format!("condition.{with} == \"");
        let rest = script.split(&comparison).skip(1);
        rest.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    let types = [names::FINISHED, names::PROGRESSING, names::SUSPENDED].map(ToOwned::to_owned);
    assert_eq!(compared("type"), types.into());
    let (compared, known) = (compared("reason"), reasons());
    assert_eq!(compared.len(), 2);
    assert!(compared.is_subset(&known), "{compared:?}");
}

/// A workflow is read by nobody but the machine that runs it, too late.
#[test]
fn commands_of_workflows_have_the_options_that_there_are() {
    for (file, command, count) in [("rocksdb-change.yml", "run", 2), ("nightly-image.yml", "sweep set-image", 1)] {
        let workflow = read(&root().join("examples/github").join(file));
        let _: Value = serde_yaml::from_str(&workflow).expect("a document of YAML");
        let mut words: Vec<&str> = command.split(' ').collect();
        words.push("--help");
        let help = stdout(&assay(&words));
        let start = format!("assay {command} ");
        let commands: Vec<&str> = workflow.lines().filter_map(|line| Some(line.split_once(&start)?.1)).collect();
        assert_eq!(commands.len(), count, "{file}");
        for option in commands.iter().flat_map(|command| command.split(' ')).filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "assay {command} has no {option}");
        }
    }
}

/// The name of a metric is followed by its help, a sentence, whatever both are given to.
#[test]
fn every_metric_of_the_operator_is_explained() {
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let is_help = |text: &str| text.starts_with(|c: char| c.is_ascii_uppercase() || c == '1') && text.contains(' ');
    let mut found = BTreeSet::new();
    for file in parts_of_the_operator() {
        for parts in file.windows(3) {
            let [name, between, help] = parts else { continue };
            if between.trim() == "," && is_name(name) && is_help(help) {
                found.insert(format!("assay_{name}"));
            }
        }
    }
    assert!(found.contains("assay_effect_low_percent") && found.contains("assay_reconcile_duration"), "{found:?}");
    must_have("operations.md", found);
}
