use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    design::{Design, Look},
    judgement::{Judgement, Outcome, Verdict},
    observed::Observed,
    replay::Ledgers,
    values::{JudgeError, Values},
};
use crate::stats::ShapeError;

/// What a Win would not be one without ("Fragile").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HangsOn {
    /// The blocks of one round: the block of this number in every scenario, or in the cell's.
    Block(usize),
    /// All blocks of a node.
    Node(u32),
}

/// What each Win hangs on; empty for a Win that survives any loss, and for every other verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragility {
    /// One per config, in the design's order.
    pub overall: Vec<Vec<HangsOn>>,
    /// Scenario by scenario, one per config.
    pub cells: Vec<Vec<HangsOn>>,
}

/// Judges every Win again without each single block, and without each single node where there are several ("Fragile"). `nodes`
/// has the node of each block, scenario by scenario. What the other configs have proven stays as it is.
pub fn fragile(
    design: &Design,
    observed: &Observed,
    judgement: &Judgement,
    nodes: &[Vec<u32>],
) -> Result<Fragility, JudgeError> {
    design.check()?;
    let values = Values::new(design, observed)?;
    values.check_nodes(design, nodes)?;
    let again = Again::new(design, observed, judgement, &values);
    let configs = design.configs.len();
    let is_win = |outcome: &Outcome| outcome.verdict == Verdict::Win;
    let mut fragility = Fragility { overall: Vec::new(), cells: Vec::new() };
    for (config, found) in judgement.overall.iter().enumerate() {
        let mut hangs_on = Vec::new();
        if is_win(&found.conclusion.outcome) {
            for (what, keeps) in losses(nodes, again.blocks(config)) {
                if !is_win(&again.overall_without(config, &keeps)?) {
                    hangs_on.push(what);
                }
            }
        }
        fragility.overall.push(hangs_on);
    }
    for (unit, found) in judgement.cells.iter().enumerate() {
        let (scenario, config) = (unit / configs, unit % configs);
        let mut hangs_on = Vec::new();
        if is_win(&found.conclusion.outcome) {
            for (what, keeps) in losses(&nodes[scenario..=scenario], again.blocks(config)) {
                if !is_win(&again.cell_without(scenario, config, |block| keeps(0, block))?) {
                    hangs_on.push(what);
                }
            }
        }
        fragility.cells.push(hangs_on);
    }
    Ok(fragility)
}

/// Whether a block, given its scenario and number, is still there.
type Keeps<'a> = Box<dyn Fn(usize, usize) -> bool + 'a>;

/// Everything that could be lost of the first `blocks` blocks. A single node is not tried: without it nothing is left.
fn losses(nodes: &[Vec<u32>], blocks: usize) -> Vec<(HangsOn, Keeps<'_>)> {
    let mut losses: Vec<(HangsOn, Keeps<'_>)> = Vec::new();
    for lost in 0..blocks {
        losses.push((HangsOn::Block(lost), Box::new(move |_, block| block != lost)));
    }
    let all: BTreeSet<u32> = nodes.iter().flat_map(|nodes| nodes.iter().take(blocks).copied()).collect();
    if all.len() > 1 {
        for lost in all {
            losses.push((HangsOn::Node(lost), Box::new(move |scenario, block| nodes[scenario][block] != lost)));
        }
    }
    losses
}

/// An experiment as it was judged, to judge one config of it again.
struct Again<'a> {
    design: &'a Design,
    observed: &'a Observed,
    judgement: &'a Judgement,
    values: &'a Values<'a>,
    looks: Vec<Look>,
}

impl<'a> Again<'a> {
    fn new(design: &'a Design, observed: &'a Observed, judgement: &'a Judgement, values: &'a Values<'a>) -> Self {
        let looks = design.looks_reached(values.complete, values.longest, observed.ended);
        Self { design, observed, judgement, values, looks }
    }

    /// The looks that a config took part in.
    fn looks(&self, config: usize) -> impl Iterator<Item = &Look> {
        let stopped = self.judgement.overall[config].stopped_at;
        self.looks.iter().filter(move |look| stopped.is_none_or(|blocks| look.blocks <= blocks))
    }

    /// How many blocks a config was judged on.
    fn blocks(&self, config: usize) -> usize {
        self.looks(config).map(|look| look.blocks).max().unwrap_or(0)
    }

    fn ledgers(&self) -> Ledgers<'a> {
        Ledgers::of_judged(self.design, self.observed, self.values, self.judgement)
    }

    /// A config's overall verdict without some blocks, vetoes included.
    fn overall_without(&self, config: usize, keeps: &Keeps<'_>) -> Result<Outcome, ShapeError> {
        let scenarios = 0..self.design.scenarios.len();
        let mut ledgers = self.ledgers();
        ledgers.overall.forget(config);
        for scenario in scenarios.clone() {
            let unit = ledgers.cell_unit(scenario, config);
            ledgers.cells.forget(unit);
        }
        for look in self.looks(config) {
            ledgers.take_some(config, look, keeps)?;
        }
        let (overall, cells) = (ledgers.overall.proven(), ledgers.cells.proven());
        let own: Vec<Outcome> = scenarios.map(|scenario| ledgers.cell(&cells, scenario, config, false)).collect();
        let together = ledgers.together(&overall, config, false);
        Ok(ledgers.against(&together, &own.iter().collect::<Vec<_>>(), &cells, config))
    }

    /// A config's verdict in a scenario without some of its blocks.
    fn cell_without(
        &self,
        scenario: usize,
        config: usize,
        keeps: impl Fn(usize) -> bool,
    ) -> Result<Outcome, ShapeError> {
        let mut ledgers = self.ledgers();
        let unit = ledgers.cell_unit(scenario, config);
        ledgers.cells.forget(unit);
        for look in self.looks(config) {
            ledgers.take_cell(scenario, config, look, &keeps)?;
        }
        Ok(ledgers.cell(&ledgers.cells.proven(), scenario, config, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Adjust;
    use crate::verdict::{
        Intervals, judge,
        testing::{design, noise, observed},
    };

    fn fragility(design: &Design, observed: &Observed, nodes: &[Vec<u32>]) -> Fragility {
        let judgement = judge(design, observed, Intervals::None).unwrap();
        fragile(design, observed, &judgement, nodes).unwrap()
    }

    fn blocks(numbers: impl IntoIterator<Item = usize>) -> Vec<HangsOn> {
        numbers.into_iter().map(HangsOn::Block).collect()
    }

    #[test]
    fn a_clear_win_hangs_on_nothing() {
        let design = design(2, &["read", "write"], 2, 15);
        let observed = observed(&design, |scenario, block, config, run| {
            let gain = if config == Some(0) { 0.3 } else { 0.0 };
            (gain + noise(scenario * 1000 + block * 100 + run)).exp()
        });
        let nodes = vec![(0..15).map(|block| block % 3).collect::<Vec<u32>>(); 2];
        let judged = judge(&design, &observed, Intervals::None).unwrap();
        assert_eq!(judged.overall[0].conclusion.outcome.verdict, Verdict::Win);
        let none = Fragility { overall: vec![vec![]; 2], cells: vec![vec![]; 4] };
        assert_eq!(fragility(&design, &observed, &nodes), none);
    }

    #[test]
    fn a_win_on_the_fewest_blocks_hangs_on_each() {
        let design = design(1, &["read"], 1, 5);
        let observed =
            observed(&design, |_, block, config, _| (if config.is_some() { 0.2 } else { 0.0 } + noise(block)).exp());
        let found = fragility(&design, &observed, &[vec![7; 5]]);
        assert_eq!(found, Fragility { overall: vec![blocks(0..5)], cells: vec![blocks(0..5)] });
    }

    /// One block less and the two gains are equally likely by chance: both have to pay for both, as in the verdict itself.
    #[test]
    fn a_win_is_judged_again_by_the_rules_that_made_it() {
        for cells_adjust in [Adjust::Holm, Adjust::Bh] {
            let design = Design { cells_adjust, ..design(2, &["read"], 1, 6) };
            let observed = observed(&design, |_, block, config, _| {
                let gain = 0.2 + block as f64 / 100.0;
                let gain = match config {
                    None => 0.0,
                    Some(1) if block == 0 => -0.001,
                    Some(_) => gain,
                };
                (gain + noise(block)).exp()
            });
            let judgement = judge(&design, &observed, Intervals::None).unwrap();
            assert_eq!(judgement.overall[0].conclusion.outcome.verdict, Verdict::Win);
            let found = fragile(&design, &observed, &judgement, &[vec![7; 6]]).unwrap();
            assert_eq!(found.overall[0], blocks(0..6), "{cells_adjust:?}");
        }
    }

    /// All of the gain is on one of three nodes, and in most of the blocks.
    #[test]
    fn a_win_of_one_node_hangs_on_it() {
        let design = design(1, &["read"], 2, 18);
        let nodes: Vec<u32> = (0..18).map(|block| if block % 3 == 0 { block / 3 % 2 } else { 9 }).collect();
        let of_blocks = nodes.clone();
        let observed = observed(&design, |_, block, config, run| {
            let gain = if config.is_some() && of_blocks[block] == 9 { 0.3 } else { 0.0 };
            (gain + noise(block * 100 + run)).exp()
        });
        let found = fragility(&design, &observed, &[nodes]);
        assert_eq!(found.overall[0], [HangsOn::Node(9)]);
    }

    /// With one config, losing a block is the same as never having had its run.
    #[test]
    fn agrees_with_a_judgement_without_the_block() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..60 {
            let design = design(1, &["read", "write"], 2, 12);
            let observed = observed(&design, |scenario, block, config, run| {
                let gain = if config.is_some() { 0.025 } else { 0.0 };
                (gain + 1.5 * noise(seed * 10_000 + scenario * 5000 + block * 10 + run)).exp()
            });
            let judgement = judge(&design, &observed, Intervals::None).unwrap();
            let found = fragile(&design, &observed, &judgement, &[vec![0; 12], vec![0; 12]]).unwrap();
            if judgement.overall[0].conclusion.outcome.verdict != Verdict::Win {
                assert_eq!(found.overall[0], []);
                continue;
            }
            let without = |block: usize| {
                let mut observed = observed.clone();
                observed.samples.iter_mut().for_each(|rows| rows[0].configs[0][block] = None);
                judge(&design, &observed, Intervals::None).unwrap().overall[0].conclusion.outcome.verdict
            };
            let expected = blocks((0..12).filter(|&block| without(block) != Verdict::Win));
            assert_eq!(found.overall[0], expected, "seed {seed}");
            lost += expected.len();
            kept += 12 - expected.len();
        }
        assert!(lost > 0 && kept > 0, "{lost} {kept}: the noise is too easy or too hard to show anything");
    }

    #[test]
    fn nodes_must_be_known() {
        let design = design(1, &["read"], 1, 5);
        let observed = observed(&design, |_, _, _, _| 1.0);
        let judgement = judge(&design, &observed, Intervals::None).unwrap();
        let refused = |nodes: &[Vec<u32>]| fragile(&design, &observed, &judgement, nodes).unwrap_err().to_string();
        assert_eq!(refused(&[]), "samples do not fit the design: nodes for 0 scenarios, expected 1");
        assert_eq!(
            refused(&[vec![0; 4]]),
            "samples do not fit the design: scenario \"read\" has 5 blocks, but nodes for 4"
        );
    }
}
