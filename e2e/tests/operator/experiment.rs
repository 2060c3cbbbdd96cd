//! Experiments on fake nodes, and what is asked of them.

use assay_api::{Condition, PlanStatus, TuningExperiment, TuningExperimentStatus, TuningTrial, names};
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::validate::validate;
use assay_core::{cluster, status};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::lab::{LAB_LABEL, Lab, SOON};
use crate::machine::node;

/// How long a whole experiment may take, beside three others.
const LONG: u64 = 300;

/// The smallest experiment that can prove a gain: one config, one claim, five blocks, ten trials.
pub fn small(lab: &Lab, name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "seed": 7,
            "baseline": "base",
            "configs": [
                {"name": "base", "dbOptions": {"max_background_jobs": "2"}},
                {"name": "candidate", "dbOptions": {"max_background_jobs": "4"}},
            ],
            "scenarios": [{
                "name": "fill",
                "workload": {"keyValue": {
                    "keys": 10,
                    "valueBytes": {"fixed": 10},
                    "roles": [{"name": "writer", "steps": 100, "mix": {"put": 1}}],
                }},
            }],
            "repetitions": 5,
            "objectives": [{"metric": "throughput", "margin": "5%"}],
            "defaultGuardrails": "Remove",
            "placement": {
                "cpus": 1,
                "environment": "Dedicated",
                "memory": "64Mi",
                "nodeSelector": {LAB_LABEL: lab.namespace},
                "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            },
        },
    })
}

/// With trials on the real node.
pub fn on_the_real_node(spec: &mut Value) {
    spec["placement"]["nodeSelector"] = json!({"kubernetes.io/hostname": node()});
    spec["placement"]["memory"] = json!("256Mi");
    // Other programs of this machine are part of it.
    spec["placement"]["environment"] = json!("Shared");
}

/// Trials of an experiment like [`small`] with these blocks.
pub fn trials(blocks: usize) -> usize {
    2 * blocks
}

pub fn condition<'a>(status: &'a TuningExperimentStatus, kind: &str) -> Option<&'a Condition> {
    assay_api::condition::find(&status.conditions, kind)
}

impl Lab {
    pub async fn apply(&self, experiment: Value) -> TuningExperiment {
        self.put(Some(&self.namespace), experiment).await
    }

    pub async fn status(&self, experiment: &str) -> TuningExperimentStatus {
        let found = self.api::<TuningExperiment>().get_opt(experiment).await;
        found.ok().flatten().and_then(|experiment| experiment.status).unwrap_or_default()
    }

    /// Waits for a condition with this status and, where it is given, this reason.
    pub async fn condition(
        &self,
        experiment: &str,
        kind: &str,
        status: &str,
        reason: Option<&str>,
        seconds: u64,
    ) -> Condition {
        let what = format!("{experiment} has {kind}={status} {}", reason.unwrap_or_default());
        self.until(&what, seconds, async || {
            let now = self.status(experiment).await;
            let found = condition(&now, kind)?;
            (found.status == status && reason.is_none_or(|reason| found.reason == reason)).then(|| found.clone())
        })
        .await
    }

    /// Waits for the end and returns its status.
    pub async fn finished(&self, experiment: &str) -> TuningExperimentStatus {
        self.condition(experiment, names::FINISHED, "True", None, LONG).await;
        self.condition(experiment, names::READY, "True", None, SOON).await;
        self.status(experiment).await
    }

    /// As scripts wait for the end.
    pub async fn kubectl_wait(&self, experiment: &str) {
        let (name, timeout) = (format!("tune/{experiment}"), format!("--timeout={LONG}s"));
        let said = self.kubectl(&["wait", "--for=condition=Finished", &name, &timeout]).await;
        self.check(said.contains("condition met"), &said).await;
    }

    /// Waits for an event of this reason about an experiment, and returns what it says.
    pub async fn event(&self, experiment: &str, reason: &str) -> String {
        self.until(&format!("{reason} is an event of {experiment}"), SOON, async || {
            self.events(reason).await.into_iter().find_map(|event| {
                let about = event.regarding.and_then(|object| object.name);
                event.note.filter(|_| about.as_deref() == Some(experiment))
            })
        })
        .await
    }

    pub async fn events(&self, reason: &str) -> Vec<Event> {
        let params = ListParams::default().fields(&format!("reason={reason}"));
        self.api::<Event>().list(&params).await.expect("a list").items
    }

    /// Waits until this many attempts have ended, whatever came of them.
    pub async fn attempted(&self, experiment: &str, attempts: u32) {
        self.until(&format!("{experiment} has {attempts} attempts behind it"), LONG, async || {
            (self.status(experiment).await.progress?.attempts >= attempts).then_some(())
        })
        .await;
    }

    /// All trials of an experiment, by name.
    pub async fn trials(&self, experiment: &str) -> Vec<TuningTrial> {
        let selector = format!("{}={experiment}", names::EXPERIMENT_LABEL);
        let params = ListParams::default().labels(&selector);
        let mut found = self.api::<TuningTrial>().list(&params).await.expect("trials can be listed").items;
        found.sort_by_key(ResourceExt::name_any);
        found
    }

    /// How each attempt ended that did not count, such as `Lost Deleted`.
    pub async fn losses(&self, experiment: &str) -> Vec<String> {
        let trials = self.trials(experiment).await;
        let attempts = trials.iter().filter_map(|trial| trial.status.as_ref()).flat_map(|status| &status.attempts);
        let lost = attempts.filter(|attempt| attempt.outcome != "Valid");
        lost.map(|lost| format!("{} {}", lost.outcome, lost.reason.as_deref().unwrap_or_default())).collect()
    }

    /// The verdict of the only candidate, such as `Win`, after every trial was done once and counts.
    pub async fn decided(&self, experiment: &str, verdict: &str, blocks: usize) {
        let status = self.finished(experiment).await;
        let finished = condition(&status, names::FINISHED).map(|condition| condition.reason.clone());
        let found = (finished.as_deref(), status.verdicts.first().map(|found| found.verdict.as_str()));
        self.check(found == (Some("Decided"), Some(verdict)), &format!("{found:?} is not {verdict}")).await;
        let progress = status.progress.unwrap_or_default();
        let valid = progress.trials_valid as usize;
        self.check(valid == trials(blocks), &format!("{valid} trials count of {}", trials(blocks))).await;
        self.follows_from_trials(experiment).await;
    }

    /// The status is what anybody gets who judges the trials.
    pub async fn follows_from_trials(&self, experiment: &str) {
        let object = self.api::<TuningExperiment>().get(experiment).await.expect("the experiment is there");
        let valid = validate(experiment, &object.spec).experiment.expect("the spec is valid");
        let plan = Plan::new(valid).expect("the experiment has a plan");
        let attempts = cluster::attempts(&plan, &self.trials(experiment).await).expect("trials can be read");
        let mut report = judge(&plan, &attempts).expect("trials can be judged");
        let expected = status::of(&report).expect("a report is JSON");
        // Advice is written some time after the end.
        report.advise(1, &|_, _| ());
        let advised = status::of(&report).expect("a report is JSON");
        let found = object.status.unwrap_or_default();
        let planned = found.plan.as_ref().map(|plan: &PlanStatus| plan.digest.as_str());
        self.check(planned == Some(plan.digest.as_str()), "the status names another plan").await;
        let same = (found.verdicts == expected.verdicts || found.verdicts == advised.verdicts)
            && found.cells == expected.cells
            && found.progress == expected.progress
            && found.labels == expected.labels
            && found.report_digest == expected.report_digest;
        self.check(same, &format!("the trials give another status: {expected:?}")).await;
    }
}
