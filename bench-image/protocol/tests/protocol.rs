//! The contract of the protocol: versions, the bound of the summary, committed schemas.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use assay_protocol::{
    DatasetSpec, Digest, EngineConfig, FamilyOptions, KeyOrder, KeyValue, MAX_SUMMARY_BYTES, METRICS, Mix, PageCache,
    Preload, Role, Summary, TrialId, TrialRecord, TrialSpec, VERSION, ValueBytes, VersionError, Workload,
};

/// The largest spec that validation lets through: longest names, most metrics, and the families of the largest
/// seed system.
fn largest() -> TrialSpec {
    let families: Vec<String> = (0..21).map(|number| format!("{number:f<63}")).collect();
    let mut metrics: Vec<String> =
        METRICS.iter().filter(|metric| metric.default_margin.is_some()).map(|metric| metric.name.to_owned()).collect();
    metrics
        .sort_by_key(|name| std::cmp::Reverse((!assay_protocol::FIXED_METRICS.contains(&name.as_str()), name.len())));
    metrics.truncate(16);
    let engine = EngineConfig {
        column_families: vec![FamilyOptions {
            r#match: families.clone(),
            options: [("compression".to_owned(), "kZSTD".to_owned())].into(),
        }],
        ..EngineConfig::default()
    };
    TrialSpec {
        version: VERSION,
        experiment: "e".repeat(253),
        plan: Digest::of(b""),
        trial: TrialId {
            scenario: "s".repeat(63),
            block: 0,
            config: "c".repeat(63),
            replicate: 0,
            order: 0,
            attempt: 0,
        },
        seed: 0,
        config: engine.clone(),
        baseline: engine.clone(),
        workload: Workload::KeyValue(KeyValue {
            keys: 1,
            key_bytes: 20,
            value_bytes: ValueBytes::Fixed(1),
            compressed_percent: 50,
            families,
            preload: Preload::Empty,
            roles: vec![Role {
                name: "r".repeat(16),
                threads: 1,
                steps: Some(1),
                until: None,
                warmup_steps: 0,
                steps_per_second: None,
                mix: Mix { put: 1, ..Mix::default() },
                batch: 1,
                scan_length: 1,
                key_order: KeyOrder::Uniform,
                zipfian_exponent: None,
            }],
        }),
        tuned_families: Vec::new(),
        dataset: DatasetSpec { seed: 0, format: engine, from: None },
        page_cache: PageCache::Evict,
        cpus: 1,
        deadline_seconds: 1,
        max_disk_bytes: 1,
        metrics,
    }
}

#[test]
fn the_summary_fits_at_21_families_and_the_most_metrics() {
    let bytes = Summary::worst_case_bytes(&largest()).unwrap();
    assert!(bytes <= MAX_SUMMARY_BYTES, "{bytes}");
    Summary::check_fits(&largest()).unwrap();
}

#[test]
fn a_spec_whose_summary_might_not_fit_is_refused() {
    let mut spec = largest();
    spec.trial.scenario = "s".repeat(3_000);
    let message = Summary::check_fits(&spec).unwrap_err().to_string();
    assert!(message.contains("4096"), "{message}");
}

#[test]
fn unknown_versions_are_refused_before_anything_else() {
    let mut spec = serde_json::to_value(largest()).unwrap();
    assert_eq!(TrialSpec::from_json(&serde_json::to_vec(&spec).unwrap()).unwrap(), largest());
    spec["version"] = 2.into();
    spec["fromTheFuture"] = true.into();
    let json = serde_json::to_vec(&spec).unwrap();
    assert!(matches!(TrialSpec::from_json(&json), Err(VersionError::Unknown { found: 2 })));
    assert!(matches!(TrialRecord::from_json(&json), Err(VersionError::Unknown { found: 2 })));
    assert!(matches!(Summary::from_json(b"{}"), Err(VersionError::Malformed(_))));
}

#[test]
fn committed_schemas_are_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    for (name, schema) in assay_protocol::schemas() {
        let committed = fs::read_to_string(folder.join(name)).unwrap_or_default();
        let fresh = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        assert!(committed == fresh, "schemas/{name} is stale: run `make generate`");
    }
}
