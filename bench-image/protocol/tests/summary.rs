//! Which field of a summary follows from which field of a record, for all of them. What gates and statistics see is the summary, so a
//! field that comes from the wrong place is a wrong verdict.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::{Digest, METRICS, Summary, TrialRecord, TrialSpec};
use serde_json::Value;

/// A record in which nothing is unknown, every list has something, and no two numbers are equal.
fn record() -> Value {
    serde_json::from_str(include_str!("data/full-record.json")).unwrap()
}

/// `None` where it is no record.
fn summary(record: Value) -> Option<Value> {
    let record: TrialRecord = serde_json::from_value(record).ok()?;
    Some(serde_json::to_value(Summary::of(&record, b"the record").unwrap()).unwrap())
}

/// Numbers, texts and the like, by the way to them. An empty list or object is one too, and null.
fn leaves(value: &Value, at: &str, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, field)| leaves(field, &format!("{at}/{name}"), out));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, item)| leaves(item, &format!("{at}/{index}"), out));
        }
        leaf => {
            out.insert(at.trim_start_matches('/').to_owned(), leaf.clone());
        }
    }
}

fn leaves_of(value: &Value) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    leaves(value, "", &mut out);
    out
}

/// Which leaves differ.
fn changed(before: &Value, after: &Value) -> BTreeSet<String> {
    let (before, after) = (leaves_of(before), leaves_of(after));
    before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// Field of the record, fields of the summary that change with it.
const FIELDS: &[(&str, &[&str])] = &[
    ("version", &["version"]),
    ("spec/version", &[]),
    ("spec/experiment", &[]),
    ("spec/plan", &["plan"]),
    ("spec/trial/scenario", &["trial/scenario"]),
    ("spec/trial/block", &["trial/block"]),
    ("spec/trial/config", &["trial/config"]),
    ("spec/trial/replicate", &["trial/replicate"]),
    ("spec/trial/order", &["trial/order"]),
    ("spec/trial/attempt", &["trial/attempt"]),
    ("spec/seed", &[]),
    ("spec/tunedFamilies/0", &[]),
    ("spec/pageCache", &[]),
    ("spec/cpus", &[]),
    ("spec/deadlineSeconds", &[]),
    ("spec/maxDiskBytes", &[]),
    // Metrics that the experiment judges are in the summary beside the fixed ones.
    ("spec/metrics/0", &["metrics/wal_bytes"]),
    ("spec/metrics/1", &["metrics/step_latency_p90"]),
    // The primary role is the first one, and here there is none of another name.
    (
        "spec/workload/keyValue/roles/0/name",
        &[
            "primary/dbPercent",
            "primary/generatorPercent",
            "primary/idlePercent",
            "primary/computePercent",
            "primary/runQueuePercent",
            "steady/saturatedSteps",
        ],
    ),
    ("specDigest", &[]),
    ("outcome", &[]),
    ("startedUnixMs", &["startedUnixMs"]),
    ("finishedUnixMs", &[]),
    ("windowStartedUnixMs", &[]),
    ("windowSeconds", &["windowSeconds"]),
    ("work/hash", &["parity/work"]),
    ("work/userBytes", &["parity/userBytes"]),
    ("work/liveBytes", &[]),
    ("work/answers", &["parity/answers"]),
    ("work/wrongAnswers", &["parity/wrongAnswers"]),
    ("work/policyOperations", &[]),
    ("dataset/content", &["parity/dataset"]),
    ("dataset/format", &["parity/datasetFiles"]),
    ("dataset/entries", &[]),
    ("dataset/logicalBytes", &[]),
    ("dataset/sstBytes", &["parity/datasetFiles"]),
    ("dataset/filesByLevel/0", &["parity/datasetFiles"]),
    ("dataset/filesByLevel/1", &["parity/datasetFiles"]),
    ("evidence/build/benchVersion", &["parity/build"]),
    ("evidence/build/binary", &["parity/build"]),
    ("evidence/build/rocksdbVersion", &["parity/build"]),
    ("evidence/build/rocksdbBuild", &["parity/build"]),
    ("evidence/build/allocator", &["parity/build"]),
    ("evidence/build/profile", &["parity/build"]),
    ("evidence/host/hostname", &[]),
    ("evidence/host/kernel", &["parity/machine"]),
    ("evidence/host/bootId", &["parity/boot"]),
    ("evidence/host/cpuModel", &["parity/machine"]),
    ("evidence/host/cpuFlags", &["parity/machine"]),
    ("evidence/host/onlineCpus", &["placement/onlineCpus"]),
    ("evidence/host/memoryBytes", &[]),
    ("evidence/host/governor", &[]),
    ("evidence/host/transparentHugepage", &[]),
    ("evidence/placement/requestedCpus", &["placement/requestedCpus"]),
    ("evidence/placement/affinityBefore", &["placement/stable"]),
    ("evidence/placement/affinityAfter", &["placement/stable"]),
    ("evidence/placement/affinityCpus", &["placement/affinityCpus"]),
    ("evidence/placement/cpuset", &[]),
    ("evidence/placement/quotaCpus", &["placement/quotaCpus"]),
    ("evidence/placement/wholeCores", &["placement/wholeCores"]),
    ("evidence/storage/filesystem", &[]),
    ("evidence/storage/mountOptions", &[]),
    ("evidence/storage/device", &["storage/nvme"]),
    ("evidence/storage/model", &[]),
    ("evidence/storage/rotational", &["storage/rotational"]),
    ("evidence/storage/transport", &["storage/nvme"]),
    ("evidence/storage/totalBytes", &["storage/freePercent"]),
    ("evidence/storage/freeBytesBefore", &[]),
    ("evidence/storage/freeBytesAfter", &["storage/freePercent"]),
    ("evidence/storage/foreignWriteBytes", &["storage/foreignWritePercent"]),
    ("evidence/storage/replacedSysfs", &[]),
    ("evidence/disturbance/throttledPeriods", &["disturbance/throttledPeriods"]),
    ("evidence/disturbance/throttledSeconds", &[]),
    ("evidence/disturbance/stealPercent", &["disturbance/stealPercent"]),
    ("evidence/disturbance/foreignCpuPercent", &["disturbance/foreignCpuPercent"]),
    ("evidence/disturbance/kernelCpuPercent", &["disturbance/kernelCpuPercent"]),
    ("evidence/disturbance/foreignCpuResolutionPercent", &["disturbance/foreignCpuResolutionPercent"]),
    ("evidence/disturbance/cpuPressureSomePercent", &["disturbance/cpuPressureSomePercent"]),
    ("evidence/disturbance/memoryPressureFullPercent", &[]),
    ("evidence/disturbance/foreignMemoryPressurePercent", &["disturbance/foreignMemoryPercent"]),
    ("evidence/disturbance/ioPressureFullPercent", &[]),
    ("evidence/disturbance/involuntarySwitches", &[]),
    ("evidence/disturbance/majorFaults", &[]),
    ("evidence/disturbance/clockStepSeconds", &["disturbance/clockStepSeconds"]),
    ("evidence/disturbance/neighbours/0/name", &[]),
    ("evidence/disturbance/neighbours/0/cpuPercent", &[]),
    ("evidence/attestation/baselineOptions", &["options/baseline"]),
    ("evidence/attestation/configOptions", &["options/config"]),
    ("evidence/attestation/effectiveOptions", &["options/effective"]),
    ("evidence/attestation/facts/1/option", &["options/inert/names/0"]),
    ("evidence/attestation/facts/2/option", &["options/sanitised/names/0"]),
    ("evidence/attestation/facts/5/option", &["options/undeclared/names/0"]),
    ("evidence/attestation/facts/1/status", &["options/inert/count", "options/inert/names", "options/inert/names/0"]),
    (
        "evidence/attestation/facts/2/status",
        &["options/sanitised/count", "options/sanitised/names", "options/sanitised/names/0"],
    ),
    (
        "evidence/attestation/facts/5/status",
        &["options/undeclared/count", "options/undeclared/names", "options/undeclared/names/0"],
    ),
    // The first of them becomes Inert, and is named beside the one that is.
    ("evidence/attestation/facts/0/status", &["options/inert/count", "options/inert/names/0", "options/inert/names/1"]),
    ("evidence/lsmBefore/pendingCompactionBytes", &["steady/debtInBytes"]),
    ("evidence/lsmBefore/settled", &["steady/settledBefore"]),
    ("evidence/lsmBefore/unmergedBytes", &["steady/postponedPercent"]),
    ("evidence/lsmAfter/pendingCompactionBytes", &["steady/debtOutBytes"]),
    ("evidence/lsmAfter/unmergedBytes", &["steady/postponedPercent"]),
    ("evidence/ownTriggers/0", &[]),
    ("evidence/roleTime/reader/threads", &[]),
    (
        "evidence/roleTime/reader/wallSeconds",
        &[
            "primary/dbPercent",
            "primary/generatorPercent",
            "primary/idlePercent",
            "primary/computePercent",
            "primary/runQueuePercent",
        ],
    ),
    ("evidence/roleTime/reader/dbSeconds", &["primary/dbPercent"]),
    ("evidence/roleTime/reader/generatorSeconds", &["primary/generatorPercent"]),
    ("evidence/roleTime/reader/idleSeconds", &["primary/idlePercent"]),
    ("evidence/roleTime/reader/computeSeconds", &["primary/computePercent"]),
    ("evidence/roleTime/reader/runQueueSeconds", &["primary/runQueuePercent"]),
    ("evidence/roleTime/reader/cpuSeconds", &[]),
    ("evidence/driftPercent", &["steady/driftPercent"]),
    ("latency/reader/count", &[]),
    ("latency/reader/saturated", &["steady/saturatedSteps"]),
    ("latency/reader/fromIntendedStart", &[]),
    ("latency/reader/histogram", &[]),
];

/// Parts of the record of which nothing is in the summary. What decides about plan, work and options there is in their digests.
const LEFT_OUT: &[&str] = &[
    "spec/config/",
    "spec/baseline/",
    "spec/workload/",
    "spec/dataset/",
    "evidence/attestation/facts/",
    "evidence/attestation/options/",
    "evidence/lsmBefore/",
    "evidence/lsmAfter/",
    "evidence/roleTime/writer/",
    "latency/writer/",
    "families/",
    "tickers/",
    "timeSpent/",
    "series/",
];

/// Metrics that every summary has. Written out again: one that the protocol forgets must not be forgotten here.
const FIXED: &[&str] = &[
    "throughput",
    "drained_throughput",
    "step_latency_mean",
    "step_latency_p50",
    "step_latency_p99",
    "write_amplification",
    "stall_fraction",
    "compaction_write_bytes",
    "cpu_seconds_per_step",
    "rss_peak_bytes",
    "db_bytes",
    "debt_out_bytes",
];

/// Metrics from which another field follows.
const METRIC_ELSEWHERE: &[(&str, &str)] =
    &[("device_write_bytes", "storage/foreignWritePercent"), ("overdue_percent", "steady/overduePercent")];

/// What changes with a field, or `None` where nothing says so.
fn follows(field: &str) -> Option<BTreeSet<String>> {
    if let Some((_, fields)) = FIELDS.iter().find(|(of, _)| *of == field) {
        return Some(fields.iter().map(|field| (*field).to_owned()).collect());
    }
    if let Some(name) = field.strip_prefix("metrics/") {
        let declared = ["wal_bytes", "step_latency_p90"];
        let elsewhere = METRIC_ELSEWHERE.iter().filter(|(metric, _)| *metric == name).map(|(_, field)| *field);
        let own = Some(field).filter(|_| FIXED.contains(&name) || declared.contains(&name));
        return Some(elsewhere.chain(own).map(str::to_owned).collect());
    }
    // Of the planned roles, what they did is equal in a block.
    if field.starts_with("work/counts/") {
        return Some(["parity/counts".to_owned()].into());
    }
    // A share of what was written.
    if field == "evidence/engagement/userBytesWritten" {
        return Some(["engagement/userBytesWritten".to_owned(), "steady/postponedPercent".to_owned()].into());
    }
    // Both have the same type.
    if let Some(own) = field.strip_prefix("evidence/").filter(|field| field.starts_with("engagement/")) {
        return Some([own.to_owned()].into());
    }
    LEFT_OUT.iter().any(|part| field.starts_with(part)).then(BTreeSet::new)
}

/// Other values that a field may have.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(is) => vec![(!is).into()],
        Value::Number(number) if number.is_u64() => vec![(number.as_u64().unwrap() + 1).into()],
        Value::Number(number) => vec![(number.as_f64().unwrap() * 1.5 + 1.0).into()],
        // A name, a digest, or one of an enumeration's.
        Value::String(text) => {
            let digest = Digest::of(text.as_bytes());
            let other = |other: &&str| *other != text;
            [digest.as_str(), "Warm", "Applied", "Inert", "Uniform", "Zipfian", "Empty"]
                .into_iter()
                .filter(other)
                .map(Value::from)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The record with another value at a place, and its summary.
fn with(field: &str, value: Value) -> Option<Value> {
    let mut record = record();
    *record.pointer_mut(&format!("/{field}")).unwrap() = value;
    summary(record)
}

#[test]
fn a_field_of_the_record_changes_its_own_fields_of_the_summary() {
    let before = summary(record()).unwrap();
    for (field, value) in leaves_of(&record()) {
        let Some(expected) = follows(&field) else { panic!("{field} has no row: say what follows from it") };
        let after = others(&value).into_iter().find_map(|other| with(&field, other));
        match after {
            Some(after) => assert_eq!(changed(&before, &after), expected, "{field}"),
            // The only word that stands alone.
            None => assert!(["outcome", "spec/workload/keyValue/roles/1/until"].contains(&field.as_str()), "{field}"),
        }
    }
    for (field, _) in FIELDS {
        assert!(record().pointer(&format!("/{field}")).is_some(), "no record has {field}");
    }
}

/// Fields of the summary that say whether something is known, or cover several fields.
const NEVER_NULL: &[&str] = &["parity/build", "parity/buildKnown", "parity/machine", "storage/replacedSysfs"];

#[test]
fn what_is_unknown_in_the_record_is_unknown_in_the_summary() {
    let before = summary(record()).unwrap();
    let mut optional = 0;
    for field in leaves_of(&record()).into_keys() {
        let Some(after) = with(&field, Value::Null) else { continue };
        optional += 1;
        let mut expected = follows(&field).unwrap();
        match field.as_str() {
            "evidence/build/binary" => expected.extend(["parity/buildKnown".to_owned()]),
            "evidence/storage/replacedSysfs" => expected.extend(["storage/replacedSysfs".to_owned()]),
            // What reads find is no parity without answers, so the digest is another one.
            "work/answers" => expected.extend(["parity/counts".to_owned()]),
            // There is room for its own then.
            "evidence/disturbance/foreignMemoryPressurePercent" => {
                expected.extend(["disturbance/memoryPressureFullPercent".to_owned()]);
            }
            // It is not declared any more.
            _ if field.ends_with("/declared") => expected.extend(["options/declared".to_owned()]),
            _ => {}
        }
        assert_eq!(changed(&before, &after), expected, "{field}");
        for known in expected.iter().filter(|path| !NEVER_NULL.contains(&path.as_str())) {
            let value = after.pointer(&format!("/{known}")).unwrap_or(&Value::Null);
            let others = ["parity/counts", "options/declared", "disturbance/memoryPressureFullPercent"];
            let is_counted = others.contains(&known.as_str());
            assert!(value.is_null() || is_counted, "{field} is unknown, and {known} is {value}");
        }
    }
    assert!(optional > 60, "{optional}");
}

/// The numbers, by hand: a share is of the primary role's 200 s of wall time, of 1000 bytes in all, or of 470 + 1410 written bytes.
#[test]
fn the_summary_of_the_record_is_this() {
    let mut found = summary(record()).unwrap();
    let digests = ["counts", "build", "machine", "datasetFiles"];
    let digests = digests.map(|name| found["parity"].as_object_mut().unwrap().remove(name).unwrap());
    let expected: Value = serde_json::from_str(include_str!("data/full-summary.json")).unwrap();
    assert_eq!(found, expected);
    assert_eq!(digests.iter().map(Value::to_string).collect::<BTreeSet<_>>().len(), digests.len());
}

/// Fields that a schema has and a document lacks.
fn lacking(schema: &Value, root: &Value, document: &Value, at: &str, out: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return lacking(root.pointer(reference.trim_start_matches('#')).unwrap(), root, document, at, out);
    }
    // An optional field, or a document of several kinds, of which it has to be one.
    for kind in ["anyOf", "oneOf"] {
        for branch in schema[kind].as_array().into_iter().flatten() {
            let has_it = |name: &String| document.get(name).is_some();
            let own = branch["properties"].as_object().is_none_or(|fields| fields.keys().all(has_it));
            if branch["type"] != "null" && own {
                lacking(branch, root, document, at, out);
            }
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        match document.get(name) {
            Some(value) if !value.is_null() => lacking(field, root, value, &format!("{at}/{name}"), out),
            _ => out.push(format!("{at}/{name}")),
        }
    }
    match document {
        Value::Array(items) if items.is_empty() => out.push(format!("{at} is empty")),
        Value::Array(items) => items.iter().for_each(|item| lacking(&schema["items"], root, item, at, out)),
        Value::Object(fields) if fields.is_empty() => out.push(format!("{at} is empty")),
        Value::Object(fields) if schema["additionalProperties"].is_object() => {
            fields.values().for_each(|value| lacking(&schema["additionalProperties"], root, value, at, out));
        }
        _ => {}
    }
}

/// Else a new field had no row and nobody would notice.
#[test]
fn the_record_has_every_field_that_records_have() {
    let schema = schemars::schema_for!(TrialRecord).to_value();
    let found = |document: &Value| {
        let mut out = Vec::new();
        lacking(&schema, &schema, document, "", &mut out);
        out
    };
    // A fact lacks what it is about, a role what another one has.
    let may_lack = |path: &String| {
        path == "/evidence/attestation/facts/declared" || path.starts_with("/spec/workload/keyValue/roles/")
    };
    let lacks: Vec<String> = found(&record()).into_iter().filter(|path| !may_lack(path)).collect();
    assert_eq!(lacks, Vec::<String>::new());
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let record_of_all = record();
    assert_eq!(
        record_of_all["metrics"].as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>(),
        names
    );
    // It is noticed where one is missing, wherever that is.
    let mut poorer = record();
    poorer["evidence"]["host"]["governor"] = Value::Null;
    poorer["evidence"]["attestation"].as_object_mut().unwrap().remove("options");
    assert_eq!(
        found(&poorer).into_iter().filter(|path| !may_lack(path)).collect::<Vec<_>>(),
        ["/evidence/host/governor", "/evidence/attestation/options"].into_iter().rev().collect::<Vec<_>>()
    );
}

#[test]
fn what_is_put_off_is_a_share_of_what_was_written() {
    let postponed = |before: u64, after: u64, written: u64| {
        let mut record = record();
        record["evidence"]["lsmBefore"]["unmergedBytes"] = before.into();
        record["evidence"]["lsmAfter"]["unmergedBytes"] = after.into();
        record["evidence"]["engagement"]["userBytesWritten"] = written.into();
        summary(record).unwrap()["steady"]["postponedPercent"].clone()
    };
    assert_eq!(postponed(100, 500, 1000), 40.0);
    assert_eq!(postponed(500, 250, 1000), -25.0, "what the warm-up left was merged");
    assert_eq!(postponed(100, 500, 0), Value::Null, "there is no share of nothing");
}

#[test]
fn local_nvme_is_nvme_by_pcie() {
    let nvme = |device: Value, transport: Value| {
        let mut record = record();
        record["evidence"]["storage"]["device"] = device;
        record["evidence"]["storage"]["transport"] = transport;
        summary(record).unwrap()["storage"]["nvme"].clone()
    };
    for (device, transport, expected) in [
        ("nvme0n1".into(), "pcie".into(), true.into()),
        ("nvme0n1".into(), "tcp".into(), false.into()),
        ("nvm0".into(), "pcie".into(), false.into()),
        ("vda".into(), "virtio".into(), false.into()),
        ("vda".into(), Value::Null, false.into()),
        ("nvme0n1".into(), Value::Null, Value::Null),
        (Value::Null, "pcie".into(), Value::Null),
    ] {
        assert_eq!(nvme(device.clone(), transport.clone()), expected, "{device} {transport}");
    }
}

#[test]
fn a_failed_trial_says_why_and_has_no_metrics() {
    let mut record = record();
    record["outcome"] = serde_json::json!({"failed": {"kind": "Corruption", "message": "a block is broken"}});
    let summary = summary(record).unwrap();
    assert_eq!(summary["failure"], serde_json::json!({"kind": "Corruption", "message": "a block is broken"}));
    assert_eq!(summary["metrics"], serde_json::json!({}));
}

#[test]
fn what_reads_find_is_no_parity_where_threads_race() {
    let counts = |answers: bool, field: &str| {
        let mut record = record();
        if !answers {
            record["work"]["answers"] = Value::Null;
        }
        let of = |record: Value| summary(record).unwrap()["parity"]["counts"].clone();
        let before = of(record.clone());
        record["work"]["counts"]["reader"][field] = 1.into();
        before != of(record)
    };
    for field in ["getsFound", "scannedEntries", "bytesRead"] {
        assert!(counts(true, field) && !counts(false, field), "{field}");
    }
    for field in ["steps", "puts", "gets", "deletes", "scans", "bytesWritten"] {
        assert!(counts(true, field) && counts(false, field), "{field}");
    }
}

/// The summary with the longest of each number and text, and with full lists.
fn longest(mut summary: Value) -> Summary {
    let names = serde_json::json!(["x".repeat(36), "x".repeat(36)]);
    for kind in ["inert", "sanitised", "undeclared"] {
        summary["options"][kind]["names"] = names.clone();
    }
    summary["engagement"]["idleFamilies"] = serde_json::json!(["x".repeat(25), "x".repeat(25), "97 more"]);
    for list in ["levelsCompressed", "levelsRead"] {
        summary["engagement"][list] = (0..7).collect();
    }
    for (field, value) in leaves_of(&summary) {
        // A number may be a fraction, or whole up to what its type holds. Lists of levels stay.
        let others: Vec<Value> = match value {
            Value::Number(_) if field.starts_with("engagement/levels") => Vec::new(),
            Value::Number(number) if number.is_f64() => vec![(-1.234_567e-300).into()],
            Value::Number(_) => vec![999_999_999_999_999_u64.into(), u32::MAX.into(), u8::MAX.into()],
            Value::Bool(_) if field != "steady/ownDrain" => vec![false.into()],
            _ => Vec::new(),
        };
        let with = |other| {
            let mut changed = summary.clone();
            *changed.pointer_mut(&format!("/{field}")).unwrap() = other;
            serde_json::from_value::<Summary>(changed.clone()).is_ok().then_some(changed)
        };
        if let Some(changed) = others.into_iter().find_map(with) {
            summary = changed;
        }
    }
    serde_json::from_value(summary).unwrap()
}

#[test]
fn no_summary_is_longer_than_the_worst_case() {
    let record = record();
    let spec: TrialSpec = serde_json::from_value(record["spec"].clone()).unwrap();
    let mut summary = summary(record).unwrap();
    // The workload of this spec has no such metric.
    summary["steady"].as_object_mut().unwrap().remove("overduePercent");
    let bytes = serde_json::to_vec(&longest(summary)).unwrap().len();
    let worst = Summary::worst_case_bytes(&spec).unwrap();
    assert!(bytes <= worst, "{bytes} bytes, {worst} in the worst case");
}
