use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    design::{Family, MetricRule, Purpose},
    judgement::{Effect, PValues},
    table::{Judged, Proofs},
};
use crate::stats::{Adjust, Claims, Look, Paired, detectable};

/// Which effects carry their intervals. They cost about ten times what the verdict does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Intervals {
    None,
    #[default]
    Overall,
    All,
    /// All, and at 90 % too, which no report prints.
    BothLevels,
}

/// One family of claims: what is known of each unit (a config, or a config in a scenario) on each metric, and what that proves.
#[derive(Clone)]
pub(super) struct Ledger<'a> {
    metrics: &'a [MetricRule],
    family: Family,
    adjust: Adjust,
    /// Unit by unit, metric by metric.
    entries: Vec<Entry>,
}

/// One unit on one metric, as of the last look it took part in.
#[derive(Clone)]
struct Entry {
    paired: Option<Paired>,
    now: Claims,
    /// Smallest p over the looks so far, each divided by the look's weight ("Looks").
    seq: Sequential,
}

#[derive(Clone)]
struct Sequential {
    better: f64,
    worse: f64,
    non_inferior: f64,
    equivalent: f64,
}

impl Entry {
    /// Nothing seen, nothing proven: such an entry makes the others no cheaper.
    fn blank() -> Self {
        Self {
            paired: None,
            now: Claims { better: 1.0, worse: 1.0, non_inferior: 1.0, no_gain: 1.0 },
            seq: Sequential { better: 1.0, worse: 1.0, non_inferior: 1.0, equivalent: 1.0 },
        }
    }

    fn n(&self) -> usize {
        self.paired.as_ref().map_or(0, Paired::n)
    }
}

impl<'a> Ledger<'a> {
    pub fn new(metrics: &'a [MetricRule], family: Family, adjust: Adjust, units: usize) -> Self {
        let entries = (0..units * metrics.len()).map(|_| Entry::blank()).collect();
        Self { metrics, family, adjust, entries }
    }

    /// A family as a judgement left it, unit by unit.
    pub fn of_judged<'b>(
        metrics: &'a [MetricRule],
        family: Family,
        adjust: Adjust,
        units: impl Iterator<Item = &'b [Effect]>,
    ) -> Self {
        let entry = |Effect { p, .. }: &Effect| Entry {
            paired: None,
            now: Claims { better: p.better, worse: p.worse, non_inferior: p.non_inferior, no_gain: p.no_gain },
            seq: Sequential {
                better: p.better_seq,
                worse: p.worse_seq,
                non_inferior: p.non_inferior_seq,
                equivalent: p.equivalent_seq,
            },
        };
        Self { metrics, family, adjust, entries: units.flatten().map(entry).collect() }
    }

    /// Forgets what is known of a unit, on all metrics.
    pub fn forget(&mut self, unit: usize) {
        self.entries[unit * self.metrics.len()..(unit + 1) * self.metrics.len()].fill(Entry::blank());
    }

    /// A unit's data at a look, metric by metric in the design's order.
    pub fn take(&mut self, unit: usize, metric: usize, paired: Paired, look: &Look) {
        let rule = &self.metrics[metric];
        let now = paired.claims(rule.scale.margin(rule.margin));
        let Entry { seq, .. } = &self.entries[unit * self.metrics.len() + metric];
        let seq = Sequential {
            better: seq.better.min(now.better / look.better),
            worse: seq.worse.min(now.worse / look.other),
            non_inferior: seq.non_inferior.min(now.non_inferior / look.other),
            equivalent: seq.equivalent.min(now.equivalent() / look.other),
        };
        self.entries[unit * self.metrics.len() + metric] = Entry { paired: Some(paired), now, seq };
    }

    /// What each entry proves within the family ("Families").
    pub fn proofs(&self) -> Vec<Proofs> {
        let better = self.adjusted(|rule| rule.purpose == Purpose::Objective, |seq| seq.better);
        let worse = self.adjusted(|rule| rule.purpose.is_required(), |seq| seq.worse);
        let proofs = self.entries.iter().zip(better).zip(worse);
        proofs
            .map(|((Entry { seq, .. }, better), worse)| Proofs {
                equivalent: seq.equivalent,
                better,
                worse,
                non_inferior: seq.non_inferior,
            })
            .collect()
    }

    /// One kind of claim, corrected for all the entries that make it.
    fn adjusted(&self, makes: impl Fn(&MetricRule) -> bool, p: impl Fn(&Sequential) -> f64) -> Vec<Option<f64>> {
        let rules = || self.metrics.iter().cycle().zip(&self.entries);
        let raw: Vec<f64> = rules().filter(|(rule, _)| makes(rule)).map(|(_, entry)| p(&entry.seq)).collect();
        let mut adjusted = self.adjust.apply(&raw).into_iter();
        rules().map(|(rule, _)| if makes(rule) { adjusted.next() } else { None }).collect()
    }

    /// What the verdict table needs of a unit.
    pub fn judged(&self, unit: usize, proofs: &[Proofs]) -> Vec<Judged<'a>> {
        self.unit(unit, proofs)
            .map(|(rule, entry, proofs)| Judged {
                name: &rule.name,
                purpose: rule.purpose,
                status: proofs.status(),
                no_gain: entry.now.no_gain,
                n: entry.n(),
            })
            .collect()
    }

    /// What the report prints of a unit.
    pub fn effects(&self, unit: usize, proofs: &[Proofs], intervals: Intervals) -> Vec<Effect> {
        self.unit(unit, proofs).map(|(rule, entry, proofs)| self.effect(rule, entry, proofs, intervals)).collect()
    }

    fn unit(&self, unit: usize, proofs: &[Proofs]) -> impl Iterator<Item = (&'a MetricRule, &Entry, Proofs)> {
        let range = unit * self.metrics.len()..(unit + 1) * self.metrics.len();
        let entries = self.entries[range.clone()].iter().zip(&proofs[range]);
        self.metrics.iter().zip(entries).map(|(rule, (entry, &proofs))| (rule, entry, proofs))
    }

    fn effect(&self, rule: &MetricRule, entry: &Entry, proofs: Proofs, intervals: Intervals) -> Effect {
        let paired = entry.paired.as_ref();
        let estimate = paired.and_then(Paired::estimate);
        let sd_block = paired.and_then(Paired::sd_block);
        let claims = match rule.purpose {
            Purpose::Objective => self.family.better,
            Purpose::Guardrail => self.family.worse,
            Purpose::Info => 1,
        };
        let mde = sd_block.and_then(|sd| detectable(sd, entry.n(), claims));
        let shown = paired.filter(|_| intervals != Intervals::None);
        let ci95 = shown.map(|paired| paired.interval(0.95));
        // Of the fewest blocks the wider interval has no end yet, and a gate needs one.
        let open = ci95.is_some_and(|interval| interval.low.is_none());
        let ci90 = shown.filter(|_| open || intervals == Intervals::BothLevels).map(|paired| paired.interval(0.90));
        Effect {
            metric: rule.name.clone(),
            purpose: rule.purpose,
            status: proofs.status(),
            n: entry.n(),
            m0: paired.map_or(0, Paired::m0),
            estimate,
            estimate_percent: estimate.and_then(|x| rule.scale.percent(x)),
            ci95,
            ci90,
            sd_block,
            detectable: mde,
            detectable_percent: mde.and_then(|x| rule.scale.percent(x)),
            p: PValues {
                better: entry.now.better,
                worse: entry.now.worse,
                non_inferior: entry.now.non_inferior,
                no_gain: entry.now.no_gain,
                equivalent: entry.now.equivalent(),
                better_seq: entry.seq.better,
                worse_seq: entry.seq.worse,
                non_inferior_seq: entry.seq.non_inferior,
                equivalent_seq: entry.seq.equivalent,
                better_adjusted: proofs.better,
                worse_adjusted: proofs.worse,
            },
        }
    }
}
