//! The two Leases: the node's, in which the operator asks, and the agent's own, in which it answers.

use std::time::Duration;

use anyhow::Context as _;
use assay_api::agent::{AgentAnswer, AgentRequest};
use assay_api::names::{
    AGENT_LEASE_PREFIX, AGENT_MANAGER, ANSWER_ANNOTATION, ASK_ANNOTATION, MANAGED_BY, MANAGED_LABEL, NODE_LEASE_PREFIX,
};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Config, ResourceExt as _};
use serde::de::DeserializeOwned;
use tracing::warn;

use crate::args::Args;

/// How long the API server may take for an answer: the agent hears and does nothing meanwhile.
const ANSWER: Duration = Duration::from_secs(5);

/// A connection on which nothing comes for so long is broken: an API server itself ends a watch before. Without this, one that does not answer
/// the list before a watch would be waited for without end.
const SILENT: Duration = Duration::from_mins(5);

pub fn connect(mut config: Config) -> kube::Result<Client> {
    // From the last request on, and not from the answer before.
    (config.read_timeout, config.reset_reader_on_write) = (Some(SILENT), true);
    Client::try_from(config)
}

/// What is asked from now on, and what was asked last.
pub fn requests(client: &Client, args: &Args) -> impl Stream<Item = AgentRequest> + use<> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &args.node_lease_namespace);
    let name = format!("{NODE_LEASE_PREFIX}{}", args.node);
    watch_object(leases, &name).default_backoff().filter_map(|change| async move {
        match change {
            Ok(lease) => annotation(&lease?, ASK_ANNOTATION),
            Err(error) => {
                warn!(%error, "can't watch the node's Lease");
                None
            }
        }
    })
}

/// The agent's own Lease.
pub struct Answers {
    api: Api<Lease>,
    name: String,
    node: String,
}

impl Answers {
    pub fn new(client: &Client, args: &Args) -> Self {
        Self {
            api: Api::namespaced(client.clone(), &args.own_namespace),
            name: format!("{AGENT_LEASE_PREFIX}{}", args.node),
            node: args.node.clone(),
        }
    }

    /// The last answer, of this agent or one before it.
    pub async fn last(&self) -> anyhow::Result<Option<AgentAnswer>> {
        let lease = call(self.api.get_opt(&self.name)).await.context("can't read the agent's Lease")?;
        Ok(lease.and_then(|lease| annotation(&lease, ANSWER_ANNOTATION)))
    }

    /// Says that the agent is there, and its last answer.
    pub async fn write(&self, last: Option<&AgentAnswer>, lasts_seconds: i32) -> anyhow::Result<()> {
        let answer = last.map(serde_json::to_string).transpose()?;
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some([(MANAGED_LABEL.to_owned(), MANAGED_BY.to_owned())].into()),
                annotations: answer.map(|answer| [(ANSWER_ANNOTATION.to_owned(), answer)].into()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.node.clone()),
                lease_duration_seconds: Some(lasts_seconds),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        };
        let params = PatchParams::apply(AGENT_MANAGER).force();
        let written = call(self.api.patch(&self.name, &params, &Patch::Apply(&lease))).await;
        written.context("can't write the agent's Lease")?;
        Ok(())
    }
}

async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> anyhow::Result<T> {
    let answer = tokio::time::timeout(ANSWER, request).await;
    Ok(answer.with_context(|| format!("the API server did not answer within {} s", ANSWER.as_secs()))??)
}

/// What an annotation says; `None` where there is none, or where it is of another version.
fn annotation<T: DeserializeOwned>(lease: &Lease, name: &str) -> Option<T> {
    let text = lease.annotations().get(name)?;
    serde_json::from_str(text).inspect_err(|error| warn!(annotation = name, %error, "can't parse the annotation")).ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use kube::api::ListParams;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_is_not_waited_for_without_end() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = silent.local_addr().expect("an address");
        let client = connect(Config::new(format!("http://{address}").parse().expect("an address"))).expect("a client");
        let leases = Api::<Lease>::namespaced(client, "here");
        let began = tokio::time::Instant::now();
        let listed = tokio::time::timeout(2 * SILENT, leases.list(&ListParams::default())).await;
        assert!(matches!(listed, Ok(Err(_))) && began.elapsed() >= SILENT, "{listed:?}");
    }
}
