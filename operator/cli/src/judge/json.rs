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

/// What stands for what other programs write.
const DOCUMENT: &str = "is a JSON document of a kind that Assay does not know; it reads csv, jsonl (one object per line, such as \
                        {\"config\": \"a\", \"block\": 1, \"ops_per_sec\": 48211.7}), db_bench output, and exports of hyperfine";

pub fn lines(input: Input, file: u32, to: &mut Collector<'_>) {
    let (mut rows, mut is_document) = (0_u64, false);
    read::lines(input, file, to, |line, text, to| {
        if text.trim().is_empty() || is_document {
            return;
        }
        rows += 1;
        let place = Place { file, line };
        match serde_json::from_str::<Fields>(text) {
            Ok(Fields(fields)) => row(place, &fields, to),
            // One mistake, not one for each line.
            Err(error) if rows == 1 && (error.is_eof() || text.trim_start().starts_with('[')) => {
                is_document = true;
                to.problem(Place { file, line: 0 }, None, DOCUMENT);
            }
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
            Value::Null => {
                to.column(name);
                continue;
            }
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
