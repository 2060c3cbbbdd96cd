//! What kubelets say of their own configuration, where the operator was allowed to ask and the cluster's authority vouches for them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::Request;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, Config, ResourceExt as _};
use tracing::{info, warn};

use crate::clock::SharedClock;
use crate::http::deepest;
use crate::lock::locked;

/// How long an answer counts. Another policy needs a kubelet that begins anew with an empty state.
const KEPT: Duration = Duration::from_mins(5);
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks kubelets, with the operator's own account.
pub struct Kubelets {
    /// None where they are not to be asked.
    config: Option<Config>,
    clock: SharedClock,
    policies: Mutex<HashMap<String, Answer>>,
}

struct Answer {
    at: Instant,
    policy: Option<String>,
}

impl Kubelets {
    pub fn new(config: Option<Config>, clock: SharedClock) -> Self {
        Self { config, clock, policies: Mutex::default() }
    }

    /// The CPU manager policy of a node's kubelet, where it is known.
    pub fn cpu_manager_policy(&self, node: &str) -> Option<String> {
        locked(&self.policies).get(node)?.policy.clone()
    }

    /// Asks those whose last answer is old.
    pub async fn ask(&self, nodes: impl Iterator<Item = &Node>) {
        let Some(config) = &self.config else { return };
        let is_old = |node: &&Node| {
            locked(&self.policies).get(&node.name_any()).is_none_or(|answer| self.clock.since(answer.at) > KEPT)
        };
        let asked = nodes.filter(is_old).map(|node| async move {
            let asked = tokio::time::timeout(PATIENCE, policy(config, node)).await;
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
