//! Records are enough: `assay judge` on a folder of a run.

use std::fs;
use std::process::Command;

use crate::lab::{Lab, Ran, fake_bench};

fn judge(lab: &Lab, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    Ran(command.current_dir(lab.dir.path()).args(["judge", "out"]).args(args).output().unwrap())
}

fn reports(lab: &Lab, dir: &str) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(lab.dir.path().join(dir).join(name)).unwrap();
    ["report.json", "report.md", "report.html"].map(read).into()
}

#[test]
fn records_give_the_verdict_of_the_run() {
    let lab = Lab::new();
    let ran = lab.run("fail=fill-b001-candidate-r0-a0,crash=fill-b002-base-r0-a0");
    let reported = reports(&lab, "out");
    // Whatever was derived from the records does not matter.
    fs::write(lab.out().join("report.json"), "{}").unwrap();
    fs::remove_file(lab.out().join("report.md")).unwrap();
    fs::write(lab.trial("fill-b000-base-r0-a0").join("summary.json"), "{}").unwrap();
    let judged = judge(&lab, &["--out", "again"]);
    assert_eq!(judged.code(), ran.code(), "{}", judged.stderr());
    assert_eq!(reports(&lab, "again"), reported);
    let table = |text: String| text.split("\nReport: ").next().unwrap_or_default().to_owned();
    assert_eq!(table(judged.stdout()), table(ran.stdout()));
}

#[test]
fn one_changed_sample_changes_the_result() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let path = lab.trial("fill-b003-candidate-r0-a0").join("record.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["metrics"]["throughput"] = serde_json::json!(1100.0);
    fs::write(&path, record.to_string()).unwrap();
    let before = lab.report()["configs"][0]["estimates"][0].clone();
    judge(&lab, &["--out", "again"]);
    let after: serde_json::Value =
        serde_json::from_slice(&fs::read(lab.dir.path().join("again/report.json")).unwrap()).unwrap();
    assert_ne!(after["configs"][0]["estimates"][0], before);
    // A run that goes on does not take it over.
    lab.run("");
    assert_eq!(lab.report()["configs"][0]["estimates"][0], before);
}

#[test]
fn the_page_shows_the_file_and_what_records_know() {
    let lab = Lab::new();
    lab.run("disturbed=fill-b003-base-r0-a0").succeeded();
    let [json, markdown, html] = &reports(&lab, "out")[..] else { panic!("three forms") };
    assert!(html.contains("max_background_jobs: &#39;2&#39;"), "the experiment's file is in the page");
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    // Every attempt with a record tells where it ran; medians are of those that count.
    assert_eq!(json["setup"]["machines"][0]["attempts"], 13);
    assert_eq!(json["records"][0]["runs"], 6);
    assert_eq!(
        json["design"]["workloads"][0],
        "10 keys of 20 B + 10 B values in 1 family, loaded in random order; writer: 100 \
                                                 steps of put, uniform"
    );
    assert!(markdown.contains("| RocksDB | none |") && markdown.contains("| kernel | unknown |"), "{markdown}");
}

/// Metrics that only full records have are compared as well, wherever the report is shown.
#[test]
fn what_nobody_judged_and_moved_is_said() {
    let lab = Lab::new();
    lab.run("").succeeded();
    for entry in fs::read_dir(lab.out().join("trials")).unwrap() {
        let path = entry.unwrap().path().join("record.json");
        let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let slow = record["spec"]["trial"]["config"] == "candidate";
        record["metrics"]["step_latency_p999"] = serde_json::json!(if slow { 2120.0 } else { 40.0 });
        fs::write(&path, record.to_string()).unwrap();
    }
    let judged = judge(&lab, &["--out", "again"]);
    judged.succeeded();
    let said = "step_latency_p999 is 53 times worse (2.1 ms, base: 40 µs)";
    assert!(judged.stdout().contains(&format!("candidate, not judged: {said}.")), "{}", judged.stdout());
    let [json, markdown, html] = &reports(&lab, "again")[..] else { panic!("three forms") };
    assert!(markdown.contains(&format!("**Not judged**: {said}.")), "{markdown}");
    assert!(html.contains(said));
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["notJudged"][0]["metric"], "step_latency_p999");
    assert_eq!(json["notJudged"][0]["fromRecords"], true);
}

#[test]
fn what_is_no_sound_folder_is_refused() {
    let lab = Lab::new();
    lab.run("").succeeded();
    judge(&lab, &["--baseline", "candidate"]).refused("--baseline does not apply to Assay's own records");
    fs::write(lab.trial("fill-b003-candidate-r0-a0").join("record.json"), "{").unwrap();
    judge(&lab, &[]).refused("is corrupted");
    let plan = lab.out().join("plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("\"margin\": 0.05", "\"margin\": 0.01")).unwrap();
    judge(&lab, &[]).refused("the plan was changed after it was made");
}

/// A report of the first rules does not name them.
#[test]
fn a_folder_of_older_rules_is_judged_again_and_says_so() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let mut report = lab.report();
    report.as_object_mut().unwrap().remove("rules");
    fs::write(lab.out().join("report.json"), report.to_string()).unwrap();
    let judged = judge(&lab, &[]);
    let text = judged.stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("judged by version 1 of the rules"), "{text}");
}

#[test]
fn the_report_of_a_folder_needs_no_cluster() {
    let lab = Lab::new();
    let ran = lab.run("");
    let report = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        command.current_dir(lab.dir.path()).env("KUBECONFIG", "/nowhere").env("HOME", "/nowhere");
        Ran(command.arg("report").args(args).output().unwrap())
    };
    let of_folder = report(&["./out"]);
    assert_eq!(of_folder.code(), ran.code(), "{}", of_folder.stderr());
    assert_eq!(
        of_folder.stdout(),
        judge(&lab, &[]).stdout() + "\nReport: ./out/report.html; for a pull request: report.md\n"
    );
    assert_eq!(of_folder.stderr(), "");
    // A folder is meant before an experiment of its name on a cluster, unless one is chosen.
    let as_name = report(&["out"]);
    assert_eq!((as_name.stdout(), as_name.stderr()), (of_folder.stdout().replace("./out/", "out/"), String::new()));
    let chosen = report(&["out", "--context", "x"]);
    assert_eq!(chosen.stderr(), "assay: no cluster answers, so this is the report of out\n");
    // By its name, where runs go unless somebody says otherwise.
    report(&["buffers"]).refused("results/buffers has no results, and there is no cluster to fetch buffers from");
    report(&["buffers", "--context", "x"]).refused("the cluster can't be asked: can't choose a cluster");
    fs::create_dir(lab.dir.path().join("results")).unwrap();
    fs::rename(lab.out(), lab.dir.path().join("results/buffers")).unwrap();
    let named = report(&["buffers"]);
    assert_eq!(named.code(), ran.code(), "{}", named.stderr());
    assert_eq!(named.stderr(), "assay: no cluster answers, so this is the report of results/buffers\n");
    let text = of_folder.stdout().replace("./out/", "results/buffers/");
    assert_eq!(named.stdout(), text);
    // Written elsewhere.
    assert!(report(&["results/buffers", "--out", "copy"]).stdout().contains("\nReport: copy/report.html;"));
    assert_eq!(reports(&lab, "copy"), reports(&lab, "results/buffers"));
    // What is neither says what to type.
    report(&["./results"])
        .refused("./results holds several results folders. To show one: `assay report ./results/buffers`");
    report(&["results"]).refused("results holds several results folders. To show one: `assay report results/buffers`");
    report(&["./nowhere"]).refused("./nowhere is neither a folder nor the name of an experiment");
    report(&["./results/buffers", "-n", "x"]).refused("apply to no folder");
    fs::create_dir(lab.dir.path().join("empty")).unwrap();
    report(&["./empty"]).refused("./empty has no plan.json, so it is not the folder of a run");
}

/// What is the wrong thing for a command says what it is, and what to type.
#[test]
fn a_wrong_path_leads_to_the_right_command() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let at = |path: &str| lab.dir.path().join(path);
    fs::create_dir(at("results")).unwrap();
    fs::rename(lab.out(), at("results/buffers")).unwrap();
    fs::copy(at("results/buffers/report.json"), at("copy.json")).unwrap();
    fs::copy(at("results/buffers/report.html"), at("copy.html")).unwrap();
    fs::write(at("runs.csv"), "config,block,ops\n").unwrap();
    fs::create_dir(at("db")).unwrap();
    for name in ["CURRENT", "IDENTITY"] {
        fs::write(at("db").join(name), "").unwrap();
    }
    let assay = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        command.current_dir(lab.dir.path()).env("KUBECONFIG", "/nowhere").env("HOME", "/nowhere");
        Ran(command.args(args).output().unwrap())
    };
    let report = "To show its report: `assay report results/buffers`";
    for (path, commands, said) in [
        (
            "experiment.yaml",
            &["report", "judge"][..],
            "experiment.yaml is an experiment file. To run it: `assay run experiment.yaml`; to show its report: `assay report \
             results/buffers`\n"
                .to_owned(),
        ),
        (
            "results/buffers",
            &["run", "aa", "plan", "validate"],
            format!(
                "results/buffers is a results folder. {report}; to continue it: `assay run results/buffers/experiment.yaml \
                 --out results/buffers`\n"
            ),
        ),
        (
            "results/buffers/trials",
            &["run", "plan", "report", "judge"],
            format!("results/buffers/trials is part of the results folder results/buffers. {report}\n"),
        ),
        (
            "results/buffers/report.json",
            &["run", "report", "judge"],
            format!("results/buffers/report.json is part of the results folder results/buffers. {report}\n"),
        ),
        ("copy.json", &["plan", "report", "judge"], "copy.json is a report of Assay, not results.".to_owned()),
        ("copy.html", &["plan", "report", "judge"], "copy.html is a report of Assay, not results.".to_owned()),
        (
            "runs.csv",
            &["run", "validate", "report"],
            "runs.csv is a table of results. To judge it: `assay judge runs.csv`\n".to_owned(),
        ),
        ("db", &["run", "judge"], "db is a RocksDB database. To make an experiment of it: `assay import db`\n".to_owned()),
        ("buffers", &["run", "plan", "judge"], format!("buffers does not exist, but results/buffers has results. {report}\n")),
        (
            "results",
            &["run", "plan", "report", "judge"],
            "results holds several results folders. To show one: `assay report results/buffers`\n".to_owned(),
        ),
    ] {
        for command in commands {
            let ran = assay(&[command, path]);
            ran.refused("assay: ");
            assert!(ran.stderr().starts_with(&format!("assay: {said}")), "{command} {path}: {}", ran.stderr());
        }
    }
    // What is right is taken, also below a results folder.
    assay(&["plan", "results/buffers/experiment.yaml", "--bench", fake_bench().to_str().unwrap()]).succeeded();
    assay(&["judge", "results/buffers"]).succeeded();
}

#[test]
fn a_page_of_records_can_be_had_alone() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let judged = judge(&lab, &["--html", "page.html"]);
    assert!(judged.stdout().ends_with("\nReport: page.html\n"), "{}", judged.stdout());
    assert_eq!(fs::read_to_string(lab.dir.path().join("page.html")).unwrap(), reports(&lab, "out")[2]);
    judge(&lab, &["--objective", "throughput:higher"]).refused("--objective does not apply to Assay's own records");
}
