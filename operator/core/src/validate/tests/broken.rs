//! Parts of a workload that can't be read.

use serde_json::{Value, json};

use super::{KEY_VALUE, document, messages};

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
