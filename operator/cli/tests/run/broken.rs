//! A file of a results folder that is missing, empty or cut off: one error that says which, and what to do.

use std::fs;
use std::process::Command;

use crate::lab::{Lab, Ran};

/// What is done to a file.
const DAMAGES: [&str; 3] = ["missing", "empty", "cut off"];

fn damage(lab: &Lab, name: &str, how: &str) {
    let path = lab.out().join(name);
    let bytes = fs::read(&path).unwrap();
    match how {
        "missing" => fs::remove_file(path).unwrap(),
        "empty" => fs::write(path, "").unwrap(),
        _ => fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
    }
}

/// One run, copied as often as it is needed.
struct Done(Lab);

impl Done {
    fn new() -> Self {
        let lab = Lab::new();
        lab.run("").succeeded();
        Self(lab)
    }

    fn damaged(&self, name: &str, how: &str) -> Lab {
        let mut lab = Lab::new();
        lab.epoch = self.0.epoch;
        let copied = Command::new("cp").arg("-r").args([self.0.out(), lab.out()]).status().unwrap();
        assert!(copied.success());
        damage(&lab, name, how);
        lab
    }

    fn trial(&self) -> String {
        format!("trials/{}", self.0.trial("fill-b001-base-r0-a0").file_name().unwrap().to_str().unwrap())
    }
}

fn judge(lab: &Lab) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    Ran(command.current_dir(lab.dir.path()).args(["judge", "out", "--out", "again"]).output().unwrap())
}

/// One line, which names the file, says what is wrong with it and what to do.
#[track_caller]
fn one_error(ran: &Ran, name: &str, how: &str, fix: &str) {
    let said = ran.stderr();
    assert_eq!((ran.code(), said.lines().count()), (1, 1), "{name} {how}: {said}");
    let wrong = if how == "missing" { "is missing" } else { "is corrupted (" };
    assert!(said.contains(&format!("{name} {wrong}")) && said.contains(fix), "{name} {how}: {said}");
}

#[test]
fn the_plan_and_the_benches_are_restored_or_left() {
    let done = Done::new();
    for name in ["plan.json", "bench.json"] {
        for how in DAMAGES {
            let lab = done.damaged(name, how);
            one_error(&lab.run(""), name, how, "restore it, or use another --out");
            assert_eq!(lab.report_bytes(), done.0.report_bytes(), "{name} {how}");
            let judged = judge(&lab);
            if name == "plan.json" {
                one_error(&judged, name, how, "restore it");
            } else {
                assert_eq!(judged.code(), 0, "records are judged without the bench: {}", judged.stderr());
            }
        }
    }
}

#[test]
fn a_trial_whose_files_are_broken_runs_again_and_says_so() {
    let done = Done::new();
    for name in ["record.json", "summary.json"] {
        for how in DAMAGES {
            let file = format!("{}/{name}", done.trial());
            let lab = done.damaged(&file, how);
            let judged = judge(&lab);
            let ran = lab.run("");
            ran.succeeded();
            let said = ran.stderr();
            let ran_again = said.lines().filter(|line| line.contains(" done: ")).count();
            let aside = lab.trial("fill-b001-base-r0-a0.corrupt").exists();
            if name == "summary.json" {
                // The record alone decides; the summary shows that it was not changed.
                assert_eq!(judged.code(), 0, "{how}: {}", judged.stderr());
            } else {
                one_error(&judged, "record.json", how, "restore it, or remove its folder and run the trial again");
            }
            if (name, how) == ("summary.json", "missing") {
                assert!(ran_again == 0 && !aside, "a run was killed before it was written: {said}");
            } else {
                let noted = |line: &&str| {
                    line.contains("fill-b001-base-r0-a0/record.json") && line.contains("; the trial runs again")
                };
                assert_eq!(said.lines().filter(noted).count(), 1, "{name} {how}: {said}");
                assert!(ran_again == 1 && aside, "{name} {how}: {said}");
            }
            assert_eq!(lab.report_bytes(), done.0.report_bytes(), "{name} {how}");
        }
    }
}
