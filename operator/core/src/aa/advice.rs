use super::Noise;
use crate::experiment::Experiment;
use crate::plan::power::{MOST_BLOCKS, Power, Spreads};
use crate::report::{Report, number};
use crate::stats::Scale;
use crate::verdict::Purpose;

/// Attempts of which this share is invalid point to a disturbed machine.
const INVALID_SHARE: f64 = 0.05;

/// What to do about the noise that an A/A of `experiment` has found, and about the spread of blocks that follows from it, where
/// enough runs count to know it.
pub fn advice(
    experiment: &Experiment,
    noises: &[Noise],
    spreads: Option<&Spreads>,
    report: &Report,
    threads: usize,
) -> Vec<String> {
    let mut advice = vec![repetitions(experiment, spreads, threads)];
    let objectives = || experiment.metrics.iter().filter(|rule| rule.purpose == Purpose::Objective);
    for rule in objectives().filter(|rule| rule.scale == Scale::Log) {
        let of = |scenario: &str| noises.iter().find(|n| n.scenario == scenario && n.metric == rule.name);
        for noise in experiment.scenarios.iter().filter_map(|scenario| of(&scenario.name)) {
            advice.extend(drifts(noise, rule.margin));
        }
    }
    let attempts = report.progress.attempts;
    let spoilt = report.progress.invalid + report.progress.lost;
    if spoilt as f64 > INVALID_SHARE * attempts as f64 {
        advice.push(format!(
            "{spoilt} of {attempts} attempts were invalid or lost. Use a quieter node; the report lists the reasons."
        ));
    }
    advice
}

/// How many blocks show a gain of the margins: what `assay plan --noise-from` says as well.
fn repetitions(experiment: &Experiment, spreads: Option<&Spreads>, threads: usize) -> String {
    let Some(spreads) = spreads else {
        return "Too few valid runs to measure the noise; fix what made the others invalid.".to_owned();
    };
    let objectives = experiment.metrics.iter().filter(|rule| rule.purpose == Purpose::Objective);
    let margins: Vec<String> =
        objectives.map(|rule| format!("{} {}", rule.name, number::margin(rule.scale, rule.margin))).collect();
    let gain = format!("a gain of the margin ({}) as a Win", margins.join(", "));
    match Power::new(&experiment.design(), spreads, threads).and_then(|power| power.blocks_for_win()) {
        Some(n) if n <= experiment.repetitions as usize => {
            format!("{} repetitions show {gain} with 80 % probability; {n} would be enough.", experiment.repetitions)
        }
        Some(n) => format!(
            "To show {gain} with 80 % probability, the experiment needs {n} repetitions; it has {}.",
            experiment.repetitions
        ),
        None => format!(
            "At this noise, not even {MOST_BLOCKS} repetitions show {gain} with 80 % probability. Make runs longer, use a quieter node, or \
             declare a wider margin."
        ),
    }
}

/// Trends beyond half of what matters.
fn drifts(noise: &Noise, margin: f64) -> Vec<String> {
    let large = |drift: Option<f64>| drift.filter(|drift| drift.abs() > margin.ln_1p() / 2.0);
    let mut found = Vec::new();
    if let Some(drift) = large(noise.drift) {
        found.push(format!(
            "{} in {} drifted by {:+.1} % from the first block to the last. Blocks keep this out of verdicts, but look \
             for the cause: heat, a disk that fills up, neighbours.",
            noise.metric,
            noise.scenario,
            100.0 * drift.exp_m1()
        ));
    }
    if let Some(drift) = large(noise.order_drift) {
        found.push(format!(
            "{} in {} drifted by {:+.1} % within blocks: runs affect the next ones. The random order keeps this fair \
             to all configs; a longer warm-up or a less full disk may remove it.",
            noise.metric,
            noise.scenario,
            100.0 * drift.exp_m1()
        ));
    }
    found
}
