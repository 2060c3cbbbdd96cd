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

/// Whether runs of a scenario depend on what ran before them ("Carry-over").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CarryOver {
    pub scenario: String,
    pub metric: String,
    /// `None` where there is nothing to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// The order was random, so verdicts stand; but the effects are smeared, and a longer pause between trials would help.
    pub warning: bool,
}

/// Asks whether what a run leaves behind shows in the next one ("Carry-over"). `orders` has the runs of each block in the order in
/// which they ran, scenario by scenario. Scenario by scenario, one result per objective.
pub fn carry_over(
    design: &Design,
    observed: &Observed,
    orders: &[Vec<Vec<Arm>>],
) -> Result<Vec<CarryOver>, JudgeError> {
    design.check()?;
    let values = Values::new(design, observed)?;
    if orders.len() != design.scenarios.len() {
        let (found, declared) = (orders.len(), design.scenarios.len());
        return Err(JudgeError::Misfit(format!("orders are given for {found} scenarios, {declared} are declared")));
    }
    let mut found = Vec::new();
    for (scenario, (rule, blocks)) in design.scenarios.iter().zip(orders).enumerate() {
        for (metric, objective) in
            design.metrics.iter().enumerate().filter(|(_, rule)| rule.purpose == Purpose::Objective)
        {
            let p = kruskal_wallis(&residuals_by_predecessor(&values, scenario, metric, blocks, design.configs.len()));
            let warning = p.is_some_and(|p| p < WARNING);
            found.push(CarryOver { scenario: rule.name.clone(), metric: objective.name.clone(), p, warning });
        }
    }
    Ok(found)
}

/// What is left of each run after its block's centre and its own config's median, in groups by the config that ran before it; the
/// baseline is the last group.
fn residuals_by_predecessor(
    values: &Values,
    scenario: usize,
    metric: usize,
    blocks: &[Vec<Arm>],
    configs: usize,
) -> Vec<Vec<f64>> {
    let group = |arm: Arm| match arm {
        Arm::Baseline(_) => configs,
        Arm::Config(config) => config,
    };
    let value = |block: usize, arm: Arm| match arm {
        Arm::Baseline(replicate) => values.baseline(scenario, metric).get(block)?.as_ref()?.get(replicate).copied(),
        Arm::Config(config) => values.run(scenario, config, metric, block),
    };
    // Own config, predecessor if any, and distance from the block's centre.
    let mut runs: Vec<(usize, Option<usize>, f64)> = Vec::new();
    for (block, order) in blocks.iter().enumerate() {
        let present: Vec<f64> = order.iter().filter_map(|&arm| value(block, arm)).collect();
        let Some(center) = hodges_lehmann(&present) else { continue };
        let mut before = None;
        for &arm in order {
            if let Some(value) = value(block, arm) {
                runs.push((group(arm), before, value - center));
            }
            before = Some(group(arm));
        }
    }
    let own: Vec<f64> = (0..=configs)
        .map(|config| {
            let distances: Vec<f64> = runs.iter().filter(|run| run.0 == config).map(|run| run.2).collect();
            median(&distances).unwrap_or(0.0)
        })
        .collect();
    let mut groups = vec![Vec::new(); configs + 1];
    for (config, before, distance) in runs {
        if let Some(before) = before {
            groups[before].push(distance - own[config]);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::testing::{design, noise, observed};

    /// Three configs and two baseline runs in another order in every block; the run after config 0 is off by `after`.
    fn found(after: f64) -> CarryOver {
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
            let off = if place > 0 && order[place - 1] == Arm::Config(0) { after } else { 0.0 };
            // A config's own effect, however large, is no carry-over.
            let gain = if config == Some(1) { 0.4 } else { 0.0 };
            (off + gain + noise(block * 100 + run)).exp()
        });
        let orders = [(0..12).map(order).collect::<Vec<_>>()];
        let mut found = carry_over(&design, &observed, &orders).unwrap();
        assert!(carry_over(&design, &observed, &[]).is_err());
        found.remove(0)
    }

    #[test]
    fn what_a_run_leaves_behind_is_seen_in_the_next() {
        let clean = found(0.0);
        assert!(!clean.warning && clean.p.is_some_and(|p| p > 0.05), "{clean:?}");
        let smeared = found(-0.2);
        assert!(smeared.warning && smeared.p.is_some_and(|p| p < 1e-3), "{smeared:?}");
    }
}
