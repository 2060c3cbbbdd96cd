//! Full records, which a cluster keeps in `ConfigMap`s.

use std::io::Read as _;

use anyhow::Context as _;
use assay_api::{AttemptStatus, names};
use assay_protocol::Digest;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::ConfigMap;

use super::client::Cluster;
use super::errors::{Explain as _, not_found};
use crate::folder::StoredRecord;

/// No record is larger; what is, was not written by a bench.
const MOST_BYTES: u64 = 64 << 20;

/// The full record of an attempt; `None` where it has none, or it is gone.
pub async fn record(cluster: &Cluster, attempt: &AttemptStatus) -> anyhow::Result<Option<StoredRecord>> {
    let Some(name) = &attempt.record else { return Ok(None) };
    match cluster.records().get(name).await {
        Ok(record) => Ok(Some(StoredRecord { json: unpacked(&record)?, dropped: dropped(&record) })),
        Err(error) if not_found(&error) => Ok(None),
        Err(error) => Err(error).explain(&format!("can't read record {name}")),
    }
}

/// Parts that a record lost on its way.
fn dropped(record: &ConfigMap) -> Vec<String> {
    let annotations = record.metadata.annotations.iter();
    let parts = annotations.filter_map(|all| all.get(names::DROPPED_ANNOTATION)).flat_map(|parts| parts.split(','));
    parts.map(str::trim).filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect()
}

/// The record in its `ConfigMap`.
pub fn unpacked(record: &ConfigMap) -> anyhow::Result<Vec<u8>> {
    let name = record.metadata.name.as_deref().unwrap_or_default();
    let packed = record.binary_data.as_ref().and_then(|data| data.get(names::RECORD_KEY));
    let packed = packed.with_context(|| format!("ConfigMap {name} has no {}: not a record", names::RECORD_KEY))?;
    let mut bytes = Vec::new();
    let unpacked = GzDecoder::new(packed.0.as_slice()).take(MOST_BYTES).read_to_end(&mut bytes);
    unpacked
        .with_context(|| format!("can't unpack the record in ConfigMap {name} (digest {})", Digest::of(&packed.0)))?;
    Ok(bytes)
}
