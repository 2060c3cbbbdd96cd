//! Walks a document against the `OpenAPI` schema of the custom resource, so that every problem is reported at once and
//! in words, where a deserialiser stops at the first.

use regex::Regex;
use serde_json::{Map, Value};

use super::counted;
use super::hints;
use super::problem::{FieldPath, Problem};
use super::suggest::{did_you_mean, nearest};

/// What the patterns of the schema mean, for people.
const PATTERNS: [(&str, &str); 12] = [
    ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "lowercase letters, digits and '-', with a letter or digit at both ends"),
    ("^[a-z]([-a-z0-9]*[a-z0-9])?$", "lowercase letters, digits and '-', with a letter first and no '-' at the end"),
    ("^[a-z][a-z0-9_]*$", "lowercase letters, digits and '_', with a letter first"),
    (r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$", "an absolute path of letters, digits, '.', '_' and '-', without . or .."),
    (
        "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    ),
    (
        "^[A-Za-z0-9]([-A-Za-z0-9_./+]*[A-Za-z0-9])?$",
        "letters, digits, '-', '_', '.', '/' and '+', with a letter or digit at both ends",
    ),
    ("^[A-Z]{3}$", "three capital letters such as EUR"),
    ("^https?://[!-~]+$", "an address that begins with https://"),
    (r"\[\$window\]", "a query with the range [$window], the measured window"),
    (r"^[0-9]+(\.[0-9]+)?%$", "a percentage such as 2% or 2.5%"),
    (r"^[0-9]+(\.[0-9]+)?$", "a decimal number such as 0.99"),
    (
        r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$",
        "a non-negative quantity such as 512Mi",
    ),
];

/// Everything in `value` that its schema refuses.
pub fn check(schema: &Value, value: &Value, path: &FieldPath) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(schema, value, path, &mut problems);
    problems
}

/// Removes what the API server would remove before it reads an object: fields that the schema does not know, and nulls
/// in those that it knows.
pub fn prune(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(properties) = schema["properties"].as_object() {
                object.retain(|key, value| properties.contains_key(key) && !value.is_null());
                for (key, value) in object {
                    prune(&properties[key], value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune(&schema["items"], item)),
        _ => {}
    }
}

fn walk(schema: &Value, value: &Value, path: &FieldPath, problems: &mut Vec<Problem>) {
    let int_or_string = schema["x-kubernetes-int-or-string"] == true;
    match (value, schema["type"].as_str()) {
        (Value::Object(object), Some("object")) => {
            if let Some(properties) = schema["properties"].as_object() {
                walk_object(schema, properties, object, path, problems);
            } else {
                walk_map(schema, object, path, problems);
            }
        }
        (Value::Array(items), Some("array")) => walk_list(schema, items, path, problems),
        (Value::String(text), kind) if int_or_string || kind == Some("string") => {
            let hint = || hints::instead(schema, value, path);
            problems.extend(text_problem(schema, text).map(|message| Problem::error(path.clone(), message + &hint())));
        }
        (Value::Number(number), kind) if int_or_string || kind == Some("integer") => {
            problems.extend(integer_problem(schema, number).map(|message| Problem::error(path.clone(), message)));
        }
        (Value::Bool(_), Some("boolean")) => {}
        // In quotes it would be a string, and wrong all the same.
        (Value::Bool(_) | Value::Number(_), Some("string")) if text_problem(schema, &value.to_string()).is_some() => {
            let hint = || hints::instead(schema, value, path);
            let problem = text_problem(schema, &value.to_string());
            problems.extend(problem.map(|message| Problem::error(path.clone(), message + &hint())));
        }
        (_, kind) => {
            let message = match meaning(schema).filter(|_| int_or_string) {
                Some(meaning) => format!("must be an integer or {meaning}, not {}", describe(value)),
                None => wrong_type(value, kind, int_or_string),
            };
            let message = message + &hints::instead(schema, value, path);
            problems.push(Problem::error(path.clone(), message));
        }
    }
}

fn walk_object(
    schema: &Value,
    properties: &Map<String, Value>,
    object: &Map<String, Value>,
    path: &FieldPath,
    problems: &mut Vec<Problem>,
) {
    let known = || properties.keys().map(String::as_str);
    let mut unknown = Vec::new();
    for (key, value) in object {
        match properties.get(key) {
            // Null means absent.
            Some(_) if value.is_null() => {}
            Some(property) => walk(property, value, &path.key(key), problems),
            None => {
                let nearest = did_you_mean(key, known());
                let nearest = Some(nearest).filter(|hint| !hint.is_empty());
                let all = || format!("; known fields are {}", join(known()));
                let hint = hints::field(key, &known().collect::<Vec<_>>()).or(nearest).unwrap_or_else(all);
                problems.push(Problem::error(path.key(key), format!("unknown field{hint}")).at_key());
                unknown.push(key.as_str());
            }
        }
    }
    let is_set = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
    for required in strings(&schema["required"]).filter(|name| !is_set(name)) {
        // A misspelt name is one mistake, not two.
        if !unknown.iter().any(|written| nearest(written, known()) == Some(required)) {
            let message = format!("{required} is required{}", hint_of(properties.get(required)));
            problems.push(Problem::error(path.clone(), message).at_key());
        }
    }
    let branches: Vec<&str> =
        schema["oneOf"].as_array().into_iter().flatten().flat_map(|branch| strings(&branch["required"])).collect();
    let set: Vec<&str> = branches.iter().copied().filter(|name| is_set(name)).collect();
    if !branches.is_empty() && set.len() != 1 && unknown.is_empty() {
        let choice = if branches.len() == 1 {
            format!("set {}, the only choice", branches[0])
        } else {
            format!("set exactly one of {}", join(branches.iter().copied()))
        };
        let found = if set.is_empty() { "none is".to_owned() } else { format!("{} are", join(set.iter().copied())) };
        problems.push(Problem::error(path.clone(), format!("{choice} ({found} set)")).at_key());
    }
}

/// What a missing field is about: the first sentence of its description.
fn hint_of(property: Option<&Value>) -> String {
    let description = property.and_then(|property| property["description"].as_str()).unwrap_or_default();
    let sentence = description.split_inclusive(". ").next().unwrap_or_default().replace('\n', " ");
    let sentence = sentence.trim().trim_end_matches('.');
    let mut letters = sentence.chars();
    match letters.next() {
        None => String::new(),
        // A name such as NVMe keeps its capitals.
        Some(first) if letters.clone().next().is_some_and(char::is_uppercase) => {
            format!(": {first}{}", letters.as_str())
        }
        Some(first) => format!(": {}{}", first.to_lowercase(), letters.as_str()),
    }
}

fn walk_map(schema: &Value, object: &Map<String, Value>, path: &FieldPath, problems: &mut Vec<Problem>) {
    count_problem(schema, object.len(), "Properties", path, problems);
    for (key, value) in object {
        walk(&schema["additionalProperties"], value, &path.key(key), problems);
    }
}

fn walk_list(schema: &Value, items: &[Value], path: &FieldPath, problems: &mut Vec<Problem>) {
    count_problem(schema, items.len(), "Items", path, problems);
    for (index, item) in items.iter().enumerate() {
        walk(&schema["items"], item, &path.index(index), problems);
    }
    let map_keys: Vec<&str> = strings(&schema["x-kubernetes-list-map-keys"]).collect();
    let kind = schema["x-kubernetes-list-type"].as_str();
    for (index, item) in items.iter().enumerate() {
        let Some(key) = identity(kind, &map_keys, item) else { continue };
        if let Some(first) =
            items[..index].iter().position(|other| identity(kind, &map_keys, other).as_ref() == Some(&key))
        {
            let name = key.iter().copied().map(describe).collect::<Vec<_>>().join(", ");
            let at = map_keys.iter().fold(path.index(index), |path, key| path.key(*key));
            let message = format!("duplicate {name}; first used in {}", path.index(first));
            problems.push(Problem::error(at, message));
        }
    }
}

/// What must be unique in a list: the values of a set, the keys of a list that is a map.
fn identity<'a>(kind: Option<&str>, map_keys: &[&str], item: &'a Value) -> Option<Vec<&'a Value>> {
    match kind? {
        "set" => Some(vec![item]),
        "map" => map_keys.iter().map(|key| item.get(key)).collect(),
        _ => None,
    }
}

fn count_problem(schema: &Value, count: usize, what: &str, path: &FieldPath, problems: &mut Vec<Problem>) {
    let bound = |name: &str| schema[format!("{name}{what}")].as_u64().map(|bound| bound as usize);
    if let Some(fewest) = bound("min").filter(|&fewest| count < fewest) {
        let message = format!("has {}, needs at least {fewest}", entries(count));
        problems.push(Problem::error(path.clone(), message).at_key());
    }
    if let Some(most) = bound("max").filter(|&most| count > most) {
        problems.push(Problem::error(path.clone(), format!("has {}, at most {most} allowed", entries(count))).at_key());
    }
}

fn entries(count: usize) -> String {
    counted(count, "entry", "entries")
}

fn text_problem(schema: &Value, text: &str) -> Option<String> {
    if schema["enum"].is_array() {
        let choices = || strings(&schema["enum"]);
        let hint = nearest(text, choices()).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        return choices().all(|choice| choice != text).then(|| {
            format!("must be one of {}, not {}{hint}", join(choices()), describe(&Value::String(text.to_owned())))
        });
    }
    let length = text.chars().count();
    let bound = |name: &str| schema[name].as_u64().map(|bound| bound as usize);
    if let Some(most) = bound("maxLength").filter(|&most| length > most) {
        return Some(format!("has {}, at most {most} allowed", counted(length, "character", "characters")));
    }
    if let Some(fewest) = bound("minLength").filter(|&fewest| length < fewest) {
        return Some(if length == 0 {
            "must not be empty".to_owned()
        } else {
            format!("needs at least {}", counted(fewest, "character", "characters"))
        });
    }
    let pattern = schema["pattern"].as_str()?;
    // A pattern that can't be read here is the schema's fault, and its test's to find.
    let matches = Regex::new(pattern).is_ok_and(|regex| regex.is_match(text));
    (!matches).then(|| {
        let meaning = meaning(schema).map_or_else(|| format!("text that matches {pattern}"), str::to_owned);
        format!("must be {meaning}, not {}", describe(&Value::String(text.to_owned())))
    })
}

fn meaning(schema: &Value) -> Option<&'static str> {
    let pattern = schema["pattern"].as_str()?;
    PATTERNS.iter().find(|(known, _)| *known == pattern).map(|(_, meaning)| *meaning)
}

fn integer_problem(schema: &Value, number: &serde_json::Number) -> Option<String> {
    let may_be_text = schema["x-kubernetes-int-or-string"] == true;
    let quoted = if may_be_text { quote_hint(&number.to_string()) } else { String::new() };
    let Some(value) = number.as_i128() else {
        // 1.5e8 is read as a number with a fraction of zero.
        if let Some(whole) = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15) {
            return Some(format!("must be an integer, not {number}; write {whole:.0}"));
        }
        return Some(match meaning(schema) {
            Some(meaning) => format!("must be an integer or {meaning}, not {number}"),
            None if may_be_text => {
                format!(
                    "must be an integer or a string, not {number}; if the option takes fractions, put it in quotes: \"{number}\""
                )
            }
            None => format!("must be an integer, not {number}"),
        });
    };
    if i64::try_from(value).is_err() {
        return Some(format!("{number} is too large for a 64-bit integer{quoted}"));
    }
    let bound = |name: &str| schema[name].as_i64().map(i128::from);
    if let Some(least) = bound("minimum").filter(|&least| value < least) {
        return Some(format!("must be at least {least}, not {value}"));
    }
    let most = bound("maximum").filter(|&most| value > most)?;
    Some(format!("must be at most {most}, not {value}"))
}

fn quote_hint(text: &str) -> String {
    format!("; put it in quotes: \"{text}\"")
}

fn wrong_type(value: &Value, expected: Option<&str>, int_or_string: bool) -> String {
    let wanted = match expected {
        _ if int_or_string => "an integer or a string",
        Some("object") => "a map of fields",
        Some("array") => "a list",
        Some("integer") => "an integer",
        Some("boolean") => "true or false",
        _ => "a string",
    };
    let hint = match (value, expected) {
        (Value::Bool(flag), kind) if int_or_string || kind == Some("string") => quote_hint(&flag.to_string()),
        (Value::Number(number), Some("string")) => quote_hint(&number.to_string()),
        (Value::String(text), Some("integer")) if text.parse::<i64>().is_ok() => "; remove the quotes".to_owned(),
        (Value::String(text), Some("boolean")) if ["true", "false"].contains(&text.as_str()) => {
            "; remove the quotes".to_owned()
        }
        (Value::String(_) | Value::Number(_), Some("array")) => {
            "; write it as [value], or on its own line after '- '".to_owned()
        }
        _ => String::new(),
    };
    format!("must be {wanted}, not {}{hint}", describe(value))
}

/// A value in a few words.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() > 40 => {
            format!("{:?}...", text.chars().take(40).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// `a, b and c`.
pub(super) fn join<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(schema: &Value, value: &Value) -> Vec<String> {
        check(schema, value, &FieldPath::root().key("x")).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_rule_in_words() {
        let quantity = json!({"x-kubernetes-int-or-string": true, "maxLength": 8});
        let object = json!({"type": "object", "required": ["seed"], "properties": {
            "seed": {"type": "integer", "description": "Seed of all.\nMore."}, "flag": {"type": "boolean"}}});
        let union = json!({"type": "object", "properties": {"fixed": {"type": "integer"}, "uniform": {"type": "integer"}},
            "oneOf": [{"required": ["fixed"]}, {"required": ["uniform"]}]});
        let named = json!({"type": "array", "maxItems": 3, "minItems": 1, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}}}});
        let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        let text =
            json!({"type": "string", "maxLength": 5, "minLength": 1, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"});
        let choice = json!({"type": "string", "enum": ["Evict", "Warm"]});
        let percent = json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?%$"});
        let map = json!({"type": "object", "maxProperties": 1, "additionalProperties": quantity});
        let table = [
            (&object, json!({"seed": 1, "flag": null}), vec![]),
            (&object, json!({"flag": true}), vec!["x: seed is required: seed of all. More"]),
            (&object, json!({"sed": 1}), vec!["x.sed: unknown field; did you mean seed?"]),
            (&object, json!({"seed": 1, "color": 1}), vec!["x.color: unknown field; known fields are flag and seed"]),
            (&object, json!({"seed": "1"}), vec!["x.seed: must be an integer, not \"1\"; remove the quotes"]),
            (&object, json!({"seed": 1.5}), vec!["x.seed: must be an integer, not 1.5"]),
            (&object, json!({"seed": true}), vec!["x.seed: must be an integer, not true"]),
            (&object, json!({"seed": "x"}), vec!["x.seed: must be an integer, not \"x\""]),
            (&object, json!({"seed": 1, "flag": "yes"}), vec!["x.flag: must be true or false, not \"yes\""]),
            // Larger numbers with a fraction are not exact.
            (
                &object,
                json!({"seed": 999_999_999_999_999.0}),
                vec!["x.seed: must be an integer, not 999999999999999.0; write 999999999999999"],
            ),
            (&object, json!({"seed": 1e15}), vec!["x.seed: must be an integer, not 1000000000000000.0"]),
            (
                &object,
                json!({"seed": 1, "flag": "true"}),
                vec!["x.flag: must be true or false, not \"true\"; remove the quotes"],
            ),
            (&object, json!([]), vec!["x: must be a map of fields, not a list"]),
            (&union, json!({}), vec!["x: set exactly one of fixed and uniform (none is set)"]),
            (
                &union,
                json!({"fixed": 1, "uniform": 2}),
                vec!["x: set exactly one of fixed and uniform (fixed and uniform are set)"],
            ),
            (&union, json!({"fixd": 1}), vec!["x.fixd: unknown field; did you mean fixed?"]),
            (
                &named,
                json!([{"name": "a"}, {"name": "b"}, {"name": "a"}]),
                vec!["x[2].name: duplicate \"a\"; first used in x[0]"],
            ),
            (&named, json!([]), vec!["x: has 0 entries, needs at least 1"]),
            (&named, json!([{}, {}, {}, {}]), vec!["x: has 4 entries, at most 3 allowed"]),
            (
                &named,
                json!("a"),
                vec!["x: must be a list, not \"a\"; write it as [value], or on its own line after '- '"],
            ),
            (&set, json!(["a", "a"]), vec!["x[1]: duplicate \"a\"; first used in x[0]"]),
            (&text, json!("toolong"), vec!["x: has 7 characters, at most 5 allowed"]),
            (&text, json!(""), vec!["x: must not be empty"]),
            (
                &text,
                json!("A_b"),
                vec![
                    "x: must be lowercase letters, digits and '-', with a letter or digit at both ends, not \"A_b\"; write a-b",
                ],
            ),
            (&text, json!(8), vec!["x: must be a string, not 8; put it in quotes: \"8\""]),
            (&text, json!(true), vec!["x: must be a string, not true; put it in quotes: \"true\""]),
            (&choice, json!("warm"), vec!["x: must be one of Evict and Warm, not \"warm\"; did you mean Warm?"]),
            (&percent, json!(3), vec!["x: must be a percentage such as 2% or 2.5%, not \"3\"; write 3%"]),
            (&choice, json!(true), vec!["x: must be one of Evict and Warm, not \"true\""]),
            (&map, json!({"a": 1, "b": "2"}), vec!["x: has 2 entries, at most 1 allowed"]),
            (
                &map,
                json!({"a": true}),
                vec!["x.a: must be an integer or a string, not true; put it in quotes: \"true\""],
            ),
            (
                &map,
                json!({"a": 0.1}),
                vec![
                    "x.a: must be an integer or a string, not 0.1; if the option takes fractions, put it in quotes: \"0.1\"",
                ],
            ),
            (&map, json!({"a": 1.5e8}), vec!["x.a: must be an integer, not 150000000.0; write 150000000"]),
            (&map, json!({"a": null}), vec!["x.a: must be an integer or a string, not null"]),
            (
                &map,
                json!({"a": u64::MAX}),
                vec![
                    "x.a: 18446744073709551615 is too large for a 64-bit integer; put it in quotes: \"18446744073709551615\"",
                ],
            ),
        ];
        for (schema, value, expected) in table {
            assert_eq!(messages(schema, &value), expected, "{value}");
        }
    }

    #[test]
    fn bounds_of_integers() {
        let schema = json!({"type": "integer", "minimum": 1, "maximum": 10});
        assert_eq!(messages(&schema, &json!(0)), ["x: must be at least 1, not 0"]);
        assert_eq!(messages(&schema, &json!(-3)), ["x: must be at least 1, not -3"]);
        assert_eq!(messages(&schema, &json!(11)), ["x: must be at most 10, not 11"]);
        assert!(messages(&schema, &json!(10)).is_empty());
    }

    #[test]
    fn every_pattern_of_the_api_has_words() {
        fn patterns(schema: &Value, found: &mut Vec<String>) {
            match schema {
                Value::Object(object) => {
                    found.extend(object.get("pattern").and_then(Value::as_str).map(str::to_owned));
                    object.values().for_each(|value| patterns(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| patterns(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        for schema in
            [assay_api::schema::<assay_api::TuningExperiment>(), assay_api::schema::<assay_api::TuningSweep>()]
        {
            // Nobody but the operator writes a status.
            patterns(&schema.unwrap_or_default()["properties"]["spec"], &mut found);
        }
        assert!(found.len() > PATTERNS.len());
        for pattern in found {
            assert!(PATTERNS.iter().any(|(known, _)| *known == pattern), "{pattern}");
            assert!(Regex::new(&pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn pruning_is_the_api_servers() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "integer"}, "list": {"type": "array", "items": {"type": "object", "properties": {"b": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}}}});
        let mut value = json!({"a": null, "c": 1, "list": [{"b": 1, "d": 2}], "map": {"x": null}});
        prune(&schema, &mut value);
        assert_eq!(value, json!({"list": [{"b": 1}], "map": {"x": null}}));
    }

    #[test]
    fn a_missing_field_is_described_by_its_first_sentence() {
        for (description, hint) in [
            ("Seed of all. More.", ": seed of all"),
            ("NVMe is required. More.", ": NVMe is required"),
            ("A name", ": a name"),
            ("", ""),
        ] {
            assert_eq!(hint_of(Some(&json!({"description": description}))), hint);
        }
    }

    #[test]
    fn long_texts_are_cut_after_40_characters() {
        let said = |count: usize| describe(&json!("ü".repeat(count)));
        assert_eq!(said(40), format!("\"{}\"", "ü".repeat(40)));
        assert_eq!(said(41), format!("\"{}\"...", "ü".repeat(40)));
    }
}
