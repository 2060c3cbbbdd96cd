//! Full records: from a pod's log into a `ConfigMap`, which keeps them when the pod is gone.

use std::collections::BTreeMap;
use std::io::Write as _;

use assay_api::TuningTrial;
use assay_api::names::{
    ATTEMPT_LABEL, CONTAINER, DROPPED_ANNOTATION, EXPERIMENT_LABEL, MANAGED_BY, MANAGED_LABEL, RECORD_KEY, TRIAL_LABEL,
};
use assay_protocol::output::{LAST_LINES, MAX_LOG_BYTES, record_in};
use assay_protocol::{Series, TrialRecord};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::AsyncReadExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{LogParams, ObjectMeta};

use crate::error::{Error, call};
use crate::pod::owner;

/// The most that a compressed record may have.
const MOST_BYTES: usize = 64 * 1024;

/// The record that a bench has printed, byte for byte.
pub async fn printed(pods: &Api<Pod>, name: &str) -> Result<Option<Vec<u8>>, Error> {
    Ok(record_in(&log(pods, name).await?).map(|json| json.as_bytes().to_vec()))
}

/// The end of a container's log.
pub async fn log(pods: &Api<Pod>, name: &str) -> Result<String, Error> {
    let params = LogParams {
        container: Some(CONTAINER.to_owned()),
        tail_lines: Some(LAST_LINES.into()),
        limit_bytes: Some(MAX_LOG_BYTES.cast_signed()),
        ..LogParams::default()
    };
    let read = async {
        let mut bytes = Vec::new();
        // Whoever answers may do so without end.
        let log = pods.log_stream(name, &params).await?.take(MAX_LOG_BYTES);
        std::pin::pin!(log).read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
        Ok(bytes)
    };
    Ok(String::from_utf8_lossy(&call(read).await?).into_owned())
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
    let mut bytes = compressed(json)?;
    let mut dropped = Vec::new();
    if bytes.len() <= MOST_BYTES {
        return Ok((bytes, dropped));
    }
    let mut record = TrialRecord::from_json(json).map_err(|error| Error::Unexpected(error.to_string()))?;
    for (name, drop) in PARTS {
        drop(&mut record);
        dropped.push(name);
        bytes = compressed(&serde_json::to_vec(&record)?)?;
        if bytes.len() <= MOST_BYTES {
            return Ok((bytes, dropped));
        }
    }
    Err(Error::Unexpected(format!("a record has {} bytes even without its optional parts", bytes.len())))
}

fn compressed(json: &[u8]) -> Result<Vec<u8>, Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(json).and_then(|()| encoder.finish());
    written.map_err(|error| Error::Unexpected(format!("can't compress a record: {error}")))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use assay_protocol::Digest;
    use assay_protocol::output::record_line;
    use serde_json::{Value, json};

    use super::*;
    use crate::http::testing::{answering, server};

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
                let entry = sample(&record[other]);
                texts(large).map(|name| (name, entry.clone())).collect()
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
        assert!(error.starts_with("a record has ") && error.ends_with(" even without its optional parts"), "{error}");
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

    #[tokio::test]
    async fn the_end_of_a_log_is_read_and_no_more() {
        let (client, asked) = answering(200, "one\ntwo\n");
        assert_eq!(log(&Api::namespaced(client, "here"), "p").await.expect("a log"), "one\ntwo\n");
        let asked = asked.join().expect("a request");
        assert_eq!(asked.what, "GET /api/v1/namespaces/here/pods/p/log");
        let query = ["container=bench", "limitBytes=16777216", "tailLines=20"].map(ToOwned::to_owned);
        assert_eq!(asked.query, query.into());
        assert!(log(&Api::namespaced(server(404).0, "here"), "p").await.expect_err("no pod").is_not_found());
    }

    #[tokio::test]
    async fn a_printed_record_is_found_byte_for_byte() {
        let printed = async |log: &str| printed(&Api::namespaced(answering(200, log).0, "here"), "p").await;
        let line = |json: &str| String::from_utf8(record_line(json.as_bytes())).expect("text");
        let record = "{ \"a\" : 1 }";
        let log = format!("words\n{}\n{}\nmore words\n", line("{}"), line(record));
        assert_eq!(printed(&log).await.expect("a log").as_deref(), Some(record.as_bytes()));
        assert_eq!(printed("words\n").await.expect("a log"), None);
    }
}
