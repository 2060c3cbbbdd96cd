//! `assay-agent`: does on a node what nothing without privileges can, when the operator asks for it, and answers with what it saw.

mod args;
mod channel;
mod counters;
mod kubelet;
mod node;
mod page_cache;
mod trim;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use assay_api::agent::{AgentAnswer, AgentPhase, AgentRequest, AttemptKey};
use assay_protocol::CpuList;
use clap::Parser as _;
use futures::StreamExt as _;
use kube::Config;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tracing::{error, info, warn};

use crate::args::Args;
use crate::channel::Answers;
use crate::node::{Cpus, Disks};

/// How often the agent says that it is there: three times within what its Lease lasts.
const RENEW: Duration = Duration::from_mins(1);
/// How often the kubelet is asked, until it knows the CPUs of a pod.
const LOOK: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(error) = assay_log::init() {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let config = Config::infer().await.context("no kubeconfig found, and not running in a pod")?;
    let client = channel::connect(config).context("can't use the kubeconfig")?;
    let answers = Answers::new(&client, &args);
    let mut requests = std::pin::pin!(channel::requests(&client, &args));
    let mut terminate = signal(SignalKind::terminate()).context("can't handle signals")?;
    let (mut renew, mut look) = (tokio::time::interval(RENEW), tokio::time::interval(LOOK));
    for ticks in [&mut renew, &mut look] {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let mut agent = Agent { last: answers.last().await?, given: None, disks: Disks::default(), args };
    info!(node = agent.args.node, "watching");
    loop {
        tokio::select! {
            request = requests.next() => {
                let request = request.context("the watch on the node's Lease ended")?;
                if !agent.answer(request).await {
                    continue;
                }
            }
            _ = look.tick() => {
                agent.look().await;
                continue;
            }
            _ = renew.tick() => {}
            _ = terminate.recv() => return Ok(()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        if let Err(error) = answers.write(agent.last.as_ref(), assay_api::agent::LEASE_SECONDS.into()).await {
            warn!(error = format!("{error:#}"), "will retry");
            renew.reset_after(Duration::from_secs(1));
        }
    }
}

struct Agent {
    args: Args,
    /// The last answer, which says how far the attempt is that it is about.
    last: Option<AgentAnswer>,
    /// CPUs that the kubelet gave to the pod of this attempt, which may be none.
    given: Option<(AttemptKey, CpuList)>,
    disks: Disks,
}

impl Agent {
    /// Does what is asked; whether there is another answer than before.
    async fn answer(&mut self, request: AgentRequest) -> bool {
        let AgentRequest { attempt, phase } = request;
        let is_begun = self.last.as_ref().is_some_and(|last| last.attempt == attempt);
        match phase {
            AgentPhase::Begin { block, until_unix_ms } if !is_begun => {
                info!(namespace = attempt.namespace, pod = attempt.pod, "preparing the node for a trial");
                let last = self.last.as_ref();
                self.last = Some(node::begin(&self.args, &self.disks, attempt, &block, until_unix_ms, last).await);
                true
            }
            AgentPhase::End { cpus: said } if is_begun => {
                self.look().await;
                let given = self.given.as_ref().filter(|(of, _)| *of == attempt).map(|(_, cpus)| cpus.clone());
                let given = given.filter(|cpus| !cpus.is_empty());
                let Some(begun) = self.last.as_ref().filter(|last| last.seen.is_none()) else { return false };
                self.last = Some(node::end(&self.args, begun, &Cpus { given, said }));
                true
            }
            AgentPhase::Begin { .. } | AgentPhase::End { .. } => false,
        }
    }

    /// Asks the kubelet for the CPUs of the attempt that is under way, until it knows: it forgets a pod that has ended.
    async fn look(&mut self) {
        let Some(begun) = self.last.as_ref().filter(|last| last.seen.is_none()) else { return };
        let is_known = self.given.as_ref().is_some_and(|(of, _)| *of == begun.attempt);
        if is_known || !self.args.pod_resources.exists() {
            return;
        }
        let AttemptKey { namespace, pod, .. } = &begun.attempt;
        match kubelet::cpus(&self.args.pod_resources, namespace, pod).await {
            Ok(Some(cpus)) => self.given = Some((begun.attempt.clone(), cpus)),
            Ok(None) => {}
            Err(why) => warn!(why, "can't get a pod's CPUs from the kubelet"),
        }
    }
}
