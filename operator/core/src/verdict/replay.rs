use super::{
    design::{Design, Families, Look, StopOn},
    judgement::{CellConclusion, Conclusion, ConfigConclusion, Effect, Judgement, LookTaken, Outcome, Reason, Verdict},
    ledger::{Asked, Intervals, Ledger, Proven},
    observed::Observed,
    table::{self, Part},
    values::{JudgeError, Values},
};
use crate::stats::{ALPHA, Adjust, ShapeError};

/// Judges an experiment: replays the looks that its blocks have reached, and says where every config stands now.
///
/// The same design and the same observations always give the same judgement. What was proven at a look stays proven, whatever blocks follow.
pub fn judge(design: &Design, observed: &Observed, intervals: Intervals) -> Result<Judgement, JudgeError> {
    design.check()?;
    let values = Values::new(design, observed)?;
    let mut ledgers = Ledgers::new(design, observed, &values);
    let reached = design.looks_reached(values.complete, values.longest, observed.ended);
    let mut stopped_at = vec![None; design.configs.len()];
    let mut looks = Vec::with_capacity(reached.len());
    for (i, look) in reached.iter().enumerate() {
        for config in (0..design.configs.len()).filter(|&c| stopped_at[c].is_none()) {
            ledgers.take(config, look)?;
        }
        // What is invalid is so today, not at an earlier look.
        let latest = i + 1 == reached.len();
        let outcomes = ledgers.outcomes(latest);
        let over = look.blocks == design.max_blocks || (latest && observed.ended);
        for (config, stop) in stopped_at.iter_mut().enumerate() {
            if stop.is_none() && (over || outcomes.is_settled(design, config, look)) {
                *stop = Some(look.blocks);
            }
        }
        let stopped = design.configs.iter().zip(&stopped_at).filter(|(_, at)| at.is_some());
        let stopped = stopped.map(|(name, _)| name.clone()).collect();
        looks.push(LookTaken { blocks: look.blocks, overall: outcomes.overall, stopped });
        if stopped_at.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(ledgers.judgement(stopped_at, looks, intervals))
}

/// Both families of claims, filled look by look.
pub(super) struct Ledgers<'a> {
    design: &'a Design,
    observed: &'a Observed,
    values: &'a Values<'a>,
    families: Families,
    /// One unit per config.
    pub overall: Ledger<'a>,
    /// One unit per scenario and config.
    pub cells: Ledger<'a>,
    /// Of each config, the blocks that its latest look saw.
    seen: Vec<usize>,
}

/// Where all configs stand after a look.
struct Outcomes {
    /// One per config.
    overall: Vec<Outcome>,
    /// What all scenarios together say, before one of them speaks against it.
    together: Vec<Outcome>,
    /// Scenario by scenario, one per config.
    cells: Vec<Outcome>,
}

impl Outcomes {
    /// Whether more runs of a config could not change what its stopping rule waits for. A scenario's veto against what is not decided
    /// itself decides nothing yet.
    fn is_settled(&self, design: &Design, config: usize, look: &Look) -> bool {
        let Some(looks) = &design.looks else { return false };
        // A look that can't prove harm must not hide it by ending the trials.
        let is_futile = looks.futility && look.overall.worse > 0.0;
        let settled = |outcome: &Outcome| {
            outcome.verdict != Verdict::Inconclusive || (is_futile && outcome.reason == Reason::NoGain)
        };
        let cells = || self.cells.iter().skip(config).step_by(design.configs.len()).all(settled);
        let unstable = self.overall[config].reason == Reason::Unstable;
        settled(&self.overall[config])
            && (settled(&self.together[config]) || unstable)
            && (looks.stop_on == StopOn::Overall || cells())
    }
}

impl<'a> Ledgers<'a> {
    fn new(design: &'a Design, observed: &'a Observed, values: &'a Values<'a>) -> Self {
        let families = design.families();
        let configs = design.configs.len();
        let cells = configs * design.scenarios.len();
        let last = design.last_look();
        Self {
            design,
            observed,
            values,
            families,
            overall: Ledger::new(&design.metrics, families.overall, Adjust::Holm, last.overall, configs),
            cells: Ledger::new(&design.metrics, families.cells, design.cells_adjust, last.cells, cells),
            seen: vec![0; configs],
        }
    }

    /// Both families as a judgement left them, to judge one config of it again.
    pub fn of_judged(
        design: &'a Design,
        observed: &'a Observed,
        values: &'a Values<'a>,
        judgement: &Judgement,
    ) -> Self {
        fn known(found: &Conclusion) -> (&[Effect], f64) {
            (&found.metrics, found.failures_seq)
        }
        let overall = judgement.overall.iter().map(|found| known(&found.conclusion));
        let cells = judgement.cells.iter().map(|found| known(&found.conclusion));
        Self {
            design,
            observed,
            values,
            families: judgement.families,
            overall: Ledger::of_judged(&design.metrics, judgement.families.overall, Adjust::Holm, overall),
            cells: Ledger::of_judged(&design.metrics, judgement.families.cells, design.cells_adjust, cells),
            seen: vec![0; design.configs.len()],
        }
    }

    fn take(&mut self, config: usize, look: &Look) -> Result<(), ShapeError> {
        self.take_some(config, look, &|_, _| true)
    }

    /// A config's data at a look, as far as it is kept: told by scenario and block.
    pub fn take_some(
        &mut self,
        config: usize,
        look: &Look,
        keeps: &dyn Fn(usize, usize) -> bool,
    ) -> Result<(), ShapeError> {
        let scenarios = 0..self.design.scenarios.len();
        for scenario in scenarios.clone() {
            self.take_cell(scenario, config, look, &|block| keeps(scenario, block))?;
        }
        let cells: Vec<usize> = scenarios.clone().map(|scenario| self.cell_unit(scenario, config)).collect();
        for metric in 0..self.design.metrics.len() {
            let rounds = (0..look.blocks).filter(|&block| scenarios.clone().all(|scenario| keeps(scenario, block)));
            match self.values.overall(config, metric, rounds)? {
                Some(together) => {
                    let shown = (0..self.design.scenarios.len()).map(|scenario| self.shown(scenario));
                    let asked = Asked { scenario: false, shown: shown.fold(1.0, f64::min) };
                    self.overall.take(config, metric, together, asked, &look.overall);
                }
                None => self.overall.take_everywhere(config, metric, &self.cells, &cells, &look.overall),
            }
            let total: f64 = self.design.scenarios.iter().map(|scenario| scenario.weight).sum();
            let means = cells.iter().zip(&self.design.scenarios);
            let means = means.map(|(&unit, scenario)| Some(self.cells.mean(unit, metric)? * scenario.weight / total));
            self.overall.set_mean(config, metric, means.sum());
        }
        self.seen[config] = look.blocks;
        let all = scenarios.flat_map(|scenario| self.observed.failures(scenario, config, look.blocks));
        self.overall.take_failures(config, table::fails_more(all, self.design.m0), &look.overall);
        Ok(())
    }

    /// The part of an effect that shows in a scenario.
    fn shown(&self, scenario: usize) -> f64 {
        let hidden = self.observed.hidden.get(scenario).copied().filter(|share| share.is_finite());
        1.0 - hidden.unwrap_or(0.0).clamp(0.0, 1.0)
    }

    /// A config's data in one scenario at a look.
    pub fn take_cell(
        &mut self,
        scenario: usize,
        config: usize,
        look: &Look,
        keeps: &dyn Fn(usize) -> bool,
    ) -> Result<(), ShapeError> {
        let unit = self.cell_unit(scenario, config);
        for metric in 0..self.design.metrics.len() {
            let blocks = (0..look.blocks).filter(|&block| keeps(block));
            let asked = Asked {
                scenario: self.design.asks_scenarios(&self.design.metrics[metric]),
                shown: self.shown(scenario),
            };
            let compared = self.values.cell(scenario, config, metric, blocks)?;
            self.cells.take(unit, metric, compared, asked, &look.cells);
        }
        let failures = self.observed.failures(scenario, config, look.blocks);
        self.cells.take_failures(unit, table::fails_more(failures, self.design.m0), &look.cells);
        self.seen[config] = look.blocks;
        Ok(())
    }

    /// Verdicts from what the metrics prove; with `facts`, those about what was measured at all come first.
    fn outcomes(&self, facts: bool) -> Outcomes {
        let (overall, cells) = (self.overall.proven(), self.cells.proven());
        let found: Vec<Outcome> =
            self.units().map(|(scenario, config)| self.cell(&cells, scenario, config, facts)).collect();
        let configs = 0..self.design.configs.len();
        let together: Vec<Outcome> = configs.clone().map(|config| self.together(&overall, config, facts)).collect();
        let overall = configs.map(|config| {
            let own: Vec<&Outcome> = found.iter().skip(config).step_by(self.design.configs.len()).collect();
            self.against(&together[config], &own, &cells, config)
        });
        Outcomes { overall: overall.collect(), together, cells: found }
    }

    /// The verdict of a config in one scenario.
    pub fn cell(&self, proven: &Proven, scenario: usize, config: usize, facts: bool) -> Outcome {
        let unit = self.cell_unit(scenario, config);
        let known = if facts { Self::invalid(self.observed.cell_codes(scenario, config)) } else { None };
        known.or_else(|| unstable(proven.failures(unit))).unwrap_or_else(|| {
            table::cell(&self.cells.judged(unit, proven), self.families.cells.n_min, self.doubt(scenario, config))
        })
    }

    /// What all scenarios together say of a config.
    pub fn together(&self, proven: &Proven, config: usize, facts: bool) -> Outcome {
        let known = if facts { Self::invalid(self.observed.arm_codes(config)) } else { None };
        known
            .or_else(|| unstable(proven.failures(config)))
            .unwrap_or_else(|| table::outcome(&self.overall.judged(config, proven), self.families.overall.n_min))
    }

    /// What is left of that when each scenario has been heard.
    pub fn against(&self, together: &Outcome, own: &[&Outcome], cells: &Proven, config: usize) -> Outcome {
        let judged: Vec<_> = (0..self.design.scenarios.len())
            .map(|scenario| self.cells.judged(self.cell_unit(scenario, config), cells))
            .collect();
        let parts = self.design.scenarios.iter().zip(own).zip(&judged).enumerate();
        let parts: Vec<Part<'_>> = parts
            .map(|(number, ((scenario, outcome), metrics))| Part {
                scenario: &scenario.name,
                outcome,
                metrics,
                doubt: self.doubt(number, config),
                is_idle: self.observed.idle.contains(&(number, config)),
            })
            .collect();
        table::overall(together.clone(), &self.overall.lost_means(config), &parts)
    }

    /// A reason that denies a Win or Neutral without proving harm: more of its runs damaged data, or the bound on its failures would undo the
    /// verdict ("Failures").
    fn doubt(&self, scenario: usize, config: usize) -> Option<Reason> {
        let blocks = self.seen[config];
        let (own, baseline) = self.observed.runs(scenario, config, blocks);
        if own.damage_more_than(baseline) {
            return Some(Reason::Failures);
        }
        let bad = self.observed.bad_firsts(scenario, config, blocks, self.design.m0);
        let worst = bad.excess(self.design.m0);
        if worst == 0 {
            return None;
        }
        let mut required = self.design.metrics.iter().enumerate().filter(|(_, rule)| rule.purpose.is_required());
        let is_undone = required.any(|(metric, rule)| {
            let left = self.values.estimate_with_worst((scenario, config, metric), blocks, &bad.own, worst);
            left.ok().flatten().is_some_and(|left| left < -rule.effect_margin_per_scenario())
        });
        let reason = if own.failed > 0 { Reason::Failures } else { Reason::Attrition };
        is_undone.then_some(reason)
    }

    /// Row 1 of the table: what is invalid needs no statistics of its metrics.
    fn invalid(codes: Vec<&str>) -> Option<Outcome> {
        (!codes.is_empty()).then(|| {
            let codes = codes.into_iter().map(Into::into).collect();
            Outcome { verdict: Verdict::Invalid, reason: Reason::Invalid { codes, scenarios: Vec::new() } }
        })
    }

    /// Scenario and config of each cell.
    fn units(&self) -> impl Iterator<Item = (usize, usize)> {
        let configs = self.design.configs.len();
        (0..self.design.scenarios.len()).flat_map(move |scenario| (0..configs).map(move |config| (scenario, config)))
    }

    pub fn cell_unit(&self, scenario: usize, config: usize) -> usize {
        scenario * self.design.configs.len() + config
    }

    fn judgement(&self, stopped_at: Vec<Option<usize>>, looks: Vec<LookTaken>, intervals: Intervals) -> Judgement {
        let outcomes = self.outcomes(true);
        let conclusion = |ledger: &Ledger<'_>, unit, proven: &Proven, outcome: Outcome, shown: bool| {
            let shown = if intervals == Intervals::Wins { outcome.verdict == Verdict::Win } else { shown };
            Conclusion {
                recommendation: table::recommendation(&outcome),
                outcome,
                metrics: ledger.effects(unit, proven, if shown { intervals } else { Intervals::None }),
                failures_seq: ledger.failures_seq(unit),
            }
        };
        let proven = self.overall.proven();
        let overall = self.design.configs.iter().zip(stopped_at).zip(outcomes.overall).enumerate();
        let overall = overall.map(|(unit, ((config, stopped_at), outcome))| ConfigConclusion {
            config: config.clone(),
            stopped_at,
            conclusion: conclusion(&self.overall, unit, &proven, outcome, intervals != Intervals::None),
        });
        let proven = self.cells.proven();
        let cells = self.units().zip(outcomes.cells).enumerate();
        let cells = cells.map(|(unit, ((scenario, config), outcome))| CellConclusion {
            scenario: self.design.scenarios[scenario].name.clone(),
            config: self.design.configs[config].clone(),
            conclusion: conclusion(&self.cells, unit, &proven, outcome, intervals != Intervals::Overall),
        });
        Judgement { overall: overall.collect(), cells: cells.collect(), looks, families: self.families }
    }
}

/// Row 2: a config that fails more often than the baseline.
fn unstable(failures: f64) -> Option<Outcome> {
    (failures <= ALPHA).then_some(Outcome { verdict: Verdict::Reject, reason: Reason::Unstable })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::plan_looks;
    use crate::verdict::testing::{design, noise, observed};
    use crate::verdict::{Ending, Endings, LookPlan, MetricRule, Purpose};

    #[test]
    fn a_veto_against_what_is_open_settles_nothing() {
        let mut design = design(1, &["read"], 1, 20);
        design.looks = Some(LookPlan { blocks: vec![10, 20], stop_on: StopOn::Overall, futility: false });
        let look = design.look_after(10);
        let is_settled = |overall: (Verdict, Reason), together: (Verdict, Reason)| {
            let [overall, together] = [overall, together].map(|(verdict, reason)| vec![Outcome { verdict, reason }]);
            Outcomes { overall, cells: together.clone(), together }.is_settled(&design, 0, &look)
        };
        let open = || (Verdict::Inconclusive, Reason::Underpowered);
        let vetoed = || (Verdict::Reject, Reason::WorseIn(vec!["read".into()]));
        assert!(!is_settled(vetoed(), open()));
        assert!(is_settled(vetoed(), (Verdict::Neutral, Reason::Equivalent)));
        // More runs do not mend a config that fails.
        assert!(is_settled((Verdict::Reject, Reason::Unstable), open()));
        assert!(!is_settled(open(), open()));
    }

    /// Six claims of harm need 7 blocks, and more at a look with a part of the error.
    #[test]
    fn futility_waits_for_a_look_that_could_have_proven_harm() {
        let mut design = design(2, &["read"], 1, 20);
        design.metrics.push(MetricRule {
            name: "drained".into(),
            purpose: Purpose::Guardrail,
            ..design.metrics[0].clone()
        });
        design.looks = Some(LookPlan { blocks: vec![8, 14, 20], stop_on: StopOn::Overall, futility: true });
        let no_gain = || vec![Outcome { verdict: Verdict::Inconclusive, reason: Reason::NoGain }];
        let is_settled = |blocks: usize| {
            let outcomes = Outcomes { overall: no_gain(), cells: no_gain(), together: no_gain() };
            outcomes.is_settled(&design, 0, &design.look_after(blocks))
        };
        assert_eq!((is_settled(8), is_settled(14)), (false, true));
    }

    /// The first finding of the second review: ten times slower, and yet nothing but no gain.
    #[test]
    fn a_config_that_is_ten_times_slower_is_rejected_whenever_it_is_looked_at() {
        for (configs, blocks) in [(1, 16), (2, 18), (2, 20), (3, 12), (6, 13), (8, 23)] {
            for futility in [false, true] {
                let mut design = design(configs, &["read"], 1, blocks);
                design.looks =
                    Some(LookPlan { blocks: plan_looks(blocks, configs), stop_on: StopOn::Overall, futility });
                let observed =
                    observed(&design, |_, block, config, _| (1.0 + noise(block)) * config.map_or(1.0, |_| 0.1));
                for found in judge(&design, &observed, Intervals::None).unwrap().overall {
                    assert_eq!(found.conclusion.outcome.verdict, Verdict::Reject, "{configs} {blocks} {futility}");
                }
            }
        }
    }

    /// Fewer blocks than can prove harm of six configs, and one of them loses half in each.
    #[test]
    fn harm_that_can_not_be_proven_yet_is_likely() {
        let design = design(6, &["read"], 2, 6);
        let reason = |factor: f64| {
            let observed = observed(&design, |_, block, config, run| {
                let loss = if config == Some(0) { factor } else { 1.0 };
                loss * (1.0 + 0.2 * noise(20 * block + run))
            });
            judge(&design, &observed, Intervals::None).unwrap().overall[0].conclusion.outcome.reason.to_string()
        };
        assert_eq!(reason(0.5), "LikelyHarm:throughput");
        // Within the margin it is no matter.
        assert!(!reason(0.97).starts_with("LikelyHarm"), "{}", reason(0.97));
    }

    /// Fewer blocks than any claim takes may be equal by chance.
    #[test]
    fn harm_in_a_few_blocks_is_not_likely() {
        let reason = |blocks: usize| {
            let design = design(1, &["read"], 1, 8);
            let mut observed = observed(&design, |_, _, config, _| config.map_or(1.0, |_| 0.5));
            let samples = &mut observed.samples[0][0];
            samples.baseline.truncate(blocks);
            samples.configs[0].truncate(blocks);
            judge(&design, &observed, Intervals::None).unwrap().overall[0].conclusion.outcome.reason.to_string()
        };
        assert_eq!((reason(4).as_str(), reason(5).as_str()), ("TooFewBlocks", "LikelyHarm:throughput"));
    }

    /// The mean is proven at the first look and the centre at the last one; in between a run stalls.
    #[test]
    fn a_mean_that_was_proven_must_still_hold() {
        let mut design = design(1, &["read"], 1, 24);
        design.looks = Some(LookPlan { blocks: vec![10, 24], stop_on: StopOn::Overall, futility: false });
        let reason = |stall: f64| {
            let observed = observed(&design, |_, block, config, run| {
                let own = match block {
                    12 => 0.99 * stall,
                    _ if block.is_multiple_of(3) => 0.99,
                    _ => 1.09,
                };
                (noise(2 * block + run) / 100.0).exp() * config.map_or(1.0, |_| own)
            });
            judge(&design, &observed, Intervals::None).unwrap().overall[0].conclusion.outcome.reason.to_string()
        };
        assert_eq!((reason(1.0).as_str(), reason(0.3).as_str()), ("Better:throughput", "SlowTail:throughput"));
    }

    /// It did nothing in one of twelve runs. With a small number instead of the zero, the mean shows it.
    #[test]
    fn what_stands_still_in_a_run_is_not_equal() {
        let design = design(1, &["read"], 1, 12);
        let reason = |slow: f64| {
            let observed = observed(&design, |_, block, config, run| match (block, config) {
                (5, Some(_)) => slow,
                _ => (noise(2 * block + run) / 10.0).exp(),
            });
            judge(&design, &observed, Intervals::None).unwrap().overall[0].conclusion.outcome.reason.to_string()
        };
        assert_eq!((reason(1.0).as_str(), reason(0.001).as_str()), ("Equivalent", "SlowTail:throughput"));
        assert_eq!(reason(0.0), "SlowTail:throughput");
    }

    /// Half of the baseline's runs fail. Otherwise the config is as good, or better.
    #[test]
    fn failures_of_the_baseline_are_no_gain() {
        let design = design(1, &["read"], 1, 20);
        let verdict = |gain: f64| {
            let mut observed = observed(&design, |_, block, config, run| {
                (noise(2 * block + run) / 10.0).exp() * config.map_or(1.0, |_| gain)
            });
            let end = |block: usize| if block.is_multiple_of(2) { Ending::Failed } else { Ending::Sound };
            observed.endings = vec![Endings {
                baseline: (0..20).map(|block| vec![end(block)]).collect(),
                configs: vec![vec![Ending::Sound; 20]],
            }];
            judge(&design, &observed, Intervals::None).unwrap().overall[0].conclusion.outcome.verdict
        };
        assert_eq!((verdict(1.0), verdict(1.2)), (Verdict::Inconclusive, Verdict::Win));
    }

    #[test]
    fn scenarios_have_their_weight_in_the_mean_of_totals() {
        let mut design = design(1, &["read", "write"], 1, 8);
        design.scenarios[0].weight = 3.0;
        let factors = [1.2, 1.5];
        let observed = observed(&design, |scenario, _, config, _| config.map_or(1.0, |_| factors[scenario]));
        let found = judge(&design, &observed, Intervals::None).unwrap();
        let mean = found.overall[0].conclusion.metrics[0].mean.unwrap();
        assert!((mean - (3.0 * 1.2_f64.ln() + 1.5_f64.ln()) / 4.0).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn gates_get_the_intervals_of_wins_and_of_nothing_else() {
        let design = design(2, &["read"], 1, 12);
        let observed = observed(&design, |_, block, config, run| {
            (noise(block * 10 + run) / 10.0).exp() * if config == Some(0) { 1.2 } else { 1.0 }
        });
        let found = judge(&design, &observed, Intervals::Wins).unwrap();
        let shown = |found: &Conclusion| (found.outcome.verdict, found.metrics[0].ci95.is_some());
        let all = [(Verdict::Win, true), (Verdict::Neutral, false)];
        assert_eq!(found.overall.iter().map(|found| shown(&found.conclusion)).collect::<Vec<_>>(), all);
        assert_eq!(found.cells.iter().map(|found| shown(&found.conclusion)).collect::<Vec<_>>(), all);
    }
}
