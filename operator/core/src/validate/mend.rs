//! Puts a stand-in where a document can't be read, so that all the rest of it is still checked: one wrong type must not hide four
//! other mistakes.

use serde_json::{Map, Value, json};

use super::problem::FieldPath;

/// Texts of which one fits each pattern of the schema.
const TEXTS: [&str; 4] = ["1%", "1", "a", "/a"];

/// Makes a pruned value one that its type can be read from. The answer says where something was replaced or added.
pub fn mend(schema: &Value, value: &mut Value, path: &FieldPath) -> Vec<FieldPath> {
    let mut mended = Vec::new();
    walk(schema, value, path, &mut mended);
    mended
}

fn walk(schema: &Value, value: &mut Value, path: &FieldPath, mended: &mut Vec<FieldPath>) {
    let any_scalar = schema["x-kubernetes-int-or-string"] == true;
    let fits = match (&*value, schema["type"].as_str()) {
        (Value::Object(_), Some("object")) | (Value::Array(_), Some("array")) | (Value::Bool(_), Some("boolean")) => {
            true
        }
        (Value::String(text), kind) if any_scalar || kind == Some("string") => is_among(schema, text),
        (Value::Number(number), kind) if any_scalar || kind == Some("integer") => {
            let least = schema["minimum"].as_i64().unwrap_or(i64::MIN);
            let most = schema["maximum"].as_i64().unwrap_or(i64::MAX);
            number.as_i64().is_some_and(|number| (least..=most).contains(&number))
        }
        _ => false,
    };
    if !fits {
        *value = match (schema["type"].as_str(), &*value) {
            // A list of one is what was meant, and what others name of it is still there.
            (Some("array"), Value::String(text)) if schema["items"]["type"] == "string" => json!([text]),
            // In quotes it is a text like any other.
            (_, Value::Bool(_) | Value::Number(_)) if is_free_text(schema) => json!(value.to_string()),
            _ => stand_in(schema),
        };
        mended.push(path.clone());
        return;
    }
    match value {
        Value::Object(object) => walk_object(schema, object, path, mended),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(&schema["items"], item, &path.index(index), mended);
            }
        }
        _ => {}
    }
}

fn walk_object(schema: &Value, object: &mut Map<String, Value>, path: &FieldPath, mended: &mut Vec<FieldPath>) {
    let Some(properties) = schema["properties"].as_object() else {
        let schema = &schema["additionalProperties"];
        object.retain(|key, value| {
            // Nobody can guess an entry, and a map can do without.
            let is_lost = is_free_text(schema) && matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
            if is_lost {
                mended.push(path.key(key));
            } else {
                walk(schema, value, &path.key(key), mended);
            }
            !is_lost
        });
        return;
    };
    let branches: Vec<&str> = schema["oneOf"].as_array().into_iter().flatten().flat_map(required).collect();
    if !branches.is_empty() && branches.iter().filter(|&&name| object.contains_key(name)).count() != 1 {
        *object = stand_in(schema).as_object().cloned().unwrap_or_default();
        mended.push(path.clone());
        return;
    }
    for name in required(schema).filter(|name| !object.contains_key(*name)).collect::<Vec<_>>() {
        object.insert(name.to_owned(), stand_in(&properties[name]));
        mended.push(path.key(name));
    }
    for (key, value) in object {
        walk(&properties[key], value, &path.key(key), mended);
    }
}

fn is_among(schema: &Value, text: &str) -> bool {
    schema["enum"].as_array().is_none_or(|choices| choices.iter().any(|choice| choice == text))
}

/// Any text will do, as for the value of an option.
fn is_free_text(schema: &Value) -> bool {
    let is_text = schema["x-kubernetes-int-or-string"] == true || schema["type"] == "string";
    is_text && schema["pattern"].is_null() && schema["enum"].is_null()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Some value that the schema takes.
fn stand_in(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(choice) = schema["enum"].as_array().and_then(|choices| choices.first()) {
        return choice.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let first = schema["oneOf"].as_array().and_then(|branches| branches.first());
            let names = required(schema).chain(first.into_iter().flat_map(required));
            let properties = &schema["properties"];
            Value::Object(names.map(|name| (name.to_owned(), stand_in(&properties[name]))).collect())
        }
        Some("array") => json!([]),
        Some("boolean") => json!(false),
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        _ => {
            let pattern = schema["pattern"].as_str().and_then(|pattern| regex::Regex::new(pattern).ok());
            let text = TEXTS.iter().find(|text| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text)));
            json!(text.copied().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_read_is_replaced_and_the_rest_is_kept() {
        let schema = json!({"type": "object", "required": ["name", "size"], "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$"}, "size": {"type": "integer", "minimum": 3},
            "margin": {"type": "string", "pattern": r"^[0-9]+%$"}, "kind": {"type": "string", "enum": ["A", "B"]},
            "list": {"type": "array", "items": {"type": "boolean"}},
            "names": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
            "either": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {
                "a": {"type": "object"}, "b": {"type": "object"}}}}});
        let mut value = json!({"name": 1, "margin": 3, "kind": "C", "list": [true, "x"], "names": "x", "either": {},
            "options": {"a": 4.5, "b": true, "c": [1], "d": null, "e": 5, "f": {"g": 1}}});
        let mended = mend(&schema, &mut value, &FieldPath::root());
        assert_eq!(
            value,
            json!({"name": "a", "size": 3, "margin": "1%", "kind": "A", "list": [true, false], "names": ["x"], "either": {"a": {}},
                "options": {"a": "4.5", "b": "true", "e": 5}})
        );
        let paths: Vec<String> = mended.iter().map(ToString::to_string).collect();
        let options = ["options.a", "options.b", "options.c", "options.d", "options.f"];
        assert_eq!(paths, [&["size", "either", "kind", "list[1]", "margin", "name", "names"][..], &options].concat());
        // No list of flags was meant by a text.
        let mut value = json!({"name": "b", "size": 4, "list": "x"});
        mend(&schema, &mut value, &FieldPath::root());
        assert_eq!(value["list"], json!([]));
        let sound = json!({"name": "b", "size": 4, "margin": "2%"});
        let mut value = sound.clone();
        assert!(mend(&schema, &mut value, &FieldPath::root()).is_empty() && value == sound);
    }
}
