//! The chart, as it is installed.

use std::path::PathBuf;

use tokio::process::Command;

use crate::account;
use crate::lab::Lab;
use crate::machine::{cluster, image};

/// Helm, as somebody types it, and what it says.
pub async fn helm(lab: &Lab, args: &[&str]) -> String {
    let (succeeded, said) = try_helm(lab, args).await;
    lab.check(succeeded, &format!("helm {args:?}: {said}")).await;
    said
}

/// The same, where it may fail.
pub async fn try_helm(lab: &Lab, args: &[&str]) -> (bool, String) {
    let program = std::env::var("ASSAY_HELM").expect("ASSAY_HELM is the path of Helm");
    let output = Command::new(program).args(["--namespace", &lab.namespace]).args(args).output().await;
    let output = output.expect("ASSAY_HELM can be started");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), said)
}

pub fn chart() -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../charts/assay").display().to_string()
}

/// Where agents are that are installed with a lab's operator.
pub fn agents(lab: &Lab) -> String {
    format!("{}-agents", lab.namespace)
}

pub async fn install(lab: &Lab, prometheus: &str) {
    let own = format!("namespaces={{{}}}", lab.namespace);
    let agents = format!("agent.namespace={}", agents(lab));
    let prometheus = format!("prometheus.url={prometheus}");
    let chart = chart();
    // The tests have brought the definitions, and look after them.
    let values = [own.as_str(), "crds.enabled=false", "askKubelets=true", "agent.enabled=true", &agents, &prometheus];
    let set = values.iter().flat_map(|value| ["--set", value]);
    helm(lab, &["install", "assay", &chart, "--wait"].into_iter().chain(set).collect::<Vec<_>>()).await;
}

/// Nothing that is the cluster's, and not a namespace's, outlives it.
pub async fn uninstall(lab: &Lab) {
    helm(lab, &["uninstall", "assay", "--wait"]).await;
    let kinds = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings";
    let left = lab.kubectl(&["get", kinds, "--output", "name"]).await;
    lab.check(!left.contains(&lab.namespace), &format!("something is left: {left}")).await;
}

/// What the chart gives to people, and nothing else of it.
pub async fn user_roles(lab: &Lab, release: &str) {
    apply(lab, release, "templates/user-roles.yaml", &[]).await;
}

/// What agents and the operator may do with each other's Leases, where agents are in the lab's namespace.
pub async fn agent_roles(lab: &Lab, release: &str) {
    let namespace = format!("agent.namespace={}", lab.namespace);
    for template in ["templates/agent/rbac.yaml", "templates/agent/policy.yaml"] {
        apply(lab, release, template, &["--set", "agent.enabled=true", "--set", &namespace]).await;
    }
}

/// What of the whole cluster goes when a test ends, however it does: other tests would run into it.
pub struct Fences(String);

/// The rights of a release that serves the namespace of the lab, and what it refuses to everybody else.
pub async fn fences(lab: &Lab, values: &[&str]) -> Fences {
    let fences = Fences(lab.namespace.clone());
    let own = format!("namespaces={{{}}}", lab.namespace);
    // Operators of other tests create nights at the same time.
    let operators = format!("operators={{{}}}", account::USER);
    for template in ["templates/rbac.yaml", "templates/trial-pods.yaml", "templates/fences.yaml"] {
        // Experiments are fenced in every namespace where they run.
        let own = if template == "templates/fences.yaml" { &operators } else { &own };
        let own: &[&str] = &["--set", own];
        apply(lab, "assay", template, &[own, values].concat()).await;
    }
    fences
}

impl Drop for Fences {
    fn drop(&mut self) {
        let role = format!("assay:{}", self.0);
        let policies = ["trial-pods", "trial-shells", "experiments", "nights", "account", "fence-0", "fence-1"];
        let policies = policies.map(|of| format!("assay-{of}.{}", self.0));
        let kinds = ["validatingadmissionpolicy", "validatingadmissionpolicybinding"];
        let policies = policies.iter().flat_map(|name| kinds.map(|kind| format!("{kind}/{name}")));
        let roles = ["clusterrole", "clusterrolebinding"].map(|kind| format!("{kind}/{role}"));
        let objects = policies.chain(roles);
        let _ = std::process::Command::new("kubectl").args(["delete", "--ignore-not-found"]).args(objects).status();
    }
}

async fn apply(lab: &Lab, release: &str, template: &str, values: &[&str]) {
    let (chart, file) = (chart(), lab.folder.join("manifest.yaml"));
    let made = helm(lab, &[&["template", release, &chart, "--show-only", template], values].concat()).await;
    std::fs::write(&file, made).expect("a manifest");
    lab.kubectl(&["apply", "--server-side", "--filename", &file.display().to_string()]).await;
}

/// Another version of everything that the chart installs, and other values.
pub async fn upgrade(lab: &Lab) {
    for name in ["operator", "bench"] {
        let (old, new) = (image(name), format!("localhost/assay-{name}:next"));
        cluster(&["exec", "ctr", "--namespace", "k8s.io", "images", "tag", "--force", &old, &new]).await;
    }
    let chart = chart();
    let values = ["--set", "image.tag=next", "--set", "pendingSeconds=200", "--set", "log=debug\\,kube=warn"];
    let args = ["upgrade", "assay", &chart, "--wait", "--reset-then-reuse-values"];
    helm(lab, &args.into_iter().chain(values).collect::<Vec<_>>()).await;
}
