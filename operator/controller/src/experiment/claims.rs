//! The claims for volumes of blocks, which no watch tells of: what was made is remembered, and listed once after a start.

use std::collections::BTreeSet;

use assay_api::names::EXPERIMENT_LABEL;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};

use super::Round;
use crate::error::{Error, call};
use crate::watch::locked;

/// The claims of an experiment that are there.
pub fn known(round: &Round<'_>) -> BTreeSet<String> {
    locked(&round.context.claims).get(&round.uid).cloned().unwrap_or_default()
}

/// Learns once which claims an earlier leader has made.
pub async fn list(round: &Round<'_>) -> Result<(), Error> {
    let context = round.context;
    let storage = round.experiment.spec.placement.storage.as_ref();
    if storage.is_none_or(|storage| storage.persistent_volume_claim.is_none())
        || locked(&context.claims).contains_key(&round.uid)
    {
        return Ok(());
    }
    let params = ListParams::default().labels(&format!("{EXPERIMENT_LABEL}={}", round.name));
    let found = call(context.api::<PersistentVolumeClaim>(&round.namespace).list(&params)).await?;
    let is_ours = |claim: &PersistentVolumeClaim| claim.owner_references().iter().any(|owner| owner.uid == round.uid);
    let names = found.into_iter().filter(is_ours).map(|claim| claim.name_any()).collect();
    locked(&context.claims).insert(round.uid.clone(), names);
    Ok(())
}

/// A claim by its name. Listed, since nothing else needs the right to get one.
pub async fn find(round: &Round<'_>, name: &str) -> Result<Option<PersistentVolumeClaim>, Error> {
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = call(round.context.api::<PersistentVolumeClaim>(&round.namespace).list(&params)).await?;
    Ok(found.items.into_iter().next())
}

pub async fn remove(round: &Round<'_>, name: &str) -> Result<(), Error> {
    let api = round.context.api::<PersistentVolumeClaim>(&round.namespace);
    match call(api.delete(name, &DeleteParams::default())).await {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    if let Some(claims) = locked(&round.context.claims).get_mut(&round.uid) {
        claims.remove(name);
    }
    Ok(())
}

/// Removes all volumes of an experiment that is over.
pub async fn remove_all(round: &Round<'_>) -> Result<(), Error> {
    list(round).await?;
    for claim in known(round) {
        remove(round, &claim).await?;
    }
    Ok(())
}
