//! Whatever a record, a plan or a loss may have become on its disk: it is read or refused, and never a panic. What can be read
//! can be judged.

#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use assay_core::{
    attempt::{Attempt, Lost, LostReason},
    judge::judge,
    plan::Plan,
    validate::validate_document,
};
use assay_protocol::{Summary, TrialRecord, TrialSpec};
use proptest::prelude::*;
use serde_json::{Value, json};

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

/// Whether a reader takes these bytes, with all that is done to what it takes.
type Read = fn(&[u8]) -> bool;

/// Every kind of file that is read again, one that is sound, and its reader.
static KINDS: LazyLock<Vec<(&'static str, Value, Read)>> = LazyLock::new(|| {
    let plan = plan();
    let record: Value = serde_json::from_str(CRAMPED).unwrap();
    let summary = Summary::of(&TrialRecord::from_json(CRAMPED.as_bytes()).unwrap(), CRAMPED.as_bytes()).unwrap();
    let lost = Lost {
        plan: plan.digest.clone(),
        trial: summary.trial.clone(),
        started_unix_ms: 1,
        boot: Some(plan.digest.clone()),
        reason: LostReason::Crashed,
        message: "it ended".to_owned(),
    };
    vec![
        ("spec", record["spec"].clone(), |bytes| TrialSpec::from_json(bytes).is_ok()),
        ("record", record, |bytes| {
            TrialRecord::from_json(bytes).is_ok_and(|record| Summary::of(&record, bytes).is_ok())
        }),
        ("summary", serde_json::to_value(&summary).unwrap(), |bytes| Summary::from_json(bytes).is_ok()),
        ("plan", serde_json::to_value(&plan).unwrap(), |bytes| {
            serde_json::from_slice::<Plan>(bytes).map(|plan| plan.check()).is_ok()
        }),
        ("loss", serde_json::to_value(&lost).unwrap(), |bytes| serde_json::from_slice::<Lost>(bytes).is_ok()),
    ]
});

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
        Just(json!([])),
        Just(json!({})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Of every kind of file: some bytes are others, or the end is missing.
    #[test]
    fn damaged_bytes(at in 0.0..1.0_f64, with in prop::collection::vec(any::<u8>(), 0..4), cut: bool) {
        for (_, document, read) in KINDS.iter() {
            let mut bytes = document.to_string().into_bytes();
            let at = (at * bytes.len() as f64) as usize;
            if cut { bytes.truncate(at) } else { bytes.splice(at..(at + with.len()).min(bytes.len()), with.clone()); }
            read(&bytes);
        }
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

/// Each place of each kind of file holds something else in turn. Much of that is refused; what is not must be worth trying, so the
/// damage is no noise that every reader refuses at its first byte.
#[test]
fn damaged_values_are_read_or_refused() {
    let others = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e308),
        json!("x"),
        json!([]),
        json!({}),
    ];
    for (kind, whole, read) in KINDS.iter() {
        assert!(read(whole.to_string().as_bytes()), "{kind}");
        let (mut taken, mut refused) = (0, 0);
        // Of long files the beginning, and then fewer and fewer places.
        let mut place = 0;
        loop {
            let mut is_there = false;
            for other in &others {
                let mut damaged = whole.clone();
                is_there = replaced(&mut damaged, &mut place.clone(), other);
                if is_there && damaged != *whole {
                    if read(damaged.to_string().as_bytes()) { taken += 1 } else { refused += 1 }
                }
            }
            if !is_there {
                break;
            }
            place += 1 + place / 50;
        }
        assert!(taken > 5 && refused > 5, "{kind}: {taken} were taken, {refused} refused");
    }
}
