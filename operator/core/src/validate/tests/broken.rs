//! Parts of a workload that can't be read.

use serde_json::{Value, json};

use super::{KEY_VALUE, ROLE, SCENARIO, document, messages, with};

/// What stands in for a part that can't be read must not be taken for what the user wants.
#[test]
fn a_broken_workload_is_the_only_mistake_that_is_named() {
    let with = |role: Value| {
        let mut document = document();
        let spec = &mut document["spec"];
        spec["configs"][1] = json!({"name": "small", "columnFamilies": [
            {"match": ["*"], "options": {"write_buffer_size": "1M", "compression_per_level": "kNoCompression:kZSTD"}},
        ]});
        spec["objectives"] = json!([{"metric": "write_amplification"}]);
        spec["guardrails"] = json!([{"metric": "step_latency_p999"}]);
        *document.pointer_mut(&format!("{KEY_VALUE}/roles/0")).expect("a role") = role;
        messages(&document)
    };
    let sound = json!({"name": "writer", "steps": 500_000, "mix": {"put": 1}});
    let broken = |field: &str, value: Value| {
        let mut role = sound.clone();
        role[field] = value;
        with(role)
    };
    for mix in [json!({"puts": 1}), json!({"put": "50%"}), json!({"put": 0.5}), json!("put")] {
        let found = broken("mix", mix.clone());
        assert!(matches!(&found[..], [only] if only.contains(".roles[0].mix")), "{mix}: {found:#?}");
    }
    for (field, value) in [("steps", json!("1M")), ("batch", json!("x")), ("threads", json!(0)), ("stepz", json!(5))] {
        let found = broken(field, value);
        assert!(matches!(&found[..], [only] if only.contains(&format!(".roles[0].{field}"))), "{field}: {found:#?}");
    }
    // Once all of it can be read, the rules speak.
    let found = broken("mix", json!({"get": 1}));
    assert!(
        found.iter().any(|message| message.contains("writes nothing, so it has no write_amplification")),
        "{found:#?}"
    );
}

/// What can't be read hides other mistakes only if they may come from what stands in for it.
#[test]
fn a_part_hides_what_depends_on_it_and_nothing_else() {
    // Whether it is still said that there is no such family, and that there are too few steps.
    let said = |pointer: &str, value: Value| {
        let mut document = with(pointer, value);
        document["spec"]["configs"][1]["columnFamilies"][0]["match"] = json!(["stat"]);
        document["spec"]["guardrails"] = json!([{"metric": "step_latency_p999"}]);
        let found = messages(&document);
        let about = |field: &str| found.iter().any(|message| message.starts_with(&format!("{field}: ")));
        (about("spec.configs[1].columnFamilies[0].match[0]"), about("spec.guardrails[0].metric"))
    };
    for (pointer, value, expected) in [
        ("/spec/repetitions".to_owned(), json!("many"), (true, true)),
        ("/spec/configs/1/dbOptions".to_owned(), json!({"use_fsync": true}), (true, true)),
        (format!("{SCENARIO}/deadlineSeconds"), json!("soon"), (true, true)),
        (format!("{KEY_VALUE}/keys"), json!("many"), (true, false)),
        (format!("{ROLE}/steps"), json!("many"), (true, false)),
        (format!("{KEY_VALUE}/families"), json!("state"), (false, false)),
        (format!("{SCENARIO}/workload"), json!(7), (false, false)),
        (SCENARIO.to_owned(), json!(7), (false, false)),
        ("/spec/scenarios".to_owned(), json!(7), (false, false)),
    ] {
        assert_eq!(said(&pointer, value), expected, "{pointer}");
    }
}

#[test]
fn what_can_not_be_read_gets_no_hint() {
    let reader = json!({"name": "reader", "steps": 2000, "mix": {"get": 1}});
    let mut document = with(&format!("{KEY_VALUE}/roles/1"), reader);
    let mut broken = document["spec"]["scenarios"][0].clone();
    broken["name"] = json!("broken");
    broken["workload"]["keyValue"]["roles"][0]["threads"] = json!(0);
    document["spec"]["scenarios"] = json!([document["spec"]["scenarios"][0], broken]);
    let found = messages(&document);
    assert_eq!(found.len(), 2, "{found:#?}");
    let roles = |scenario: usize| format!("spec.scenarios[{scenario}].workload.keyValue.roles");
    for start in [format!("{}[0].threads: must be", roles(1)), format!("warning: {}[1].steps: reader will", roles(0))] {
        assert!(found.iter().any(|message| message.starts_with(&start)), "{start} in {found:#?}");
    }
}
