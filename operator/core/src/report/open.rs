//! Advice for undecided configs: the blocks that would decide them.

use std::sync::Arc;

use super::{About, Failures, NeededBlocks, Ruling, sentence};
use crate::plan::power::{Power, Spreads};
use crate::stats::median;
use crate::verdict::{Conclusion, Design, Verdict};

/// An undecided config whose noise is known. The simulation that tells how many blocks would decide it takes seconds, so a report is
/// complete without it and gets it afterwards.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Open {
    design: Arc<Design>,
    spreads: Spreads,
    failures: Failures,
}

impl Open {
    /// `cells` are the conclusions about the config by scenario; `None` where one of them does not show how blocks scatter.
    pub fn of<'a>(
        design: &Arc<Design>,
        cells: impl Iterator<Item = &'a Conclusion>,
        failures: Failures,
    ) -> Option<Self> {
        let spreads = cells.map(|cell| cell.metrics.iter().map(|effect| effect.sd_block).collect());
        Some(Self { design: design.clone(), spreads: spreads.collect::<Option<_>>()?, failures })
    }

    #[cfg(test)]
    pub fn spreads(&self) -> &Spreads {
        &self.spreads
    }

    fn noise(&self) -> f64 {
        self.spreads.iter().flatten().map(|spread| spread * spread).sum()
    }
}

/// An undecided config, and where its answer goes.
pub(crate) struct Undecided<'a> {
    pub open: Open,
    pub config: &'a str,
    pub ruling: &'a mut Ruling,
    pub needed: &'a mut Option<NeededBlocks>,
}

/// Simulations for one comparison. More configs than this share them: a simulation of many configs takes longest, and configs of one
/// experiment scatter alike.
const MOST_SIMULATIONS: usize = 4;

/// Simulates what would decide configs of one design, and rewrites the sentences of their verdicts with it.
pub(crate) fn advise(
    mut undecided: Vec<Undecided<'_>>,
    baseline: &str,
    threads: usize,
    progress: &dyn Fn(usize, usize),
) {
    if undecided.is_empty() {
        return;
    }
    undecided.sort_by(|a, b| a.open.noise().total_cmp(&b.open.noise()));
    let share = undecided.len().div_ceil(MOST_SIMULATIONS);
    let all = undecided.len().div_ceil(share);
    for (done, alike) in undecided.chunks_mut(share).enumerate() {
        progress(done, all);
        let Some(power) = Power::new(&alike[0].open.design, &shared(alike), threads) else { continue };
        let found = power.needed();
        let blocks = |found: Option<usize>| found.map(|blocks| blocks as u32);
        let needed =
            NeededBlocks { neutral: blocks(found.neutral), win: blocks(found.win), reject: blocks(found.reject) };
        for Undecided { open, config, ruling, needed: to } in alike {
            let family = open.design.families().overall;
            let about = About { config, baseline, family, failures: open.failures, needed: Some(needed) };
            // Findings are the cause of an Invalid only.
            ruling.sentence = sentence(about, Verdict::Inconclusive, &ruling.reason, &ruling.estimates, &[]);
            **to = Some(needed);
        }
    }
    progress(all, all);
}

/// The spreads of configs that scatter about as much: medians.
fn shared(alike: &[Undecided<'_>]) -> Spreads {
    let mut shared = alike[0].open.spreads.clone();
    for (scenario, own) in shared.iter_mut().enumerate() {
        for (metric, spread) in own.iter_mut().enumerate() {
            let all: Vec<f64> = alike.iter().map(|config| config.open.spreads[scenario][metric]).collect();
            *spread = median(&all).unwrap_or(*spread);
        }
    }
    shared
}
