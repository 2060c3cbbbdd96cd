//! Times planning and judging of a large experiment from summaries: 64 configs x 32 scenarios x 30 blocks, 2 metrics.
//!
//! `cargo run --release -p assay-core --example fleet -- SUMMARY`, where SUMMARY is the summary.json of any valid trial
//! on one CPU: all others are made from it.

use std::{env, error::Error, fs, time::Instant};

use assay_core::{attempt::Attempt, judge::judge, plan::Plan, validate::validate_document};
use assay_protocol::Summary;
use serde_json::json;

const CONFIGS: usize = 64;
const SCENARIOS: usize = 32;
const BLOCKS: usize = 30;
const STEPS: u32 = 100_000;

/// Noise of about 8 % that is the same in every run of this program.
fn noise(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as f64 / (1_u64 << 31) as f64
    };
    (0.16 * (uniform() + uniform() + uniform() - 1.5)).exp()
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: fleet SUMMARY")?;
    let template = Summary::from_json(&fs::read(path)?)?;
    let configs: Vec<_> = (0..=CONFIGS)
        .map(|number| json!({"name": format!("config-{number}"), "dbOptions": {"max_background_jobs": number + 1}}))
        .collect();
    let role = json!({"name": "writer", "steps": STEPS, "mix": {"put": 1}});
    let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100}, "roles": [role]}});
    let scenarios: Vec<_> =
        (0..SCENARIOS).map(|number| json!({"name": format!("scenario-{number}"), "workload": workload})).collect();
    let document = json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        "metadata": {"name": "fleet"},
        "spec": {
            "baseline": "config-0", "configs": configs, "scenarios": scenarios, "repetitions": BLOCKS,
            "objectives": [{"metric": "throughput"}], "guardrails": [{"metric": "step_latency_p99"}],
            "defaultGuardrails": "Remove",
        },
    });
    let start = Instant::now();
    let validation = validate_document(&document);
    let experiment = validation.experiment.ok_or_else(|| format!("{:?}", validation.problems))?;
    let plan = Plan::new(experiment)?;
    println!("{:8.2} s  validated and planned", start.elapsed().as_secs_f64());

    let mut state = 42;
    let attempts: Vec<Attempt> = plan
        .trials()
        .map(|trial| {
            let mut summary = template.clone();
            summary.plan = plan.digest.clone();
            summary.trial = trial;
            for metric in summary.metrics.values_mut() {
                *metric = noise(&mut state);
            }
            // What a closed loop of one thread can't have otherwise.
            let rate = STEPS as f64 / 10.0 * noise(&mut state);
            summary.window_seconds = STEPS as f64 / rate;
            summary.metrics.insert("throughput".to_owned(), rate);
            summary.metrics.insert("step_latency_mean".to_owned(), summary.primary.db_percent * 1e4 / rate);
            Attempt::Finished(summary.into())
        })
        .collect();
    let start = Instant::now();
    let report = judge(&plan, &attempts)?;
    println!("{:8.2} s  judged {} summaries", start.elapsed().as_secs_f64(), attempts.len());
    for config in report.configs.iter().take(3) {
        println!("            {} {:?} {}", config.config, config.ruling.verdict, config.ruling.reason);
    }
    Ok(())
}
