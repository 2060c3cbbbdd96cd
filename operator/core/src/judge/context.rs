//! What verdicts are seen beside: nodes, and what runs leave to their successors.

use std::collections::HashMap;

use assay_protocol::Digest;

use super::standing::Standing;
use crate::decide::{Fate, Places, Samples};
use crate::gates::Note;
use crate::report;
use crate::verdict::{self, Arm, ByNode, Design, Fragility, HangsOn, JudgeError, NodeEstimate, OrderCheck};

/// Where blocks ran.
#[derive(Clone, PartialEq)]
enum Node {
    /// A node of a cluster. Two nodes of one type are alike in everything but their names.
    Named(String),
    /// Elsewhere only the hardware and the kernel tell machines apart.
    Machine(Digest),
}

/// What every config's report says beside its verdict.
pub(super) struct Context {
    nodes: Vec<Node>,
    fragility: Fragility,
    by_node: ByNode,
}

impl Context {
    /// `None` while more runs will come: until then a Win hangs on them all.
    pub fn of(places: &Places<'_>, design: &Design, standing: &Standing) -> Result<Option<Self>, JudgeError> {
        let Some(announced) = standing.announced().filter(|_| standing.complete) else { return Ok(None) };
        let samples = &standing.samples.observed;
        let (nodes, of_blocks) = nodes(places, design, samples_rounds(&standing.samples));
        let fragility = verdict::fragile(design, samples, announced, &of_blocks)?;
        let by_node = if nodes.len() > 1 { verdict::by_node(design, samples, &of_blocks)? } else { ByNode::default() };
        Ok(Some(Self { nodes, fragility, by_node }))
    }

    /// The single blocks and nodes without which a config would not be a Win.
    pub fn fragile(&self, config: usize) -> Vec<String> {
        let what = |hangs_on: &HangsOn| match *hangs_on {
            HangsOn::Block(block) => format!("block {}", block + 1),
            HangsOn::Node(node) => match self.nodes.get(node as usize) {
                Some(Node::Named(name)) => format!("node {name}"),
                _ => self.name(node),
            },
        };
        self.fragility.overall.get(config).into_iter().flatten().map(what).collect()
    }

    pub fn by_node(&self, config: usize) -> Vec<report::NodeEstimate> {
        let shown = |found: &NodeEstimate| report::NodeEstimate {
            node: self.name(found.node),
            metric: found.metric.clone(),
            blocks: found.blocks,
            estimate: found.estimate,
            estimate_percent: found.estimate_percent,
        };
        self.by_node.overall.get(config).into_iter().flatten().map(shown).collect()
    }

    fn name(&self, node: u32) -> String {
        match self.nodes.get(node as usize) {
            Some(Node::Named(name)) => name.clone(),
            _ => format!("machine {}", node + 1),
        }
    }
}

fn samples_rounds(samples: &Samples) -> usize {
    samples.observed.samples.first().and_then(|metrics| metrics.first()).map_or(0, |metric| metric.baseline.len())
}

/// The nodes in the order in which the plan meets them, and that of each block, scenario by scenario. Attempts come in any order.
fn nodes(places: &Places<'_>, design: &Design, rounds: usize) -> (Vec<Node>, Vec<Vec<u32>>) {
    let mut nodes = Vec::new();
    let mut of_blocks = vec![vec![0; rounds]; design.scenarios.len()];
    let blocks = places.plan().blocks.iter().enumerate();
    let planned: HashMap<_, _> = blocks.map(|(at, block)| ((block.scenario.as_str(), block.number), at)).collect();
    let mut attempts: Vec<_> = places.attempts().iter().enumerate().collect();
    attempts.sort_by_key(|(_, seen)| planned.get(&(seen.trial().scenario.as_str(), seen.trial().block)));
    for (attempt, seen) in attempts {
        let (id, Some(summary)) = (seen.trial(), places.summary(attempt)) else { continue };
        let scenario = design.scenarios.iter().position(|scenario| scenario.name == id.scenario);
        let (Some(scenario), Fate::Used) = (scenario, places.fate(attempt)) else { continue };
        let Some(of_block) = of_blocks[scenario].get_mut(id.block as usize) else { continue };
        let name = summary.pod.as_ref().and_then(|pod| pod.node.clone());
        let node = name.map_or_else(|| Node::Machine(summary.parity.machine.clone()), Node::Named);
        *of_block = nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
            nodes.push(node);
            nodes.len() - 1
        }) as u32;
    }
    (nodes, of_blocks)
}

/// Whether runs depend on the order in which they were made.
pub(super) fn order_effects(
    places: &Places<'_>,
    design: &Design,
    samples: &Samples,
) -> Result<Vec<OrderCheck>, JudgeError> {
    let rounds = samples_rounds(samples);
    let mut orders = vec![vec![Vec::new(); rounds]; design.scenarios.len()];
    for block in &places.plan().blocks {
        let scenario = design.scenarios.iter().position(|scenario| scenario.name == block.scenario);
        let Some(order) = scenario.and_then(|scenario| orders[scenario].get_mut(block.number as usize)) else {
            continue;
        };
        *order = block
            .slots
            .iter()
            .map(|slot| match design.configs.iter().position(|config| *config == slot.config) {
                Some(config) => Arm::Config(config),
                None => Arm::Baseline(slot.replicate as usize),
            })
            .collect();
    }
    verdict::order_effects(design, &samples.observed, &orders)
}

/// What is to be said of those that do.
pub(super) fn smeared(checks: &[OrderCheck]) -> impl Iterator<Item = Note> {
    checks.iter().filter(|check| check.warning).map(|check| {
        let text = format!(
            "In {}, runs seem to depend on {} (Kruskal-Wallis on {}, p = {:.1e}; 1 in 100 such checks does so by \
             chance). The random order keeps verdicts fair and a straight drift is removed, but a longer warm-up would make \
             them sharper.",
            check.scenario,
            check.effect.words(),
            check.metric,
            check.p.unwrap_or_default()
        );
        Note::new(None, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Attempt;
    use crate::gates::testing::{experiment, plan, summaries};

    #[test]
    fn nodes_are_numbered_as_the_plan_meets_them() {
        let experiment = experiment();
        // Only runs of the baseline, so that what its run says of a block is not said again.
        let runs = summaries(&experiment).into_iter().filter(|summary| summary.trial.config == "base");
        let mut attempts: Vec<Attempt> = runs
            .map(|mut summary| {
                summary.parity.machine = Digest::of(&[[7, 3, 7, 5, 3, 9, 9, 7][summary.trial.block as usize]]);
                Attempt::Finished(summary.into())
            })
            .collect();
        attempts.reverse();
        let plan = plan(&experiment);
        let places = Places::new(&plan, &attempts).unwrap();
        let (found, of_blocks) = nodes(&places, &experiment.design(), 8);
        assert_eq!(of_blocks, [[0, 1, 0, 2, 1, 3, 3, 0]]);
        assert_eq!(found.len(), 4);
    }
}
