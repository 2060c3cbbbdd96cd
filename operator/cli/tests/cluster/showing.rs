//! `assay status`, and being a plugin of kubectl.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::lab::Lab;
use crate::objects::Objects;
use crate::server::{Server, experiment_path};

#[test]
fn experiments_are_listed_here_and_everywhere() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let server = Server::start();
    let empty = server.assay(&["status"]);
    empty.succeeded();
    let line = "No experiments in namespace perf: start one with `assay run --cluster FILE`.\n";
    assert_eq!(empty.stdout(), line);
    Objects::of(&lab.out()).put(&server);
    let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
    let here = server.assay(&["status"]).stdout();
    assert_eq!(words(here.lines().nth(1).unwrap())[..5], ["buffers", "Win", "12/12", "0", "Decided"], "{here}");
    let everywhere = server.assay(&["status", "-A"]).stdout();
    assert_eq!(words(everywhere.lines().nth(1).unwrap())[..2], ["perf", "buffers"], "{everywhere}");
    assert_eq!(server.assay(&["status", "-n", "other"]).stdout(), line.replace("perf", "other"));
    let one = server.assay(&["status", "buffers"]).stdout();
    assert!(one.starts_with("buffers in namespace perf, ") && one.contains("12 of 12 trials valid"), "{one}");
    server.assay(&["status", "buffers", "-n", "other"]).refused("no experiment buffers in namespace other");
}

/// As one that a newer operator runs, or that a field with a default was added to.
#[test]
fn an_object_of_another_version_costs_a_line_and_hides_nothing() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let server = Server::start();
    let objects = Objects::of(&lab.out());
    objects.put(&server);
    let mut newer = server.get(&experiment_path("buffers")).unwrap();
    newer["metadata"]["name"] = json!("newer");
    newer["spec"]["planted"] = json!(true);
    server.put(newer);
    for args in [&["status"][..], &["status", "-A"]] {
        let listed = server.assay(args);
        listed.succeeded();
        assert!(listed.stdout().contains("buffers") && !listed.stdout().contains("newer"), "{}", listed.stdout());
        let said = listed.stderr();
        assert!(said.contains("can't read TuningExperiment newer: Unknown field planted"), "{said}");
        assert!(said.contains("use the assay of the operator's version") && said.lines().count() == 1, "{said}");
    }
    for command in ["status", "report", "suspend", "cancel"] {
        let refused = server.assay(&[command, "newer"]);
        refused.refused("can't read experiment newer: can't parse the cluster's answer: unknown field `planted`");
    }
    assert_eq!(server.changes(), []);

    let mut trial = serde_json::to_value(&objects.trials[0]).unwrap();
    trial["spec"]["planted"] = json!(true);
    let line = format!("can't read TuningTrial {}: Unknown field planted", trial["metadata"]["name"].as_str().unwrap());
    server.put(trial);
    let one = server.assay(&["status", "buffers"]);
    one.succeeded();
    assert!(one.stdout().contains("12 of 12 trials valid") && one.stderr().contains(&line), "{}", one.stderr());
    // Its verdict would be another one.
    server.assay(&["report", "buffers"]).refused(&line);
    server.assay(&["cancel", "buffers", "--yes"]).succeeded();
    assert_eq!(server.get(&experiment_path("buffers")), None);
}

#[test]
fn a_plugin_says_how_it_is_called() {
    let server = Server::start();
    let plugin = server.dir().join("kubectl-assay");
    symlink(env!("CARGO_BIN_EXE_assay"), &plugin).unwrap();
    let help = |program: &std::path::Path| {
        let output = Command::new(program).args(["status", "--help"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = help(&plugin);
    assert!(text.contains("Usage: kubectl assay status [OPTIONS] [NAME]"), "{text}");
    let text = help(std::path::Path::new(env!("CARGO_BIN_EXE_assay")));
    assert!(text.contains("Usage: assay status [OPTIONS] [NAME]"), "{text}");
}
