//! The whole of it once: real pods on a real node, the operator as a Deployment of two, a real Prometheus.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use assay_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::Value;

use crate::command_line::report_is_judged_alike;
use crate::experiment::condition;
use crate::lab::{Lab, SOON};
use crate::machine::audit_log;
use crate::operator::free_port;

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

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("operator").join(name)
}

async fn install(lab: &Lab, prometheus: &str) {
    let version = std::env::var("ASSAY_VERSION").expect("ASSAY_VERSION");
    let manifest = std::fs::read_to_string(file("operator.yaml")).expect("the operator's manifest");
    let filled = [("@namespace@", lab.namespace.as_str()), ("@version@", &version), ("@prometheus@", prometheus)];
    let manifest = filled.iter().fold(manifest, |text, (word, value)| text.replace(word, value));
    let path = lab.folder.join("operator.yaml");
    std::fs::write(&path, manifest).expect("a manifest");
    let said = lab.kubectl(&["apply", "--server-side", "--filename", &path.display().to_string()]).await;
    lab.until(&format!("both replicas are ready: {said}"), SOON, async || {
        let deployment = lab.api::<Deployment>().get_opt("assay-operator").await.ok()??;
        (deployment.status?.ready_replicas? == 2).then_some(())
    })
    .await;
}

/// Writes of the operator's account, by verb and resource.
fn writes(namespace: &str) -> BTreeMap<String, usize> {
    let account = format!("system:serviceaccount:{namespace}:assay-operator");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_on_a_real_node_is_decided() {
    let lab = Lab::alone("real", 0).await;
    let prometheus = Prometheus::start(&lab.folder);
    install(&lab, &prometheus.url).await;
    let yaml = std::fs::read_to_string(file("quick.yaml")).expect("the experiment");
    lab.apply(serde_yaml::from_str(&yaml).expect("the experiment is YAML")).await;
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

    let roles: Api<ClusterRole> = Api::all(lab.client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(lab.client.clone());
    roles.delete(&lab.namespace, &DeleteParams::default()).await.expect("the role can be deleted");
    bindings.delete(&lab.namespace, &DeleteParams::default()).await.expect("the binding can be deleted");
    lab.close().await;
}
