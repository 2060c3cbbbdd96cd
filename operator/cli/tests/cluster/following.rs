//! `assay run --cluster`: apply, follow, report.

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::lab::{EXPERIMENT, Lab, Ran, fake_bench, wait_for};
use crate::objects::{Objects, condition, owned_by};
use crate::server::{Server, experiment_path};

/// A server, the objects that an operator will make there, and the command that asks for them.
pub fn set_up(faults: &str) -> (Server, Objects, Command) {
    let mut lab = Lab::new();
    lab.epoch -= lab.epoch % 1000;
    lab.run(faults);
    let objects = Objects::of(&lab.out());
    let server = Server::start();
    fs::write(server.dir().join("experiment.yaml"), EXPERIMENT).unwrap();
    let mut command = server.command(&["run", "--cluster", "experiment.yaml"]);
    command.env("ASSAY_BENCH", fake_bench());
    (server, objects, command)
}

pub fn unfinished(objects: &Objects) -> Value {
    let mut experiment = serde_json::to_value(&objects.experiment).unwrap();
    experiment["status"]["conditions"] = json!([condition("Progressing", "True", "Running", "")]);
    for verdict in experiment["status"]["verdicts"].as_array_mut().unwrap() {
        verdict["reason"] = json!("Incomplete");
    }
    experiment
}

#[test]
fn an_experiment_is_applied_followed_and_reported() {
    let (server, objects, mut command) = set_up("crash=fill-b002-base-r0-a0");
    let child = command.spawn().unwrap();
    wait_for(|| {
        server.requests("tuningtrials?&watch=true") > 0 && server.requests("tuningexperiments?&watch=true") > 0
    });
    let changes = server.changes();
    assert_eq!(changes.len(), 1, "{changes:?}");
    let (request, applied) = &changes[0];
    assert!(request.starts_with(&format!("PATCH {}?", experiment_path("buffers"))), "{request}");
    assert!(request.contains("fieldManager=assay") && request.contains("fieldValidation=Strict"), "{request}");
    assert_eq!(applied["spec"]["baseline"], "base");

    server.put(unfinished(&objects));
    for record in &objects.records {
        server.put(crate::objects::typed(record, "v1", "ConfigMap"));
    }
    let (last, first) = objects.trials.split_last().unwrap();
    for trial in first {
        server.put(serde_json::to_value(trial).unwrap());
    }
    // The last trial may be heard of later than the end.
    server.put_unheard(serde_json::to_value(last).unwrap());
    server.put(serde_json::to_value(&objects.experiment).unwrap());
    let ran = Ran(child.wait_with_output().unwrap());
    ran.succeeded();
    let stderr = ran.stderr();
    let mut lines = stderr.lines();
    assert_eq!(lines.next(), Some("assay: experiment buffers created in namespace perf"));
    let told: Vec<&str> = lines.collect();
    assert_eq!(told.len(), 13, "each attempt once: {stderr}");
    assert!(told.iter().all(|line| line.contains(" of 12 done: ") && line.ends_with(" (60.0 s)")), "{stderr}");
    assert!(stderr.contains("of 12 done: fill block 3 base: lost: killed by signal 9; no record"), "{stderr}");
    assert!(stderr.contains("of 12 done: fill block 3 base try 2: valid"), "{stderr}");
    let out = server.dir().join("results/buffers");
    assert_eq!(fs::read_to_string(out.join("experiment.yaml")).unwrap(), EXPERIMENT);
    let judged = server.assay(&["judge", "results/buffers"]);
    assert_eq!(ran.stdout().split("\nReport: ").next().unwrap(), judged.stdout());

    // The same command again has nothing to wait for.
    let again = Ran(command.output().unwrap());
    again.succeeded();
    assert!(again.stderr().contains("experiment buffers already exists"), "{}", again.stderr());
    assert_eq!(again.stdout(), ran.stdout());
}

#[test]
fn ctrl_c_leaves_the_experiment_alone() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (server, objects, mut command) = set_up("");
        server.put(unfinished(&objects));
        server.put(serde_json::to_value(&objects.trials[0]).unwrap());
        let child = command.spawn().unwrap();
        wait_for(|| server.requests("tuningtrials?&watch=true") > 0);
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let ran = Ran(child.wait_with_output().unwrap());
        assert_eq!(ran.code(), 130, "{}", ran.stderr());
        let stderr = ran.stderr();
        assert!(
            stderr.contains("assay: interrupted; experiment buffers continues on the cluster in namespace perf."),
            "{stderr}"
        );
        assert!(server.get(&experiment_path("buffers")).is_some());
    }
}

#[test]
fn a_short_silence_is_no_end() {
    let (server, objects, mut command) = set_up("");
    objects.put(&server);
    let busy = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "etcd is away", "reason": "InternalError"});
    server.fail("GET /apis/assay.rocks/v1alpha1/namespaces/perf/tuningexperiments?", 1, 500, &busy.to_string());
    let ran = Ran(command.output().unwrap());
    ran.succeeded();
    assert!(ran.stderr().contains("cluster unreachable, retrying"), "{}", ran.stderr());
}

#[test]
fn a_refused_experiment_is_an_error() {
    let (server, objects, mut command) = set_up("");
    let mut refused = unfinished(&objects);
    refused["status"] = json!({"observedGeneration": 1, "conditions": [
        condition("Accepted", "False", "Invalid", "spec.configs[1]: no such option"),
        condition("Finished", "True", "Refused", "spec.configs[1]: no such option"),
    ]});
    server.put(refused);
    Ran(command.output().unwrap())
        .refused("experiment buffers was refused before any trial: spec.configs[1]: no such option");
}

#[test]
fn a_deleted_experiment_ends_the_following() {
    let (server, objects, mut command) = set_up("");
    server.put(unfinished(&objects));
    let child = command.spawn().unwrap();
    wait_for(|| server.requests("tuningexperiments?&watch=true") > 0);
    server.remove(&experiment_path("buffers"));
    Ran(child.wait_with_output().unwrap()).refused("experiment buffers was deleted, with all its trials and records");
}

/// A watch that was interrupted tells of no deletion, and lists what has the name by then.
#[test]
fn an_experiment_that_went_unseen_ends_the_following() {
    let gone =
        json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}});
    for (heir, words) in [(None, "was deleted, with all its trials"), (Some("two"), "another one now has its name")] {
        let (server, objects, mut command) = set_up("");
        server.put(unfinished(&objects));
        server.fail("tuningexperiments?&watch=true", 1, 200, &format!("{gone}\n"));
        let child = command.spawn().unwrap();
        wait_for(|| server.requests("tuningexperiments?&watch=true") > 0);
        server.remove(&experiment_path("buffers"));
        if let Some(uid) = heir {
            let mut experiment = unfinished(&objects);
            experiment["metadata"]["uid"] = json!(uid);
            server.put(experiment);
        }
        Ran(child.wait_with_output().unwrap()).refused(words);
    }
}

#[test]
fn trials_of_a_deleted_experiment_are_no_news() {
    let (server, objects, mut command) = set_up("");
    let mut left = objects.trials.clone();
    for trial in &mut left {
        trial.metadata.owner_references = Some(vec![owned_by("zero")]);
        server.put(serde_json::to_value(trial).unwrap());
    }
    let child = command.spawn().unwrap();
    wait_for(|| server.requests("tuningtrials?&watch=true") > 0);
    objects.put(&server);
    let ran = Ran(child.wait_with_output().unwrap());
    ran.succeeded();
    assert!(!ran.stderr().contains("attempts so far"), "{}", ran.stderr());
    assert_eq!(ran.stderr().lines().filter(|line| line.contains(" of 12 done: ")).count(), 12, "{}", ran.stderr());
}

#[test]
fn an_operator_of_another_version_is_told_at_the_start() {
    let (server, objects, mut command) = set_up("");
    let mut other = unfinished(&objects);
    other["status"]["plan"]["digest"] = json!("0".repeat(32));
    for (experiment, told) in [(unfinished(&objects), false), (other, true)] {
        server.put(experiment);
        let watches = server.requests("tuningexperiments?&watch=true");
        let child = command.spawn().unwrap();
        wait_for(|| server.requests("tuningexperiments?&watch=true") > watches);
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
        let stderr = Ran(child.wait_with_output().unwrap()).stderr();
        let warning = "can't make the final report here: assay 0.1.0 plans experiment buffers differently";
        assert_eq!(stderr.contains(warning), told, "{stderr}");
    }
}

#[test]
fn an_experiment_comes_from_standard_input_too() {
    let (server, objects, _) = set_up("");
    objects.put(&server);
    let mut command = server.command(&["run", "--cluster", "-"]);
    command.env("ASSAY_BENCH", fake_bench()).stdin(fs::File::open(server.dir().join("experiment.yaml")).unwrap());
    Ran(command.output().unwrap()).succeeded();
    assert_eq!(fs::read_to_string(server.dir().join("results/buffers/experiment.yaml")).unwrap(), EXPERIMENT);
}

/// A plugin that gives tokens which have run out already, so that it is asked again each time, until it is told otherwise.
#[test]
fn a_login_that_runs_out_ends_the_following() {
    let (server, objects, mut command) = set_up("");
    server.put(unfinished(&objects));
    let logged_in = server.dir().join("logged-in");
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "x", "expirationTimestamp": "2026-01-02T03:04:05Z"}});
    let script =
        format!("[ -e {} ] || {{ echo the session is over >&2; exit 1; }}; echo '{credential}'", logged_in.display());
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never"});
    let mut kubeconfig: Value = serde_json::from_slice(&fs::read(server.kubeconfig()).unwrap()).unwrap();
    kubeconfig["users"][0]["user"] = json!({ "exec": exec });
    fs::write(server.kubeconfig(), kubeconfig.to_string()).unwrap();
    let words = "can't log in to the cluster (the login command in your kubeconfig failed with exit status: 1: the session is over): log in again";
    Ran(command.output().unwrap()).refused(&format!("can't connect to {}: {words}", server.url()));

    fs::write(&logged_in, "").unwrap();
    let gone =
        json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}});
    server.fail("tuningexperiments?&watch=true", 99, 200, &format!("{gone}\n"));
    let child = command.spawn().unwrap();
    wait_for(|| server.requests("tuningexperiments?&watch=true") > 0);
    fs::remove_file(logged_in).unwrap();
    let ran = Ran(child.wait_with_output().unwrap());
    ran.refused(&format!("experiment buffers continues on the cluster, but can't be followed: {words}"));
}
