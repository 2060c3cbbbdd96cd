//! One JSON object a line.

use std::fmt;

use assay_core::import::{Collector, Place};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::read::{self, Input};

/// The fields of an object in their order; a name twice is an error, where a map would forget one.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object such as {\"config\": \"a\", \"value\": 1.5}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, Value)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format!("duplicate field {name:?}")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

pub fn lines(input: Input, file: u32, to: &mut Collector<'_>) {
    let mut rows = 0_u64;
    read::lines(input, file, to, |line, text, to| {
        if text.trim().is_empty() {
            return;
        }
        rows += 1;
        let place = Place { file, line };
        match serde_json::from_str::<Fields>(text) {
            Ok(Fields(fields)) => row(place, &fields, to),
            Err(error) => {
                // The line that the parser counts is the only one that it has.
                let words = error.to_string();
                let words = words.split(" at line ").next().unwrap_or_default();
                to.problem(place, None, format!("is not a JSON object: {words} (character {})", error.column()));
            }
        }
    });
    if rows == 0 {
        to.problem(Place { file, line: 0 }, None, "is empty: every line must be a JSON object");
    }
}

fn row(place: Place, fields: &[(String, Value)], to: &mut Collector<'_>) {
    let mut texts: Vec<(&str, String)> = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return to.problem(place, Some(name), "is a list or an object: write a string or a number");
            }
        };
        texts.push((name, text));
    }
    to.row(place, texts.iter().map(|(name, text)| (*name, text.as_str())));
}
