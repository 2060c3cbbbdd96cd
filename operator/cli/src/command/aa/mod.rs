//! `assay aa`: the baseline of an experiment against itself.

mod text;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use assay_core::aa;
use assay_core::decide::Places;
use assay_core::experiment::Experiment;
use assay_core::judge;
use assay_core::report::Report;
use assay_core::validate::validate_document;
use assay_core::verdict::Verdict;
use serde_json::Value;

use super::given::{Given, given, must_be_experiment};
use super::options::{INTERRUPTED, RunArgs};
use crate::cluster::{self, ClusterArgs};
use crate::folder::{Outcome, keep_noise};
use crate::local;
use crate::print;
use text::text;

/// Arguments of `assay aa`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: no difference claimed (expected); 10: a false Win, Reject or Tradeoff; 11: any Invalid; \
                        1: error; 2: wrong arguments; 130: interrupted."
)]
pub struct AaArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Run on a Kubernetes cluster with the Assay operator: measures the noise of the nodes that the experiment selects
    #[arg(long, conflicts_with_all = ["bench", "wait_for_quiet"])]
    pub cluster: bool,
    #[command(flatten)]
    pub which: ClusterArgs,
    /// How many extra copies of the baseline to compare
    #[arg(long, value_name = "NAMES", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub names: u8,
}

pub fn command(args: &AaArgs) -> anyhow::Result<ExitCode> {
    let (file, out) = (args.run.file.as_path(), args.run.out.as_deref());
    if given(file) == Some(Given::Sweep) {
        bail!(
            "{0} is the file of a sweep, whose nights show the noise: measure one with `assay sweep run {0} --history DIR --now`, \
             then `assay sweep plan {0} --noise-from DIR/nights/NIGHT`",
            file.display()
        );
    }
    must_be_experiment(file)?;
    let (original, outcome) = if args.cluster {
        let (original, document) = cluster::run::sound(file)?;
        let (document, experiment) = same(&document.value, args)?;
        let source = serde_yaml::to_string(&document)?;
        let outcome = cluster::run::execute(&cluster::run::Asked {
            which: &args.which,
            file,
            out,
            document: &document,
            source: source.as_bytes(),
            planned: experiment.trials() as usize,
        })?;
        (original, outcome)
    } else {
        args.which.must_be_empty()?;
        let sound = local::sound(file, out, &args.run.bench)?;
        let (document, experiment) = same(&sound.document.value, args)?;
        let source = serde_yaml::to_string(&document)?;
        (
            sound.experiment,
            local::execute(experiment, source.as_bytes(), &sound.benches, out, args.run.wait_for_quiet, None)?,
        )
    };
    let Some(outcome) = outcome else { return Ok(ExitCode::from(INTERRUPTED)) };
    show(&original, &outcome)?;
    Ok(ExitCode::from(exit_code(&outcome.report)))
}

/// The A/A of a document, as a document and read.
fn same(original: &Value, args: &AaArgs) -> anyhow::Result<(Value, Experiment)> {
    let document = aa::document(original, usize::from(args.names));
    let validation = validate_document(&document);
    let problem = validation.problems.iter().find(|problem| problem.is_error()).map(ToString::to_string);
    let experiment = validation.experiment.with_context(|| {
        format!("can't make an A/A of {}: {}", args.run.file.display(), problem.unwrap_or_default())
    })?;
    Ok((document, experiment))
}

/// Keeps what was measured of the noise, and says what it means.
fn show(original: &Experiment, outcome: &Outcome) -> anyhow::Result<()> {
    let places = Places::new(&outcome.plan, &outcome.attempts)?;
    let noises = aa::noise(&places);
    keep_noise(&outcome.dir, &noises)?;
    let spreads = judge::spreads(&places, original)?.ok();
    print::out(format_args!("\n{}", text(original, &noises, spreads.as_ref(), &outcome.report, &outcome.dir)))
}

fn exit_code(report: &Report) -> u8 {
    if aa::false_claims(report) != (0, 0) {
        10
    } else if report.configs.iter().any(|config| config.ruling.verdict == Verdict::Invalid) {
        11
    } else {
        0
    }
}
