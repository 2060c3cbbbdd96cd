//! `assay plan`.

mod text;

use std::process::ExitCode;

use assay_core::plan::Plan;
use clap::{Args, ValueEnum};

use super::options::CheckArgs;
use crate::print;
use crate::text::plural;
use text::text;

/// Arguments of `assay plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub check: CheckArgs,
    /// The noise of one run in percent, as `assay aa` has measured it: tells which effects the experiment finds
    #[arg(long, value_name = "PERCENT", value_parser = noise)]
    pub noise: Option<f64>,
    /// How to print the plan
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people; long parts are folded
    Text,
    /// The whole plan, for machines
    Json,
}

/// Checks the file and prints its plan. Problems go to standard error, so that the plan can be piped.
pub fn command(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let mut checked = args.check.check();
    print::err(&checked);
    let Some(experiment) = checked.experiment.take() else {
        print::note(format_args!("{}: {}", checked.file(), plural(checked.errors(), "error")));
        return Ok(ExitCode::FAILURE);
    };
    let plan = Plan::new(experiment)?;
    let keeps_datasets = checked.spec.as_ref().is_some_and(|spec| spec.placement.keeps_datasets());
    match args.output {
        Output::Json => print::out(serde_json::to_string_pretty(&plan)? + "\n")?,
        Output::Text => print::out(text(&plan, keeps_datasets, args.noise.map(|percent| percent / 100.0)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A standard deviation in percent of the mean.
fn noise(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse() {
        Ok(percent) if percent > 0.0 && percent < 1000.0 => Ok(percent),
        _ => Err("must be a positive number, such as 4 or 4%".to_owned()),
    }
}
