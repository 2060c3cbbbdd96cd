//! How much the blocks of an experiment scatter, and how many of them would decide.

use super::standing::Standing;
use super::{JudgeError, standings};
use crate::decide::Places;
use crate::experiment::Experiment;
use crate::plan::power::{self, Spreads};
use crate::report::NeededBlocks;
use crate::stats::median;
use crate::verdict::{self, Design, Verdict};

/// The scenario and metric whose noise an experiment does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoNoise {
    pub scenario: String,
    pub metric: String,
}

/// How much the blocks of an experiment that was run scatter, as the blocks of one that is planned would: by its scenarios and metrics.
pub fn spreads(places: &Places<'_>, planned: &Experiment) -> Result<Result<Spreads, NoNoise>, JudgeError> {
    let design = places.plan().experiment.design();
    let standings = standings(places, &design)?;
    let wanted = planned.design();
    // A block's scatter is that of the config's run and of the mean of the baseline's.
    let runs = |m0: usize| (1.0 + 1.0 / m0 as f64).sqrt();
    let of = |scenario: &str, metric: &str| {
        let scenario = design.scenarios.iter().position(|own| own.name == scenario)?;
        let metric = design.metrics.iter().position(|own| own.name == metric)?;
        let cells = standings.cells.iter().skip(scenario * design.configs.len()).take(design.configs.len());
        let spreads: Vec<f64> = cells.filter_map(|cell| cell.metrics[metric].sd_block).collect();
        median(&spreads).map(|spread| spread * runs(wanted.m0) / runs(design.m0))
    };
    let known = |scenario: &str, metric: &str| {
        of(scenario, metric).ok_or_else(|| NoNoise { scenario: scenario.to_owned(), metric: metric.to_owned() })
    };
    let row =
        |scenario: &verdict::Scenario| wanted.metrics.iter().map(|rule| known(&scenario.name, &rule.name)).collect();
    Ok(wanted.scenarios.iter().map(row).collect())
}

/// What would decide a config that is inconclusive: nothing where its noise is not known in every scenario.
pub(super) fn needed(standing: &Standing, design: &Design, config: usize) -> Option<NeededBlocks> {
    let unit = standing.overall(config);
    if !unit.decided || unit.conclusion.outcome.verdict != Verdict::Inconclusive {
        return None;
    }
    let spread = |scenario: usize| {
        let cell = standing.cell(scenario * design.configs.len() + config);
        cell.conclusion.metrics.iter().map(|effect| effect.sd_block).collect::<Option<Vec<f64>>>()
    };
    let spreads = (0..design.scenarios.len()).map(spread).collect::<Option<Vec<_>>>()?;
    let power::Needed { neutral, win, reject } = power::needed(design, &spreads);
    let blocks = |n: Option<usize>| n.map(|n| n as u32);
    Some(NeededBlocks { neutral: blocks(neutral), win: blocks(win), reject: blocks(reject) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Attempt;
    use crate::gates::testing::{experiment, plan, scenario, summaries};

    /// Two scenarios and two candidates, beside so many runs of the baseline.
    fn two_by_two(baseline_replicates: u32) -> Experiment {
        let mut experiment = experiment();
        experiment.scenarios.push(scenario("read"));
        let mut other = experiment.configs[1].clone();
        other.name = "other".to_owned();
        experiment.configs.push(other);
        experiment.baseline_replicates = baseline_replicates;
        experiment
    }

    /// A baseline that never changes, and candidates that are by turns so much better and worse, in logarithms: [fill, read] of each.
    fn swinging(experiment: &Experiment, candidate: [f64; 2], other: [f64; 2]) -> Vec<Attempt> {
        let run = |mut summary: assay_protocol::Summary| {
            let own = match summary.trial.config.as_str() {
                "candidate" => candidate,
                "other" => other,
                _ => [0.0; 2],
            };
            let swing = own[usize::from(summary.trial.scenario == "read")];
            let turn = if summary.trial.block.is_multiple_of(2) { swing } else { -swing };
            summary.metrics.insert("throughput".to_owned(), 1000.0 * turn.exp());
            Attempt::Finished(summary.into())
        };
        summaries(experiment).into_iter().map(run).collect()
    }

    /// Standard deviation of eight blocks that swing by one.
    fn unit() -> f64 {
        (8.0_f64 / 7.0).sqrt()
    }

    #[test]
    fn a_plan_expects_the_noise_that_was_seen_at_its_own_baseline_runs() {
        let measured = two_by_two(4);
        let (plan, attempts) = (plan(&measured), swinging(&measured, [0.01, 0.04], [0.03, 0.10]));
        let places = Places::new(&plan, &attempts).unwrap();
        let mut planned = two_by_two(1);
        planned.scenarios.reverse();
        let found = spreads(&places, &planned).unwrap().unwrap();
        // The median of both configs, from four runs of the baseline to one: 1 + 1 beside 1 + 1/4.
        for (found, swing) in found.iter().zip([0.07, 0.02]) {
            let expected = swing * unit() * (2.0_f64 / 1.25).sqrt();
            assert!((found[0] - expected).abs() < 1e-12 && found.len() == 1, "{found:?} {expected}");
        }
        planned.scenarios[0].name = "scan".to_owned();
        let unknown = NoNoise { scenario: "scan".to_owned(), metric: "throughput".to_owned() };
        assert_eq!(spreads(&places, &planned).unwrap(), Err(unknown));
    }

    #[test]
    fn what_a_config_needs_follows_from_its_own_noise_in_each_scenario() {
        let experiment = two_by_two(1);
        let attempts = swinging(&experiment, [0.09, 0.12], [0.06, 0.15]);
        let report = super::super::judge(&plan(&experiment), &attempts).unwrap();
        let design = experiment.design();
        for (config, swings) in [(0, [0.09, 0.12]), (1, [0.06, 0.15])] {
            assert_eq!(report.configs[config].ruling.verdict, Verdict::Inconclusive);
            let expected = power::needed(&design, &swings.map(|swing| vec![swing * unit()]).to_vec());
            let found = report.configs[config].needed.unwrap();
            let found = [found.neutral, found.win, found.reject].map(|blocks| blocks.map(|blocks| blocks as usize));
            assert_eq!(found, [expected.neutral, expected.win, expected.reject], "{config}");
            assert!(expected.win.is_some());
        }
    }
}
