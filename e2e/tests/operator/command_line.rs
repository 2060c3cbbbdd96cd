//! `assay` against the same cluster: what people type, and what it prints.

use std::process::Output;

use assay_api::{TuningExperiment, names};
use serde_json::Value;
use tokio::process::Command;

use crate::experiment;
use crate::lab::{Lab, SOON};
use crate::scene::Scene;

/// Runs `assay` in the lab's namespace.
pub async fn assay(lab: &Lab, args: &[&str]) -> Output {
    run(&std::env::var("ASSAY").expect("ASSAY is the path of the program"), lab, args).await
}

/// The same of another program.
pub async fn run(program: &str, lab: &Lab, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).args(["--namespace", &lab.namespace]).output().await;
    output.expect("assay can be started")
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// An experiment as a file.
fn written(lab: &Lab, experiment: &mut Value) -> String {
    experiment["apiVersion"] = "assay.rocks/v1alpha1".into();
    experiment["kind"] = "TuningExperiment".into();
    let file = lab.folder.join("experiment.yaml");
    std::fs::write(&file, serde_yaml::to_string(&experiment).expect("YAML")).expect("a file");
    file.display().to_string()
}

/// What `assay report` fetches is judged by `assay judge` to the same bytes, and to what the status names.
pub async fn report_is_judged_alike(lab: &Lab, name: &str, code: i32) {
    let (fetched, judged) = (lab.folder.join("fetched"), lab.folder.join("judged"));
    let report = assay(lab, &["report", name, "--out", &fetched.display().to_string()]).await;
    lab.check(report.status.code() == Some(code), &format!("report ended otherwise: {}", text(&report))).await;
    let program = std::env::var("ASSAY").expect("ASSAY is the path of the program");
    let judge = Command::new(program).arg("judge").arg(&fetched).arg("--out").arg(&judged).output().await;
    let judge = judge.expect("ASSAY can be started");
    lab.check(judge.status.code() == Some(code), &format!("judge ended otherwise: {}", text(&judge))).await;
    let table = |output: &Output| text(output).split("\nReport: ").next().unwrap_or_default().to_owned();
    lab.check(table(&report) == table(&judge), &format!("{}\nis not\n{}", text(&report), text(&judge))).await;
    let read = |folder: &std::path::Path| std::fs::read(folder.join("report.json")).expect("a report");
    lab.check(read(&fetched) == read(&judged), "report.json differs").await;
    let mut parsed: assay_core::report::Report = serde_json::from_slice(&read(&judged)).expect("a report is JSON");
    parsed.time_spent.clear();
    let digest = assay_core::status::report_digest(&parsed).expect("a report is JSON");
    let status = lab.status(name).await;
    lab.check(status.report_digest.as_ref() == Some(&digest), "the status names another report").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_is_run_followed_and_reported() {
    let scene = Scene::new("typed", |bench| bench).await;
    let mut experiment = experiment::small(&scene.lab, &scene.name);
    let file = written(&scene.lab, &mut experiment);
    let out = scene.lab.folder.join("out").display().to_string();
    let ran = assay(&scene.lab, &["run", "--cluster", &file, "--out", &out]).await;
    let said = text(&ran);
    scene.lab.check(ran.status.code() == Some(0) && said.contains("Win"), &said).await;
    scene.decides(&[]).await;

    let again = assay(&scene.lab, &["run", "--cluster", &file, "--out", &out]).await;
    scene.lab.check(again.status.code() == Some(0), &format!("the same command again: {}", text(&again))).await;
    experiment["spec"]["repetitions"] = 6.into();
    let file = written(&scene.lab, &mut experiment);
    let other = assay(&scene.lab, &["run", "--cluster", &file, "--out", &out]).await;
    scene.lab.check(other.status.code() == Some(1), &format!("another spec: {}", text(&other))).await;

    report_is_judged_alike(&scene.lab, &scene.name, 0).await;
    for args in [vec!["status"], vec!["status", &scene.name]] {
        let status = assay(&scene.lab, &args).await;
        let said = text(&status);
        scene.lab.check(status.status.success() && said.contains("Win"), &said).await;
    }
    let missing = assay(&scene.lab, &["report", "nothing"]).await;
    scene.lab.check(missing.status.code() == Some(1), &text(&missing)).await;

    let canceled = assay(&scene.lab, &["cancel", &scene.name, "--yes"]).await;
    scene.lab.check(canceled.status.success(), &text(&canceled)).await;
    scene
        .lab
        .until("the experiment is gone", SOON, async || {
            scene.lab.api::<TuningExperiment>().get_opt(&scene.name).await.ok()?.is_none().then_some(())
        })
        .await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_is_suspended_and_resumed() {
    let scene = Scene::new("paused", |bench| bench).await;
    scene.begin(|_| ()).await;
    scene.lab.condition(&scene.name, names::ACCEPTED, "True", None, SOON).await;
    let suspended = assay(&scene.lab, &["suspend", &scene.name]).await;
    scene.lab.check(suspended.status.success(), &text(&suspended)).await;
    scene.lab.condition(&scene.name, names::SUSPENDED, "True", None, SOON).await;
    let resumed = assay(&scene.lab, &["resume", &scene.name]).await;
    scene.lab.check(resumed.status.success(), &text(&resumed)).await;
    scene.ends_well(&[]).await;
}

/// Bash is asked as a person asks it, with a tab; of the others it is known what they must be told.
#[test]
fn shells_complete_commands() {
    let program = std::env::var("ASSAY").expect("ASSAY is the path of the program");
    let printed = |command: &mut std::process::Command| {
        let output = command.output().expect("it can be started");
        assert!(output.status.success(), "{command:?}: {}", text(&output));
        text(&output)
    };
    let completions = |shell: &str| printed(std::process::Command::new(&program).args(["completions", shell]));
    let tab = r#"source <("$0" completions bash); COMP_WORDS=(assay no) COMP_CWORD=1; _assay assay no assay; echo "${COMPREPLY[@]}""#;
    assert_eq!(printed(std::process::Command::new("bash").args(["-c", tab, &program])), "nodes\n");
    let (zsh, fish) = (completions("zsh"), completions("fish"));
    assert!(zsh.starts_with("#compdef assay\n") && zsh.contains("\n'nodes:"), "{zsh}");
    assert!(fish.contains("complete -c assay ") && fish.contains(r#"-a "nodes""#), "{fish}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_judged_and_their_noise_is_measured() {
    let mut lab = Lab::with_nodes("nodes", 2).await;
    let tainted = lab.add_node().await;
    lab.kubectl(&["taint", "node", &tainted, "lab=closed:NoSchedule"]).await;
    lab.kubectl(&["cordon", &lab.nodes[1]]).await;
    let scene = Scene::of(lab, "nodes", &[], |bench| bench);
    let file = written(&scene.lab, &mut experiment::small(&scene.lab, &scene.name));
    let out = scene.lab.folder.join("out").display().to_string();
    let noise = assay(&scene.lab, &["aa", "--cluster", &file, "--out", &out]).await;
    let said = text(&noise);
    scene.lab.check(noise.status.code() == Some(0), &said).await;
    for part in ["False claims: 0 of 1 verdict overall", "Noise of single runs", "Gains that nodes can detect here"] {
        scene.lab.check(said.contains(part), &format!("{part} is not in\n{said}")).await;
    }
    let own = scene.lab.trials("nodes-aa").await;
    scene.lab.check(own.iter().all(|trial| trial.spec.node == scene.lab.nodes[0]), "trials ran elsewhere").await;

    let nodes = assay(&scene.lab, &["nodes", &file]).await;
    let said = text(&nodes);
    scene.lab.check(nodes.status.success(), &said).await;
    let row = |node: &str| said.lines().find(|line| line.starts_with(node)).unwrap_or_default().to_owned();
    let uses = |node: &str| row(node).split_whitespace().nth(1).unwrap_or_default().to_owned();
    let [usable, cordoned, tainted] = [0, 1, 2].map(|number| scene.lab.nodes[number].clone());
    scene.lab.check(uses(&usable) == "yes" && row(&usable).contains("64 GiB"), &said).await;
    for (node, why) in [(&cordoned, "is cordoned"), (&tainted, "has the taint lab,")] {
        scene.lab.check(uses(node) == "no" && said.contains(&format!("{node} {why}")), &said).await;
    }
    scene.lab.close().await;
}
