//! Where every config stands: decided, at the end or at a look, or not yet.

use std::collections::BTreeMap;

use super::{JudgeError, disturbance, engagement, wins};
use crate::attempt::Attempt;
use crate::decide::{Places, Samples};
use crate::gates::{Finding, Note};
use crate::verdict::{self, Design, Intervals, Judgement, LookTaken};

/// What every verdict is based on.
pub(super) struct Standing {
    /// Everything that there is.
    pub samples: Samples,
    /// Estimates from all of it, and the verdicts that are announced. Those of a config that a look has decided are as the look saw
    /// them: no later run, of whatever arm, changes what was announced.
    judgement: Judgement,
    /// Configs that looks have decided.
    decided: Vec<bool>,
    /// Looks that are due.
    looks: Vec<LookTaken>,
    /// What was found about single configs by whoever decided them.
    findings: BTreeMap<String, Vec<Finding>>,
    pub notes: Vec<Note>,
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

/// A judgement with all that is taken away from it.
struct Judged {
    judgement: Judgement,
    samples: Samples,
    /// Why claims were taken away, by config.
    voided: BTreeMap<String, Vec<Finding>>,
}

impl Judged {
    fn of(
        places: &Places<'_>,
        design: &Design,
        rounds: usize,
        ended: bool,
        intervals: Intervals,
    ) -> Result<Self, verdict::JudgeError> {
        let samples = Samples::of(places, design, rounds, ended);
        let judgement = verdict::judge(design, &samples.observed, intervals)?;
        Ok(Self { judgement, samples, voided: BTreeMap::new() })
    }

    /// Takes away what can't be claimed, at a look after so many rounds.
    fn void(&mut self, places: &Places<'_>, design: &Design, rounds: usize) -> Result<(), verdict::JudgeError> {
        self.voided = engagement::void_claims(&mut self.judgement, places, design);
        let others = [
            wins::void_wins(&mut self.judgement, places, design),
            disturbance::void_claims(
                &mut self.judgement,
                places,
                design,
                &self.samples.observed,
                design.look_after(rounds),
            )?,
        ];
        for (config, findings) in others.into_iter().flatten() {
            self.voided.entry(config).or_default().extend(findings);
        }
        Ok(())
    }

    fn findings(&self, config: &str) -> Vec<Finding> {
        self.samples.findings_of(config).chain(self.voided.get(config).into_iter().flatten()).cloned().collect()
    }
}

impl Standing {
    pub fn of(places: &Places<'_>, design: &Design, intervals: Intervals) -> Result<Self, JudgeError> {
        let complete = places.is_complete();
        let rounds = if complete { places.rounds_wanted() } else { design.max_blocks };
        let mut latest = Judged::of(places, design, rounds, true, intervals)?;
        let mut looks = Vec::new();
        if complete {
            latest.void(places, design, rounds)?;
            looks.clone_from(&latest.judgement.looks);
        } else if design.looks.is_some() {
            let closed = Judged::of(places, design, places.rounds_closed(), false, Intervals::None)?;
            looks.clone_from(&closed.judgement.looks);
        }
        let mut findings: BTreeMap<String, Vec<Finding>> =
            design.configs.iter().map(|config| (config.clone(), latest.findings(config))).collect();
        let mut notes: Vec<Note> = latest.samples.notes.iter().cloned().collect();
        let mut decided = vec![false; design.configs.len()];
        let mut judgement = latest.judgement;
        for (rounds, configs) in places.decided_at() {
            let before: Vec<Attempt> = places.before(rounds);
            let seen = Places::new(places.plan(), &before)?;
            let mut look = Judged::of(&seen, design, rounds, false, intervals)?;
            look.void(&seen, design, rounds)?;
            if let (Some(taken), Some(own)) =
                (looks.iter_mut().find(|taken| taken.blocks == rounds), look.judgement.looks.last())
            {
                *taken = own.clone();
            }
            for (config, name) in design.configs.iter().enumerate().filter(|(_, name)| configs.contains(&name.as_str()))
            {
                decided[config] = true;
                judgement.overall[config] = look.judgement.overall[config].clone();
                for unit in (config..judgement.cells.len()).step_by(design.configs.len()) {
                    judgement.cells[unit] = look.judgement.cells[unit].clone();
                }
                findings.insert(name.clone(), look.findings(name));
                notes.extend(look.samples.notes.iter().filter(|note| note.config.as_ref() == Some(name)).cloned());
            }
        }
        let planned = design.looks.as_ref().map_or(&[][..], |looks| &looks.blocks);
        let early = planned.iter().copied().filter(|&blocks| blocks < design.max_blocks).collect();
        Ok(Self { samples: latest.samples, judgement, decided, looks, findings, notes, complete, early })
    }

    pub fn overall(&self, config: usize) -> Unit<'_> {
        let found = &self.judgement.overall[config];
        let stopped_after = found.stopped_at.filter(|&blocks| self.is_decided(config) && self.is_early(blocks));
        Unit { config: &found.config, decided: self.is_decided(config), conclusion: &found.conclusion, stopped_after }
    }

    pub fn cell(&self, unit: usize) -> Unit<'_> {
        let decided = self.is_decided(unit % self.judgement.overall.len());
        let found = &self.judgement.cells[unit];
        Unit { config: &found.config, decided, conclusion: &found.conclusion, stopped_after: None }
    }

    /// The judgement whose verdicts may be told, once all are.
    pub fn announced(&self) -> Option<&Judgement> {
        self.complete.then_some(&self.judgement)
    }

    /// What makes a config invalid in scenarios, and why claims about it were taken away.
    pub fn findings(&self, config: &str) -> impl Iterator<Item = &Finding> {
        self.findings.get(config).into_iter().flatten()
    }

    /// The looks that were taken. One that was not planned only is where the runs ended.
    pub fn looks(&self) -> impl Iterator<Item = &LookTaken> {
        self.looks.iter().filter(|look| self.complete || self.is_early(look.blocks))
    }

    fn is_early(&self, blocks: usize) -> bool {
        self.early.contains(&blocks)
    }

    fn is_decided(&self, config: usize) -> bool {
        self.complete || self.decided[config]
    }
}
