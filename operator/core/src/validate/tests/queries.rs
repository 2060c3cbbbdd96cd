use assay_protocol::Digest;
use serde_json::{Value, json};

use super::{document, experiment, messages, with};
use crate::plan::Plan;
use crate::stats::{Direction, Scale};
use crate::verdict::{MetricRule, Purpose};

const QUERY: &str = "sum(increase(node_disk_read_bytes_total{instance=\"$node\"}[$window]))";

/// An experiment that asks for a metric, and guards it.
fn asking() -> Value {
    let mut document = with("/spec/guardrails/1", json!({"metric": "node_reads"}));
    document["spec"]["metrics"] = json!([{"name": "node_reads", "query": QUERY, "better": "Lower"}]);
    document
}

/// What is different in a spec.
type Change<'a> = &'a dyn Fn(&mut Value);

fn asking_with(change: impl Fn(&mut Value)) -> Vec<String> {
    let mut document = asking();
    change(&mut document["spec"]);
    messages(&document)
}

#[test]
fn a_query_is_judged_and_not_measured_by_the_bench() {
    assert_eq!(messages(&asking()), Vec::<String>::new());
    let experiment = experiment(&asking());
    assert_eq!((experiment.queries.len(), experiment.queries[0].query.as_str()), (1, QUERY));
    let rule = experiment.metrics.iter().find(|rule| rule.name == "node_reads");
    let expected = MetricRule::new("node_reads", Direction::Lower, Purpose::Guardrail, 0.05, Scale::Log);
    assert_eq!(rule, Some(&expected));
    let plan = Plan::new(experiment).expect("a plan");
    let spec = plan.trial_spec(&plan.blocks[0], 0, 0).expect("a spec");
    assert_eq!(spec.metrics, ["throughput", "step_latency_p99", "drained_throughput"]);
}

#[test]
fn a_query_can_be_an_objective() {
    let objective = asking_with(|spec| {
        spec["objectives"] = json!([{"metric": "node_reads", "margin": "3%"}]);
        spec["guardrails"] = json!([]);
        spec["metrics"][0]["better"] = json!("Higher");
    });
    assert_eq!(objective, Vec::<String>::new());
}

#[test]
fn each_mistake_in_a_query_is_named() {
    let metric = |spec: &mut Value, field: &str, value: &str| spec["metrics"][0][field] = json!(value);
    let no_window = "spec.metrics[0].query: must be a query with the range [$window], the measured window, not";
    let table: [(Change<'_>, String); 7] = [
        (&|spec| metric(spec, "query", "rate(a[5m])"), format!("{no_window} \"rate(a[5m])\"")),
        (
            &|spec| metric(spec, "query", "rate(a[$window]) + rate(b[5m])"),
            "spec.metrics[0].query: [5m] is not the measured window; write [$window]".to_owned(),
        ),
        (
            &|spec| spec["guardrails"][1]["metric"] = json!("node_read"),
            "spec.guardrails[1].metric: unknown metric \"node_read\"; did you mean node_reads?\n\
             spec.metrics[0]: node_reads is neither an objective nor a guardrail; make it one, or remove it"
                .to_owned(),
        ),
        (
            &|spec| {
                metric(spec, "name", "throughput");
                spec["guardrails"] = json!([]);
            },
            "spec.metrics[0].name: throughput is a bench metric; choose another name".to_owned(),
        ),
        (
            &|spec| spec["objectives"][0]["metric"] = json!("node_reads"),
            "spec.guardrails[1].metric: node_reads is already an objective, and objectives are guarded too; remove it here"
                .to_owned(),
        ),
        (
            &|spec| spec["guardrails"][1]["margin"] = json!("0%"),
            "spec.guardrails[1].margin: must be above 0 % and below 100 %, such as 2%, not \"0%\"".to_owned(),
        ),
        (
            &|spec| metric(spec, "name", "Node"),
            "spec.guardrails[1].metric: unknown metric \"node_reads\"".to_owned(),
        ),
    ];
    for (change, message) in table {
        let found = asking_with(change).join("\n");
        assert!(found.contains(&message), "{found}");
    }
}

#[test]
fn what_may_change_is_no_part_of_the_plan() {
    let digest = |document: &Value| -> Digest { Plan::new(experiment(document)).expect("a plan").digest };
    let whole = digest(&document());
    for (field, value) in [
        ("suspend", json!(true)),
        ("suspend", json!(false)),
        ("ttlSecondsAfterFinished", json!(60)),
        ("failedPodRetentionSeconds", json!(60)),
    ] {
        assert_eq!(digest(&with(&format!("/spec/{field}"), value)), whole, "{field}");
    }
    assert_ne!(digest(&asking()), whole);
    // Plans of experiments without queries say nothing about them.
    let plan = serde_json::to_value(experiment(&document())).expect("JSON");
    assert!(plan.get("queries").is_none());
}
