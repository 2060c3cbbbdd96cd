use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use assay_protocol::{Summary, TrialId};

use crate::attempt::{Attempt, Lost, LostReason, Moment, REDOS, TRIES, pass};
use crate::gates::{Finding, Gated, TrialState};
use crate::plan::Plan;
use crate::verdict::fewest_failures;

/// An attempt at a trial that the plan does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trial {0} is not part of the plan")]
pub struct Unplanned(pub String);

/// The state of one run of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To be run, after so many tries in this pass.
    Open { tries: u32 },
    /// Has a valid run: the attempt's position.
    Valid(usize),
    /// Has a run that is not plausible by itself.
    Held(usize),
    /// Failed under its config.
    Failed(usize),
    /// Every try was lost or invalid.
    Empty,
    /// Nothing to gain from running it.
    Skipped,
    /// Not needed: a look has decided its config.
    Freed,
}

/// A block in its current pass.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockState<'a> {
    pub pass: u32,
    /// When and under which boot each attempt of its pass began.
    pub begun: Vec<Moment<'a>>,
    /// One per slot of the plan.
    pub places: Vec<Place>,
    baseline: Vec<bool>,
}

impl BlockState<'_> {
    /// One of the baseline's runs is missing for good, so no config can be compared in this pass.
    pub fn is_lost(&self) -> bool {
        self.places.iter().zip(&self.baseline).any(|(place, baseline)| *baseline && *place == Place::Empty)
    }

    /// Nothing is left to run, in this pass or a later one.
    pub fn is_closed(&self) -> bool {
        if self.is_lost() { self.pass == REDOS } else { !self.is_open() }
    }

    /// Nobody needs any of its runs.
    pub fn is_freed(&self) -> bool {
        self.places.iter().all(|place| *place == Place::Freed)
    }

    /// Something is left to run in this pass.
    pub fn is_open(&self) -> bool {
        self.places.iter().any(|place| matches!(place, Place::Open { .. }))
    }
}

/// What became of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It counts.
    Used,
    Held(&'a Finding),
    /// Under its config.
    Failed,
    Invalid(&'a [Finding]),
    Lost(&'a Lost),
    /// Its block was interrupted and run again.
    BlockInterrupted,
    /// Another attempt has its place.
    Superseded,
}

/// Every place of a plan, with the attempts at it.
#[derive(Debug)]
pub struct Places<'a> {
    plan: &'a Plan,
    attempts: &'a [Attempt],
    /// Position of each attempt's state among the gated, for finished ones.
    states: Vec<Option<usize>>,
    blocks: Vec<BlockState<'a>>,
    block_of: Vec<usize>,
    gated: Arc<Gated>,
    /// Configs that looks have decided, and the rounds after which they did.
    decided: BTreeMap<String, u32>,
    /// Planned looks that were not taken.
    pub(super) skipped: Vec<usize>,
}

impl<'a> Places<'a> {
    /// As if nobody had looked at a result before the end, by what the gates say of the attempts.
    pub(super) fn unlooked(plan: &'a Plan, attempts: &'a [Attempt], gated: Arc<Gated>) -> Result<Self, Unplanned> {
        let mut summaries = 0..;
        let is_finished = |attempt: &Attempt| matches!(attempt, Attempt::Finished(_));
        let states =
            attempts.iter().map(|attempt| if is_finished(attempt) { summaries.next() } else { None }).collect();
        let index: HashMap<(&str, u32), usize> =
            plan.blocks.iter().enumerate().map(|(i, block)| ((block.scenario.as_str(), block.number), i)).collect();
        let mut by_block: Vec<Vec<(usize, usize)>> = vec![Vec::new(); plan.blocks.len()];
        let mut block_of = Vec::with_capacity(attempts.len());
        for (i, attempt) in attempts.iter().enumerate() {
            let id = attempt.trial();
            let (block, slot) = place_of(plan, &index, id).ok_or_else(|| Unplanned(id.file_stem()))?;
            by_block[block].push((slot, i));
            block_of.push(block);
        }
        let mut places = Self {
            plan,
            attempts,
            states,
            blocks: Vec::new(),
            block_of,
            gated,
            decided: BTreeMap::new(),
            skipped: Vec::new(),
        };
        places.blocks = by_block.iter().enumerate().map(|(block, seen)| places.block(block, seen)).collect();
        places.skip();
        Ok(places)
    }

    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    pub fn attempts(&self) -> &'a [Attempt] {
        self.attempts
    }

    pub fn gated(&self) -> &Gated {
        &self.gated
    }

    /// In the plan's order.
    pub fn blocks(&self) -> &[BlockState<'a>] {
        &self.blocks
    }

    /// The record's summary of a finished attempt.
    pub fn summary(&self, attempt: usize) -> Option<&'a Summary> {
        match self.attempts.get(attempt)? {
            Attempt::Finished(summary) => Some(summary),
            Attempt::Lost(_) => None,
        }
    }

    /// More runs can't change any verdict.
    pub fn is_over(&self) -> bool {
        let configs = &self.plan.experiment.configs;
        let invalid = |name: &str| self.gated.configs.contains_key(name);
        let baseline = self.plan.experiment.baseline;
        !self.gated.experiment.is_empty()
            || configs.get(baseline).is_none_or(|config| invalid(&config.name))
            || configs.iter().enumerate().all(|(i, config)| i == baseline || invalid(&config.name))
    }

    /// Whether every place has its answer: the planned amount of data is there, and no more will come.
    pub fn is_complete(&self) -> bool {
        self.is_over() || self.blocks.iter().all(BlockState::is_closed)
    }

    /// The position of each attempt among those of its pass over its block, by when they started, or in the planned order if that was at the
    /// same time. Attempts after as many as are planned share the last position: nothing shows what a block would do in further ones.
    pub(super) fn positions(&self) -> Vec<usize> {
        let mut by_start: Vec<usize> = (0..self.attempts.len()).collect();
        by_start.sort_by_key(|&attempt| {
            let (trial, start) = (self.attempts[attempt].trial(), self.attempts[attempt].moment().unix_ms);
            (start, trial.order, trial.attempt)
        });
        let (mut positions, mut next) = (vec![0; self.attempts.len()], HashMap::new());
        for attempt in by_start {
            let of_pass =
                next.entry((self.block_of[attempt], pass(self.attempts[attempt].trial().attempt))).or_insert(0);
            positions[attempt] = *of_pass;
            *of_pass = (*of_pass + 1).min(self.plan.blocks[self.block_of[attempt]].slots.len() - 1);
        }
        positions
    }

    /// What became of an attempt.
    pub fn fate(&self, attempt: usize) -> Fate<'_> {
        let own = &self.attempts[attempt];
        let block = &self.blocks[self.block_of[attempt]];
        if let Attempt::Lost(lost) = own {
            return if own.has_failed() { Fate::Failed } else { Fate::Lost(lost) };
        }
        let state = self.states[attempt].and_then(|state| self.gated.trials.get(state));
        match state {
            Some(TrialState::Invalid(findings)) => return Fate::Invalid(findings),
            Some(TrialState::Failed) => return Fate::Failed,
            _ => {}
        }
        if pass(own.trial().attempt) != block.pass {
            return Fate::BlockInterrupted;
        }
        if !block.places.iter().any(|place| matches!(place, Place::Valid(i) | Place::Held(i) if *i == attempt)) {
            return Fate::Superseded;
        }
        match state {
            Some(TrialState::Held(finding)) => Fate::Held(finding),
            _ => Fate::Used,
        }
    }

    fn block(&self, index: usize, seen: &[(usize, usize)]) -> BlockState<'a> {
        let planned = &self.plan.blocks[index];
        let baseline = self.plan.experiment.baseline_config().map(|config| config.name.as_str());
        let current = seen.iter().map(|&(_, i)| pass(self.attempts[i].trial().attempt)).max().unwrap_or(0);
        let mut own: Vec<(usize, usize)> =
            seen.iter().copied().filter(|&(_, i)| pass(self.attempts[i].trial().attempt) == current).collect();
        own.sort_by_key(|&(slot, i)| (slot, self.attempts[i].trial().attempt));
        own.dedup_by_key(|&mut (slot, i)| (slot, self.attempts[i].trial().attempt));
        let place = |slot: usize| self.place(own.iter().filter(|(s, _)| *s == slot).map(|&(_, i)| i));
        BlockState {
            pass: current,
            begun: own.iter().map(|&(_, i)| self.attempts[i].moment()).collect(),
            places: (0..planned.slots.len()).map(place).collect(),
            baseline: planned.slots.iter().map(|slot| Some(slot.config.as_str()) == baseline).collect(),
        }
    }

    /// The state of a place after these attempts of one pass, in their order.
    fn place(&self, attempts: impl Iterator<Item = usize>) -> Place {
        let mut tries = 0;
        let mut given_up = false;
        for i in attempts {
            // The number of the attempt counts, not how many are there: a missing one must not be made up for.
            tries = self.attempts[i].trial().attempt % TRIES + 1;
            match &self.attempts[i] {
                attempt @ Attempt::Lost(_) if attempt.has_failed() => return Place::Failed(i),
                Attempt::Lost(lost) => given_up |= lost.reason == LostReason::GivenUp,
                Attempt::Finished(_) => match self.states[i].and_then(|state| self.gated.trials.get(state)) {
                    Some(TrialState::Valid) => return Place::Valid(i),
                    Some(TrialState::Held(_)) => return Place::Held(i),
                    Some(TrialState::Failed) => return Place::Failed(i),
                    Some(TrialState::Invalid(_)) | None => {}
                },
            }
        }
        if given_up || tries >= TRIES { Place::Empty } else { Place::Open { tries } }
    }

    /// The looks that have decided configs, by the rounds that they saw, with those configs.
    pub(crate) fn decided_at(&self) -> BTreeMap<usize, Vec<&str>> {
        let mut looks: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (config, &rounds) in &self.decided {
            looks.entry(rounds as usize).or_default().push(config);
        }
        looks
    }

    /// Planned looks that were not taken, because a scenario was unfit to be judged: who judges now must not take them either.
    pub fn skipped(&self) -> &[usize] {
        &self.skipped
    }

    /// What a look after so many rounds saw.
    pub(crate) fn before(&self, rounds: usize) -> Vec<Attempt> {
        self.attempts.iter().filter(|attempt| (attempt.trial().block as usize) < rounds).cloned().collect()
    }

    /// Frees the places of a config that a look has decided from its round on, and those of the baseline where nobody needs them any more.
    pub(super) fn free(&mut self, config: &str, rounds: u32) {
        self.decided.insert(config.to_owned(), rounds);
        for (planned, state) in self.plan.blocks.iter().zip(&mut self.blocks) {
            if planned.number < rounds {
                continue;
            }
            let unwanted = |place: &Place| matches!(place, Place::Open { .. } | Place::Empty | Place::Skipped);
            for (slot, place) in planned.slots.iter().zip(&mut state.places) {
                if slot.config == config && unwanted(place) {
                    *place = Place::Freed;
                }
            }
            let mut others = state.places.iter().zip(&state.baseline).filter(|(_, baseline)| !**baseline);
            if others.all(|(place, _)| *place == Place::Freed) {
                let baseline = state.places.iter_mut().zip(&state.baseline).filter(|(_, baseline)| **baseline);
                baseline.filter(|(place, _)| unwanted(place)).for_each(|(place, _)| *place = Place::Freed);
            }
        }
    }

    /// Rounds from the first on of which every block of every scenario is closed.
    pub fn rounds_closed(&self) -> usize {
        let open = self.plan.blocks.iter().zip(&self.blocks).filter(|(_, state)| !state.is_closed());
        open.map(|(planned, _)| planned.number as usize).min().unwrap_or(self.plan.experiment.repetitions as usize)
    }

    /// Rounds up to the last one in which something was to be run.
    pub fn rounds_wanted(&self) -> usize {
        let wanted = self.plan.blocks.iter().zip(&self.blocks).filter(|(_, state)| !state.is_freed());
        wanted.map(|(planned, _)| planned.number as usize + 1).max().unwrap_or(0)
    }

    /// Closes open places that are not worth running.
    fn skip(&mut self) {
        let mut hopeless: BTreeSet<(&str, &str)> = BTreeSet::new();
        let mut counts: BTreeMap<(&str, &str), (u32, u32)> = BTreeMap::new();
        for (planned, state) in self.plan.blocks.iter().zip(&self.blocks) {
            for (slot, place) in planned.slots.iter().zip(&state.places) {
                let (failed, ok) = counts.entry((&planned.scenario, &slot.config)).or_default();
                match place {
                    Place::Failed(_) => *failed += 1,
                    Place::Valid(_) | Place::Held(_) => *ok += 1,
                    Place::Open { .. } | Place::Empty | Place::Skipped | Place::Freed => {}
                }
            }
        }
        counts.retain(|_, (failed, ok)| *failed > 0 && *ok == 0);
        if !counts.is_empty() {
            let enough = fewest_failures(&self.plan.experiment.design());
            hopeless.extend(counts.into_iter().filter(|(_, (failed, _))| *failed >= enough).map(|(arm, _)| arm));
        }
        for (planned, state) in self.plan.blocks.iter().zip(&mut self.blocks) {
            // Without the baseline nothing of the scenario can be compared.
            let baseline = planned.slots.iter().zip(&state.baseline).find(|(_, baseline)| **baseline);
            let pointless =
                baseline.is_some_and(|(slot, _)| hopeless.contains(&(planned.scenario.as_str(), slot.config.as_str())));
            for (slot, place) in planned.slots.iter().zip(&mut state.places) {
                let unwanted = pointless
                    || self.gated.configs.contains_key(&slot.config)
                    || hopeless.contains(&(planned.scenario.as_str(), slot.config.as_str()));
                if unwanted && matches!(place, Place::Open { .. } | Place::Empty) {
                    *place = Place::Skipped;
                }
            }
        }
    }
}

fn place_of(plan: &Plan, index: &HashMap<(&str, u32), usize>, id: &TrialId) -> Option<(usize, usize)> {
    let block = *index.get(&(id.scenario.as_str(), id.block))?;
    let slot = plan.blocks[block]
        .slots
        .iter()
        .position(|slot| slot.config == id.config && slot.replicate == id.replicate)
        .filter(|&slot| slot as u32 == id.order)?;
    (pass(id.attempt) <= REDOS).then_some((block, slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::gates::testing::{experiment, fail, plan, summaries};

    fn attempts(experiment: &Experiment, change: impl Fn(&mut Summary)) -> Vec<Attempt> {
        let mut all = summaries(experiment);
        all.iter_mut().for_each(change);
        all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect()
    }

    #[test]
    fn it_is_over_when_nothing_is_left_to_compare() {
        let mut experiment = experiment();
        let mut same = experiment.configs[1].clone();
        same.name = "same".to_owned();
        experiment.configs.push(same);
        let plan = plan(&experiment);
        let is_over = |invalid: &[&str]| {
            let attempts = attempts(&experiment, |summary| {
                summary.options.undeclared.count = u32::from(invalid.contains(&summary.trial.config.as_str()));
            });
            Places::new(&plan, &attempts).unwrap().is_over()
        };
        assert!(!is_over(&[]) && !is_over(&["candidate"]) && !is_over(&["same"]));
        assert!(is_over(&["candidate", "same"]) && is_over(&["base"]));
    }

    /// The candidate is tried three times before the baseline, and in the next block behind it.
    #[test]
    fn attempts_after_the_last_planned_position_share_it() {
        let experiment = experiment();
        let plan = plan(&experiment);
        let mut attempts = Vec::new();
        let mut run = |block: usize, config: usize, attempt: u32, minute: u64| {
            let mut summary = summaries(&experiment)[2 * block + config].clone();
            summary.trial.attempt = attempt;
            summary.started_unix_ms += 60_000 * minute;
            attempts.push(Attempt::Finished(summary.into()));
        };
        for (attempt, minute) in [(0, 0), (1, 1), (2, 2)] {
            run(0, 1, attempt, minute);
        }
        run(0, 0, 0, 3);
        run(1, 0, 0, 4);
        run(1, 1, 0, 5);
        assert_eq!(Places::new(&plan, &attempts).unwrap().positions(), [0, 1, 1, 1, 0, 1]);
    }

    #[test]
    fn what_was_given_up_is_not_open() {
        let experiment = experiment();
        let plan = plan(&experiment);
        let place = |reason: LostReason| {
            let mut trial = summaries(&experiment)[1].trial.clone();
            trial.attempt = REDOS * TRIES;
            let message = String::new();
            let lost = Lost { plan: plan.digest.clone(), trial, started_unix_ms: 1, boot: None, reason, message };
            Places::new(&plan, &[Attempt::from(lost)]).unwrap().blocks()[0].places[1]
        };
        assert_eq!(place(LostReason::GivenUp), Place::Empty);
        assert_eq!(place(LostReason::Evicted), Place::Open { tries: 1 });
    }

    #[test]
    fn a_look_sees_the_rounds_before_it() {
        let experiment = experiment();
        let (plan, attempts) = (plan(&experiment), attempts(&experiment, |_| ()));
        let places = Places::new(&plan, &attempts).unwrap();
        let seen = |rounds: usize| places.before(rounds).iter().map(|attempt| attempt.trial().block).max();
        assert_eq!((seen(0), seen(2), seen(9)), (None, Some(1), Some(7)));
        assert_eq!(places.before(2).len(), 4);
    }

    #[test]
    fn rounds_that_nobody_needs_are_not_wanted() {
        let experiment = experiment();
        let (plan, attempts) = (plan(&experiment), attempts(&experiment, |_| ()));
        let mut places = Places::new(&plan, &attempts[..10]).unwrap();
        assert_eq!(places.rounds_wanted(), 8);
        places.free("candidate", 6);
        assert_eq!(places.rounds_wanted(), 6);
        let freed: Vec<bool> = places.blocks().iter().map(BlockState::is_freed).collect();
        assert_eq!(freed, [false, false, false, false, false, false, true, true]);
    }

    /// Six failures prove that it fails more often, beside a baseline that never does.
    #[test]
    fn who_has_failed_often_and_never_got_through_is_skipped() {
        let experiment = experiment();
        let plan = plan(&experiment);
        // Failures in the first blocks, then good runs; the last block was not run.
        let last = |failed: u32, good: u32| {
            let mut attempts = attempts(&experiment, |summary| {
                if summary.trial.config == "candidate" && summary.trial.block < failed {
                    fail(summary, "OutOfMemory");
                }
            });
            attempts.retain(|attempt| {
                let id = attempt.trial();
                id.block < if id.config == "base" { 8 } else { failed + good }
            });
            Places::new(&plan, &attempts).unwrap().blocks()[7].places[1]
        };
        let open = Place::Open { tries: 0 };
        assert_eq!([last(6, 0), last(7, 0)], [Place::Skipped; 2]);
        assert_eq!([last(5, 0), last(6, 1), last(0, 7), last(0, 0)], [open; 4]);
    }
}
