//! The whole of it once: the chart, real pods on a real node, a real Prometheus, an upgrade in the middle.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assay_api::{TuningExperimentStatus, names};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::Value;

use crate::chart::{helm, install, upgrade};
use crate::command_line::report_is_judged_alike;
use crate::experiment::condition;
use crate::lab::Lab;
use crate::machine::audit_log;
use crate::operator::free_port;
use crate::rights;

/// Writes of the operator that a trial may cost, leases and status included.
const WRITES: usize = 10;

/// A Prometheus that scrapes itself four times a second: windows here are short.
struct Prometheus {
    process: Child,
    url: String,
}

impl Prometheus {
    fn start(folder: &Path) -> Self {
        // Where the cluster reaches this machine.
        let address = format!("10.231.0.1:{}", free_port());
        let config = folder.join("prometheus.yaml");
        let scrape = format!(
            "global: {{scrape_interval: 250ms}}\nscrape_configs: [{{job_name: self, static_configs: [{{targets: ['{address}']}}]}}]\n"
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

/// Writes of the operator's account, by verb and resource.
fn writes(namespace: &str) -> BTreeMap<String, usize> {
    let account = format!("system:serviceaccount:{namespace}:assay");
    let mut writes = BTreeMap::new();
    let log = std::fs::read_to_string(audit_log()).expect("the cluster keeps an audit log");
    for line in log.lines().filter(|line| line.contains(&account)) {
        let entry: Value = serde_json::from_str(line).expect("a line is JSON");
        if entry["stage"] == "ResponseComplete" {
            let (what, part) = (&entry["objectRef"]["resource"], &entry["objectRef"]["subresource"]);
            let kind = [what, part].iter().filter_map(|word| word.as_str()).collect::<Vec<_>>().join("/");
            *writes.entry(format!("{} {kind}", entry["verb"].as_str().unwrap_or_default())).or_default() += 1;
        }
    }
    writes
}

fn is_finished(status: &TuningExperimentStatus) -> bool {
    condition(status, names::FINISHED).is_some_and(|found| found.status == "True")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_on_a_real_node_is_decided() {
    let lab = Lab::alone("real", 0).await;
    let prometheus = Prometheus::start(&lab.folder);
    install(&lab, &prometheus.url).await;
    rights::are_least(&lab).await;
    let yaml =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/operator/quick.yaml")).expect("the experiment");
    lab.apply(serde_yaml::from_str(&yaml).expect("the experiment is YAML")).await;
    lab.until("two blocks are done", 300, async || {
        (lab.status("quick").await.progress?.blocks_done >= 2).then_some(())
    })
    .await;
    upgrade(&lab).await;
    lab.check(!is_finished(&lab.status("quick").await), "it is upgraded while the experiment runs").await;
    lab.condition("quick", names::FINISHED, "True", None, 900).await;
    let status = lab.status("quick").await;
    let reason = condition(&status, names::FINISHED).map(|found| found.reason.as_str());
    let verdict = status.verdicts.first().map(|found| found.verdict.as_str());
    lab.check((reason, verdict) == (Some("Decided"), Some("Reject")), &format!("{reason:?} {verdict:?}")).await;
    lab.follows_from_trials("quick").await;
    report_is_judged_alike(&lab, "quick", 10).await;

    for trial in lab.trials("quick").await {
        for attempt in trial.status.into_iter().flat_map(|status| status.attempts) {
            let evidence = attempt.evidence.unwrap_or_default();
            let pod = attempt.pod.unwrap_or_default();
            lab.check(evidence.qos_class.as_deref() == Some("Guaranteed"), &format!("{pod} is Guaranteed")).await;
            let policy = evidence.cpu_manager_policy.as_deref();
            lab.check(policy == Some("static"), &format!("the kubelet's policy for {pod} is {policy:?}")).await;
            lab.check(evidence.volume.is_some(), &format!("{pod} had a volume")).await;
            lab.check(attempt.record.is_some(), &format!("{pod} left its record")).await;
            let asked = evidence.metrics.contains_key("appended_samples");
            lab.check(asked || attempt.outcome != "Valid", &format!("Prometheus was asked for {pod}")).await;
        }
    }
    let claims = lab.names::<PersistentVolumeClaim>("").await;
    lab.check(claims.is_empty(), &format!("volumes are left: {claims:?}")).await;
    let writes = writes(&lab.namespace);
    let attempts = status.progress.unwrap_or_default().attempts as usize;
    let total: usize = writes.values().sum();
    println!("{total} writes for {attempts} trials: {writes:?}");
    lab.check(total <= WRITES * attempts, &format!("{total} writes for {attempts} trials: {writes:?}")).await;

    let said = helm(&lab, &["test", "assay", "--timeout", "10m", "--logs"]).await;
    lab.check(said.contains("Win"), &format!("helm test: {said}")).await;
    helm(&lab, &["uninstall", "assay", "--wait"]).await;
    let left = lab.kubectl(&["get", "clusterroles,clusterrolebindings", "--output", "name"]).await;
    lab.check(!left.contains(&lab.namespace), &format!("rights are left: {left}")).await;
    lab.close().await;
}
