//! `assay run --cluster`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use assay_api::{TuningExperiment, TuningExperimentSpec};
use assay_core::experiment::Experiment;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams, ValidationDirective};
use serde_json::{Value, json};

use super::errors::Told as _;
use super::follow::{Followed, follow, interrupted};
use super::report::{self, Outcome};
use super::{Cluster, ClusterArgs, MANAGER, folder, on};
use crate::check::check_for_cluster;
use crate::file::Document;
use crate::print;
use crate::run::{CodeArgs, INTERRUPTED, RunArgs};
use crate::validate::plural;

/// Fields of metadata that a file may say something about.
const METADATA: [&str; 5] = ["name", "generateName", "namespace", "labels", "annotations"];

pub fn command(args: &RunArgs, codes: CodeArgs, which: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let (experiment, document) = sound(args)?;
    let planned = experiment.trials() as usize;
    execute(args, which, (&document.value, document.source), planned, |outcome| Ok(codes.code(&outcome.report)))
}

/// Checks the file, and says everything that there is to say about it without a cluster.
pub fn sound(args: &RunArgs) -> anyhow::Result<(Experiment, Document)> {
    let mut checked = check_for_cluster(&args.file);
    print::err(&checked);
    let (file, errors) = (checked.file().to_owned(), plural(checked.errors(), "error"));
    let sound = checked.experiment.take().zip(checked.document.take());
    sound.with_context(|| format!("{file} is not run: correct the {errors} above"))
}

/// Runs an experiment to its end, and keeps its source beside the records. `after` says what its outcome means.
pub fn execute(
    args: &RunArgs,
    which: &ClusterArgs,
    (document, source): (&Value, Vec<u8>),
    planned: usize,
    after: impl FnOnce(&Outcome) -> anyhow::Result<u8>,
) -> anyhow::Result<ExitCode> {
    let asked = Asked { args, which, object: object(document), source, planned };
    on(which, |cluster| start(cluster, asked, after))
}

/// What was asked for on the command line.
struct Asked<'a> {
    args: &'a RunArgs,
    which: &'a ClusterArgs,
    object: Value,
    source: Vec<u8>,
    planned: usize,
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
    Asked { args, which, object, source, planned }: Asked<'_>,
    after: impl FnOnce(&Outcome) -> anyhow::Result<u8>,
) -> anyhow::Result<ExitCode> {
    let cluster = match (object["metadata"]["namespace"].as_str(), &which.namespace) {
        (Some(own), Some(asked)) if own != asked => {
            bail!("{} says namespace {own}, --namespace says {asked}: correct one of them", args.file.display())
        }
        (Some(own), _) => cluster.in_namespace(own),
        (None, _) => cluster,
    };
    let (experiment, again) = match object["metadata"]["name"].as_str() {
        Some(name) => (apply(&cluster, name, &object).await?, "The same command follows it again, "),
        None => (create(&cluster, object).await?, ""),
    };
    let name = experiment.name_any();
    folder::prepare(&report::folder_of(&name, args.out.as_deref()), &cluster.namespace, &experiment)?;
    match follow(&cluster, &experiment, planned).await? {
        Followed::Finished(experiment) => {
            let outcome = tokio::select! {
                outcome = report::outcome(&cluster, &experiment, args.out.as_deref(), Some(&source)) => outcome?,
                ended = interrupted() => {
                    ended?;
                    print::note(format_args!(
                        "assay: interrupted; experiment {name} has ended, and `assay report {name}` fetches the rest of it"
                    ));
                    return Ok(ExitCode::from(INTERRUPTED));
                }
            };
            Ok(ExitCode::from(after(&outcome)?))
        }
        Followed::Interrupted => {
            print::note(format_args!(
                "assay: interrupted; experiment {name} goes on in the cluster. {again}`assay report {name}` fetches what \
                 there is, `assay suspend {name}` pauses it, `assay cancel {name}` deletes it; its namespace is {}",
                cluster.namespace
            ));
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// Another experiment each time, with a name of its own.
async fn create(cluster: &Cluster, object: Value) -> anyhow::Result<TuningExperiment> {
    let experiment: TuningExperiment = serde_json::from_value(object)?;
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let created = cluster.experiments().create(&params, &experiment).await;
    let created = created.told("the experiment can't be created")?;
    print::note(format_args!("assay: experiment {} is created in namespace {}", created.name_any(), cluster.namespace));
    Ok(created)
}

/// The experiment of this name, which may be there already.
async fn apply(cluster: &Cluster, name: &str, object: &Value) -> anyhow::Result<TuningExperiment> {
    let found = cluster.find(name).await?;
    if let Some(found) = &found {
        refuse_another(cluster, name, found, &object["spec"])?;
    }
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let applied = cluster.experiments().patch(name, &params, &Patch::Apply(object)).await;
    let applied = applied.told(&format!("experiment {name} can't be applied"))?;
    let what = if found.is_some() { "is there already" } else { "is created" };
    print::note(format_args!("assay: experiment {name} {what} in namespace {}", cluster.namespace));
    Ok(applied)
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
