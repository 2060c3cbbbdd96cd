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
            advice.push(format!("{}: too few valid runs to tell; mend what made them invalid.", rule.name));
            continue;
        };
        let finds = |repetitions: u32| {
            let planned = Experiment { repetitions, ..experiment.clone() };
            let spreads = spreads_of(&planned.design(), &rule.name, &spreads);
            detectable(&planned, &spreads).map(|effects| effects.overall)
        };
        let enough = (2..=MANY).find(|&n| finds(n).is_some_and(|effect| effect <= rule.margin));
        let (name, margin) = (&rule.name, 100.0 * rule.margin);
        advice.push(match enough {
            Some(n) if n <= experiment.repetitions => format!(
                "{name}: {} repetitions find an effect of the margin, {margin:.1} %; {n} would be enough.",
                experiment.repetitions
            ),
            Some(n) => format!(
                "{name}: an effect of the margin, {margin:.1} %, needs {n} repetitions, the experiment has {}.",
                experiment.repetitions
            ),
            None => {
                let factor = finds(experiment.repetitions).map_or(f64::NAN, |effect| effect / rule.margin);
                format!(
                    "{name}: no sensible number of repetitions finds an effect of {margin:.1} % in this noise. Make the runs \
                     longer (noise has to fall by a factor of {factor:.1}), use a quieter node, or declare a wider margin."
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
            "{spoilt} of {attempts} attempts were invalid or lost: use a quieter node; the report names the reasons."
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
            "{} in {} moved by {:+.1} % from the first block to the last. Blocks keep that out of verdicts, but look for what \
             changes with time: heat, a filling disk, neighbours.",
            noise.metric,
            noise.scenario,
            100.0 * drift.exp_m1()
        ));
    }
    if let Some(drift) = large(noise.order_drift) {
        found.push(format!(
            "{} in {} moved by {:+.1} % within blocks: runs inherit something from their predecessors. The random order keeps it \
             from favouring a config; a longer warm-up or a disk that is less full may remove it.",
            noise.metric,
            noise.scenario,
            100.0 * drift.exp_m1()
        ));
    }
    found
}
