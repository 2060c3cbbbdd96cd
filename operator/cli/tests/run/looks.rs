//! What looks and A/As do to a run.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::lab::{EXPERIMENT, Lab, Ran, fake_bench};

/// The experiment with so many repetitions, and more fields.
fn longer(more: &str) -> Lab {
    let lab = Lab::new();
    let text = EXPERIMENT.replace("repetitions: 6", &format!("repetitions: 12\n{more}"));
    fs::write(lab.dir.path().join("experiment.yaml"), text).unwrap();
    lab
}

#[test]
fn a_decided_config_ends_at_its_look() {
    let lab = longer("");
    let ran = lab.run("");
    ran.succeeded();
    assert_eq!(lab.records(), 16, "{}", ran.stderr());
    let report = lab.report();
    assert_eq!(report["configs"][0]["verdict"], "Win");
    assert_eq!(report["progress"]["freed"], 8);
    assert_eq!(report["progress"]["complete"], true);
    let plan: Value = serde_json::from_slice(&fs::read(lab.out().join("plan.json")).unwrap()).unwrap();
    assert_eq!(plan["experiment"]["looks"]["blocks"], serde_json::json!([8, 12]));
    assert_eq!(report["plan"], plan["digest"]);
    // Once more: what is decided is not run again.
    let before = lab.report_bytes();
    lab.run("").succeeded();
    assert_eq!(lab.records(), 16);
    assert_eq!(lab.report_bytes(), before);
}

#[test]
fn an_interruption_behind_a_look_changes_nothing() {
    let whole = longer("  stopOn: Never\n");
    whole.run("").succeeded();
    assert_eq!(whole.records(), 24);
    assert_eq!(whole.report()["progress"].get("freed"), None);

    let lab = longer("");
    let mut child = lab.hanging("fill-b007-base-r0-a0");
    // SIGINT, as Ctrl-C sends it.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = lab.report();
    assert_eq!(before["configs"][0]["reason"], "Incomplete", "seven blocks are no look");
    lab.run("").succeeded();
    assert_eq!(lab.records(), 16);
    assert_eq!(lab.report()["configs"][0]["verdict"], "Win");
}

#[test]
fn another_margin_is_another_experiment() {
    let lab = longer("");
    lab.run("").succeeded();
    let file = lab.dir.path().join("experiment.yaml");
    let text = fs::read_to_string(&file).unwrap();
    for (from, to) in [("margin: 5%", "margin: 4%"), ("repetitions: 12", "repetitions: 13"), ("seed: 7", "seed: 8")] {
        fs::write(&file, text.replace(from, to)).unwrap();
        lab.run("").refused("a changed experiment is a new experiment");
    }
}

fn aa(lab: &Lab, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    command.current_dir(lab.dir.path()).args(["aa", "experiment.yaml", "--out", "out", "--bench"]).arg(fake_bench());
    command.args(args).env("FAKE_BENCH_EPOCH", lab.epoch.to_string()).env_remove("FAKE_BENCH");
    Ran(command.output().unwrap())
}

#[test]
fn an_aa_compares_the_baseline_with_itself() {
    let lab = longer("");
    let ran = aa(&lab, &["--names", "2"]);
    ran.succeeded();
    let stdout = ran.stdout();
    for part in ["False claims: 0 of 2 verdicts", "Noise of single runs", "fill", "would be enough", "12: "] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    let noise: Value = serde_json::from_slice(&fs::read(lab.out().join("noise.json")).unwrap()).unwrap();
    let within = noise[0]["within"].as_f64().unwrap();
    assert!(within > 0.0 && within < 0.01, "{noise}");
    let configs = lab.report()["configs"].as_array().unwrap().len();
    assert_eq!(configs, 2);
    // The file that was run can be run again by itself.
    let copy = fs::read_to_string(lab.out().join("experiment.yaml")).unwrap();
    assert!(copy.contains("same-2") && copy.contains("buffers-aa") && !copy.contains("candidate"), "{copy}");
    assert_eq!(aa(&lab, &["--names", "65"]).code(), 2);
}
