//! What an experiment is for: the right verdict, and the same that anybody gets from its trials.

use std::collections::BTreeSet;

use assay_api::{TuningExperiment, names};
use assay_protocol::{OptionProblem, OptionsAnswer};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::experiment::{self, small};
use crate::lab::{Lab, SOON};
use crate::witness::Witness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_gain_is_a_win() {
    let lab = Lab::new("gain").await;
    let (_bench, witness) = (Bench::new(&lab).effect(1.3).start(&lab), Witness::start(&lab));
    let operator = lab.operator();
    lab.until("the operator is ready", SOON, async || operator.get("/readyz").await.contains("200 OK").then_some(()))
        .await;
    lab.apply(small(&lab, "gain")).await;
    lab.kubectl_wait("gain").await;
    lab.decided("gain", "Win", 5).await;
    let event = lab.event("gain", "Finished").await;
    lab.check(event.starts_with("Win. "), &event).await;
    is_logged(&lab, "gain", &operator.lines()).await;
    assert!(operator.get("/healthz").await.contains("200 OK"));
    let metrics = operator.get("/metrics").await;
    assert!(metrics.contains("200 OK") && metrics.contains("\nassay_"), "{metrics}");
    assert_eq!(witness.ran(), experiment::trials(5));
    witness.saw_nothing_wrong(&lab).await;
    lab.close().await;
}

/// Beginning and end of each trial, and the experiment's own, all of which say whose they are.
async fn is_logged(lab: &Lab, experiment: &str, log: &[Value]) {
    let own = |line: &&Value| line["span"]["namespace"] == lab.namespace && line["span"]["experiment"] == experiment;
    let of = |message: &str| log.iter().filter(own).filter(|line| line["message"] == message).collect::<Vec<_>>();
    let trials: BTreeSet<String> = lab.trials(experiment).await.iter().map(ResourceExt::name_any).collect();
    for message in ["started", "ended"] {
        let told: BTreeSet<String> =
            of(message).iter().filter_map(|line| Some(line["trial"].as_str()?.to_owned())).collect();
        lab.check(told == trials, &format!("{message:?} is logged of {told:?}, not of {trials:?}")).await;
    }
    lab.check(of("finished").len() == 1, "the end is logged once").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_loss_is_a_reject() {
    let lab = Lab::new("loss").await;
    let (_bench, witness) = (Bench::new(&lab).effect(0.7).start(&lab), Witness::start(&lab));
    let _operator = lab.operator();
    let mut experiment = small(&lab, "loss");
    experiment["spec"]["repetitions"] = json!(6);
    lab.apply(experiment).await;
    lab.decided("loss", "Reject", 6).await;
    witness.saw_nothing_wrong(&lab).await;
    lab.close().await;
}

/// The repetitions that would decide are simulated after the end, beside the reconciles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_verdict_gets_advice() {
    let lab = Lab::new("advice").await;
    let (_bench, witness) = (Bench::new(&lab).effect(1.0).start(&lab), Witness::start(&lab));
    let _operator = lab.operator();
    let mut experiment = small(&lab, "open");
    experiment["spec"]["repetitions"] = json!(6);
    // Single runs scatter as much.
    experiment["spec"]["objectives"][0]["margin"] = json!("1%");
    lab.apply(experiment).await;
    let verdicts = lab.finished("open").await.verdicts;
    lab.check(verdicts[0].verdict == "Inconclusive", &format!("{verdicts:?}")).await;
    lab.until("the sentence has advice", SOON, async || {
        let sentence = lab.status("open").await.verdicts.into_iter().next()?.sentence;
        sentence.contains("80 % probability").then_some(())
    })
    .await;
    lab.follows_from_trials("open").await;
    witness.saw_nothing_wrong(&lab).await;
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spec_that_means_nothing_is_refused_by_its_field() {
    let lab = Lab::new("refused").await;
    let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
    let _operator = lab.operator();
    let mut experiment = small(&lab, "nonsense");
    experiment["spec"]["objectives"] = json!([{"metric": "througput"}]);
    lab.apply(experiment).await;
    lab.kubectl_wait("nonsense").await;
    let accepted = lab.condition("nonsense", names::ACCEPTED, "False", Some("Invalid"), SOON).await;
    lab.check(accepted.message.contains("spec.objectives[0].metric"), &accepted.message).await;
    lab.condition("nonsense", names::FINISHED, "True", Some("Refused"), SOON).await;
    lab.condition("nonsense", names::READY, "False", Some("Refused"), SOON).await;
    lab.condition("nonsense", names::STALLED, "True", Some("Refused"), SOON).await;
    let event = lab.event("nonsense", "Refused").await;
    lab.check(event.contains("spec.objectives[0].metric"), &event).await;
    assert_eq!(witness.ran(), 0);
    lab.close().await;
}

/// The operator writes a matrix out as `assay run` does, and a value's image runs the trials of its configs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_matrix_has_a_verdict_for_each_combination() {
    const IMAGE: &str = "registry.example/lab/bench:2";
    let lab = Lab::new("matrix").await;
    let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
    let _operator = lab.operator_with(&["--allow-image", "registry.example/lab"], None);
    let with = |name: &str, axes: Value| {
        let mut experiment = small(&lab, name);
        let spec = &mut experiment["spec"];
        spec["configs"] = json!([spec["configs"][0]]);
        spec["matrix"] = json!({"axes": axes});
        spec["repetitions"] = json!(6);
        experiment
    };
    lab.apply(with("outside", json!([{"name": "dir", "values": [{"dbOptions": {"wal_dir": "/x"}}]}]))).await;
    let refused = lab.condition("outside", names::ACCEPTED, "False", Some("Invalid"), SOON).await;
    let says = "spec.matrix.axes[0].values[0].dbOptions.wal_dir: would put files outside";
    lab.check(refused.message.contains(says), &refused.message).await;

    let jobs = json!([{"dbOptions": {"max_background_jobs": 4}}, {"dbOptions": {"max_background_jobs": "8"}}]);
    let builds = json!([{"name": "own"}, {"name": "patched", "image": IMAGE}]);
    let axes = json!([{"name": "jobs", "values": jobs}, {"name": "build", "values": builds}]);
    let mut experiment = with("matrix", axes.clone());
    experiment["spec"]["matrix"]["exclude"] = json!([{"jobs": 8, "build": "patched"}]);
    lab.apply(experiment).await;
    let trials = ListParams::default().labels(&format!("{}={}", names::ROLE_LABEL, names::ROLE_TRIAL));
    let input = lab
        .until("a trial runs the image of its value", 120, async || {
            let pods = lab.api::<Pod>().list(&trials).await.ok()?.items;
            let runs = |pod: &Pod| pod.spec.iter().any(|spec| spec.containers[0].image.as_deref() == Some(IMAGE));
            pods.iter().find(|pod| runs(pod))?.annotations().get(names::INPUT_ANNOTATION).cloned()
        })
        .await;
    lab.check(input.contains("\"config\":\"jobs-4-build-patched\""), &input).await;
    // Trials were planned by it.
    let mut reversed = axes;
    reversed.as_array_mut().expect("axes").reverse();
    for (change, says) in [(json!(null), "spec is immutable"), (json!({"axes": reversed}), "keep their order")] {
        let patch = Patch::Merge(json!({"spec": {"matrix": change}}));
        let patched = lab.api::<TuningExperiment>().patch("matrix", &PatchParams::default(), &patch).await;
        let said = patched.err().map(|error| error.to_string()).unwrap_or_default();
        lab.check(said.contains(says), &said).await;
    }
    let verdicts = lab.finished("matrix").await.verdicts;
    let verdicts: Vec<(&str, &str)> = verdicts.iter().map(|of| (of.config.as_str(), of.verdict.as_str())).collect();
    let wins = ["jobs-4-build-own", "jobs-4-build-patched", "jobs-8-build-own"].map(|config| (config, "Win"));
    lab.check(verdicts == wins, &format!("{verdicts:?}")).await;
    lab.follows_from_trials("matrix").await;
    // Three configs, and the baseline twice.
    assert_eq!(witness.ran(), 6 * (3 + 2));
    witness.saw_nothing_wrong(&lab).await;
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_option_that_rocksdb_refuses_costs_no_trial() {
    let lab = Lab::new("option").await;
    let problem = OptionProblem {
        config: "candidate".to_owned(),
        scope: "db".to_owned(),
        option: "max_background_jobs".to_owned(),
        message: "no such option".to_owned(),
        suggestion: None,
    };
    let answer = OptionsAnswer { problems: vec![problem], ..OptionsAnswer::default() };
    let bench = Bench::new(&lab).answers(move |question| {
        if question.configs.contains_key("candidate") { answer.clone() } else { OptionsAnswer::default() }
    });
    let (_bench, witness) = (bench.start(&lab), Witness::start(&lab));
    let _operator = lab.operator();
    lab.apply(small(&lab, "option")).await;
    let accepted = lab.condition("option", names::ACCEPTED, "False", Some("Invalid"), SOON).await;
    let says = ["spec.configs[1].dbOptions", "no such option"].iter().all(|text| accepted.message.contains(text));
    lab.check(says, &accepted.message).await;
    assert_eq!((lab.trials("option").await.len(), witness.ran()), (0, 0));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_use_every_node() {
    let lab = Lab::with_nodes("two", 2).await;
    let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
    let _operator = lab.operator();
    let mut experiment = small(&lab, "two");
    experiment["spec"]["repetitions"] = json!(6);
    lab.apply(experiment).await;
    lab.decided("two", "Win", 6).await;
    assert_eq!(witness.nodes(), lab.nodes);
    // A block stays on its node: that is what makes its trials comparable.
    let mut nodes = std::collections::BTreeMap::new();
    for trial in lab.trials("two").await {
        nodes.entry(trial.spec.block).or_insert_with(BTreeSet::new).insert(trial.spec.node);
    }
    assert!(nodes.values().all(|nodes| nodes.len() == 1), "{nodes:?}");
    witness.saw_nothing_wrong(&lab).await;
    lab.close().await;
}
