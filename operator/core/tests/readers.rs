//! Whatever a record, a plan or a loss may have become on its disk: it is read or refused, and never a panic. What can be read
//! can be judged.

#![allow(clippy::unwrap_used)]

use assay_core::{
    attempt::{Attempt, Lost},
    judge::judge,
    plan::Plan,
    validate::validate_document,
};
use assay_protocol::{Summary, TrialRecord, TrialSpec};
use proptest::prelude::*;
use serde_json::Value;

const EXPERIMENT: &str = include_str!("data/records/experiment.json");
const ROOMY: &str = include_str!("data/records/roomy.json");
const CRAMPED: &str = include_str!("data/records/cramped.json");

fn plan() -> Plan {
    Plan::new(validate_document(&serde_json::from_str(EXPERIMENT).unwrap()).experiment.unwrap()).unwrap()
}

/// The record as a run of a plan's trial.
fn attempt(plan: &Plan, json: &str, number: usize) -> Option<Attempt> {
    let record = TrialRecord::from_json(json.as_bytes()).ok()?;
    let mut summary = Summary::of(&record, json.as_bytes()).ok()?;
    summary.trial = plan.trials().nth(number)?;
    Some(Attempt::Finished(summary.into()))
}

/// Replaces the value at the `at`th place of a document, counted in its own order.
fn replaced(value: &mut Value, at: &mut usize, with: &Value) -> bool {
    if *at == 0 {
        *value = with.clone();
        return true;
    }
    *at -= 1;
    match value {
        Value::Object(map) => map.values_mut().any(|value| replaced(value, at, with)),
        Value::Array(list) => list.iter_mut().any(|value| replaced(value, at, with)),
        _ => false,
    }
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::from(0)),
        Just(Value::from(-1)),
        Just(Value::from(1e308)),
        ".{0,20}".prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        let _ = TrialRecord::from_json(&bytes);
        let _ = TrialSpec::from_json(&bytes);
        let _ = Summary::from_json(&bytes);
        let _ = serde_json::from_slice::<Plan>(&bytes).map(|plan| plan.check());
        let _ = serde_json::from_slice::<Lost>(&bytes);
    }

    #[test]
    fn damaged_bytes(at in 0.0..1.0_f64, byte: u8, cut: bool) {
        let mut bytes = CRAMPED.as_bytes().to_vec();
        let at = (at * bytes.len() as f64) as usize;
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let _ = TrialRecord::from_json(&bytes).map(|record| Summary::of(&record, &bytes));
    }

    #[test]
    fn values_that_nobody_expects(at in 0_usize..400, with in anything()) {
        let mut document: Value = serde_json::from_str(CRAMPED).unwrap();
        replaced(&mut document, &mut at.clone(), &with);
        let plan = plan();
        let runs = plan.trials().enumerate().filter_map(|(number, trial)| {
            let json = if trial.config == "roomy" { ROOMY.to_owned() } else { document.to_string() };
            attempt(&plan, &json, number)
        });
        let mut attempts: Vec<Attempt> = runs.collect();
        // Twice the same trial: the first counts.
        attempts.extend(attempts.first().cloned());
        let _ = judge(&plan, &attempts).map(|report| report.json());
    }
}

#[test]
fn the_records_are_read() {
    let plan = plan();
    assert!((0..2).all(|number| attempt(&plan, ROOMY, number).is_some() && attempt(&plan, CRAMPED, number).is_some()));
    let mut document: Value = serde_json::from_str(CRAMPED).unwrap();
    assert!(replaced(&mut document, &mut 399, &Value::Null), "the places that are tried exist");
}
