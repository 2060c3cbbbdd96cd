//! The folder and the report of an experiment on a cluster.

use std::path::Path;

use anyhow::bail;
use assay_api::{TuningExperiment, TuningTrial};
use assay_core::judge::judge;
use assay_core::report::Report;
use assay_core::status::report_digest;
use assay_core::validate::{API_VERSION, KIND};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;

use super::client::{Cluster, read};
use super::plan::plan_of;
use super::records::record;
use super::words::refused;
use crate::folder::{Fetched, Outcome, Pages, earlier, folder_of, kept_attempts};
use crate::print;
use crate::screen::advised;
use crate::text::plural;

/// Records that are asked for at once.
const AT_ONCE: usize = 8;

/// Fetches everything, judges it, and prints what came out. `source` is the experiment's file, where we have it.
pub async fn outcome(
    cluster: &Cluster,
    experiment: &TuningExperiment,
    out: Option<&Path>,
    source: Option<&[u8]>,
) -> anyhow::Result<Outcome> {
    let name = experiment.metadata.name.as_deref().unwrap_or_default();
    if let Some(refused) = refused(experiment) {
        if experiment.status.as_ref().is_none_or(|status| status.plan.is_none()) {
            bail!("experiment {name} was refused before any trial: {}", refused.message);
        }
        print::note(format_args!(
            "assay: experiment {name} was refused ({}); its results so far decide nothing",
            refused.message
        ));
    }
    let plan = plan_of(experiment)?;
    let trials = cluster.trials_of(experiment).await?.into_iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let source = source.map_or_else(|| as_file(experiment), |source| Ok(source.to_vec()))?;
    let folder = Fetched::open(&folder_of(name, out), &cluster.origin(experiment), &plan, &source)?;
    let missing = fetch(cluster, &folder, &trials, plan.digest.as_str()).await?;
    if missing > 0 {
        let records = plural(missing, "record");
        print::note(format_args!("assay: {records} missing: the verdict does not need them, plots leave them out"));
    }
    // What was written is judged, not what was fetched: `assay judge` on the folder says the same.
    let attempts = kept_attempts(&folder.dir, &plan)?;
    let judged = advised(judge(&plan, &attempts)?);
    let pages = Pages::of(&judged.clone().beside(earlier(&folder.dir)), &folder.dir);
    pages.keep(&folder.dir)?;
    compare(experiment, &judged)?;
    let outcome = Outcome { plan, attempts, report: pages.report, dir: folder.dir.clone() };
    print::out(outcome.text())?;
    Ok(outcome)
}

/// Writes all attempts of a plan to a folder; gives the number of records that are gone.
async fn fetch(cluster: &Cluster, folder: &Fetched, trials: &[TuningTrial], plan: &str) -> anyhow::Result<usize> {
    let planned = trials.iter().filter(|trial| trial.spec.plan == plan);
    let attempts = planned.flat_map(|trial| {
        let status = trial.status.iter().flat_map(|status| &status.attempts);
        status.map(move |attempt| (trial, attempt))
    });
    let wanted = attempts.filter(|(trial, attempt)| !folder.has(&trial.spec, attempt));
    let mut fetched = futures::stream::iter(wanted)
        .map(|(trial, attempt)| async move { anyhow::Ok((trial, attempt, record(cluster, attempt).await?)) })
        .buffered(AT_ONCE);
    let mut missing = 0;
    while let Some((trial, attempt, record)) = fetched.try_next().await? {
        missing += usize::from(record.is_none() && attempt.record.is_some());
        folder.keep(&trial.spec, attempt, record)?;
    }
    Ok(missing)
}

/// The experiment as a file that gives the same plan.
fn as_file(experiment: &TuningExperiment) -> anyhow::Result<Vec<u8>> {
    let spec = experiment.spec.fixed();
    let document = json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": experiment.metadata.name}, "spec": spec,
    });
    Ok(serde_yaml::to_string(&document)?.into_bytes())
}

/// The operator has judged the same attempts by the same rules.
fn compare(experiment: &TuningExperiment, report: &Report) -> anyhow::Result<()> {
    let Some(status) = &experiment.status else { return Ok(()) };
    let (Some(theirs), Some(plan)) = (&status.report_digest, &status.plan) else { return Ok(()) };
    let own = report_digest(report)?;
    if report.progress.complete && own != *theirs {
        print::note(format_args!(
            "assay: this report ({}, digest {own}) differs from the operator's ({}, digest {theirs}): trust the newer \
             version",
            report.produced_by, plan.produced_by
        ));
    }
    Ok(())
}
