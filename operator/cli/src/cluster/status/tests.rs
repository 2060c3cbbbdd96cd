use serde_json::{Value, json};

use super::super::words::unix_ms as at;
use super::*;

fn experiment(name: &str, status: &Value, suspend: bool) -> TuningExperiment {
    serde_json::from_value(json!({
        "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment",
        "metadata": {"name": name, "namespace": "perf", "generation": 1, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"baseline": "old", "configs": [], "scenarios": [], "repetitions": 4, "objectives": [], "suspend": suspend},
        "status": status,
    }))
    .unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:09:05Z"})
}

fn running() -> Value {
    json!({
        "observedGeneration": 1,
        "conditions": [
            condition("Accepted", "True", "OptionsChecked", "all options exist"),
            condition("Progressing", "False", "WaitingForNode", "2 nodes fit, both are held by perf/other"),
        ],
        "plan": {"digest": "0123", "seed": 7, "blocks": 4, "trials": 16, "producedBy": "assay 0.1.0"},
        "verdict": "Inconclusive", "trials": "5/16",
        "progress": {"blocksDone": 1, "trialsPlanned": 16, "trialsValid": 5, "trialsFreed": 0, "attempts": 7,
            "attemptsInvalid": 1, "attemptsFailed": 0, "attemptsLost": 1, "estimatedCompletionTime": "2026-01-02T03:34:05Z"},
        "verdicts": [{"config": "new", "verdict": "Inconclusive", "reason": "Incomplete", "sentence": "new is not judged yet.",
            "recommendation": "finish the planned runs", "estimates": [],
            "notJudged": ["step_latency_p99 is 53 times worse"]}],
        "labels": [{"label": "NotIsolated", "text": "Nothing reserved the CPUs."}],
        "findings": [{"code": "NothingValid", "message": "none was valid", "whatToDo": "Look at the node."}],
    })
}

fn trial() -> TuningTrial {
    serde_json::from_value(json!({
        "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial",
        "metadata": {"name": "quick-fill-new-b1-r0-12345678", "creationTimestamp": "2026-01-02T03:10:05Z"},
        "spec": {"experiment": "quick", "plan": "0123", "scenario": "fill", "block": 1, "config": "new", "replicate": 0,
                 "order": 1, "seed": 1, "node": "n1"},
        "status": {"attempts": [{"attempt": 0, "outcome": "Lost"}], "refusals": 0},
    }))
    .unwrap()
}

fn now() -> u64 {
    at(&serde_json::from_value("2026-01-02T03:14:05Z".into()).unwrap())
}

#[test]
fn a_list_says_what_each_waits_for() {
    let end = json!({"observedGeneration": 1, "verdict": "Win", "trials": "16/16",
        "conditions": [condition("Finished", "True", "Decided", "")]});
    let all = [
        experiment("quick", &running(), false),
        experiment("paused", &running(), true),
        experiment("fresh", &Value::Null, false),
        experiment("done", &end, false),
    ];
    let expected = "\
name    verdict       trials  invalid  finished  age  waiting
quick   Inconclusive  5/16    1                  10m  WaitingForNode: 2 nodes fit, both are held by perf/other
paused  Inconclusive  5/16    1                  10m  run `assay resume paused`
fresh                                            10m  the operator has not seen it yet
done    Win           16/16            Decided   10m
";
    assert_eq!(list(&all, false, now()), expected);
    assert!(list(&all, true, now()).starts_with("namespace  name    verdict"));
}

#[test]
fn the_detail_says_everything() {
    let expected = "\
quick in namespace perf, 10m old: Inconclusive
Waiting: WaitingForNode: 2 nodes fit, both are held by perf/other.
5 of 16 trials valid, 0 not needed, 1 of 4 blocks done; 7 attempts: 1 invalid, 0 failed, 1 lost
20 min left
plan 0123, seed 7, made by assay 0.1.0

Conditions
  Accepted     True   OptionsChecked  5m  all options exist
  Progressing  False  WaitingForNode  5m  2 nodes fit, both are held by perf/other

Running trials
  fill block 2 new try 2  n1  4m  quick-fill-new-b1-r0-12345678

Verdicts
  new: Inconclusive (Incomplete)
    new is not judged yet. Next: finish the planned runs.
    Not judged: step_latency_p99 is 53 times worse.

Findings
  NothingValid: none was valid. Look at the node.

Labels
  NotIsolated: Nothing reserved the CPUs.

For the full report with plots: `assay report quick`.
";
    assert_eq!(detail(&experiment("quick", &running(), false), &[trial()], now()), expected);
    let fresh = detail(&experiment("fresh", &Value::Null, false), &[], now());
    let expected = "\
fresh in namespace perf, 10m old: no verdict yet
Waiting: the operator has not seen it yet.
";
    assert_eq!(fresh, expected);
}
