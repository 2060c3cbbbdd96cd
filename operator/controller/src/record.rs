//! Full records: from a pod's log into a `ConfigMap`, which keeps them when the pod is gone. A bench of others may print anything, so
//! none is held as more than its bytes, but for one small one at a time.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;

use assay_api::TuningTrial;
use assay_api::names::{
    ATTEMPT_LABEL, DROPPED_ANNOTATION, EXPERIMENT_LABEL, MANAGED_BY, MANAGED_LABEL, RECORD_KEY, TRIAL_LABEL,
};
use assay_core::sweep::night::machine;
use assay_protocol::{Summary, TrialRecord};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::lock::locked;
use crate::pod::owner;

/// The most that a compressed record may have.
const MOST_BYTES: usize = 64 * 1024;
/// The most of a record that is read as objects, which may take ten times as much.
const MOST_READ: usize = 4 << 20;
/// The most parts that a record may have: three times as many as ours.
const MOST_PARTS: usize = 48;

/// What is asked of a record that is kept as its bytes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Glance {
    pub window_started_unix_ms: u64,
    pub window_seconds: f64,
    evidence: Evidence,
}

#[derive(Deserialize)]
struct Evidence {
    placement: Placement,
    #[serde(default)]
    host: Host,
    #[serde(default)]
    storage: Storage,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Host {
    #[serde(default)]
    cpu_model: Option<String>,
}

#[derive(Default, Deserialize)]
struct Storage {
    #[serde(default)]
    model: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placement {
    #[serde(default)]
    affinity_before: Option<String>,
}

impl Glance {
    pub fn at(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The models of CPU and disk that a bench says it ran on.
    pub fn machine(&self) -> Option<String> {
        machine(self.evidence.host.cpu_model.as_deref(), self.evidence.storage.model.as_deref())
    }

    /// The CPUs that a bench says it ran on.
    pub fn cpus(self) -> Option<String> {
        self.evidence.placement.affinity_before
    }
}

/// A record of which only its parts are told apart: each stays the bytes that it is.
struct Parts<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Parts<'a> {
    fn of(json: &'a [u8]) -> Result<Self, Error> {
        serde_json::from_slice(json).map_err(unreadable)
    }

    fn empty(&mut self, name: &str) -> Result<(), Error> {
        for (_, part) in self.0.iter_mut().filter(|(part, _)| part == name) {
            *part = serde_json::from_str("{}")?;
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartsVisitor).map(Parts)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = map.next_entry()? {
            // Small parts without end would take more memory than their bytes.
            if parts.len() == MOST_PARTS {
                return Err(A::Error::custom(format_args!("it has more than {MOST_PARTS} parts")));
            }
            parts.push(part);
        }
        Ok(parts)
    }
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, part)| (name, part)))
    }
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::Unexpected(format!("a record can't be read: {error}"))
}

/// The summary that a record should have had, while nobody else reads another one.
pub fn summary(json: &[u8]) -> Result<Summary, Error> {
    static ONE: Mutex<()> = Mutex::new(());
    let mut parts = Parts::of(json)?;
    // What grows with the length of a trial, and no summary tells of.
    parts.empty("series")?;
    parts.empty("tickers")?;
    let _one = locked(&ONE);
    let read = || {
        let rest = serde_json::to_vec(&parts)?;
        if rest.len() > MOST_READ {
            return Err(unreadable(format_args!("it has {} MiB, {} at most", rest.len() >> 20, MOST_READ >> 20)));
        }
        let record = TrialRecord::from_json(&rest).map_err(unreadable)?;
        Ok(Summary::of(&record, json)?)
    };
    // A thread of its own: each thread keeps to itself what it has freed, and those that reconcile are as many as there are CPUs.
    let ended = std::thread::scope(|scope| scope.spawn(read).join());
    ended.unwrap_or_else(|_| Err(unreadable("its reader panicked")))
}

/// The `ConfigMap` that keeps a record; parts that nobody judges by are left out until it fits.
pub fn config_map(trial: &TuningTrial, name: &str, attempt: u32, json: &[u8]) -> Result<ConfigMap, Error> {
    let (bytes, dropped) = fitting(json)?;
    let labels = BTreeMap::from([
        (EXPERIMENT_LABEL.to_owned(), trial.spec.experiment.clone()),
        (TRIAL_LABEL.to_owned(), trial.metadata.name.clone().unwrap_or_default()),
        (ATTEMPT_LABEL.to_owned(), attempt.to_string()),
        (MANAGED_LABEL.to_owned(), MANAGED_BY.to_owned()),
    ]);
    let annotation = || BTreeMap::from([(DROPPED_ANNOTATION.to_owned(), dropped.join(","))]);
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: (!dropped.is_empty()).then(annotation),
            owner_references: Some(vec![owner(trial)]),
            ..ObjectMeta::default()
        },
        binary_data: Some(BTreeMap::from([(RECORD_KEY.to_owned(), ByteString(bytes))])),
        immutable: Some(true),
        ..ConfigMap::default()
    })
}

/// The compressed record, and the parts that it had to lose, in the order in which they go.
fn fitting(json: &[u8]) -> Result<(Vec<u8>, Vec<&'static str>), Error> {
    if let Some(bytes) = compressed(|encoder| encoder.write_all(json)) {
        return Ok((bytes, Vec::new()));
    }
    let mut parts = Parts::of(json)?;
    let mut dropped = Vec::new();
    for name in ["series", "tickers", "latency", "families"] {
        parts.empty(name)?;
        dropped.push(name);
        if let Some(bytes) = compressed(|encoder| Ok(serde_json::to_writer(encoder, &parts)?)) {
            return Ok((bytes, dropped));
        }
    }
    Err(Error::Unexpected("a record is too large even without its optional parts".to_owned()))
}

/// What is written to it, compressed; `None` where it does not fit, which is seen before all of it is there.
fn compressed(write: impl FnOnce(&mut GzEncoder<Limited>) -> std::io::Result<()>) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Limited(Vec::new()), Compression::best());
    write(&mut encoder).and_then(|()| encoder.finish()).ok().map(|limited| limited.0)
}

/// Bytes that are as many as may be kept, at most.
struct Limited(Vec<u8>);

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use assay_protocol::{Digest, Series};
    use serde_json::{Value, json};

    use super::*;

    const RECORD: &str = include_str!("../../core/tests/data/records/cramped.json");
    /// The optional parts in the order in which docs/operator.md lets them go, as the annotation and as the record calls them.
    const ORDER: [&str; 4] = ["series", "tickers", "latency", "families"];

    /// Texts that no compression makes shorter than half, so that a part takes this many bytes at least.
    fn texts(bytes: usize) -> impl Iterator<Item = String> {
        (0..bytes / 32).map(|number| Digest::of(&number.to_le_bytes()).as_str().to_owned())
    }

    /// A record in which one part takes more space than all may have.
    fn with_large(part: &str) -> Value {
        let mut record: Value = serde_json::from_str(RECORD).expect("a record");
        let large = 2 * MOST_BYTES;
        let sample = |map: &Value| map.as_object().and_then(|map| map.values().next()).cloned().expect("an entry");
        record[part] = match part {
            "series" => {
                let columns: Value = texts(large).map(|name| (name, json!([1.0]))).collect();
                json!({"seconds": [1.0], "columns": columns})
            }
            "tickers" => texts(large).map(|name| (name, json!(1))).collect(),
            other => {
                // Few with long names, as entries are long themselves.
                let (entry, names) = (sample(&record[other]), texts(large).collect::<Vec<_>>());
                names.chunks(16).map(|names| (names.concat(), entry.clone())).collect()
            }
        };
        record
    }

    fn unpacked(bytes: &[u8]) -> Vec<u8> {
        let mut json = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut json).expect("compressed");
        json
    }

    #[test]
    fn a_glance_tells_the_models_of_cpu_and_disk() {
        let glance = |evidence: Value| {
            let record = json!({"windowStartedUnixMs": 1, "windowSeconds": 2.0, "evidence": evidence});
            Glance::at(record.to_string().as_bytes()).expect("a record")
        };
        let known = json!({"placement": {}, "host": {"cpuModel": "a CPU"}, "storage": {"model": "a disk"}});
        assert_eq!(glance(known).machine(), machine(Some("a CPU"), Some("a disk")));
        assert_ne!(machine(Some("a CPU"), Some("a disk")), machine(Some("a CPU"), None));
        assert_eq!(glance(json!({"placement": {}})).machine(), machine(None, None));
    }

    #[test]
    fn what_is_no_object_is_no_record() {
        let said = Parts::of(b"[]").err().map(|error| error.message());
        assert!(said.as_ref().is_some_and(|said| said.contains("expected a record")), "{said:?}");
    }

    #[test]
    fn a_record_that_fits_is_kept_byte_for_byte() {
        let (bytes, dropped) = fitting(RECORD.as_bytes()).expect("it fits");
        assert_eq!((dropped, unpacked(&bytes).as_slice()), (vec![], RECORD.as_bytes()));
    }

    #[test]
    fn a_large_record_loses_its_parts_in_the_documented_order() {
        let words = "loses, in this order, its series, tickers, latencies and column families";
        assert!(include_str!("../../../docs/operator.md").contains(words));
        for (last, part) in ORDER.into_iter().enumerate() {
            let large = with_large(part);
            let (bytes, dropped) = fitting(large.to_string().as_bytes()).expect("it fits without them");
            assert_eq!(dropped, ORDER[..=last], "with large {part}");
            assert!(bytes.len() <= MOST_BYTES, "{} bytes", bytes.len());
            // What has gone is empty, and everything else as it was.
            let kept = TrialRecord::from_json(&unpacked(&bytes)).expect("a record");
            let mut expected = TrialRecord::from_json(large.to_string().as_bytes()).expect("a record");
            let empty: [fn(&mut TrialRecord); 4] = [
                |record| record.series = Series::default(),
                |record| record.tickers.clear(),
                |record| record.latency.clear(),
                |record| record.families.clear(),
            ];
            empty[..=last].iter().for_each(|empty| empty(&mut expected));
            assert_eq!(kept, expected, "with large {part}");
        }
    }

    #[test]
    fn a_record_that_is_too_large_without_them_is_an_error() {
        let mut record: Value = serde_json::from_str(RECORD).expect("a record");
        record["metrics"] = texts(2 * MOST_BYTES).map(|name| (name, json!(1.0))).collect();
        let error = fitting(record.to_string().as_bytes()).expect_err("it is too large").to_string();
        assert_eq!(error, "a record is too large even without its optional parts");
        // What is no record has no parts.
        let text = texts(4 * MOST_BYTES).collect::<String>();
        assert!(fitting(text.as_bytes()).is_err());
    }

    fn trial() -> TuningTrial {
        serde_json::from_value(json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial", "metadata": {"name": "t", "uid": "u"},
            "spec": {"experiment": "e", "plan": "p", "scenario": "s", "block": 0, "config": "c", "replicate": 0,
                "order": 0, "seed": 0, "node": "n"},
        }))
        .expect("a trial")
    }

    #[test]
    fn a_config_map_keeps_a_record_under_its_trial() {
        let mut map = json!(config_map(&trial(), "m", 3, RECORD.as_bytes()).expect("it fits"));
        let packed = map["binaryData"]["record.json.gz"].take();
        let packed: ByteString = serde_json::from_value(packed).expect("bytes");
        assert_eq!(unpacked(&packed.0), RECORD.as_bytes());
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "m",
                "labels": {"assay.rocks/experiment": "e", "assay.rocks/trial": "t", "assay.rocks/attempt": "3",
                    "app.kubernetes.io/managed-by": "assay"},
                "ownerReferences": [{"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial", "name": "t",
                    "uid": "u", "controller": true}],
            },
            "binaryData": {"record.json.gz": null},
            "immutable": true,
        });
        assert_eq!(map, expected);
    }

    #[test]
    fn what_a_record_has_lost_is_named_on_its_config_map() {
        let map = config_map(&trial(), "m", 3, with_large("latency").to_string().as_bytes()).expect("it fits");
        assert_eq!(json!(map.metadata.annotations), json!({"assay.rocks/dropped": "series,tickers,latency"}));
    }

    #[test]
    fn a_glance_at_a_record_sees_what_is_asked_of_it() {
        let record = TrialRecord::from_json(RECORD.as_bytes()).expect("a record");
        let glance = Glance::at(RECORD.as_bytes()).expect("a record");
        assert_eq!(glance.window_started_unix_ms, record.window_started_unix_ms);
        assert_eq!(glance.window_seconds, record.window_seconds);
        assert!(record.evidence.placement.affinity_before.is_some());
        assert_eq!(glance.cpus(), record.evidence.placement.affinity_before);
        assert!(Glance::at(b"{}").is_none());
    }

    #[test]
    fn a_record_says_what_its_summary_should_have_said() {
        let expected = |json: &[u8]| Summary::of(&TrialRecord::from_json(json).expect("a record"), json).expect("one");
        assert_eq!(summary(RECORD.as_bytes()).expect("a record"), expected(RECORD.as_bytes()));
        // What grows with the length of a trial may be larger than what is read.
        let mut long: Value = serde_json::from_str(RECORD).expect("a record");
        long["series"]["columns"]["steps_per_second"] = vec![0.123_456; MOST_READ / 8].into();
        long["tickers"] = texts(MOST_READ).map(|name| (name, json!(1))).collect();
        let long = long.to_string();
        assert!(long.len() > 2 * MOST_READ);
        assert_eq!(summary(long.as_bytes()).expect("a record"), expected(long.as_bytes()));
        assert!(summary(b"{}").is_err() && summary(b"words").is_err());
    }

    /// Of small entries, 4 MiB take fifty as objects.
    #[test]
    fn a_record_that_is_too_large_to_be_read_is_not() {
        let refused = |json: &str| summary(json.as_bytes()).expect_err("no record").to_string();
        let of = |bytes: usize| {
            let least = json!({"families": ""}).to_string().len();
            json!({"families": " ".repeat(bytes - least)}).to_string()
        };
        let too_large = "a record can't be read: it has 4 MiB, 4 at most";
        assert_eq!(refused(&of(MOST_READ + 1)), too_large);
        assert_ne!(refused(&of(MOST_READ)), too_large);
        let parts =
            |count: usize| serde_json::to_string(&(0..count).map(|n| (n.to_string(), n)).collect::<BTreeMap<_, _>>());
        let too_many = format!("it has more than {MOST_PARTS} parts");
        assert!(refused(&parts(MOST_PARTS + 1).expect("JSON")).contains(&too_many));
        assert!(!refused(&parts(MOST_PARTS).expect("JSON")).contains(&too_many));
    }
}
