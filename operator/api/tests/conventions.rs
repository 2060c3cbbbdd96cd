//! The committed definitions keep the API conventions, and what checks that can see a breach.

mod lint;

use lint::lint;
use serde_json::{Value, json};

#[test]
fn committed_definitions_keep_the_conventions() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).expect("crds exists") {
        let path = entry.expect("crds can be listed").path();
        let text = std::fs::read_to_string(&path).expect("a definition can be read");
        let crd: Value = serde_yaml::from_str(&text).expect("a definition is YAML");
        assert_eq!(crd["kind"], "CustomResourceDefinition", "{}", path.display());
        assert_eq!(lint(&crd), Vec::<String>::new(), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, assay_api::crds().expect("definitions are generated").len(), "definitions in {dir}");
}

/// What the lint says of a definition with one property.
fn of_property(name: &str, schema: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    if schema["description"].is_null() {
        schema["description"] = json!("This is a sentence.");
    }
    let properties = serde_json::Map::from_iter([(name.to_owned(), schema)]);
    lint(&json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
        "type": "object", "description": "This is a sentence.", "properties": properties,
    }}}]}}))
}

#[test]
fn breaches_are_seen() {
    let text = json!({"type": "string", "maxLength": 8});
    let table = [
        (
            json!({"type": "number"}),
            "v1.x: is a float: use an integer with its unit in the name, a quantity or a decimal string",
        ),
        (json!({"type": "integer"}), "v1.x: is an integer whose format Kubernetes does not know"),
        (json!({"type": "integer", "format": "uint64"}), "v1.x: is an integer whose format Kubernetes does not know"),
        (json!({"type": "string"}), "v1.x: is a string without a bound"),
        (json!({"type": "string", "pattern": "^a*$"}), "v1.x: is a string without a bound"),
        (json!({"x-kubernetes-int-or-string": true}), "v1.x: is a string without a bound"),
        (json!({}), "v1.x: has no type"),
        (json!({"type": "null"}), "v1.x: has the unknown type null"),
        (json!({"type": "boolean", "nullable": true}), "v1.x: is nullable: null must mean absent"),
        (
            json!({"type": "array", "items": text, "x-kubernetes-list-type": "atomic"}),
            "v1.x: is a list without a bound",
        ),
        (json!({"type": "array", "items": text, "maxItems": 3}), "v1.x: has no list type"),
        (
            json!({"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "items": {"type": "object", "properties": {}}}),
            "v1.x: is a list map without keys",
        ),
        (
            json!({"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "boolean", "description": "This is a name."}}}}),
            "v1.x: has the key name, which items may lack",
        ),
        (
            json!({"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "object", "properties": {}}}),
            "v1.x: is a set of values that can't be compared",
        ),
        (
            json!({"type": "array", "maxItems": 3, "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}),
            "v1.x[]: is a string without a bound",
        ),
        (json!({"type": "object", "additionalProperties": text}), "v1.x: is a map without a bound"),
        (
            json!({"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string"}}),
            "v1.x{}: is a string without a bound",
        ),
        (
            json!({"type": "object", "properties": {}, "oneOf": [{"required": ["a"]}]}),
            "v1.x: is a union without a rule",
        ),
        (
            json!({"type": "object", "properties": {}, "x-kubernetes-validations": [{"rule": "true"}]}),
            "v1.x: has a rule without a message",
        ),
        (
            json!({"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": true}),
            "v1.x: keeps unknown fields",
        ),
        (
            json!({"type": "object", "properties": {"y": {"type": "boolean", "description": "Yes."}}}),
            "v1.x.y: has no description that is a sentence",
        ),
        (
            json!({"type": "boolean", "description": "no capital letter first."}),
            "v1.x: has no description that is a sentence",
        ),
        (
            json!({"type": "boolean", "description": "This has no full stop"}),
            "v1.x: has no description that is a sentence",
        ),
    ];
    for (schema, finding) in table {
        assert_eq!(of_property("x", &schema), [finding], "{schema}");
    }
    assert_eq!(of_property("phase", &text), ["v1.phase: is a phase: use conditions"]);
    assert_eq!(of_property("snake_case", &text), ["v1.snake_case: is not in camelCase"]);
    assert!(of_property("fine", &text).is_empty());
}
