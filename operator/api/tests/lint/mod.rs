//! The API conventions as a program: what Kube API Linter asks of Go types, asked of the generated schema.

use serde_json::Value;

/// Every breach of the conventions in a `CustomResourceDefinition`, with its place.
pub fn lint(crd: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
        let schema = &version["schema"]["openAPIV3Schema"];
        let name = version["name"].as_str().unwrap_or_default();
        node(schema, name, &mut findings);
        description(schema, name, &mut findings);
    }
    findings
}

fn node(schema: &Value, path: &str, findings: &mut Vec<String>) {
    let mut find = |what: &str| findings.push(format!("{path}: {what}"));
    let has = |key: &str| !schema[key].is_null();
    if schema["nullable"] == true {
        find("is nullable: null must mean absent");
    }
    if has("x-kubernetes-preserve-unknown-fields") {
        find("keeps unknown fields");
    }
    match schema["type"].as_str() {
        None if schema["x-kubernetes-int-or-string"] == true => {
            if !has("maxLength") {
                find("is a string without a bound");
            }
        }
        None => find("has no type"),
        Some("number") => find("is a float: use an integer with its unit in the name, a quantity or a decimal string"),
        Some("integer") => {
            if !matches!(schema["format"].as_str(), Some("int32" | "int64")) {
                find("is an integer whose format Kubernetes does not know");
            }
        }
        Some("string") => {
            let known_format = matches!(schema["format"].as_str(), Some("date-time" | "date" | "duration" | "uuid"));
            if !has("maxLength") && !has("enum") && !known_format {
                find("is a string without a bound");
            }
        }
        Some("array") => array(schema, path, findings),
        Some("object") => object(schema, path, findings),
        Some("boolean") => {}
        Some(other) => find(&format!("has the unknown type {other}")),
    }
}

fn array(schema: &Value, path: &str, findings: &mut Vec<String>) {
    let mut find = |what: &str| findings.push(format!("{path}: {what}"));
    if schema["maxItems"].is_null() {
        find("is a list without a bound");
    }
    let item = &schema["items"];
    match schema["x-kubernetes-list-type"].as_str() {
        Some("atomic") => {}
        Some("set") if matches!(item["type"].as_str(), Some("string" | "integer")) => {}
        Some("set") => find("is a set of values that can't be compared"),
        Some("map") => {
            let keys: Vec<&str> = strings(&schema["x-kubernetes-list-map-keys"]).collect();
            if keys.is_empty() {
                find("is a list map without keys");
            }
            for key in keys {
                let required = strings(&item["required"]).any(|name| name == key);
                if !required && item["properties"][key]["default"].is_null() {
                    find(&format!("has the key {key}, which items may lack"));
                }
            }
        }
        _ => find("has no list type"),
    }
    node(item, &format!("{path}[]"), findings);
}

fn object(schema: &Value, path: &str, findings: &mut Vec<String>) {
    let mut find = |what: &str| findings.push(format!("{path}: {what}"));
    let rules = schema["x-kubernetes-validations"].as_array().map_or(0, Vec::len);
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if rule["message"].as_str().is_none_or(str::is_empty) {
            find("has a rule without a message");
        }
    }
    if schema["oneOf"].is_array() && rules == 0 {
        find("is a union without a rule");
    }
    if schema["properties"].is_object() && !schema["additionalProperties"].is_null() {
        find("is a map and a struct at once");
    }
    let Some(properties) = schema["properties"].as_object() else {
        if schema["maxProperties"].is_null() {
            find("is a map without a bound");
        }
        return node(&schema["additionalProperties"], &format!("{path}{{}}"), findings);
    };
    for (name, property) in properties {
        let path = format!("{path}.{name}");
        if name == "phase" {
            findings.push(format!("{path}: is a phase: use conditions"));
        }
        let camel =
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_alphanumeric());
        if !camel {
            findings.push(format!("{path}: is not in camelCase"));
        }
        description(property, &path, findings);
        node(property, &path, findings);
    }
}

fn description(schema: &Value, path: &str, findings: &mut Vec<String>) {
    let text = schema["description"].as_str().unwrap_or_default();
    let begins = text.starts_with(|c: char| c.is_uppercase() || c == '`');
    if !begins || !text.ends_with('.') || text.split_whitespace().count() < 3 {
        findings.push(format!("{path}: has no description that is a sentence"));
    }
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
