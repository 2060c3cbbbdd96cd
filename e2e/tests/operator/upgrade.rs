//! From the build of another commit to this one and back, as docs/install.md says, while experiments run. `make upgrade-test` runs these:
//! `ASSAY_EARLIER` is a folder with the programs, the chart and the definitions of that commit, and its image is in the cluster.

use std::sync::Arc;
use std::time::Duration;

use assay_api::names;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::bench::{AtWork, Bench, End};
use crate::chart::{chart, helm, uninstall};
use crate::command_line::{assay, report_is_judged_alike, run, text};
use crate::experiment::small;
use crate::lab::{Lab, SOON};
use crate::pods;
use crate::witness::Witness;

const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crds");

/// What of the earlier build is there.
fn earlier(path: &str) -> String {
    let folder = std::env::var("ASSAY_EARLIER").expect("ASSAY_EARLIER: `make upgrade-test` makes it");
    format!("{folder}/{path}")
}

/// The small experiment on one node of the lab. Its scenario has its name, by which the bench knows it.
fn on_node(lab: &Lab, name: &str, node: usize) -> Value {
    let mut experiment = small(lab, name);
    experiment["spec"]["placement"]["nodeSelector"] = json!({"kubernetes.io/hostname": lab.nodes[node]});
    experiment["spec"]["scenarios"][0]["name"] = json!(name);
    experiment
}

/// A bench on which these experiments stop in the midst of their second block, until each is told to go on.
fn holding(lab: &Lab, names: &[&'static str]) -> (AtWork, Vec<Arc<Notify>>) {
    let told: Vec<_> = names.iter().map(|name| (*name, Arc::new(Notify::new()))).collect();
    let all = told.clone();
    let bench = Bench::new(lab).script(move |run| {
        let trial = &run.spec.trial;
        let of = all.iter().find(|(name, _)| *name == trial.scenario);
        match of.filter(|_| trial.block == 1 && trial.order == 0) {
            Some((_, told)) => End::After(Arc::clone(told)),
            None => run.done(),
        }
    });
    (bench.start(lab), told.into_iter().map(|(_, told)| told).collect())
}

impl Lab {
    /// Whatever definitions are there, these are there in the end.
    async fn define(&self, files: &str) {
        let names = ["crd", "tuningexperiments.assay.rocks", "tuningtrials.assay.rocks"];
        self.kubectl(&[&["delete", "--ignore-not-found", "--wait"], &names[..]].concat()).await;
        if !files.is_empty() {
            self.kubectl(&["apply", "--server-side", "--filename", files]).await;
            self.kubectl(&[&["wait", "--for=condition=Established"], &names[..]].concat()).await;
        }
    }

    /// The status as it is stored, whatever versions know of it.
    async fn stored(&self, experiment: &str) -> Value {
        let found = self.kubectl(&["get", "tuningexperiment", experiment, "--output", "json"]).await;
        let mut object: Value = serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found}"));
        object["status"].take()
    }

    /// The pod that holds an experiment up.
    async fn held(&self, experiment: &str) -> Pod {
        self.pod(&format!("{experiment} is in its second block"), |pod| {
            let is_its = pod.labels().get(names::EXPERIMENT_LABEL).is_some_and(|name| name == experiment);
            let input = pod.annotations().get(names::INPUT_ANNOTATION).map_or("", String::as_str);
            let spec = assay_protocol::TrialSpec::from_json(input.as_bytes()).expect("a trial has a spec");
            is_its && pods::phase(pod) == "Running" && (spec.trial.block, spec.trial.order) == (1, 0)
        })
        .await
    }

    /// An experiment is decided by ten trials, of which none was lost.
    async fn wins(&self, experiment: &str) {
        self.decided(experiment, "Win", 5).await;
        let losses = self.losses(experiment).await;
        self.check(losses.is_empty(), &format!("{experiment} lost {losses:?}")).await;
    }

    /// The end that operators of any version say.
    async fn ends(&self, experiment: &str) {
        self.condition(experiment, names::FINISHED, "True", Some("Decided"), 300).await;
        let losses = self.losses(experiment).await;
        self.check(losses.is_empty(), &format!("{experiment} lost {losses:?}")).await;
    }
}

async fn upgrade(lab: &Lab, chart: &str, tag: &str, more: &[&str]) {
    let tag = format!("image.tag={tag}");
    let args = ["upgrade", "assay", chart, "--reset-then-reuse-values", "--set", &tag];
    helm(lab, &[&args, more].concat()).await;
}

/// The experiments that a command lists as won.
async fn won(lab: &Lab, program: &str) -> String {
    let listed = run(program, lab, &["status"]).await;
    lab.check(listed.status.success(), &text(&listed)).await;
    let listed = text(&listed);
    let lines = listed.lines().filter(|line| line.contains(" Win "));
    lines.filter_map(|line| line.split_whitespace().next()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn experiments_of_a_release_go_on_after_its_upgrade_and_after_the_way_back() {
    let lab = Lab::alone("upgrade", 3).await;
    lab.define("").await;
    let (old, new) = (earlier("charts/assay"), chart());
    let (old_assay, new_assay) = (earlier("bin/assay"), std::env::var("ASSAY").expect("ASSAY"));
    let version = std::env::var("ASSAY_VERSION").expect("ASSAY_VERSION");
    let (bench, told) = holding(&lab, &["midway", "back", "last"]);
    let witness = Witness::start(&lab);
    let own = format!("namespaces={{{}}}", lab.namespace);
    helm(&lab, &["install", "assay", &old, "--wait", "--set", &own, "--set", "image.tag=earlier"]).await;

    // One is decided, one runs, and one waits for a node.
    lab.kubectl(&["cordon", &lab.nodes[2]]).await;
    for (node, name) in ["done", "midway", "waits"].into_iter().enumerate() {
        lab.apply(on_node(&lab, name, node)).await;
    }
    lab.ends("done").await;
    lab.condition("waits", names::ACCEPTED, "Unknown", Some("Checking"), SOON).await;
    let (done, held) = (lab.stored("done").await, lab.held("midway").await);
    let planned = lab.stored("midway").await["plan"].clone();
    // This version's CLI beside that operator.
    assert_eq!((won(&lab, &old_assay).await, won(&lab, &new_assay).await), ("done".into(), "done".into()));
    report_is_judged_alike(&lab, "done", 0).await;

    // A rollout that does not come to its end: definitions, rights and policies of now, and the operator of before.
    upgrade(&lab, &new, "there-is-none", &[]).await;
    // Those let no pods be made that have not the names of now, and the experiment says so.
    lab.apply(on_node(&lab, "stuck", 0)).await;
    lab.until("what begins meanwhile waits and says why", SOON, async || {
        let why = lab.condition("stuck", names::ACCEPTED, "Unknown", Some("Checking"), SOON).await.message;
        why.contains("the operator makes only pods of trials").then_some(())
    })
    .await;

    upgrade(&lab, &new, &version, &["--wait"]).await;
    let still = lab.held("midway").await;
    lab.check(still.uid() == held.uid(), "the same pod runs").await;
    told[0].notify_one();
    lab.kubectl(&["uncordon", &lab.nodes[2]]).await;
    lab.wins("midway").await;
    lab.wins("waits").await;
    lab.wins("stuck").await;
    lab.check(lab.stored("midway").await["plan"] == planned, "its plan and its bench are as before").await;
    lab.check(lab.stored("done").await == done, "what is decided stays as it was").await;
    let all = "done midway stuck waits";
    // And that version's CLI beside this operator.
    assert_eq!((won(&lab, &old_assay).await, won(&lab, &new_assay).await), (all.into(), all.into()));
    let out = lab.folder.join("by-the-earlier").display().to_string();
    let reported = run(&old_assay, &lab, &["report", "midway", "--out", &out]).await;
    lab.check(reported.status.code() == Some(0), &text(&reported)).await;

    // Back, and the definitions stay.
    lab.apply(on_node(&lab, "back", 1)).await;
    let held = lab.held("back").await;
    upgrade(&lab, &old, "earlier", &["--wait", "--set", "crds.enabled=false"]).await;
    let defined = lab.kubectl(&["get", "crd", "tuningexperiments.assay.rocks", "--output", "json"]).await;
    lab.check(defined.contains("failedPodRetentionSeconds"), "the definitions of now are there").await;
    lab.check(lab.held("back").await.uid() == held.uid(), "the same pod runs").await;
    told[1].notify_one();
    lab.ends("back").await;

    // One field that it does not know, and that version is blind to all, as its CLI is.
    let mut newer = on_node(&lab, "newer", 0);
    newer["spec"]["failedPodRetentionSeconds"] = json!(60);
    lab.apply(newer).await;
    // From the next start on: whoever watches already sees others.
    let operator = ["--selector", "app.kubernetes.io/instance=assay"];
    lab.kubectl(&[&["delete", "pods"], &operator[..]].concat()).await;
    lab.apply(on_node(&lab, "behind", 1)).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let behind = lab.stored("behind").await;
    println!("under the earlier operator, beside one that it can't read: {behind}");
    lab.check(behind["conditions"].is_null(), "it is not seen").await;
    let listed = run(&old_assay, &lab, &["status"]).await;
    println!("the earlier assay says: {}", text(&listed));
    lab.check(!listed.status.success(), &text(&listed)).await;
    assert_eq!(won(&lab, &new_assay).await, "back done midway stuck waits");

    // The next upgrade heals it; the chart takes the definitions back.
    upgrade(&lab, &new, &version, &["--wait", "--set", "crds.enabled=true"]).await;
    lab.wins("newer").await;
    lab.wins("behind").await;

    // Helm's own way back takes the definitions along, and with them the fields that only they know.
    lab.apply(on_node(&lab, "last", 0)).await;
    let held = lab.held("last").await;
    helm(&lab, &["rollback", "assay", "1", "--wait"]).await;
    lab.check(lab.held("last").await.uid() == held.uid(), "the same pod runs").await;
    told[2].notify_one();
    let kept = lab.kubectl(&["get", "tune", "newer", "--output", "json"]).await;
    lab.check(!kept.contains("\"failedPodRetentionSeconds\": 60"), "the field is not shown any more").await;
    lab.ends("last").await;
    lab.apply(on_node(&lab, "next", 1)).await;
    lab.ends("next").await;
    assert_eq!(won(&lab, &old_assay).await, "back behind done last midway newer next stuck waits");

    witness.saw_nothing_wrong(&lab).await;
    drop(bench);
    uninstall(&lab).await;
    lab.define(DEFINITIONS).await;
    lab.close().await;
}

/// Two releases on the definitions of now, that share nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_of_two_versions_share_definitions_and_nodes() {
    let first = Lab::alone("two", 1).await;
    let second = first.beside("two-b").await;
    let _benches = [&first, &second].map(|lab| Bench::new(lab).start(lab));
    let witness = Witness::of_nodes(&first);
    let own = ["--namespace", first.namespace.as_str()];
    let _operators = [first.operator_of(&earlier("bin/assay-operator"), &own, None), second.operator()];
    let (one, other) = (small(&first, "one"), small(&first, "other"));
    tokio::join!(first.apply(one), second.apply(other));
    tokio::join!(first.ends("one"), second.wins("other"));
    assert_eq!(witness.ran(), 20);
    witness.saw_nothing_wrong(&first).await;
    second.close().await;
    first.close().await;
}

/// The definitions could not be upgraded, and the operator was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_operator_runs_experiments_on_earlier_definitions() {
    let lab = Lab::alone("olddefs", 1).await;
    lab.define(&earlier("crds")).await;
    let _bench = Bench::new(&lab).start(&lab);
    let _operator = lab.operator();
    lab.apply(small(&lab, "plain")).await;
    lab.wins("plain").await;
    // What those don't know is lost when it is applied.
    let mut more = small(&lab, "more");
    more["spec"]["failedPodRetentionSeconds"] = json!(60);
    more["apiVersion"] = json!("assay.rocks/v1alpha1");
    more["kind"] = json!("TuningExperiment");
    let file = lab.folder.join("more.yaml");
    std::fs::write(&file, serde_yaml::to_string(&more).expect("YAML")).expect("a file");
    let file = file.display().to_string();
    let applied = lab.kubectl(&["apply", "--filename", &file]).await;
    println!("kubectl apply with a newer field: {applied}");
    lab.check(applied.contains("unknown field \"spec.failedPodRetentionSeconds\""), &applied).await;
    let ran = assay(&lab, &["run", "--cluster", &file]).await;
    println!("assay run with a newer field: {}", text(&ran));
    lab.check(ran.status.code() == Some(1) && text(&ran).contains("are older than this assay"), &text(&ran)).await;
    // Somebody else has applied what is there: Helm says the same.
    let apply = ["apply", "--server-side", "--field-manager", "another", "--filename", DEFINITIONS];
    let refused = lab.kubectl(&apply).await;
    println!("definitions of another manager: {refused}");
    lab.check(refused.contains("conflict"), &refused).await;
    lab.kubectl(&[&apply[..], &["--force-conflicts"]].concat()).await;
    lab.until("the definitions of now are there, and it works", SOON, async || {
        let applied = lab.kubectl(&["apply", "--filename", &file]).await;
        applied.contains("created").then_some(())
    })
    .await;
    lab.wins("more").await;
    lab.check(lab.stored("plain").await["verdict"] == "Win", "what was decided before stays").await;
    lab.close().await;
}
