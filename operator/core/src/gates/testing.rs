//! A good experiment to break one thing of at a time.

use std::collections::BTreeMap;

use assay_protocol::{Digest, EngineConfig, PageCache, Summary, TrialId, VERSION, Workload};
use serde_json::json;

use super::{Code, Gated, TrialState, check};
use crate::experiment::{ConfigUnderTest, Environment, Experiment, Scenario};
use crate::plan::{Block, Plan, Slot};
use crate::stats::{Adjust, Direction, Scale};
use crate::verdict::{MetricRule, Purpose};

pub const BLOCKS: u32 = 8;

/// One scenario, a baseline and a candidate that changes an option.
pub fn experiment() -> Experiment {
    let config = |name: &str, buffer: &str, changes: &[&str]| ConfigUnderTest {
        name: name.to_owned(),
        engine: EngineConfig {
            db_options: BTreeMap::from([("write_buffer_size".to_owned(), buffer.to_owned())]),
            ..EngineConfig::default()
        },
        changes: changes.iter().map(ToString::to_string).collect(),
        image: None,
    };
    Experiment {
        name: "buffers".to_owned(),
        spec: Digest::of(b"spec"),
        seed: 42,
        baseline: 0,
        configs: vec![
            config("base", "67108864", &[]),
            config("candidate", "1048576", &["write_buffer_size: 67108864 -> 1048576"]),
        ],
        scenarios: vec![scenario("fill")],
        repetitions: BLOCKS,
        looks: None,
        cells_adjust: Adjust::Holm,
        baseline_replicates: 1,
        metrics: vec![rule("throughput", Direction::Higher, Purpose::Objective)],
        queries: Vec::new(),
        cpus: 2,
        require_nvme: false,
        require_exclusive_cpus: false,
        environment: Environment::Dedicated,
        max_block_duration_seconds: 4 * 3600,
        max_wait_seconds: 24 * 3600,
    }
}

pub fn scenario(name: &str) -> Scenario {
    // Paced, with few steps and beside another role: tests change a rate or a latency alone, which could not happen to a
    // closed loop.
    let workload = json!({"keyValue": {
        "keys": 1000, "valueBytes": {"fixed": 100},
        "roles": [
            {"name": "writer", "steps": 10, "stepsPerSecond": 1, "mix": {"put": 1}},
            {"name": "reader", "steps": 10, "mix": {"get": 1}},
        ],
    }});
    let workload: Workload = serde_json::from_value(workload).unwrap_or_else(|error| unreachable!("{error}"));
    Scenario {
        name: name.to_owned(),
        weight: 1,
        workload,
        page_cache: PageCache::Evict,
        dataset_from: None,
        deadline_seconds: 600,
        max_disk_bytes: 1 << 30,
    }
}

pub fn rule(name: &str, direction: Direction, purpose: Purpose) -> MetricRule {
    MetricRule::new(name, direction, purpose, 0.05, Scale::Log)
}

/// A summary that no gate objects to.
pub fn summary(trial: &TrialId) -> Summary {
    let digest = |text: &str| Digest::of(text.as_bytes());
    let value = 1000.0 + f64::from(trial.block % 3) + f64::from(trial.replicate);
    let summary = json!({
        "version": VERSION,
        "plan": digest("plan"),
        "record": digest(&trial.file_stem()),
        "startedUnixMs": 1_700_000_000_000_u64 + u64::from(trial.block) * 60_000,
        "windowSeconds": 10.0,
        "metrics": {"throughput": value, "step_latency_mean": 1e6 / value},
        "parity": {
            "work": digest("work"),
            "counts": digest("counts"),
            "userBytes": 120_000,
            "answers": digest("answers"),
            "wrongAnswers": 0,
            "build": digest("build"),
            "buildKnown": true,
            "machine": digest("machine"),
            "boot": digest("boot"),
            "dataset": digest("dataset"),
            "datasetFiles": digest("files"),
        },
        "options": {
            "baseline": digest("base"),
            "config": digest(&trial.config),
            "effective": digest(&trial.config),
            "declared": u32::from(trial.config != "base"),
            "inert": {},
            "sanitised": {},
            "undeclared": {},
        },
        "placement": {
            "requestedCpus": 2, "affinityCpus": 2, "onlineCpus": 4, "stable": true, "wholeCores": true, "quotaCpus": 0.0,
        },
        "storage": {
            "nvme": true, "rotational": false, "freePercent": 70.0, "foreignWritePercent": 0.0, "replacedSysfs": false,
        },
        "disturbance": {
            "throttledPeriods": 0,
            "stealPercent": 0.0,
            "foreignCpuPercent": 0.2,
            "foreignCpuResolutionPercent": 0.1,
            "cpuPressureSomePercent": 20.0,
            "memoryPressureFullPercent": 0.0,
            "clockStepSeconds": 0.0,
        },
        "engagement": {
            "flushes": 5,
            "compactions": 2,
            "l0FilesPeak": 4,
            "filledMemtables": 5,
            "fullestMemtableBytes": 1_048_576,
            "idleFamilies": [],
            "stalls": 0,
            "userBytesWritten": 120_000,
            "walBytes": 130_000,
            "blockCacheHits": 10,
            "blockCacheMisses": 10,
            "bytesDecompressed": 50_000,
        },
        "primary": {
            "dbPercent": 90.0, "generatorPercent": 0.0, "idlePercent": 5.0, "computePercent": 0.0, "runQueuePercent": 1.0,
        },
        "steady": {
            "settledBefore": true,
            "debtInBytes": 0,
            "debtOutBytes": 0,
            "driftPercent": 0.0,
            "saturatedSteps": 0,
        },
        "trial": trial,
    });
    serde_json::from_value(summary).unwrap_or_else(|error| unreachable!("{error}"))
}

/// What makes a summary that of a failed trial.
pub fn fail(summary: &mut Summary, kind: &str) {
    let failure = json!({"kind": kind, "message": "as the weather wanted it"});
    summary.failure = Some(serde_json::from_value(failure).unwrap_or_else(|error| unreachable!("{error}")));
}

/// A plan without any randomness: block after block, the scenarios in turn.
pub fn plan(experiment: &Experiment) -> Plan {
    let slots: Vec<Slot> = experiment
        .configs
        .iter()
        .enumerate()
        .flat_map(|(index, config)| {
            let replicates = if index == experiment.baseline { experiment.baseline_replicates } else { 1 };
            (0..replicates).map(|replicate| Slot { config: config.name.clone(), replicate })
        })
        .collect();
    let blocks = (0..experiment.repetitions).flat_map(|number| {
        let slots = slots.clone();
        experiment.scenarios.iter().map(move |scenario| Block {
            scenario: scenario.name.clone(),
            number,
            seed: u64::from(number),
            slots: slots.clone(),
        })
    });
    Plan { version: 1, digest: Digest::of(b"plan"), experiment: experiment.clone(), blocks: blocks.collect() }
}

/// A good summary of every trial, block after block: the baseline's runs, then the other configs.
pub fn summaries(experiment: &Experiment) -> Vec<Summary> {
    let mut all = Vec::new();
    for scenario in &experiment.scenarios {
        for block in 0..experiment.repetitions {
            let mut order = 0;
            for (index, config) in experiment.configs.iter().enumerate() {
                let replicates = if index == experiment.baseline { experiment.baseline_replicates } else { 1 };
                for replicate in 0..replicates {
                    all.push(summary(&TrialId {
                        scenario: scenario.name.clone(),
                        block,
                        config: config.name.clone(),
                        replicate,
                        order,
                        attempt: 0,
                    }));
                    order += 1;
                }
            }
        }
    }
    all
}

/// Gates over good summaries of which one is changed.
pub fn gated_with(experiment: &Experiment, trial: usize, change: impl Fn(&mut Summary)) -> Gated {
    let mut summaries = summaries(experiment);
    change(&mut summaries[trial]);
    check(experiment, &summaries.iter().collect::<Vec<_>>())
}

pub fn gated_with_all(experiment: &Experiment, change: impl Fn(&mut Summary)) -> Gated {
    let mut summaries = summaries(experiment);
    summaries.iter_mut().for_each(change);
    check(experiment, &summaries.iter().collect::<Vec<_>>())
}

/// The codes that made a trial invalid.
pub fn codes(state: &TrialState) -> Vec<Code> {
    match state {
        TrialState::Invalid(findings) => findings.iter().map(|finding| finding.code).collect(),
        TrialState::Valid | TrialState::Held(_) | TrialState::Failed => Vec::new(),
    }
}
