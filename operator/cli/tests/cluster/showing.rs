//! `assay status`, and being a plugin of kubectl.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::lab::Lab;
use crate::objects::Objects;
use crate::server::Server;

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
