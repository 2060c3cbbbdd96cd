//! `assay aa`: the baseline of an experiment against itself.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use assay_core::aa::{self, Noise};
use assay_core::decide::{Attempt, Places};
use assay_core::experiment::Experiment;
use assay_core::plan::Plan;
use assay_core::report::Report;
use assay_core::stats::Scale;
use assay_core::validate::validate_document;
use assay_core::verdict::{Role, Verdict};
use serde_json::Value;

use crate::cluster::{self, ClusterArgs};
use crate::print;
use crate::run::store::keep_noise;
use crate::run::{self, RunArgs};
use crate::validate::plural;

/// Arguments of `assay aa`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 nothing is claimed, as it should be, 10 a Win, Reject or Tradeoff, which can only be false, 11 \
                        any Invalid, 1 an error, 130 interrupted."
)]
pub struct AaArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Run it on a Kubernetes cluster with the operator of Assay: the noise of the nodes that the experiment selects
    #[arg(long, conflicts_with = "bench")]
    pub cluster: bool,
    #[command(flatten)]
    pub which: ClusterArgs,
    /// How many names the baseline gets beside its own
    #[arg(long, value_name = "NAMES", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub names: u8,
}

pub fn command(args: AaArgs) -> anyhow::Result<ExitCode> {
    if args.cluster {
        let (original, document) = cluster::run::sound(&args.run)?;
        let (document, experiment) = same(&document.value, &args)?;
        let trials = experiment.trials() as usize;
        let source = serde_yaml::to_string(&document)?.into_bytes();
        return cluster::run::execute(&args.run, &args.which, (&document, source), trials, |fetched| {
            outcome(&original, &fetched.plan, &fetched.attempts, &fetched.report, &fetched.dir)
        });
    }
    args.which.must_be_empty()?;
    let sound = run::sound(&args.run)?;
    let (document, experiment) = same(&sound.document.value, &args)?;
    let source = serde_yaml::to_string(&document)?;
    run::execute(experiment, source.as_bytes(), &sound.benches, args.run.out, |session, report| {
        outcome(&sound.experiment, session.plan(), session.attempts(), report, session.dir())
    })
}

/// The A/A of a document, as a document and read.
fn same(original: &Value, args: &AaArgs) -> anyhow::Result<(Value, Experiment)> {
    let document = aa::document(original, usize::from(args.names));
    let validation = validate_document(&document);
    let problem = validation.problems.iter().find(|problem| problem.is_error()).map(ToString::to_string);
    let experiment = validation.experiment.with_context(|| {
        format!("the A/A of {} is no experiment: {}", args.run.file.display(), problem.unwrap_or_default())
    })?;
    Ok((document, experiment))
}

/// Tells what was found, keeps it, and says what it means.
fn outcome(
    original: &Experiment,
    plan: &Plan,
    attempts: &[Attempt],
    report: &Report,
    dir: &Path,
) -> anyhow::Result<u8> {
    let noises = aa::noise(&Places::new(plan, attempts)?);
    keep_noise(dir, &noises)?;
    print::out(format_args!("\n{}", text(original, &noises, report)))?;
    Ok(exit_code(report))
}

/// What the A/A says about the machine, and about the experiment that it was made from.
fn text(experiment: &Experiment, noises: &[Noise], report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let (overall, cells) = aa::false_claims(report);
    let _ = writeln!(
        out,
        "False claims: {overall} of {} overall, {cells} of {} in scenarios. At most one experiment in twenty may have any.\n",
        plural(report.configs.len(), "verdict"),
        report.cells.len(),
    );
    let scenario = noises.iter().map(|noise| noise.scenario.len()).max().unwrap_or_default().max("scenario".len());
    let metric = noises.iter().map(|noise| noise.metric.len()).max().unwrap_or_default().max("metric".len());
    let _ = writeln!(
        out,
        "Noise of single runs (standard deviation)\n  {:scenario$}  {:metric$}  runs    noise  in blocks  between blocks    drift  drift in blocks",
        "scenario", "metric"
    );
    for noise in noises {
        let _ = writeln!(
            out,
            "  {:scenario$}  {:metric$}  {:>4}  {:>7}  {:>9}  {:>14}  {:>7}  {:>15}",
            noise.scenario,
            noise.metric,
            noise.runs,
            spread(noise.scale, noise.total()),
            spread(noise.scale, noise.within),
            spread(noise.scale, noise.between),
            drift(noise.scale, noise.drift),
            drift(noise.scale, noise.order_drift),
        );
    }
    for rule in experiment.metrics.iter().filter(|rule| rule.role == Role::Primary && rule.scale == Scale::Log) {
        let Some(effects) = aa::resolves(experiment, noises, &rule.name) else { continue };
        let effects: Vec<String> = effects.iter().map(|(n, effect)| format!("{n}: {:.1} %", 100.0 * effect)).collect();
        let _ = writeln!(
            out,
            "\nEffects on {} that {} resolves here, overall, by repetitions\n  {}",
            rule.name,
            experiment.name,
            effects.join("   ")
        );
    }
    let _ = writeln!(out, "\nAdvice");
    for line in aa::advice(experiment, noises, report) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

fn spread(scale: Scale, value: Option<f64>) -> String {
    match (scale, value) {
        (_, None) => "unknown".to_owned(),
        (Scale::Log, Some(value)) => format!("{:.1} %", 100.0 * value),
        (Scale::Linear, Some(value)) => format!("{value:.4}"),
    }
}

fn drift(scale: Scale, value: Option<f64>) -> String {
    match (scale, value) {
        (_, None) => "unknown".to_owned(),
        (Scale::Log, Some(value)) => format!("{:+.1} %", 100.0 * value.exp_m1()),
        (Scale::Linear, Some(value)) => format!("{value:+.4}"),
    }
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
