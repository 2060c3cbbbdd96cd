//! `assay plan`.

mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use assay_core::decide::Places;
use assay_core::experiment::Experiment;
use assay_core::judge;
use assay_core::plan::{Plan, power};
use clap::{Args, ValueEnum};

use super::given::must_be_experiment;
use super::options::CheckArgs;
use crate::file::Wanted;
use crate::folder;
use crate::machine;
use crate::print;
use crate::text::plural;
use text::{Here, text};
pub use text::{Noise, changes, combinations, duration, finds, metrics, room, scenarios, slots};

/// Arguments of `assay plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub noise: NoiseArgs,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What is known of the noise of runs.
#[derive(Clone, Debug, Args)]
pub struct NoiseArgs {
    /// The noise of a run within a block, in percent ("in blocks" of `assay aa`): shows which effects the experiment can detect
    #[arg(long, value_name = "PERCENT", value_parser = noise)]
    pub noise: Option<f64>,
    /// The folder of an earlier run of these scenarios: its noise shows which effects the experiment can detect, and
    /// how many blocks decide
    #[arg(long, value_name = "DIR", conflicts_with = "noise")]
    pub noise_from: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people; long parts are shortened
    Text,
    /// The whole plan, for machines
    Json,
}

/// Checks the file and prints its plan. Problems go to standard error, so that the plan can be piped.
pub fn command(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    must_be_experiment(&args.check.file)?;
    let mut checked = args.check.check(Wanted::Experiment);
    print::err(&checked);
    let Some(experiment) = checked.experiment.take() else {
        print::note(format_args!("{}: {}", checked.file(), plural(checked.errors(), "error")));
        return Ok(ExitCode::FAILURE);
    };
    let plan = Plan::new(experiment)?;
    let keeps_datasets = checked.spec.as_ref().is_some_and(|spec| spec.placement.keeps_datasets());
    let here = Here { cpus: machine::cpus(), memory_bytes: machine::memory_bytes() };
    match args.output {
        Output::Json => print::out(serde_json::to_string_pretty(&plan)? + "\n")?,
        Output::Text => {
            print::out(text(&plan, &checked.matrix, keeps_datasets, &args.noise.read(&plan.experiment)?, here))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl NoiseArgs {
    pub fn read(&self, experiment: &Experiment) -> anyhow::Result<Noise> {
        Ok(match (&self.noise_from, self.noise) {
            (Some(dir), _) => Noise::Measured(measured(dir, experiment)?),
            (None, Some(percent)) => Noise::Given(percent / 100.0),
            (None, None) => Noise::Unknown,
        })
    }
}

/// How much the blocks of an experiment that was run scatter, as the blocks of one that is planned would.
fn measured(dir: &Path, planned: &Experiment) -> anyhow::Result<power::Spreads> {
    if folder::kept_sweep(dir)?.is_some() {
        bail!(
            "{0} is the folder of a sweep: pass that of one night, such as {0}/nights/NIGHT; `assay sweep plan --history {0}` \
             knows all of them",
            dir.display()
        );
    }
    let plan = folder::kept_plan(dir)?;
    let attempts = folder::kept_attempts(dir, &plan)?;
    judge::spreads(&Places::new(&plan, &attempts)?, planned)?.map_err(|judge::NoNoise { metric, scenario }| {
        anyhow!(
            "{} does not show the noise of {metric} in scenario {scenario:?}: pass the folder of an experiment that judges it \
             there",
            dir.display()
        )
    })
}

/// A standard deviation in percent of the mean. A small number without a sign is more likely a fraction.
fn noise(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(fraction) if fraction > 0.0 && fraction < 0.2 && !text.ends_with('%') => {
            Err(format!("did you mean {}%? Write the percent sign", 100.0 * fraction))
        }
        Ok(percent) if percent > 0.0 && percent < 1000.0 => Ok(percent),
        _ => Err("must be a positive number, such as 4 or 4%".to_owned()),
    }
}
