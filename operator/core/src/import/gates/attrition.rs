//! Blocks that lack a run of the config or of the baseline: the pairs that are left may not be typical if one of the two decided which
//! blocks can be compared. Runs that failed are not missing: they count as the worst.

use std::collections::{BTreeMap, BTreeSet};

use super::{Gated, finding};
use crate::gates::Code;
use crate::import::comparison::Comparison;
use crate::import::data::{Name, Run, RunKey};
use crate::stats::{ALPHA, holm, uneven};
use crate::verdict::LostFirst;

const WHAT_TO_DO: &str = "Missing runs may be those that went badly, or those beside a run that did. Repeat them, mark \
                          failed runs in a failed column, or leave the config out.";
/// Follows the notes about blocks that lack a run.
const LOST: &str = "Such blocks are lost: a Win or Neutral must also hold with them as the config's worst.";

/// One block of a scenario: whether the config's run is missing, and which of the baseline's are.
type Gap = (bool, Vec<bool>);

/// The blocks of a scenario that have any run.
struct Planned {
    scenario: Name,
    /// Which runs of the baseline each block lacks.
    baseline: BTreeMap<usize, Vec<bool>>,
    /// Per config the blocks that have its run.
    configs: Vec<BTreeSet<usize>>,
    /// Whether another gate refuses a config here. The runs that it left out are not missing.
    refused: Vec<bool>,
}

pub(super) fn check(comparison: &Comparison<'_>, gated: &mut Gated) {
    let planned: Vec<Planned> =
        comparison.scenarios.iter().map(|&scenario| Planned::of(comparison, gated, scenario)).collect();
    let gaps = |config: usize| planned.iter().flat_map(move |planned| planned.gaps(config));
    let p: Vec<f64> = (0..comparison.configs.len()).map(|config| p_of(gaps(config), comparison.m0)).collect();
    for ((config, &name), p) in comparison.configs.iter().enumerate().zip(holm(&p)) {
        if p <= ALPHA && !gated.configs.contains_key(&name) {
            let message = counted(comparison, name, &gaps(config).collect::<Vec<Gap>>(), p);
            gated.configs.entry(name).or_default().push(finding(Code::Attrition, message, WHAT_TO_DO));
        }
    }
    let lost = planned.iter().enumerate().flat_map(|(scenario, planned)| {
        let configs = 0..planned.configs.len();
        let of = move |config| planned.lost(config).map(move |block| (config, block));
        configs.flat_map(of).map(move |(config, block)| LostFirst { scenario, config: Some(config), block })
    });
    gated.lost_firsts = lost.collect();
    let lacking: Vec<String> = planned.iter().flat_map(|planned| planned.lacking(comparison)).collect();
    let more = if lacking.is_empty() { None } else { Some(LOST.to_owned()) };
    gated.notes.extend(lacking.into_iter().chain(more));
    gated.notes.extend(planned.iter().filter_map(|planned| planned.beyond(comparison)));
}

impl Planned {
    fn of(comparison: &Comparison<'_>, gated: &Gated, scenario: Name) -> Self {
        // A run that was left out is not there, unless it was too good.
        let is_there = |(key, _): &(&RunKey, &Run)| !gated.excluded.contains(*key) || gated.held.contains(*key);
        let arms: Vec<BTreeMap<usize, Vec<bool>>> = comparison
            .arms()
            .map(|arm| {
                let placed = comparison.placed(scenario, arm).into_iter();
                placed.map(|(block, runs)| (block, runs.iter().map(is_there).collect())).collect()
            })
            .collect();
        let blocks: BTreeSet<usize> = arms.iter().flat_map(|arm| arm.keys().copied()).collect();
        // The first arm is the baseline.
        let baseline = |block: usize| {
            let runs = arms.first().and_then(|arm| arm.get(&block));
            let is_missing = |run: usize| !runs.and_then(|runs| runs.get(run)).is_some_and(|is_there| *is_there);
            (block, (0..comparison.m0).map(is_missing).collect())
        };
        let own = |arm: &BTreeMap<usize, Vec<bool>>| {
            arm.iter().filter(|(_, runs)| runs.contains(&true)).map(|(&block, _)| block).collect()
        };
        let is_refused =
            |config: &Name| [None, Some(*config)].iter().any(|arm| gated.cells.contains_key(&(scenario, *arm)));
        Self {
            scenario,
            refused: comparison.configs.iter().map(is_refused).collect(),
            baseline: blocks.iter().map(|&block| baseline(block)).collect(),
            configs: arms.iter().skip(1).map(own).collect(),
        }
    }

    fn gaps(&self, config: usize) -> impl Iterator<Item = Gap> + '_ {
        let blocks = self.baseline.iter().filter(move |_| !self.refused[config]);
        blocks.map(move |(block, baseline)| (!self.configs[config].contains(block), baseline.clone()))
    }

    /// Blocks in which either the config or the baseline has all of its runs, and the other one has not.
    fn lost(&self, config: usize) -> impl Iterator<Item = usize> + '_ {
        let is_lost =
            move |block: usize, baseline: &[bool]| self.configs[config].contains(&block) == baseline.contains(&true);
        self.baseline.iter().filter(move |(block, baseline)| is_lost(**block, baseline)).map(|(&block, _)| block)
    }

    /// Whether blocks have baseline runs that are not used, in words.
    fn beyond(&self, comparison: &Comparison<'_>) -> Option<String> {
        let m0 = comparison.m0;
        let mut runs: BTreeMap<Name, usize> = BTreeMap::new();
        for block in comparison.runs(self.scenario, comparison.baseline).filter_map(|(key, _)| key.block) {
            *runs.entry(block).or_default() += 1;
        }
        let more = runs.values().filter(|&&runs| runs > m0).count();
        let (has, runs) = (if more == 1 { "has" } else { "have" }, if m0 == 1 { "run" } else { "runs" });
        let first = if m0 == 1 { "the first counts".to_owned() } else { format!("the first {m0} count") };
        let (name, place) = (comparison.text(comparison.baseline), comparison.text(self.scenario));
        let blocks = self.baseline.len();
        (more > 0)
            .then(|| format!("{more} of {blocks} blocks of {place} {has} more than {m0} {runs} of {name}: {first}."))
    }

    /// For each arm the blocks that lack a run of it, in words.
    fn lacking(&self, comparison: &Comparison<'_>) -> Vec<String> {
        let lack = |arm: Name, missing: usize| {
            let (name, place) = (comparison.text(arm), comparison.text(self.scenario));
            let runs = if arm == comparison.baseline && comparison.m0 > 1 {
                format!("one of the {} runs", comparison.m0)
            } else {
                "the run".to_owned()
            };
            let (planned, lack) = (self.baseline.len(), if missing == 1 { "lacks" } else { "lack" });
            (missing > 0).then(|| format!("{missing} of {planned} blocks of {place} {lack} {runs} of {name}."))
        };
        // Runs that a gate left out as it refused their config are in its finding.
        if self.refused.iter().all(|refused| *refused) {
            return Vec::new();
        }
        let baseline = self.baseline.values().filter(|missing| missing.contains(&true)).count();
        let configs = comparison.configs.iter().zip(&self.configs).zip(&self.refused).filter(|(_, refused)| !**refused);
        let missing = configs.map(|((&config, own), _)| (config, self.baseline.len() - own.len()));
        missing.chain([(comparison.baseline, baseline)]).filter_map(|(arm, missing)| lack(arm, missing)).collect()
    }
}

/// P value, in both directions, of the claim that blocks are lost because of the config's runs more often, or less, than because of the
/// baseline's.
fn p_of(gaps: impl Iterator<Item = Gap>, m0: usize) -> f64 {
    // A block that lacks nothing says nothing, and there are many of them.
    let tails = uneven(gaps.filter(|(own, baseline)| *own || baseline.contains(&true)), m0);
    2.0 * tails.up.min(tails.down)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::import::{Collector, Place, Policy};

    /// Config, block and replicate of runs; the positions of lost configs and blocks.
    fn lost(runs: &str) -> Vec<(Option<usize>, usize)> {
        let policy = json!({"baseline": "a", "objectives": [{"metric": "ops", "direction": "higher", "margin": "5%"}]});
        let policy = Policy::read(&policy).expect("the policy is valid");
        let rules = policy.rules();
        let mut to = Collector::new(&policy);
        let file = to.file("runs.csv");
        for (line, run) in runs.split_whitespace().enumerate() {
            let value = (1000 + line * 37 % 11).to_string();
            let fields =
                ["config", "block", "replicate"].into_iter().zip(run.split('-')).chain([("ops", value.as_str())]);
            to.row(Place { file, line: line as u64 + 2 }, fields);
        }
        let data = to.finish().expect("the data is complete");
        let session = data.names.find("").expect("runs have no session");
        let comparison = Comparison::new(&data, &policy, &rules, session, "a").expect("runs can be compared");
        let mut gated = Gated::default();
        check(&comparison, &mut gated);
        assert!(gated.lost_firsts.iter().all(|lost| lost.scenario == 0));
        gated.lost_firsts.iter().map(|lost| (lost.config, lost.block)).collect()
    }

    #[test]
    fn a_block_is_lost_if_only_one_side_is_complete() {
        assert_eq!(lost("a-1-1 b-1-1 a-2-1 b-2-1"), []);
        assert_eq!(lost("a-1-1 b-1-1 a-2-1 b-3-1"), [(Some(0), 1), (Some(0), 2)]);
        // Two runs of the baseline count. In block 4 both b and the baseline lack one, in block 3 both c and the baseline.
        let two = "a-1-1 a-1-2 b-1-1 c-1-1 a-2-1 b-2-1 c-2-1 b-3-1 a-4-1 c-4-1 a-5-1 a-5-2 c-5-1 a-6-1 a-6-2";
        let (b, c) = (Some(0), Some(1));
        assert_eq!(lost(two), [(b, 1), (b, 2), (b, 4), (b, 5), (c, 1), (c, 3), (c, 5)]);
    }
}
