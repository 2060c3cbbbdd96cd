//! A namespace with nodes of its own, so that tests run at the same time and none waits for another's nodes.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::account;
use crate::machine::{self, Share};
use crate::operator::{self, Operator};

/// Where a test's nodes are known by.
pub const LAB_LABEL: &str = "assay.rocks/lab";
/// How long anything may take that is not a whole experiment.
pub const SOON: u64 = 60;
/// Nodes that are made at the same time.
const NODES_AT_ONCE: usize = 16;

pub struct Lab {
    pub client: Client,
    pub namespace: String,
    pub nodes: Vec<String>,
    pub folder: PathBuf,
    logs: Mutex<Vec<PathBuf>>,
    operators: AtomicU32,
    /// Where its operators say who has a node.
    leases: String,
    share: Arc<Share>,
    /// Of the account that its operators are.
    account: PathBuf,
}

impl Lab {
    /// A namespace with one fake node.
    pub async fn new(name: &str) -> Self {
        Self::with_nodes(name, 1).await
    }

    pub async fn with_nodes(name: &str, nodes: usize) -> Self {
        Self::of(name, nodes, machine::shared().await.into()).await
    }

    /// While no other test runs.
    pub async fn alone(name: &str, nodes: usize) -> Self {
        Self::of(name, nodes, machine::alone().await.into()).await
    }

    /// Another namespace, whose operators share the nodes of this one.
    pub async fn beside(&self, name: &str) -> Self {
        Self { leases: self.namespace.clone(), ..Self::of(name, 0, Arc::clone(&self.share)).await }
    }

    async fn of(name: &str, nodes: usize, share: Arc<Share>) -> Self {
        let client = client().await;
        crds(&client).await;
        let namespace = format!("e2e-{name}-{:x}", now_ms() % 0x00ff_ffff);
        let folder = std::env::temp_dir().join("assay-e2e").join(&namespace);
        std::fs::create_dir_all(&folder).expect("a folder for logs");
        let (logs, operators) = (Mutex::default(), AtomicU32::new(0));
        let (leases, account) = (namespace.clone(), account::kubeconfig(&client).await);
        let mut lab = Self { client, namespace, nodes: Vec::new(), folder, logs, operators, leases, share, account };
        // Everything that the operator makes has to pass the strictest of the standards.
        lab.enforce("restricted").await;
        lab.add_nodes(nodes).await;
        lab
    }

    /// Another Pod Security Standard for its namespace.
    pub async fn enforce(&self, standard: &str) {
        let labels = json!({"pod-security.kubernetes.io/enforce": standard});
        self.put::<Namespace>(None, json!({"metadata": {"name": self.namespace, "labels": labels}})).await;
    }

    /// One more node, played by KWOK.
    pub async fn add_node(&mut self) -> String {
        self.add_nodes(1).await;
        self.nodes.last().expect("a node").clone()
    }

    async fn add_nodes(&mut self, count: usize) {
        let known = self.nodes.len();
        let names: Vec<String> = (known..known + count).map(|number| format!("{}-n{number}", self.namespace)).collect();
        let lab = &*self;
        futures::stream::iter(&names).for_each_concurrent(NODES_AT_ONCE, async |name| lab.make_node(name).await).await;
        self.nodes.extend(names);
    }

    async fn make_node(&self, name: &str) {
        let resources = json!({"cpu": "16", "memory": "64Gi", "ephemeral-storage": "1Ti", "pods": "110"});
        let node = json!({
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", LAB_LABEL: self.namespace},
            },
            "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
            "status": {"capacity": resources, "allocatable": resources},
        });
        self.put::<Node>(None, node.clone()).await;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let params = PatchParams::apply("assay-e2e").force();
        let mut status = node;
        (status["apiVersion"], status["kind"]) = (json!("v1"), json!("Node"));
        nodes.patch_status(name, &params, &Patch::Apply(&status)).await.expect("a node has resources");
        self.until("a fake node is ready", SOON, async || {
            let status = nodes.get(name).await.ok()?.status?;
            status.conditions?.iter().any(|c| c.type_ == "Ready" && c.status == "True").then_some(())
        })
        .await;
    }

    /// Has a node say whether it is ready, and since when.
    pub async fn ready(&self, node: &str, status: &str, since: Duration) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let since = (Timestamp::now() - since).strftime("%FT%TZ").to_string();
        let ready = json!({"type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": since});
        let change = json!({"status": {"conditions": [ready]}});
        nodes
            .patch_status(node, &PatchParams::default(), &Patch::Strategic(&change))
            .await
            .expect("a node has a status");
    }

    /// Local volumes of a node, as many as given.
    pub async fn add_volumes(&self, node: &str, count: usize) {
        self.add_volumes_of("local-nvme", node, count).await;
    }

    /// The same of a storage class.
    pub async fn add_volumes_of(&self, class: &str, node: &str, count: usize) {
        for number in 0..count {
            let hostname = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
            let volume = json!({
                "metadata": {
                    "name": format!("{node}-{number}"),
                    "labels": {"assay.rocks/e2e": "volume", LAB_LABEL: self.namespace},
                },
                "spec": {
                    "capacity": {"storage": "1Ti"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": class,
                    "local": {"path": format!("/volumes/{node}-{number}")},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
                },
            });
            self.put::<PersistentVolume>(None, volume).await;
        }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Server-side apply of an object, in the lab's namespace unless it has none.
    pub async fn put<K>(&self, namespace: Option<&str>, mut object: Value) -> K
    where
        K: kube::Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let kind = K::DynamicType::default();
        object["apiVersion"] = json!(K::api_version(&kind));
        object["kind"] = json!(K::kind(&kind));
        let name = object["metadata"]["name"].as_str().expect("an object has a name").to_owned();
        let api: Api<kube::core::DynamicObject> = match namespace {
            Some(namespace) => {
                let resource = kube::core::ApiResource::erase::<K>(&kind);
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            None => Api::all_with(self.client.clone(), &kube::core::ApiResource::erase::<K>(&kind)),
        };
        let params = PatchParams::apply("assay-e2e").force();
        let made = api.patch(&name, &params, &Patch::Apply(&object)).await;
        let made = made.unwrap_or_else(|error| panic!("{name} is not accepted: {error}"));
        made.try_parse().unwrap_or_else(|error| panic!("{name} is not what was made: {error}"))
    }

    pub async fn names<K>(&self, selector: &str) -> Vec<String>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let found = self.api::<K>().list(&ListParams::default().labels(selector)).await.expect("a list");
        found.items.iter().map(ResourceExt::name_any).collect()
    }

    /// An operator for this namespace alone.
    pub fn operator(&self) -> Operator {
        self.operator_with(&[], None)
    }

    /// With more arguments, or by another kubeconfig.
    pub fn operator_with(&self, args: &[&str], kubeconfig: Option<&PathBuf>) -> Operator {
        self.operator_everywhere(&[&["--namespace", &self.namespace], args].concat(), kubeconfig)
    }

    /// For all namespaces, as the chart installs it: nobody else may be at work.
    pub fn operator_everywhere(&self, args: &[&str], kubeconfig: Option<&PathBuf>) -> Operator {
        self.operator_of(&operator::program(), args, kubeconfig)
    }

    /// Another program.
    pub fn operator_of(&self, program: &str, args: &[&str], kubeconfig: Option<&PathBuf>) -> Operator {
        let number = self.operators.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.join(format!("operator-{number}.log"));
        self.logs.lock().expect("the logs").push(log.clone());
        let namespaces = ["--own-namespace", &self.namespace, "--node-lease-namespace", &self.leases];
        let args = [&namespaces, args].concat();
        Operator::start(program, &format!("operator-{number}"), &args, kubeconfig.unwrap_or(&self.account), log)
    }

    /// A kubeconfig of somebody who answers for the API server on this machine, without credentials.
    pub fn kubeconfig(&self, name: &str, address: SocketAddr) -> PathBuf {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "users": [{"name": name, "user": {}}],
        });
        std::fs::write(&path, config.to_string()).expect("a kubeconfig");
        path
    }

    /// Waits until there is an answer, and says what was there instead when there is none.
    pub async fn until<T>(&self, what: &str, seconds: u64, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            if Instant::now() > deadline {
                self.fail(&format!("not within {seconds} s: {what}")).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Like `assert!`, with everything that is there.
    pub async fn check(&self, right: bool, what: &str) {
        if !right {
            self.fail(what).await;
        }
    }

    pub async fn fail(&self, what: &str) -> ! {
        let objects = self.kubectl(&["get", "tuningexperiments,tuningtrials,pods,leases,pvc", "-o", "wide"]).await;
        let status = self.kubectl(&["get", "tuningexperiments", "-o", "jsonpath={.items[*].status}"]).await;
        let events = self.kubectl(&["get", "events", "--sort-by=.lastTimestamp"]).await;
        let mut text = format!(
            "{what}\n\n--- namespace {}\n{objects}\n--- status\n{status:.4000}\n--- events\n{}",
            self.namespace,
            tail(&events, 25)
        );
        for log in self.logs.lock().expect("the logs").iter().rev().take(2) {
            let log_text = std::fs::read_to_string(log).unwrap_or_default();
            let _ = write!(text, "\n--- {}\n{}", log.display(), tail(&log_text, 40));
        }
        panic!("{text}");
    }

    pub async fn kubectl(&self, args: &[&str]) -> String {
        let output = Command::new("kubectl").args(["--namespace", &self.namespace]).args(args).output().await;
        let output = output.expect("kubectl is in PATH");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Ends a lab that passed. Nothing of it may hold up the end of its namespace.
    pub async fn close(self) {
        self.close_within(SOON).await;
    }

    /// The same of a lab in which so much is left that its end takes longer.
    pub async fn close_within(self, seconds: u64) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &DeleteParams::default()).await.expect("a namespace can be deleted");
        self.until("the namespace is gone", seconds, async || {
            namespaces.get_opt(&self.namespace).await.ok()?.is_none().then_some(())
        })
        .await;
        let mine = ListParams::default().labels(&format!("{LAB_LABEL}={}", self.namespace));
        let (nodes, volumes): (Api<Node>, Api<PersistentVolume>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        nodes.delete_collection(&DeleteParams::default(), &mine).await.expect("nodes can be deleted");
        volumes.delete_collection(&DeleteParams::default(), &mine).await.expect("volumes can be deleted");
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub async fn client() -> Client {
    Client::try_default().await.expect("KUBECONFIG names a cluster: `make cluster-up` starts one")
}

/// The definitions as they are in the code, once for all tests.
async fn crds(client: &Client) {
    static APPLIED: OnceCell<()> = OnceCell::const_new();
    let apply = async {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in assay_api::crds().expect("definitions") {
            let name = crd["metadata"]["name"].as_str().expect("a name").to_owned();
            let params = PatchParams::apply("assay-e2e").force();
            api.patch(&name, &params, &Patch::Apply(&crd)).await.expect("the API server takes the definition");
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(SOON) {
                let status = api.get(&name).await.ok().and_then(|crd| crd.status).unwrap_or_default();
                if status.conditions.unwrap_or_default().iter().any(|c| c.type_ == "Established" && c.status == "True")
                {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    APPLIED.get_or_init(|| apply).await;
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// How many experiments a long test does.
pub fn rounds() -> usize {
    std::env::var("ASSAY_ROUNDS").map_or(1, |rounds| rounds.parse().expect("ASSAY_ROUNDS is a number"))
}
