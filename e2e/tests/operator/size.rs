//! The largest status there can be fits into an object.

use assay_api::{Condition, Time, TuningExperiment, names};
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::report::{NotJudged, Ruling};
use assay_core::status;
use assay_core::validate::validate;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::experiment::small;
use crate::lab::Lab;

/// What Kubernetes' own storage takes is half as much again.
const MOST_BYTES: usize = 1024 * 1024;

/// Nine metrics with long names, the objective first.
const METRICS: [&str; 9] = [
    "drained_throughput",
    "throughput",
    "operation_throughput",
    "step_latency_mean",
    "step_latency_p50",
    "step_latency_p90",
    "write_amplification",
    "space_amplification",
    "cpu_seconds_per_step",
];

fn long(what: &str, number: usize) -> String {
    format!("{what}{number:02}{}", "x".repeat(63 - what.len() - 2))
}

/// 64 configs and their baseline in 32 scenarios with 9 metrics, and every name as long as it may be.
fn largest(lab: &Lab) -> Value {
    let mut experiment = small(lab, &long("e", 0));
    let spec = &mut experiment["spec"];
    let config = |number| json!({"name": long("c", number), "dbOptions": {"max_background_jobs": number + 1}});
    spec["configs"] = (0..65).map(config).collect();
    spec["baseline"] = json!(long("c", 0));
    let mut workload = spec["scenarios"][0]["workload"].take();
    workload["keyValue"]["roles"][0]["steps"] = json!(100_000);
    spec["scenarios"] = (0..32).map(|number| json!({"name": long("s", number), "workload": workload})).collect();
    spec["repetitions"] = json!(20);
    spec["objectives"] = json!([{"metric": METRICS[0]}]);
    spec["guardrails"] = METRICS[1..].iter().map(|metric| json!({"metric": metric})).collect();
    experiment
}

/// The reason that names most, and a sentence that is cut off where the status cuts it.
fn fill(ruling: &mut Ruling) {
    ruling.reason = format!("GuardrailUnresolved:{}", METRICS.join(","));
    ruling.sentence = "s".repeat(2000);
    ruling.recommendation = "r".repeat(200);
    for estimate in &mut ruling.estimates {
        (estimate.estimate, estimate.blocks) = (Some(-5.123), 20);
        let interval = json!({"low": -6.123, "high": 6.123});
        estimate.interval95 = Some(serde_json::from_value(interval).expect("an interval"));
        estimate.status = Some(serde_json::from_value(json!("Unresolved")).expect("a status"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_status_fits_into_an_object() {
    let lab = Lab::with_nodes("size", 0).await;
    let made = lab.apply(largest(&lab)).await;
    let name = made.metadata.name.clone().expect("a name");
    let valid = validate(&name, &made.spec);
    let plan = Plan::new(valid.experiment.unwrap_or_else(|| panic!("{:?}", valid.problems))).expect("a plan");
    let mut report = judge(&plan, &[]).expect("nothing can be judged");
    report.configs.iter_mut().map(|config| &mut config.ruling).for_each(fill);
    report.cells.iter_mut().map(|cell| &mut cell.ruling).for_each(fill);
    let moved = report.cells.iter().map(|cell| NotJudged {
        scenario: cell.scenario.clone(),
        config: cell.config.clone(),
        metric: "compaction_write_bytes".to_owned(),
        blocks: 20,
        better: false,
        factor: Some(5000.0),
        baseline_median: 1.0,
        config_median: 5000.0,
        from_records: false,
    });
    report.not_judged = moved.collect();
    let mut status = status::of(&report).expect("a report is JSON");
    let time: Time = serde_json::from_value(json!("2026-01-02T03:04:05Z")).expect("a time");
    status.conditions =
        [names::ACCEPTED, names::PROGRESSING, names::SUSPENDED, names::FINISHED, names::READY, names::STALLED]
            .map(|kind| Condition {
                type_: kind.to_owned(),
                status: "False".to_owned(),
                reason: "WaitingForNode".to_owned(),
                message: "m".repeat(1024),
                observed_generation: Some(1),
                last_transition_time: time.clone(),
            })
            .to_vec();
    let object = json!({
        "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "metadata": {"name": name}, "status": status,
    });
    let params = PatchParams::apply(names::MANAGER).force();
    let written = lab.api::<TuningExperiment>().patch_status(&name, &params, &Patch::Apply(&object)).await;
    lab.check(written.is_ok(), &format!("the API server takes it: {:?}", written.err())).await;
    let path = format!("/apis/assay.rocks/v1alpha1/namespaces/{}/tuningexperiments/{name}", lab.namespace);
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    let text = lab.client.request_text(request).await.expect("the object can be read");
    let (bytes, cells) = (text.len(), status.cells.len());
    assert_eq!((status.verdicts.len(), cells), (64, 2048));
    assert!(bytes < MOST_BYTES, "{bytes} bytes with managedFields are too many");
    lab.close().await;
}
