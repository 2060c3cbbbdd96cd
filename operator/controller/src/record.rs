//! Full records: from a pod's log into a `ConfigMap`, which keeps them when the pod is gone.

use std::collections::BTreeMap;
use std::io::Write as _;

use assay_api::TuningTrial;
use assay_api::names::{
    ATTEMPT_LABEL, CONTAINER, DROPPED_ANNOTATION, EXPERIMENT_LABEL, MANAGED_BY, MANAGED_LABEL, RECORD_KEY, TRIAL_LABEL,
};
use assay_record::{Series, TrialRecord};
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
/// Lines at the end of a log among which the record is. After it comes nothing but what the bench says about its end.
const TAIL: i64 = 20;
/// What is read of them at most: more is no record, and would not fit into the operator's memory.
const LONGEST_LOG: u64 = 16 << 20;

/// The record that a bench has printed, byte for byte.
pub async fn printed(pods: &Api<Pod>, name: &str) -> Result<Option<Vec<u8>>, Error> {
    Ok(framed(&log(pods, name).await?))
}

/// The end of a container's log.
pub async fn log(pods: &Api<Pod>, name: &str) -> Result<String, Error> {
    let params = LogParams {
        container: Some(CONTAINER.to_owned()),
        tail_lines: Some(TAIL),
        limit_bytes: Some(LONGEST_LOG.cast_signed()),
        ..LogParams::default()
    };
    let read = async {
        let mut bytes = Vec::new();
        // Whoever answers may do so without end.
        let log = pods.log_stream(name, &params).await?.take(LONGEST_LOG);
        std::pin::pin!(log).read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
        Ok(bytes)
    };
    Ok(String::from_utf8_lossy(&call(read).await?).into_owned())
}

fn framed(log: &str) -> Option<Vec<u8>> {
    let record = |line: &str| Some(line.strip_prefix("{\"record\":")?.strip_suffix('}')?.as_bytes().to_vec());
    log.lines().rev().find_map(|line| record(line.trim_end()))
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
    Err(Error::Unexpected(format!("a record has {} bytes without all that can be left out", bytes.len())))
}

fn compressed(json: &[u8]) -> Result<Vec<u8>, Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(json).and_then(|()| encoder.finish());
    written.map_err(|error| Error::Unexpected(format!("a record can't be compressed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_in_a_log() {
        let log = "{\"progress\":{\"phase\":\"run\"}}\n{\"record\":{\"version\":1}}\nassay-bench: said something\n";
        assert_eq!(framed(log).as_deref(), Some(b"{\"version\":1}".as_slice()));
        assert_eq!(framed("{\"record\":{\"version\":1"), None, "half a line is no record");
        assert_eq!(framed(""), None);
    }

    #[test]
    fn a_small_record_is_kept_whole() {
        let (bytes, dropped) = fitting(b"{}").unwrap_or_else(|error| unreachable!("{error}"));
        assert!(dropped.is_empty() && bytes.len() < 100);
    }
}
