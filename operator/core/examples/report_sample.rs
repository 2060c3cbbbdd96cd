//! Writes report pages of invented experiments, to look at and to test in a browser:
//! `cargo run -p assay-core --example report_sample -- FOLDER`.
//!
//! The numbers are made up, everything else is real: the plan, the gates, the statistics and the page.

use std::{collections::BTreeMap, env, error::Error, fs, path::Path, sync::Arc};

use assay_core::attempt::Attempt;
use assay_core::import::{self, Collector, Place, Policy};
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::report::{
    Attachment, BuildFacts, MachineFacts, RecordFacts, Report, Setup, TimeCell, TimeRow, TimeTable, WIDTH, html,
    markdown, terminal,
};
use assay_core::stats::Interval;
use assay_core::validate::validate_document;
use assay_protocol::{Clock, Digest, Summary, TrialId, VERSION};
use serde_json::{Value, json};

/// What a config does to throughput and tail latency, by scenario.
struct Effect {
    name: &'static str,
    throughput: [f64; 3],
    p99: f64,
}

const SCENARIOS: [&str; 3] = ["fill", "overwrite", "read-while-writing"];
const EFFECTS: [Effect; 6] = [
    Effect { name: "per-level-compression", throughput: [1.16, 1.12, 1.09], p99: 0.93 },
    Effect { name: "small-buffers", throughput: [0.71, 0.64, 0.82], p99: 1.9 },
    Effect { name: "two-level-index", throughput: [1.0, 1.0, 1.0], p99: 1.0 },
    Effect { name: "fast-but-spiky", throughput: [1.22, 1.19, 1.12], p99: 1.8 },
    Effect { name: "more-background-jobs", throughput: [1.03, 1.02, 1.05], p99: 1.05 },
    Effect { name: "leaks-memory", throughput: [1.1, 1.1, 1.1], p99: 1.0 },
];

/// Steps of a run.
const STEPS: u64 = 400_000;

/// Noise that is the same in every run of this program.
struct Noise(u64);

impl Noise {
    fn factor(&mut self, size: f64) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as f64 / (1_u64 << 31) as f64
        };
        (2.0 * size * (uniform() + uniform() + uniform() - 1.5)).exp()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: report_sample FOLDER")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let (plan, attempts) = experiment(1..EFFECTS.len() - 1, 1, 12)?;
    let mut report = judge(&plan, &attempts)?;
    report.time_spent = times(&report);
    seen(&mut report);
    fs::write(folder.join("small.html"), html(&report, &attachments(&report), Some(FILE)))?;
    fs::write(folder.join("small.md"), markdown(&report))?;
    fs::write(folder.join("small.txt"), terminal(&report, WIDTH))?;
    let part = judge(&plan, &attempts[..attempts.len() / 3])?;
    fs::write(folder.join("partial.html"), html(&part, &[], None))?;
    fs::write(folder.join("imported.html"), imported()?)?;
    // One config, and nothing that counts.
    let (plan, attempts) = experiment(0..1, 1, 8)?;
    let report = judge(&plan, &attempts)?;
    fs::write(folder.join("single.html"), html(&report, &attachments(&report), None))?;
    let broken = attempts.into_iter().map(|attempt| match attempt {
        Attempt::Finished(mut summary) => {
            Arc::make_mut(&mut summary).disturbance.throttled_periods = Some(7);
            Attempt::Finished(summary)
        }
        lost @ Attempt::Lost(_) => lost,
    });
    let broken = judge(&plan, &broken.collect::<Vec<_>>())?;
    fs::write(folder.join("invalid.html"), html(&broken, &[], Some(FILE)))?;
    let (plan, attempts) = experiment(0..EFFECTS.len(), 3, 12)?;
    let mut report = judge(&plan, &attempts)?;
    report.time_spent = times(&report);
    seen(&mut report);
    fs::write(folder.join("large.html"), html(&report, &attachments(&report), Some(FILE)))?;
    Ok(())
}

/// Results of another benchmark, with and without blocks, and with copies among them.
fn imported() -> Result<String, Box<dyn Error>> {
    let metric = |name: &str, direction: &str| json!({"metric": name, "direction": direction, "margin": "5%"});
    let (rate, tail) = (metric("ops_per_sec", "higher"), metric("p99_us", "lower"));
    let policy = Policy::read(&json!({"baseline": "old", "objectives": [rate], "guardrails": [tail]}));
    let policy = policy.map_err(|problems| format!("{problems:?}"))?;
    let mut to = Collector::new(&policy);
    let (file, mut noise) = (to.file("runs.csv"), Noise(3));
    for (line, block) in (0..12).flat_map(|block| [block; 4]).enumerate() {
        let (config, gain) = [("old", 1.0), ("new", 1.2), ("copied", 1.1), ("slow", 0.8)][line % 4];
        let chance = if config == "copied" { 1.0 } else { noise.factor(0.02) };
        let (ops, p99) = (format!("{:.1}", 48_000.0 * gain * chance), format!("{:.2}", 150.0 / gain * chance));
        for session in ["blocked", "loose"] {
            let fields = [("session", session), ("config", config), ("ops_per_sec", &ops), ("p99_us", &p99)];
            let block = [("block", block.to_string())];
            let block = block.iter().filter(|_| session == "blocked").map(|(column, value)| (*column, value.as_str()));
            to.row(Place { file, line: line as u64 + 2 }, fields.into_iter().chain(block));
        }
    }
    let report = to.finish().and_then(|data| import::judge(&data, &policy));
    Ok(import::html(&report.map_err(|problems| format!("{problems:?}"))?))
}

/// The beginning of an experiment's file, with a line that is wider than a phone.
const FILE: &str = "apiVersion: assay.rocks/v1alpha1\nkind: TuningExperiment\nmetadata: {name: compression-and-buffers}\nspec:\n  \
                    baseline: default\n  configs:\n  - {name: per-level-compression, dbOptions: \
                    {compression_per_level: 'kNoCompression:kNoCompression:kLZ4Compression:kZSTD', max_background_jobs: 3}}\n";

/// What only full records know.
fn seen(report: &mut Report) {
    let configs = std::iter::once("default").chain(report.configs.iter().map(|config| config.config.as_str()));
    let configs: Vec<&str> = configs.collect();
    let mut all = Vec::new();
    for scenario in &report.design.scenarios {
        for config in &configs {
            let effect = EFFECTS.iter().find(|effect| effect.name == *config);
            let (fast, slow) = effect.map_or((1.0, 1.0), |effect| (effect.throughput[0], effect.p99));
            let medians = [
                ("step_latency_p50", 2.4 / fast),
                ("step_latency_p90", 5.0 / fast),
                ("step_latency_p99", 14.5 * slow),
                ("step_latency_p999", 110.0 * slow),
                ("step_latency_max", 91_000.0 * slow),
                ("stall_fraction", 0.04 * slow),
                ("db_bytes", 5.2e8),
            ];
            all.push(RecordFacts {
                scenario: scenario.clone(),
                config: (*config).to_owned(),
                runs: report.design.blocks,
                medians: medians.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                stalls: Some((12.0 * slow).round()),
                stall_seconds: Some(18.4 * slow),
            });
        }
    }
    let started = report.trials.iter().map(|trial| trial.started_unix_ms).min().unwrap_or_default();
    let machine = MachineFacts {
        name: Some("worker-7".to_owned()),
        attempts: report.trials.len() as u32,
        cpu_model: Some("AMD EPYC 7763 64-Core Processor".to_owned()),
        online_cpus: Some(64),
        trial_cpus: 4,
        memory_bytes: Some(256 << 30),
        kernel: Some("6.8.0-45-generic".to_owned()),
        disk_model: Some("Micron_7450_MTFDKBG3T8TFR".to_owned()),
        disk: Some("nvme0n1".to_owned()),
        disk_transport: Some("pcie".to_owned()),
        rotational: Some(false),
        filesystem: Some("ext4".to_owned()),
        mount_options: Some("rw,noatime".to_owned()),
        filesystem_bytes: Some(3 << 40),
        ..MachineFacts::default()
    };
    let build = BuildFacts {
        configs: configs.iter().map(ToString::to_string).collect(),
        rocksdb_version: "11.8.1".to_owned(),
        rocksdb_build: "clang 18.1.3, -O2 -march=x86-64-v3, snappy lz4 zstd".to_owned(),
        allocator: "system".to_owned(),
        bench_version: "0.1.0".to_owned(),
        profile: "release".to_owned(),
    };
    report.records = all;
    report.setup = Some(Setup {
        machines: vec![machine],
        builds: vec![build],
        started_unix_ms: started,
        finished_unix_ms: started + 5_400_000,
        neighbours: Some(Vec::new()),
        neighbours_unknown: 0,
    });
}

/// An experiment with these configs and the first scenarios, run to its end.
fn experiment(
    configs: std::ops::Range<usize>,
    scenarios: usize,
    blocks: u32,
) -> Result<(Plan, Vec<Attempt>), Box<dyn Error>> {
    let effects = &EFFECTS[configs];
    let names = std::iter::once("default").chain(effects.iter().map(|effect| effect.name)).enumerate();
    let configs: Vec<Value> =
        names.map(|(i, name)| json!({"name": name, "dbOptions": {"max_background_jobs": i + 2}})).collect();
    let role = json!({"name": "writer", "steps": STEPS, "mix": {"put": 1}});
    let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100}, "roles": [role]}});
    let scenarios: Vec<Value> =
        SCENARIOS[..scenarios].iter().map(|name| json!({"name": name, "workload": workload})).collect();
    let document = json!({
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningExperiment",
        "metadata": {"name": "compression-and-buffers"},
        "spec": {
            "baseline": "default", "configs": configs, "scenarios": scenarios, "repetitions": blocks, "seed": 7,
            "objectives": [{"metric": "throughput"}], "guardrails": [{"metric": "step_latency_p99"}],
            "defaultGuardrails": "Remove",
        },
    });
    let validation = validate_document(&document);
    let plan = Plan::new(validation.experiment.ok_or_else(|| format!("{:?}", validation.problems))?)?;
    let mut noise = Noise(42);
    let mut attempts = Vec::new();
    let mut block = BTreeMap::new();
    for (number, trial) in plan.trials().enumerate() {
        // A block has its own speed, and the machine gets slower meanwhile.
        let own = *block.entry((trial.scenario.clone(), trial.block)).or_insert_with(|| noise.factor(0.04));
        let drift = 1.0 - 0.0001 * number as f64;
        let mut summary: Summary = serde_json::from_value(summary(&plan, &trial, number as u64))?;
        let effect = EFFECTS.iter().find(|effect| effect.name == trial.config);
        let scenario = SCENARIOS.iter().position(|name| *name == trial.scenario).unwrap_or(0);
        let (faster, slower) = effect.map_or((1.0, 1.0), |effect| (effect.throughput[scenario], effect.p99));
        let throughput = 110_000.0 * (1.0 + 0.3 * scenario as f64) * own * drift * faster * noise.factor(0.02);
        summary.window_seconds = STEPS as f64 / throughput;
        summary.metrics.insert("throughput".to_owned(), throughput);
        summary.metrics.insert("step_latency_p99".to_owned(), 14.5 * slower / own * noise.factor(0.03));
        if trial.config == "leaks-memory" && trial.block % 2 == 0 {
            summary.failure = serde_json::from_value(json!({"kind": "OutOfMemory", "message": "grew beyond 8 GiB"}))?;
        }
        if number % 41 == 17 && summary.failure.is_none() {
            let mut disturbed = summary.clone();
            disturbed.disturbance.throttled_periods = Some(7);
            attempts.push(Attempt::Finished(Arc::new(disturbed)));
            summary.trial.attempt = 1;
            summary.started_unix_ms += 1_000;
        }
        attempts.push(Attempt::Finished(Arc::new(summary)));
    }
    Ok((plan, attempts))
}

/// A summary that no gate objects to.
fn summary(plan: &Plan, trial: &TrialId, number: u64) -> Value {
    let digest = |text: &str| Digest::of(text.as_bytes());
    json!({
        "version": VERSION,
        "plan": plan.digest,
        "record": digest(&trial.file_stem()),
        "trial": trial,
        "startedUnixMs": 1_700_000_000_000 + number * 15_000,
        "windowSeconds": 10.0,
        "metrics": {},
        "parity": {
            "work": digest("work"), "counts": digest("counts"), "userBytes": 120_000, "answers": digest("answers"),
            "wrongAnswers": 0, "build": digest("build"), "buildKnown": true, "machine": digest("machine"),
            "boot": digest("boot"), "dataset": digest("dataset"), "datasetFiles": digest("files"),
        },
        "options": {
            "baseline": digest("default"), "config": digest(&trial.config), "effective": digest(&trial.config),
            "declared": u32::from(trial.config != "default"), "inert": {}, "sanitised": {}, "undeclared": {},
        },
        "placement": {
            "requestedCpus": plan.experiment.cpus, "affinityCpus": plan.experiment.cpus, "onlineCpus": 16,
            "stable": true, "wholeCores": true, "quotaCpus": 0.0,
        },
        "storage": {
            "nvme": true, "rotational": false, "freePercent": 70.0, "foreignWritePercent": 0.0, "replacedSysfs": false,
        },
        "disturbance": {
            "throttledPeriods": 0, "stealPercent": 0.0, "foreignCpuPercent": 0.2,
            "foreignCpuResolutionPercent": 0.1, "cpuPressureSomePercent": 20.0, "memoryPressureFullPercent": 0.0,
            "clockStepSeconds": 0.0,
        },
        "engagement": {},
        "primary": {
            "dbPercent": 90.0, "generatorPercent": 5.0, "idlePercent": 0.0, "computePercent": 0.0, "runQueuePercent": 1.0,
        },
        "steady": {
            "settledBefore": true, "debtInBytes": 0, "debtOutBytes": 0,
            "driftPercent": 0.0, "saturatedSteps": 0,
        },
    })
}

/// Curves of about the shape that RocksDB gives.
fn attachments(report: &Report) -> Vec<Attachment> {
    let mut noise = Noise(7);
    let mut all = Vec::new();
    for scenario in &report.design.scenarios {
        let configs = std::iter::once("default").chain(report.configs.iter().map(|config| config.config.as_str()));
        for config in configs {
            let effect = EFFECTS.iter().find(|effect| effect.name == config);
            let (fast, slow) = effect.map_or((1.0, 1.0), |effect| (effect.throughput[0], effect.p99));
            let seconds = (40.0 / fast) as u32;
            let mut column = |of: &dyn Fn(f64) -> f64| -> Vec<f64> {
                (0..seconds).map(|second| of(f64::from(second) + 0.5) * noise.factor(0.06)).collect()
            };
            let series = [
                ("steps_per_second", column(&|_| 110_000.0 * fast)),
                ("write_amplification", column(&|t| (1.1 + 4.0 * (1.0 - (-t / 9.0).exp())) / fast)),
                ("stall_fraction", column(&|t| if t < 6.0 { 0.0 } else { (0.2 * slow - 0.1).max(0.0) })),
                ("flush_bytes_per_second", column(&|_| 21e6 * fast)),
                ("compaction_write_bytes_per_second", column(&|t| 88e6 * (1.0 - (-t / 6.0).exp()))),
                ("l0_files", column(&|t| 4.0 + 3.0 * (t / 3.0).sin()).into_iter().map(f64::round).collect()),
                ("pending_compaction_bytes", column(&|t| 6e6 * slow * t.sqrt())),
            ];
            let latency = (0..=52).map(|i| 10_f64.powf(f64::from(i) / 10.0)).map(|one_in| {
                let body = 2_400.0 * one_in.powf(0.35) / fast;
                let tail = 9_000.0 * slow * (one_in / 40.0).powf(0.7);
                (one_in, (body + tail) as u64)
            });
            all.push(Attachment {
                scenario: scenario.clone(),
                config: config.to_owned(),
                trials: 12,
                latency: latency.collect(),
                seconds_per_point: 1.0,
                series: series.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
            });
        }
    }
    all
}

/// Times of which compression and compaction follow throughput.
fn times(report: &Report) -> Vec<TimeTable> {
    const PARTS: [(&str, Clock, u32, f64, f64); 6] = [
        ("process", Clock::Cpu, 0, 15.2, 1.0),
        ("workload_threads", Clock::Cpu, 1, 6.1, 0.0),
        ("compaction_threads", Clock::Cpu, 1, 8.4, 1.0),
        ("write", Clock::Wall, 0, 5.5, 0.0),
        ("write_memtable", Clock::SampledWall, 1, 1.9, 0.0),
        ("compression", Clock::Wall, 0, 3.3, 0.8),
    ];
    let row = |(component, clock, depth, baseline, follows): (&str, Clock, u32, f64, f64)| {
        let cell = |config: &str| {
            let effect = EFFECTS.iter().find(|effect| effect.name == config);
            let more = effect.map_or(0.0, |effect| follows * baseline * (1.0 / effect.throughput[0] - 1.0));
            TimeCell {
                config: config.to_owned(),
                mean: Some(baseline + more),
                difference: Some(more),
                interval95: Some(Interval { low: Some(more - 0.2), high: Some(more + 0.2) }),
            }
        };
        let configs = report.configs.iter().map(|config| cell(&config.config)).collect();
        TimeRow { component: component.to_owned(), clock, depth, baseline, configs }
    };
    let table = |scenario: &String| TimeTable {
        scenario: scenario.clone(),
        role: "writer".to_owned(),
        rows: PARTS.into_iter().map(row).collect(),
    };
    report.design.scenarios.iter().map(table).collect()
}
