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
