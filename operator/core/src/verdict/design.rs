use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{ALPHA, Adjust, Direction, Scale, Shares, n_min, plan_looks};

/// How a metric is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// It should improve.
    Objective,
    /// It must be proven not to get worse.
    Guardrail,
    /// It is only reported.
    Info,
}

impl Purpose {
    /// Whether harm to the metric can decide a verdict.
    pub fn is_required(self) -> bool {
        self != Self::Info
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricRule {
    pub name: String,
    pub direction: Direction,
    pub purpose: Purpose,
    /// Smallest change that matters: a ratio (0.05 = 5 %) on a log scale, a difference on a linear one.
    pub margin: f64,
    #[serde(default)]
    pub scale: Scale,
    /// The gain that a Win proves; any gain if absent. A ratio or a difference, like the margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Largest loss that a Win may hide in a single scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_margin: Option<f64>,
    /// A quantile within the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quantile: bool,
}

/// Times the margin that a guardrail may lose in a single scenario where nothing else is declared: a scenario alone has less to show
/// it with than all of them, and nothing is claimed to improve there.
const GUARDRAIL_SLACK: f64 = 2.0;

impl MetricRule {
    /// A rule with nothing declared but what every metric needs.
    pub fn new(name: impl Into<String>, direction: Direction, purpose: Purpose, margin: f64, scale: Scale) -> Self {
        Self {
            name: name.into(),
            direction,
            purpose,
            margin,
            scale,
            at_least: None,
            scenario_margin: None,
            quantile: false,
        }
    }

    /// The margin as an effect.
    pub(crate) fn effect_margin(&self) -> f64 {
        self.scale.margin(self.margin)
    }

    /// The effect that a gain has to exceed.
    pub(crate) fn least_effect(&self) -> f64 {
        self.at_least.map_or(0.0, |least| self.scale.margin(least))
    }

    /// What a Win may lose in a single scenario: declared, or else the margin, twice for a guardrail.
    pub fn margin_per_scenario(&self) -> f64 {
        let slack = if self.purpose == Purpose::Guardrail { GUARDRAIL_SLACK } else { 1.0 };
        self.scenario_margin.unwrap_or(slack * self.margin)
    }

    /// The same as an effect.
    pub(crate) fn effect_margin_per_scenario(&self) -> f64 {
        self.scale.margin(self.margin_per_scenario())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    pub name: String,
    /// Share in the overall verdict, relative to the other scenarios.
    pub weight: f64,
}

/// What must be decided before a config needs no more runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StopOn {
    #[default]
    Overall,
    /// The overall verdict and that of each scenario.
    Cells,
}

/// A judgement after `blocks` blocks, with the shares of the error that each family may spend at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub blocks: usize,
    pub overall: Shares,
    pub cells: Shares,
}

/// Judgements during the experiment, with the rule that ends it early for a config ("Looks").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LookPlan {
    /// Blocks after which to judge, ascending, the last one being `max_blocks`.
    pub blocks: Vec<usize>,
    #[serde(default)]
    pub stop_on: StopOn,
    /// Stop, too, when a gain of the margin is excluded and harm could have been proven ("Looks").
    pub futility: bool,
}

/// All that must stand before the first run: every guarantee is void if it changes afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Design {
    pub metrics: Vec<MetricRule>,
    pub scenarios: Vec<Scenario>,
    /// Without the baseline.
    pub configs: Vec<String>,
    /// Baseline runs per block.
    pub m0: usize,
    pub max_blocks: usize,
    /// `None` judges once, at the end.
    #[serde(default)]
    pub looks: Option<LookPlan>,
    #[serde(default)]
    pub cells_adjust: Adjust,
}

/// Claims that share one error, and the blocks that the first of them needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Family {
    /// Claims of a gain.
    pub better: usize,
    /// Claims of harm: of each required metric, and of failures.
    pub worse: usize,
    /// Fewest blocks that can prove a gain.
    pub n_min: usize,
}

impl Family {
    /// Fewest blocks that can prove harm: every required metric can be harmed, so more claims share the error.
    pub fn n_min_harm(&self) -> usize {
        n_min(self.worse, ALPHA)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Families {
    pub overall: Family,
    pub cells: Family,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DesignError {
    #[error("a design needs at least one {0}")]
    Nothing(&'static str),
    #[error("{kind} {name:?} is declared twice")]
    Twice { kind: &'static str, name: String },
    #[error("metric {metric:?}: {what} {margin} is not a positive number")]
    Margin { metric: String, what: &'static str, margin: f64 },
    #[error("scenario {scenario:?}: weight {weight} is not a positive number")]
    Weight { scenario: String, weight: f64 },
    #[error("looks {looks:?} must be ascending and end at {max_blocks} blocks")]
    Looks { looks: Vec<usize>, max_blocks: usize },
    #[error("{max_blocks} blocks can't prove anything: {claims} claims need at least {n_min}")]
    Undecidable { max_blocks: usize, claims: usize, n_min: usize },
}

impl Design {
    /// Whether the same experiment with enough blocks has looks: one that is too short for any may, one that declined them may not.
    pub fn has_looks_when_long(&self) -> bool {
        self.looks.is_some() || plan_looks(self.max_blocks, self.families().overall.better).len() == 1
    }

    /// This design with another number of blocks, and the looks that these get.
    #[must_use]
    pub fn repeated(&self, blocks: usize) -> Self {
        let looks = plan_looks(blocks, self.families().overall.better);
        let (stop_on, futility) =
            self.looks.as_ref().map_or((StopOn::Overall, false), |looks| (looks.stop_on, looks.futility));
        let looks =
            (looks.len() > 1 && self.has_looks_when_long()).then_some(LookPlan { blocks: looks, stop_on, futility });
        Self { max_blocks: blocks, looks, ..self.clone() }
    }

    /// Whether a Win asks of each scenario that a metric holds there. Alone, a scenario is all that there is: nothing pays for it, unless
    /// it is declared how much it may lose.
    pub(crate) fn asks_scenarios(&self, rule: &MetricRule) -> bool {
        self.scenarios.len() > 1 || rule.scenario_margin.is_some()
    }

    /// Whether the design has a meaning.
    pub fn check(&self) -> Result<(), DesignError> {
        distinct("metric", self.metrics.iter().map(|m| m.name.as_str()))?;
        distinct("scenario", self.scenarios.iter().map(|s| s.name.as_str()))?;
        distinct("config", self.configs.iter().map(String::as_str))?;
        if !self.metrics.iter().any(|m| m.purpose == Purpose::Objective) {
            return Err(DesignError::Nothing("objective"));
        }
        if self.m0 == 0 {
            return Err(DesignError::Nothing("baseline run per block"));
        }
        if self.max_blocks == 0 {
            return Err(DesignError::Nothing("block"));
        }
        for MetricRule { name, margin, at_least, scenario_margin, .. } in &self.metrics {
            let declared = [("margin", Some(*margin)), ("atLeast", *at_least), ("scenarioMargin", *scenario_margin)];
            for (what, margin) in declared.into_iter().filter_map(|(what, margin)| Some((what, margin?))) {
                if !(margin.is_finite() && margin > 0.0) {
                    return Err(DesignError::Margin { metric: name.clone(), what, margin });
                }
            }
        }
        for Scenario { name, weight } in &self.scenarios {
            if !(weight.is_finite() && *weight > 0.0) {
                return Err(DesignError::Weight { scenario: name.clone(), weight: *weight });
            }
        }
        if let Some(LookPlan { blocks, .. }) = &self.looks {
            let ascend = blocks.is_sorted_by(|a, b| a < b) && blocks.first().is_some_and(|&first| first > 0);
            if !ascend || blocks.last() != Some(&self.max_blocks) {
                return Err(DesignError::Looks { looks: blocks.clone(), max_blocks: self.max_blocks });
            }
        }
        Ok(())
    }

    /// Whether the overall verdicts can be anything but inconclusive ("Fewest blocks"). To be asked before any time is spent on
    /// runs; for the cells `families().cells.n_min` tells, which is worth a warning only.
    pub fn check_decidable(&self) -> Result<(), DesignError> {
        self.check()?;
        let Family { better: claims, n_min, .. } = self.families().overall;
        if self.max_blocks < n_min {
            return Err(DesignError::Undecidable { max_blocks: self.max_blocks, claims, n_min });
        }
        Ok(())
    }

    /// How many claims the design makes ("Families"). Fixed by the design: a config that drops out does not make the others cheaper.
    pub fn families(&self) -> Families {
        let objectives = self.metrics.iter().filter(|m| m.purpose == Purpose::Objective).count();
        let required = self.metrics.iter().filter(|m| m.purpose.is_required()).count();
        let family = |units| {
            let better = units * objectives;
            Family { better, worse: units * (required + 1), n_min: n_min(better, ALPHA) }
        };
        Families { overall: family(self.configs.len()), cells: family(self.configs.len() * self.scenarios.len()) }
    }

    /// The same without looks that were not taken: what they would have spent is left to the next ("Looks").
    #[must_use]
    pub(crate) fn without_looks(&self, skipped: &[usize]) -> Self {
        let mut design = self.clone();
        if let Some(looks) = &mut design.looks {
            looks.blocks.retain(|blocks| !skipped.contains(blocks));
        }
        design
    }

    /// The end of the plan, with what is left of the error there.
    pub(crate) fn last_look(&self) -> Look {
        self.look_after(self.max_blocks)
    }

    /// The planned look after so many blocks; the whole error where none is planned there.
    pub(crate) fn look_after(&self, blocks: usize) -> Look {
        let look = self.schedule().into_iter().find(|look| look.blocks == blocks);
        look.unwrap_or(Look { blocks, overall: Shares::WHOLE, cells: Shares::WHOLE })
    }

    /// The planned looks, the end of the plan among them.
    fn schedule(&self) -> Vec<Look> {
        let planned = self.looks.as_ref().map_or_else(|| vec![self.max_blocks], |looks| looks.blocks.clone());
        let Families { overall, cells } = self.families();
        let shares = |family: Family| Shares::schedule(&planned, family.better, family.worse);
        let shares = shares(overall).into_iter().zip(shares(cells));
        planned.iter().zip(shares).map(|(&blocks, (overall, cells))| Look { blocks, overall, cells }).collect()
    }

    /// The looks that have been reached with `complete` blocks in every scenario. An experiment that has `ended` early, with
    /// `longest` blocks in some, is judged a last time on what there is, at all the error that is left.
    pub(crate) fn looks_reached(&self, complete: usize, longest: usize, ended: bool) -> Vec<Look> {
        let mut reached = self.schedule();
        reached.retain(|look| look.blocks <= complete);
        let last = reached.last().map_or(0, |look| look.blocks);
        if ended && longest > last && last < self.max_blocks {
            let rest = |shares: fn(&Look) -> Shares| Shares::rest(&reached.iter().map(shares).collect::<Vec<_>>());
            let (overall, cells) = (rest(|look| look.overall), rest(|look| look.cells));
            reached.push(Look { blocks: longest.min(self.max_blocks), overall, cells });
        }
        reached
    }
}

fn distinct<'a>(kind: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), DesignError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(DesignError::Twice { kind, name: name.to_owned() });
        }
    }
    if seen.is_empty() { Err(DesignError::Nothing(kind)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design() -> Design {
        let metric = |name: &str, purpose| MetricRule::new(name, Direction::Higher, purpose, 0.05, Scale::Log);
        Design {
            metrics: vec![
                metric("throughput", Purpose::Objective),
                metric("p99", Purpose::Guardrail),
                metric("rss", Purpose::Info),
            ],
            scenarios: ["read", "write"].map(|name| Scenario { name: name.into(), weight: 1.0 }).into(),
            configs: ["a", "b", "c"].map(Into::into).into(),
            m0: 2,
            max_blocks: 30,
            looks: None,
            cells_adjust: Adjust::Holm,
        }
    }

    #[test]
    fn families_count_what_can_be_claimed() {
        assert_eq!(
            design().families(),
            Families {
                overall: Family { better: 3, worse: 9, n_min: 6 },
                cells: Family { better: 6, worse: 18, n_min: 7 },
            }
        );
    }

    #[test]
    fn meaningless_designs_are_refused_by_name() {
        let refused = |change: fn(&mut Design)| {
            let mut design = design();
            change(&mut design);
            design.check().map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(refused(|_| ()), "");
        assert_eq!(refused(|d| d.configs.clear()), "a design needs at least one config");
        assert_eq!(refused(|d| d.scenarios.clear()), "a design needs at least one scenario");
        assert_eq!(refused(|d| d.configs[1] = "a".into()), "config \"a\" is declared twice");
        assert_eq!(refused(|d| d.metrics[0].purpose = Purpose::Info), "a design needs at least one objective");
        assert_eq!(refused(|d| d.metrics[1].margin = 0.0), "metric \"p99\": margin 0 is not a positive number");
        assert_eq!(
            refused(|d| d.metrics[0].at_least = Some(-0.1)),
            "metric \"throughput\": atLeast -0.1 is not a positive number"
        );
        assert_eq!(
            refused(|d| d.metrics[0].scenario_margin = Some(f64::NAN)),
            "metric \"throughput\": scenarioMargin NaN is not a positive number"
        );
        assert_eq!(
            refused(|d| d.scenarios[0].weight = f64::NAN),
            "scenario \"read\": weight NaN is not a positive number"
        );
        assert_eq!(refused(|d| d.scenarios[1].weight = 0.0), "scenario \"write\": weight 0 is not a positive number");
        assert_eq!(
            refused(|d| d.scenarios[1].weight = f64::INFINITY),
            "scenario \"write\": weight inf is not a positive number"
        );
        assert_eq!(refused(|d| d.m0 = 0), "a design needs at least one baseline run per block");
        assert_eq!(refused(|d| d.max_blocks = 0), "a design needs at least one block");
        let looks = |blocks| Some(LookPlan { blocks, stop_on: StopOn::Overall, futility: true });
        for blocks in [vec![], vec![0, 30], vec![20, 12, 30], vec![12, 12, 30], vec![12, 20]] {
            let mut design = design();
            design.looks = looks(blocks);
            assert!(matches!(design.check(), Err(DesignError::Looks { .. })), "{design:?}");
        }
    }

    #[test]
    fn designs_that_can_only_be_inconclusive_are_refused() {
        let mut design = design();
        design.max_blocks = 6;
        assert_eq!(design.check_decidable(), Ok(()));
        design.max_blocks = 5;
        assert_eq!(design.check_decidable(), Err(DesignError::Undecidable { max_blocks: 5, claims: 3, n_min: 6 }));
    }

    /// Blocks of a look and its overall shares: gains, harm, equivalence, scenarios.
    fn spent(look: &Look) -> (usize, [f64; 4]) {
        let Shares { better, worse, equivalent, scenario } = look.overall;
        (look.blocks, [better, worse, equivalent, scenario])
    }

    #[test]
    fn a_look_that_was_not_taken_spends_nothing() {
        let mut design = design();
        design.looks = Some(LookPlan { blocks: vec![12, 15, 30], stop_on: StopOn::Overall, futility: true });
        let taken = design.without_looks(&[12]);
        assert_eq!(taken.check(), Ok(()));
        let reached: Vec<_> = taken.looks_reached(20, 20, false).iter().map(spent).collect();
        assert_eq!(reached, [(15, [0.25, 0.125, 0.125, 0.25])]);
        assert_eq!(spent(&design.without_looks(&[12, 15]).last_look()), (30, [1.0; 4]));
    }

    #[test]
    fn an_early_end_spends_what_is_left() {
        let mut design = design();
        let reached = |design: &Design, complete, longest, ended| {
            design.looks_reached(complete, longest, ended).iter().map(spent).collect::<Vec<_>>()
        };
        assert_eq!(reached(&design, 29, 29, false), []);
        assert_eq!(reached(&design, 27, 28, true), [(28, [1.0; 4])]);
        assert_eq!(reached(&design, 30, 34, true), [(30, [1.0; 4])]);

        design.looks = Some(LookPlan { blocks: vec![15, 30], stop_on: StopOn::Overall, futility: true });
        assert_eq!(reached(&design, 20, 20, false), [(15, [0.25, 0.125, 0.125, 0.25])]);
        assert_eq!(reached(&design, 20, 20, true)[1], (20, [0.75, 0.875, 0.875, 0.75]));
        assert_eq!(reached(&design, 15, 15, true).len(), 1);
    }

    #[test]
    fn a_look_that_nobody_planned_has_the_whole_error() {
        let mut design = design();
        design.looks = Some(LookPlan { blocks: vec![15, 30], stop_on: StopOn::Overall, futility: true });
        let shares = |blocks: usize| spent(&design.look_after(blocks));
        assert_eq!(shares(15), (15, [0.25, 0.125, 0.125, 0.25]));
        assert_eq!(shares(30), (30, [0.75, 0.875, 0.875, 0.75]));
        assert_eq!(shares(20), (20, [1.0; 4]));
    }

    /// 8 blocks can't prove one of 9 claims of harm, or one of 18 in cells, at a share of (8/20)^3.
    #[test]
    fn a_family_that_can_not_be_proven_at_a_look_leaves_its_share_to_the_next() {
        let mut design = design();
        design.max_blocks = 20;
        design.looks = Some(LookPlan { blocks: vec![8, 14, 20], stop_on: StopOn::Overall, futility: false });
        let looks = design.looks_reached(20, 20, false);
        let worse: Vec<[f64; 2]> = looks.iter().map(|look| [look.overall.worse, look.cells.worse]).collect();
        // 9 x 2^-8 is 3.5 %, and 5 % x 0.064 less than that.
        assert_eq!(worse[0], [0.0, 0.0]);
        assert!((worse[1][0] - 0.343).abs() < 1e-12 && (worse[2][1] - 0.657).abs() < 1e-12, "{worse:?}");
        // A single claim needs less: 2^-8 is 0.4 %, still more than 5 % x 0.064.
        assert_eq!(looks[0].overall.equivalent, 0.0);
        assert!((looks[0].overall.scenario - 0.16).abs() < 1e-12, "{looks:?}");
    }
}
