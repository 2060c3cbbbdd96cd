//! What kubelets say of their own configuration, where the operator was allowed to ask and the cluster's authority vouches for them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hyper::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::PostParams;
use kube::config::AuthInfo;
use kube::{Api, Client, Config, ResourceExt as _};
use tokio::sync::Semaphore;
use tracing::{info, warn};

use crate::args::Args;
use crate::clock::SharedClock;
use crate::error::call;
use crate::health;
use crate::http::deepest;
use crate::lock::locked;

/// How long an answer counts. Another policy needs a kubelet that begins anew with an empty state.
const KEPT: Duration = Duration::from_mins(5);
const PATIENCE: Duration = Duration::from_secs(3);
/// Kubelets that are asked at the same time, for all experiments: each over a connection of its own, with all that TLS needs.
const AT_ONCE: usize = 256;
/// How long a token holds: the least that an API server gives.
const TOKEN_SECONDS: i64 = 600;

/// Asks kubelets.
pub struct Kubelets {
    /// None where they are not to be asked.
    asking: Option<Asking>,
    clock: SharedClock,
    policies: Mutex<HashMap<String, Answer>>,
    places: Semaphore,
}

/// With an account that may do nothing else: whoever controls a node reads the token that its kubelet is sent.
struct Asking {
    accounts: Api<ServiceAccount>,
    account: String,
    /// Without credentials.
    config: Config,
}

impl Asking {
    /// A client's configuration with a token of the moment.
    async fn config(&self) -> Result<Config, String> {
        let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let made = call(self.accounts.create_token_request(&self.account, &PostParams::default(), &request)).await;
        let made = made.map_err(|error| format!("can't get a token of {}: {}", self.account, error.message()))?;
        let token = made.status.ok_or_else(|| format!("the token of {} is empty", self.account))?.token;
        let mut config = self.config.clone();
        config.auth_info.token = Some(token.into());
        Ok(config)
    }
}

struct Answer {
    at: Instant,
    /// Or why it is not known.
    policy: Result<String, String>,
}

impl Kubelets {
    pub fn new(args: &Args, mut config: Config, client: &Client, clock: SharedClock) -> Self {
        config.auth_info = AuthInfo::default();
        let asking = args.kubelet_account.clone().map(|account| Asking {
            accounts: Api::namespaced(client.clone(), &args.own_namespace),
            account,
            config,
        });
        Self { asking, clock, policies: Mutex::default(), places: Semaphore::new(AT_ONCE) }
    }

    /// The CPU manager policy of a node's kubelet, where it is known.
    pub fn cpu_manager_policy(&self, node: &str) -> Option<String> {
        self.asking.as_ref()?;
        locked(&self.policies).get(node)?.policy.clone().ok()
    }

    /// Forgets nodes that are gone.
    pub fn prune(&self, is_there: impl Fn(&str) -> bool) {
        locked(&self.policies).retain(|node, _| is_there(node));
    }

    /// Asks those of these nodes that fit and whose last answer is old; whether there were any.
    pub async fn ask<'a>(&self, nodes: impl Iterator<Item = &'a Node>, fits: impl Fn(&Node) -> bool) -> bool {
        let Some(asking) = &self.asking else { return false };
        let old: Vec<&Node> = nodes.filter(|node| self.is_old(node)).filter(|node| fits(node)).collect();
        if old.is_empty() {
            return false;
        }
        let config = &asking.config().await;
        let asked: FuturesUnordered<_> = old.into_iter().map(|node| self.ask_one(config, node)).collect();
        asked.for_each(async |()| health::goes_on()).await;
        true
    }

    /// Asks a node, unless somebody else has done so by the time that this one may.
    async fn ask_one(&self, config: &Result<Config, String>, node: &Node) {
        // It is never closed.
        let _place = self.places.acquire().await;
        if !self.is_old(node) {
            return;
        }
        let asked = match config {
            Ok(config) => tokio::time::timeout(PATIENCE, policy(config, node)).await,
            Err(why) => Ok(Err(why.clone())),
        };
        self.learn(node, asked.unwrap_or_else(|_| Err("no answer".to_owned())));
    }

    fn is_old(&self, node: &Node) -> bool {
        let policies = locked(&self.policies);
        let answer = node.metadata.name.as_deref().and_then(|name| policies.get(name));
        answer.is_none_or(|answer| self.clock.since(answer.at) > KEPT)
    }

    /// Keeps an answer, and logs what is new.
    fn learn(&self, node: &Node, policy: Result<String, String>) {
        let name = node.name_any();
        let answer = Answer { at: self.clock.instant(), policy: policy.clone() };
        let before = locked(&self.policies).insert(name.clone(), answer);
        if before.is_some_and(|before| before.policy == policy) {
            return;
        }
        match policy {
            Ok(policy) => info!(node = name, policy, "got the kubelet's cpuManagerPolicy"),
            Err(why) => warn!(node = name, why, "can't get the kubelet's cpuManagerPolicy"),
        }
    }
}

async fn policy(config: &Config, node: &Node) -> Result<String, String> {
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    let address = addresses.into_iter().find(|address| address.type_ == "InternalIP").map(|address| &address.address);
    let port = status.and_then(|status| status.daemon_endpoints.as_ref()?.kubelet_endpoint.as_ref());
    let (Some(address), Some(port)) = (address, port.map(|endpoint| endpoint.port)) else {
        return Err("the node has no address for its kubelet".to_owned());
    };
    let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
    let url = format!("https://{host}:{port}").parse().map_err(|error| format!("{host} is not an address: {error}"))?;
    let mut config = config.clone();
    (config.cluster_url, config.tls_server_name) = (url, None);
    let client = Client::try_from(config).map_err(|error| error.to_string())?;
    let request = Request::get("/configz").body(Vec::new()).map_err(|error| error.to_string())?;
    let configz: serde_json::Value = client.request(request).await.map_err(|error| deepest(&error))?;
    let policy = configz.pointer("/kubeletconfig/cpuManagerPolicy").and_then(serde_json::Value::as_str);
    policy.map(ToOwned::to_owned).ok_or_else(|| "/configz has no cpuManagerPolicy".to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread::JoinHandle;

    use clap::Parser as _;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::testing::Manual;
    use crate::http::testing::{Asked, TEST_AUTHORITY, answering_each, pages};

    /// With as many tokens as there may be asked for.
    fn kubelets(tokens: usize) -> (Kubelets, JoinHandle<Vec<Asked>>) {
        let made = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
            "spec": {"audiences": []}, "status": {"token": "of-kubelets", "expirationTimestamp": "2100-01-01T00:00:00Z"}});
        let (client, requested) = answering_each(vec![(201, made.to_string()); tokens]);
        let mut config = Config::new("http://api-server".parse().unwrap());
        config.root_cert = Some(vec![CertificateDer::from_pem_slice(TEST_AUTHORITY).unwrap().to_vec()]);
        config.auth_info.token = Some("of-the-operator".to_owned().into());
        config.auth_info.username = Some("operator".to_owned());
        let start = ["assay-operator", "--bench-image", "bench", "--own-namespace", "own"];
        let args = Args::parse_from([&start[..], &["--kubelet-account", "assay-kubelets"]].concat());
        (Kubelets::new(&args, config, &client, Manual::new()), requested)
    }

    fn node(name: &str, kubelet: SocketAddr) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}}}}))
        .unwrap()
    }

    /// Whoever controls a node sees what its kubelet is sent.
    #[tokio::test]
    async fn a_kubelet_gets_a_token_of_an_account_of_its_own() {
        let (address, asked) = pages(r#"{"kubeletconfig":{"cpuManagerPolicy":"static"}}"#, true);
        let ((kubelets, requested), node) = (kubelets(1), node("n", address));
        kubelets.ask([&node].into_iter(), |_| false).await;
        assert_eq!(kubelets.cpu_manager_policy("n"), None, "it does not fit");
        kubelets.ask([&node].into_iter(), |_| true).await;
        kubelets.prune(|node| node == "n");
        assert_eq!(kubelets.cpu_manager_policy("n").as_deref(), Some("static"));
        kubelets.prune(|_| false);
        assert_eq!(kubelets.cpu_manager_policy("n"), None, "it is gone");
        let requested = requested.join().unwrap().remove(0);
        assert_eq!(requested.what, "POST /api/v1/namespaces/own/serviceaccounts/assay-kubelets/token");
        assert_eq!(requested.body["spec"]["expirationSeconds"], TOKEN_SECONDS);
        let heads: Vec<Vec<String>> = asked.try_iter().collect();
        assert_eq!(heads.len(), 1, "{heads:?}");
        let sent: Vec<&String> = heads[0].iter().filter(|line| line.starts_with("authorization:")).collect();
        assert_eq!(sent, ["authorization: Bearer of-kubelets"]);
    }

    #[tokio::test]
    async fn what_one_experiment_asks_the_others_need_not() {
        let (address, asked) = pages(r#"{"kubeletconfig":{"cpuManagerPolicy":"none"}}"#, true);
        let ((kubelets, _requested), node) = (kubelets(3), node("n", address));
        let ask = || kubelets.ask([&node].into_iter(), |_| true);
        let _busy = kubelets.places.acquire_many(u32::try_from(AT_ONCE - 1).unwrap()).await.unwrap();
        assert_eq!(tokio::join!(ask(), ask(), ask()), (true, true, true), "each has waited");
        assert!(!ask().await, "it is known");
        assert_eq!(kubelets.cpu_manager_policy("n").as_deref(), Some("none"));
        assert_eq!(asked.try_iter().count(), 1);
    }

    #[tokio::test]
    async fn a_fleet_is_not_asked_all_at_once() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let nodes: Vec<Node> = (0..3 * AT_ONCE).map(|number| node(&number.to_string(), address)).collect();
        let (kubelets, _requested) = kubelets(2);
        // It does not matter whose they are.
        let (some, others) = nodes.split_at(AT_ONCE / 2);
        let asked = async {
            tokio::join!(kubelets.ask(some.iter(), |_| true), kubelets.ask(others.iter(), |_| true));
        };
        let mut connections = Vec::new();
        let connected = async {
            // None is given up meanwhile.
            while let Ok(connection) = tokio::time::timeout(PATIENCE / 3, silent.accept()).await {
                connections.push(connection);
            }
        };
        tokio::select! {
            () = asked => unreachable!("nobody answers"),
            () = connected => {}
        }
        assert_eq!(connections.len(), AT_ONCE);
    }
}
