//! The gates at work that only take Wins away: gains that RocksDB can't have brought about, and gains that are only put off.

use std::collections::{BTreeMap, BTreeSet};

use super::void;
use crate::decide::{Fate, Places};
use crate::gates::Finding;
use crate::gates::causal_path::{self, Shares};
use crate::gates::postponed;
use crate::stats::Interval;
use crate::verdict::{self, Design, Effect, Judgement, Purpose, Status, Verdict};

/// Voids Wins, and says why, by config. An overall Win falls with one of its scenarios, since the gain has another cause there.
pub(super) fn void_wins(
    judgement: &mut Judgement,
    places: &Places<'_>,
    design: &Design,
) -> BTreeMap<String, Vec<Finding>> {
    let baseline = places.plan().experiment.baseline_config().map_or("", |config| config.name.as_str());
    let runs = (0..places.attempts().len()).filter(|&attempt| places.fate(attempt) == Fate::Used);
    let runs: Vec<_> = runs.filter_map(|attempt| places.summary(attempt)).collect();
    let shares = causal_path::shares(runs.iter().copied().filter(|summary| summary.trial.config == baseline));
    let share = |scenario: &str, metric: &str| shares.get(scenario).and_then(|shares: &Shares| shares.of(metric));
    let put_off = postponed::medians(runs.iter().copied());
    let put_off = |scenario: &str, config: &str, metric: &str| {
        let of = |config: &str| put_off.get(&(scenario, config)).copied();
        postponed::void(metric, of(config)?, of(baseline)?)
    };

    let mut causes: BTreeMap<String, BTreeSet<Finding>> = BTreeMap::new();
    let mut fallen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut fall = |config: &str, scenario: &str, found: Vec<Finding>| {
        if !found.is_empty() {
            fallen.entry(config.to_owned()).or_default().insert(scenario.to_owned());
            let of = |finding: Finding| Finding { message: format!("in {scenario} {}", finding.message), ..finding };
            causes.entry(config.to_owned()).or_default().extend(found.into_iter().map(of));
        }
    };
    for cell in &mut judgement.cells {
        let mut found = exceeded(&cell.conclusion, |metric| share(&cell.scenario, metric));
        found.extend(gains(&cell.conclusion).filter_map(|gain| put_off(&cell.scenario, &cell.config, &gain.metric)));
        if !found.is_empty() {
            void(&mut cell.conclusion, &found, Vec::new());
            fall(&cell.config, &cell.scenario, found);
        }
    }
    // A scenario may hide what it costs and be too small to be a Win alone.
    for config in &judgement.overall {
        for scenario in &design.scenarios {
            let of = |gain: &Effect| put_off(&scenario.name, &config.config, &gain.metric);
            fall(&config.config, &scenario.name, gains(&config.conclusion).filter_map(of).collect());
        }
    }
    for config in judgement.overall.iter_mut().filter(|config| config.conclusion.outcome.verdict == Verdict::Win) {
        let together = |metric: &str| {
            let scenarios = design.scenarios.iter();
            causal_path::combined(scenarios.map(|scenario| (scenario.weight, share(&scenario.name, metric))))
        };
        let found = exceeded(&config.conclusion, together);
        if !found.is_empty() {
            void(&mut config.conclusion, &found, Vec::new());
            causes.entry(config.config.clone()).or_default().extend(found);
        } else if let Some((scenarios, found)) = fallen.remove(&config.config).zip(causes.get(&config.config)) {
            let found: Vec<Finding> = found.iter().cloned().collect();
            void(&mut config.conclusion, &found, scenarios.into_iter().collect());
        }
    }
    causes.into_iter().map(|(config, found)| (config, found.into_iter().collect())).collect()
}

/// What a Win is for.
fn gains(conclusion: &verdict::Conclusion) -> impl Iterator<Item = &Effect> {
    let is_win = conclusion.outcome.verdict == Verdict::Win;
    let is_gain = |effect: &&Effect| effect.purpose == Purpose::Objective && effect.status == Status::Better;
    conclusion.metrics.iter().filter(move |_| is_win).filter(is_gain)
}

/// What speaks against a Win.
fn exceeded(conclusion: &verdict::Conclusion, share: impl Fn(&str) -> Option<f64>) -> Vec<Finding> {
    gains(conclusion)
        .filter_map(|effect| {
            // Of the fewest blocks the wider interval has no end yet.
            let low = |interval: Option<Interval>| interval.and_then(|interval| interval.low);
            let low = low(effect.ci95).or_else(|| low(effect.ci90))?;
            causal_path::void(&effect.metric, share(&effect.metric)?, low)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use assay_protocol::Summary;
    use serde_json::json;

    use crate::experiment::Experiment;
    use crate::gates::testing::{experiment, plan, rule, scenario, summaries};
    use crate::report::Report;
    use crate::stats::Direction;
    use crate::verdict::{Purpose, Verdict};

    fn judged(experiment: &Experiment, change: impl Fn(&mut Summary)) -> Report {
        let mut all = summaries(experiment);
        all.iter_mut().for_each(change);
        let attempts: Vec<_> = all.into_iter().map(|s| crate::attempt::Attempt::Finished(s.into())).collect();
        super::super::judge(&plan(experiment), &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// A candidate so many times as fast, in trials that spend this much of their time in RocksDB.
    fn faster(factor: f64, db_percent: f64) -> impl Fn(&mut Summary) {
        move |s| {
            (s.primary.db_percent, s.primary.run_queue_percent) = (db_percent, Some(0.0));
            if s.trial.config == "candidate" {
                s.metrics.entry("throughput".to_owned()).and_modify(|value| *value *= factor);
            }
        }
    }

    fn verdict(report: &Report) -> String {
        let ruling = &report.configs[0].ruling;
        format!("{:?} {}", ruling.verdict, ruling.reason)
    }

    #[test]
    fn a_win_that_the_database_can_not_explain_is_void() {
        let experiment = experiment();
        // A tenth of the time: at most 11.1 % faster.
        assert_eq!(verdict(&judged(&experiment, faster(1.1, 10.0))), "Win Better:throughput");
        let void = judged(&experiment, faster(1.2, 10.0));
        assert_eq!(verdict(&void), "Invalid CausalPathExceeded");
        assert_eq!(void.cells[0].ruling.verdict, Verdict::Invalid);
        assert_eq!(void.configs[0].ruling.recommendation, "fix setup");
        assert!(void.configs[0].ruling.sentence.contains("removing all of it"), "{}", void.configs[0].ruling.sentence);
        assert_eq!(verdict(&judged(&experiment, faster(1.2, 20.0))), "Win Better:throughput");
    }

    #[test]
    fn what_the_database_can_explain_is_its_share_of_the_baseline() {
        let own = |baseline: f64, candidate: f64| {
            let apart = move |s: &mut Summary| {
                let db_percent = if s.trial.config == "candidate" { candidate } else { baseline };
                faster(1.2, db_percent)(s);
            };
            verdict(&judged(&experiment(), apart))
        };
        assert_eq!(own(10.0, 90.0), "Invalid CausalPathExceeded");
        assert_eq!(own(90.0, 10.0), "Win Better:throughput");
    }

    #[test]
    fn the_fewest_blocks_are_no_way_around() {
        let mut few = experiment();
        few.repetitions = 5;
        assert_eq!(verdict(&judged(&few, faster(1.1, 10.0))), "Win Better:throughput");
        assert_eq!(verdict(&judged(&few, faster(1.2, 10.0))), "Invalid CausalPathExceeded");
    }

    #[test]
    fn only_a_win_is_taken_away() {
        assert_eq!(verdict(&judged(&experiment(), faster(0.5, 10.0))), "Reject Harm:throughput");
        assert_eq!(verdict(&judged(&experiment(), faster(1.0, 0.0))), "Neutral Equivalent");
        // A gain that something else pays for is a Tradeoff, and stays one.
        let mut paid = experiment();
        paid.metrics.push(rule("step_latency_mean", Direction::Lower, Purpose::Guardrail));
        let slower = |s: &mut Summary| {
            faster(1.5, 10.0)(s);
            if s.trial.config == "candidate" {
                s.metrics.entry("step_latency_mean".to_owned()).and_modify(|value| *value *= 2.0);
            }
        };
        assert!(verdict(&judged(&paid, slower)).starts_with("Tradeoff"));
    }

    #[test]
    fn what_is_unknown_or_no_time_is_left_alone() {
        let unknown = |s: &mut Summary| {
            faster(1.5, 10.0)(s);
            s.primary.run_queue_percent = None;
        };
        assert_eq!(verdict(&judged(&experiment(), unknown)), "Win Better:throughput");
        let mut other = experiment();
        other.metrics = vec![rule("write_amplification", Direction::Lower, Purpose::Objective)];
        let halved = |s: &mut Summary| {
            s.primary.db_percent = 1.0;
            let value = if s.trial.config == "candidate" { 2.0 } else { 4.0 };
            s.metrics.insert("write_amplification".to_owned(), value + f64::from(s.trial.block) / 1e3);
        };
        assert_eq!(verdict(&judged(&other, halved)), "Win Better:write_amplification");
    }

    /// Blocks are executed on one thread and saved by another, as reth does it: (percent of the primary role in RocksDB, factor by
    /// which blocks get faster, factor by which saves do).
    fn saved_apart(metric: &str, db_percent: f64, blocks: f64, saves: f64) -> Report {
        let mut experiment = experiment();
        let workload = json!({"rethHistory": {"blocks": 10, "accounts": 1000, "storageSlots": 2000}});
        experiment.scenarios[0].workload =
            serde_json::from_value(workload).unwrap_or_else(|error| unreachable!("{error}"));
        let direction = if metric.ends_with("throughput") { Direction::Higher } else { Direction::Lower };
        experiment.metrics = vec![rule(metric, direction, Purpose::Objective)];
        judged(&experiment, |s| {
            (s.primary.db_percent, s.primary.generator_percent, s.primary.idle_percent) = (db_percent, 0.0, 0.0);
            (s.primary.compute_percent, s.primary.run_queue_percent) = (100.0 - db_percent, Some(0.5));
            let (blocks, saves) = if s.trial.config == "candidate" { (blocks, saves) } else { (1.0, 1.0) };
            let rate = blocks * (30.0 + f64::from(s.trial.block % 3) / 100.0);
            s.window_seconds = 10.0 / rate;
            let save = (50_000.0 + f64::from(s.trial.block % 3)) / saves;
            let latency = 1e6 / rate;
            s.metrics.extend(
                [
                    ("throughput", rate),
                    ("gas_throughput", 30.0 * rate),
                    ("step_latency_mean", latency),
                    ("step_latency_p50", latency),
                    ("save_latency_mean", save),
                ]
                .map(|(name, value)| (name.to_owned(), value)),
            );
        })
    }

    #[test]
    fn blocks_do_not_get_faster_by_faster_saves_that_nobody_waits_for() {
        for metric in ["throughput", "gas_throughput", "step_latency_p50"] {
            let report = saved_apart(metric, 0.01, 1.14, 1.0);
            assert_eq!(verdict(&report), "Invalid CausalPathExceeded", "{metric}");
            // When execution waits for saves, the same gain may come from them.
            assert_eq!(verdict(&saved_apart(metric, 60.0, 1.14, 1.14)), format!("Win Better:{metric}"));
        }
        // What the saving thread gains is its own.
        assert_eq!(verdict(&saved_apart("save_latency_mean", 0.01, 1.0, 1.5)), "Win Better:save_latency_mean");
    }

    /// Half the write amplification, by runs that put off so much of what they wrote, beside a baseline that puts off a tenth.
    fn halved(scenario: &'static str, postponed: Option<f64>) -> impl Fn(&mut Summary) {
        move |s| {
            let is_candidate = s.trial.config == "candidate";
            let own = if s.trial.scenario == scenario { postponed } else { Some(10.0) };
            s.steady.postponed_percent = if is_candidate { own } else { Some(10.0) };
            let value = if is_candidate { 2.0 } else { 4.0 };
            s.metrics.insert("write_amplification".to_owned(), value + f64::from(s.trial.block) / 1e3);
        }
    }

    #[test]
    fn a_gain_that_is_only_put_off_is_void() {
        let mut writes = experiment();
        writes.metrics = vec![rule("write_amplification", Direction::Lower, Purpose::Objective)];
        assert_eq!(verdict(&judged(&writes, halved("fill", Some(19.0)))), "Win Better:write_amplification");
        assert_eq!(verdict(&judged(&writes, halved("fill", None))), "Win Better:write_amplification");
        let void = judged(&writes, halved("fill", Some(95.0)));
        assert_eq!(verdict(&void), "Invalid Postponed in fill");
        let sentence = &void.configs[0].ruling.sentence;
        assert!(sentence.contains("left 95 % more unmerged"), "{sentence}");
        // What it harms it harms all the same.
        let worse = |s: &mut Summary| {
            halved("fill", Some(95.0))(s);
            if s.trial.config == "candidate" {
                s.metrics.entry("write_amplification".to_owned()).and_modify(|value| *value *= 4.0);
            }
        };
        assert_eq!(verdict(&judged(&writes, worse)), "Reject Harm:write_amplification");
    }

    #[test]
    fn a_scenario_that_is_no_win_alone_takes_the_overall_win_with_it() {
        let mut two = experiment();
        two.scenarios.push(scenario("read"));
        two.metrics = vec![rule("write_amplification", Direction::Lower, Purpose::Objective)];
        let even = |s: &mut Summary| {
            halved("read", Some(95.0))(s);
            if s.trial.scenario == "read" {
                s.metrics.insert("write_amplification".to_owned(), 4.0 + f64::from(s.trial.block % 3) / 1e3);
            }
        };
        let report = judged(&two, even);
        assert_eq!(
            report.cells.iter().map(|cell| cell.ruling.verdict).collect::<Vec<_>>(),
            [Verdict::Win, Verdict::Neutral]
        );
        assert_eq!(verdict(&report), "Invalid Postponed in read");
    }

    #[test]
    fn an_overall_win_falls_with_one_of_its_scenarios() {
        let mut two = experiment();
        two.scenarios.push(scenario("read"));
        let in_one = |s: &mut Summary| {
            let db = if s.trial.scenario == "read" { 10.0 } else { 90.0 };
            faster(1.2, db)(s);
        };
        let report = judged(&two, in_one);
        assert_eq!(verdict(&report), "Invalid CausalPathExceeded in read");
        assert_eq!(report.cells[0].ruling.verdict, Verdict::Win);
        assert_eq!(report.cells[1].ruling.verdict, Verdict::Invalid);
    }
}
