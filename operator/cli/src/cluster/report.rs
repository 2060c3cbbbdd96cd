//! `assay report`: the folder and the report of an experiment on a cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use assay_api::{AttemptStatus, TuningExperiment, TuningTrial};
use assay_core::decide::Attempt;
use assay_core::judge::judge;
use assay_core::plan::Plan;
use assay_core::report::Report;
use assay_core::status::report_digest;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;

use super::errors::{Told as _, lost};
use super::folder::{Folder, plan_of};
use super::words::refused;
use super::{Cluster, ClusterArgs, experiment_name, on};
use crate::print;
use crate::run::store::{kept_attempts, reports::keep_report};
use crate::run::{CodeArgs, outcome_text, results_of};
use crate::validate::plural;

/// Records that are asked for at once.
const AT_ONCE: usize = 8;

/// Arguments of `assay report`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 no config is rejected, 10 any Reject or Tradeoff, 11 any Invalid or Inconclusive (and no \
                        Reject or Tradeoff), 1 an error."
)]
pub struct ReportArgs {
    /// The experiment
    #[arg(value_parser = experiment_name)]
    name: String,
    /// The folder for records and reports; by default results/NAME of the experiment
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    codes: CodeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let ReportArgs { name, out, codes, cluster } = args;
    on(&cluster, |cluster| async move {
        let experiment = cluster.experiment(&name).await?;
        let outcome = outcome(&cluster, &experiment, out.as_deref(), None).await?;
        Ok(ExitCode::from(codes.code(&outcome.report)))
    })
}

/// What came of an experiment.
pub struct Outcome {
    pub plan: Plan,
    pub attempts: Vec<Attempt>,
    pub report: Report,
    /// Where all of it is.
    pub dir: PathBuf,
}

/// Where an experiment is kept.
pub fn folder_of(name: &str, out: Option<&Path>) -> PathBuf {
    out.map_or_else(|| results_of(name), Path::to_owned)
}

/// Fetches everything, judges it, and prints what came out.
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
            "assay: experiment {name} was refused, and what there is of it does not decide: {}",
            refused.message
        ));
    }
    let plan = plan_of(experiment)?;
    let trials = cluster.trials_of(experiment).await?;
    let dir = folder_of(name, out);
    let folder = Folder::open(&dir, &cluster.namespace, experiment, &plan, source)?;
    let missing = fetch(cluster, &folder, &trials, plan.digest.as_str()).await?;
    if missing > 0 {
        let records = plural(missing, "record");
        print::note(format_args!(
            "assay: {records} can't be found any more: the verdict does not need them, plots are without them"
        ));
    }
    // What was written is judged, not what was fetched: `assay judge` on the folder says the same.
    let attempts = kept_attempts(&folder.dir, &plan)?;
    let report = judge(&plan, &attempts)?;
    keep_report(&report, &folder.dir, &folder.dir)?;
    compare(experiment, &report)?;
    print::out(outcome_text(&report, &folder.dir))?;
    let dir = folder.dir;
    Ok(Outcome { plan, attempts, report, dir })
}

/// Writes all attempts of a plan to a folder; gives the number of records that are gone.
async fn fetch(cluster: &Cluster, folder: &Folder, trials: &[TuningTrial], plan: &str) -> anyhow::Result<usize> {
    let planned = trials.iter().filter(|trial| trial.spec.plan == plan);
    let attempts = planned.flat_map(|trial| {
        let status = trial.status.iter().flat_map(|status| &status.attempts);
        status.map(move |attempt| (trial, attempt))
    });
    let wanted = attempts.filter(|(trial, attempt)| !folder.has(trial, attempt));
    let mut fetched = futures::stream::iter(wanted)
        .map(|(trial, attempt)| async move { anyhow::Ok((trial, attempt, record(cluster, attempt).await?)) })
        .buffered(AT_ONCE);
    let mut missing = 0;
    while let Some((trial, attempt, record)) = fetched.try_next().await? {
        missing += usize::from(record.is_none() && attempt.record.is_some());
        folder.keep(trial, attempt, record.as_ref())?;
    }
    Ok(missing)
}

/// The full record of an attempt; `None` where it has none, or it is gone.
async fn record(cluster: &Cluster, attempt: &AttemptStatus) -> anyhow::Result<Option<ConfigMap>> {
    let Some(name) = &attempt.record else { return Ok(None) };
    match cluster.records().get(name).await {
        Ok(record) => Ok(Some(record)),
        Err(error) if lost(&error) => Ok(None),
        Err(error) => Err(error).told(&format!("record {name} can't be read")),
    }
}

/// The operator has judged the same attempts by the same rules.
fn compare(experiment: &TuningExperiment, report: &Report) -> anyhow::Result<()> {
    let Some(status) = &experiment.status else { return Ok(()) };
    let (Some(theirs), Some(plan)) = (&status.report_digest, &status.plan) else { return Ok(()) };
    let own = report_digest(report)?;
    if report.progress.complete && own != *theirs {
        print::note(format_args!(
            "assay: this report ({}, digest {own}) is not what the operator has judged ({}, digest {theirs}): believe the one \
             of the newer version",
            report.engine, plan.engine
        ));
    }
    Ok(())
}
