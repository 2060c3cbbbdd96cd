//! The history of a sweep in the cluster: objects of their own, which stay when the sweep goes.

use std::collections::BTreeMap;

use assay_api::names::{MANAGED_BY, MANAGED_LABEL, SWEEP_LABEL};
use assay_api::{Time, TuningHistory, TuningHistorySpec};
use assay_core::sweep::{Night, Object, Ring};
use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use tracing::warn;

use super::Reconcile;
use super::memory::Known;
use crate::error::{Error, call};

/// The history as it is in the cluster, by the version of each of its objects.
pub async fn read(reconcile: &Reconcile<'_>) -> Result<((Ring, BTreeMap<String, String>), Known), Error> {
    let _alone = reconcile.context.reading.lock().await;
    let labelled = ListParams::default().labels(&format!("{SWEEP_LABEL}={}", reconcile.name));
    let objects = call(reconcile.api::<TuningHistory>().list(&labelled)).await?.items;
    let versions = objects.iter().map(|one| (one.name_any(), one.resource_version().unwrap_or_default())).collect();
    let objects = objects.into_iter().map(|one| Object { name: one.name_any(), bytes: one.spec.nights.0 });
    let (ring, known) = tokio::task::block_in_place(|| {
        let ring = Ring::read(&reconcile.name, objects);
        let damaged = ring.damaged().iter().map(ToString::to_string).collect();
        let known = Known::of(ring.history(), damaged);
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
        let object = self::object(reconcile, &ring, object, version.clone())?;
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
    let damaged = ring.damaged().iter().map(ToString::to_string).collect();
    let known = tokio::task::block_in_place(|| Known::of(ring.history(), damaged));
    reconcile.context.memories.of(reconcile.sweep).lock().known = Some(known.clone());
    Ok(known)
}

fn object(
    reconcile: &Reconcile<'_>,
    ring: &Ring,
    object: Object,
    version: Option<String>,
) -> Result<TuningHistory, Error> {
    let (count, first, last) =
        ring.span(&object.name).ok_or_else(|| Error::Unexpected(format!("{} has no nights", object.name)))?;
    let labels = [(SWEEP_LABEL, reconcile.name.as_str()), (MANAGED_LABEL, MANAGED_BY)];
    let metadata = ObjectMeta {
        name: Some(object.name),
        namespace: Some(reconcile.namespace.clone()),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        resource_version: version,
        ..ObjectMeta::default()
    };
    let spec = TuningHistorySpec {
        sweep: reconcile.name.clone(),
        count: count as u32,
        first: Time(first),
        last: Time(last),
        nights: ByteString(object.bytes),
    };
    Ok(TuningHistory { metadata, spec })
}
