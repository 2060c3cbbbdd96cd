use super::{
    design::{Design, Families, StopOn},
    judgement::{CellConclusion, Conclusion, ConfigConclusion, Judgement, LookTaken, Outcome, Reason, Verdict},
    ledger::{Intervals, Ledger},
    observed::Observed,
    table,
    values::{JudgeError, Values},
};
use crate::stats::{Adjust, Look, ShapeError};

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
        // What is invalid or failing is so today, not at an earlier look.
        let latest = i + 1 == reached.len();
        let outcomes = ledgers.outcomes(latest);
        let over = look.blocks == design.max_blocks || (latest && observed.ended);
        for (config, stop) in stopped_at.iter_mut().enumerate() {
            if stop.is_none() && (over || outcomes.is_settled(design, config)) {
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
struct Ledgers<'a> {
    design: &'a Design,
    observed: &'a Observed,
    values: &'a Values,
    families: Families,
    /// One unit per config.
    overall: Ledger<'a>,
    /// One unit per scenario and config.
    cells: Ledger<'a>,
}

/// Where all configs stand after a look.
struct Outcomes {
    /// One per config.
    overall: Vec<Outcome>,
    /// Scenario by scenario, one per config.
    cells: Vec<Outcome>,
}

impl Outcomes {
    /// Whether more runs of a config could not change what its stopping rule waits for.
    fn is_settled(&self, design: &Design, config: usize) -> bool {
        let Some(looks) = &design.looks else { return false };
        let settled = |outcome: &Outcome| {
            outcome.verdict != Verdict::Inconclusive || (looks.futility && outcome.reason == Reason::NoGain)
        };
        let cells = || self.cells.iter().skip(config).step_by(design.configs.len()).all(settled);
        settled(&self.overall[config]) && (looks.stop_on == StopOn::Overall || cells())
    }
}

impl<'a> Ledgers<'a> {
    fn new(design: &'a Design, observed: &'a Observed, values: &'a Values) -> Self {
        let families = design.families();
        let configs = design.configs.len();
        let cells = configs * design.scenarios.len();
        Self {
            design,
            observed,
            values,
            families,
            overall: Ledger::new(&design.metrics, families.overall, Adjust::Holm, configs),
            cells: Ledger::new(&design.metrics, families.cells, design.cells_adjust, cells),
        }
    }

    fn take(&mut self, config: usize, look: &Look) -> Result<(), ShapeError> {
        for metric in 0..self.design.metrics.len() {
            self.overall.take(config, metric, self.values.overall(config, metric, 0..look.blocks)?, look);
            for scenario in 0..self.design.scenarios.len() {
                let unit = scenario * self.design.configs.len() + config;
                self.cells.take(unit, metric, self.values.cell(scenario, config, metric, 0..look.blocks)?, look);
            }
        }
        Ok(())
    }

    /// Verdicts from what the metrics prove; with `facts`, those about what was measured at all come first.
    fn outcomes(&self, facts: bool) -> Outcomes {
        let proofs = self.cells.proofs();
        let cells: Vec<Outcome> = self
            .units()
            .enumerate()
            .map(|(unit, (scenario, config))| {
                let known = if facts { self.fact(Some(scenario), config) } else { None };
                known.unwrap_or_else(|| table::outcome(&self.cells.judged(unit, &proofs), self.families.cells.n_min))
            })
            .collect();
        let proofs = self.overall.proofs();
        let overall = (0..self.design.configs.len()).map(|config| {
            let known = if facts { self.fact(None, config) } else { None };
            let judged = known
                .unwrap_or_else(|| table::outcome(&self.overall.judged(config, &proofs), self.families.overall.n_min));
            let names = self.design.scenarios.iter().map(|s| s.name.as_str());
            let own: Vec<(&str, &Outcome)> =
                names.zip(cells.iter().skip(config).step_by(self.design.configs.len())).collect();
            table::veto(judged, &own)
        });
        Outcomes { overall: overall.collect(), cells }
    }

    /// Rows 1 and 2 of the table: what is invalid or failing needs no statistics of its metrics.
    fn fact(&self, scenario: Option<usize>, config: usize) -> Option<Outcome> {
        let codes = match scenario {
            Some(scenario) => self.observed.cell_codes(scenario, config),
            None => self.observed.arm_codes(config),
        };
        if !codes.is_empty() {
            let codes = codes.into_iter().map(Into::into).collect();
            return Some(Outcome {
                verdict: Verdict::Invalid,
                reason: Reason::Invalid { codes, scenarios: Vec::new() },
            });
        }
        let (own, baseline) = self.observed.attempts(scenario, config);
        table::unstable(own, baseline).then_some(Outcome { verdict: Verdict::Reject, reason: Reason::Unstable })
    }

    /// Scenario and config of each cell.
    fn units(&self) -> impl Iterator<Item = (usize, usize)> {
        let configs = self.design.configs.len();
        (0..self.design.scenarios.len()).flat_map(move |scenario| (0..configs).map(move |config| (scenario, config)))
    }

    fn judgement(&self, stopped_at: Vec<Option<usize>>, looks: Vec<LookTaken>, intervals: Intervals) -> Judgement {
        let outcomes = self.outcomes(true);
        let conclusion = |ledger: &Ledger<'_>, unit, proofs: &[_], outcome, shown: bool| Conclusion {
            recommendation: table::recommendation(&outcome),
            outcome,
            metrics: ledger.effects(unit, proofs, if shown { intervals } else { Intervals::None }),
        };
        let proofs = self.overall.proofs();
        let overall = self.design.configs.iter().zip(stopped_at).zip(outcomes.overall).enumerate();
        let overall = overall.map(|(unit, ((config, stopped_at), outcome))| ConfigConclusion {
            config: config.clone(),
            stopped_at,
            conclusion: conclusion(&self.overall, unit, &proofs, outcome, intervals != Intervals::None),
        });
        let proofs = self.cells.proofs();
        let cells = self.units().zip(outcomes.cells).enumerate();
        let cells = cells.map(|(unit, ((scenario, config), outcome))| CellConclusion {
            scenario: self.design.scenarios[scenario].name.clone(),
            config: self.design.configs[config].clone(),
            conclusion: conclusion(&self.cells, unit, &proofs, outcome, intervals != Intervals::Overall),
        });
        Judgement { overall: overall.collect(), cells: cells.collect(), looks, families: self.families }
    }
}
