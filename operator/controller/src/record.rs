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
    use super::*;

    #[test]
    fn a_small_record_is_kept_whole() {
        let (bytes, dropped) = fitting(b"{}").unwrap_or_else(|error| unreachable!("{error}"));
        assert!(dropped.is_empty() && bytes.len() < 100);
    }
}
