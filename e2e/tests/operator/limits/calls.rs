//! What many finished experiments cost: memory, and work for every change of a node.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use assay_api::{TuningExperiment, TuningTrial, names};
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{AT_ONCE, calls, on_node, quiet};
use crate::bench::{Bench, End};
use crate::lab::{Lab, SOON};
use crate::logs::Logs;
use crate::operator::Operator;
use crate::pods;

const FINISHED: usize = 200;
const RUNNING: usize = 10;
/// Changes of one node, and of its Lease.
const EVENTS: u64 = 20;
/// What finished experiments may hold, each with its ten trials.
const KIB_OF_A_FINISHED: u64 = 256;

/// Another experiment with the status and the trials of one that has ended.
async fn copy(lab: &Lab, from: &TuningExperiment, trials: &[TuningTrial], name: &str) {
    let made = lab.apply(json!({"metadata": {"name": name}, "spec": from.spec})).await;
    let params = PatchParams::apply(names::MANAGER).force();
    let object = |kind: &str, name: &str, status: Value| json!({"apiVersion": "assay.rocks/v1alpha1", "kind": kind, "metadata": {"name": name}, "status": status});
    let status = object("TuningExperiment", name, json!(from.status));
    let written = lab.api::<TuningExperiment>().patch_status(name, &params, &Patch::Apply(&status)).await;
    written.expect("a status can be copied");
    let owner = json!({"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "name": name, "uid": made.uid(), "controller": true});
    for trial in trials {
        let own = trial.name_any().replacen(&from.name_any(), name, 1);
        let mut spec = json!(trial.spec);
        spec["experiment"] = json!(name);
        let labels = json!({names::EXPERIMENT_LABEL: name});
        let meta = json!({"name": own, "labels": labels, "ownerReferences": [owner]});
        lab.put::<TuningTrial>(Some(&lab.namespace), json!({"metadata": meta, "spec": spec})).await;
        let status = object("TuningTrial", &own, json!(trial.status));
        let written = lab.api::<TuningTrial>().patch_status(&own, &params, &Patch::Apply(&status)).await;
        written.expect("a status can be copied");
    }
}

/// An operator that has seen everything.
async fn begun(lab: &Lab, logs: &Logs) -> Operator {
    let operator = lab.operator_with(&[], Some(&logs.kubeconfig));
    lab.until("the operator watches", SOON, async || operator.said().contains("\"watching\"").then_some(())).await;
    quiet(lab, logs).await;
    operator
}

/// Of a cluster with many finished experiments, a change of a node or of its Lease costs what the running experiment on it costs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_node_is_paid_by_whom_it_concerns() {
    let lab = Lab::with_nodes("calls", RUNNING).await;
    let bench = Bench::new(&lab).start(&lab);
    let logs = Logs::start(&lab, |_| Ok(String::new())).await;
    let mut operator = lab.operator_with(&[], Some(&logs.kubeconfig));
    lab.apply(on_node(&lab, "finished-0", &lab.nodes[0])).await;
    lab.finished("finished-0").await;
    lab.no_pods().await;
    assert!(operator.terminate());
    drop(bench);
    // Begun again, with as little behind it as the one that it is compared with.
    let mut operator = begun(&lab, &logs).await;
    let alone = operator.memory_kib("RssAnon");
    assert!(operator.terminate());

    let from = lab.api::<TuningExperiment>().get("finished-0").await.expect("the experiment");
    let trials = lab.trials("finished-0").await;
    let others: Vec<String> = (1..FINISHED).map(|number| format!("finished-{number}")).collect();
    futures::stream::iter(&others).for_each_concurrent(AT_ONCE, |name| copy(&lab, &from, &trials, name)).await;
    let operator = begun(&lab, &logs).await;
    let (all, peak) = (operator.memory_kib("RssAnon"), operator.memory_kib("VmHWM"));
    let each = all.saturating_sub(alone) / FINISHED as u64;
    println!("{FINISHED} finished experiments of {} trials: {each} KiB each", trials.len());
    println!("with one of them {alone} KiB, with all {all} KiB, peak {peak} KiB");
    assert!(each < KIB_OF_A_FINISHED, "{each} KiB for a finished experiment");

    let _bench = Bench::new(&lab).script(|_| End::Never).start(&lab);
    for (number, node) in lab.nodes.iter().enumerate() {
        lab.apply(on_node(&lab, &format!("running-{number}"), node)).await;
    }
    lab.until("all run", SOON, async || {
        let pods = lab.api::<Pod>().list(&ListParams::default()).await.ok()?.items;
        let running: BTreeSet<&str> = pods.iter().filter(|pod| pods::phase(pod) == "Running").map(pods::node).collect();
        (running.len() == RUNNING).then_some(())
    })
    .await;
    quiet(&lab, &logs).await;
    let nodes: Api<Node> = Api::all(lab.client.clone());
    let leases = lab.api::<Lease>();
    let (node, params) = (&lab.nodes[0], PatchParams::default());
    let lease = format!("{}{node}", names::NODE_LEASE_PREFIX);
    let cordon = async |number: u64| {
        let change = json!({"spec": {"unschedulable": number.is_multiple_of(2)}});
        nodes.patch(node, &params, &Patch::Merge(&change)).await.expect("a node can be changed");
    };
    let touch = async |number: u64| {
        let change = json!({"metadata": {"labels": {"touched": number.to_string()}}});
        leases.patch(&lease, &params, &Patch::Merge(&change)).await.expect("a Lease can be changed");
    };
    costs(&lab, "a node", &operator, &logs, cordon).await;
    costs(&lab, "a Lease", &operator, &logs, touch).await;
    lab.close().await;
}

/// What changes of one node cost.
async fn costs(lab: &Lab, what: &str, operator: &Operator, logs: &Logs, change: impl AsyncFn(u64)) {
    quiet(lab, logs).await;
    let (began, before) = (Instant::now(), operator.reconciles().await);
    for number in 0..EVENTS {
        change(number).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let reconciles = operator.reconciles().await - before;
    let calls = calls(logs);
    println!("{EVENTS} changes of {what}: {reconciles} reconciles, {} API calls", calls.len());
    for call in &calls {
        println!("  {call}");
    }
    let others: Vec<&String> = calls.iter().filter(|call| !call.contains("running-0")).collect();
    assert!(others.is_empty(), "{what} concerns running-0 alone: {others:?}");
    // Each experiment that runs renews its Lease by the clock, and hears of that.
    let by_the_clock = 2 * RUNNING as u64 * (1 + began.elapsed().as_secs() / 60);
    assert!(reconciles >= EVENTS / 2, "{what} is heard of: {reconciles}");
    assert!(reconciles <= EVENTS + by_the_clock, "{what} concerns running-0 alone: {reconciles} reconciles");
}
