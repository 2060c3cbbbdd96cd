//! `assay report`: the folder of a run on a cluster is that of a run here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use assay_api::names;
use serde_json::{Value, json};

use crate::lab::{Lab, Ran};
use crate::objects::{Objects, typed};
use crate::server::{NAMESPACE, Server};

/// Runs an experiment here. Times are whole seconds, as objects have them.
fn run(faults: &str) -> (Lab, Objects) {
    let mut lab = Lab::new();
    lab.epoch -= lab.epoch % 1000;
    lab.run(faults);
    for entry in fs::read_dir(lab.out().join("trials")).unwrap() {
        let path = entry.unwrap().path().join("lost.json");
        let Ok(bytes) = fs::read(&path) else { continue };
        let mut lost: Value = serde_json::from_slice(&bytes).unwrap();
        let started = lost["startedUnixMs"].as_u64().unwrap();
        lost["startedUnixMs"] = json!(started - started % 1000);
        fs::write(&path, lost.to_string()).unwrap();
    }
    let objects = Objects::of(&lab.out());
    (lab, objects)
}

fn judge(server: &Server, dir: &Path, out: &str) -> (Ran, Vec<String>) {
    let judged = server.assay(&["judge", dir.to_str().unwrap(), "--out", out]);
    (judged, reports(&server.dir().join(out)))
}

/// The reports in a folder. The experiment's file in the page is that of the folder: one that a cluster gave is written in another way.
fn reports(dir: &Path) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let page = read("report.html");
    let (before, file) = page.split_once("<summary>The experiment file</summary>").unwrap();
    let (file, after) = file.split_once("</details>").unwrap();
    assert!(file.contains("TuningExperiment") && file.contains("candidate"), "{file}");
    vec![read("report.json"), read("report.md"), format!("{before}{after}")]
}

fn table(ran: &Ran) -> String {
    ran.stdout().split("\nReport: ").next().unwrap_or_default().to_owned()
}

#[test]
fn a_name_that_only_this_machine_knows_leads_to_its_folder() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let server = Server::start();
    fs::create_dir_all(server.dir().join("results")).unwrap();
    fs::rename(lab.out(), server.dir().join("results/buffers")).unwrap();
    let ran = server.assay(&["report", "buffers"]);
    ran.refused("no experiment buffers in namespace perf. results/buffers has results of that name");
    ran.refused("`assay report ./results/buffers`");
    server.assay(&["report", "./results/buffers"]).succeeded();
}

#[test]
fn the_folder_of_a_cluster_says_what_that_of_this_machine_says() {
    let (lab, objects) =
        run("fail=fill-b001-candidate-r0-a0,crash=fill-b002-base-r0-a0,disturbed=fill-b003-base-r0-a0");
    let server = Server::start();
    objects.put(&server);
    let ran = server.assay(&["report", "buffers"]);
    let fetched = server.dir().join("results/buffers");
    assert_eq!(ran.stderr(), "");
    let (here, reports) = judge(&server, &lab.out(), "here");
    let (there, same) = judge(&server, &fetched, "there");
    assert_eq!((ran.code(), there.code()), (here.code(), here.code()), "{}", there.stderr());
    assert_eq!(same, reports);
    assert_eq!(self::reports(&fetched), reports);
    assert_eq!((table(&ran), table(&there)), (table(&here), table(&here)));
    assert!(
        ran.stdout().ends_with("Report: results/buffers/report.html; for a pull request: report.md\n"),
        "{}",
        ran.stdout()
    );
    // The same plan, and a file that gives it.
    let plan = |dir: &Path| fs::read_to_string(dir.join("plan.json")).unwrap();
    assert_eq!(plan(&fetched), plan(&lab.out()));
    let mut planned = server.command(&["plan", "results/buffers/experiment.yaml", "-o", "json"]);
    let output = planned.env("ASSAY_BENCH", crate::lab::fake_bench()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), plan(&fetched));

    // What is there is not fetched again, what was spoiled is.
    let asked = server.requests("/configmaps/");
    assert_eq!(asked, objects.records.len());
    assert_eq!(server.assay(&["report", "buffers"]).code(), ran.code());
    assert_eq!(server.requests("/configmaps/"), asked);
    let record = fetched.join("trials/fill-b000-base-r0-a0/record.json");
    fs::write(&record, "{}").unwrap();
    server
        .assay(&["judge", "results/buffers"])
        .refused("trials/fill-b000-base-r0-a0/record.json does not match its summary");
    assert_eq!(server.assay(&["report", "buffers"]).code(), ran.code());
    assert_eq!(server.requests("/configmaps/"), asked + 1);
}

#[test]
fn records_that_are_gone_or_reduced_leave_gaps_in_pictures_only() {
    let (lab, mut objects) = run("");
    let reduced = &mut objects.records[2];
    let dropped = BTreeMap::from([(names::DROPPED_ANNOTATION.to_owned(), "series, latency".to_owned())]);
    reduced.metadata.annotations = Some(dropped);
    let name = reduced.metadata.name.clone().unwrap();
    let server = Server::start();
    objects.put(&server);
    server.remove(&format!(
        "/api/v1/namespaces/{NAMESPACE}/configmaps/{}",
        objects.records[0].metadata.name.clone().unwrap()
    ));
    let ran = server.assay(&["report", "buffers", "--out", "out"]);
    ran.succeeded();
    let line = "assay: 1 record missing: the verdict does not need them, plots leave them out\n";
    assert_eq!(ran.stderr(), line);
    let attempts = fs::read_dir(server.dir().join("out/trials")).unwrap();
    let kept: Vec<Value> = attempts
        .map(|dir| serde_json::from_slice(&fs::read(dir.unwrap().path().join("attempt.json")).unwrap()).unwrap())
        .collect();
    let marked: Vec<&Value> = kept.iter().filter(|kept| kept.get("dropped").is_some()).collect();
    assert_eq!((marked.len(), &marked[0]["dropped"]), (1, &json!(["series", "latency"])));
    assert_eq!(marked[0]["attempt"]["record"], json!(name));
    assert_eq!(table(&ran), table(&judge(&server, &lab.out(), "here").0));
}

#[test]
fn records_that_are_not_what_was_judged_are_refused() {
    let (_lab, mut objects) = run("");
    let first = objects.records[0].binary_data.clone();
    objects.records[1].binary_data = first;
    let server = Server::start();
    objects.put(&server);
    server.assay(&["report", "buffers"]).refused("does not match its summary");
    let mut empty = objects.records[1].clone();
    empty.binary_data = None;
    server.put(typed(&empty, "v1", "ConfigMap"));
    server.assay(&["report", "buffers"]).refused("has no record.json.gz: not a record");
}

#[test]
fn a_plan_of_another_version_names_it() {
    let (_lab, mut objects) = run("");
    let status = objects.experiment.status.as_mut().unwrap();
    let plan = status.plan.as_mut().unwrap();
    (plan.digest, plan.produced_by) = ("00".to_owned(), "assay 9.9.9".to_owned());
    let server = Server::start();
    objects.put(&server);
    server.assay(&["report", "buffers"]).refused("from assay 9.9.9, which runs it (00): use that version of assay");
    objects.experiment.status.as_mut().unwrap().plan = None;
    objects.put(&server);
    server.assay(&["report", "buffers"]).refused("experiment buffers has no plan yet");
}

#[test]
fn folders_of_others_are_left_alone() {
    let (lab, mut objects) = run("");
    let server = Server::start();
    objects.put(&server);
    let here = lab.out();
    let refused = server.assay(&["report", "buffers", "--out", here.to_str().unwrap()]);
    refused.refused("holds trials run on this machine: use another --out");
    server.assay(&["report", "buffers", "--out", "out"]).succeeded();
    let out = server.dir().join("out");
    let mut again = server.command(&["run", lab.dir.path().join("experiment.yaml").to_str().unwrap(), "--out"]);
    again.arg(&out).arg("--bench").arg(crate::lab::fake_bench());
    Ran(again.output().unwrap()).refused("holds trials from a cluster: use another --out");
    objects.experiment.metadata.uid = Some("two".to_owned());
    objects.put(&server);
    server
        .assay(&["report", "buffers", "--out", "out"])
        .refused("holds the trials of another experiment (buffers in namespace perf, uid one)");
}
