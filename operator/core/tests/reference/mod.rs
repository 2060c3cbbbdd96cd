//! Reading and comparing reference cases.

mod judged;
mod legacy;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use judged::{cell, experiment};
pub use legacy::legacy;

/// A word of the file as the type that has it.
pub fn words<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

pub fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count")) as usize
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

pub fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

pub fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("{value} is not an object"))
}

pub fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(number).collect()
}

pub fn counts(value: &Value) -> Vec<usize> {
    list(value).iter().map(count).collect()
}

/// An input that is not read would make the expectation mean something else.
pub fn known(at: &str, value: &Value, keys: &[&str]) {
    for key in object(value).keys() {
        assert!(keys.contains(&key.as_str()), "{at}: unknown input {key:?}");
    }
}

/// `NON_INFERIOR` in the file is `NonInferior` in the API.
pub fn camel(shouted: &str) -> String {
    shouted.split('_').map(|word| word[..1].to_owned() + &word[1..].to_lowercase()).collect()
}

/// Compares and collects, so that one run shows all differences.
pub struct Check {
    pub p: f64,
    pub estimate: f64,
    pub ci: f64,
    pub failures: Vec<String>,
    pub run: BTreeMap<&'static str, usize>,
}

impl Check {
    pub fn close(&mut self, at: &str, expected: &Value, seen: Option<f64>, tolerance: f64) {
        let same = match (expected.as_f64(), seen) {
            (Some(expected), Some(seen)) => (expected - seen).abs() <= tolerance,
            (None, None) => expected.is_null(),
            _ => false,
        };
        if !same {
            self.failures.push(format!("{at}: expected {expected}, not {seen:?}"));
        }
    }

    pub fn p(&mut self, at: &str, expected: &Value, seen: f64) {
        self.close(at, expected, Some(seen), self.p);
    }

    pub fn estimate(&mut self, at: &str, expected: &Value, seen: Option<f64>) {
        self.close(at, expected, seen, self.estimate);
    }

    pub fn interval(&mut self, at: &str, expected: &Value, seen: assay_core::stats::Interval) {
        self.close(&format!("{at}.low"), &expected[0], seen.low, self.ci);
        self.close(&format!("{at}.high"), &expected[1], seen.high, self.ci);
    }

    pub fn equal<T: PartialEq + std::fmt::Debug>(&mut self, at: &str, expected: &T, seen: &T) {
        if expected != seen {
            self.failures.push(format!("{at}: expected {expected:?}, not {seen:?}"));
        }
    }

    pub fn vector(&mut self, at: &str, expected: &Value, seen: &[f64]) {
        self.equal(&format!("{at} length"), &list(expected).len(), &seen.len());
        for (i, (expected, &seen)) in list(expected).iter().zip(seen).enumerate() {
            self.p(&format!("{at}[{i}]"), expected, seen);
        }
    }

    pub fn ran(&mut self, group: &'static str) {
        *self.run.entry(group).or_default() += 1;
    }
}
