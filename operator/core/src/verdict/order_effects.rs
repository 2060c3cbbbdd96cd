use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    design::{Design, Purpose},
    observed::Observed,
    values::{JudgeError, Values},
};
use crate::stats::{WARNING, hodges_lehmann, kruskal_wallis, median};

/// A run's place among the samples of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The baseline's run of this number.
    Baseline(usize),
    /// The config of this position in the design.
    Config(usize),
}

/// What in the run order may affect runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OrderEffect {
    /// Which config ran before.
    Predecessor,
    /// The position of a run in its block: warm-up, heat, a disk that fills up.
    Position,
}

impl OrderEffect {
    /// What runs would depend on.
    pub fn words(self) -> &'static str {
        match self {
            Self::Predecessor => "the preceding config",
            Self::Position => "the position in the block",
        }
    }
}

/// Whether runs of a scenario depend on their order ("Order").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderCheck {
    pub scenario: String,
    pub metric: String,
    pub effect: OrderEffect,
    /// Absent if there is nothing to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Runs depend on their order. The order was random, so verdicts stand, but effects are blurred.
    pub warning: bool,
}

/// Asks whether what a run leaves behind shows in the next one, and whether its place in the block shows in it ("Order"). `orders` has
/// the runs of each block in the order in which they ran, scenario by scenario. Scenario by scenario, both for each objective.
pub fn order_effects(
    design: &Design,
    observed: &Observed,
    orders: &[Vec<Vec<Arm>>],
) -> Result<Vec<OrderCheck>, JudgeError> {
    design.check()?;
    let values = Values::new(design, observed)?;
    if orders.len() != design.scenarios.len() {
        let (found, declared) = (orders.len(), design.scenarios.len());
        return Err(JudgeError::Misfit(format!("orders for {found} scenarios, expected {declared}")));
    }
    let mut found = Vec::new();
    for (scenario, (rule, blocks)) in design.scenarios.iter().zip(orders).enumerate() {
        for (metric, objective) in
            design.metrics.iter().enumerate().filter(|(_, rule)| rule.purpose == Purpose::Objective)
        {
            let runs = residuals(&values, scenario, metric, blocks, design.configs.len());
            for effect in [OrderEffect::Position, OrderEffect::Predecessor] {
                let p = kruskal_wallis(&grouped(&runs, effect, design.configs.len()));
                let warning = p.is_some_and(|p| p < WARNING);
                let (scenario, metric) = (rule.name.clone(), objective.name.clone());
                found.push(OrderCheck { scenario, metric, effect, p, warning });
            }
        }
    }
    Ok(found)
}

/// What is left of a run after its block's centre and its own config's median.
struct Residual {
    value: f64,
    /// The config that ran before it, if any.
    before: Option<usize>,
    /// Its place in the block, of so many.
    place: usize,
    places: usize,
}

fn residuals(
    values: &Values<'_>,
    scenario: usize,
    metric: usize,
    blocks: &[Vec<Arm>],
    configs: usize,
) -> Vec<Residual> {
    let group = |arm: Arm| match arm {
        Arm::Baseline(_) => configs,
        Arm::Config(config) => config,
    };
    let value = |block: usize, arm: Arm| match arm {
        Arm::Baseline(replicate) => values.baseline(scenario, metric, block)?.get(replicate).copied(),
        Arm::Config(config) => values.run(scenario, config, metric, block),
    };
    let mut runs: Vec<(usize, Residual)> = Vec::new();
    for (block, order) in blocks.iter().enumerate() {
        let present: Vec<f64> = order.iter().filter_map(|&arm| value(block, arm)).collect();
        let Some(center) = hodges_lehmann(&present) else { continue };
        for (place, &arm) in order.iter().enumerate() {
            if let Some(value) = value(block, arm) {
                let before = place.checked_sub(1).map(|before| group(order[before]));
                runs.push((group(arm), Residual { value: value - center, before, place, places: order.len() }));
            }
        }
    }
    let own: Vec<f64> = (0..=configs)
        .map(|config| {
            let distances: Vec<f64> = runs.iter().filter(|(own, _)| *own == config).map(|(_, run)| run.value).collect();
            median(&distances).unwrap_or(0.0)
        })
        .collect();
    runs.into_iter().map(|(config, run)| Residual { value: run.value - own[config], ..run }).collect()
}

/// Parts of a block, after its first run, between which a drift shows.
const PARTS: usize = 3;

/// In groups by predecessor, of which the baseline is the last, or by place: the first run, and the rest in three parts.
fn grouped(runs: &[Residual], effect: OrderEffect, configs: usize) -> Vec<Vec<f64>> {
    let mut groups = vec![Vec::new(); (configs + 1).max(PARTS + 1)];
    for run in runs {
        let group = match effect {
            OrderEffect::Predecessor => run.before,
            OrderEffect::Position if run.place == 0 => Some(0),
            OrderEffect::Position => Some(1 + PARTS * (run.place - 1) / (run.places - 1)),
        };
        if let Some(group) = group {
            groups[group].push(run.value);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::testing::{design, noise, observed};

    /// Three configs and two baseline runs in another order in every block; the run after config 0 is off by `after`, the first one by
    /// `first`. What is said of positions, and of predecessors.
    fn found(after: f64, first: f64) -> [OrderCheck; 2] {
        let design = design(3, &["read"], 2, 12);
        let order = |block: usize| {
            let mut arms =
                [Arm::Baseline(0), Arm::Config(0), Arm::Config(1), Arm::Config(2), Arm::Baseline(1)].to_vec();
            arms.rotate_left(block % 5);
            arms.swap(block % 3, block % 4);
            arms
        };
        let observed = observed(&design, |_, block, config, run| {
            let own = config.map_or(Arm::Baseline(run), Arm::Config);
            let order = order(block);
            let place = order.iter().position(|&arm| arm == own).unwrap();
            let off = match place.checked_sub(1) {
                None => first,
                Some(before) => {
                    if order[before] == Arm::Config(0) {
                        after
                    } else {
                        0.0
                    }
                }
            };
            // A config's own effect, however large, is no carry-over.
            let gain = if config == Some(1) { 0.4 } else { 0.0 };
            (off + gain + noise(block * 100 + run)).exp()
        });
        let orders = [(0..12).map(order).collect::<Vec<_>>()];
        assert!(order_effects(&design, &observed, &[]).is_err());
        order_effects(&design, &observed, &orders).unwrap().try_into().unwrap()
    }

    fn is_seen(check: &OrderCheck) -> bool {
        assert_eq!(check.warning, check.p.unwrap() < 0.01, "{check:?}");
        check.warning
    }

    #[test]
    fn what_a_run_leaves_behind_is_seen_in_the_next() {
        let [position, predecessor] = found(0.0, 0.0);
        assert!(!is_seen(&position) && !is_seen(&predecessor), "{position:?} {predecessor:?}");
        assert_eq!(position.effect, OrderEffect::Position);
        let [position, predecessor] = found(-0.2, 0.0);
        assert!(is_seen(&predecessor) && predecessor.p < position.p, "{position:?} {predecessor:?}");
    }

    #[test]
    fn a_slow_start_of_blocks_is_seen() {
        let [position, predecessor] = found(0.0, -0.2);
        assert!(is_seen(&position) && !is_seen(&predecessor), "{position:?} {predecessor:?}");
    }

    /// Two runs a block: one config and the baseline.
    #[test]
    fn the_smallest_block_has_an_order_too() {
        let design = design(1, &["read"], 1, 20);
        let order = |block: usize| {
            let mut arms = vec![Arm::Baseline(0), Arm::Config(0)];
            arms.rotate_left(block * 7 / 3 % 2);
            arms
        };
        let observed = observed(&design, |_, block, config, run| {
            let own = config.map_or(Arm::Baseline(run), Arm::Config);
            let first = order(block)[0] == own;
            (noise(block * 10 + run) - if first { 0.1 } else { 0.0 }).exp()
        });
        let checks = order_effects(&design, &observed, &[(0..20).map(order).collect()]).unwrap();
        assert!(is_seen(&checks[0]), "{checks:?}");
    }

    #[test]
    fn the_first_run_of_a_block_is_a_part_of_its_own() {
        let parts = |places: usize| {
            let run = |place: usize| Residual { value: place as f64, before: None, place, places };
            grouped(&(0..places).map(run).collect::<Vec<_>>(), OrderEffect::Position, 1)
        };
        // Four runs in three parts: two of them begin in the first.
        assert_eq!(parts(5), [vec![0.0], vec![1.0, 2.0], vec![3.0], vec![4.0]]);
        assert_eq!(parts(4), [vec![0.0], vec![1.0], vec![2.0], vec![3.0]]);
        assert_eq!(parts(2), [vec![0.0], vec![1.0], vec![], vec![]]);
    }
}
