//! Ends the pods of fake nodes as `assay-bench` would: checks by an answer, trials by the summary of a whole record.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_api::names;
use assay_core::attempt::Attempt;
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::validate::validate;
use assay_protocol::{Digest, Exit, OptionsAnswer, OptionsQuestion, Summary, TrialSpec};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::account;
use crate::experiment::small;
use crate::lab::{Lab, SOON, now_ms};
use crate::pods;
use crate::proxy::{FAULTS, Proxy};
use crate::record::{Measured, record};

/// How long a call to the API server may take, and how long until it is made again.
const CALL: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(1);
/// How long a fake trial takes, unless a test says otherwise.
const TRIAL: Duration = Duration::from_millis(300);
/// Throughput of the baseline in steps per second, and its noise to either side.
const BASELINE: f64 = 1000.0;
const NOISE: f64 = 0.01;

/// A trial whose pod runs.
#[derive(Clone)]
pub struct Run {
    pub spec: TrialSpec,
    /// What a healthy bench would say.
    pub summary: Summary,
    /// How many pods of this attempt have run before: refused ones, where all is well.
    pub before: usize,
}

/// How a trial ends.
pub enum End {
    Says {
        exit_code: i32,
        reason: &'static str,
        message: String,
    },
    /// It runs until somebody deletes it.
    Never,
    /// Well, once the test says so.
    After(Arc<Notify>),
}

type Script = Arc<dyn Fn(&Run) -> End + Send + Sync>;
type Answers = Arc<dyn Fn(&OptionsQuestion) -> OptionsAnswer + Send + Sync>;

#[derive(Clone)]
pub struct Bench {
    client: Client,
    /// Throughput of every config but the baseline, relative to it.
    effect: f64,
    takes: Duration,
    script: Script,
    answers: Answers,
    held: Arc<Mutex<Vec<String>>>,
}

/// It works as long as this is kept.
pub struct AtWork {
    task: AbortHandle,
    held: Arc<Mutex<Vec<String>>>,
}

impl AtWork {
    /// The name of a pod that never ends by itself, once there is one.
    pub async fn held(&self, lab: &Lab) -> String {
        lab.until("a trial hangs as it was told to", 120, async || self.held.lock().expect("held pods").last().cloned())
            .await
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Run {
    pub fn done(&self) -> End {
        End::says(Exit::Completed, &serde_json::to_string(&self.summary).expect("a summary is JSON"))
    }

    /// As [`Run::done`], after a change to the summary.
    pub fn done_with(&self, change: impl FnOnce(&mut Summary)) -> End {
        let mut changed = self.clone();
        change(&mut changed.summary);
        changed.done()
    }

    /// Whether this is the baseline's first attempt in the second block: neither at a start nor at an end. A run that the config lost might
    /// have been a slow one, and would cost its Win.
    pub fn is_chosen(&self) -> bool {
        self.is_first_of_baseline() && self.spec.trial.block == 1
    }

    pub fn is_first_of_baseline(&self) -> bool {
        (self.spec.trial.config.as_str(), self.spec.trial.attempt) == ("base", 0)
    }
}

impl End {
    pub fn says(exit: Exit, message: &str) -> Self {
        Self::Says { exit_code: exit as i32, reason: "", message: message.to_owned() }
    }

    /// By a code that no bench has.
    pub fn crashes() -> Self {
        Self::Says { exit_code: 9, reason: "", message: String::new() }
    }
}

impl Bench {
    pub fn new(lab: &Lab) -> Self {
        Self {
            client: lab.client.clone(),
            effect: 1.3,
            takes: TRIAL,
            script: Arc::new(Run::done),
            answers: Arc::new(|_| OptionsAnswer::default()),
            held: Arc::default(),
        }
    }

    /// Speaks to the API server by another client.
    pub fn by(self, client: Client) -> Self {
        Self { client, ..self }
    }

    pub fn effect(self, effect: f64) -> Self {
        Self { effect, ..self }
    }

    pub fn takes(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }

    /// What each trial does instead of ending well.
    pub fn script(self, script: impl Fn(&Run) -> End + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), ..self }
    }

    pub fn answers(self, answers: impl Fn(&OptionsQuestion) -> OptionsAnswer + Send + Sync + 'static) -> Self {
        Self { answers: Arc::new(answers), ..self }
    }

    pub fn start(self, lab: &Lab) -> AtWork {
        let pods = Api::namespaced(self.client.clone(), &lab.namespace);
        let (changes, held) = (pods::changes(pods), self.held.clone());
        let task = tokio::spawn(async move {
            let mut changes = std::pin::pin!(changes);
            let (mut seen, mut ran) = (BTreeSet::new(), Vec::new());
            while let Some(event) = changes.next().await {
                let (Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
                let uid = pod.uid().unwrap_or_default();
                let is_ours = !pods::role(&pod).is_empty();
                if !is_ours
                    || pods::phase(&pod) != "Running"
                    || pod.metadata.deletion_timestamp.is_some()
                    || !seen.insert(uid)
                {
                    continue;
                }
                let before = ran.iter().filter(|name| **name == pod.name_any()).count();
                ran.push(pod.name_any());
                let bench = self.clone();
                tokio::spawn(async move { bench.end(pod, before).await });
            }
        });
        AtWork { task: task.abort_handle(), held }
    }

    async fn end(&self, pod: Pod, before: usize) {
        let started = now_ms();
        let input = pod.annotations().get(names::INPUT_ANNOTATION).map_or("", String::as_str);
        let end = if pods::role(&pod) == names::ROLE_PLACEHOLDER {
            return;
        } else if pods::role(&pod) == names::ROLE_CHECK {
            let question: OptionsQuestion = serde_json::from_str(input).expect("a check asks a question");
            let message = serde_json::to_string(&(self.answers)(&question)).expect("an answer is JSON");
            End::says(Exit::Completed, &message)
        } else {
            let summary = self.summary(&pod, input, started).await;
            let spec = TrialSpec::from_json(input.as_bytes()).expect("a trial has a spec");
            tokio::time::sleep(self.takes).await;
            let run = Run { spec, summary, before };
            match (self.script)(&run) {
                End::After(told) => {
                    self.held.lock().expect("held pods").push(pod.name_any());
                    told.notified().await;
                    run.done()
                }
                end => end,
            }
        };
        let End::Says { exit_code, reason, message } = end else {
            self.held.lock().expect("held pods").push(pod.name_any());
            return;
        };
        let mut told =
            json!({"fake.assay.rocks/exit-code": exit_code.to_string(), "fake.assay.rocks/message": message});
        if !reason.is_empty() {
            told["fake.assay.rocks/reason"] = json!(reason);
        }
        self.tell(&pod, &told).await;
    }

    /// Gives a pod annotations, if it is still there. Nobody else ends it, so a call that fails is made again.
    async fn tell(&self, pod: &Pod, told: &Value) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let (name, uid) = (pod.name_any(), pod.uid());
        let change = json!({"metadata": {"annotations": told, "uid": uid}});
        let what = format!("{name} is told how to end");
        let told = called(&what, || async {
            let Err(why) = pods.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await else {
                return Ok(());
            };
            let is_there = pods.get_metadata_opt(&name).await?.is_some_and(|now| now.uid() == uid);
            if is_there { Err(why) } else { Ok(()) }
        });
        told.await;
    }

    async fn summary(&self, pod: &Pod, input: &str, started_unix_ms: u64) -> Summary {
        let spec = TrialSpec::from_json(input.as_bytes()).expect("a trial has a spec");
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = called("a node is asked for", || nodes.get_opt(pods::node(pod))).await;
        let boot_id = node.and_then(|node| Some(node.status?.node_info?.boot_id));
        // The same trial has the same result, however often and whenever it is run.
        let draw = Digest::of(spec.trial.file_stem().as_bytes());
        let draw = u32::from_str_radix(&draw.as_str()[..8], 16).expect("a digest is hexadecimal");
        let noise = 1.0 + NOISE * (2.0 * f64::from(draw) / f64::from(u32::MAX) - 1.0);
        let is_baseline = spec.config == spec.baseline;
        // With more jobs than other tests ask for, it is faster still.
        let jobs = spec.config.db_options.get("max_background_jobs").and_then(|jobs| jobs.parse::<f64>().ok());
        let gain = 1.0 + 0.05 * (jobs.unwrap_or(4.0) - 4.0).max(0.0);
        let effect = if is_baseline { 1.0 } else { self.effect * gain };
        let measured = Measured {
            started_unix_ms,
            throughput: BASELINE * effect * noise,
            other: noise,
            boot_id,
            cpus: Some(if spec.cpus == 1 { "0".to_owned() } else { format!("0-{}", spec.cpus - 1) }),
        };
        let record = record(spec, Digest::of(input.as_bytes()), measured);
        let json = serde_json::to_vec(&record).expect("a record is JSON");
        Summary::of(&record, &json).expect("a summary is JSON")
    }
}

/// What the API server answers, sooner or later.
async fn called<T, F: Future<Output = kube::Result<T>>>(what: &str, call: impl Fn() -> F) -> T {
    loop {
        match tokio::time::timeout(CALL, call()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(why)) => eprintln!("bench: {what}: {why}"),
            Err(_) => eprintln!("bench: {what}: no answer within {CALL:?}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Without an operator: what the bench leaves is judged as it was planted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fake_trials_pass_all_gates() {
    let lab = Lab::new("bench").await;
    let _bench = Bench::new(&lab).start(&lab);
    pass_all_gates(&lab).await;
    lab.close().await;
}

/// A trial that nobody ends would hang its test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fake_trials_end_by_an_unkind_api_server_too() {
    let lab = Lab::new("bench-unkind").await;
    let proxy = Proxy::start(&lab, 40, 42).await;
    let _bench = Bench::new(&lab).by(account::client(&proxy.kubeconfig).await).start(&lab);
    pass_all_gates(&lab).await;
    for fault in FAULTS {
        assert!(proxy.count(fault) > 0, "{fault:?} was never tried");
    }
    lab.close().await;
}

async fn pass_all_gates(lab: &Lab) {
    let experiment = small(lab, "bench");
    let spec = serde_json::from_value(experiment["spec"].clone()).expect("a spec");
    let valid = validate("bench", &spec);
    let plan = Plan::new(valid.experiment.unwrap_or_else(|| panic!("{:?}", valid.problems))).expect("a plan");
    let mut pods = Vec::new();
    for block in &plan.blocks {
        for slot in 0..block.slots.len() {
            let trial = plan.trial_spec(block, slot, 0).expect("a trial");
            let name = format!("b{}-s{slot}", block.number);
            let pod = json!({
                "metadata": {
                    "name": name,
                    "labels": {names::ROLE_LABEL: names::ROLE_TRIAL},
                    "annotations": {names::INPUT_ANNOTATION: serde_json::to_string(&trial).expect("a spec is JSON")},
                },
                "spec": {
                    "nodeName": lab.nodes[0],
                    "tolerations": [{"operator": "Exists"}],
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{
                        "name": names::CONTAINER,
                        "image": crate::operator::IMAGE,
                        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    }],
                },
            });
            lab.put::<Pod>(Some(&lab.namespace), pod).await;
            pods.push(name);
        }
    }
    let mut attempts = Vec::new();
    for pod in pods {
        let what = format!("{pod} ends with a summary");
        let summary = lab.until(&what, SOON, async || {
            let status = lab.api::<Pod>().get(&pod).await.ok()?.status?.container_statuses?.first()?.state.clone()?;
            Summary::from_json(status.terminated?.message?.as_bytes()).ok()
        });
        attempts.push(Attempt::Finished(summary.await.into()));
    }
    let report = judge(&plan, &attempts).expect("the trials can be judged");
    assert_eq!(format!("{:?}", report.configs[0].ruling.verdict), "Win", "{report:#?}");
}
