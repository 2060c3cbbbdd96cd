//! An experiment on a cluster, from its file to its report.

use std::path::Path;

use anyhow::{Context as _, bail};
use assay_core::experiment::Experiment;
use kube::ResourceExt as _;
use serde_json::Value;

use super::changes::{apply, create, object};
use super::client::{Cluster, ClusterArgs, on};
use super::fetch::outcome;
use super::following::{Followed, follow, interrupted};
use super::words::finished;
use crate::file::{Document, Wanted, check_for_cluster};
use crate::folder::{self, Outcome, folder_of};
use crate::print;
use crate::text::plural;

/// Checks the file, and says everything that there is to say about it without a cluster.
pub fn sound(file: &Path) -> anyhow::Result<(Experiment, Document)> {
    let mut checked = check_for_cluster(file, Wanted::Experiment);
    print::err(&checked);
    let (file, errors) = (checked.file().to_owned(), plural(checked.errors(), "error"));
    let sound = checked.experiment.take().zip(checked.document.take());
    sound.with_context(|| format!("{file} was not run: fix the {errors} above"))
}

/// What was asked for on the command line.
pub struct Asked<'a> {
    pub which: &'a ClusterArgs,
    pub file: &'a Path,
    pub out: Option<&'a Path>,
    pub document: &'a Value,
    /// What is kept beside the records.
    pub source: &'a [u8],
    /// Trials of the plan.
    pub planned: usize,
}

/// Runs an experiment to its end; `None` where nobody waited for it.
pub fn execute(asked: &Asked<'_>) -> anyhow::Result<Option<Outcome>> {
    // Before anything runs that would find no place for its records.
    asked.out.map_or(Ok(()), folder::refuse_others)?;
    on(asked.which, |cluster| start(cluster, asked))
}

/// The namespace that a file and the command line agree on.
pub fn placed(cluster: Cluster, document: &Value, which: &ClusterArgs, file: &Path) -> anyhow::Result<Cluster> {
    match (document["metadata"]["namespace"].as_str(), &which.namespace) {
        (Some(own), Some(other)) if own != other => {
            bail!("{} says namespace {own}, but --namespace says {other}: fix one of them", file.display())
        }
        (Some(own), _) => Ok(cluster.in_namespace(own)),
        (None, _) => Ok(cluster),
    }
}

/// What to do if another experiment has the name.
fn renamed(cluster: &Cluster, name: &str) -> String {
    format!("rename yours, or delete that one with `assay cancel {name} -n {}`", cluster.namespace)
}

async fn start(cluster: Cluster, asked: &Asked<'_>) -> anyhow::Result<Option<Outcome>> {
    let object = object(asked.document);
    let cluster = placed(cluster, asked.document, asked.which, asked.file)?;
    let (experiment, again) = match object["metadata"]["name"].as_str() {
        Some(name) => {
            (apply(&cluster, name, &object, &renamed(&cluster, name)).await?, "The same command follows it again; ")
        }
        None => (create(&cluster, object).await?, ""),
    };
    let name = experiment.name_any();
    folder::prepare(&folder_of(&name, asked.out), &cluster.origin(&experiment))?;
    match follow(&cluster, &experiment, asked.planned, |experiment| finished(experiment).is_some()).await? {
        Followed::Over(experiment) => {
            tokio::select! {
                outcome = outcome(&cluster, &experiment, asked.out, Some(asked.source)) => outcome.map(Some),
                ended = interrupted() => {
                    ended?;
                    print::note(format_args!(
                        "assay: interrupted; experiment {name} has finished; `assay report {name}` fetches the rest"
                    ));
                    Ok(None)
                }
            }
        }
        Followed::Interrupted => {
            print::note(format_args!(
                "assay: interrupted; experiment {name} continues on the cluster in namespace {}. {again}`assay report \
                 {name}` fetches its trials so far, `assay suspend {name}` pauses it, `assay cancel {name}` deletes it",
                cluster.namespace
            ));
            Ok(None)
        }
    }
}
