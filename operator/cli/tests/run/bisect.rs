//! `assay bisect` on one machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::lab::{EXPERIMENT, Ran, fake_bench, now_ms, wait_for};

/// Trials of the proofs of both ends and of a culprit, of seven blocks each.
const PROOFS: usize = 2 * 2 * 7;

/// A folder with builds v1 to v8 and a list of them.
struct Lab {
    dir: TempDir,
    epoch: u128,
}

impl Lab {
    /// All builds from `culprit` on are 10 % slower.
    fn new(culprit: usize) -> Self {
        let lab = Self { dir: TempDir::new().unwrap(), epoch: now_ms() };
        fs::write(lab.path("experiment.yaml"), EXPERIMENT).unwrap();
        for number in 1..=8 {
            lab.build(number, &format!("FAKE_BENCH_FACTOR={}", if number < culprit { "1" } else { "0.9" }));
        }
        lab.list("");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A build that runs the fake bench after some words of shell.
    fn build(&self, number: usize, words: &str) {
        let path = self.path(&format!("v{number}"));
        let script = format!("#!/bin/sh\n{words} FAKE_BENCH_BUILD={number} exec {} \"$@\"\n", fake_bench().display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn list(&self, more: &str) {
        let candidates =
            (1..=8).map(|number| format!("- {{name: v{number}, revision: r{number}, bench: v{number}}}\n"));
        let head = format!("experiment: experiment.yaml\nproofBlocks: 7\n{more}candidates:\n");
        fs::write(self.path("list.yaml"), head + &candidates.collect::<String>()).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        command
            .current_dir(self.dir.path())
            .args(["bisect", "v1", "v8", "--candidates", "list.yaml", "--out", "out"])
            .args(more)
            .env("FAKE_BENCH_EPOCH", self.epoch.to_string())
            .env_remove("ASSAY_BENCH")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, more: &[&str]) -> Ran {
        Ran(self.command(more).output().unwrap())
    }

    fn answer(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("out/answer.json")).unwrap()).unwrap()
    }

    /// Trials that have a record, of all visits.
    fn records(&self) -> usize {
        let visits = fs::read_dir(self.path("out/visits")).unwrap().flatten();
        let trials = visits.flat_map(|visit| fs::read_dir(visit.path().join("trials")).into_iter().flatten().flatten());
        trials.filter(|trial| trial.path().join("summary.json").exists()).count()
    }
}

fn culprits(answer: &Value) -> Vec<&str> {
    let all =
        answer["culprits"].as_array().unwrap().iter().flat_map(|culprit| culprit["candidates"].as_array().unwrap());
    all.map(|candidate| candidate["name"].as_str().unwrap()).collect()
}

/// Also if a build between does not run, and a call that finds everything done measures nothing.
#[test]
fn a_culprit_among_builds_is_found() {
    let lab = Lab::new(6);
    lab.build(7, "exit 1;");
    let ran = lab.run(&[]);
    ran.succeeded();
    let text = ran.stdout();
    assert!(text.starts_with("culprit: v6 (r6), probability 100.0 %\n"), "{text}");
    assert!(text.contains("% worse in throughput of fill") && text.contains("than v5 (r5), in 7 new blocks"), "{text}");
    assert!(text.contains("\nnot measured: v7 (r7): "), "{text}");
    let answer = lab.answer();
    assert_eq!((culprits(&answer), answer["end"].as_str()), (vec!["v6"], Some("Found")));
    let step = answer["culprits"][0]["step"]["loss"].as_f64().unwrap();
    assert!((step - 0.105).abs() < 0.02, "{step}");
    // Each visit is a results folder like any other.
    assert!(lab.path("out/visits/001/report.html").exists() && !lab.path("out/visits/001/work").exists());
    let records = lab.records();
    assert!(records > PROOFS && records < PROOFS + 30, "{records}");

    let again = lab.run(&["-o", "json"]);
    again.succeeded();
    assert_eq!((serde_json::from_str::<Value>(&again.stdout()).unwrap(), lab.records()), (answer, records));
    assert!(!again.stderr().contains(" done: "), "{}", again.stderr());
}

/// A build that runs and refuses its trials is avoided as well; what can't be told apart is one answer.
#[test]
fn a_build_that_refuses_trials_makes_the_answer_a_range() {
    let lab = Lab::new(5);
    lab.build(5, "FAKE_BENCH=spec=fill-b000-v5-r0-a0 FAKE_BENCH_FACTOR=0.9");
    let ran = lab.run(&[]);
    ran.succeeded();
    assert!(ran.stdout().starts_with("culprit: one of v5 (r5), v6 (r6), probability "), "{}", ran.stdout());
    assert!(
        ran.stdout().contains("not measured: v5 (r5): ") && ran.stdout().contains("no such thing"),
        "{}",
        ran.stdout()
    );
    assert_eq!(culprits(&lab.answer()), ["v5", "v6"]);
}

#[test]
fn an_interrupted_search_continues() {
    let whole = Lab::new(6);
    whole.run(&[]).succeeded();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let lab = Lab::new(6);
        // Builds hang in one trial of the third visit.
        let trial = "fill-b001-v5-r0-a0";
        let mut command = lab.command(&[]);
        let child = command.env("FAKE_BENCH", format!("slow={trial}")).spawn().unwrap();
        let visit = lab.path("out/visits/003");
        wait_for(|| {
            visit.join("trials").join(trial).join("spec.json").exists()
                && visit.join("work/trials").join(trial).exists()
        });
        lab.run(&[]).refused("out is in use by assay run, process ");
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let ended = Ran(child.wait_with_output().unwrap());
        assert_eq!(ended.code(), if signal == Signal::SIGINT { 130 } else { -1 }, "{}", ended.stderr());
        assert!(!lab.path("out/answer.json").exists());
        let before = lab.records();
        let ran = lab.run(&[]);
        ran.succeeded();
        assert_eq!((lab.answer(), lab.records()), (whole.answer(), whole.records()), "{signal}");
        let now = ran.stderr().lines().filter(|line| line.contains(" done: ")).count();
        assert_eq!(now, whole.records() - before, "nothing is measured twice");
    }
}

/// Configs of one build; the last is faster, so it is not worse.
#[test]
fn what_is_not_worse_is_not_reproduced() {
    let lab = Lab::new(9);
    let configs =
        [2, 3, 4].map(|jobs| format!("  - {{name: c{jobs}, dbOptions: {{max_background_jobs: '{jobs}'}}}}\n"));
    let text =
        EXPERIMENT.replace("  - {name: candidate, dbOptions: {max_background_jobs: '4'}}\n", &configs[1..].concat());
    fs::write(lab.path("experiment.yaml"), text).unwrap();
    let list = "experiment: experiment.yaml\nproofBlocks: 7\ncandidates:\n\
                - {name: v1, config: base}\n- {name: v5, config: c3}\n- {name: v8, config: c4}\n";
    fs::write(lab.path("list.yaml"), list).unwrap();
    let ran = lab.run(&["--bench", "v1"]);
    assert_eq!(ran.code(), 11, "{}{}", ran.stdout(), ran.stderr());
    assert!(ran.stdout().starts_with("not reproduced: v8 is 3"), "{}", ran.stdout());
    assert!(ran.stdout().contains(" % better in throughput of fill"), "{}", ran.stdout());
    assert_eq!(lab.answer()["end"], "NotReproduced");
    assert_eq!(lab.records(), PROOFS / 2);

    let unknown = list.replace("config: c3", "config: c5");
    fs::write(lab.path("list.yaml"), unknown).unwrap();
    lab.run(&["--bench", "v1"]).refused("list.yaml:5:22: candidates[1].config: the experiment has no config \"c5\"");
}

#[test]
fn mistakes_are_refused_where_they_are() {
    let lab = Lab::new(6);
    let refused = |text: &str, expected: &str| {
        fs::write(lab.path("list.yaml"), text).unwrap();
        lab.run(&[]).refused(expected);
        assert!(!lab.path("out").exists(), "{expected}");
    };
    let list = fs::read_to_string(lab.path("list.yaml")).unwrap();
    refused("", "list.yaml: is empty");
    refused(
        "experiment: experiment.yaml\ncandidates: []\n",
        "list.yaml:2:1: candidates: has 0 entries, needs at least 2",
    );
    refused(
        &list.replace("name: v3", "name: v2"),
        "list.yaml:6:10: candidates[2].name: duplicate \"v2\"; first used in candidates[1].name",
    );
    refused(&list.replace("bench: v3", "bench: none/v3"), "candidates[2].bench: can't read ./none/v3: No such file");
    refused(&list.replace("bench: v3", "config: base"), "candidates[2]: mixes kinds of candidates: list only programs");
    refused(&list.replace("experiment.yaml", "none.yaml"), "list.yaml:1:13: experiment: there is no file ./none.yaml");
    refused(
        &list.replace("proof", "metric: speed\nproof"),
        "list.yaml:2:9: metric: the experiment judges no metric \"speed\"",
    );
    refused(
        &list.replace("proof", "scenario: read\nproof"),
        "list.yaml:2:11: scenario: the experiment has no scenario \"read\"",
    );
    refused(&list.replace("name: v1,", "name: w1,"), "list.yaml: no candidate has the name or revision \"v1\"");
    let turned: Vec<&str> =
        list.lines().take(3).chain(list.lines().skip(3).collect::<Vec<_>>().into_iter().rev()).collect();
    refused(&turned.join("\n"), "list.yaml: v1 comes after v8: candidates go from old to new");
    fs::copy(lab.path("v1"), lab.path("v8")).unwrap();
    fs::write(lab.path("list.yaml"), &list).unwrap();
    lab.run(&[]).refused("v1 and v8 are the same program or config");
}

#[test]
fn a_folder_serves_one_search() {
    let lab = Lab::new(6);
    fs::create_dir(lab.path("out")).unwrap();
    fs::write(lab.path("out/thesis.tex"), "").unwrap();
    lab.run(&[]).refused("out holds other files, such as thesis.tex, and no bisection");
    fs::remove_file(lab.path("out/thesis.tex")).unwrap();
    lab.list("budgetBlocks: 1\n");
    let ran = lab.run(&[]);
    assert_eq!(ran.code(), 11, "{}{}", ran.stdout(), ran.stderr());
    assert!(
        ran.stdout().starts_with("not sure: the budget is spent, and the culprit is one of v6 (r6), v7 (r7), v8 (r8)"),
        "{}",
        ran.stdout()
    );
    // With a larger budget it continues.
    let before = lab.records();
    lab.list("budgetBlocks: 40\n");
    let ran = lab.run(&[]);
    ran.succeeded();
    assert_eq!(culprits(&lab.answer()), ["v6"]);
    let now = ran.stderr().lines().filter(|line| line.contains(" done: ")).count();
    assert_eq!(now, lab.records() - before);
    // With another build it is another search.
    lab.build(3, "true;");
    lab.run(&[]).refused("out holds another bisection: its candidates, programs or experiment are not those of now");
}
