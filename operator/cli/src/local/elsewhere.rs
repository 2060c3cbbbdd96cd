//! Fields of an experiment that mean something on a cluster alone.

use anyhow::bail;
use assay_api::TuningExperimentSpec;

/// Refuses what would change the verdict if it were ignored.
pub fn refuse(spec: &TuningExperimentSpec) -> anyhow::Result<()> {
    if !spec.metrics.is_empty() {
        bail!(
            "spec.metrics needs a Prometheus server, which only a run on a cluster has: remove it, or use \
             assay run --cluster"
        );
    }
    Ok(())
}

/// Names what is ignored.
pub fn note(spec: &TuningExperimentSpec) -> Option<String> {
    let placement = &spec.placement;
    let ignored: Vec<&str> = [
        (placement.memory.is_some(), "placement.memory"),
        (!placement.node_selector.is_empty(), "placement.nodeSelector"),
        (!placement.tolerations.is_empty(), "placement.tolerations"),
        (placement.provision.is_some(), "placement.provision"),
        (placement.storage.is_some(), "placement.storage"),
        (spec.suspend.is_some(), "suspend"),
        (spec.ttl_seconds_after_finished.is_some(), "ttlSecondsAfterFinished"),
        (spec.failed_pod_retention_seconds.is_some(), "failedPodRetentionSeconds"),
    ]
    .into_iter()
    .filter_map(|(is_set, name)| is_set.then_some(name))
    .collect();
    let applies = if ignored.len() == 1 { "applies" } else { "apply" };
    (!ignored.is_empty()).then(|| format!("note: {} {applies} only on a cluster", ignored.join(", ")))
}
