//! What kubelets say of their own configuration, where the operator was allowed to ask and the cluster's authority vouches for them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::PostParams;
use kube::config::AuthInfo;
use kube::{Api, Client, Config, ResourceExt as _};
use tracing::{info, warn};

use crate::args::Args;
use crate::clock::SharedClock;
use crate::error::call;
use crate::http::deepest;
use crate::lock::locked;

/// How long an answer counts. Another policy needs a kubelet that begins anew with an empty state.
const KEPT: Duration = Duration::from_mins(5);
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a token holds: the least that an API server gives.
const TOKEN_SECONDS: i64 = 600;

/// Asks kubelets.
pub struct Kubelets {
    /// None where they are not to be asked.
    asking: Option<Asking>,
    clock: SharedClock,
    policies: Mutex<HashMap<String, Answer>>,
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
    policy: Option<String>,
}

impl Kubelets {
    pub fn new(args: &Args, mut config: Config, client: &Client, clock: SharedClock) -> Self {
        config.auth_info = AuthInfo::default();
        let asking = args.kubelet_account.clone().map(|account| Asking {
            accounts: Api::namespaced(client.clone(), &args.own_namespace),
            account,
            config,
        });
        Self { asking, clock, policies: Mutex::default() }
    }

    /// The CPU manager policy of a node's kubelet, where it is known.
    pub fn cpu_manager_policy(&self, node: &str) -> Option<String> {
        self.asking.as_ref()?;
        locked(&self.policies).get(node)?.policy.clone()
    }

    /// Forgets nodes that are gone.
    pub fn prune(&self, is_there: impl Fn(&str) -> bool) {
        locked(&self.policies).retain(|node, _| is_there(node));
    }

    /// Asks those of these nodes that fit and whose last answer is old.
    pub async fn ask<'a>(&self, nodes: impl Iterator<Item = &'a Node>, fits: impl Fn(&Node) -> bool) {
        let Some(asking) = &self.asking else { return };
        let is_old = |node: &&Node| {
            locked(&self.policies).get(&node.name_any()).is_none_or(|answer| self.clock.since(answer.at) > KEPT)
        };
        let old: Vec<&Node> = nodes.filter(is_old).filter(|node| fits(node)).collect();
        if old.is_empty() {
            return;
        }
        let config = &asking.config().await;
        let asked = old.into_iter().map(|node| async move {
            let asked = match config {
                Ok(config) => tokio::time::timeout(PATIENCE, policy(config, node)).await,
                Err(why) => Ok(Err(why.clone())),
            };
            (node.name_any(), asked.unwrap_or_else(|_| Err("no answer".to_owned())))
        });
        for (node, asked) in futures::future::join_all(asked).await {
            let policy = match asked {
                Ok(policy) => {
                    info!(node, policy, "got the kubelet's cpuManagerPolicy");
                    Some(policy)
                }
                Err(why) => {
                    warn!(node, why, "can't get the kubelet's cpuManagerPolicy");
                    None
                }
            };
            locked(&self.policies).insert(node, Answer { at: self.clock.instant(), policy });
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
    use clap::Parser as _;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use serde_json::json;

    use super::*;
    use crate::clock::testing::Manual;
    use crate::http::testing::{TEST_AUTHORITY, answering, pages};

    /// Whoever controls a node sees what its kubelet is sent.
    #[tokio::test]
    async fn a_kubelet_gets_a_token_of_an_account_of_its_own() {
        let (address, asked) = pages(r#"{"kubeletconfig":{"cpuManagerPolicy":"static"}}"#, true);
        let made = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
            "spec": {"audiences": []}, "status": {"token": "of-kubelets", "expirationTimestamp": "2100-01-01T00:00:00Z"}});
        let (client, requested) = answering(201, &made.to_string());
        let mut config = Config::new("http://api-server".parse().unwrap());
        config.root_cert = Some(vec![CertificateDer::from_pem_slice(TEST_AUTHORITY).unwrap().to_vec()]);
        config.auth_info.token = Some("of-the-operator".to_owned().into());
        config.auth_info.username = Some("operator".to_owned());
        let start = ["assay-operator", "--bench-image", "bench", "--own-namespace", "own"];
        let args = Args::parse_from([&start[..], &["--kubelet-account", "assay-kubelets"]].concat());
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}}}}))
        .unwrap();

        let kubelets = Kubelets::new(&args, config, &client, Manual::new());
        kubelets.ask([&node].into_iter(), |_| false).await;
        assert_eq!(kubelets.cpu_manager_policy("n"), None, "it does not fit");
        kubelets.ask([&node].into_iter(), |_| true).await;
        kubelets.prune(|node| node == "n");
        assert_eq!(kubelets.cpu_manager_policy("n").as_deref(), Some("static"));
        kubelets.prune(|_| false);
        assert_eq!(kubelets.cpu_manager_policy("n"), None, "it is gone");
        let requested = requested.join().unwrap();
        assert_eq!(requested.what, "POST /api/v1/namespaces/own/serviceaccounts/assay-kubelets/token");
        assert_eq!(requested.body["spec"]["expirationSeconds"], TOKEN_SECONDS);
        let heads: Vec<Vec<String>> = asked.try_iter().collect();
        assert_eq!(heads.len(), 1, "{heads:?}");
        let sent: Vec<&String> = heads[0].iter().filter(|line| line.starts_with("authorization:")).collect();
        assert_eq!(sent, ["authorization: Bearer of-kubelets"]);
    }
}
