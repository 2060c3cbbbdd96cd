//! A workload whose blocks and saves are steps of different roles.

use serde_json::{Value, json};

use super::{SCENARIO, experiment, messages, with};

/// 2000 blocks, which are 200 saves.
fn document(metric: &str, more: Value) -> Value {
    let mut history = json!({"blocks": 2000, "accounts": 10_000, "storageSlots": 20_000});
    if let (Some(history), Value::Object(more)) = (history.as_object_mut(), more) {
        history.extend(more);
    }
    let mut document = with(&format!("{SCENARIO}/workload"), json!({"rethHistory": history}));
    document["spec"]["configs"][1] = json!({"name": "small", "dbOptions": {"max_background_jobs": 4}});
    document["spec"]["objectives"] = json!([{"metric": metric}]);
    document["spec"]["guardrails"] = json!([]);
    document
}

#[test]
fn a_quantile_counts_the_steps_of_its_role() {
    for sound in ["gas_throughput", "save_latency_mean", "save_latency_p50", "step_latency_p95"] {
        assert_eq!(messages(&document(sound, json!({}))), Vec::<String>::new(), "{sound}");
    }
    assert_eq!(
        messages(&document("save_latency_p90", json!({}))),
        [
            "spec.objectives[0].metric: save_latency_p90 needs at least 1000 steps (100 of them beyond it), but role \"saves\" of \
             scenario \"writes\" has 200: raise spec.scenarios[0].workload.rethHistory.blocks (10 per save), or judge a lower \
             quantile"
        ]
    );
    assert_eq!(messages(&document("save_latency_p90", json!({"blocksPerSave": 2}))), Vec::<String>::new());
    assert_eq!(
        messages(&document("step_latency_p99", json!({}))),
        [
            "spec.objectives[0].metric: step_latency_p99 needs at least 10000 steps (100 of them beyond it), but role \"execution\" of \
             scenario \"writes\" has 2000: raise spec.scenarios[0].workload.rethHistory.blocks, or judge a lower quantile"
        ]
    );
}

#[test]
fn a_metric_that_the_workload_lacks_is_refused_with_those_it_has() {
    let found = messages(&document("shred_throughput", json!({})));
    let [message] = &found[..] else { panic!("{found:?}") };
    let start = "spec.objectives[0].metric: the rethHistory workload of scenario \"writes\" has no shred_throughput; all scenarios \
                 have throughput, drained_throughput, operation_throughput, gas_throughput, step_latency_mean,";
    assert!(message.starts_with(start) && message.contains("save_latency_p99"), "{message}");

    for foreign in ["gas_throughput", "shred_throughput", "save_latency_mean", "save_latency_p50"] {
        let found = messages(&with("/spec/objectives/0", json!({"metric": foreign})));
        let [message] = &found[..] else { panic!("{found:?}") };
        assert!(
            message.contains(&format!("the keyValue workload of scenario \"writes\" has no {foreign}")),
            "{message}"
        );
        assert_eq!(message.matches("gas_throughput").count(), usize::from(foreign == "gas_throughput"), "{message}");
    }
}

#[test]
fn what_cannot_be_saved_is_refused() {
    for (fields, says) in [
        (json!({"blocks": 2005}), "blocks: 2005 is not a multiple of blocksPerSave (10); use 2000 or 2010"),
        (json!({"warmupBlocks": 5}), "warmupBlocks: 5 is not a multiple of blocksPerSave (10); use 10"),
        (json!({"mgasPerBlock": 501}), "accounts: a block of 501 Mgas changes 10020: use at least 10020, or less gas"),
        (
            json!({"mgasPerBlock": 601, "accounts": 20_000}),
            "storageSlots: a block of 601 Mgas changes 20034: use at least",
        ),
        (
            json!({"blocksPerSave": 2000, "warmupBlocks": 2000}),
            "blocksPerSave: a save of 2000 blocks of 30 Mgas is too large for memory; the limit is 30000 Mgas per save",
        ),
    ] {
        let found = messages(&document("gas_throughput", fields));
        let path = "spec.scenarios[0].workload.rethHistory.";
        assert!(found.len() == 1 && found[0].starts_with(&format!("{path}{says}")), "{found:?} does not say {says}");
    }
    let sound = document("gas_throughput", json!({"blocks": 1000, "warmupBlocks": 1000, "blocksPerSave": 1000}));
    assert_eq!(experiment(&sound).scenarios[0].workload.kind().roles()[1].steps, 1);
}
