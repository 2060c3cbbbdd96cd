//! The runs of one session that are held against one baseline.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{Data, DataProblem, Name, Replicate, Run, RunKey};
use super::policy::Policy;
use crate::stats::Adjust;
use crate::verdict::{Design, MetricRule, Scenario};

/// More blocks take longer than anybody waits, and prove nothing that fewer do not.
const MOST_BLOCKS: usize = 256;
/// More runs of one config in one scenario are requests or iterations.
const MOST_RUNS: usize = 1000;
const MOST_CONFIGS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Blocked,
    Unblocked,
}

#[derive(Debug)]
pub(super) struct Comparison<'a> {
    pub data: &'a Data,
    pub policy: &'a Policy,
    pub rules: &'a [MetricRule],
    pub session: Name,
    pub baseline: Name,
    pub kind: Kind,
    /// Without the baseline; those that the policy declares first.
    pub configs: Vec<Name>,
    pub scenarios: Vec<Name>,
    pub rounds: Rounds,
    /// Baseline runs of a block. A block with fewer counts for no config; of one with more, the first m0 count.
    pub m0: usize,
}

/// Blocks of all scenarios that are paired with each other.
#[derive(Debug)]
pub(super) struct Rounds {
    pub count: usize,
    /// The round of each scenario's block, from 0.
    positions: BTreeMap<(Name, Name), usize>,
    /// How blocks were paired, where names do not show it.
    pub note: Option<String>,
}

impl<'a> Comparison<'a> {
    pub fn new(
        data: &'a Data,
        policy: &'a Policy,
        rules: &'a [MetricRule],
        session: Name,
        baseline: &str,
    ) -> Result<Self, DataProblem> {
        let keys: Vec<&RunKey> = data.runs.keys().filter(|key| key.session == session).collect();
        let all: BTreeSet<Name> = keys.iter().map(|key| key.config).collect();
        let place = in_session(data, session);
        let Some(baseline) = data.names.find(baseline).filter(|name| all.contains(name)) else {
            let known: Vec<&str> = all.iter().map(|&name| data.names.text(name)).collect();
            let known = shown(&known);
            return Err(DataProblem::new(format!(
                "the baseline {baseline} has no runs{place}; configs with runs: {known}{}",
                data.naming()
            )));
        };
        let declared = |name: Name| {
            let text = data.names.text(name);
            policy.configs.iter().position(|rule| rule.name == text).unwrap_or(usize::MAX)
        };
        let mut configs: Vec<Name> = all.into_iter().filter(|&name| name != baseline).collect();
        configs.sort_by_key(|&name| (declared(name), name));
        if configs.is_empty() {
            let text = data.names.text(baseline);
            return Err(DataProblem::new(format!("only the baseline {text} has runs{place}: nothing to compare")));
        }
        let scenarios: BTreeSet<Name> = keys.iter().map(|key| key.scenario).collect();
        let rounds = Rounds::of(data, &keys);
        let kind = if rounds.count == 0 { Kind::Unblocked } else { Kind::Blocked };
        let scenarios = scenarios.into_iter().collect();
        let mut replicates: BTreeMap<(Name, Name), usize> = BTreeMap::new();
        for (block, scenario) in
            keys.iter().filter(|key| key.config == baseline).filter_map(|key| Some((key.block?, key.scenario)))
        {
            *replicates.entry((scenario, block)).or_default() += 1;
        }
        let m0 = most_usable(&replicates.into_values().collect::<Vec<_>>());
        let comparison = Self { data, policy, rules, session, baseline, kind, configs, scenarios, rounds, m0 };
        comparison.shape(&keys, &place)?;
        Ok(comparison)
    }

    /// Whether the runs are laid out so that they can be compared.
    fn shape(&self, keys: &[&RunKey], place: &str) -> Result<(), DataProblem> {
        let text = |name: Name| self.data.names.text(name);
        let at = |key: &RunKey| self.data.runs.get(key).map_or(String::new(), |run| self.data.at(run.place));
        if self.kind == Kind::Blocked
            && let Some(outside) = keys.iter().find(|key| key.block.is_none())
        {
            return Err(DataProblem::new(format!(
                "the run of {} at {} has no block, but others{place} do: give it one, or list the block column in \
                 ignoreColumns",
                text(outside.config),
                at(outside)
            )));
        }
        let too_many = |count: usize, most: usize, what: &str, why: &str| {
            (count > most).then(|| DataProblem::new(format!("{count} {what}{place}, at most {most} allowed: {why}")))
        };
        let mut runs: BTreeMap<(Name, Name), usize> = BTreeMap::new();
        for key in keys {
            *runs.entry((key.scenario, key.config)).or_default() += 1;
        }
        let most = runs.values().copied().max().unwrap_or(0);
        let limits = [
            too_many(self.rounds.count, MOST_BLOCKS, "blocks", "is the right column mapped to block?"),
            too_many(self.configs.len(), MOST_CONFIGS, "configs", "is the right column mapped to config?"),
            too_many(
                most,
                MOST_RUNS,
                "runs of one config in one scenario",
                "a row must be a whole run, not one request or iteration; reduce each run to one number per metric",
            ),
        ];
        if let Some(problem) = limits.into_iter().flatten().next() {
            return Err(problem);
        }
        let mut seen: BTreeMap<(Name, Option<Name>, Name), &RunKey> = BTreeMap::new();
        for key in keys.iter().filter(|key| self.kind == Kind::Blocked && key.config != self.baseline) {
            if let Some(first) = seen.insert((key.scenario, key.block, key.config), key) {
                return Err(DataProblem::new(format!(
                    "block {} of {} has two runs of {} ({} and {}): only the baseline may run more than once per \
                     block; split them into separate blocks",
                    key.block.map(text).unwrap_or_default(),
                    text(key.scenario),
                    text(key.config),
                    at(first),
                    at(key)
                )));
            }
        }
        Ok(())
    }

    /// The design that such runs have, as far as it shows in them: one look, at their end.
    pub fn design(&self) -> Design {
        let scenario = |&name: &Name| {
            let name = self.text(name).to_owned();
            Scenario { weight: self.policy.weight(&name), name }
        };
        Design {
            metrics: self.rules.to_vec(),
            scenarios: self.scenarios.iter().map(scenario).collect(),
            configs: self.configs.iter().map(|&name| self.text(name).to_owned()).collect(),
            m0: self.m0,
            max_blocks: self.rounds.count.max(1),
            looks: None,
            cells_adjust: Adjust::Holm,
        }
    }

    /// The runs of one config in one scenario.
    pub fn runs(&self, scenario: Name, config: Name) -> impl Iterator<Item = (&'a RunKey, &'a Run)> {
        let first = RunKey { session: self.session, scenario, config, block: None, replicate: Replicate::Only };
        let mine = move |key: &RunKey| (key.session, key.scenario, key.config) == (first.session, scenario, config);
        self.data.runs.range(first..).take_while(move |(key, _)| mine(key))
    }

    /// The runs of one config in one scenario, by round. Those of the baseline are the first m0 of their block, in the order of their
    /// replicates, whatever became of them: a run that is left out later still holds its position.
    pub fn placed(&self, scenario: Name, config: Name) -> BTreeMap<usize, Vec<(&'a RunKey, &'a Run)>> {
        let mut placed: BTreeMap<usize, Vec<(&RunKey, &Run)>> = BTreeMap::new();
        for (key, run) in self.runs(scenario, config) {
            if let Some(round) = key.block.and_then(|block| self.rounds.positions.get(&(scenario, block))) {
                placed.entry(*round).or_default().push((key, run));
            }
        }
        for runs in placed.values_mut() {
            runs.sort_by_key(|(key, _)| match key.replicate {
                Replicate::Named(name) => Some(in_order(self.data, name)),
                _ => None,
            });
            runs.truncate(self.m0);
        }
        placed
    }

    /// The baseline and all others.
    pub fn arms(&self) -> impl Iterator<Item = Name> {
        std::iter::once(self.baseline).chain(self.configs.iter().copied())
    }

    pub fn text(&self, name: Name) -> &'a str {
        self.data.names.text(name)
    }

    pub fn session_name(&self) -> Option<String> {
        let text = self.text(self.session);
        (!text.is_empty()).then(|| text.to_owned())
    }
}

impl Rounds {
    /// Blocks of one name are paired. If scenarios share no names, the first blocks of all scenarios are paired, the second ones, and so on.
    fn of(data: &Data, keys: &[&RunKey]) -> Self {
        let mut scenarios: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        let mut shared: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for (scenario, block) in keys.iter().filter_map(|key| Some((key.scenario, key.block?))) {
            scenarios.entry(scenario).or_default().insert(block);
            shared.entry(block).or_default().insert(scenario);
        }
        let by_order = scenarios.len() > 1 && shared.values().all(|scenarios| scenarios.len() == 1);
        let sorted = |names: &mut dyn Iterator<Item = Name>| -> Vec<Name> {
            let mut names: Vec<Name> = names.collect();
            names.sort_by_key(|&name| in_order(data, name));
            names
        };
        let all = sorted(&mut shared.keys().copied());
        let mut positions = BTreeMap::new();
        for (&scenario, blocks) in &scenarios {
            let own = sorted(&mut blocks.iter().copied());
            let order = if by_order { &own } else { &all };
            let known = order.iter().enumerate().filter(|(_, block)| blocks.contains(block));
            positions.extend(known.map(|(round, &block)| ((scenario, block), round)));
        }
        let count = positions.values().map(|round| round + 1).max().unwrap_or(0);
        let mut rounds = vec![0; count];
        for &round in positions.values() {
            rounds[round] += 1;
        }
        let alone = |scenario: Name, blocks: &BTreeSet<Name>| {
            let own = blocks.iter().copied().filter(|&block| rounds[positions[&(scenario, block)]] < scenarios.len());
            let own = sorted(&mut own.into_iter());
            let names: Vec<&str> = own.iter().map(|&block| data.names.text(block)).collect();
            (!names.is_empty()).then(|| format!("{} of {}", shown(&names), data.names.text(scenario)))
        };
        let alone: Vec<String> = scenarios.iter().filter_map(|(&scenario, blocks)| alone(scenario, blocks)).collect();
        let mut said = Vec::new();
        if by_order {
            said.push(
                "No block name is in two scenarios, so blocks are paired in order: the first ones of all scenarios, the \
                 second ones, and so on."
                    .to_owned(),
            );
        }
        if !alone.is_empty() {
            let alone = alone.join("; ");
            said.push(format!("These blocks count only in their own scenario, because others lack them: {alone}."));
        }
        Self { count, positions, note: (!said.is_empty()).then(|| said.join(" ")) }
    }
}

/// The sort key of names that may be numbers.
fn in_order(data: &Data, name: Name) -> (u64, &str) {
    let text = data.names.text(name);
    (text.parse().unwrap_or(u64::MAX), text)
}

/// Baseline runs of a block with which most of them can be used: those of blocks that have fewer can't, nor can what is beyond them.
fn most_usable(replicates: &[usize]) -> usize {
    let most = replicates.iter().copied().max().unwrap_or(1);
    let usable = |m0: &usize| m0 * replicates.iter().filter(|&runs| runs >= m0).count();
    (1..=most).max_by_key(usable).unwrap_or(1)
}

pub(super) fn in_session(data: &Data, session: Name) -> String {
    let text = data.names.text(session);
    if text.is_empty() { String::new() } else { format!(" in session {text}") }
}

/// A list, as far as anybody wants to read it.
pub(super) fn shown(names: &[&str]) -> String {
    const MOST: usize = 12;
    let more = if names.len() > MOST { format!(" and {} more", names.len() - MOST) } else { String::new() };
    format!("{}{more}", names[..names.len().min(MOST)].join(", "))
}
