//! Experiments in the shape of the published ones: of specs, and of records of real trials under other options.

use assay_core::experiment::Experiment;
use assay_core::gates::{Code, Label};
use assay_core::report::Report;
use assay_core::validate::validate_document;
use assay_protocol::Summary;
use serde_json::{Value, json};

use crate::lab::Lab;

/// The experiment that the records are of, with a baseline `roomy` and a config `cramped`.
const RECORDED: &str = include_str!("../data/records/experiment.json");

/// Records of this change, each run with its declared options in effect.
pub fn lab(baseline: &Value, changed: &Value) -> Lab {
    let mut document: Value = serde_json::from_str(RECORDED).unwrap();
    for (config, options) in [baseline, changed].into_iter().enumerate() {
        document["spec"]["configs"][config]["columnFamilies"] = json!([{"match": ["*"], "options": options}]);
    }
    Lab::of(experiment(&document))
}

pub fn experiment(document: &Value) -> Experiment {
    let validation = validate_document(document);
    validation.experiment.unwrap_or_else(|| panic!("{:?}", validation.problems))
}

/// A baseline and one config on one scenario; the rest is whatever makes it a sound experiment.
pub fn document(workload: &Value, baseline: &Value, changed: &Value) -> Value {
    let config = |name: &str, config: &Value| {
        let mut config = config.clone();
        config["name"] = json!(name);
        config
    };
    json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        "metadata": {"name": "published"},
        "spec": {
            "seed": 1,
            "baseline": "base",
            "configs": [config("base", baseline), config("changed", changed)],
            "scenarios": [{"name": "s", "workload": workload}],
            "repetitions": 12,
            "objectives": [{"metric": "throughput", "margin": "2%"}],
        },
    })
}

pub fn messages(document: &Value) -> Vec<String> {
    validate_document(document).problems.iter().map(ToString::to_string).collect()
}

pub fn ethrex() -> Value {
    json!({"ethrex": {"blocks": 2000, "accounts": 100_000, "storageSlots": 400_000}})
}

pub fn blockstore() -> Value {
    json!({"blockstore": {"slots": 4096, "retainedSlots": 2048}})
}

/// Everything that was found, by name.
pub fn found(lab: &Lab) -> Vec<Code> {
    lab.found().into_iter().collect()
}

pub fn notes(report: &Report) -> Vec<&str> {
    report.notes.iter().map(|note| note.text.as_str()).collect()
}

pub fn labels(report: &Report) -> Vec<Label> {
    report.labels.iter().map(|label| label.label).collect()
}

pub fn verdict(lab: &Lab) -> String {
    let ruling = &lab.report().configs[0].ruling;
    format!("{:?} {}", ruling.verdict, ruling.reason)
}

/// All runs are those of the baseline, and the config is so many times as fast: in all of its numbers.
pub fn faster(lab: &mut Lab, factor: f64) {
    let baseline = lab.attempts.iter().find_map(|attempt| match attempt {
        assay_core::attempt::Attempt::Finished(summary) if summary.trial.config == "roomy" => Some((**summary).clone()),
        _ => None,
    });
    let baseline = baseline.unwrap();
    lab.all(Some("cramped"), |summary| {
        summary.metrics = baseline.metrics.clone();
        summary.primary = baseline.primary.clone();
        summary.window_seconds = baseline.window_seconds / factor;
        scale(summary, factor, 1.0 / factor);
    });
}

/// Rates and latencies, each times a factor of its own.
pub fn scale(summary: &mut Summary, rates: f64, latencies: f64) {
    for (name, value) in &mut summary.metrics {
        if name.ends_with("throughput") {
            *value *= rates;
        } else if name.starts_with("step_latency") {
            *value *= latencies;
        }
    }
}

/// The primary role of all runs spends these percentages of its time in RocksDB, and in making what it writes.
pub fn spending(lab: &mut Lab, db: f64, generator: f64) {
    lab.all(None, |summary| {
        let rate = summary.metrics["throughput"];
        summary.metrics.insert("step_latency_mean".to_owned(), db * 1e4 / rate);
        let time = &mut summary.primary;
        (time.db_percent, time.generator_percent, time.run_queue_percent) = (db, generator, Some(0.0));
    });
}
