//! `assay bisect`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use assay_core::bisect::{Came, Culprit, End, Group, Listed};
use assay_core::stats::Scale;
use assay_core::stats::Shift;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::options::{INTERRUPTED, duration, experiment_name};
use crate::cluster::bisect::There;
use crate::cluster::{self, ClusterArgs};
use crate::local;
use crate::local::bisect::Here;
use crate::print;
use crate::search::{Found, worse, worse_percent};
use crate::text::plural;

/// What a search without a culprit is to a script.
const OPEN: u8 = 11;
/// Two-sided 95 % of the normal distribution.
const WIDE: f64 = 1.96;

/// Arguments of `assay bisect`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Exit code 0: a culprit was found; 11: none was (both ends are alike, or the budget is spent); 1: error; 2: wrong \
                  arguments; 130: interrupted. After an error or Ctrl-C, run the same command again to continue. An experiment on a \
                  cluster keeps running."
)]
pub struct BisectArgs {
    /// The name or revision of a candidate that is good
    pub good: String,
    /// The name or revision of a later candidate that is worse
    pub bad: String,
    /// The file that lists the candidates, from old to new
    #[arg(long, value_name = "FILE")]
    pub candidates: PathBuf,
    /// The folder for the results of all visits; default: results/bisect-GOOD-BAD
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The bench that runs the candidates if they are configs
    ///
    /// Default: the bench that `ASSAY_BENCH` names, else the assay-bench next to assay.
    #[arg(long, value_name = "PATH")]
    pub bench: Option<PathBuf>,
    /// Before each trial, wait until other programs leave its CPUs alone, or for this long; 10m if you name no duration
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "10m", value_parser = duration)]
    pub wait_for_quiet: Option<Duration>,
    /// Run on a Kubernetes cluster with the Assay operator: candidates are images or configs, each visit an experiment
    #[arg(long, conflicts_with_all = ["bench", "out", "wait_for_quiet"])]
    pub cluster: bool,
    /// What the experiments on a cluster are called: NAME-bisect-001 and so on; default: the name of the experiment or sweep that the file
    /// of candidates names
    #[arg(long, requires = "cluster", value_parser = experiment_name)]
    pub name: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub which: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// The answer with all visits, for machines
    Json,
}

pub fn command(args: &BisectArgs) -> anyhow::Result<ExitCode> {
    let (good, bad, listing) = (args.good.as_str(), args.bad.as_str(), args.candidates.as_path());
    let found = if args.cluster {
        cluster::bisect::bisect(&There { good, bad, listing, name: args.name.as_deref(), which: &args.which })?
    } else {
        args.which.must_be_empty()?;
        let (out, bench) = (args.out.as_deref(), args.bench.as_deref());
        local::bisect::bisect(&Here { good, bad, listing, out, bench, wait_for_quiet: args.wait_for_quiet })?
    };
    let Some(found) = found else { return Ok(ExitCode::from(INTERRUPTED)) };
    let answer = json(&found);
    if let Some(folder) = &found.folder {
        folder.keep_answer(&answer)?;
    }
    match args.output {
        Output::Text => print::out(text(&found))?,
        Output::Json => print::out(serde_json::to_string_pretty(&answer)? + "\n")?,
    }
    Ok(if found.answer.culprits.is_empty() { ExitCode::from(OPEN) } else { ExitCode::SUCCESS })
}

/// A candidate with its revision.
fn named(listed: &Listed) -> String {
    let revision = listed.revision.as_ref().filter(|revision| **revision != listed.name);
    revision.map_or_else(|| listed.name.clone(), |revision| format!("{} ({revision})", listed.name))
}

/// The candidates of a group that can be the culprit.
fn members<'a>(found: &'a Found, group: &Group) -> Vec<&'a Listed> {
    found.bisection.members(group).into_iter().map(|index| &found.candidates[index]).collect()
}

fn text(found: &Found) -> String {
    let mut text = String::new();
    for culprit in &found.answer.culprits {
        let Culprit { group, step } = culprit;
        let names: Vec<String> = members(found, group).into_iter().map(named).collect();
        let what = if names.len() == 1 { names.concat() } else { format!("one of {}", names.join(", ")) };
        // Writing to a string can't fail.
        let _ = writeln!(text, "culprit: {what}, probability {:.1} %", 100.0 * group.probability);
        let before = named(&found.candidates[group.after]);
        let _ = writeln!(text, "  {} {before}, in {} new blocks", sized(found, step), step.blocks);
    }
    if let Some(end) = ended(found) {
        let _ = writeln!(text, "{end}");
    }
    for (index, why) in &found.avoided {
        let _ = writeln!(text, "not measured: {}: {why}", named(&found.candidates[*index]));
    }
    let blocks: usize = found.visits.iter().filter_map(losses).map(<[f64]>::len).sum();
    let count = plural(found.visits.len(), "visit");
    let _ = writeln!(text, "{} in {count}: {}", plural(blocks, "block"), found.place);
    text
}

/// A loss with its interval, and against whom.
fn sized(found: &Found, shift: &Shift) -> String {
    let rule = &found.rule;
    let end = |side: f64| worse_percent(rule, shift.mean + side * WIDE * shift.standard_error);
    let unit = if rule.scale == Scale::Log { "%" } else { "points" };
    let (metric, scenario) = (&rule.name, &found.scenario);
    format!(
        "{} in {metric} of {scenario} (95 % interval {:+.1} to {:+.1} {unit}) than",
        worse(rule, shift.mean),
        end(-1.0),
        end(1.0)
    )
}

/// Why the search ended without a culprit, or without one for all of the loss.
fn ended(found: &Found) -> Option<String> {
    let last = found.candidates.len() - 1;
    let [good, bad] = [0, last].map(|index| named(&found.candidates[index]));
    let ends =
        found.bisection.total().map_or(String::new(), |total| format!("{bad} is {} {good}", sized(found, &total)));
    let rest = if found.answer.culprits.is_empty() { "" } else { "the rest of the loss: " };
    let why = match &found.answer.end {
        End::Found => return None,
        End::NotReproduced(None) => format!("not reproduced: {ends}"),
        End::NotReproduced(Some(chance)) => {
            format!("not reproduced, probability {:.1} %: {ends}, but not again", 100.0 * chance)
        }
        End::Undecided => format!(
            "undecided: {ends}; the noise hides whether it is worse: set more proofBlocks, or use a quieter machine"
        ),
        End::Unsure(likely, chance) => {
            let groups = likely.iter().flat_map(|group| members(found, group)).map(named);
            let names = groups.collect::<Vec<_>>().join(", ");
            let chance = 100.0 * chance;
            format!(
                "not sure: the budget is spent, and the culprit is one of {names}, probability {chance:.1} %; set budgetBlocks and run again to continue"
            )
        }
        End::NonMonotone => format!(
            "no single culprit: measurements contradict each other ({ends}). Either a change was undone and made again, or \
             the machine became noisier; the reports of the visits show how candidates differ"
        ),
        End::NoEnd(index) => {
            let name = named(&found.candidates[*index]);
            format!("{name} can't be measured: choose another end of the search")
        }
    };
    Some(format!("{rest}{why}"))
}

fn losses((_, came): &(assay_core::bisect::Probe, Came)) -> Option<&[f64]> {
    match came {
        Came::Measured(losses) => Some(losses),
        Came::Unusable(_) => None,
    }
}

/// The answer for machines. Losses are on the scale of effects: positive is worse.
fn json(found: &Found) -> Value {
    let name = |index: usize| &found.candidates[index].name;
    let shift =
        |shift: &Shift| json!({"loss": shift.mean, "standardError": shift.standard_error, "blocks": shift.blocks});
    let culprit = |culprit: &Culprit| {
        json!({
            "candidates": members(found, &culprit.group).iter().map(|listed| json!({"name": listed.name, "revision": listed.revision})).collect::<Vec<_>>(),
            "after": name(culprit.group.after),
            "probability": culprit.group.probability,
            "step": shift(&culprit.step),
        })
    };
    let (end, likely, probability) = match &found.answer.end {
        End::Found => ("Found", None, None),
        End::NotReproduced(chance) => ("NotReproduced", None, *chance),
        End::Undecided => ("Undecided", None, None),
        End::Unsure(likely, chance) => ("Unsure", Some(likely), Some(*chance)),
        End::NonMonotone => ("NonMonotone", None, None),
        End::NoEnd(_) => ("EndNotMeasured", None, None),
    };
    let visit = |(probe, came): &(assay_core::bisect::Probe, Came)| {
        let probe = json!({
            "purpose": format!("{:?}", probe.purpose),
            "reference": name(probe.reference),
            "candidate": name(probe.candidate),
        });
        let came = match came {
            Came::Measured(losses) => json!({"losses": losses}),
            Came::Unusable(which) => json!({"notMeasured": name(*which)}),
        };
        [probe, came]
            .iter()
            .filter_map(Value::as_object)
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Value>()
    };
    json!({
        "version": 1,
        "good": name(0),
        "bad": name(found.candidates.len() - 1),
        "scenario": found.scenario,
        "metric": found.rule.name,
        "end": end,
        "culprits": found.answer.culprits.iter().map(culprit).collect::<Vec<_>>(),
        "likely": likely.map(|groups| groups.iter().flat_map(|group| members(found, group)).map(|listed| &listed.name).collect::<Vec<_>>()),
        "probability": probability,
        "ends": found.bisection.total().as_ref().map(shift),
        "notMeasured": found.avoided.iter().map(|(index, why)| json!({"name": name(*index), "why": why})).collect::<Vec<_>>(),
        "visits": found.visits.iter().map(visit).collect::<Vec<_>>(),
    })
}
