//! How much the blocks of an experiment scatter, and how many of them would decide.

use std::sync::Arc;

use super::standing::Standing;
use super::{JudgeError, standings};
use crate::decide::Places;
use crate::experiment::Experiment;
use crate::plan::power::Spreads;
use crate::report::{Failures, Open};
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

/// Input of the simulation of advice for an undecided config; `None` if its noise is unknown in a scenario.
pub(super) fn open(standing: &Standing, design: &Arc<Design>, config: usize, failures: Failures) -> Option<Open> {
    let unit = standing.overall(config);
    if !unit.decided || unit.conclusion.outcome.verdict != Verdict::Inconclusive {
        return None;
    }
    let cells = (0..design.scenarios.len()).map(|scenario| standing.cell(scenario * design.configs.len() + config));
    Open::of(design, cells.map(|cell| cell.conclusion), failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Attempt;
    use crate::gates::testing::{experiment, plan, scenario, summaries};
    use crate::status;

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

    fn summaries_of(experiment: &Experiment) -> Vec<Attempt> {
        summaries(experiment).into_iter().map(|summary| Attempt::Finished(summary.into())).collect()
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
        for (config, swings) in [(0, [0.09, 0.12]), (1, [0.06, 0.15])] {
            assert_eq!(report.configs[config].ruling.verdict, Verdict::Inconclusive);
            let spreads = report.configs[config].open.as_ref().unwrap().spreads();
            for (found, swing) in spreads.iter().zip(swings) {
                assert!((found[0] - swing * unit()).abs() < 1e-12 && found.len() == 1, "{config} {found:?}");
            }
        }
    }

    #[test]
    fn advice_is_no_part_of_what_is_judged_and_is_given_once() {
        let experiment = Experiment { repetitions: 4, ..experiment() };
        let mut report = super::super::judge(&plan(&experiment), &summaries_of(&experiment)).unwrap();
        let before = report.clone();
        assert_eq!((before.configs[0].ruling.reason.as_str(), before.configs[0].needed), ("TooFewBlocks", None));
        report.advise(1, &|_, _| ());
        let needed = report.configs[0].needed.unwrap();
        assert!(needed.win.is_some_and(|win| (5..=8).contains(&win)), "{needed:?}");
        let sentence = &report.configs[0].ruling.sentence;
        assert!(sentence.contains(&format!("plan at least {} repetitions", needed.win.unwrap())), "{sentence}");
        assert_eq!(status::report_digest(&report).unwrap(), status::report_digest(&before).unwrap());
        let advised = report.clone();
        report.advise(1, &|_, _| unreachable!("nothing is left to simulate"));
        assert_eq!(report, advised);
    }
}
