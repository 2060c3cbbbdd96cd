use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    design::Design,
    observed::Observed,
    values::{JudgeError, Values},
};
use crate::stats::{Paired, ShapeError};

/// What one node alone says of a config on a metric ("By node").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEstimate {
    pub node: u32,
    pub metric: String,
    /// Blocks that count.
    pub blocks: usize,
    /// On the metric's scale; `None` without blocks, or overall if the node lacks a scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
    /// Log scale only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_percent: Option<f64>,
}

/// Metric by metric, and for each node by node, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByNode {
    /// One per config, in the design's order.
    pub overall: Vec<Vec<NodeEstimate>>,
    /// Scenario by scenario, one per config.
    pub cells: Vec<Vec<NodeEstimate>>,
}

/// The estimates of each node alone ("By node"). `nodes` has the node of each block, scenario by scenario. A round may be spread
/// over nodes, so overall it is the weighted mean of the node's estimates per scenario.
pub fn by_node(design: &Design, observed: &Observed, nodes: &[Vec<u32>]) -> Result<ByNode, JudgeError> {
    design.check()?;
    let values = Values::new(design, observed)?;
    values.check_nodes(design, nodes)?;
    let all: BTreeSet<u32> = nodes.iter().flatten().copied().collect();
    let pairs = || (0..design.metrics.len()).flat_map(|metric| all.iter().map(move |&node| (metric, node)));
    let shown = |metric: usize, node, blocks, estimate: Option<f64>| NodeEstimate {
        node,
        metric: design.metrics[metric].name.clone(),
        blocks,
        estimate,
        estimate_percent: estimate.and_then(|x| design.metrics[metric].scale.percent(x)),
    };
    let mut cells = Vec::new();
    for (scenario, own) in nodes.iter().enumerate() {
        for config in 0..design.configs.len() {
            let estimate = |(metric, node): (usize, u32)| -> Result<NodeEstimate, ShapeError> {
                let blocks = (0..own.len()).filter(|&block| own[block] == node);
                let comparison = values.cell(scenario, config, metric, blocks)?;
                let estimate = comparison.ended.as_ref().and_then(Paired::estimate);
                Ok(shown(metric, node, comparison.tested.n(), estimate))
            };
            cells.push(pairs().map(estimate).collect::<Result<Vec<_>, _>>()?);
        }
    }
    let total: f64 = design.scenarios.iter().map(|scenario| scenario.weight).sum();
    let overall = (0..design.configs.len()).map(|config| {
        let own: Vec<&Vec<NodeEstimate>> = cells.iter().skip(config).step_by(design.configs.len()).collect();
        let mean = |(position, (metric, node)): (usize, (usize, u32))| {
            let here = || own.iter().map(|estimates: &&Vec<NodeEstimate>| &estimates[position]);
            let weighted: Option<Vec<f64>> = here()
                .zip(&design.scenarios)
                .map(|(e, scenario)| Some(e.estimate? * scenario.weight / total))
                .collect();
            shown(metric, node, here().map(|e| e.blocks).sum(), weighted.map(|parts| parts.iter().sum()))
        };
        pairs().enumerate().map(mean).collect()
    });
    Ok(ByNode { overall: overall.collect(), cells })
}

impl Values<'_> {
    /// Refuses nodes that are not known for every block.
    pub(super) fn check_nodes(&self, design: &Design, nodes: &[Vec<u32>]) -> Result<(), JudgeError> {
        if nodes.len() != design.scenarios.len() {
            let (found, declared) = (nodes.len(), design.scenarios.len());
            return Err(JudgeError::Misfit(format!("nodes for {found} scenarios, expected {declared}")));
        }
        for (scenario, (rule, own)) in design.scenarios.iter().zip(nodes).enumerate() {
            let blocks = self.blocks(scenario);
            if own.len() < blocks {
                let (name, found) = (&rule.name, own.len());
                let message = format!("scenario {name:?} has {blocks} blocks, but nodes for {found}");
                return Err(JudgeError::Misfit(message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::testing::{design, observed};

    #[test]
    fn every_node_speaks_for_itself() {
        let mut design = design(1, &["read", "write"], 1, 6);
        design.scenarios[1].weight = 3.0;
        let nodes = [vec![0, 0, 1, 1, 2, 2], vec![0, 1, 0, 1, 0, 1]];
        let (gains, of) = ([[0.1, 0.3, 0.7], [0.2, 0.0, 0.0]], nodes.clone());
        let observed = observed(&design, |scenario, block, config, _| {
            let gain = gains[scenario][of[scenario][block] as usize];
            config.map_or(1.0, |_| f64::exp(gain))
        });
        let found = by_node(&design, &observed, &nodes).unwrap();
        let shown = |estimates: &[NodeEstimate]| {
            let one = |e: &NodeEstimate| format!("{} {} {:?}", e.node, e.blocks, e.estimate.map(|x| (x * 1e6).round()));
            estimates.iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(shown(&found.cells[0]), ["0 2 Some(100000.0)", "1 2 Some(300000.0)", "2 2 Some(700000.0)"]);
        assert_eq!(shown(&found.cells[1]), ["0 3 Some(200000.0)", "1 3 Some(0.0)", "2 0 None"]);
        // A quarter of the first scenario and three of the second; node 2 never ran the second.
        assert_eq!(shown(&found.overall[0]), ["0 5 Some(175000.0)", "1 5 Some(75000.0)", "2 2 None"]);
        assert_eq!(found.cells[0][0].estimate_percent.map(|x| (x * 1e3).round()), Some(10_517.0));
        assert!(by_node(&design, &observed, &nodes[..1]).is_err());
    }
}
