//! `assay suspend`, `resume` and `cancel`.

use serde_json::json;

use crate::lab::Lab;
use crate::objects::Objects;
use crate::server::{Server, experiment_path};

fn set_up() -> (Server, Objects) {
    let lab = Lab::new();
    lab.run("").succeeded();
    let mut objects = Objects::of(&lab.out());
    objects.experiment.status.as_mut().unwrap().conditions.clear();
    let server = Server::start();
    objects.put(&server);
    (server, objects)
}

#[test]
fn experiments_are_paused_and_go_on() {
    let (server, _) = set_up();
    let ran = server.assay(&["suspend", "buffers"]);
    ran.succeeded();
    assert!(ran.stdout().starts_with("experiment buffers suspended"), "{}", ran.stdout());
    let changes = server.changes();
    assert_eq!(changes[0].1, json!({"spec": {"suspend": true}}));
    assert_eq!(server.get(&experiment_path("buffers")).unwrap()["spec"]["suspend"], true);
    assert!(server.assay(&["status"]).stdout().contains("`assay resume buffers`"));
    assert_eq!(server.assay(&["resume", "buffers"]).stdout(), "experiment buffers resumed\n");
    assert_eq!(server.changes()[1].1, json!({"spec": {"suspend": false}}));
    server.assay(&["suspend", "bufers"]).refused("no experiment bufers in namespace perf: `assay status -A` lists");
}

#[test]
fn nothing_is_deleted_without_a_yes() {
    let (server, _) = set_up();
    let ran = server.assay(&["cancel", "buffers"]);
    ran.refused("nothing deleted; use --yes when not interactive");
    assert!(
        ran.stdout().starts_with(
            "This permanently deletes experiment buffers in namespace perf with 12 trials and 12 records.\n"
        )
    );
    assert!(ran.stdout().contains("To pause it instead: `assay suspend buffers`."));
    assert!(server.changes().is_empty());
    let ran = server.assay(&["cancel", "buffers", "--yes"]);
    ran.succeeded();
    assert!(ran.stdout().ends_with("experiment buffers deleted\n"), "{}", ran.stdout());
    assert_eq!(server.changes()[0].1["preconditions"], json!({"uid": "one"}));
    assert!(server.get(&experiment_path("buffers")).is_none());
    server.assay(&["cancel", "buffers", "--yes"]).refused("no experiment buffers in namespace perf");
}

#[test]
fn what_is_finished_can_not_be_paused() {
    let lab = Lab::new();
    lab.run("").succeeded();
    let server = Server::start();
    Objects::of(&lab.out()).put(&server);
    server.assay(&["suspend", "buffers"]).refused("experiment buffers has finished (Decided): nothing is running");
    assert!(server.changes().is_empty());
}
