//! What detection promises before the first night.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use assay_api::TuningSweepSpec;
use assay_core::experiment::Experiment;
use assay_core::plan::{assumed, power};
use assay_core::stats::default_m0;
use assay_core::sweep::confirm::{Promised, visit_blocks};
use assay_core::sweep::detect::{Delay, Movement, Promise, Watch, delay};
use assay_core::sweep::{History, LEARNED};
use assay_core::validate::display_percent;
use k8s_openapi::jiff::Timestamp;

use crate::command::plan::{Noise, duration};
use crate::folder::{kept_history, kept_sweep};
use crate::text::plural;

/// Noise of a run that is shown where none is known.
const ASSUMED_NOISE: f64 = 0.05;
/// Parts of the margin that a series moves by, at once or each night.
const STEPS: [f64; 3] = [0.5, 1.0, 2.0];
const DRIFT: f64 = 1.0 / 15.0;
/// The subject before a change and after it.
const SIDES: usize = 2;

/// The nights of a sweep: its folder, or a file of `assay sweep history --format jsonl`.
pub fn measured(path: &Path, sweep: &str) -> anyhow::Result<History> {
    if path.is_dir() {
        let kept = kept_sweep(path)?.with_context(|| format!("{} is not the folder of a sweep", path.display()))?;
        if kept.sweep != sweep {
            bail!("{} has the history of sweep {}, not of {sweep}: give that of {sweep}", path.display(), kept.sweep);
        }
        return kept_history(path, sweep);
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut history = History::new(sweep);
    history.import(&text).map_err(|error| anyhow!("{}, {error}", path.display()))?;
    Ok(history)
}

pub fn promise(
    spec: &TuningSweepSpec,
    experiment: &Experiment,
    noise: &Noise,
    history: Option<&History>,
    now: Timestamp,
    out: &mut String,
) {
    let Some(promise) = Promise::of(spec, experiment.series(), now) else { return };
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "promise    chance suspects at most {:.0} changes a year on average, over all series, if nights are independent of each other",
        promise.suspicions_a_year(),
    );
    let (allowed, most) = (spec.detect.confirmations_per_year, promise.suspicions_a_year());
    let knob = if promise.is_lowest() {
        format!(
            "detect.confirmationsPerYear is {allowed}: for so few series less than {most:.0} makes it rarer, and more changes nothing"
        )
    } else {
        format!("detect.confirmationsPerYear is {allowed}: with less, changes are suspected later; with more, sooner")
    };
    let _ = writeln!(out, "             {knob}");
    let (of_blocks, scatter) = scatter(experiment, noise);
    let of_history = "with the scatter of the noisiest series so far".to_owned();
    let known = |name: &str| history.and_then(|history| history.scatter(name)).filter(|sd| *sd > 0.0);
    let watch = Watch::of(spec, experiment, now);
    let mut rows: Vec<(Vec<&str>, f64, f64)> = Vec::new();
    let mut sources: Vec<String> = Vec::new();
    for (place, rule) in experiment.metrics.iter().enumerate() {
        let Some(margin) = watch.margins.get(&rule.name).copied() else { continue };
        let (sd, source) = match known(&rule.name) {
            Some(sd) => (Some(sd), of_history.clone()),
            None if history.is_some() => (
                scatter(place),
                format!("{of_blocks}, where the history has fewer than {LEARNED} nights that can be compared"),
            ),
            None => (scatter(place), of_blocks.clone()),
        };
        let Some(ratio) = sd.filter(|sd| *sd > 0.0).map(|sd| rule.scale.margin(margin) / sd) else {
            let _ = writeln!(out, "suspects   unknown for {}: no noise is known of it", rule.name);
            continue;
        };
        if !sources.contains(&source) {
            sources.push(source);
        }
        match rows.iter_mut().find(|(_, other, of)| (*other, *of) == (margin, ratio)) {
            Some((names, ..)) => names.push(&rule.name),
            None => rows.push((vec![&rule.name], margin, ratio)),
        }
    }
    alerts(spec, experiment, &promise, rows.iter().map(|(.., ratio)| *ratio).reduce(f64::min), out);
    if rows.is_empty() {
        return;
    }
    for (names, margin, ratio) in &rows {
        let steps = STEPS.map(|part| {
            let soon = shown(delay(Movement::Step(part * ratio), promise.alarm()));
            format!("{} {soon}", display_percent(part * margin))
        });
        let drift = shown(delay(Movement::Drift(DRIFT * ratio), promise.alarm()));
        let _ = writeln!(
            out,
            "suspects   {}: a step of {}, a drift of {} a night {drift}",
            names.join(", "),
            steps.join(", "),
            display_percent((DRIFT * margin * 1e4).round() / 1e4),
        );
    }
    let _ = writeln!(
        out,
        "             half of the time, and in brackets 9 times of 10, if 30 nights were measured before (later after fewer), and nights \
         are normal and independent"
    );
    for source in sources {
        let _ = writeln!(out, "             {source}");
    }
}

/// What confirmations promise and cost. `ratio` is the margin of the noisiest metric in standard deviations of a night.
fn alerts(spec: &TuningSweepSpec, experiment: &Experiment, promise: &Promise, ratio: Option<f64>, out: &mut String) {
    let promised = Promised::of(&spec.detect);
    let most = promise.suspicions_a_year().min(promised.per_year.into());
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "alerts     at most {:.2} false ones a year are expected: each of at most {most:.0} confirmations a year errs with a chance of {:.2} %",
        most * promised.alpha,
        100.0 * promised.alpha,
    );
    let Some(ratio) = ratio else { return };
    let repetitions = experiment.repetitions as usize;
    let blocks = visit_blocks((repetitions as f64).sqrt(), ratio, promised.alpha, 1).max(repetitions);
    let runs = SIDES + default_m0(SIDES);
    let run = |scenario| assumed(scenario, experiment.cpus).trial_seconds;
    let longest = experiment.scenarios.iter().map(run).fold(0.0, f64::max);
    let _ = writeln!(
        out,
        "             a confirmation takes two visits {} apart, or four, each of about {} x {runs} runs: {} in the longest scenario",
        duration(promised.visit_gap.as_secs_f64()),
        plural(blocks, "block"),
        duration(longest * (blocks * runs) as f64),
    );
}

fn shown(delay: Delay) -> String {
    let nights = |nights: Option<usize>| nights.map_or("more than 60".to_owned(), |nights| nights.to_string());
    format!("in {} nights ({})", nights(delay.median), nights(delay.ninety_percent))
}

/// How nights of a metric scatter by what is known of runs, and where that is known from.
fn scatter<'a>(experiment: &'a Experiment, noise: &'a Noise) -> (String, Box<dyn Fn(usize) -> Option<f64> + 'a>) {
    let design = experiment.design();
    let even = |noise: f64| power::spreads(&design, &vec![noise; experiment.scenarios.len()]);
    let (what, spreads) = match noise {
        Noise::Unknown => {
            (format!("with {} noise per run (assumed)", display_percent(ASSUMED_NOISE)), even(ASSUMED_NOISE))
        }
        Noise::Given(noise) => (format!("with {} noise per run (given)", display_percent(*noise)), even(*noise)),
        Noise::Measured(spreads) => ("with the measured noise".to_owned(), spreads.clone()),
    };
    let blocks = f64::from(experiment.repetitions).sqrt();
    let worst = move |place: usize| {
        spreads.iter().filter_map(|metrics| metrics.get(place)).copied().reduce(f64::max).map(|sd| sd / blocks)
    };
    (format!("{what}, if nights differ by no more than their blocks"), Box::new(worst))
}
