//! What the chart lets experiments ask for in their namespaces, and what the operator's own account may do. Asked of the real API server;
//! nothing is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_api::{TuningSweep, names};
use assay_core::plan::Plan;
use assay_core::validate::validate;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::chart;
use crate::experiment::{condition, small};
use crate::lab::{Lab, SOON};
use crate::nights;
use crate::rights::Subject;
use crate::tenants::write_plan;
use crate::witness::Witness;

/// Whether the API server would make an object, and what it says.
async fn create(lab: &Lab, object: &Value, more: &[&str]) -> String {
    let file = lab.folder.join("object.json");
    std::fs::write(&file, object.to_string()).expect("a manifest");
    let file = file.display().to_string();
    lab.kubectl(&[&["create", "--dry-run=server", "--filename", &file], more].concat()).await
}

type Change = fn(&mut Value);

/// What it says of an object with each of the changes.
async fn say(lab: &Lab, good: &Value, more: &[&str], cases: &[(Change, &str)]) {
    for (change, expected) in cases {
        let mut object = good.clone();
        change(&mut object);
        let said = create(lab, &object, more).await;
        lab.check(said.contains(expected), &format!("{expected}: {said}\n{object}")).await;
    }
}

/// A fence, an experiment that keeps to it, and changes of it. The operator's own rules are asked the same.
fn table() -> Value {
    serde_json::from_str(include_str!("../../../charts/assay/tests/fences.json")).expect("a table")
}

fn experiment() -> Value {
    table()["experiment"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_keeps_to_the_fence_of_its_namespace() {
    let lab = Lab::alone("fences", 0).await;
    let (table, mut own) = (table(), table()["fence"].take());
    own["namespaces"] = json!([lab.namespace]);
    let fences = format!("fences={}", json!([own, {"storageClasses": []}]));
    let _fences = chart::fences(&lab, &["--set-json", &fences, "--set", "image.allowed={registry.example/lab}"]).await;
    lab.until("the policies hold", SOON, async || {
        let mut without = experiment();
        without["spec"]["placement"]["nodeSelector"].take();
        create(&lab, &without, &[]).await.contains("need pool: nvme").then_some(())
    })
    .await;
    say(&lab, &experiment(), &[], &[(|_| (), "created")]).await;
    for case in table["cases"].as_array().expect("cases") {
        let mut object = experiment();
        let place = case["at"].as_str().and_then(|at| object.pointer_mut(at)).expect("a field of the experiment");
        *place = case["value"].clone();
        let said = create(&lab, &object, &[]).await;
        lab.check(said.contains(case["refused"].as_str().unwrap_or("created")), &format!("{case}: {said}")).await;
    }
    // Where no entry names the namespace, that of all others holds; and where Kubernetes itself is, nothing runs.
    let elsewhere: [(Change, &str); 3] = [
        (
            |asks| {
                let control_plane = json!({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"});
                asks["spec"]["placement"] = json!({"cpus": 1, "tolerations": [control_plane]});
            },
            "don't run on nodes of the control plane",
        ),
        (|asks| asks["spec"]["placement"] = json!({"cpus": 1}), "created"),
        (
            |asks| {
                asks["spec"]["placement"]["storage"] =
                    json!({"persistentVolumeClaim": {"size": "1Gi", "storageClassName": "local"}});
            },
            "may use no volumes",
        ),
    ];
    say(&lab, &experiment(), &["--namespace", "default"], &elsewhere).await;
    let own: [(Change, &str); 1] = [(|asks| asks["spec"]["placement"] = json!({"cpus": 1}), "of Kubernetes itself")];
    say(&lab, &experiment(), &["--namespace", "kube-system"], &own).await;
    lab.close().await;
}

/// No policy has seen it, and no trial of it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_experiment_keeps_to_a_fence_that_was_set_later() {
    let lab = Lab::new("stored").await;
    let (_bench, witness) = (Bench::new(&lab).start(&lab), Witness::start(&lab));
    let fence = |fence: Value| format!("--fence={fence}");
    let stored = lab.apply(small(&lab, "stored")).await;
    let digest = Plan::new(validate("stored", &stored.spec).experiment.expect("it is sound")).expect("a plan").digest;
    let plan = json!({"digest": digest, "seed": 7, "blocks": 5, "trials": 10, "producedBy": "assay"});
    write_plan(&lab, "stored", plan).await;
    let strict = fence(json!({"namespaces": [lab.namespace], "tolerations": [], "maxBlockDurationSeconds": 14_399}));
    let mut operator = lab.operator_with(&[&strict], None);
    let waits = lab.condition("stored", names::PROGRESSING, "False", Some("NotAllowed"), SOON).await;
    for field in ["spec.placement.tolerations: ", "spec.maxBlockDurationSeconds: "] {
        lab.check(waits.message.contains(field), &waits.message).await;
    }
    lab.apply(small(&lab, "new")).await;
    let accepted = lab.condition("new", names::ACCEPTED, "False", Some("NotAllowed"), SOON).await;
    lab.check(accepted.message.contains("may tolerate no taint"), &accepted.message).await;
    operator.kill();
    assert_eq!(witness.ran(), 0);
    // Somebody else's fence.
    let _operator = lab.operator_with(&[&fence(json!({"namespaces": ["other"], "tolerations": []}))], None);
    lab.decided("stored", "Win", 5).await;
    lab.close().await;
}

/// Nodes that the experiments of a namespace hold, by the Leases of nodes.
async fn held(leases: &Api<Lease>, namespace: &str) -> BTreeSet<String> {
    let all = leases.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
    let of_it = all.iter().filter(|lease| holder(lease).starts_with(&format!("{namespace}/")));
    of_it.map(ResourceExt::name_any).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn experiments_of_a_namespace_hold_no_more_nodes_than_its_fence_allows() {
    let lab = Lab::with_nodes("share", 3).await;
    let other = lab.beside("share-b").await;
    let takes = Duration::from_millis(300);
    let _benches = [&lab, &other].map(|lab| Bench::new(lab).takes(takes).start(lab));
    let witness = Witness::of_nodes(&lab);
    let fence = format!("--fence={}", json!({"namespaces": [lab.namespace], "maxNodes": 1}));
    let _operator = lab.operator_with(&[&fence, "--namespace", &other.namespace], None);
    let most: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let watched = {
        let (most, leases) = (Arc::clone(&most), lab.api::<Lease>());
        let namespaces = [lab.namespace.clone(), other.namespace.clone()];
        tokio::spawn(async move {
            loop {
                for namespace in &namespaces {
                    let now = held(&leases, namespace).await.len();
                    let mut most = most.lock().expect("the most");
                    let known = most.entry(namespace.clone()).or_default();
                    *known = now.max(*known);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    };
    tokio::join!(lab.apply(small(&lab, "one")), lab.apply(small(&lab, "two")));
    let waits = lab
        .until("one of them waits for the other", SOON, async || {
            for name in ["one", "two"] {
                let status = lab.status(name).await;
                let found = condition(&status, names::PROGRESSING).filter(|found| found.reason == "NodeLimit");
                if let Some(found) = found {
                    return Some(found.message.clone());
                }
            }
            None
        })
        .await;
    lab.check(waits.contains("(maxNodes: 1)"), &waits).await;
    other.apply(small(&lab, "free")).await;
    tokio::join!(lab.decided("one", "Win", 5), lab.decided("two", "Win", 5), other.decided("free", "Win", 5));
    watched.abort();
    let most = most.lock().expect("the most").clone();
    lab.check(most[&lab.namespace] == 1, &format!("it held one node at once: {most:?}")).await;
    lab.check(most[&other.namespace] > 1, &format!("the other namespace has no limit: {most:?}")).await;
    witness.saw_nothing_wrong(&lab).await;
    other.close().await;
    lab.close().await;
}

/// A new experiment can't be a night, and a stored one can't become or stop being one, except by an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_operators_begin_nights() {
    let lab = Lab::alone("forged", 0).await;
    let _fences = chart::fences(&lab, &[]).await;
    let operator = Subject::service_account(&lab.namespace, "assay");
    let by_it = ["--as", operator.user.as_str()];
    lab.put::<TuningSweep>(Some(&lab.namespace), nights::sweep(&lab, "nightly")).await;
    let uid = lab.kubectl(&["get", "sweep", "nightly", "--output", "jsonpath={.metadata.uid}"]).await;
    let mut own = small(&lab, "own");
    own["apiVersion"] = json!("assay.rocks/v1alpha1");
    own["kind"] = json!("TuningExperiment");
    let only = "only operators begin nights and visits of sweeps";
    let mut night = own.clone();
    night["metadata"]["name"] = json!("nightly-20260101-0117");
    night["metadata"]["labels"] = json!({"assay.rocks/sweep": "nightly"});
    night["metadata"]["annotations"] =
        json!({"assay.rocks/night": "2026-01-01T01:17:00Z", "assay.rocks/trigger": "Schedule"});
    night["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningSweep", "name": "nightly", "uid": uid.trim()}]);
    lab.until("the policy holds", SOON, async || create(&lab, &night, &[]).await.contains(only).then_some(())).await;
    let cases: [(Change, &str); 7] = [
        (|own| own["metadata"]["annotations"] = json!({"assay.rocks/night": "2026-01-01T01:17:00Z"}), only),
        (|own| own["metadata"]["annotations"] = json!({"assay.rocks/trigger": "Manual"}), only),
        (|own| own["metadata"]["annotations"] = json!({"assay.rocks/run-now": "please"}), only),
        (|own| own["metadata"]["annotations"] = json!({"assay.rocks/visit": "{}"}), only),
        (|own| own["metadata"]["labels"] = json!({"assay.rocks/sweep": "nightly"}), only),
        (|own| own["metadata"]["labels"] = json!({"assay.rocks/bisect": "b", "team": "a"}), "created"),
        (|own| own["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": "a"}), "created"),
    ];
    say(&lab, &own, &[], &cases).await;
    let mut owned = own.clone();
    owned["metadata"]["ownerReferences"] = night["metadata"]["ownerReferences"].clone();
    say(&lab, &owned, &[], &[(|_| (), only)]).await;
    // Stored: the experiment by an editor, the night by the operator.
    for (object, by) in [(&own, &[] as &[&str]), (&night, &by_it)] {
        let file = lab.folder.join("stored.json");
        std::fs::write(&file, object.to_string()).expect("a manifest");
        lab.until("it is stored", SOON, async || {
            let said = lab.kubectl(&[&["create", "--filename", &file.display().to_string()], by].concat()).await;
            said.contains("created").then_some(())
        })
        .await;
    }
    let (own, night) = ("tune/own", "tune/nightly-20260101-0117");
    let changed = "only operators change what makes an experiment a night";
    let cases: [(&[&str], &str); 8] = [
        (&["annotate", own, "assay.rocks/visit={}"], changed),
        (&["annotate", night, "assay.rocks/visit={}"], changed),
        (&["annotate", night, "assay.rocks/night-"], changed),
        (&["label", night, "assay.rocks/sweep-"], changed),
        (&["patch", night, "--type", "merge", "--patch", r#"{"metadata": {"ownerReferences": null}}"#], changed),
        (&["annotate", night, "note=a"], "annotated"),
        (&["label", night, "team=a"], "labeled"),
        (&["patch", night, "--type", "merge", "--patch", r#"{"spec": {"suspend": true}}"#], "patched"),
    ];
    for (command, expected) in cases {
        let said = lab.kubectl(command).await;
        lab.check(said.contains(expected), &format!("{command:?}: {said}")).await;
    }
    // Garbage collection removes the owner from orphans.
    let orphan = ["patch", night, "--type", "merge", "--patch", r#"{"metadata": {"ownerReferences": null}}"#];
    let collector = ["--as", "system:serviceaccount:kube-system:generic-garbage-collector"];
    let said = lab.kubectl(&[orphan.as_slice(), &collector].concat()).await;
    lab.check(said.contains("patched"), &said).await;
    lab.close().await;
}

/// Whoever has its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_of_the_operator_makes_trials_only_and_deletes_its_own() {
    let lab = Lab::alone("account", 0).await;
    lab.enforce("privileged").await;
    let _fences = chart::fences(&lab, &["--set", "hostPaths={/mnt/nvme}"]).await;
    let operator = Subject::service_account(&lab.namespace, "assay");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "assay-trial-a", "labels": {
            "assay.rocks/role": "trial", "app.kubernetes.io/managed-by": "assay"}},
        "spec": {
            "schedulerName": "nobody", "automountServiceAccountToken": false, "securityContext": {"runAsNonRoot": true},
            "containers": [{"name": "bench", "image": "localhost/assay-bench:0.0.9", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
            "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/mnt/nvme"}}],
        },
    });
    let by_it = ["--as", operator.user.as_str()];
    lab.until("the operator has its rights, and no more", SOON, async || {
        let mut others = pod.clone();
        others["metadata"]["name"] = json!("x");
        create(&lab, &others, &by_it).await.contains("makes only pods of trials").then_some(())
    })
    .await;
    let (more, nothing) = ("have no token, no part of their node", "one container, which may do nothing");
    let cases: [(Change, &str); 12] = [
        (|_| (), "created"),
        (|pod| pod["metadata"]["labels"] = json!({"assay.rocks/role": "trial"}), "deletes only what is labelled"),
        (|pod| pod["metadata"]["labels"]["assay.rocks/role"] = json!("other"), "makes only pods of trials"),
        (|pod| pod["spec"]["automountServiceAccountToken"] = json!(true), more),
        (|pod| pod["spec"]["hostNetwork"] = json!(true), more),
        (|pod| pod["spec"]["hostPID"] = json!(true), more),
        (|pod| pod["spec"]["nodeName"] = json!("somewhere"), more),
        (|pod| pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true}), nothing),
        (|pod| pod["spec"]["initContainers"] = json!([{"name": "first", "image": "localhost/assay-bench:1"}]), nothing),
        (|pod| pod["spec"]["containers"][0]["image"] = json!("registry.example/b:1"), "run its bench"),
        (|pod| pod["spec"]["volumes"][1]["hostPath"]["path"] = json!("/etc"), "mount volumes of their own"),
        (|pod| pod["spec"]["volumes"][1] = json!({"name": "b", "secret": {"secretName": "s"}}), "mount volumes of"),
    ];
    say(&lab, &pod, &by_it, &cases).await;
    let theirs = ["run", "theirs", "--image", "localhost/pause:1"];
    lab.kubectl(&theirs).await;
    let said = lab.kubectl(&["delete", "pod", "theirs", "--as", &operator.user]).await;
    lab.check(said.contains("deletes only what is labelled"), &said).await;
    lab.kubectl(&["delete", "pod", "theirs", "--grace-period", "0", "--force"]).await;
    lab.close().await;
}
