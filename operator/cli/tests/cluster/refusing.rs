//! What is refused before anything is waited for.

use std::fs;

use serde_json::json;

use crate::following::{set_up, unfinished};
use crate::lab::{EXPERIMENT, Ran};
use crate::server::Server;

#[test]
fn another_spec_is_another_experiment() {
    let (server, objects, mut command) = set_up("");
    let mut other = unfinished(&objects);
    other["spec"]["repetitions"] = json!(8);
    server.put(other.clone());
    let ran = Ran(command.output().unwrap());
    ran.refused("another experiment buffers exists in namespace perf");
    ran.refused("rename yours, or delete that one with `assay cancel buffers -n perf`");
    other["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    server.put(other);
    Ran(command.output().unwrap()).refused("is being deleted: try again when it is gone");
    assert_eq!(server.changes().len(), 0);
}

#[test]
fn a_folder_that_is_taken_is_refused_before_anything_is_waited_for() {
    let (server, _, mut command) = set_up("");
    let folder = server.dir().join("results/buffers");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("bench.json"), "{}").unwrap();
    Ran(command.output().unwrap()).refused("holds trials run on this machine: use another --out");
    assert_eq!(server.requests("watch=true"), 0);
}

#[test]
fn a_folder_that_can_not_be_made_is_refused_before_anything_is_waited_for() {
    let (server, _, mut command) = set_up("");
    // Root may write anywhere but below a file.
    fs::write(server.dir().join("file"), "").unwrap();
    Ran(command.args(["--out", "file/out"]).output().unwrap()).refused("choose another folder with --out");
    assert_eq!(server.requests("watch=true"), 0);
}

#[test]
fn files_are_checked_before_anything_is_applied() {
    let server = Server::start();
    let file = server.dir().join("experiment.yaml");
    fs::write(&file, EXPERIMENT.replace("baseline: base", "baseline: bass")).unwrap();
    // A bench beside the program would find something to say about the options as well.
    let mut mistaken = server.command(&["run", "--cluster", "experiment.yaml"]);
    let ran = Ran(mistaken.env("ASSAY_BENCH", "/nowhere/assay-bench").output().unwrap());
    ran.refused("experiment.yaml was not run: fix the 1 error above");
    fs::write(&file, EXPERIMENT.replace("{name: buffers}", "{name: buffers, namespace: other}")).unwrap();
    let ran = server.assay(&["run", "--cluster", "experiment.yaml", "-n", "perf"]);
    ran.refused("experiment.yaml says namespace other, but --namespace says perf: fix one of them");
    let mut without = server.command(&["run", "--cluster", "experiment.yaml", "-n", "perf"]);
    let ran = Ran(without.env("ASSAY_BENCH", "/nowhere/assay-bench").output().unwrap());
    ran.refused("note: options not checked here; the operator will check them (no bench at /nowhere/assay-bench");
    let both = server.assay(&["run", "--cluster", "experiment.yaml", "--bench", "x"]);
    assert_eq!(both.code(), 2);
    assert!(both.stderr().contains("'--cluster' cannot be used with '--bench <[NAME=]PATH>'"), "{}", both.stderr());
    server.assay(&["run", "experiment.yaml", "-n", "perf"]).refused("require --cluster");
    assert_eq!(server.requests(""), 0);
}
