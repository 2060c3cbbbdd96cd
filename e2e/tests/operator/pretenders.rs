//! Pods of others that would pass for a trial's, and trials that others would change or enter. The chart's policies refuse that to everybody
//! but operators.

use serde_json::{Value, json};

use crate::chart;
use crate::lab::{Lab, SOON};
use crate::rights::Subject;

/// A pod that nothing ever runs.
fn pod(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": {"assay.rocks/input": "{}"}},
        "spec": {
            "schedulingGates": [{"name": "queue.example/full"}, {"name": "assay.rocks/node"}],
            "schedulerName": "nobody",
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "bench",
                "image": "localhost/assay-bench:1",
                "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

/// Asks for a pod, whatever else is said of it.
async fn create(lab: &Lab, pod: &Value, more: &[&str]) -> String {
    let file = lab.folder.join("pod.json");
    std::fs::write(&file, pod.to_string()).expect("a manifest");
    lab.kubectl(&[&["create", "--filename", &file.display().to_string()], more].concat()).await
}

/// A release that runs experiments in one namespace, of which there is nothing but its rights and its policies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_for_a_trial_or_changes_one() {
    let lab = Lab::alone("pretenders", 0).await;
    let _fences = chart::fences(&lab, &[]).await;
    are_refused(&lab).await;
    lab.close().await;
}

/// Where the chart is installed for the namespace of the lab, in that and in any other, for an administrator as well.
pub async fn are_refused(lab: &Lab) {
    let operator = Subject::service_account(&lab.namespace, "assay");
    let as_trial = json!({"assay.rocks/role": "trial", "app.kubernetes.io/managed-by": "assay"});
    let own = pod("assay-trial-own", &as_trial);
    lab.until("the operator has its rights", SOON, async || {
        let in_place = Some(lab.namespace.as_str());
        operator.may(lab, in_place, "create", "tuningtrials.assay.rocks").await.then_some(())
    })
    .await;
    let mut unnamed = pod("", &json!({}));
    unnamed["metadata"] = json!({"generateName": "assay-trial-"});
    let strange = [
        pod("strange", &as_trial),
        pod("strange", &json!({"assay.rocks/role": "check"})),
        pod("assay-trial-strange", &json!({})),
        unnamed,
    ];
    for (place, strange) in
        [lab.namespace.as_str(), "default"].iter().flat_map(|at| strange.iter().map(move |s| (at, s)))
    {
        lab.until("the policy holds", SOON, async || {
            let said = create(lab, strange, &["--dry-run=server", "--namespace", place]).await;
            said.contains("only Assay's operator may create pods").then_some(())
        })
        .await;
    }
    // As does a controller for somebody's Job, with more rights than theirs.
    let controller = ["--dry-run=server", "--as", "system:serviceaccount:kube-system:job-controller"];
    let said = create(lab, &strange[0], &controller).await;
    lab.check(said.contains("only Assay's operator may create pods"), &said).await;
    let said = create(lab, &pod("other", &json!({"app": "other"})), &[]).await;
    lab.check(said.contains("created"), &format!("other pods are everybody's: {said}")).await;
    let said = create(lab, &own, &["--as", &operator.user]).await;
    lab.check(said.contains("created"), &format!("the operator may: {said}")).await;

    let (name, marks) = ("pod/assay-trial-own", "may change labels and annotations of trials' pods");
    let debug = ["debug", name, "--image", "registry.example/somebody/tool:1", "--profile", "restricted"];
    let more_cpus = r#"{"spec": {"containers": [{"name": "bench", "resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}}]}}"#;
    let raw = |part: &str| format!("/api/v1/namespaces/{}/pods/assay-trial-own/{part}", lab.namespace);
    let [attach, forward, proxy] = ["attach", "portforward", "proxy/metrics"].map(raw);
    let ungate = r#"[
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/spec/nodeSelector", "value": {"flavor": "large"}},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "flavor", "operator": "Exists"}}]"#;
    let start = r#"[{"op": "remove", "path": "/spec/schedulingGates/1"}]"#;
    let cases: [(&[&str], &str); 18] = [
        (&["label", "pod/other", "assay.rocks/role=trial"], marks),
        (&["label", name, "assay.rocks/attempt=7"], marks),
        (&["label", name, "assay.rocks/role-"], marks),
        // By this label and the role trials keep away from each other.
        (&["label", name, "app.kubernetes.io/managed-by-"], marks),
        (&["annotate", "--overwrite", name, r#"assay.rocks/input={"a": 1}"#], marks),
        (&["annotate", name, "assay.rocks/input-"], marks),
        (&["patch", name, "--patch", r#"{"metadata": {"finalizers": ["somebody.example/hold"]}}"#], "with a finalizer"),
        (&["set", "image", name, "bench=registry.example/somebody/bench:2"], "may change what a trial's pod runs"),
        (&debug, "may change what a trial's pod runs"),
        (&["patch", name, "--subresource", "resize", "--patch", more_cpus], "may change what a trial's pod runs"),
        (&["patch", name, "--type", "json", "--patch", start], "may remove a gate that is Assay's"),
        (&["exec", "assay-trial-own", "--", "id"], "nobody may get into a trial's pod"),
        (&["get", "--raw", &attach], "nobody may get into a trial's pod"),
        (&["get", "--raw", &forward], "nobody may get into a trial's pod"),
        (&["get", "--raw", &proxy], "nobody may get into a trial's pod"),
        (&["label", name, "queue=short"], "labeled"),
        (&["annotate", name, "queue.example/admitted=yes"], "annotated"),
        (&["patch", name, "--type", "json", "--patch", ungate], "patched"),
    ];
    for (args, expected) in cases {
        let said = lab.kubectl(args).await;
        lab.check(said.contains(expected), &format!("{args:?}: {said}")).await;
    }
    lab.kubectl(&["delete", "pods", "assay-trial-own", "other", "--grace-period", "0", "--force"]).await;
}
