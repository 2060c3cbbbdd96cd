//! Blocks that lack a run: what is left of a config may not be typical if it lacks more of them than the baseline beside it. Runs that
//! failed are not missing: they count as the worst.

use std::collections::{BTreeMap, BTreeSet};

use super::{Gated, finding};
use crate::gates::Code;
use crate::gates::attrition::too_many;
use crate::import::comparison::Comparison;
use crate::import::data::Name;
use crate::stats::{ALPHA, holm, uneven};

const WHAT_TO_DO: &str = "Missing runs may be the ones that went badly. Run them, mark failed runs in a failed column, \
                          or leave the config out.";

/// One block of a scenario: whether the config's run is missing, and which of the baseline's are.
type Gap = (bool, Vec<bool>);

/// The blocks of a scenario, each with the baseline's runs in it.
struct Planned {
    scenario: Name,
    blocks: BTreeMap<Name, usize>,
}

/// Blocks of an arm's runs that are there. One that was left out is not, unless it was too good.
fn present<'a>(
    comparison: &'a Comparison<'_>,
    gated: &'a Gated,
    scenario: Name,
    arm: Name,
) -> impl Iterator<Item = Name> + 'a {
    let runs = comparison.runs(scenario, arm).map(|(key, _)| key);
    runs.filter(|&key| !gated.excluded.contains(key) || gated.held.contains(key)).filter_map(|key| key.block)
}

pub(super) fn check(comparison: &Comparison<'_>, gated: &mut Gated) {
    let planned: Vec<Planned> =
        comparison.scenarios.iter().map(|&scenario| Planned::of(comparison, scenario)).collect();
    let gaps: Vec<Vec<Gap>> =
        comparison.configs.iter().map(|&config| gaps(comparison, &planned, config, gated)).collect();
    let p: Vec<f64> = gaps.iter().map(|gaps| lacks_more(gaps, comparison.m0)).collect();
    for (&config, gaps) in comparison.configs.iter().zip(&gaps) {
        if lacks_a_larger_share(gaps, comparison.m0) {
            gated.lossy.insert(config);
        }
    }
    for ((&config, gaps), p) in comparison.configs.iter().zip(&gaps).zip(holm(&p)) {
        let few: Vec<String> = planned.iter().filter_map(|planned| planned.few(comparison, config)).collect();
        if few.is_empty() || gated.configs.contains_key(&config) {
            continue;
        }
        if p > ALPHA {
            gated.notes.extend(few);
            continue;
        }
        let message = counted(comparison, config, gaps, p);
        gated.configs.entry(config).or_default().push(finding(Code::Attrition, message, WHAT_TO_DO));
    }
    gated.notes.extend(planned.iter().filter_map(|planned| planned.few(comparison, comparison.baseline)));
    gated.notes.extend(planned.iter().filter_map(|planned| planned.beyond(comparison)));
}

impl Planned {
    fn of(comparison: &Comparison<'_>, scenario: Name) -> Self {
        let mut blocks: BTreeMap<Name, usize> = BTreeMap::new();
        for arm in comparison.arms() {
            for block in comparison.runs(scenario, arm).filter_map(|(key, _)| key.block) {
                *blocks.entry(block).or_default() += usize::from(arm == comparison.baseline);
            }
        }
        Self { scenario, blocks }
    }

    /// Whether blocks have baseline runs that are not used, in words.
    fn beyond(&self, comparison: &Comparison<'_>) -> Option<String> {
        let m0 = comparison.m0;
        let more = self.blocks.values().filter(|&&runs| runs > m0).count();
        let (has, runs) = (if more == 1 { "has" } else { "have" }, if m0 == 1 { "run" } else { "runs" });
        let first = if m0 == 1 { "the first counts".to_owned() } else { format!("the first {m0} count") };
        let (name, place) = (comparison.text(comparison.baseline), comparison.text(self.scenario));
        let blocks = self.blocks.len();
        (more > 0)
            .then(|| format!("{more} of {blocks} blocks of {place} {has} more than {m0} {runs} of {name}: {first}."))
    }

    /// Whether too many blocks lack a run of an arm, in words.
    fn few(&self, comparison: &Comparison<'_>, arm: Name) -> Option<String> {
        let is_baseline = arm == comparison.baseline;
        let missing = if is_baseline {
            self.blocks.values().filter(|&&runs| runs < comparison.m0).count()
        } else {
            self.blocks.len() - blocks_of(comparison, self.scenario, arm).len()
        };
        let (name, place) = (comparison.text(arm), comparison.text(self.scenario));
        let runs = if is_baseline && comparison.m0 > 1 {
            format!("one of the {} runs", comparison.m0)
        } else {
            "the run".to_owned()
        };
        let so = if is_baseline { "; such blocks count for no config" } else { "" };
        let planned = self.blocks.len();
        too_many(missing, planned)
            .then(|| format!("{missing} of {planned} blocks of {place} lack {runs} of {name}{so}."))
    }
}

fn blocks_of(comparison: &Comparison<'_>, scenario: Name, arm: Name) -> BTreeSet<Name> {
    comparison.runs(scenario, arm).filter_map(|(key, _)| key.block).collect()
}

/// All blocks of all scenarios.
fn gaps(comparison: &Comparison<'_>, planned: &[Planned], config: Name, gated: &Gated) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for Planned { scenario, blocks } in planned {
        let own: BTreeSet<Name> = present(comparison, gated, *scenario, config).collect();
        let baseline: Vec<Name> = present(comparison, gated, *scenario, comparison.baseline).collect();
        for block in blocks.keys() {
            let runs = baseline.iter().filter(|other| *other == block).count();
            gaps.push((!own.contains(block), (0..comparison.m0).map(|run| run >= runs).collect()));
        }
    }
    gaps
}

/// Whether a larger share of a config's runs is missing than of the baseline's, whatever p is: as with failures, the missing ones may be the
/// bad ones.
fn lacks_a_larger_share(gaps: &[Gap], m0: usize) -> bool {
    let own = gaps.iter().filter(|(own, _)| *own).count();
    let baseline = gaps.iter().flat_map(|(_, baseline)| baseline).filter(|missing| **missing).count();
    own * m0 > baseline
}

/// P value of the claim that more of a config's runs are missing than of the baseline's in the same blocks.
fn lacks_more(gaps: &[Gap], m0: usize) -> f64 {
    // A block that lacks nothing says nothing, and there are many of them.
    let lacking = gaps.iter().filter(|(own, baseline)| *own || baseline.contains(&true));
    uneven(lacking.cloned(), m0).up
}

fn counted(comparison: &Comparison<'_>, config: Name, gaps: &[Gap], p: f64) -> String {
    let own = gaps.iter().filter(|(own, _)| *own).count();
    let baseline = gaps.iter().flat_map(|(_, baseline)| baseline).filter(|missing| **missing).count();
    format!(
        "{own} of {} runs of {} are missing, against {baseline} of {} of {} in the same blocks: p = {p:.3} by chance \
         alone",
        gaps.len(),
        comparison.text(config),
        gaps.len() * comparison.m0,
        comparison.text(comparison.baseline)
    )
}
