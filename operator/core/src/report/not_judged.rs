//! What nobody judged, and yet moved by more than noise does ("Not judged" in docs/statistics.md). Advice: no verdict depends on it.

use std::collections::BTreeSet;

use assay_protocol::{Direction, FIXED_METRICS, METRICS, MetricInfo, Scale, metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::{Arm, Measured, Metrics};
use super::{Report, unit};
use crate::stats::median;
use crate::verdict::{Purpose, Verdict};

/// The most that is said of a config in a scenario.
const MOST: usize = 5;
/// Fewer blocks say nothing.
const FEWEST: usize = 6;
/// Less than this factor is not worth a line.
const FACTOR: f64 = 1.5;
const LEAST_DRAIN_SECONDS: f64 = 0.01;
/// By the number of blocks from which on it holds: the share of the median block's effect that each single block must show. From twelve
/// blocks on it is enough that all are on one side.
const SHARES: [(usize, f64); 3] = [(12, 0.0), (8, 0.5), (FEWEST, 0.7)];

/// A metric that moved although the experiment does not judge it. Advice, not part of any verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotJudged {
    pub scenario: String,
    pub config: String,
    pub metric: String,
    /// Blocks that count.
    pub blocks: usize,
    /// Whether it moved to its better side.
    pub better: bool,
    /// How many times better or worse, as the median over blocks: at least 1. Absent if one side is zero in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// In the metric's unit.
    pub baseline_median: f64,
    pub config_median: f64,
    /// Only full records have this metric, so it is absent from a report without them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_records: bool,
}

impl NotJudged {
    /// `step_latency_p999 is 53 times worse`.
    pub fn brief(&self) -> String {
        let Some(factor) = self.factor else {
            let (own, theirs) = if self.config_median > 0.0 { ("above 0", "0") } else { ("0", "above 0") };
            return format!("{} is {own}, with the baseline {theirs}", self.metric);
        };
        format!("{} is {} times {}", self.metric, times(factor), self.side())
    }

    /// The same with the medians.
    pub fn text(&self, baseline: &str) -> String {
        let shown = |value: f64| unit::value(&self.metric, value);
        let (own, theirs) = (shown(self.config_median), shown(self.baseline_median));
        match self.factor {
            None => format!("{} is {own} ({baseline}: {theirs})", self.metric),
            Some(_) => format!("{} ({own}, {baseline}: {theirs})", self.brief()),
        }
    }

    /// More flushes are neither good nor bad by themselves.
    fn side(&self) -> &'static str {
        match (metric(&self.metric).is_some_and(can_be_judged), self.better) {
            (true, true) => "better",
            (true, false) => "worse",
            (false, true) => "lower",
            (false, false) => "higher",
        }
    }

    /// The worst few.
    pub fn worst<'a>(found: impl Iterator<Item = &'a Self>) -> Vec<&'a Self> {
        let mut found: Vec<&Self> = found.collect();
        found.sort_by(|a, b| {
            let (a, b) = (a.rank(), b.rank());
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        });
        found.truncate(MOST);
        found
    }

    /// Worst first; what could have been judged before what only informs.
    fn rank(&self) -> (bool, bool, f64) {
        let informs = !metric(&self.metric).is_some_and(can_be_judged);
        (self.better, informs, -self.factor.unwrap_or(f64::INFINITY))
    }
}

impl Report {
    /// What is said of a config that nobody judged: a scenario with its lines, the worst first.
    pub(super) fn not_judged_of(&self, config: &str) -> Vec<(&str, Vec<String>)> {
        let of = |scenario: &str| {
            let own = self.not_judged.iter().filter(|own| own.config == config && own.scenario == scenario);
            NotJudged::worst(own).into_iter().map(|own| own.text(&self.baseline)).collect::<Vec<_>>()
        };
        let all = self.design.scenarios.iter().map(|scenario| (scenario.as_str(), of(scenario)));
        all.filter(|(_, lines)| !lines.is_empty()).collect()
    }
}

fn can_be_judged(info: &MetricInfo) -> bool {
    info.default_margin.is_some() || info.quantile.is_some()
}

fn times(factor: f64) -> String {
    match factor {
        f if f < 10.0 => format!("{f:.1}"),
        f if f < 1000.0 => format!("{f:.0}"),
        _ => "over 1000".to_owned(),
    }
}

impl Measured {
    /// What moved of the metrics that every summary has.
    pub fn in_summaries(&self, report: &Report) -> Vec<NotJudged> {
        self.found(report, false)
    }

    /// What moved of those that only full records have.
    pub fn in_records(&self, report: &Report) -> Vec<NotJudged> {
        self.found(report, true)
    }

    fn found(&self, report: &Report, from_records: bool) -> Vec<NotJudged> {
        // As with verdicts: who looks at every run finds something in any noise.
        if !report.progress.complete {
            return Vec::new();
        }
        let judged: BTreeSet<&str> = report
            .design
            .metrics
            .iter()
            .filter(|rule| rule.purpose != Purpose::Info)
            .map(|rule| rule.name.as_str())
            .collect();
        let wanted: Vec<&MetricInfo> = METRICS
            .iter()
            .filter(|info| !judged.contains(info.name) && FIXED_METRICS.contains(&info.name) != from_records)
            .collect();
        let mut all = Vec::new();
        // What can't be compared for a verdict can't be compared here.
        for cell in report.cells.iter().filter(|cell| cell.ruling.verdict != Verdict::Invalid) {
            let of = |config: &str| self.arm(&cell.scenario, config);
            let Some((own, baseline)) = of(&cell.config).zip(of(&report.baseline)) else { continue };
            let moved = wanted.iter().filter_map(|info| moved(info, &pairs(info.name, own, baseline)?));
            let found: Vec<NotJudged> = moved
                .map(|moved| NotJudged {
                    scenario: cell.scenario.clone(),
                    config: cell.config.clone(),
                    from_records,
                    ..moved
                })
                .collect();
            all.extend(NotJudged::worst(found.iter()).into_iter().cloned());
        }
        all
    }
}

/// The config's value and the baseline's in each block that has both. `None` if some run lacks the metric: what is missing may be what
/// was different.
fn pairs(name: &str, own: &Arm, baseline: &Arm) -> Option<Vec<(f64, Vec<f64>)>> {
    let values = |runs: &[Metrics]| runs.iter().map(|run| run.get(name).copied()).collect::<Option<Vec<f64>>>();
    let mut pairs = Vec::new();
    for (block, runs) in own {
        let Some(theirs) = baseline.get(block) else { continue };
        let value = *values(runs)?.first()?;
        pairs.push((value, values(theirs)?));
    }
    Some(pairs)
}

/// Whether a metric moved. Names are for the caller to fill in.
fn moved(info: &MetricInfo, pairs: &[(f64, Vec<f64>)]) -> Option<NotJudged> {
    let own: Vec<f64> = pairs.iter().map(|(own, _)| *own).collect();
    let theirs: Vec<f64> = pairs.iter().flat_map(|(_, theirs)| theirs.iter().copied()).collect();
    let is_value = |value: &f64| value.is_finite() && *value >= 0.0;
    if pairs.len() < FEWEST || !own.iter().chain(&theirs).all(is_value) {
        return None;
    }
    let (config_median, baseline_median) = (median(&own)?, median(&theirs)?);
    // Where a zero is nothing special, a small difference is nothing either, nor is a drain that has next to nothing to do.
    let least = match info.scale {
        Scale::Linear => info.default_margin.unwrap_or(0.0),
        Scale::Log if info.name == "drain_seconds" => LEAST_DRAIN_SECONDS,
        Scale::Log => 0.0,
    };
    if (config_median - baseline_median).abs() < least {
        return None;
    }
    let zeros = |values: &[f64]| values.iter().filter(|value| **value == 0.0).count();
    let (is_higher, factor) = match (zeros(&own), zeros(&theirs)) {
        (0, 0) => {
            let effects: Option<Vec<f64>> =
                pairs.iter().map(|(own, theirs)| Some(own.ln() - median(theirs)?.ln())).collect();
            let (is_higher, effect) = shown_by_all(&effects?)?;
            (is_higher, Some(effect.exp()))
        }
        (0, zero) if zero == theirs.len() => (true, None),
        (zero, 0) if zero == own.len() => (false, None),
        _ => return None,
    };
    let better = is_higher == (info.direction == Direction::HigherIsBetter);
    Some(NotJudged {
        scenario: String::new(),
        config: String::new(),
        metric: info.name.to_owned(),
        blocks: pairs.len(),
        better,
        factor,
        baseline_median,
        config_median,
        from_records: false,
    })
}

/// The side on which all blocks are, and the size of their median effect: `None` where noise can look like that.
fn shown_by_all(effects: &[f64]) -> Option<(bool, f64)> {
    let is_higher = *effects.first()? > 0.0;
    if effects.iter().any(|effect| *effect == 0.0 || (*effect > 0.0) != is_higher) {
        return None;
    }
    let sizes: Vec<f64> = effects.iter().map(|effect| effect.abs()).collect();
    let middle = median(&sizes)?;
    let (_, share) = SHARES.into_iter().find(|(blocks, _)| effects.len() >= *blocks)?;
    let is_shown = middle >= FACTOR.ln() && sizes.iter().all(|size| *size >= share * middle);
    is_shown.then_some((is_higher, middle))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::attempt::Attempt;
    use crate::gates::testing::{experiment, summaries};
    use crate::judge::tests::{judged, larger};

    /// Runs of the experiment whose other metrics are as given, by config and block.
    fn with(metric: &str, of: impl Fn(&str, u32) -> f64) -> Report {
        let experiment = experiment();
        let mut all = summaries(&experiment);
        for summary in &mut all {
            let value = of(&summary.trial.config, summary.trial.block);
            summary.metrics.insert(metric.to_owned(), value);
        }
        let all: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        judged(&experiment, &all)
    }

    fn said(report: &Report) -> Vec<String> {
        report.not_judged_of("candidate").into_iter().flat_map(|(_, lines)| lines).collect()
    }

    fn wave(block: u32) -> f64 {
        1.0 + f64::from(block % 3) / 100.0
    }

    #[test]
    fn what_moved_a_lot_is_said() {
        let slower = |config: &str, block| if config == "base" { 40.0 } else { 2120.0 } * wave(block);
        let report = with("step_latency_p99", slower);
        assert_eq!(said(&report), ["step_latency_p99 is 53 times worse (2.1 ms, base: 40.4 µs)"]);
        // It has no say in the verdict.
        assert_eq!(report.configs[0].ruling.verdict, Verdict::Neutral);
        assert_eq!(report.exit_code(), 0);
        let better = with("db_bytes", |config, block| if config == "base" { 4e6 } else { 2e6 } * wave(block));
        assert_eq!(said(&better), ["db_bytes is 2.0 times better (1.9 MiB, base: 3.9 MiB)"]);
        let more = with("compaction_write_bytes", |config, _| if config == "base" { 1024.0 } else { 4096.0 });
        assert_eq!(said(&more), ["compaction_write_bytes is 4.0 times higher (4 KiB, base: 1 KiB)"]);
    }

    #[test]
    fn what_is_judged_or_moved_a_little_is_not_said() {
        assert!(said(&with("throughput", |config, _| if config == "base" { 1000.0 } else { 500.0 })).is_empty());
        assert!(said(&with("rss_peak_bytes", |config, _| if config == "base" { 1000.0 } else { 1490.0 })).is_empty());
        // One block on the other side.
        let mixed = |config: &str, block| if config == "base" || block == 3 { 10.0 } else { 100.0 } * wave(block);
        assert!(said(&with("rss_peak_bytes", mixed)).is_empty());
        // All on one side, but as far apart as noise has them.
        let growing = |block| 11.0 * 1.4_f64.powf(f64::from(block));
        let spread = |config: &str, block| if config == "base" { 10.0 } else { growing(block) };
        assert!(said(&with("rss_peak_bytes", spread)).is_empty());
    }

    #[test]
    fn zeros_have_no_factor() {
        let stalls = |config: &str, block| if config == "base" { 0.0 } else { 0.5 + f64::from(block) / 100.0 };
        assert_eq!(said(&with("stall_fraction", stalls)), ["stall_fraction is 53.50 % (base: 0 %)"]);
        assert_eq!(
            with("stall_fraction", stalls).not_judged[0].brief(),
            "stall_fraction is above 0, with the baseline 0"
        );
        let none = |config: &str, _| if config == "base" { 4096.0 } else { 0.0 };
        assert_eq!(said(&with("debt_out_bytes", none)), ["debt_out_bytes is 0 B (base: 4 KiB)"]);
        // Below what matters of a share, and where only some runs have any.
        assert!(said(&with("stall_fraction", |config, _| if config == "base" { 0.0 } else { 0.005 })).is_empty());
        let some = |config: &str, block: u32| if config == "base" { 0.0 } else { f64::from(block % 2) };
        assert!(said(&with("debt_out_bytes", some)).is_empty());
    }

    #[test]
    fn numbers_that_mean_nothing_say_nothing() {
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            let values = |config: &str, block| {
                if config == "base" {
                    1.0
                } else if block == 0 {
                    odd
                } else {
                    9.0
                }
            };
            assert!(said(&with("db_bytes", values)).is_empty(), "{odd}");
        }
    }

    /// Two scenarios with more movement than anybody wants to read.
    fn busy(blocks: u32, complete: bool) -> Report {
        let mut experiment = larger();
        experiment.repetitions = blocks;
        let mut all = summaries(&experiment);
        for summary in &mut all {
            let factor: f64 = if summary.trial.config == "candidate" { 4.0 } else { 1.0 };
            for (name, by) in [
                ("drained_throughput", 1.0 / (factor * factor)),
                ("step_latency_p50", factor.sqrt()),
                ("step_latency_p99", factor.powi(3)),
                ("write_amplification", factor),
                ("compaction_write_bytes", 1e3 * factor),
                ("rss_peak_bytes", 1.0 / factor),
                ("db_bytes", factor),
            ] {
                summary.metrics.insert(name.to_owned(), 100.0 * by);
            }
        }
        if !complete {
            all.truncate(all.len() - 1);
        }
        let all: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        judged(&experiment, &all)
    }

    #[test]
    fn at_most_five_are_said_and_the_worst_first() {
        let report = busy(8, true);
        let of = report.not_judged_of("candidate");
        assert_eq!(of.iter().map(|(scenario, _)| *scenario).collect::<Vec<_>>(), ["fill", "read"]);
        let names: Vec<&str> = of[0].1.iter().filter_map(|line| line.split(' ').next()).collect();
        let expected =
            ["step_latency_p99", "drained_throughput", "write_amplification", "db_bytes", "step_latency_p50"];
        assert_eq!(names, expected);
        assert!(report.not_judged_of("same").is_empty());
        assert_eq!(report.not_judged.len(), 2 * MOST);
    }

    #[test]
    fn too_few_blocks_and_unfinished_plans_say_nothing() {
        assert!(busy(5, true).not_judged.is_empty());
        assert!(!busy(6, true).not_judged.is_empty());
        assert!(busy(8, false).not_judged.is_empty());
    }

    #[test]
    fn a_metric_that_some_run_lacks_is_not_compared() {
        let experiment = experiment();
        let mut all = summaries(&experiment);
        for summary in all.iter_mut().skip(1) {
            let value = if summary.trial.config == "base" { 1.0 } else { 9.0 };
            summary.metrics.insert("db_bytes".to_owned(), value);
        }
        let all: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        assert!(judged(&experiment, &all).not_judged.is_empty());
    }

    #[test]
    fn invalid_configs_are_not_compared() {
        let experiment = experiment();
        let mut all = summaries(&experiment);
        for summary in &mut all {
            let value = if summary.trial.config == "base" { 1.0 } else { 9.0 };
            summary.metrics.insert("db_bytes".to_owned(), value);
            if summary.trial.config == "candidate" {
                summary.options.undeclared.count = 1;
            }
        }
        let all: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        assert!(judged(&experiment, &all).not_judged.is_empty());
    }

    #[test]
    fn full_records_say_more_and_are_no_part_of_the_judgement() {
        let mut report = with("db_bytes", |config, _| if config == "base" { 1024.0 } else { 4096.0 });
        let mut records = Measured::default();
        for summary in summaries(&experiment()) {
            let value = if summary.trial.config == "base" { 40.0 } else { 2120.0 };
            let all = BTreeMap::from([("step_latency_p999".to_owned(), value), ("db_bytes".to_owned(), value)]);
            records.add(&summary.trial, &all);
        }
        let judged = report.clone();
        report.not_judged.extend(records.in_records(&report));
        let expected = [
            "step_latency_p999 is 53 times worse (2.1 ms, base: 40 µs)",
            "db_bytes is 4.0 times worse (4 KiB, base: 1 KiB)",
        ];
        assert_eq!(said(&report), expected);
        assert_eq!(report.without_records(), judged);
    }

    /// How often noise alone is said of a config in a scenario that has 45 metrics, all of them so noisy that a factor of 1.5 is nothing
    /// ("Not judged").
    #[test]
    fn noise_is_seldom_said() {
        type Noise = fn(&mut dyn FnMut() -> f64) -> f64;
        const TRIES: u32 = 40_000;
        const KINDS: [(&str, Noise); 4] = [
            ("normal", |u| (-2.0 * u().ln()).sqrt() * (std::f64::consts::TAU * u()).cos()),
            ("exponential", |u| -u().ln()),
            ("Cauchy", |u| (std::f64::consts::PI * (u() - 0.5)).tan()),
            ("one in two runs slow", |u| if u() < 0.5 { 3.0 } else { 0.0 } + 0.3 * u()),
        ];
        let mut state = 7_u64;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        for (name, noise) in KINDS {
            for (blocks, replicates) in [(6, 1), (7, 1), (8, 1), (11, 1), (12, 1), (12, 2), (12, 4)] {
                let mut run = || 3.0 * noise(&mut uniform);
                let mut said = 0;
                for _ in 0..TRIES {
                    let mut effect = || {
                        let baseline: Vec<f64> = (0..replicates).map(|_| run()).collect();
                        run() - median(&baseline).unwrap()
                    };
                    let effects: Vec<f64> = (0..blocks).map(|_| effect()).collect();
                    said += u32::from(shown_by_all(&effects).is_some());
                }
                let share = 45.0 * f64::from(said) / f64::from(TRIES);
                assert!(share < 0.06, "{name}, {blocks} blocks of {replicates}: {share}");
            }
        }
    }
}
