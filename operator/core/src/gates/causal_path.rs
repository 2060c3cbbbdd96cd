//! Causal path: no change of RocksDB can save more time than is spent in RocksDB.
//!
//! If the baseline's thread is inside RocksDB for a share f of its time, a database that answers at once would leave it 1 - f of
//! that time, which is an effect of -ln(1 - f). A gain that is surely larger has another cause. This gate looks at
//! outcomes, not at records, and can only take a Win away.

use std::collections::BTreeMap;

use assay_protocol::{Summary, metric};

use super::view::View;
use super::{Code, Finding, Findings, Gate};
use crate::stats::median;
use crate::verdict::{MetricRule, Purpose};

/// The baseline's share of time on the path of each kind of time metric in one scenario. `None` is unknown, which limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    throughput: Option<f64>,
    drained: Option<f64>,
    latency: Option<f64>,
}

impl Shares {
    /// The share of one metric's time; `None` for what is no time of the primary role.
    pub fn of(&self, name: &str) -> Option<f64> {
        match name {
            "throughput" | "gas_throughput" | "shred_throughput" => self.throughput,
            "drained_throughput" => self.drained,
            _ if name.starts_with("step_latency") => self.latency,
            _ => None,
        }
    }
}

/// Whoever does not know how long the baseline waited for a CPU can't tell what a gain of time may be.
pub(super) fn unknown(view: &View<'_>, findings: &mut Findings) {
    let is_asked =
        |rule: &MetricRule| rule.purpose == Purpose::Objective && metric(&rule.name).is_some_and(|info| info.is_time);
    if !view.experiment.metrics.iter().any(is_asked) {
        return;
    }
    for &trial in view.completed().iter().filter(|&&trial| view.is_baseline(trial)) {
        let summary = view.summary(trial);
        if summary.primary.run_queue_percent.is_none() {
            findings.unknown(Gate::CausalPath, ["waits for a CPU"]);
        }
    }
}

/// The shares of every scenario, from the baseline's runs that count: medians, so that no single run decides.
pub fn shares<'a>(baseline: impl Iterator<Item = &'a Summary>) -> BTreeMap<&'a str, Shares> {
    let mut runs: BTreeMap<&str, Vec<Shares>> = BTreeMap::new();
    for summary in baseline {
        runs.entry(&summary.trial.scenario).or_default().push(of_run(summary));
    }
    let middle = |runs: &[Shares], pick: fn(&Shares) -> Option<f64>| {
        let known: Option<Vec<f64>> = runs.iter().map(pick).collect();
        known.and_then(|shares| median(&shares))
    };
    let of_scenario = |runs: &[Shares]| Shares {
        throughput: middle(runs, |shares| shares.throughput),
        drained: middle(runs, |shares| shares.drained),
        latency: middle(runs, |shares| shares.latency),
    };
    runs.into_iter().map(|(scenario, runs)| (scenario, of_scenario(&runs))).collect()
}

fn of_run(summary: &Summary) -> Shares {
    let time = &summary.primary;
    // Background threads of RocksDB compete for the same CPUs, so less of them is less waiting, too. Part of the wait is
    // inside calls already; counting it twice can only spare a Win.
    let path = time.run_queue_percent.map(|waiting| ((time.db_percent + waiting) / 100.0).min(1.0));
    let rate = |name: &str| summary.metrics.get(name).copied().filter(|&rate| rate > 0.0);
    // After the window there is nothing but the wait for compaction: in windows.
    let drain =
        rate("throughput").zip(rate("drained_throughput")).map(|(rate, drained)| (rate / drained - 1.0).max(0.0));
    // A latency is the time of a step: neither the generator nor the wait for the next start is part of it.
    let stepping = 1.0 - (time.generator_percent + time.idle_percent) / 100.0;
    Shares {
        throughput: path,
        drained: path.zip(drain).map(|(path, drain)| (path + drain) / (1.0 + drain)),
        latency: path.filter(|_| stepping > 0.0).map(|path| (path / stepping).min(1.0)),
    }
}

/// The share that limits the mean of several effects as their own shares limit each: of pairs of weight and share.
pub fn combined(shares: impl Iterator<Item = (f64, Option<f64>)>) -> Option<f64> {
    let (mut limits, mut weights) = (0.0, 0.0);
    for (weight, share) in shares {
        limits += weight * limit(share?);
        weights += weight;
    }
    (weights > 0.0).then(|| 1.0 - (-limits / weights).exp())
}

/// The largest effect that a share of the time allows.
fn limit(share: f64) -> f64 {
    if share >= 1.0 { f64::INFINITY } else { -(1.0 - share.max(0.0)).ln() }
}

/// Why a gain of at least `low`, the lower end of its interval on the log scale, can't come from RocksDB.
pub fn void(name: &str, share: f64, low: f64) -> Option<Finding> {
    let exceeds = metric(name).is_some_and(|info| info.is_time) && low > limit(share);
    exceeds.then(|| {
        let percent = |effect: f64| 100.0 * effect.exp_m1();
        let message = format!(
            "{name} gains {:.1} % or more, but only {:.1} % of the baseline's time involves RocksDB: removing all of \
             it would gain {:.1} %",
            percent(low),
            100.0 * share,
            percent(limit(share))
        );
        Finding::new(Code::CausalPathExceeded, message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{experiment, gated_with_all, rule, summaries};
    use super::*;
    use crate::stats::Direction;

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

    fn run(db: f64, generator: f64, idle: f64, queue: Option<f64>) -> Summary {
        let mut summary = summaries(&experiment()).remove(0);
        let time = &mut summary.primary;
        (time.db_percent, time.generator_percent, time.idle_percent) = (db, generator, idle);
        time.run_queue_percent = queue;
        summary.metrics.insert("throughput".to_owned(), 1000.0);
        summary.metrics.insert("drained_throughput".to_owned(), 800.0);
        summary
    }

    #[test]
    fn a_gain_beyond_the_time_in_rocksdb_is_void() {
        // Half of the time: at most twice as fast.
        let two = 2.0_f64.ln();
        assert_eq!(void("throughput", 0.5, two * 0.999), None);
        let found = void("throughput", 0.5, two * 1.01);
        assert_eq!(found.as_ref().map(|found| found.code), Some(Code::CausalPathExceeded));
        assert_eq!(
            void("step_latency_p99", 0.1, 0.5).map(|found| found.message).as_deref(),
            Some(
                "step_latency_p99 gains 64.9 % or more, but only 10.0 % of the baseline's time involves RocksDB: \
                 removing all of it would gain 11.1 %"
            )
        );
        assert!(void("drained_throughput", 0.0, 0.001).is_some());
        assert_eq!(void("throughput", 1.0, 9.0), None, "all of its time has no limit");
        // The limit itself: -ln(1 - 0.5), and nothing of nothing.
        assert_eq!(void("throughput", 0.5, -(0.5_f64.ln())), None);
        assert_eq!(void("throughput", 0.0, 0.0), None);
        // Only times have a path, and only gains are taken away.
        assert_eq!(void("write_amplification", 0.1, 2.0), None);
        assert_eq!(void("throughput", 0.5, -9.0), None);
    }

    #[test]
    fn each_metric_has_its_own_time() {
        let shares = of_run(&run(30.0, 40.0, 20.0, Some(5.0)));
        assert!(near(shares.of("throughput"), 0.35));
        // A quarter of a window is spent draining.
        assert!(near(shares.of("drained_throughput"), 0.6 / 1.25));
        // A step has 40 % of the window.
        assert!(near(shares.of("step_latency_p50"), 0.35 / 0.4));
        // The same rate in another unit, and the latency of another role.
        assert!(near(shares.of("gas_throughput"), 0.35) && near(shares.of("shred_throughput"), 0.35));
        assert_eq!(shares.of("save_latency_p50"), None);
        assert_eq!(shares.of("cpu_seconds_per_step"), None);
        assert!(near(of_run(&run(99.0, 1.0, 0.0, Some(30.0))).of("throughput"), 1.0));
    }

    #[test]
    fn unknown_limits_nothing() {
        assert_eq!(of_run(&run(30.0, 0.0, 0.0, None)), Shares::default());
        let runs = [run(10.0, 0.0, 0.0, Some(0.0)), run(10.0, 0.0, 0.0, None)];
        assert_eq!(shares(runs.iter())["fill"], Shares::default());
        assert_eq!(combined([(1.0, Some(0.5)), (1.0, None)].into_iter()), None);
        assert_eq!(combined(std::iter::empty()), None);
        // Without steps there is no drain of so many windows, and without time in steps no share of it.
        for rate in ["throughput", "drained_throughput"] {
            let mut stopped = run(30.0, 0.0, 0.0, Some(5.0));
            stopped.metrics.insert(rate.to_owned(), 0.0);
            assert_eq!(of_run(&stopped).of("drained_throughput"), None, "{rate}");
        }
        assert_eq!(of_run(&run(0.0, 60.0, 40.0, Some(5.0))).of("step_latency_p50"), None);
    }

    #[test]
    fn the_middle_run_counts() {
        let runs = [10.0, 20.0, 90.0].map(|db| run(db, 0.0, 0.0, Some(0.0)));
        assert!(near(shares(runs.iter())["fill"].of("throughput"), 0.2));
    }

    #[test]
    fn scenarios_are_combined_as_their_effects_are() {
        assert!(near(combined([(1.0, Some(0.5)), (1.0, Some(0.5))].into_iter()), 0.5));
        // Twice as fast in one, no faster in the other: the mean is the square root of two.
        assert!(near(combined([(1.0, Some(0.5)), (1.0, Some(0.0))].into_iter()), 1.0 - 0.5_f64.sqrt()));
        assert!(near(combined([(1.0, Some(1.0)), (3.0, Some(0.0))].into_iter()), 1.0));
    }

    #[test]
    fn waits_for_a_cpu_matter_to_objectives_that_are_times() {
        let misses = |rules: &[MetricRule]| {
            let mut experiment = experiment();
            experiment.metrics = rules.to_vec();
            let gated = gated_with_all(&experiment, |s| s.primary.run_queue_percent = None);
            gated.unknown.contains_key(&Gate::CausalPath)
        };
        let time = |purpose| rule("throughput", Direction::Higher, purpose);
        let space = |purpose| rule("space_amplification", Direction::Lower, purpose);
        assert!(misses(&[space(Purpose::Guardrail), time(Purpose::Objective)]));
        assert!(!misses(&[space(Purpose::Objective), time(Purpose::Guardrail)]));
    }
}
