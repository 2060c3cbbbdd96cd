//! What an A/A says, for people.

use std::fmt::Write as _;
use std::path::Path;

use assay_core::aa::{self, Noise};
use assay_core::experiment::Experiment;
use assay_core::plan::power::Spreads;
use assay_core::report::Report;
use assay_core::stats::Scale;

use crate::machine;
use crate::screen::Steps;
use crate::text::plural;

/// What the A/A says about the machine, and about the experiment that it was made from.
pub fn text(
    experiment: &Experiment,
    noises: &[Noise],
    spreads: Option<&Spreads>,
    report: &Report,
    dir: &Path,
) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let (overall, cells) = aa::false_claims(report);
    let _ = writeln!(
        out,
        "False claims: {overall} of {} overall, {cells} of {} in scenarios. At most 1 in 20 experiments should have \
         any.\n",
        plural(report.configs.len(), "verdict"),
        report.cells.len(),
    );
    let scenario = noises.iter().map(|noise| noise.scenario.len()).max().unwrap_or_default().max("scenario".len());
    let metric = noises.iter().map(|noise| noise.metric.len()).max().unwrap_or_default().max("metric".len());
    let _ = writeln!(
        out,
        "Noise of single runs (standard deviation)\n  {:scenario$}  {:metric$}  runs  overall  in blocks  between blocks    drift  drift in blocks",
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
    let threads = machine::cpus() as usize;
    let steps = Steps::new("simulating the experiment");
    let known = spreads.iter().flat_map(|spreads| {
        aa::REPETITIONS.iter().enumerate().filter_map(|(done, &repetitions)| {
            steps.at(done, aa::REPETITIONS.len() + 1);
            let gain = aa::resolves(experiment, repetitions, spreads, threads)?.found();
            Some(format!("{repetitions}: {}", gain.map_or("none".to_owned(), |gain| format!("{:.1} %", 100.0 * gain))))
        })
    });
    let gains: Vec<String> = known.collect();
    if !gains.is_empty() {
        let _ = writeln!(
            out,
            "\nGains that {} can detect here with 80 % probability, by repetitions; none is smaller than the margin\n  {}",
            experiment.name,
            gains.join("   ")
        );
    }
    steps.at(aa::REPETITIONS.len(), aa::REPETITIONS.len() + 1);
    let _ = writeln!(out, "\nAdvice");
    for line in aa::advice(experiment, noises, spreads, report, threads) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "\nTo plan with this noise: assay plan FILE --noise-from {}", dir.display());
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
