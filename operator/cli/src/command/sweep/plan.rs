//! `assay sweep plan`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use assay_api::TuningSweepSpec;
use assay_core::experiment::Experiment;
use assay_core::plan::assumed_seconds;
use assay_core::sweep::{History, LEARNED, Schedule, night};
use assay_core::validate::matrix::Expansion;
use clap::Args;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::promise::{measured, promise};
use crate::command::given::must_be_sweep;
use crate::command::options::CheckArgs;
use crate::command::plan::{Noise, NoiseArgs, changes, combinations, duration, finds, metrics, room, scenarios, slots};
use crate::file::Wanted;
use crate::print;
use crate::text::plural;

/// How the noise is known.
const MEASURE: &str = "each night measures the noise: pass its folder, such as DIR/nights/NIGHT, with --noise-from";
/// Nights that are shown with their times.
const SHOWN: usize = 5;
/// Days that the cost is told for.
const DAYS: i64 = 30;

/// Arguments of `assay sweep plan`.
#[derive(Clone, Debug, Args)]
pub struct SweepPlanArgs {
    #[command(flatten)]
    check: CheckArgs,
    #[command(flatten)]
    noise: NoiseArgs,
    /// The folder of this sweep, or its nights from `assay sweep history --format jsonl`: how they scatter shows how soon changes are suspected
    #[arg(long, value_name = "PATH")]
    history: Option<PathBuf>,
}

/// Checks the file and prints what its nights are. Problems go to standard error, so that the plan can be piped.
pub fn command(args: &SweepPlanArgs) -> anyhow::Result<ExitCode> {
    must_be_sweep(&args.check.file)?;
    let mut checked = args.check.check(Wanted::Sweep);
    print::err(&checked);
    let (Some(spec), Some(experiment)) = (checked.sweep.take(), checked.experiment.take()) else {
        print::note(format_args!("{}: {}", checked.file(), plural(checked.errors(), "error")));
        return Ok(ExitCode::FAILURE);
    };
    let name = checked.document.as_ref().and_then(|document| document.value["metadata"]["name"].as_str());
    let history = args.history.as_ref().map(|path| measured(path, name.unwrap_or_default())).transpose()?;
    print::out(text(
        &spec,
        &experiment,
        &checked.matrix,
        &args.noise.read(&experiment)?,
        history.as_ref(),
        Timestamp::now(),
    )?)?;
    Ok(ExitCode::SUCCESS)
}

fn text(
    spec: &TuningSweepSpec,
    experiment: &Experiment,
    matrix: &Expansion,
    noise: &Noise,
    history: Option<&History>,
    now: Timestamp,
) -> anyhow::Result<String> {
    let Ok(schedule) = Schedule::parse(&spec.schedule, &spec.time_zone, now) else {
        bail!("can't read the schedule {} in {}", spec.schedule, spec.time_zone);
    };
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "{}: {} x {} x {} = {} a night\n",
        experiment.name,
        plural(experiment.scenarios.len(), "scenario"),
        plural(experiment.repetitions as usize, "block"),
        plural(slots(experiment), "run"),
        plural(experiment.trials() as usize, "trial"),
    );
    let paused = if spec.suspend == Some(true) { ", suspended" } else { "" };
    let _ = writeln!(out, "schedule   {} in {}{paused}", spec.schedule, spec.time_zone);
    for night in nights(&schedule, now).take(SHOWN) {
        let _ = writeln!(out, "             {}", schedule.local(night).strftime("%a %Y-%m-%d %H:%M %Z"));
    }
    arms(spec, experiment, matrix, &mut out)?;
    metrics(experiment, &mut out);
    let (subjects, cells) = (experiment.candidates().count(), experiment.scenarios.len());
    let _ = writeln!(
        out,
        "series     {}: {} x {} x {}",
        experiment.series(),
        plural(subjects, "subject"),
        plural(cells, "scenario"),
        plural(experiment.metrics.len(), "metric"),
    );
    scenarios(experiment, &mut out);
    room(experiment, &mut out);
    finds(experiment, noise, MEASURE, &mut out);
    let _ = writeln!(out, "             in a single night; several nights together detect smaller changes");
    promise(spec, experiment, noise, history, now, &mut out);
    if let Some(history) = history {
        let image = spec.reference.image.as_deref().filter(|image| image.contains("@sha256:"));
        let news = history.foreseen(&night::experiment(spec), image)?;
        for line in news
            .into_iter()
            .chain(history.segments_told().into_iter().map(|(said, count)| format!("{count} series: {said}")))
        {
            let _ = writeln!(out, "history    {line}");
        }
    }
    cost(spec, experiment, &schedule, now, &mut out);
    Ok(out)
}

/// The reference and the subjects, each with what it changes.
fn arms(spec: &TuningSweepSpec, experiment: &Experiment, matrix: &Expansion, out: &mut String) -> anyhow::Result<()> {
    for (kind, config) in
        std::iter::once(("reference", &spec.reference)).chain(spec.subjects.iter().map(|s| ("subject", s)))
    {
        let _ = writeln!(out, "{kind:<10} {}", config.name);
        // That of a subject is one of its changes.
        let image = config.image.as_ref().filter(|_| kind == "reference").map(|image| ("image", image));
        let revision = config.revision.as_ref().filter(|_| kind == "reference" || config.image.is_none());
        for (what, text) in image.into_iter().chain(revision.map(|revision| ("revision", revision))) {
            let _ = writeln!(out, "             {what}: {text}");
        }
        if kind == "subject" {
            let planned = experiment.configs.iter().find(|planned| planned.name == config.name);
            changes(planned.context("a subject is in no night")?, out);
        }
    }
    combinations(&experiment.configs[matrix.written()..], matrix, out);
    Ok(())
}

/// What nights take and cost, if all are measured.
fn cost(spec: &TuningSweepSpec, experiment: &Experiment, schedule: &Schedule, now: Timestamp, out: &mut String) {
    let seconds = assumed_seconds(experiment);
    let end = now + SignedDuration::from_hours(24 * DAYS);
    let count = nights(schedule, now).take_while(|night| *night <= end).count();
    let hours = count as f64 * seconds / 3600.0;
    let money = spec.cost.as_ref().and_then(|cost| {
        let of_hour: f64 = cost.per_node_hour.parse().ok()?;
        Some(format!(", {:.2} {}", of_hour * hours, cost.currency))
    });
    let _ = writeln!(
        out,
        "time       about {} a night on one node (estimate; measured once trials run)",
        duration(seconds)
    );
    let _ = writeln!(
        out,
        "cost       {} in {DAYS} days: {hours:.1} node hours{}\n             less if nothing changes: after {LEARNED} \
         measured nights, an unchanged one is skipped, for {} at most",
        plural(count, "night"),
        money.unwrap_or_default(),
        plural(spec.max_skip_days as usize, "day"),
    );
}

fn nights(schedule: &Schedule, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    std::iter::successors(schedule.next_after(now), |night| schedule.next_after(*night))
}
