//! Designs and what was observed, for tests.

use super::{Design, MetricRule, MetricSamples, Observed, Purpose, Scenario};
use crate::stats::{Adjust, Direction, Scale};

/// One objective, throughput, with a margin of 5 %.
pub fn design(configs: usize, scenarios: &[&str], m0: usize, blocks: usize) -> Design {
    Design {
        metrics: vec![MetricRule::new("throughput", Direction::Higher, Purpose::Objective, 0.05, Scale::Log)],
        scenarios: scenarios.iter().map(|&name| Scenario { name: name.into(), weight: 1.0 }).collect(),
        configs: (0..configs).map(|c| format!("config-{c}")).collect(),
        m0,
        max_blocks: blocks,
        looks: None,
        cells_adjust: Adjust::Holm,
    }
}

/// All blocks; `value` is given scenario, block, config (`None` for the baseline) and the number of the run in the block,
/// in which the baseline's come first.
pub fn observed(design: &Design, value: impl Fn(usize, usize, Option<usize>, usize) -> f64) -> Observed {
    let blocks = 0..design.max_blocks;
    let row = |scenario: usize| MetricSamples {
        baseline: blocks
            .clone()
            .map(|block| (0..design.m0).map(|run| Some(value(scenario, block, None, run))).collect())
            .collect(),
        configs: (0..design.configs.len())
            .map(|c| blocks.clone().map(|block| Some(value(scenario, block, Some(c), design.m0 + c))).collect())
            .collect(),
    };
    let samples = (0..design.scenarios.len()).map(|scenario| vec![row(scenario)]).collect();
    Observed { samples, ended: true, ..Observed::default() }
}

/// Noise within +-5 % that is the same everywhere.
pub fn noise(i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((mixed >> 40) as f64 / (1_u64 << 24) as f64 - 0.5) / 10.0
}
