//! `assay bisect` on a cluster, with real pods of two builds.

use std::fmt::Write as _;
use std::process::Stdio;

use assay_api::{TuningExperiment, names};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::command_line::{assay, text};
use crate::experiment::{on_the_real_node, small};
use crate::lab::Lab;
use crate::machine::image;

mod long {
    use super::*;

    /// Eight candidates on the real node, of which one can't be pulled. The search is killed once and continued.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_culprit_among_images_is_found() {
        let lab = Lab::alone("bisection", 0).await;
        let _operator = lab.operator_with(&["--allow-image", "*", "--bench-image", &image("bench")], None);
        let mut experiment = small(&lab, "builds");
        (experiment["apiVersion"], experiment["kind"]) = (json!("assay.rocks/v1alpha1"), json!("TuningExperiment"));
        on_the_real_node(&mut experiment["spec"]);
        experiment["spec"]["scenarios"][0]["workload"]["keyValue"] = json!({
            "keys": 20_000,
            "valueBytes": {"fixed": 400},
            "roles": [{"name": "writer", "steps": 100_000, "warmupSteps": 5_000, "mix": {"get": 9, "put": 1}}],
        });
        let write = |name: &str, text: String| {
            let path = lab.folder.join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        write("builds.yaml", serde_yaml::to_string(&experiment).expect("YAML"));
        let missing = format!("{}@sha256:{}", image("missing").replace(':', "-"), "0".repeat(64));
        let (good, bad) = (image("bench"), image("bench-unoptimised"));
        let images = [&good, &good, &good, &missing, &bad, &bad, &bad, &bad];
        let mut list = "experiment: builds.yaml\nproofBlocks: 10\ncandidates:\n".to_owned();
        for (image, number) in images.into_iter().zip(1..) {
            let _ = writeln!(list, "- {{name: v{number}, revision: r{number}, image: '{image}'}}");
        }
        let list = write("list.yaml", list);
        let arguments = ["bisect", "v1", "v8", "--candidates", &list, "--cluster", "--output", "json"];

        // Whoever follows it goes away.
        let killed = {
            let arguments = [&arguments[..], &["--namespace", &lab.namespace]].concat();
            let program = std::env::var("ASSAY").expect("ASSAY is the path of the program");
            let mut command = Command::new(program);
            command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            command.spawn().expect("assay can be started")
        };
        lab.attempted("builds-bisect-001", 2).await;
        drop(killed);

        let ran = assay(&lab, &arguments).await;
        lab.check(ran.status.code() == Some(0), &text(&ran)).await;
        println!("{}", text(&ran));
        let answer: Value = serde_json::from_slice(&ran.stdout).expect("an answer is JSON");
        let named = |of: &Value| -> Vec<String> {
            let all = of.as_array().into_iter().flatten();
            all.map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        // Nobody can tell the missing one from the first that is slow.
        lab.check(named(&answer["culprits"][0]["candidates"]) == ["v4", "v5"], &answer.to_string()).await;
        lab.check(named(&answer["notMeasured"]) == ["v4"], &answer.to_string()).await;
        let selector = format!("{}=builds", names::BISECT_LABEL);
        let visits = lab.names::<TuningExperiment>(&selector).await;
        let made = answer["visits"].as_array().map_or(0, Vec::len);
        // One that measured nothing is no visit of the answer.
        lab.check(visits.len() >= made, &format!("{visits:?} are not {made}")).await;
        let first = lab.api::<TuningExperiment>().get("builds-bisect-001").await.expect("it is there");
        lab.check(first.owner_references().is_empty(), "nothing owns it").await;

        // What is there is read again.
        let again = assay(&lab, &arguments).await;
        let same = serde_json::from_slice::<Value>(&again.stdout).is_ok_and(|again| again == answer);
        lab.check(same, &text(&again)).await;
        lab.check(lab.names::<TuningExperiment>(&selector).await == visits, "nothing is made twice").await;
        lab.close().await;
    }
}
