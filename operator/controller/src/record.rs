//! Full records: from a pod's log into a `ConfigMap`, which keeps them when the pod is gone. A bench of others may print anything, so
//! none is held as more than its bytes, but for one at a time.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;

use assay_api::TuningTrial;
use assay_api::names::{
    ATTEMPT_LABEL, DROPPED_ANNOTATION, EXPERIMENT_LABEL, MANAGED_BY, MANAGED_LABEL, RECORD_KEY, TRIAL_LABEL,
};
use assay_protocol::{Series, TrialRecord};
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde::Deserialize;

use crate::error::Error;
use crate::lock::locked;
use crate::pod::owner;

/// The most that a compressed record may have.
const MOST_BYTES: usize = 64 * 1024;
/// The largest record that is read: as objects, it may take ten times as much.
const MOST_READ: usize = 8 << 20;

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

    /// The CPUs that a bench says it ran on.
    pub fn cpus(self) -> Option<String> {
        self.evidence.placement.affinity_before
    }
}

/// Does something with a whole record, while nobody else does with another one.
pub fn whole<T: Send>(json: &[u8], with: impl FnOnce(TrialRecord) -> T + Send) -> Result<T, Error> {
    static ONE: Mutex<()> = Mutex::new(());
    if json.len() > MOST_READ {
        return Err(Error::Unexpected(format!("a record has {} MiB, {} at most", json.len() >> 20, MOST_READ >> 20)));
    }
    let _one = locked(&ONE);
    // A thread of its own: each thread keeps to itself what it has freed, and those that reconcile are as many as there are CPUs.
    let read = || TrialRecord::from_json(json).map(with).map_err(|error| Error::Unexpected(error.to_string()));
    let ended = std::thread::scope(|scope| scope.spawn(read).join());
    ended.unwrap_or_else(|_| Err(Error::Unexpected("a record can't be read".to_owned())))
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
    type Part = (&'static str, fn(&mut TrialRecord));
    const PARTS: [Part; 4] = [
        ("series", |record| record.series = Series::default()),
        ("tickers", |record| record.tickers.clear()),
        ("latency", |record| record.latency.clear()),
        ("families", |record| record.families.clear()),
    ];
    if let Some(bytes) = compressed(json)? {
        return Ok((bytes, Vec::new()));
    }
    whole(json, |mut record| {
        let mut dropped = Vec::new();
        for (name, drop) in PARTS {
            drop(&mut record);
            dropped.push(name);
            if let Some(bytes) = compressed(&serde_json::to_vec(&record)?)? {
                return Ok((bytes, dropped));
            }
        }
        Err(Error::Unexpected("a record is too large even without its optional parts".to_owned()))
    })?
}

/// A compressed record; `None` where it does not fit, which is seen before all of it is there.
fn compressed(json: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let unexpected = |error: std::io::Error| Error::Unexpected(format!("can't compress a record: {error}"));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for part in json.chunks(MOST_BYTES) {
        encoder.write_all(part).map_err(unexpected)?;
        if encoder.get_ref().len() > MOST_BYTES {
            return Ok(None);
        }
    }
    Ok(Some(encoder.finish().map_err(unexpected)?).filter(|bytes| bytes.len() <= MOST_BYTES))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use assay_protocol::Digest;
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

    /// Of small entries, a record of 8 MiB takes a hundred as objects.
    #[test]
    fn a_record_that_is_too_large_to_be_read_is_not() {
        let read = |size: usize| whole(&vec![b' '; size], |_| ()).expect_err("no record").to_string();
        assert!(read(MOST_READ + 1).starts_with("a record has 8 MiB, 8 at most"), "{}", read(MOST_READ + 1));
        assert!(!read(MOST_READ).contains("at most"), "that is read, and none");
    }
}
