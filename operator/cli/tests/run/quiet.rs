//! Waiting for other programs of the machine.

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::lab::Lab;

#[path = "../support/spinner.rs"]
mod spinner;

#[test]
fn no_trial_starts_beside_a_busy_neighbour() {
    let lab = Lab::new();
    let _neighbours = spinner::Spinner::everywhere();
    let mut child = lab.command("").arg("--wait-for-quiet=1h").spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("assay: waiting for a quiet machine: other programs use "), "{said}");
    // Who they are depends on what else this machine does.
    assert!(said.contains(" % of the trial's CPUs ("), "{said}");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!lab.out().join("trials").exists() || lab.records() == 0);
}

#[test]
fn a_duration_is_asked_for() {
    let lab = Lab::new();
    for wrong in ["10", "-5s", "soon"] {
        let output = lab.command("").arg(format!("--wait-for-quiet={wrong}")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("must be a duration, such as 90s, 10m or 1h"), "{said}");
    }
    let mut of_cluster = Command::new(env!("CARGO_BIN_EXE_assay"));
    let output = of_cluster.args(["run", "experiment.yaml", "--cluster", "--wait-for-quiet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "only the scheduler knows on which node a trial runs");
}
