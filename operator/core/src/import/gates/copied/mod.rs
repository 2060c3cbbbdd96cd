//! Copies: runs that repeat the values of other runs. No matter who made them, and whether by mistake, they are no evidence.
//!
//! Noise hardly ever repeats five digits, but in many runs it does now and then, and more often in a quiet metric. So it is estimated
//! from the runs themselves how often two of them agree by chance, and only what chance would do in less than one scenario of a hundred
//! counts as copying.
//!
//! Only imported runs are asked. Records have another protection: each says which trial of which plan it is, so a copy in the place of
//! another trial is refused when it is read, before any gate sees it.

mod digits;
mod fixed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{Gated, drop_runs, finding};
use crate::gates::Code;
use crate::import::comparison::{Comparison, shown};
use crate::import::data::{Name, Run, RunKey};
use crate::import::words::probability;
use digits::{DIGITS, are_fine, rounded};
use fixed::{configs_with_one_value, is_size_or_count};

/// The chance at which agreement is taken for copying, scenario by scenario.
const CHANCE: f64 = 0.01;
/// Agreement is looked for in three ways; each may have a third of the chance.
const WAYS: f64 = 3.0;
/// No metric is so noisy that two runs agree less often than this.
const RAREST: f64 = 1e-4;
/// Metrics that rank runs more alike than this say the same twice.
const ALIKE: f64 = 0.99;
/// Groups of equal runs that are larger need no search for their pattern.
const LARGE: usize = 50;

pub(super) fn check(comparison: &Comparison<'_>, scenario: Name, gated: &mut Gated) {
    note_fixed(comparison, scenario, gated);
    let Some(table) = Table::of(comparison, scenario) else { return };
    let groups = table.groups();
    let chance = WAYS * table.chance(comparison, &groups);
    if chance > CHANCE {
        return;
    }
    let p = probability(chance);
    let p = p.strip_prefix('<').map_or_else(|| format!("p = {p}"), |limit| format!("p < {limit}"));
    for arm in comparison.arms() {
        let mut copies: Vec<(RunKey, RunKey)> = Vec::new();
        for group in &groups {
            for &run in group.iter().filter(|&&run| table.runs[run].0.config == arm) {
                let Some(&other) = group.iter().find(|&&other| other != run) else { continue };
                copies.push((table.runs[run].0, table.runs[other].0));
            }
        }
        let Some((first, other)) = copies.first() else { continue };
        let at = |key: &RunKey| comparison.data.at(comparison.data.runs[key].place);
        let names: Vec<&str> = table.metrics.iter().map(|metric| comparison.rules[metric.rule].name.as_str()).collect();
        let message = format!(
            "{} of {} runs of {} in {} equal another run in {DIGITS} digits of {}, such as {} and {}: {p} by chance alone",
            copies.len(),
            comparison.runs(scenario, arm).count(),
            comparison.text(arm),
            comparison.text(scenario),
            names.join(" and "),
            at(first),
            at(other)
        );
        let found = finding(Code::CopiedRuns, message, Code::CopiedRuns.what_to_do());
        let keys: Vec<RunKey> = copies.iter().map(|(run, _)| *run).collect();
        drop_runs(comparison, scenario, arm, &keys, found, true, gated);
    }
}

/// Whether equal work may give equal values of a metric: it is declared so, or it is a size or count that some config's runs all agree in.
fn may_repeat(comparison: &Comparison<'_>, scenario: Name, rule: usize) -> bool {
    let name = &comparison.rules[rule].name;
    comparison.policy.is_deterministic(name)
        || (is_size_or_count(name, comparison.data.unit(name))
            && !configs_with_one_value(comparison, scenario, rule).is_empty())
}

/// Notes which metrics do not vary and may do so.
fn note_fixed(comparison: &Comparison<'_>, scenario: Name, gated: &mut Gated) {
    for (rule, metric) in comparison.rules.iter().enumerate() {
        let fixed = configs_with_one_value(comparison, scenario, rule);
        if fixed.is_empty() || !may_repeat(comparison, scenario, rule) {
            continue;
        }
        let names: Vec<&str> = fixed.iter().map(|&config| comparison.text(config)).collect();
        gated.notes.push(format!(
            "{} does not vary between the runs of {} in {}; its equal values are no evidence of copies.",
            metric.name,
            shown(&names),
            comparison.text(scenario)
        ));
    }
}

/// The runs of a scenario that have values of all metrics that were recorded finely.
struct Table<'a> {
    runs: Vec<(RunKey, &'a Run)>,
    metrics: Vec<Metric>,
}

struct Metric {
    rule: usize,
    values: Vec<f64>,
}

impl<'a> Table<'a> {
    fn of(comparison: &Comparison<'a>, scenario: Name) -> Option<Self> {
        let all: Vec<(RunKey, &Run)> = comparison
            .arms()
            .flat_map(|arm| comparison.runs(scenario, arm))
            .filter(|(_, run)| !run.ending.has_failed())
            .map(|(key, run)| (*key, run))
            .collect();
        let fine = |rule: &usize| {
            let values: Vec<f64> = all.iter().filter_map(|(_, run)| run.value(*rule)).collect();
            are_fine(&values) && !may_repeat(comparison, scenario, *rule)
        };
        let rules: Vec<usize> = (0..comparison.rules.len()).filter(fine).collect();
        // A zero has no digits.
        let has = |run: &Run, rule: usize| run.value(rule).is_some_and(|value| value != 0.0);
        let runs: Vec<(RunKey, &Run)> =
            all.into_iter().filter(|(_, run)| rules.iter().all(|&rule| has(run, rule))).collect();
        let metric =
            |&rule: &usize| Metric { rule, values: runs.iter().filter_map(|(_, run)| run.value(rule)).collect() };
        let metrics: Vec<Metric> = rules.iter().map(metric).collect();
        (!metrics.is_empty() && runs.len() > 1).then_some(Self { runs, metrics })
    }

    /// Runs that agree in every metric.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        for run in 0..self.runs.len() {
            let key = self.metrics.iter().map(|metric| rounded(metric.values[run], DIGITS)).collect();
            groups.entry(key).or_default().push(run);
        }
        groups.into_values().filter(|group| group.len() > 1).collect()
    }

    /// How likely so much agreement is by chance.
    fn chance(&self, comparison: &Comparison<'_>, groups: &[Vec<usize>]) -> f64 {
        let copies: usize = groups.iter().map(|group| group.len() - 1).sum();
        let apart = self.apart(groups);
        // One value alone may always be an accident.
        if copies == 0 || (copies == 1 && apart.len() == 1) {
            return 1.0;
        }
        let pair: f64 = apart.iter().product();
        let anywhere = at_least(copies, pairs(self.runs.len()) * pair);
        if WAYS * anywhere <= CHANCE || groups.iter().any(|group| group.len() > LARGE) {
            return anywhere;
        }
        let arms = comparison.arms().count();
        // Several runs of the baseline in a block are as many chances.
        let pair = (pair * (comparison.m0 * comparison.m0) as f64).min(1.0);
        let (blocks, configs) = aligned(groups.iter().map(|group| group.iter().map(|&run| self.runs[run].0).collect()));
        let between = |kinds: usize, length: usize, most: usize| {
            let most = most.min(length);
            if most == 0 { 1.0 } else { pairs(kinds) * choose(length, most) * pair.powf(most as f64) }
        };
        let count = comparison.rounds.count;
        anywhere.min(between(count, arms, blocks)).min(between(arms, count, configs))
    }

    /// How likely two runs agree by chance in each metric that says something of its own: of runs that agree in four digits one in ten
    /// agrees in the fifth, and of those that agree in three one in a hundred in two more.
    fn apart(&self, groups: &[Vec<usize>]) -> Vec<f64> {
        let copied: f64 = groups.iter().map(|group| pairs(group.len())).sum();
        let share = |metric: &Metric| {
            let agree = |digits: usize| {
                let mut counts: BTreeMap<String, usize> = BTreeMap::new();
                for value in &metric.values {
                    *counts.entry(rounded(*value, digits)).or_default() += 1;
                }
                (counts.into_values().map(pairs).sum::<f64>() - copied).max(0.0)
            };
            let seen = agree(DIGITS).max(agree(DIGITS - 1) / 10.0).max(agree(DIGITS - 2) / 100.0);
            (seen / pairs(self.runs.len())).max(RAREST)
        };
        // What ranks the runs like a metric before it is no other evidence.
        let mut apart: Vec<(Vec<usize>, f64)> = Vec::new();
        for metric in &self.metrics {
            let (ranks, share) = (ranks(&metric.values), share(metric));
            match apart.iter_mut().find(|(other, _)| alike(other, &ranks)) {
                Some((_, known)) => *known = known.max(share),
                None => apart.push((ranks, share)),
            }
        }
        apart.into_iter().map(|(_, share)| share).collect()
    }
}

/// Runs of one config in most of two blocks, and blocks in most of two configs, that are in the same groups: copying a block copies all
/// its runs, and copying a config all its blocks.
fn aligned(groups: impl Iterator<Item = Vec<RunKey>>) -> (usize, usize) {
    let (mut blocks, mut configs) = (BTreeMap::new(), BTreeMap::new());
    for group in groups {
        for (i, a) in group.iter().enumerate() {
            for b in &group[i + 1..] {
                let (Some(first), Some(second)) = (a.block, b.block) else { continue };
                if a.config == b.config && first != second {
                    *blocks.entry((first.min(second), first.max(second))).or_insert(0) += 1;
                } else if first == second && a.config != b.config {
                    *configs.entry((a.config.min(b.config), a.config.max(b.config))).or_insert(0) += 1;
                }
            }
        }
    }
    let most = |counts: BTreeMap<(Name, Name), usize>| counts.into_values().max().unwrap_or(0);
    (most(blocks), most(configs))
}

/// Positions in ascending order of the values.
fn ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    for (rank, run) in order.into_iter().enumerate() {
        ranks[run] = rank;
    }
    ranks
}

/// Whether Spearman's correlation is nearly 1 or -1.
fn alike(a: &[usize], b: &[usize]) -> bool {
    let n = a.len() as f64;
    let squares: f64 = a.iter().zip(b).map(|(&a, &b)| (a as f64 - b as f64).powi(2)).sum();
    // Of very few runs any two metrics may agree.
    a.len() < 4 || (1.0 - 6.0 * squares / (n * (n * n - 1.0))).abs() > ALIKE
}

fn pairs(count: usize) -> f64 {
    choose(count, 2)
}

fn choose(from: usize, count: usize) -> f64 {
    (0..count).map(|i| from.saturating_sub(i) as f64 / (i + 1) as f64).product()
}

/// How likely a count with this mean is so large (Poisson).
fn at_least(count: usize, mean: f64) -> f64 {
    let (mut below, mut term) = (0.0, (-mean).exp());
    for i in 0..count {
        below += term;
        term *= mean / (i + 1) as f64;
    }
    (1.0 - below).max(0.0)
}
