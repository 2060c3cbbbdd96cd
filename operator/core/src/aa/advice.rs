use super::Noise;
use crate::experiment::Experiment;
use crate::plan::power::{detectable, spreads_of};
use crate::report::Report;
use crate::stats::Scale;
use crate::verdict::Purpose;

/// Repetitions beyond which longer or quieter runs are the better advice.
const MANY: u32 = 100;
/// Attempts of which this share is invalid point to a disturbed machine.
const INVALID_SHARE: f64 = 0.05;

/// What to do about the noise that an A/A of `experiment` has found.
pub fn advice(experiment: &Experiment, noises: &[Noise], report: &Report) -> Vec<String> {
    let mut advice = Vec::new();
    for rule in experiment.metrics.iter().filter(|rule| rule.purpose == Purpose::Objective && rule.scale == Scale::Log)
    {
        let of = |scenario: &str| noises.iter().find(|n| n.scenario == scenario && n.metric == rule.name);
        let spreads: Option<Vec<f64>> = experiment.scenarios.iter().map(|s| of(&s.name)?.within).collect();
        let Some(spreads) = spreads else {
            advice.push(format!(
                "{}: too few valid runs to measure the noise; fix what made the others invalid.",
                rule.name
            ));
            continue;
        };
        let finds = |repetitions: u32| {
            let planned = Experiment { repetitions, ..experiment.clone() };
            let spreads = spreads_of(&planned.design(), &rule.name, &spreads);
            detectable(&planned, &spreads)?.gain()
        };
        let enough = (2..=MANY).find(|&n| finds(n).is_some_and(|effect| effect <= rule.margin));
        let (name, margin) = (&rule.name, 100.0 * rule.margin);
        advice.push(match enough {
            Some(n) if n <= experiment.repetitions => format!(
                "{name}: {} repetitions detect an effect of {margin:.1} % (the margin); {n} would be enough.",
                experiment.repetitions
            ),
            Some(n) => format!(
                "{name}: detecting an effect of {margin:.1} % (the margin) needs {n} repetitions; the experiment has \
                 {}.",
                experiment.repetitions
            ),
            None => {
                let factor = finds(experiment.repetitions).map_or(f64::NAN, |effect| effect / rule.margin);
                format!(
                    "{name}: at this noise, no practical number of repetitions detects an effect of {margin:.1} %. \
                     Make runs longer (noise must drop by a factor of {factor:.1}), use a quieter node, or declare a \
                     wider margin."
                )
            }
        });
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
