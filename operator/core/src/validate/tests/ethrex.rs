use serde_json::{Value, json};

use super::{SCENARIO, messages, with};

fn scenario(changes: &Value) -> Value {
    let mut ethrex = json!({"blocks": 100, "accounts": 100_000, "storageSlots": 500_000});
    for (key, value) in changes.as_object().into_iter().flatten() {
        ethrex[key] = value.clone();
    }
    let mut document =
        with(SCENARIO, json!({"name": "blocks", "deadlineSeconds": 100, "workload": {"ethrex": ethrex}}));
    document["spec"]["configs"][1]["columnFamilies"][0]["match"] = json!(["*_trie_nodes"]);
    document["spec"]["guardrails"] = json!([]);
    document
}

#[test]
fn a_window_that_writes_no_state_is_told_so() {
    for (changes, expected) in [
        (json!({}), None),
        (json!({"warmupBlocks": 128}), None),
        (json!({"warmupBlocks": 0, "commitDepth": 1}), Some("so only 99 of the 100 measured blocks write state")),
        (json!({"warmupBlocks": 127}), Some("so only 99 of the 100 measured blocks write state")),
        (json!({"warmupBlocks": 29}), Some("so only 1 of the 100 measured blocks write state")),
        // The seed's own shape: a hundred blocks over a depth of 128.
        (
            json!({"warmupBlocks": 28}),
            Some("28 warm-up and 100 measured blocks never exceed commitDepth 128, so no state"),
        ),
        (json!({"warmupBlocks": 10}), Some("the options of its column families go untested: use at least 128")),
    ] {
        let found = messages(&scenario(&changes));
        match expected {
            None => assert_eq!(found, Vec::<String>::new(), "{changes}"),
            Some(expected) => {
                let [message] = &found[..] else { panic!("{changes}: {found:?}") };
                assert!(message.starts_with("warning: spec.scenarios[0].workload.ethrex.warmupBlocks: "), "{message}");
                assert!(message.contains(expected), "{message} does not say {expected}");
            }
        }
    }
}

#[test]
fn sizes_and_paces_that_cannot_be_are_refused() {
    for (changes, expected) in [
        (
            json!({"mgasPerBlock": 9000}),
            "spec.scenarios[0].workload.ethrex.accounts: a block of 9000 Mgas changes 96000 of 100000: use at least 192000, or less gas",
        ),
        (
            json!({"mgasPerBlock": 12000, "accounts": 1_000_000}),
            "spec.scenarios[0].workload.ethrex.storageSlots: a block of 12000 Mgas changes 288000 of 500000: use at least 576000, or less gas",
        ),
        (
            json!({"blockIntervalMillis": 400}),
            "spec.scenarios[0].workload.ethrex.blockIntervalMillis: 100 blocks and 160 warm-up blocks take 104 s at one every 400 ms, beyond deadlineSeconds 100",
        ),
    ] {
        let found = messages(&scenario(&changes));
        assert!(found.iter().any(|message| message == expected), "{found:?} lacks {expected}");
    }
    let paced = scenario(&json!({"blockIntervalMillis": 300}));
    assert!(messages(&paced).iter().all(|message| !message.contains("deadline")), "{:?}", messages(&paced));
}
