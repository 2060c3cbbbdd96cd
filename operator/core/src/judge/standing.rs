//! Where every config stands: decided, at the end or at a look, or not yet.

use std::collections::BTreeMap;

use super::{baseline, causal, engagement};
use crate::decide::{Places, Samples};
use crate::gates::Finding;
use crate::verdict::{self, BaselineCheck, Design, Intervals, Judgement, LookTaken};

/// What every verdict is based on.
pub(super) struct Standing {
    /// Everything that there is.
    pub samples: Samples,
    /// The baseline against itself.
    pub checks: Vec<BaselineCheck>,
    /// Estimates from all of it; the verdicts, too, if no more will come.
    latest: Judgement,
    /// While more will come: the verdicts of the last look.
    look: Option<Judgement>,
    /// Why claims were taken away, by config.
    voided: BTreeMap<String, Vec<Finding>>,
    pub complete: bool,
    /// Planned looks before the last.
    early: Vec<usize>,
}

/// What was found about a config, overall or in a scenario.
pub(super) struct Unit<'a> {
    pub config: &'a str,
    pub decided: bool,
    pub conclusion: &'a verdict::Conclusion,
    /// The look after which it needed no more runs, where that was before the end of the plan.
    pub stopped_after: Option<usize>,
}

impl Standing {
    pub fn of(places: &Places<'_>, design: &Design, intervals: Intervals) -> Result<Self, verdict::JudgeError> {
        let complete = places.is_complete();
        let rounds = if complete { places.rounds_wanted() } else { design.max_blocks };
        let mut samples = Samples::of(places, design, rounds, true);
        let checks = verdict::baseline_check(design, &samples.observed)?;
        if complete {
            for finding in baseline::disagreements(&checks) {
                samples.distrust(finding);
            }
        }
        let mut latest = verdict::judge(design, &samples.observed, intervals)?;
        let mut look = if complete || design.looks.is_none() {
            None
        } else {
            let closed = Samples::of(places, design, places.rounds_closed(), false);
            Some(verdict::judge(design, &closed.observed, intervals)?)
        };
        let mut voided: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        // Of what is not announced nothing can be void.
        if let Some(announced) = look.as_mut().or(complete.then_some(&mut latest)) {
            voided = engagement::void_claims(announced, places, design, complete);
            for (config, findings) in causal::void_wins(announced, places, design) {
                voided.entry(config).or_default().extend(findings);
            }
        }
        let looks = design.looks.as_ref().map_or(&[][..], |looks| &looks.blocks);
        let early = looks.iter().copied().filter(|&blocks| blocks < design.max_blocks).collect();
        Ok(Self { samples, checks, latest, look, voided, complete, early })
    }

    pub fn overall(&self, config: usize) -> Unit<'_> {
        let decided = self.decided(config);
        let found = &decided.unwrap_or(&self.latest).overall[config];
        let stopped_after = found.stopped_at.filter(|&blocks| self.is_early(blocks));
        Unit { config: &found.config, decided: decided.is_some(), conclusion: &found.conclusion, stopped_after }
    }

    pub fn cell(&self, unit: usize) -> Unit<'_> {
        let decided = self.decided(unit % self.latest.overall.len());
        let found = &decided.unwrap_or(&self.latest).cells[unit];
        Unit { config: &found.config, decided: decided.is_some(), conclusion: &found.conclusion, stopped_after: None }
    }

    /// The judgement whose verdicts may be told, of those configs that are decided.
    pub fn announced(&self) -> Option<&Judgement> {
        if self.complete { Some(&self.latest) } else { self.look.as_ref() }
    }

    /// Why claims about a config were taken away.
    pub fn voided(&self, config: &str) -> impl Iterator<Item = &Finding> {
        self.voided.get(config).into_iter().flatten()
    }

    /// The looks that were taken. One that was not planned only is where the runs ended.
    pub fn looks(&self) -> impl Iterator<Item = &LookTaken> {
        let looks = self.announced().into_iter().flat_map(|judgement| &judgement.looks);
        looks.filter(|look| self.complete || self.is_early(look.blocks))
    }

    fn is_early(&self, blocks: usize) -> bool {
        self.early.contains(&blocks)
    }

    /// Where a config was decided, if it is.
    fn decided(&self, config: usize) -> Option<&Judgement> {
        match &self.look {
            None if self.complete => Some(&self.latest),
            None => None,
            Some(look) => look.overall[config].stopped_at.map(|_| look),
        }
    }
}
