use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    design::{Family, MetricRule, Purpose},
    judgement::{Effect, PValues},
    table::{Judged, Proofs},
    values::Comparison,
};
use crate::stats::{ALPHA, Adjust, Paired, Shares, detectable, n_min};

/// Which effects carry their intervals. They cost about ten times what the verdict does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Intervals {
    None,
    /// Those of Wins, overall and in scenarios: what gates ask for.
    Wins,
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
    /// Shares of the last planned look.
    last: Shares,
    /// Unit by unit, metric by metric.
    entries: Vec<Entry>,
    /// Per unit, that it fails more often than the baseline: now, and over the looks.
    failures: Vec<(f64, f64)>,
}

/// One unit on one metric, as of the last look it took part in.
#[derive(Clone, Default)]
struct Entry {
    /// Of the runs that ended.
    ended: Option<Paired>,
    /// Blocks that count.
    n: usize,
    m0: usize,
    /// Effect on the total.
    mean: Option<f64>,
    has_zeros: bool,
    /// More of its runs than of the baseline's did nothing in their time.
    stands_still: bool,
    now: Claims,
    /// Smallest p over the looks so far, each divided by the look's weight ("Looks").
    seq: Claims,
}

impl Entry {
    /// Whether the mean of a required metric is estimated to lose more than the margin: what stands still loses all.
    fn has_lost_mean(&self, rule: &MetricRule) -> bool {
        let is_lost = self.mean.is_some_and(|mean| mean < -rule.effect_margin());
        rule.purpose.is_required() && (is_lost || self.stands_still)
    }
}

/// One-sided p values, by what a small one claims. Nothing seen, nothing proven.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Claims {
    better: f64,
    worse: f64,
    non_inferior: f64,
    no_gain: f64,
    equivalent: f64,
    /// The loss in a single scenario is smaller than what it may be.
    per_scenario: Option<f64>,
    /// `per_scenario` with the shares of equivalence: required of a Neutral.
    equal_per_scenario: Option<f64>,
    /// The same of the total.
    total_non_inferior: Option<f64>,
    total_worse: Option<f64>,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            better: 1.0,
            worse: 1.0,
            non_inferior: 1.0,
            no_gain: 1.0,
            equivalent: 1.0,
            per_scenario: None,
            equal_per_scenario: None,
            total_non_inferior: None,
            total_worse: None,
        }
    }
}

impl Claims {
    /// `shown` is the part of an effect that is not hidden ("Hidden effects"): what is proven to be smaller must be so by less.
    fn of(comparison: &Comparison, rule: &MetricRule, asks_scenario: bool, shown: f64) -> Self {
        let paired = &comparison.tested;
        let margin = shown * rule.effect_margin();
        let claims = paired.claims(margin);
        let least = rule.least_effect();
        // Where a gain has a size, a smaller one is none, and what is shown to be smaller is no difference that matters.
        let no_gain = if least > 0.0 { paired.tails(least).down } else { claims.no_gain };
        let per_scenario = shown * rule.effect_margin_per_scenario();
        let held = || if per_scenario == margin { claims.non_inferior } else { paired.tails(-per_scenario).up };
        let held = (asks_scenario && rule.purpose.is_required()).then(held);
        let totals = comparison.totals.as_ref();
        let own = Self {
            better: if least > 0.0 { paired.tails(least).up } else { claims.better },
            worse: claims.worse,
            non_inferior: claims.non_inferior,
            no_gain,
            equivalent: if least > 0.0 && least < margin {
                claims.non_inferior.max(no_gain)
            } else {
                claims.equivalent()
            },
            per_scenario: held,
            equal_per_scenario: held,
            total_non_inferior: totals
                .map(|totals| if comparison.open_totals.0 { 1.0 } else { totals.non_inferior(per_scenario) }),
            total_worse: totals.map(|totals| if comparison.open_totals.1 { 1.0 } else { totals.worse() }),
        };
        let own = if comparison.lacks_values { own.without_good() } else { own };
        let others = [&comparison.firsts, &comparison.without_failures];
        let others = others.into_iter().flatten().map(|other| Self::of(other, rule, asks_scenario, shown));
        others.fold(own, |own, other| own.also_of(&other))
    }

    /// Takes the larger p of both for claims in favour and for means, as far as the other has them: a gain needs the proof of both.
    fn also_of(self, other: &Self) -> Self {
        let both = |own: Option<f64>, other: Option<f64>| own.map(|own| other.map_or(own, |other| own.max(other)));
        Self {
            better: self.better.max(other.better),
            non_inferior: self.non_inferior.max(other.non_inferior),
            equivalent: self.equivalent.max(other.equivalent),
            per_scenario: both(self.per_scenario, other.per_scenario),
            equal_per_scenario: both(self.equal_per_scenario, other.equal_per_scenario),
            total_non_inferior: both(self.total_non_inferior, other.total_non_inferior),
            total_worse: both(self.total_worse, other.total_worse),
            ..self
        }
    }

    /// What is left where the values that are missing may be the bad ones.
    fn without_good(self) -> Self {
        Self {
            better: 1.0,
            non_inferior: 1.0,
            equivalent: 1.0,
            per_scenario: self.per_scenario.map(|_| 1.0),
            equal_per_scenario: self.equal_per_scenario.map(|_| 1.0),
            total_non_inferior: self.total_non_inferior.map(|_| 1.0),
            ..self
        }
    }

    /// What holds in every one of several places holds with the weakest of their proofs.
    fn everywhere(places: impl Iterator<Item = Self>) -> Self {
        places
            .reduce(|a, b| Self {
                better: a.better.max(b.better),
                worse: a.worse.max(b.worse),
                non_inferior: a.non_inferior.max(b.non_inferior),
                no_gain: a.no_gain.max(b.no_gain),
                equivalent: a.equivalent.max(b.equivalent),
                ..Self::default()
            })
            .map_or_else(Self::default, |weakest| Self {
                per_scenario: None,
                equal_per_scenario: None,
                total_non_inferior: None,
                total_worse: None,
                ..weakest
            })
    }

    /// The smaller of what the looks before have proven and what this one does, at its price. A look without a share proves nothing.
    fn after(self, now: &Self, look: &Shares) -> Self {
        let smaller = |before: f64, now: f64, weight: f64| before.min(now / weight);
        let asked = |before: Option<f64>, now: Option<f64>, weight: f64| {
            now.map(|now| smaller(before.unwrap_or(1.0), now, weight))
        };
        Self {
            better: smaller(self.better, now.better, look.better),
            worse: smaller(self.worse, now.worse, look.worse),
            non_inferior: smaller(self.non_inferior, now.non_inferior, look.equivalent),
            no_gain: now.no_gain,
            equivalent: smaller(self.equivalent, now.equivalent, look.equivalent),
            per_scenario: asked(self.per_scenario, now.per_scenario, look.scenario),
            equal_per_scenario: asked(self.equal_per_scenario, now.equal_per_scenario, look.equivalent),
            total_non_inferior: asked(self.total_non_inferior, now.total_non_inferior, look.scenario),
            total_worse: asked(self.total_worse, now.total_worse, look.scenario),
        }
    }
}

/// How a comparison is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Whether its loss must be proven to be what a single scenario may lose.
    pub scenario: bool,
    /// The part of an effect that shows.
    pub shown: f64,
}

/// What a ledger proves, entry by entry, and of failures unit by unit.
pub(super) struct Proven {
    entries: Vec<Proofs>,
    failures: Vec<f64>,
}

impl Proven {
    /// Corrected p value of the claim that a unit fails more often than the baseline.
    pub fn failures(&self, unit: usize) -> f64 {
        self.failures[unit]
    }
}

impl<'a> Ledger<'a> {
    pub fn new(metrics: &'a [MetricRule], family: Family, adjust: Adjust, last: Shares, units: usize) -> Self {
        let entries = vec![Entry::default(); units * metrics.len()];
        Self { metrics, family, adjust, last, entries, failures: vec![(1.0, 1.0); units] }
    }

    /// A family as a judgement left it, unit by unit.
    pub fn of_judged<'b>(
        metrics: &'a [MetricRule],
        family: Family,
        adjust: Adjust,
        units: impl Iterator<Item = (&'b [Effect], f64)>,
    ) -> Self {
        let entry = |Effect { p, .. }: &Effect| Entry {
            now: Claims { better: p.better, worse: p.worse, no_gain: p.no_gain, ..Claims::default() },
            seq: Claims {
                better: p.better_seq,
                worse: p.worse_seq,
                non_inferior: p.non_inferior_seq,
                no_gain: p.no_gain,
                equivalent: p.equivalent_seq,
                per_scenario: p.per_scenario_seq,
                equal_per_scenario: None,
                total_non_inferior: p.mean_non_inferior_seq,
                total_worse: p.mean_worse_seq,
            },
            ..Entry::default()
        };
        let (mut entries, mut failures) = (Vec::new(), Vec::new());
        for (effects, failing) in units {
            entries.extend(effects.iter().map(entry));
            failures.push((failing, failing));
        }
        Self { metrics, family, adjust, last: Shares::WHOLE, entries, failures }
    }

    /// Forgets what is known of a unit, on all metrics.
    pub fn forget(&mut self, unit: usize) {
        self.entries[unit * self.metrics.len()..(unit + 1) * self.metrics.len()].fill(Entry::default());
        self.failures[unit] = (1.0, 1.0);
    }

    /// A unit's data at a look, for one metric; `asks_scenario` where its loss in a single scenario is asked for.
    pub fn take(&mut self, unit: usize, metric: usize, comparison: Comparison, asked: Asked, look: &Shares) {
        let rule = &self.metrics[metric];
        let now = Claims::of(&comparison, rule, asked.scenario, asked.shown);
        let entry = &mut self.entries[unit * self.metrics.len() + metric];
        *entry = Entry {
            n: comparison.tested.n(),
            m0: comparison.tested.m0(),
            mean: comparison.firsts.as_ref().map_or(comparison.mean, |firsts| firsts.mean),
            has_zeros: comparison.has_zeros,
            stands_still: comparison.firsts.as_ref().map_or(comparison.stands_still, |firsts| firsts.stands_still),
            ended: comparison.ended,
            seq: entry.seq.after(&now, look),
            now,
        };
    }

    /// The same over all scenarios for a metric that has no mean over them: what is claimed must hold in each, as `cells` say.
    pub fn take_everywhere(&mut self, unit: usize, metric: usize, cells: &Ledger<'_>, of: &[usize], look: &Shares) {
        let own = || of.iter().map(|&cell| &cells.entries[cell * cells.metrics.len() + metric]);
        let now = Claims::everywhere(own().map(|entry| entry.now));
        let entry = &mut self.entries[unit * self.metrics.len() + metric];
        *entry = Entry {
            n: own().map(|entry| entry.n).min().unwrap_or(0),
            m0: own().map(|entry| entry.m0).max().unwrap_or(0),
            has_zeros: true,
            seq: entry.seq.after(&now, look),
            now,
            ..Entry::default()
        };
    }

    /// How the runs of a unit ended at a look: the p value of the claim that it fails more often than the baseline.
    pub fn take_failures(&mut self, unit: usize, p: f64, look: &Shares) {
        self.failures[unit] = (p, self.failures[unit].1.min(p / look.worse));
    }

    pub fn failures_seq(&self, unit: usize) -> f64 {
        self.failures[unit].1
    }

    /// The effect on totals over several cells, for the report: their weighted mean.
    pub fn set_mean(&mut self, unit: usize, metric: usize, mean: Option<f64>) {
        self.entries[unit * self.metrics.len() + metric].mean = mean;
    }

    pub fn mean(&self, unit: usize, metric: usize) -> Option<f64> {
        self.entries[unit * self.metrics.len() + metric].mean
    }

    /// Required metrics whose mean effect is a loss beyond the margin.
    pub fn lost_means(&self, unit: usize) -> Vec<String> {
        let own = &self.entries[unit * self.metrics.len()..(unit + 1) * self.metrics.len()];
        let lost = self.metrics.iter().zip(own).filter(|(rule, entry)| entry.has_lost_mean(rule));
        lost.map(|(rule, _)| rule.name.clone()).collect()
    }

    /// What each entry proves within the family ("Families").
    pub fn proven(&self) -> Proven {
        let better = self.adjusted(|rule, _| rule.purpose == Purpose::Objective, |seq| Some(seq.better), &[]).0;
        let failing: Vec<f64> = self.failures.iter().map(|(_, seq)| *seq).collect();
        let (worse, failures) = self.adjusted(|rule, _| rule.purpose.is_required(), |seq| Some(seq.worse), &failing);
        let total_worse = self
            .adjusted(|rule, seq| rule.purpose.is_required() && seq.total_worse.is_some(), |seq| seq.total_worse, &[])
            .0;
        let entries = self.entries.iter().zip(better).zip(worse).zip(total_worse);
        let entries = entries
            .map(|(((Entry { seq, now, .. }, better), worse), total_worse)| Proofs {
                equivalent: seq.equivalent,
                better,
                worse,
                non_inferior: seq.non_inferior,
                per_scenario: seq.per_scenario,
                equal_per_scenario: seq.equal_per_scenario,
                // A stall that later blocks have seen is not undone by a look before it.
                total_non_inferior: seq.total_non_inferior.map(|seq| seq.max(now.total_non_inferior.unwrap_or(seq))),
                total_worse,
            })
            .collect();
        Proven { entries, failures }
    }

    /// One kind of claim, corrected for all the entries that make it, with `others` of the same kind.
    fn adjusted(
        &self,
        makes: impl Fn(&MetricRule, &Claims) -> bool,
        p: impl Fn(&Claims) -> Option<f64>,
        others: &[f64],
    ) -> (Vec<Option<f64>>, Vec<f64>) {
        let rules = || self.metrics.iter().cycle().zip(&self.entries);
        let claims = |rule: &MetricRule, entry: &Entry| makes(rule, &entry.seq);
        let mut raw: Vec<f64> = rules()
            .filter(|(rule, entry)| claims(rule, entry))
            .map(|(_, entry)| p(&entry.seq).unwrap_or(1.0))
            .collect();
        raw.extend(others);
        let mut adjusted = self.adjust.apply(&raw).into_iter();
        let own = rules().map(|(rule, entry)| if claims(rule, entry) { adjusted.next() } else { None }).collect();
        (own, adjusted.collect())
    }

    /// What the verdict table needs of a unit.
    pub fn judged(&self, unit: usize, proven: &Proven) -> Vec<Judged<'a>> {
        self.unit(unit, proven)
            .map(|(rule, entry, proofs)| Judged {
                name: &rule.name,
                purpose: rule.purpose,
                status: proofs.status(),
                no_gain: entry.now.no_gain,
                n: entry.n,
                centre: proofs.centre(),
                total: proofs.total(),
                is_likely_harmed: rule.purpose.is_required() && self.is_likely_harmed(rule, entry),
                has_lost_mean: entry.has_lost_mean(rule),
            })
            .collect()
    }

    /// Whether an interval lies entirely beyond the margin on the bad side: one of those of all units and required metrics, which hold
    /// together at 95 % ("Likely harm"). A few blocks may be equal by chance.
    fn is_likely_harmed(&self, rule: &MetricRule, entry: &Entry) -> bool {
        let required = self.metrics.iter().filter(|rule| rule.purpose.is_required()).count();
        let intervals = (self.failures.len() * required) as f64;
        let ended = entry.ended.as_ref().filter(|ended| ended.n() >= n_min(1, ALPHA));
        let upper = ended.and_then(|ended| ended.mean_upper(ALPHA / intervals));
        upper.is_some_and(|upper| upper < -rule.effect_margin())
    }

    /// What the report prints of a unit.
    pub fn effects(&self, unit: usize, proven: &Proven, intervals: Intervals) -> Vec<Effect> {
        self.unit(unit, proven).map(|(rule, entry, proofs)| self.effect(rule, entry, proofs, intervals)).collect()
    }

    fn unit(&self, unit: usize, proven: &Proven) -> impl Iterator<Item = (&'a MetricRule, &Entry, Proofs)> {
        let range = unit * self.metrics.len()..(unit + 1) * self.metrics.len();
        let entries = self.entries[range.clone()].iter().zip(&proven.entries[range]);
        self.metrics.iter().zip(entries).map(|(rule, (entry, &proofs))| (rule, entry, proofs))
    }

    fn effect(&self, rule: &MetricRule, entry: &Entry, proofs: Proofs, intervals: Intervals) -> Effect {
        let paired = entry.ended.as_ref();
        let estimate = paired.and_then(Paired::estimate);
        let sd_block = paired.and_then(Paired::sd_block);
        let claims = match rule.purpose {
            Purpose::Objective => self.family.better as f64 / self.last.better,
            Purpose::Guardrail => self.family.worse as f64 / self.last.worse,
            Purpose::Info => 1.0,
        };
        let mde = sd_block.and_then(|sd| detectable(sd, entry.n, claims));
        let shown = paired.filter(|_| intervals != Intervals::None);
        let ci95 = shown.map(|paired| paired.interval(0.95));
        // Of the fewest blocks the wider interval has no end yet, and a gate needs one.
        let open = ci95.is_some_and(|interval| interval.low.is_none());
        let ci90 = shown.filter(|_| open || intervals == Intervals::BothLevels).map(|paired| paired.interval(0.90));
        Effect {
            metric: rule.name.clone(),
            purpose: rule.purpose,
            status: proofs.status(),
            n: entry.n,
            m0: entry.m0,
            estimate,
            estimate_percent: estimate.and_then(|x| rule.scale.percent(x)),
            mean: entry.mean,
            mean_percent: entry.mean.and_then(|x| rule.scale.percent(x)),
            has_zeros: entry.has_zeros,
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
                equivalent: entry.now.equivalent,
                better_seq: entry.seq.better,
                worse_seq: entry.seq.worse,
                non_inferior_seq: entry.seq.non_inferior,
                equivalent_seq: entry.seq.equivalent,
                better_adjusted: proofs.better,
                worse_adjusted: proofs.worse,
                per_scenario_seq: proofs.per_scenario,
                mean_non_inferior_seq: proofs.total_non_inferior,
                mean_worse_seq: entry.seq.total_worse,
                mean_worse_adjusted: proofs.total_worse,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Direction, Scale};

    const LOOK: Shares = Shares { better: 0.25, worse: 0.5, equivalent: 0.125, scenario: 0.75 };

    const ASKED: Asked = Asked { scenario: true, shown: 1.0 };

    fn rules() -> [MetricRule; 2] {
        let rule = |purpose| MetricRule::new("throughput", Direction::Higher, purpose, 0.05, Scale::Log);
        [rule(Purpose::Objective), rule(Purpose::Guardrail)]
    }

    fn ledger(rules: &[MetricRule], units: usize) -> Ledger<'_> {
        Ledger::new(rules, Family { better: 1, worse: 2, n_min: 6 }, Adjust::Holm, LOOK, units)
    }

    /// Six blocks, of which so many are better and the rest worse.
    fn comparison(better: usize) -> Comparison {
        let config = (0..6).map(|block| if block < better { 0.1 } else { -0.1 }).collect();
        let tested = Paired::new(config, vec![0.0; 6], 1).unwrap();
        Comparison {
            tested,
            ended: None,
            totals: None,
            open_totals: (false, false),
            mean: None,
            has_zeros: false,
            lacks_values: false,
            firsts: None,
            stands_still: false,
            without_failures: None,
        }
    }

    /// All as likely.
    fn claims(p: f64) -> Claims {
        Claims {
            better: p,
            worse: p,
            non_inferior: p,
            no_gain: p,
            equivalent: p,
            per_scenario: Some(p),
            equal_per_scenario: Some(p),
            total_non_inferior: Some(p),
            total_worse: Some(p),
        }
    }

    #[test]
    fn the_narrower_interval_is_for_who_asks_and_where_the_wider_one_is_open() {
        let rules = rules();
        let shown = |blocks: usize, intervals: Intervals| {
            let mut ledger = ledger(&rules[..1], 1);
            let tested = Paired::new(vec![0.1; blocks], vec![0.0; blocks], 1).unwrap();
            ledger.take(0, 0, Comparison { ended: Some(tested.clone()), tested, ..comparison(6) }, ASKED, &LOOK);
            let effect = ledger.effects(0, &ledger.proven(), intervals).remove(0);
            [effect.ci95, effect.ci90].map(|interval| interval.is_some())
        };
        assert_eq!(shown(6, Intervals::None), [false, false]);
        assert_eq!(shown(6, Intervals::All), [true, false]);
        assert_eq!(shown(6, Intervals::BothLevels), [true, true]);
        // 2^-5 is 3.1 %: more than 2.5 % on a side.
        assert_eq!(shown(5, Intervals::All), [true, true]);
    }

    #[test]
    fn each_kind_of_claim_pays_its_own_share() {
        let rules = rules();
        let mut ledger = ledger(&rules, 1);
        for metric in 0..rules.len() {
            ledger.take(0, metric, comparison(6), ASKED, &LOOK);
        }
        for metric in 0..rules.len() {
            let Entry { now, seq, .. } = &ledger.entries[metric];
            assert_eq!(now.per_scenario.unwrap() / seq.per_scenario.unwrap(), LOOK.scenario);
            let paid = [now.better / seq.better, now.worse / seq.worse, now.equivalent / seq.equivalent];
            for (paid, share) in paid.into_iter().zip([LOOK.better, LOOK.worse, LOOK.equivalent]) {
                assert!((paid - share).abs() < 1e-12 || paid == 1.0, "{paid} {share}");
            }
        }
    }

    #[test]
    fn a_look_without_a_share_proves_nothing() {
        let rules = rules();
        let mut ledger = ledger(&rules, 1);
        let none = Shares { better: 0.0, worse: 0.0, equivalent: 0.0, scenario: 0.0 };
        ledger.take(0, 0, comparison(6), ASKED, &none);
        ledger.take_failures(0, 0.001, &none);
        let seq = ledger.entries[0].seq;
        assert_eq!((seq.better, seq.worse, seq.equivalent, seq.per_scenario), (1.0, 1.0, 1.0, Some(1.0)));
        assert_eq!(ledger.failures_seq(0), 1.0);
    }

    #[test]
    fn what_holds_everywhere_holds_as_weakly_as_in_the_weakest_scenario_of_its_own_metric() {
        let rules = rules();
        let mut cells = ledger(&rules, 3);
        for (cell, better) in [[6, 3], [2, 5], [0, 1]].into_iter().enumerate() {
            for (metric, better) in better.into_iter().enumerate() {
                cells.take(cell, metric, comparison(better), ASKED, &LOOK);
            }
        }
        let now = |cell: usize, metric: usize| cells.entries[cell * rules.len() + metric].now.better;
        let mut overall = ledger(&rules, 2);
        overall.take_everywhere(1, 0, &cells, &[0, 1], &LOOK);
        overall.take_everywhere(1, 1, &cells, &[0, 1], &LOOK);
        let found = overall.entries.iter().map(|entry| entry.now.better).collect::<Vec<_>>();
        assert_eq!(found, [1.0, 1.0, now(1, 0), now(0, 1)]);
        assert!(now(0, 0) < now(1, 1) && now(1, 1) < now(0, 1) && now(0, 1) < now(1, 0) && now(1, 0) < now(2, 0));
    }

    #[test]
    fn first_tries_have_a_say_in_what_is_good_and_in_a_mean_that_is_worse() {
        let mixed = Claims { worse: 0.01, no_gain: 0.01, ..claims(0.2) };
        assert_eq!(claims(0.01).also_of(&claims(0.2)), mixed);
        assert_eq!(claims(0.2).also_of(&claims(0.01)), claims(0.2));
        // A claim that only one of the two makes keeps its p value.
        let centre = Claims { total_non_inferior: None, total_worse: None, ..claims(0.2) };
        let both = Claims { total_non_inferior: Some(0.01), total_worse: Some(0.01), ..mixed };
        assert_eq!(claims(0.01).also_of(&centre), both);
    }

    #[test]
    fn missing_values_prove_nothing_good_and_take_no_harm_back() {
        let harm = Claims {
            better: 1.0,
            non_inferior: 1.0,
            equivalent: 1.0,
            per_scenario: Some(1.0),
            equal_per_scenario: Some(1.0),
            total_non_inferior: Some(1.0),
            ..claims(0.01)
        };
        assert_eq!(claims(0.01).without_good(), harm);
        // What is not asked is not answered.
        let less = |all: Claims| Claims {
            per_scenario: None,
            equal_per_scenario: None,
            total_non_inferior: None,
            total_worse: None,
            ..all
        };
        assert_eq!(less(claims(0.01)).without_good(), less(harm));
    }

    #[test]
    fn only_the_unit_that_is_forgotten_is() {
        let rules = rules();
        let mut ledger = ledger(&rules, 4);
        for unit in 0..4 {
            for metric in 0..rules.len() {
                ledger.take(unit, metric, comparison(6), ASKED, &LOOK);
            }
            ledger.take_failures(unit, 0.01, &LOOK);
        }
        ledger.forget(2);
        assert_eq!(ledger.entries.iter().map(|entry| entry.n).collect::<Vec<_>>(), [6, 6, 6, 6, 0, 0, 6, 6]);
        let failures: Vec<f64> = (0..4).map(|unit| ledger.failures_seq(unit)).collect();
        assert_eq!(failures, [0.02, 0.02, 1.0, 0.02]);
    }

    #[test]
    fn failures_pay_at_each_look_and_are_not_forgotten() {
        let rules = rules();
        let mut ledger = ledger(&rules, 1);
        let mut after = |p: f64| {
            ledger.take_failures(0, p, &LOOK);
            ledger.failures_seq(0)
        };
        // Half of the error: twice the p.
        assert_eq!([after(0.125), after(0.5), after(0.03125)], [0.25, 0.25, 0.0625]);
    }

    #[test]
    fn what_can_be_detected_is_one_claim_of_its_family_at_the_last_look() {
        let [objective, guardrail] = rules();
        let rules = [objective, guardrail, MetricRule::new("rss", Direction::Lower, Purpose::Info, 0.05, Scale::Log)];
        let mut ledger = Ledger::new(&rules, Family { better: 3, worse: 5, n_min: 6 }, Adjust::Holm, LOOK, 1);
        for metric in 0..rules.len() {
            let mut comparison = comparison(3);
            comparison.ended = Some(comparison.tested.clone());
            ledger.take(0, metric, comparison, ASKED, &LOOK);
        }
        let found: Vec<Option<f64>> =
            ledger.effects(0, &ledger.proven(), Intervals::None).iter().map(|effect| effect.detectable).collect();
        // Three blocks at 0.1 and three at -0.1; 3 / 0.25 claims of a gain, 5 / 0.5 of harm.
        let spread = 0.1 * 1.2_f64.sqrt();
        for (found, claims) in found.into_iter().zip([12.0, 10.0, 1.0]) {
            let expected = detectable(spread, 6, claims).unwrap();
            assert!((found.unwrap() - expected).abs() < 1e-12, "{claims}: {found:?} {expected}");
        }
    }
}
