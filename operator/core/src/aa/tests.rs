use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::attempt::Attempt;
use crate::decide::Places;
use crate::gates::testing::{experiment, plan, summaries};
use crate::judge::{self, judge};

/// An A/A whose runs are made by a function of block, slot and a hash of both between -1 and 1.
fn attempts(experiment: &Experiment, value: impl Fn(f64, f64, f64) -> f64) -> Vec<Attempt> {
    let mut state = 7_u64;
    let mut all = summaries(experiment);
    for summary in &mut all {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let (block, slot) = (f64::from(summary.trial.block), f64::from(summary.trial.order));
        summary.metrics.insert("throughput".to_owned(), value(block, slot, random));
    }
    all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect()
}

fn measured(experiment: &Experiment, attempts: &[Attempt]) -> Noise {
    let plan = plan(experiment);
    let places = Places::new(&plan, attempts).unwrap_or_else(|error| unreachable!("{error}"));
    noise(&places).remove(0)
}

fn long() -> Experiment {
    Experiment { repetitions: 200, baseline_replicates: 2, ..experiment() }
}

#[test]
fn noise_is_told_apart() {
    let experiment = long();
    // Uniform on +-6 %: a standard deviation of 3.46 %.
    let within = measured(&experiment, &attempts(&experiment, |_, _, random| 1000.0 * (0.06 * random).exp()));
    assert!((within.within.unwrap_or_default() - 0.0346).abs() < 0.004, "{within:?}");
    assert!(within.between.unwrap_or(1.0) < 0.01, "{within:?}");
    assert_eq!((within.runs, within.blocks), (600, 200));
    let waves = |block: f64, _, random: f64| 1000.0 * (0.1 * (block * 1.7).sin() + 0.006 * random).exp();
    let between = measured(&experiment, &attempts(&experiment, waves));
    assert!((between.between.unwrap_or_default() - 0.0707).abs() < 0.01, "{between:?}");
    assert!(between.within.unwrap_or(1.0) < 0.006, "{between:?}");
    assert!(between.total() > between.between);
    assert!(between.drift.is_some_and(|drift| drift.abs() < 0.02), "{between:?}");
}

#[test]
fn drifts_are_seen() {
    let experiment = long();
    let slower = |block: f64, slot: f64, _| 1000.0 * (-0.1 * block / 199.0 + 0.04 * slot).exp();
    let noise = measured(&experiment, &attempts(&experiment, slower));
    assert!((noise.drift.unwrap_or_default() + 0.1).abs() < 1e-6, "{noise:?}");
    assert!((noise.order_drift.unwrap_or_default() - 0.08).abs() < 1e-6, "{noise:?}");
}

#[test]
fn one_run_has_no_noise() {
    let experiment = experiment();
    let noise = measured(&experiment, &attempts(&experiment, |_, _, _| 1.0)[..1]);
    assert_eq!((noise.within, noise.between, noise.drift), (None, None, None));
}

#[test]
fn advice_follows_the_noise() {
    let experiment = experiment();
    let told = |size: f64| {
        let attempts = attempts(&experiment, |_, _, random| 1000.0 * (size * random).exp());
        let report = judge(&plan(&experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"));
        let plan = plan(&experiment);
        let places = Places::new(&plan, &attempts).unwrap_or_else(|error| unreachable!("{error}"));
        let spreads = judge::spreads(&places, &experiment).unwrap_or_else(|error| unreachable!("{error}")).ok();
        advice(&experiment, &[measured(&experiment, &attempts)], spreads.as_ref(), &report, 1).join(" ")
    };
    assert!(told(0.01).contains("would be enough"), "{}", told(0.01));
    assert!(told(0.07).contains("needs"), "{}", told(0.07));
    assert!(told(0.9).contains("quieter node"), "{}", told(0.9));
    assert!(
        advice(
            &experiment,
            &[],
            None,
            &judge(&plan(&experiment), &attempts(&experiment, |_, _, _| 1.0))
                .unwrap_or_else(|error| unreachable!("{error}")),
            1
        )
        .join(" ")
        .contains("Too few")
    );
}

#[test]
fn false_claims_are_counted() {
    let experiment = experiment();
    let report = |size: f64| {
        let all = attempts(&experiment, |_, _, _| 1000.0);
        let claimed = all.into_iter().map(|attempt| match attempt {
            Attempt::Finished(mut summary) => {
                let factor = if summary.trial.config == "base" { 1.0 } else { size };
                Arc::make_mut(&mut summary).metrics.entry("throughput".to_owned()).and_modify(|value| *value *= factor);
                Attempt::Finished(summary)
            }
            lost @ Attempt::Lost(_) => lost,
        });
        judge(&plan(&experiment), &claimed.collect::<Vec<_>>()).unwrap_or_else(|error| unreachable!("{error}"))
    };
    assert_eq!(false_claims(&report(1.0)), (0, 0));
    assert_eq!(false_claims(&report(1.2)), (1, 1));
}

#[test]
fn the_baseline_meets_itself() {
    let original = json!({
        "metadata": {"name": "x"},
        "spec": {
            "baseline": "same-1",
            "configs": [{"name": "fast", "dbOptions": {"a": 1}}, {"name": "same-1", "dbOptions": {"b": 2}}],
            "matrix": {"axes": [{"name": "c", "values": [{"dbOptions": {"c": 1}}]}]},
            "scenarios": [{"name": "s", "dataset": {"from": "fast"}}],
            "repetitions": 12,
        },
    });
    let made = document(&original, 2);
    assert_eq!(made["metadata"]["name"], "x-aa");
    assert_eq!(
        made["spec"]["configs"],
        json!([
            {"name": "same-1", "dbOptions": {"b": 2}},
            {"name": "same-2", "dbOptions": {"b": 2}},
            {"name": "same-3", "dbOptions": {"b": 2}},
        ])
    );
    assert_eq!(made["spec"]["scenarios"], json!([{"name": "s"}]));
    assert_eq!(made["spec"]["repetitions"], 12);
    assert!(made["spec"].get("matrix").is_none());
}
