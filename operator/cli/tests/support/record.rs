//! What an undisturbed trial without RocksDB leaves: a record that every gate lets pass.

use std::collections::BTreeMap;

use assay_protocol::{
    Attestation, Build, DatasetFacts, Digest, Disturbance, Engagement, Evidence, Host, LsmState, Outcome, Placement,
    RoleTime, Series, Storage, TrialRecord, TrialSpec, VERSION, Work,
};

/// What differs from trial to trial.
pub struct Measured {
    pub started_unix_ms: u64,
    /// Steps a second.
    pub throughput: f64,
    /// Of every other metric that the experiment judges.
    pub other: f64,
    pub boot_id: Option<String>,
    /// CPUs that the trial could use, as the kernel lists them.
    pub cpus: Option<String>,
}

/// The record of a trial with these results.
pub fn record(spec: TrialSpec, spec_digest: Digest, measured: Measured) -> TrialRecord {
    let Measured { started_unix_ms, throughput, .. } = measured;
    let mut metrics = BTreeMap::from([
        ("throughput".to_owned(), throughput),
        ("drained_throughput".to_owned(), throughput),
        ("step_latency_mean".to_owned(), 1e6 / throughput),
    ]);
    for metric in &spec.metrics {
        metrics.entry(metric.clone()).or_insert(measured.other);
    }
    // A closed loop that is in its steps all the time.
    let steps = spec.workload.primary_role().map_or(0, |role| role.steps);
    let seconds = steps as f64 / throughput;
    let evidence = evidence(&spec, seconds, measured);
    TrialRecord {
        version: VERSION,
        spec_digest,
        outcome: Outcome::Completed,
        started_unix_ms,
        finished_unix_ms: started_unix_ms + 1000,
        window_started_unix_ms: started_unix_ms,
        window_seconds: seconds,
        metrics,
        work: Work {
            hash: Digest::of(&spec.seed.to_le_bytes()),
            counts: BTreeMap::new(),
            user_bytes: 1000,
            live_bytes: Some(1000),
            answers: None,
            wrong_answers: 0,
            policy_operations: 0,
        },
        dataset: DatasetFacts {
            content: Digest::of(b"content"),
            format: Digest::of(b"format"),
            entries: 10,
            logical_bytes: Some(1000),
            sst_bytes: 1000,
            files_by_level: vec![1],
        },
        evidence,
        latency: BTreeMap::new(),
        families: BTreeMap::new(),
        tickers: BTreeMap::new(),
        time_spent: BTreeMap::from([("process".to_owned(), seconds)]),
        series: Series {
            seconds: vec![1.0, 2.0],
            columns: BTreeMap::from([("steps_per_second".to_owned(), vec![1000.0, 1100.0])]),
        },
        spec,
    }
}

fn evidence(spec: &TrialSpec, seconds: f64, measured: Measured) -> Evidence {
    let Measured { boot_id, cpus, .. } = measured;
    let affinity_cpus = cpus.as_deref().map(count_cpus);
    let options = |config| Digest::of_json(config).ok();
    Evidence {
        build: Build {
            bench_version: "fake".to_owned(),
            binary: Some(Digest::of(b"fake")),
            rocksdb_version: "none".to_owned(),
            rocksdb_build: "none".to_owned(),
            allocator: "system".to_owned(),
            profile: "debug".to_owned(),
        },
        host: Host {
            hostname: None,
            kernel: None,
            boot_id,
            cpu_model: None,
            cpu_flags: None,
            online_cpus: Some(2),
            memory_bytes: None,
            governor: None,
            transparent_hugepage: None,
        },
        placement: Placement {
            requested_cpus: spec.cpus,
            affinity_before: cpus.clone(),
            affinity_after: cpus,
            affinity_cpus,
            cpuset: None,
            quota_cpus: Some(0.0),
            whole_cores: Some(true),
        },
        storage: Storage {
            filesystem: None,
            mount_options: None,
            device: None,
            model: None,
            rotational: None,
            transport: None,
            total_bytes: Some(1000),
            free_bytes_before: Some(800),
            free_bytes_after: Some(800),
            foreign_write_bytes: None,
            replaced_sysfs: None,
        },
        disturbance: Disturbance {
            throttled_periods: Some(0),
            steal_percent: Some(0.0),
            foreign_cpu_percent: Some(0.0),
            foreign_cpu_resolution_percent: Some(0.1),
            memory_pressure_full_percent: Some(0.0),
            clock_step_seconds: Some(0.0),
            neighbours: Some(Vec::new()),
            ..Disturbance::default()
        },
        attestation: Attestation {
            baseline_options: options(&spec.baseline),
            config_options: options(&spec.config),
            effective_options: options(&spec.config),
            ..Attestation::default()
        },
        lsm_before: LsmState::default(),
        lsm_after: LsmState::default(),
        own_triggers: Vec::new(),
        engagement: Engagement {
            flushes: Some(1),
            compactions: Some(1),
            compactions_due_peak: Some(2),
            ..Engagement::default()
        },
        role_time: BTreeMap::from([(
            "writer".to_owned(),
            RoleTime { threads: 1, wall_seconds: seconds, db_seconds: seconds, ..RoleTime::default() },
        )]),
        drift_percent: Some(0.0),
    }
}

/// Number of CPUs in a list such as `0-2,5`.
fn count_cpus(list: &str) -> u32 {
    list.split(',')
        .map(|range| match range.split_once('-') {
            Some((first, last)) => last.parse::<u32>().unwrap_or(0) - first.parse::<u32>().unwrap_or(0) + 1,
            None => 1,
        })
        .sum()
}
