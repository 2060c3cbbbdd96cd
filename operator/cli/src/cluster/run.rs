//! `assay run --cluster`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use assay_api::{TuningExperiment, TuningExperimentSpec};
use kube::api::{Patch, PatchParams, ValidationDirective};
use serde_json::{Value, json};

use super::errors::Told as _;
use super::follow::{Followed, follow};
use super::{Cluster, ClusterArgs, MANAGER, on, report};
use crate::check::check_for_cluster;
use crate::run::{INTERRUPTED, RunArgs};
use crate::validate::plural;
use crate::{file, run};

/// Fields of metadata that a file may say something about.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

pub fn command(args: &RunArgs, which: &ClusterArgs) -> anyhow::Result<ExitCode> {
    run::needs_a_file(args)?;
    let checked = check_for_cluster(&args.file);
    eprint!("{checked}");
    let Some(experiment) = &checked.experiment else {
        bail!("{} is not run: correct the {} above", checked.file(), plural(checked.errors(), "error"));
    };
    let planned = experiment.trials() as usize;
    let source = std::fs::read(&args.file).with_context(|| format!("{} can't be read", args.file.display()))?;
    let document = file::read(&args.file)
        .map_err(|problems| anyhow::anyhow!("{}", problems.first().map(ToString::to_string).unwrap_or_default()))?;
    let object = object(&document.value);
    on(which, |cluster| start(cluster, args.clone(), which.clone(), object, source, planned))
}

/// What is applied of a document.
fn object(document: &Value) -> Value {
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

async fn start(
    cluster: Cluster,
    args: RunArgs,
    which: ClusterArgs,
    object: Value,
    source: Vec<u8>,
    planned: usize,
) -> anyhow::Result<ExitCode> {
    let cluster = match (object["metadata"]["namespace"].as_str(), &which.namespace) {
        (Some(own), Some(asked)) if own != asked => {
            bail!("{} says namespace {own}, --namespace says {asked}: correct one of them", args.file.display())
        }
        (Some(own), _) => cluster.in_namespace(own),
        (None, _) => cluster,
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let found = cluster.find(name).await?;
    if let Some(found) = &found {
        refuse_another(&cluster, name, found, &object["spec"])?;
    }
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let applied = cluster.experiments().patch(name, &params, &Patch::Apply(&object)).await;
    applied.told(&format!("experiment {name} can't be applied"))?;
    let what = if found.is_some() { "is there already" } else { "is created" };
    eprintln!("assay: experiment {name} {what} in namespace {}", cluster.namespace);
    match follow(&cluster, name, planned).await? {
        Followed::Finished(experiment) => report::outcome(&cluster, &experiment, args.out, Some(&source)).await,
        Followed::Interrupted => {
            eprintln!(
                "assay: interrupted; experiment {name} goes on in the cluster. The same command follows it again, `assay \
                 report {name}` fetches what there is, `assay suspend {name}` pauses it, `assay cancel {name}` deletes it; \
                 its namespace is {}",
                cluster.namespace
            );
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// An experiment that changes is a new experiment, so it needs a new name.
fn refuse_another(cluster: &Cluster, name: &str, found: &TuningExperiment, spec: &Value) -> anyhow::Result<()> {
    let namespace = &cluster.namespace;
    if found.metadata.deletion_timestamp.is_some() {
        bail!("experiment {name} in namespace {namespace} is being deleted: try again when it is gone");
    }
    let wanted: TuningExperimentSpec = serde_json::from_value(spec.clone())?;
    if wanted.fixed() != found.spec.fixed() {
        bail!(
            "there is another experiment {name} in namespace {namespace}, and an experiment that changes is a new one: give \
             yours another name, or delete that one with `assay cancel {name} -n {namespace}`"
        );
    }
    Ok(())
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
