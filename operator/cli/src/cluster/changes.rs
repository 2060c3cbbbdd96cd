//! All that we change on a cluster: an experiment is made, suspended, resumed and deleted.

use anyhow::bail;
use assay_api::names::UNMEASURED_ANNOTATION;
use assay_api::{TuningExperiment, TuningExperimentSpec};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, ValidationDirective};
use serde_json::{Value, json};

use super::client::Cluster;
use super::errors::{Explain as _, not_found};
use crate::print;

/// The field manager of what we write.
const MANAGER: &str = "assay";
/// Fields of metadata that a file may say something about.
const METADATA: [&str; 5] = ["name", "generateName", "namespace", "labels", "annotations"];

/// What is applied of a document.
pub fn object(document: &Value) -> Value {
    let metadata = document["metadata"].as_object().into_iter().flatten();
    let metadata: serde_json::Map<String, Value> = metadata
        .filter(|(key, value)| METADATA.contains(&key.as_str()) && !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    json!({
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "metadata": metadata,
        "spec": document["spec"],
    })
}

/// Another experiment each time, with a name of its own.
pub async fn create(cluster: &Cluster, object: Value) -> anyhow::Result<TuningExperiment> {
    let experiment: TuningExperiment = serde_json::from_value(object)?;
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let created = cluster.experiments().create(&params, &experiment).await;
    let created = created.explain("can't create the experiment")?;
    print::note(format_args!("assay: experiment {} created in namespace {}", created.name_any(), cluster.namespace));
    Ok(created)
}

/// The experiment of this name, which may be there already. `otherwise` says what to do if it is another one.
pub async fn apply(cluster: &Cluster, name: &str, object: &Value, otherwise: &str) -> anyhow::Result<TuningExperiment> {
    let found = cluster.find(name).await?;
    if let Some(found) = &found {
        refuse_another(cluster, found, &serde_json::from_value(object["spec"].clone())?, otherwise)?;
    }
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let applied = cluster.experiments().patch(name, &params, &Patch::Apply(object)).await;
    let applied = applied.explain(&format!("can't apply experiment {name}"))?;
    let what = if found.is_some() { "already exists" } else { "created" };
    print::note(format_args!("assay: experiment {name} {what} in namespace {}", cluster.namespace));
    Ok(applied)
}

/// An experiment that changes is a new experiment, so it needs a new name.
pub fn refuse_another(
    cluster: &Cluster,
    found: &TuningExperiment,
    wanted: &TuningExperimentSpec,
    otherwise: &str,
) -> anyhow::Result<()> {
    let (name, namespace) = (found.name_any(), &cluster.namespace);
    if found.metadata.deletion_timestamp.is_some() {
        bail!("experiment {name} in namespace {namespace} is being deleted: try again when it is gone");
    }
    if wanted.fixed() != found.spec.fixed() {
        bail!(
            "another experiment {name} exists in namespace {namespace}, and a changed experiment is a new experiment: {otherwise}"
        );
    }
    Ok(())
}

/// Suspends an experiment, or resumes it.
pub async fn suspend(cluster: &Cluster, name: &str, suspend: bool) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    cluster.experiments().patch(name, &params, &patch).await.explain(&format!("can't change experiment {name}"))?;
    Ok(())
}

/// Suspends the experiment of a visit in which a candidate can't be measured, and notes which and why, so that it is not tried again.
pub async fn set_aside(cluster: &Cluster, name: &str, why: &str) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {UNMEASURED_ANNOTATION: why}}, "spec": {"suspend": true}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let api = cluster.experiments();
    api.patch(name, &params, &Patch::Merge(patch)).await.explain(&format!("can't change experiment {name}"))?;
    Ok(())
}

/// Deletes this very experiment: another one may have the name by now.
pub async fn delete(cluster: &Cluster, experiment: &TuningExperiment) -> anyhow::Result<()> {
    let name = experiment.name_any();
    let preconditions = Preconditions { uid: experiment.metadata.uid.clone(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match cluster.experiments().delete(&name, &params).await {
        Ok(_) => Ok(()),
        Err(error) if not_found(&error) => Ok(()),
        Err(error) => Err(error).explain(&format!("can't delete experiment {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_users_say_is_applied() {
        let document = json!({
            "apiVersion": "assay.rocks/v1alpha1",
            "kind": "TuningExperiment",
            "metadata": {"name": "a", "labels": {"x": "y"}, "uid": "1", "namespace": null, "managedFields": []},
            "spec": {"seed": 1},
            "status": {"verdict": "Win"},
        });
        assert_eq!(
            object(&document),
            json!({
                "apiVersion": "assay.rocks/v1alpha1",
                "kind": "TuningExperiment",
                "metadata": {"name": "a", "labels": {"x": "y"}},
                "spec": {"seed": 1},
            })
        );
    }
}
