//! Pods of others that would pass for a trial's. The chart's policy refuses them to everybody but the operator.

use serde_json::{Value, json};

use crate::lab::{Lab, SOON};

/// A pod that nothing ever runs.
fn pod(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "nobody",
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "bench",
                "image": "registry.example/somebody/bench:1",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

async fn create(lab: &Lab, pod: &Value, more: &[&str]) -> String {
    let file = lab.folder.join("pod.json");
    std::fs::write(&file, pod.to_string()).expect("a manifest");
    lab.kubectl(&[&["create", "--filename", &file.display().to_string()], more].concat()).await
}

/// Where the chart is installed, for an administrator as well.
pub async fn are_refused(lab: &Lab) {
    let operator = format!("system:serviceaccount:{}:assay", lab.namespace);
    let as_trial = json!({"assay.rocks/role": "trial"});
    let (own, strange) = (pod("own", &as_trial), pod("strange", &as_trial));
    lab.until("the policy holds", SOON, async || {
        let said = create(lab, &strange, &["--dry-run=server"]).await;
        said.contains("only Assay's operator may create pods").then_some(())
    })
    .await;
    let said = create(lab, &pod("other", &json!({"app": "other"})), &[]).await;
    lab.check(said.contains("created"), &format!("other pods are everybody's: {said}")).await;
    let said = create(lab, &own, &["--as", &operator]).await;
    lab.check(said.contains("created"), &format!("the operator may: {said}")).await;
    let debug = ["debug", "pod/own", "--image", "registry.example/somebody/tool:1", "--profile", "restricted"];
    let cases: [(&[&str], &str); 6] = [
        (&["label", "pod/other", "assay.rocks/role=trial"], "may change the labels of trials' pods"),
        (&["label", "pod/own", "assay.rocks/attempt=7"], "may change the labels of trials' pods"),
        (&["label", "pod/own", "assay.rocks/role-"], "may change the labels of trials' pods"),
        (&["set", "image", "pod/own", "bench=registry.example/somebody/bench:2"], "may change what a trial's pod runs"),
        (&debug, "may change what a trial's pod runs"),
        (&["label", "pod/own", "queue=short"], "pod/own labeled"),
    ];
    for (args, expected) in cases {
        let said = lab.kubectl(args).await;
        lab.check(said.contains(expected), &format!("{args:?}: {said}")).await;
    }
    lab.kubectl(&["delete", "pods", "own", "other", "--grace-period", "0", "--force"]).await;
}
