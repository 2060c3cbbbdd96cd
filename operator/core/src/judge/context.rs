//! What verdicts are seen beside: nodes, the baseline against itself, what runs leave to their successors.

use std::collections::BTreeSet;

use super::Samples;
use super::standing::Standing;
use crate::decide::{Fate, Places};
use crate::gates::{Code, Finding, Note};
use crate::report;
use crate::verdict::{
    self, Arm, BaselineCheck, ByNode, CheckState, Design, Fragility, HangsOn, JudgeError, NodeEstimate,
};

/// What every config's report says beside its verdict.
pub(super) struct Context {
    names: Vec<String>,
    fragility: Fragility,
    by_node: ByNode,
}

impl Context {
    /// `None` while more runs will come: until then a Win hangs on them all.
    pub fn of(places: &Places<'_>, design: &Design, standing: &Standing) -> Result<Option<Self>, JudgeError> {
        let Some(announced) = standing.announced().filter(|_| standing.complete) else { return Ok(None) };
        let samples = &standing.samples.evidence;
        let (names, nodes) = nodes(places, design, samples_rounds(&standing.samples));
        let fragility = verdict::fragile(design, samples, announced, &nodes)?;
        let by_node = if names.len() > 1 { verdict::by_node(design, samples, &nodes)? } else { ByNode::default() };
        Ok(Some(Self { names, fragility, by_node }))
    }

    /// The single blocks and nodes without which a config would not be a Win.
    pub fn fragile(&self, config: usize) -> Vec<String> {
        let what = |hangs_on: &HangsOn| match *hangs_on {
            HangsOn::Block(block) => format!("block {}", block + 1),
            HangsOn::Node(node) => self.name(node),
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
        self.names.get(node as usize).cloned().unwrap_or_default()
    }
}

fn samples_rounds(samples: &Samples) -> usize {
    samples.evidence.samples.first().and_then(|metrics| metrics.first()).map_or(0, |metric| metric.baseline.len())
}

/// The machines in the order in which the plan meets them, and that of each block, scenario by scenario.
fn nodes(places: &Places<'_>, design: &Design, rounds: usize) -> (Vec<String>, Vec<Vec<u32>>) {
    let mut machines = Vec::new();
    let mut nodes = vec![vec![0; rounds]; design.scenarios.len()];
    for (attempt, seen) in places.attempts().iter().enumerate() {
        let (id, Some(summary)) = (seen.trial(), places.summary(attempt)) else { continue };
        let scenario = design.scenarios.iter().position(|scenario| scenario.name == id.scenario);
        let (Some(scenario), Fate::Used) = (scenario, places.fate(attempt)) else { continue };
        let Some(node) = nodes[scenario].get_mut(id.block as usize) else { continue };
        let machine = &summary.parity.machine;
        *node = machines.iter().position(|known| *known == machine).unwrap_or_else(|| {
            machines.push(machine);
            machines.len() - 1
        }) as u32;
    }
    let names = (1..=machines.len()).map(|number| format!("machine {number}")).collect();
    (names, nodes)
}

/// Why nothing can be judged, if the baseline does not agree with itself.
pub(super) fn disagreements(checks: &[BaselineCheck]) -> Vec<Finding> {
    let failed = checks.iter().filter(|check| check.state == CheckState::Failed);
    failed
        .map(|check| {
            let p = check.p.unwrap_or_default();
            let message = format!(
                "in {} the baseline's first run of a block differs from its others on {} (p = {p:.1e})",
                check.scenario, check.metric
            );
            Finding::new(Code::BaselineDisagrees, message)
        })
        .collect()
}

/// Notes about a baseline that hardly agrees with itself.
pub(super) fn doubts(checks: &[BaselineCheck]) -> impl Iterator<Item = Note> {
    let doubtful = checks.iter().filter(|check| check.state == CheckState::Warning);
    doubtful.map(|check| Note {
        config: None,
        text: format!(
            "In {} the baseline's first run of a block differs from its others on {} (p = {:.4}); of a hundred such checks one does \
             by chance.",
            check.scenario,
            check.metric,
            check.p.unwrap_or_default()
        ),
    })
}

/// Notes about runs that depend on what ran before them.
pub(super) fn carry_over(
    places: &Places<'_>,
    design: &Design,
    samples: &Samples,
) -> Result<BTreeSet<Note>, JudgeError> {
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
    let found = verdict::carry_over(design, &samples.evidence, &orders)?;
    let warned = found.into_iter().filter(|found| found.warning);
    Ok(warned
        .map(|found| Note {
            config: None,
            text: format!(
                "In {} runs depend on the config that ran before them (Kruskal-Wallis on {}, p = {:.1e}). The random order keeps \
                 verdicts fair, but a longer warm-up would make them sharper.",
                found.scenario,
                found.metric,
                found.p.unwrap_or_default()
            ),
        })
        .collect())
}
