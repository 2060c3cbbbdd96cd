//! Who the operators under test are: an account that may do what the chart lets its operator do, and nothing else.

use std::path::{Path, PathBuf};

use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::chart::chart;

pub const USER: &str = "assay-e2e";

/// A kubeconfig by which somebody acts as that account, in all namespaces.
pub async fn kubeconfig(client: &Client) -> PathBuf {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    let make = async {
        for rules in rules().await {
            give(client, rules).await;
        }
        kubeconfig_of(USER)
    };
    MADE.get_or_init(|| make).await.clone()
}

/// A client of whom a kubeconfig names.
pub async fn client(kubeconfig: &Path) -> Client {
    let told = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(told, &KubeConfigOptions::default()).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

fn kubeconfig_of(user: &str) -> PathBuf {
    let own = std::env::var("KUBECONFIG").expect("KUBECONFIG names the cluster");
    let own = std::fs::read_to_string(own).expect("a kubeconfig");
    let mut config: Value = serde_yaml::from_str(&own).expect("a kubeconfig is YAML");
    config["users"][0]["user"]["as"] = json!(user);
    let folder = std::env::temp_dir().join("assay-e2e");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("{user}.kubeconfig"));
    std::fs::write(&path, config.to_string()).expect("a kubeconfig");
    path
}

/// Another account, which sees nodes and nothing else until it gets rights [`within`] namespaces.
pub async fn confined(client: &Client, user: &str) -> PathBuf {
    let nodes = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]);
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user});
    put(client, None, "ClusterRole", user, json!({"rules": nodes})).await;
    put(client, None, "ClusterRoleBinding", user, json!({"roleRef": role, "subjects": [subject]})).await;
    kubeconfig_of(user)
}

/// Gives an account in one namespace the rights of the operator.
pub async fn within(client: &Client, user: &str, namespace: &str) {
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    for rules in rules().await {
        let name = role_of(&rules);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"roleRef": role, "subjects": [subject]});
        put(client, Some(namespace), "RoleBinding", &name, binding).await;
    }
}

/// The rules of each role that the chart makes for its operator.
async fn rules() -> Vec<Value> {
    let program = std::env::var("ASSAY_HELM").expect("ASSAY_HELM is the path of Helm");
    let args = ["template", "assay", &chart(), "--show-only", "templates/rbac.yaml"];
    let output = Command::new(program).args(args).output().await.expect("ASSAY_HELM can be started");
    let made = String::from_utf8(output.stdout).expect("Helm prints text");
    let objects = serde_yaml::Deserializer::from_str(&made).map(|one| Value::deserialize(one).expect("YAML"));
    let roles = objects.filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    let rules: Vec<Value> = roles.map(|role| role["rules"].clone()).collect();
    assert!(!rules.is_empty(), "the chart has roles: {}", String::from_utf8_lossy(&output.stderr));
    rules
}

/// Gives the account these rights, in every namespace.
async fn give(client: &Client, rules: Value) {
    let name = role_of(&rules);
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    put(client, None, "ClusterRole", &name, json!({"rules": rules})).await;
    put(client, None, "ClusterRoleBinding", &name, json!({"roleRef": role, "subjects": [subject]})).await;
}

fn role_of(rules: &Value) -> String {
    format!("{USER}:{}", assay_protocol::Digest::of_json(rules).expect("rules are JSON"))
}

async fn put(client: &Client, namespace: Option<&str>, kind: &str, name: &str, mut object: Value) {
    let known = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
    (object["apiVersion"], object["kind"]) = (json!(known.api_version()), json!(kind));
    object["metadata"] = json!({"name": name});
    let resource = ApiResource::from_gvk(&known);
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply("assay-e2e").force();
    api.patch(name, &params, &Patch::Apply(&object)).await.expect("rights can be given");
}
