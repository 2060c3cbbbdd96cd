//! The whole of it once: the chart, real pods on a real node, a real Prometheus, an upgrade in the middle.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use assay_api::{PageCacheState, TuningExperimentStatus, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{LogParams, PostParams};
use serde_json::{Value, json};

use crate::chart::{install, uninstall, upgrade};
use crate::command_line::{assay, report_is_judged_alike};
use crate::experiment::condition;
use crate::lab::{Lab, SOON};
use crate::machine::{address, audit_log, node};
use crate::operator::free_port;
use crate::{pretenders, rights};

/// Writes of the operator that a trial may cost, Leases of nodes and status included.
const WRITES: usize = 10;
/// And an experiment beside its trials: checks of its options, its end, a change of leader.
const WRITES_ONCE: usize = 12;

/// A Prometheus that scrapes itself four times a second, as windows here are short. Its series are said to be the namespace's.
struct Prometheus {
    process: Child,
    url: String,
}

impl Prometheus {
    fn start(folder: &Path, namespace: &str) -> Self {
        let address = format!("{}:{}", address(), free_port());
        let config = folder.join("prometheus.yaml");
        let scrape = format!(
            "global: {{scrape_interval: 250ms}}\nscrape_configs: [{{job_name: self, static_configs: [{{targets: ['{address}'], \
             labels: {{namespace: {namespace}}}}}]}}]\n"
        );
        std::fs::write(&config, scrape).expect("a configuration");
        let program = std::env::var("ASSAY_PROMETHEUS").expect("ASSAY_PROMETHEUS is the path of Prometheus");
        let log = std::fs::File::create(folder.join("prometheus.log")).expect("a log");
        let process = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("ASSAY_PROMETHEUS can be started");
        Self { process, url: format!("http://{address}") }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes of the operator's account, by verb and resource, and those that keep it leader.
fn writes(namespace: &str) -> (BTreeMap<String, usize>, u64) {
    let account = format!("system:serviceaccount:{namespace}:assay");
    let (mut writes, mut renewals) = (BTreeMap::new(), 0);
    let log = std::fs::read_to_string(audit_log()).expect("the cluster keeps an audit log");
    for line in log.lines().filter(|line| line.contains(&account)) {
        let entry: Value = serde_json::from_str(line).expect("a line is JSON");
        // This test itself asks in the operator's name what it may do.
        let is_ours = entry["objectRef"]["resource"] == "selfsubjectrulesreviews";
        if is_ours || entry["stage"] != "ResponseComplete" {
            continue;
        }
        if entry["objectRef"]["name"] == "assay-operator" {
            renewals += 1;
        } else {
            let (what, part) = (&entry["objectRef"]["resource"], &entry["objectRef"]["subresource"]);
            let kind = [what, part].iter().filter_map(|word| word.as_str()).collect::<Vec<_>>().join("/");
            *writes.entry(format!("{} {kind}", entry["verb"].as_str().unwrap_or_default())).or_default() += 1;
        }
    }
    (writes, renewals)
}

fn is_finished(status: &TuningExperimentStatus) -> bool {
    condition(status, names::FINISHED).is_some_and(|found| found.status == "True")
}

/// All attempts that have ended, as they are told.
async fn ended(lab: &Lab, experiment: &str) -> Vec<String> {
    let trials = lab.trials(experiment).await.into_iter();
    let attempts = trials.flat_map(|trial| {
        let attempts = trial.status.unwrap_or_default().attempts.into_iter();
        let name = trial.metadata.name.unwrap_or_default();
        attempts.map(move |attempt| format!("{name} {}", serde_json::to_string(&attempt).expect("JSON")))
    });
    attempts.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_on_a_real_node_is_decided() {
    let began = Instant::now();
    let lab = Lab::alone("real", 0).await;
    let prometheus = Prometheus::start(&lab.folder, &lab.namespace);
    install(&lab, &prometheus.url).await;
    rights::are_least(&lab).await;
    pretenders::are_refused(&lab).await;
    let yaml = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/operator/quick.yaml"))
        .expect("the experiment");
    let mut experiment: Value = serde_yaml::from_str(&yaml).expect("the experiment is YAML");
    experiment["spec"]["placement"]["nodeSelector"] = json!({"kubernetes.io/hostname": node()});
    let name = "quick".to_owned();
    lab.apply(experiment).await;
    lab.attempted(&name, 4).await;
    let before = ended(&lab, &name).await;
    upgrade(&lab).await;
    let under_way = !is_finished(&lab.status(&name).await);
    lab.check(under_way, "it is upgraded while the experiment runs").await;
    // The trial that ran meanwhile, one of the new operator's, and all before them.
    lab.attempted(&name, u32::try_from(before.len()).expect("few attempts") + 2).await;
    let after = ended(&lab, &name).await;
    let is_kept = before.iter().all(|attempt| after.contains(attempt));
    lab.check(is_kept, &format!("attempts are as they were: {before:?}, and now {after:?}")).await;
    let lost = after.iter().any(|attempt| attempt.contains(r#""Lost""#));
    lab.check(!lost, &format!("the upgrade costs no attempt: {after:?}")).await;
    // Others may take CPU time from this machine: on a shared one that costs precision, and the effect is large.
    lab.until("the experiment is finished", 900, async || is_finished(&lab.status(&name).await).then_some(())).await;
    let status = lab.status(&name).await;
    let reason = condition(&status, names::FINISHED).map(|found| found.reason.as_str());
    let verdict = status.verdicts.first().map(|found| found.verdict.as_str());
    lab.check((reason, verdict) == (Some("Decided"), Some("Reject")), &format!("{name}: {reason:?} {verdict:?}")).await;
    lab.follows_from_trials(&name).await;
    report_is_judged_alike(&lab, &name, 10).await;
    let mut by_agents = Vec::new();
    for trial in lab.trials(&name).await {
        for attempt in trial.status.into_iter().flat_map(|status| status.attempts) {
            let evidence = attempt.evidence.unwrap_or_default();
            let pod = attempt.pod.unwrap_or_default();
            lab.check(evidence.qos_class.as_deref() == Some("Guaranteed"), &format!("{pod} is Guaranteed")).await;
            let policy = evidence.cpu_manager_policy.as_deref();
            lab.check(policy == Some("static"), &format!("the kubelet's policy for {pod} is {policy:?}")).await;
            lab.check(evidence.volume.is_some(), &format!("{pod} had a volume")).await;
            // What only an agent with privileges can do and see; heat is counted by few machines.
            by_agents.push((evidence.page_cache, evidence.cpu_ids, evidence.device_interrupts));
            lab.check(attempt.record.is_some(), &format!("{pod} left its record")).await;
            let asked = evidence.metrics.contains_key("appended_samples");
            lab.check(asked || attempt.outcome != "Valid", &format!("Prometheus was asked for {pod}")).await;
        }
    }
    // On a busy machine it may be late for some: trials do not wait for it.
    let whole = by_agents.iter().any(|seen| matches!(seen, (Some(PageCacheState::Dropped), Some(_), Some(_))));
    lab.check(whole, &format!("its agent prepared and watched the node: {by_agents:?}")).await;
    let nodes = assay(&lab, &["nodes"]).await;
    let nodes = String::from_utf8_lossy(&nodes.stdout).into_owned();
    let row = nodes.lines().find(|line| line.starts_with(&node())).unwrap_or_default();
    lab.check(row.contains(" static ") && !row.contains("never"), &nodes).await;
    let attempts = status.progress.map_or(0, |progress| progress.attempts as usize);
    let (writes, renewals) = writes(&lab.namespace);
    let total: usize = writes.values().sum();
    println!("{total} writes for {attempts} trials: {writes:?}");
    // Some go by the clock, the more of them the slower the machine is: Leases of nodes are renewed once a minute.
    let seconds = began.elapsed().as_secs();
    let most = WRITES * attempts + WRITES_ONCE + seconds as usize / 60;
    lab.check(total <= most, &format!("{total} writes for {attempts} trials in {seconds} s: {writes:?}")).await;
    // And the leader renews its own, whether or not there are trials.
    lab.check(renewals <= seconds / 5, &format!("leaders wrote their Lease {renewals} times in {seconds} s")).await;
    lab.until("no volume is left", SOON, async || {
        lab.names::<PersistentVolumeClaim>("").await.is_empty().then_some(())
    })
    .await;
    uninstall(&lab).await;
    lab.close().await;
}

/// A record is a line that may be long. A container runtime writes it in pieces, each of which a kubelet counts as a line: the operator asks
/// for as many as there may be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_line_of_a_log_is_read_whole() {
    let lab = Lab::alone("line", 0).await;
    let pod = json!({
        "metadata": {"name": "long"},
        "spec": {
            "nodeName": node(),
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "bench",
                "image": "localhost/tools:1",
                // 1 MiB.
                "command": ["sh", "-c", "s=01234567; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do s=$s$s; done; echo $s"],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    let pods = lab.api::<Pod>();
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("it is made");
    lab.until("the pod has ended", SOON, async || {
        let phase = pods.get("long").await.ok()?.status?.phase?;
        (phase == "Succeeded").then_some(())
    })
    .await;
    for (lines, is_whole) in [(20, false), (2068, true)] {
        let params = LogParams { tail_lines: Some(lines), ..LogParams::default() };
        let log = pods.logs("long", &params).await.expect("its log");
        lab.check((log.len() > 1 << 20) == is_whole, &format!("{lines} lines have {} bytes", log.len())).await;
    }
    lab.close().await;
}
