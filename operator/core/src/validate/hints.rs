//! What was probably meant by a value or a field that the schema refuses.

use serde_json::Value;

use super::problem::{FieldPath, Segment};

const PERCENTAGE: &str = r"^[0-9]+(\.[0-9]+)?%$";

/// Fields that people know from elsewhere, with what does the same here.
const ELSEWHERE: [(&str, &str); 10] = [
    ("duration", "work is fixed and time is measured: set steps"),
    ("durationSeconds", "work is fixed and time is measured: set steps"),
    ("num", "the number of keys is keys"),
    ("valueSize", "the length of values is valueBytes, such as {fixed: 400}"),
    ("value_size", "the length of values is valueBytes, such as {fixed: 400}"),
    ("keySize", "the length of keys is keyBytes"),
    ("ops", "the number of operations is steps"),
    ("rate", "a fixed pace is stepsPerSecond"),
    ("include", "single configs are in spec.configs"),
    ("options", "options are dbOptions, or columnFamilies[].options"),
];

/// Words for the operations of a role that others use.
const OPERATIONS: [(&str, &str); 14] = [
    ("read", "get"),
    ("reads", "get"),
    ("lookup", "get"),
    ("write", "put"),
    ("writes", "put"),
    ("insert", "put"),
    ("update", "put"),
    ("set", "put"),
    ("remove", "delete"),
    ("del", "delete"),
    ("seek", "scan"),
    ("range", "scan"),
    ("iterate", "scan"),
    ("miss", "getMissing"),
];

/// The value to write instead, as a clause that follows the problem; empty if that can't be told.
pub fn instead(schema: &Value, value: &Value, path: &FieldPath) -> String {
    let meant = match (value, schema["type"].as_str()) {
        (Value::String(text), Some("string")) if schema["pattern"] == PERCENTAGE => percentage(text),
        (Value::Number(number), Some("string")) if schema["pattern"] == PERCENTAGE => percentage(&number.to_string()),
        (Value::String(text), Some("integer")) => integer(text, is_duration(path)),
        (Value::Number(number), Some("object")) if schema["properties"]["fixed"]["type"] == "integer" => {
            Some(format!("{{fixed: {number}}}"))
        }
        (Value::String(text), _) if is_quantity(schema) => quantity(text),
        (Value::String(text), Some("string")) => name(schema, text),
        (Value::String(_) | Value::Number(_), Some("object")) => only_field(schema, value),
        // The value of an option.
        (Value::Object(keys), None) if schema["pattern"].is_null() => option(keys).map(|keys| format!("\"{keys}\"")),
        _ => None,
    };
    meant.map_or(String::new(), |meant| format!("; write {meant}"))
}

/// What to use instead of a field that does not exist, as a clause.
pub fn field(name: &str, known: &[&str]) -> Option<String> {
    let mut operations = OPERATIONS.iter().filter(|(_, operation)| known.contains(operation));
    if let Some((_, operation)) = operations.find(|(other, _)| *other == name.to_lowercase()) {
        return Some(format!("; did you mean {operation}?"));
    }
    let (_, instead) = ELSEWHERE.iter().find(|(known, _)| *known == name)?;
    Some(format!("; {instead}"))
}

fn is_quantity(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true && !schema["pattern"].is_null()
}

/// `64MB`, `64 MiB`, `64mb`: Kubernetes writes no B, and has a decimal and a binary suffix.
fn quantity(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '_' | ',')).collect();
    let digits = plain.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if digits.parse::<f64>().is_err() || digits.starts_with('-') {
        return None;
    }
    let unit = plain[digits.len()..].to_uppercase();
    let unit = unit.strip_suffix('B').unwrap_or(&unit);
    let (unit, is_binary) = unit.strip_suffix('I').map_or((unit, false), |unit| (unit, true));
    match unit {
        "" if !is_binary => Some(digits.to_owned()),
        "K" | "M" | "G" | "T" | "P" | "E" if is_binary => Some(format!("{digits}{unit}i")),
        "K" => Some(format!("{digits}k or {digits}Ki")),
        "M" | "G" | "T" | "P" | "E" => Some(format!("{digits}{unit} or {digits}{unit}i")),
        _ => None,
    }
}

/// A name that the schema takes and that looks like this one: `my-test` for `My_Test`.
fn name(schema: &Value, text: &str) -> Option<String> {
    let pattern = regex::Regex::new(schema["pattern"].as_str()?).ok()?;
    // Too long is another mistake.
    let longest = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize);
    if pattern.is_match(text) || text.chars().count() > longest {
        return None;
    }
    let made = |separator: char| {
        let letters = text.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { separator });
        letters.collect::<String>().trim_matches(separator).to_owned()
    };
    ['-', '_'].into_iter().map(made).find(|name| pattern.is_match(name))
}

/// A map with the one field that it needs.
fn only_field(schema: &Value, value: &Value) -> Option<String> {
    let [Value::String(field)] = schema["required"].as_array()?.as_slice() else { return None };
    let inner = &schema["properties"][field];
    if matches!(inner["type"].as_str(), Some("object" | "array")) {
        return None;
    }
    let quantity = value.as_str().filter(|_| is_quantity(inner)).map(quantity);
    let values = quantity.unwrap_or_else(|| Some(bare(value)))?;
    Some(values.split(" or ").map(|value| format!("{{{field}: {value}}}")).collect::<Vec<_>>().join(" or "))
}

/// An option whose value is a struct, as RocksDB writes it.
fn option(keys: &serde_json::Map<String, Value>) -> Option<String> {
    let pair = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Object(keys) => option(keys)?,
            Value::Array(_) | Value::Null => return None,
            scalar => bare(scalar),
        };
        Some(format!("{key}={value}"))
    };
    let pairs: Option<Vec<String>> = keys.iter().map(pair).collect();
    pairs.filter(|pairs| !pairs.is_empty()).map(|pairs| format!("{{{}}}", pairs.join(";")))
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A bare number is a percentage, or, below 1, a fraction.
fn percentage(text: &str) -> Option<String> {
    let number: f64 = text.trim().trim_end_matches('%').trim().parse().ok()?;
    // No margin is 0 % or 100 %.
    if !(number > 0.0 && number < 100.0) {
        None
    } else if text.contains('%') || number >= 1.0 {
        Some(format!("{number}%"))
    } else {
        // Without the noise of binary fractions: 0.07 is 7 and not 7.000000000000001.
        Some(format!("{}% (or {number}%, if that is what you mean)", (100.0 * number * 1e9).round() / 1e9))
    }
}

fn is_duration(path: &FieldPath) -> bool {
    matches!(path.segments().last(), Some(Segment::Key(key)) if key.ends_with("Seconds"))
}

/// `200k`, `1.5e8`, `200_000`, and for durations `1h`.
fn integer(text: &str, is_duration: bool) -> Option<String> {
    let plain = text.trim().replace(['_', ',', '\''], "");
    let digits = plain.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (digits, factor) = match &plain[digits.len()..] {
        "" => (plain.as_str(), 1.0),
        "s" if is_duration => (digits, 1.0),
        "m" | "min" if is_duration => (digits, 60.0),
        "h" if is_duration => (digits, 3600.0),
        "d" if is_duration => (digits, 86_400.0),
        "k" | "K" if !is_duration => (digits, 1e3),
        "m" | "M" if !is_duration => (digits, 1e6),
        "g" | "G" | "b" | "B" if !is_duration => (digits, 1e9),
        _ => return None,
    };
    let number = digits.parse::<f64>().ok()? * factor;
    // As an integer it is the same text: then its quotes are all that is wrong, which is said elsewhere.
    (number.fract() == 0.0 && number.abs() < 1e15 && text.parse::<i64>().is_err()).then(|| format!("{number:.0}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_made_of_what_is_none_and_not_too_long() {
        let names = json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 7});
        assert_eq!(name(&names, "My_Test").as_deref(), Some("my-test"));
        assert_eq!((name(&names, "mine"), name(&names, "My_Tests")), (None, None));
    }

    #[test]
    fn what_people_write_is_understood() {
        let percent = json!({"type": "string", "pattern": PERCENTAGE});
        let whole = json!({"type": "integer"});
        let sizes = json!({"type": "object", "properties": {"fixed": {"type": "integer"}}});
        let bytes = json!({"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+(k|M|G|Ki|Mi|Gi)?$"});
        let cache = json!({"type": "object", "required": ["size"], "properties": {"size": bytes}});
        let names = json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"});
        let metrics = json!({"type": "string", "pattern": "^[a-z][a-z0-9_]*$"});
        let option = json!({"x-kubernetes-int-or-string": true});
        let at = |key: &str| FieldPath::root().key(key);
        let cases = [
            (&percent, json!(5), at("margin"), "; write 5%"),
            (&percent, json!(2.5), at("margin"), "; write 2.5%"),
            (&percent, json!(0.03), at("margin"), "; write 3% (or 0.03%, if that is what you mean)"),
            (&percent, json!("0.07"), at("margin"), "; write 7% (or 0.07%, if that is what you mean)"),
            (&percent, json!("2 %"), at("margin"), "; write 2%"),
            (&percent, json!("little"), at("margin"), ""),
            (&percent, json!(-1), at("margin"), ""),
            (&percent, json!(0), at("margin"), ""),
            (&percent, json!("-5%"), at("margin"), ""),
            // Written well, these would be refused for what they say.
            (&percent, json!("0 %"), at("margin"), ""),
            (&percent, json!(100), at("margin"), ""),
            (&percent, json!("NaN %"), at("margin"), ""),
            (&whole, json!("200k"), at("keys"), "; write 200000"),
            (&whole, json!("1.5e8"), at("steps"), "; write 150000000"),
            (&whole, json!("200_000"), at("keys"), "; write 200000"),
            (&whole, json!("1h"), at("deadlineSeconds"), "; write 3600"),
            (&whole, json!("90m"), at("deadlineSeconds"), "; write 5400"),
            (&whole, json!("1h"), at("keys"), ""),
            (&whole, json!("1.5"), at("keys"), ""),
            (&whole, json!("7"), at("keys"), ""),
            // The same letters are units of time or numbers.
            (&whole, json!("30s"), at("deadlineSeconds"), "; write 30"),
            (&whole, json!("30s"), at("keys"), ""),
            (&whole, json!("90min"), at("deadlineSeconds"), "; write 5400"),
            (&whole, json!("90min"), at("keys"), ""),
            (&whole, json!("2d"), at("deadlineSeconds"), "; write 172800"),
            (&whole, json!("2d"), at("keys"), ""),
            (&whole, json!("5k"), at("deadlineSeconds"), ""),
            (&whole, json!("90m"), at("keys"), "; write 90000000"),
            (&whole, json!("5M"), at("keys"), "; write 5000000"),
            (&whole, json!("5M"), at("deadlineSeconds"), ""),
            (&whole, json!("3G"), at("keys"), "; write 3000000000"),
            (&whole, json!("3b"), at("keys"), "; write 3000000000"),
            (&whole, json!("3G"), at("deadlineSeconds"), ""),
            // Larger numbers are not exact.
            (&whole, json!("999_999_999_999_999"), at("keys"), "; write 999999999999999"),
            (&whole, json!("1_000_000_000_000_000"), at("keys"), ""),
            (&sizes, json!(400), at("valueBytes"), "; write {fixed: 400}"),
            (&json!({"type": "object"}), json!(400), at("mix"), ""),
            (&bytes, json!("64MB"), at("size"), "; write 64M or 64Mi"),
            (&bytes, json!("64 mib"), at("size"), "; write 64Mi"),
            (&bytes, json!("8KB"), at("size"), "; write 8k or 8Ki"),
            (&bytes, json!("1.5GB"), at("size"), "; write 1.5G or 1.5Gi"),
            (&bytes, json!("100B"), at("size"), "; write 100"),
            (&bytes, json!("-1Gi"), at("size"), ""),
            (&bytes, json!("64i"), at("size"), ""),
            (&bytes, json!("64iB"), at("size"), ""),
            (&bytes, json!({"a": 1}), at("size"), ""),
            (&bytes, json!("much"), at("size"), ""),
            (&cache, json!("64Mi"), at("blockCache"), "; write {size: 64Mi}"),
            (&cache, json!("64MB"), at("blockCache"), "; write {size: 64M} or {size: 64Mi}"),
            (&cache, json!("much"), at("blockCache"), ""),
            (&names, json!("My_Test"), at("name"), "; write my-test"),
            (&names, json!("Größe 2 "), at("name"), ""),
            (&names, json!("__"), at("name"), ""),
            (&metrics, json!("My-Rate"), at("name"), "; write my_rate"),
            (&option, json!({"block_size": 16384, "x": {"y": "z"}}), at("t"), "; write \"{block_size=16384;x={y=z}}\""),
            (&option, json!({"a": [1]}), at("t"), ""),
            (&option, json!([1]), at("t"), ""),
        ];
        for (schema, value, path, expected) in cases {
            assert_eq!(instead(schema, &value, &path), expected, "{value} at {path}");
        }
        let field = |name: &str, known: &[&str]| field(name, known).unwrap_or_default();
        assert_eq!(field("durationSeconds", &[]), "; work is fixed and time is measured: set steps");
        assert_eq!(field("keys", &[]), "");
        assert_eq!(field("Read", &["get", "put"]), "; did you mean get?");
        assert_eq!(field("read", &["steps"]), "");
        assert_eq!(field("Write", &["get", "put"]), "; did you mean put?");
        assert_eq!(field("color", &["get", "put"]), "");
    }
}
