//! The whole of it once: the chart, real pods on a real node, a real Prometheus, an upgrade in the middle.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assay_api::{PageCacheState, TuningExperimentStatus, names};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};

use crate::chart::{helm, install, try_helm, upgrade};
use crate::command_line::report_is_judged_alike;
use crate::experiment::condition;
use crate::lab::Lab;
use crate::machine::audit_log;
use crate::operator::free_port;
use crate::rights;

/// Writes of the operator that a trial may cost, Leases of nodes and status included.
const WRITES: usize = 10;
/// How often an experiment is begun while the machine is busy with something else.
const TRIES: usize = 3;

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
        // The leader renews its own Lease by the clock, whether or not there are trials.
        let is_office = entry["objectRef"]["name"] == "assay-operator";
        if entry["stage"] == "ResponseComplete" && !is_office {
            let (what, part) = (&entry["objectRef"]["resource"], &entry["objectRef"]["subresource"]);
            let kind = [what, part].iter().filter_map(|word| word.as_str()).collect::<Vec<_>>().join("/");
            *writes.entry(format!("{} {kind}", entry["verb"].as_str().unwrap_or_default())).or_default() += 1;
        }
    }
    writes
}

/// Whether others took CPU time from an experiment's trials: on a machine that is not ours alone another try may be luckier.
async fn was_disturbed(lab: &Lab, experiment: &str) -> bool {
    let losses = lab.losses(experiment).await;
    losses.iter().filter(|loss| ["Invalid Steal", "Invalid ForeignCpu"].contains(&loss.as_str())).count() >= 3
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
    let mut experiment: Value = serde_yaml::from_str(&yaml).expect("the experiment is YAML");
    let (mut attempts, mut tries) = (0, TRIES);
    let name = loop {
        let name = format!("quick-{tries}");
        experiment["metadata"]["name"] = json!(name);
        lab.apply(experiment.clone()).await;
        if tries == TRIES {
            lab.until("two blocks are done", 600, async || {
                (lab.status(&name).await.progress?.blocks_done >= 2).then_some(())
            })
            .await;
            upgrade(&lab).await;
        }
        let upgraded = lab.status(&name).await;
        lab.condition(&name, names::FINISHED, "True", None, 900).await;
        let status = lab.status(&name).await;
        let reason = condition(&status, names::FINISHED).map(|found| found.reason.as_str());
        let verdict = status.verdicts.first().map(|found| found.verdict.as_str());
        attempts += status.progress.as_ref().map_or(0, |progress| progress.attempts as usize);
        if (reason, verdict) == (Some("Decided"), Some("Reject")) {
            let is_under_way = tries < TRIES || !is_finished(&upgraded);
            lab.check(is_under_way, "it is upgraded while the experiment runs").await;
            break name;
        }
        tries -= 1;
        lab.check(tries > 0 && was_disturbed(&lab, &name).await, &format!("{name}: {reason:?} {verdict:?}")).await;
    };
    lab.follows_from_trials(&name).await;
    report_is_judged_alike(&lab, &name, 10).await;

    for trial in lab.trials(&name).await {
        for attempt in trial.status.into_iter().flat_map(|status| status.attempts) {
            let evidence = attempt.evidence.unwrap_or_default();
            let pod = attempt.pod.unwrap_or_default();
            lab.check(evidence.qos_class.as_deref() == Some("Guaranteed"), &format!("{pod} is Guaranteed")).await;
            let policy = evidence.cpu_manager_policy.as_deref();
            lab.check(policy == Some("static"), &format!("the kubelet's policy for {pod} is {policy:?}")).await;
            lab.check(evidence.volume.is_some(), &format!("{pod} had a volume")).await;
            // What only an agent with privileges can do and see; heat is counted by few machines.
            let page_cache = evidence.page_cache;
            lab.check(page_cache == Some(PageCacheState::Dropped), &format!("{pod} began with {page_cache:?}")).await;
            let cpus = (evidence.cpu_ids.as_deref(), evidence.device_interrupts);
            lab.check(matches!(cpus, (Some(_), Some(_))), &format!("{pod} had {cpus:?}")).await;
            lab.check(attempt.record.is_some(), &format!("{pod} left its record")).await;
            let asked = evidence.metrics.contains_key("appended_samples");
            lab.check(asked || attempt.outcome != "Valid", &format!("Prometheus was asked for {pod}")).await;
        }
    }
    let claims = lab.names::<PersistentVolumeClaim>("").await;
    lab.check(claims.is_empty(), &format!("volumes are left: {claims:?}")).await;
    let writes = writes(&lab.namespace);
    let total: usize = writes.values().sum();
    println!("{total} writes for {attempts} trials: {writes:?}");
    lab.check(total <= WRITES * attempts, &format!("{total} writes for {attempts} trials: {writes:?}")).await;

    for tries in (0..TRIES).rev() {
        let (succeeded, said) = try_helm(&lab, &["test", "assay", "--timeout", "15m", "--logs"]).await;
        if succeeded {
            lab.check(said.contains("Win"), &format!("helm test: {said}")).await;
            break;
        }
        lab.check(tries > 0 && was_disturbed(&lab, "assay-test").await, &format!("helm test: {said}")).await;
    }
    helm(&lab, &["uninstall", "assay", "--wait"]).await;
    let left = lab.kubectl(&["get", "clusterroles,clusterrolebindings", "--output", "name"]).await;
    lab.check(!left.contains(&lab.namespace), &format!("rights are left: {left}")).await;
    lab.close().await;
}
