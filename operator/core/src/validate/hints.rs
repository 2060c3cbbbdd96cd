//! What was probably meant by a value or a field that the schema refuses.

use serde_json::Value;

use super::problem::{FieldPath, Segment};

const PERCENTAGE: &str = r"^[0-9]+(\.[0-9]+)?%$";

/// Fields that people know from elsewhere, with what does the same here.
const ELSEWHERE: [(&str, &str); 9] = [
    ("duration", "work is fixed and time is measured: set steps"),
    ("durationSeconds", "work is fixed and time is measured: set steps"),
    ("num", "the number of keys is keys"),
    ("valueSize", "the length of values is valueBytes, such as {fixed: 400}"),
    ("value_size", "the length of values is valueBytes, such as {fixed: 400}"),
    ("keySize", "the length of keys is keyBytes"),
    ("ops", "the number of operations is steps"),
    ("rate", "a fixed pace is stepsPerSecond"),
    ("options", "options are dbOptions, or columnFamilies[].options"),
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
        _ => None,
    };
    meant.map_or(String::new(), |meant| format!("; write {meant}"))
}

/// What to use instead of a field that does not exist, as a clause.
pub fn field(name: &str) -> Option<String> {
    let (_, instead) = ELSEWHERE.iter().find(|(known, _)| *known == name)?;
    Some(format!("; {instead}"))
}

/// A bare number is a percentage, or, below 1, a fraction.
fn percentage(text: &str) -> Option<String> {
    let number: f64 = text.trim().trim_end_matches('%').trim().parse().ok()?;
    if text.contains('%') || number >= 1.0 {
        Some(format!("{number}%"))
    } else if number > 0.0 {
        // Without the noise of binary fractions: 0.07 is 7 and not 7.000000000000001.
        Some(format!("{}% (or {number}%, if that is what you mean)", (100.0 * number * 1e9).round() / 1e9))
    } else {
        None
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
    fn what_people_write_is_understood() {
        let percent = json!({"type": "string", "pattern": PERCENTAGE});
        let whole = json!({"type": "integer"});
        let sizes = json!({"type": "object", "properties": {"fixed": {"type": "integer"}}});
        let at = |key: &str| FieldPath::root().key(key);
        let cases = [
            (&percent, json!(5), at("margin"), "; write 5%"),
            (&percent, json!(2.5), at("margin"), "; write 2.5%"),
            (&percent, json!(0.03), at("margin"), "; write 3% (or 0.03%, if that is what you mean)"),
            (&percent, json!("0.07"), at("margin"), "; write 7% (or 0.07%, if that is what you mean)"),
            (&percent, json!("2 %"), at("margin"), "; write 2%"),
            (&percent, json!("little"), at("margin"), ""),
            (&percent, json!(-1), at("margin"), ""),
            (&whole, json!("200k"), at("keys"), "; write 200000"),
            (&whole, json!("1.5e8"), at("steps"), "; write 150000000"),
            (&whole, json!("200_000"), at("keys"), "; write 200000"),
            (&whole, json!("1h"), at("deadlineSeconds"), "; write 3600"),
            (&whole, json!("90m"), at("deadlineSeconds"), "; write 5400"),
            (&whole, json!("1h"), at("keys"), ""),
            (&whole, json!("1.5"), at("keys"), ""),
            (&whole, json!("7"), at("keys"), ""),
            (&sizes, json!(400), at("valueBytes"), "; write {fixed: 400}"),
            (&json!({"type": "object"}), json!(400), at("mix"), ""),
        ];
        for (schema, value, path, expected) in cases {
            assert_eq!(instead(schema, &value, &path), expected, "{value} at {path}");
        }
        assert_eq!(field("durationSeconds").as_deref(), Some("; work is fixed and time is measured: set steps"));
        assert_eq!(field("keys"), None);
    }
}
