//! The claims for volumes of blocks, which no watch tells of: what was made is remembered, and listed once after a start.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::names::EXPERIMENT_LABEL;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use kube::api::{ListParams, ObjectMeta};

use super::Reconcile;
use crate::error::{Error, call};
use crate::object;
use crate::pod::is_owned;

/// The claims of an experiment that are there.
pub fn known(reconcile: &Reconcile<'_>) -> BTreeSet<String> {
    reconcile.memory().claims.iter().flat_map(BTreeMap::keys).cloned().collect()
}

/// Learns once which claims an earlier leader has made.
pub async fn list(reconcile: &Reconcile<'_>) -> Result<(), Error> {
    let storage = reconcile.experiment.spec.placement.storage.as_ref();
    if storage.is_none_or(|storage| storage.persistent_volume_claim.is_none()) || reconcile.memory().claims.is_some() {
        return Ok(());
    }
    let params = ListParams::default().labels(&format!("{EXPERIMENT_LABEL}={}", reconcile.name));
    let found = call(reconcile.api::<PersistentVolumeClaim>().list(&params)).await?;
    let ours = found.into_iter().filter(|claim| is_owned(claim, reconcile.experiment));
    reconcile.memory().claims = Some(ours.map(|claim| (claim.name_any(), slim(claim))).collect());
    Ok(())
}

/// Remembers a claim that is there.
pub fn made(reconcile: &Reconcile<'_>, claim: PersistentVolumeClaim) {
    reconcile.memory().claims.get_or_insert_default().insert(claim.name_any(), slim(claim));
}

/// With what it takes to delete it.
fn slim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim {
    let ObjectMeta { name, uid, .. } = claim.metadata;
    let metadata = ObjectMeta { name, uid, ..ObjectMeta::default() };
    PersistentVolumeClaim { metadata, ..PersistentVolumeClaim::default() }
}

pub async fn remove(reconcile: &Reconcile<'_>, name: &str) -> Result<(), Error> {
    let claim = reconcile.memory().claims.as_ref().and_then(|claims| claims.get(name)).cloned();
    if let Some(claim) = claim {
        object::delete(&reconcile.api(), &claim, None).await?;
    }
    if let Some(claims) = &mut reconcile.memory().claims {
        claims.remove(name);
    }
    Ok(())
}

/// Removes all volumes of an experiment that is over.
pub async fn remove_all(reconcile: &Reconcile<'_>) -> Result<(), Error> {
    list(reconcile).await?;
    for claim in known(reconcile) {
        remove(reconcile, &claim).await?;
    }
    Ok(())
}
