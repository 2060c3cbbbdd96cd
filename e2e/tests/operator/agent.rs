//! The agent of a node, as a process whose node is a folder.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assay_api::agent::{AgentAnswer, AgentRequest, AgentSeen, CpuCounters, Done};
use assay_api::{PageCacheState, PodEvidenceStatus, names};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use serde_json::json;
use tokio::task::AbortHandle;

use crate::chart::agent_roles;
use crate::kubelet::Kubelet;
use crate::lab::{Lab, SOON, now_ms};
use crate::scene::Scene;

/// The CPU that trials have here.
const CPU: u8 = 1;

struct Agent {
    command: Command,
    process: Child,
}

impl Agent {
    /// On the node of a lab, which is this folder.
    fn start(lab: &Lab, node: &Path) -> Self {
        let program = std::env::var("ASSAY_AGENT").expect("ASSAY_AGENT is the path of the agent");
        let log = File::create(lab.folder.join("agent.log")).expect("a log");
        let mut command = Command::new(program);
        command
            .args(["--node", &lab.nodes[0], "--own-namespace", &lab.namespace])
            .args(["--node-lease-namespace", &lab.namespace])
            .args([Path::new("--proc"), &node.join("proc"), Path::new("--sys"), &node.join("sys")])
            .args([Path::new("--pod-resources"), &node.join("kubelet.sock")])
            .args(["--trim", "/mnt", "--fstrim", "/bin/true"])
            .stdin(Stdio::null())
            .stderr(log);
        let process = command.spawn().expect("ASSAY_AGENT can be started");
        Self { command, process }
    }

    fn start_again(&mut self) {
        self.kill();
        self.process = self.command.spawn().expect("ASSAY_AGENT can be started");
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A folder like a node with two CPUs that have counted this far.
fn node(lab: &Lab) -> PathBuf {
    let node = lab.folder.join("node");
    std::fs::create_dir_all(node.join("proc/sys/vm")).expect("a folder");
    std::fs::write(node.join("proc/interrupts"), "  CPU0 CPU1\n 9: 5 7 nvme0q1\nLOC: 1 1 Local timer\n")
        .expect("a file");
    for cpu in 0..2 {
        std::fs::create_dir_all(throttle(&node, cpu)).expect("a folder");
        throttled(&node, cpu, 4);
    }
    node
}

fn throttle(node: &Path, cpu: u8) -> PathBuf {
    node.join(format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle"))
}

fn throttled(node: &Path, cpu: u8, count: u32) {
    for counter in ["core_throttle_count", "package_throttle_count"] {
        std::fs::write(throttle(node, cpu).join(counter), format!("{count}\n")).expect("a file");
    }
}

/// The evidence of every attempt, with how it ended.
async fn evidence(lab: &Lab, experiment: &str) -> Vec<(String, PodEvidenceStatus)> {
    let attempts = lab.trials(experiment).await.into_iter().filter_map(|trial| trial.status).flat_map(|s| s.attempts);
    attempts.map(|attempt| (attempt.outcome, attempt.evidence.unwrap_or_default())).collect()
}

/// Nobody has told what only an agent can, so it is unknown: not as it would be where all is well.
async fn knows_nothing(scene: &Scene) {
    let evidence = evidence(&scene.lab, &scene.name).await;
    assert_eq!(evidence.len(), 10);
    for (_, seen) in evidence {
        let found = (seen.page_cache, seen.cpu_ids, seen.throttle_events, seen.device_interrupts);
        scene.lab.check(found == (None, None, None, None), &format!("nobody can know {found:?}")).await;
    }
}

async fn lease(lab: &Lab, prefix: &str) -> Option<Lease> {
    lab.api::<Lease>().get_opt(&format!("{prefix}{}", lab.nodes[0])).await.ok().flatten()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_sees_is_evidence() {
    let lab = Lab::new("agent").await;
    let node = node(&lab);
    let _kubelet = Kubelet::start(&lab, &node.join("kubelet.sock"), CPU);
    let mut agent = Agent::start(&lab, &node);
    lab.until("the agent is there", SOON, async || lease(&lab, names::AGENT_LEASE_PREFIX).await).await;
    let args = ["--agent-namespace", &lab.namespace.clone()];
    let hot = node.clone();
    let scene = Scene::of(lab, "agent", &args, |bench| {
        bench.takes(Duration::from_secs(1)).script(move |run| {
            if run.is_chosen() {
                throttled(&hot, CPU, 5);
            }
            // What the other CPU meets is no matter of the trial's.
            throttled(&hot, 1 - CPU, 10 + run.spec.trial.block);
            run.done()
        })
    });
    scene.begin(|_| ()).await;
    // What it saw before is not lost with it.
    scene.lab.running_pod().await;
    agent.start_again();
    scene.decides(&["Invalid Overheated"]).await;

    let lab = &scene.lab;
    let evidence = evidence(lab, &scene.name).await;
    assert_eq!(evidence.len(), 11);
    for (outcome, seen) in evidence {
        let expected = if outcome == "Valid" { 0 } else { 2 };
        let found = (seen.page_cache, seen.cpu_ids.as_deref(), seen.throttle_events, seen.device_interrupts);
        let expected = (Some(PageCacheState::Dropped), Some("1"), Some(expected), Some(0));
        lab.check(found == expected, &format!("{outcome}: {found:?}")).await;
    }
    let dropped = std::fs::read_to_string(node.join("proc/sys/vm/drop_caches")).unwrap_or_default();
    lab.check(dropped == "1", "the page cache is dropped").await;
    let last = lease(lab, names::AGENT_LEASE_PREFIX).await.expect("the agent's Lease");
    let last: AgentAnswer = serde_json::from_str(&last.annotations()[names::ANSWER_ANNOTATION]).expect("an answer");
    lab.check(last.trimmed.is_some_and(|block| block.ends_with("/fill/4/0")), "the last block began trimmed").await;
    scene.lab.close().await;
}

/// Answers each request as if it were about another trial, until it is dropped.
struct Liar(AbortHandle);

impl Drop for Liar {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Liar {
    async fn start(lab: &Lab) -> Self {
        let (leases, node) = (lab.api::<Lease>(), lab.nodes[0].clone());
        write(&leases, &node, None).await;
        let lie = async move {
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let Ok(Some(asked)) = leases.get_opt(&format!("{}{node}", names::NODE_LEASE_PREFIX)).await else {
                    continue;
                };
                let Some(request) = asked.annotations().get(names::ASK_ANNOTATION) else { continue };
                let mut request: AgentRequest = serde_json::from_str(request).expect("a request");
                "another".clone_into(&mut request.attempt.trial);
                let answer = AgentAnswer {
                    attempt: request.attempt,
                    page_cache: Done::Yes,
                    trim: None,
                    trimmed: None,
                    prepared_unix_ms: now_ms(),
                    before: CpuCounters::default(),
                    seen: Some(AgentSeen { at_unix_ms: now_ms(), throttle_events: Some(99), ..AgentSeen::default() }),
                };
                write(&leases, &node, Some(answer)).await;
            }
        };
        Self(tokio::spawn(lie).abort_handle())
    }
}

async fn write(leases: &kube::Api<Lease>, node: &str, answer: Option<AgentAnswer>) {
    let name = format!("{}{node}", names::AGENT_LEASE_PREFIX);
    let answer = answer.map(|answer| serde_json::to_string(&answer).expect("an answer is JSON"));
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "labels": {names::MANAGED_LABEL: names::MANAGED_BY},
            "annotations": {names::ANSWER_ANNOTATION: answer.unwrap_or_default()},
        },
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 180},
    });
    let params = kube::api::PatchParams::apply(names::AGENT_MANAGER).force();
    let _ = leases.patch(&name, &params, &kube::api::Patch::Apply(&lease)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_does_not_answer_holds_nothing_up() {
    let lab = Lab::new("liar").await;
    let _liar = Liar::start(&lab).await;
    let args = ["--agent-namespace", &lab.namespace.clone()];
    let scene = Scene::of(lab, "liar", &args, |bench| bench);
    scene.begin(|_| ()).await;
    scene.decides(&[]).await;
    knows_nothing(&scene).await;
    let said = scene.operator.said();
    scene.lab.check(said.contains("agent did not answer"), "the log says why evidence is missing").await;
    scene.lab.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_an_agent_is_not_asked() {
    let lab = Lab::new("no-agent").await;
    let args = ["--agent-namespace", &lab.namespace.clone()];
    let scene = Scene::of(lab, "no-agent", &args, |bench| bench);
    scene.begin(|_| ()).await;
    scene.lab.running_pod().await;
    let held = lease(&scene.lab, names::NODE_LEASE_PREFIX).await.expect("the node is held");
    scene.lab.check(!held.annotations().contains_key(names::ASK_ANNOTATION), "nobody is asked").await;
    scene.decides(&[]).await;
    knows_nothing(&scene).await;
    scene.lab.close().await;
}

/// Writes an answer as the agent of a release in the lab, with a token that is bound to this node; the error says why not.
async fn answers(lab: &Lab, release: &str, bound: Option<&str>, node: &str) -> Result<Lease, kube::Error> {
    let name = format!("{}{node}", names::AGENT_LEASE_PREFIX);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{name}?fieldManager=agent", lab.namespace);
    let account = format!("system:serviceaccount:{}:{release}-agent", lab.namespace);
    let mut request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .header("impersonate-user", account);
    if let Some(bound) = bound {
        request = request.header("impersonate-extra-authentication.kubernetes.io%2fnode-name", bound);
    }
    lab.client.request(request.body(lease.to_string().into_bytes()).expect("a request")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_answers_for_its_own_node_only() {
    let lab = Lab::new("own-node").await;
    let (release, own) = (format!("assay-{}", lab.namespace), lab.nodes[0].clone());
    agent_roles(&lab, &release).await;
    let is_refused = async |bound: Option<&str>, node: &str| match answers(&lab, &release, bound, node).await {
        Ok(_) => false,
        Err(error) => error.to_string().contains("an agent may answer only for its own node"),
    };
    let holds = async || is_refused(Some(&own), "another").await.then_some(());
    lab.until("the policy of the chart holds", SOON, holds).await;
    lab.check(is_refused(None, &own).await, "a token that is bound to no node is refused").await;
    let written = answers(&lab, &release, Some(&own), &own).await;
    lab.check(written.is_ok(), &format!("it may answer for its own: {:?}", written.err())).await;
    let selector = format!("app.kubernetes.io/instance={release}");
    let policies = "validatingadmissionpolicies,validatingadmissionpolicybindings";
    lab.kubectl(&["delete", policies, "--selector", &selector]).await;
    lab.close().await;
}
