//! The history of a sweep in the cluster: objects of their own, which stay when the sweep goes.

use std::collections::BTreeMap;

use assay_api::TuningHistory;
use assay_api::names::SWEEP_LABEL;
use assay_core::sweep::{Night, Object, Ring};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, PostParams};
use tracing::warn;

use super::Reconcile;
use super::memory::Known;
use crate::error::{Error, call};
use crate::task;

/// The history as it is in the cluster, by the version of each of its objects.
pub async fn read(reconcile: &Reconcile<'_>) -> Result<((Ring, BTreeMap<String, String>), Known), Error> {
    let _alone = reconcile.context.reading.lock().await;
    let labelled = ListParams::default().labels(&format!("{SWEEP_LABEL}={}", reconcile.name));
    let listed = call(reconcile.api::<TuningHistory>().list(&labelled)).await;
    let lasting = |error: Error| if error.is_lasting() { Error::History(error.message()) } else { error };
    let objects = listed.map_err(lasting)?.items;
    let versions = objects.iter().map(|one| (one.name_any(), one.resource_version().unwrap_or_default())).collect();
    let objects = objects.into_iter().map(Object::from);
    let watch = &reconcile.checked().watch;
    let (ring, known) = task::compute(|| {
        let ring = Ring::read(&reconcile.name, objects);
        let known = Known::of(&ring, watch);
        (ring, known)
    });
    reconcile.context.memories.of(reconcile.sweep).lock().known = Some(known.clone());
    Ok(((ring, versions), known))
}

/// Adds a night, which may be there already.
pub async fn add(reconcile: &Reconcile<'_>, night: Night) -> Result<Known, Error> {
    let ((mut ring, versions), _) = read(reconcile).await?;
    // Whatever comes of it, what was read before is old.
    reconcile.context.memories.of(reconcile.sweep).lock().known = None;
    let unexpected = |error: &dyn std::fmt::Display| Error::Unexpected(error.to_string());
    let change = ring.add(night).map_err(|error| unexpected(&error))?;
    let api = reconcile.api::<TuningHistory>();
    for object in change.write {
        let (name, version) = (object.name.clone(), versions.get(&object.name).cloned());
        let object = ring
            .stored(object, &reconcile.namespace, version.clone())
            .ok_or_else(|| Error::Unexpected(format!("{name} has no nights")))?;
        // Of two who write at once the second reads again.
        match version {
            Some(_) => call(api.replace(&name, &PostParams::default(), &object)).await?,
            None => call(api.create(&PostParams::default(), &object)).await?,
        };
    }
    for name in change.delete {
        match call(api.delete(&name, &DeleteParams::default())).await {
            Err(error) if !error.is_not_found() => warn!(name, %error, "can't delete the oldest part of the history"),
            _ => {}
        }
    }
    let watch = &reconcile.checked().watch;
    let known = task::compute(|| Known::of(&ring, watch));
    reconcile.context.memories.of(reconcile.sweep).lock().known = Some(known.clone());
    Ok(known)
}
