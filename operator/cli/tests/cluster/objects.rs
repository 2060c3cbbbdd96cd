//! What the operator would have made of a run that took place here.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use assay_api::{AttemptStatus, Time, TuningExperiment, TuningTrial, TuningTrialSpec, TuningTrialStatus, names};
use assay_core::attempt::{Attempt, Lost};
use assay_core::cluster::{attempts, pod_name, tell, trial_name};
use assay_core::decide::Places;
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::validate::validate_document;
use assay_protocol::{Summary, TrialId};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::lab::EXPERIMENT;
use crate::server::{NAMESPACE, Server};

pub struct Objects {
    pub experiment: TuningExperiment,
    pub trials: Vec<TuningTrial>,
    pub records: Vec<ConfigMap>,
}

impl Objects {
    /// Of a folder that `assay run` has left.
    pub fn of(dir: &Path) -> Self {
        let plan: Plan = serde_json::from_slice(&fs::read(dir.join("plan.json")).unwrap()).unwrap();
        let mut objects = Self { experiment: experiment(&plan), trials: Vec::new(), records: Vec::new() };
        let mut dirs: Vec<_> = fs::read_dir(dir.join("trials")).unwrap().map(|entry| entry.unwrap().path()).collect();
        dirs.sort();
        for dir in dirs {
            objects.add(&plan, &dir);
        }
        let all = attempts(&plan, &objects.trials).unwrap();
        let report = judge(&plan, &all).unwrap();
        let status = objects.experiment.status.take().unwrap();
        let mut told = assay_core::status::of(&report).unwrap();
        (told.plan, told.observed_generation) = (status.plan, status.observed_generation);
        told.conditions =
            serde_json::from_value(json!([condition("Finished", "True", "Decided", "all is decided")])).unwrap();
        objects.experiment.status = Some(told);
        let places = Places::new(&plan, &all).unwrap();
        for trial in &mut objects.trials {
            for status in trial.status.iter_mut().flat_map(|status| &mut status.attempts) {
                let id = assay_core::cluster::trial_id(&trial.spec, status.attempt);
                let index = all.iter().position(|attempt| *attempt.trial() == id).unwrap();
                tell(status, &all[index], &places.fate(index));
            }
        }
        objects
    }

    fn add(&mut self, plan: &Plan, dir: &Path) {
        let read = |name: &str| fs::read(dir.join(name)).ok();
        let attempt = match (read("summary.json"), read("lost.json")) {
            (Some(summary), _) => Attempt::Finished(Summary::from_json(&summary).unwrap().into()),
            (None, Some(lost)) => Attempt::from(serde_json::from_slice::<Lost>(&lost).unwrap()),
            (None, None) => unreachable!("{} has no attempt", dir.display()),
        };
        let id = attempt.trial().clone();
        let name = trial_name(&plan.experiment.name, &id);
        let record = read("record.json").map(|bytes| record(&name, id.attempt, &bytes));
        let (summary, started) = match &attempt {
            Attempt::Finished(summary) => (serde_json::to_string(&**summary).ok(), summary.started_unix_ms),
            Attempt::Lost(lost) => (None, lost.started_unix_ms),
        };
        let status = AttemptStatus {
            attempt: id.attempt,
            pod: Some(pod_name(&name, id.attempt)),
            node: Some("n1".to_owned()),
            start_time: time(started),
            completion_time: time(started + 60_000),
            outcome: "Lost".to_owned(),
            reason: match &attempt {
                Attempt::Lost(lost) => Some(format!("{:?}", lost.reason)),
                Attempt::Finished(_) => None,
            },
            message: match &attempt {
                Attempt::Lost(lost) => Some(lost.message.clone()),
                Attempt::Finished(_) => None,
            },
            findings: Vec::new(),
            summary,
            record: record.as_ref().map(ResourceExt::name_any),
            evidence: None,
            boot: match &attempt {
                Attempt::Lost(lost) => lost.boot.as_ref().map(ToString::to_string),
                Attempt::Finished(_) => None,
            },
        };
        self.records.extend(record);
        if self.trials.last().is_none_or(|last| last.name_any() != name) {
            self.trials.push(trial(plan, &name, &id));
        }
        self.trials.last_mut().unwrap().status.as_mut().unwrap().attempts.push(status);
    }

    /// Hands everything to a server.
    pub fn put(&self, server: &Server) {
        for record in &self.records {
            server.put(typed(record, "v1", "ConfigMap"));
        }
        for trial in &self.trials {
            server.put(serde_json::to_value(trial).unwrap());
        }
        server.put(serde_json::to_value(&self.experiment).unwrap());
    }
}

/// Objects of the library's own types don't say their kind.
pub fn typed(object: &ConfigMap, version: &str, kind: &str) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    (value["apiVersion"], value["kind"]) = (json!(version), json!(kind));
    value
}

pub fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z"})
}

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        uid: Some("one".to_owned()),
        generation: Some(1),
        creation_timestamp: time(1_767_323_045_000),
        labels: Some(BTreeMap::from([(names::EXPERIMENT_LABEL.to_owned(), "buffers".to_owned())])),
        ..ObjectMeta::default()
    }
}

fn experiment(plan: &Plan) -> TuningExperiment {
    let document: serde_yaml::Value = serde_yaml::from_str(EXPERIMENT).unwrap();
    let spec = validate_document(&serde_json::to_value(document).unwrap()).spec.unwrap();
    let mut experiment = TuningExperiment::new("buffers", spec);
    experiment.metadata = meta("buffers");
    let kept = json!({"digest": plan.digest, "seed": 7, "blocks": 6, "trials": 12, "producedBy": "assay 0.1.0"});
    experiment.status = serde_json::from_value(json!({"observedGeneration": 1, "plan": kept})).unwrap();
    experiment
}

fn trial(plan: &Plan, name: &str, id: &TrialId) -> TuningTrial {
    let spec = TuningTrialSpec {
        experiment: plan.experiment.name.clone(),
        plan: plan.digest.to_string(),
        scenario: id.scenario.clone(),
        block: id.block,
        config: id.config.clone(),
        replicate: id.replicate,
        order: id.order,
        seed: plan.block(&id.scenario, id.block).unwrap().seed,
        node: "n1".to_owned(),
    };
    let mut trial = TuningTrial::new(name, spec);
    trial.metadata = ObjectMeta { owner_references: Some(vec![owned_by("one")]), ..meta(name) };
    let conditions = serde_json::from_value(json!([condition("Finished", "True", "Valid", "")])).unwrap();
    trial.status = Some(TuningTrialStatus { conditions, ..TuningTrialStatus::default() });
    trial
}

/// By the experiment that has this uid.
pub fn owned_by(uid: &str) -> OwnerReference {
    OwnerReference {
        kind: "TuningExperiment".to_owned(),
        name: "buffers".to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

fn record(trial: &str, attempt: u32, bytes: &[u8]) -> ConfigMap {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    let packed = ByteString(packer.finish().unwrap());
    ConfigMap {
        metadata: meta(&pod_name(trial, attempt)),
        binary_data: Some(BTreeMap::from([(names::RECORD_KEY.to_owned(), packed)])),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

pub fn time(unix_ms: u64) -> Option<Time> {
    Timestamp::from_millisecond(unix_ms.cast_signed()).ok().map(Time)
}
